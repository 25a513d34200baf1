"""Folds, scans and matches of a warp and of a block: against NumPy, as text, and what is refused."""

from __future__ import annotations

import functools

import ml_dtypes
import numpy as np
import pytest

import moye as mo

THREADS, BLOCKS = 128, 3
FOLDS = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
         "or": np.bitwise_or, "xor": np.bitwise_xor}
NEUTRAL = {"add": 0, "mul": 1, "or": 0, "xor": 0, "and": -1}
INTEGERS = (np.int8, np.uint16, np.int32, np.uint32, np.int64)


@mo.kernel
def folded(out, x, kind: mo.Constexpr, width: mo.Constexpr):
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    out[i] = mo.warp_reduce(x[i], kind, width)


@mo.kernel
def scanned(out, x, kind: mo.Constexpr, inclusive: mo.Constexpr, width: mo.Constexpr):
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    out[i] = mo.warp_scan(x[i], kind, inclusive=inclusive, width=width)


@mo.kernel
def scanned_block(out, x, kind: mo.Constexpr, inclusive: mo.Constexpr):
    wide = mo.uint32 if x.dtype is mo.uint16 else x.dtype           # sums and products of narrow integers have 32 bits
    scratch = mo.shared_array(wide, THREADS // 32)
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    out[i] = mo.block_scan(x[i], scratch, kind, inclusive=inclusive)


@mo.kernel
def best(values, indices, x, kind: mo.Constexpr, whole: mo.Constexpr):
    keys, places = mo.shared_array(x.dtype, THREADS // 32), mo.shared_array(mo.int32, THREADS // 32)
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    if whole:
        value, index = mo.block_reduce((x[i], i), (keys, places), kind)
    else:
        value, index = mo.warp_reduce((x[i], i), kind, 8)
    values[i] = value
    indices[i] = index


@mo.kernel
def matched(some, every, x, mask: mo.Constexpr):
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    if mask >> (i % 32) & 1:
        some[i] = mo.match_any(x[i], mask)
        every[i] = mo.match_all(x[i], mask)


def numbers(dtype, low=-9, high=9, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(max(low, 0) if np.dtype(dtype).kind == "u" else low, high, THREADS * BLOCKS).astype(dtype)


def run(kernel, out, *args):
    report = mo.check(kernel)[BLOCKS, THREADS](out, *args)
    assert report.ok, report
    return out


def checked(kernel, *args):
    """It compiles for the oldest architecture and for sm_90a, and its source."""
    kernel.compile(*args, block=THREADS, arch="sm_80")
    return kernel.compile(*args, block=THREADS, arch="sm_90a").source


def tree(fold, x, width):
    """The butterfly of warp_reduce, in NumPy."""
    lanes = np.arange(len(x))
    delta = width // 2
    while delta:
        x = fold(x, x[lanes ^ delta])
        delta //= 2
    return x


@pytest.mark.parametrize("width", [32, 8, 1])
@pytest.mark.parametrize("kind", FOLDS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_folded(dtype, kind, width):
    x = numbers(dtype, -3, 4)
    out = run(folded, np.zeros_like(x), x, kind, width)
    with np.errstate(all="ignore"):
        wanted = FOLDS[kind].reduce(x.reshape(-1, width), axis=1, dtype=dtype)
    assert (out == np.repeat(wanted, width)).all()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_floats_are_folded_in_the_order_that_is_documented(dtype):
    x = np.random.default_rng(1).standard_normal(THREADS * BLOCKS).astype(dtype)
    assert (run(folded, np.zeros_like(x), x, "sum", 16) == tree(np.add, x, 16)).all()
    assert (run(folded, np.zeros_like(x), x, "max", 32) == tree(np.maximum, x, 32)).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in FOLDS if kind != "mul"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_whole_warps_fold_integers_in_one_instruction(dtype, kind):
    x = numbers(dtype)
    source = checked(folded, np.zeros_like(x), x, kind, 32)
    assert (f"__reduce_{kind}_sync" in source) == (np.dtype(dtype).itemsize <= 4)
    assert ("__shfl_xor_sync" in source) == (np.dtype(dtype).itemsize > 4)


def test_floats_and_parts_of_warps_are_shuffled():
    assert "__reduce" not in checked(folded, np.zeros(512, np.float32), np.zeros(512, np.float32), "max", 32)
    assert "__reduce" not in checked(folded, np.zeros(512, np.int32), np.zeros(512, np.int32), "max", 16)


def test_a_sum_of_a_warp_that_does_not_fit_is_told():
    x = np.zeros(THREADS * BLOCKS, np.int32)
    x[40:42] = 2**31 - 1, 1
    report = mo.check(folded)[BLOCKS, THREADS](np.zeros_like(x), x, "add", 32)
    assert [finding.code for finding in report.findings] == ["A11"]
    assert "2147483648" in str(report) and mo.check(folded)[BLOCKS, THREADS](np.zeros_like(x), x, "max", 32).ok


@mo.kernel
def fold_of_some(out, x, n):
    i = mo.thread_idx().x
    if i >= n:
        return
    out[i, 0] = mo.warp_reduce(x[i], "min")
    out[i, 1] = mo.warp_reduce(x[i])


@pytest.mark.parametrize(("block", "n"), [(32, 20), (40, 64), (72, 67)])
def test_lanes_that_have_exited_or_never_were_are_left_out(block, n):
    x, out = np.arange(block, 0, -1, dtype=np.int32), np.zeros((block, 2), np.int32)
    assert mo.check(fold_of_some)[1, block](out, x, n).ok
    there = min(block, n)
    for first in range(0, there, 32):
        last = min(first + 32, there)
        assert (out[first:last] == (x[last - 1], x[first:last].sum())).all()
    assert (out[there:] == 0).all()


# --- scans -----------------------------------------------------------------------------------------------------------


def prefix(x, kind, inclusive, width):
    rows = x.reshape(-1, width)
    with np.errstate(all="ignore"):
        after = FOLDS[kind].accumulate(rows, axis=1, dtype=x.dtype)
    if inclusive:
        return after.ravel()
    first = np.full(len(rows), NEUTRAL[kind] if kind in NEUTRAL else _end(kind, x.dtype)).astype(x.dtype)
    return np.concatenate([first[:, None], after[:, :-1]], axis=1).ravel()


def _end(kind, dtype):
    if dtype.kind == "f":
        return np.inf if kind == "min" else -np.inf
    return np.iinfo(dtype).max if kind == "min" else np.iinfo(dtype).min


@pytest.mark.slow
@pytest.mark.parametrize("inclusive", [True, False])
@pytest.mark.parametrize("kind", FOLDS)
@pytest.mark.parametrize("dtype", [np.int32, np.uint16, np.int64])
def test_scans_of_integers(dtype, kind, inclusive):
    x = numbers(dtype, -2, 3, 5)
    if kind == "mul":
        x = np.where(x == 0, 1, np.sign(x.astype(np.int64))).astype(dtype)
    for width in (32, 4, 1):
        out = run(scanned, np.zeros_like(x), x, kind, inclusive, width)
        assert (out == prefix(x, kind, inclusive, width)).all()
    out = run(scanned_block, np.zeros_like(x), x, kind, inclusive)
    assert (out == prefix(x, kind, inclusive, THREADS)).all()


@pytest.mark.parametrize("inclusive", [True, False])
@pytest.mark.parametrize("kind", ["add", "max", "min"])
def test_scans_of_floats(kind, inclusive):
    x = np.random.default_rng(2).standard_normal(THREADS * BLOCKS, np.float32)
    out = run(scanned_block, np.full_like(x, np.nan), x, kind, inclusive)
    wanted = prefix(x.astype(np.float64), kind, inclusive, THREADS)
    assert np.allclose(out, wanted, rtol=1e-5, atol=1e-5) and "__shfl_up_sync" in checked(
        scanned_block, out, x, kind, inclusive)


def test_scratch_is_free_after_a_scan():
    @mo.kernel
    def twice(out, x):
        scratch, i = mo.shared_array(mo.int32, 4), mo.thread_idx().x
        first = mo.block_scan(x[i], scratch)
        out[i] = mo.block_scan(first, scratch, inclusive=False)

    x = np.arange(128, dtype=np.int32)
    out = np.zeros(128, np.int32)
    assert mo.check(twice)[1, 128](out, x).ok
    sums = x.cumsum()
    assert (out == sums.cumsum() - sums).all()


def test_bools_are_counted():
    @mo.kernel
    def before(out, x):
        i = mo.thread_idx().x
        out[i] = mo.warp_scan(x[i] > 0, inclusive=False)
        out[i] = out[i] + 100 * mo.warp_reduce(x[i] > 0)

    x = numbers(np.int32)[:32]
    out = np.zeros(32, np.int32)
    before[1, 32](out, x)
    assert (out == np.cumsum(x > 0) - (x > 0) + 100 * (x > 0).sum()).all()


# --- pairs -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("kind", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float16])
def test_pairs_with_ties_and_nan(dtype, kind, whole):
    x = numbers(dtype, -3, 4)
    if np.dtype(dtype).kind == "f":
        x[::5] = np.nan
        x[THREADS:THREADS + 8] = np.nan
    values, indices = np.zeros_like(x), np.zeros(len(x), np.int32)
    assert mo.check(best)[BLOCKS, THREADS](values, indices, x, kind, whole).ok
    width = THREADS if whole else 8
    rows = x.reshape(-1, width)
    kept = np.where(np.isnan(rows), -np.inf if kind == "argmax" else np.inf, rows.astype(np.float64))
    place = getattr(kept, kind)(axis=1)
    assert (indices.reshape(-1, width) == (place + np.arange(len(rows)) * width)[:, None]).all()
    wanted = np.repeat(rows[np.arange(len(rows)), place], width)
    assert np.array_equal(values, wanted, equal_nan=wanted.dtype.kind == "f")
    checked(best, values, indices, x, kind, whole)


# --- matches ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [0xFFFFFFFF, 0x0F0F00FF])
@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int64, np.float32, np.float64, np.float16])
def test_matches(dtype, mask):
    x = numbers(dtype, -2, 3)
    x[32:96] = 1
    x[40] = 0 if mask >> 8 & 1 else 1
    some, every = np.zeros(len(x), np.uint32), np.full(len(x), 7, np.uint32)
    report = mo.check(matched)[BLOCKS, THREADS](some, every, x, mask)
    assert report.ok, report
    named = np.array([mask >> i & 1 for i in range(32)], bool)
    for first in range(0, len(x), 32):
        warp = x[first:first + 32]
        equal = (warp[:, None] == warp[None]) & named
        bits = (equal * (1 << np.arange(32, dtype=np.int64))).sum(1)
        assert (some[first:first + 32][named] == bits[named]).all()
        assert (every[first:first + 32][named] == (mask if len(set(warp[named].tolist())) == 1 else 0)).all()
    source = checked(matched, some, every, x, mask)
    assert "__match_any_sync" in source and "__match_all_sync" in source


def test_zeros_of_two_signs_do_not_match():
    x = np.zeros(THREADS * BLOCKS, np.float32)
    x[1] = -0.0
    some, every = np.zeros(len(x), np.uint32), np.zeros(len(x), np.uint32)
    matched[BLOCKS, THREADS](some, every, x, 0xFFFFFFFF)
    assert some[1] == 2 and some[0] == 0xFFFFFFFD and every[0] == 0 and every[32] == 0xFFFFFFFF


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("call", "message"), [
    (lambda x, s: mo.warp_reduce(x, "and"), 'kind "and" is for integers and bools, not float32'),
    (lambda x, s: mo.warp_reduce(x, "mean"), "'mean' is none of add, mul"),
    (lambda x, s: mo.warp_reduce(x, "argmax"), "folds a pair of scalars"),
    (lambda x, s: mo.warp_reduce((x, 1), "max"), "a pair is folded with argmax or argmin, not 'max'"),
    (lambda x, s: mo.warp_reduce((x, x), "argmax"), "the index of a pair is an integer, not a float32"),
    (lambda x, s: mo.warp_scan(x, "argmax"), "'argmax' is none of add"),
    (lambda x, s: mo.warp_scan(x, width=3), "the width 3 is no power of two"),
    (lambda x, s: mo.warp_scan(x, inclusive=x > 0), "is True or False, known while tracing"),
    (lambda x, s: mo.block_scan(x, x), "must be a shared tensor"),
    (lambda x, s: mo.block_scan(x, s), "holds int32, and the value is float32"),
    (lambda x, s: mo.block_reduce(x, s), "holds int32, and the value is float32"),
    (lambda x, s: mo.block_reduce((x, 1), s, "argmax"), "takes two shared tensors"),
    (lambda x, s: mo.match_any(x, 0), "match_any: the mask 0x0"),
    (lambda x, s: mo.match_all(x.to(mo.float8_e5m2)), "numbers of 16, 32 or 64 bits, not float8_e5m2"),
])
def test_what_is_refused(call, message):
    @mo.kernel
    def wrong(x, call: mo.Constexpr):
        scratch = mo.shared_array(mo.int32, 4)
        call(x[mo.thread_idx().x], scratch)

    with pytest.raises(mo.MoyeError) as refused:
        wrong[1, 128](np.zeros(128, np.float32), call)
    assert message in refused.value.message


@pytest.mark.parametrize("name", ["block_scan", "block_reduce"])
def test_a_block_of_whole_warps_is_needed(name):
    @mo.kernel
    def wrong(x, call: mo.Constexpr):
        call(x[mo.thread_idx().x], mo.shared_array(mo.float32, 4))

    with pytest.raises(mo.TraceError, match="a block of 40 threads is no whole number of warps") as caught:
        wrong[1, 40](np.zeros(40, np.float32), functools.partial(getattr(mo, name)))
    assert "launch 64 threads" in caught.value.hint


@mo.kernel
def counted(out, x, limit: mo.Constexpr):
    """How many elements are above a limit: of four registers, of a warp, of a block, and up to this thread."""
    tid = mo.thread_idx().x
    mine, scratch = mo.fragment((4,), x.dtype), mo.shared_array(mo.int32, THREADS // 32)
    mo.copyto(mine, mo.tile(x, (4,), (tid,)))
    out[tid, 0] = (mine > limit).reduce("sum")
    out[tid, 1] = mo.warp_reduce(x[tid] > limit, "sum")
    out[tid, 2] = mo.block_reduce(x[tid] > limit, scratch, "sum")
    out[tid, 3] = mo.block_scan(x[tid] > limit, scratch)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int16])
def test_bools_are_counted_by_every_fold(dtype):
    x, out = (np.arange(4 * THREADS) % 113).astype(dtype), np.full((THREADS, 4), -1, np.int32)
    assert mo.check(counted)[1, THREADS](out, x, 50).ok
    above = (x > 50).astype(int)
    first = above[:THREADS]
    warps, whole = np.repeat(first.reshape(-1, 32).sum(1), 32), np.full(THREADS, first.sum())
    assert (out == np.stack([above.reshape(-1, 4).sum(1), warps, whole, first.cumsum()], 1)).all()
    counted.compile(out, x, 50, block=THREADS, arch="sm_90a")


@mo.kernel
def totals(out, x):
    tid = mo.thread_idx().x
    wide = mo.int32 if x.dtype is mo.int8 else mo.uint32
    mine, scratch = mo.fragment((2, 2), x.dtype), mo.shared_array(wide, THREADS // 32)
    mo.copyto(mine, mo.tile(x, (4,), (tid,)).with_layout(mo.make_layout((2, 2))))
    assert mine.reduce("sum", 1).dtype is mo.warp_reduce(x[tid]).dtype is wide
    assert mine.reduce("max", 1).dtype is mo.warp_reduce(x[tid], "max").dtype is x.dtype
    out[tid, 0] = mine.reduce("sum")
    out[tid, 1] = mine.reduce("prod", 1)[1]
    out[tid, 2] = mo.warp_reduce(x[tid])
    out[tid, 3] = mo.warp_reduce(x[tid], "sum", 8)
    out[tid, 4] = mo.block_reduce(x[tid], scratch)
    out[tid, 5] = mo.block_scan(x[tid], scratch, inclusive=False)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16])
def test_sums_of_narrow_integers_have_32_bits(dtype):
    """As in NumPy and in Triton: hundred bytes of 200 are 20000."""
    x, out = (np.arange(4 * THREADS) % 128).astype(dtype), np.full((THREADS, 6), -1, np.int64)
    assert mo.check(totals)[1, THREADS](out, x).ok
    wide = x.astype(np.int64)
    first = wide[:THREADS]
    want = [wide.reshape(-1, 4).sum(1), wide[1::4] * wide[3::4], np.repeat(first.reshape(-1, 32).sum(1), 32),
            np.repeat(first.reshape(-1, 8).sum(1), 8), np.full(THREADS, first.sum()), first.cumsum() - first]
    assert (out == np.stack(want, 1)).all()
    totals.compile(out, x, block=THREADS, arch="sm_90a")


def test_a_narrow_scratch_for_a_sum_is_refused():
    @mo.kernel
    def narrow(out, x):
        out[mo.thread_idx().x] = mo.block_reduce(x[mo.thread_idx().x], mo.shared_array(x.dtype, 2))

    x = np.zeros(64, np.uint8)
    with pytest.raises(mo.DTypeError, match=r"the scratch .* holds uint8, and the value is uint32") as raised:
        narrow.trace(x, x, block=64)
    assert raised.value.hint == "make it with mo.shared_array(mo.uint32, ...)"


@mo.kernel
def of_registers(out, x):
    """Shuffles, folds and scans take every element of a register tensor by itself."""
    tid = mo.thread_idx().x
    mine, turned = mo.fragment((2, 2), x.dtype), mo.make_layout((2, 2))
    mo.copyto(mine, mo.tile(x, (4,), (tid,)).with_layout(turned))
    found = mo.shuffle_xor(mine, 1) + 1000 * mo.warp_reduce(mine, "max") + mo.warp_scan(mine > 3, inclusive=False)
    mo.copyto(mo.tile(out, (4,), (tid,)).with_layout(turned), found)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float64])
def test_register_tensors(dtype):
    x = np.random.default_rng(0).integers(0, 9, 128).astype(dtype)
    out, rows = np.zeros_like(x), x.reshape(32, 4)
    assert mo.check(of_registers)[1, 32](out, x).ok
    above = (rows > 3).astype(int)
    assert (out.reshape(32, 4) == rows[np.arange(32) ^ 1] + 1000 * rows.max(0) + above.cumsum(0) - above).all()
    assert of_registers.compile(out, x, block=32, arch="sm_90a").spills == 0


@mo.kernel
def neighbours(out, x):
    i = mo.thread_idx().x
    out[i] = mo.shuffle_xor(x[i], 1)


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_lanes_get_the_bits_of_8_bit_floats(dtype):
    """Infinity, too, which a conversion would make the largest number."""
    bits = np.random.default_rng(0).permutation(256).astype(np.uint8)
    for part in bits.reshape(8, 32):
        out = np.zeros(32, dtype)
        neighbours[1, 32](out, part.view(dtype))
        np.testing.assert_array_equal(out.view(np.uint8), part[np.arange(32) ^ 1])


@mo.kernel
def swapped(old, cells, expected, x):
    i = mo.thread_idx().x
    old[i] = mo.atomic_cas(cells, i, expected[i], x[i])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_compare_and_swap_looks_at_bits(dtype):
    """A NaN is like itself, and the zeros differ."""
    cells = np.array([np.nan, 0.0, -0.0, 1.0, 2.0], dtype)
    expected, x, old = np.array([np.nan, -0.0, -0.0, 1.0, 3.0], dtype), np.full(5, 7, dtype), np.zeros(5, dtype)
    assert mo.check(swapped)[1, 5](old, before := cells.copy(), expected, x).ok
    assert before.tolist() == [7, 0, 7, 7, 2] and not np.signbit(before[1])
    np.testing.assert_array_equal(old, cells)
