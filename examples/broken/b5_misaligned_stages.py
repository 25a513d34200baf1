"""Two tiles come by TMA into one tensor of shared memory, with a row of padding between them.

Tiles swizzled over 128 bytes begin at multiples of 1024 bytes, and the second one begins at 4224: class B5.

The report:

B5: copyto: TMA needs sA at a multiple of 1024 bytes, but its first element is known to be at a multiple of 128 bytes only
  examples/broken/b5_misaligned_stages.py:35 in column_sums_kernel
    mo.copyto(A, sA[:, :, k], gA[:, :, k], barrier=(full, 0))
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: let the stages lie multiples of 1024 bytes apart
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def column_sums_kernel(out, A):
    stages = mo.make_layout((32, 32, 2), (32, 1, 33 * 32))
    sA = mo.shared_array(A.dtype, mo.ComposedLayout(A.smem_layout.swizzle, 0, stages))
    full = mo.mbarrier_array(1)
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    gA = mo.tile(A.tensor, A.tile, (None, bx))          # (32, 32, k)
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid == 0:
        mo.mbarrier_arrive_expect_tx(full, 0, 2 * A.bytes)
        for k in mo.static_range(2):
            mo.copyto(A, sA[:, :, k], gA[:, :, k], barrier=(full, 0))
    mo.mbarrier_wait(full, 0, 0)
    total = mo.float32(0)
    for i in range(32):
        total += sA[i, tid % 32, tid // 32]
    out[tid, bx] = total


def column_sums(out, A, kernel=column_sums_kernel):
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (32, 32))
    return kernel[A.shape[1] // 32, 64](out, mo.make_tma_copy(mo.TmaLoad(), A, layout))


def main(n=64):
    A = np.random.default_rng(0).standard_normal((64, n), np.float32)
    out = np.full((64, n // 32), np.nan, np.float32, order="F")
    report = column_sums(out, A, mo.check(column_sums_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
