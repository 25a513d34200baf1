"""A11 of every signed result of 32 and 64 bits, wherever it is computed; and no finding where nothing is lost."""

from __future__ import annotations

import operator
import random

import numpy as np
import pytest

import moye as mo
from moye import dtypes as dt
from moye.sim.values.overflow import overflowed

BLOCK = 64


def codes(report):
    return [finding.code for finding in report.findings]


EXACT = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "shl": operator.lshift,
         "floordiv": operator.floordiv}


# --- the rule itself -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("kind", ["add", "sub", "mul", "floordiv", "shl"])
def test_overflow_of_all_pairs_of_edges(kind, bits):
    low, high, half = -(1 << (bits - 1)), (1 << (bits - 1)) - 1, 1 << (bits // 2)
    numbers = [low, low + 1, low // 2, -half, -3, -1, 0, 1, 2, 7, half - 1, half, high // 3, high // 2 + 1, high]
    counts = [0, 1, 2, bits // 2 - 1, bits // 2, bits - 2, bits - 1, bits, bits + 1, 200]
    right = counts if kind == "shl" else [n for n in numbers if n or kind != "floordiv"]
    a, b = np.meshgrid(np.array(numbers, f"i{bits // 8}"), np.array(right, f"i{4 if kind == 'shl' else bits // 8}"))
    result, bad = overflowed(kind, a, b, bits)
    for x, y, got, told in zip(a.flat, b.flat, result.flat, np.broadcast_to(bad, a.shape).flat, strict=True):
        x, y = int(x), int(y)
        exact = EXACT[kind](x, y)
        assert told == (not low <= exact <= high), (x, y)
        assert got == (exact - low) % (1 << bits) + low, (x, y)


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("kind", ["add", "sub", "mul", "floordiv", "shl"])
def test_overflow_of_drawn_pairs(kind, bits):
    """A few pairs at a time, of any magnitude: of many some overflow upward, and hide what is told of the others."""
    rng = random.Random(f"{kind} {bits}")
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def number():
        power = 1 << rng.randrange(bits)
        return max(low, min(high, rng.choice((-1, 1)) * power + rng.choice((-1, 0, 1, -power // 3))))

    for _ in range(150):
        pairs = [(number(), rng.choice((0, 1, 2, 7, bits // 2, bits - 1, bits, 200)) if kind == "shl" else number())
                 for _ in range(rng.randint(1, 3))]
        pairs = [(x, y) for x, y in pairs if y or kind != "floordiv"] or [(low, -1)]
        a, b = np.array([x for x, _ in pairs], f"i{bits // 8}"), np.array([y for _, y in pairs], f"i{bits // 8}")
        result, bad = overflowed(kind, a, b, bits)
        exact = [EXACT[kind](x, y) for x, y in pairs]
        told = [False] * len(pairs) if bad is None else np.broadcast_to(bad, a.shape).tolist()
        assert told == [not low <= n <= high for n in exact], pairs
        assert result.tolist() == [(n - low) % (1 << bits) + low for n in exact], pairs


def test_what_does_not_come_near_is_not_looked_at_closely():
    a = np.arange(-1000, 1000, dtype=np.int64)
    for kind in ("add", "sub", "mul"):
        assert overflowed(kind, a, a, 64)[1] is None


# --- scalar code -----------------------------------------------------------------------------------------------------


@mo.kernel
def scalars(out, a, b, step: mo.Constexpr):
    i = mo.thread_idx().x
    out[i] = step(a[i], b[i])


@mo.kernel
def uniform(out, a, b, step: mo.Constexpr):
    out[mo.thread_idx().x] = step(a, b)


@mo.jit
def squared_sum(x, y):
    total = x
    for _ in range(3):
        total = total * y + x
    return total


@mo.jit
def branch(x, y):
    result = x
    if y > 1:
        result = x * y
    return result


STEPS = {
    "sum": (lambda x, y: x + y, [(-1, 1), (0, 0)]), "difference": (lambda x, y: x - y, [(-1, -1), (-1, 1)]),
    "product": (lambda x, y: x * y, [(-1, 2), (-1, -1)]), "shift": (lambda x, y: x << y, [(-1, 1), (-2, 0)]),
    "far shift": (lambda x, y: x << y, [(1, 70), (0, 70)]), "quotient": (lambda x, y: x // y, [("low", -1), (-7, -1)]),
    "negation": (lambda x, y: -x, [("low", 0), (-1, 0)]), "absolute": (lambda x, y: abs(x), [("low", 0), (-1, 0)]),
    "power": (lambda x, y: x ** 5, [(-1, 0), (3, 0)]), "loop": (squared_sum, [(-1, 2), (2, 3)]),
    "branch": (branch, [(-1, 2), (-1, 1)]), "negative shift": (lambda x, y: x >> y, [(5, -1), (5, 1)]),
}


@pytest.mark.parametrize("where", ["array", "uniform"])
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("name", STEPS)
def test_scalar_overflow(name, bits, where):
    """The first pair overflows (-1: the largest integer; low: the smallest), the second does not."""
    step, pairs = STEPS[name]
    kind, low, high = f"i{bits // 8}", -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    for (x, y), expected in zip(pairs, (["A11"], []), strict=True):
        x = low if x == "low" else high if x == -1 and expected else x
        x, y = np.array([x], kind), np.array([y], kind)
        out = np.zeros(BLOCK, kind)
        if where == "array":
            a, b = np.ones(BLOCK, kind), np.ones(BLOCK, kind)
            a[5], b[5] = x[0], y[0]
            report = mo.check(scalars)[1, BLOCK](out, a, b, step)
            assert not expected or report.findings[0].threads == (5,)
        else:
            report = mo.check(uniform)[1, BLOCK](out, x[0], y[0], step)
        assert sorted(set(codes(report))) == expected


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "uint32", "uint64"])
def test_integers_that_wrap_have_no_findings(dtype):
    high = np.iinfo(dtype).max
    a, b, out = np.full(BLOCK, high, dtype), np.full(BLOCK, 3, dtype), np.zeros(BLOCK, dtype)
    for step in (lambda x, y: x + y, lambda x, y: x * y, lambda x, y: x << y, lambda x, y: y - x):
        assert mo.check(scalars)[1, BLOCK](out, a, b, step).ok
        with np.errstate(all="ignore"):
            expected = {0: a + b, 1: a * b, 2: a << b, 3: b - a}
        assert any((out == value.astype(dtype)).all() for value in expected.values())


# --- conversions -----------------------------------------------------------------------------------------------------


@mo.kernel
def narrowed(out, x, convert: mo.Constexpr):
    i = mo.thread_idx().x
    out[i] = convert(x[i])


@pytest.mark.parametrize(("source", "convert", "bad", "good"), [
    ("int64", lambda p: p.to(dt.int32) % 7, 1 << 31, (1 << 31) - 1),
    ("int64", lambda p: mo.int32(p) // 3, -(1 << 31) - 1, -(1 << 31)),
    ("int64", lambda p: mo.uint32(p) % 10, 1 << 32, (1 << 32) - 1),
    ("uint64", lambda p: mo.int32(p), 1 << 40, 5),
    ("int64", lambda p: mo.int32(p & 0x7FFFFFFF), None, 1 << 40),
    ("int64", lambda p: mo.int32(p % 1000), None, 1 << 40),
    ("uint64", lambda p: mo.uint32(p), None, (1 << 64) - 1),
    ("int64", lambda p: mo.uint32(p), None, -1),
])
def test_narrowing_a_position(source, convert, bad, good):
    out = np.zeros(BLOCK, np.int64)
    x = np.ones(BLOCK, source)
    x[9] = good
    assert mo.check(narrowed)[1, BLOCK](out, x, convert).ok
    if bad is not None:
        x[9] = bad
        report = mo.check(narrowed)[1, BLOCK](out, x, convert)
        assert codes(report) == ["A11"] and report.findings[0].threads == (9,)


def test_a_store_that_narrows_and_one_that_nobody_reaches():
    @mo.kernel
    def kernel(out, x, n):
        i = mo.thread_idx().x
        if i < n:
            out[i] = x[i]

    x = np.arange(BLOCK, dtype=np.int64) << 30
    assert mo.check(kernel)[1, BLOCK](np.zeros(BLOCK, np.int32), x, 2).ok
    assert codes(mo.check(kernel)[1, BLOCK](np.zeros(BLOCK, np.int32), x, 3)) == ["A11"]


# --- sums of many ----------------------------------------------------------------------------------------------------


@mo.kernel
def product(A: mo.Static, B: mo.Static, C: mo.Static, mma):
    t = mma.get_slice(mo.thread_idx().x)
    a, b, c = t.partition_fragment_A(A), t.partition_fragment_B(B), t.make_fragment_C(t.partition_C(C))
    mo.copyto(a, t.partition_A(A))
    mo.copyto(b, t.partition_B(B))
    c.fill(0)
    mo.gemm(mma, a, b, c)
    mo.copyto(t.partition_C(C), c)


@pytest.mark.parametrize(("a", "b", "expected"), [(1 << 14, 1 << 14, []), (1 << 16, 1 << 15, ["A11"]), (-1, 1, []),
                                                  (1 << 15, 1 << 14, ["A11"])])
def test_products_of_int32(a, b, expected):
    """A product, or the sum of eight, leaves 32 bits."""
    mma = mo.make_tiled_mma(mo.UniversalFMA(mo.int32), mo.make_layout((8, 8)))
    A, B, C = np.full((16, 7), a, np.int32), np.full((16, 7), b, np.int32), np.zeros((16, 16), np.int32)
    report = mo.check(product)[1, 64](A, B, C, mma)
    assert sorted(set(codes(report))) == expected
    np.testing.assert_array_equal(C, (A.astype(np.int64) @ B.T.astype(np.int64)).astype(np.int32))


def test_unsigned_products_wrap():
    mma = mo.make_tiled_mma(mo.UniversalFMA(mo.uint32), mo.make_layout((8, 8)))
    A, C = np.full((16, 8), 1 << 20, np.uint32), np.zeros((16, 16), np.uint32)
    assert mo.check(product)[1, 64](A, A, C, mma).ok


@mo.kernel
def tensor_cores(A: mo.Static, B: mo.Static, C: mo.Static, mma, start):
    t = mma.get_slice(mo.thread_idx().x)
    a, b, c = t.partition_fragment_A(A), t.partition_fragment_B(B), t.make_fragment_C(t.partition_C(C))
    mo.copyto(a, t.partition_A(A))
    mo.copyto(b, t.partition_B(B))
    c.fill(start)
    mo.gemm(mma, a, b, c)
    mo.copyto(t.partition_C(C), c)


@pytest.mark.parametrize(("start", "expected"), [(0, []), ((1 << 31) - 1 - 32 * 127 * 127, []),
                                                 ((1 << 31) - 32 * 127 * 127, ["A11"])])
def test_accumulators_of_tensor_cores(start, expected):
    mma = mo.make_tiled_mma(mo.mma.SM80_16x8x32_S32S8S8S32_TN)
    A, B, C = np.full((16, 32), 127, np.int8), np.full((8, 32), 127, np.int8), np.zeros((16, 8), np.int32)
    report = mo.check(tensor_cores)[1, 32](A, B, C, mma, start)
    assert sorted(set(codes(report))) == expected


@mo.kernel
def atomics(total, x, shared: mo.Constexpr):
    i = mo.thread_idx().x
    if shared:
        s = mo.shared_array(total.dtype, (1,))
        if i == 0:
            s[0] = total[0]
        mo.sync_threads()
        mo.atomic_add(s, 0, x[i])
        mo.sync_threads()
        if i == 0:
            total[0] = s[0]
    else:
        mo.atomic_add(total, 0, x[i])


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("kind", ["int32", "int64", "uint32"])
def test_atomic_sums(kind, shared):
    x = np.ones(BLOCK, kind)
    high = np.iinfo(kind).max
    for start, expected in ((high - BLOCK, []), (high - BLOCK + 1, [] if kind == "uint32" else ["A11"])):
        report = mo.check(atomics)[1, BLOCK](np.array([start], kind), x, shared)
        assert sorted(set(codes(report))) == expected


@mo.kernel
def reduced(out, x, kind: mo.Constexpr):
    i = mo.thread_idx().x
    r = mo.fragment((4,), x.dtype)
    for j in mo.static_range(4):
        r[j] = x[i]
    out[i] = r.reduce("add") if kind == "fragment" else mo.warp_reduce(x[i])


@pytest.mark.parametrize(("kind", "bad"), [("fragment", 1 << 29), ("warp", 1 << 26)])
def test_reductions(kind, bad):
    x, out = np.full(BLOCK, bad - 1, np.int32), np.zeros(BLOCK, np.int32)
    assert mo.check(reduced)[1, BLOCK](out, x, kind).ok
    x[:] = bad
    assert codes(mo.check(reduced)[1, BLOCK](out, x, kind))[0] == "A11"


def test_elementwise_operations_on_fragments():
    @mo.kernel
    def kernel(out, x):
        i = mo.thread_idx().x
        r = mo.fragment((2,), x.dtype)
        r[0], r[1] = x[i], x[i]
        r[...] = r * 4
        out[i] = r[0]

    x, out = np.full(BLOCK, 1 << 28, np.int32), np.zeros(BLOCK, np.int32)
    assert mo.check(kernel)[1, BLOCK](out, x).ok
    x[3] = 1 << 29
    assert codes(mo.check(kernel)[1, BLOCK](out, x)) == ["A11"]


# --- sides that are not taken ----------------------------------------------------------------------------------------


CHOICES = {
    "product": lambda x, n: mo.where(x < 1000, x * 3_000_000, 0),
    "nested": lambda x, n: mo.where(x < 9, (x << 28) + 1, 7),
    "shift either way": lambda x, n: mo.where(n >= 0, x >> n, x << -n),
    "divisor": lambda x, n: mo.where(n != 0, x // n, 0),
    "position": lambda x, n: mo.where(x < 99, (mo.int64(x) << 31).to(mo.int32), 0),
    "chain": lambda x, n: mo.where(x < 0, 1, mo.where(x > 700, 0, x * x * 100)),
}


@pytest.mark.parametrize("uniform_", [False, True], ids=["array", "uniform"])
@pytest.mark.parametrize(("name", "x", "n", "expected"), [
    ("product", 1000, 0, []), ("product", 999, 0, ["A11"]), ("nested", 9, 0, []), ("nested", 8, 0, ["A11"]),
    ("shift either way", 5, -2, []), ("shift either way", 5, 3, []), ("shift either way", 5, -30, ["A11"]),
    ("divisor", 5, 0, []), ("position", 99, 0, []), ("position", 98, 0, ["A11"]),
    ("chain", 701, 0, []), ("chain", 700, 0, []), ("chain", -5, 0, []),
])
def test_the_side_of_a_where_that_is_not_taken(name, x, n, expected, uniform_):
    out = np.zeros(BLOCK, np.int64)
    if uniform_:
        report = mo.check(uniform)[1, BLOCK](out, x, n, CHOICES[name])
    else:
        a, b = np.full(BLOCK, x, np.int32), np.full(BLOCK, n, np.int32)
        report = mo.check(scalars)[1, BLOCK](out, a, b, CHOICES[name])
    assert codes(report) == expected


def test_a_side_that_somebody_else_uses_is_judged_at_once():
    @mo.kernel
    def kernel(out, x):
        i = mo.thread_idx().x
        product = x[i] * 3_000_000
        out[i] = mo.where(x[i] < 100, product, 0)
        out[i + BLOCK] = product

    out = np.zeros(2 * BLOCK, np.int32)
    assert codes(mo.check(kernel)[1, BLOCK](out, np.full(BLOCK, 1000, np.int32))) == ["A11"]


def test_and_or_skip_what_they_do_not_need():
    @mo.kernel
    def kernel(out, x, n):
        i = mo.thread_idx().x
        out[i] = 0
        if x[i] < 1000 and x[i] * 3_000_000 > 5:
            out[i] = 1
        if n == 0 or x[i] // n > 3:
            out[i] += 2

    out = np.zeros(BLOCK, np.int32)
    assert mo.check(kernel)[1, BLOCK](out, np.full(BLOCK, 2000, np.int32), 0).ok
    assert (out == 2).all()
    assert codes(mo.check(kernel)[1, BLOCK](out, np.full(BLOCK, 900, np.int32), 0)) == ["A11"]


def test_undefined_data_is_no_overflow():
    """What nobody wrote is told as that, not as sums of whatever was there."""
    @mo.kernel
    def kernel(counts, x):
        bins = mo.shared_array(mo.int32, 64)
        i = mo.thread_idx().x
        mo.atomic_add(bins, x[i] % 64, 1)
        mo.sync_threads()
        mo.atomic_add(counts, 0, bins[i])
        counts[i + 1] = bins[i] * 3 - 1

    report = mo.check(kernel)[1, BLOCK](np.zeros(BLOCK + 1, np.int32), np.zeros(BLOCK, np.int32))
    assert set(codes(report)) == {"B6"}
