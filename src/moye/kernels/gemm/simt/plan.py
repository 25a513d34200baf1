"""What a launch of ``gemm_simt`` is specialised on: how operands come in, how they lie, who multiplies what.

In: a configuration, a dtype, how each operand is copied, which edges are ragged.  Out: ``Plan``, one for each kind.

    make_plan(config, mo.float32, ("vector", "k vector"), ("whole", "shifted"), True, 4)

Operands stay as they are: along their rows in shared memory, or along K.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels.gemm.parts.epilogues import Epilogue
from moye.kernels.gemm.simt.config import TileConfig

_PLAIN = Epilogue()


@dataclass(frozen=True, slots=True)
class Plan:
    """Layouts and tiled operations, and which edges are ragged."""

    config: TileConfig
    sA: mo.Layout
    sB: mo.Layout
    copy_A: mo.TiledCopy
    copy_B: mo.TiledCopy
    mma: mo.TiledMMA
    along_k: tuple[bool, bool]
    """Whether A and B lie along K in shared memory."""
    edges: tuple[str, str]
    """Along M and N: tiles are "whole", or the last is "shifted" back to end with C, or C is "short" of one."""
    steps: tuple[int, int]
    """What the extents along M and N are multiples of, and shifted tiles begin at multiples of."""
    ragged_K: bool
    vector: int
    """Elements along M that C is stored by."""
    split: bool = False
    batched: bool = False
    epilogue: Epilogue = _PLAIN
    bias_mode: int = 1
    """The mode of C along which the bias runs."""
    follows: bool = False
    """Whether the launch before copies an operand for this one, which begins before that ends."""
    padded: tuple[bool, bool] = (False, False)
    """Whether A and B have rows up to the next 16 bytes, of which C has none."""

    @property
    def quad(self) -> int:
        """Elements of 16 bytes."""
        return 16 // self.mma.op.a_dtype.bytes

    @property
    def turns(self) -> bool:
        """Whether operands come through registers."""
        return self.config.turns

    @property
    def hold(self) -> str:
        """The operand that is held while the other passes by: one that lies along K, of two the one of fewer rows."""
        if all(self.along_k):
            return "A" if self.config.tM <= self.config.tN else "B"
        return "A" if self.along_k[0] else "B"

    @property
    def pieces(self) -> int:
        """Pieces in which the other operand passes by."""
        if all(self.along_k):
            return self.config.tN if self.hold == "A" else self.config.tM
        return self.quad

    @property
    def unroll(self) -> int:
        """Turns of the loop over the k of a tile that are unrolled, where both operands lie along K."""
        sums = self.config.tM * self.config.tN
        return 2 if sums < 64 or (sums > 64 and self.config.blocks == 1) else 1


@functools.lru_cache(maxsize=1024)
def make_plan(config: TileConfig, dtype: Any, majors: tuple[str, str], edges: tuple[str, str], ragged_K: bool,
              vector: int, *, split: bool = False, batched: bool = False, epilogue: Epilogue = _PLAIN,
              bias_mode: int = 1, wide: bool = True, follows: bool = False,
              padded: tuple[bool, bool] = (False, False)) -> Plan:
    """Layouts and tiled operations of one kind of problem; the same object for the same kind.

    ``majors`` says how operands are copied: 16 bytes along their rows ("vector") or along K ("k vector"), or element by
    element ("element", "k").  ``wide``: a thread's rows are 16 bytes together (128-bit shared reads and stores); else
    neighbouring lanes' rows are, for outputs whose columns are not aligned, where coalesced stores matter more.
    """
    quad = 16 // dtype.bytes
    lanes, groups, warps = (config.lM, config.lN), (quad if wide else 1, quad), (config.wM, config.wN)
    sA, copy_A = _operand(config, dtype, config.bM, majors[0], groups[0])
    sB, copy_B = _operand(config, dtype, config.bN, majors[1], groups[1])
    atoms = mo.Layout(tuple(zip(lanes, warps, strict=True)), ((1, 32), (lanes[0], 32 * config.wM)))
    perms = tuple(_rows(*mode) for mode in zip(lanes, warps, groups, (config.tM, config.tN), strict=True))
    mma = mo.make_tiled_mma(mo.UniversalFMA(dtype), atoms, perms)
    along_k = [major.startswith("k") and not config.turns for major in majors]
    steps = quad if majors[0] == "vector" else vector, quad if majors[1] == "vector" else 1
    return Plan(config, sA, sB, copy_A, copy_B, mma, (along_k[0], along_k[1]), edges, steps, ragged_K, vector, split,
                batched, epilogue, bias_mode, follows, padded)


def _rows(lanes: int, warps: int, group: int, values: int) -> mo.Layout:
    """Which rows are whose: ``group`` side by side are a thread's, then the next lane's, the next warp's, its next."""
    return mo.Layout(((lanes, warps), (group, values // group)),
                     ((group, group * lanes), (1, group * lanes * warps)))


def _operand(config: TileConfig, dtype: Any, rows: int, major: str, group: int) -> tuple[mo.Layout, mo.TiledCopy]:
    """Shared layout (rows, bK, stages) of an operand, and the copy that fills it.

    ``group``: rows of a thread side by side.
    """
    bK, threads, quad = config.bK, config.threads, 16 // dtype.bytes
    if config.turns:
        return _turned(config, dtype, rows, major)
    wide = mo.CopyAtom(mo.CpAsync(mo.uint128, cache="global"), dtype)
    single = mo.CopyAtom(mo.CpAsync(dtype), dtype)
    if major.startswith("k"):
        layout = _along_k(bK, rows, config.stages, group, quad)
        along, values = (bK // quad, quad) if major == "k vector" else (bK, 1)
        thr = mo.Layout((threads // along, along), (along, 1))
        if along == 4 and threads % 128 == 0 and rows % 32 == 0 and group == quad:
            # Eight lanes write two rows.  Rows 16 apart lie in other banks; neighbouring ones would share theirs.
            thr = mo.Layout(((16, 2, threads // 128), 4), ((8, 4, 128), 1))
        return layout, mo.make_tiled_copy(wide if values > 1 else single, thr, mo.make_layout((1, values)))
    layout = mo.make_layout((rows, bK, config.stages), (1, rows, rows * bK))
    if major == "vector":
        across = math.gcd(rows // quad, threads)
        return layout, mo.make_tiled_copy(wide, mo.make_layout((across, threads // across)), mo.make_layout((quad, 1)))
    across = math.gcd(rows, 32)
    thr = mo.make_layout((across, min(threads // across, bK)))
    return layout, mo.make_tiled_copy(single, thr, mo.make_layout((1, 1)))


def _turned(config: TileConfig, dtype: Any, rows: int, major: str) -> tuple[mo.Layout, mo.TiledCopy]:
    """The same where an operand comes through registers: along its rows in shared memory, however it lay before.

    The 4 bytes that 32 lanes write at a time lie in different banks: 8 k, one of each 16 bytes, of 4 rows, or 2 of 16
    rows; a k begins 4 banks behind the one before.
    """
    bK, quad, warps = config.bK, 16 // dtype.bytes, config.threads // 32
    layout = mo.make_layout((rows, bK, config.stages), (1, rows + quad, (rows + quad) * bK))
    values = quad if major.endswith("vector") else 1
    if major.startswith("k"):
        along = 8 // quad if values > 1 else 8
        down = math.gcd(warps, rows * along // 32)
        thr = mo.Layout(((32 // along, down), (along, warps // down)), ((along, 32), (1, 32 * down)))
        shape = (1, values)
    else:
        across = math.gcd(rows // values, 32 if values == 1 else config.threads)
        thr = mo.make_layout((across, config.threads // across))
        shape = (values, 1)
    atom = mo.CopyAtom(mo.UniversalCopy(mo.uint128 if values > 1 else dtype), dtype)
    return layout, mo.make_tiled_copy(atom, thr, mo.make_layout(shape))


def _along_k(bK: int, rows: int, stages: int, group: int, quad: int) -> mo.Layout:
    """Rows of K, 16 bytes longer than they need be: 16 bytes of 8 rows one below the other lie in different banks.

    Those are what 8 neighbouring lanes read: rows ``group`` apart, which therefore come first.
    """
    pitch = bK + quad
    if group == 1:
        return mo.make_layout((rows, bK, stages), (pitch, 1, rows * pitch))
    lines = min(8, rows // group)
    return mo.Layout(((group, lines, rows // group // lines), bK, stages),
                     ((lines * pitch, pitch, lines * group * pitch), 1, rows * pitch))
