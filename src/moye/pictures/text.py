"""Sheet -> aligned text with box-drawing characters; double lines part the levels of a hierarchical mode.

In: a ``Sheet``.  Out: lines without trailing blanks.

>>> print(mo.draw("2:5").text)
2:5
   0   1
 ┌───┬───┐
 │ 0 │ 5 │
 └───┴───┘

Colours are lost; the lines of a cell's label stand side by side.
"""

from __future__ import annotations

from moye.pictures.model import Axis, Panel, Sheet

GAP = "   "
# (left, inside, inside at a double column line, right) of a horizontal line, single and double.
_TOP = ("┌", "┬", "╥", "┐")
_MIDDLE = {False: ("├", "┼", "╫", "┤"), True: ("╞", "╪", "╬", "╡")}
_BOTTOM = ("└", "┴", "╨", "┘")


def render(sheet: Sheet) -> str:
    """The title, the panels in their places, the notes."""
    words = [" ".join(cell.lines).strip() for panel in sheet.panels for cell in panel.cells]
    words += [label for panel in sheet.panels for label in panel.columns.labels]
    width = max(map(len, words), default=1)
    out = [sheet.title]
    for row in sorted({panel.place[0] for panel in sheet.panels}):
        out += _band(sheet, row, width)
    return "\n".join(line.rstrip() for line in [*out, *sheet.notes])


def _band(sheet: Sheet, row: int, width: int) -> list[str]:
    """The panels of one row of the sheet, side by side."""
    blocks = []
    for column in sorted({panel.place[1] for panel in sheet.panels}):
        here = [panel for panel in sheet.panels if panel.place[1] == column]
        gutter = max(len(label) for panel in here for label in (*panel.rows.labels, ""))
        measure = max(_extent(panel, gutter, width) for panel in here)
        block = next((_block(panel, gutter, width) for panel in here if panel.place[0] == row), [])
        blocks.append((block, measure))
    height = max(len(block) for block, _ in blocks)
    return [GAP.join(_line(block, i, height).ljust(measure) for block, measure in blocks) for i in range(height)]


def _line(block: list[str], i: int, height: int) -> str:
    """Line i of a block that stands on the ground of a band."""
    at = i - (height - len(block))
    return block[at] if at >= 0 else ""


def _extent(panel: Panel, gutter: int, width: int) -> int:
    return max(gutter + 1 + len(panel.columns) * (width + 3) + 1, gutter + 1 + len(panel.title))


def _block(panel: Panel, gutter: int, width: int) -> list[str]:
    if not len(panel.rows) or not len(panel.columns):
        return []
    margin = " " * (gutter + 1)
    labels = "".join(label.center(width + 2) + " " for label in panel.columns.labels)
    lines = [margin + panel.title] if panel.title else []
    lines += [f"{margin} {labels}", margin + _edge(_TOP, "─", panel.columns, width)]
    grid = panel.grid()
    for i, label in enumerate(panel.rows.labels):
        if i:
            double = panel.rows.breaks[i] > 0
            lines.append(margin + _edge(_MIDDLE[double], "═" if double else "─", panel.columns, width))
        row = ""
        for j in range(len(panel.columns)):
            cell = grid.get((i, j))
            bar = "║" if j and panel.columns.breaks[j] else "│"
            row += f"{bar} {' '.join(cell.lines) if cell else '':>{width}} "
        lines.append(f"{label:>{gutter}} {row}│")
    return [*lines, margin + _edge(_BOTTOM, "─", panel.columns, width)]


def _edge(corners: tuple[str, str, str, str], dash: str, columns: Axis, width: int) -> str:
    left, inside, double, right = corners
    out = left
    for j, level in enumerate(columns.breaks):
        if j:
            out += double if level else inside
        out += dash * (width + 2)
    return out + right
