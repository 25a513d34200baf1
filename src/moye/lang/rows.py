"""Rows of accumulators folded across the threads that share them.

In: accumulators of a thread, a kind, the tiled MMA.  Out: a register tensor with the fold of each row.

    top = mo.row_reduce(scores, "max", mma)             # ((2,MMA_M)): fits mo.mn_view(scores, mma) row by row

Which threads share a row is read from the atom's layouts (``moye.tensor.accumulators``).
"""

from __future__ import annotations

from moye.lang.builtins import shuffle_xor
from moye.tensor.accumulators import mn_view, row_lanes
from moye.tensor.folds import fold, fold_kind
from moye.tensor.tensor import Tensor
from moye.tensor.tiled import TiledMMA

__all__ = ["row_reduce"]


def row_reduce(acc: Tensor, kind: str, mma: TiledMMA) -> Tensor:
    """Fold each row of a tile over all of its columns; every thread gets the folds of the rows that it holds.

    ``acc`` are the accumulators (MMA, MMA_M, MMA_N) of ``mma``.  The result has one mode, the rows of
    ``mn_view(acc, mma)``, ((2,MMA_M)) for mma.sync and wgmma.  Kinds are those of ``Tensor.reduce``, which folds what
    the thread holds; then the lanes that share the row exchange by xor, the nearest first (two steps of shuffles for
    mma.sync and wgmma).  TensorError if several warps hold parts of one row: that takes shared memory.
    """
    rows = mn_view(acc, mma)
    lanes = row_lanes(mma)
    kind = fold_kind("row_reduce", kind, acc.dtype)
    found: Tensor = rows.reduce(kind, mode=1)
    for i in range(found.buffer.elements or 0):
        value = found[i]
        for lane in lanes:
            value = fold(kind, value, shuffle_xor(value, lane))
        found[i] = value
    return found
