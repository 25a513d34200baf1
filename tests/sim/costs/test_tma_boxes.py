"""What tensor copies cost in global memory, and conflicts in the tiles that they fill."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo


@mo.kernel
def move(target, source, columns):
    """Tile after tile of a row of tiles from one array into another."""
    smem, full = mo.shared_array(source.dtype, source.smem_layout), mo.mbarrier_array(1)
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
        for k in range(columns):
            mo.mbarrier_arrive_expect_tx(full, 0, source.bytes)
            mo.copyto(source, smem, mo.tile(source.tensor, source.tile, (bx, k), ragged=True), barrier=(full, 0))
            mo.mbarrier_wait(full, 0, k % 2)
            mo.copyto(target, mo.tile(target.tensor, target.tile, (bx, k), ragged=True), smem)
            mo.tma_store_arrive()
            mo.tma_store_wait(0)


def padded(rows, columns, pitch, dtype=np.float16):
    return np.random.default_rng(0).standard_normal((rows, pitch)).astype(dtype)[:, :columns]


def sectors(array, tile, rows, columns):
    """Of all boxes, one by one: distinct sectors of the elements inside, the array at the beginning of one."""
    row, column = np.indices(array.shape)
    sector = (row * array.strides[0] + column * array.strides[1]) // 32
    return sum(len(np.unique(sector[i * tile[0]:(i + 1) * tile[0], j * tile[1]:(j + 1) * tile[1]]))
               for i in range(rows) for j in range(columns))


@pytest.mark.parametrize("op", [mo.TmaStore, mo.TmaReduceAdd])
@pytest.mark.parametrize(("shape", "pitch", "row"), [((64, 128), 128, 128), ((50, 104), 112, 128), ((64, 128), 136, 64),
                                                     ((50, 72), 88, 32), ((40, 48), 56, 16)])
def test_boxes_are_counted(shape, pitch, row, op):
    """Whole and ragged ones, rows that begin within a sector, rows of half a sector."""
    A, C = padded(*shape, pitch), np.zeros((shape[0], pitch), np.float16)[:, :shape[1]]
    tile = (32, row // 2)
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float16, "k", row), tile)
    grid, columns = -(-shape[0] // tile[0]), -(-shape[1] // tile[1])
    store, load = mo.make_tma_copy(op(), C, layout), mo.make_tma_copy(mo.TmaLoad(), A, layout)
    report = mo.check(move)[grid, 32](store, load, columns)
    assert report.ok and not report.lints, str(report)
    np.testing.assert_array_equal(C, A)
    counters, kind = report.counters(), "tma_store" if op is mo.TmaStore else "tma_reduce"
    assert counters["tma_load_requests"] == counters[f"{kind}_requests"] == grid * columns
    assert counters["tma_load_bytes"] == grid * columns * 32 * row
    assert counters["tma_load_sectors"] == counters[f"{kind}_sectors"] == sectors(A, tile, grid, columns)
    (load, store) = counters["lines"]
    assert load["instruction"] == "tma.load" and load["loop"] and load["bytes"] == 32 * row
    assert "tma.load" in report.table() and (load["tensor"], store["tensor"]) == ("source", "target")


@mo.kernel
def columns_of(out, A, layout, wide: mo.Constexpr):
    """A tile comes by TMA, and each thread reads a row of it, four numbers at a time or one."""
    smem, full, tid = mo.shared_array(A.dtype, layout), mo.mbarrier_array(1), mo.thread_idx().x
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(full, 0, A.bytes)
        mo.copyto(A, smem, mo.tile(A.tensor, A.tile, (0, 0)), barrier=(full, 0))
    mo.sync_threads()
    mo.mbarrier_wait(full, 0, 0)
    part = mo.fragment((1, 4), A.dtype)
    for j in mo.static_range(8):
        if wide:
            mo.copyto(part, mo.tile(smem, (1, 4), (tid, j)))
            out[tid, j] = part.reduce("add")
        else:
            out[tid, j] = smem[tid, j]


def run_columns(layout, wide):
    A, out = padded(32, 32, 32, np.float32), np.zeros((32, 8), np.float32, order="F")
    report = mo.check(columns_of)[1, 32](out, mo.make_tma_copy(mo.TmaLoad(), A, layout), layout, wide)
    assert report.ok, str(report)
    return [lint for lint in report.lints if lint.code == "P1"]


@pytest.mark.parametrize(("wide", "left"), [(True, "no bank conflicts are left"),
                                            (False, "32 wavefronts instead of 256")])
def test_an_unswizzled_tile_of_a_tensor_copy(wide, left):
    """The hint names a canonical layout, and under that the same kernel takes as many wavefronts as it says."""
    (lint,) = run_columns(mo.make_layout((32, 32), (32, 1)), wide)
    atom = mo.smem_layout_atom(mo.float32, "k", 128)
    layout = mo.tile_to_shape(atom, (32, 32))
    assert lint.hint == (f'with smem as {layout}, of mo.smem_layout_atom(mo.float32, "k", 128), for the tensor copy '
                         f"too, {left}")
    after = run_columns(layout, wide)
    assert [one.numbers["wavefronts"] for one in after] == ([] if wide else [32])


def test_a_layout_along_the_other_mode():
    """Rows of the tile lie 128 bytes apart; the tile is contiguous along its first mode."""
    from moye.sim.costs.bank_conflicts import canonical, major

    columns = mo.make_layout((64, 32, 2), (1, 64, 2048))
    assert major(columns) == "mn" and major(mo.make_layout((8, 8), (16, 2))) is None
    found = dict(canonical(columns, 16))
    assert list(found) == [128, 64, 32]
    for row, layout in found.items():
        assert layout == mo.tile_to_shape(mo.smem_layout_atom(mo.float16, "mn", row), (64, 32, 2))
    assert list(canonical(mo.make_layout((6, 32), (32, 1)), 32)) == []
