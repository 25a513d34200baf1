"""Copies from a block's shared memory to that of others: whether the block knows that they have been read when it ends.

In: arrivals at the barrier of the cluster, and who passes it; the columns of blocks that end.
Out: ``unread``: the copies that may still read the memory of a block that is gone.

Whoever has waited for the mbarrier on which a copy completes knows that its source has been read.  The sender hears of
that by what releases, and by a barrier of the cluster that does not, too: nothing has to be seen there, and who arrives
has waited before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from moye.ir import ops
from moye.sim.checks.clocks import Bools, Ints
from moye.sim.checks.engine_records import Memory
from moye.sim.checks.judge import Engine
from moye.sim.checks.shared_records import epoch_of, op_of


class SentCopies:
    """The copies of one batch."""

    def __init__(self, checker: Memory, engines: Sequence[Engine]) -> None:
        self.checker, self.engines = checker, engines
        self._come: list[dict[int, Ints]] = [{}, {}]
        """What was known of an mbarrier in each block (B,) when its threads came to the barrier of the cluster, in
        turns."""
        self._passed: dict[int, Ints] = {}
        """The same in the blocks of all ranks (R, B), for those that have passed it since."""

    def _barriers(self) -> set[int]:
        return {engine.major for engine in self.engines if engine.kind == "send"}

    def arrive(self, lanes: Bools, came: Ints) -> None:
        """Threads (T, B) arrive, for the time that ``came`` says."""
        clocks = self.checker.clocks
        for barrier in self._barriers():
            heard = np.broadcast_to(clocks.heard[:, barrier].max(axis=0), (self.checker.blocks,))
            for turn in np.unique(came[lanes] % 2).tolist():
                here = (lanes & (came % 2 == turn)).any(axis=0)
                known = self._come[turn].setdefault(barrier, np.zeros(self.checker.blocks, np.int64))
                self._come[turn][barrier] = np.where(here, heard, known)

    def leave(self, lanes: Bools, came: Ints) -> None:
        """Threads pass the barrier: all others have come there."""
        size = self.checker.clocks.cluster
        base = np.arange(self.checker.blocks) // size * size
        for turn in np.unique(came[lanes] % 2).tolist():
            here = (lanes & (came % 2 == turn)).any(axis=0)
            for barrier, come in self._come[turn].items():
                passed = self._passed.setdefault(barrier, np.zeros((size, self.checker.blocks), np.int64))
                of_all = come[base + np.arange(size)[:, None]]
                self._passed[barrier] = np.where(here, np.maximum(passed, of_all), passed)

    def unread(self, columns: Ints) -> Iterator[tuple[ops.Op, int, int]]:
        """The copies that no thread of these blocks knows to have read their memory: each with a block, and how many
        units it has yet to read."""
        for shadow in self.checker.shadows.values():
            for number, table in shadow.engines.items():
                engine = self.engines[number]
                for column in columns.tolist() if engine.kind == "send" else ():
                    record = table[:, column if table.shape[1] > 1 else 0]
                    late = epoch_of(record) > self._known(engine, column)
                    op = self.checker.judge.ops[int(op_of(record[late][:1])[0])] if late.any() else None
                    if op is not None:
                        yield op, column, int(late.sum())

    def _known(self, engine: Engine, column: int) -> int:
        """Up to which epoch a block knows that an engine has read."""
        clocks = self.checker.clocks
        groups = np.arange(clocks.groups)
        here = np.full(groups.shape, column if clocks.columns > 1 else 0)
        known = int(clocks.known_engine_of(groups, engine.minor, engine.major, here).max())
        passed = self._passed.get(engine.major)
        return known if passed is None else max(known, int(passed[engine.minor, column]))
