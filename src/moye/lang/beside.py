"""What a carried view takes along beside its pointer: indices that are not proven, and coordinates of ragged tiles.

In: a view with an ``Origin``.  Out: its ``Beside`` (the static part), scalar leaves of int64 that only the simulator's
checks read (no variable of the printed CUDA), and the origin of what is read back.

    beside, leaves = taken(tAgA)            # one index that may leave its mode: Beside(indices=(...)), [k + 1]

On a way where a view has no such index, the index is 0.  Coordinates are carried where every way has them in the same
tensor and by the same layout; else the memory that the view reaches is judged alone, and the report says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from moye import dtypes as dt
from moye.ir.nodes import Block
from moye.layout import ArithmeticTuple, Int, Layout, rank, size
from moye.layout.predicates import is_static
from moye.tensor.bounds import settle
from moye.tensor.context import builder
from moye.tensor.expr import Expr, Scalar, position, typed
from moye.tensor.known import known
from moye.tensor.tensor import Tensor
from moye.tensor.view import Origin, Pending, Place, Root, Track, apart, judged_by_memory

NAME = "_judged"
NONE = known(0, dt.int64)
"""The index, and the last one, on a way on which nothing is asked."""


@dataclass(frozen=True, slots=True)
class OneIndex:
    """An index of a mode: its leaf, and the extent if it is static; a dynamic extent is a leaf too."""

    mode: int
    label: str
    number: int
    extent: int | None

    @property
    def leaves(self) -> int:
        return 1 + (self.extent is None)


@dataclass(frozen=True, slots=True)
class Coordinates:
    """A track of an origin: a leaf for each coordinate of its first element, and for each extent of the root."""

    name: str
    modes: frozenset[int]
    layout: Layout
    rank: int

    @property
    def leaves(self) -> int:
        return 2 * self.rank


@dataclass(slots=True, eq=False)
class Beside:
    """The static part.  It does not make structures differ: two of them are united."""

    indices: tuple[OneIndex, ...] = ()
    tracks: tuple[Coordinates, ...] = ()
    label: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Beside)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return ""

    @property
    def leaves(self) -> int:
        return sum(part.leaves for part in self.together)

    @property
    def together(self) -> tuple[OneIndex | Coordinates, ...]:
        return self.indices + self.tracks

    def united(self, other: Beside) -> Beside:
        """What is carried where two ways meet."""
        more = tuple(index for index in other.indices if index not in self.indices)
        same = self.tracks == other.tracks
        if not same:
            judged_by_memory(self.label)
        if not more and (same or not self.tracks):
            return self
        return Beside((*self.indices, *more), self.tracks if same else (), self.label)

    def parts(self) -> Iterator[tuple[OneIndex | Coordinates, range]]:
        """Each part, with the numbers of its leaves."""
        at = 0
        for part in self.together:
            yield part, range(at, at + part.leaves)
            at += part.leaves


def taken(view: Tensor) -> tuple[Beside, list[Scalar]]:
    """What is carried beside a view, and the leaves; launch checks what it can."""
    origin = view.origin
    if origin is None:
        return Beside(label=view.label), []
    with builder().inside(Block()) as body:             # not among the expressions that the user's find again
        indices, leaves = _indices(settle(view, origin.pending))
        tracks: list[tuple[Coordinates, list[Any]]] = []
        for track in origin.tracks:
            if not track.modes:
                continue
            found = track.place.now()
            if found is None or not is_static(found[0]):
                judged_by_memory(view.label)
                tracks = []
                break
            tracks.append((Coordinates(track.root.name, track.modes, found[0], len(track.root.extents)),
                           [*found[1], *track.root.extents]))
        leaves += [_wide(x) for _, entries in tracks for x in entries]
    builder().splice(body)
    return Beside(indices, tuple(key for key, _ in tracks), view.label), leaves


def _indices(pending: list[Pending]) -> tuple[tuple[OneIndex, ...], list[Scalar]]:
    keys, leaves, seen = [], [], Counter[tuple[int, str]]()
    for each in apart(pending):
        number = seen[each.mode, each.label]
        seen[each.mode, each.label] += 1
        static = int(each.extent) if isinstance(each.extent, int) else None
        keys.append(OneIndex(each.mode, each.label, number, static))
        leaves += [_wide(each.index), *([] if static is not None else [_wide(each.extent - 1)])]
    return tuple(keys), leaves


def _wide(x: Int) -> Scalar:
    return typed(x, dt.int64)  # type: ignore[arg-type]


def returned(view: Tensor, beside: Beside, leaves: Iterator[Scalar]) -> Origin | None:
    """The origin of a view that is read back."""
    if not beside.leaves:
        return None
    supply: Iterator[Any] = (position(leaf) if isinstance(leaf, Expr) else leaf for leaf in leaves)
    pending = []
    for index in beside.indices:
        at = next(supply)
        extent = next(supply) + 1 if index.extent is None else index.extent
        pending.append(Pending(at, extent, index.mode, index.label))
    tracks = []
    for track in beside.tracks:
        offset = ArithmeticTuple([next(supply) for _ in range(track.rank)])
        root = Root(track.name, tuple(next(supply) for _ in range(track.rank)))
        tracks.append(Track(root, Place((track.layout, offset)), track.modes))
    if not tracks:                                      # where it lies in the tensor that it was made from is not known
        extents = tuple(size(view.layout, mode) for mode in range(rank(view.layout)))
        tracks.append(Track(Root(view.label, extents), Place(None)))
    return Origin(tuple(tracks), tuple(pending))
