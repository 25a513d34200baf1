"""Each scalar operation against NumPy, as array and as uniform scalar."""

import math

import numpy as np
import pytest

from moye import dtypes as dt
from moye.dtypes import DType
from moye.ir import ops
from moye.sim.values import scalars
from moye.sim.values.memory import numpy_dtype
from sim_kernels import K, codes, lit

T = 64
INTS = (dt.int8, dt.uint8, dt.int32, dt.uint32, dt.int64, dt.uint64)
FLOATS = (dt.float16, dt.float32, dt.float64, dt.bfloat16)


def values(dtype: DType, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.is_float:
        return (rng.standard_normal(T) * 4).astype(numpy_dtype(dtype))
    low, high = scalars.limits(dtype)
    return rng.integers(low, high, T, dtype=np.dtype(dtype.numpy), endpoint=True)


def binary(kind, a, b, dtype, out):
    """The operation on arrays, and on element 3 of each as a scalar for all lanes."""
    k = K(T)
    A, B, C, U = (k.tensor(n, dtype=d) for n, d in (("A", dtype), ("B", dtype), ("C", out), ("U", out)))
    count = kind in ("shl", "shr")
    x, y = k.load(A, k.tid), k.load(B, k.tid)
    y = k.cast(y, dt.int32) if count and dtype != dt.int32 else y
    k.store(C, k.tid, k.binary(kind, x, y))
    x, y = k.load(A, 3), k.load(B, 3)
    y = k.cast(y, dt.int32) if count and dtype != dt.int32 else y
    k.store(U, k.tid, k.binary(kind, x, y))
    c, u = (np.zeros(T, numpy_dtype(out)) for _ in range(2))
    outcome = k.run(a, b, c, u, check=False)
    assert not outcome.findings
    return c, u


def reference(kind, a, b, dtype):
    """Exact results by Python integers."""
    low, _ = scalars.limits(dtype)
    results = []
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        if kind in ("floordiv", "mod"):
            r = 0 if y == 0 else x // y if kind == "floordiv" else x % y
        elif kind == "shl":
            r = x << y if 0 <= y < dtype.bits else 0
        elif kind == "shr":
            r = x >> y
        else:
            r = {"add": x + y, "sub": x - y, "mul": x * y, "min": min(x, y), "max": max(x, y), "and": x & y,
                 "or": x | y, "xor": x ^ y}[kind]
        results.append(scalars.wrap(r, dtype.bits, low < 0))
    return np.array(results, np.dtype(dtype.numpy))


@pytest.mark.parametrize("dtype", INTS, ids=str)
@pytest.mark.parametrize("kind", ["add", "sub", "mul", "floordiv", "mod", "min", "max", "and", "or", "xor", "shl",
                                  "shr"])
def test_integer_arithmetic(kind, dtype):
    a, b = values(dtype, 1), values(dtype, 2)
    if kind in ("shl", "shr"):
        b = (np.abs(b.astype(np.int64)) % dtype.bits).astype(b.dtype)
    if kind in ("floordiv", "mod"):
        b[b == 0] = 1
        a[a == scalars.limits(dtype)[0]] += dtype.is_signed  # min // -1 overflows
    c, u = binary(kind, a, b, dtype, dtype)
    expected = reference(kind, a, b, dtype)
    np.testing.assert_array_equal(c, expected)
    assert (u == expected[3]).all()


@pytest.mark.parametrize("kind", ["lt", "le", "gt", "ge", "eq", "ne"])
@pytest.mark.parametrize("dtype", [dt.int32, dt.uint64, dt.float32], ids=str)
def test_comparisons(kind, dtype):
    a, b = values(dtype, 1), values(dtype, 2)
    b[::3] = a[::3]
    c, u = binary(kind, a, b, dtype, dt.bool_)
    expected = scalars.BINARY[kind](a, b)
    np.testing.assert_array_equal(c, expected)
    assert (u == expected[3]).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("kind", ["add", "sub", "mul", "div", "min", "max", "floordiv", "mod", "pow"])
def test_float_arithmetic(kind, dtype):
    a, b = values(dtype, 1), values(dtype, 2)
    if kind == "pow":
        a = np.abs(a)
    c, u = binary(kind, a, b, dtype, dtype)
    with np.errstate(all="ignore"):
        expected = scalars.FLOAT_BINARY[kind](a, b)
    np.testing.assert_array_equal(c.astype(np.float64), expected.astype(np.float64))
    assert u.dtype == c.dtype and (u == expected[3]).all()


def test_min_and_max_prefer_numbers_to_nan():
    a, b = np.full(T, np.nan, np.float32), np.arange(T, dtype=np.float32)
    for kind in ("min", "max"):
        np.testing.assert_array_equal(binary(kind, a, b, dt.float32, dt.float32)[0], b)


@pytest.mark.parametrize("dtype", FLOATS)
def test_of_two_zeros_the_negative_one_is_less(dtype):
    """PTX orders them; NumPy gives either, by lane of the processor's vectors."""
    first, second = np.repeat([0.0, -0.0], T // 2).astype(numpy_dtype(dtype)), np.tile([0.0, -0.0], T // 2)
    for kind, negative in (("min", np.signbit(first) | np.signbit(second)),
                           ("max", np.signbit(first) & np.signbit(second))):
        c, u = binary(kind, first, second.astype(first.dtype), dtype, dtype)
        assert (np.signbit(c) == negative).all() and (np.signbit(u) == negative[3]).all()
        assert np.signbit(np.float64(scalars.reduction(kind, dtype)(first, first[::-1])[0])) == (kind == "min")


@pytest.mark.parametrize("kind", ["land", "lor", "and", "or", "xor"])
def test_logic(kind):
    a, b = np.arange(T) % 2 == 0, np.arange(T) % 3 == 0
    c, u = binary(kind, a, b, dt.bool_, dt.bool_)
    expected = scalars.BINARY[kind](a, b)
    np.testing.assert_array_equal(c, expected)
    assert (u == expected[3]).all()


EXPECTED = {
    "exp": math.exp, "exp2": lambda x: 2.0**x, "log": math.log, "log2": math.log2, "log10": math.log10,
    "sqrt": math.sqrt, "rsqrt": lambda x: 1 / math.sqrt(x), "rcp": lambda x: 1 / x,
    "sin": math.sin, "cos": math.cos, "tan": math.tan,
    "tanh": math.tanh, "erf": math.erf, "floor": math.floor, "ceil": math.ceil, "round": round, "trunc": math.trunc,
    "abs": abs, "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
}


def unary(kind, a, dtype, out):
    k = K(T)
    A, C, U = k.tensor("A", dtype=dtype), k.tensor("C", dtype=out), k.tensor("U", dtype=out)
    k.store(C, k.tid, k.unary(kind, k.load(A, k.tid), out))
    k.store(U, k.tid, k.unary(kind, k.load(A, 3), out))
    c, u = (np.zeros(T, numpy_dtype(out)) for _ in range(2))
    k.run(a, c, u)
    return c, u


POSITIVE = ("log", "log2", "log10", "sqrt", "rsqrt", "rcp")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ops.MATH)
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64], ids=str)
def test_math(kind, dtype):
    """Of both signs where the function has them, and of ties."""
    a = values(dtype, 5)
    a[::4] = np.arange(-8, 8) / 2
    if kind in POSITIVE:
        a = np.abs(a) + numpy_dtype(dtype).type(0.1)
    c, u = unary(kind, a, dtype, dtype)
    expected = np.array([EXPECTED[kind](x) for x in a.tolist()])
    np.testing.assert_allclose(c, expected, rtol=2e-6 if dtype is dt.float32 else 1e-13)
    assert u[0] == u[5] and abs(u[0] - c[3]) <= 1e-6 * abs(c[3])


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_bit_counts_and_signs(dtype):
    a = values(dtype, 3)
    a[:3] = 0, np.array(-1, np.int64).astype(a.dtype), 1
    unsigned = a.view(f"u{a.dtype.itemsize}").tolist()
    expected = {"popcount": [x.bit_count() for x in unsigned], "clz": [dtype.bits - x.bit_length() for x in unsigned],
                "invert": ~a, "neg": -a, "abs": np.abs(a)}
    for kind, wanted in expected.items():
        c, u = unary(kind, a, dtype, dt.int32 if kind in ("popcount", "clz") else dtype)
        np.testing.assert_array_equal(c, wanted)
        assert (u == wanted[3]).all()


def test_not_a_number():
    f = np.array([np.nan, np.inf, -np.inf, 1.0] * (T // 4), np.float32)
    np.testing.assert_array_equal(unary("isnan", f, dt.float32, dt.bool_)[0], np.isnan(f))
    c, u = unary("isinf", f, dt.float32, dt.bool_)
    np.testing.assert_array_equal(c, np.isinf(f))
    assert not u.any()


def test_every_kind_has_a_meaning():
    assert set(ops.BINARY) <= set(scalars.BINARY)
    assert set(ops.UNARY) <= set(scalars.UNARY)
    for kind in ("add", "mul", "min", "max", "and", "or", "xor"):
        scalars.reduction(kind, dt.int32)


def cast(a, source, target, bits=False):
    k = K(T)
    A, C, U = k.tensor("A", dtype=source), k.tensor("C", dtype=target), k.tensor("U", dtype=target)
    k.store(C, k.tid, k.cast(k.load(A, k.tid), target, bits))
    k.store(U, k.tid, k.cast(k.load(A, 3), target, bits))
    c, u = (np.zeros(T, numpy_dtype(target)) for _ in range(2))
    k.run(a, c, u)
    assert (u == c[3]).all()
    return c


@pytest.mark.parametrize("target", INTS, ids=str)
def test_float_to_integer_truncates_and_saturates(target):
    a = np.array([0.0, -1.5, 2.7, 1.5, 1e30, -1e30, 255.9, -128.9] * 8, np.float64)
    low, high = scalars.limits(target)
    expected = [min(max(int(x), low), high) for x in a.tolist()]
    assert cast(a, dt.float64, target).tolist() == expected


@pytest.mark.parametrize("pair", [(dt.int32, dt.int64), (dt.int64, dt.int32), (dt.int32, dt.uint8),
                                  (dt.uint32, dt.int32), (dt.float32, dt.float64), (dt.float32, dt.float16),
                                  (dt.float32, dt.bfloat16), (dt.bfloat16, dt.float32), (dt.int32, dt.float32),
                                  (dt.float32, dt.float8_e4m3fn), (dt.float32, dt.bool_), (dt.bool_, dt.int32)],
                         ids=str)
def test_casts(pair):
    source, target = pair
    a = np.arange(T) % 2 == 0 if source is dt.bool_ else values(source, 7)
    expected = a != 0 if target is dt.bool_ else a.astype(numpy_dtype(target))
    np.testing.assert_array_equal(cast(a, source, target).astype(np.float64), expected.astype(np.float64))


def test_tf32_rounds_to_ten_bits():
    c = cast(values(dt.float32, 8), dt.float32, dt.tfloat32)
    assert not (c.view(np.uint32) & 0x1FFF).any()
    np.testing.assert_allclose(c, values(dt.float32, 8), rtol=2**-11)


def test_bitcast():
    a = values(dt.float32, 9)
    np.testing.assert_array_equal(cast(a, dt.float32, dt.int32, bits=True), a.view(np.int32))


def test_select():
    k = K(T)
    C, n = k.tensor("C", dtype=dt.int32), k.scalar("n")
    k.store(C, k.tid, k.select(k.lt(k.tid, 10), 7, k.select(k.gt(n, 3), k.tid, -1)))
    c = np.zeros(T, np.int32)
    k.run(c, 4)
    assert c.tolist() == [7] * 10 + list(range(10, T))
    k.run(c, 3)
    assert c.tolist() == [7] * 10 + [-1] * (T - 10)


def test_specials():
    k = K(block_dim=(4, 3, 2))
    C = k.tensor("C", dtype=dt.int32)
    names = ("thread_x", "thread_y", "thread_z", "block_x", "block_y", "block_z", "grid_x", "grid_y", "grid_z")
    x, y, z, bx, by, bz, gx, gy, gz = (k.special(name) for name in names)
    thread = k.add(x, k.mul(k.add(y, k.mul(z, 3)), 4))
    block = k.add(bx, k.mul(k.add(by, k.mul(bz, gy)), gx))
    k.store(C, k.add(thread, k.mul(block, 24)), k.add(k.add(k.mul(z, 1000), k.mul(bz, 100)), k.add(k.mul(gz, 10), y)))
    c = np.zeros(24 * 30, np.int32)
    for blocks in (30, 7):
        k.run(c, grid=(2, 3, 5), blocks=blocks)
        i = np.arange(720)
        expected = 1000 * (i % 24 // 12) + 100 * (i // 24 // 6) + 50 + i % 12 // 4
        np.testing.assert_array_equal(c, expected)


def test_clocks_go_forward():
    k = K(T)
    C = k.tensor("C", dtype=dt.int32)
    first = k.emit(ops.Special(result=k.cast(0, dt.int32), kind="clock"))
    second = k.emit(ops.Special(result=k.cast(0, dt.int32), kind="globaltimer"))
    k.store(C, k.tid, k.sub(second, first))
    c = np.zeros(T, np.int32)
    k.run(c)
    assert (c > 0).all()


def test_int32_overflow_is_a_finding_and_wraps():
    k = K(T)
    C, n = k.tensor("C", dtype=dt.int32), k.scalar("n")
    product = k.mul(k.add(k.tid, n), n)
    k.store(C, k.tid, product)
    c = np.zeros(T, np.int32)
    outcome = k.run(c, 46340)
    assert codes(outcome) == ["A11"]
    assert outcome.findings[0].threads == (2,) and outcome.findings[0].lines == (str(product.op.loc.innermost),)
    np.testing.assert_array_equal(c, ((np.arange(T) + 46340) * 46340).astype(np.int32))
    assert not k.run(c, 1000).findings


def test_uniform_overflow_and_facts():
    k = K(T)
    C, n = k.tensor("C", dtype=dt.int32), k.scalar("n")
    k.store(C, k.tid, k.mul(n, n))
    k.store(C, k.tid, k.mul(k.add(n, 0, lower=0, upper=10), 5, lower=0, upper=50))
    c = np.zeros(T, np.int32)
    assert codes(k.run(c, 1 << 20)) == ["A11"]
    assert not k.run(c, 10).findings


INT32_MIN = -(1 << 31)


def two_ways(kind, x, y=None):
    """The findings and results of a kind on int32, on arrays (one lane has ``x``) and on uniform scalars."""
    found = []
    for uniform in (False, True):
        k = K(T)
        C, n, m = k.tensor("C", dtype=dt.int32), k.scalar("n"), k.scalar("m")
        a = n if uniform else k.select(k.eq(k.tid, 5), n, 1)
        k.store(C, k.tid, k.unary(kind, a) if y is None else k.binary(kind, a, m))
        c, d = np.zeros(T, np.int32), np.zeros(T, np.int32)
        outcome = k.run(c, x, y or 0)
        k.run(d, x, y or 0, check=False)
        assert (c == d).all()
        found.append((outcome, c[5].item()))
    return found


@pytest.mark.parametrize(("kind", "y"), [("neg", None), ("abs", None), ("floordiv", -1)])
def test_overflow_of_the_smallest_integer(kind, y):
    for outcome, result in two_ways(kind, INT32_MIN, y):
        assert codes(outcome) == ["A11"] and result == INT32_MIN
        assert "2147483648, which does not fit" in str(outcome.findings[0].message)
    assert two_ways(kind, INT32_MIN, y)[0][0].findings[0].threads == (5,)
    assert not any(outcome.findings for outcome, _ in two_ways(kind, INT32_MIN + 1, y))


@pytest.mark.parametrize(("kind", "expected"), [("floordiv", -1), ("mod", -7)])
def test_division_by_zero_is_a_finding(kind, expected):
    for outcome, result in two_ways(kind, -7, 0):
        assert codes(outcome) == ["A12"] and result == expected
        assert "division by zero" in outcome.findings[0].message


def test_a_guarded_division_is_clean():
    k = K(T)
    C, m = k.tensor("C", dtype=dt.int32), k.scalar("m")
    b = k.sub(k.tid, m)
    with k.if_(k.ne(b, 0)):
        k.store(C, k.tid, k.floordiv(100, b))
    c = np.full(T, 7, np.int32)
    assert not k.run(c, 3).findings
    assert c.tolist() == [7 if i == 3 else 100 // (i - 3) for i in range(T)]


@pytest.mark.parametrize("dtype", INTS, ids=str)
@pytest.mark.parametrize("kind", ["floordiv", "mod"])
def test_integers_by_zero_and_minus_one(kind, dtype):
    """One result, array or uniform: all bits set, and the dividend; the smallest integer wraps."""
    low, high = scalars.limits(dtype)
    a = np.array([low, high, 5, low] * (T // 4), np.dtype(dtype.numpy))
    for divisor in (0, -1 if low else 3):
        c, u = binary(kind, a, np.full_like(a, divisor), dtype, dtype)
        if divisor == 0:
            expected = a if kind == "mod" else np.full_like(a, -1 if low else high)
        else:
            expected = reference(kind, a, np.full_like(a, divisor), dtype)
        np.testing.assert_array_equal(c, expected)
        assert (u == expected[3]).all()


@pytest.mark.parametrize("dtype", INTS, ids=str)
@pytest.mark.parametrize("count", [-1, -33, 0, 7, 8, 31, 32, 63, 64, 100])
def test_shift_counts_are_clamped(dtype, count):
    a = values(dtype, 6)
    inside = 0 <= count < dtype.bits
    for kind in ("shl", "shr"):
        k = K(T)
        A, C, U, n = (*(k.tensor(x, dtype=dtype) for x in "ACU"), k.scalar("n"))
        k.store(C, k.tid, k.binary(kind, k.load(A, k.tid), n))
        k.store(U, k.tid, k.binary(kind, k.load(A, 3), n))
        c, u = np.zeros_like(a), np.zeros_like(a)
        grows = kind == "shl" and dtype.is_signed and dtype.bits >= 32 and any(
            not scalars.limits(dtype)[0] <= x << max(count, 0) <= scalars.limits(dtype)[1] for x in a.tolist())
        assert bool(k.run(a, c, u, count).findings) == (count < 0 or grows)
        exact = [(x << count if kind == "shl" else x >> count) if inside else 0 if kind == "shl" else x >> 64
                 for x in a.tolist()]
        expected = [scalars.wrap(x, dtype.bits, dtype.is_signed) for x in exact]
        assert c.tolist() == expected and (u == expected[3]).all()


def test_floors_of_floats_are_pythons():
    numbers = (0.0, -0.0, 1.0, -1.0, 5.5, -5.5, 0.125, 3.0, math.inf, -math.inf, math.nan)
    a, b = np.array([(x, y) for x in numbers for y in numbers if y]).T
    for dtype in (dt.float32, dt.float64):
        x, y = a.astype(dtype.numpy), b.astype(dtype.numpy)
        with np.errstate(all="ignore"):
            quotient, rest = (scalars.binary(kind, dtype)(x, y) for kind in ("floordiv", "mod"))
        for p, q, q1, r1 in zip(x.tolist(), y.tolist(), quotient.tolist(), rest.tolist(), strict=True):
            assert (repr(q1), repr(r1)) == (repr(p // q), repr(p % q)), (p, q)


def test_narrow_floats_round_once_and_saturate():
    big = np.array([math.inf, -math.inf, 1e30, 465.0, -448.0, 57345.0, math.nan, 1 + 2**-4 + 2**-40] * 8)
    e4m3, e5m2 = (cast(big, dt.float64, d).astype(float).tolist()[:8] for d in (dt.float8_e4m3fn, dt.float8_e5m2))
    assert e4m3[:6] == [448, -448, 448, 448, -448, 448] and math.isnan(e4m3[6]) and e4m3[7] == 1.125
    assert e5m2[:6] == [57344, -57344, 57344, 448, -448, 57344] and math.isnan(e5m2[6])
    above = 1 + 2**-8 + 2**-40                           # a tie of bfloat16, in float32
    assert cast(np.full(T, above), dt.float64, dt.bfloat16)[0] == 1 + 2**-7
    large = np.full(T, (1 << 62) + (1 << 54) + 1, np.int64)
    assert float(cast(large, dt.int64, dt.bfloat16)[0]) == 2.0**62 * (1 + 2**-7)
    assert scalars.constant(above, dt.bfloat16) == 1 + 2**-7 and scalars.constant(1e9, dt.float8_e4m3fn) == 448


def test_tf32_ties_go_away_from_zero():
    a = np.array([1 + 2**-11, -1 - 2**-11, 1 + 3 * 2**-11, math.inf] * 16, np.float32)
    assert cast(a, dt.float32, dt.tfloat32)[:4].tolist() == [1 + 2**-10, -1 - 2**-10, 1 + 2**-9, math.inf]


def test_literals_of_every_dtype_survive():
    for dtype in (*INTS, *FLOATS):
        k = K(T)
        C = k.tensor("C", dtype=dtype)
        k.store(C, k.tid, lit(3 if dtype.is_integer else 1.5, dtype))
        c = np.zeros(T, numpy_dtype(dtype))
        k.run(c)
        assert (c == (3 if dtype.is_integer else 1.5)).all()
