"""# One element, seen many times

A stride may be 0. Then all coordinates along this mode are one element: a vector looks like a matrix, and takes no memory for it.

* `row` makes a matrix of 3 x 5 elements of a vector of 5: every row of the matrix is the vector.
* `column` makes one of 3 x 5 elements of a vector of 3: every column is the vector.
* `inner` has the shape `((2,3),4)`. It repeats each element of the compact layout of shape `(3,4)` twice, one below the other: its
  first column begins with the offsets 0, 0, 1, 1, 2, 2.
"""

import moye as mo

row = mo.make_layout((3, 5), (0, 1))                    #? row = ...
column = mo.make_layout((3, 5), (1, 0))                 #? column = ...
inner = mo.make_layout(((2, 3), 4), ((0, 1), 3))        #? inner = ...

# --- how it is judged ---
from moye.puzzles import Puzzle
from moye.testing import Asked


def offsets(shape, wanted):
    def check(layout):
        if (mo.size(layout, 0), mo.size(layout, 1)) != shape:
            return f"{layout} is no matrix of {shape[0]} x {shape[1]}"
        for i in range(shape[0]):
            for j in range(shape[1]):
                if layout(i, j) != wanted(i, j):
                    return f"({i}, {j}) lies at {layout(i, j)}, and {wanted(i, j)} is asked for"
        return None
    return check


puzzle = Puzzle(
    asked=(Asked("row", offsets((3, 5), lambda i, j: j)), Asked("column", offsets((3, 5), lambda i, j: i)),
           Asked("inner", offsets((6, 4), lambda i, j: i // 2 + 3 * j))),
    hints=("Along the mode that repeats, a step goes nowhere.",
           "A nested mode (2,3) counts its first part fastest: give that part the stride 0."),
    picture=lambda: mo.draw(mo.make_layout((3, 4)), title="the compact layout that inner repeats: (3,4):(1,3)"))
