"""Layouts made from a shape: in an order, like another layout, or of coordinates.

In: shapes, orders, layouts.  Out: compact layouts, and identity layouts with basis strides.

>>> str(make_ordered_layout((2, 3, 4), (2, 0, 1))), str(make_identity_layout((4, 8)))
('(2,3,4):(12,1,3)', '(4,8):(1@0,1@1)')

Column- and row-major layouts are ``make_layout(shape)`` and ``make_layout(shape, LayoutRight)``.
"""

from __future__ import annotations

from moye.layout import tuples
from moye.layout.algebra import filter_zeros
from moye.layout.basis import make_basis_like
from moye.layout.layout import Layout
from moye.layout.tuples import IntTuple, Major, compact_order
from moye.layout.wrapped import verb


def make_ordered_layout(shape: IntTuple, order: IntTuple | Major) -> Layout:
    """The compact layout whose modes are fastest in ascending ``order``; ties go left to right (cute/layout.hpp).

    Law: a bijection onto 0 .. size-1 with strides ``compact_order(shape, order)``.
    """
    extent = tuples.as_int_tuple(shape, "the shape of a layout")
    if not isinstance(order, Major):
        order = tuples.as_int_tuple(order, "the order of a layout")
    return Layout(extent, compact_order(extent, order))


@verb
def make_layout_like(layout: Layout) -> Layout:
    """A compact layout with the shape, the order of modes and the repeated modes of another (cute/layout.hpp).

    Law: compact, congruent, stride 0 where the other has it, and its strides are ordered as the other's.
    """
    return Layout.of(layout.shape, compact_order(filter_zeros(layout).shape, layout.stride))


def make_identity_layout(shape: IntTuple) -> Layout:
    """The layout that maps a coordinate to itself (cute/layout.hpp).

    Law: ``make_identity_layout(s)(c) == c`` for every natural coordinate c.
    """
    extent = tuples.as_int_tuple(shape, "the shape of a layout")
    return Layout(extent, make_basis_like(extent))
