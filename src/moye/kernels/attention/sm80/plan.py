"""How the tiles of attention lie on sm_80 and later, and what copies and multiplies them; all static.

In: head dimensions, what is contiguous, the rules of the scores.  Out: a ``ForwardPlan``.

    plan = make_plan(mo.float16, 64, 64, Rules(right=True), 1, (True, True, True, True))
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import moye as mo
from moye.kernels.attention.parts.scores import Rules
from moye.kernels.gemm.sm80.config import instruction

KEYS = 64
_STEP = 32
"""Head dimensions are rounded up to a multiple of it: zeros change no product."""


@dataclass(frozen=True, slots=True)
class ForwardPlan:
    """What the kernel is compiled for.

    Tiles in shared memory: ``Q`` (bM, dim), ``K`` (KEYS, dim), ``V`` (dim_v, KEYS) and ``O`` (bM, dim_v), swizzled,
    contiguous along the head dimension, which is rounded up.  ``copy_*`` fill them, or empty them, by 16 bytes or by
    elements; ``read_*`` are ldmatrix.
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
    O: Any
    copy_Q: Any
    copy_K: Any
    copy_V: Any
    copy_O: Any
    read_Q: Any
    read_K: Any
    read_V: Any


@lru_cache(maxsize=256)
def make_plan(dtype: Any, dim: int, dim_v: int, rules: Rules, heads_of_a_key: int,
              wide: tuple[bool, bool, bool, bool]) -> ForwardPlan:
    """The plan; ``wide``: whether q, k, v and out are copied by 16 bytes."""
    D, Dv = (-(-each // _STEP) * _STEP for each in (dim, dim_v))
    bM = 128 if max(D, Dv) <= 128 else 64
    warps = 8 if 64 < max(D, Dv) <= 128 else 4          # a thread has room for 128 sums and the scores
    threads = 32 * warps
    mma = mo.make_tiled_mma(instruction(dtype), mo.make_layout((warps, 1, 1)), (16 * warps, 16, 16))
    read, turned = (mo.CopyAtom(mo.LdMatrix(4, transpose=t), dtype) for t in (False, True))
    return ForwardPlan(
        rules, dtype, bM, threads, D, Dv, heads_of_a_key, mma,
        _rows(dtype, bM, D), _rows(dtype, KEYS, D),
        mo.tile_to_shape(mo.smem_layout_atom(dtype, "mn", _line(Dv)), (Dv, KEYS), (1, 0)), _rows(dtype, bM, Dv),
        _copy(dtype, D, threads, wide[0]), _copy(dtype, D, threads, wide[1]),
        _copy(dtype, Dv, threads, wide[2], turned=True), _copy(dtype, Dv, threads, wide[3], store=True),
        mo.make_tiled_copy_A(read, mma), mo.make_tiled_copy_B(read, mma), mo.make_tiled_copy_B(turned, mma))


def _rows(dtype: Any, rows: int, dim: int) -> Any:
    """Rows along the head dimension, swizzled."""
    return mo.tile_to_shape(mo.smem_layout_atom(dtype, "k", _line(dim)), (rows, dim))


def _line(dim: int) -> int:
    """The longest swizzled row of which the head dimension is a multiple, in bytes."""
    return 128 if dim % 64 == 0 else 64


def _copy(dtype: Any, dim: int, threads: int, wide: bool, *, turned: bool = False, store: bool = False) -> Any:
    """Neighbouring threads copy neighbouring parts of a row; ``turned``: of a tile (dim, rows)."""
    each = 8 if wide else 1
    across = min(_line(dim) // 2 // each, 32)
    atom = mo.UniversalCopy(mo.uint128 if wide else dtype) if store or not wide else \
        mo.CpAsync(mo.uint128, cache="global")
    if turned:
        return mo.make_tiled_copy(mo.CopyAtom(atom, dtype), mo.make_layout((across, threads // across)),
                                  mo.make_layout((each, 1)))
    return mo.make_tiled_copy(mo.CopyAtom(atom, dtype), mo.make_layout((threads // across, across), (across, 1)),
                              mo.make_layout((1, each)))
