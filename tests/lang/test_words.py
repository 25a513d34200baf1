"""What a kernel is told of wrong calls, names and values: one sentence of moye's, never an exception from inside."""

from __future__ import annotations

import functools
import linecache
import os
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest

import moye as mo
from moye.errors import IRError, MissingError, MoyeError, TraceError

JUNK = """
mo.sync_warp(2**40) | the mask 0x10000000000 is no static number from 1 to 0xffffffff
mo.sync_warp(0) | the mask 0x0 is no static
mo.sync_warp("a") | the mask 'a' is no static
mo.sync_warp(x[0]) | is no static number
x[0] = mo.shuffle_xor(x[0], 1, 32, 2**35) | shuffle: the mask
x[0] = mo.shuffle_xor(x[0], 1, 0.5) | shuffle width 0.5 is no power of two
x[0] = mo.shuffle_up(x[0], -1) | shuffle_up: the distance -1 is not from 0 to 31 (shfl.sync, PTX ISA)
x[0] = mo.shuffle_down(x[0], mo.int32(32)) | shuffle_down: the distance 32 is not from 0 to 31
x[0] = mo.shuffle_xor(x[0], 32) | shuffle_xor: the distance 32 is not
x[0] = mo.shuffle_xor(x[0], 2**32 + 1) | shuffle_xor: the distance 4294967297 is not
x[0] = mo.shuffle_idx(x[0], mo.int64(2**32)) | shuffle_idx: the lane 4294967296 is not from 0 to 31
x[0] = mo.shuffle_idx(x[0], -1, 8) | shuffle_idx: the lane -1 is not from 0 to 31
x[0] = mo.shuffle_idx(x[0], 1.0) | shuffle_idx: the lane or distance 1.0 is a float32, and no integer
x[0] = mo.vote_any(x[0], -1) | vote_any: the mask -0x1
mo.shared_array(mo.float32, 0) | has no elements
mo.shared_array(mo.float32, (4, 0)) | has no elements
mo.shared_array(int, 8) | is no dtype of moye
mo.fragment(4, "float33") | is no dtype of moye
x[0] = x[0].to(3) | 3 is no dtype of moye
x[0] = x[0].to(None) | is no dtype of moye
x[0] = x[0].bitcast("what") | is no dtype of moye
x[0] = mo.warp_reduce(x[0], "plus") | 'plus' is none of add, mul, min
x[0] = mo.warp_reduce(x[0], 3) | 3 is none of add
x[0] = mo.warp_reduce(x[0], "add", 5) | width 5 is no power of two
x[0] = mo.block_reduce(x[0], mo.shared_array(mo.float32, 1), "mean") | 'mean' is none of
x[0] = mo.atomic_add(x, "a", 1) | in ()
x["a"] = 1 | 'a' is no coordinate
x[1.5] = 1 | 1.5 is no coordinate
x[0] = mo.min() | min takes at least one value
x[0] = np.where(x[0] > 1, 1.0, 2.0) | NumPy, in np.where, does not take
x[0] = np.exp(x[0]) | NumPy's functions do not take
x[0] = np.asarray(x[0]) | does not take scalars and tensors
x[0] = np.sum(x) | does not take scalars and tensors
x[0] = np.concatenate([x, x]) | NumPy, in np.concatenate, does not take
x[0] = x.T | x is a tensor of the kernel, which has no attribute 'T'
x[0] = x.sum() | x is a tensor of the kernel, which has no attribute 'sum'
x[0] = x.astype(np.float32) | has no attribute 'astype'
x[0] = x.shpae | has no attribute 'shpae'
x[0] = x[0].foo | scalar of the kernel, which has no attribute 'foo'
x[0] = sync_threads() | name 'sync_threads' is not defined
x[0] = undefined_name | name 'undefined_name' is not defined
mo.copyto(x, x, foo=1) | unexpected keyword argument 'foo'
mo.sync_threads(1) | takes 0 positional arguments but 1 was given
x[0] = mo.exp() | missing 1 required positional argument
x[0] = mo.exp("a") | 'a' of type str is no scalar
x[0] = mo.where(x[0] > 1, "a", 2) | where takes scalars of the kernel and numbers, not 'a' of type str
x[0] = mo.thread_idx().w | no attribute 'w'
x[0] = mo.thread_index() | has no attribute 'thread_index'
x[0] = x[0]() | a scalar of the kernel is not callable
x[0] = x[n][0] | a scalar of the kernel has no elements
x[n][0] = 1 | a scalar of the kernel
x[0] = mo.thread_idx.x | mo.thread_idx is a function, which has no attribute 'x'
mo.sync_threads | mo.sync_threads is a function, and a statement that only names it does nothing
x[0] = n.astype(3) | n is a scalar of the kernel, which has no attribute 'astype'
if n > 1: mo.tile(x, (8,), (0,)) | it is not known whether x_0 is a multiple of 8, and under a traced condition
x[0] = len(x[0]) | has no len
x[0] = "a" + x[0] | a scalar of the kernel
for i in mo.static_range(10**6): x[i] = 1 | 1000000 turns are more than the 16384
for i in mo.static_range(0, 5, 0): x[i] = 1 | a step that is not 0
for i in x[0]: pass | cannot iterate over
mo.cp_async_wait(1.5) | a static integer
mo.min_blocks(1.5) | a static count
x[0] = pow(n, 2, 5) | pow(n, 2, 5): a kernel has no powers with a modulus
x[0] = pow(2, n, mod=5) | a kernel has no powers with a modulus
x[0] = mo.size(None) | None has no shape: a layout, a tensor
x[0] = mo.rank("ab") | 'ab' has no shape
x[0] = mo.size((None, 2)) | a shape has the leaf None
"""
CASES = [tuple(line.split(" | ")) for line in JUNK.strip().splitlines()]


def kernel_of(body, *, name="k"):
    """A kernel with these lines, whose source exists."""
    text = f"def {name}(x, n):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    file = f"<words {hash(text)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    space = {"mo": mo, "np": np, "__name__": __name__}
    exec(compile(text, file, "exec"), space)
    return mo.kernel(space[name])


def refused(body):
    with pytest.raises(Exception) as caught:
        kernel_of(body)[1, 32](np.zeros(32, np.float32), 3)
    error = caught.value
    assert isinstance(error, MoyeError) and not isinstance(error, IRError), f"{type(error)}: {error}"
    return error


@pytest.mark.parametrize(("body", "said"), CASES, ids=[body for body, _ in CASES])
def test_one_sentence(body, said):
    error = refused(body)
    if said != "in ()":
        assert said in error.message, error.message
    assert error.locs and body in str(error)
    assert "Expr" not in error.message and "numpy." not in error.message


RIGHT = ["x[0] = mo.thread_idx().x.to(np.float32)", "x[0] = (n + 1).to('float32')", "x[0] = n.to(np.dtype('int64'))",
         "s = mo.shared_array(np.float32, np.int64(8))", "r = mo.fragment(np.int64(4), 'float32'); r.fill(0)",
         "x[0] = x[0].bitcast(np.int32).bitcast('float32')", "x[0] = mo.shuffle_xor(x[0], 1, np.int64(32))",
         "mo.barrier_sync(np.int64(1), np.int32(32))", "mo.cp_async_wait(np.int64(0))", "mo.min_blocks(np.int64(2))",
         "for i in mo.static_range(np.int64(3)): x[i] = i", "for i in range(np.int64(3)): x[i] = i",
         "x[0] = mo.vote_any(x[0])", "x[0] = mo.ballot(1.5)", "x[0] = mo.vote_all(n)",
         "mo.sync_warp(np.uint32(2**32 - 1))",
         "x[np.int64(1)] = np.float32(1)"]


@pytest.mark.slow
@pytest.mark.parametrize("body", RIGHT)
def test_numpy_dtypes_and_integers_are_taken(body):
    kernel = kernel_of(body)
    kernel.compile(np.zeros(32, np.float32), 3, block=32, arch="sm_90a")


@pytest.mark.parametrize(("body", "hint"), [
    ("x[0] = sync_threads()", "did you mean mo.sync_threads?"), ("total = 1.0\nx[0] = totl", "did you mean total?"),
    ("x[0] = x.shpae", "did you mean .shape?"), ("x[0] = x.astype(3)", "x.to(mo.float32)"),
    ("x[0] = x[0].bit_count()", "mo.popcount(x)"), ("x[0] = x[0].is_integer()", "mo.floor(x) == x"),
    ("x[0] = x.size", "mo.size(x)"), ("mo.sync_thread()", "did you mean mo.sync_threads?"),
    ("x[0] = np.where(x[0] > 1, 1, 2)", "use mo.where(cond, a, b)"),
    ("x[0] = mo.warp_reduce(x[0], '+')", 'a sum is kind "add"'),
    ("x[mo.program_id(0)] = 1", "mo.block_idx().x"), ("x[mo.arange(0, 32)] = 1", "mo.thread_idx().x"),
    ("mo.syncthreads()", "mo.sync_threads"), ("__syncthreads()", "mo.sync_threads()"),
    ("threadIdx.x", "mo.thread_idx().x"),
    ("mo.atomicAdd(x, 0, 1)", "did you mean mo.atomic_add?"), ("mo.atomic_sub(x, 0, 1)", "mo.atomic_add(t, i, -x)"),
    ("mo.atomic_inc(x, 0, 1)", "it does not wrap"), ("__shfl_down_sync(1, x[0], 1)", "mo.shuffle_down(x, n)"),
    ("r = mo.max(x)", 'x.reduce("max") of registers'), ("x[0] = mo.min(x)", 'x.reduce("min") of registers'),
    ("r = mo.make_fragment_like(mo.tile(x, (4,), (0,)))\nr -= mo.min(r)", 'x.reduce("min") of registers'),
    ("for i in mo.range(n, step=2): x[i] = 1", "mo.range("),
    ("if bool(x): x[0] = 1", "& and | combine elements"),
    ("x[0] = x.max()", 'x.reduce("max") of registers'), ("x[0] = mo.argmax(x)", "x.argmax() of registers"),
    ("mo.elect_one_sync()", "mo.elect()"), ("mo.grid_barrier()", "mo.grid_sync()"),
    ("x[0] = mo.__byte_perm(1, 2, 3)", "mo.prmt(a, b, selector)"),
    ("x[0] = mo.expf(x[0])", "did you mean mo.exp?"), ("x[0] = mo.__ldg(x)", "x[i]"),
    ("mo.alloc_shared((4,), 1)", "mo.shared_array"),
    ("mo.local_tile(x, 1, 2)", "mo.tile(x, tiler, coordinate)"), ("x[0] = mo.flip(x)", "mo.shuffle_idx"),
    ("s = mo.shared_array(mo.float32, n)", "an argument is static as n: mo.Constexpr"),
    ("s = mo.shared_array((4, 8), mo.float32)", "mo.shared_array(mo.float32, (4, 8))"),
    ("x[0] = mo.shuffle_xor(x, 1)[0]", "copy it to mo.make_fragment_like(x) first"),
    ("acc = [x[0], x[1]]\nfor i in range(2): acc[i] += 1", "loop with mo.static_range"),
    ("b = [mo.shared_array(mo.float32, 4), x]\nfor i in range(2): b[i][0] = 1", "keep one tensor with a mode for b"),
    ("if n > 0:\n    m = x[0]\nelse:\n    m = n\nx[0] = m", "convert one of the two, with mo.float32("),
    ("row = x[1]\nx[0] = row[0]", "x[i, :] is a row"),
    ("y = mo.shared_array(mo.float32, 4)\na, b = y, mo.shared_array(mo.float32, 8)\nfor _ in range(n): a, b = b, a",
     "keep one buffer with a stage mode"),
    ("x[0] = mo.zeros((4,), 'float32')[0]", "mo.fragment"), ("x[0] = -mo.inf", 'float("inf")'),
    ("x[0] = mo.pi", "math.pi"),
    ("x[0] = x.view(mo.int32)[0]", "mo.recast(x, mo.int32)"), ("x[0] = x.ravel()[1]", "column-major"),
    ("x[0] = x.shape[0, 1]", "x.shape[i][k]"),
    ("mo.atomic_add(x[0], 1)", "mo.atomic_add(tensor, "), ("x[mo.thread_idx()] = 1", "mo.thread_idx().x"),
    ("x[mo.block_idx() * 4 + mo.thread_idx()] = 1", "mo.thread_idx().x"),
    ("if mo.thread_idx() < n: x[0] = 1", "mo.thread_idx().x"),
    ("x[0] = (x + 1)[0]", "t[i] is one element"),
    ("x[0] = mo.where(mo.identity_tensor(mo.shape(x)) < n, 1, 0)", "mo.elem_less("),
    ("if mo.elem_less(mo.identity_tensor(mo.shape(x))[0], 3): x[0] = 1", "mo.shape(x) has an entry")])
def test_hints(body, hint):
    assert hint in refused(body).hint


@pytest.mark.parametrize(("method", "hint"), [
    ("partition_fragment_C", "thr_mma.make_fragment_C(thr_mma.partition_C(t))"),
    ("partition_shape_C", "tiled_mma.partition_fragment_C(shape)"),
    ("make_fragment", "thr_mma.make_fragment_A(t)"), ("partition_a", "did you mean .partition_A?")])
def test_hints_for_methods_of_cute(method, hint):
    mma = mo.make_tiled_mma(mo.mma.SM80_16x8x16_F32F16F16F32_TN, mo.make_layout((1, 1)))

    @mo.kernel
    def wrong(mma, method: mo.Constexpr):
        getattr(mma.get_slice(mo.thread_idx().x), method)(mma)

    with pytest.raises(MissingError) as caught:
        wrong.trace(mma, method, block=32)
    assert hint in caught.value.hint


def test_the_hint_for_a_transposed_tensor_is_right():
    assert refused("x[0] = x.T").hint == "x.with_layout(mo.select(x.layout, 1, 0)) is x transposed"

    @mo.kernel
    def transposed(x):
        y = x.with_layout(mo.select(x.layout, 1, 0))
        y[1, 0] = 7

    x = np.zeros((2, 3), np.float32)
    transposed[1, 1](x)
    assert x[0, 1] == 7


def test_missing_attributes_are_attribute_errors_too():
    assert isinstance(refused("x[0] = x.T"), MissingError) and issubclass(MissingError, AttributeError)


def test_a_match_statement():
    body = "match {}:\n    case 32: x[0] = 2\n    case (1, v): x[0] = v\n    case _: x[0] = 3"
    assert "a match statement cannot look at" in refused(body.format("x[0]")).message
    for subject, value in (("32", 2), ("(1, n)", 7), ("'a'", 3)):
        x = np.zeros(32, np.float32)
        kernel_of(body.format(subject))[1, 1](x, 7)
        assert x[0] == value


def test_a_check_without_a_launch_configuration():
    kernel = kernel_of("x[0] = n")
    with pytest.raises(mo.LaunchError, match="needs a launch configuration") as caught:
        mo.check(kernel)(np.zeros(3, np.float32), 1)
    assert caught.value.hint == "mo.check(k)[grid, block](...)"


@pytest.mark.slow
def test_operations_are_bounded():
    body = "for i in mo.static_range(16000):\n    for j in mo.static_range(16000):\n        mo.sync_threads()"
    assert "has more than 100000 operations" in refused(body).message


def test_a_while_that_tracing_does_not_end():
    assert "not done after 16384 turns" in refused("i = 0\nwhile i >= 0:\n    i += 1").message


# --- tracebacks ------------------------------------------------------------------------------------------------------

FAILS = """
import numpy as np, moye as mo
@mo.jit
def element(x, i):
    return x[i, 3]
@mo.kernel
def k(x, n):
    for i in range(n):
        x[0] = element(x, i)
def main():
    WHAT
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("call", ["k[1, 1](np.zeros(3, np.float32), 3)",
                                  "mo.check(k)[1, 1](np.zeros(3, np.float32), 3)",
                                  "k.launch(np.zeros(3, np.float32), 3, grid=1, block=1)",
                                  "k.compile(np.zeros(3, np.float32), 3, block=1)",
                                  "k.trace(np.zeros(3, np.float32), 3, block=1)"])
@pytest.mark.parametrize("whole", ["0", "1"])
def test_tracebacks_are_the_users(call, whole, tmp_path):
    (tmp_path / "fails.py").write_text(FAILS.replace("WHAT", call))
    src = str(Path(mo.__file__).parents[1])
    done = subprocess.run([sys.executable, "fails.py"], cwd=tmp_path, capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": src, "MOYE_TRACEBACK": whole})
    frames = [line for line in done.stderr.splitlines() if line.startswith("  File ")]
    own = [line for line in frames if src in line]
    assert len(own) <= 1 if whole == "0" else len(own) > 5, done.stderr
    assert [line.partition(", in ")[2] for line in frames if src not in line] == ["<module>", "main", "k", "element"]
    assert "a coordinate of 2 entries for a tensor of rank 1" in done.stderr
    assert whole == "1" or len(done.stderr.splitlines()) <= 24


def test_exceptions_of_the_users_own_code_keep_their_frames():
    def plain():
        raise ZeroDivisionError("mine")

    @mo.kernel
    def k(x):
        plain()
    with pytest.raises(ZeroDivisionError) as caught:
        k[1, 1](np.zeros(3, np.float32))
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-2:] == ["k", "plain"] and len(names) <= 5


def test_a_recursion_without_end_is_not_hidden():
    def plain(i):
        return plain(i + 1)

    @mo.kernel
    def k(x):
        plain(0)
    with pytest.raises(RecursionError):
        k[1, 1](np.zeros(3, np.float32))


# --- nesting ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("make", [
    lambda n: "x[0] = " + "+".join(["n"] * n), lambda n: "mo.assume(" + "+".join(["n"] * n) + " > 0)\nx[0] = 1",
    lambda n: "a = n\n" + "a = a + n\n" * n + "mo.assume(a > 0)\nx[0] = a",
    lambda n: "a = n\n" + "a = a * 3\n" * n + "x[a - a] = 1",
    lambda n: "x[0] = " + " if n > 1 else ".join(["n"] * (n // 8)),
    lambda n: "x[0] = n if " + " and ".join(["n > 0"] * (n // 8)) + " else 0"],
    ids=["sum", "assumed", "assumed_statements", "index", "conditionals", "ands"])
@pytest.mark.parametrize("n", [40, 300, 2000])
def test_long_code_runs_or_is_one_sentence(make, n):
    kernel = kernel_of(make(n))
    try:
        kernel[1, 1](x := np.zeros(32, np.float32), 1)
        kernel.compile(x, 1, block=1, arch="sm_90a")
    except MoyeError as error:
        assert n > 300 and "nests" in error.message, error.message


# --- what others hang on syntax trees --------------------------------------------------------------------------------


def test_attributes_of_shared_nodes_are_not_followed():
    import ast

    node = ast.parse("x", mode="eval").body
    store = ast.parse("x = 1").body[0].targets[0]
    node.ctx.parent, store.ctx.parent = node, store
    try:
        kernel_of("y = x[0]\nif n > 2:\n    y = y + 1\nx[0] = y")[1, 1](x := np.zeros(3, np.float32), 3)
        assert x[0] == 1
    finally:
        del node.ctx.parent, store.ctx.parent


def test_a_kernel_under_functools_wraps():
    def announced(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)
        return wrapper

    @mo.kernel
    @announced
    def inner(x, n):
        x[0] = n + 1
    inner[1, 1](x := np.zeros(1, np.float32), 2)
    assert x[0] == 3

    @mo.kernel
    @announced
    def decides(x, n):
        if n > 1:
            x[0] = 1
    with pytest.raises(TraceError, match="cannot become a Python bool") as caught:
        decides[1, 1](x, 2)
    assert "@mo.jit" in caught.value.hint


def test_a_loop_that_never_runs():
    @mo.kernel
    def k(x, count: mo.Constexpr):
        total = 0.0
        for i in range(count):
            total += x[i + 30]
        for i in range(5, count, 1):
            total += x[i - 100]
        x[0] = total
    for count, total in ((0, 0), (-1, 0), (2, 2)):
        x = np.ones(32, np.float32)
        k[1, 1](x, count)
        assert x[0] == total


def test_names_that_an_elif_leaves_dead():
    @mo.kernel
    def k(x, n):
        v = n
        for i in range(n):
            if x[i] > 0.5:
                pass
            elif n < 96:
                v = v + 1
            elif n < 200:  # noqa: SIM102 (an if inside of an elif)
                if x[i] < 0:
                    v = v * 2
            v = i
        x[0] = v
    x = np.ones(32, np.float32)
    k[1, 1](x, 3)
    assert x[0] == 2


@pytest.mark.parametrize("flag", ["True", "n > 0", "'go'"])
def test_a_flag_that_becomes_traced(flag):
    body = f"flag, steps = {flag}, 0\nwhile flag:\n    steps += 1\n    x[1] = steps\n    flag = steps < n\nx[0] = steps"
    if flag == "'go'":
        assert refused(body)
        return
    kernel_of(body)[1, 1](x := np.zeros(32, np.float32), 5)
    assert x[0] == x[1] == 5


def test_a_recursive_device_function_inside_of_a_kernel():
    @mo.kernel
    def k(x, n):
        sizes = [1, 2]

        @mo.jit
        def fac(i):
            return 1 if i <= 1 else i * fac(i - sizes[0])
        x[0] = fac(5) + n
    k[1, 1](x := np.zeros(3, np.float32), 1)
    assert x[0] == 121


def test_snapshots_are_bounded(monkeypatch):
    from moye.sim.machine import launch

    monkeypatch.setattr(launch, "MOST_INSPECTED", 1 << 12)
    with pytest.raises(MoyeError, match="snapshots of this launch take more than"):
        kernel_of("r = mo.fragment(64, mo.float32)\nr.fill(0)\nfor i in range(n):\n    mo.inspect('x', r=r)")[1, 32](
            np.zeros(3, np.float32), 100)
