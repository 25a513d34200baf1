"""Static layouts as tables of numbers, which the analysis counts.

In: a plain or swizzled layout whose leaves are all static.  Out: its flat modes, and its offsets in index order.

>>> offsets(Layout.parse("(2,3):(3,1)"))
[0, 3, 1, 4, 2, 5]

A dynamic leaf is a FactError that names it.  A layout of more than ``LIMIT`` elements is not listed.
"""

from __future__ import annotations

from collections.abc import Iterator

from moye.errors import FactError, LayoutError
from moye.layout import tuples
from moye.layout.layout import Layout
from moye.layout.swizzle import ComposedLayout
from moye.layout.tuples import IntTuple

AnyLayout = Layout | ComposedLayout

LIMIT = 1 << 22
"""Layouts of more elements than this are not listed."""


def plain(layout: AnyLayout) -> Layout:
    """The layout inside a swizzle, or the layout itself."""
    return layout.layout if isinstance(layout, ComposedLayout) else layout


def static_modes(layout: AnyLayout, asked: str) -> list[tuple[int, int]]:
    """The flat modes (extent, stride) without their swizzle; FactError about the first that is dynamic."""
    inner = plain(layout)
    for what, form in (("extent", inner.shape), ("stride", inner.stride)):
        for path, leaf in _leaves(form, ()):
            if not isinstance(leaf, int):
                where = str(path[0]) if len(path) == 1 else f"({','.join(map(str, path))})"
                raise FactError(f"{asked} needs static integers, but the {what} {leaf} of mode {where} of {layout} "
                                "is not static")
    if isinstance(layout, ComposedLayout) and not isinstance(layout.offset, int):
        raise FactError(f"{asked} needs static integers, but the offset {layout.offset} of {layout} is not static")
    return tuples.zip_leaves(inner.shape, inner.stride)  # type: ignore[return-value]


def _leaves(form: IntTuple, path: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], IntTuple]]:
    if isinstance(form, tuple):
        for i, item in enumerate(form):
            yield from _leaves(item, (*path, i))
    else:
        yield path or (0,), form


def static_offset(layout: AnyLayout) -> int:
    """What a swizzled layout adds before its swizzle, and 0 for a plain one.  Call it after ``static_modes``."""
    return layout.offset if isinstance(layout, ComposedLayout) and isinstance(layout.offset, int) else 0


def offsets(layout: AnyLayout, asked: str = "offsets") -> list[int]:
    """The table index -> offset; LayoutError for more than ``LIMIT`` elements."""
    modes = static_modes(layout, asked)
    count = element_count(modes)
    if count > LIMIT:
        raise LayoutError(f"{asked} of {layout} would list {count} offsets, and the limit is {LIMIT}")
    table = [static_offset(layout)]
    for extent, step in modes:
        table = [offset + shift for shift in (k * step for k in range(extent)) for offset in table]
    if isinstance(layout, ComposedLayout):
        sw = layout.swizzle
        mask, down = ((1 << sw.bits) - 1) << (sw.base + max(sw.shift, 0)), sw.shift
        if down >= 0:
            return [offset ^ ((offset & mask) >> down) for offset in table]
        return [offset ^ ((offset & mask) << -down) for offset in table]
    return table


def element_count(modes: list[tuple[int, int]]) -> int:
    """The product of the extents."""
    count = 1
    for extent, _ in modes:
        count *= extent
    return count


def coordinate(layout: AnyLayout, leaves: list[int]) -> IntTuple:
    """The natural coordinate with these leaves."""
    return tuples.unflatten_tuple(leaves, plain(layout).shape)
