"""Layouts and tiled operations of ``gemm_sm90``: what a launch is specialised on.

In: a configuration, dtypes, what is contiguous, how C is stored, what is fused.  Out: ``Plan``.

    make_plan(config, (mo.bfloat16, mo.bfloat16), mo.bfloat16, "k", "k", "k", Fusion())

A plan follows the data: A and B come in, are multiplied, are finished as ``Fusion`` says, and C goes out.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from math import gcd
from typing import Any

import moye as mo
from moye.kernels.gemm.sm90.config import MEETING, SECTOR, WarpgroupConfig, pitch_of, require
from moye.kernels.gemm.sm90.fusion import Fusion
from moye.kernels.gemm.sm90.scales import stages_of_factors

_NOTHING = Fusion()


@dataclass(frozen=True, slots=True)
class Operand:
    """How A or B comes in: shared memory of ``stages`` (rows, bK, stages), of which one TMA copy fills a ``box``.

    The box is a stage, or a half of one where the rows are those of two factors of a gated product.
    """

    dtype: Any
    stages: Any
    box: Any


@dataclass(frozen=True, slots=True)
class Product:
    """How they are multiplied.  ``promote``: sums of one k tile are added up in registers (8-bit floats); ``scaled``:
    multiplied by factors of blocks before.  ``staged``: shared memory (rows, 1, stages) of those of A, if TMA loads
    them: of bM rows, or of 4 more, from the multiple of 4 in front, where tiles begin at any row.
    """

    mma: mo.TiledMMA
    promote: bool
    scaled: bool = False
    staged: Any = None

    @property
    def readers(self) -> int:
        """Arrivals of a warpgroup that has read a stage."""
        return 1 if self.staged is None else 4


@dataclass(frozen=True, slots=True)
class Output:
    """How C goes out: in pieces of 64 rows and ``columns`` columns, whose sums ``piece`` spreads over a warpgroup.

    ``major``: the mode along which TMA stores C, "k" for N and "mn" for M, or "" for plain stores.  ``copy`` takes a
    piece from registers to shared memory (or to global memory).  ``staged`` is that shared memory (64 * groups,
    columns, 2), of which one TMA copy stores a ``box``; both are None for plain stores straight from registers.  Rows
    that begin anywhere are ``staged`` (64 * groups, bN and room), 16 columns after the other, and leave whole;
    ``grain`` elements divide the distances of all rows to 16 bytes.  ``overlap``: columns that neighbouring tiles share
    then.
    """

    dtype: Any
    major: str
    columns: int
    piece: mo.TiledMMA
    copy: mo.TiledCopy
    staged: Any
    box: Any
    grain: int
    overlap: int = 0

    @property
    def by_rows(self) -> bool:
        """Whether rows of tiles leave whole."""
        return not self.major and self.staged is not None


@dataclass(frozen=True, slots=True)
class Extents:
    """What is known of the extents: whether there are batches, and (M, N, K) where these are constants."""

    batched: bool
    constant: tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a launch is specialised on."""

    config: WarpgroupConfig
    A: Operand
    B: Operand
    product: Product
    fusion: Fusion
    C: Output
    extents: Extents
    follows: bool = False
    """Whether the launch before copies an operand for this one, which begins before that ends.

    Not where blocks have several tiles in turn: they took up to a quarter longer then (tf32, 3072x7552x4736, A along M:
    759 us for 615), which nothing that a block does explains.
    """
    once: bool = False
    """Whether each block, or all that share a tile, have one tile, whose place is theirs in the grid."""

    @property
    def gathers(self) -> bool:
        """Whether several blocks gather their parts of the sums."""
        return self.config.split_k > 1

    @property
    def in_cluster(self) -> bool:
        """Whether these are the blocks of a cluster, which gather where their stages were."""
        return self.gathers and self.config.gather == "cluster"

    @property
    def in_turns(self) -> bool:
        """Whether the warpgroups have a tile each and take turns to multiply."""
        return self.config.schedule == "pingpong"

    # For the kernel; a launch does not compare methods again, as it does what a kernel reads from modules.

    def pieces(self, acc: Any) -> Any:
        """The accumulators as pieces of 64 rows and ``C.columns`` columns: (sums, column, row)."""
        each = self.C.columns // 2                      # 64 * columns elements of 128 threads
        return acc.with_layout(mo.make_layout((each, self.config.bN // self.C.columns, self.config.rows // 64)))


@functools.lru_cache(maxsize=1024)
def make_plan(config: WarpgroupConfig, dtypes: tuple[Any, Any], out: Any, major_A: str, major_B: str, major_C: str,
              fusion: Fusion = _NOTHING, width: int = 1, promote: bool = False, batched: bool = False,
              extents: tuple[int, int, int] | None = None, scaled: str = "", by_rows: bool = False,
              overlap: int = 0, follows: bool = False, once: bool = False) -> Plan:
    """The plan of one kind of problem; ArgumentError for a configuration that the kernel cannot have.

    ``width``: elements of C that one plain store takes.  ``scaled``: blocks have factors, and those of A come by "tma",
    also where tiles begin "anywhere", or are read by "threads".  ``by_rows``: rows of tiles, of which neighbours share
    ``overlap`` columns, go through shared memory as a whole.
    """
    a, b = dtypes
    require(config, a, gated=fusion.gated, scaled=scaled != "")
    halves = 2 if fusion.gated else 1
    if not major_C and out.bits == 16:          # by 1: ptxas serialises products whose sums are only rounded and stored
        fusion = replace(fusion, scaled=True)   # under predicates (C7514)
    A = _operand(a, major_A, config.bM, config)
    B = _operand(b, major_B, config.bN, config, halves)
    sums = mo.int32 if a in (mo.int8, mo.uint8) else mo.float32
    shared = 1 if config.schedule == "pingpong" else config.groups      # warpgroups that share a tile
    columns = config.bN // (config.widths if promote else 1)            # of an instruction
    mma = mo.make_tiled_mma(mo.mma.wgmma(a, b, sums, columns, a_major=major_A, b_major=major_B),
                            mo.make_layout((shared, 1)))
    staged = stages_of_factors(config, scaled)
    columns = gcd(config.bN // halves, min(_widest(config, fusion, major_C, width, by_rows),
                                           _boxed(config, out) if major_C else 64))
    piece = mo.make_tiled_mma(mo.mma.wgmma(a, b, sums, columns), mo.make_layout((1, 1)))
    C = Output(out, major_C, columns, piece, _copy(out, major_C, columns, width, piece),
               *_staged(config, out, major_C, columns, by_rows), width, overlap)
    if config.split_k > 1 and config.gather == "cluster" and major_C and \
            mo.cosize(C.staged) * out.bytes > mo.cosize(B.stages) * b.bytes:
        raise mo.ArgumentError(f"gemm_sm90: stages={config.stages} of {config} do not hold C of {out} on its way out, "
                               "which lies where tiles of B were")
    return Plan(config, A, B, Product(mma, promote, scaled != "", staged), fusion, C, Extents(batched, extents),
                follows, once)


def _widest(config: WarpgroupConfig, fusion: Fusion, major_C: str, width: int, by_rows: bool) -> int:
    """Columns of C that are finished and stored at a time, 32 sums a thread; fewer where other things take registers:
    what is fused, the sums of eight blocks, the addresses and predicates of plain stores and of strided loads.
    """
    if by_rows:                                                         # places are counted in these
        return SECTOR
    if not fusion.plain:
        return 16 if not major_C else 32
    narrow = config.groups == 3 or config.split_k == 8 or (not major_C and width == 1)
    if config.split_k > 1:                              # the widest of which no block has more columns than it need
        found = (16, 8) if config.gather == "memory" else (64, 32, 16)[narrow:]
        return min(found, key=lambda wide: -(-(config.rows // 64 * config.bN // wide) // config.split_k) * wide)
    return 32 if narrow else 64


def _boxed(config: WarpgroupConfig, out: Any) -> int:
    """Columns of C in a box of TMA: rows of 128 bytes at most, and two buffers that are small where blocks meet."""
    meets = config.split_k > 1 and config.gather == "memory"
    return min(128, MEETING // 128 if meets else 128) // int(out.bytes)


def _operand(dtype: Any, major: str, rows: int, config: WarpgroupConfig, halves: int = 1) -> Operand:
    """Rows of 128 bytes, swizzled as TMA and wgmma have it; few rows lie in narrower swizzles."""
    atom = mo.smem_layout_atom(dtype, major, 128 if major == "k" else gcd(128, rows // halves * dtype.bytes))
    return Operand(dtype, _tiles(atom, major, (rows, config.bK, config.stages)),
                   _tiles(atom, major, (rows // halves, config.bK)))


def _staged(config: WarpgroupConfig, out: Any, major: str, columns: int, by_rows: bool) -> tuple[Any, Any]:
    """Shared layout (64 * groups, columns, 2) of C on its way out, and that of one TMA store; or of rows with room."""
    if not major:
        pitch = pitch_of(config.bN)
        return mo.make_layout((64 * config.groups, pitch), (pitch, 1)) if by_rows else None, None
    rows = 64 if config.store == "warpgroup" else 16
    row = columns * out.bytes if major == "k" else 128
    atom = mo.smem_layout_atom(out, major, min(row, 128))
    return _tiles(atom, major, (64 * config.groups, columns, 2)), _tiles(atom, major, (rows, columns))


def _tiles(atom: Any, major: str, shape: tuple[int, ...]) -> Any:
    """Atoms one after the other along the mode that is not contiguous, so that a box of TMA has all of it."""
    return mo.tile_to_shape(atom, shape, (1, 0, 2)[:len(shape)] if major == "mn" else None)


def _copy(out: Any, major: str, columns: int, width: int, piece: mo.TiledMMA) -> mo.TiledCopy:
    """Registers to shared memory, matrices of 8x8 at a time if of 16 bits, or to global memory, ``width`` elements."""
    if major and out.bits == 16:
        return mo.make_tiled_copy_C(mo.CopyAtom(mo.StMatrix(4 if columns > 8 else 2, transpose=major == "mn"), out),
                                    piece)
    if major:
        width = 2 if major == "k" else 1
    words = {1: mo.uint8, 2: mo.uint16, 4: mo.uint32, 8: mo.uint64}
    return mo.make_tiled_copy_C(mo.CopyAtom(mo.UniversalCopy(words[out.bytes * width]), out), piece)
