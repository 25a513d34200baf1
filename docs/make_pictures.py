"""The pictures of docs/pictures.md: ``make pictures`` writes them into docs/images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import moye as mo

IMAGES = Path(__file__).parent / "images"

PICTURES: dict[str, Callable[[], mo.Picture]] = {
    "layout": lambda: mo.draw("((2,2),4):((1,8),2)"),
    "slices": lambda: mo.draw("(4,4,3):(4,1,16)"),
    "conflicts": lambda: mo.draw("(8,8):(8,1)", banks=True, bits=128),
    "no_conflicts": lambda: mo.draw("(8,8):(8,1)", swizzle="3,0,3", banks=True, bits=128),
    "tiled_copy": lambda: mo.draw(mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.uint64), mo.float32),
                                                     mo.make_layout((4, 4)), mo.make_layout((2, 1)))),
    "tiled_mma": lambda: mo.draw(mo.make_tiled_mma(mo.UniversalFMA(mo.float32), mo.make_layout((4, 8)))),
    "partition": lambda: mo.draw("(8,8):(9,1)", thr="(4,4):(4,1)", val="(2,1)", bits=32),
}


def make() -> None:
    """Draw them all."""
    IMAGES.mkdir(exist_ok=True)
    for name, picture in PICTURES.items():
        print(picture().save(IMAGES / f"{name}.svg"))


if __name__ == "__main__":
    make()
