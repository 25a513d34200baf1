"""Factors of blocks of 8-bit floats: those of A for a row and 128 of K, those of B for 128 rows and 128 of K.

In: float32 factors of A (M, K / 128) and of B (N / 128, K / 128), as many as blocks have begun; a tile of C.  Out: for
each k tile of 128 what the sums of a thread are multiplied by before they are added up.

    first_factors(scales, ks); read_factors(scales, stage, k, ks); multiply(scales, k, ks)      # scales.factors

A thread has two rows of each 64 of a tile.  Factors of A that are contiguous along M come by TMA with each stage, those
of groups from a multiple of 16 bytes on; others are read a k tile ahead.  Of B's, each lane reads one k tile in 32, and
the lanes tell each other.  All is read behind products: a thread that waits for shared memory would begin them late.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

import moye as mo
from moye.kernels.gemm.parts.arguments import array, contiguous_mode
from moye.kernels.memory import apart
from moye.kernels.workspace import zeros

BLOCK = 128
"""Of K, and rows of B, that have a factor in common."""
_LANES = mo.hardware.WARP
FOUR = 4
"""Factors of 16 bytes."""
_ALIGNED = 32
"""And of 128, at which TMA writes a box."""
_BOX = 256
"""Rows of a box at most."""


@dataclass(frozen=True, slots=True)
class Scales:
    """The factors of a tile: matrices of one batch or group; which rows and blocks of B are this thread's.

    ``A`` is (M, k) in memory, or (rows, 1, stages) in shared memory, and ``rows`` are rows of it.
    ``of_A`` (row, turn) is what was read of them, for one k tile or for two in turn.  ``of_B`` (block, 2) has this
    lane's of 32 k tiles, and of the 32 behind them, of up to three blocks, of which the second begins at the strip
    ``second`` of the tile; ``here`` (block) those of this k tile.
    ``factors`` (row of 2, strip, slab of 64 rows) are the products for this k tile.
    """

    A: Any
    B: Any
    rows: Any
    blocks: Any
    second: Any
    strips_of_block: int
    of_A: Any
    of_B: Any
    here: Any
    factors: Any


def spans(bN: int) -> int:
    """Blocks of B that a tile of so many columns meets at most; it begins at a multiple of them."""
    return 1 if BLOCK % bN == 0 else -(-(BLOCK - gcd(bN, BLOCK) + bN) // BLOCK)


@mo.jit
def scales_of_tile(plan, scales, place, by, batch, thr_mma):
    """The factors of the tile whose first row is ``place[1]`` of ``place[0]``; None if there are none."""
    scale_A, sS, scale_B = scales
    if scale_A is None:
        return None
    config, (M, first), staged = plan.config, place, plan.product.staged is not None
    whole = staged and mo.size(sS, 0) == config.bM      # TMA begins at the tile's first row
    A = sS if staged else scale_A[:, :, batch] if mo.rank(scale_A) == 3 else scale_A        # (M, k)
    B = scale_B[:, :, batch] if mo.rank(scale_B) == 3 else scale_B      # (N / 128, k)
    coords = thr_mma.partition_C(mo.identity_tensor((config.bM, config.bN)))    # (MMA, MMA_M, MMA_N)
    slabs = mo.size(coords, 1)
    rows = mo.fragment(2 * slabs, mo.int32)
    for r in mo.static_range(2 * slabs):
        row = coords[(0, r % 2, 0), r // 2, 0][0]
        rows[r] = mo.min(first + row, M - 1) if not staged else row if whole else row + first % FOUR
    block = by * config.bN // BLOCK
    last = mo.size(B, 0) - 1                                            # tiles may reach beyond N
    blocks = tuple(mo.min(block + i, last) for i in range(spans(config.bN)))
    strip = gcd(config.bN // mo.size(coords, 2), BLOCK)                 # columns that lie in one block and one part
    strips = 1 if len(blocks) == 1 else config.bN // strip
    second = ((block + 1) * BLOCK - by * config.bN) // strip
    turns = 2 if config.promotion == "ahead" else 1
    return Scales(A, B, rows, blocks, second, BLOCK // strip, mo.fragment((2 * slabs, turns), mo.float32),
                  mo.fragment((len(blocks), 2), mo.float32), mo.fragment(len(blocks), mo.float32),
                  mo.fragment((2, strips, slabs), mo.float32))


@mo.jit
def first_factors(scales, ks):
    """What is read before the first of these k tiles."""
    if scales is not None:
        for j in mo.static_range(2):
            read_lanes(scales, j, ks[0] + j * _LANES, ks[1])
        for turn in mo.static_range(mo.size(scales.of_A, 1)):
            read_rows(scales, turn, ks[0] + turn, ks[1])


@mo.jit
def read_lanes(scales, j, k, k_last):
    """The factors of B of 32 k tiles from ``k`` on, one a lane."""
    for i in mo.static_range(len(scales.blocks)):
        scales.of_B[i, j] = scales.B[scales.blocks[i], mo.min(k + mo.lane_idx(), k_last - 1)]


@mo.jit
def read_rows(scales, turn, k, k_last):
    """The factors of A of a k tile, unless they come with its stage."""
    if mo.rank(scales.A) == 2:
        for r in mo.static_range(mo.size(scales.rows)):
            scales.of_A[r, turn] = scales.A[scales.rows[r], mo.min(k, k_last - 1)]


@mo.jit
def read_factors(scales, stage, k, ks, turn=0):
    """The factors of A that came with a stage, and those of B, of whatever lane has them; behind the last lane's come
    the next 32.
    """
    if scales is not None:
        mo.pin(scales.rows)                             # no sooner than here
        if mo.rank(scales.A) == 3:
            for r in mo.static_range(mo.size(scales.rows)):
                scales.of_A[r, turn] = scales.A[scales.rows[r], 0, stage]
        at = (k - ks[0]) & (_LANES - 1)
        for i in mo.static_range(len(scales.blocks)):
            scales.here[i] = mo.shuffle_idx(scales.of_B[i, 0], at)
        if at == _LANES - 1:
            for i in mo.static_range(len(scales.blocks)):
                scales.of_B[i, 0] = scales.of_B[i, 1]
            read_lanes(scales, 1, k + 1 + _LANES, ks[1])


@mo.jit
def multiply(scales, k, ks, turn=0):
    """What was read becomes the factors of this k tile, and what is read ahead is asked for."""
    if scales is not None:
        slabs = mo.size(scales.factors, 2)
        for s in mo.static_range(mo.size(scales.factors, 1)):
            of_B = scales.here[0]
            for i in mo.static_range(1, len(scales.blocks)):
                if s > 0:
                    of_B = mo.where(s < scales.second + (i - 1) * scales.strips_of_block, of_B, scales.here[i])
            for r in mo.static_range(2 * slabs):
                scales.factors[r % 2, s, r // 2] = scales.of_A[r, turn] * of_B
        mo.pin(scales.factors)                          # before the stage is given back, and so what was read has come
        read_rows(scales, turn, k + mo.size(scales.of_A, 1), ks[1])


@mo.jit
def stages_of_scales(plan):
    """Shared memory (rows, 1, stages) for the factors of A; None if they are read from where they are."""
    return None if plan.product.staged is None else mo.shared_array(mo.float32, plan.product.staged)


# --- host ------------------------------------------------------------------------------------------------------------


def check_scales(name: str, scale_a: Any, scale_b: Any, a: Any, b: Any, c: Any, refused: dict[str, bool]) -> bool:
    """Whether there are factors of blocks; ArgumentError for those that do not fit A (M, K) and B (N, K).

    ``refused``: what else was asked for that does not go with them.
    """
    if scale_a is None and scale_b is None:
        return False
    if scale_a is None or scale_b is None:
        given, other = ("scale_b", "scale_a") if scale_a is None else ("scale_a", "scale_b")
        raise mo.ArgumentError(f"{name}: {given} is given without {other}",
                               hint="row_scale and col_scale take one factor for a whole row or column")
    for letter, x in (("A", a), ("B", b)):
        if not (x.dtype.is_float and x.dtype.bits == 8):
            raise mo.ArgumentError(f"{name}: scale_a and scale_b are of blocks of 8-bit floats, and {letter} holds "
                                   f"{x.dtype}")
    clash = [option for option, asked in refused.items() if asked]
    if clash:
        raise mo.ArgumentError(f"{name}: {clash[0]} does not go with scale_a and scale_b, whose products are added up "
                               f"in float32 for each {BLOCK} of K")
    blocks = -(-a.shape[1] // BLOCK)
    for letter, x, shape, of in (("scale_a", scale_a, (a.shape[0], blocks, *a.shape[2:]), "A"),
                                 ("scale_b", scale_b, (-(-b.shape[0] // BLOCK), blocks, *b.shape[2:]), "B")):
        info = array(name, letter, x, (len(shape),), f"float32 {shape}")
        if info.dtype != mo.float32 or tuple(info.shape) != shape:
            owner = a if of == "A" else b
            each = f"a row and {BLOCK} of K" if of == "A" else f"{BLOCK} x {BLOCK}"
            raise mo.ArgumentError(f"{name}: {letter} must be float32 {shape}, a factor for each {each} of {of} "
                                   f"{tuple(owner.shape)}, not {info.dtype} {tuple(info.shape)}")
        if info.device != c.device:
            raise mo.ArgumentError(f"{name}: {letter} is not on the device of C", hint="move them to one device")
        apart(name, letter, info, c)
    return True


def no_blocks(like: Any, x: Any, rows: int = 1) -> Any:
    """Factors of an operand whose K is padded with zeros from none to one block; ``rows`` have one in common."""
    return zeros(like, mo.float32, (-(-x.shape[0] // rows), 1, *x.shape[2:]))


def stages_of_factors(config: Any, how: str) -> Any:
    """The layout of ``stages_of_scales`` if TMA loads them from a tile's first row ("tma") or from a multiple of four
    rows in front of it ("anywhere"); each stage begins at 128 bytes.
    """
    rows = config.bM + FOUR * (how == "anywhere")
    if how not in ("tma", "anywhere") or rows > _BOX:
        return None
    return mo.make_layout((rows, 1, config.stages), (1, rows, -(-rows // _ALIGNED) * _ALIGNED))


def by_tma(scale_a: Any) -> bool:
    """Whether TMA loads the factors of A, a k tile at a time."""
    info = mo.describe(scale_a)
    return info is not None and contiguous_mode(info, (0,), loads=True) == 0


def tma_scales(plan: Any, scale_a: Any) -> Any:
    """The factors of A as the kernel takes them: as they are, or a TMA copy of those of a tile."""
    if plan.product.staged is None:
        return scale_a
    rows, deep = mo.size(plan.product.staged, 0), (1,) if plan.extents.batched else ()
    return mo.TmaCopy(mo.TmaLoad(), scale_a, mo.make_layout((rows, 1)), (rows, 1, *deep), 1)
