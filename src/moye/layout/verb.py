"""Verbs on wrapped layouts: what a verb does to a layout that has a function, such as a swizzle, around it.

In: a function from Layout to Layout.  Out: the same for layouts in a wrapper, which stays.

>>> str(coalesce(ComposedLayout.parse("Sw<2,0,3> o 0 o (8,8):(1,8)")))       # coalesce is a @verb
'Sw<2,0,3> o 0 o 64:1'

Which wrappers there are is not known here (``ComposedLayout`` is in swizzle.py).
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, Self, TypeVar

from moye.errors import LayoutError
from moye.layout.layout import Layout


class WrappedLayout(ABC):
    """A layout with a function of its offsets around it."""

    __slots__ = ()

    layout: Layout

    @abstractmethod
    def with_layout(self, layout: Layout) -> Self:
        """The same function around another layout."""

    @abstractmethod
    def contiguous_run(self) -> int:
        """A power of two: aligned runs of so many offsets stay contiguous; 0 where all offsets stay."""


class OffsetFunction(ABC):
    """A function of offsets, such as a swizzle, that layouts can be put behind."""

    __slots__ = ()

    @abstractmethod
    def after(self, layout: Layout) -> WrappedLayout:
        """``crd -> self(layout(crd))``."""


P = ParamSpec("P")
L = TypeVar("L", bound=Layout | WrappedLayout)


class Verb(Protocol[P]):
    """A layout verb that takes plain and wrapped layouts alike."""

    def __call__(self, layout: L, /, *args: P.args, **kwargs: P.kwargs) -> L: ...


def verb(plain: Callable[Concatenate[Layout, P], Layout]) -> Verb[P]:
    """Extend a function of layouts to wrapped ones: the wrapper stays around what becomes of the layout."""

    @functools.wraps(plain)
    def both(layout: Layout | WrappedLayout, /, *args: P.args, **kwargs: P.kwargs) -> Layout | WrappedLayout:
        if isinstance(layout, WrappedLayout):
            return layout.with_layout(plain(layout.layout, *args, **kwargs))
        if not isinstance(layout, Layout):
            raise LayoutError(f"{plain.__name__} takes a layout, not {layout!r}")
        return plain(layout, *args, **kwargs)

    return both  # type: ignore[return-value]
