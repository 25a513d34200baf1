"""Copy a matrix: each block takes a tile, each thread of the block some elements of that tile.

Two kernels: straight from global to global memory, and staged through shared memory, whose columns are padded by one
element so that they start in different banks.  `tile` and `parallelize` only make views; `copyto` moves the data.
"""

import numpy as np

import moye as mo


@mo.kernel
def copy_kernel(dst, src, tile_shape: mo.Constexpr, thr_layout):
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x
    gD = mo.tile(dst, tile_shape, (bx, by))             # (bM, bN)
    gS = mo.tile(src, tile_shape, (bx, by))             # (bM, bN)
    tDgD = mo.parallelize(gD, thr_layout, tid)          # (THR_M, THR_N)
    tSgS = mo.parallelize(gS, thr_layout, tid)          # (THR_M, THR_N)
    mo.copyto(tDgD, tSgS)


@mo.kernel
def staged_copy_kernel(dst, src, smem_layout, thr_layout):
    tile_shape = (mo.size(smem_layout, 0), mo.size(smem_layout, 1))
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x
    smem = mo.shared_array(src.dtype, smem_layout)      # (bM, bN)
    gD = mo.tile(dst, tile_shape, (bx, by))             # (bM, bN)
    gS = mo.tile(src, tile_shape, (bx, by))             # (bM, bN)
    tDgD = mo.parallelize(gD, thr_layout, tid)          # (THR_M, THR_N)
    tSgS = mo.parallelize(gS, thr_layout, tid)          # (THR_M, THR_N)
    tSsS = mo.parallelize(smem, thr_layout, tid)        # (THR_M, THR_N)
    # No barrier: each thread reads back only what it wrote itself.
    mo.copyto(tSsS, tSgS)
    mo.copyto(tDgD, tSsS)


BM, BN = 32, 32
THREADS = mo.make_layout((32, 8))


def copy(dst, src, kernel=copy_kernel):
    grid = (mo.ceil_div(src.shape[0], BM), mo.ceil_div(src.shape[1], BN))
    return kernel[grid, mo.size(THREADS)](dst, src, (BM, BN), THREADS)


def staged_copy(dst, src, kernel=staged_copy_kernel):
    smem_layout = mo.make_layout((BM, BN), (1, BM + 1))
    grid = (mo.ceil_div(src.shape[0], BM), mo.ceil_div(src.shape[1], BN))
    return kernel[grid, mo.size(THREADS)](dst, src, smem_layout, THREADS)


def main(M=256, N=512):
    data = np.random.default_rng(0).standard_normal((M, N), np.float32)
    src = mo.testing.array(data, order="F")
    for run in (copy, staged_copy):
        dst = mo.testing.array(np.full((M, N), np.nan, np.float32), order="F")
        run(dst, src)
        assert np.array_equal(mo.testing.host(dst), data), f"{run.__name__}: the copy differs from its source"
        print(f"{run.__name__}: {M}x{N} float32, all elements equal")


if __name__ == "__main__":
    main()
