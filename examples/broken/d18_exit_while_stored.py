"""Each block stores one tile by TMA from its shared memory, and ends.

The store may not have read its source yet when the next block gets that memory: class D18.

The report:

D18: block (0, 0, 0) ends while the copy at line 29 may not have read its source: thread 0 does not wait for it
  examples/broken/d18_exit_while_stored.py:29 in scale_kernel
    mo.copyto(Y, mo.tile(Y.tensor, Y.tile, (bx, 0)), smem)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: tma_store_arrive() and tma_store_wait(0) in the thread that stores
"""

import numpy as np

import moye as mo


@mo.kernel
def scale_kernel(Y, X, factor):
    smem = mo.shared_array(Y.dtype, Y.smem_layout)      # (32, 32)
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    gX = mo.tile(X, Y.tile, (bx, 0))                    # (32, 32)
    for i in range(tid, 1024, 128):
        smem[i // 32, i % 32] = factor * gX[i // 32, i % 32]
    mo.fence_proxy_async()
    mo.sync_threads()
    if tid == 0:
        mo.copyto(Y, mo.tile(Y.tensor, Y.tile, (bx, 0)), smem)
        mo.tma_store_arrive()


def scale(Y, X, kernel=scale_kernel):
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (32, 32))
    return kernel[X.shape[0] // 32, 128](mo.make_tma_copy(mo.TmaStore(), Y, layout), X, 2.0)


def main(n=64, K=32):
    X = np.random.default_rng(0).standard_normal((n, K), np.float32)
    Y = np.full_like(X, np.nan)
    report = scale(Y, X, mo.check(scale_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
