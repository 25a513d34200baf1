"""out[k, i, j] = x[i, j, k] through shared memory: a tile of one plane by mo.tile and mo.parallelize."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(out, x):
    i, tid = mo.block_idx().z, mo.thread_idx().x
    staged = mo.shared_array(x.dtype, mo.make_layout((32, 32), (33, 1)))
    plane, result = x[i, None, None], out[None, i, None]                                # (J, K), (K, J)
    gX = mo.tile(plane, (32, 32), (mo.block_idx().y, mo.block_idx().x))                 # (32, 32)
    gO = mo.tile(result, (32, 32), (mo.block_idx().x, mo.block_idx().y))                # (32, 32)
    rows = mo.make_layout((8, 32), (32, 1))
    mo.copyto(mo.parallelize(staged, rows, tid), mo.parallelize(gX, rows, tid))
    mo.sync_threads()
    turned = staged.with_layout(mo.make_layout((32, 32), (1, 33)))
    mo.copyto(mo.parallelize(gO, rows, tid), mo.parallelize(turned, rows, tid))


def case(small):
    shape = (3, 64, 96) if small else (64, 512, 1024)
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    out = np.full((shape[2], shape[0], shape[1]), np.nan, np.float32)
    return {"arguments": (out, x), "outputs": (0,), "twin": (out, x, *shape),
            "grid": (shape[2] // 32, shape[1] // 32, shape[0]), "block": 256,
            "expected": lambda: (x.transpose(2, 0, 1),)}
