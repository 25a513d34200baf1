"""# A view that leaves gaps

A layout need not be compact. A matrix of 8 x 8 elements lies in memory column by column, `(8,8):(1,8)`. You want to see only the
elements whose row **and** column are even, as a matrix of 4 x 4.

Give the layout of that view (it begins at offset 0). Nothing is copied: strides alone choose the elements.
"""

import moye as mo

whole = mo.make_layout((8, 8))
view = mo.make_layout((4, 4), (2, 16))                  #? view = ...

# --- how it is judged ---
from moye.puzzles import Puzzle
from moye.testing import Asked


def every_second(view):
    if view.shape != (4, 4):
        return f"its shape is {view.shape}, and (4, 4) is asked for"
    for i in range(4):
        for j in range(4):
            if view(i, j) != (wanted := 2 * i + 16 * j):
                return f"({i}, {j}) lies at {view(i, j)}, but element ({2 * i}, {2 * j}) of the matrix lies at {wanted}"
    return None


puzzle = Puzzle(
    asked=(Asked("view", every_second),),
    hints=("Two steps along a mode of the matrix are one step of the view.",
           "The matrix has the strides 1 and 8. The view takes twice as long steps."),
    picture=lambda: mo.draw(mo.make_layout((8, 8)), title="the matrix, (8,8):(1,8)"))
