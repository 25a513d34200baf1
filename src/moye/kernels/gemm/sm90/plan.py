"""Layouts and tiled operations of ``gemm_sm90``: what a launch is specialised on.

In: a configuration, dtypes, what is contiguous, how C is stored, what is fused.  Out: ``Plan``.

    make_plan(config, (mo.bfloat16, mo.bfloat16), mo.bfloat16, "k", "k", "k", Fusion())
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import gcd
from typing import Any

import moye as mo
from moye.kernels.gemm.sm90.config import WarpgroupConfig, require


@dataclass(frozen=True, slots=True)
class Fusion:
    """What is done to the sums on their way to C, of which only what is asked for is done, in this order.

    sums * alpha * row_scale[m] * col_scale[n] + beta * C + residual + bias[n], then the activation; ``gated``: two
    products, the activation of the first times the second.
    """

    scaled: bool = False
    rows: bool = False
    columns: bool = False
    accumulate: bool = False
    residual: bool = False
    bias: bool = False
    activation: Callable[[Any], Any] | None = None
    gated: bool = False

    @property
    def plain(self) -> bool:
        """Whether sums are at most scaled: then registers are left for wider pieces."""
        return replace(self, scaled=False) == Fusion()


@dataclass(frozen=True, slots=True)
class Plan:
    """What a launch is specialised on.  ``chunk`` is the MMA that has the sums of the columns stored at a time.

    ``major_C``: the mode along which TMA stores C, "k" for N and "mn" for M, or "" for plain stores.
    """

    config: WarpgroupConfig
    dtypes: tuple[Any, Any]
    out: Any
    sA: Any
    sB: Any
    sC: Any
    tiles: tuple[Any, Any, Any]
    mma: mo.TiledMMA
    chunk: mo.TiledMMA
    columns: int
    store: mo.TiledCopy
    major_C: str
    fusion: Fusion
    promote: bool
    batched: bool
    extents: tuple[int, int, int] | None

    @property
    def gathers(self) -> bool:
        """Whether blocks of a cluster gather their parts of the sums."""
        return self.config.split_k > 1


@functools.lru_cache(maxsize=1024)
def make_plan(config: WarpgroupConfig, dtypes: tuple[Any, Any], out: Any, major_A: str, major_B: str, major_C: str,
              fusion: Fusion = Fusion(), width: int = 1, promote: bool = False, batched: bool = False,
              extents: tuple[int, int, int] | None = None) -> Plan:
    """The plan of one kind of problem; ArgumentError for a configuration that the kernel cannot have.

    ``width``: elements of C that one plain store takes.
    """
    a, b = dtypes
    require(config, a, gated=fusion.gated)
    bM, bN, bK, stages = config.bM, config.bN, config.bK, config.stages
    halves = 2 if fusion.gated else 1
    columns = gcd(bN // halves, _widest(config, fusion, major_C, width))
    if not major_C and out.bits == 16:          # by 1: ptxas serialises products whose sums are only rounded and stored
        fusion = replace(fusion, scaled=True)   # under predicates (C7514)
    sA, tile_A = _operand(a, major_A, bM, bK, stages)
    sB, tile_B = _operand(b, major_B, bN, bK, stages, halves)
    sums = mo.int32 if a in (mo.int8, mo.uint8) else mo.float32
    shared = 1 if config.schedule == "pingpong" else config.groups
    mma = mo.make_tiled_mma(mo.mma.wgmma(a, b, sums, bN, a_major=major_A, b_major=major_B),
                            mo.make_layout((shared, 1)))
    chunk = mo.make_tiled_mma(mo.mma.wgmma(a, b, sums, columns), mo.make_layout((1, 1)))
    sC, tile_C = _staged(config, out, major_C, columns)
    return Plan(config, dtypes, out, sA, sB, sC, (tile_A, tile_B, tile_C), mma, chunk, columns,
                _store(out, major_C, columns, width, chunk), major_C, fusion, promote, batched, extents)


def _widest(config: WarpgroupConfig, fusion: Fusion, major_C: str, width: int) -> int:
    """Columns of C that are finished and stored at a time, 32 sums a thread; fewer where other things take registers:
    what is fused, the sums of eight blocks, the addresses and predicates of plain stores and of strided loads.
    """
    if not fusion.plain:
        return 16 if not major_C else 32
    return 32 if config.split_k == 8 or (not major_C and width == 1) else 64


def _operand(dtype: Any, major: str, rows: int, bK: int, stages: int, halves: int = 1) -> tuple[Any, Any]:
    """Shared layout (rows, bK, stages) and that of what one TMA copy brings; few rows lie in narrower swizzles."""
    atom = mo.smem_layout_atom(dtype, major, 128 if major == "k" else gcd(128, rows // halves * dtype.bytes))
    return _tiles(atom, major, (rows, bK, stages)), _tiles(atom, major, (rows // halves, bK))


def _staged(config: WarpgroupConfig, out: Any, major: str, columns: int) -> tuple[Any, Any]:
    """Shared layout (64 * groups, columns, 2) of C on its way out, and that of one TMA store."""
    if not major:
        return None, None
    rows = 64 if config.store == "warpgroup" else 16
    row = columns * out.bytes if major == "k" else 128
    atom = mo.smem_layout_atom(out, major, min(row, 128))
    return _tiles(atom, major, (64 * config.groups, columns, 2)), _tiles(atom, major, (rows, columns))


def _tiles(atom: Any, major: str, shape: tuple[int, ...]) -> Any:
    """Atoms one after the other along the mode that is not contiguous, so that a box of TMA has all of it."""
    return mo.tile_to_shape(atom, shape, (1, 0, 2)[:len(shape)] if major == "mn" else None)


def _store(out: Any, major: str, columns: int, width: int, chunk: mo.TiledMMA) -> mo.TiledCopy:
    """Registers to shared memory, matrices of 8x8 at a time, or to global memory, ``width`` elements."""
    if major:
        return mo.make_tiled_copy_C(mo.CopyAtom(mo.StMatrix(4 if columns > 8 else 2, transpose=major == "mn"), out),
                                    chunk)
    words = {1: mo.uint8, 2: mo.uint16, 4: mo.uint32, 8: mo.uint64}
    return mo.make_tiled_copy_C(mo.CopyAtom(mo.UniversalCopy(words[out.bytes * width]), out), chunk)
