"""A warp-specialised matrix product by TMA and wgmma, with a place for one fault; and smaller kernels with one.

In: ``fault``, the name of what is wrong ("" for nothing).  Out: kernels and their arguments.
"""

from __future__ import annotations

import numpy as np

import moye as mo

BM, BN, BK = 128, 128, 64
CONSUMERS, PRODUCER = 256, 256


def layouts(bM, bN, bK, stages, dtype=mo.bfloat16):
    atom = mo.smem_layout_atom(dtype, "k")
    return mo.tile_to_shape(atom, (bM, bK, stages)), mo.tile_to_shape(atom, (bN, bK, stages))


@mo.kernel
def gemm(C, A, B, mma, sA_layout, sB_layout, fault: mo.Constexpr = ""):
    """C = A * B^T: one warp loads, two warpgroups multiply, through a ring of stages."""
    stages = mo.size(sA_layout, 2)
    sA, sB = mo.shared_array(A.dtype, sA_layout), mo.shared_array(B.dtype, sB_layout)
    full, empty = mo.mbarrier_array(stages), mo.mbarrier_array(stages)
    tid, block = mo.thread_idx().x, mo.block_idx()
    bM, bN, bK = mo.size(sA_layout, 0), mo.size(sB_layout, 0), mo.size(sA_layout, 1)
    gA = mo.tile(A.tensor, (bM, bK), (block.x, None), ragged=True)      # (bM, bK, k)
    gB = mo.tile(B.tensor, (bN, bK), (block.y, None), ragged=True)      # (bN, bK, k)
    gC = mo.tile(C, (bM, bN), (block.x, block.y))
    tiles = mo.size(gA, 2)
    if tid == 0:
        for i in mo.static_range(stages):
            mo.mbarrier_init(full, i, 1)
            mo.mbarrier_init(empty, i, 3 if fault == "count" else 2)
        if fault != "init-fence":
            mo.fence_mbarrier_init()
    if fault != "init-barrier":
        mo.sync_threads()
    stage, phase = 0, 0
    if tid >= PRODUCER:
        mo.warpgroup_reg_dealloc(40)
        if (tid < PRODUCER + 32) if fault == "every-lane" else (tid == PRODUCER):
            for k in range(tiles):
                if fault != "no-empty-wait":
                    mo.mbarrier_wait(empty, stage, phase if fault == "producer-parity" else phase ^ 1)
                extra = -A.bytes if fault == "few-bytes" else 16 if fault == "many-bytes" else 0
                mo.mbarrier_arrive_expect_tx(full, stage, A.bytes + B.bytes + extra)
                mo.copyto(A, sA[:, :, stage], gA[:, :, k], barrier=(full, stage))
                mo.copyto(B, sB[:, :, stage], gB[:, :, k], barrier=(full, stage))
                stage += 1
                if stage == stages:
                    stage, phase = 0, phase ^ 1
    else:
        mo.warpgroup_reg_alloc(232)
        thr = mma.get_slice(tid % CONSUMERS)
        tCrA = thr.partition_fragment_A(sA)                             # (MMA, MMA_M, MMA_K, stages)
        tCrB = thr.partition_fragment_B(sB)                             # (MMA, MMA_N, MMA_K, stages)
        acc = mma.partition_fragment_C((bM, bN))
        for k in range(tiles + 1 if fault == "trips" else tiles):
            if fault != "no-full-wait":
                mo.mbarrier_wait(full, stage, phase ^ 1 if fault == "consumer-parity" else phase)
            if fault == "released-first" and tid % 128 == 0:
                mo.mbarrier_arrive(empty, stage)
            if fault != "no-arrive":
                mo.warpgroup_arrive()
            for kk in mo.static_range(mo.size(tCrA, 2)):
                first = True if fault == "first-k" else kk > 0 or k > 0
                mo.gemm(mma, tCrA[:, :, kk, stage], tCrB[:, :, kk, stage], acc, accumulate=first)
            mo.warpgroup_commit_batch()
            mo.warpgroup_wait(1 if fault == "early-release" else 0)
            if fault != "released-first" and tid % 128 == 0:
                mo.mbarrier_arrive(empty, stage)
            stage += 1
            if stage == stages:
                stage, phase = 0, phase ^ 1
        if fault != "early-release":
            mo.warpgroup_wait(0)
        mo.copyto(thr.partition_C(gC), acc)
        if fault == "early-release":
            mo.warpgroup_wait(0)


def run_gemm(shape, tile=(BM, BN, BK), stages=4, fault="", check=True, **options):
    """(report or None, C, expected in float64)."""
    (M, N, K), (bM, bN, bK) = shape, tile
    rng = np.random.default_rng(0)
    import ml_dtypes
    A, B = (rng.standard_normal((rows, K)).astype(ml_dtypes.bfloat16) for rows in (M, N))
    C = np.full((M, N), np.nan, np.float32)
    mma = mo.make_tiled_mma(mo.mma.wgmma(mo.bfloat16, mo.bfloat16, mo.float32, bN), mo.make_layout((2, 1)))
    sA, sB = layouts(bM, bN, bK, stages)
    copies = [mo.make_tma_copy(mo.TmaLoad(), x, mo.tile_to_shape(mo.smem_layout_atom(mo.bfloat16, "k"), (rows, bK)))
              for x, rows in ((A, bM), (B, bN))]
    arguments = (C, *copies, mma, sA, sB, fault)
    grid = (M // bM, N // bN)
    expected = A.astype(np.float64) @ B.astype(np.float64).T
    if check:
        return mo.check(gemm, **options)[grid, CONSUMERS + 128](*arguments), C, expected
    gemm[grid, CONSUMERS + 128](*arguments)
    return None, C, expected


@mo.kernel
def stores(target, fault: mo.Constexpr = ""):
    """Two tiles of (32, 32) float32 through one buffer: all 64 threads write, thread 0 stores."""
    smem = mo.shared_array(target.dtype, target.smem_layout)
    tid = mo.thread_idx().x
    gC = mo.tile(target.tensor, target.tile, (None, 0))                 # (32, 32, 2)
    for turn in mo.static_range(2):
        for i in range(tid, 1024, 64):
            smem[i] = mo.float32(1000 * turn) + i
        if fault not in ("no-fence", "late-fence") and (fault != "other-fence" or tid == 0):
            mo.fence_proxy_async()
        mo.sync_threads()
        if fault == "late-fence":
            mo.fence_proxy_async()
        if tid == 0:
            mo.copyto(target, gC[:, :, turn], smem)
            if fault != "no-commit":
                mo.tma_store_arrive()
            if fault not in ("no-wait", "other-wait") and (turn == 0 or fault != "no-last-wait"):
                mo.tma_store_wait(0, read=True)
        if fault == "other-wait" and tid == 1:
            mo.tma_store_wait(0, read=True)
        if fault != "no-barrier":
            mo.sync_threads()


def run_stores(fault="", **options):
    C = np.full((64, 32), np.nan, np.float32)
    copy = mo.make_tma_copy(mo.TmaStore(), C, mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (32, 32)))
    tile = np.arange(1024, dtype=np.float32).reshape(32, 32, order="F")
    return mo.check(stores, lints=False, **options)[1, 64](copy, fault), C, np.concatenate([tile, tile + 1000])


@mo.kernel
def loads(out, source, fault: mo.Constexpr = ""):
    """Two tiles of (32, 32) float32 through one buffer: thread 0 loads, all 64 threads read."""
    smem, bars = mo.shared_array(source.dtype, source.smem_layout), mo.mbarrier_array(1)
    tid = mo.thread_idx().x
    gA = mo.tile(source.tensor, source.tile, (None, 0))                 # (32, 32, 2)
    if tid == 0:
        mo.mbarrier_init(bars, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    for turn in mo.static_range(2):
        if tid == 0:
            if fault != "no-expect":
                mo.mbarrier_arrive_expect_tx(bars, 0, source.bytes)
            mo.copyto(source, smem, gA[:, :, turn], barrier=(bars, 0))
            if fault == "init-again":
                mo.mbarrier_init(bars, 0, 1)
        if fault == "stored" and tid == 32:
            bars[0] = mo.uint64(0)
        if fault != "no-wait" and (fault != "one-waits" or tid == 0):
            mo.mbarrier_wait(bars, 0, turn)
        for i in range(tid, 1024, 64):
            out[i, turn] = smem[i]
        if fault == "overwrite":
            smem[tid] = mo.float32(0)
        if fault not in ("no-barrier", "overwrite"):
            mo.sync_threads()


def run_loads(fault="", **options):
    A = np.random.default_rng(3).standard_normal((64, 32)).astype(np.float32)
    out = np.full((1024, 2), np.nan, np.float32, order="F")
    copy = mo.make_tma_copy(mo.TmaLoad(), A, mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (32, 32)))
    expected = np.stack([A[:32].ravel("F"), A[32:].ravel("F")], axis=1)
    return mo.check(loads, lints=False, **options)[1, 64](out, copy, fault), out, expected


@mo.kernel
def registers(C: mo.Static, A: mo.Static, B: mo.Static, mma, sB_layout, fault: mo.Constexpr = ""):
    """C = A * B^T of one warpgroup with A in registers and B in shared memory."""
    sB = mo.shared_array(B.dtype, sB_layout)
    tid = mo.thread_idx().x
    threads = mo.make_layout((8, 16))
    mo.copyto(mo.parallelize(sB, threads, tid), mo.parallelize(B, threads, tid))
    if fault != "no-fence":
        mo.fence_proxy_async()
    mo.sync_threads()
    thr = mma.get_slice(tid)
    tCgA = thr.partition_A(A)
    tCrA = thr.make_fragment_A(tCgA)
    mo.copyto(tCrA, tCgA)
    acc = mma.partition_fragment_C((64, mo.size(sB_layout, 0)))
    if fault == "touched":
        mo.warpgroup_arrive()
        acc.fill(0)
    else:
        mo.warpgroup_arrive()
    if fault != "one-warp" or tid < 32:
        mo.gemm(mma, tCrA, thr.partition_fragment_B(sB), acc, accumulate=fault == "touched")
    if fault == "changed":
        tCrA.fill(0)
    mo.warpgroup_commit_batch()
    if fault == "refilled":
        sB[tid, 0] = B.dtype(0)
    if fault != "no-wait":
        mo.warpgroup_wait(0)
    if fault != "unread":
        mo.copyto(thr.partition_C(C), acc)


def run_registers(fault="", **options):
    rng = np.random.default_rng(5)
    A, B = rng.standard_normal((64, 64)).astype(np.float16), rng.standard_normal((128, 64)).astype(np.float16)
    C = np.full((64, 128), np.nan, np.float32)
    mma = mo.make_tiled_mma(mo.mma.wgmma(mo.float16, mo.float16, mo.float32, 128, a_source="registers"))
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float16, "k"), (128, 64))
    report = mo.check(registers, lints=False, **options)[1, 128](C, A, B, mma, layout, fault)
    return report, C, A.astype(np.float64) @ B.astype(np.float64).T


@mo.kernel
def persistent(C, A, B, mma, sA_layout, sB_layout, rows, columns, tiles):
    """Each block takes every ``grid``-th tile of C; one elected thread loads ahead of two warpgroups that multiply.

    Tiles of C leave through shared memory by TMA, the next mainloop runs meanwhile.
    """
    stages = mo.size(sA_layout, 2)
    sA, sB = mo.shared_array(A.dtype, sA_layout), mo.shared_array(B.dtype, sB_layout)
    sC = mo.shared_array(C.dtype, C.smem_layout)
    full, empty = mo.mbarrier_array(stages), mo.mbarrier_array(stages)
    tid, grid = mo.thread_idx().x, mo.grid_dim().x
    bM, bN, bK = mo.size(sA_layout, 0), mo.size(sB_layout, 0), mo.size(sA_layout, 1)
    gA = mo.tile(A.tensor, (bM, bK), (None, None), ragged=True)         # (bM, bK, m, k)
    gB = mo.tile(B.tensor, (bN, bK), (None, None), ragged=True)         # (bN, bK, n, k)
    gC = mo.tile(C.tensor, (bM, bN), (None, None), ragged=True)         # (bM, bN, m, n)
    if mo.warp_idx() == 0 and mo.elect():
        for i in mo.static_range(stages):
            mo.mbarrier_init(full, i, 1)
            mo.mbarrier_init(empty, i, 2)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    stage, phase = 0, 0
    if mo.warpgroup_idx() == 0:
        mo.warpgroup_reg_dealloc(40)
        if mo.warp_idx() == 0 and mo.elect():
            tile = mo.block_idx().x
            while tile < rows * columns:
                for k in range(tiles):
                    mo.mbarrier_wait(empty, stage, phase ^ 1)
                    mo.mbarrier_arrive_expect_tx(full, stage, A.bytes + B.bytes)
                    mo.copyto(A, sA[:, :, stage], gA[:, :, tile % rows, k], barrier=(full, stage))
                    mo.copyto(B, sB[:, :, stage], gB[:, :, tile // rows, k], barrier=(full, stage))
                    stage += 1
                    if stage == stages:
                        stage, phase = 0, phase ^ 1
                tile += grid
    else:
        mo.warpgroup_reg_alloc(232)
        thread = tid % 128 + 128 * ((mo.warpgroup_idx() - 1) % 2)
        thr = mma.get_slice(thread)
        tCrA = thr.partition_fragment_A(sA)
        tCrB = thr.partition_fragment_B(sB)
        acc = mma.partition_fragment_C((bM, bN))
        tile = mo.block_idx().x
        while tile < rows * columns:
            before = stage
            for k in range(tiles):
                mo.mbarrier_wait(full, stage, phase)
                mo.warpgroup_arrive()
                mo.gemm(mma, tCrA[:, :, :, stage], tCrB[:, :, :, stage], acc, accumulate=k > 0)
                mo.warpgroup_commit_batch()
                mo.warpgroup_wait(1)
                if k > 0 and tid % 128 == 0:
                    mo.mbarrier_arrive(empty, before)
                before = stage
                stage += 1
                if stage == stages:
                    stage, phase = 0, phase ^ 1
            mo.warpgroup_wait(0)
            if tid % 128 == 0:
                mo.mbarrier_arrive(empty, before)
            if thread == 0:
                mo.tma_store_wait(0, read=True)
            mo.barrier_sync(1, 256)
            mo.copyto(thr.partition_C(sC), acc)
            mo.fence_proxy_async()
            mo.barrier_sync(1, 256)
            if thread == 0:
                mo.copyto(C, gC[:, :, tile % rows, tile // rows], sC)
                mo.tma_store_arrive()
            tile += grid
        if thread == 0:
            mo.tma_store_wait(0)


def run_persistent(shape, grid, stages=3, **options):
    import ml_dtypes
    (M, N, K), (bM, bN, bK) = shape, (128, 64, 64)
    rng = np.random.default_rng(0)
    A, B = (rng.standard_normal((rows, K)).astype(ml_dtypes.bfloat16) for rows in (M, N))
    C = np.full((M, N), np.nan, np.float32)
    mma = mo.make_tiled_mma(mo.mma.wgmma(mo.bfloat16, mo.bfloat16, mo.float32, bN), mo.make_layout((2, 1)))
    atom = mo.smem_layout_atom(mo.bfloat16, "k")
    loads_ = [mo.make_tma_copy(mo.TmaLoad(), x, mo.tile_to_shape(atom, (rows, bK))) for x, rows in ((A, bM), (B, bN))]
    store = mo.make_tma_copy(mo.TmaStore(), C, mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (bM, bN)))
    arguments = (store, *loads_, mma, *layouts(bM, bN, bK, stages), -(-M // bM), -(-N // bN), -(-K // bK))
    return mo.check(persistent, lints=False, **options)[grid, 384](*arguments), C, \
        A.astype(np.float64) @ B.astype(np.float64).T
