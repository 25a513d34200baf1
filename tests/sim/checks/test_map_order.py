"""D22: tensor maps in global memory, released, acquired and used in the wrong order; and the right orders, clean."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from device_maps import (
    BLOCK,
    COLUMNS,
    LAYOUT,
    THREADS,
    arrays,
    begin,
    gathered,
    gathered_call,
    gathered_kernel,
    grouped_arguments,
    grouped_copies,
    grouped_kernel,
)
from moye.pipelines import tensor_maps


def first(report):
    return [(finding.code, str(finding).splitlines()[0]) for finding in report.findings]


@pytest.mark.parametrize("earliest", [False, True])
@pytest.mark.parametrize(("wrong", "code", "says"), [
    ("copy", "B6", "before anything wrote it"),
    ("sync", "C3", "no sync_warp among the lanes of warp 0 between the write by thread 0"),
    ("release", "D22", "and there is none like that of tma"),
    ("acquire", "D22", "and its block has no acquire_tensormap() of it after its release at line"),
    ("once", "D22", "and its block has no acquire_tensormap() of it after its release at line"),
    ("flying", "D22", "releases a tensor map to workspace"),
])
def test_a_step_is_left_out(wrong, code, says, earliest):
    found = first(mo.check(gathered_kernel, earliest=earliest)[1, BLOCK](*gathered_call(wrong)))
    assert code in dict(found), found
    assert any(says in text for each, text in found if each == code), found


@mo.kernel
def roles_kernel(out, tma, workspace, flags, how: mo.Constexpr):
    """Warp 0 of block 0 makes a map; a thread of warp 1, of this block or of the next, copies by it."""
    smem, full, maps = mo.shared_array(tma.dtype, LAYOUT), mo.mbarrier_array(1), mo.tensormap_array(1)
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    slot = workspace[0, :]
    begin(full)
    if bx == 0 and mo.warp_idx() == 0:
        if tid == 0 or (tid == 5 and how == "two"):
            mo.copy_tensormap(maps[:, 0], tma)
            mo.update_tensormap(tma, maps[:, 0], shape=(2, COLUMNS))
        mo.sync_warp()
        mo.release_tensormap(slot, maps[:, 0])
        if how == "edited":
            workspace[0, 3] = tid
        if how not in ("reader", "far", "late"):
            mo.acquire_tensormap(slot)
        if how in ("far", "forgotten", "late") and tid == 0:
            mo.store(flags, 0, 1, order="release" if how != "late" else "relaxed")
    if how not in ("apart", "far", "forgotten", "late", "early"):
        mo.sync_threads()
    if mo.warp_idx() == 1 and bx == mo.grid_dim().x - 1:
        if how in ("far", "forgotten", "late"):
            while mo.load(flags, 0, order="acquire" if how != "late" else "relaxed") == 0:
                mo.nanosleep(100)
        if how in ("reader", "far", "early", "late"):
            mo.acquire_tensormap(slot)
        if tid == 32:
            mapped = tma.at(slot, (2, COLUMNS))
            mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
            mo.copyto(mapped, smem, mo.tile(mapped.tensor, tma.tile, (0, 0)), barrier=(full, 0))
        mo.sync_warp()
        mo.mbarrier_wait(full, 0, 0)
        for i in range(tid - 32, mo.size(smem), 32):
            out[i] = smem[i]


def run(how, blocks):
    x, out = arrays()[1], np.zeros(16 * COLUMNS, np.float32)
    report = mo.check(roles_kernel)[blocks, BLOCK](out, mo.make_tma_copy(mo.TmaLoad(), x, LAYOUT),
                                                   np.zeros((1, 16), np.int64), np.zeros(1, np.int32), how)
    return report, out.reshape(COLUMNS, 16).T, x


@pytest.mark.parametrize(("how", "blocks"), [("", 1), ("reader", 1), ("far", 2)])
def test_right_orders(how, blocks):
    """Who acquires hands over by a barrier; who copies may acquire itself, in any block that is told of the release."""
    report, out, x = run(how, blocks)
    assert report.ok, str(report)
    assert np.array_equal(out[:2], x[:2]) and not out[2:].any()


@pytest.mark.parametrize(("how", "blocks", "code", "says"), [
    ("apart", 1, "D22", "nothing orders that after the acquire_tensormap() by another thread of its block"),
    ("early", 1, "D22", "nothing orders that after its release"),
    ("late", 2, "D22", "nothing orders that after its release"),
    ("forgotten", 2, "D22", "its block has no acquire_tensormap() of it after its release"),
    ("edited", 1, "D22", "which something has changed since its release"),
    ("two", 1, "C3", "maps(0, 0) of block (0, 0, 0)"),
])
def test_wrong_orders(how, blocks, code, says):
    report, *_ = run(how, blocks)
    found = first(report)
    assert any(each == code and says in text for each, text in found), found


def test_two_blocks_that_release_to_one_place():
    @mo.kernel
    def kernel(tma, workspace):
        maps = mo.tensormap_array(1)
        if mo.thread_idx().x == 0:
            mo.copy_tensormap(maps[:, 0], tma)
            mo.update_tensormap(tma, maps[:, 0], shape=(mo.block_idx().x + 1, COLUMNS))
        mo.sync_warp()
        mo.release_tensormap(workspace[0, :], maps[:, 0])

    tma = mo.make_tma_copy(mo.TmaLoad(), arrays()[1], LAYOUT)
    assert "G1" in dict(first(mo.check(kernel)[2, 32](tma, np.zeros((1, 16), np.int64))))
    assert mo.check(kernel)[1, 32](tma, np.zeros((1, 16), np.int64)).ok


def test_a_warp_that_is_not_whole():
    @mo.kernel
    def kernel(tma, workspace, lanes: mo.Constexpr):
        maps, tid = mo.tensormap_array(1), mo.thread_idx().x
        if tid == 0:
            mo.copy_tensormap(maps[:, 0], tma)
        mo.sync_warp()
        if tid < lanes:
            mo.release_tensormap(workspace[0, :], maps[:, 0])

    tma = mo.make_tma_copy(mo.TmaLoad(), arrays()[1], LAYOUT)
    found = first(mo.check(kernel)[1, 32](tma, np.zeros((1, 16), np.int64), 16))
    assert any(code == "C6" and "release_tensormap" in text for code, text in found), found
    assert mo.check(kernel)[1, 32](tma, np.zeros((1, 16), np.int64), 32).ok


def test_places():
    @mo.kernel
    def kernel(tma, workspace, how: mo.Constexpr):
        maps, tid = mo.tensormap_array(1), mo.thread_idx().x
        if tid == 0:
            mo.copy_tensormap(maps[:, 0], tma)
        mo.sync_warp()
        at = workspace[tid // 16, :] if how == "places" else mo.tile(workspace[0, :], (16,), (0,))
        mo.release_tensormap(at, maps[:, 0])

    tma = mo.make_tma_copy(mo.TmaLoad(), arrays()[1], LAYOUT)
    found = first(mo.check(kernel)[1, 32](tma, np.zeros((2, 16), np.int64), "places"))
    assert any(code == "B5" and "release a tensor map to different places" in text for code, text in found), found
    wide = np.zeros((2, 32), np.int64)[:, 8:24]
    assert mo.check(kernel)[1, 32](tma, wide, "").ok    # where an allocation begins, nobody knows
    found = first(mo.check(kernel)[1, 32](tma, np.zeros((4, 24), np.int64)[:, :16], "places"))
    assert any(code == "B5" and "byte 192 of workspace" in text for code, text in found), found


def test_a_map_of_another_copy():
    """Its box is another one."""
    @mo.kernel
    def kernel(tma, other, workspace):
        smem, full, maps = mo.shared_array(tma.dtype, LAYOUT), mo.mbarrier_array(1), mo.tensormap_array(1)
        begin(full)
        if mo.thread_idx().x == 0:
            mo.copy_tensormap(maps[:, 0], other)
        mo.sync_warp()
        mo.release_tensormap(workspace[0, :], maps[:, 0])
        mo.acquire_tensormap(workspace[0, :])
        if mo.thread_idx().x == 0:
            mapped = tma.at(workspace[0, :])
            mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
            mo.copyto(mapped, smem, mo.tile(mapped.tensor, tma.tile, (0, 0)), barrier=(full, 0))
        mo.mbarrier_wait(full, 0, 0)

    x = arrays()[1]
    tma, other = (mo.make_tma_copy(mo.TmaLoad(), x, layout) for layout in (
        LAYOUT, mo.make_layout((8, COLUMNS), (COLUMNS, 1))))
    found = first(mo.check(kernel)[1, 32](tma, other, np.zeros((1, 16), np.int64)))
    assert found[0][0] == "D22" and "or one of another copy" in found[0][1]
    assert mo.check(kernel)[1, 32](tma, tma, np.zeros((1, 16), np.int64)).ok


def test_stores_by_a_map_of_an_argument_race():
    """Two blocks store to one place, by maps that each of them made."""
    @mo.kernel
    def kernel(tma, dst, workspace, apart: mo.Constexpr):
        smem, maps = mo.shared_array(tma.dtype, LAYOUT), mo.tensormap_array(1)
        tid, bx = mo.thread_idx().x, mo.block_idx().x
        slot = workspace[bx, :]
        for i in range(tid, mo.size(smem), 32):
            smem[i] = 1.0
        if tid == 0:
            mo.copy_tensormap(maps[:, 0], tma)
            mo.update_tensormap(tma, maps[:, 0], dst[bx * apart, :].with_layout(
                mo.make_layout((16, COLUMNS), (COLUMNS, 1))))
        mo.fence_proxy_async()
        mo.sync_warp()
        mo.release_tensormap(slot, maps[:, 0])
        mo.acquire_tensormap(slot)
        if tid == 0:
            mapped = tma.at(slot, (16, COLUMNS))
            mo.copyto(mapped, mo.tile(mapped.tensor, tma.tile, (0, 0)), smem)
            mo.tma_store_arrive()
            mo.tma_store_wait(0)

    def found(apart):
        dst = np.zeros((64, COLUMNS), np.float32)
        tma = mo.make_tma_copy(mo.TmaStore(), dst, LAYOUT)
        return first(mo.check(kernel)[2, 32](tma, dst, np.zeros((2, 16), np.int64), apart)), dst

    clashes, _ = found(8)
    assert "G1" in dict(clashes), clashes
    clean, dst = found(16)
    assert clean == [] and (dst[:32] == 1).all() and not dst[32:].any()


def test_copies_whose_map_may_be_changed():
    """After a bulk wait of the thread that copied, or after the mbarrier: and the right array is copied each time."""
    found = arrays()
    call = gathered_call(found=found)
    assert mo.check(gathered_kernel)[1, BLOCK](*call).ok
    assert np.array_equal(call[0], gathered(found))


# --- clusters, stores ------------------------------------------------------------------------------------------------


@mo.kernel
def cluster_kernel(out, tma, workspace, acquires: mo.Constexpr):
    """Block 0 of a cluster releases a map; both copy by it."""
    smem, full, maps = mo.shared_array(tma.dtype, LAYOUT), mo.mbarrier_array(1), mo.tensormap_array(1)
    tid, rank, slot = mo.thread_idx().x, mo.cluster_rank(), workspace[0, :]
    begin(full)
    if rank == 0:
        if tid == 0:
            mo.copy_tensormap(maps[:, 0], tma)
        mo.sync_warp()
        mo.release_tensormap(slot, maps[:, 0])
    mo.cluster_sync()
    if acquires == "both" or rank == 0:
        mo.acquire_tensormap(slot)
    if acquires == "first":
        mo.cluster_sync()
    if tid == 0:
        mapped = tma.at(slot)
        mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
        mo.copyto(mapped, smem, mo.tile(mapped.tensor, tma.tile, (0, 0)), barrier=(full, 0))
    mo.sync_warp()
    mo.mbarrier_wait(full, 0, 0)
    for i in range(tid, mo.size(smem), 32):
        out[i, rank] = smem[i]


def test_each_block_of_a_cluster_acquires():
    """A barrier of the cluster hands no acquire over to another block."""
    x, out = arrays()[1], np.zeros((16 * COLUMNS, 2), np.float32, order="F")
    tma = mo.make_tma_copy(mo.TmaLoad(), x, LAYOUT)
    for acquires in ("both", "first"):
        report = mo.check(cluster_kernel).launch(out, tma, np.zeros((1, 16), np.int64), acquires, grid=2, block=32,
                                                 cluster=2)
        found = first(report)
        if acquires == "both":
            assert found == [] and np.array_equal(out[:, 1].reshape(COLUMNS, 16).T, x)
        else:
            assert [code for code, _ in found] == ["D22"] and "thread 0 of block (1, 0, 0)" in found[0][1], found


def test_a_map_for_a_multicast():
    @mo.kernel
    def kernel(out, tma, workspace):
        smem, full, maps = mo.shared_array(tma.dtype, LAYOUT), mo.mbarrier_array(1), mo.tensormap_array(1)
        tid, rank = mo.thread_idx().x, mo.cluster_rank()
        slot = workspace[rank, :]
        if tid == 0:
            mo.mbarrier_init(full, 0, 1)
            mo.fence_mbarrier_init()
            mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
            mo.copy_tensormap(maps[:, 0], tma)
            mo.update_tensormap(tma, maps[:, 0], shape=(9, COLUMNS))
        mo.sync_warp()
        mo.release_tensormap(slot, maps[:, 0])
        mo.acquire_tensormap(slot)
        mo.cluster_sync()
        if tid == 0:
            mapped = tma.at(slot, (9, COLUMNS))
            mo.copyto(mapped, smem, mo.tile(mapped.tensor, tma.tile, (0, 0)), barrier=(full, 0), multicast=0b11)
        mo.sync_warp()
        mo.mbarrier_wait(full, 0, 0)
        for i in range(tid, mo.size(smem), 32):
            out[i, rank] = smem[i]
        mo.cluster_sync()

    x, out = arrays()[1], np.zeros((16 * COLUMNS, 2), np.float32, order="F")
    tma = mo.make_tma_copy(mo.TmaLoad(), x, LAYOUT, multicast=2)
    report = mo.check(kernel).launch(out, tma, np.zeros((2, 16), np.int64), grid=2, block=32, cluster=2)
    assert report.ok, str(report)
    for rank in range(2):
        found = out[:, rank].reshape(COLUMNS, 16).T
        assert np.array_equal(found[:9], x[:9]) and not found[9:].any()


@mo.kernel
def stored_kernel(tma, workspace, rows, columns):
    """Ones by a map of so many rows and columns; each block has a map of its own."""
    smem, maps = mo.shared_array(tma.dtype, LAYOUT), mo.tensormap_array(1)
    tid, slot = mo.thread_idx().x, workspace[mo.block_idx().x, :]
    for i in range(tid, mo.size(smem), 32):
        smem[i] = 1.0
    if tid == 0:
        mo.copy_tensormap(maps[:, 0], tma)
        mo.update_tensormap(tma, maps[:, 0], shape=(rows, columns))
    mo.fence_proxy_async()
    mo.sync_warp()
    mo.release_tensormap(slot, maps[:, 0])
    mo.acquire_tensormap(slot)
    if tid == 0:
        mapped = tma.at(slot, (rows, columns))
        mo.copyto(mapped, mo.tile(mapped.tensor, tma.tile, (0, 0)), smem)
        mo.tma_store_arrive()
        mo.tma_store_wait(0)


@pytest.mark.parametrize(("op", "blocks", "columns", "code"), [
    (mo.TmaReduceAdd, 4, COLUMNS, None), (mo.TmaStore, 1, COLUMNS, None), (mo.TmaStore, 2, COLUMNS, "G1"),
    (mo.TmaStore, 1, COLUMNS - 2, "B5")])
def test_stores(op, blocks, columns, code):
    """Reductions may meet; rows that are written are whole parts of 16 bytes."""
    dst = np.zeros((16, COLUMNS), np.float32)
    report = mo.check(stored_kernel)[blocks, 32](mo.make_tma_copy(op(), dst, LAYOUT), np.zeros((4, 16), np.int64), 9,
                                                 columns)
    found = dict(first(report))
    assert found.keys() == ({code} if code else set()), found
    if code is None:
        assert (dst[:9] == blocks).all() and not dst[9:].any()
    if code == "B5":
        assert "rows have 120 bytes" in found["B5"]


# --- the steps of mo.TensorMaps --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("step", "codes"), [
    (None, set()), ("sync_warp", {"C3"}), ("tma_store_wait", {"D22"}), ("tma_store_arrive", {"D22"}),
    ("release_tensormap", {"D22"}), ("acquire_tensormap", {"D22"})])
def test_each_step_is_needed(monkeypatch, step, codes):
    """A grouped product, with one step fewer."""
    module = tensor_maps if hasattr(tensor_maps, step or "") else tensor_maps.device_maps
    if step is not None:
        monkeypatch.setattr(module, step, lambda *_: None)
    kernel = mo.kernel(grouped_kernel.function)         # a kernel of its own, which is traced anew
    As, Bs, Cs = grouped_arguments(shapes=((64, 64, 64), (72, 64, 72), (64, 64, 64)))
    report = mo.check(kernel)[1, THREADS](*grouped_copies(As, Bs, Cs), np.zeros((1, 2, 2, 16), np.int64),
                                          mo.addresses([*As, *Bs, *Cs]).reshape(3, -1),
                                          np.array([(64, 64, 64), (72, 64, 72), (64, 64, 64)], np.int32))
    assert {code for code, _ in first(report)} >= codes, str(report)
    assert report.ok == (step is None), str(report)
