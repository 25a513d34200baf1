"""Which configuration of ``gemm_sm80`` a product gets: the model of costs, and what it did not foresee.

In: the problem (M, N, K, batches, dtype), how operands are copied and C is stored.  Out: ``TensorConfig``, splits.

>>> choose(4096, 4096, 4096, 1, mo.bfloat16, 132)
(TensorConfig(bM=256, bN=128, bK=64, ...), 1)

Trees that were learned from measured products on an H200 correct the soonest configurations, as those of ``gemm_sm90``
do.  ``benchmarks/gemm_sm80_choice_fit.py`` fits them, to ``choice.npz``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import moye as mo
from moye.kernels.gemm.parts import trees
from moye.kernels.gemm.sm80.config import WIDE, TensorConfig, Ways, modelled, options, shifts
from moye.kernels.gemm.sm80.plan import shared_bytes

FITTED = Path(__file__).with_name("choice.npz")
FEATURES = ("us", "width", "out", "M", "N", "K", "way_A", "way_B", "store", "bM", "bN", "bK", "stages", "wM", "wN",
            "blocks", "splits", "waves", "last_wave", "depth", "edge_M", "edge_N")
"""What the trees ask for.

``us``, M, N and K are logarithms; ``width`` and ``out``: bytes of an element of A and of C; ``last_wave``: how much
more whole waves are; ``depth``: k tiles of a block; ``edge_M``: how much more than M tiles have.
"""
_WAYS = "k", "mn", "shift", "shift_mn", "element", "element_mn"
_STORES = "vector", "pairs", "rows", "element"
_SOONEST, _KINDS = 12, 16           # of all options, and of so many configurations the soonest of each
_ARCH = 90                          # from which on trees are asked: they were fitted there
_ROOM = mo.hardware.of("sm_90a").block_shared       # for all options

Option = tuple[TensorConfig, int]
Timed = tuple[float, Option]


class Product(NamedTuple):
    """A product, how its operands are copied and C is stored; ``width`` and ``out`` are bytes of an element."""

    M: int
    N: int
    K: int
    batches: int
    width: int
    ways: Ways = WIDE
    store: str = "vector"
    out: int = 2

    def modelled(self, option: Option, multiprocessors: int) -> float:
        """Microseconds of an option by the model."""
        return modelled(*option, self.M, self.N, self.K, self.batches, self.width, multiprocessors, self.ways,
                        self.store, self.out)


def shortlist(found: Sequence[Timed]) -> list[Timed]:
    """Of what is sorted by time, that to which a correction is given."""
    return trees.shortlist(found, lambda option: option[0], soonest=_SOONEST, kinds=_KINDS)


def features(option: Option, product: Product, us: float, multiprocessors: int) -> tuple[float, ...]:
    """``FEATURES`` of an option, which takes ``us`` by the model."""
    config, splits = option
    m, n = -(-product.M // config.bM), -(-product.N // config.bN)
    waves = m * n * product.batches * splits / (multiprocessors * config.blocks)
    return (math.log(us), product.width, product.out, math.log(product.M), math.log(product.N),
            math.log(max(1, product.K)), *map(_WAYS.index, product.ways), _STORES.index(product.store), config.bM,
            config.bN, config.bK, config.stages, config.wM, config.wN, config.blocks, splits, waves,
            math.ceil(waves) / waves, -(-product.K // config.bK) / splits, m * config.bM / product.M,
            n * config.bN / product.N)


def measured(product: Product, arch: int) -> bool:
    """Whether the trees were fitted to products of this kind."""
    return product.width in (2, 4) and product.batches == 1 and arch >= _ARCH


def corrected(found: Sequence[Timed], product: Product, multiprocessors: int) -> list[float]:
    """Logarithms of times, but for a number that all share."""
    return trees.corrected(FITTED, [features(option, product, us, multiprocessors) for us, option in found])


def fits(option: Option, product: Product, dtype: Any, arch: int) -> bool:
    """Whether a block's shared memory has room for an option; sums of a split are stored as wide as they are."""
    config, splits = option
    most = mo.hardware.of(f"sm_{arch}").block_shared
    if most >= _ROOM:
        return True
    out, store = (product.out, product.store) if splits == 1 else (max(4, product.width), "vector")
    return shared_bytes(config, dtype, out, product.ways, store) <= most


@functools.lru_cache(maxsize=4096)
def choose(M: int, N: int, K: int, batches: int, dtype: Any, multiprocessors: int, arch: int = 80, *,
           ways: Ways = WIDE, store: str = "vector", out: int = 2) -> Option:
    """The configuration and the number of K splits that should be soonest."""
    product = Product(M, N, K, batches, dtype.bytes, ways, store, out)
    found = sorted(((product.modelled(option, multiprocessors), option)
                    for option in options(K, dtype, arch, shifted=shifts(ways)) if fits(option, product, dtype, arch)),
                   key=lambda one: one[0])
    if not measured(product, arch):
        return found[0][1]
    short = shortlist(found)
    return trees.least(short, corrected(short, product, multiprocessors))
