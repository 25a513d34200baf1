"""mbarriers, tensor copies, wgmma and clusters in the simulator: values against NumPy, faults by class and line."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
import tma_kernels
import wgmma_kernels
from hopper_kernels import run_gemm, run_loads, run_persistent, run_registers, run_stores
from moye.sim.machine import machine
from moye.sim.operations.tma import swizzled
from moye.sim.operations.wgmma import operand_bytes

TIMES = (False, True)


def source_line(finding, which=0):
    """The text of the line that a finding points at."""
    frame = finding.locs[which].innermost
    return open(frame.file).read().splitlines()[frame.line - 1].strip()


# --- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("earliest", TIMES)
@pytest.mark.parametrize(("shape", "stages"), [((256, 256, 256), 2), ((128, 384, 64), 4), ((256, 128, 320), 3)])
def test_gemm(shape, stages, earliest):
    """Ragged along k, fewer k-tiles than stages, several blocks."""
    report, C, expected = run_gemm(shape, stages=stages, earliest=earliest, timeline=True)
    assert report.ok, str(report)
    np.testing.assert_allclose(C, expected, rtol=0, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("earliest", TIMES)
@pytest.mark.parametrize(("shape", "grid"), [((256, 256, 256), 3), ((256, 200, 136), 1), ((200, 256, 320), 5)])
def test_persistent_blocks(shape, grid, earliest):
    """Blocks with different numbers of tiles, ragged ones too; the last group of a tile stays in flight."""
    report, C, expected = run_persistent(shape, grid, earliest=earliest)
    assert report.ok, str(report)
    np.testing.assert_allclose(C, expected, rtol=0, atol=1e-3)


def test_batches_begin_afresh(monkeypatch):
    """Two blocks at a time: nothing is left of the ones before."""
    monkeypatch.setattr(machine, "LANES", 2 * 384)
    report, C, expected = run_gemm((384, 256, 128), stages=2)
    assert report.ok, str(report)
    np.testing.assert_allclose(C, expected, rtol=0, atol=1e-3)


def test_gemm_unchecked(monkeypatch):
    monkeypatch.setenv("MOYE_CHECK", "0")
    _, C, expected = run_gemm((256, 256, 192), check=False)
    np.testing.assert_allclose(C, expected, rtol=0, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", tma_kernels.CASES)
def test_boxes(name):
    """Every tile read, copied and written, as NumPy cuts them."""
    case = tma_kernels.CASES[name]
    dtype = np.dtype(getattr(np, case.dtype.name))
    rng, threads = np.random.default_rng(0), tma_kernels.BLOCK
    source = case.array(lambda shape: rng.integers(-9, 9, shape).astype(dtype))
    tiles = case.tiles(source)
    for earliest in TIMES:
        out = np.full_like(tiles, 77)
        report = mo.check(tma_kernels.read_kernel, earliest=earliest)[case.grid, threads](
            case.copy(mo.TmaLoad(), source), out)
        assert report.ok, str(report)
        np.testing.assert_array_equal(out, tiles)
    copied, written = (case.array(lambda shape: np.full(shape, 55, dtype)) for _ in range(2))
    report = mo.check(tma_kernels.copy_kernel)[case.grid, threads](case.copy(mo.TmaLoad(), source),
                                                                   case.copy(mo.TmaStore(), copied))
    assert report.ok, str(report)
    np.testing.assert_array_equal(copied, source)
    report = mo.check(tma_kernels.write_kernel)[case.grid, threads](case.copy(mo.TmaStore(), written), tiles)
    assert report.ok, str(report)
    np.testing.assert_array_equal(written, source)


def test_boxes_are_added():
    case = tma_kernels.CASES["float32-k-128-1"]
    target = case.array(lambda shape: np.full(shape, 2, np.float32))
    tiles = case.tiles(case.array(lambda shape: np.arange(np.prod(shape), dtype=np.float32).reshape(shape)))
    expected = case.array(lambda shape: np.arange(np.prod(shape), dtype=np.float32).reshape(shape)) + 2
    mo.check(tma_kernels.write_kernel)[case.grid, tma_kernels.BLOCK](case.copy(mo.TmaReduceAdd(), target), tiles)
    np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize("earliest", TIMES)
def test_ring_of_stages(earliest):
    """Refilled between barriers; the sums of integers are exact."""
    array = np.random.default_rng(2).integers(-9, 9, (96, 7 * 32)).astype(np.float32)
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (32, 32))
    out = np.zeros((32 * 32, 3), np.float32, order="F")
    report = mo.check(tma_kernels.stages_kernel, earliest=earliest)[3, tma_kernels.BLOCK](
        mo.make_tma_copy(mo.TmaLoad(), array, layout), out, 3)
    assert report.ok, str(report)
    sums = array.reshape(3, 32, 7, 32).sum(axis=2)
    np.testing.assert_array_equal(out, np.stack([tile.ravel("F") for tile in sums], axis=1))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(wgmma_kernels.CASES)[::6])
def test_products(name):
    case = wgmma_kernels.CASES[name]
    arguments = case.arguments(np.random.default_rng(1))
    expected = wgmma_kernels.expected(arguments)
    report = mo.check(wgmma_kernels.wgmma_kernel)[1, case.threads](*arguments)
    assert report.ok, str(report)
    found = np.asarray(arguments[0], np.float64)
    assert np.abs(found - expected).max() <= wgmma_kernels.tolerance(case.op) * max(1, np.abs(expected).max())


def test_multicast():
    """Two blocks load a half of each tile for both."""
    array = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (32, 64))
    out = np.full((32 * 64, 4), -1, np.float32, order="F")
    copy = mo.make_tma_copy(mo.TmaLoad(), array, layout, multicast=2)
    tma_kernels.multicast_kernel.launch(copy, out, grid=4, block=tma_kernels.BLOCK, cluster=2)
    np.testing.assert_array_equal(out, np.stack([array[i // 2 * 32:][:32].ravel("F") for i in range(4)], axis=1))


@mo.kernel
def one_warpgroup(C: mo.Static, A, B, mma, first: mo.Constexpr):
    """Four warps from thread ``first`` on multiply, one of the others loads."""
    sA, sB = mo.shared_array(A.dtype, A.smem_layout), mo.shared_array(B.dtype, B.smem_layout)
    full, tid = mo.mbarrier_array(1), mo.thread_idx().x
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    acc = mma.partition_fragment_C((64, 64))
    if tid >= first and tid < first + 128:
        thr = mma.get_slice((tid - first) % 128)
        mo.mbarrier_wait(full, 0, 0)
        mo.warpgroup_arrive()
        mo.gemm(mma, thr.partition_fragment_A(sA), thr.partition_fragment_B(sB), acc, accumulate=False)
        mo.warpgroup_commit_batch()
        mo.warpgroup_wait(0)
        mo.copyto(thr.partition_C(C), acc)
    elif tid == (128 if first == 0 else 0):
        mo.mbarrier_arrive_expect_tx(full, 0, A.bytes + B.bytes)
        mo.copyto(A, sA, mo.tile(A.tensor, A.tile, (0, 0)), barrier=(full, 0))
        mo.copyto(B, sB, mo.tile(B.tensor, B.tile, (0, 0)), barrier=(full, 0))


@pytest.mark.parametrize("earliest", TIMES)
@pytest.mark.parametrize(("first", "threads", "codes"), [(0, 160, []), (0, 192, []), (128, 288, []), (128, 256, []),
                                                         (32, 160, ["E6", "B7"]), (128, 384, [])])
def test_blocks_of_any_number_of_warps(first, threads, codes, earliest):
    """A producer warp beside a warpgroup; four warps that do not begin at a multiple of 128 threads are none."""
    rng = np.random.default_rng(0)
    A, B = (rng.standard_normal((64, 64)).astype(np.float16) for _ in range(2))
    C = np.full((64, 64), np.nan, np.float32)
    mma = mo.make_tiled_mma(mo.mma.wgmma(mo.float16, mo.float16, mo.float32, 64))
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float16, "k"), (64, 64))
    copies = [mo.make_tma_copy(mo.TmaLoad(), array, layout) for array in (A, B)]
    report = mo.check(one_warpgroup, earliest=earliest)[1, threads](C, *copies, mma, first)
    assert [finding.code for finding in report.findings] == codes and not report.unsupported, str(report)
    if not codes:
        np.testing.assert_allclose(C, A.astype(np.float64) @ B.astype(np.float64).T, rtol=0, atol=1e-3)


# --- where bytes lie -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("span", [0, 32, 64, 128])
def test_swizzle(span):
    """Chunk xor row, within 8 rows of the span: as the layout's own swizzle says."""
    address = np.arange(4096)
    bits = {0: 0, 32: 1, 64: 2, 128: 3}[span]
    expected = [mo.Swizzle(bits, 4, 3)(int(x)) for x in address]
    np.testing.assert_array_equal(swizzled(address, span), expected)


COMPACT = {
    ("k", 0): (128, 256), **{("k", span): (16, 8 * span) for span in (32, 64, 128)},
    ("mn", 0): (1024, 128), **{("mn", span): (16 * span, 8 * span) for span in (32, 64, 128)},
}
"""Leading and stride byte offsets of 64 rows and 16 k of two bytes."""


@pytest.mark.parametrize(("major", "span"), COMPACT)
def test_descriptors_cover_their_tile(major, span):
    """Every element has two bytes of its own, and runs of 16 bytes lie along the major mode."""
    found = operand_bytes(64, 16, 2, major, (*COMPACT[major, span], span))
    assert len(np.unique(found)) == found.size
    run = found[:8, 0] if major == "mn" else found[0, :8]
    np.testing.assert_array_equal(np.diff(run), 2)


# --- faults ----------------------------------------------------------------------------------------------------------

GEMM_FAULTS = {
    "count": (["D9"], "mbarrier_wait(empty"), "init-fence": (["D10"], "mo.mbarrier_init(full"),
    "init-barrier": (["D10", "D10"], "mo.mbarrier_init(empty"),
    "every-lane": (["D9", "D21", "D21"], "mbarrier_arrive_expect_tx"),
    "no-empty-wait": (["F1"], "mbarrier_arrive_expect_tx"), "released-first": (["F1"], "mbarrier_arrive(empty"),
    "producer-parity": (["F4"], "mbarrier_wait(empty"), "few-bytes": (["D7", "D7", "D18", "D18"], "mo.copyto(B"),
    "many-bytes": (["D7"], "mbarrier_wait(empty"), "no-arrive": (["E1"], "mo.gemm"), "first-k": (["E5"], "mo.gemm"),
    "no-full-wait": (["D6", "D6"], "mo.copyto(A"), "consumer-parity": (["D8", "D8"], "mo.copyto(A"),
    "early-release": (["E3", "E3", "E2"], "mo.gemm"), "trips": (["F3"], "mbarrier_wait(full"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", GEMM_FAULTS)
def test_faults_of_the_gemm(fault):
    """All its findings in order, and the line of the first."""
    codes, line = GEMM_FAULTS[fault]
    report, _, _ = run_gemm((256, 256, 256), stages=2, fault=fault)
    assert [finding.code for finding in report.findings] == codes, str(report)
    assert line in source_line(report.findings[0])


FAULTS = {
    (run_stores, "no-fence"): ["D12"], (run_stores, "other-fence"): ["D14"], (run_stores, "late-fence"): ["D12"],
    (run_stores, "no-wait"): ["D15", "D18"], (run_stores, "other-wait"): ["D16", "D18"],
    (run_stores, "no-last-wait"): ["D18"], (run_stores, "no-commit"): ["D15", "D18"],
    (run_stores, "no-barrier"): ["D15"],
    (run_loads, "no-wait"): ["D6"], (run_loads, "one-waits"): ["D6"],
    (run_loads, "no-expect"): ["D7"], (run_loads, "no-barrier"): ["D13"], (run_loads, "init-again"): ["D11"],
    (run_loads, "stored"): ["D11"],
    (run_loads, "overwrite"): ["D13", "D13"],
    (run_registers, "no-fence"): ["D12"], (run_registers, "touched"): ["E1"], (run_registers, "one-warp"): ["E6", "B7"],
    (run_registers, "changed"): ["E4"], (run_registers, "refilled"): ["E3"], (run_registers, "no-wait"): ["E2", "D18"],
}
WRONG = ("no-wait", "other-wait", "no-commit", "changed", "refilled")
"""Faults that show in values, where asynchronous operations come as late as they may."""


@pytest.mark.parametrize("run", [run_stores, run_loads, run_registers])
@pytest.mark.parametrize("earliest", TIMES)
def test_without_a_fault(run, earliest):
    report, found, expected = run(earliest=earliest)
    assert report.ok, str(report)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("run", "fault"), FAULTS)
def test_faults(run, fault):
    report, found, expected = run(fault)
    assert [finding.code for finding in report.findings] == FAULTS[run, fault], str(report)
    if fault in WRONG:
        assert not np.allclose(found, expected, atol=1e-2)


def test_a_deadlock_says_who_lacks_what():
    report, _, _ = run_gemm((128, 128, 256), stages=2, fault="many-bytes")
    message = report.findings[-1].message
    assert "warps 0-7 wait for phase 0 of full(0)" in message
    assert "which lacks 16 bytes" in message
    assert "thread 256 waits for phase 0 of empty(0)" in message
    assert "2 of 2 arrivals" in message


def test_a_rank_that_the_cluster_does_not_have():
    @mo.kernel
    def kernel(out):
        bars = mo.mbarrier_array(1)
        if mo.thread_idx().x == 0:
            mo.mbarrier_init(bars, 0, 1)
            mo.fence_mbarrier_init()
        mo.cluster_sync()
        if mo.thread_idx().x == 7:
            mo.mbarrier_arrive(bars, 0, cta=out.shape[0])
        mo.cluster_sync()

    with pytest.raises(mo.SimulationError, match=r"thread 7 of .* addresses block 5 .* of its cluster of 2") as found:
        kernel.launch(np.zeros(5, np.int32), grid=2, block=32, cluster=2)
    assert found.value.code == "D20" and found.value.finding.threads == (7,)


# --- atomics on what a tensor copy brings ----------------------------------------------------------------------------


@mo.kernel
def bump(out, A, waits: mo.Constexpr):
    sA = mo.shared_array(A.dtype, A.smem_layout)        # (32, 32)
    full = mo.mbarrier_array(1)
    tid = mo.thread_idx().x
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid == 0:
        mo.mbarrier_arrive_expect_tx(full, 0, A.bytes)
        mo.copyto(A, sA, mo.tile(A.tensor, A.tile, (0, 0)), barrier=(full, 0))
    if waits:
        mo.mbarrier_wait(full, 0, 0)
    mo.atomic_add(sA, (tid, 0), 1.0)
    mo.mbarrier_wait(full, 0, 0)
    out[tid] = sA[tid, 0]


@pytest.mark.parametrize("waits", [True, False])
def test_an_atomic_on_a_tile_waits_for_it_as_a_read_does(waits):
    A, out = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32), np.zeros(32, np.float32)
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (32, 32))
    report = mo.check(bump)[1, 32](out, mo.make_tma_copy(mo.TmaLoad(), A, layout), waits)
    assert {finding.code for finding in report.findings} == (set() if waits else {"D6"})
    if waits:
        assert np.array_equal(out, A[:, 0] + 1)
    else:
        assert "is updated by thread 0" in report.findings[0].message
        assert source_line(report.findings[0], 1) == "mo.atomic_add(sA, (tid, 0), 1.0)"
