"""Whether the extents of two tensors of one copy agree: proven now, checked at launch, or refused.

In: two views; one may have dynamic extents where the other has static ones.  Out: their layouts, static if either says
so.

    agreed(out, r)          # out: (out_0,out_1), r: (2,3): launch checks out_0 == 2 and out_1 == 3

Registers have no addresses, so a copy from or to them needs static extents.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

from moye.dtypes import Space
from moye.errors import TensorError
from moye.layout import Int, Layout, make_layout, rank, size
from moye.layout.tuples import unflatten_tuple, zip_leaves
from moye.tensor.context import builder, locate, tracing
from moye.tensor.expr import Expr, can_guard, compare, operand_of


class View(Protocol):
    """What this module needs of a tensor."""

    @property
    def layout(self) -> Layout: ...
    @property
    def space(self) -> Space: ...
    @property
    def label(self) -> str: ...


def agreed(dst: View, src: View) -> tuple[Layout, Layout]:
    """The layouts of both sides of a copy."""
    if isinstance(size(dst.layout), int) == isinstance(size(src.layout), int):
        return dst.layout, src.layout
    if isinstance(size(dst.layout), int):
        return dst.layout, _as_static(src, dst)
    return _as_static(dst, src), src.layout


def _as_static(view: View, other: View) -> Layout:
    """The layout of a view, with the extents of the other, static view."""
    whole, wanted = view.layout, other.layout
    modal = isinstance(whole.shape, tuple) and isinstance(wanted.shape, tuple) and rank(whole) == rank(wanted)
    if not modal:
        return _mode(view, other, whole, wanted, None)
    return make_layout(*(_mode(view, other, whole.mode(i), wanted.mode(i), i) for i in range(rank(whole))))


def _mode(view: View, other: View, mode: Layout, wanted: Layout, number: int | None) -> Layout:
    leaves = zip_leaves(mode.shape, mode.stride)
    dynamic = [i for i, (extent, _) in enumerate(leaves) if not isinstance(extent, int)]
    if not dynamic or _stretched(view, other, mode):
        return mode
    rest, have = math.prod(extent for extent, _ in leaves if isinstance(extent, int)), size(wanted)
    where = "" if number is None else f" of mode {number}"
    if len(dynamic) > 1 or not isinstance(have, int) or not rest or have % rest or \
            not _assumed(leaves[dynamic[0]][0], have // rest, view, other, where):
        if Space.REGISTER not in (view.space, other.space):
            return mode                                 # between memories it may stay dynamic
        raise TensorError(f"{view.label} {view.layout} and {other.label} {other.layout} are copied whole, but whether "
                          f"the extent {leaves[dynamic[0]][0]}{where} fits the {have} elements of {other.label} is "
                          "not known, and launch cannot check it here", locs=(locate(),),
                          hint="take a static tile of it with mo.tile, annotate the parameter with mo.Static, or say "
                               "so with mo.assume")
    extents = [have // rest if i == dynamic[0] else extent for i, (extent, _) in enumerate(leaves)]
    return Layout(unflatten_tuple(extents, mode.shape), mode.stride)


def _stretched(view: View, other: View, mode: Layout) -> bool:
    """Whether it is one element again and again, as in a fill: it takes any extent."""
    return view.space is Space.REGISTER and all(isinstance(step, int) and step == 0
                                                for _, step in zip_leaves(mode.shape, mode.stride))


def _assumed(extent: Int, wanted: int, view: View, other: View, where: str) -> bool:
    """Whether an extent is this one, as far as the launch can check it; the launch will."""
    given: Any = extent
    equal = compare("eq", given, wanted)
    if equal is True or given.same(wanted):
        return True
    if not tracing() or not isinstance(equal, Expr):
        return False
    if any(guard.cond is equal.operand for guard in builder().func.guards):
        return True                                     # launch checks it for an earlier copy
    if not can_guard(equal.operand):
        return False
    builder().guard(equal.operand, f"copyto: extent {{have}}{where} of {view.label} is not {wanted}, which "
                                   f"{other.label} {other.layout} has", {"have": operand_of(given)})
    return True
