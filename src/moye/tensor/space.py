"""Index spaces of tile operations: the common refinement of several layouts.

In: layouts of one shape.  Out: extents and, per layout, one stride per extent, coalesced together.

>>> common_space([make_layout((4, 6)), make_layout(((2, 2), 6), ((12, 1), 2))])
IndexSpace(extents=(2, 2, 6), strides=((1, 2, 4), (12, 1, 2)), modes=(0, 0, 1))

Layouts are walked top-level mode by top-level mode.  A mode of size 1 is repeated (stride 0) against a larger one. The
launch checks that two dynamic extents are equal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from moye.errors import LayoutError, TensorError
from moye.layout import Int, Layout, append, make_layout, product, rank, size
from moye.layout.ints import is_static, same
from moye.layout.tuples import zip_leaves
from moye.tensor.context import builder, locate, tracing
from moye.tensor.expr import Expr, can_guard, compare, operand_of

Leaf = tuple[Int, Int]


@dataclass(frozen=True, slots=True)
class IndexSpace:
    """``extents[d]``, and ``strides[l][d]`` of layout l over dimension d; both may be dynamic; and the mode of each."""

    extents: tuple[Int, ...]
    strides: tuple[tuple[Int, ...], ...]
    modes: tuple[int, ...]
    """The top-level mode that each dimension comes from."""


def _is_one(extent: Int) -> bool:
    return isinstance(extent, int) and extent == 1


def _next_extent(heads: list[Leaf], layouts: Sequence[Layout], last: bool) -> Int:
    """The extent of the next dimension; ``last`` means that no layout has anything else left of this mode."""
    extents = [extent for extent, _ in heads]
    first = next((extent for extent in extents if isinstance(extent, int)), extents[0])
    if all(same(first, extent) for extent in extents):
        return first
    if not all(isinstance(extent, int) for extent in extents):
        if last and _assume_equal([first, *extents], layouts):  # static from here on, where one of them is
            return first
        raise LayoutError(f"{_names(layouts)} have no common refinement: the extents {_list(extents)} are not known "
                          f"to be equal")
    # A stride holds over a part of a mode only if the part divides its extent, so the next part divides every head.
    step = math.gcd(*(extent for extent in extents if isinstance(extent, int)))
    if step == 1:
        raise LayoutError(f"{_names(layouts)} have no common refinement: the extents {_list(extents)} share no factor")
    return step


def _assume_equal(extents: Sequence[Int], layouts: Sequence[Layout]) -> bool:
    """Let the launch check that dynamic extents are equal; return whether it can."""
    if not tracing():
        return False
    first = extents[0]
    conditions = [(compare("eq", first, other), other) for other in extents[1:]]  # type: ignore[arg-type]
    if not all(c is True or (isinstance(c, Expr) and can_guard(c.operand)) for c, _ in conditions):
        return False
    for cond, other in conditions:
        if isinstance(cond, Expr):
            builder().guard(cond.operand, "two operands do not fit together: the extents {a} and {b} differ",
                            {"a": operand_of(first), "b": operand_of(other)})  # type: ignore[arg-type]
    return True


def _names(layouts: Sequence[Layout]) -> str:
    return " and ".join(dict.fromkeys(str(layout) for layout in layouts))


def _list(extents: Sequence[Int]) -> str:
    return ", ".join(dict.fromkeys(str(extent) for extent in extents))


def _refine(leaves: Sequence[list[Leaf]], layouts: Sequence[Layout]) -> list[tuple[Int, tuple[Int, ...]]]:
    """Dimensions (extent, stride per layout) of one mode of equal size everywhere; ``layouts`` are for messages."""
    queues = [[leaf for leaf in mode if not _is_one(leaf[0])] for mode in leaves]
    longest = max(queues, key=len)
    if not longest:
        return []
    # A mode of size 1 has nothing left: it repeats with stride 0 however the others are split.
    broadcast = [not queue for queue in queues]
    dims: list[tuple[Int, tuple[Int, ...]]] = []
    live = [queue for queue, is_one in zip(queues, broadcast, strict=True) if not is_one]
    while all(live):
        step = _next_extent([queue[0] for queue in live], layouts, all(len(queue) == 1 for queue in live))
        dims.append((step, tuple(0 if not queue and is_one else queue[0][1]
                                 for queue, is_one in zip(queues, broadcast, strict=True))))
        for queue in live:
            _advance(queue, step)
    if any(live):
        sizes = " and ".join(str(product(tuple(extent for extent, _ in mode))) for mode in leaves)
        raise LayoutError(f"{_names(layouts)} differ in size: {sizes}")
    return dims


def _advance(queue: list[Leaf], step: Int) -> None:
    extent, stride = queue[0]
    if isinstance(extent, int) and isinstance(step, int) and extent != step:
        # extent:stride is step:stride and (extent / step):(stride * step), one after the other.
        queue[0] = (extent // step, stride * step)
    else:
        queue.pop(0)


def _merges(extent: Int, inner: Sequence[Int], outer: Sequence[Int]) -> bool:
    return all(same(extent * i, o) for i, o in zip(inner, outer, strict=True))


def common_space(layouts: Sequence[Layout], *, by_mode: bool = True) -> IndexSpace:
    """The coarsest index space over which every layout has one stride per dimension.

    Raises LayoutError if sizes differ or no common refinement exists.
    """
    ranks = {rank(layout) for layout in layouts}
    groups = [[zip_leaves(layout.shape, layout.stride) for layout in layouts]]
    if by_mode and len(ranks) == 1 and all(isinstance(layout.shape, tuple) for layout in layouts):
        groups = [[_mode_leaves(layout, mode) for layout in layouts] for mode in range(ranks.pop())]
    dims: list[tuple[Int, tuple[Int, ...], int]] = []
    for mode, parts in enumerate(groups):
        for extent, strides in _refine(parts, layouts):
            if dims and is_static(dims[-1][0]) and _merges(dims[-1][0], dims[-1][1], strides) \
                    and (len(groups) == 1 or dims[-1][2] == mode or not by_mode):
                dims[-1] = (dims[-1][0] * extent, dims[-1][1], mode)
            else:
                dims.append((extent, strides, mode))
    return IndexSpace(tuple(d[0] for d in dims),
                      tuple(tuple(d[1][i] for d in dims) for i in range(len(layouts))),
                      tuple(d[2] for d in dims))


def _mode_leaves(layout: Layout, mode: int) -> list[Leaf]:
    assert isinstance(layout.shape, tuple) and isinstance(layout.stride, tuple), "a layout with modes"
    return zip_leaves(layout.shape[mode], layout.stride[mode])


def merged(space: IndexSpace) -> IndexSpace:
    """The space with neighbouring dimensions of different modes merged too, if every layout allows it."""
    extents: list[Int] = []
    strides: list[tuple[Int, ...]] = []
    for d, extent in enumerate(space.extents):
        here = tuple(s[d] for s in space.strides)
        if extents and _merges(extents[-1], strides[-1], here):
            extents[-1] = extents[-1] * extent
        else:
            extents.append(extent)
            strides.append(here)
    return IndexSpace(tuple(extents), tuple(tuple(s[i] for s in strides) for i in range(len(space.strides))),
                      (0,) * len(extents))


def broadcast(layouts: Sequence[Layout]) -> list[Layout]:
    """The common shape of the layouts (the largest per mode), and them at one rank (modes of size 1 appended)."""
    most = max(rank(layout) for layout in layouts)
    padded = [append(_modal(layout), rank=most) for layout in layouts]
    modes = [max((layout.mode(i) for layout in padded), key=static_size) for i in range(most)]
    return [make_layout(tuple(mode.shape for mode in modes)), *padded]


def _modal(layout: Layout) -> Layout:
    return layout if isinstance(layout.shape, tuple) else make_layout(layout)


def static_size(layout: Layout) -> int:
    """The size of a layout, which elementwise operations need."""
    count = size(layout)
    if not isinstance(count, int):
        raise TensorError(f"elementwise operations need static extents, not {layout}", locs=(locate(),))
    return count
