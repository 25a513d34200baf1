"""C = A * B^T near the speed of cuBLAS: blocks that stay (persistent), and two warpgroups that take turns (ping-pong).

bfloat16, sums in float32.  In example 17 a block has one tile: nothing is multiplied while it stores, nor while the
next block begins.  Here one block a multiprocessor takes tile after tile, and each warpgroup has a tile of its own:
while one stores, the other multiplies, and the warp that loads is already ahead with the tile after.
`mo.kernels.gemm_sm90` has more choices.  Rows are multiples of 16 bytes; 8192^3, the size on a GPU, has whole tiles.
"""

import numpy as np

import moye as mo

BM, BN, BK, STAGES = 128, 128, 64, 5
GROUP, THREADS = 128, 384                               # a warpgroup; two multiply, a thread of the third loads
STORE, TURN = 1, 3                                      # named barriers of warpgroup g: STORE + g and TURN + g


@mo.jit
def produce(A, B, sA, sB, pipe, sched, k_tiles):
    """All tiles of the block, one stage after the other: the ring knows no tiles, so the next one is loaded early."""
    gA = mo.tile(A.tensor, (BM, BK), (None, None), ragged=True)         # (BM, BK, m, k), coordinates in A
    gB = mo.tile(B.tensor, (BN, BK), (None, None), ragged=True)         # (BN, BK, n, k)
    state = pipe.producer_start()
    for tile in range(sched.first, sched.tiles, sched.step):
        m, n, _ = sched.coordinates(tile)               # neighbours in time share rows of A or B, which L2 then has
        for k in range(k_tiles):
            pipe.producer_acquire(state)
            mo.copyto(A, sA[:, :, state.stage], gA[:, :, m, k], barrier=pipe.barrier(state))
            mo.copyto(B, sB[:, :, state.stage], gB[:, :, n, k], barrier=pipe.barrier(state))
            state = state.next()


@mo.jit
def multiply(mma, tCrA, tCrB, acc, pipe, state, k_tiles):
    """acc = A * B for one tile, and the state after it.  Example 17 has this loop, too."""
    lane, before = mo.thread_idx().x % GROUP, state
    for k in range(k_tiles):
        pipe.consumer_wait(state)
        mo.warpgroup_arrive()
        for kk in mo.static_range(mo.size(tCrA, 2)):
            mo.gemm(mma, tCrA[:, :, kk, state.stage], tCrB[:, :, kk, state.stage], acc, accumulate=kk > 0 or k > 0)
        mo.warpgroup_commit_batch()
        mo.warpgroup_wait(1)                            # the products of the stage before are done
        if k > 0 and lane == 0:
            pipe.consumer_release(before)
        before, state = state, state.next()
    # Hand over before the last products are done: those of the other group follow them without a gap.
    mo.barrier_arrive(TURN + 1 - mo.warpgroup_idx(), 2 * GROUP)
    mo.warpgroup_wait(0)
    if lane == 0:
        pipe.consumer_release(before)
    return state


@mo.jit
def store(C, sC, copy_C, acc, m, n):
    """Through the warpgroup's own shared memory: it waits for a store only before it writes there again."""
    lane, group = mo.thread_idx().x % GROUP, mo.warpgroup_idx()
    thr_copy, rounded = copy_C.get_slice(lane), acc.to(C.dtype)         # (MMA, MMA_M, MMA_N)
    if lane == 0:
        mo.tma_store_wait(0)                            # only the thread that stored can wait for its store,
    mo.barrier_sync(STORE + group, GROUP)               # so all of them wait for that thread
    mo.copyto(copy_C, thr_copy.partition_D(sC), thr_copy.retile_S(rounded))
    mo.fence_proxy_async()                              # what this thread wrote is visible to TMA,
    mo.barrier_sync(STORE + group, GROUP)               # and now what all of them wrote
    if lane == 0:
        gC = mo.tile(C.tensor, (BM, BN), (None, None), ragged=True)     # (BM, BN, m, n)
        mo.copyto(C, gC[:, :, m, n], sC)
        mo.tma_store_arrive()


@mo.jit
def consume(C, sA, sB, sC, mma, copy_C, pipe, sched, k_tiles):
    """Every other tile of the block: even ones are warpgroup 0's, odd ones warpgroup 1's."""
    lane, group = mo.thread_idx().x % GROUP, mo.warpgroup_idx()
    thr_mma = mma.get_slice(lane)
    tCrA = thr_mma.partition_fragment_A(sA)             # (MMA, MMA_M, MMA_K, stages): descriptors of shared memory
    tCrB = thr_mma.partition_fragment_B(sB)             # (MMA, MMA_N, MMA_K, stages)
    state = pipe.consumer_start()
    if group == 1:
        mo.barrier_arrive(TURN, 2 * GROUP)              # warpgroup 0 has the first turn,
        state = state.advance(k_tiles)                  # and the stages of the first tile
    for tile in range(sched.first + group * sched.step, sched.tiles, 2 * sched.step):
        m, n, _ = sched.coordinates(tile)
        acc = mma.partition_fragment_C((BM, BN))        # (MMA, MMA_M, MMA_N): 128 registers a thread
        mo.barrier_sync(TURN + group, 2 * GROUP)        # 128 threads wait; the 128 that arrive have handed over
        state = multiply(mma, tCrA, tCrB, acc, pipe, state, k_tiles)
        state = state.advance(k_tiles)                  # past the stages that the other group reads meanwhile
        store(C, sC[:, :, group], copy_C, acc, m, n)
    if lane == 0:
        mo.tma_store_wait(0)                            # shared memory is freed with the block


@mo.kernel
def matmul_kernel(A, sA_layout, B, sB_layout, C, sC_layout, mma, copy_C, M, N, K):
    sA = mo.shared_array(A.dtype, sA_layout)            # (BM, BK, stages)
    sB = mo.shared_array(B.dtype, sB_layout)            # (BN, BK, stages)
    sC = mo.shared_array(C.dtype, sC_layout)            # (BM, BN, 2): one for each warpgroup
    pipe = mo.PipelineTma(STAGES, A.bytes + B.bytes, consumers=1)       # only one warpgroup reads a stage
    pipe.init()
    mo.sync_threads()
    sched, k_tiles = mo.PersistentTileScheduler(mo.ceil_div(M, BM), mo.ceil_div(N, BN)), mo.ceil_div(K, BK)
    if mo.warpgroup_idx() == 2:
        mo.warpgroup_reg_dealloc(24)                    # of 168 registers each, 144 go to
        if mo.warp_idx() == 8 and mo.elect():
            produce(A, B, sA, sB, pipe, sched, k_tiles)
    else:
        mo.warpgroup_reg_alloc(240)                     # those who hold the sums
        consume(C, sA, sB, sC, mma, copy_C, pipe, sched, k_tiles)


ATOM = mo.smem_layout_atom(mo.bfloat16, "k")            # rows of 128 bytes, swizzled as TMA and wgmma have it
SA, SB, SC = (mo.tile_to_shape(ATOM, shape) for shape in ((BM, BK, STAGES), (BN, BK, STAGES), (BM, BN, 2)))
TILE_A, TILE_B, TILE_C = (mo.tile_to_shape(ATOM, shape) for shape in ((BM, BK), (BN, BK), (BM, BN)))
MMA = mo.make_tiled_mma(mo.mma.wgmma(mo.bfloat16, mo.bfloat16, mo.float32, BN))         # one warpgroup has a tile
COPY_C = mo.make_tiled_copy_C(mo.CopyAtom(mo.StMatrix(4), mo.bfloat16), MMA)


def matmul(A, B, C, blocks=132, kernel=matmul_kernel):
    """``blocks``: no more than multiprocessors, so that all of them run at once."""
    (M, K), N = A.shape, B.shape[0]
    tma_A, tma_B = mo.make_tma_copy(mo.TmaLoad(), A, TILE_A), mo.make_tma_copy(mo.TmaLoad(), B, TILE_B)
    tma_C = mo.make_tma_copy(mo.TmaStore(), C, TILE_C)
    grid = min(blocks, mo.ceil_div(M, BM) * mo.ceil_div(N, BN))
    return kernel[grid, THREADS](tma_A, SA, tma_B, SB, tma_C, SC, MMA, COPY_C, M, N, K)


def main(M=0, N=0, K=0, blocks=132):
    gpu = mo.testing.device("sm_90a")
    M, N, K = (n or (8192 if gpu else 512) for n in (M, N, K))
    rng = np.random.default_rng(0)
    a, b = (mo.testing.array(rng.standard_normal((n, K), np.float32), mo.bfloat16, arch="sm_90a") for n in (M, N))
    c = mo.testing.array(np.full((M, N), np.nan), mo.bfloat16, arch="sm_90a")
    matmul(a, b, c, blocks)
    rows = slice(0, 512)                                # in float64 all rows would take minutes
    A, B, C = (mo.testing.host(x).astype(np.float64) for x in (a[rows], b, c[rows]))
    expected = A @ B.T
    error = np.linalg.norm(C - expected) / np.linalg.norm(expected)
    assert error < 3e-3, f"relative error {error:.1e}"
    print(f"matmul {M}x{N}x{K}, persistent and in turns: relative error {error:.1e} against float64")
    if gpu:
        ways = {"moye": lambda: matmul(a, b, c, blocks)}
        if hasattr(a, "is_cuda"):                       # torch is there, and cuBLAS with it
            ways["cuBLAS"] = lambda: a @ b.T
        for name, ms in mo.testing.interleave(ways, rounds=50).items():
            print(f"{name}: {2 * M * N * K / ms / 1e9:.0f} TFLOP/s")


if __name__ == "__main__":
    main()
