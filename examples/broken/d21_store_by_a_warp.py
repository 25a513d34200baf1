"""Each block adds a tile of ones to Y by TMA.

The copy is issued by every lane of warp 0, so that the tile is added 32 times: class D21.

The report:

D21: the copy of one box at line 28 is issued by warp 0 of block (0, 0, 0), once by each
  examples/broken/d21_store_by_a_warp.py:28 in increment_kernel
    mo.copyto(Y, mo.tile(Y.tensor, Y.tile, (bx, 0)), smem)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: let one thread issue it: if elect()
"""

import numpy as np

import moye as mo


@mo.kernel
def increment_kernel(Y):
    smem = mo.shared_array(Y.dtype, Y.smem_layout)      # (32, 32)
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    for i in range(tid, 1024, 128):
        smem[i // 32, i % 32] = 1.0
    mo.fence_proxy_async()
    mo.sync_threads()
    if mo.warp_idx() == 0:
        mo.copyto(Y, mo.tile(Y.tensor, Y.tile, (bx, 0)), smem)
        mo.tma_store_arrive()
        mo.tma_store_wait(0)


def increment(Y, kernel=increment_kernel):
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (32, 32))
    return kernel[Y.shape[0] // 32, 128](mo.make_tma_copy(mo.TmaReduceAdd(), Y, layout))


def main(n=64):
    Y = np.zeros((n, 32), np.float32)
    report = increment(Y, mo.check(increment_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
