"""# Walk through memory by rows

A layout is a function from coordinates to offsets: a shape, and a stride for each of its modes. `mo.make_layout((4, 8))` is compact
and column-major, so neighbours along the first mode are neighbours in memory: it is `(4,8):(1,4)`.

Give a layout of the same shape that is compact and **row-major**: coordinate `(i, j)` lies at offset `8 * i + j`.
"""

import moye as mo

layout = mo.make_layout((4, 8), (8, 1))                 #? layout = mo.make_layout((4, 8), ...)

# --- how it is judged ---
from moye.puzzles import Puzzle
from moye.testing import Asked


def by_rows(layout):
    if layout.shape != (4, 8):
        return f"its shape is {layout.shape}, and (4, 8) is asked for"
    wrong = [(i, j) for i in range(4) for j in range(8) if layout(i, j) != 8 * i + j]
    return f"{wrong[0]} lies at {layout(*wrong[0])}, and {8 * wrong[0][0] + wrong[0][1]} is asked for" if wrong else None


puzzle = Puzzle(
    asked=(Asked("layout", by_rows),),
    hints=("A stride says how many elements lie between neighbours along a mode.",
           "A step along the first mode passes a whole row, which has 8 elements."),
    picture=lambda: mo.draw(mo.make_layout((4, 8)), title="column-major: (4,8):(1,4)"))
