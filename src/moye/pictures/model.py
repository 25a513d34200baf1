"""What a picture shows, before anything is known of its format: a sheet of panels of cells.

In: what the builders (layouts.py, tiles.py) find out about an object.  Out: what the renderers print.

>>> Cell(0, 1, ("8",), colour=0, coordinate="(0,1)", index=2, offset=8).offset
8

Rows, columns and places count from 0.  Colours are numbers: the renderers cycle through their palette.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: its place in the panel, the lines of its label, its colour, and what is known about it.

    ``coordinate`` is in the notation of layouts, ``index`` the column-major number of the coordinate, ``offset`` what
    the layout makes of it, ``bank`` the shared-memory bank of its first byte.  ``threads`` holds it as their
    ``values``: pairs, one for each thread that has the element.
    """

    row: int
    column: int
    lines: tuple[str, ...]
    colour: int | None = None
    coordinate: str = ""
    index: int | None = None
    offset: int | None = None
    threads: tuple[int, ...] = ()
    values: tuple[int, ...] = ()
    bank: int | None = None

    def facts(self) -> list[tuple[str, str]]:
        """(name, value) of what is known, in the order in which it is told."""
        pairs = [("coordinate", self.coordinate), ("index", _number(self.index)), ("offset", _number(self.offset)),
                 ("thread", numbers(self.threads)), ("value", numbers(tuple(dict.fromkeys(self.values)))),
                 ("bank", _number(self.bank))]
        return [(name, value) for name, value in pairs if value]


def _number(x: int | None) -> str:
    return "" if x is None else str(x)


def numbers(values: tuple[int, ...], most: int = 8) -> str:
    """``0, 32, 64``; more than ``most`` as ``0, 32, 64, ... 992 (32 in all)``."""
    if len(values) <= most:
        return ", ".join(map(str, values))
    return f"{', '.join(map(str, values[:3]))}, ... {values[-1]} ({len(values)} in all)"


@dataclass(frozen=True, slots=True)
class Axis:
    """The rows or columns of a panel: a label for each, and the hierarchy of the mode that they enumerate.

    ``breaks[i]`` says how many levels of the mode roll over before row i: 0 inside the innermost one.
    """

    labels: tuple[str, ...]
    breaks: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, slots=True)
class Panel:
    """A grid of cells with a title, at a place (row, column) of the sheet; panels of one column are aligned."""

    title: str
    rows: Axis
    columns: Axis
    cells: tuple[Cell, ...]
    place: tuple[int, int] = (0, 0)

    def grid(self) -> dict[tuple[int, int], Cell]:
        """(row, column) -> cell."""
        return {(cell.row, cell.column): cell for cell in self.cells}


@dataclass(frozen=True, slots=True)
class Sheet:
    """A picture: title, panels, and notes below them (what was left out, how to read it)."""

    title: str
    panels: tuple[Panel, ...]
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", printable(self.title))

    def places(self) -> dict[tuple[int, int], Panel]:
        """(row, column) of the sheet -> panel."""
        return {panel.place: panel for panel in self.panels}

    def lines_per_cell(self) -> int:
        return max((len(cell.lines) for panel in self.panels for cell in panel.cells), default=1)


def printable(text: str) -> str:
    """A text on one line, without the control characters that XML forbids."""
    return "".join(c if c.isprintable() else " " for c in text)
