"""d14_fence_of_one_thread.py where every thread fences.
"""

import numpy as np

import moye as mo


@mo.kernel
def scale_kernel(Y, X, factor):
    smem = mo.shared_array(Y.dtype, mo.tile_to_shape(Y.smem_layout, (*Y.tile, 2)))      # (32, 32, stages)
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    gX = mo.tile(X, Y.tile, (bx, None))                 # (32, 32, k)
    gY = mo.tile(Y.tensor, Y.tile, (bx, None))          # (32, 32, k)
    for k in range(mo.size(gX, 2)):
        for i in range(tid, 1024, 128):
            smem[i // 32, i % 32, k % 2] = factor * gX[i // 32, i % 32, k]
        if tid == 0:
            mo.tma_store_wait(0)                        # behind the barrier the other stage is free
        mo.fence_proxy_async()
        mo.sync_threads()
        if tid == 0:
            mo.copyto(Y, gY[:, :, k], smem[:, :, k % 2])
            mo.tma_store_arrive()
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
