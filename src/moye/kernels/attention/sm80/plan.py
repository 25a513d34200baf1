"""How the tiles of attention lie on sm_80 and later, and what copies and multiplies them; all static.

In: head dimensions, what is contiguous, the rules of the scores.  Out: a ``ForwardPlan``, a ``GradientPlan``.

    plan = forward_plan(mo.float16, 64, 64, Rules(right=True), 1, (True, True, True, True))

A tile in shared memory has rows along the head dimension, swizzled; the same memory seen the other way round,
``turned``, is what ldmatrix transposes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import moye as mo
from moye.kernels.attention.parts.scores import Rules
from moye.kernels.gemm.sm80.config import instruction

TILE = 64
"""Keys of a tile; of gradients also queries."""
_STEP = 32
_MOST_SUMS = 256
"""Head dimensions of keys and values together whose gradients a block sums up at once: 128 registers of a thread."""


@dataclass(frozen=True, slots=True)
class ForwardPlan:
    """What the kernel is compiled for.

    ``Q`` (bM, dim), ``K`` (TILE, dim), ``V`` (TILE, dim_v), ``V_turned`` (dim_v, TILE) and ``O`` (bM, dim_v) are tiles
    in shared memory; head dimensions are rounded up.  ``copy_*`` fill them, or empty them, by 16 bytes or by elements;
    ``read_*`` are ldmatrix.
    """

    rules: Rules
    dtype: Any
    bM: int
    threads: int
    dim: int
    dim_v: int
    heads_of_a_key: int
    mma: Any
    Q: Any
    K: Any
    V: Any
    V_turned: Any
    O: Any
    copy_Q: Any
    copy_K: Any
    copy_V: Any
    copy_O: Any
    read_A: Any
    read_B: Any
    read_turned: Any


@dataclass(frozen=True, slots=True)
class GradientPlan:
    """What the kernels of gradients are compiled for.

    A block keeps a tile of ``TILE`` keys or queries, ``rows`` (TILE, dim) and ``rows_v`` (TILE, dim_v), and goes
    through the others, ``step`` at a time: ``steps`` (step, dim) and ``turned`` (dim, step), and those of V.
    ``copies`` fill tiles of q, k, v and the gradient of the result, ``stores`` empty those of dq, dk and dv.
    """

    rules: Rules
    dtype: Any
    threads: int
    step: int
    dim: int
    dim_v: int
    heads_of_a_key: int
    mma: Any
    rows: Any
    rows_v: Any
    steps: Any
    steps_v: Any
    turned: Any
    turned_v: Any
    copies: Any
    stores: Any
    read_A: Any
    read_B: Any
    read_turned: Any

    @property
    def at_once(self) -> bool:
        """Whether a block sums up the gradients of keys and of values together."""
        return self.dim + self.dim_v <= _MOST_SUMS


@lru_cache(maxsize=256)
def forward_plan(dtype: Any, dim: int, dim_v: int, rules: Rules, heads_of_a_key: int,
                 wide: tuple[bool, bool, bool, bool]) -> ForwardPlan:
    """The plan; ``wide``: whether q, k, v and out are copied by 16 bytes."""
    D, Dv = rounded(dim), rounded(dim_v)
    bM = 128 if max(D, Dv) <= 128 else 64
    warps = 8 if 64 < max(D, Dv) <= 128 else 4          # a thread has room for 128 sums and the scores
    threads, (mma, *reads) = 32 * warps, _multiplied(dtype, warps)
    return ForwardPlan(
        rules, dtype, bM, threads, D, Dv, heads_of_a_key, mma, _rows(dtype, bM, D), _rows(dtype, TILE, D),
        _rows(dtype, TILE, Dv), _turned(dtype, TILE, Dv), _rows(dtype, bM, Dv),
        _copy(dtype, D, threads, wide[0]), _copy(dtype, D, threads, wide[1]), _copy(dtype, Dv, threads, wide[2]),
        _copy(dtype, Dv, threads, wide[3], store=True), *reads)


@lru_cache(maxsize=256)
def gradient_plan(dtype: Any, dim: int, dim_v: int, rules: Rules, heads_of_a_key: int,
                  wide: tuple[bool, ...]) -> GradientPlan:
    """The plan; ``wide``: whether q, k, v, dout, dq, dk and dv are copied by 16 bytes."""
    D, Dv, threads = rounded(dim), rounded(dim_v), 128
    mma, *reads = _multiplied(dtype, threads // 32)
    copies = tuple(_copy(dtype, each, threads, by) for each, by in zip((D, D, Dv, Dv), wide, strict=False))
    stores = tuple(_copy(dtype, each, threads, by, store=True) for each, by in zip((D, D, Dv), wide[4:], strict=True))
    step = TILE if max(D, Dv) <= 64 else TILE // 2      # scores and their gradients have room beside the sums
    return GradientPlan(rules, dtype, threads, step, D, Dv, heads_of_a_key, mma,
                        _rows(dtype, TILE, D), _rows(dtype, TILE, Dv), _rows(dtype, step, D), _rows(dtype, step, Dv),
                        _turned(dtype, step, D), _turned(dtype, step, Dv), copies, stores, *reads)


def rounded(dim: int) -> int:
    """A head dimension as it lies in shared memory: zeros behind it change no product."""
    return -(-dim // _STEP) * _STEP


def _multiplied(dtype: Any, warps: int) -> tuple[Any, ...]:
    """Warps one below the other, and ldmatrix for A, for B, and for B the other way round."""
    mma = mo.make_tiled_mma(instruction(dtype), mo.make_layout((warps, 1, 1)), (16 * warps, 16, 16))
    read, turned = (mo.CopyAtom(mo.LdMatrix(4, transpose=t), dtype) for t in (False, True))
    return mma, mo.make_tiled_copy_A(read, mma), mo.make_tiled_copy_B(read, mma), mo.make_tiled_copy_B(turned, mma)


def _rows(dtype: Any, rows: int, dim: int) -> Any:
    """(rows, dim): rows along the head dimension, swizzled."""
    return mo.tile_to_shape(mo.smem_layout_atom(dtype, "k", _line(dim)), (rows, dim))


def _turned(dtype: Any, rows: int, dim: int) -> Any:
    """(dim, rows) of the same memory."""
    return mo.tile_to_shape(mo.smem_layout_atom(dtype, "mn", _line(dim)), (dim, rows), (1, 0))


def _line(dim: int) -> int:
    """The longest swizzled row of which the head dimension is a multiple, in bytes."""
    return 128 if dim % 64 == 0 else 64


def _copy(dtype: Any, dim: int, threads: int, wide: bool, *, store: bool = False) -> Any:
    """Neighbouring threads copy neighbouring parts of a row."""
    each = 8 if wide else 1
    across = min(_line(dim) // 2 // each, 32)
    atom = mo.UniversalCopy(mo.uint128 if wide else dtype) if store or not wide else \
        mo.CpAsync(mo.uint128, cache="global")
    return mo.make_tiled_copy(mo.CopyAtom(atom, dtype), mo.make_layout((threads // across, across), (across, 1)),
                              mo.make_layout((1, each)))
