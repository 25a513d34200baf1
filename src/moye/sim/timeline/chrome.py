"""A timeline as Chrome trace events, which Perfetto (ui.perfetto.dev) and chrome://tracing show.

In: events.  Out: the JSON object, as Python dicts (Trace Event Format: "X" complete, "s" / "f" flow, "M" metadata).

    trace(events, "matmul_kernel")["traceEvents"][0]["ph"]      # 'M'

A process per block; per warp one track with its program order and as many tracks as copies are in flight at once, or
wgmmas that different waits end.  An arrow goes from the issue of a copy to its end, in another warp if it is there.
``ts`` and ``dur`` are steps of program order, shown as microseconds: they are no measured time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from moye.sim.timeline.events import Event

TRACKS = 64
"""Thread ids per warp: 0 is its program order, the others are copies in flight."""
UNIT = "ts and dur count steps of program order, not time"


def trace(events: Sequence[Event], kernel: str) -> dict[str, Any]:
    """The whole file."""
    return {"traceEvents": list(_events(events, kernel)), "displayTimeUnit": "ms",
            "otherData": {"kernel": kernel, "unit": UNIT}}


def flights(events: Sequence[Event]) -> list[tuple[int, Event]]:
    """(track, copy) of every copy of one warp that goes on until it ends; copies of one track do not overlap."""
    return _tracks([event for event in events if event.goes_on and event.kind != "mma" and event.until is not None])


def products(events: Sequence[Event]) -> list[tuple[int, Event]]:
    """(track, first) of the wgmmas of one warp that one wait ends, for every such wait."""
    first: dict[int, Event] = {}
    for event in events:
        if event.goes_on and event.kind == "mma" and event.until is not None:
            first.setdefault(event.until, event)
    return _tracks(list(first.values()))


def _tracks(flying: Sequence[Event]) -> list[tuple[int, Event]]:
    """Each on the first track that is free."""
    free: list[int] = []
    found = []
    for event in flying:
        track = next((i for i, end in enumerate(free) if end <= event.step), len(free))
        free[track:track + 1] = [event.until or 0]
        found.append((track, event))
    return found


def _events(events: Sequence[Event], kernel: str) -> Iterator[dict[str, Any]]:
    blocks = list(dict.fromkeys(event.block for event in events))
    for pid, block in enumerate(blocks):
        yield _meta("process_name", pid, 0, name=f"{kernel} block {block}")
    for (block, warp), group in groupby(events, key=lambda e: (e.block, e.warp)):
        mine = tuple(group)
        yield from _warp(mine, blocks.index(block), warp)
        for _, copy in flights(mine):
            yield from _arrow(copy, events[copy.done or 0], blocks)


def _warp(mine: Sequence[Event], pid: int, warp: int) -> Iterator[dict[str, Any]]:
    tid = warp * TRACKS
    flying, running = flights(mine), products(mine)
    behind = max((track + 1 for track, _ in flying), default=0)
    yield _meta("thread_name", pid, tid, name=f"warp {warp}")
    for track in sorted({track for track, _ in flying}):
        yield _meta("thread_name", pid, tid + 1 + track, name=f"warp {warp} in flight {track}")
    for track in sorted({track for track, _ in running}):
        yield _meta("thread_name", pid, tid + 1 + behind + track, name=f"warp {warp} wgmma {track}")
    for event in mine:
        yield {"ph": "X", "name": event.kind, "cat": event.kind, "pid": pid, "tid": tid, "ts": event.step, "dur": 1,
               "args": _arguments(event)}
    for track, copy in flying:
        name = " <- ".join(copy.tensors) + ("" if copy.stage is None else f" stage {copy.stage}")
        yield {"ph": "X", "name": name, "cat": "in flight", "pid": pid, "tid": tid + 1 + track, "ts": copy.step,
               "dur": (copy.until or 0) - copy.step, "args": _arguments(copy)}
    for track, mma in running:
        together = sum(event.goes_on and event.kind == "mma" and event.until == mma.until for event in mine)
        yield {"ph": "X", "name": f"{together} wgmma", "cat": "wgmma", "pid": pid, "tid": tid + 1 + behind + track,
               "ts": mma.step, "dur": (mma.until or 0) - mma.step, "args": _arguments(mma)}


def _arrow(copy: Event, end: Event, blocks: Sequence[tuple[int, int, int]]) -> Iterator[dict[str, Any]]:
    """From the issue to the end."""
    flow = {"name": "copy", "cat": "copy", "id": copy.index}
    for event, phase in ((copy, {"ph": "s"}), (end, {"ph": "f", "bp": "e"})):
        place = {"pid": blocks.index(event.block), "tid": event.warp * TRACKS}
        yield {**phase, "ts": event.step, **flow, **place}


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
