"""Pictures of layouts, swizzles, tiled copies and tiled MMAs: text, SVG, TikZ, Typst, HTML.

In: an object, or its notation.  Out: ``Picture``.

>>> print(draw("(2,2):(1,2)").text.splitlines()[0])
(2,2):(1,2)
>>> picture = draw("(2,2):(1,2)", file="layout.svg")

model.py is what all formats share; layouts.py and tiles.py fill it, one module for each format prints it.  It is not
called ``draw``, because ``mo.draw`` is the function.
"""

from moye.pictures.drawing import draw
from moye.pictures.picture import Picture

__all__ = ["Picture", "draw"]
