"""Where everything of a sheet goes: rectangles, texts and lines, for the renderers that place them.

In: a ``Sheet``.  Out: a ``Scene`` in pixels, y down, origin at the top left.

    scene = scene_of(sheet); scene.width, scene.height, len(scene.boxes)      # (168.0, 84.0, 4)

All cells of a sheet have one size, and panels of one column of the sheet share their left edge of cells, so that an
MMA's A, B and C line up.  Colours and fonts are the renderers' matter.
"""

from __future__ import annotations

from dataclasses import dataclass

from moye.pictures.model import Cell, Panel, Sheet

FONT, SMALL = 12.0, 10.0
GLYPH = 0.61                                            # width of a monospaced character over the font size
LEADING = 1.2
MARGIN, GAP, PAD = 12.0, 28.0, 6.0


@dataclass(frozen=True, slots=True)
class Box:
    """The rectangle of a cell."""

    x: float
    y: float
    width: float
    height: float
    cell: Cell
    panel: int


@dataclass(frozen=True, slots=True)
class Words:
    """A line of text: x of its anchor (start, middle or end), y of its middle."""

    x: float
    y: float
    text: str
    size: float
    anchor: str = "middle"
    bold: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """A line between levels of a hierarchical mode; a higher level is thicker."""

    x1: float
    y1: float
    x2: float
    y2: float
    width: float


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything in its place."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    words: tuple[Words, ...]
    rules: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class _Grid:
    """Sizes shared by all panels, and where the cells of each place of the sheet begin."""

    cell_width: float
    cell_height: float
    left: dict[int, float]
    top: dict[int, float]
    gutter: dict[int, float]
    width: float
    height: float


def text_width(text: str, size: float) -> float:
    """The width of a monospaced text."""
    return len(text) * size * GLYPH


def scene_of(sheet: Sheet) -> Scene:
    """Place the panels, their labels, the title above and the notes below."""
    grid = _grid(sheet)
    boxes: list[Box] = []
    words = [Words(MARGIN, MARGIN + FONT / 2, sheet.title, FONT, "start", True)]
    rules: list[Rule] = []
    for number, panel in enumerate(sheet.panels):
        boxes += _boxes(panel, grid, number)
        words += _labels(panel, grid)
        rules += _rules(panel, grid)
    y = grid.height
    for note in sheet.notes:
        words.append(Words(MARGIN, y + SMALL / 2, note, SMALL, "start"))
        y += SMALL * 1.5
    widest = max([grid.width, *(w.x + text_width(w.text, w.size) for w in words if w.anchor == "start")])
    return Scene(round(widest + MARGIN, 2), round(y + MARGIN, 2), tuple(boxes), tuple(words), tuple(rules))


def _grid(sheet: Sheet) -> _Grid:
    lines = [line for panel in sheet.panels for cell in panel.cells for line in cell.lines]
    lines += [label for panel in sheet.panels for label in panel.columns.labels]
    cell_width = max([28.0, *(text_width(line, FONT) + PAD for line in lines)])
    cell_height = max(24.0, sheet.lines_per_cell() * FONT * LEADING + PAD)
    left, gutter, x = {}, {}, MARGIN
    for column in sorted({panel.place[1] for panel in sheet.panels}):
        here = [panel for panel in sheet.panels if panel.place[1] == column]
        gutter[column] = max(text_width(label, SMALL) for p in here for label in (*p.rows.labels, "")) + PAD
        left[column] = x + gutter[column]
        width = max(max(len(p.columns) * cell_width, text_width(p.title, FONT)) for p in here)
        x = left[column] + width + GAP
    top, y = {}, MARGIN + FONT + PAD
    for row in sorted({panel.place[0] for panel in sheet.panels}):
        here = [panel for panel in sheet.panels if panel.place[0] == row]
        above = SMALL + PAD + (FONT + PAD if any(p.title for p in here) else 0)
        top[row] = y + above
        y = top[row] + max(len(p.rows) for p in here) * cell_height + GAP / 2
    return _Grid(cell_width, cell_height, left, top, gutter, max(x - GAP, MARGIN), y)


def _corner(panel: Panel, grid: _Grid) -> tuple[float, float]:
    return grid.left[panel.place[1]], grid.top[panel.place[0]]


def _boxes(panel: Panel, grid: _Grid, number: int) -> list[Box]:
    left, top = _corner(panel, grid)
    return [Box(left + cell.column * grid.cell_width, top + cell.row * grid.cell_height, grid.cell_width,
                grid.cell_height, cell, number) for cell in panel.cells]


def _labels(panel: Panel, grid: _Grid) -> list[Words]:
    left, top = _corner(panel, grid)
    across = [Words(left + (j + 0.5) * grid.cell_width, top - PAD / 2 - SMALL / 2, label, SMALL)
              for j, label in enumerate(panel.columns.labels)]
    down = [Words(left - PAD / 2, top + (i + 0.5) * grid.cell_height, label, SMALL, "end")
            for i, label in enumerate(panel.rows.labels)]
    title = [Words(left, top - PAD - SMALL - FONT / 2 - PAD / 2, panel.title, FONT, "start")] if panel.title else []
    return title + across + down


def _rules(panel: Panel, grid: _Grid) -> list[Rule]:
    left, top = _corner(panel, grid)
    right, bottom = left + len(panel.columns) * grid.cell_width, top + len(panel.rows) * grid.cell_height
    across = [Rule(left, top + i * grid.cell_height, right, top + i * grid.cell_height, 1.0 + level)
              for i, level in enumerate(panel.rows.breaks) if level]
    down = [Rule(left + j * grid.cell_width, top, left + j * grid.cell_width, bottom, 1.0 + level)
            for j, level in enumerate(panel.columns.breaks) if level]
    return across + down
