"""A timeline as an SVG picture.

In: events.  Out: SVG text: per set of warps a lane for each copy in flight (bars from issue to end, coloured by stage),
for shared memory, for MMAs (full while a copy is in flight), for wgmmas until their waits, and ticks for waits and
barriers.

    picture(events, "matmul_kernel", head=2, tail=1)

A column is a step of program order; each mark has a tooltip with its statement and source line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from moye.sim.timeline.chrome import flights, products
from moye.sim.timeline.columns import Columns, Gap, Row, rows
from moye.sim.timeline.events import Event

STAGE_COLOURS = ("#3b76c4", "#e08a1e", "#3f9b55", "#b8478f", "#7d6bc2", "#8a6d3b")
PLAIN, HIDDEN, BARE, LINE = "#7f8c99", "#2e7d4f", "#c9d3cc", "#c0392b"
LEFT, STEP, LANE, TOP = 120, 14, 18, 46
GAP = 5
"""How many columns wide it is where trips are left out."""
_SYNC = {"wait": "W", "barrier": "B", "commit": "C", "use": "U", "arrive": "A"}
_ISSUES = ("cp.async", "load", "tma", "tma store", "tma send")


def picture(events: Sequence[Event], title: str, head: int, tail: int) -> str:
    """The whole picture."""
    columns = Columns(events, head, tail)
    body: list[str] = []
    y = TOP
    for row in rows(events):
        lines, y = _row(row, columns, y, events)
        body += lines
    width, height = max(int(_x(columns, len(columns.shown))) + 20, _least(title, events)), y + 34
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
             f'<rect width="{width}" height="{height}" fill="white"/>',
             f'<text x="8" y="16" font-size="12">{escape(title)}</text>',
             *_sections(columns, y), *body, *_legend_lines(events, y + 22), "</svg>"]
    return "\n".join(parts) + "\n"


def _least(title: str, events: Sequence[Event]) -> int:
    """Wide enough for the title and the legend."""
    _, text, last = _legend(events)
    return max(20 + 7 * len(title), last + 6 * len(text), 1000)


def _x(columns: Columns, column: int, within: float = 0) -> float:
    """The left edge of a column, or a point within it."""
    wide = [c for c, what in enumerate(columns.shown) if isinstance(what, Gap)]
    width = GAP if column in wide else 1
    return LEFT + STEP * (column + (GAP - 1) * sum(c < column for c in wide) + within * width)


def _sections(columns: Columns, bottom: int) -> Iterator[str]:
    """The names of the trips, the lines between them, and what is left out."""
    for section in columns.sections():
        x = _x(columns, section.first)
        yield f'<line x1="{x}" y1="30" x2="{x}" y2="{bottom}" stroke="#dddddd"/>'
        if label := _fitting(section.label, _x(columns, section.last + 1) - x):
            yield f'<text x="{x + 3}" y="40" fill="#555555">{escape(label)}</text>'
    for column, what in enumerate(columns.shown):
        if isinstance(what, Gap):
            yield f'<rect x="{_x(columns, column)}" y="30" width="{STEP * GAP}" height="{bottom - 30}" fill="#f4f4f4"/>'
            yield (f'<text x="{_x(columns, column, 0.5)}" y="40" text-anchor="middle" fill="#555555">⋯ {what.count} ⋯'
                   f'<title>{escape(what.label)} are left out</title></text>')


def _fitting(label: str, width: float) -> str:
    """The label, only its number, or nothing."""
    return next((text for text in (label, label.rpartition(" ")[2]) if 3 + 6 * len(text) <= width), "")


def _row(row: Row, columns: Columns, top: int, events: Sequence[Event]) -> tuple[list[str], int]:
    """The lanes of one set of warps, and where the next one begins."""
    flying, running = flights(row.events), products(row.events)
    tracks = max((track + 1 for track, _ in flying), default=1)
    below = max((track + 1 for track, _ in running), default=0)
    y = {"copies": top, "memory": top + LANE * tracks, "mma": top + LANE * (tracks + 1)}
    sync = top + LANE * (tracks + 2 + below)
    name = f"{row.label}, block {row.block}" if any(e.block != row.block for e in events) else row.label
    lines = [f'<text x="8" y="{top + 13}" font-weight="bold">{escape(name)}</text>']
    for label, at in (("copies", y["copies"] + (LANE if tracks > 1 else 0)), ("memory", y["memory"]), ("mma", y["mma"]),
                      ("sync", sync)):
        if label != "copies" or tracks > 1:
            lines.append(f'<text x="{LEFT - 8}" y="{at + 13}" text-anchor="end" fill="#555555">{label}</text>')
    if running:
        lines.append(f'<text x="{LEFT - 8}" y="{y["mma"] + LANE + 13}" text-anchor="end" fill="#555555">wgmma</text>')
    lines += [_bar(copy, columns, y["copies"] + LANE * track, _colour(copy)) for track, copy in flying]
    lines += [_bar(mma, columns, y["mma"] + LANE * (1 + track), HIDDEN if mma.in_flight else BARE)
              for track, mma in running]
    for event in row.events:
        if columns.visible(event):
            lines += _mark(event, _x(columns, columns.place[event.step]), y, sync, top)
    return [line for line in lines if line], sync + LANE + 10


def _bar(event: Event, columns: Columns, y: int, colour: str) -> str:
    """What goes on, from its issue to its end; nothing if both are left out together."""
    first, last = columns.place[event.step], columns.place[event.until or 0]
    if first == last:
        return ""
    begin, until = _x(columns, first, 0 if columns.visible(event) else 0.5), _x(columns, last, 0.5)
    return (f'<rect x="{begin}" y="{y + 3}" width="{until - begin}" height="{LANE - 6}" rx="3" '
            f'fill="{colour}">{_tip(event)}</rect>')


def _mark(event: Event, x: float, y: dict[str, int], sync: int, top: int) -> Iterator[str]:
    if event.kind == "mma":
        fill = HIDDEN if event.in_flight else BARE
        yield f'<rect x="{x + 1}" y="{y["mma"] + 2}" width="{STEP - 2}" height="{LANE - 4}" fill="{fill}">' \
              f"{_tip(event)}</rect>"
    elif event.kind in _SYNC:
        if event.kind in ("wait", "barrier"):
            dash = ' stroke-dasharray="3 2"' if event.kind == "wait" else ""
            yield f'<line x1="{x + STEP / 2}" y1="{top}" x2="{x + STEP / 2}" y2="{sync}" stroke="{LINE}"{dash}/>'
        yield f'<text x="{x + STEP / 2}" y="{sync + 13}" text-anchor="middle" fill="{LINE}">{_SYNC[event.kind]}' \
              f"{_tip(event)}</text>"
    elif event.kind in _ISSUES:
        yield f'<path d="M{x} {y["memory"] + 3} l{STEP / 2} 6 l{-STEP / 2} 6 z" fill="{_colour(event)}">' \
              f"{_tip(event)}</path>"
    else:
        yield f'<circle cx="{x + STEP / 2}" cy="{y["memory"] + LANE / 2}" r="4" fill="{_colour(event)}" ' \
              f'fill-opacity="{0.9 if event.kind in ("read", "write") else 0.5}">{_tip(event)}</circle>'


def _colour(event: Event) -> str:
    return PLAIN if event.stage is None else STAGE_COLOURS[event.stage % len(STAGE_COLOURS)]


def _tip(event: Event) -> str:
    where = f"{Path(event.frame.file).name}:{event.frame.line}" if event.frame is not None else ""
    stage = "" if event.stage is None else f", stage {event.stage}"
    flying = f", {event.in_flight} copies in flight" if event.kind == "mma" else ""
    return f"<title>{escape(f'#{event.order} {event.kind}{stage}{flying}  {event.loops}')}\n" \
           f"{escape(f'{where}  {event.text}')}</title>"


def _legend(events: Sequence[Event]) -> tuple[list[tuple[str, str, int]], str, int]:
    """(colour, text, place) of each entry, the text behind them and its place."""
    stages = sorted({event.stage for event in events if event.stage is not None})
    entries = [(STAGE_COLOURS[stage % len(STAGE_COLOURS)], f"stage {stage}") for stage in stages]
    entries += [(HIDDEN, "MMA, copy in flight"), (BARE, "MMA, none in flight")]
    x, placed = LEFT, []
    for colour, label in entries:
        placed.append((colour, label, x))
        x += 26 + 7 * len(label)
    more = ", A: arrive, C: commit" if any(event.kind == "arrive" for event in events) else ""
    return placed, f"triangle: issue, dot: access, W: wait, B: barrier{more}", x


def _legend_lines(events: Sequence[Event], y: int) -> Iterator[str]:
    entries, text, last = _legend(events)
    for colour, label, x in entries:
        yield f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{colour}"/>'
        yield f'<text x="{x + 14}" y="{y}">{label}</text>'
    yield f'<text x="{last}" y="{y}">{text}</text>'
