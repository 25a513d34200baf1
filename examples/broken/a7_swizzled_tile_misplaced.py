"""A swizzled tile behind a small array, with an alignment too low for its swizzle.

`align=16` lets the tile begin at byte 64, but its swizzle needs a multiple of 1024. Rows meet other banks, and a TMA
copy or wgmma would read the tile permuted: class A7.

The report:

A7: scale_kernel: tile with layout Sw<3,3,3> o 0 o (8,64):(64,1) begins at byte 64 of shared memory, which is no multiple of the 1024 bytes that Sw<3,3,3> spans
  examples/broken/a7_swizzled_tile_misplaced.py:26 in scale_kernel
    tile = mo.shared_array(X.dtype, layout, align=16)   # (8, 64)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: leave out align=16: the default is 1024
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def scale_kernel(Y, X, layout):
    tid = mo.thread_idx().x
    scale = mo.shared_array(mo.float32, 16)
    tile = mo.shared_array(X.dtype, layout, align=16)   # (8, 64)
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
