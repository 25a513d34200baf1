"""p6_too_few_registers.py that asks for two blocks.
"""

import numpy as np

import moye as mo


@mo.kernel
def scale_kernel(y, x):
    mo.min_blocks(2)
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
