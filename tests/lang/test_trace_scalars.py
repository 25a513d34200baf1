"""Scalars of kernels: promotion, floors, casts, bits, builtins; what is captured while tracing."""

from __future__ import annotations

import itertools
import math
import types

import numpy as np
import pytest

import moye as mo
from moye.errors import DTypeError, TraceError
from moye.ir import ops
from moye.runtime.arguments import classify
from plain_and_traced import agree, run, trace, traced

INTS = [(7, 2), (-7, 2), (7, -2), (-7, -2), (0, 3), (-1, 8), (6, 3), (-6, 4)]


def test_floor_division_and_modulo():
    agree(lambda a, b: (a // b, a % b, a // 4, a % 4, a // -3, a % -3, *divmod(a, b)), *INTS)


def test_integer_arithmetic_and_bits():
    agree(lambda a, b: (a + b * 3 - 1, -a, abs(a), ~a, a & b, a | b, a ^ b, (a << 3) + (a >> 1)), *INTS)

    def fn(a, b):
        return a**0, a**3, 2 * a**2, min(a, b, 3), max(a, b), +a, 5 - a, 5 // (a * a + 1)

    agree(fn, *INTS)


def test_comparisons():
    agree(lambda a, b: (a < b, a <= b, a > b, a >= b, a == b, a != b, a > 3, b == 3), *INTS)


def test_division_of_integers_is_float32():
    func, _ = trace(lambda a, b: a / b, 7, 2)
    div = next(op for op in func.body.walk() if isinstance(op, ops.Binary) and op.kind == "div")
    assert div.result.dtype is mo.float32
    found = traced(lambda a, b: (a / b, 1 / a, a / 4), 7, 2, dtype=np.float64)[:3]
    assert found == [3.5, float(np.float32(1 / 7)), 1.75]


def test_python_numbers_are_weak():
    @mo.kernel
    def kernel(h, f, d, i, u, out):
        values = [h[0] * 2, h[0] + 0.5, f[0] * 2, 0.1 + f[0], d[0] * 0.1, i[0] * 2, i[0] * 0.5, u[0] + 1, h[0] * f[0],
                  f[0] * d[0], i[0] + f[0], u[0] + i[0], (i[0] > 1) + 1, True & (i[0] > 0), -(i[0] > 0)]
        for k, v in enumerate(values):
            found.append(v.dtype.name)
            out[k] = v

    found: list[str] = []
    arrays = [np.array([3], t) for t in (np.float16, np.float32, np.float64, np.int32, np.uint8)]
    out = np.zeros(16)
    kernel_ = mo.kernel(kernel.function)
    with pytest.raises(TraceError, match="list that may change"):
        kernel_.trace(*arrays, out, block=1)
    assert found == ["float16", "float16", "float32", "float32", "float64", "int32", "float32", "uint8", "float32",
                     "float64", "float32", "int32", "int32", "bool", "int32"]


@pytest.mark.parametrize("a, b, expected", [
    ("int32", "int32", "int32"), ("int32", "int64", "int64"), ("uint32", "int32", "uint32"),
    ("uint8", "int32", "int32"), ("float16", "bfloat16", "float32"), ("int64", "float16", "float16"),
    ("bool", "int8", "int8"), ("uint64", "int32", "uint64"),
])
def test_promotion(a, b, expected):
    from moye.dtypes import from_name, promote
    assert promote(from_name(a), from_name(b)).name == promote(from_name(b), from_name(a)).name == expected


def test_unsigned_and_narrow_integers_wrap():
    @mo.kernel
    def kernel(u, b, out):
        out[0] = u[0] - 5
        out[1] = (u[0] - 5) // 2
        out[2] = u[0] * 2147483648 // 2
        out[3] = b[0] + 1
        out[4] = (b[0] * 4) // 4
        out[5] = mo.where(u[0] - 5 > u[0], 1, 0)
        out[6] = u[0] & -2

    u, b, out = np.array([3], np.uint32), np.array([127], np.int8), np.zeros(7, np.int64)
    run(kernel.trace(u, b, out, block=1), [u, b, out])
    assert list(out) == [2**32 - 2, 2**31 - 1, (3 << 31) % 2**32 // 2, -128, -1, 1, 2]


def test_literals_must_fit():
    with pytest.raises(DTypeError, match="4294967296 does not fit int32"):
        trace(lambda a: a + 2**32, 3)
    with pytest.raises(DTypeError, match=r"2\.5 does not fit"):
        trace(lambda a: mo.int32(2.5) + a, 3)
    assert traced(lambda a: a.to(mo.int64) + 2**32, 3)[0] == 3 + 2**32


def test_casts():
    @mo.kernel
    def kernel(x, out):
        for i in mo.static_range(4):
            v = x[i]
            out[i, 0] = int(v)
            out[i, 1] = round(v)
            out[i, 2] = mo.floor(v)
            out[i, 3] = mo.ceil(v)
            out[i, 4] = float(int(v)) / 2
            out[i, 5] = bool(v)
            out[i, 6] = mo.int8(v) * 2
            out[i, 7] = v.bitcast(mo.int32) & 0xFF
            out[i, 8] = mo.trunc(v)

    x = np.array([2.5, -2.5, 0.0, 99.75], np.float32)
    out = np.zeros((4, 9))
    run(kernel.trace(x, out, block=1), [x, out])
    for row, v in zip(out, x.tolist(), strict=True):
        assert list(row) == [int(v), round(v), math.floor(v), math.ceil(v), int(v) / 2, bool(v),
                             (int(v) * 2 + 128) % 256 - 128, int(np.float32(v).view(np.int32)) & 0xFF, math.trunc(v)]


def test_builtins_on_static_values_are_pythons():
    def fn(a):
        return min(3, 4), max([1, 2]), round(2.567, 1) * 10 + a, int("7"), abs(-3), bool(0), len([1, 2]), sum([a, 1])

    agree(fn, (2,))


def test_any_all_round_and_len_of_traced_values():
    def fn(a, b):
        return any([a > 3, b > 3]), all(x > 0 for x in (a, b)), any([False, a > 1]), all([])

    agree(fn, *itertools.product((0, 2, 5), (0, 2, 5)))

    def digits(x):
        return round(x, 1)

    with pytest.raises(TraceError, match="rounds to integers only"):
        traced(digits, 2.5)

    def length(x):
        return len(x)

    with pytest.raises(TraceError, match=r"mo\.size"):
        trace(length, np.zeros(3))


def test_float_floor_division():
    def fn(a, b):
        return a // b, a % b

    for a, b in ((7.5, 2.0), (-7.5, 2.0), (7.5, -2.0)):
        assert traced(fn, a, b, dtype=np.float64)[:2] == [a // b, a % b]


def test_powers():
    assert np.allclose(traced(lambda x: (x**2, x**0.5, 2**x, x**-1), 2.25, dtype=np.float64)[:4],
                       [2.25**2, 1.5, 2**2.25, 1 / 2.25])
    assert traced(lambda n: (n**9, n**12, (-n)**11), 3, dtype=np.int64)[:3] == [3**9, 3**12, -3**11]
    assert traced(lambda n: (2.0**n, n**-1), 4, dtype=np.float64)[:2] == [16, 0.25]
    assert traced(lambda n: (n**mo.int32(2), 2**mo.int32(5), mo.int32(3)**mo.int8(4)), 3)[:3] == [9, 32, 81]
    for fn in (lambda n: 2**n, lambda n: n**n):
        with pytest.raises(TraceError, match="how often an integer is multiplied"):
            trace(fn, 3)


def test_division_by_a_static_zero():
    for fn in (lambda a: a // 0, lambda a: a % 0):
        with pytest.raises(TraceError, match="division by zero"):
            trace(fn, 1)


def test_numpy_scalars_count_as_python_numbers():
    agree(lambda a: (a + np.int64(3), np.int32(4) * a, np.int32(4) < a), (5,))
    assert traced(lambda a: (a * np.float64(0.5), np.float32(2) + a), 5, dtype=np.float64)[:2] == [2.5, 7]


def test_select_and_where():
    agree(lambda a, b: (mo.where(a > b, a, b) if not mo.is_static(a) else max(a, b),), *INTS)
    agree(lambda a, b: (mo.where(a & 1, 10, 20) if not mo.is_static(a) else (10 if a & 1 else 20),), *INTS)


def test_truth_of_traced_values():
    for fn, text in ((lambda a: [1][a], "static integer"), (lambda a: 1 if a > 1 else 0, "mo.jit"),
                     (lambda a: math.sin(a), "Python float"), (lambda a: list(a), "iterated")):
        with pytest.raises(TraceError, match=text):
            trace(fn, 3)


def test_thread_and_block_indices():
    @mo.kernel
    def kernel(out):
        t, b, n, g = mo.thread_idx(), mo.block_idx(), mo.block_dim(), mo.grid_dim()
        i = t.x + n.x * (t.y + n.y * (b.x + g.x * b.y))
        out[i, 0] = mo.lane_idx()
        out[i, 1] = mo.warp_idx()
        out[i, 2] = t.z + b.z + n.z + g.z

    out = np.zeros((48 * 6, 3), np.int32)
    run(kernel.trace(out, block=(24, 2)), [out], grid=(3, 2, 1))
    threads = np.arange(48 * 6) % 48
    assert (out[:, 0] == threads % 32).all() and (out[:, 1] == threads // 32).all() and (out[:, 2] == 2).all()


def test_warp_and_block_functions():
    @mo.kernel
    def kernel(x, out):
        tid = mo.thread_idx().x
        v = x[tid]
        scratch = mo.shared_array(mo.int32, (2,))
        out[tid, 0] = mo.warp_reduce(v)
        out[tid, 1] = mo.block_reduce(v, scratch, "max")
        out[tid, 2] = mo.shuffle_up(v, 1)
        out[tid, 3] = mo.ballot(v > 5) & 0xFFFF
        out[tid, 4] = mo.vote_any(v > 90)
        out[tid, 5] = mo.shuffle_idx(v, 3, 8)
        out[tid, 6] = mo.block_reduce(v, scratch)

    rng = np.random.default_rng(0)
    x, out = rng.integers(0, 99, 64).astype(np.int32), np.zeros((64, 7), np.int32)
    run(kernel.trace(x, out, block=64), [x, out])
    warps = x.reshape(2, 32)
    assert (out[:, 0] == np.repeat(warps.sum(1), 32)).all() and (out[:, 1] == x.max()).all()
    assert (out[:, 2] == np.concatenate([warps[:, :1], warps[:, :-1]], 1).ravel()).all()
    assert (out[:, 3] == np.repeat([sum(1 << i for i in range(16) if w[i] > 5) for w in warps], 32)).all()
    assert (out[:, 4] == np.repeat((warps > 90).any(1), 32)).all()
    assert (out[:, 5] == np.repeat(x.reshape(8, 8)[:, 3], 8)).all() and (out[:, 6] == x.sum()).all()


def test_print_and_assert():
    def fn(a):
        print("a is", a, end="!")
        assert a > 1, "too small"
        return a

    func, out = trace(fn, 3)
    assert run(func, [out, 3]).printed == ["a is 3!"]
    with pytest.raises(Exception, match="too small"):
        run(func, [out, 0])

    def static(a):
        assert 1 > 2, f"never {1}"
        return a

    with pytest.raises(TraceError, match="never 1"):
        trace(static, 3)


# --- captures --------------------------------------------------------------------------------------------------------

SCALE = 2
TABLE = {"a": 1}
LEVELS = (1, 2)


class Config:
    def __init__(self) -> None:
        self.size = 3


CONFIG = Config()


@mo.jit
def scaled(x):
    return x * SCALE


@mo.kernel
def scale(x, out):
    out[0] = scaled(x[0]) + len(LEVELS)


def test_a_changed_global_traces_anew(monkeypatch):
    x, out = np.array([5], np.int32), np.zeros(1, np.int32)
    first = scale.trace(x, out, block=1)
    assert scale.trace(x, out, block=1) is first
    run(first, [x, out])
    assert out[0] == 12
    monkeypatch.setitem(globals(), "SCALE", 7)
    second = scale.trace(x, out, block=1)
    run(second, [x, out])
    assert second is not first and out[0] == 37


def test_a_changed_closure_traces_anew():
    factor = 3

    @mo.kernel
    def kernel(x, out):
        out[0] = x[0] * factor

    x, out = np.array([5], np.int32), np.zeros(1, np.int32)
    run(kernel.trace(x, out, block=1), [x, out])
    assert out[0] == 15
    factor = 4
    run(kernel.trace(x, out, block=1), [x, out])
    assert out[0] == 20


cfg = types.ModuleType("cfg")
cfg.tiles = types.ModuleType("cfg.tiles")
cfg.tiles.BM, cfg.FACTOR, cfg.TABLE = 128, 2, [1]


def plain_helper(x):
    return x + OFFSET + cfg.FACTOR


OFFSET = 1


@mo.kernel
def reads_a_module(x, out):
    out[0] = x[0] + cfg.tiles.BM


@mo.kernel
def calls_a_plain_helper(x, out):
    out[0] = plain_helper(x[0])


@mo.kernel
def calls_a_parameter(x, out, f):
    out[0] = f(x[0])


@pytest.mark.parametrize("change", ["module", "helper's global", "helper's module", "argument's global"])
def test_what_is_read_indirectly_traces_anew(change, monkeypatch):
    x, out = np.array([5], np.int32), np.zeros(1, np.int32)
    kernel = {"module": reads_a_module, "argument's global": calls_a_parameter}.get(change, calls_a_plain_helper)
    args = (x, out, plain_helper) if kernel is calls_a_parameter else (x, out)
    first = kernel.trace(*args, block=1)
    assert kernel.trace(*args, block=1) is first
    run(first, [x, out])
    before = int(out[0])
    if change == "module":
        monkeypatch.setattr(cfg.tiles, "BM", 138)
    elif change == "helper's module":
        monkeypatch.setattr(cfg, "FACTOR", 12)
    else:
        monkeypatch.setitem(globals(), "OFFSET", 11)
    run(kernel.trace(*args, block=1), [x, out])
    assert out[0] == before + 10


def test_attributes_of_installed_modules_are_not_recorded():
    @mo.kernel
    def kernel(x):
        x[0] = math.pi + np.pi + cfg.FACTOR

    captures = kernel.specialised(classify(kernel.signature, (np.zeros(1, np.float32),), {}), (1, 1, 1)).captures
    assert [c.name for c in captures if isinstance(c.value, (int, float))] == ["FACTOR"]


def test_a_mutable_attribute_is_an_error():
    @mo.kernel
    def kernel(x):
        x[0] = cfg.TABLE[0]

    with pytest.raises(TraceError, match=r"reads 'cfg.TABLE', a list that may change"):
        kernel.trace(np.zeros(1), block=1)


def test_mutable_globals_are_an_error():
    @mo.kernel
    def table(out):
        out[0] = TABLE["a"]

    @mo.kernel
    def instance(out):
        out[0] = CONFIG.size

    array = np.zeros(3)

    @mo.kernel
    def captured(out):
        out[0] = float(array[0])

    for kernel, text, hint in ((table, "'TABLE', a dict", "Constexpr"), (instance, "'CONFIG', a Config", "Constexpr"),
                               (captured, "'array', an array", "pass it as an argument")):
        with pytest.raises(TraceError, match=text + rf" that may change.*\n?(.*\n)*hint: .*{hint}"):
            kernel.trace(np.zeros(1), block=1)


def test_a_kernel_returns_nothing():
    @mo.kernel
    def kernel(x):
        return x[0]

    with pytest.raises(TraceError, match="returns nothing"):
        kernel.trace(np.zeros(1), block=1)


def test_outside_of_a_kernel():
    with pytest.raises(TraceError, match="only inside a kernel"):
        mo.thread_idx()
    assert scaled(4) == 4 * SCALE


@mo.kernel
def bounded(x, count: mo.Constexpr):
    mo.min_blocks(count)
    x[mo.thread_idx().x] = 1


def test_min_blocks_is_printed_in_the_launch_bounds():
    spec = mo.TensorLike(mo.float32, (64,))
    assert "__launch_bounds__(64, 8)" in bounded.compile(spec, 8, block=64, arch="sm_90a").source
    assert "__launch_bounds__(64)" in bounded.compile(spec, 1, block=64, arch="sm_90a").source
    assert "__launch_bounds__(832, 1)" in bounded.compile(spec, 1, block=832, arch="sm_90a").source
    with pytest.raises(mo.TraceError, match=r"min_blocks\(0\): a static count from 1 to 32"):
        bounded.trace(spec, 0, block=64)


def test_a_number_that_is_shifted_takes_the_dtype_of_a_wide_count():
    @mo.kernel
    def bit(out, u: mo.uint32, wide: mo.int64, narrow: mo.uint8):
        assert (1 << u).dtype == mo.uint32 and (1 << wide).dtype == mo.int64 and (1 << narrow).dtype == mo.int32
        assert (True << u).dtype == mo.uint32 and (-1 << u).dtype == mo.int32 and (u << wide).dtype == mo.uint32
        assert (2**40 >> u).dtype == mo.int64
        out[0], out[1] = 1 << u, 1 << wide

    out = np.zeros(2, np.int64)
    assert mo.check(bit)[1, 1](out, 31, 40, 3).ok and out.tolist() == [2**31, 2**40]


def test_extrema_of_what_is_read_once():
    def fn(a, b):
        return (max(q * 3 for q in (a, b)), min(iter([a, b, 2])), max({"x": a, "y": b}.values()),
                max((q for q in (1, 2)), default=5))
    agree(fn, *INTS)


def test_members_of_ranges():
    def fn(a, b):
        return (a in range(3, 9), a not in range(b), a in range(8, -8, -3), b in range(-7, a, 2), a in range(5, 5),
                4 in range(2, 9, 2))
    agree(fn, *INTS)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64])
def test_members_of_ranges_that_narrow_dtypes_do_not_hold(dtype):
    """Steps were counted from the start in the number's own dtype, where the difference wraps."""
    ranges = (range(-100, 120, 3), range(120, -128, -7), range(-1000, 1000, 3), range(-100, 100, 200),
              range(300, -300, -150), range(-2**31, 2**31 - 1, 5), range(0, 2**40, 2**33))

    @mo.kernel
    def finds(out, x, start: mo.int32):
        i = mo.thread_idx().x
        for j in mo.static_range(len(ranges)):
            out[i, j] = x[i] in ranges[j]
        out[i, len(ranges)] = x[i] in range(start, 110, 3)

    info = np.iinfo(dtype)
    x = np.unique(np.clip(np.arange(-128, 256), info.min, info.max)).astype(dtype)
    x[0], x[-1] = info.min, info.max
    out = np.zeros((x.size, len(ranges) + 1), np.bool_)
    finds[1, x.size](out, x, -100)
    for j, of in enumerate((*ranges, range(-100, 110, 3))):
        assert out[:, j].tolist() == [int(v) in of for v in x]


@pytest.mark.parametrize("ask", [lambda a: sorted([a, 3]), lambda a: (a, 1) < (2, 3), lambda a: [1, 2].index(a)])
def test_tests_of_python_itself_are_told_from_statements(ask):
    """No decorator helps where it is no statement of the user's that tests."""
    @mo.kernel
    def asks(out, x):
        out[0] = 1 if ask(x[0]) else 2

    with pytest.raises(TraceError, match="Python itself tests it here, as sorted"):
        asks[1, 1](np.zeros(1, np.int32), np.zeros(1, np.int32))


def test_a_key_of_the_kernel():
    @mo.kernel
    def looks_up(out, x):
        out[0] = {0: 5, 1: 6}[x[0]]

    with pytest.raises(TraceError, match="the key an int32 value is known only when the kernel runs"):
        looks_up[1, 1](np.zeros(1, np.int32), np.zeros(1, np.int32))


@mo.kernel
def as_python_int(out, i8, u8, u16, i64, h):
    out[0], out[1] = int(i8[0]) * int(i8[1]), int(u8[0]) - int(u8[1])
    out[2], out[3] = int(u16[0]) + int(u16[1]), int(mo.int8(100)) + int(mo.int8(100))
    out[4], out[5] = int(i64[0]) * 2, int(h[0]) * int(h[1])
    assert (int(i8[0]).dtype, int(u16[0]).dtype, int(i64[0]).dtype, int(h[0]).dtype) == (mo.int32, mo.int32, mo.int64,
                                                                                         mo.int32)


def test_int_widens_narrow_integers():
    out = np.zeros(6, np.int64)
    args = out, *(np.array(x, t) for x, t in (([-128, 127], np.int8), ([3, 5], np.uint8), ([65535, 65535], np.uint16),
                                              ([2**40], np.int64), ([-200.75, 300], np.float16)))
    assert mo.check(as_python_int)[1, 1](*args).ok
    assert out.tolist() == [-16256, -2, 131070, 200, 2**41, -60000]
    assert "(int)i8[0] * (int)i8[1]" in as_python_int.compile(*args, block=1, arch="sm_80").source


@mo.kernel
def of_two_numbers(h, i8):
    c = h[0] > 0
    halved, more, masked = h[0] * (0.5 if c else 2.0), i8[0] + (1 if c else 2), i8[0] + (0xFFFFFFFF if c else 0)
    assert (halved.dtype, more.dtype, masked.dtype) == (mo.float32, mo.int32, mo.int64)


def test_a_condition_of_two_python_numbers_is_of_the_kernel():
    of_two_numbers.trace(np.ones(1, np.float16), np.ones(1, np.int8), block=1)


@pytest.mark.parametrize("count", [lambda x: x.to(mo.float32), lambda x: 2.0, lambda x: x.to(mo.float16) / 2])
def test_counts_and_barriers_are_integers(count):
    for fn in (lambda x: x << count(x), lambda x: x >> count(x), lambda x: 1 << count(x)):
        with pytest.raises((DTypeError, TypeError), match=r"the count is no integer|unsupported operand"):
            trace(fn, 1)
    with pytest.raises(DTypeError, match=r"barrier_sync\(.*, 32\): the barrier is a float"):
        trace(lambda x: mo.barrier_sync(count(x), 32), 1)
