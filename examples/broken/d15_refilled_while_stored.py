"""Tile after tile goes through one buffer, from which one thread stores by TMA.

This thread waits until its store has read the buffer, but the other threads fill it again without knowing: class D15.

The report:

D15: smem(0, 1) of block (0, 0, 0) is overwritten at line 32 while the store at line 36 may still read it: the write by thread 1 is not ordered after a wait of thread 0, which issued it
  examples/broken/d15_refilled_while_stored.py:36 in scale_kernel
    mo.copyto(Y, gY[:, :, k], smem)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  examples/broken/d15_refilled_while_stored.py:32 in scale_kernel
    smem[i // 32, i % 32] = factor * gX[i // 32, i % 32, k]
    ^^^^^^^^^^^^^^^^^^^^^
hint: tma_store_wait(0, read=True) and then a barrier before the source is written again
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def scale_kernel(Y, X, factor):
    smem = mo.shared_array(Y.dtype, Y.smem_layout)      # (32, 32)
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    gX = mo.tile(X, Y.tile, (bx, None))                 # (32, 32, k)
    gY = mo.tile(Y.tensor, Y.tile, (bx, None))          # (32, 32, k)
    for k in range(mo.size(gX, 2)):
        for i in range(tid, 1024, 128):
            smem[i // 32, i % 32] = factor * gX[i // 32, i % 32, k]
        mo.fence_proxy_async()
        mo.sync_threads()
        if tid == 0:
            mo.copyto(Y, gY[:, :, k], smem)
            mo.tma_store_arrive()
            mo.tma_store_wait(0)


def scale(Y, X, kernel=scale_kernel):
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (32, 32))
    return kernel[X.shape[0] // 32, 128](mo.make_tma_copy(mo.TmaStore(), Y, layout), X, 2.0)


def main(n=64, K=96):
    X = np.random.default_rng(0).standard_normal((n, K), np.float32)
    Y = np.full_like(X, np.nan)
    report = scale(Y, X, mo.check(scale_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
