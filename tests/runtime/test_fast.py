"""The short way to launch: what it passes to the driver, and each guard that must send a call the long way.

A stub stands for the driver, and NumPy arrays dressed as torch's CUDA tensors for tensors.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
import sys
import threading
import types

import numpy as np
import pytest

import moye as mo
import tools
from moye.cuda.device import driver, events
from moye.errors import ArgumentError, PreconditionError
from moye.runtime import arrays, autograd, fast_launch
from moye.runtime.kernel import Compiled
from moye.runtime.prepare import compile_only

TILE = 64


class Tensor:
    """As much of a CUDA tensor as a launch reads."""

    def __init__(self, *shape, dtype=np.float32, array=None, device=0):
        self.array = np.zeros(shape, dtype) if array is None else array
        self.device_index, self.negated = device, False
        self.is_cuda, self.requires_grad, self.is_leaf = True, False, True
        self._version = 0

    dtype = property(lambda self: self.array.dtype)
    shape = property(lambda self: self.array.shape)

    def data_ptr(self):
        return self.array.ctypes.data

    def stride(self):
        return tuple(s // self.array.itemsize for s in self.array.strides)

    def get_device(self):
        return self.device_index

    def is_neg(self):
        return self.negated


Tensor.__module__ = "torch"


class Stub:
    """The driver: every launch's parameters, and which way it came."""

    def __init__(self):
        self.short, self.long, self.fail, self.configs = [], [], [], []
        signature = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
        self.function = signature(self.launched)
        self.formats = None

    def launched(self, config, function, params, extra):
        if self.fail:
            return self.fail.pop()
        pointers = ctypes.cast(params, ctypes.POINTER(ctypes.c_void_p))
        self.short.append(tuple(struct.unpack(form, ctypes.string_at(pointers[i], struct.calcsize(form)))[0]
                                for i, form in enumerate(self.formats)))
        return 0

    def load(self, cubin, name, ordinal, formats, cooperative=False):
        stub = self
        self.formats = formats

        class Loaded:
            _function = 0x1234

            def _configure(self, *config):
                stub.configs.append(config)
                return types.SimpleNamespace(getPtr=lambda: ctypes.addressof(stub.function))

            def launch(self, grid, block, cluster, smem, stream, params, dependent):
                stub.configs.append((grid, block, cluster, smem, stream, dependent))
                stub.long.append(tuple(params))

        loaded = Loaded()
        loaded.name, loaded.ordinal = name, ordinal
        return loaded


@pytest.fixture
def stub(monkeypatch):
    made = Stub()
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(_C=types.SimpleNamespace()))
    monkeypatch.setattr(events, "launch_function", lambda: made.function)
    monkeypatch.setattr(driver, "load", made.load)
    monkeypatch.setattr(driver, "device_arch", lambda ordinal: "sm_90a")
    monkeypatch.setattr(driver, "current_stream", lambda ordinal, kind="": 7)
    monkeypatch.setattr(driver, "_primary_context", lambda ordinal: 1)
    monkeypatch.setattr(driver, "_driver", lambda: types.SimpleNamespace(cuCtxGetCurrent=lambda: (0, 1)))
    monkeypatch.delitem(arrays._READERS, Tensor, raising=False)
    for cached in (fast_launch._tensor_guards, autograd._bumper):
        cached.cache_clear()
    yield made
    for cached in (fast_launch._tensor_guards, autograd._bumper):
        cached.cache_clear()


class Grad:
    """As much of torch's autograd as a launch needs."""

    def __init__(self, monkeypatch):
        self.enabled, self.fails = True, False
        torch = types.SimpleNamespace(_C=types.SimpleNamespace(_increment_version=self.bump), Tensor=Tensor,
                                      empty=self.empty, is_grad_enabled=lambda: self.enabled)
        monkeypatch.setitem(sys.modules, "torch", torch)

    @staticmethod
    def empty(size):
        made = Tensor(size)
        Tensor.__getitem__ = lambda self, index: Tensor(size)
        return made

    @staticmethod
    def bump(tensors):
        for tensor in tensors:
            tensor._version += 1


@pytest.fixture
def grad(stub, monkeypatch):
    yield Grad(monkeypatch)
    if hasattr(Tensor, "__getitem__"):
        del Tensor.__getitem__


def make_kernel():
    @mo.kernel
    def scale(x, y, layout, a):
        i = mo.block_idx().x * TILE + mo.thread_idx().x
        y[i] = x[i] * a
    return scale


def make_copy():
    @mo.kernel
    def copy(x, y):
        i = mo.block_idx().x * TILE + mo.thread_idx().x
        y[i] = x[i]
    return copy


LAYOUT = mo.make_layout((4, 8))


def ways(stub):
    return len(stub.long), len(stub.short)


def test_the_second_launch_takes_the_short_way_with_the_same_parameters(stub):
    kernel, x, y = make_kernel(), Tensor(256), Tensor(256)
    kernel[4, TILE](x, y, LAYOUT, 2.0)
    kernel[4, TILE](x, y, LAYOUT, 2.0)
    assert ways(stub) == (1, 1)
    assert stub.short == stub.long
    kernel[4, TILE](x, y, LAYOUT, 3.5)
    other = Tensor(256)
    kernel[4, TILE](x, other, LAYOUT, 3.5)
    assert ways(stub) == (1, 3)
    assert other.data_ptr() in stub.short[-1] and 3.5 in stub.short[-1]


def test_kernels_without_numbers_keep_their_recent_parameters(stub):
    kernel = make_copy()
    tensors = [Tensor(256) for _ in range(40)]
    kernel[4, TILE](tensors[0], tensors[1])
    for _ in range(2):
        for x, y in itertools.pairwise(tensors):
            kernel[4, TILE](x, y)
            assert stub.short[-1][:1] == (x.data_ptr(),) and y.data_ptr() in stub.short[-1]
    assert ways(stub) == (1, 78)


def test_equal_static_arguments_and_other_shapes(stub):
    kernel, x, y = make_kernel(), Tensor(256), Tensor(256)
    for _ in range(3):
        kernel[4, TILE](x, y, mo.make_layout((4, 8)), 2.0)          # a fresh object each time
    assert ways(stub) == (1, 2)
    small = Tensor(128), Tensor(128)
    kernel[4, TILE](*small, LAYOUT, 2.0)
    kernel[4, TILE](x, y, LAYOUT, 2.0)
    kernel[4, TILE](*small, LAYOUT, 2.0)
    assert ways(stub) == (2, 4)
    assert small[0].data_ptr() in stub.short[-1] and x.data_ptr() in stub.short[-2]


@pytest.mark.parametrize("change", [
    lambda x, y: (Tensor(256, dtype=np.float64), Tensor(256, dtype=np.float64), LAYOUT, 2.0),
    lambda x, y: (Tensor(array=np.zeros(512, np.float32)[::2]), y, LAYOUT, 2.0),
    lambda x, y: (Tensor(array=np.zeros(260, np.float32)[1:257]), y, LAYOUT, 2.0),
    lambda x, y: (x, y, mo.make_layout((8, 4)), 2.0),
    lambda x, y: (x, y, LAYOUT, 2),
    lambda x, y: (x, y, LAYOUT, True),
], ids=["dtype", "stride", "alignment", "static", "int", "bool"])
def test_each_part_of_the_key_goes_the_long_way(stub, change):
    kernel, x, y = make_kernel(), Tensor(256), Tensor(256)
    for _ in range(2):
        kernel[4, TILE](x, y, LAYOUT, 2.0)
    kernel[4, TILE](*change(x, y))
    assert ways(stub) == (2, 1)


def test_other_grids_blocks_and_keywords(stub):
    kernel, x, y = make_kernel(), Tensor(256), Tensor(256)
    kernel[4, TILE](x, y, LAYOUT, 2.0)
    kernel[3, TILE](x, y, LAYOUT, 2.0)                  # only the grid differs
    kernel[4, 32](x, y, LAYOUT, 2.0)
    kernel[4, TILE](x, y, LAYOUT, a=2.0)
    kernel[4, TILE](a=2.0, y=y, layout=LAYOUT, x=x)
    kernel[(4,), [TILE]](x, y, LAYOUT, 2.0)
    assert ways(stub) == (2, 4)
    assert stub.short == [stub.long[0]] * 4 and [config[0][0] for config in stub.configs] == [4, 3, 4, 4]
    with pytest.raises(ArgumentError, match="has no parameter 'b'"):
        kernel[4, TILE](x, y, LAYOUT, b=2.0)
    with pytest.raises(ArgumentError, match="multiple values"):
        kernel[4, TILE](x, y, LAYOUT, 2.0, a=2.0)
    with pytest.raises(ArgumentError, match="missing a required argument"):
        kernel[4, TILE](x, y, LAYOUT)
    with pytest.raises(ArgumentError, match="too many"):
        kernel[4, TILE](x, y, LAYOUT, 2.0, 1)


@pytest.mark.parametrize(("options", "expected"), [
    ({}, (None, 0, False)), ({"dependent": True}, (None, 0, True)), ({"smem": 64}, (None, 64, False)),
    ({"cluster": 2, "dependent": True}, ((2, 1, 1), 0, True))], ids=str)
def test_every_option_takes_the_short_way(stub, options, expected):
    kernel, x, y = make_kernel(), Tensor(256), Tensor(256)
    for factor in (2.0, 3.0, 4.0):
        kernel.launch(x, y, LAYOUT, factor, grid=4, block=[TILE], **options)
    kernel.launch(x, y, LAYOUT, 4.0, grid=(4, 1), block=TILE, **options)
    assert ways(stub) == (1, 3)
    cluster, smem, dependent = expected
    assert stub.configs == [((4, 1, 1), (TILE, 1, 1), cluster, smem, 7, dependent)] * 2
    kernel.launch(x, y, LAYOUT, 2.0, grid=4, block=TILE, stream=9, **options)
    assert ways(stub) == (1, 4)
    assert stub.configs[2:] == [((4, 1, 1), (TILE, 1, 1), cluster, smem, 9, dependent)]


def test_launches_with_other_options_are_told_apart(stub):
    kernel, x, y = make_kernel(), Tensor(256), Tensor(256)
    for _ in range(3):
        for options in ({}, {"dependent": True}, {"smem": 16}, {"smem": 16, "dependent": True}):
            kernel.launch(x, y, LAYOUT, 2.0, grid=4, block=TILE, **options)
        kernel[4, TILE](x, y, LAYOUT, 2.0)
    assert ways(stub) == (4, 11)                        # without options both spellings have one plan
    assert {config[3:] for config in stub.configs} == {(0, 7, False), (0, 7, True), (16, 7, False), (16, 7, True)}


def test_a_prepared_launch_is_dependent_if_asked(stub):
    kernel, x, y = make_kernel(), Tensor(256), Tensor(256)
    kernel.prepare(x, y, LAYOUT, 2.0, grid=4, block=TILE, dependent=True)()
    kernel.compile(x, y, LAYOUT, 2.0, block=TILE).prepare(x, y, LAYOUT, 2.0, grid=4, dependent=True)()
    assert [config[-1] for config in stub.configs] == [True, True]


def test_arrays_that_overlap_a_written_one(stub):
    kernel, memory = make_copy(), np.zeros(1024, np.float32)
    views = [Tensor(array=memory[start:start + 256]) for start in (0, 256, 128, 512)]
    kernel[4, TILE](views[0], views[1])
    kernel[4, TILE](views[0], views[2])
    kernel[4, TILE](views[2], views[0])
    assert ways(stub) == (3, 0)
    kernel[4, TILE](views[0], views[3])
    assert ways(stub) == (3, 1)


def test_a_negated_or_moved_tensor(stub):
    kernel, x, y = make_copy(), Tensor(256), Tensor(256)
    for _ in range(2):
        kernel[4, TILE](x, y)
    x.negated = True
    with pytest.raises(ArgumentError, match="negation pending"):
        kernel[4, TILE](x, y)
    x.negated, x.device_index = False, 1
    with pytest.raises(ArgumentError, match="cuda:1"):
        kernel[4, TILE](x, y)


def test_changed_names_are_noticed_and_named(stub, monkeypatch):
    kernel, x, y = make_copy(), Tensor(256), Tensor(256)
    for _ in range(2):
        kernel[4, TILE](x, y)
    monkeypatch.setitem(globals(), "TILE", 32)
    kernel[4, 64](x, y)
    kernel[4, 64](x, y)
    assert ways(stub) == (2, 2)
    assert kernel.why_recompiled() == ["global TILE changed from 64 to 32"]


class Scale:
    by = 2.0


def scaled(v, by=1.0):
    return v * by


@pytest.mark.parametrize(("owner", "name", "value", "told"), [
    (Scale, "by", 3.0, "Scale's attribute by changed from 2.0 to 3.0"),
    (scaled, "__defaults__", (3.0,), "the function scaled has another defaults"),
    (scaled, "__code__", (lambda v, by: v + by).__code__, "the function scaled has another code")])
def test_attributes_of_classes_and_parts_of_functions_are_names_too(stub, monkeypatch, owner, name, value, told):
    @mo.kernel
    def copy(x, y):
        y[mo.thread_idx().x] = scaled(x[mo.thread_idx().x]) * Scale.by

    x, y = Tensor(64), Tensor(64)
    for _ in range(3):
        copy[1, 64](x, y)
    monkeypatch.setattr(owner, name, value)
    for _ in range(3):
        copy[1, 64](x, y)
    assert ways(stub) == (2, 4)
    assert copy.why_recompiled() == [told]


def test_functions_count_by_what_they_hold(stub):
    factor = 2.0

    @mo.kernel
    def apply(x, y, f):
        y[mo.thread_idx().x] = f(x[mo.thread_idx().x])

    def times(v):
        return v * factor

    x, y = Tensor(64), Tensor(64)
    for _ in range(2):
        apply[1, 64](x, y, times)
        apply[1, 64](x, y, lambda v: v + 1.0)
    assert ways(stub) == (2, 2)
    factor = 3.0
    apply[1, 64](x, y, times)
    assert ways(stub) == (3, 2)


def test_integers_outside_32_bits(stub):
    kernel, x, y = make_kernel(), Tensor(256, dtype=np.int32), Tensor(256, dtype=np.int32)
    kernel[4, TILE](x, y, LAYOUT, 5)
    kernel[4, TILE](x, y, LAYOUT, -(1 << 31))
    assert ways(stub) == (1, 1)
    kernel[4, TILE](x, y, LAYOUT, 1 << 31)
    assert ways(stub) == (2, 1)
    with pytest.raises(ArgumentError, match="does not fit 64 bits"):
        kernel[4, TILE](x, y, LAYOUT, 1 << 64)


def test_guards_on_scalars_hold_at_every_launch(stub):
    @mo.kernel
    def head(x, n):
        mo.assume(n % 4 == 0)
        x[mo.thread_idx().x] = n

    x = Tensor(64, dtype=np.int32)
    for n in (4, 8):
        head[1, 64](x, n)
    assert ways(stub) == (1, 1)
    with pytest.raises(PreconditionError):
        head[1, 64](x, 6)


def test_a_failed_launch_is_repeated_in_the_kernels_context_then_the_long_way(stub):
    kernel, x, y = make_copy(), Tensor(256), Tensor(256)
    for _ in range(2):
        kernel[4, TILE](x, y)
    stub.fail = [201]
    kernel[4, TILE](x, y)
    assert ways(stub) == (1, 2)
    stub.fail = [700] * 4
    kernel[4, TILE](x, y)
    assert ways(stub) == (2, 2)


def test_threads(stub):
    kernel = make_kernel()
    tensors = [(Tensor(256), Tensor(256), LAYOUT, float(i)) for i in range(8)]
    kernel[4, TILE](*tensors[0])
    expected = {(x.data_ptr(), y.data_ptr(), a) for x, y, _, a in tensors}

    def work(args):
        for _ in range(200):
            kernel[4, TILE](*args)

    threads = [threading.Thread(target=work, args=(args,)) for args in tensors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ways(stub) == (1, 1600)
    seen = {(*sorted(p for p in params if isinstance(p, int) and p > 1 << 20),
             *(p for p in params if isinstance(p, float))) for params in stub.short}
    assert seen == {(*sorted((x, y)), a) for x, y, a in expected}


def test_compile_only_launches_nothing(stub):
    kernel, x, y = make_copy(), Tensor(256), Tensor(256)
    prepared = kernel.prepare(x, y, grid=4, block=TILE)
    for _ in range(2):
        kernel[4, TILE](x, y)
    before = ways(stub)
    with compile_only("sm_80") as gathered:
        kernel[4, TILE](x, y)
        prepared()
    assert ways(stub) == before
    assert [program.arch for program in gathered.programs] == ["sm_80", "sm_80"]
    with compile_only("sm_80") as gathered:
        like = mo.TensorLike(mo.float16, (256,))
        kernel[4, TILE](like, like)
    assert "half" in gathered.programs[0].source or "f16" in gathered.programs[0].source
    with pytest.raises(ArgumentError, match="no memory to run on"):
        kernel[4, TILE](like, like)
    kernel[4, TILE](x, y)
    assert ways(stub) == (before[0], before[1] + 1)


# --- prepared launches -----------------------------------------------------------------------------------------------


def test_prepared(stub):
    kernel, x, y, z = make_kernel(), Tensor(256), Tensor(256), Tensor(256)
    prepared = kernel.prepare(x, y, LAYOUT, 2.0, grid=4, block=TILE)
    assert stub.short == []
    prepared()
    kernel[4, TILE](x, y, LAYOUT, 2.0)
    assert stub.short == stub.long
    prepared.update(y=z, a=4)
    prepared()
    assert z.data_ptr() in stub.short[-1] and 4.0 in stub.short[-1]
    prepared.update({0: z, "y": x})
    prepared()
    assert (z.data_ptr() in stub.short[-1]) and (y.data_ptr() not in stub.short[-1])


@pytest.mark.parametrize(("change", "words"), [
    (lambda x: {"y": x}, "overlaps another"),
    (lambda x: {"y": Tensor(128)}, r"has shape \(128,\), and the launch was prepared with \(256,\)"),
    (lambda x: {"y": Tensor(256, dtype=np.float64)}, "has dtype float64"),
    (lambda x: {"y": Tensor(array=np.zeros(512, np.float32)[::2])}, r"has strides \(2,\)"),
    (lambda x: {"y": Tensor(256, device=1)}, "has device 1"),
    (lambda x: {"y": Tensor(array=np.zeros(260, np.float32)[1:257])}, "aligned to 4 bytes"),
    (lambda x: {"z": x}, "no runtime argument 'z': it has x, y, a"),
    (lambda x: {"layout": LAYOUT}, "no runtime argument 'layout'"),
    (lambda x: {"a": True}, "prepared with a float32"),
    (lambda x: {"x": 1.0}, "prepared with an array"),
])
def test_prepared_refuses_what_does_not_fit(stub, change, words):
    kernel, x, y = make_kernel(), Tensor(256), Tensor(256)
    prepared = kernel.prepare(x, y, LAYOUT, 2.0, grid=4, block=TILE)
    with pytest.raises(ArgumentError, match=words):
        prepared.update(change(x))
    prepared()
    assert y.data_ptr() in stub.short[-1]


def test_a_compiled_kernel_prepares_its_own_specialisation_only(stub):
    kernel, x, y = make_copy(), Tensor(256), Tensor(256)
    compiled = kernel.compile(x, y, block=TILE, arch="sm_90a")
    assert isinstance(compiled, Compiled)
    compiled.prepare(x, y, grid=4)()
    assert ways(stub) == (0, 1)
    with pytest.raises(ArgumentError, match="compiled for other arguments: argument 'x': dtype float32 -> float64"):
        compiled.prepare(Tensor(256, dtype=np.float64), y, grid=4)


def test_prepared_on_the_host_simulates():
    kernel = make_copy()
    x, y, z = np.arange(256, dtype=np.float32), np.zeros(256, np.float32), np.zeros(256, np.float32)
    prepared = kernel.prepare(x, y, grid=4, block=TILE)
    prepared()
    assert np.array_equal(x, y)
    prepared.update(y=z)
    prepared()
    assert np.array_equal(x, z)
    kernel.prepare(x, y, grid=0, block=TILE)()


# --- why it was specialised again ------------------------------------------------------------------------------------


def test_why_recompiled():
    kernel = make_kernel()

    def trace(x, y, layout=LAYOUT, a=1.0, block=64):
        kernel.trace(x, y, layout, a, block=block)
        return kernel.why_recompiled()

    x = mo.TensorLike(mo.float32, (256,))
    assert trace(x, x) == []
    assert trace(x, x, block=128)[-1] == "block (64, 1, 1) -> (128, 1, 1)"
    strided = mo.TensorLike(mo.float32, (256,), (6,))
    assert trace(strided, x)[-1] == "argument 'x': stride 1 of mode 0 became dynamic"
    assert trace(mo.TensorLike(mo.float32, (256,), (8,)), x)[-1] == \
        "argument 'x': the stride of mode 0 was a multiple of 2 elements and now of 4"
    assert trace(x, x, a=1)[-1] == "argument 'a': dtype float32 -> int32"
    assert trace(x, mo.TensorLike(mo.float32, (256,), align=4))[-1] == "argument 'y': alignment 16 -> 4 bytes"
    assert "argument 'layout' changed from (4, 8):(1, 4) to (8, 4)" in \
        trace(x, x, mo.make_layout((8, 4)))[-1].replace("(4,8):(1,4)", "(4, 8):(1, 4)").replace("(8,4)", "(8, 4)")
    count = len(kernel.why_recompiled())
    trace(x, x)
    assert len(kernel.why_recompiled()) == count


# --- torch's own guards ----------------------------------------------------------------------------------------------


def test_torchs_guards_tell_apart_what_they_must():
    torch = tools.library("torch")
    fast_launch._tensor_guards.cache_clear()
    assert fast_launch._tensor_guards() is not None
    a, b = torch.zeros(8, 6), torch.zeros(8, 6).T
    check = fast_launch.tensor_check([a, b])
    assert check(torch.ones(8, 6), torch.ones(8, 6).T)
    for other in (a[:7], a.T, a.double(), torch._neg_view(a), torch.zeros(6, 8).T, a.to("meta"), 1):
        assert not check(other, b)


def test_a_key_that_an_array_does_not_have_goes_the_long_way():
    """A TMA copy holds an array of any library, and looks like every other TMA copy."""
    plans = fast_launch.Plans()
    plans._keys[int,], plans._trees[int,] = lambda args: args[0].stride(), ()
    assert plans.find((3,)) == ((), (3,))


# --- autograd --------------------------------------------------------------------------------------------------------


def test_both_ways_mark_what_they_write(stub, grad):
    kernel, x, y, other = make_copy(), Tensor(256), Tensor(256), Tensor(512)
    for launch in range(1, 5):
        kernel[4, TILE](x, y)
        assert (x._version, y._version) == (0, launch)
    kernel[4, TILE](other, other)                       # overlapping: the long way
    kernel[4, TILE](x, y)                               # found again among the plans
    assert (x._version, y._version, other._version) == (0, 5, 1)
    prepared = kernel.prepare(x, y, grid=4, block=TILE)
    prepared()
    prepared.update(y=(third := Tensor(256)))
    prepared()
    assert (x._version, y._version, third._version) == (0, 6, 1)


def test_a_launch_that_failed_and_one_that_is_only_compiled_mark_nothing(stub, grad):
    kernel, x, y = make_copy(), Tensor(256), Tensor(256)
    kernel[4, TILE](x, y)
    prepared = kernel.prepare(x, y, grid=4, block=TILE)
    with compile_only("sm_90a", trace_only=True):
        kernel[4, TILE](x, y)
        prepared()
    assert y._version == 1


@pytest.mark.parametrize("first_tracked", [False, True])
def test_no_way_writes_what_autograd_records(stub, grad, first_tracked):
    kernel, x = make_copy(), Tensor(256)
    free, tracked = Tensor(256), Tensor(256)
    tracked.requires_grad = True
    prepared = kernel.prepare(x, free, grid=4, block=TILE)
    order = [tracked, free] if first_tracked else [free, tracked]
    grad.enabled = False
    for y in (*order, *order):                          # plans of both kinds
        kernel[4, TILE](x, y)
    grad.enabled = True
    before = ways(stub)
    for _ in range(2):
        with pytest.raises(ArgumentError, match="writes argument 'y', a leaf that requires grad"):
            kernel[4, TILE](x, tracked)
        kernel[4, TILE](tracked, free)                  # reading is fine
        kernel[4, TILE](x, free)
    free.requires_grad = True
    with pytest.raises(ArgumentError, match="requires grad"):
        prepared()
    with pytest.raises(ArgumentError, match="requires grad"):
        kernel[4, TILE](x, free)
    assert sum(ways(stub)) == sum(before) + 4
