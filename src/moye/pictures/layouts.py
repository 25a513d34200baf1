"""Sheets of layouts, swizzled layouts, swizzles and bank maps: each cell shows the offset of its coordinate.

In: a layout and what to tell of it.  Out: a ``Sheet``.

>>> sheet = layout_sheet(Layout.parse("(2,2):(1,2)"), Look())
>>> [cell.lines for cell in sheet.panels[0].cells]
[('0',), ('2',), ('1',), ('3',)]

Threads are no matter of a layout: tiles.py draws who holds what.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from moye.errors import LayoutError
from moye.hardware import BANK_BITS
from moye.layout import ComposedLayout, Layout, Swizzle
from moye.layout.tuples import IntTuple, text
from moye.pictures.axes import Page, Place, Plan, check_static, plan_of
from moye.pictures.model import Cell, Panel, Sheet

MOST_CELLS = 4096
AnyLayout = Layout | ComposedLayout


@dataclass(frozen=True, slots=True)
class Look:
    """What a picture shows beyond the object: its title, element width, number of banks, and how large it may be.

    ``bits`` is the width of an element in shared memory, from which the bank of a cell follows; with ``banks`` the
    cells are coloured and labelled by their bank.
    """

    title: str = ""
    bits: int | None = None
    banks: int | None = None
    max_cells: int = MOST_CELLS

    def __post_init__(self) -> None:
        for name, value in (("bits", self.bits), ("banks", self.banks), ("max_cells", self.max_cells)):
            if value is not None and value < 1:
                raise LayoutError(f"draw: {name}={value} is not positive")
        if self.banks is not None and self.bits is None:
            raise LayoutError(f"draw: the {self.banks} banks are counted in words of {BANK_BITS} bits, but the width "
                              "of an element is not given", hint="give bits=16 for float16, bits=32 for float32")

    def bank(self, offset: int | None) -> int | None:
        """The bank of the first bit of the element at an offset; None where no width is given."""
        if self.bits is None or offset is None:
            return None
        return offset * self.bits // BANK_BITS % (self.banks or 32)


def layout_sheet(layout: AnyLayout, look: Look) -> Sheet:
    """Rows are mode 0, columns mode 1, a panel for each coordinate of the others."""
    plan = plan_of(static_shape(layout), look.max_cells, f"the shape of {layout}")
    panels = tuple(_panel(layout, plan, page, look) for page in plan.pages)
    return Sheet(look.title or str(layout), panels, (*plan.notes, *_legend(layout, look)))


def static_shape(layout: AnyLayout) -> IntTuple:
    """The shape of a layout whose leaves are all static; FactError that names the leaf which is not."""
    check_static(layout.shape, f"the shape of {layout}")
    check_static(layout.stride, f"the stride of {layout}")
    if isinstance(layout, ComposedLayout):
        check_static(layout.offset, f"the offset of {layout}")
    return layout.shape


def offset_at(layout: AnyLayout, coordinate: IntTuple) -> int:
    """The offset of a coordinate of a static layout."""
    offset = layout(coordinate)
    assert isinstance(offset, int), f"{layout} is static, but its offset at {coordinate} is {offset}"
    return offset


def _panel(layout: AnyLayout, plan: Plan, page: Page, look: Look) -> Panel:
    cells = tuple(_cell(layout, place, look) for place in page.places)
    return Panel(page_title(page), plan.rows, plan.columns, cells, page.stand)


def page_title(page: Page) -> str:
    """The slice that a page shows, in the notation of slices: ``(_,_,2)``."""
    return f"(_,_,{','.join(map(text, page.rest))})" if page.rest else ""


def _cell(layout: AnyLayout, place: Place, look: Look) -> Cell:
    offset = offset_at(layout, place.coordinate)
    bank = look.bank(offset)
    lines = (str(offset),) if look.banks is None else (str(offset), f"b{bank}")
    colour = offset >> _grain(layout) if look.banks is None else _bank_colour(bank, look.banks)
    return Cell(place.row, place.column, lines, colour, text(place.coordinate), place.index, offset, bank=bank)


def _grain(layout: AnyLayout) -> int:
    """Offsets that a swizzle keeps together have one colour: the logarithm of their number."""
    return layout.swizzle.base if isinstance(layout, ComposedLayout) and layout.swizzle.bits else 0


def _bank_colour(bank: int | None, banks: int) -> int:
    """Neighbouring banks share a colour, eight colours for all: with 32 banks each is one 16-byte access."""
    return 0 if bank is None else bank // max(1, banks // 8)


def _legend(layout: AnyLayout, look: Look) -> tuple[str, ...]:
    if look.banks is not None:
        wide = -(-(look.bits or 0) // BANK_BITS)
        which = f"the first of its {wide} banks" if wide > 1 else "its bank"
        return (f"offset, and {which} of {look.banks}: elements of {look.bits} bits; one colour: "
                f"{max(1, look.banks // 8)} neighbouring banks",)
    if _grain(layout):
        return (f"one colour: {1 << _grain(layout)} offsets that the swizzle keeps together",)
    return ()


def swizzle_sheet(sw: Swizzle, look: Look) -> Sheet:
    """One period of a swizzle, row-major: rows are the upper of its two groups of bits, double lines part the runs."""
    run, columns = 1 << sw.base, 1 << abs(sw.shift)
    inner = Layout((1 << sw.bits, (run, columns)), (run * columns, (1, run)))
    return layout_sheet(ComposedLayout(sw, 0, inner), replace(look, title=look.title or str(sw)))
