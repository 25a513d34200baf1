"""Warps of a block, and blocks of a cluster, that run one after the other, each as far as it gets; or lanes of a warp.

In: groups of lanes that are ready.  Out: ``parts``, those of one warp each; ``first``, those whose turn it is.

At one program point they try for a lock together otherwise, and one of them gets it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Literal as OneOf

import numpy as np

from moye.hardware import WARP, WARPGROUP
from moye.ir import ops
from moye.ir.nodes import Func
from moye.sim.flow.groups import Group
from moye.sim.values.masks import lanes_of
from moye.sim.values.memory import Array

Turn = OneOf["first", "last", "lanes"]
"""Which warp comes first; or each lane has a turn of its own, the first one first."""


def several_turns(func: Func) -> bool:
    """Whether a block, or a cluster, has more than one of them."""
    return func.threads > span_of_turns(func) or func.cluster_dim != (1, 1, 1)


def lanes_take_turns(func: Func) -> bool:
    """Whether a block is one warp, whose lanes come to nothing together but to where they wait for each other."""
    def whole(op: ops.Op) -> bool:
        return isinstance(op, (ops.Gemm, ops.NamedBarrier, ops.Inline)) or \
            (isinstance(op, ops.Copy) and bool(op.atom.matrices))

    return func.threads <= WARP and func.cluster_dim == (1, 1, 1) and not any(whole(op) for op in func.body.walk())


def span_of_turns(func: Func) -> int:
    """How many neighbouring threads must stay together: those of a warp, or of a warp group."""
    # A product, and a change of register budgets, is one operation of a whole warp group.
    together = any(isinstance(op, (ops.Wgmma, ops.SetMaxRegisters)) for op in func.body.walk())
    return WARPGROUP if together else WARP


class Apart:
    """The turns of one batch."""

    def __init__(self, func: Func, threads: int, blocks: int, turn: Turn) -> None:
        self.threads, self.blocks, self.turn = threads, blocks, turn
        span = 1 if turn == "lanes" else span_of_turns(func)
        rank = np.arange(blocks) % prod(func.cluster_dim)
        self.number = rank * -(-threads // span) + np.arange(threads)[:, None] // span      # (T, B)

    def _turns(self, group: Group) -> tuple[Array, Array]:
        """The lanes (T, B) of a group, and the numbers of the warps that have some."""
        lanes = lanes_of(group.mask, self.threads, self.blocks)
        return lanes, np.unique(self.number[lanes])

    def parts(self, group: Group) -> Iterator[Group]:
        """A group for each warp, with values of its own."""
        lanes, turns = self._turns(group)
        if len(turns) < 2:
            yield group
            return
        for turn in turns.tolist():
            yield Group(group.pc, list(group.env), lanes & (self.number == turn))

    def first(self, groups: Sequence[Group]) -> list[Group]:
        """The groups of the warp that comes first."""
        turns = [int(self._turns(group)[1][0]) for group in groups]
        first = max(turns) if self.turn == "last" else min(turns)
        return [group for group, turn in zip(groups, turns, strict=True) if turn == first]
