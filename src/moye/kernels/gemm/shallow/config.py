"""Tiles of ``gemm_shallow`` and the rule that picks one without search.

In: the problem, how its operands and C lie.  Out: a ``ShallowConfig``.

    choose(size, 132)
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

MOST = 128
"""k at most."""
DEPTHS = (16, 32, 48, 64, 96, 128)
"""k of a tile."""
EACH = 8                                # elements of 16 bytes
STEP = 16
"""k of an instruction."""
REACH = 1 << 27
"""Parts of 16 bytes that C has at most."""


@dataclass(frozen=True, slots=True)
class ShallowConfig:
    """Tiles of ``bM x bN`` by ``wM x wN`` warps; ``resident`` blocks a multiprocessor."""

    bM: int
    bN: int
    wM: int
    wN: int
    resident: int

    @property
    def threads(self) -> int:
        return 32 * self.wM * self.wN

    @property
    def rows(self) -> int:
        """Rows of a warp."""
        return self.bM // self.wM

    @property
    def columns(self) -> int:
        """Columns of a warp."""
        return self.bN // self.wN

    def staged(self, width: int) -> int:
        """Elements of ``width`` bytes that a tile of C has room for in shared memory."""
        return self.bM * (self.bN + 16 // width)


@dataclass(frozen=True, slots=True)
class Size:
    """What the choice depends on: extents, each operand's way (contiguous along its rows, bytes that divide the begins
    of its lines), the distance of rows of C, and the bytes of its elements.
    """

    M: int
    N: int
    K: int
    A: tuple[bool, int]
    B: tuple[bool, int]
    pitch: int
    out: int


def depth_of(K: int) -> int:
    return next(depth for depth in DEPTHS if depth >= K)


def least_k(depth: int) -> int:
    """k below which all of this depth have elements."""
    return max((0, *(other for other in DEPTHS if other < depth)))


def flat(config: ShallowConfig, size: Size) -> bool:
    """Whether tiles have whole rows of C, and these lie side by side."""
    return size.N <= config.bN and size.pitch == size.N


CONFIGS = ((16, 128, 1, 4, 8), (32, 64, 2, 2, 8), (32, 128, 1, 4, 5), (64, 64, 2, 2, 5), (128, 32, 4, 1, 5), (128, 64, 4, 2, 3),
           (64, 128, 2, 4, 3), (16, 256, 1, 8, 3), (32, 256, 1, 8, 2), (64, 256, 2, 4, 1), (128, 128, 4, 2, 2),
           (32, 512, 1, 16, 1), (64, 512, 2, 8, 1), (128, 256, 4, 4, 1))


def options(size: Size) -> list[ShallowConfig]:
    return [ShallowConfig(*config) for config in CONFIGS]


def choose(size: Size, multiprocessors: int) -> ShallowConfig:
    return ShallowConfig(*CONFIGS[2])
