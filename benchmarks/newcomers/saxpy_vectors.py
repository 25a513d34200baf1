"""y = a x + y, four elements a thread; the last vector may be cut."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(y, x, a):
    i = mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x
    gX, gY, cX = (mo.tile(t, (4,), (i,), ragged=True) for t in (x, y, mo.identity_tensor(mo.shape(x))))    # (4)
    inside = mo.elem_less(cX, mo.shape(x))
    rX, rY = mo.make_fragment_like(gX), mo.make_fragment_like(gY)
    mo.copyto(rX, gX, pred=inside, zero_fill=True)
    mo.copyto(rY, gY, pred=inside, zero_fill=True)
    mo.copyto(gY, a * rX + rY, pred=inside)


def case(small):
    n = 5001 if small else (1 << 25) + 1
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(n, np.float32) for _ in range(2))
    return {"arguments": (y, x, 2.5), "outputs": (0,), "twin": (y, x, 2.5, n), "grid": mo.ceil_div(n, 1024),
            "block": 256, "expected": lambda: (y + 2.5 * x.astype(float),)}
