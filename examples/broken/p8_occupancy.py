"""Two warps that take half of a multiprocessor's shared memory: class P8.

Only one block at a time runs there. While its warps wait for memory, nobody else can work.

The report:

P8: 131072 bytes of shared memory let 1 block of 64 threads onto a multiprocessor: 2 of 64 warps
  examples/broken/p8_occupancy.py:27 in reverse_kernel
    staged = mo.shared_array(mo.float32, TILE)
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: smaller tiles: 2 blocks fit with 115712 bytes each, if its registers allow, which are not known before it is compiled
"""

# ruff: noqa: E501

import numpy as np

import moye as mo

TILE = 32768


@mo.kernel
def reverse_kernel(y, x):
    bx, _, _ = mo.block_idx()
    tid = mo.thread_idx().x
    staged = mo.shared_array(mo.float32, TILE)
    gX, gY = mo.tile(x, (TILE,), (bx,)), mo.tile(y, (TILE,), (bx,))         # (TILE), (TILE)
    for i in range(TILE // 64):
        staged[64 * i + tid] = gX[64 * i + tid]
    mo.sync_threads()
    for i in range(TILE // 64):
        gY[64 * i + tid] = staged[TILE - 1 - (64 * i + tid)]


def reverse(y, x, kernel=reverse_kernel):
    return kernel[x.shape[0] // TILE, 64](y, x)


def main(N=65536):
    x = np.arange(N, dtype=np.float32)
    report = reverse(np.zeros_like(x), x, mo.check(reverse_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
