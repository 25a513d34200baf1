"""A timeline as a table in plain text.

In: events.  Out: per set of warps that do the same, one line per event; long loops are cut in the middle.

    print(table(events, head=2, tail=1))
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from moye.sim.timeline.columns import Columns, Gap, Row, rows
from moye.sim.timeline.events import Event

HEADS = ("order", "trips", "kind", "stage", "in flight", "statement", "where", "")
_WIDEST = 60


def table(events: Sequence[Event], head: int, tail: int) -> str:
    """Every row of warps, with the columns order, trips, kind, stage, copies in flight, statement, line, links."""
    return "\n\n".join(_row(row, events, head, tail) for row in rows(events))


def _row(row: Row, events: Sequence[Event], head: int, tail: int) -> str:
    columns = Columns(row.events, head, tail)
    by_step = {event.step: event for event in row.events}
    lines: list[tuple[str, ...] | str] = [HEADS]
    for what in columns.shown:
        if isinstance(what, Gap):
            lines.append(f"  ... {what.label} ...")
        else:
            lines.append(_cells(by_step[what], events))
    cells = [line for line in lines if not isinstance(line, str)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(HEADS))]
    out = [f"block {row.block}, {row.label}"]
    for line in lines:
        out.append(line if isinstance(line, str) else
                   "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    return "\n".join(out)


def _cells(event: Event, events: Sequence[Event]) -> tuple[str, ...]:
    text = event.text if len(event.text) <= _WIDEST else event.text[:_WIDEST - 3] + "..."
    where = f"{Path(event.frame.file).name}:{event.frame.line}" if event.frame is not None else ""
    return (str(event.order), event.loops, event.kind,
            "" if event.stage is None else str(event.stage), str(event.in_flight or ""), text, where,
            link(event, events))


def link(event: Event, events: Sequence[Event]) -> str:
    """What belongs together, by order numbers: the end of what goes on, or what ends here."""
    ended: dict[str, list[str]] = {}
    for other in (events[index] for index in event.completes if index != event.index):
        ended.setdefault(_whose(other, event), []).append(str(other.order))
    parts = [f"ends {', '.join(orders)}{whose}" for whose, orders in ended.items()]
    if event.goes_on:
        parts.append("never ends" if event.done is None else _until(events[event.done], event))
    return "; ".join(parts)


def _until(end: Event, event: Event) -> str:
    return f"until {end.order}{_whose(end, event)}"


def _whose(other: Event, event: Event) -> str:
    if other.block != event.block:
        return f" of warp {other.warp}, block {other.block}"
    return "" if other.warp == event.warp else f" of warp {other.warp}"
