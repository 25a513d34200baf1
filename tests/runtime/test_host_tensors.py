"""Tensors without a launch: the same views and verbs as in a kernel, on NumPy's memory, against NumPy."""

from __future__ import annotations

import subprocess
import sys
import threading
import traceback
from pathlib import Path

import numpy as np
import pytest

import moye as mo


def matrix() -> np.ndarray:
    return np.arange(48, dtype=np.float32).reshape(6, 8)


def test_a_tensor_has_the_layout_of_its_array() -> None:
    data = matrix()
    for array in (data, data.T, data[1:5:2, ::3], np.asfortranarray(data)):
        x = mo.tensor(array)
        assert x.layout == mo.Layout(array.shape, tuple(step // 4 for step in array.strides))
        assert np.array_equal(x.numpy(), array) and x.array is array


def test_views_are_of_the_array() -> None:
    data = matrix()
    x = mo.tensor(data)
    part = mo.tile(x, (3, 4), (1, None))                     # (3, 4, 2)
    assert np.array_equal(part.numpy(), np.stack([data[3:, :4], data[3:, 4:]], axis=2))
    part[1, 2, 1] = -5
    assert data[4, 6] == -5
    row = x[2, :]
    row[...] = 0
    assert not data[2].any() and data[3].all()
    x.fill(7)
    assert (data == 7).all()


@pytest.mark.parametrize("thread", [0, 1, 5])
def test_parallelize(thread: int) -> None:
    data = matrix()
    mine = mo.parallelize(mo.tensor(data), (3, 2), thread)
    assert np.array_equal(mine.numpy(), data[thread % 3::3, thread // 3::2])


def test_layout_functions_take_tensors() -> None:
    data = np.arange(36)
    x = mo.tensor(data, mo.make_layout((4, 9)))
    tiles = mo.zipped_divide(x, (2, 3))
    wanted = data.reshape(4, 9, order="F")
    assert np.array_equal(tiles[None, 3].numpy(), wanted[2:, 3:6].reshape(-1, order="F"))
    assert np.array_equal(mo.coalesce(x).numpy(), data)


def test_a_swizzled_layout_reads_where_it_writes() -> None:
    layout = mo.composition(mo.Swizzle(2, 0, 3), mo.make_layout((8, 8)))
    data = np.zeros(64, np.int32)
    x = mo.tensor(data, layout)
    for i in range(4):
        x[1, i] = i + 1
    assert [x[1, i] for i in range(4)] == [1, 2, 3, 4]
    assert [int(x.numpy()[1, i]) for i in range(4)] == [1, 2, 3, 4]
    assert [int(data[layout(1, i)]) for i in range(4)] == [1, 2, 3, 4]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.int8, np.uint8])
def test_arithmetic_gives_what_numpy_gives(dtype: type) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(1, 6, (4, 5)).astype(dtype) for _ in range(2))
    x, y = mo.tensor(a), mo.tensor(b)
    assert np.array_equal((x + y).numpy(), a + b) and (x + y).numpy().dtype == dtype
    assert np.array_equal((x * 3 - y).numpy(), a * dtype(3) - b) or dtype is np.uint8
    assert np.array_equal((x < y).numpy(), a < b)
    assert np.array_equal(mo.where(x < y, x, y).numpy(), np.minimum(a, b))
    assert x.reduce("add") == a.sum(dtype=np.int64) and x.reduce("max") == a.max()
    x += y
    assert x.array is a and np.array_equal(x.numpy(), a)
    assert np.array_equal(x.to(mo.float64).numpy(), a.astype(np.float64))


def test_reductions_by_mode() -> None:
    data = np.random.default_rng(0).permutation(48).astype(np.float32).reshape(6, 8)
    x = mo.tensor(data)
    np.testing.assert_array_equal(x.reduce("add", 1).numpy().reshape(-1), data.sum(1))
    np.testing.assert_array_equal(x.reduce("max", 0).numpy().reshape(-1), data.max(0))
    assert x.reduce("add", init=1.0) == data.sum() + 1
    value, index = x.argmax()
    assert value == data.max() and index == data.reshape(-1, order="F").argmax()
    values, indices = x.argmin(1)
    np.testing.assert_array_equal(values.numpy().reshape(-1), data.min(1))
    np.testing.assert_array_equal(indices.numpy().reshape(-1), data.argmin(1))


def test_arithmetic_leaves_its_operands_alone() -> None:
    data = matrix()
    before = data.copy()
    doubled = mo.tensor(data) * 2
    doubled[0, 0] = 99
    assert np.array_equal(data, before)


def test_the_same_function_in_a_kernel_and_without_one() -> None:
    @mo.jit
    def body(dst, src):
        part = mo.parallelize(mo.tile(src, (3, 4), (1, 0)), (3, 2), 4)
        mo.copyto(mo.parallelize(mo.tile(dst, (3, 4), (0, 1)), (3, 2), 4), part)

    @mo.kernel
    def launched(dst, src):
        body(dst, src)

    src, one, two = matrix(), np.zeros((6, 8), np.float32), np.zeros((6, 8), np.float32)
    launched[1, 1](one, src)
    body(mo.tensor(two), mo.tensor(src))
    assert one.any() and np.array_equal(one, two)


def test_copies_convert_and_take_predicates() -> None:
    data = matrix()
    whole, some = np.zeros((6, 8), np.int32), np.full((6, 8), -1, np.float32)
    mo.copyto(mo.tensor(whole), mo.tensor(data))
    assert np.array_equal(whole, data)
    x = mo.tensor(data)
    mo.copyto(mo.tensor(some), x, pred=x > 20)
    assert np.array_equal(some, np.where(data > 20, data, -1))


def test_two_tensors_of_one_array() -> None:
    data = np.arange(8, dtype=np.float32)
    x, y = mo.tensor(data, mo.make_layout(4)), mo.tensor(data[4:])
    mo.copyto(y, x)
    assert data.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]


def test_partitions_of_tiled_copies() -> None:
    data = matrix()[:4]
    tiled = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.uint64), mo.float32), mo.make_layout((2, 4)),
                               mo.make_layout((1, 2), (2, 1)))
    for thread in range(8):
        out = np.zeros((4, 8), np.float32)
        mine = tiled.get_slice(thread)
        source, target = mine.partition_S(mo.tensor(data)), mine.partition_D(mo.tensor(out))
        mo.copyto(tiled, target, source)
        row, column = thread % 2, thread // 2 * 2
        assert np.array_equal(out != 0, (data != 0) & np.isin(np.arange(4) % 2, row)[:, None]
                              & np.isin(np.arange(8) // 2 * 2, column)[None])
        assert np.array_equal(out[out != 0], data[out != 0])


def test_partitions_of_tiled_mmas() -> None:
    """Each element of C is one thread's, and a thread has the rows of A and B that its elements need."""
    tiled = mo.make_tiled_mma(mo.UniversalFMA(mo.float32), mo.make_layout((4, 2)))
    rng = np.random.default_rng(0)
    A, B, C = rng.random((8, 3), np.float32), rng.random((6, 3), np.float32), np.zeros((8, 6), np.float32)
    for thread in range(8):
        mine = tiled.get_slice(thread)
        tCgC = mine.partition_C(mo.tensor(C))                   # (1, 2, 3)
        assert not tCgC.numpy().any(), "no other thread has written here"
        mo.gemm(mine.partition_A(mo.tensor(A))[0, :, :], mine.partition_B(mo.tensor(B))[0, :, :], tCgC[0, :, :])
    np.testing.assert_allclose(C, A @ B.T, rtol=1e-5)


def test_torch_on_the_host() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    mo.tensor(x)[1, 1] = 9
    assert x[1, 1] == 9


@pytest.mark.parametrize(("wrong", "kind", "said"), [
    (lambda x: x[6, 0], mo.TensorError, "x: index 6 is outside mode 0 of extent 6"),
    (lambda x: x[-1, 0], mo.TensorError, "count from 0"),
    (lambda x: x[1, 2, 3], mo.TensorError, "a coordinate of 3 entries for a tensor of rank 2"),
    (lambda x: mo.tile(x, (4, 4), (0, 0)), mo.TensorError, "the tile (4, 4) does not divide x"),
    (lambda x: mo.parallelize(x, (3, 2), 6), mo.TensorError, "has 6 threads"),
    (lambda x: mo.zipped_divide(x, (4, 4)), mo.MoyeError, "no multiple of 4"),
    (lambda x: x[np.ones((6, 8), bool)], mo.TensorError, "a ndarray is no coordinate"),
    (lambda x: mo.tensor(np.zeros(0, np.float32)).reduce("max"), mo.TensorError, "there are no elements to fold"),
    (lambda x: x.reduce("add", init="a"), mo.DTypeError, "'a' is no number to fold with"),
    (lambda x: bool(x == x), mo.TensorError, "48 elements, and no one truth value"),
    (lambda x: list(x), mo.TensorError, "cannot be iterated over"),
    (lambda x: len(x), mo.TensorError, "use mo.size"),
    (lambda x: x.with_layout(mo.make_layout(49))[48], mo.SimulationError, "outside of x"),
    (lambda x: mo.copyto(x, mo.tile(x, (3, 4), (0, 0))), mo.TensorError, "has 48 elements"),
    (lambda x: mo.tensor(np.zeros(4), mo.make_layout(5)), mo.TensorError, "reaches 5 elements, and the array has 4"),
    (lambda x: mo.tensor(matrix()[:, ::2], mo.make_layout(4)), mo.TensorError, "an array with gaps"),
    (lambda x: mo.tensor(matrix()[::-1]), mo.ArgumentError, "negative strides"),
    (lambda x: mo.tensor([1, 2]), mo.ArgumentError, "not list"),
    (lambda x: mo.tensor(x), mo.ArgumentError, "takes an array, not a tensor"),
    (lambda x: mo.copyto(mo.CpAsync(mo.float32), x, x), mo.MoyeError, "copies from gmem to smem"),
    (lambda x: mo.shared_array(mo.float32, 4), mo.TraceError, "exists only inside a kernel"),
    (lambda x: mo.atomic_add(x, (0, 0), 1.0), mo.TraceError, "exists only inside a kernel"),
    (lambda x: mo.thread_idx(), mo.TraceError, "exists only inside a kernel"),
    (lambda x: mo.where(x > 3, x, "a"), mo.TensorError, "'a' is no tensor and no scalar"),
    (lambda x: x + "a", TypeError, "unsupported operand"),
    (lambda x: np.sum(x), mo.TensorError, "np.sum does not take x"),
    (lambda x: np.exp(x), TypeError, "HostTensor"),
])
def test_what_a_kernel_refuses_is_refused(wrong, kind: type, said: str) -> None:
    data = matrix()
    with pytest.raises(kind) as caught:
        wrong(mo.tensor(data))
    assert said in str(caught.value)
    assert np.array_equal(data, matrix()), "what is refused leaves the array as it was"


def test_a_read_only_array_is_read_only() -> None:
    data = matrix()
    data.flags.writeable = False
    x = mo.tensor(data)
    assert x[1, 1] == 9
    with pytest.raises(mo.ArgumentError, match="read-only"):
        x[1, 1] = 3
    with pytest.raises(mo.ArgumentError, match="read-only"):
        x += 1


def test_a_device_array_is_refused() -> None:
    class OnDevice:
        __cuda_array_interface__ = {"shape": (4,), "typestr": "<f4", "data": (256, False), "version": 3}  # noqa: RUF012

    try:
        mo.tensor(OnDevice())
    except mo.MoyeError as error:
        assert "device" in str(error).lower() or "driver" in str(error).lower()
    else:
        pytest.fail("an array of a device was taken")


def test_kernels_take_arrays_and_no_host_tensors() -> None:
    x = mo.tensor(matrix())

    @mo.kernel
    def named(out):
        out[0] = x[0, 0]

    @mo.kernel
    def tiled(out):
        mo.copyto(out, mo.tile(x, (1, 1), (0, 0)))

    @mo.kernel
    def given(out, source):
        out[0] = source[0, 0]

    out = np.zeros(1, np.float32)
    for launch in (lambda: named[1, 1](out), lambda: tiled[1, 1](out), lambda: given[1, 1](out, x)):
        with pytest.raises(mo.MoyeError, match=r"host|HostTensor"):
            launch()


def test_text() -> None:
    x = mo.tensor(np.arange(6, dtype=np.int32), mo.make_layout((2, 3)))
    assert repr(x) == "x: host int32 (2,3):(1,2)"
    assert str(x).splitlines()[1:] == ["  0  2  4", "  1  3  5"]
    cube = mo.tensor(np.arange(8, dtype=np.int32), mo.make_layout((2, 2, 2)))
    assert str(cube).splitlines()[1:] == ["[..., 0]", "  0  2", "  1  3", "[..., 1]", "  4  6", "  5  7"]
    assert "5000 elements" in str(mo.tensor(np.zeros(5000)))
    assert "<td>5</td>" in x._repr_html_() and "host int32" in x._repr_html_()
    beyond = mo.domain_offset((1, 1), x)
    assert "outside of x" in str(beyond) and "outside of x" in beyond._repr_html_()
    assert str(mo.tensor(np.array([1.5, 2], np.float32))).splitlines()[1:] == ["  1.5", "    2"]


def test_threads_share_a_tensor() -> None:
    x = mo.tensor(np.zeros(8, np.int32))

    def work(i: int) -> None:
        for _ in range(5):
            x[i] = x[i] + 1

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert x.array.tolist() == [5] * 8


def test_undefined_values_do_not_look_like_zeros() -> None:
    fragment = mo.make_fragment_like(mo.tensor(matrix()))
    assert mo.shape(fragment) == (6, 8) and np.isnan(fragment.numpy()).all()


def test_public_names_outlive_the_rooms_of_their_names() -> None:
    """Importing a module binds it to its name in the package, where ``mo.tensor`` and ``mo.depth`` are functions."""
    program = ("import importlib, pkgutil, moye\n"
               "for found in pkgutil.iter_modules(moye.__path__):\n"
               "    if found.name not in ('pytest_plugin', '__main__'):\n"
               "        importlib.import_module('moye.' + found.name)\n"
               "for name, (home, attribute) in moye._HOME.items():\n"
               "    assert getattr(moye, name) is getattr(importlib.import_module(home), attribute), name\n")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("fails", [
    lambda x: x[6, 0], lambda x: x.fill("a"), lambda x: x[-2:, :], lambda x: x.reduce("sum", 2),
    lambda x: mo.tile(x, (4, 4), (0, 0)),
    lambda x: mo.copyto(x, mo.tensor(np.zeros(3, np.float32))), lambda x: mo.tensor(x),
    lambda x: mo.make_tma_copy(mo.TmaLoad(), x.array, mo.make_layout((2, 4))), lambda x: mo.addresses([x]),
])
def test_tracebacks_show_the_users_frames(fails) -> None:
    with pytest.raises(mo.MoyeError) as caught:
        fails(mo.tensor(matrix()))
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    own = str(Path(mo.__file__).parent)
    assert files[1] == __file__ and sum(name.startswith(own) for name in files) <= 2, files
