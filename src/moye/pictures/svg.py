"""Sheet -> SVG: one <g class="moye-cell"> for each cell, with its facts as data-* attributes.

In: a ``Sheet``.  Out: a standalone SVG document without scripts; ``titles`` adds the tooltips that viewers show.

    render(sheet).startswith('<svg xmlns="http://www.w3.org/2000/svg"')      # True

Paper and ink follow light and dark surroundings; cells keep their tints and black text in both.
"""

from __future__ import annotations

from html import escape

from moye.pictures.model import Cell, Sheet
from moye.pictures.palette import DARK, LIGHT, LINE, TEXT, fill
from moye.pictures.scene import FONT, LEADING, Box, Rule, Scene, Words, scene_of

STYLE = f"""<style>
.moye-paper {{ fill: {LIGHT[0]} }}
.moye-picture text {{ fill: {LIGHT[1]}; font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  dominant-baseline: central }}
.moye-picture .moye-cell text {{ fill: {TEXT}; text-anchor: middle; font-size: {FONT:g}px }}
.moye-cell rect {{ stroke: {LINE}; stroke-width: 0.5 }}
.moye-rule {{ stroke: {TEXT} }}
@media (prefers-color-scheme: dark) {{
.moye-paper {{ fill: {DARK[0]} }}
.moye-picture text {{ fill: {DARK[1]} }}
}}
</style>"""


def render(sheet: Sheet, *, titles: bool = True) -> str:
    """The document; with ``titles`` every cell has a <title> of its facts, which viewers show on hovering."""
    scene = scene_of(sheet)
    width, height = _n(scene.width), _n(scene.height)
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" class="moye-picture" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" aria-label="{escape(sheet.title)}">',
        STYLE,
        f'<rect class="moye-paper" width="{width}" height="{height}" rx="4"/>',
        *_inside(scene, titles),
        "</svg>", ""])


def _inside(scene: Scene, titles: bool) -> list[str]:
    return [*(_box(box, titles) for box in scene.boxes), *map(_rule, scene.rules), *map(_words, scene.words)]


def _box(box: Box, titles: bool) -> str:
    facts = box.cell.facts()
    hover = escape(", ".join(f"{name} {value}" for name, value in facts)) if titles else ""
    x, y = box.x + box.width / 2, box.y + box.height / 2
    first = y - (len(box.cell.lines) - 1) * FONT * LEADING / 2
    lines = "".join(f'<text x="{_n(x)}" y="{_n(first + i * FONT * LEADING)}">{escape(line)}</text>'
                    for i, line in enumerate(box.cell.lines))
    return (f'<g class="moye-cell"{_data(box.cell, box.panel)}>' + (f"<title>{hover}</title>" if hover else "")
            + f'<rect x="{_n(box.x)}" y="{_n(box.y)}" width="{_n(box.width)}" height="{_n(box.height)}" '
            f'fill="{fill(box.cell.colour)}"/>{lines}</g>')


def _data(cell: Cell, panel: int) -> str:
    """The facts as attributes: all threads and their values, blank-separated; what is unknown is absent."""
    pairs = [("panel", str(panel)), ("coordinate", cell.coordinate), ("index", cell.index), ("offset", cell.offset),
             ("thread", " ".join(map(str, cell.threads))), ("value", " ".join(map(str, cell.values))),
             ("bank", cell.bank)]
    return "".join(f' data-{name}="{escape(str(value))}"' for name, value in pairs if value not in (None, ""))


def _rule(rule: Rule) -> str:
    return (f'<line class="moye-rule" x1="{_n(rule.x1)}" y1="{_n(rule.y1)}" x2="{_n(rule.x2)}" y2="{_n(rule.y2)}" '
            f'stroke-width="{_n(rule.width)}"/>')


def _words(words: Words) -> str:
    weight = ' font-weight="bold"' if words.bold else ""
    return (f'<text x="{_n(words.x)}" y="{_n(words.y)}" font-size="{_n(words.size)}" '
            f'text-anchor="{words.anchor}"{weight}>{escape(words.text)}</text>')


def _n(x: float) -> str:
    return f"{x:.2f}".rstrip("0").rstrip(".")
