"""A picture in every format, made when it is asked for.

In: a ``Sheet``.  Out: ``Picture``, with .text .svg .latex .typst .html, which shows itself in notebooks.

    picture.save("layout.svg")

The renderers do the work; this module knows which format a suffix means.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path

from moye.display import Bundle
from moye.errors import LayoutError
from moye.pictures import html, svg, text, tikz, typst
from moye.pictures.model import Sheet

# format -> (suffix of its files, renderer)
FORMATS: dict[str, tuple[str, Callable[[Sheet], str]]] = {
    "text": (".txt", lambda sheet: text.render(sheet) + "\n"),
    "svg": (".svg", svg.render),
    "latex": (".tex", tikz.render),
    "typst": (".typ", typst.render),
    "html": (".html", html.page),
}


def format_of(path: str | PathLike[str]) -> str:
    """The format that the suffix of a file name means; LayoutError if it means none."""
    suffix = Path(path).suffix
    for name, (known, _) in FORMATS.items():
        if suffix == known:
            return name
    raise LayoutError(f"draw: {str(path)!r} ends in {suffix!r}, which is no format of pictures",
                      hint=f"use {', '.join(known for known, _ in FORMATS.values())}, or give format=")


def check_format(name: str) -> str:
    """The name of a format; LayoutError if there is none of this name."""
    if not isinstance(name, str) or name not in FORMATS:
        raise LayoutError(f"draw: there is no format {name!r}", hint=f"use {', '.join(FORMATS)}")
    return name


@dataclass(frozen=True)
class Picture:
    """What ``draw`` returns: a sheet, and its text in each format as attributes.

    ``str(picture)`` and ``print(picture)`` give the format that ``draw`` was asked for; text is the default.
    """

    sheet: Sheet
    format: str = "text"

    @cached_property
    def text(self) -> str:
        """Aligned text."""
        return text.render(self.sheet)

    @cached_property
    def svg(self) -> str:
        """A standalone SVG document."""
        return svg.render(self.sheet)

    @cached_property
    def latex(self) -> str:
        """A LaTeX document that draws it with TikZ."""
        return tikz.render(self.sheet)

    @cached_property
    def typst(self) -> str:
        """A Typst document."""
        return typst.render(self.sheet)

    @cached_property
    def html(self) -> str:
        """A self-contained page: hovering shows facts and partners."""
        return html.page(self.sheet)

    def render(self, format: str) -> str:
        """The picture in one format, as it stands in a file."""
        return FORMATS[check_format(format)][1](self.sheet)

    def save(self, path: str | PathLike[str], format: str | None = None) -> Path:
        """Write the picture in the format of the file's suffix, or the given one, and return the path."""
        rendered = self.render(format or format_of(path))
        Path(path).write_text(rendered, encoding="utf-8")
        return Path(path)

    def __str__(self) -> str:
        return self.text if self.format == "text" else self.render(self.format)

    def __repr__(self) -> str:
        return self.text

    def mime(self) -> Bundle:
        """What a notebook shows of a picture."""
        return {"text/plain": self.text, "image/svg+xml": self.svg, "text/html": html.fragment(self.sheet)}

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Bundle:
        return self.mime()

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return html.fragment(self.sheet)
