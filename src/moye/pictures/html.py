"""Sheet -> a self-contained HTML page: the SVG, a tooltip, and marks on the partners of the cell under the pointer.

In: a ``Sheet``.  Out: a document with inline SVG, CSS and JavaScript; nothing is loaded from anywhere.

    "<script>" in page(sheet), "<script>" in fragment(sheet)      # (True, False)

Partners are cells of the same thread, the same offset or the same bank.  page.css and page.js are the parts that move.
"""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.resources import files

from moye.pictures import svg
from moye.pictures.model import Cell, Sheet


def page(sheet: Sheet) -> str:
    """The whole document."""
    return "\n".join([
        "<!DOCTYPE html>", '<html lang="en">', "<head>", '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">', f"<title>{escape(sheet.title)}</title>",
        f"<style>\n{_part('page.css')}</style>", "</head>", "<body>",
        f"<figure>\n{svg.render(sheet, titles=False)}</figure>", _key(sheet), '<dl id="tooltip" hidden></dl>',
        f"<script>\n{_part('page.js')}</script>", "</body>", "</html>", ""])


def fragment(sheet: Sheet) -> str:
    """What a notebook shows: the SVG, whose cells have tooltips of their own, in a box that scrolls."""
    return f'<div style="overflow:auto">\n{svg.render(sheet)}</div>'


def _key(sheet: Sheet) -> str:
    """What the marks mean, as far as this picture can show them."""
    cells = [cell for panel in sheet.panels for cell in panel.cells]
    known = [name for name in ("thread", "offset", "bank") if any(_has(cell, name) for cell in cells)]
    return "\n".join(['<ul class="key">', *(f'<li class="{name}"><i></i>same {name}</li>' for name in known), "</ul>"])


def _has(cell: Cell, name: str) -> bool:
    return bool(cell.threads) if name == "thread" else getattr(cell, name) is not None


@cache
def _part(name: str) -> str:
    return files("moye.pictures").joinpath(name).read_text(encoding="utf-8")
