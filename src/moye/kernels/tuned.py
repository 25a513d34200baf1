"""The kernels with their configuration searched for instead of chosen by rule: ``moye.autotune`` around each.

In: the kernel's arguments.  Out: what the kernel gives, after a search the first time a problem is met.

>>> tuned_gemm_simt(A, B, C); print(tuned_gemm_simt.report())

The search takes seconds and its result is kept on disk; ``gemm_simt`` itself never searches.
"""

from __future__ import annotations

from typing import Any

import moye as mo
from moye.kernels.gemm_simt import gemm_simt
from moye.kernels.simt_config import DOUBLE, FLOAT, SMS, TileConfig, configs, fits

_SPLITS = (1, 2, 4, 8)
_WAVES = 4                              # of blocks, beyond which splitting K cannot help


def _unfit(config: mo.Config, *, A: Any, B: Any, **_: Any) -> bool | str:
    """Why a configuration is not worth compiling for this problem."""
    a, b = mo.describe(A), mo.describe(B)
    if a is None or b is None or len(a.shape) != 2 or len(b.shape) != 2:
        return False                    # gemm_simt says what is wrong with them
    tile: TileConfig = config["config"]
    (M, K), N = a.shape, b.shape[0]
    if tile not in configs(a.dtype.bytes):
        return f"not for {a.dtype}"
    if not fits(tile, M, N, K):
        return "the tile does not divide the problem"
    tiles = -(-M // tile.bM) * -(-N // tile.bN)
    if config["splits"] > 1 and (K // tile.bK < 4 * config["splits"] or tiles > _WAVES * SMS):
        return "too little along K to split"
    return False


@mo.autotune([mo.Config(config=tile, splits=n) for tile in (*FLOAT, *DOUBLE) for n in _SPLITS], key=["A", "B", "C"],
             prune=_unfit)
def tuned_gemm_simt(A: Any, B: Any, C: Any, *, alpha: float = 1, beta: float = 0, config: TileConfig | None = None,
                    splits: int | None = None) -> Any:
    """``gemm_simt`` with the fastest tile configuration and number of K splits for these shapes and strides."""
    return gemm_simt(A, B, C, alpha=alpha, beta=beta, config=config, splits=splits)
