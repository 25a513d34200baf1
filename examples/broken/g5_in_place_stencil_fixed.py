"""g5_in_place_stencil.py with another array to write to: clean."""


import numpy as np

import moye as mo


@mo.kernel
def blur_kernel(x, y):
    i = mo.block_idx().x * 128 + mo.thread_idx().x
    last = mo.size(x) - 1
    here, right = x[i], x[mo.where(i < last, i + 1, last)]
    mo.sync_threads()
    y[i] = (here + right) / 2


def blur(x, y, kernel=blur_kernel):
    return kernel[x.size // 128, 128](x, y)


def main(n=512):
    x = np.arange(n, dtype=np.float32)
    y = np.empty_like(x)
    report = blur(x, y, mo.check(blur_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
