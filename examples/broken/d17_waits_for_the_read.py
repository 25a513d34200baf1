"""A block scales its tile, stores it by TMA, and adds up the columns of what it has stored.

The thread that stores waits until shared memory has been read, not until global memory has been written: class D17.

The report:

D17: Z(0, 0) in global memory is read by thread 0 of block (0, 0, 0) at line 44, but the store at line 37 may not have written it: the wait at line 39 of thread 0 is over as soon as the store has read its source
  examples/broken/d17_waits_for_the_read.py:37 in scale_kernel
    mo.copyto(Y, mo.tile(Y.tensor, Y.tile, (bx, 0)), smem)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  examples/broken/d17_waits_for_the_read.py:39 in scale_kernel
    mo.tma_store_wait(0, read=True)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  examples/broken/d17_waits_for_the_read.py:44 in scale_kernel
    total += gZ[i, tid]
             ^^^^^^^^^^
hint: tma_store_wait(0, read=False), which waits until what is stored has been written
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def scale_kernel(Y, Z, sums, X, factor):
    smem = mo.shared_array(Y.dtype, Y.smem_layout)      # (32, 32)
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    gX, gZ = mo.tile(X, Y.tile, (bx, 0)), mo.tile(Z, Y.tile, (bx, 0))       # (32, 32)
    for i in range(tid, 1024, 128):
        smem[i // 32, i % 32] = factor * gX[i // 32, i % 32]
    mo.fence_proxy_async()
    mo.sync_threads()
    if tid == 0:
        mo.copyto(Y, mo.tile(Y.tensor, Y.tile, (bx, 0)), smem)
        mo.tma_store_arrive()
        mo.tma_store_wait(0, read=True)
    mo.sync_threads()
    if tid < 32:
        total = mo.float32(0)
        for i in range(32):
            total += gZ[i, tid]
        sums[bx, tid] = total


def scale(Y, sums, X, kernel=scale_kernel):
    """``Y`` goes to the kernel twice: for the copy by TMA, and to be read."""
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (32, 32))
    return kernel[X.shape[0] // 32, 128](mo.make_tma_copy(mo.TmaStore(), Y, layout), Y, sums, X, 2.0)


def main(n=64):
    X = np.random.default_rng(0).standard_normal((n, 32), np.float32)
    Y, sums = np.full_like(X, np.nan), np.full((n // 32, 32), np.nan, np.float32)
    report = scale(Y, sums, X, mo.check(scale_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
