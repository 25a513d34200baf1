"""Where the elements of a view lie in the tensor that it was made from: coordinates, beside the layout's offsets.

In: a tensor, and each step that makes one view of another, a function (layout) -> (layout, offset to add).  Out:
``Origin``: the same steps on the identity layout of the tensor, whose strides are coordinates, and what may leave it.

    Origin.of(A).then(lambda layout: slice_and_offset((None, k), layout)).tracks[0].place.now()   # ((M):(1@0), (0, k))

Steps are repeated only if an access needs them (accesses.py).  ``with_layout`` of the user begins a new tensor. Source:
CuTe's predicates, cute/tensor_impl.hpp, make_identity_tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from moye.errors import MoyeError
from moye.ir.nodes import Block, Buffer
from moye.layout import ArithmeticTuple, E, Int, Layout, ScaledBasis, compact_col_major, rank, size
from moye.layout.tuples import zip_leaves
from moye.tensor.context import builder

Step = Callable[[Layout], tuple[Layout, Any]]
Coordinates = tuple[Layout, ArithmeticTuple]
"""A layout with basis strides, and the coordinate of its first element."""


class View(Protocol):
    """What this module needs of a tensor."""

    @property
    def layout(self) -> Layout: ...
    @property
    def name(self) -> str: ...
    @property
    def buffer(self) -> Buffer: ...


@dataclass(frozen=True, slots=True)
class Pending:
    """An index that a view was made with, or an element asked for, that is not known to be in its mode."""

    index: Int
    extent: Int
    mode: int
    label: str


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
