"""How decoding is split, and how its tiles lie; all static.

In: dtypes, rules of the scores, head dimensions, heads, size of a page.  Out: a ``DecodePlan``.

    plan = make_plan((mo.bfloat16, mo.bfloat16), Rules(), (128, 128), heads_of_a_key=8, queries=1, page_size=64)

Keys and values of 8 bits are read from shared memory by 16 bytes of a row, and made operands of 16 bits in registers.
A sum does not depend on the order of its terms, nor a result on which column it stands in: so the head dimension is
counted in another order there, in which what a thread holds lies together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import moye as mo
from moye.kernels.attention.parts.scores import Rules
from moye.kernels.gemm.sm80.config import instruction

ROWS, KEYS, WARPS = 16, 16, 4
"""Rows of an MMA, keys of a tile (the smallest page), warps of a block: each has tiles of its own."""
_MOST_SHARED = 96 * 1024


@dataclass(frozen=True, slots=True)
class DecodePlan:
    """What the kernel is compiled for.

    Queries are ``dtype``, keys and values are ``stored``, and weights are rounded to ``weights`` before they are
    multiplied.  ``Q`` (ROWS, dim), ``K`` (KEYS, dim, stages * warps) and ``V`` (KEYS, dim_v, stages * warps) lie in
    shared memory; ``K_seen`` (KEYS, dim, ..) and ``V_turned`` (dim_v, KEYS, ..) are the memory of K and V as it is
    multiplied, whose place d of the head dimension is ``order(d)``, or ``order_v(d)``.  ``row_tiles``: how often ROWS
    rows, of all queries and heads that share keys; each of them reads the keys.
    """

    dtype: Any
    stored: Any
    weights: Any
    rules: Rules
    dim: int
    dim_v: int
    heads_of_a_key: int
    row_tiles: int
    page_size: int
    stages: int
    mma: Any
    mma_V: Any
    Q: Any
    K: Any
    V: Any
    K_seen: Any
    V_turned: Any
    order: Any
    order_v: Any
    copy_K: Any
    copy_V: Any
    read_A: Any
    read_B: Any
    read_turned: Any

    @property
    def narrow(self) -> bool:
        """Whether keys and values become operands in registers."""
        return self.stored is not self.dtype


@lru_cache(maxsize=256)
def make_plan(dtypes: tuple[Any, Any], rules: Rules, dims: tuple[int, int], heads_of_a_key: int, queries: int,
              page_size: int, *, by_token: bool = False) -> DecodePlan:
    """The plan for dtypes of queries and of caches; once for each kind of call.  ``by_token``: values have factors."""
    dtype, stored = dtypes
    D, Dv = (rounded(dim, stored) for dim in dims)
    narrow = stored is not dtype
    # A weight times a factor may be less than float16 holds; without factors it has more bits of a weight.
    weights = dtype if not narrow else mo.bfloat16 if by_token else mo.float16
    mma, mma_V = (mo.make_tiled_mma(instruction(each), mo.make_layout((1, 1, 1)), (ROWS, 16, 16))
                  for each in (dtype, weights))
    stages = max(2, min(4, _MOST_SHARED // (stored.bytes * WARPS * KEYS * (D + Dv))))
    read, turned = (mo.CopyAtom(mo.LdMatrix(4, transpose=t), dtype) for t in (False, True))
    whole = stages * WARPS
    K, V = (_staged(_rows(stored, each, KEYS), whole) for each in (D, Dv))
    order, order_v = (_order(D), _order_v(Dv)) if narrow else (mo.make_layout(D), mo.make_layout(Dv))
    return DecodePlan(
        dtype, stored, weights, rules, D, Dv, heads_of_a_key, -(-queries * heads_of_a_key // ROWS), page_size, stages,
        mma, mma_V, _rows(dtype, D, ROWS), K, V,
        mo.composition(K, (mo.make_layout(KEYS), order, mo.make_layout(whole))) if narrow else K,
        _turned(V, order_v, whole) if narrow else
        _staged(mo.tile_to_shape(mo.smem_layout_atom(dtype, "mn", _line(dtype, Dv)), (Dv, KEYS), (1, 0)), whole),
        order, order_v, _copy(stored, D), _copy(stored, Dv), mo.make_tiled_copy_A(read, mma),
        mo.make_tiled_copy_B(read, mma), mo.make_tiled_copy_B(turned, mma))


def rounded(dim: int, stored: Any) -> int:
    """A head dimension as it lies in shared memory, in rows of 64 bytes: zeros behind it change no product."""
    step: int = 64 // stored.bytes
    return -(-dim // step) * step


def _line(dtype: Any, dim: int) -> int:
    """The longest swizzled row of which the head dimension is a multiple, in bytes."""
    return 128 if dim * dtype.bytes % 128 == 0 else 64


def _order(dim: int) -> Any:
    """Where in a row of keys a place of the head dimension lies: what one of four threads holds is a quarter of a line.

    Of 16 places, a thread of operand B has 2t, 2t + 1, 2t + 8 and 2t + 9.
    """
    line = _line(mo.uint8, dim)
    return mo.make_layout((2, 4, 2, line // 16, dim // line), (1, line // 4, 2, 4, line))


def _order_v(dim: int) -> Any:
    """Where in a row of values a column of the result lies: one of eight threads has an eighth of a line."""
    line = _line(mo.uint8, dim)
    return mo.make_layout((8, line // 8, dim // line), (line // 8, 1, line))


def _turned(tile: Any, order: Any, stages: int) -> Any:
    """(dim, KEYS, stages) of the memory of a tile (KEYS, dim, stages), the head dimension in this order."""
    steps = tuple(KEYS * step for step in order.stride)
    return mo.composition(tile, mo.make_layout((order.shape, KEYS, stages), (steps, 1, KEYS * mo.size(order))))


def _rows(dtype: Any, dim: int, rows: int) -> Any:
    """(rows, dim): rows along the head dimension, swizzled."""
    return mo.tile_to_shape(mo.smem_layout_atom(dtype, "k", _line(dtype, dim)), (rows, dim))


def _staged(tile: Any, stages: int) -> Any:
    """The stages of all warps, one behind the other."""
    return mo.tile_to_shape(tile, (*(mo.size(tile, i) for i in range(2)), stages))


def _copy(dtype: Any, dim: int) -> Any:
    """A warp copies 16 bytes of each lane; neighbours have neighbouring parts of a row."""
    across = _line(dtype, dim) // 16
    return mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.uint128, cache="global"), dtype),
                              mo.make_layout((32 // across, across), (across, 1)),
                              mo.make_layout((1, 16 // dtype.bytes)))
