"""A transposition through shared memory that pads the view of the tile, but not the tile.

The padded rows end behind the 1024 elements that were allocated, in memory of something else: class A3.

The report:

A3: the layout (32,32):(33,1) of tile reaches element 1054, and its allocation of layout (32,32):(1,32) has 1024
  examples/broken/a3_padded_view.py:26 in transpose_kernel
    rows = tile.with_layout(mo.make_layout((32, 32), (33, 1)))      # (32, 32), without bank conflicts
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: allocate it with the cosize of the largest of its layouts
"""


import numpy as np

import moye as mo


@mo.kernel
def transpose_kernel(Y, X):
    tid = mo.thread_idx().x
    tile = mo.shared_array(X.dtype, mo.make_layout((32, 32)))
    next_tile = mo.shared_array(X.dtype, mo.make_layout((32, 32)))
    next_tile[tid, 0] = 0.0
    rows = tile.with_layout(mo.make_layout((32, 32), (33, 1)))      # (32, 32), without bank conflicts
    for i in mo.static_range(32):
        rows[i, tid] = X[i, tid]
    mo.sync_threads()
    for i in mo.static_range(32):
        Y[i, tid] = rows[tid, i]


def transpose(Y, X, kernel=transpose_kernel):
    return kernel[1, 32](Y, X)


def main():
    X = np.arange(1024, dtype=np.float32).reshape(32, 32)
    Y = np.full_like(X, np.nan)
    report = transpose(Y, X, mo.check(transpose_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
