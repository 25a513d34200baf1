"""Shapes as rows, columns and pages: where each coordinate goes, and what is left out of a shape that is too large.

In: a shape.  Out: a ``Plan``: the axes of every page, and the places of its coordinates.

>>> plan = plan_of(((2, 2), 4), most=4096)
>>> [(place.row, place.column, place.coordinate) for place in plan.pages[0].places][:2]
[(0, 0, ((0, 0), 0)), (0, 1, ((0, 0), 1))]

Mode 0 runs down, mode 1 to the right, every coordinate of the other modes has a page; a single mode is one row.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt, prod

from moye.errors import FactError
from moye.layout import DynInt, IntTuple, idx2crd
from moye.layout.tuples import flatten_tuple, product, text
from moye.pictures.model import Axis

WIDE = 32                                               # pages stand side by side up to so many columns


@dataclass(frozen=True, slots=True)
class Place:
    """A coordinate, its column-major index in the whole shape, and the cell of the page where it is drawn."""

    row: int
    column: int
    coordinate: IntTuple
    index: int


@dataclass(frozen=True, slots=True)
class Page:
    """One slice: the coordinate of the modes beyond the second, where it stands on the sheet, its places."""

    rest: tuple[IntTuple, ...]
    stand: tuple[int, int]
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """How a shape is drawn; ``notes`` say what is not."""

    rows: Axis
    columns: Axis
    pages: tuple[Page, ...]
    notes: tuple[str, ...]


def static_size(x: IntTuple, what: str) -> int:
    """The number of coordinates; FactError that names the leaf where one is dynamic."""
    check_static(x, what)
    size = product(x)
    assert isinstance(size, int), f"{size} is static: every leaf is"
    return size


def check_static(x: IntTuple, what: str, path: tuple[int, ...] = ()) -> None:
    """FactError that names the first dynamic leaf of a tuple."""
    if isinstance(x, tuple):
        for i, item in enumerate(x):
            check_static(item, what, (*path, i))
    elif isinstance(x, DynInt):
        where = f"mode {','.join(map(str, path))}" if path else "leaf"
        raise FactError(f"draw: {what} has the dynamic {where} {x}, and a picture shows numbers",
                        hint="draw it with a static layout in its place")


def plan_of(shape: IntTuple, most: int, what: str = "the shape") -> Plan:
    """Axes and pages of a static shape, cut down to ``most`` cells."""
    static_size(shape, what)
    row, column, rest = _roles(shape)
    rows, columns = _size(row), _size(column)
    pages = prod(map(_size, rest))
    if rows * columns * pages == 0:
        return Plan(Axis((), ()), Axis((), ()), (), (f"{what} has no coordinates: its size is 0",))
    keep_rows, keep_columns, keep_pages = _fit(rows, columns, pages, most)
    drawn = _pages(shape, keep_rows, keep_columns, keep_pages)
    left_out = ((keep_rows, rows, "rows"), (keep_columns, columns, "columns"), (keep_pages, pages, "slices"))
    cut = [f"{kept} of {there} {name}" for kept, there, name in left_out if kept < there]
    notes = (f"cropped to {', '.join(cut)}: max_cells={most}",) if cut else ()
    down = axis(row, keep_rows) if isinstance(shape, tuple) and len(shape) > 1 else Axis(("",), (0,))
    return Plan(down, axis(column, keep_columns), drawn, notes)


def corner_plan(shape: tuple[int, int], rows: int, columns: int) -> Plan:
    """The first rows and columns of a flat shape of two modes."""
    return Plan(axis(shape[0], rows), axis(shape[1], columns), _pages(shape, rows, columns, 1), ())


def _pages(shape: IntTuple, rows: int, columns: int, count: int) -> tuple[Page, ...]:
    across = max(1, WIDE // columns)
    return tuple(_page(shape, number, rows, columns, (number // across, number % across)) for number in range(count))


def _roles(shape: IntTuple) -> tuple[IntTuple, IntTuple, tuple[IntTuple, ...]]:
    """The mode that runs down, the one that runs to the right, and the others."""
    if not isinstance(shape, tuple):
        return 1, shape, ()
    if len(shape) < 2:
        return 1, shape[0] if shape else 1, ()
    return shape[0], shape[1], shape[2:]


def _size(mode: IntTuple) -> int:
    return static_size(mode, "the shape")


def _fit(rows: int, columns: int, pages: int, most: int) -> tuple[int, int, int]:
    """The leading rows, columns and pages to draw: at most ``most`` cells, pages as square as can be."""
    most = max(1, most)
    if rows * columns > most:
        keep_rows = min(rows, max(isqrt(most), most // columns))
        keep_columns = min(columns, most // keep_rows)
        return keep_rows, keep_columns, 1
    return rows, columns, min(pages, most // (rows * columns))


def _page(shape: IntTuple, number: int, rows: int, columns: int, stand: tuple[int, int]) -> Page:
    row, column, rest = _roles(shape)
    extents = tuple(map(_size, rest))
    first = _size(row) * _size(column) * number
    others = []
    for mode, extent in zip(rest, extents, strict=True):
        others.append(coordinate_of(number % extent, mode))
        number //= extent
    height = _size(row)
    places = []
    for i in range(rows):
        for j in range(columns):
            index = first + i + height * j
            places.append(Place(i, j, coordinate_of(index, shape), index))
    return Page(tuple(others), stand, tuple(places))


def coordinate_of(index: int, shape: IntTuple) -> IntTuple:
    """The natural coordinate of a column-major index in a static shape."""
    return idx2crd(shape, index)


def axis(mode: IntTuple, keep: int) -> Axis:
    """The labels and the hierarchy of the first ``keep`` coordinates of a mode."""
    labels = tuple(text(coordinate_of(i, mode)) for i in range(keep))
    sizes, steps = 1, []
    for leaf in flatten_tuple(mode)[:-1]:
        sizes *= _size(leaf)
        steps.append(sizes)
    distinct = [step for step in dict.fromkeys(steps) if step > 1]
    breaks = tuple(sum(i % step == 0 for step in distinct) if i else 0 for i in range(keep))
    return Axis(labels, breaks)
