"""Rich display: a registry type -> renderer, and the base class of everything that notebooks show as a picture.

In: ``register(Layout, to_pictures)``, called by the module that can draw; a class derived from ``Drawable``.
Out: the ``_repr_*_`` methods that notebooks look for.

>>> class Layout(Drawable): ...

Renderers live above the types they draw: they are looked up when something is shown, and ``moye.pictures`` is loaded
by then, not before.  A type without a renderer, or an object that cannot be drawn, is shown as its text.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from moye.errors import MoyeError

Bundle = dict[str, str]
Renderer = Callable[[Any], Mapping[str, str]]

# Loading it registers the renderers of moye's own types.
PROVIDER = "moye.pictures"
_RENDERERS: dict[type, Renderer] = {}


def register(kind: type, renderer: Renderer) -> None:
    """Show objects of ``kind``, and of classes derived from it, by ``renderer``: object -> {MIME type: text}."""
    _RENDERERS[kind] = renderer


def renderer_of(kind: type) -> Renderer | None:
    """The renderer of a type or of the nearest class that it is derived from."""
    for each in kind.__mro__:
        if each in _RENDERERS:
            return _RENDERERS[each]
    return None


def bundle(x: object) -> Bundle:
    """Every form in which x can be shown: its text, and pictures where it can be drawn.  Never raises MoyeError."""
    shown = {"text/plain": str(x)}
    importlib.import_module(PROVIDER)
    renderer = renderer_of(type(x))
    if renderer is None:
        return shown
    try:
        return {**renderer(x), **shown}
    except MoyeError:                                   # such as a dynamic layout: its text is all there is
        return shown


class Drawable:
    """Something that a notebook shows as a picture; ``text/plain`` stays ``str(x)``."""

    __slots__ = ()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Bundle:
        return bundle(self)

    def _repr_svg_(self) -> str | None:
        return bundle(self).get("image/svg+xml")

    def _repr_html_(self) -> str | None:
        return bundle(self).get("text/html")
