"""Kernels that change tensor maps: arrays behind addresses, groups of rows, a grouped product of pointers.

In: nothing.  Out: kernels, and functions that make their arguments and say what is expected.

``wrong`` leaves out a step: the checker finds each (``tests/sim/checks/test_map_order.py``).  With "" they are right,
in the simulator and on a device (``tests/gpu/test_device_maps_gpu.py``).
"""

from __future__ import annotations

import math

import numpy as np

import moye as mo

BLOCK, ROWS, COLUMNS = 64, 16, 32
LAYOUT = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (ROWS, COLUMNS))


def places(*shape):
    """Zeros for tensor maps, (*shape, 16) of int64, at a multiple of 128 bytes, as memory of a device begins."""
    raw = np.zeros(math.prod(shape) * 16 + 16, np.int64)
    return raw[-raw.ctypes.data % 128 // 8:][:math.prod(shape) * 16].reshape(*shape, 16)


@mo.jit
def begin(full):
    """One mbarrier for one arrival."""
    if mo.thread_idx().x == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()


# --- arrays behind addresses -----------------------------------------------------------------------------------------


@mo.kernel
def gathered_kernel(out, tma, workspace, addresses, rows, wrong: mo.Constexpr):
    """The first tile of each array (rows[i], 32), whose address is addresses[i], one after the other: out is
    (elements, arrays).  The map is changed while nobody copies by it."""
    smem, full, maps = mo.shared_array(tma.dtype, LAYOUT), mo.mbarrier_array(1), mo.tensormap_array(1)
    tid, phase = mo.thread_idx().x, 0
    slot = workspace[mo.block_idx().x, :]
    begin(full)
    for i in range(mo.size(addresses)):
        if mo.warp_idx() == 0:
            if mo.elect():
                if i == 0 and wrong != "copy":
                    mo.copy_tensormap(maps[:, 0], tma)
                mo.update_tensormap(tma, maps[:, 0], address=addresses[i], shape=(rows[i], COLUMNS),
                                    strides=(COLUMNS, 1))
            if wrong != "sync":
                mo.sync_warp()
            if wrong != "release":
                mo.release_tensormap(slot, maps[:, 0])
            if wrong != "acquire" and (wrong != "once" or i == 0):
                mo.acquire_tensormap(slot)
            if mo.elect():
                mapped = tma.at(slot, (rows[i], COLUMNS))
                mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
                mo.copyto(mapped, smem, mo.tile(mapped.tensor, tma.tile, (0, 0)), barrier=(full, 0))
        if wrong != "flying":
            mo.mbarrier_wait(full, 0, phase)
            for j in range(tid, mo.size(smem), BLOCK):
                out[j, i] = smem[j]
        phase = 1 - phase
        mo.sync_threads()
    if wrong == "flying":
        mo.mbarrier_wait(full, 0, 0)


COUNTS = (5, 16, 11)


def arrays(seed=0, counts=COUNTS):
    """Arrays of so many rows."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((n, COLUMNS)).astype(np.float32) for n in counts]


def gathered(found):
    """What ``gathered_kernel`` gives of these arrays."""
    expected = np.zeros((len(found), COLUMNS, ROWS), np.float32)
    for i, array in enumerate(found):
        expected[i, :, :len(array)] = array.T
    return expected.reshape(len(found), -1).T


def gathered_call(wrong="", found=None, given=None):
    """The arguments of ``gathered_kernel`` for NumPy arrays, whose addresses may be other ones."""
    found = arrays() if found is None else found
    given = mo.addresses(found) if given is None else given
    return [np.full((len(found), ROWS * COLUMNS), 7, np.float32).T, mo.make_tma_copy(mo.TmaLoad(), found[0], LAYOUT),
            places(1), given, np.array([len(x) for x in found], np.int32), wrong]


# --- arrays of any strides -------------------------------------------------------------------------------------------


@mo.kernel
def tile_kernel(out, tma, x, workspace, at: mo.Constexpr, by: mo.Constexpr):
    """The tile of x at a coordinate, in the order of its coordinates, by a map that began as another array's."""
    smem, full, maps = mo.shared_array(tma.dtype, tma.smem_layout), mo.mbarrier_array(1), mo.tensormap_array(2)
    tid, slot = mo.thread_idx().x, workspace[0, 1, :]
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
        mo.copy_tensormap(maps[:, 1], tma)
        if by == "tensor":
            mo.update_tensormap(tma, maps[:, 1], x)
        else:
            modes = range(mo.rank(x))
            mo.update_tensormap(tma, maps[:, 1], address=workspace[0, 0, 0],
                                shape=tuple(mo.size(x, mode) for mode in modes),
                                strides=tuple(x.layout.stride[mode] for mode in modes))
    mo.sync_warp()
    mo.release_tensormap(slot, maps[:, 1])
    mo.acquire_tensormap(slot)
    if tid == 0:
        mapped = tma.at(slot, tuple(mo.size(x, mode) for mode in range(mo.rank(x))))
        tile = mo.tile(mapped.tensor, tma.tile, at)
        mo.prefetch(mapped, tile)
        mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
        mo.copyto(mapped, smem, tile, barrier=(full, 0))
    mo.sync_warp()
    mo.mbarrier_wait(full, 0, 0)
    for i in range(tid, mo.size(smem), 32):
        out[i] = smem[i]


def drawn(seed):
    """An array to begin with, another one of that rank and with gaps between rows, a tile's layout, its coordinate."""
    rng = np.random.default_rng(seed)
    rank, first = int(rng.integers(2, 5)), int(rng.integers(0, 2))
    tile = [int(rng.choice([1, 2, 4])) for _ in range(rank)]
    tile[first] = 8

    def array(most):
        shape = [int(n) for n in rng.integers(1, most, rank)]
        order = [first, *rng.permutation([mode for mode in range(rank) if mode != first]).tolist()]
        wide = [-(-shape[mode] // 4) * 4 + 4 * int(rng.integers(0, 2)) if mode == first else shape[mode]
                for mode in order]
        whole = rng.standard_normal(wide[::-1]).astype(np.float32)
        found = whole.transpose(np.argsort(order[::-1]))
        return found[tuple(slice(n) for n in shape)]

    x = array(14)
    strides, step = [0] * rank, 1
    for mode in [first, *(mode for mode in range(rank) if mode != first)]:
        strides[mode], step = step, step * tile[mode]
    at = tuple(int(rng.integers(0, -(-n // t) + 1)) for n, t in zip(x.shape, tile, strict=True))
    return array(9), x, mo.make_layout(tuple(tile), tuple(strides)), at


def tile_of(x, tile, at):
    """The tile of an array, in the order of its coordinates, with zeros beyond the array."""
    padded = np.zeros([(i + 1) * t for i, t in zip(at, tile, strict=True)], np.float32)
    inside = tuple(slice(min(n, m)) for n, m in zip(padded.shape, x.shape, strict=True))
    padded[inside] = x[inside]
    return padded[tuple(slice(i * t, None) for i, t in zip(at, tile, strict=True))].ravel("F")


# --- groups of rows --------------------------------------------------------------------------------------------------


@mo.kernel
def clipped_kernel(tma_dst, dst, src, offsets, workspace, value):
    """Rows offsets[g] to offsets[g + 1] of dst become those of src plus a value, tile by tile: a block a group.

    A tile that reaches past its group is cut off by the group's own tensor map.
    """
    smem, maps = mo.shared_array(dst.dtype, LAYOUT), mo.tensormap_array(1)
    tid, g = mo.thread_idx().x, mo.block_idx().x
    first, last = offsets[g], offsets[g + 1]
    slot = workspace[g, :]
    if mo.warp_idx() == 0:
        if mo.elect():
            mo.copy_tensormap(maps[:, 0], tma_dst)
            group = mo.make_layout((mo.max(last - first, 1), COLUMNS), (COLUMNS, 1))    # maps have no extents of 0
            mo.update_tensormap(tma_dst, maps[:, 0], dst[first, :].with_layout(group))
        mo.sync_warp()
        mo.release_tensormap(slot, maps[:, 0])
        mo.acquire_tensormap(slot)
    mapped = tma_dst.at(slot, (last - first, COLUMNS))
    gD = mo.tile(mapped.tensor, (ROWS, COLUMNS), (None, 0))             # (16, 32, m), coordinates
    for m in range(mo.ceil_div(last - first, ROWS)):
        for j in range(tid, ROWS * COLUMNS, BLOCK):
            row = first + m * ROWS + j // COLUMNS
            smem[j // COLUMNS, j % COLUMNS] = src[row, j % COLUMNS] + value if row < mo.size(src, 0) else value
        mo.fence_proxy_async()
        mo.sync_threads()
        if tid == 0:
            mo.copyto(mapped, gD[:, :, m], smem)
            mo.tma_store_arrive()
            mo.tma_store_wait(0)
        mo.sync_threads()


OFFSETS = (0, 3, 20, 20, 41)


def clipped_call(dst=None, workspace=None):
    """The arguments of ``clipped_kernel`` for NumPy arrays."""
    src = np.random.default_rng(1).random((50, COLUMNS), np.float32)
    dst = np.zeros_like(src) if dst is None else dst
    return [mo.make_tma_copy(mo.TmaStore(), dst, LAYOUT), dst, src, np.array(OFFSETS, np.int32),
            places(len(OFFSETS) - 1) if workspace is None else workspace, np.float32(1)]


def clipped(src):
    """What it makes of zeros."""
    expected = np.zeros_like(src)
    expected[:OFFSETS[-1]] = src[:OFFSETS[-1]] + 1
    return expected


# --- a grouped product of pointers -----------------------------------------------------------------------------------

BM, BN, BK, STAGES = 64, 64, 64, 3
THREADS = 160
"""A warpgroup that multiplies and stores, a warp that loads."""
ATOM = mo.smem_layout_atom(mo.float16, "k")
TILE_A, TILE_B, TILE_C = (mo.tile_to_shape(ATOM, shape) for shape in ((BM, BK), (BN, BK), (BM, BN)))
MMA = mo.make_tiled_mma(mo.mma.SM90_64x64x16_F32F16F16_SS)
COPY_C = mo.make_tiled_copy_C(mo.CopyAtom(mo.StMatrix(4), mo.float16), MMA)


@mo.jit
def produce(sA, sB, pipe, maps, pointers, shapes):
    """A warp: the tiles of this block, group after group, by maps that it changes for each."""
    bx, state = mo.block_idx().x, pipe.producer_start()
    for g in range(mo.size(shapes, 0)):
        M, N, K = shapes[g, 0], shapes[g, 1], shapes[g, 2]
        A = maps.update(0, address=pointers[0, g], shape=(M, K), strides=(K, 1))
        B = maps.update(1, address=pointers[1, g], shape=(N, K), strides=(K, 1))
        gA = mo.tile(A.tensor, (BM, BK), (None, None))                  # (BM, BK, m, k), coordinates
        gB = mo.tile(B.tensor, (BN, BK), (None, None))                  # (BN, BK, n, k)
        if mo.lane_idx() == 0:
            for tile in range(bx, mo.size(gA, 2) * mo.size(gB, 2), mo.grid_dim().x):
                m, n = tile % mo.size(gA, 2), tile // mo.size(gA, 2)
                for k in range(mo.size(gA, 3)):
                    pipe.producer_acquire(state)
                    mo.copyto(A, sA[:, :, state.stage], gA[:, :, m, k], barrier=pipe.barrier(state))
                    mo.copyto(B, sB[:, :, state.stage], gB[:, :, n, k], barrier=pipe.barrier(state))
                    state = state.next()


@mo.jit
def consume(tma_C, sA, sB, sC, pipe, maps, pointers, shapes):
    """A warpgroup: products, and tiles of C by a map that its first warp changes for each group."""
    tid, bx, state = mo.thread_idx().x, mo.block_idx().x, pipe.consumer_start()
    thr_mma, thr_copy = MMA.get_slice(tid), COPY_C.get_slice(tid)
    tCrA = thr_mma.partition_fragment_A(sA)             # (MMA, MMA_M, MMA_K, stages): descriptors of shared memory
    tCrB = thr_mma.partition_fragment_B(sB)             # (MMA, MMA_N, MMA_K, stages)
    for g in range(mo.size(shapes, 0)):
        M, N, K = shapes[g, 0], shapes[g, 1], shapes[g, 2]
        if mo.warp_idx() == 0:
            maps.update(0, address=pointers[2, g], shape=(M, N), strides=(N, 1))
        C, m_tiles = tma_C.at(maps.workspace[0, :], (M, N)), mo.ceil_div(M, BM)
        gC = mo.tile(C.tensor, (BM, BN), (None, None))                  # (BM, BN, m, n), coordinates
        for tile in range(bx, m_tiles * mo.ceil_div(N, BN), mo.grid_dim().x):
            tCrC = MMA.partition_fragment_C((BM, BN))   # (MMA, MMA_M, MMA_N): registers
            for k in range(mo.ceil_div(K, BK)):
                pipe.consumer_wait(state)
                mo.warpgroup_arrive()
                for kk in mo.static_range(mo.size(tCrA, 2)):
                    mo.gemm(MMA, tCrA[:, :, kk, state.stage], tCrB[:, :, kk, state.stage], tCrC,
                            accumulate=kk > 0 or k > 0)
                mo.warpgroup_commit_batch()
                mo.warpgroup_wait(0)
                if tid == 0:
                    pipe.consumer_release(state)
                state = state.next()
            mo.copyto(COPY_C, thr_copy.partition_D(sC), thr_copy.retile_S(tCrC.to(mo.float16)))
            mo.fence_proxy_async()
            mo.barrier_sync(1, 128)
            if tid == 0:
                mo.copyto(C, gC[:, :, tile % m_tiles, tile // m_tiles], sC)
                mo.tma_store_arrive()
                mo.tma_store_wait(0)
            mo.barrier_sync(1, 128)


@mo.kernel
def grouped_kernel(tma_A, tma_B, tma_C, workspace, pointers, shapes):
    """C_g = A_g B_g^T of matrices whose addresses are pointers[:, g], of extents shapes[g] = (M, N, K).

    The tensor maps of the launch tell boxes and swizzles alone.  Each block has places for maps in the workspace
    (blocks, 2, 2, 16): two of the warp that loads, one of the warp that stores.
    """
    sA = mo.shared_array(mo.float16, mo.tile_to_shape(TILE_A, (BM, BK, STAGES)))        # (BM, BK, stages)
    sB = mo.shared_array(mo.float16, mo.tile_to_shape(TILE_B, (BN, BK, STAGES)))        # (BN, BK, stages)
    sC = mo.shared_array(mo.float16, TILE_C)                            # (BM, BN)
    bx = mo.block_idx().x
    loads, stores = mo.TensorMaps(workspace[bx, 0, :, :], tma_A, tma_B), mo.TensorMaps(workspace[bx, 1, :, :], tma_C)
    pipe = mo.PipelineTma(STAGES, tma_A.bytes + tma_B.bytes, consumers=1)
    pipe.init()
    loads.init()
    stores.init()
    mo.sync_threads()
    if mo.warp_idx() == 4:
        produce(sA, sB, pipe, loads, pointers, shapes)
    else:
        consume(tma_C, sA, sB, sC, pipe, stores, pointers, shapes)


SHAPES = ((100, 72, 136), (64, 200, 64), (8, 40, 200))


def grouped_arguments(seed=0, shapes=SHAPES):
    """Lists of matrices A, B and C."""
    rng = np.random.default_rng(seed)
    As, Bs = ([rng.standard_normal((x[mode], x[2])).astype(np.float16) for x in shapes] for mode in (0, 1))
    return As, Bs, [np.zeros((M, N), np.float16) for M, N, _ in shapes]


def grouped_copies(As, Bs, Cs):
    """The copies that tell boxes and swizzles."""
    return [mo.make_tma_copy(op, x[0], tile) for op, x, tile in (
        (mo.TmaLoad(), As, TILE_A), (mo.TmaLoad(), Bs, TILE_B), (mo.TmaStore(), Cs, TILE_C))]


def close(As, Bs, Cs):
    """Whether C = A B^T, up to the rounding of float16."""
    return all(np.allclose(C.astype(np.float64), A.astype(np.float64) @ B.T.astype(np.float64), rtol=2e-3, atol=2e-2)
               for A, B, C in zip(As, Bs, Cs, strict=True))
