"""The picture of a modelled timeline, as SVG: for each role of warps a lane of copies, of products and of arithmetic.

In: a title, spans and the clocks that they take together.  Out: SVG text, in clocks from left to right.

    bars("roles_kernel: 18,176 modelled clocks", 18176, spans)

Warps of a warpgroup that are busy with the same units in the same order are one role, and the first of them is shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from moye.sim.timeline.events import Span
from moye.sim.timeline.svg import HIDDEN, LANE, LEFT, STAGE_COLOURS

WIDTH, TOP, GAP = 900, 46, 10
LANES = {"memory": "copies", "shared": "shared", "tensor": "tensor cores", "math": "arithmetic",
         "special": "arithmetic"}
COLOURS = {"memory": "#7f8c99", "shared": "#8a6d3b", "tensor": HIDDEN, "math": "#e6b8a2", "special": "#c0562b"}
NAMES = {"tensor": "products", "math": "arithmetic", "special": "exponentials and the like"}
GROUP = 4
"""Warps of a warpgroup."""


def bars(title: str, clocks: float, spans: Sequence[Span]) -> str:
    """The whole picture."""
    scale = WIDTH / (clocks or 1)
    body: list[str] = []
    y = TOP
    for name, mine in roles(spans):
        lines, y = _role(name, mine, scale, y)
        body += lines
    height = y + 30
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" height="{height}" '
        f'viewBox="0 0 {LEFT + WIDTH + 20} {height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{LEFT + WIDTH + 20}" height="{height}" fill="white"/>',
        f'<text x="8" y="16" font-size="12">{escape(title)}</text>',
        *_ticks(clocks, scale, y), *body, *_legend(spans, y + 18), "</svg>"]) + "\n"


def roles(spans: Sequence[Span]) -> list[tuple[str, list[Span]]]:
    """(label, spans of the first) of warps that belong together."""
    of_warp: dict[tuple[int, int], list[Span]] = defaultdict(list)
    for span in spans:
        of_warp[span.block, span.warp].append(span)
    groups: dict[tuple[object, ...], list[tuple[int, int]]] = defaultdict(list)
    for (block, warp), mine in sorted(of_warp.items()):
        groups[block, warp // GROUP, tuple(span.unit for span in mine)].append((block, warp))
    several = len({block for block, _ in of_warp}) > 1
    return [(_label([warp for _, warp in members], members[0][0] if several else None), of_warp[members[0]])
            for members in groups.values()]


def _label(warps: list[int], block: int | None) -> str:
    text = f"warp {warps[0]}" if len(warps) == 1 else f"warps {warps[0]}-{warps[-1]}"
    return text if block is None else f"{text}, block {block}"


def _ticks(clocks: float, scale: float, bottom: int) -> Iterator[str]:
    step = next(each for each in (10 ** n * m for n in range(12) for m in (1, 2, 5)) if clocks / each <= 12)
    for clock in range(0, int(clocks) + 1, step):
        x = LEFT + clock * scale
        yield f'<line x1="{x:.1f}" y1="30" x2="{x:.1f}" y2="{bottom}" stroke="#dddddd"/>'
        if x + 6 * len(f"{clock:,}") < LEFT + WIDTH + 16:
            yield f'<text x="{x + 3:.1f}" y="40" fill="#555555">{clock:,}</text>'


def _role(name: str, spans: Sequence[Span], scale: float, top: int) -> tuple[list[str], int]:
    """The lanes of one role, and where the next begins."""
    lines = [f'<text x="8" y="{top + 12}" font-weight="bold">{escape(name)}</text>']
    y = top + LANE
    for lane in dict.fromkeys(LANES.values()):
        mine = [span for span in spans if LANES[span.unit] == lane]
        for number, track in enumerate(_tracks(mine) if lane == "copies" else [mine] if mine else []):
            if number == 0:
                lines.append(f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end" fill="#555555">{lane}</text>')
            lines += [_bar(span, scale, y) for span in track]
            y += LANE
    return lines, y + GAP


def _tracks(spans: Sequence[Span]) -> list[list[Span]]:
    """Copies that are under way together lie one below the other."""
    tracks: list[list[Span]] = []
    for span in spans:
        free = next((track for track in tracks if track[-1].end <= span.begin), None)
        if free is None:
            tracks.append([span])
        else:
            free.append(span)
    return tracks


def _bar(span: Span, scale: float, y: int) -> str:
    colour = COLOURS[span.unit] if span.stage is None or span.unit != "memory" else \
        STAGE_COLOURS[span.stage % len(STAGE_COLOURS)]
    return (f'<rect x="{LEFT + span.begin * scale:.1f}" y="{y + 2}" '
            f'width="{max((span.end - span.begin) * scale, 0.3):.1f}" height="{LANE - 4}" fill="{colour}">{_tip(span)}'
            "</rect>")


def _tip(span: Span) -> str:
    frame = span.loc.innermost
    where = f"{Path(frame.file).name}:{frame.line}  {frame.text().strip()}" if frame is not None else ""
    return f"<title>{escape(f'{span.unit}, clocks {span.begin:,.0f} to {span.end:,.0f}')}\n{escape(where)}</title>"


def _legend(spans: Sequence[Span], y: int) -> Iterator[str]:
    stages = sorted({span.stage for span in spans if span.unit == "memory" and span.stage is not None})
    entries = [(STAGE_COLOURS[stage % len(STAGE_COLOURS)], f"copy, stage {stage}") for stage in stages]
    present = {span.unit for span in spans}
    entries += [(COLOURS[unit], text) for unit, text in NAMES.items() if unit in present]
    x = LEFT
    for colour, text in entries:
        yield f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{colour}"/>'
        yield f'<text x="{x + 14}" y="{y}">{text}</text>'
        x += 34 + 7 * len(text)
