"""A new layout on the memory of a tensor: what becomes of a swizzle.

In: a tensor, a plain or swizzled layout.  Out: the plain layout and the swizzle of the view.

>>> smem.with_layout(mo.ComposedLayout(mo.Swizzle(3, 3, 3), 0, layout)).swizzle
Sw<3,3,3>

A plain layout keeps the tensor's swizzle.  A swizzled one on shared memory that has none brings its own; the tensor
must then start at its buffer's first element, since a swizzle acts on whole offsets.
"""

from __future__ import annotations

from typing import Any, Protocol

from moye.dtypes import Space
from moye.layout import ComposedLayout, Int, Layout, Swizzle


class View(Protocol):
    """What this module needs of a tensor."""

    offset: Int
    swizzle: Swizzle | None

    @property
    def space(self) -> Space: ...


def layout_and_swizzle(tensor: View, layout: Layout | ComposedLayout) -> tuple[Any, Swizzle | None]:
    """The layout and the swizzle of ``tensor.with_layout(layout)``."""
    starts = isinstance(tensor.offset, int) and tensor.offset == 0 and tensor.swizzle is None
    if isinstance(layout, ComposedLayout) and starts and tensor.space in (Space.SHARED, Space.CLUSTER) \
            and isinstance(layout.offset, int) and layout.offset == 0:
        return layout.layout, layout.swizzle
    return layout, tensor.swizzle
