"""Bulk copies in the simulator, with its checks on: values against NumPy, faults by class and line."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

import moye as mo
from bulk_faults import RUN, run_loads, run_segments, run_sends, run_stores
from bulk_kernels import (
    BLOCK,
    add_kernel,
    copy_kernel,
    multicast_kernel,
    rows_kernel,
    send_kernel,
    stages_kernel,
    tile_kernel,
)
from moye.sim.checks import clocks
from ops_kernels import numpy_of, poison

TIMES = (False, True)
DTYPES = (mo.int8, mo.uint8, mo.int16, mo.float16, mo.bfloat16, mo.float8_e4m3fn, mo.int32, mo.float32, mo.int64,
          mo.float64)
ADDED = (mo.float16, mo.bfloat16, mo.float32, mo.float64, mo.int32, mo.uint32, mo.int64, mo.uint64)


def normal(shape, dtype, seed=0):
    """Random-normal values, of integers eight times as wide."""
    values = np.random.default_rng(seed).standard_normal(shape) * (1 if dtype.is_float else 8)
    return np.asfortranarray(np.abs(values) if dtype.kind.name == "UINT" else values).astype(numpy_of(dtype))


def check(kernel, grid, *arguments, block=BLOCK, cluster=1, earliest=False):
    report = mo.check(kernel, earliest=earliest).launch(*arguments, grid=grid, block=block, cluster=cluster)
    assert report.ok, str(report)


# --- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_copies(dtype):
    """Full runs, and a last one of 16 bytes, of all but 16 bytes, of one element more than half."""
    part = 16 // dtype.bytes
    for n, earliest in itertools.product((3 * 512, 2 * 512 + part, 3 * 512 - part, 2 * 512 + 256 + part, part), TIMES):
        x, out = normal(n, dtype), poison(n, dtype)
        check(copy_kernel, -(-n // 512), out, x, 512, earliest=earliest)
        assert out.tobytes() == x.tobytes()


def test_a_length_that_is_no_multiple_of_16_bytes_is_refused_at_launch():
    x = np.ones(1022, np.float32)
    with pytest.raises(mo.PreconditionError, match="assumption"):
        copy_kernel[1, BLOCK](np.empty_like(x), x, 1024)


@pytest.mark.parametrize("layout", ["512:1", "(16,32):(32,1)", "((4,4),(8,4)):((1,32),(4,128))"])
def test_tiles_in_any_order_of_modes(layout):
    layout = mo.layout.parse(layout)
    for dtype, earliest in itertools.product((mo.float16, mo.float32), TIMES):
        x, out = normal(3 * 512, dtype), poison(3 * 512, dtype)
        check(tile_kernel, 3, out, x, layout, earliest=earliest)
        np.testing.assert_array_equal(out, x + x)


@pytest.mark.parametrize("width", [4, 24, 128])
def test_each_lane_copies_a_row(width):
    """Lanes of one warp that copy different runs are no fault."""
    x, out = (np.ascontiguousarray(a) for a in (normal((32, 3 * width), mo.float32), poison((32, 3 * width), "f4")))
    for earliest in TIMES:
        check(rows_kernel, 3, out, x, width, earliest=earliest)
        np.testing.assert_array_equal(out, x[::-1])


@pytest.mark.parametrize(("stages", "count"), [(2, 5), (3, 7), (4, 2), (4, 4)])
def test_a_ring_of_stages(stages, count):
    """More stages than columns, too."""
    x = normal((512, count), mo.float32)
    for earliest in TIMES:
        out = poison(512, mo.float32)
        check(stages_kernel, 2, out, x, 256, stages, block=BLOCK + 32, earliest=earliest)
        np.testing.assert_allclose(out, x.astype(np.float64).sum(axis=1), rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", ADDED, ids=str)
def test_reductions(dtype):
    """Six blocks add to two runs; what was there stays in the sum."""
    x, before = normal(6 * 256, dtype), normal(512, dtype, 1)
    wanted = before.astype(np.float64) + x.astype(np.float64).reshape(3, 512).sum(axis=0)
    for earliest, hint in itertools.product(TIMES, (None, "evict_last")):
        out = before.copy()
        check(add_kernel, 6, out, x, 256, hint, earliest=earliest)
        tolerance = {"float16": 8e-3, "bfloat16": 6e-2, "float32": 1e-5}.get(dtype.name, 1e-12)
        np.testing.assert_allclose(out.astype(np.float64), wanted, rtol=0, atol=tolerance)


@pytest.mark.parametrize("blocks", [2, 4])
def test_multicast(blocks):
    """Each block loads a part for all."""
    x = normal(512 * 2, mo.float16)
    for earliest in TIMES:
        out = poison((512, 2 * blocks), mo.float16).T.copy().T
        check(multicast_kernel, 2 * blocks, out, x, 512, None, cluster=blocks, earliest=earliest)
        np.testing.assert_array_equal(out, np.repeat(x.reshape(2, 512), blocks, axis=0).T)


@pytest.mark.parametrize("swizzled", [False, True])
@pytest.mark.parametrize(("blocks", "rounds"), [(2, 0), (2, 1), (2, 2), (4, 3)])
def test_round_a_cluster(blocks, rounds, swizzled):
    """To the next block of the cluster, which is the block itself where there is but one."""
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (16, 32)) if swizzled else mo.make_layout(512)
    x = normal((512, 2 * blocks), mo.float32)
    wanted = np.roll(x.reshape(512, 2, blocks), rounds, axis=2).reshape(x.shape)
    for earliest in TIMES:
        out = poison(x.shape, mo.float32).T.copy().T
        check(send_kernel, 2 * blocks, out, x, layout, rounds, cluster=blocks, earliest=earliest)
        np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("earliest", TIMES)
def test_segments(earliest):
    """Starts and lengths from memory, one of them nothing at all."""
    for starts, sizes in (((0, 100, 1004), (100, 904, 44)), ((8, 8, 0), (8, 0, 16))):
        report, found, expected = run_segments(starts, sizes, earliest=earliest)
        assert report.ok, str(report)
        np.testing.assert_array_equal(found, expected)


def test_unchecked(monkeypatch):
    """Without checks other code is generated: the same results."""
    monkeypatch.setenv("MOYE_CHECK", "0")
    x, out = normal(1300, mo.float32), poison(1300, mo.float32)
    copy_kernel[3, BLOCK](out, x, 512)
    np.testing.assert_array_equal(out, x)
    y, out = normal((512, 4), mo.float32), poison((512, 4), mo.float32).T.copy().T
    send_kernel.launch(out, y, mo.make_layout(512), 1, grid=4, block=BLOCK, cluster=2)
    np.testing.assert_array_equal(out, y[:, [1, 0, 3, 2]])


def test_operations_are_arguments():
    """Static ones, told apart by what they do."""
    @mo.kernel
    def kernel(out, x, copy):
        smem, gO, tid = mo.shared_array(x.dtype, 128), mo.tile(out, (128,), (0,)), mo.thread_idx().x
        smem[tid] = x[tid]
        mo.fence_proxy_async()
        mo.sync_threads()
        if tid == 0:
            mo.copyto(copy, gO, smem)
            mo.tma_store_arrive()
            mo.tma_store_wait(0)

    x, out = normal(128, mo.float32), poison(128, mo.float32)
    for count, copy in enumerate((mo.BulkCopy(), mo.BulkReduceAdd(), mo.BulkReduceAdd()), 1):
        kernel[1, 128](out, x, copy)
        np.testing.assert_allclose(out, count * x.astype(np.float64), rtol=1e-6)
    assert [str(mo.BulkCopy()), str(mo.BulkReduceAdd())] == ["BulkCopy()", "BulkReduceAdd()"]


@pytest.mark.parametrize("refilled", [False, True])
def test_what_a_predicated_copy_leaves(refilled):
    """B8, unless a bulk copy fills the tile in between."""
    @mo.kernel
    def kernel(out, x, refilled: mo.Constexpr):
        smem, bars, tid = mo.shared_array(x.dtype, 128), mo.mbarrier_array(1), mo.thread_idx().x
        gX = mo.tile(x, (128,), (None,))                                # (128, 3)
        if tid == 0:
            mo.mbarrier_init(bars, 0, 1)
            mo.fence_mbarrier_init()
        mo.sync_threads()
        for t in range(2):
            if refilled:
                if tid == 0:
                    mo.mbarrier_arrive_expect_tx(bars, 0, 512)
                    mo.copyto(mo.BulkCopy(), smem, gX[:, 2], barrier=(bars, 0))
                mo.mbarrier_wait(bars, 0, t)
                mo.sync_threads()
            mo.copyto(mo.tile(smem, (1,), (tid,)), mo.tile(gX[:, t], (1,), (tid,)), pred=tid < 128 - 64 * t)
            mo.fence_proxy_async()                                      # the next copy overwrites it
            mo.sync_threads()
            out[tid, t] = smem[127 - tid]
            mo.sync_threads()

    x, out = normal(384, mo.float32), np.asfortranarray(poison((128, 2), mo.float32))
    report = mo.check(kernel, lints=False)[1, 128](out, x, refilled)
    assert [finding.code for finding in report.findings] == ([] if refilled else ["B8"]), str(report)
    if refilled:
        np.testing.assert_array_equal(out[:, 0], x[127::-1])
        np.testing.assert_array_equal(out[:, 1], np.concatenate([x[128:192], x[320:]])[::-1])


# --- faults ----------------------------------------------------------------------------------------------------------

FAULTS = {
    (run_stores, "no-fence"): (["D12"], "smem[i] ="), (run_stores, "late-fence"): (["D12"], "smem[i] ="),
    (run_stores, "other-fence"): (["D14"], "smem[i] ="), (run_stores, "every-lane"): (["D21"], "mo.copyto("),
    (run_stores, "same-run"): (["G1"], "mo.copyto("), (run_stores, "outside"): (["B1"], "mo.copyto("),
    (run_stores, "shifted"): (["B2"], "mo.copyto("), (run_stores, "no-commit"): (["D15", "D18"], "mo.copyto("),
    (run_stores, "no-wait"): (["D15", "D18"], "mo.copyto("), (run_stores, "no-last-wait"): (["D18"], "mo.copyto("),
    (run_stores, "other-wait"): (["D16", "D18"], "mo.copyto("), (run_stores, "no-barrier"): (["D15"], "mo.copyto("),
    (run_stores, "read-back-early"): (["D17"], "mo.copyto("),
    (run_loads, "no-expect"): (["D7"], "mo.mbarrier_wait("), (run_loads, "init-again"): (["D11"], "mo.mbarrier_init("),
    (run_loads, "no-wait"): (["D6"], "mo.copyto("), (run_loads, "one-waits"): (["D6"], "mo.copyto("),
    (run_loads, "overwrite"): (["D13", "D13"], "smem[tid] ="), (run_loads, "no-barrier"): (["D13"], "out[i, 2 * bx"),
    (run_sends, "block-barrier"): (["D10"], "mo.mbarrier_init("), (run_sends, "no-fence"): (["D12"], "mine[i] ="),
    (run_sends, "every-lane"): (["D21", "D7"], "mo.copyto("), (run_sends, "few-bytes"): (["D7"], "mo.mbarrier_wait("),
    (run_sends, "refilled"): (["D15"], "mo.copyto("), (run_sends, "no-barrier"): (["D15", "D13"], "mo.copyto("),
    (run_sends, "relaxed"): (["D15", "D13"], "mo.copyto("),
    (run_sends, "within"): (["D15", "D13", "D18"], "mo.copyto("),
    (run_sends, "no-wait"): (["D6", "D15", "D18"], "mo.copyto("),
}
WRONG = ("no-wait", "other-wait", "no-commit", "refilled")
"""Faults that show in values, where asynchronous operations come as late as they may."""


def source_line(finding):
    frame = finding.locs[0].innermost
    return open(frame.file).read().splitlines()[frame.line - 1].strip()


@pytest.mark.parametrize("earliest", TIMES)
def test_without_a_fault(earliest):
    for run, options in ((run_stores, {}), (run_stores, {"adds": True}), (run_stores, {"fault": "read-back"}),
                         (run_loads, {}), (run_loads, {"count": 512}), (run_loads, {"fault": "prefetch"}),
                         (run_sends, {}), (run_sends, {"fault": "relaxed-end"}), (run_segments, {})):
        report, found, expected = run(earliest=earliest, **options)
        assert report.ok, str(report)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize(("run", "fault"), FAULTS)
def test_faults(run, fault):
    """All findings in order, and the line of the first."""
    codes, line = FAULTS[run, fault]
    report, found, expected = run(fault)
    assert [finding.code for finding in report.findings] == codes, str(report)
    assert line in source_line(report.findings[0]), str(report)
    if fault in WRONG:
        assert not np.array_equal(found, expected)


def test_additions_are_atomic():
    """Blocks that add to one run are no race; a warp that adds it 32 times is a fault."""
    report, _, _ = run_stores("same-run", adds=True)
    assert report.ok, str(report)
    report, _, _ = run_stores("every-lane", adds=True)
    assert [finding.code for finding in report.findings] == ["D21"]


@pytest.mark.parametrize(("options", "code", "told"), [
    ({"offset": RUN // 2}, "B1", r"reads A\(4096\) .* in a run of 4096 bytes"),
    ({"offset": -16}, "B1", r"reads A\(-16\)"),
    ({"offset": RUN // 2, "fault": "prefetch"}, "B1", r"reads A\(4096\)"),
])
def test_outside(options, code, told):
    report, _, _ = run_loads(**options)
    assert {finding.code for finding in report.findings} == {code}, str(report)
    assert len(report.findings) == (2 if "fault" in options else 1)
    assert re.search(told, report.findings[0].message), report.findings[0].message


@pytest.mark.parametrize(("starts", "sizes", "codes", "told"), [
    ((0, 93), (100, 100), ["A12", "B5"], r"begins at byte address 0x\w+ of x, which is no multiple of 16"),
    ((0, 100), (100, 102), ["A12", "B5"], "copies 408 bytes at line .*, which is no multiple of 16"),
    ((0, 100), (100, 1028), ["B2"], "copies 4112 bytes at line .* of a run of 4096"),
    ((0, 20), (100, -4), ["D7", "B2"], "copies -16 bytes at line .* of a run of 4096"),
])
def test_rules_that_only_a_launch_can_break(starts, sizes, codes, told):
    """Told where it was promised, and where it matters."""
    report, _, _ = run_segments(starts, sizes)
    assert [finding.code for finding in report.findings][:len(codes)] == codes, str(report)
    assert re.search(told, report.findings[len(codes) - 1].message), str(report)


@mo.kernel
def two_buffers(out, barriers: mo.Constexpr):
    """Each warp has a buffer of its own, which its first lane stores from; warp 1 begins later."""
    tid, warp = mo.thread_idx().x, mo.warp_idx()
    smem, runs = mo.shared_array(out.dtype, (128, 2)), mo.tile(out, (128,), (None,))
    if warp == 1:
        mo.barrier_sync(1, 64)
    for turn in range(2):
        if tid % 32 == 0:
            mo.tma_store_wait(0, read=True)             # its own of the turn before
        if barriers:
            mo.sync_warp()
        for i in range(tid % 32, 128, 32):
            smem[i, warp] = mo.float32(turn) + i
        mo.fence_proxy_async()
        mo.sync_warp()
        if tid % 32 == 0:
            mo.copyto(mo.BulkCopy(), runs[:, 2 * warp + turn], smem[:, warp])
            mo.tma_store_arrive()
        if warp == 0 and turn == 0:
            mo.barrier_arrive(1, 64)
    if tid % 32 == 0:
        mo.tma_store_wait(0)


def test_who_stores_something_else_may_wait_for_that():
    """It is the barrier after the right thread's wait that is missing, not that thread's wait."""
    assert mo.check(two_buffers)[1, 64](np.zeros(512, np.float32), True).ok
    for options in ({}, {"earliest": True}):
        report = mo.check(two_buffers, lints=False, **options)[1, 64](np.zeros(512, np.float32), False)
        assert {finding.code for finding in report.findings} == {"D15"}, str(report)


@mo.kernel
def lane_rows(out, x, rows, fault: mo.Constexpr):
    """Each thread stores rows of its own, one after the other, from one place: it alone waits for them."""
    tid, bx, n = mo.thread_idx().x, mo.block_idx().x, mo.block_dim().x
    mo.assume(mo.size(out, 1) % 16 == 0)
    s = mo.shared_array(x.dtype, mo.make_layout((n, 16), (16, 1)))
    for turn in range(2):
        row = (2 * bx + turn) * n + tid
        to = tid ^ (1 if fault.startswith("another's") else 0)
        if row < rows:
            for i in range(16):
                s[to, i] = x[row - tid + to, i]
            mo.fence_proxy_async()
        if fault.startswith("another's"):
            mo.sync_warp()
        if row < rows:
            mo.copyto(mo.BulkCopy(), mo.tile(out, (1, 16), (row, 0))[0, :], s[tid, :])
            mo.tma_store_arrive()
        if fault == "one waits":
            if tid == 0:
                mo.tma_store_wait(0, read=True)
            mo.sync_threads()
        elif fault == "late":
            mo.tma_store_wait(1, read=True)
        elif fault != "nobody waits":
            mo.tma_store_wait(0, read=True)
        if fault == "another's, after a barrier":
            mo.sync_warp()


@pytest.mark.parametrize(("fault", "found"), [
    ("", None), ("nobody waits", "D15"), ("late", "D15"), ("one waits", "D16"), ("another's", "D15"),
    ("another's, after a barrier", None)])
def test_every_lane_stores_for_itself(fault, found, monkeypatch):
    """Each waits for its own, and needs no clocks of its own for it."""
    monkeypatch.setattr(clocks, "MOST", 1)
    x = np.random.default_rng(0).standard_normal((2 * 4 * 96, 16)).astype(np.float32)
    out = np.zeros_like(x)
    report = mo.check(lane_rows, lints=False)[4, 96](out, x, len(x) - 14, fault)
    assert next((finding.code for finding in report.findings), None) == found and not report.unsupported, str(report)
    if found is None:
        np.testing.assert_array_equal(out[:-14], x[:-14])
