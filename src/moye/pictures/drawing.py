"""``draw``: choose the builder that draws an object, and register all builders for notebooks.

In: an object, or notation, and what to show of it.  Out: a ``Picture``, written to a file if one is named.

>>> picture = draw("(8,8):(8,1)", swizzle="3,0,3", file="swizzled.svg")

Builders are found by type, derived classes included.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from os import PathLike
from typing import Any

from moye import display
from moye.atoms.atom import CopyOp, MmaOp
from moye.errors import LayoutError, caret
from moye.layout import ComposedLayout, IntTuple, Layout, Swizzle, make_layout
from moye.pictures.layouts import MOST_CELLS, AnyLayout, Look, layout_sheet, swizzle_sheet
from moye.pictures.model import Sheet
from moye.pictures.picture import Picture, check_format, format_of
from moye.pictures.tiles import atom_sheet, copy_sheet, mma_sheet, op_sheet, partition_sheet
from moye.tensor.tiled import CopyAtom, TiledCopy, TiledMMA

# Notebooks keep what they show, twice: a quarter of a megabyte is enough for what nobody asked for by name.
MOST_CELLS_SHOWN = 1024
Builder = Callable[[Any, Look], Sheet]
_TILED: dict[type, Builder] = {TiledCopy: copy_sheet, CopyAtom: atom_sheet, TiledMMA: mma_sheet, MmaOp: op_sheet}
_BUILDERS: dict[type, Builder] = {Layout: layout_sheet, ComposedLayout: layout_sheet, Swizzle: swizzle_sheet, **_TILED}


def draw(x: object = None, format: str | None = None, file: str | PathLike[str] | None = None, *,
         title: str | None = None, swizzle: Swizzle | str | None = None, thr: Layout | IntTuple | str | None = None,
         val: Layout | IntTuple | str | None = None, banks: bool | int = False, bits: int | None = None,
         max_cells: int = MOST_CELLS) -> Picture:
    """A picture of a layout, swizzle, swizzled layout, tiled copy, copy atom, tiled MMA or MMA operation.

    Rows are mode 0, columns mode 1; other modes are drawn slice by slice.  ``x`` may be notation.  ``swizzle`` is put
    around a layout.  With ``thr`` and ``val`` (as for ``make_tiled_copy``) each cell shows its thread and value;
    without ``x``, for one tile.  ``banks`` colours by shared-memory bank (True: 32), for elements of ``bits`` bits.  At
    most ``max_cells`` cells are drawn, and the picture says what it leaves out.

    ``file`` is written in the format of its suffix: .txt .svg .tex .typ .html.  ``format`` is "text", "svg", "latex",
    "typst" or "html": the format that ``print`` gives, and that of ``file`` if both are given.  LayoutError for objects
    without a picture, FactError for dynamic layouts.  Source: CuTe cute/util/print_latex.hpp, print.hpp.
    """
    if format is None:
        format = "text" if file is None else format_of(file)
    look = Look(title or "", bits, _banks(banks), max_cells)
    picture = Picture(_sheet(x, _swizzle(swizzle), _layout(thr), _layout(val), look), check_format(format))
    if file is not None:
        picture.save(file, format)
    return picture


def _sheet(x: object, swizzle: Swizzle | None, thr: Layout | None, val: Layout | None, look: Look) -> Sheet:
    if isinstance(x, str):
        x = read(x)
    if swizzle is not None:
        if not isinstance(x, Layout):
            raise LayoutError(f"draw: the swizzle {swizzle} goes around a layout, not around {x}")
        x = swizzle.after(x)
    if val is not None and thr is None:
        raise LayoutError(f"draw: the value layout {val} needs a thread layout", hint="give thr= too")
    if thr is not None:
        return partition_sheet(_target(x, thr), thr, val, look)
    builder = _builder(type(x))
    if builder is None:
        raise _no_picture(x)
    if builder in _TILED.values() and look.bits is not None:
        raise LayoutError(f"draw: banks are a matter of layouts in shared memory, and {x} is none",
                          hint="draw the layout with thr= and val= of the copy")
    return builder(x, look)


def _target(x: object, thr: Layout) -> AnyLayout | None:
    if x is None or isinstance(x, (Layout, ComposedLayout)):
        return x
    raise LayoutError(f"draw: the threads {thr} share a layout, not {x}")


def _builder(kind: type) -> Builder | None:
    return next((_BUILDERS[each] for each in kind.__mro__ if each in _BUILDERS), None)


def _no_picture(x: object) -> LayoutError:
    if isinstance(x, CopyOp):
        return LayoutError(f"draw: how many elements {x} moves depends on their type",
                           hint=f"draw CopyAtom({x}, dtype)")
    return LayoutError(f"draw: there is no picture of {x!r}",
                       hint="draw a layout, a swizzle, a tiled copy, a tiled MMA or an atom; of a tensor its .layout")


def _banks(banks: bool | int) -> int | None:
    return 32 if banks is True else None if banks is False else banks


def _layout(x: Layout | IntTuple | str | None) -> Layout | None:
    if isinstance(x, str):
        return Layout.parse(x)
    return x if x is None or isinstance(x, Layout) else make_layout(x)


def _swizzle(x: Swizzle | str | None) -> Swizzle | None:
    return read_swizzle(x) if isinstance(x, str) else x


def _renderer(builder: Builder) -> display.Renderer:
    return lambda x: Picture(builder(x, Look(max_cells=MOST_CELLS_SHOWN))).mime()


for _kind, _build in _BUILDERS.items():
    display.register(_kind, _renderer(_build))


# --- notation: what the command line and ``draw`` are given as text --------------------------------------------------

_TOKEN = re.compile(r"\s*(-?\d+|Sw|\S)")


class _Words:
    """A cursor over the words of a text."""

    def __init__(self, source: str) -> None:
        self.source, self.at = source, 0

    def peek(self) -> str:
        found = _TOKEN.match(self.source, self.at)
        return found[1] if found else ""

    def take(self) -> str:
        found = _TOKEN.match(self.source, self.at)
        self.at = found.end() if found else self.at
        return found[1] if found else ""

    def fail(self, wanted: str) -> LayoutError:
        rest = self.source[self.at:]
        column = len(self.source.rstrip()) if not rest.strip() else self.at + len(rest) - len(rest.lstrip())
        found = repr(self.peek()) if self.peek() else "the end"
        return LayoutError(f"{self.source!r} is no swizzle: {wanted} expected, {found} found\n"
                           f"{caret(self.source, column)}",
                           hint="notation is Sw<bits,base,shift>, before a layout Sw<bits,base,shift> o shape:stride")

    def expect(self, word: str) -> None:
        if self.peek() != word:
            raise self.fail(repr(word))
        self.take()

    def number(self) -> int:
        if not re.fullmatch(r"-?\d+", self.peek()):
            raise self.fail("an integer")
        return int(self.take())

    def three(self) -> tuple[int, int, int]:
        bits = self.number()
        self.expect(",")
        base = self.number()
        self.expect(",")
        return bits, base, self.number()


def read(source: str) -> Layout | Swizzle | ComposedLayout:
    """The layout, swizzle or swizzled layout that a text denotes; LayoutError with a caret where it denotes none.

    >>> read("Sw<2,0,2>"), read("Sw<2,0,2> o (4,4)")
    (Sw<2,0,2>, Sw<2,0,2> o 0 o (4,4):(1,4))
    """
    words = _Words(source)
    if words.peek() != "Sw":
        return Layout.parse(source)
    swizzle = _written(words)
    if not words.peek():
        return swizzle
    words.expect("o")
    return ComposedLayout.parse(source)


def read_swizzle(source: str) -> Swizzle:
    """The swizzle that a text denotes: ``Sw<3,3,3>`` or ``3,3,3``."""
    words = _Words(source)
    swizzle = _written(words) if words.peek() == "Sw" else Swizzle(*words.three())
    if words.peek():
        raise words.fail("the end")
    return swizzle


def _written(words: _Words) -> Swizzle:
    words.expect("Sw")
    words.expect("<")
    three = words.three()
    words.expect(">")
    return Swizzle(*three)
