"""Sheet -> Typst: a page cut to the picture, drawn by ``place`` and ``rect``; no packages.

In: a ``Sheet``.  Out: the text of a .typ file.

    print(render(sheet).splitlines()[0])      # #set page(width: 126pt, height: 63pt, margin: 0pt)

Source: Typst's reference, "place", "rect", "line".
"""

from __future__ import annotations

from moye.pictures.model import Sheet
from moye.pictures.palette import LINE, fill
from moye.pictures.scene import FONT, LEADING, Box, Rule, Words, scene_of, text_width

POINT = 0.75                                            # points in one pixel

_PRELUDE = f"""#set text(font: "DejaVu Sans Mono", size: {FONT * POINT:g}pt)
#let cell(x, y, w, h, colour) = place(dx: x * 1pt, dy: y * 1pt,
  rect(width: w * 1pt, height: h * 1pt, fill: rgb(colour), stroke: 0.4pt + rgb("{LINE}")))
#let words(x, y, w, size, side, weight, body) = place(dx: x * 1pt, dy: (y - size) * 1pt,
  box(width: w * 1pt, height: 2 * size * 1pt, align(side + horizon, text(size: size * 1pt, weight: weight, body))))
#let rule(x1, y1, x2, y2, w) = place(line(start: (x1 * 1pt, y1 * 1pt), end: (x2 * 1pt, y2 * 1pt), stroke: w * 1pt))"""


def render(sheet: Sheet) -> str:
    """The document."""
    scene = scene_of(sheet)
    return "\n".join([
        f"#set page(width: {_p(scene.width)}pt, height: {_p(scene.height)}pt, margin: 0pt)", _PRELUDE,
        *(line for box in scene.boxes for line in _box(box)), *map(_rule, scene.rules), *map(_words, scene.words), ""])


def _box(box: Box) -> list[str]:
    y = box.y + box.height / 2 - (len(box.cell.lines) - 1) * FONT * LEADING / 2
    cell = f'#cell({_p(box.x)}, {_p(box.y)}, {_p(box.width)}, {_p(box.height)}, "{fill(box.cell.colour)}")'
    return [cell, *(_line(box.x, y + i * FONT * LEADING, box.width, line, FONT, "center")
                    for i, line in enumerate(box.cell.lines) if line)]


def _words(words: Words) -> str:
    width = text_width(words.text, words.size) + 2
    left = {"start": words.x, "middle": words.x - width / 2, "end": words.x - width}[words.anchor]
    side = {"start": "left", "middle": "center", "end": "right"}[words.anchor]
    return _line(left, words.y, width, words.text, words.size, side, "bold" if words.bold else "regular")


def _line(x: float, y: float, width: float, text: str, size: float, side: str, weight: str = "regular") -> str:
    return f'#words({_p(x)}, {_p(y)}, {_p(width)}, {_p(size)}, {side}, "{weight}", {quote(text)})'


def _rule(rule: Rule) -> str:
    return f"#rule({_p(rule.x1)}, {_p(rule.y1)}, {_p(rule.x2)}, {_p(rule.y2)}, {_p(rule.width)})"


def quote(text: str) -> str:
    """A string literal of Typst."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _p(pixels: float) -> str:
    return f"{pixels * POINT:.2f}".rstrip("0").rstrip(".")
