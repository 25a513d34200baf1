"""# Without gaps

Padding wastes memory, and instructions that copy whole tiles do not know of it. A **swizzle** keeps the tile compact and permutes it: it
XORs some bits of an offset into others. `mo.Swizzle(bits, base, shift)` takes `bits` bits from position `base + shift` on, and XORs them
into those from position `base` on. So with the row number in the upper bits, each row is stored in another order.

Give `layout`: a swizzle of the compact row-major tile of 32 x 32 words, so that each row **and** each column lies in 32 different banks.
`mo.composition(swizzle, layout)` puts one around the other.
"""

import moye as mo

rows = mo.make_layout((32, 32), (32, 1))
layout = mo.composition(mo.Swizzle(5, 0, 5), rows)      #? layout = mo.composition(mo.Swizzle(...), rows)

# --- how it is judged ---
from moye.puzzles import Puzzle
from moye.testing import Asked


def all_banks(layout):
    if (mo.size(layout, 0), mo.size(layout, 1)) != (32, 32):
        return f"{layout} is no tile of 32 x 32"
    offsets = sorted(layout(i, j) for i in range(32) for j in range(32))
    if offsets != list(range(1024)):
        return f"it is not compact: it has the offsets {offsets[0]} to {offsets[-1]}, and {len(set(offsets))} of them"
    for i in range(32):
        row, column = ({layout(i, j) % 32 for j in range(32)}, {layout(j, i) % 32 for j in range(32)})
        if len(row) < 32 or len(column) < 32:
            return f"row {i} lies in {len(row)} banks, and column {i} in {len(column)}"
    return None


puzzle = Puzzle(
    asked=(Asked("layout", all_banks),),
    hints=("An offset of the compact tile is 32 * row + column: the column is bits 0 to 4, the row is bits 5 to 9.",
           "To mix all 5 bits of the row into the 5 bits of the column: bits = 5.",
           "The target begins at bit 0 (base), and the source 5 bits above it (shift)."),
    picture=lambda: mo.draw("Sw<3,0,3> o (8,8):(8,1)", title="a smaller one: Sw<3,0,3> of a tile of 8 x 8"))
