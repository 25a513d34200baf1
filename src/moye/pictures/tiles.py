"""Sheets of tiled copies, tiled MMAs and atoms: each cell shows which value of which thread it is.

In: a tiled object.  Out: a ``Sheet``; of a copy the source and the destination, of an MMA A and B around C.

>>> sheet = mma_sheet(make_tiled_mma(UniversalFMA(float32), make_layout((2, 2))), Look())
>>> [(panel.title, panel.place) for panel in sheet.panels]
[('B^T (k,n)', (0, 1)), ('A (m,k)', (1, 0)), ('C (m,n)', (1, 1))]

Threads and values are what ``partition_S`` ... ``partition_C`` of identity tensors say, so that a picture shows what
kernels do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from moye.atoms.atom import MmaOp
from moye.atoms.universal import AUTO_COPY
from moye.dtypes import uint8
from moye.errors import LayoutError
from moye.layout import Layout, is_injective, make_layout, size
from moye.layout.tuples import IntTuple, flatten_tuple, product_each, text
from moye.pictures.axes import Page, Plan, corner_plan, plan_of
from moye.pictures.layouts import AnyLayout, Look, offset_at, page_title, static_shape
from moye.pictures.model import Cell, Panel, Sheet
from moye.tensor.coords import identity_tensor
from moye.tensor.tiled import CopyAtom, TiledCopy, TiledMMA, make_tiled_copy, make_tiled_mma

Coordinate = tuple[int, ...]
Holders = dict[Coordinate, list[tuple[int, int]]]


def holders(threads: int, shape: Coordinate, partition: Callable[[int, Any], Any]) -> Holders:
    """Coordinate -> (thread, value) pairs, from a partition of the identity tensor of ``shape`` to each thread."""
    whole = identity_tensor(shape)
    found: Holders = {}
    for thread in range(threads):
        part = partition(thread, whole)
        count = size(part.layout)
        assert isinstance(count, int), f"the partition {part.layout} of a static tile is static"
        for value in range(count):
            found.setdefault(part[value], []).append((thread, value))
    return found


def copy_sheet(copy: TiledCopy, look: Look) -> Sheet:
    """Source and destination side by side."""
    shape = copy.tiler
    plan = plan_of(shape, look.max_cells // 2, f"the tile of {copy}")
    source = holders(copy.threads, shape, lambda t, whole: copy.get_slice(t).partition_S(whole))
    target = holders(copy.threads, shape, lambda t, whole: copy.get_slice(t).partition_D(whole))
    right = 1 + max((page.stand[1] for page in plan.pages), default=0)
    panels = [*_panels(plan, shape, source, "source"),
              *_panels(plan, shape, target, "destination", place=(0, right))]
    return Sheet(look.title or str(copy), tuple(panels), (*plan.notes, *_legend(panels)))


def partition_sheet(layout: AnyLayout | None, thr: Layout, val: Layout | None, look: Look) -> Sheet:
    """Who holds what of ``layout`` (of one tile where it is None) in a copy of ``thr`` threads of ``val`` values."""
    about = f"threads {thr}" + ("" if val is None else f", values {val}")
    for name, given in (("thread", thr), ("value", val)):
        if given is not None:
            _check_numbering(name, given)
    copy = make_tiled_copy(CopyAtom(AUTO_COPY, uint8), thr, val)
    shape: IntTuple = copy.tiler if layout is None else static_shape(layout)
    flat = tuple(n for n in product_each(shape) if isinstance(n, int))
    if len(flat) < len(copy.tiler) or any(n % tile for n, tile in zip(flat, copy.tiler, strict=False)):
        raise LayoutError(f"draw: {about} cover a tile {text(copy.tiler)}, which does not divide {text(shape)}")
    plan = plan_of(shape, look.max_cells, "the shape" if layout is None else f"the shape of {layout}")
    held = holders(copy.threads, flat, lambda t, whole: copy.get_slice(t).partition_S(whole)) if plan.pages else {}
    title = look.title or (about if layout is None else f"{layout}, {about}")
    panels = _panels(plan, flat, held, "", layout=layout, look=look)
    return Sheet(title, tuple(panels), (*plan.notes, *_legend(panels)))


def _check_numbering(name: str, layout: Layout) -> None:
    """LayoutError unless the layout gives every coordinate of a tile a thread, or value, of its own."""
    if 0 in flatten_tuple(static_shape(layout)):
        raise LayoutError(f"draw: the {name} layout {layout} has no {name}s")
    if not is_injective(layout):
        raise LayoutError(f"draw: the {name} layout {layout} gives two coordinates the same {name}")


def atom_sheet(atom: CopyAtom, look: Look) -> Sheet:
    """The elements that one thread moves in one access."""
    tiled = make_tiled_copy(atom, make_layout(1), make_layout(atom.values))
    return copy_sheet(tiled, replace(look, title=look.title or str(atom)))


def mma_sheet(mma: TiledMMA, look: Look, lanes: Layout | None = None) -> Sheet:
    """A to the left of C, B transposed above it, so that rows of A and columns of B lead to their products.

    ``lanes`` renames the threads.
    """
    m, n, k = tile = (mma.tile_size(0), mma.tile_size(1), mma.tile_size(2))
    kept = _corner(tile, look.max_cells)
    blocks = (
        ("B^T (k,n)", (0, 1), (n, k), (kept[1], kept[2]), True, lambda t, whole: mma.get_slice(t).partition_B(whole)),
        ("A (m,k)", (1, 0), (m, k), (kept[0], kept[2]), False, lambda t, whole: mma.get_slice(t).partition_A(whole)),
        ("C (m,n)", (1, 1), (m, n), (kept[0], kept[1]), False, lambda t, whole: mma.get_slice(t).partition_C(whole)),
    )
    panels: list[Panel] = []
    for title, place, shape, corner, turned, partition in blocks:
        held = holders(mma.threads, shape, partition)
        if lanes is not None:
            names = {t: lane for t in range(mma.threads) if isinstance(lane := lanes(t), int)}
            held = {place: [(names[thread], value) for thread, value in pairs] for place, pairs in held.items()}
        drawn, rows, columns = (shape[::-1], *corner[::-1]) if turned else (shape, *corner)
        panels += _panels(corner_plan(drawn, rows, columns), drawn, held, title, place=place, turned=turned)
    cut = f"cropped to (m,n,k) = {text(kept)} of {text(tile)}: max_cells={look.max_cells}"
    return Sheet(look.title or str(mma), tuple(panels), (*([cut] if kept != tile else []), *_legend(panels)))


def _corner(tile: tuple[int, int, int], most: int) -> tuple[int, int, int]:
    """The tile, its longest extent halved until A, B and C together have at most ``most`` cells (but one each)."""
    kept = list(tile)
    while kept[0] * kept[2] + kept[1] * kept[2] + kept[0] * kept[1] > most and max(kept) > 1:
        longest = kept.index(max(kept))
        kept[longest] = (kept[longest] + 1) // 2
    return kept[0], kept[1], kept[2]


def _legend(panels: Sequence[Panel]) -> tuple[str, ...]:
    """How to read the labels that are no plain thread and value."""
    shared = any(len(cell.threads) > 1 for panel in panels for cell in panel.cells)
    return ("T thread, V value; +n: n more threads hold the element",) if shared else ()


def op_sheet(op: MmaOp, look: Look) -> Sheet:
    """One MMA operation by its own threads, under their numbers in the warp."""
    alone = replace(op, thr_id=None)
    return mma_sheet(make_tiled_mma(alone), replace(look, title=look.title or str(op)), op.thr_id)


def _panels(plan: Plan, drawn: Coordinate, held: Holders, title: str, *, place: Coordinate = (0, 0),
            turned: bool = False, layout: AnyLayout | None = None, look: Look | None = None) -> list[Panel]:
    """A panel for each page of the plan of the extents ``drawn``; ``turned``: the tile has them the other way round."""
    panels = []
    for page in plan.pages:
        cells = _cells(page, drawn, held, turned, layout, look or Look())
        stand = (place[0] + page.stand[0], place[1] + page.stand[1])
        name = " ".join(filter(None, (title, page_title(page))))
        panels.append(Panel(name, plan.rows, plan.columns, cells, stand))
    return panels


def _cells(page: Page, drawn: Coordinate, held: Holders, turned: bool, layout: AnyLayout | None,
           look: Look) -> tuple[Cell, ...]:
    cells = []
    for place in page.places:
        at = _per_mode(place.index, drawn)
        offset = None if layout is None else offset_at(layout, place.coordinate)
        coordinate = text(at[::-1] if turned else place.coordinate)
        index = at[1] + drawn[1] * at[0] if turned else place.index
        pairs = held.get(at[::-1] if turned else at, [])
        cells.append(Cell(place.row, place.column, _lines(pairs), pairs[0][0] if pairs else None, coordinate, index,
                          offset, tuple(thread for thread, _ in pairs), tuple(value for _, value in pairs),
                          look.bank(offset)))
    return tuple(cells)


def _per_mode(index: int, extents: Coordinate) -> Coordinate:
    """The index within each mode of a column-major index."""
    result = []
    for extent in extents:
        result.append(index % extent)
        index //= extent
    return tuple(result)


def _lines(pairs: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    """``T3 V1`` on two lines; of an element that several threads hold, the first and how many more."""
    if not pairs:
        return ("",)
    (thread, value), more = pairs[0], len(pairs) - 1
    return (f"T{thread}", f"V{value}", *([f"+{more}"] if more else []))
