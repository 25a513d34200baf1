"""Each block loads the first counts[bx] rows of X, by a tensor map of its own that ends there.

It copies by a map in global memory that it has not acquired, so that TMA may still have another one in its cache: class
D22.

The report:

D22: thread 0 of block (0, 0, 0) copies by a tensor map in workspace at line 43, and its block has no acquire_tensormap() of it after its release at line 39
  examples/broken/d22_map_not_acquired.py:39 in rows_kernel
    mo.release_tensormap(slot, maps[:, 0])
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  examples/broken/d22_map_not_acquired.py:43 in rows_kernel
    mo.copyto(mine, smem, mo.tile(mine.tensor, X.tile, (0, 0)), barrier=(full, 0))
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: acquire_tensormap(slot) after the release, in each block that copies; a barrier before other threads copy
"""
# ruff: noqa: E501

import numpy as np

import moye as mo

ROWS, COLUMNS = 16, 32
LAYOUT = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (ROWS, COLUMNS))


@mo.kernel
def rows_kernel(out, X, workspace, counts):
    smem = mo.shared_array(X.dtype, X.smem_layout)      # (16, 32)
    maps, full = mo.tensormap_array(1), mo.mbarrier_array(1)
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    slot, shape = workspace[bx, :], (counts[bx], COLUMNS)
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
        mo.copy_tensormap(maps[:, 0], X)
        mo.update_tensormap(X, maps[:, 0], shape=shape)
    mo.sync_warp()
    mo.release_tensormap(slot, maps[:, 0])
    if tid == 0:
        mine = X.at(slot, shape)
        mo.mbarrier_arrive_expect_tx(full, 0, X.bytes)
        mo.copyto(mine, smem, mo.tile(mine.tensor, X.tile, (0, 0)), barrier=(full, 0))
    mo.sync_warp()
    mo.mbarrier_wait(full, 0, 0)
    for i in range(ROWS):
        out[i, tid, bx] = smem[i, tid]


def rows(out, X, counts, kernel=rows_kernel):
    workspace = np.zeros((len(counts), 16), np.int64)
    return kernel[len(counts), 32](out, mo.make_tma_copy(mo.TmaLoad(), X, LAYOUT), workspace, counts)


def main():
    X = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype(np.float32)
    out, counts = np.zeros((3, COLUMNS, ROWS), np.float32).T, np.array([16, 5, 1], np.int32)
    report = rows(out, X, counts, mo.check(rows_kernel))
    assert all((out[:n, :, i] == X[:n]).all() and not out[n:, :, i].any() for i, n in enumerate(counts))
    print(report)
    return report


if __name__ == "__main__":
    main()
