"""A tile of float16 comes by TMA. The bytes to expect are counted as if each element had four bytes.

The mbarrier waits for as many bytes again, which nobody sends: class D7.

The report:

D7: block (0, 0, 0) is deadlocked: warps 0-1 wait for phase 0 of full(0) (line 31), which lacks 8192 bytes
  examples/broken/d7_bytes_of_another_type.py:31 in column_sums_kernel
    mo.mbarrier_wait(full, 0, 0)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: expect the bytes that the copies of one phase bring, no more and no less
"""

import numpy as np

import moye as mo


@mo.kernel
def column_sums_kernel(out, A):
    sA = mo.shared_array(A.dtype, A.smem_layout)        # (64, 64)
    full = mo.mbarrier_array(1)
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid == 0:
        mo.mbarrier_arrive_expect_tx(full, 0, 4 * mo.size(sA))
        mo.copyto(A, sA, mo.tile(A.tensor, A.tile, (bx, 0)), barrier=(full, 0))
    mo.mbarrier_wait(full, 0, 0)
    total = mo.float32(0)
    for i in range(64):
        total += sA[i, tid].to(mo.float32)
    out[bx, tid] = total


def column_sums(out, A, kernel=column_sums_kernel):
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float16, "k"), (64, 64))
    return kernel[A.shape[0] // 64, 64](out, mo.make_tma_copy(mo.TmaLoad(), A, layout))


def main(n=128):
    A = np.random.default_rng(0).standard_normal((n, 64)).astype(np.float16)
    out = np.full((n // 64, 64), np.nan, np.float32)
    report = column_sums(out, A, mo.check(column_sums_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
