"""How decoding is split, and how its tiles lie; all static.

In: dtype, head dimensions, heads, size of a page.  Out: a ``DecodePlan``.

    plan = make_plan(mo.bfloat16, 128, 128, heads_of_a_key=8, queries=1, page_size=64)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import moye as mo
from moye.kernels.attention.sm80.plan import rounded
from moye.kernels.gemm.sm80.config import instruction

ROWS, KEYS, WARPS = 16, 16, 4
"""Rows of an MMA, keys of a tile (the smallest page), warps of a block: each has tiles of its own."""
_MOST_SHARED = 96 * 1024


@dataclass(frozen=True, slots=True)
class DecodePlan:
    """What the kernel is compiled for.

    ``Q`` (ROWS, dim), ``K`` (KEYS, dim, stages * warps), ``V`` (KEYS, dim_v, stages * warps) and ``V_turned`` (dim_v,
    KEYS, stages * warps) lie in shared memory.  ``row_tiles``: how often ROWS rows, of all queries and heads that share
    keys; each of them reads the keys.
    """

    dtype: Any
    dim: int
    dim_v: int
    heads_of_a_key: int
    row_tiles: int
    page_size: int
    stages: int
    mma: Any
    Q: Any
    K: Any
    V: Any
    V_turned: Any
    copy_K: Any
    copy_V: Any
    read_A: Any
    read_B: Any
    read_turned: Any


@lru_cache(maxsize=256)
def make_plan(dtype: Any, dim: int, dim_v: int, heads_of_a_key: int, queries: int, page_size: int) -> DecodePlan:
    """The plan; once for each kind of call."""
    D, Dv = rounded(dim), rounded(dim_v)
    mma = mo.make_tiled_mma(instruction(dtype), mo.make_layout((1, 1, 1)), (ROWS, 16, 16))
    stages = max(2, min(4, _MOST_SHARED // (2 * WARPS * KEYS * (D + Dv))))
    read, turned = (mo.CopyAtom(mo.LdMatrix(4, transpose=t), dtype) for t in (False, True))
    whole = stages * WARPS
    return DecodePlan(
        dtype, D, Dv, heads_of_a_key, -(-queries * heads_of_a_key // ROWS), page_size, stages, mma,
        _rows(dtype, D, ROWS), _staged(_rows(dtype, D, KEYS), whole), _staged(_rows(dtype, Dv, KEYS), whole),
        _staged(mo.tile_to_shape(mo.smem_layout_atom(dtype, "mn", _line(Dv)), (Dv, KEYS), (1, 0)), whole),
        _copy(dtype, D), _copy(dtype, Dv), mo.make_tiled_copy_A(read, mma), mo.make_tiled_copy_B(read, mma),
        mo.make_tiled_copy_B(turned, mma))


def _line(dim: int) -> int:
    """The longest swizzled row of which the head dimension is a multiple, in bytes."""
    return 128 if dim % 64 == 0 else 64


def _rows(dtype: Any, dim: int, rows: int) -> Any:
    """(rows, dim): rows along the head dimension, swizzled."""
    return mo.tile_to_shape(mo.smem_layout_atom(dtype, "k", _line(dim)), (rows, dim))


def _staged(tile: Any, stages: int) -> Any:
    """The stages of all warps, one behind the other."""
    return mo.tile_to_shape(tile, (*(mo.size(tile, i) for i in range(2)), stages))


def _copy(dtype: Any, dim: int) -> Any:
    """A warp copies 16 bytes of each lane; neighbours have neighbouring parts of a row."""
    across = _line(dim) // 16
    return mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.uint128, cache="global"), dtype),
                              mo.make_layout((32 // across, across), (across, 1)), mo.make_layout((1, 8)))
