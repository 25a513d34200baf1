"""# Sixteen bytes at a time, and any length

Wide copies and lengths that are no multiple of anything: a copy with a predicate has both. `mo.tile(x, (4,), (i,), ragged=True)` may
reach past the end; `mo.identity_tensor(mo.shape(x))`, tiled in the same way, has the coordinates of its elements, and
`mo.elem_less(coordinates, shape)` says for each whether it is there. `mo.copyto(dst, src, pred=inside)` moves those alone. It still
moves 16 bytes at once wherever all four are there.

Fill in the predicate. `out` has the same length as `x`.
"""

import moye as mo


@mo.kernel
def copy_kernel(out, x):
    i = mo.block_idx().x * 128 + mo.thread_idx().x
    coordinates = mo.identity_tensor(mo.shape(x))
    gX, gO, cX = (mo.tile(t, (4,), (i,), ragged=True) for t in (x, out, coordinates))   # (4)
    inside = mo.elem_less(cX, mo.shape(x))              #? inside = ...
    held = mo.make_fragment_like(gX)                    # (4), registers
    mo.copyto(held, gX, pred=inside, zero_fill=True)    #? mo.copyto(held, gX)
    mo.copyto(gO, held, pred=inside)                    #? mo.copyto(gO, held)


def solve(out, x):
    copy_kernel[mo.ceil_div(x.shape[0], 512), 128](out, x)

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle
from moye.testing import Goals, ragged_sizes


def make(rng, n):
    return {"out": np.empty(n, np.float32), "x": rng.standard_normal(n, np.float32)}


puzzle = Puzzle(
    reference=lambda x: x, make=make, sizes=((2048,), *ragged_sizes(512)),
    goals=Goals(sectors=1.0, at_most={"global_load_requests": 16, "global_store_requests": 16}), variants={"exact": True},
    hints=("cX holds the coordinates of the four elements; mo.shape(x) is what they must be below.",
           "pred= goes to both copies: what is not there must be neither read nor written.",
           "zero_fill=True sets the registers whose elements are not there, so that nothing undefined is left in them."),
    picture=lambda: mo.draw(mo.make_layout((4, 3)), title="four elements a thread (columns); of ten, the last thread has two"))
