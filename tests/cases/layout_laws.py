"""Laws of layout verbs on random arguments: static ones, and the same ones with leaves made dynamic.

``law(verb, *strategies, holds=...)`` draws arguments, checks ``holds(result, *arguments)``, hides some integers behind
symbols with true facts, and checks that the symbolic answer, evaluated, obeys the same law and is the same map.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

import moye.layout as ml
from layout_symbols import Sym, value
from moye.errors import FactError, LayoutError
from moye.layout import ComposedLayout, Layout, Swizzle
from moye.layout.tuples import flatten_tuple, map_leaves, unflatten_tuple

SHARE: list[float] = []
"""A part of the examples alone, and a failure as it is drawn: for who asks often whether a law holds at all."""


def table(layout: Any) -> list[Any]:
    """index -> offset."""
    return [layout(i) for i in range(ml.size(layout))]


def same_map(a: Any, b: Any) -> bool:
    if isinstance(a, (Layout, ComposedLayout)):
        return table(a) == table(b)
    return bool(a == b)


# --- strategies ------------------------------------------------------------------------------------------------------


YES_OR_NO, MODES = st.booleans(), st.integers(1, 3)
GAPS = st.sampled_from((1, 1, 1, 2, 3))
STRIDES = st.sampled_from(("next", "next", "next", "next", "zero", "any"))
ANY_STRIDE = st.integers(0, 12)


@cache
def fitting(extents: tuple[int, ...], room: int) -> st.SearchStrategy[int]:
    return st.sampled_from([e for e in extents if e <= room])


@cache                                                  # to make a strategy takes longer than to draw from it
@st.composite
def shapes(draw: Any, room: int = 48, depth: int = 2, extents: tuple[int, ...] = (1, 2, 3, 4, 6, 8)) -> Any:
    if depth == 0 or draw(YES_OR_NO):
        return draw(fitting(extents, room))
    modes = []
    for _ in range(draw(MODES)):
        modes.append(draw(shapes(room, depth - 1, extents)))
        room //= max(1, ml.size(modes[-1]))
    return tuple(modes)


@cache
@st.composite
def layouts(draw: Any, injective: bool = False, rank: int | None = None, **options: Any) -> Layout:
    """Permuted compact strides with gaps, and (unless injective) repetition and arbitrary strides."""
    shape = draw(shapes(**options))
    if rank is not None:
        shape = tuple(draw(shapes(room=6, depth=1)) for _ in range(rank))
    leaves = flatten_tuple(shape)
    strides, step = [0] * len(leaves), 1
    for i in draw(st.permutations(range(len(leaves)))):
        step *= draw(GAPS)
        kind = "next" if injective else draw(STRIDES)
        if kind == "next":
            strides[i] = step
            step *= leaves[i]
        elif kind == "any":
            strides[i] = draw(ANY_STRIDE)
    return Layout(shape, unflatten_tuple(strides, shape))


def tiles() -> st.SearchStrategy[Any]:
    """Tilers of a whole layout: integers and layouts."""
    return st.one_of(st.sampled_from((1, 2, 3, 4, 6, 8)), layouts(injective=True, room=12))


def swizzles() -> st.SearchStrategy[Swizzle]:
    def make(bits: int, base: int, shift: int, up: bool) -> Swizzle:
        return Swizzle(bits, base, (bits + shift) * (-1 if up else 1))
    return st.builds(make, st.integers(0, 3), st.integers(0, 3), st.integers(0, 2), st.booleans())


def powers(**options: Any) -> st.SearchStrategy[Layout]:
    """Layouts whose extents and strides are powers of two: permutations of bits."""
    @st.composite
    def make(draw: Any) -> Layout:
        shape = draw(shapes(extents=(1, 2, 4, 8), room=64, **options))
        leaves = flatten_tuple(shape)
        strides, step = [0] * len(leaves), 1
        for i in draw(st.permutations(range(len(leaves)))):
            strides[i] = step
            step *= leaves[i]
        return Layout(shape, unflatten_tuple(strides, shape))
    return make()


Parts: TypeAlias = dict[tuple[int, ...], Layout]
PATHS = (((0,), (1,)), ((0,), (1, 0), (1, 1)))


def along(lay: Layout, path: tuple[int, ...]) -> Layout:
    """A layout of numbers as one of steps along a coordinate."""
    return Layout(lay.shape, map_leaves(lambda step: step * ml.E(*path) if step else 0, lay.stride))


def at(coordinate: Any, path: tuple[int, ...]) -> Any:
    """The entry of a coordinate at a path; 0 where it has none, as in a layout that does not move there."""
    for i in path:
        coordinate = coordinate[i] if isinstance(coordinate, tuple) and i < len(coordinate) else 0
    return coordinate


@st.composite
def directed(draw: Any, room: int = 6, paths: Any = PATHS, **options: Any) -> tuple[Layout, Parts]:
    """A layout with basis strides, and the numbers along each coordinate: in any order, some coordinates left out."""
    parts = {path: draw(layouts(room=room, **options)) for path in draw(st.sampled_from(paths))}
    order = [path for path in draw(st.permutations(list(parts))) if draw(st.sampled_from((True, True, True, False)))]
    assume(any(any(flatten_tuple(parts[path].stride)) for path in order))       # else its strides are numbers
    parts = {path: lay if path in order else Layout(1, 0) for path, lay in parts.items()}
    return make_whole(parts, order), parts


def make_whole(parts: Parts, order: list[tuple[int, ...]]) -> Layout:
    return ml.make_layout(*[along(parts[path], path) for path in order]) if order else Layout(1, 0)


def coordinates(shape: Any) -> st.SearchStrategy[Any]:
    if isinstance(shape, tuple):
        return st.tuples(*map(coordinates, shape))
    return st.integers(0, max(0, shape - 1))


# --- symbols ---------------------------------------------------------------------------------------------------------


class Hider:
    """Hides integers behind symbols with true, randomly weak facts."""

    def __init__(self, data: Any, least: int) -> None:
        self.data = data
        self.least = least
        self.env: dict[str, int] = {}

    def integer(self, x: int) -> Any:
        if x < self.least or not self.data.draw(st.sampled_from((False, False, True))):
            return x
        name = f"x{len(self.env)}"
        self.env[name] = x
        divisor = self.data.draw(st.sampled_from([d for d in range(1, max(abs(x), 1) + 1) if x % d == 0]))
        slack = self.data.draw(st.sampled_from((0, 1, 100)))
        return Sym(name, divisor, max(0, x - slack), self.data.draw(st.sampled_from((None, x, x + slack))))

    def hide(self, x: Any) -> Any:
        if isinstance(x, Layout):
            strides = [d if s == 1 else self.integer(d)
                       for s, d in zip(flatten_tuple(x.shape), flatten_tuple(x.stride), strict=True)]
            return Layout(map_leaves(self.integer, x.shape), unflatten_tuple(strides, x.shape))
        if isinstance(x, ComposedLayout):
            return ComposedLayout(x.swizzle, self.integer(x.offset), self.hide(x.layout))
        if isinstance(x, tuple):
            return tuple(map(self.hide, x))
        return self.integer(x) if type(x) is int else x

    def show(self, x: Any) -> Any:
        """The value of what a verb made of hidden arguments."""
        if isinstance(x, Layout):
            return Layout(self.show(x.shape), self.show(x.stride))
        if isinstance(x, ComposedLayout):
            return ComposedLayout(x.swizzle, self.show(x.offset), self.show(x.layout))
        if isinstance(x, tuple):
            return tuple(map(self.show, x))
        return value(x, self.env) if isinstance(x, (int, Sym)) and not isinstance(x, bool) else x


class Count:
    """What came of the examples of one law."""

    def __init__(self) -> None:
        self.answered = self.refused = self.dynamic = self.unknown = 0

    def __repr__(self) -> str:
        return (f"static: {self.answered} answers, {self.refused} errors; dynamic: {self.dynamic} answers, "
                f"{self.unknown} without the facts")


def law(verb: Callable[..., Any], *strategies: st.SearchStrategy[Any], holds: Callable[..., bool | None],
        examples: int = 60, dynamic: bool = True, hide: tuple[int, ...] | None = None, partial: bool = False,
        least: int = 2) -> Count:
    """Check a law; ``hide`` names the arguments whose integers may be hidden (all of them unless given).

    ``partial``: a dynamic answer may be a smaller one that obeys the law (the largest *provable* inverse).  Hidden are
    integers from ``least`` on, but no stride of an extent 1: a dynamic extent counts as one that is not 1, a dynamic
    stride as one that is not 0 or 1.
    """
    count = Count()

    def obeys(result: Any, args: list[Any], what: str) -> None:
        assert holds(result, *args) is not False, f"{what}: {verb.__name__}{tuple(args)} = {result} breaks the law"

    @settings(max_examples=int(examples * SHARE[0]) if SHARE else examples, deadline=None, derandomize=True,
              database=None, suppress_health_check=list(HealthCheck),
              phases=(Phase.generate,) if SHARE else tuple(Phase))
    @given(st.data())
    def run(data: Any) -> None:
        args = [data.draw(strategy) for strategy in strategies]
        try:
            result = verb(*args)
        except LayoutError:
            result = None
            count.refused += 1
        else:
            count.answered += 1
            obeys(result, args, "static")
        if dynamic:
            _dynamic(verb, args, None if partial else result, Hider(data, least), hide, count, obeys)

    run()
    if SHARE:
        return count
    assert count.answered >= examples // 6, f"{verb.__name__}: too few examples have an answer: {count}"
    assert not dynamic or count.dynamic >= examples // 10, f"{verb.__name__}: too few dynamic answers: {count}"
    return count


def _dynamic(verb: Callable[..., Any], args: list[Any], result: Any, hider: Hider, hide: tuple[int, ...] | None,
             count: Count, obeys: Callable[..., None]) -> None:
    Sym.assumed, Sym.assumptions = [], []
    hidden = [hider.hide(x) if hide is None or i in hide else x for i, x in enumerate(args)]
    try:
        made = verb(*hidden)
    except FactError as error:
        count.unknown += 1
        assert "need" in error.message or "must be" in error.message, f"{error.message} names no missing fact"
        return
    except LayoutError as error:
        assert result is None, f"{verb.__name__}{tuple(hidden)} at {hider.env} has the answer {result}, not {error}"
        return
    if not all(holds(hider.env) for holds in Sym.assumptions):
        return
    count.dynamic += 1
    shown = hider.show(made)
    obeys(shown, args, f"dynamic {tuple(hidden)} = {made} at {hider.env}")
    assert result is None or same_map(shown, result), \
        f"{verb.__name__}{tuple(hidden)} = {made} is {shown} at {hider.env}, not {result}"
