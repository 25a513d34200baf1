"""g4_grid_barrier.py with no more blocks than are resident together: clean."""


import numpy as np

import moye as mo


@mo.kernel
def shift_kernel(x, y, z, arrived):
    bx, tid = mo.block_idx().x, mo.thread_idx().x
    blocks = mo.grid_dim().x
    y[bx * 1024 + tid] = x[bx * 1024 + tid] + 1
    mo.sync_threads()
    if tid == 0:
        mo.atomic_add(arrived, 0, 1, order="release")
        while mo.load(arrived, 0, order="acquire") < blocks:
            pass
    mo.sync_threads()
    z[bx * 1024 + tid] = y[(blocks - 1 - bx) * 1024 + tid]


def shift(x, y, z, arrived, kernel=shift_kernel):
    """``arrived`` starts at zero."""
    return kernel[x.size // 1024, 1024](x, y, z, arrived)


def main():
    blocks = 200                                        # an H100 holds 264 of 1024 threads
    x = np.arange(blocks * 1024, dtype=np.float32)
    report = shift(x, np.empty_like(x), np.empty_like(x), np.zeros(1, np.int32), mo.check(shift_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
