"""A timeline as Chrome trace events, which Perfetto (ui.perfetto.dev) and chrome://tracing show.

In: events.  Out: the JSON object, as Python dicts (Trace Event Format: "X" complete, "s" / "f" flow, "M" metadata).

>>> trace(events, "matmul_kernel")["traceEvents"][0]["ph"]
'M'

A process per block; per warp one track with its program order and as many tracks as copies are in flight at once.
``ts`` and ``dur`` are steps of program order, shown as microseconds: they are no measured time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from moye.sim.timeline.events import COPIES, Event

TRACKS = 64
"""Thread ids per warp: 0 is its program order, the others are copies in flight."""
UNIT = "ts and dur count steps of program order, not time"


def trace(events: Sequence[Event], kernel: str) -> dict[str, Any]:
    """The whole file."""
    return {"traceEvents": list(_events(events, kernel)), "displayTimeUnit": "ms",
            "otherData": {"kernel": kernel, "unit": UNIT}}


def flights(events: Sequence[Event]) -> list[tuple[int, Event]]:
    """(track, copy) of every copy of one warp that is in flight; copies of one track do not overlap."""
    free: list[int] = []
    found = []
    for event in events:
        if event.kind not in COPIES or event.done is None or event.done == event.index:
            continue
        track = next((i for i, end in enumerate(free) if end <= event.index), len(free))
        free[track:track + 1] = [event.done]
        found.append((track, event))
    return found


def _events(events: Sequence[Event], kernel: str) -> Iterator[dict[str, Any]]:
    blocks = list(dict.fromkeys(event.block for event in events))
    for pid, block in enumerate(blocks):
        yield _meta("process_name", pid, 0, name=f"{kernel} block {block}")
    for (block, warp), group in groupby(events, key=lambda e: (e.block, e.warp)):
        yield from _warp(tuple(group), blocks.index(block), warp, events)


def _warp(mine: Sequence[Event], pid: int, warp: int, events: Sequence[Event]) -> Iterator[dict[str, Any]]:
    tid = warp * TRACKS
    flying = flights(mine)
    yield _meta("thread_name", pid, tid, name=f"warp {warp}")
    for track in sorted({track for track, _ in flying}):
        yield _meta("thread_name", pid, tid + 1 + track, name=f"warp {warp} in flight {track}")
    for event in mine:
        yield {"ph": "X", "name": event.kind, "cat": event.kind, "pid": pid, "tid": tid, "ts": event.step, "dur": 1,
               "args": _arguments(event)}
    for track, copy in flying:
        end = events[copy.done or 0]
        name = " <- ".join(copy.tensors) + ("" if copy.stage is None else f" stage {copy.stage}")
        yield {"ph": "X", "name": name, "cat": "in flight", "pid": pid, "tid": tid + 1 + track, "ts": copy.step,
               "dur": end.step - copy.step, "args": _arguments(copy)}
    for _, copy in flying:
        flow = {"name": "copy", "cat": "copy", "id": copy.index, "pid": pid, "tid": tid}
        yield {"ph": "s", "ts": copy.step, **flow}
        yield {"ph": "f", "bp": "e", "ts": events[copy.done or 0].step, **flow}


def _arguments(event: Event) -> dict[str, Any]:
    told: dict[str, Any] = {"statement": event.text, "where": event.where, "tensors": ", ".join(event.tensors),
                            "loops": event.loops, "order": event.order, "lanes": event.lanes}
    if event.stage is not None:
        told["stage"] = event.stage
    if event.kind == "mma":
        told["copies in flight"] = event.in_flight
    return told


def _meta(what: str, pid: int, tid: int, **arguments: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": arguments}
