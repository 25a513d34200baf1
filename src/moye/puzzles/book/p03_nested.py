"""# Blocks within a matrix

Modes may be nested: `((2,4),8)` is a matrix with 8 rows, whose row number is itself a pair. Nested modes say how a matrix is stored in
blocks.

Store a matrix of 4 x 4 elements in blocks of 2 x 2: each block is contiguous and column-major, and the blocks follow each other
column by column. So the offsets of the matrix are

```text
 0  2  8 10
 1  3  9 11
 4  6 12 14
 5  7 13 15
```

Give this layout, with two modes of size 4, so that `layout(i, j)` takes row and column.
"""

import moye as mo

layout = mo.make_layout(((2, 2), (2, 2)), ((1, 4), (2, 8)))             #? layout = ...

# --- how it is judged ---
from moye.puzzles import Puzzle
from moye.testing import Asked

WANTED = ((0, 2, 8, 10), (1, 3, 9, 11), (4, 6, 12, 14), (5, 7, 13, 15))


def blocked(layout):
    if mo.rank(layout) != 2 or (mo.size(layout, 0), mo.size(layout, 1)) != (4, 4):
        return f"{layout} has not two modes of size 4"
    for i in range(4):
        for j in range(4):
            if layout(i, j) != WANTED[i][j]:
                return f"({i}, {j}) lies at {layout(i, j)}, and {WANTED[i][j]} is asked for"
    return None


puzzle = Puzzle(
    asked=(Asked("layout", blocked),),
    hints=("Look at the first column: 0, 1, 4, 5. Two numbers describe one step inside a block, and one to the next block.",
           "The first mode is (2,2):(1,4): a step inside of a block, and a step to the block below.",
           "The first row, 0, 2, 8, 10, gives the second mode in the same way."),
    picture=lambda: mo.draw(mo.make_layout((4, 4)), title="not yet in blocks: (4,4):(1,4)"))
