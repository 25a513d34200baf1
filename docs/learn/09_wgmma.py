# %% [markdown]
# # 9. wgmma and warp roles
#
# On Hopper, four warps multiply together: a *warpgroup* of 128 threads. `wgmma` reads A and B straight from shared
# memory, and runs asynchronously: the threads go on while it works. Two things follow. There are no fragments of A and
# B to fill. And you must wait before you touch the accumulators, or write to the tiles again.

# %%
import numpy as np

import moye as mo

op = mo.mma.SM90_64x128x16_F32F16F16_SS
print(op, op.shape_mnk, op.threads)


@mo.kernel
def one_tile(A, B, C, smem_A, smem_B, mma):
    tid = mo.thread_idx().x
    sA, sB = mo.shared_array(A.dtype, smem_A), mo.shared_array(B.dtype, smem_B)     # (64, 64), (128, 64)
    full = mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(full, 0, A.bytes + B.bytes)
        mo.copyto(A, sA, mo.tile(A.tensor, (64, 64), (0, 0)), barrier=(full, 0))
        mo.copyto(B, sB, mo.tile(B.tensor, (128, 64), (0, 0)), barrier=(full, 0))
    mo.sync_threads()
    mo.mbarrier_wait(full, 0, 0)

    thr_mma = mma.get_slice(tid)
    tCrA = thr_mma.partition_fragment_A(sA)             # (MMA, MMA_M, MMA_K): descriptors of shared memory
    tCrB = thr_mma.partition_fragment_B(sB)             # (MMA, MMA_N, MMA_K)
    tCgC = thr_mma.partition_C(mo.tile(C, (64, 128), (0, 0)))       # (MMA, MMA_M, MMA_N)
    tCrC = thr_mma.make_fragment_C(tCgC)                # (MMA, MMA_M, MMA_N): registers
    mo.warpgroup_arrive()                               # registers and shared memory are ready
    for k in mo.static_range(mo.size(tCrA, 2)):
        mo.gemm(mma, tCrA[:, :, k], tCrB[:, :, k], tCrC, accumulate=k > 0)          # the first one overwrites
    mo.warpgroup_commit_batch()                         # these products are a group
    mo.warpgroup_wait(0)                                # no group is open: the accumulators may be read
    mo.copyto(tCgC, tCrC)


rng = np.random.default_rng(0)
A, B = (rng.standard_normal((rows, 64)).astype(np.float16) for rows in (64, 128))
C = np.full((64, 128), np.nan, np.float32)
atom = mo.smem_layout_atom(mo.float16, "k")             # the swizzle that TMA writes and wgmma reads
lay_A, lay_B = mo.tile_to_shape(atom, (64, 64)), mo.tile_to_shape(atom, (128, 64))
loads = mo.make_tma_copy(mo.TmaLoad(), A, lay_A), mo.make_tma_copy(mo.TmaLoad(), B, lay_B)
report = mo.check(one_tile)[1, 128](*loads, C, lay_A, lay_B, mo.make_tiled_mma(op))
print(report.head, " right:", np.allclose(C, A.astype(np.float64) @ B.T.astype(np.float64), atol=1e-3))

# %% [markdown]
# Take out `mo.warpgroup_wait(0)`, and the copy of C reads registers that are still being written:

# %%
@mo.kernel
def impatient(A, B, C, smem_A, smem_B, mma):
    tid = mo.thread_idx().x
    sA, sB = mo.shared_array(A.dtype, smem_A), mo.shared_array(B.dtype, smem_B)     # (64, 64), (128, 64)
    full = mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(full, 0, A.bytes + B.bytes)
        mo.copyto(A, sA, mo.tile(A.tensor, (64, 64), (0, 0)), barrier=(full, 0))
        mo.copyto(B, sB, mo.tile(B.tensor, (128, 64), (0, 0)), barrier=(full, 0))
    mo.sync_threads()
    mo.mbarrier_wait(full, 0, 0)
    thr_mma = mma.get_slice(tid)
    tCrA, tCrB = thr_mma.partition_fragment_A(sA), thr_mma.partition_fragment_B(sB)     # descriptors
    tCgC = thr_mma.partition_C(mo.tile(C, (64, 128), (0, 0)))       # (MMA, MMA_M, MMA_N)
    tCrC = thr_mma.make_fragment_C(tCgC)                # (MMA, MMA_M, MMA_N)
    mo.warpgroup_arrive()
    for k in mo.static_range(mo.size(tCrA, 2)):
        mo.gemm(mma, tCrA[:, :, k], tCrB[:, :, k], tCrC, accumulate=k > 0)
    mo.warpgroup_commit_batch()
    mo.copyto(tCgC, tCrC)


print(mo.check(impatient)[1, 128](*loads, C, lay_A, lay_B, mo.make_tiled_mma(op)).findings[0])

# %% [markdown]
# ## Roles
#
# Tensor cores are so fast that one warpgroup cannot both multiply and keep the copies going. So the block is divided by
# *roles*. One warp loads, two warpgroups multiply. They meet at mbarriers, two for each stage: *full* (the bytes are
# there) and *empty* (the products that read them are done). `mo.PipelineTma` has both. This is [example
# 17](../../examples/17_matmul_warp_specialized.py) with a plain store at the end.

# %%
BM, BN, BK, STAGES, CONSUMERS = 128, 128, 64, 4, 256


@mo.jit
def produce(A, B, sA, sB, pipe):
    bx, by, _ = mo.block_idx()
    gA = mo.tile(A.tensor, (BM, BK), (bx, None))                        # (BM, BK, k), coordinates in A
    gB = mo.tile(B.tensor, (BN, BK), (by, None))                        # (BN, BK, k)
    state = pipe.producer_start()
    for k in range(mo.size(gA, 2)):
        pipe.producer_acquire(state)                    # the stage is empty; expect the bytes of both tiles
        mo.copyto(A, sA[:, :, state.stage], gA[:, :, k], barrier=pipe.barrier(state))
        mo.copyto(B, sB[:, :, state.stage], gB[:, :, k], barrier=pipe.barrier(state))
        state = state.next()


@mo.jit
def consume(mma, gC, sA, sB, pipe, k_tiles):
    tid = mo.thread_idx().x
    thr_mma = mma.get_slice(tid % CONSUMERS)
    tCrA, tCrB = thr_mma.partition_fragment_A(sA), thr_mma.partition_fragment_B(sB)     # (MMA, MMA_M, MMA_K, stages)
    tCgC = thr_mma.partition_C(gC)                      # (MMA, MMA_M, MMA_N)
    tCrC = thr_mma.make_fragment_C(tCgC)                # (MMA, MMA_M, MMA_N)
    state = pipe.consumer_start()
    before = state
    for k in range(k_tiles):
        pipe.consumer_wait(state)                       # the stage is full
        mo.warpgroup_arrive()
        for kk in mo.static_range(mo.size(tCrA, 2)):
            mo.gemm(mma, tCrA[:, :, kk, state.stage], tCrB[:, :, kk, state.stage], tCrC, accumulate=kk > 0 or k > 0)
        mo.warpgroup_commit_batch()
        mo.warpgroup_wait(1)                            # the products of the stage before are done
        if k > 0 and tid % 128 == 0:
            pipe.consumer_release(before)               # so that stage is empty, for this warpgroup
        before, state = state, state.next()
    mo.warpgroup_wait(0)
    mo.copyto(tCgC, tCrC)


@mo.kernel
def matmul(A, smem_A, B, smem_B, C, mma, K):
    bx, by, _ = mo.block_idx()
    gC = mo.tile(C, (BM, BN), (bx, by))                 # (BM, BN)
    sA, sB = mo.shared_array(A.dtype, smem_A), mo.shared_array(B.dtype, smem_B)     # (BM, BK, stages), (BN, BK, stages)
    pipe = mo.PipelineTma(STAGES, A.bytes + B.bytes, consumers=2)
    pipe.init()
    mo.sync_threads()                                   # the last barrier of the whole block
    if mo.warpgroup_idx() == 2:
        mo.warpgroup_reg_dealloc(40)                    # registers that the other two take
        if mo.warp_idx() == CONSUMERS // 32 and mo.elect():
            produce(A, B, sA, sB, pipe)
    else:
        mo.warpgroup_reg_alloc(232)
        consume(mma, gC, sA, sB, pipe, mo.ceil_div(K, BK))


M, N, K = 128, 128, 512
A, B = (rng.standard_normal((rows, K)).astype(np.float16) for rows in (M, N))
C = np.full((M, N), np.nan, np.float32)
smem_A, smem_B = (mo.tile_to_shape(atom, (rows, BK, STAGES)) for rows in (BM, BN))
tile_A, tile_B = (mo.tile_to_shape(atom, (rows, BK)) for rows in (BM, BN))
loads = mo.make_tma_copy(mo.TmaLoad(), A, tile_A), mo.make_tma_copy(mo.TmaLoad(), B, tile_B)
mma = mo.make_tiled_mma(op, mo.make_layout((2, 1)))     # two warpgroups, one above the other
report = mo.check(matmul, timeline=True)[(1, 1), 384](loads[0], smem_A, loads[1], smem_B, C, mma, K)
exact = A.astype(np.float64) @ B.T.astype(np.float64)
print(report.head, " relative error below 1e-6:", np.linalg.norm(C - exact) < 1e-6 * np.linalg.norm(exact))
print("overlap:", report.timeline().overlap())
report.timeline()

# %% [markdown]
# Warp 8 loads, and is as far ahead as the ring allows. Warps 0 to 7 multiply. All products but those of the last tile
# run beside a load.
#
# The register budget is a part of the roles: a loader needs 40 registers, an accumulator of 64 x 128 needs many.
# `warpgroup_reg_dealloc` and `warpgroup_reg_alloc` move them.
#
# ## What you have now
#
# * `wgmma`: arrive, multiply, commit, wait. Operands lie in shared memory, in a layout of `mo.smem_layout_atom`.
# * A producer warp and consumer warpgroups, which meet at a full and an empty barrier of each stage.
#
# **Try:** release `state` in place of `before`, from the first step on (`if tid % 128 == 0`). Which code does the
# checker report, and why is it right?
#
# [Puzzles 33 to 34](../puzzles.md) go with this chapter: `moye puzzles start 33`.
#
# `moye.kernels.gemm_sm90` is this kernel with persistent blocks, stores by TMA, and epilogues. Next: [attention in
# steps](10_attention.md).
