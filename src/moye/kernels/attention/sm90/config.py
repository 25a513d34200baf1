"""Tiles, stages and registers of attention on sm_90a: what there is to choose from, and the choice.

In: what is to be done, head dimensions.  Out: a ``ForwardConfig`` or a ``GradientConfig``.

    config = choose(Calls(64, 4096, 4096), (128, 128), 132)     # 128 queries x 128 keys, two stages of keys and values

Registers decide: a thread holds 1/128 of 64 rows of scores and of their output in float32, and half as much of the
rounded exponentials.  Two warpgroups have 232 each, three have 160.  Many queries and keys want large tiles, which load
less.  Few want small ones, of which a multiprocessor holds several blocks: less of a tile lies behind the last query
or key, and a block multiplies while another one waits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from moye.kernels.attention.sm90 import costs
from moye.kernels.attention.sm90.costs import Calls, Pace
from moye.kernels.attention.sm90.sections import section_of

GROUP = 128
SHARED = 227 * 1024
BESIDE = 2048
"""Bytes of shared memory beside the tiles: for mbarriers, the next tile's number, and where tiles have to begin."""
_CAPPED = 112
"""Keys of a tile of three warpgroups whose scores are capped beside a mask: registers for 128 spill."""


@dataclass(frozen=True, slots=True)
class ForwardConfig:
    """Tiles of ``bM`` queries and ``bN`` keys; a warpgroup has 64 of the queries.

    ``q_stages`` = 2: the next tile's queries are there before this tile is done, and its first scores are computed
    beside this tile's last product.  ``in_turns``: one warpgroup multiplies while the other exponentiates.
    ``dynamic``: tiles are dealt out by a counter, which is worth it where they differ in work.  ``blocks``: so many run
    on a multiprocessor at a time.
    """

    bM: int = 128
    bN: int = 128
    stages: int = 2
    q_stages: int = 2
    in_turns: bool = False
    dynamic: bool = False
    blocks: int = 1

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
        """Registers of a thread that loads, and of one that multiplies; a multiprocessor has 512 for 128 threads."""
        return {(3, 1): (32, 160), (2, 1): (40, 232), (1, 2): (40, 216), (1, 3): (32, 128)}[self.groups, self.blocks]

    @property
    def apart(self) -> bool:
        """Whether warpgroups leave out tiles of keys that they alone do not see.

        Tiles of as many queries as keys seldom have such, and those who multiply in turns would wait for them: there
        the code for it costs more than it saves.
        """
        return self.groups == 2 and self.bM != self.bN and not self.in_turns

    def lacks_rows(self, queries: float) -> bool:
        """Whether the last tile of so many queries has none for two of three warpgroups, which pass it by.

        Two that are left take about as long as three.
        """
        return self.groups > 2 and -queries % self.bM >= 128

    def shared(self, dim: int, dim_v: int, width: int = 2) -> int:
        """Bytes of shared memory that tiles of elements of ``width`` bytes take; results of 16 bits have their own."""
        return width * (self.bM * dim * self.q_stages + self.bN * (dim + dim_v) * self.stages) \
            + (2 * self.bM * dim_v if width == 1 else 0)


def candidates(dims: tuple[int, int], *, narrow: bool = False, biased: bool = False,
               ruled: bool = False, capped: bool = False) -> list[ForwardConfig]:
    """The configurations for head dimensions of queries and keys, and of values; the first is for many of both.

    The first ones for 64 and 128 are of a prototype; those for 192 and 256 follow from what registers and shared memory
    hold.  With biases, three warpgroups or three blocks have too few registers, and so have three blocks beyond 64
    dimensions with other rules of the scores (``ruled``).  Three warpgroups have too few for 128 keys whose scores are
    ``capped`` and masked.
    """
    dim, dim_v = dims
    tiles = _narrow_tiles(dim, dim_v) if narrow else _tiles(dim, dim_v)
    tiles = [_fitting(config, dims, 1 if narrow else 2) for config in tiles]
    if capped and not narrow:
        tiles = [replace(config, bN=_CAPPED) if config.groups == 3 else config for config in tiles]
    if biased:
        tiles = [config for config in tiles if max(config.groups, config.blocks) < 3]
    return [config for config in tiles if config.blocks < 3 or not ruled or dim <= 64]


def _fitting(config: ForwardConfig, dims: tuple[int, int], width: int) -> ForwardConfig:
    """One stage of queries, where two are more than shared memory holds."""
    return config if config.shared(*dims, width) + BESIDE <= SHARED else replace(config, q_stages=1)


def _tiles(dim: int, dim_v: int) -> list[ForwardConfig]:
    if dim <= 64:
        return [ForwardConfig(192, 128, in_turns=True), ForwardConfig(128, 128, in_turns=True),
                ForwardConfig(64, 64, blocks=3), ForwardConfig(64, 64, blocks=2), ForwardConfig(64, 128, blocks=2)]
    if dim <= 128:
        small = [ForwardConfig(64, 64, blocks=2), ForwardConfig(64, 128, stages=1, blocks=2)]
        return [ForwardConfig(128, 128), *small, *([ForwardConfig(64, 64, stages=1, blocks=3)] if dim <= 96 else [])]
    if dim <= 192:
        return [ForwardConfig(128, 96) if dim_v <= 128 else ForwardConfig(128, 112, q_stages=1),
                ForwardConfig(64, 64, stages=1, blocks=2), ForwardConfig(64, 96, stages=1, q_stages=1, blocks=2)]
    return [ForwardConfig(128, 96) if dim_v <= 128 else ForwardConfig(128, 80, q_stages=1)]


def _narrow_tiles(dim: int, dim_v: int) -> list[ForwardConfig]:
    small = [ForwardConfig(64, 64, blocks=2), ForwardConfig(64, 128, blocks=2)]
    if dim <= 64:
        return [ForwardConfig(192, 128, in_turns=True), *small]
    if dim <= 128:
        return [ForwardConfig(128, 128), *small]
    if dim <= 192:
        return [ForwardConfig(128, 128), small[0], ForwardConfig(64, 96, stages=1, blocks=2)]
    return [ForwardConfig(128, 128, q_stages=1) if dim_v <= 192 else ForwardConfig(128, 96, q_stages=1)]


@lru_cache(maxsize=1024)
def choose(calls: Calls, dims: tuple[int, int], multiprocessors: int, *, narrow: bool = False, biased: bool = False,
           ruled: bool = False, capped: bool = False) -> ForwardConfig:
    """The configuration that takes least by the model of costs, and whether its tiles are dealt out."""
    best = min(candidates(dims, narrow=narrow, biased=biased, ruled=ruled, capped=capped), key=lambda config: modelled(
        config, calls, dims, multiprocessors, narrow=narrow, biased=biased))
    return replace(best, dynamic=dealt_out(best, calls, dims, multiprocessors, 1 if narrow else 2))


def modelled(config: ForwardConfig, calls: Calls, dims: tuple[int, int], multiprocessors: int, *, narrow: bool,
             biased: bool, paces: dict[tuple[int, int, int], Pace] = costs.FORWARD) -> float:
    """Microseconds of a launch."""
    wide = sum(dims) * (costs.NARROW if narrow else 1.0)
    return costs.microseconds(
        paces[kind_of(config)], costs.forward_work(config.bM, config.bN, calls), config.blocks, multiprocessors,
        config.bN, wide, costs.BIASED if biased else 0.0)


def kind_of(config: ForwardConfig | GradientConfig) -> tuple[int, int, int]:
    """What configurations of one pace share: queries, keys (128 for all that are not 64), blocks."""
    return config.bM, 64 if config.bN == 64 else 128, config.blocks


def dealt_out(config: ForwardConfig, calls: Calls, dims: tuple[int, int], multiprocessors: int, width: int) -> bool:
    """Whether a counter deals the tiles out: where they differ in work, and blocks that begin together would, too.

    The longest tiles come first, in sections of heads: blocks take as long in each round if those of a section are as
    many, and asking a counter takes time.
    """
    if not calls.unequal and not config.lacks_rows(calls.queries):      # all tiles take as long
        return False
    each = width * seen_together(calls.keys, calls.left, calls.right, config.bM) * sum(dims)
    return calls.uneven or section_of(int(each) // calls.group, calls.heads) < config.blocks * multiprocessors


def seen_together(keys: float, left: int | None, right: int | None, bM: int) -> float:
    """How many keys of a head are in use at a time: all, or those that a tile of queries sees through a window."""
    return keys if left is None or right is None else min(keys, left + right + bM)


@dataclass(frozen=True, slots=True)
class GradientConfig:
    """Tiles of ``bM`` queries and ``bN`` keys.

    A warpgroup has 64 of the keys; or, if they ``share`` the same 64, half of the head dimension of their gradients,
    and computes the scores as the other one does.  ``stages``: of queries, and of gradients of results.  ``blocks``: so
    many run on a multiprocessor at a time.
    """

    bM: int = 64
    bN: int = 128
    stages: tuple[int, int] = (2, 2)
    share: bool = False
    blocks: int = 1

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
        return (24, 240) if self.groups == 2 else (24, 232)

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


def gradient_candidates(dims: tuple[int, int]) -> list[GradientConfig]:
    """The configurations for these head dimensions, up to ``MOST_WIDTH``; the first is for many queries and keys.

    Beyond 64 dimensions, two blocks of a multiprocessor have too few registers for all products that run at a time.
    """
    if max(dims) <= 64:
        return [GradientConfig(128), GradientConfig(64, 64, blocks=2)]
    return [GradientConfig() if max(dims) <= 128 else GradientConfig(bN=64, stages=(2, 1), share=True)]


@lru_cache(maxsize=1024)
def choose_gradient(calls: Calls, dims: tuple[int, int], multiprocessors: int, *,
                    biased: bool = False, capped: bool = False) -> GradientConfig:
    """The only configuration, or the one that takes least by the model of costs.

    With biases or a cap of the scores the first of two would spill, and takes 4 to 10 % longer than the other one.
    """
    found = gradient_candidates(dims)
    if len(found) == 1 or biased or capped:
        return found[-1]
    return min(found, key=lambda config: modelled_gradients(
        config, calls, dims, multiprocessors, biased=False))


def modelled_gradients(config: GradientConfig, calls: Calls, dims: tuple[int, int], multiprocessors: int, *,
                       biased: bool, paces: dict[tuple[int, int, int], Pace] = costs.BACKWARD) -> float:
    """Microseconds of the launches: sums of dQ are cleared, added to and read besides, for whole tiles of queries."""
    sums = calls.heads * calls.group * math.ceil(calls.queries / config.bM) * config.bM * 64 * 4
    return costs.SUMS * sums + costs.microseconds(
        paces[kind_of(config)], costs.backward_work(config.bM, config.bN, calls), config.blocks, multiprocessors,
        config.bM, sum(dims), costs.BIASED if biased else 0.0)
