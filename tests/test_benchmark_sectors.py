"""The kernels of benchmarks/sectors.py write all of a matrix, and nothing that the checker minds; no GPU."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import moye as mo

pytest.importorskip("torch")

import sectors


@pytest.mark.parametrize("tile", [(128, 128), (128, 192)], ids=str)
@pytest.mark.parametrize("way", ["boxes", "down", "runs", "vectors"])
def test_everything_is_written(way, tile):
    C = np.full((200, 408), np.nan, ml_dtypes.bfloat16)
    tiles = sectors.tiles_of(C, *tile)
    with mo.checking() as reports:
        if way in ("boxes", "down"):
            box = mo.tile_to_shape(mo.smem_layout_atom(mo.bfloat16, "k", 128), (64, 64))
            sectors.write_boxes[3, 128](mo.make_tma_copy(mo.TmaStore(), C, box), tiles, way == "down", tile, 64)
        else:
            {"runs": sectors.write_runs, "vectors": sectors.write_vectors}[way][3, 128](C, tiles, tile)
    assert all(report.ok for report in reports)
    assert not np.isnan(C.astype(np.float32)).any()
