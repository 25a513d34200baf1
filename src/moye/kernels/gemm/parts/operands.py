"""What the matrix products share: which tile a block works on, how operands get into shared memory, factors.

In: an operand (rows, K) in global memory, its stages of shared memory, a tiled copy.  Out: ``Side``, and ``load`` that
fills one stage.

    a = side_of(A, sA, copy_A, thr_mma.partition_A, (bM, bK), bx, (ragged_M, ragged_K)); load(a, stage, k_tile, K, full)

Rows beyond the edge and k beyond the end become zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import moye as mo

GROUP = 8
_MANY = 16


@dataclass(frozen=True, slots=True)
class Side:
    """One operand as a thread sees it: what it copies from (and its coordinates) and to, and what it multiplies."""

    copy: mo.TiledCopy
    source: Any             # (CPY, CPY_M, CPY_K, k)
    stages: Any             # (CPY, CPY_M, CPY_K, stages)
    coords: Any             # of source
    rows: Any               # (1, CPY_M, 1): whether a row lies inside, or None
    operand: Any            # (MMA, MMA_M, MMA_K, stages)


@mo.jit
def load(side, stage, k_tile, K, full):
    """One tile of an operand into a stage; rows beyond the edge, and k beyond K, become zero.

    The first ``full`` tiles (None: all) end before K.  Only where a thread copies much is it worth telling them apart.
    """
    many = mo.size(side.stages, 1) * mo.size(side.stages, 2) > _MANY
    if full is None or (many and k_tile < full):
        load_whole(side, stage, k_tile)
    else:
        load_end(side, stage, k_tile, K)


@mo.jit
def load_whole(side, stage, k_tile):
    """A tile that ends before K, into a stage."""
    copy_whole(side, side.stages[:, :, :, stage], k_tile)


@mo.jit
def load_end(side, stage, k_tile, K):
    """A tile that may end beyond K, into a stage."""
    copy_end(side, side.stages[:, :, :, stage], k_tile, K)


@mo.jit
def copy_whole(side, dst, k_tile):
    """A tile that ends before K, into shared memory or registers (CPY, CPY_M, CPY_K)."""
    rows = side.rows
    mo.copyto(side.copy, dst, side.source[:, :, :, k_tile], pred=rows, zero_fill=rows is not None)


@mo.jit
def copy_end(side, dst, k_tile, K):
    """A tile that may end beyond K, into shared memory or registers (CPY, CPY_M, CPY_K)."""
    rows = side.rows
    inside = mo.fragment((1, mo.size(dst, 1), mo.size(dst, 2)), mo.bool)
    for j in mo.static_range(mo.size(dst, 2)):
        ends = side.coords[0, 0, j, k_tile][1] < K
        for i in mo.static_range(mo.size(dst, 1)):
            inside[0, i, j] = ends if rows is None else ends & rows[0, i, 0]
    mo.copyto(side.copy, dst, side.source[:, :, :, k_tile], pred=inside, zero_fill=True)


@mo.jit
def row_predicate(coords, copies, extent):
    """Whether each row that a thread copies lies inside the array."""
    rows = mo.fragment((1, copies, 1), mo.bool)
    for i in mo.static_range(copies):
        rows[0, i, 0] = coords[0, i, 0, 0][0] < extent
    return rows


@mo.jit
def raster(pid, m_tiles, n_tiles):
    """Tile coordinates of a block: groups of GROUP tiles of M walk along N together, so that they share B in L2."""
    width = GROUP * n_tiles
    first = pid // width * GROUP
    rows = mo.min(m_tiles - first, GROUP)
    return first + pid % width % rows, pid % width // rows


@mo.jit
def side_of(X, smem, copy, partition, tiles, coordinate, ragged, guarded=None):
    """Partition one operand X (rows, K) for this thread; ``ragged`` along rows and along K.

    ``guarded`` (None: as ``ragged`` along rows): copies of rows have predicates.
    """
    tid = mo.thread_idx().x
    thr = copy.get_slice(tid)
    gX = mo.tile(X, tiles, (coordinate, None), ragged=ragged[0] or ragged[1])           # (rows, bK, k)
    cX = mo.tile(mo.identity_tensor(mo.shape(X)), tiles, (coordinate, None), ragged=True)
    coords, stages = thr.partition_S(cX), thr.partition_D(smem)
    if guarded is None:
        guarded = ragged[0]
    rows = row_predicate(coords, mo.size(stages, 1), mo.size(X, 0)) if guarded else None
    return Side(copy, thr.partition_S(gX), stages, coords, rows, partition(smem))


@mo.jit
def factor(x, dtype):
    """A runtime factor in the dtype of the sums: float64 ones arrive as their bits."""
    return x.bitcast(dtype) if dtype == mo.float64 else x
