"""Views of memory: what verbs need of one, where its elements lie in the tensor it was made of, other layouts on it.

In: a tensor, and each step that makes one view of another, a function (layout) -> (layout, offset to add).  Out:
``Origin``: the same steps on the identity layout of the tensor, whose strides are coordinates, and what may leave it.

    Origin.of(A).then(lambda layout: slice_and_offset((None, k), layout)).tracks[0].place.now()   # ((M):(1@0), (0, k))

Steps are repeated only if an access needs them (accesses.py).  ``with_layout`` of the user begins a new tensor. Source:
CuTe's predicates, cute/tensor_impl.hpp, make_identity_tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from moye.dtypes import DType, Space
from moye.errors import LayoutError, MoyeError, TensorError
from moye.ir.builder import key_of
from moye.ir.nodes import Block, Buffer, TileRef
from moye.layout import (
    ArithmeticTuple,
    ComposedLayout,
    E,
    Int,
    Layout,
    ScaledBasis,
    Swizzle,
    compact_col_major,
    rank,
    size,
)
from moye.layout.tuples import unflatten_tuple, zip_leaves
from moye.tensor.context import builder, locate

Step = Callable[[Layout], tuple[Layout, Any]]
Coordinates = tuple[Layout, ArithmeticTuple]
"""A layout with basis strides, and the coordinate of its first element."""


class View(Protocol):
    """A tensor as the verbs see it: ``dtype`` elements of ``buffer`` at ``offset + layout(coordinate)``.

    Modules that ``Tensor`` itself is made of ask for this and no less, so that each of them takes whatever has an
    element's address; what they need of a layout alone is ``WrappedLayout``.
    """

    @property
    def name(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def buffer(self) -> Buffer: ...
    @property
    def space(self) -> Space: ...
    @property
    def dtype(self) -> DType: ...
    @property
    def layout(self) -> Layout: ...
    @property
    def offset(self) -> Int: ...
    @property
    def swizzle(self) -> Swizzle | None: ...
    @property
    def origin(self) -> Origin | None: ...
    @property
    def alignment(self) -> int: ...
    def tile_ref(self, strides: tuple[Int, ...]) -> TileRef: ...


@dataclass(frozen=True, slots=True)
class Pending:
    """An index that a view was made with, or an element asked for, that is not known to be in its mode."""

    index: Int
    extent: Int
    mode: int
    label: str

    @property
    def key(self) -> object:
        """What makes two of them the same: the same values, for those that are known when the kernel runs."""
        values = (key_of(x.operand) if hasattr(x, "operand") else x for x in (self.index, self.extent))
        return *values, self.mode, self.label


def apart(pending: Iterable[Pending]) -> list[Pending]:
    """Each once, in their order."""
    found: dict[object, Pending] = {}
    for each in pending:
        found.setdefault(each.key, each)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class Root:
    """The tensor whose modes are counted; ``name`` is "" if it is its whole buffer, which may get a name later."""

    name: str
    extents: tuple[Int, ...]


class Place:
    """The coordinates of a view's elements in a root."""

    __slots__ = ("_before", "_known", "_step")

    def __init__(self, before: Place | Coordinates | None, step: Step | None = None) -> None:
        self._before = before
        self._step = step
        self._known: tuple[Block, Coordinates] | None = None

    def now(self) -> Coordinates | None:
        """The coordinates, with their arithmetic recorded in the open block; None if a step is defined only on numbers.

        What was recorded in a block that is still open is used again.
        """
        if not isinstance(self._before, Place):
            return self._before
        b = builder()
        # A value of a closed block may not have been computed on the way to here.
        if self._known is not None and any(block is self._known[0] for block in b.open_blocks):
            return self._known[1]
        before = self._before.now()
        if before is None or self._step is None:
            return before
        guards = len(b.func.guards)
        try:
            with b.inside(Block()) as body:             # what the user's own expressions find again stays as it was
                layout, moved = self._step(before[0])
                found = layout, before[1] + moved
        except (MoyeError, TypeError):
            return None
        finally:
            del b.func.guards[guards:]                  # the step itself asked launch for them already
        b.splice(body)
        self._known = b.block, found
        return found


@dataclass(frozen=True, slots=True)
class Track:
    """Coordinates in one root; coordinates of ``modes`` may lie beyond its extents."""

    root: Root
    place: Place
    modes: frozenset[int] = frozenset()

    def then(self, step: Step) -> Track:
        return Track(self.root, Place(self.place, step), self.modes)


@dataclass(frozen=True, slots=True)
class Origin:
    """What is known of a view's elements; the first track is in the tensor that the user's coordinates count in."""

    tracks: tuple[Track, ...]
    pending: tuple[Pending, ...] = ()

    @staticmethod
    def of(view: View) -> Origin:
        """A tensor as its own origin."""
        name = "" if view.name == view.buffer.name else view.name
        layout = view.layout
        extents = tuple(size(layout, mode) for mode in range(rank(layout)))
        return Origin((Track(Root(name, extents), Place(_identity(layout))),))

    @property
    def loose(self) -> bool:
        """Whether an element may lie outside."""
        return bool(self.pending) or any(track.modes for track in self.tracks)

    def then(self, step: Step, pending: tuple[Pending, ...] = ()) -> Origin:
        """The origin after one more step."""
        return Origin(tuple(track.then(step) for track in self.tracks), (*self.pending, *pending))

    def beyond(self, view: View, modes: tuple[int, ...]) -> Origin:
        """The origin before a step that rounds these modes of ``view`` up: its elements there may lie outside."""
        mine = tuple(found for mode in modes if (found := _whole(self.tracks[0], view, mode)) is not None)
        if len(mine) == len(modes):
            first = replace(self.tracks[0], modes=self.tracks[0].modes | frozenset(mine))
            return replace(self, tracks=(first, *self.tracks[1:]))
        # The mode is none of the root's as a whole: coordinates of the view itself are followed from here on.
        own = replace(Origin.of(view).tracks[0], modes=frozenset(modes))
        return replace(self, tracks=(*self.tracks, own))


def judged_by_memory(label: str) -> None:
    """Have reports say that the coordinates of a view are not judged: it may leave its tensor inside the memory."""
    said = f"coordinates of {label}: only the memory that its accesses reach was judged"
    notes = builder().func.not_judged
    if said not in notes:
        notes.append(said)


def _identity(layout: Layout) -> Coordinates:
    shape = layout.shape
    modes = shape if isinstance(shape, tuple) else (shape,)
    strides = tuple(compact_col_major(mode, E(axis)) if isinstance(mode, tuple) else E(axis)
                    for axis, mode in enumerate(modes))             # also where the extent is 1: it may be left
    whole = Layout(shape, strides) if isinstance(shape, tuple) else Layout(shape, strides[0])
    return whole, ArithmeticTuple((0,) * len(modes))


def _whole(track: Track, view: View, mode: int) -> int | None:
    """The mode of the root that a view's mode is, from its first to its last index; None if it is something else."""
    found = track.place.now()
    if found is None:
        return None
    layout, offset = found
    leaves = [(extent, stride) for extent, stride in zip_leaves(layout.mode(mode).shape, layout.mode(mode).stride)
              if not (isinstance(extent, int) and extent == 1)]
    own = size(layout, mode)
    if len(leaves) == 1 and isinstance(leaves[0][1], ScaledBasis) and leaves[0][1].value == 1:
        at = leaves[0][1].path[0]
        start, extent = offset[at], track.root.extents[at]
        whole = own == extent if isinstance(own, int) or isinstance(extent, int) else own.same(extent)
        if isinstance(start, int) and start == 0 and whole is True:
            return at
    return None


def along(layout: Layout, mode: int) -> Layout:
    """How far each step of a layout of coordinates goes along one mode of the root."""
    def leaf(stride: Any) -> Any:
        if isinstance(stride, tuple):
            return tuple(leaf(s) for s in stride)
        return stride.value if isinstance(stride, ScaledBasis) and stride.path[0] == mode else 0

    return Layout(layout.shape, leaf(layout.stride))


# --- another layout on the memory of a view --------------------------------------------------------------------------


def placed(tensor: View, layout: Layout | ComposedLayout) -> tuple[Int, Layout, Swizzle | None]:
    """The offset, the layout and the swizzle of ``tensor.with_layout(layout)``.

    A plain layout keeps the tensor's swizzle.  A swizzled layout replaces it, so that nothing is swizzled twice.  Both
    must have the same swizzle, or the tensor has none and starts where the swizzle does, because a swizzle acts on
    whole offsets.

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


# --- coordinates of a view whose elements became wider or narrower ---------------------------------------------------


def recast_origin(origin: Origin | None, old: Layout, new: Layout, factor: int) -> Origin | None:
    """The origin after elements became ``factor`` times as wide, or narrower if it is negative."""
    if origin is None:
        return None
    before, after = zip_leaves(old.shape, old.stride), zip_leaves(new.shape, new.stride)
    counts = [_together(a, b, factor) for a, b in zip(before, after, strict=True)]

    def step(coordinates: Layout) -> tuple[Layout, Any]:
        leaves = zip_leaves(coordinates.shape, coordinates.stride)
        if len(leaves) != len(counts):
            raise LayoutError(f"{coordinates} and {old} have different modes")
        if factor < 0:
            parts = [((-factor, extent), (0, along)) if count > 1 else (extent, along)
                     for (extent, along), count in zip(leaves, counts, strict=True)]
        else:
            parts = [(extent, along * count if count > 1 else along)
                     for (_, along), (extent, _), count in zip(leaves, after, counts, strict=True)]
        return Layout(unflatten_tuple([s for s, _ in parts], coordinates.shape),
                      unflatten_tuple([d for _, d in parts], coordinates.shape)), 0

    whole = origin if factor < 0 else replace(origin, tracks=_shortened(origin.tracks, counts))
    return whole.then(step)


def _together(before: tuple[Int, Int], after: tuple[Int, Int], factor: int) -> int:
    """How many old elements along a leaf make a new one, or how many new ones an old one."""
    (extent, step), (now, _) = before, after
    if isinstance(extent, int) and isinstance(now, int):
        return max(extent, now) // max(min(extent, now), 1)
    if factor < 0:
        return -factor if isinstance(step, int) and step == 1 else 1
    inside = isinstance(step, int) and 0 < abs(step) < factor
    return factor // abs(step) if isinstance(step, int) and inside else 1


def _shortened(tracks: tuple[Track, ...], counts: list[int]) -> tuple[Track, ...]:
    """Shorten the extents of the root: the last of the elements that became one must be inside too."""
    found = list(tracks)
    for i, track in enumerate(tracks):
        place = track.place.now() if track.modes else None
        if place is None:
            continue
        leaves = zip_leaves(place[0].shape, place[0].stride)
        extents = list(track.root.extents)
        for (_, along), count in zip(leaves, counts, strict=False):
            if isinstance(along, ScaledBasis) and along.path[0] in track.modes:
                extents[along.path[0]] = extents[along.path[0]] - along.value * (count - 1)
        own = Track(Root(track.root.name, tuple(extents)), track.place, track.modes)
        found[i] = replace(track, modes=frozenset()) if i == 0 else own
        if i == 0:
            found.append(own)
    return tuple(found)
