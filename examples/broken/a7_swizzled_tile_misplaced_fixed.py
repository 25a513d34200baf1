"""a7_swizzled_tile_misplaced.py with the alignment that follows from the swizzle.
"""

import numpy as np

import moye as mo


@mo.kernel
def scale_kernel(Y, X, layout):
    tid = mo.thread_idx().x
    scale = mo.shared_array(mo.float32, 16)
    tile = mo.shared_array(X.dtype, layout)   # (8, 64)
    if tid < 16:
        scale[tid] = 2.0
    for i in mo.static_range(8):
        tile[i, tid] = X[i, tid]
    mo.sync_threads()
    for i in mo.static_range(8):
        Y[i, tid] = tile[i, tid] * scale[i].to(X.dtype)


def scale(Y, X, kernel=scale_kernel):
    return kernel[1, 64](Y, X, mo.smem_layout_atom(mo.float16, "k"))


def main():
    X = np.ones((8, 64), np.float16)
    Y = np.zeros_like(X)
    report = scale(Y, X, mo.check(scale_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
