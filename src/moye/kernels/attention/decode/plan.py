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

ROWS, WARPS = 16, 4
"""Rows of an MMA, warps of a block: each has tiles of its own."""
VECTOR = 8
"""Elements of 16 bits that are one access of shared memory."""
BLOCKS = 2
"""Blocks that a multiprocessor holds at a time."""
LEAST = 64
"""Keys that a warp has at least."""
_TILES = (32, 16)
"""Keys of a tile: as many as ``_TILE`` bytes hold, for each tile costs a warp the same beside."""
_TILE = 4096
_HELD = 5120
"""Scores and sums of a warp up to which it has such tiles: 160 registers of a thread."""
_MOST_STAGES = 3
"""Stages of a warp at most: with more on their way, 8 bits came later (87 us for 84, of 16 sequences of 8192 keys)."""
_BESIDE = 1024
"""Bytes of shared memory that a block has beside queries, keys and values, at most."""
_TOGETHER = 32
"""Problems of a sequence at most that are gone through at one time."""
_SUMS = 256
"""Columns of results that a warp has at most, of all its ROWS rows: 128 registers of a thread."""


@dataclass(frozen=True, slots=True)
class DecodePlan:
    """What the kernel is compiled for.

    Queries are ``dtype`` and multiplied as ``operand``, keys and values are ``stored``, and weights are rounded to
    ``weights`` before they are multiplied.  ``count`` rows share keys, of all queries and heads; a problem is ``rows``
    of them, and there are ``row_tiles`` of those, each of which reads the keys.  Problems of a sequence go
    ``together``, each by ``phases`` warps.  ``run`` elements of a query are one access, and stand together in shared
    memory.  ``Q`` (rows, dim), ``K`` (keys, dim) and ``V`` (keys, dim_v) lie there, a Q for each warp, K and V for
    each stage of it; ``K_seen`` (keys, dim) and ``V_turned`` (dim_v, keys) are the memory of K and V as it is
    multiplied, whose place d of the head dimension is ``order(d)``; element d stands at ``places(d)``.  ``whole`` and
    ``whole_v``: the head dimension is dim, or dim_v, and no less.  Of each line of 8 * ``each`` columns of a result,
    one of four threads has two runs of ``each``.  ``room`` (rows, dim_v / rounds, warps) is where warps add up results,
    in the memory of queries, in ``rounds``.
    """

    dtype: Any
    operand: Any
    stored: Any
    weights: Any
    rules: Rules
    dim: int
    dim_v: int
    heads_of_a_key: int
    count: int
    rows: int
    row_tiles: int
    together: int
    phases: int
    run: int
    page_size: int
    keys: int
    stages: int
    whole: bool
    whole_v: bool
    each: int
    rounds: int
    mma: Any
    mma_V: Any
    Q: Any
    K: Any
    V: Any
    K_seen: Any
    V_turned: Any
    order: Any
    places: Any
    room: Any
    copy_K: Any
    copy_V: Any
    read_A: Any
    read_B: Any
    read_turned: Any

    @property
    def narrow(self) -> bool:
        """Whether keys and values become operands in registers."""
        return self.stored is not self.dtype

    @property
    def used(self) -> int:
        """Rows of which results are kept: fewer where there are fewer."""
        return self.rows if self.row_tiles > 1 else min(self.rows, self.count)

    @property
    def live(self) -> int:
        """Rows of a thread, each 8 behind the one before, that may have results."""
        return -(-self.used // 8)

    @property
    def scaled(self) -> bool:
        """Whether queries are multiplied by a power of two for each row, so that float16 holds them."""
        return self.operand is not self.dtype


@lru_cache(maxsize=256)
def make_plan(dtypes: tuple[Any, Any], rules: Rules, dims: tuple[int, int], heads: tuple[int, int], queries: int,
              page_size: int, device: Any, *, by_token: bool = False, whole: bool = True) -> DecodePlan:
    """The plan for dtypes of queries and of caches; once for each kind of call.  ``device``: its ``Hardware``.

    ``by_token``: values have factors.  ``whole``: queries are whole vectors of 16 bytes.
    """
    dtype, stored = dtypes
    D, Dv = (rounded(dim, stored) for dim in dims)
    narrow = stored is not dtype
    # A weight times a factor may be less than float16 holds; without factors it has more bits of a weight.
    weights = dtype if not narrow else mo.bfloat16 if by_token else mo.float16
    operand, group = mo.float16 if narrow else dtype, heads[0] // heads[1]
    tiles = -(-queries * group // ROWS)
    row_tiles = -(-tiles // min(tiles, max(1, _SUMS // Dv)))
    rows, problems = ROWS * -(-tiles // row_tiles), heads[1] * row_tiles
    together = max(n for n in range(1, _TOGETHER + 1) if problems % n == 0)
    keys = _keys(stored.bytes * max(D, Dv), rows, Dv)
    mma, mma_V = (mo.make_tiled_mma(instruction(each), mo.make_layout((1, 1, 1)), (ROWS, 16, 16))
                  for each in (operand, weights))
    stages = _stages(device, WARPS * rows * D * operand.bytes, stored.bytes * WARPS * keys * (D + Dv))
    read, turned = (mo.CopyAtom(mo.LdMatrix(4, transpose=t), each) for t, each in ((False, operand), (True, weights)))
    K, V = (_rows(stored, each, keys) for each in (D, Dv))
    each = _line(stored, Dv) // 8 if narrow else 1
    order, rounds = _order(D) if narrow else mo.make_layout(D), _rounds(D * operand.bytes, Dv, 8 * each)
    return DecodePlan(
        dtype, operand, stored, weights, rules, D, Dv, group, queries * group, rows, row_tiles, together, 1,
        VECTOR if whole else 1, page_size, keys, stages, dims[0] == D, dims[1] == Dv,
        each, rounds, mma, mma_V, _rows(operand, D, rows), K, V,
        mo.composition(K, (mo.make_layout(keys), order)) if narrow else K,
        _turned(V, _order_v(Dv), keys) if narrow else
        mo.tile_to_shape(mo.smem_layout_atom(dtype, "mn", _line(dtype, Dv)), (Dv, keys), (1, 0)),
        order, mo.right_inverse(order), _staged(_rows(mo.float32, Dv // rounds, rows), WARPS), _copy(stored, D),
        _copy(stored, Dv), mo.make_tiled_copy_A(read, mma), mo.make_tiled_copy_B(read, mma),
        mo.make_tiled_copy_B(turned, mma))


def _keys(line: int, rows: int, columns: int) -> int:
    """Keys of a tile, ``line`` bytes each, beside results of so many rows and columns."""
    return next((n for n in _TILES if n * line <= _TILE and rows * (columns + n) <= _HELD), _TILES[-1])


def _rounds(row: int, columns: int, line: int) -> int:
    """In how many rounds warps add up so many columns in the memory of queries, which have ``row`` bytes each.

    A round has whole lines, or one of equal parts of a line.
    """
    return next(n for n in range(1, columns // 16 + 1) if columns // 16 % n == 0 and 4 * columns <= n * row
                and (columns // n % line == 0 or line % (columns // n) == 0))


def _stages(device: Any, queries: int, stage: int) -> int:
    """Stages that fit, of so many bytes beside those of the queries: of BLOCKS blocks, or of one where two would not.
    """
    most: int = min(device.block_shared, device.shared // BLOCKS - device.reserved) - _BESIDE - queries
    alone: int = (device.block_shared - _BESIDE - queries) // stage
    return max(1, min(_MOST_STAGES, most // stage), min(2, alone))


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


def _turned(tile: Any, order: Any, keys: int) -> Any:
    """(dim, keys) of the memory of a tile (keys, dim), the head dimension in this order."""
    steps = tuple(keys * step for step in order.stride)
    return mo.composition(tile, mo.make_layout((order.shape, keys), (steps, 1)))


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
