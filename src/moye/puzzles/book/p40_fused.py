"""# All in one

A layer of a language model adds what came before, normalises, scales, and gates:

```text
h = x + residual
out = h / sqrt(mean(h * h) + 1e-5) * weight * silu(gate)        silu(g) = g / (1 + exp(-g))
```

As five kernels it reads and writes each row five times. Write **one**: a block of 128 threads has one row of 512 numbers, so a thread
has 4 of them, which are one load of 16 bytes from each array and stay in registers. Each element is read once and written once.

`x`, `residual` and `gate` are (rows, 512), `weight` has 512 elements. On register tensors, arithmetic goes element by element, and
`h.reduce("add")` sums what a thread has.
"""

import moye as mo


@mo.kernel
def layer_kernel(out, x, residual, weight, gate):
    row, tid = mo.block_idx().x, mo.thread_idx().x
    scratch = mo.shared_array(mo.float32, 4)
    gX, gR, gG, gO = (mo.tile(t, (1, 4), (row, tid))[0, :] for t in (x, residual, gate, out))   # (4)
    gW = mo.tile(weight, (4,), (tid,))                                                          # (4)
    h, r, w, g = (mo.make_fragment_like(t) for t in (gX, gR, gW, gG))                           # (4), registers
    mo.copyto(h, gX)
    mo.copyto(r, gR)
    mo.copyto(w, gW)
    mo.copyto(g, gG)
    h += r                                              #? ...
    squares = mo.block_reduce((h * h).reduce("add"), scratch)               #? squares = ...
    scale = mo.rsqrt(squares / 512 + 1e-5)              #? scale = ...
    mo.copyto(gO, h * scale * w * mo.silu(g))           #? mo.copyto(gO, ...)


def solve(out, x, residual, weight, gate):
    layer_kernel[x.shape[0], 128](out, x, residual, weight, gate)

# --- how it is judged ---
import numpy as np

from moye.puzzles import Puzzle
from moye.testing import Goals


def make(rng, rows):
    x, residual, gate = (rng.standard_normal((rows, 512)).astype(np.float32) for _ in range(3))
    return {"out": np.empty((rows, 512), np.float32), "x": x, "residual": residual,
            "weight": rng.standard_normal(512).astype(np.float32), "gate": gate}


def reference(x, residual, weight, gate):
    h, g = x.astype(np.float64) + residual, gate.astype(np.float64)
    return h / np.sqrt((h * h).mean(1, keepdims=True) + 1e-5) * weight * g / (1 + np.exp(-g))


puzzle = Puzzle(
    reference=reference, make=make, sizes=((6,), (1,)), variants={"rtol": 1e-5},
    goals=Goals(launches=1, sectors=1.0, at_most={"global_load_requests": 6 * 16, "global_store_requests": 6 * 4}),
    hints=("h += r; then each thread sums the squares of its four: (h * h).reduce(\"add\").",
           "mo.block_reduce(value, scratch) sums over the threads; mo.rsqrt(v) is 1 / sqrt(v).",
           "There is mo.silu."),
    picture=lambda: mo.draw(mo.make_layout((4, 8)), title="four elements (column) for each of eight threads of a row"))
