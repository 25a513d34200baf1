"""p8_occupancy.py with tiles of 8 KB, of which a multiprocessor holds many.  It is clean.
"""

import numpy as np

import moye as mo

TILE = 2048


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
