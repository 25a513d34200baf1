"""Tile configurations of ``gemm_simt`` and the rule that picks one without search.

In: the problem (M, N, K, dtype width).  Out: a ``TileConfig`` and a number of K splits.

>>> choose(2048, 2048, 256, 4, 132)
(TileConfig(bM=128, bN=128, ...), 1)

The rule is a model: waves of blocks over the multiprocessors, the rate that a configuration reaches when they are full,
and what a launch and a reduction cost.  The rates are measured ones (H200, fp32).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

_CLOCK_FLOPS = 128 * 1.98e9 * 2     # FMA lanes of one multiprocessor, fp32
_PROLOGUE = 2.2e-6                  # seconds before a block's first FMA and after its last
_EPILOGUE = 6.0e-11                 # seconds per element of a block's tile, once
_REDUCTION = 4.0e-6                 # seconds of a second launch
_BANDWIDTH = 3.0e12


@dataclass(frozen=True, slots=True)
class TileConfig:
    """``bM x bN x bK`` tiles; ``tM x tN`` values a thread, in warps of 8 x 4 lanes, ``wM x wN`` of them; stages.

    ``blocks`` is how many blocks a multiprocessor holds, ``rate`` the share of peak that they reach together.
    """

    bM: int
    bN: int
    bK: int
    stages: int
    tM: int
    tN: int
    wM: int
    wN: int
    blocks: int
    rate: float
    whole: bool = False
    """Only for problems that the tile divides: with predicates it would spill."""

    @property
    def threads(self) -> int:
        return 32 * self.wM * self.wN


FLOAT = (
    TileConfig(128, 128, 32, 3, 8, 8, 2, 4, 2, 0.797, whole=True),
    TileConfig(256, 128, 16, 3, 16, 8, 2, 4, 1, 0.795),
    TileConfig(128, 128, 16, 3, 8, 8, 2, 4, 2, 0.785),
    TileConfig(128, 64, 16, 3, 8, 8, 2, 2, 4, 0.765),
    TileConfig(64, 64, 16, 3, 8, 8, 1, 2, 8, 0.755),
    TileConfig(64, 32, 16, 3, 8, 4, 1, 2, 12, 0.60),
    TileConfig(32, 32, 16, 4, 4, 4, 1, 2, 12, 0.45),
)
DOUBLE = (
    TileConfig(64, 64, 16, 3, 4, 8, 2, 2, 3, 0.70),
    TileConfig(32, 32, 16, 3, 4, 4, 1, 2, 8, 0.50),
)


def configs(bytes_per_element: int) -> tuple[TileConfig, ...]:
    """The configurations for elements of 4 or 8 bytes."""
    return FLOAT if bytes_per_element == 4 else DOUBLE


def fits(config: TileConfig, M: int, N: int, K: int) -> bool:
    """Whether a problem may use this configuration."""
    return not (config.whole and (M % config.bM or N % config.bN or K % config.bK))


@functools.lru_cache(maxsize=4096)
def choose(M: int, N: int, K: int, bytes_per_element: int, multiprocessors: int) -> tuple[TileConfig, int]:
    """The configuration and the number of K splits with the least modelled time."""
    best: tuple[float, TileConfig, int] | None = None
    for config in configs(bytes_per_element):
        if not fits(config, M, N, K):
            continue
        k_tiles = max(1, -(-K // config.bK))
        for splits in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32):
            # A split must be longer than the pipeline is deep, or it is all prologue.
            if splits > 1 and k_tiles // splits < 4:
                break
            time = modelled(config, splits, M, N, K, multiprocessors)
            if best is None or time < best[0]:
                best = (time, config, splits)
    assert best is not None, "there is at least one configuration"
    return best[1], best[2]


def modelled(config: TileConfig, splits: int, M: int, N: int, K: int, multiprocessors: int) -> float:
    """Seconds that this configuration should take."""
    tiles = -(-M // config.bM) * -(-N // config.bN) * splits
    k_tiles = -(-max(1, -(-K // config.bK)) // splits)
    # The multiprocessor with the most tiles decides when the launch ends.
    per_sm = -(-tiles // multiprocessors)
    waves, rest = divmod(per_sm, config.blocks)
    work = 2.0 * config.bM * config.bN * config.bK * k_tiles
    time = waves * config.blocks * work / (_CLOCK_FLOPS * config.rate)
    if rest:
        fill = min(1.0, rest * config.threads / 256)                # few warps do not cover the latencies
        time += rest * work / (_CLOCK_FLOPS * config.rate * (0.45 + 0.55 * fill))
    time += _PROLOGUE + _EPILOGUE * config.bM * config.bN + (waves + bool(rest) - 1) * _PROLOGUE / config.blocks
    if splits > 1:
        # Every split is written and read once as fp32, and the sum is written once.
        time += _REDUCTION + 4.0 * M * N * (2 * splits + 1) / _BANDWIDTH
    return time
