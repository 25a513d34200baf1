"""# The last two tiles

With three stages, two tiles are under way while a third is used. `mo.cp_async_wait(1)` waits until all but the **newest group** of this
thread are there. So it counts groups, not tiles: as long as each turn commits one group, all but the newest means: the tile of this
turn.

At the end there are no more tiles to ask for, and this kernel commits no more groups. Which groups does the wait then leave in
flight? Mend it; a group may be empty.
"""

import moye as mo


@mo.kernel
def sums_kernel(out, x):
    tid = mo.thread_idx().x
    ring = mo.shared_array(mo.float32, (128, 3))                        # (128, stages)
    gX = mo.tile(x, (128,), (None,))                                    # (128, k)
    tiles = mo.size(gX, 1)
    for s in mo.static_range(2):
        if s < tiles:
            mo.copyto(mo.CpAsync(mo.float32), mo.tile(ring[:, s], (1,), (tid,)), mo.tile(gX[:, s], (1,), (tid,)))
        mo.cp_async_commit()
    total = 0.0
    for k in range(tiles):
        mo.cp_async_wait(1)
        mo.sync_threads()
        if k + 2 < tiles:
            mo.copyto(mo.CpAsync(mo.float32), mo.tile(ring[:, (k + 2) % 3], (1,), (tid,)),
                      mo.tile(gX[:, k + 2], (1,), (tid,)))
        mo.cp_async_commit()                            #?     mo.cp_async_commit()
        total += ring[127 - tid, k % 3]
    out[tid] = total


def solve(out, x):
    sums_kernel[1, 128](out, x)

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle


def make(rng, tiles):
    return {"out": np.empty(128, np.float32), "x": rng.standard_normal(128 * tiles).astype(np.float32)}


puzzle = Puzzle(
    reference=lambda x: x.reshape(-1, 128).sum(0, dtype=np.float64)[::-1], make=make, sizes=((6,), (1,), (2,), (3,)),
    given="copies", variants={"rtol": 1e-4},
    hints=("In the last two turns no group is added, but the wait still leaves one in flight: the one that is needed.",
           "Commit in every turn, whether or not there was a copy."),
    picture=lambda: mo.draw(mo.make_layout((3, 4)), title="tiles 0 to 11 in three stages (rows)"))
