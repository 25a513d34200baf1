"""Functions on wrapped layouts: what a function does to a layout that has another one, such as a swizzle, around it.

In: a function from Layout to Layout.  Out: the same for layouts in a wrapper, which stays.

>>> str(coalesce(ComposedLayout.parse("Sw<2,0,3> o 0 o (8,8):(1,8)")))       # coalesce is a @verb
'Sw<2,0,3> o 0 o 64:1'

This module does not know which wrappers there are (``ComposedLayout`` is in swizzle.py).
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar

from moye.errors import LayoutError
from moye.layout.ints import Int
from moye.layout.layout import Layout


class WrappedLayout(ABC):
    """A layout with a function of its offsets around it."""

    __slots__ = ()

    layout: Layout

    @abstractmethod
    def with_layout(self, layout: Layout) -> Self:
        """The same function around another layout."""

    def applied(self, plain: Callable[[Layout], Layout]) -> Self:
        """The same function around the result of a layout function."""
        return self.with_layout(plain(self.layout))

    @abstractmethod
    def contiguous_run(self) -> int:
        """A power of two: aligned runs of so many offsets stay contiguous.  It is 0 if all offsets stay."""

    @abstractmethod
    def moved(self, offset: Int) -> object:
        """The same from an origin ``offset`` further on, as ``domain_offset`` returns it."""

    def shifted(self, coordinate: Any) -> object:
        """The same layout, starting at a coordinate."""
        return self.moved(self.layout(coordinate))

    def require_tiles(self, tiler: object, asked: str) -> None:
        """Refuse a division that would leave the existing elements; most wrappers round up, as layouts do."""
        return

    def require_inside(self, other: object, asked: str) -> None:
        """Refuse a composition that would leave the existing elements."""
        return

    def inverse(self, side: Callable[[Layout], Layout], asked: str) -> WrappedLayout:
        """The right or left inverse, given the function that inverts plain layouts."""
        raise LayoutError(f"{asked} is not defined: only layouts and swizzled layouts have inverses")

    def around(self, inner: WrappedLayout, asked: str) -> Self:
        """The same function around a wrapped layout."""
        raise LayoutError(f"{asked}: the right side must be a plain layout or a tiler")

    def behind(self, lhs: Layout, asked: str) -> WrappedLayout:
        """The map ``crd -> lhs(self(crd))``."""
        raise LayoutError(f"{asked}: the right side must be a plain layout or a tiler")


class OffsetFunction(ABC):
    """A function of offsets, such as a swizzle, that layouts can be put behind."""

    __slots__ = ()

    @abstractmethod
    def after(self, layout: Any) -> Any:
        """The map ``crd -> self(layout(crd))`` for a layout, plain or wrapped, or for another function."""

    @abstractmethod
    def through(self, layout: Layout, asked: str) -> Self:
        """The function f with ``layout(self(i)) == f(layout(i))``; LayoutError if there is none of this kind."""


P = ParamSpec("P")
L = TypeVar("L", bound=Layout | WrappedLayout)


class Verb(Protocol[P]):
    """A layout function that takes plain and wrapped layouts alike."""

    def __call__(self, layout: L, /, *args: P.args, **kwargs: P.kwargs) -> L: ...


def verb(plain: Callable[Concatenate[Layout, P], Layout]) -> Verb[P]:
    """Extend a function of layouts to wrapped ones: the wrapper stays around the result."""

    @functools.wraps(plain)
    def both(layout: Layout | WrappedLayout, /, *args: P.args, **kwargs: P.kwargs) -> Layout | WrappedLayout:
        if isinstance(layout, WrappedLayout):
            return layout.applied(lambda inner: plain(inner, *args, **kwargs))
        if not isinstance(layout, Layout):
            raise LayoutError(f"{plain.__name__} takes a layout, not {layout!r}")
        return plain(layout, *args, **kwargs)

    return both  # type: ignore[return-value]


def telling(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a layout and a tiler whose errors begin with the function that was called, not one inside it."""

    @functools.wraps(f)
    def told(layout: Any, tiler: Any, /, *args: Any, **kwargs: Any) -> Any:
        try:
            return f(layout, tiler, *args, **kwargs)
        except LayoutError as error:
            if not isinstance(layout, (Layout, WrappedLayout)):
                raise
            inner = getattr(error, "inner", error.message)
            asked = f"{f.__name__} of {layout} by {_tiler_text(tiler)}: "
            again = type(error)(asked + inner.removeprefix(asked), hint=error.hint, locs=error.locs, code=error.code)
            again.inner = inner.removeprefix(asked)  # type: ignore[attr-defined]
            raise again from None

    return told


def _tiler_text(tiler: Any) -> str:
    return f"<{','.join(map(_tiler_text, tiler))}>" if isinstance(tiler, tuple) else str(tiler)


def dividing(plain: Callable[Concatenate[Layout, P], Layout]) -> Verb[P]:
    """A function that splits a layout by a tiler, its first argument; wrappers may refuse tiles that do not fit."""
    both = verb(plain)

    @functools.wraps(plain)
    def checked(layout: Layout | WrappedLayout, /, *args: P.args, **kwargs: P.kwargs) -> Layout | WrappedLayout:
        if isinstance(layout, WrappedLayout):
            layout.require_tiles(args[0], plain.__name__)
        return both(layout, *args, **kwargs)

    return telling(checked)


def multiplying(plain: Callable[Concatenate[Layout, P], Layout]) -> Verb[P]:
    """A function that repeats a layout in the arrangement of a tiler, its first argument."""
    return telling(verb(plain))
