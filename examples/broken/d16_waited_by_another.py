"""One thread stores tile after tile by TMA from one buffer, and a thread of another warp waits for the stores.

A thread waits only for its own bulk groups. So that wait does nothing, and the buffer is filled too early: class D16.

The report:

D16: smem(0, 0) of block (0, 0, 0) is overwritten at line 35 while the store at line 39 may still read it: the wait at line 42 is by thread 32, and only thread 0, which issued it, can wait for it
  examples/broken/d16_waited_by_another.py:39 in scale_kernel
    mo.copyto(Y, gY[:, :, k], smem)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  examples/broken/d16_waited_by_another.py:42 in scale_kernel
    mo.tma_store_wait(0)
    ^^^^^^^^^^^^^^^^^^^^
  examples/broken/d16_waited_by_another.py:35 in scale_kernel
    smem[i // 32, i % 32] = factor * gX[i // 32, i % 32, k]
    ^^^^^^^^^^^^^^^^^^^^^
hint: let the thread that stores wait, and then a barrier
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
        if tid == 32:
            mo.tma_store_wait(0)
        mo.sync_threads()
    if tid == 0:
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
