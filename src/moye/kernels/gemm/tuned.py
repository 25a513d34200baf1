"""The kernels with a search for their configuration instead of a rule: ``moye.autotune`` around each.

In: the kernel's arguments.  Out: what the kernel gives, after a search the first time a problem is met.

    tuned_gemm_sm90(A, B, C, activation="gelu"); print(tuned_gemm_sm90.report())

The search takes seconds and its result is kept on disk; ``gemm_simt`` and ``gemm_sm90`` themselves never search.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import moye as mo
from moye.kernels.gemm.simt import config as simt_config
from moye.kernels.gemm.simt.config import DOUBLE, FLOAT, TileConfig
from moye.kernels.gemm.simt.kernel import gemm_simt, problem_of
from moye.kernels.gemm.sm90 import config as warpgroup_config
from moye.kernels.gemm.sm90.config import Problem, WarpgroupConfig
from moye.kernels.gemm.sm90.fusion import Fusion
from moye.kernels.gemm.sm90.host import OUTPUTS, gemm_sm90
from moye.kernels.gemm.sm90.host import problem_of as problem_of_sm90

_SPLITS = (1, 2, 4, 8, 16, 32)
_NEAR = 2.0                             # times the best predicted time, beyond which nothing is tried


def _unfit(config: mo.Config, *, A: Any, B: Any, C: Any, **_: Any) -> bool | str:
    """Why a configuration is not worth compiling for this problem."""
    a, b, c = mo.describe(A), mo.describe(B), mo.describe(C)
    if a is None or b is None or c is None or len({len(x.shape) for x in (a, b, c)}) > 1 \
            or len(c.shape) not in (2, 3) or 0 in c.shape:
        return False                    # gemm_simt says what is wrong with them
    tile: TileConfig = config["config"]
    if tile not in simt_config.configs(a.dtype.bytes):
        return f"not for {a.dtype}"
    problem, multiprocessors = problem_of(a, b, c), mo.multiprocessors(c)
    if config["splits"] > 1 and config["splits"] > simt_config.most_parts(tile, problem.K, multiprocessors):
        return "too little along K to split"
    best = simt_config.estimate(*simt_config.choose(problem, multiprocessors), problem, multiprocessors)
    if simt_config.estimate(tile, config["splits"], problem, multiprocessors) > _NEAR * best:
        return "slower, the model of costs says"
    return False


@mo.autotune([mo.Config(config=tile, splits=n) for tile in (*FLOAT, *DOUBLE) for n in _SPLITS], key=["A", "B", "C"],
             prune=_unfit)
def tuned_gemm_simt(A: Any, B: Any, C: Any, *, config: TileConfig | None = None, splits: int | None = None,
                    **options: Any) -> Any:
    """``gemm_simt`` with the fastest tile configuration and number of K splits for these shapes and strides."""
    return gemm_simt(A, B, C, config=config, splits=splits, **options)


# --- Hopper ----------------------------------------------------------------------------------------------------------

_FEW = (8, 16, 32, 64, 128)             # rows or columns up to which narrow tiles are tried
_ALSO_WIDE = 32                         # and above which wide ones are tried beside them
_MOST = 40                              # tiles that are tried beside the rule's choice


@functools.lru_cache(maxsize=4096)
def _worth_trying(dtype: Any, M: int, N: int, gated: bool, out: int) -> tuple[WarpgroupConfig, ...]:
    """Wide tiles; for few rows or columns of C narrow ones, with that mode along their columns.

    ``out``: bytes of an element of C.
    """
    wide, few = warpgroup_config.configs(dtype, gated=gated, out=out), min(M, N)
    if gated or few > max(_FEW):
        return wide
    narrow = tuple(replace(config, swap=M < N) for config in warpgroup_config.configs(dtype, skinny=few, out=out))
    return (*narrow, *wide) if few > _ALSO_WIDE else narrow


def _of_any_problem() -> list[WarpgroupConfig]:
    """What is worth trying for some shape and dtype, each once; of a dtype only the width matters."""
    shapes = [(4096, 4096), *((few, 4096) for few in _FEW), *((4096, few) for few in _FEW)]
    return list(dict.fromkeys(config for dtype in (mo.int8, mo.float16, mo.float32) for gated in (False, True)
                              for out in (2, 4) for M, N in shapes
                              for config in _worth_trying(dtype, M, N, gated, out)))


def _too_short(tile: WarpgroupConfig, K: int) -> bool:
    """Whether there are fewer k tiles than blocks that share them."""
    return tile.split_k > 1 and tile.split_k * tile.bK > K


@functools.lru_cache(maxsize=64)
def _soonest(problem: Problem, tiles: tuple[WarpgroupConfig, ...], multiprocessors: int) -> frozenset[WarpgroupConfig]:
    """Those of the tiles that the model of costs finds soonest, ``_MOST`` at most."""
    return frozenset(sorted(tiles, key=lambda tile: warpgroup_config.estimate(tile, problem, multiprocessors))[:_MOST])


def _unfit_sm90(config: mo.Config, *, A: Any, B: Any, C: Any, fast_accum: bool, fusion: dict[str, Any],
                **_: Any) -> bool | str:
    """Why a configuration is not worth compiling for this product."""
    a, b, c, tile = mo.describe(A), mo.describe(B), mo.describe(C), config["config"]
    if a is None or b is None or c is None or a.dtype not in OUTPUTS \
            or min(len(x.shape) for x in (a, b, c)) < 2 or 0 in c.shape or a.shape[1] == 0:
        return False                    # gemm_sm90 says what is wrong with them
    (M, N), K = c.shape[:2], a.shape[1]
    if tile is None:                    # the rule's choice, so that no search ends with less
        return False
    gated, promote = bool(fusion.get("gated")), a.dtype.is_float and a.dtype.bits == 8 and not fast_accum
    worth = _worth_trying(a.dtype, M, N, gated, c.dtype.bytes)
    if tile not in worth:
        return f"not for {a.dtype} and {M} x {N}"
    if not warpgroup_config.fits(tile, promote):
        return "float32 sums of float8 products take twice the registers"
    if _too_short(tile, K):
        return "too little along K to split"
    fitting = tuple(tile for tile in worth if warpgroup_config.fits(tile, promote) and not _too_short(tile, K))
    problem = problem_of_sm90(a, b, c, Fusion(gated=gated), promote)
    if tile not in _soonest(problem, fitting, mo.multiprocessors(c)):
        return "slower, the model of costs says"
    return False


def accumulates(*, beta: Any, **_: Any) -> bool:
    """Whether C is read, and then not stored by TMA: another kernel, whatever beta is."""
    return not (isinstance(beta, (int, float)) and beta == 0)


@mo.autotune([mo.Config(config=tile) for tile in (None, *_of_any_problem())],
             key=["A", "B", "C", "fast_accum", "fusion", accumulates], prune=_unfit_sm90)
def tuned_gemm_sm90(A: Any, B: Any, C: Any, *, alpha: float = 1, beta: float = 0, fast_accum: bool = False,
                    config: WarpgroupConfig | None = None, **fusion: Any) -> Any:
    """``gemm_sm90`` with the fastest configuration for these shapes, strides and fused operations; sm_90a."""
    return gemm_sm90(A, B, C, alpha=alpha, beta=beta, fast_accum=fast_accum, config=config, **fusion)
