"""Each thread keeps a row of 96 numbers in registers while it finds the largest of them, so that it reads them once.

A multiprocessor must hold eight blocks of 256 threads, which leaves a thread 32 registers. The rest spills: class P6.

The report:

P6: registers spill: each thread, which has 32, stores and loads 4032 bytes of local memory
  examples/broken/p6_too_few_registers.py:24 in scale_kernel
    rX = mo.make_fragment_like(gX[tid, :])              # (96)
         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: smaller register tiles, or min_blocks below 8
"""

import numpy as np

import moye as mo


@mo.kernel
def scale_kernel(y, x):
    mo.min_blocks(8)
    bx, tid = mo.block_idx().x, mo.thread_idx().x
    gX, gY = mo.tile(x, (256, 96), (bx, 0)), mo.tile(y, (256, 96), (bx, 0))         # (256, 96)
    rX = mo.make_fragment_like(gX[tid, :])              # (96)
    mo.copyto(rX, gX[tid, :])
    rX[...] = rX / rX.reduce("max")
    mo.copyto(gY[tid, :], rX)


def scale(y, x, kernel=scale_kernel):
    return kernel[x.shape[0] // 256, 256](y, x)


def main(n=512):
    x = np.asfortranarray(1 + np.random.default_rng(0).random((n, 96), np.float32))
    report = scale(np.zeros_like(x), x, mo.check(scale_kernel, lints="deep"))
    print(report)
    return report


if __name__ == "__main__":
    main()
