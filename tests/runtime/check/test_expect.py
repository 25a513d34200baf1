"""``mo.check(kernel, expect=...)``: the verdict "wrong result", who stored the element, and the k-step."""

from __future__ import annotations

import importlib.util
import re
import tempfile
from pathlib import Path
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from moye.errors import ArgumentError

ROOT = Path(__file__).parents[3]
BLOCK = 64


@mo.kernel
def scale(y, x, factor, wrong):
    tid = mo.thread_idx().x
    bx, _, _ = mo.block_idx()
    gX = mo.tile(x, (BLOCK,), (bx,))
    gY = mo.tile(y, (BLOCK,), (bx,))
    rX = mo.fragment(1, mo.float32)
    rX[0] = gX[tid] * factor
    if bx == 2 and tid > wrong:
        rX[0] = rX[0] + 1
    gY[tid] = rX[0]


def vectors(blocks=4):
    x = np.arange(blocks * BLOCK, dtype=np.float32)
    return np.full_like(x, np.nan), x


def scaled(wrong=BLOCK, blocks=4, **options):
    y, x = vectors(blocks)
    options.setdefault("expect", lambda x, factor: x * factor)
    return mo.check(scale, **options)[blocks, BLOCK](y, x, 2.0, wrong), y


def test_a_right_result_is_clean_and_is_said_to_be_checked():
    report, y = scaled()
    assert report.ok and report.checked[-1] == "the result" and np.array_equal(y, 2 * vectors()[1])


def test_who_stored_the_first_wrong_element():
    report, y = scaled(wrong=60)
    assert [f.code for f in report.findings] == ["V1"] and not report.ok
    found = report.findings[0]
    assert (found.block, found.threads, found.tensor, found.coordinate) == ((2, 0, 0), (61,), "y", (2 * BLOCK + 61,))
    assert found.message == ("y(189) is 379 and 378 is expected: 3 of 256 elements are wrong, all of them in "
                             "[189:192]; thread 61 of block (2, 0, 0) stored it from register rX(0)")
    assert "gY[tid] = rX[0]" in found.locs[0].render()
    assert np.array_equal(y[:189], 2 * vectors()[1][:189]) and y[191] == 383, "outputs are those of the launch"


def test_one_wrong_element():
    assert "it is the only wrong one of 256 elements" in str(scaled(wrong=62)[0])


def test_an_element_that_nobody_stored():
    @mo.kernel
    def but_the_last(y):
        if mo.thread_idx().x < BLOCK - 1:
            y[mo.thread_idx().x] = 1

    report = mo.check(but_the_last, expect=lambda y: np.ones(BLOCK))[1, BLOCK](np.full(BLOCK, np.nan, np.float32))
    assert report.findings[0].message.startswith("y(63) is nan and 1 is expected")
    assert "no thread stored it" in report.findings[0].message and report.findings[0].block is None


def test_a_sample_of_blocks_is_compared_where_it_stored():
    assert scaled(wrong=60, blocks=4)[0].findings
    y, x = vectors()
    right = mo.check(scale, expect=lambda x, factor: x * factor, blocks=[0, 3])[4, BLOCK](y, x, 2.0, 60)
    assert right.ok, str(right)
    wrong = mo.check(scale, expect=lambda x, factor: x * factor, blocks=[2])[4, BLOCK](y, x, 2.0, 60)
    assert "3 of 64 elements" in wrong.findings[0].message


def test_nan_and_infinity():
    @mo.kernel
    def write(y, value):
        y[mo.thread_idx().x] = value

    def judge(value, expected):
        y = np.zeros(BLOCK, np.float32)
        return mo.check(write, expect=lambda: np.full(BLOCK, expected))[1, BLOCK](y, value).ok

    inf, nan = float("inf"), float("nan")
    assert judge(nan, nan) and judge(inf, inf) and judge(1.0, 1.0 + 1e-6)
    assert not judge(nan, 1.0) and not judge(1.0, nan) and not judge(inf, 1.0) and not judge(-inf, inf)
    assert not judge(1.0, 1.01)


def test_tolerances():
    @mo.kernel
    def narrow(y, x):
        tid = mo.thread_idx().x
        y[tid] = x[tid]

    x = np.linspace(1, 2, BLOCK, dtype=np.float32)
    off = lambda x: x * 1.001                                                       # noqa: E731
    wide, half = np.zeros(BLOCK, np.float32), np.zeros(BLOCK, np.float16)
    assert not mo.check(narrow, expect=off)[1, BLOCK](wide, x).ok, "float32 knows better"
    assert mo.check(narrow, expect=off, rtol=0.01)[1, BLOCK](wide, x).ok
    assert mo.check(narrow, expect=off)[1, BLOCK](half, x).ok, "float16 does not"
    assert not mo.check(narrow, expect=off, rtol=1e-5)[1, BLOCK](half, x).ok
    ints = np.arange(BLOCK, dtype=np.int32)
    assert mo.check(narrow, expect=lambda x: x)[1, BLOCK](np.zeros_like(ints), ints).ok
    assert not mo.check(narrow, expect=lambda x: x + (x == 63), rtol=1.0)[1, BLOCK](np.zeros_like(ints), ints).ok
    with pytest.raises(ArgumentError, match="rtol is -1"):
        mo.check(narrow, expect=off, rtol=-1)


# --- the reference ---------------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    a: object
    b: object


@mo.kernel
def both(total, pair, difference):
    tid = mo.thread_idx().x
    total[tid] = pair.a[tid] + pair.b[tid]
    difference[tid] = pair.a[tid] - pair.b[tid]
    pair.a[tid] = 0


def both_checked(expect):
    a, b = np.arange(BLOCK, dtype=np.float32), np.ones(BLOCK, np.float32)
    return mo.check(both, expect=expect)[1, BLOCK](np.zeros_like(a), Pair(a, b), np.zeros_like(a))


def test_arguments_are_copies_from_before_the_launch():
    def expect(total, pair, difference):
        assert isinstance(pair, Pair) and pair.a[5] == 5
        result = pair.a + pair.b, np.zeros(BLOCK), pair.a - pair.b
        pair.a[:] = pair.b[:] = 77                      # it may do what it likes with them
        return result

    assert both_checked(expect).ok


def test_several_results_by_name_or_in_order():
    assert both_checked(lambda pair: {"difference": pair.a - pair.b}).ok, "what is not returned is not compared"
    report = both_checked(lambda pair: {"difference": pair.a, "total": pair.b})
    assert [f.tensor for f in report.findings] == ["total", "difference"]
    assert both_checked(lambda *all_: (all_[1].a + 1, np.zeros(BLOCK), all_[1].a - 1)).ok


@pytest.mark.parametrize(("expect", "message"), [
    (lambda pair: pair.a, "expect returned one array, and both writes 3: total, pair_a, difference"),
    (lambda pair: (pair.a, pair.b), "expect returned 2 arrays, and both writes 3"),
    (lambda pair: {"sum": pair.a}, "expect returned 'sum', and both writes total, pair_a, difference"),
    (lambda pair: {"total": pair.a[:-1]}, r"expect returned shape \(63,\) for total, which has shape \(64,\)"),
    (lambda pair: {"total": None}, "expect returned a NoneType for total, which is no array"),
    (lambda p, q: p, r"expect takes \(p, q\), and both has the parameters \(total, pair, difference\)"),
    (3, "expect is 3, and must be a function"),
])
def test_references_that_cannot_be(expect, message):
    with pytest.raises(ArgumentError, match=message):
        both_checked(expect)


def test_a_kernel_that_writes_nothing():
    @mo.kernel
    def idle(x):
        mo.sync_threads()

    with pytest.raises(ArgumentError, match="idle writes no argument"):
        mo.check(idle, expect=lambda x: x)[1, BLOCK](vectors()[0])


def test_the_reference_may_fail_as_it_likes():
    def expect(x):
        raise KeyError("mine")

    y, x = vectors()
    with pytest.raises(KeyError, match="mine"):
        mo.check(scale, expect=expect)[4, BLOCK](y, x, 2.0, 1)
    assert np.isnan(y).all(), "nothing ran"


# --- k-steps ---------------------------------------------------------------------------------------------------------


def product(A, B):
    return A.astype(np.float64) @ B.T.astype(np.float64)


@pytest.fixture
def multiply(tmp_path):
    """Run an example's matmul with its source edited; the message of its one finding V1."""
    def run(stem, *edits, K=64, expect=product, order=np.asfortranarray):
        source = (ROOT / "examples" / f"{stem}.py").read_text()
        for old, new in edits:
            assert old in source
            source = source.replace(old, new, 1)
        # A folder for each: bytecode of a file of the same size and second would be taken for this one's.
        path = Path(tempfile.mkdtemp(dir=tmp_path)) / f"{stem}.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location(stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        rng = np.random.default_rng(0)
        A, B = (order(rng.standard_normal((128, K), np.float32)) for _ in range(2))
        C = np.full((128, 128), np.nan, np.float32, order="F")
        report = module.matmul(A, B, C, kernel=mo.check(module.matmul_kernel, expect=expect))
        return [f for f in report.findings if f.code == "V1"]
    return run


GEMM = "        mo.gemm(mma_C, tCsA, tCsB, tCrC)"


def test_a_right_matmul(multiply):
    assert multiply("03_matmul_tiled") == []


@pytest.mark.slow
@pytest.mark.parametrize(("edit", "message"), [
    (("tBgB[:, :, :, k])", "tBgB[:, :, :, k - (k == 5)])"),
     "the accumulator is right up to k-step 4 and wrong from k-step 5 on (of 8, counted from 0)"),
    ((GEMM, "        if k == 2 and tid == 100:\n            tCrC.fill(0)\n" + GEMM),
     "the accumulator is right up to k-step 1 and wrong from k-step 2 on (of 8, counted from 0)"),
    (("tCrC.fill(0)", "tCrC.fill(1)"), "the accumulator is 1 before the first k-step, and 0 is expected there"),
    (("for k in range(mo.size(tAgA, 3)):", "for k in range(mo.size(tAgA, 3) - 1):"),
     "the accumulator is right for each of the 7 k-steps that the block loads: the expected value takes more"),
    (("    mo.copyto(tCgC, tCrC)", "    if tid == 9:\n        tCrC[...] = tCrC + 1\n    mo.copyto(tCgC, tCrC)"),
     "its k-step is not known: more than copies and conversions lie between"),
    ((GEMM, "        if k != 3:\n    " + GEMM),
     "its k-step is not known: the products are not evenly spread over what the block reads"),
    ((GEMM, "        if k != 3 or tid != 5:\n    " + GEMM),
     "its accumulator gets 56 matrix products, and that of C(0, 0), which is right, 64"),
])
def test_k_steps(multiply, edit, message):
    found, = multiply("03_matmul_tiled", edit)
    assert message in found.message
    assert "from register tCrC(0, 0, 0)" in found.message and found.block == (0, 0, 0)
    assert ["copyto(tCgC, tCrC)" in found.locs[0].render(), "mo.gemm" in found.locs[-1].render()] == [True, True]


def test_a_stage_that_is_not_switched(multiply):
    """The classic of a double-buffered loop: one tile is used twice, the next one never."""
    found, = multiply("09_matmul_double_buffered", (
        "smem_read, smem_write = smem_write, smem_read",
        "smem_read, smem_write = smem_write, smem_read\n                if k_tile == 3:\n"
        "                    smem_read = smem_write"))
    assert re.search(r"right up to k-step 3 and wrong from k-step 4 on .of 8, .*; it adds what k-step 3 is to add",
                     found.message)


def test_a_reference_that_is_not_linear_says_nothing_of_steps(multiply):
    found, = multiply("03_matmul_tiled", expect=lambda A, B: np.exp(A.astype(np.float64) @ B.T))
    assert "its k-step is not known" in found.message


def test_a_tensor_core_matmul(multiply):
    """Accumulators of fragments that a warp shares, stored as they are."""
    def columns_and_rows(x):
        columns_and_rows.turn = not getattr(columns_and_rows, "turn", False)
        return np.asfortranarray(x) if columns_and_rows.turn else np.ascontiguousarray(x)

    assert multiply("10_matmul_tensor_core", order=columns_and_rows) == []
    found, = multiply("10_matmul_tensor_core", ("tCrC.fill(0)", "tCrC.fill(2)"), order=columns_and_rows)
    assert "the accumulator is 2 before the first k-step, and 0 is expected there" in found.message
    found, = multiply("10_matmul_tensor_core", ("tBgB[:, :, :, k])", "tBgB[:, :, :, k - (k == 6)])"),
                      order=columns_and_rows)
    assert "right up to k-step 5 and wrong from k-step 6 on (of 8" in found.message


@mo.kernel
def through_shared(A, B, C, mma, fault: mo.Constexpr):
    """C in float16, through shared memory: a thread stores what another one summed."""
    tid = mo.thread_idx().x
    sC = mo.shared_array(mo.float16, mo.make_layout((16, 16), (1, 18)))         # (M, N)
    thr_mma = mma.get_slice(tid)
    tCsC = thr_mma.partition_C(sC)                      # (MMA, MMA_M, MMA_N)
    tCrC = mo.make_fragment_like(tCsC, mo.float32)      # (MMA, MMA_M, MMA_N)
    tCrC.fill(0)
    for k in range(mo.size(A, 1) // 4):
        gA = mo.tile(A, (16, 4), (0, k))                # (M, 4)
        gB = mo.tile(B, (16, 4), (0, k))                # (N, 4)
        tCrA = mo.make_fragment_like(thr_mma.partition_A(gA))
        tCrB = mo.make_fragment_like(thr_mma.partition_B(gB))
        mo.copyto(tCrA, thr_mma.partition_A(gA))
        mo.copyto(tCrB, thr_mma.partition_B(gB))
        if fault and k == 2 and tid == 7:
            tCrB.fill(0)
        mo.gemm(mma, tCrA, tCrB, tCrC)
    narrow = mo.make_fragment_like(tCrC, mo.float16)
    narrow[...] = tCrC
    mo.copyto(tCsC, narrow)
    mo.sync_threads()
    for column in mo.static_range(4):
        C[tid % 16, tid // 16 + 4 * column] = sC[tid % 16, tid // 16 + 4 * column]


@pytest.mark.parametrize("fault", [False, True])
def test_an_epilogue_through_shared_memory(fault):
    rng = np.random.default_rng(1)
    A, B = (np.asfortranarray(rng.standard_normal((16, 32), np.float32)) for _ in range(2))
    C = np.zeros((16, 16), np.float16, order="F")
    mma = mo.make_tiled_mma(mo.UniversalFMA(mo.float32), mo.make_layout((8, 8)))
    report = mo.check(through_shared, expect=product)[1, 64](A, B, C, mma, fault)
    assert report.ok is not fault, str(report)
    if fault:
        found, = report.findings
        assert found.threads == (7,) and "stored it from register narrow(0, 0, 0)" in found.message, found.message
        assert "right up to k-step 1 and wrong from k-step 2 on (of 8" in found.message
        assert "; the step adds nothing" in found.message


@mo.kernel
def shares(out, total, x, together: mo.Constexpr):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    mo.atomic_add(total, 0, x[bid * 32 + tid])
    if together:
        mo.grid_sync()
    out[bid * 32 + tid] = x[bid * 32 + tid] / mo.load(total, 0)


@pytest.mark.parametrize("together", [False, True])
def test_a_result_that_is_right_in_the_first_schedule_alone(together):
    x, out, total = np.arange(128, dtype=np.float32), np.zeros(128, np.float32), np.zeros(1, np.float32)
    report = mo.check(shares, expect=lambda x: {"out": x / x.sum()})[4, 32](out, total, x, together)
    assert np.allclose(out, x / x.sum()) and total[0] == x.sum(), "outputs are those of the first schedule"
    if together:
        assert report.ok and report.schedules == 3
        return
    found, = report.findings
    assert found.code == "V1" and "another schedule than the first, in which it is right" in found.message
    assert "let a barrier, or a wait for a value, stand between" in found.hint
    assert mo.check(shares)[4, 32](out, np.zeros(1, np.float32), x, together).ok, "no rule is broken"


@mo.kernel
def peeks(out, x, barrier: mo.Constexpr):
    tid, sums = mo.thread_idx().x, mo.shared_array(mo.int32, 32)
    if tid < 32:
        sums[tid] = 0
    mo.sync_threads()
    mo.atomic_add(sums, tid % 32, x[tid])
    if barrier:
        mo.sync_threads()
    if tid < 32:
        out[tid] = mo.load(sums, tid, scope="cta")


@pytest.mark.parametrize("barrier", [False, True])
def test_a_result_that_counts_on_stores_which_loads_may_miss(barrier):
    x, out = np.arange(128, dtype=np.int32), np.zeros(32, np.int32)
    report = mo.check(peeks, expect=lambda x: x.reshape(4, 32).sum(0))[1, 128](out, x, barrier)
    assert (out == x.reshape(4, 32).sum(0)).all()
    assert [found.code for found in report.findings] == ([] if barrier else ["V1"])
    if not barrier:
        assert "a load may miss a store that nothing orders before it, and does here" in report.findings[0].message


def test_a_result_that_is_wrong_in_every_schedule_is_told_once():
    x, out, total = np.arange(128, dtype=np.float32), np.zeros(128, np.float32), np.zeros(1, np.float32)
    found, = mo.check(shares, expect=lambda x: {"out": x})[4, 32](out, total, x, True).findings
    assert found.block is not None and "another schedule" not in found.message


@mo.kernel
def mirrored(y, x):
    tid = mo.thread_idx().x
    y[tid] = x[mo.size(x) - 1 - tid]


@pytest.mark.parametrize("dtype", ["float8_e5m2", "float8_e4m3fn", "bfloat16", "bool"])
def test_dtypes_that_numpy_does_not_know_by_name(dtype):
    x = np.arange(32).astype(getattr(ml_dtypes, dtype, dtype))[::2]
    y = np.zeros(32, x.dtype)[::2]
    assert mo.check(mirrored, expect=lambda y, x: x[::-1])[1, 16](y, x).ok and (y == x[::-1]).all()


@mo.kernel
def dealt_out(out, x, head):
    """A block takes item after item, and looks for the next one before all of its warps have."""
    tid, ticket = mo.thread_idx().x, mo.shared_array(mo.int32, 1)
    if tid == 0:
        ticket[0] = mo.atomic_add(head, 0, 1)
    mo.sync_threads()
    item = ticket[0]
    while item < mo.size(x, 1):
        mo.atomic_add(out, item, x[tid, item])
        if tid == 0:
            ticket[0] = mo.atomic_add(head, 0, 1)
        if tid < 32:
            mo.sync_threads()
        item = ticket[0]


def test_a_wrong_result_of_threads_that_poll_without_end():
    """The block runs once more to see where the wrong element comes from, and goes round there, too."""
    x = np.asfortranarray(np.random.default_rng(0).integers(-5, 6, (64, 11)).astype(np.int32))
    out, head = np.zeros(11, np.int32), np.zeros(1, np.int32)
    report = mo.check(dealt_out, expect=lambda x: {"out": x.sum(0)})[3, 64](out, x, head)
    assert {"C1", "F4", "V1"} <= {finding.code for finding in report.findings}, str(report)
