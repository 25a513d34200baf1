"""# A warp that only loads

Here one warp does nothing but ask for tiles, and four warps do nothing but use them. They meet at two mbarriers for each stage of a ring:
"full", on which a consumer waits, and "empty", on which the producer waits before it fills the stage again. `mo.PipelineTma` keeps both,
and the phases.

There are 3 stages, and more tiles than that. The consumers take, and never give back: after three tiles the producer waits forever.
`pipe.consumer_release(state)` gives a stage back. The pipeline expects **one** arrival for each stage (`consumers=1`), after all 128
consumers have read it: `mo.barrier_sync(1, 128)` is a barrier of these alone.
"""

import moye as mo

LAYOUT = mo.make_layout((64, 32), (32, 1))


@mo.kernel
def sums_kernel(out, load, stages: mo.Constexpr):
    tid = mo.thread_idx().x
    ring = mo.shared_array(load.dtype, mo.make_layout((64, 32, stages), (32, 1, 2048)))         # (64, 32, stages)
    gX = mo.tile(load.tensor, (64, 32), (0, None))                                              # (64, 32, k), coordinates
    pipe = mo.PipelineTma(stages, load.bytes, consumers=1)
    pipe.init()
    mo.sync_threads()
    if tid == 128:                                      # a thread of the fifth warp
        state = pipe.producer_start()
        for k in range(mo.size(gX, 2)):
            pipe.producer_acquire(state)
            mo.copyto(load, ring[:, :, state.stage], gX[:, :, k], barrier=pipe.barrier(state))
            state = state.next()
    elif tid < 128:
        state, total = pipe.consumer_start(), 0.0
        for _ in range(mo.size(gX, 2)):
            pipe.consumer_wait(state)
            for j in mo.static_range(16):
                total += ring[tid % 64, tid // 64 * 16 + j, state.stage]
            mo.barrier_sync(1, 128)                     #? -
            if tid == 0:                                #? -
                pipe.consumer_release(state)            #? -
            state = state.next()
        out[tid] = total


def solve(out, x):
    sums_kernel[1, 160](out, mo.make_tma_copy(mo.TmaLoad(), x, LAYOUT), 3)

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle


def make(rng, tiles):
    return {"out": np.empty(128, np.float32), "x": rng.standard_normal((64, 32 * tiles)).astype(np.float32)}


def reference(x):
    return x.astype(np.float64).reshape(64, -1, 2, 16).sum((1, 3)).T.reshape(-1)


def timeline():
    """What a solution does with five tiles."""
    arguments = make(np.random.default_rng(0), 5)
    load = mo.make_tma_copy(mo.TmaLoad(), arguments["x"], LAYOUT)
    return mo.check(sums_kernel, timeline=True)[1, 160](arguments["out"], load, 3).timeline()


puzzle = Puzzle(
    reference=reference, make=make, sizes=((8,), (1,), (3,), (4,)), given="deadlock", variants={"rtol": 1e-4},
    hints=("Release after the last read of the stage, before state.next().",
           "All 128 must have read it: first the named barrier, then one thread releases."),
    picture=timeline)
