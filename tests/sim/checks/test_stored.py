"""Stores by TMA in global memory: when others may read what they write (D17), and races with them."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo

TILE = 32


@mo.kernel
def back_kernel(Y, load, view, flag, out, X, fault: mo.Constexpr):
    """Each block stores its tile by TMA and adds up rows of it, or of that of the block before, from global memory."""
    smem, again = mo.shared_array(Y.dtype, Y.smem_layout), mo.shared_array(Y.dtype, Y.smem_layout)
    full = mo.mbarrier_array(1)
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
    gX, gY, gV = mo.tile(X, Y.tile, (bx, 0)), mo.tile(Y.tensor, Y.tile, (bx, 0)), mo.tile(view, Y.tile, (bx, 0))
    for i in range(tid, TILE * TILE, 64):
        smem[i // TILE, i % TILE] = 2.0 * gX[i // TILE, i % TILE]
    mo.fence_proxy_async()
    mo.sync_threads()
    if tid == 0:
        mo.copyto(Y, gY, smem)
        mo.tma_store_arrive()
        if fault == "again":
            mo.tma_store_wait(0)
            mo.copyto(Y, gY, smem)
            mo.tma_store_arrive()
        if fault == "one-left":
            mo.tma_store_arrive()
            mo.tma_store_wait(1, read=False)
        elif fault == "older-left":
            mo.tma_store_wait(1, read=False)
        elif fault != "no-wait":
            mo.tma_store_wait(0, read=fault in ("read", "read-flag", "own", "load"))
        if fault in ("flag", "read-flag"):
            mo.atomic_add(flag, 0, 1, order="release")
    if fault != "no-barrier":
        mo.sync_threads()
    if fault in ("flag", "read-flag"):
        while mo.load(flag, 0, order="acquire") < 2:
            pass
        mo.sync_threads()
    if fault == "load":
        if tid == 0:
            mo.mbarrier_arrive_expect_tx(full, 0, load.bytes)
            mo.copyto(load, again, mo.tile(load.tensor, load.tile, (bx, 0)), barrier=(full, 0))
        mo.mbarrier_wait(full, 0, 0)
        out[tid, bx] = again[0, tid % TILE]
    elif fault == "own":
        if tid == 0:
            out[0, bx] = gV[0, 0]
    else:
        row = bx ^ 1 if fault in ("flag", "read-flag") else bx
        out[tid, bx] = mo.tile(view, Y.tile, (row, 0))[0, tid % TILE]


def run_back(fault, *, blocks=None, **options):
    X = np.random.default_rng(0).standard_normal((2 * TILE, TILE)).astype(np.float32)
    Y, out, flag = np.full_like(X, np.nan), np.full((64, 2), np.nan, np.float32), np.zeros(1, np.int32)
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (TILE, TILE))
    report = mo.check(back_kernel, lints=False, **options)[2, 64](
        mo.make_tma_copy(mo.TmaStore(), Y, layout), mo.make_tma_copy(mo.TmaLoad(), Y, layout), Y, flag, out, X, fault)
    return report, out, 2 * X[::TILE]


def line_of(finding, which):
    frame = finding.locs[which].innermost
    return open(frame.file).read().splitlines()[frame.line - 1].strip()


@pytest.mark.parametrize("earliest", [False, True])
@pytest.mark.parametrize("fault", ["", "flag", "one-left"])
def test_what_was_waited_for_is_there(fault, earliest):
    report, out, rows = run_back(fault, earliest=earliest)
    assert report.ok and not report.unsupported, str(report)
    np.testing.assert_array_equal(out, np.tile((rows[::-1] if fault == "flag" else rows).T, (2, 1)))


@pytest.mark.parametrize(("fault", "codes"), [
    ("read", ["D17"]), ("own", ["D17"]), ("load", ["D17"]), ("read-flag", ["D17"]), ("older-left", ["D1", "D18"]),
    ("no-wait", ["D1", "D18"]), ("no-barrier", ["D3"]), ("again", ["D17"])])
def test_what_was_not_is_told(fault, codes):
    report, out, _ = run_back(fault)
    assert [finding.code for finding in report.findings] == codes, str(report)
    finding = report.findings[0]
    assert line_of(finding, 0).startswith("mo.copyto(Y, gY, smem)") and finding.tensor in ("view", "load", "Y")
    if codes[0] == "D17":
        assert len(finding.locs) == 3 and line_of(finding, 1).startswith("mo.tma_store_wait(0")
        assert "as soon as the store has read its source" in finding.message
    if codes[0] in ("D17", "D1") and fault not in ("again", "own"):
        assert not np.isfinite(out).any()               # the store comes as late as it may


def test_the_line_that_reads_is_told():
    report, _, _ = run_back("read-flag")
    (finding,) = report.findings
    assert line_of(finding, 2).startswith("out[tid, bx] = mo.tile(view")
    assert "of block (0, 0, 0)" in finding.message and "of block (1, 0, 0)" in finding.message


@mo.kernel
def store_kernel(Y, X, rows):
    """Each block stores, or adds, a tile by TMA; there are ``rows`` of them."""
    smem, tid, bx = mo.shared_array(Y.dtype, Y.smem_layout), mo.thread_idx().x, mo.block_idx().x
    for i in range(tid, TILE * TILE, 64):
        smem[i // TILE, i % TILE] = X[i // TILE, i % TILE]
    mo.fence_proxy_async()
    mo.sync_threads()
    if tid == 0:
        mo.copyto(Y, mo.tile(Y.tensor, Y.tile, (bx % rows, 0), ragged=True), smem)
        mo.tma_store_arrive()
        mo.tma_store_wait(0)


@pytest.mark.parametrize(("op", "rows", "codes"), [(mo.TmaStore, 4, []), (mo.TmaStore, 3, ["G1"]),
                                                   (mo.TmaReduceAdd, 3, []), (mo.TmaReduceAdd, 1, [])])
def test_tiles_of_several_blocks(op, rows, codes):
    """A tile that two blocks store is a race, one that they add to is none; the last tile ends with the array."""
    X = np.random.default_rng(1).integers(-9, 9, (TILE, TILE)).astype(np.float32)
    Y = np.zeros((rows * TILE - 5, TILE), np.float32)
    copy = mo.make_tma_copy(op(), Y, mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (TILE, TILE)))
    report = mo.check(store_kernel, lints=False)[4, 64](copy, X, rows)
    assert [finding.code for finding in report.findings] == codes, str(report)
    expected = np.zeros((rows * TILE, TILE), np.float32)
    for block in range(4):
        here = expected[block % rows * TILE:][:TILE]
        here[:] = here + X if op is mo.TmaReduceAdd else X
    np.testing.assert_array_equal(Y, expected[:len(Y)])


@mo.kernel
def in_place_kernel(load, store, shift):
    """Each block loads the tile ``shift`` tiles further by TMA and stores it as its own, in one array."""
    smem, full = mo.shared_array(load.dtype, load.smem_layout), mo.mbarrier_array(1)
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(full, 0, load.bytes)
        mo.copyto(load, smem, mo.tile(load.tensor, load.tile, (bx + shift, 0), ragged=True), barrier=(full, 0))
        mo.mbarrier_wait(full, 0, 0)
        mo.copyto(store, mo.tile(store.tensor, store.tile, (bx, 0)), smem)
        mo.tma_store_arrive()
        mo.tma_store_wait(0)


@pytest.mark.parametrize(("shift", "codes"), [(0, []), (1, ["G5"]), (4, [])])
def test_in_place(shift, codes):
    A = np.random.default_rng(2).standard_normal((4 * TILE, TILE)).astype(np.float32)
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (TILE, TILE))
    report = mo.check(in_place_kernel, lints=False)[4, 32](
        mo.make_tma_copy(mo.TmaLoad(), A, layout), mo.make_tma_copy(mo.TmaStore(), A, layout), shift)
    assert [finding.code for finding in report.findings] == codes, str(report)


def test_accumulated_onto_plain_stores():
    """Blocks add to what one of them sets to zero first, with nothing between the two: G2."""
    @mo.kernel
    def kernel(Y, view):
        smem, tid = mo.shared_array(Y.dtype, Y.smem_layout), mo.thread_idx().x
        for i in range(tid, TILE * TILE, 64):
            smem[i // TILE, i % TILE] = 1.0
            if mo.block_idx().x == 0:
                view[i // TILE, i % TILE] = 0.0
        mo.fence_proxy_async()
        mo.sync_threads()
        if tid == 0:
            mo.copyto(Y, mo.tile(Y.tensor, Y.tile, (0, 0)), smem)
            mo.tma_store_arrive()
            mo.tma_store_wait(0)

    Y = np.zeros((TILE, TILE), np.float32)
    copy = mo.make_tma_copy(mo.TmaReduceAdd(), Y, mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (TILE, TILE)))
    report = mo.check(kernel, lints=False)[3, 64](copy, Y)
    assert [finding.code for finding in report.findings] == ["G2"], str(report)
