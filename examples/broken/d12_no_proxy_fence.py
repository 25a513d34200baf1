"""Tiles are scaled in shared memory by all threads, and one thread stores them by TMA.

The barrier orders the threads, but the store reads through another proxy, which may not see their writes: class D12.

The report:

D12: smem(0, 0) of block (0, 0, 0) is read by the copy at line 33, which may not see the write: no fence_proxy_async() of thread 0 since it wrote it at line 30
  examples/broken/d12_no_proxy_fence.py:30 in scale_kernel
    smem[i // 32, i % 32] = factor * gX[i // 32, i % 32]
    ^^^^^^^^^^^^^^^^^^^^^
  examples/broken/d12_no_proxy_fence.py:33 in scale_kernel
    mo.copyto(Y, mo.tile(Y.tensor, Y.tile, (bx, 0)), smem)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: fence_proxy_async() in the threads that write, then a barrier, then the asynchronous read
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def scale_kernel(Y, X, factor):
    smem = mo.shared_array(Y.dtype, Y.smem_layout)      # (32, 32)
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    gX = mo.tile(X, Y.tile, (bx, 0))                    # (32, 32)
    for i in range(tid, 1024, 128):
        smem[i // 32, i % 32] = factor * gX[i // 32, i % 32]
    mo.sync_threads()
    if tid == 0:
        mo.copyto(Y, mo.tile(Y.tensor, Y.tile, (bx, 0)), smem)
        mo.tma_store_arrive()
        mo.tma_store_wait(0)


def scale(Y, X, kernel=scale_kernel):
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (32, 32))
    return kernel[X.shape[0] // 32, 128](mo.make_tma_copy(mo.TmaStore(), Y, layout), X, 2.0)


def main(n=64):
    X = np.random.default_rng(0).standard_normal((n, 32), np.float32)
    Y = np.full_like(X, np.nan)
    report = scale(Y, X, mo.check(scale_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
