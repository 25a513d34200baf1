"""What a launch of ``gemm_shallow`` is specialised on, and which products it can take.

In: operands and C as moye describes them, a configuration.  Out: ``ShallowPlan``.

    if suits(a, b, c): plan = plan_of(config, size_of(a, b, c), a.dtype)
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels.gemm.shallow.config import MOST, ShallowConfig, Size, Way, depth_of, flat, least_k
from moye.kernels.gemm.sm80.config import instruction
from moye.kernels.gemm.sm80.plan import stored
from moye.kernels.workspace import MAKES_ARRAYS

_FAR = 1 << 30                          # elements of C, and bytes of an operand, that 32 bits count
_APART = 1 << 22                        # elements from line to line: 256 lines more than there are stay in 32 bits
_MOST_ROWS = 1 << 22                    # tiles of 128 rows that a grid counts
MOST_BATCHES = 65535                    # that a grid counts
_STEP = 32                              # bytes along k of an instruction


@dataclass(frozen=True, slots=True)
class ShallowPlan:
    """What a launch is specialised on.

    ``depth``: k of a tile, of which all from ``whole`` on may lie beyond K; ``step``: k of an instruction.  ``flat``: a
    tile has whole rows of C, which lie side by side.  All rows begin multiples of ``grain`` elements behind 16 bytes.
    ``read``: shared memory to registers by ldmatrix, or None.  ``batched``: there are many products.
    """

    config: ShallowConfig
    depth: int
    whole: int
    step: int
    ways: tuple[Way, Way]
    flat: bool
    grain: int
    mma: mo.TiledMMA
    read: tuple[Any, Any]
    batched: bool


def suits(a: Any, b: Any, c: Any) -> bool:
    """Whether ``gemm_shallow`` can multiply these.

    Matrices of 16 or 32 bits with few k, or batches of them, each contiguous along K or along its rows, whose lines do
    not overlap.
    """
    if a.dtype != b.dtype or 0 in c.shape or not 0 < a.shape[1] * a.dtype.bytes <= MOST \
            or math.prod(c.shape[2:]) > MOST_BATCHES:
        return False
    results = {mo.float32: (mo.float32,)} | dict.fromkeys((mo.float16, mo.bfloat16),
                                                          (mo.float32, mo.float16, mo.bfloat16))
    if c.dtype not in results.get(a.dtype, ()) or 1 not in c.strides[:2] or stored(by_rows(c)) == "element":
        return False
    out = by_rows(c)
    counted = out.shape[0] <= _MOST_ROWS and out.strides[0] < _APART and _span(c) < _FAR
    return counted and all(_in_lines(x) for x in (a, b))


def by_rows(c: Any) -> Any:
    """C, or C.T if that is what lies along N."""
    (M, N, *batches), (m, n, *apart) = c.shape, c.strides
    return c if n == 1 else c._replace(shape=(N, M, *batches), strides=(n, m, *apart))


def _in_lines(x: Any) -> bool:
    """Whether lines lie one behind the other, in memory that has 16 bytes, and that 32 bits count."""
    along = 1 if x.strides[1] == 1 else 0
    apart = x.strides[1 - along] < _APART and (x.shape[1 - along] == 1 or x.strides[1 - along] >= x.shape[along])
    whole = _span(x) * x.dtype.bytes - -x.ptr % 16      # from a multiple of 16 bytes on
    return x.strides[along] == 1 and apart and x.kind in MAKES_ARRAYS and 16 <= whole < _FAR


def _span(x: Any) -> int:
    """Elements from the first to the last."""
    return int(sum((extent - 1) * step for extent, step in zip(x.shape, x.strides, strict=True))) + 1


def size_of(a: Any, b: Any, c: Any) -> Size:
    """What the choice depends on, of C that lies along N, or of C.T."""
    if c.strides[1] != 1:
        a, b, c = b, a, by_rows(c)
    batches, apart = (c.shape[2], c.strides[2]) if len(c.shape) == 3 else (1, None)
    return Size(c.shape[0], c.shape[1], a.shape[1], _way_of(a), _way_of(b), c.strides[0], c.dtype.bytes, a.dtype.bytes,
                batches, apart)


def _way_of(x: Any) -> Way:
    """How an operand lies.

    Lines that end inside of 16 bytes count as shifted, too: what is behind them is not theirs.
    """
    along = 1 if x.strides[1] == 1 else 0
    modes = [1 - along, *range(2, len(x.shape))]
    grain = math.gcd(16, x.ptr % 16, *(x.strides[mode] * x.dtype.bytes for mode in modes if x.shape[mode] > 1))
    return Way(along == 0, grain == 16 and x.shape[along] * x.dtype.bytes % 16 == 0, grain % 4 == 0)


@functools.lru_cache(maxsize=1024)
def plan_of(config: ShallowConfig, size: Size, dtype: Any) -> ShallowPlan:
    """The plan of a product; the same object for products of a kind."""
    grain = math.gcd(16 // size.out, size.pitch, size.apart or 0)
    return _plan(config, depth_of(size), (size.A, size.B), flat(config, size), grain, dtype, size.apart is not None)


@functools.lru_cache(maxsize=1024)
def _plan(config: ShallowConfig, depth: int, ways: tuple[Way, Way], flat: bool, grain: int, dtype: Any,
          batched: bool) -> ShallowPlan:
    step = _STEP // dtype.bytes
    mma = mo.make_tiled_mma(instruction(dtype), mo.make_layout((1, 1, 1)), (16, 16, step))
    copies = mo.make_tiled_copy_A, mo.make_tiled_copy_B
    read = [copy(mo.CopyAtom(mo.LdMatrix(4, transpose=way.turned), dtype), mma)
            if way.whole and dtype.bytes == 2 else None for copy, way in zip(copies, ways, strict=True)]
    return ShallowPlan(config, depth, least_k(depth, dtype.bytes), step, ways, flat, grain, mma, (read[0], read[1]),
                       batched)
