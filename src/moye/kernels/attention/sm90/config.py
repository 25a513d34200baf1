"""Tiles, stages and registers of attention on sm_90a: the choice by head dimension, and what it takes.

In: head dimensions, masks.  Out: a ``ForwardConfig``.

    config = choose(128, 128, balanced=True)         # 128 queries x 128 keys, two stages of keys and values

Registers decide: a thread holds 1/128 of 64 rows of scores and of their output in float32, and half as much of the
rounded exponentials.  Two warpgroups have 232 each, three have 160.
"""

from __future__ import annotations

from dataclasses import dataclass

GROUP = 128
SHARED = 227 * 1024
FEW = 1024
"""Queries up to which tiles are smaller, where they differ in work."""


@dataclass(frozen=True, slots=True)
class ForwardConfig:
    """Tiles of ``bM`` queries and ``bN`` keys; a warpgroup has 64 of the queries.

    ``q_stages`` = 2: the next tile's queries are there before this tile is done, and its first scores are computed
    beside this tile's last product.  ``in_turns``: one warpgroup multiplies while the other exponentiates.
    ``dynamic``: tiles are dealt out by a counter, which is worth it where they differ in work.
    """

    bM: int = 128
    bN: int = 128
    stages: int = 2
    q_stages: int = 2
    in_turns: bool = False
    dynamic: bool = False

    @property
    def groups(self) -> int:
        """Warpgroups that multiply; one more loads."""
        return self.bM // 64

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return (self.groups + 1) * GROUP

    @property
    def registers(self) -> tuple[int, int]:
        """Registers of a thread that loads, and of one that multiplies: 128 threads of each take 512 together."""
        return (40, 232) if self.groups == 2 else (32, 160)

    def shared(self, dim: int, dim_v: int, width: int = 2) -> int:
        """Bytes of shared memory that tiles of elements of ``width`` bytes take; results of 16 bits have their own."""
        return width * (self.bM * dim * self.q_stages + self.bN * (dim + dim_v) * self.stages) \
            + (2 * self.bM * dim_v if width == 1 else 0)


def choose(dim: int, dim_v: int, *, balanced: bool, queries: int = FEW + 1, biased: bool = False) -> ForwardConfig:
    """The tiles for head dimensions of queries and keys, and of values; ``balanced``: all tiles have equal work.

    Those for 64 and 128 are of a prototype; those for 192 and 256, and whether tiles come from a counter, follow from
    what registers and shared memory hold.  Up to 64 dimensions, on an H200, 16 heads and 16,384 tokens, in TFLOP/s:

        queries       512   1024   2048        512   1024   2048
        tiles of 192  203    277    393        384    434    513
        of 128        219    301    375        345    393    426
                      causal                   all keys

    so the smaller ones are for few queries that differ in work, and for biases, which take registers on their way.
    ``benchmarks/attention.py`` has the rates of all.
    """
    dynamic = not balanced
    if max(dim, dim_v) <= 64:
        small = biased or (dynamic and queries <= FEW)
        return ForwardConfig(128 if small else 192, 128, in_turns=True, dynamic=dynamic)
    if max(dim, dim_v) <= 128:
        return ForwardConfig(128, 128, dynamic=dynamic)
    if dim_v <= 128:
        return ForwardConfig(128, 96, dynamic=dynamic)
    if max(dim, dim_v) <= 192:
        return ForwardConfig(128, 112, q_stages=1, dynamic=dynamic)
    return ForwardConfig(128, 80, q_stages=1, dynamic=dynamic)


def choose_narrow(dim: int, dim_v: int, *, balanced: bool) -> ForwardConfig:
    """The same for elements of 8 bits, whose exponentials take half the registers: by registers alone, not measured."""
    dynamic = not balanced
    if max(dim, dim_v) <= 64:
        return ForwardConfig(192, 128, in_turns=True, dynamic=dynamic)
    if max(dim, dim_v) <= 128:
        return ForwardConfig(128, 128, dynamic=dynamic)
    if dim_v <= 192:
        return ForwardConfig(128, 128, q_stages=2 if dim <= 192 else 1, dynamic=dynamic)
    return ForwardConfig(128, 96, q_stages=1, dynamic=dynamic)


@dataclass(frozen=True, slots=True)
class GradientConfig:
    """Tiles of ``bM`` queries and ``bN`` keys.

    A warpgroup has 64 of the keys; or, if they ``share`` the same 64, half of the head dimension of their gradients,
    and computes the scores as the other one does.  ``stages``: of queries, and of gradients of results.
    """

    bM: int = 64
    bN: int = 128
    stages: tuple[int, int] = (2, 2)
    share: bool = False

    @property
    def groups(self) -> int:
        """Warpgroups that multiply; one more loads, and adds to the gradient of queries."""
        return 2 if self.share else self.bN // 64

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return (self.groups + 1) * GROUP

    @property
    def registers(self) -> tuple[int, int]:
        """Registers of a thread that loads, and of one that multiplies."""
        return 24, 240

    @property
    def tells_later(self) -> bool:
        """Whether a block that adds in order tells others of a tile a tile later, and waits less for memory.

        The next block has to come two tiles of queries behind, in a circle or along the diagonal.  Where it comes one
        behind, it would wait (TFLOP/s on an H200, 16 heads, 16,384 keys, at once and a tile later): 510 and 574 at 128
        dimensions; 506 and 427 at 64, 320 and 298 at 256.
        """
        return 2 * self.bM <= self.bN

    def shared(self, width: int) -> int:
        """Bytes of shared memory that tiles take: 16-bit elements, numbers of queries, sums of dQ."""
        rows = 2 * self.bN + sum(self.stages) * self.bM
        return 2 * (rows * width + 2 * self.bM * self.bN) + 8 * self.bM * self.stages[1] + 4 * 64 * 64 * self.groups


MOST_WIDTH = 256
"""Head dimensions whose gradients of keys and values the registers hold together."""


def choose_gradient(dim: int, dim_v: int) -> GradientConfig:
    """The tiles for these head dimensions, up to ``MOST_WIDTH``."""
    if max(dim, dim_v) <= 64:
        return GradientConfig(128)
    return GradientConfig() if max(dim, dim_v) <= 128 else GradientConfig(bN=64, stages=(2, 1), share=True)
