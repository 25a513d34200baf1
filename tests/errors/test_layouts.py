"""Every error of the layout algebra: what was asked, of which layouts, which mode failed; in golden/errors/layouts.txt.

``UPDATE_GOLDEN=1 pytest tests/errors`` writes the file anew; read the difference before you keep it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import moye.layout as ml
from layout_symbols import Sym
from moye.errors import LayoutError
from moye.layout import ComposedLayout, E, Layout, Swizzle, make_layout, parse

GOLDEN = (Path(__file__).parents[1] / "golden" / "errors" / "layouts").with_suffix(".txt")


def _dynamic(**facts: Any) -> Layout:
    return Layout((Sym("M", **facts), Sym("K")), (1, Sym("ld")))


CASES: dict[str, Any] = {
    # notation
    "open parenthesis": lambda: parse("((2,2),4:(1,8)"),
    "no integer": lambda: parse("(4,x):(1,4)"),
    "left over": lambda: parse("4:1 8"),
    "other structure": lambda: parse("(4,(2,2)):(1,4)"),
    "other rank": lambda: parse("(4,2):(1,4,8)"),
    "negative extent": lambda: parse("(4,-2):(1,4)"),
    "swizzle without a base": lambda: parse("Sw<3> o 8:1"),
    "overlapping swizzle": lambda: parse("Sw<3,0,1> o 8:1"),
    "swizzle of nothing": lambda: parse("Sw<3,3,3> o "),
    "swizzle without o": lambda: parse("Sw<3,3,3> 8:1"),
    "bad layout behind a swizzle": lambda: parse("Sw<3,3,3> o 0 o (8,8):(8,1"),
    "coordinate as extent": lambda: parse("(4,1@0):(1,4)"),
    "basis without a position": lambda: parse("4:1@"),
    # construction
    "leaf of a shape": lambda: make_layout((4, 2.5)),
    "shape and stride differ": lambda: make_layout((4, 8), (1, (2, 4))),
    "three arguments": lambda: make_layout(4, 8, 2),
    "order does not fit": lambda: ml.make_ordered_layout((4, (2, 8)), (0, (1, 2, 3))),
    "swizzle of coordinates": lambda: ComposedLayout(Swizzle(2, 0, 2), 0, ml.make_identity_layout((4, 4))),
    "numbers and coordinates": lambda: Layout((4, 4), (1, E(0)))(1, 1),
    # composition
    "stride does not divide": lambda: ml.composition(parse("(4,6):(1,8)"), parse("3:6")),
    "extent does not tile": lambda: ml.composition(parse("(4,6):(1,8)"), parse("6:1")),
    "modes carry": lambda: ml.composition(parse("(4,6):(1,8)"), parse("(3,2):(1,3)")),
    "negative stride": lambda: ml.composition(parse("(4,6):(1,8)"), parse("4:-1")),
    "tiler has more modes": lambda: ml.composition(parse("(4,6):(1,8)"), (2, 2, 2)),
    "coordinate has no mode": lambda: ml.composition(parse("(4,6):(1,8)"), parse("(4,6):(1@0,1@2)")),
    "nothing behind a swizzle": lambda: ml.composition(Swizzle(2, 0, 2), None),
    "layout moves no bits": lambda: ml.composition(parse("(6,8):(8,1)"), Swizzle(2, 0, 3)),
    "swizzles that do not merge": lambda: ml.composition(Swizzle(2, 0, 2), Swizzle(2, 2, 2)),
    "offset between swizzles": lambda: ml.composition(parse("Sw<2,0,2> o 4 o 16:1"), parse("Sw<1,0,1> o 16:1")),
    "composition needs a bound": lambda: ml.composition(_dynamic(), parse("32:1")),
    "composition needs a divisor": lambda: ml.composition(_dynamic(lower=64), parse("(8,2):(1,48)")),
    # complement, inverses
    "overlapping complement": lambda: ml.complement(parse("(4,2):(1,2)")),
    "negative complement": lambda: ml.complement(parse("4:-1")),
    "negative cotarget": lambda: ml.complement(parse("4:1"), -8),
    "complement of coordinates": lambda: ml.complement(parse("(4,4):(1@0,2@0)")),
    "complement needs an order": lambda: ml.complement(Layout((4, 8), (Sym("s"), Sym("t")))),
    "no left inverse": lambda: ml.left_inverse(parse("(2,2):(2,3)")),
    "not injective": lambda: ml.left_inverse(parse("(4,2):(1,1)")),
    "overlaps under a gap": lambda: ml.left_inverse(parse("(4,2,2):(1,2,16)")),
    "left inverse of a negative stride": lambda: ml.left_inverse(parse("(4,8):(-1,4)")),
    "left inverse needs a bound": lambda: ml.left_inverse(_dynamic()),
    "inverse of an offset": lambda: ml.right_inverse(parse("Sw<2,0,2> o 4 o (4,4)")),
    "inverse of coordinates": lambda: ml.right_inverse(parse("(4,4):(1@0,1@1@0)")),
    # divides and products
    "divide by more modes": lambda: ml.zipped_divide(parse("(16,8)"), (4, 2, 2)),
    "divide that does not tile": lambda: ml.logical_divide(parse("(6,4):(1,8)"), parse("4:1")),
    "tile does not divide": lambda: ml.tile_to_shape(parse("(8,8):(8,1)"), (16, 20)),
    "block has more modes": lambda: ml.tile_to_shape(parse("(8,8):(8,1)"), 64),
    "product of overlapping blocks": lambda: ml.logical_product(parse("(2,2):(1,1)"), parse("4:1")),
    "distribution of a dynamic shape": lambda: ml.domain_distribute(Sym("n"), 6),
    # modes and coordinates
    "range of modes": lambda: ml.group_modes(parse("(2,3):(1,2)"), 1, 4),
    "mode of a layout": lambda: parse("(2,3):(1,2)").mode(2),
    "mode to replace": lambda: ml.replace(parse("(2,3):(1,2)"), 2, parse("4:1")),
    "profile has more modes": lambda: ml.coalesce(parse("4:1"), (1, 1)),
    "profile has more leaves": lambda: ml.unflatten(parse("(2,3):(1,2)"), ((0, 0), 0)),
    "rank cannot shrink": lambda: ml.append(parse("(2,3):(1,2)"), rank=1),
    "ranks differ": lambda: ml.zip_modes(parse("(2,3):(1,2)"), parse("4:1")),
    "coordinate has more modes": lambda: parse("(2,3):(1,2)")(1, 1, 1),
    "coordinate of an integer": lambda: parse("(2,3):(1,2)")((1, 0), 1),
    "open mode": lambda: parse("(2,3):(1,2)")(1, None),
    "slice of nothing": lambda: parse("(2,3):(1,2)")[1, 1],
    "part of a mode": lambda: parse("(8,3):(1,8)")[0:4, 1],
    "next coordinate": lambda: ml.increment((1, 1), (2, (2, 2))),
    # widths
    "upcast of odd extents": lambda: ml.upcast(parse("(3,4):(1,3)"), 2),
    "upcast of half a vector": lambda: ml.upcast(parse("4:1"), 8),
    "upcast of a swizzle": lambda: ml.upcast(parse("Sw<2,0,-2> o 16:1"), 2),
    "swizzle by three": lambda: ml.recast(parse("Sw<3,3,3> o 9:1"), 16, 48),
    "downcast without neighbours": lambda: ml.downcast(parse("4:2"), 2),
    "widths": lambda: ml.recast(parse("4:1"), 0, 8),
    "something else": lambda: ml.coalesce((4, 8)),  # type: ignore[type-var]
}


def message(case: Any) -> str:
    with pytest.raises(LayoutError) as caught:
        case()
    return f"{type(caught.value).__name__}: {caught.value}"


def test_messages() -> None:
    text = "\n\n".join(f"# {name}\n{message(case)}" for name, case in CASES.items()) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


@pytest.mark.parametrize("name", CASES)
def test_a_message_is_one_sentence(name: str) -> None:
    first = message(CASES[name]).split("\nhint: ")[0].split("\n    ")[0]
    assert "\n" not in first and not first.endswith(".")
    assert len(first) < 330
