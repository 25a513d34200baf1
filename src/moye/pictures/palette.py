"""Colours: eight light tints that stay apart for colour-blind readers, and black text on each of them.

In: a cell's colour number.  Out: ``#rrggbb``.

>>> fill(8) == fill(0), fill(None)
(True, '#ffffff')

Source: Paul Tol, Colour Schemes (SRON/EPS/TN/09-002), the qualitative scheme "light", made for labelled cells.
"""

from __future__ import annotations

TINTS = ("#77aadd", "#ee8866", "#eedd88", "#ffaabb", "#99ddff", "#44bb99", "#bbcc33", "#aaaa00")
PLAIN = "#ffffff"
TEXT = "#000000"                                        # on any tint
# Paper and ink around the cells, in light and in dark surroundings.
LIGHT = ("#ffffff", "#1f2328")
DARK = ("#15191f", "#e6edf3")
LINE = "#5c6670"


def fill(colour: int | None) -> str:
    """The tint of a colour number; the palette is cycled."""
    return PLAIN if colour is None else TINTS[colour % len(TINTS)]
