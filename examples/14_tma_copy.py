"""A copy by TMA, the smallest one: a tile per block into shared memory, and from there into another array.

One thread asks for a whole tile; the hardware computes the addresses, swizzled as the layout says.  An mbarrier counts
the bytes that arrive.  Rows have a multiple of 16 bytes; edges need no predicates: what lies outside of the array reads
as zero and is not stored.
"""

import numpy as np

import moye as mo


@mo.kernel
def copy_kernel(load, store):
    bM, bN = load.tile
    bx, by, _ = mo.block_idx()
    smem = mo.shared_array(load.dtype, load.smem_layout)                # (bM, bN)
    arrived = mo.mbarrier_array(1)
    gS = mo.tile(load.tensor, (bM, bN), (bx, by))                       # (bM, bN), coordinates in the source
    gD = mo.tile(store.tensor, (bM, bN), (bx, by))                      # (bM, bN), coordinates in the target

    if mo.thread_idx().x == 0:
        mo.mbarrier_init(arrived, 0, 1)                                 # one thread will arrive, below
        mo.fence_mbarrier_init()                                        # and TMA may know of it
        mo.mbarrier_arrive_expect_tx(arrived, 0, load.bytes)            # it says how many bytes are to come
        mo.copyto(load, smem, gS, barrier=(arrived, 0))                 # returns at once
        mo.mbarrier_wait(arrived, 0, 0)                                 # phase 0 ends with the last byte
        mo.copyto(store, gD, smem)
        mo.tma_store_arrive()                                           # the stores so far are a group
        mo.tma_store_wait(0)                                            # that has left shared memory before it is freed


LAYOUT = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (64, 32))       # rows of 128 bytes, swizzled


def copy(dst, src, kernel=copy_kernel):
    grid = (mo.ceil_div(src.shape[0], mo.size(LAYOUT, 0)), mo.ceil_div(src.shape[1], mo.size(LAYOUT, 1)))
    return kernel[grid, 32](mo.make_tma_copy(mo.TmaLoad(), src, LAYOUT), mo.make_tma_copy(mo.TmaStore(), dst, LAYOUT))


def main(M=2000, N=1000):
    data = np.random.default_rng(0).standard_normal((M, N), np.float32)
    dst = mo.testing.array(np.full_like(data, np.nan), arch="sm_90")
    copy(dst, mo.testing.array(data, arch="sm_90"))
    assert np.array_equal(mo.testing.host(dst), data)
    print(f"copied {M}x{N} float32 by TMA, tiles of {mo.size(LAYOUT, 0)}x{mo.size(LAYOUT, 1)}")


if __name__ == "__main__":
    main()
