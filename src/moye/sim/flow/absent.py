"""The threads that did not come to where others meet: they exited before it, or have gone past it.

In: a Func, the op at which threads meet, where the others have left.  Out: whether they have gone past it.

A thread that has returned need not come: CUDA's barriers, and the masks of warp operations, speak of threads that have
not exited.  One that a condition has led past the meeting point, and that has gone on, must have come; so must one that
reaches the end of the kernel.  ``Laps`` counts the passes of loops where that alone tells the two apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from moye.ir import ops
from moye.ir.nodes import Block, Func
from moye.ir.traits import Trait
from moye.sim.flow.uniformity import SCALAR, Levels
from moye.sim.values.masks import Mask, lanes_of
from moye.sim.values.memory import Array

Path = list[tuple[Block, int]]
"""The blocks around an op and its place in each, outermost first."""


def path_to(block: Block, op: ops.Op) -> Path | None:
    for place, outer in enumerate(block.ops):
        if outer is op:
            return [(block, place)]
        for inner in outer.blocks():
            if (rest := path_to(inner, op)) is not None:
                return [(block, place), *rest]
    return None


def counted(func: Func, levels: Levels) -> frozenset[int]:
    """The ids of the loops whose passes decide: threads meet in them, and some may leave from there, or not come."""
    return frozenset(_counted(func.body, levels))


def _counted(block: Block, levels: Levels) -> Iterator[int]:
    for op in block:
        if isinstance(op, (ops.For, ops.Loop)):
            walked = list(op.body.walk())
            meets = any(Trait.MEETS in inner.traits for inner in walked)
            leaves = any(isinstance(inner, ops.Exit) and inner.kind in ("return", "continue") for inner in walked)
            if meets and (leaves or _conditional(op.body, levels, inside=False)):
                yield id(op)
        for inner in op.blocks():
            yield from _counted(inner, levels)


def _conditional(block: Block, levels: Levels, inside: bool) -> bool:
    """Whether threads meet under a condition that differs between them."""
    for op in block:
        if inside and Trait.MEETS in op.traits:
            return True
        apart = isinstance(op, ops.If) and levels.of(op.cond) != SCALAR
        if any(_conditional(inner, levels, inside or apart) for inner in op.blocks()):
            return True
    return False


class Laps:
    """The number of passes of each counted loop that a thread of a batch has begun since it came to the loop, (T,
    B)."""

    def __init__(self, threads: int, blocks: int) -> None:
        self.shape = threads, blocks
        self.reset()

    def reset(self) -> None:
        self.of: dict[int, Array] = {}

    def enter(self, loop: int, mask: Mask) -> None:
        if mask is not False and loop in self.of:
            self.of[loop][lanes_of(mask, *self.shape)] = 0

    def count(self, loop: int, mask: Mask) -> None:
        if mask is False:
            return
        laps = self.of.get(loop)
        if laps is None:
            laps = self.of[loop] = np.zeros(self.shape, np.int64)
        laps += lanes_of(mask, *self.shape)

    def around(self, path: Path) -> Iterator[tuple[ops.Op, Array]]:
        """The counted loops of a path, outermost first."""
        for block, place in path[:-1]:
            if (laps := self.of.get(id(block.ops[place]))) is not None:
                yield block.ops[place], laps


def gone_past(here: Path, there: Path | None, ahead: Callable[[ops.Op], Array | None], lanes: Array) -> Array:
    """The lanes (T, B) of those that have left at ``there`` (None: the end) that had gone past what is at ``here``.

    ``ahead(loop)`` is the number of passes by which each is ahead of those that are at ``here``; None if nobody counts.
    """
    if there is None:
        return lanes
    past = np.zeros_like(lanes)
    for (block, place), (other, left) in zip(here, there, strict=False):
        if block is not other:
            break                                       # on the other side of a branch
        if place != left:
            return past | lanes if left > place else past
        op = block.ops[place]
        if Trait.LOOP in op.traits and (passes := ahead(op)) is not None:
            past |= lanes & (passes > 0)
            lanes = lanes & (passes == 0)
    return past
