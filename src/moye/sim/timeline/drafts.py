"""Events whose ends are not known yet, and the ends that lie in other warps.

In: the ``Draft``s of all recorded blocks.  Out: ``land`` fills in the waits that end loads which complete on mbarriers,
``in_flight`` counts.

    land(drafts); in_flight(drafts)[mma]      # 8

A load ends at the first wait, in whatever warp of the block that receives it, that passes for the phase of the mbarrier
on which its bytes complete, or for a later one.  If the issuing block is not among the receivers of a multicast, the
recorded ones among them count.  A copy of several lanes or boxes ends with the last.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from moye.sim.timeline.events import OWN
from moye.sim.timeline.tape import Mark, Note


@dataclass(slots=True)
class Draft:
    """An event whose end is not known yet; ``done`` and ``completes`` are places in the list of all drafts."""

    note: Note
    sample: int
    block: int
    warp: int
    bits: int
    done: int | None = None
    completes: list[int] = field(default_factory=list)

    @property
    def marks(self) -> list[Mark]:
        """The phases of mbarriers that this warp waits for, or fills."""
        return [mark for mark in self.note.marks if (mark.sample, mark.warp) == (self.sample, self.warp)]


class _Waits:
    """Waits for one mbarrier that passed, in the order of the run."""

    def __init__(self, drafts: Sequence[Draft]) -> None:
        self.drafts = drafts
        self.found: dict[tuple[int, int, int], list[tuple[int, ...]]] = defaultdict(list)
        for index, draft in enumerate(drafts):
            if draft.note.statement.kind == "wait":
                for mark in draft.marks:
                    self.found[mark.mbarrier].append((draft.note.step, index, mark.phase))
        for waits in self.found.values():
            waits.sort()

    def end(self, load: Draft, mark: Mark) -> int | None:
        """The first that passes for the phase of a mark of ``load``."""
        waits = self.found.get(mark.mbarrier, [])
        later = range(bisect_left(waits, (load.note.step,)), len(waits))
        return next((waits[i][1] for i in later if waits[i][2] >= mark.phase), None)


def land(drafts: Sequence[Draft]) -> None:
    """Find the end of every load that completes on an mbarrier."""
    waits = _Waits(drafts)
    recorded = {draft.block for draft in drafts}
    for index, draft in enumerate(drafts):
        if draft.note.statement.kind not in ("tma", "tma send"):
            continue
        own = [mark for mark in draft.marks if mark.block == draft.block]
        ends = [waits.end(draft, mark) for mark in own or draft.marks if mark.block in recorded]
        known = [end for end in ends if end is not None]
        if known and len(known) == len(ends):
            draft.done = max(known, key=lambda end: drafts[end].note.step)
            drafts[draft.done].completes.append(index)


def in_flight(drafts: Sequence[Draft]) -> list[int]:
    """Of each event how many copies from global memory were issued before it and end after it.

    Those by cp.async and into registers count for their warp, tensor and bulk copies for their block.
    """
    change = np.zeros(len(drafts) + 1, np.int64)
    for index, draft in enumerate(drafts):
        if draft.note.statement.kind in OWN and draft.done is not None and draft.done > index:
            change[index + 1] += 1
            change[draft.done] -= 1
    counts = np.cumsum(change)[:-1]
    for _, group in groupby(enumerate(drafts), key=lambda pair: pair[1].block):
        indices, block = zip(*group, strict=True)
        loads = [d for d in block if d.note.statement.kind == "tma" and d.done is not None]
        begins = np.sort([load.note.step for load in loads])
        ends = np.sort([drafts[load.done or 0].note.step for load in loads])
        steps = [draft.note.step for draft in block]
        counts[list(indices)] += np.searchsorted(begins, steps, "left") - np.searchsorted(ends, steps, "right")
    found: list[int] = counts.tolist()
    return found
