"""Transpose a matrix through shared memory, so that both the loads and the stores run along contiguous columns.

A block reads a tile of the source into shared memory, waits for all of its threads, and writes the same memory, seen
with its modes exchanged, to the mirrored tile of the destination.  The columns in shared memory are padded by one
element: without it, reading them crosswise would hit one bank 32 times.
"""

import numpy as np

import moye as mo


@mo.kernel
def transpose_kernel(dst, src, smem_layout, thr_layout):
    bM, bN = mo.size(smem_layout, 0), mo.size(smem_layout, 1)
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x

    smem = mo.shared_array(src.dtype, smem_layout)              # (bM, bN)
    smem_T = smem.with_layout(mo.select(smem_layout, 1, 0))     # (bN, bM), the same memory
    gS = mo.tile(src, (bM, bN), (bx, by))                       # (bM, bN)
    gD = mo.tile(dst, (bN, bM), (by, bx))                       # (bN, bM)

    mo.copyto(mo.parallelize(smem, thr_layout, tid), mo.parallelize(gS, thr_layout, tid))
    mo.sync_threads()
    mo.copyto(mo.parallelize(gD, thr_layout, tid), mo.parallelize(smem_T, thr_layout, tid))


def transpose(dst, src, kernel=transpose_kernel):
    bM, bN = 32, 32
    smem_layout = mo.make_layout((bM, bN), (1, bM + 1))
    thr_layout = mo.make_layout((32, 8))
    grid = (mo.ceil_div(src.shape[0], bM), mo.ceil_div(src.shape[1], bN))
    return kernel[grid, mo.size(thr_layout)](dst, src, smem_layout, thr_layout)


def main(M=512, N=256):
    data = np.random.default_rng(0).standard_normal((M, N), np.float32)
    dst = mo.testing.array(np.full((N, M), np.nan, np.float32), order="F")
    transpose(dst, mo.testing.array(data, order="F"))
    assert np.array_equal(mo.testing.host(dst), data.T), "the result is not the transpose"
    print(f"transpose: {M}x{N} float32, all elements equal")


if __name__ == "__main__":
    main()
