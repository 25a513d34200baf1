"""A new layout on the memory of a tensor, and what becomes of the tensor's start and of a swizzle.

In: a tensor, a plain or swizzled layout.  Out: the element offset, the plain layout and the swizzle of the view.

    smem.with_layout(mo.select(smem_layout, 1, 0)).swizzle == smem_layout.swizzle      # True

A plain layout keeps the tensor's swizzle.  A swizzled layout replaces it, so that nothing is swizzled twice.  Both must
have the same swizzle, or the tensor has none and starts where the swizzle does, because a swizzle acts on whole
offsets.
"""

from __future__ import annotations

from typing import Any, Protocol

from moye.dtypes import Space
from moye.errors import TensorError
from moye.layout import ComposedLayout, Int, Layout, Swizzle
from moye.tensor.context import locate


class View(Protocol):
    """What this module needs of a tensor."""

    offset: Int
    swizzle: Swizzle | None

    @property
    def space(self) -> Space: ...
    @property
    def label(self) -> str: ...


def placed(tensor: View, layout: Layout | ComposedLayout) -> tuple[Int, Layout, Swizzle | None]:
    """The offset, the layout and the swizzle of ``tensor.with_layout(layout)``.

    Law: element c of the view lies at ``swizzle(offset + layout(c))`` of the buffer.
    """
    if isinstance(layout, Layout):
        return tensor.offset, layout, tensor.swizzle
    if not isinstance(layout, ComposedLayout):
        raise TensorError(f"{tensor.label}.with_layout takes a layout, not a {type(layout).__name__}",
                          locs=(locate(),), hint="mo.make_layout(shape) makes one of a shape")
    if tensor.space is Space.REGISTER:
        raise TensorError(f"{tensor.label} lives in registers, which have no banks and no addresses: it cannot take "
                          f"the swizzled layout {layout}", hint="take the layout without its swizzle",
                          locs=(locate(),))
    _require_one_swizzle(tensor, layout)
    begin: Any = tensor.offset
    return begin + layout.offset, layout.layout, layout.swizzle


def _require_one_swizzle(tensor: View, layout: ComposedLayout) -> None:
    """A6: the swizzle of the new layout must be the tensor's own, or the tensor must be unswizzled and at its start."""
    own = None if tensor.swizzle is None or not tensor.swizzle.bits else tensor.swizzle
    if own is not None and own != layout.swizzle:
        raise TensorError(f"{tensor.label} is swizzled by {own} and cannot take the layout {layout}: one swizzle after "
                          f"another would find no element where it was put", locs=(locate(),), code="A6",
                          hint=f"give it a layout without a swizzle, which keeps {own}")
    start: Any = tensor.offset
    begins = start if isinstance(start, int) else start.divisor
    if own is None and begins % layout.swizzle.period:
        raise TensorError(f"{tensor.label} starts at element {start}, which is not known to be a multiple of "
                          f"{layout.swizzle.period}, after which {layout.swizzle} repeats: it cannot take the layout "
                          f"{layout}", hint="put the swizzled layout on the whole allocation, and slice that",
                          locs=(locate(),), code="A6")
