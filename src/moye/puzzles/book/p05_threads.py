"""# Who copies what

A tiled copy is a layout from (thread, value) to the elements of a tile. Here the tile has 8 x 16 elements of 32 bits, and 32 threads
copy it with 4 elements each. The tile is **row-major** in memory, and a thread moves up to 16 bytes at once if they are contiguous.

Give `threads` and `values` for `mo.make_tiled_copy`, so that

* each thread has 4 elements that are neighbours in memory, and
* four threads with consecutive numbers copy one row of 16 elements: 64 bytes without a gap.
"""

import moye as mo

threads = mo.make_layout((8, 4), (4, 1))                #? threads = mo.make_layout(...)
values = mo.make_layout((1, 4), (4, 1))                 #? values = mo.make_layout(...)
copy = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.uint128), mo.float32), threads, values)

# --- how it is judged ---
from moye.puzzles import Puzzle
from moye.testing import Asked


def rows_of_four(copy):
    tv, tile = copy
    if tuple(tile) != (8, 16):
        return f"it copies a tile of {tile}, and (8, 16) is asked for"
    if (mo.size(tv, 0), mo.size(tv, 1)) != (32, 4):
        return f"it has {mo.size(tv, 0)} threads with {mo.size(tv, 1)} values, and 32 with 4 are asked for"
    for thread in range(32):
        for value in range(4):
            column, row = divmod(tv(thread, value), 8)
            if (row, column) != (thread // 4, thread % 4 * 4 + value):
                return (f"value {value} of thread {thread} is element ({row}, {column}) of the tile, and "
                        f"({thread // 4}, {thread % 4 * 4 + value}) is asked for")
    return None


puzzle = Puzzle(
    asked=(Asked("copy", rows_of_four),),
    hints=("threads is a layout whose coordinates are places and whose values are numbers of threads.",
           "There are 8 rows of 4 threads; the thread number grows along a row first: the stride of the second mode is 1.",
           "values has the shape of what one thread has at once: (1, 4)."),
    picture=lambda: mo.draw(mo.make_layout((8, 4), (4, 1)), title="places of the threads: (8,4):(4,1)"))
