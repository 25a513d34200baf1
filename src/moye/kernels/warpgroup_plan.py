"""Configurations, layouts and tiled operations of ``gemm_sm90``.

In: the problem and what is contiguous.  Out: ``WarpgroupConfig``, and ``Plan``: what a launch is specialised on.

>>> make_plan(WarpgroupConfig(128, 256, 64, 4), mo.bfloat16, mo.bfloat16, "k", "k")
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import moye as mo

CONSUMERS, THREADS = 256, 384
DTYPES = (mo.float16, mo.bfloat16)
CHUNK = 64
"""Columns of C that are stored at a time: 128 bytes of 16-bit elements."""


@dataclass(frozen=True, slots=True)
class WarpgroupConfig:
    """Tiles of ``bM x bN x bK`` in ``stages`` stages; two warpgroups share a tile, 64 rows each."""

    bM: int
    bN: int
    bK: int
    stages: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What a launch is specialised on; ``chunk`` is the MMA that has the accumulators of one chunk."""

    config: WarpgroupConfig
    dtype: Any
    out: Any
    sA: Any
    sB: Any
    sC: Any
    sA_tile: Any
    sB_tile: Any
    sC_tile: Any
    mma: mo.TiledMMA
    chunk: mo.TiledMMA
    store: mo.TiledCopy


def choose(M: int, N: int, K: int) -> WarpgroupConfig:
    """The widest tile that does not leave most of the device idle."""
    return WarpgroupConfig(128, 256, 64, 4) if -(-M // 128) * -(-N // 256) >= 64 else WarpgroupConfig(128, 128, 64, 5)


@functools.lru_cache(maxsize=256)
def make_plan(config: WarpgroupConfig, dtype: Any, out: Any, major_A: str, major_B: str) -> Plan:
    """The layouts and operations of a configuration; ArgumentError for one that the kernel cannot have."""
    _require(config)
    bM, bN, bK, stages = config.bM, config.bN, config.bK, config.stages
    atoms = [mo.smem_layout_atom(t, major) for t, major in ((dtype, major_A), (dtype, major_B), (out, "k"))]
    majors = (major_A, major_B, "k")
    sA, sB, sC = (_tiles(atom, major, shape) for atom, major, shape in
                  zip(atoms, majors, ((bM, bK, stages), (bN, bK, stages), (bM, CHUNK, 2)), strict=True))
    tile_A, tile_B, tile_C = (_tiles(atom, major, shape) for atom, major, shape in
                              zip(atoms, majors, ((bM, bK), (bN, bK), (64, CHUNK)), strict=True))
    two = mo.make_layout((2, 1))
    mma, chunk = (mo.make_tiled_mma(mo.mma.wgmma(dtype, dtype, mo.float32, n, a_major=major_A, b_major=major_B), two)
                  for n in (bN, CHUNK))
    store = mo.make_tiled_copy_C(mo.CopyAtom(mo.StMatrix(4), out), chunk)
    return Plan(config, dtype, out, sA, sB, sC, tile_A, tile_B, tile_C, mma, chunk, store)


def _tiles(atom: Any, major: str, shape: tuple[int, ...]) -> Any:
    """Atoms one after the other along K, so that a box of TMA has the rows of an atom and all of K."""
    return mo.tile_to_shape(atom, shape, (1, 0, 2)[:len(shape)] if major == "mn" else None)


def _require(config: WarpgroupConfig) -> None:
    """ArgumentError for extents that the layouts, the instruction or the ring of stages do not take."""
    for name, value, holds, why in (
            ("bM", config.bM, config.bM == 128, "is not 128: two warpgroups have 64 rows each"),
            ("bN", config.bN, config.bN % CHUNK == 0 and config.bN <= 256, f"is none of {CHUNK}, 128, 192 and 256"),
            ("bK", config.bK, config.bK % 64 == 0, "is no multiple of 64, the columns of a swizzled row"),
            ("stages", config.stages, config.stages > 1, "is less than 2: one is filled while another is read")):
        if not holds:
            raise mo.ArgumentError(f"gemm_sm90: {name}={value} of {config} {why}")
