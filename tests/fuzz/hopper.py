"""Tiles of Hopper: products of warps and warpgroups, and TMA, drawn; NumPy, the simulator and the emulator must agree.

    python tests/fuzz/hopper.py SEED COUNT [--seconds S] [--only wgmma] # draws SEED to SEED + COUNT - 1 of each family

In: seeds.  Out: a line for each draw that is wrong, has a finding, or is refused though its rules are kept.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    TESTS = Path(__file__).parents[1]
    sys.path[:0] = [str(TESTS), str(TESTS / "cases"), str(TESTS.parent / "src")]

import ml_dtypes  # noqa: F401 - NumPy knows bfloat16 and 8-bit floats by name then
import numpy as np

import moye as mo
from emulator.device import EmulatorError
from emulator.emulated import emulated
from fuzz import command

Array = Any


@dataclass
class Drawn:
    """A launch: ``arrays`` gives arguments anew, the first of which is compared with ``expected``."""

    kernel: Any
    told: str
    expected: Array
    arguments: Callable[[], tuple[Array, tuple[Any, ...]]]
    launch: dict[str, Any] = field(default_factory=dict)


# --- wgmma -----------------------------------------------------------------------------------------------------------


@mo.kernel
def by_warpgroups(D: mo.Static, A: mo.Static, B: mo.Static, mma, sA_layout, sB_layout, how: mo.Constexpr):
    """D = A B^T over stages, ``rounds`` times, whole stages or slices along k at a time."""
    slices, rounds, flying, keep = how
    op, tid = mma.op, mo.thread_idx().x
    if keep:
        mo.keep_addresses()
    if op.a_dtype == mo.tfloat32:
        A, B = mo.recast(A, mo.tfloat32), mo.recast(B, mo.tfloat32)
    sA, sB = mo.shared_array(op.a_dtype, sA_layout), mo.shared_array(op.b_dtype, sB_layout)     # (bM, bK, stages)
    bM, bN, bK, stages = mo.size(sA, 0), mo.size(sB, 0), mo.size(sA, 1), mo.size(sA, 2)
    gA, gB = mo.tile(A, (bM, bK), (0, None)), mo.tile(B, (bN, bK), (0, None))
    threads = mo.make_layout((8, 16))                       # the first warpgroup fills both tiles
    if tid < 128:
        for s in mo.static_range(stages):
            mo.copyto(mo.parallelize(sA[:, :, s], threads, tid), mo.parallelize(gA[:, :, s], threads, tid))
            mo.copyto(mo.parallelize(sB[:, :, s], threads, tid), mo.parallelize(gB[:, :, s], threads, tid))
    mo.fence_proxy_async()
    mo.sync_threads()
    thr = mma.get_slice(tid)
    tCrB = thr.partition_fragment_B(sB)                         # (MMA, MMA_N, MMA_K, stages)
    tCsA = thr.partition_A(sA)                                  # (MMA, MMA_M, MMA_K, stages)
    tCrA = thr.make_fragment_A(tCsA)
    if op.shared != "ab":
        mo.copyto(tCrA, tCsA)
    acc = mma.partition_fragment_C((bM, bN))
    mo.warpgroup_arrive()
    for r in mo.static_range(rounds):
        for s in mo.range(stages, unroll=1) if op.shared == "ab" and not slices else mo.static_range(stages):
            if slices:
                for k in mo.static_range(mo.size(tCrB, 2)):
                    mo.gemm(mma, tCrA[:, :, k, s], tCrB[:, :, k, s], acc, accumulate=r > 0 or s > 0 or k > 0)
            else:
                mo.gemm(mma, tCrA[:, :, :, s], tCrB[:, :, :, s], acc, accumulate=r > 0 or s > 0)
            mo.warpgroup_commit_batch()
            mo.warpgroup_wait(flying)
    mo.warpgroup_wait(0)
    mo.copyto(thr.partition_C(D), acc)


WGMMA = [(mo.float16, mo.float16, mo.float32), (mo.float16, mo.float16, mo.float16),
         (mo.bfloat16, mo.bfloat16, mo.float32), (mo.tfloat32, mo.tfloat32, mo.float32),
         *((a, b, c) for a in (mo.float8_e4m3fn, mo.float8_e5m2) for b in (mo.float8_e4m3fn, mo.float8_e5m2)
           for c in (mo.float16, mo.float32)),
         *((a, b, mo.int32) for a in (mo.int8, mo.uint8) for b in (mo.int8, mo.uint8))]


def numbers(rng: random.Random, shape: tuple[int, ...], dtype: Any, most: int = 3) -> Array:
    """Small integers, which every float holds."""
    low = 0 if str(dtype).startswith("u") else -most
    found = np.random.default_rng(rng.randrange(1 << 30)).integers(low, most + 1, shape)
    return found.astype(np.float32 if dtype == mo.tfloat32 else dtype.numpy)


def shared_tile(rng: random.Random, dtype: Any, major: str, extents: tuple[int, ...], whole: int) -> Any:
    """An atom of any width that divides ``whole`` elements along its major mode, repeated in any order."""
    width = rng.choice([w for w in (128, 64, 32, 16) if whole % (w * 8 // dtype.bits) == 0])
    order = rng.choice([(0, 1, 2), (1, 0, 2), (0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1), (0, 2, 1)])
    return mo.tile_to_shape(mo.smem_layout_atom(dtype, major, width), extents, order)


def wgmma(rng: random.Random) -> Drawn:
    a, b, c = rng.choice(WGMMA)
    registers = rng.random() < 0.35
    majors = [rng.choice(["k", "mn"]) if a.bits == 16 else "k" for _ in range(2)]
    if registers:
        majors[0] = "k"
    n = rng.choice([8, 16, 24, 32, 48, 64, 8, 16, 24, 80, 96, 256] if c == mo.int32
                   else [8 * rng.randint(1, 32), *[8 * rng.randint(1, 8) for _ in range(4)]])
    op = mo.mma.wgmma(a, b, c, n, a_major=majors[0], b_major=majors[1],
                      a_source="registers" if registers else "shared")
    groups = rng.choice([(1, 1), (1, 1), (2, 1), (1, 2)])
    counts = rng.choice([1, 2]), rng.choice([1, 2]) if n <= 96 else 1
    K, stages = op.shape_mnk[2] * rng.choice([1, 2, 3, 4]), rng.choice([1, 1, 2, 3])
    M, N = 64 * groups[0] * counts[0], n * groups[1] * counts[1]
    own_A = rng.choice(["k", "mn"]) if registers and a.bits == 16 else majors[0]
    layouts = [shared_tile(rng, a, own_A, (M, K, stages), K if own_A == "k" else 64),
               shared_tile(rng, b, majors[1], (N, K, stages), K if majors[1] == "k" else n)]
    how = rng.random() < 0.5, rng.choice([1, 1, 2]), 0 if registers else rng.choice([0, 1]), rng.random() < 0.3
    A, B = numbers(rng, (M, K * stages), a), numbers(rng, (N, K * stages), b)
    expected = how[1] * (A.astype(np.float64) @ B.astype(np.float64).T)
    mma = mo.make_tiled_mma(op, mo.make_layout(groups))
    turned = rng.random() < 0.3

    def arguments() -> tuple[Array, tuple[Any, ...]]:
        D = np.full((N, M) if turned else (M, N), -77, c.numpy)
        return (D.T if turned else D), (A.copy(), B.copy(), mma, *layouts, how)

    return Drawn(by_warpgroups, f"{op} groups {groups} {M}x{N}x{K} stages {stages} {layouts[0]} {layouts[1]} {how}",
                 expected, arguments, {"grid": 1, "block": mo.size(mma)})


# --- TMA -------------------------------------------------------------------------------------------------------------


@mo.kernel
def loaded(out, load, at, starts: mo.Constexpr, known: mo.Constexpr):
    """Every box by coordinates that are known or come from memory, as the shared layout has its elements."""
    tid = mo.thread_idx().x
    sX, full = mo.shared_array(load.dtype, load.smem_layout), mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    for i in mo.static_range(len(starts)):
        first = starts[i] if known else tuple([at[i, m] for m in range(len(load.tile))])
        if tid == 0:
            mo.mbarrier_arrive_expect_tx(full, 0, load.bytes)
            there = mo.domain_offset(first, load.tensor)
            mo.copyto(load, sX, mo.tile(there, load.tile, (0,) * len(load.tile)), barrier=(full, 0))
        mo.mbarrier_wait(full, 0, i % 2)
        for j in range(tid, mo.size(sX), 32):
            out[j, i] = sX[j]
        mo.sync_threads()


@mo.kernel
def put(y, store, x, at, starts: mo.Constexpr):
    """Every column of x goes to a box, whole or combined with what is there."""
    tid = mo.thread_idx().x
    sX = mo.shared_array(store.dtype, store.smem_layout)
    for i in mo.static_range(len(starts)):
        first = tuple([at[i, m] for m in range(len(store.tile))])
        for j in range(tid, mo.size(sX), 32):
            sX[j] = x[j, i]
        mo.fence_proxy_async()
        mo.sync_threads()
        if tid == 0:
            there = mo.domain_offset(first, store.tensor)
            mo.copyto(store, mo.tile(there, store.tile, (0,) * len(store.tile)), sX)
            mo.tma_store_arrive()
            mo.tma_store_wait(0, read=False)
        mo.sync_threads()


TMA_TYPES = [mo.int8, mo.uint8, mo.int16, mo.uint16, mo.float16, mo.bfloat16, mo.int32, mo.uint32, mo.float32,
             mo.int64, mo.uint64, mo.float64]


@dataclass
class Box:
    """An array of up to five modes with gaps, contiguous along any, a tile of it, and its place in shared memory."""

    shape: tuple[int, ...]
    order: list[int]
    tile: tuple[int, ...]
    layout: Any
    gaps: list[int]
    dtype: Any

    def array(self, values: Array) -> Array:
        """The values in an array whose modes lie in the drawn order, with the drawn gaps; what lies between is 99."""
        padded = [self.shape[m] + gap for m, gap in zip(self.order, self.gaps, strict=True)][::-1]
        whole = np.full(16 + int(np.prod(padded)) , 99, self.dtype.numpy)
        begin = -whole.ctypes.data % 16 // whole.itemsize
        held = whole[begin:begin + int(np.prod(padded))].reshape(padded)
        view = held.transpose([len(padded) - 1 - self.order.index(m) for m in range(len(padded))])
        view = view[tuple(slice(n) for n in self.shape)]
        view[...] = values
        return view

    def starts(self, rng: random.Random, count: int, low: int) -> list[tuple[int, ...]]:
        """Inside, across every edge, and wholly outside."""
        together = 128 // self.dtype.bits
        found = []
        for _ in range(count):
            at = [rng.choice([0, rng.randint(low * t, n), rng.randint(low * t - 3 * -low, n + t)])
                  for n, t in zip(self.shape, self.tile, strict=True)]
            at[self.order[0]] = at[self.order[0]] // together * together
            found.append(tuple(at))
        return found


def box(rng: random.Random, dtype: Any, written: bool = False) -> Box:
    rank, together = rng.randint(1, 5), 128 // dtype.bits
    order = rng.sample(range(rank), rank)
    tile = [rng.choice([1, 1, 2, 3, 4, 5, 8]) for _ in range(rank)]
    if rng.random() < 0.5 and rank > 1:
        width = rng.choice([32, 64, 128])
        tile[order[0]] = width * 8 // dtype.bits * rng.choice([1, 1, 2])
        tile[order[1]] = 8 * rng.choice([1, 2])
        for m in order[2:]:
            tile[m] = 1
        atom = mo.smem_layout_atom(dtype, "mn" if order[0] < order[1] else "k", width)
        layout = mo.tile_to_shape(atom, tuple(tile[m] for m in sorted(order[:2])), rng.choice([(0, 1), (1, 0)]))
    else:
        tile[order[0]] = together * rng.choice([1, 1, 2, 3])
        strides, step = [0] * rank, 1
        for m in order:
            strides[m], step = step, step * tile[m]
        layout = mo.make_layout(tuple(tile), tuple(strides))
    shape = [max(1, rng.choice([t, 2 * t, t + 1, 2 * t - 1, t // 2, 7])) for t in tile]
    if written:                     # rows that are written are whole parts of 16 bytes
        shape[order[0]] += -shape[order[0]] % together
    gaps = [-shape[order[0]] % together + together * rng.choice([0, 1]), *(rng.choice([0, 0, 1]) for _ in order[1:])]
    return Box(tuple(shape), order, tuple(tile), layout, gaps[:rank], dtype)


def inside(drawn: Box, start: tuple[int, ...]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """The part of the array that a box covers, and that part of the box."""
    firsts = [(max(s, 0), max(s, 0, min(s + t, n))) for s, t, n in zip(start, drawn.tile, drawn.shape, strict=True)]
    return (tuple(slice(a, b) for a, b in firsts),
            tuple(slice(a - s, b - s) for (a, b), s in zip(firsts, start, strict=True)))


def load(rng: random.Random) -> Drawn:
    dtype = rng.choice(TMA_TYPES)
    drawn, known = box(rng, dtype), rng.random() < 0.5
    values, starts = numbers(rng, drawn.shape, dtype, 50), drawn.starts(rng, rng.randint(1, 4), -1)
    expected = np.zeros((int(np.prod(drawn.tile)), len(starts)))
    nan = dtype.is_float and rng.random() < 0.3
    for i, start in enumerate(starts):
        there, here = inside(drawn, start)
        whole = np.full(drawn.tile, np.nan if nan else 0.0)
        whole[here] = values[there]
        expected[:, i] = whole.ravel(order="F")

    def arguments() -> tuple[Array, tuple[Any, ...]]:
        out = np.full(expected.shape, 77, dtype.numpy)
        tma = mo.make_tma_copy(mo.TmaLoad(outside="nan") if nan else mo.TmaLoad(), drawn.array(values), drawn.layout,
                               tile=drawn.tile)
        return out, (tma, np.array(starts, np.int32), tuple(starts), known)

    return Drawn(loaded, f"{drawn} {starts} known={known} nan={nan}", expected, arguments, {"grid": 1, "block": 32})


COMBINED: dict[str, Callable[[Array, Array], Array]] = {
    "store": lambda old, new: new, "add": lambda old, new: old + new, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "inc": lambda old, new: np.where(old >= new, 0, old + 1).astype(old.dtype),
    "dec": lambda old, new: np.where((old == 0) | (old > new), new, old - 1).astype(old.dtype)}


def store(rng: random.Random) -> Drawn:
    by = rng.choice(list(COMBINED))
    atom: Any = mo.TmaStore() if by == "store" else mo.TmaReduce(by)
    dtype = rng.choice([x for x in TMA_TYPES if atom.takes(x)])
    drawn = box(rng, dtype, written=True)
    values, starts = numbers(rng, drawn.shape, dtype, 50), drawn.starts(rng, rng.randint(1, 4), 0)
    x = numbers(rng, (int(np.prod(drawn.tile)), len(starts)), dtype, 50)
    expected = values.copy()
    for i, start in enumerate(starts):
        there, here = inside(drawn, start)
        expected[there] = COMBINED[by](expected[there], x[:, i].reshape(drawn.tile, order="F")[here])

    def arguments() -> tuple[Array, tuple[Any, ...]]:
        y = drawn.array(values)
        return y, (mo.make_tma_copy(atom, y, drawn.layout, tile=drawn.tile), x.copy(), np.array(starts, np.int32),
                   tuple(starts))

    return Drawn(put, f"{by} {drawn} {starts}", expected, arguments, {"grid": 1, "block": 32})


# --- products of warps -----------------------------------------------------------------------------------------------


@mo.kernel
def by_warps(D: mo.Static, A: mo.Static, B: mo.Static, mma, sA_layout, sB_layout, load_A, load_B, store_C):
    """One tile of odd extents: shared memory, ldmatrix or plain loads, mma.sync, and stmatrix or plain stores."""
    tid, op = mo.thread_idx().x, mma.op
    if op.a_dtype == mo.tfloat32:
        A, B = mo.recast(A, mo.tfloat32), mo.recast(B, mo.tfloat32)
    sA, sB = mo.shared_array(op.a_dtype, sA_layout), mo.shared_array(op.b_dtype, sB_layout)     # (bM, bK), (bN, bK)
    for s, g in ((sA, A), (sB, B)):
        for j in range(tid, mo.size(s), mo.size(mma)):
            s[j] = g[j]
    mo.sync_threads()
    thr = mma.get_slice(tid)
    tCrA, tCrB = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB)
    if load_A is None:
        mo.copyto(tCrA, thr.partition_A(sA))
    else:
        mo.copyto(load_A, load_A.get_slice(tid).retile_D(tCrA), load_A.get_slice(tid).partition_S(sA))
    if load_B is None:
        mo.copyto(tCrB, thr.partition_B(sB))
    else:
        mo.copyto(load_B, load_B.get_slice(tid).retile_D(tCrB), load_B.get_slice(tid).partition_S(sB))
    acc = mma.partition_fragment_C((mo.size(sA, 0), mo.size(sB, 0)))
    acc.fill(0)
    mo.gemm(mma, tCrA, tCrB, acc)
    if store_C is None:
        mo.copyto(thr.partition_C(D), acc)
    else:
        sC = mo.shared_array(mo.float16, mo.make_layout((mo.size(sA, 0), mo.size(sB, 0)), (mo.size(sB, 0) + 8, 1)))
        half, to = acc.to(mo.float16), store_C.get_slice(tid)
        mo.copyto(store_C, to.partition_D(sC), to.retile_S(half))
        mo.sync_threads()
        for j in range(tid, mo.size(sC), mo.size(mma)):
            D[j] = sC[j].to(D.dtype)


def warps(rng: random.Random) -> Drawn:
    op = rng.choice([x for x in mo.mma.ALL.values() if x.threads == 32 and x.a_dtype.bits >= 8])
    m, n, k = op.shape_mnk
    groups = rng.choice([(1, 1), (2, 1), (1, 2), (2, 2), (1, 3), (3, 1)])
    wide = rng.choice([1, 2, 2, 3]), rng.choice([1, 2, 2, 4])
    tile: Any = (m * groups[0] * wide[0], n * groups[1] * wide[1], k)
    if rng.random() < 0.3:          # neighbours of one warp: values before warps
        tile = (tile[0], mo.make_layout((n, groups[1], wide[1]), (1, n * wide[1], n)), k)
    mma = mo.make_tiled_mma(op, mo.make_layout(groups), tile)
    M, N, K = (x * rng.choice([1, 2, 3]) for x in (m * groups[0] * wide[0], n * groups[1] * wide[1], k))
    A, B = numbers(rng, (M, K), op.a_dtype), numbers(rng, (N, K), op.b_dtype)
    layouts, loads = [], []
    for dtype, rows, make in ((op.a_dtype, M, mo.make_tiled_copy_A), (op.b_dtype, N, mo.make_tiled_copy_B)):
        major = rng.choice(["k", "mn"])
        together = 128 // dtype.bits
        if dtype.bits == 16 and rng.random() < 0.7:
            whole = K if major == "k" else rows
            widths = [w for w in (16, 32, 64, 128) if whole * dtype.bits // 8 % w == 0]
            pad = rng.random() < 0.3
            strides = (K + together, 1) if major == "k" else (1, rows + together - rows % together)
            layouts.append(mo.make_layout((rows, K), strides) if pad or not widths or rows % 8 or K % 8 else
                           mo.tile_to_shape(mo.smem_layout_atom(dtype, major, rng.choice(widths)), (rows, K)))
            atom = mo.CopyAtom(mo.LdMatrix(rng.choice([1, 2, 4]), transpose=major == "mn"), dtype)
            loads.append((make, atom))
        else:
            layouts.append(mo.make_layout((rows, K), (K + rng.choice([0, 1, 4]), 1) if major == "k" else (1, rows + 1)))
            loads.append(None)
    stored = rng.random() < 0.4 and op.c_dtype.is_float and op.c_dtype.bits <= 32
    stm = mo.CopyAtom(mo.StMatrix(rng.choice([1, 2, 4])), mo.float16) if stored else None
    expected = A.astype(np.float64) @ B.astype(np.float64).T

    def arguments() -> tuple[Array, tuple[Any, ...]]:
        copies = [None if x is None else x[0](x[1], mma) for x in loads]
        copy_C = None if stm is None else mo.make_tiled_copy_C(stm, mma)
        return np.full((M, N), -77, op.c_dtype.numpy), (A.copy(), B.copy(), mma, *layouts, *copies, copy_C)

    return Drawn(by_warps, f"{op} {groups} {tile} {M}x{N}x{K} {layouts} {[x and str(x[1]) for x in loads]} {stm}",
                 expected, arguments, {"grid": 1, "block": mo.size(mma)})


# --- rings -----------------------------------------------------------------------------------------------------------


@mo.kernel
def by_ring(out, tma, x, how: mo.Constexpr):
    """Clusters take tiles in turn: one thread loads for all blocks, warps add up; states go on from tile to tile."""
    stages, workers, size, unroll = how
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    sX = mo.shared_array(tma.dtype, mo.tile_to_shape(tma.smem_layout, (*tma.tile, stages)))     # (bM, bK, stages)
    pipe = mo.PipelineTma(stages, tma.bytes, consumers=size * workers)
    pipe.init()
    mo.cluster_sync()
    tiles, depth = mo.size(out, 1), mo.ceil_div(mo.size(x, 1), tma.tile[1])
    state, first = pipe.producer_start(), mo.cluster_idx().x
    if tid < 32:
        if tid == 0:
            for t in range(first, tiles, mo.grid_dim().x // size):
                gX = mo.tile(tma.tensor, tma.tile, (t, None))
                for k in mo.range(depth, unroll=unroll):
                    pipe.producer_acquire(state)
                    if size > 1:
                        mo.copyto(tma, sX[:, :, state.stage], gX[:, :, k], barrier=pipe.barrier(state),
                                  multicast=(1 << size) - 1)
                    else:
                        mo.copyto(tma, sX[:, :, state.stage], gX[:, :, k], barrier=pipe.barrier(state))
                    state = state.next()
            pipe.producer_tail(state)
    else:
        mine, read = tid - 32, pipe.consumer_start()
        for t in range(first, tiles, mo.grid_dim().x // size):
            total = mo.int32(0)
            for _ in mo.range(depth, unroll=unroll):
                pipe.consumer_wait(read)
                for j in range(mine, mo.size(tma.smem_layout), 32 * workers):
                    total += sX[:, :, read.stage][j] * (j + 1)
                mo.sync_warp()
                if tid % 32 == 0:
                    for r in mo.static_range(size):
                        pipe.consumer_release(read, cta=r) if size > 1 else pipe.consumer_release(read)
                read = read.next()
            out[mine, t, rank] = total
            mo.barrier_sync(1, 32 * workers)
    mo.cluster_sync()


def ring(rng: random.Random) -> Drawn:
    stages, workers, cluster = rng.randint(1, 5), rng.randint(1, 4), rng.choice([1, 1, 2, 4, 8])
    alone = [(1, 32), (3, 32), (8, 4), (8, 8), (16, 8)]         # stages of multiples of 128 bytes
    tile = (cluster * rng.choice([1, 2, 4]), 32) if cluster > 1 else rng.choice(alone)
    tiles, depth, clusters = rng.randint(1, 5), rng.randint(0, 7), rng.randint(1, 3)
    columns = max(1, tile[1] * depth - rng.choice([0, 0, 1, 3])) if depth else 0
    shape = tile[0] * tiles, columns
    held = numbers(rng, (shape[0], -(-max(1, columns) // 4) * 4), mo.int32, 9)
    x = held[:, :columns] if columns else held[:, :0]
    layout = mo.make_layout(tile, (tile[1], 1))
    padded = np.zeros((shape[0], tile[1] * depth), np.int64)
    padded[:, :columns] = x
    expected = np.zeros((32 * workers, tiles, cluster))
    for t in range(tiles):
        for k in range(depth):
            part = padded[t * tile[0]:(t + 1) * tile[0], k * tile[1]:(k + 1) * tile[1]].ravel(order="F")
            weighted = part * (np.arange(part.size) + 1)
            for worker in range(32 * workers):
                expected[worker, t] += weighted[worker::32 * workers].sum()
    unroll = rng.choice([1, 2, 3])

    def arguments() -> tuple[Array, tuple[Any, ...]]:
        fresh = held.copy()
        tma = mo.make_tma_copy(mo.TmaLoad(), fresh[:, :max(1, columns)], layout, multicast=cluster)
        return np.full(expected.shape, -77, np.int32), (tma, fresh[:, :columns], (stages, workers, cluster, unroll))

    told = f"stages {stages} workers {workers} cluster {cluster} tile {tile} tiles {tiles} depth {depth} of {clusters}"
    return Drawn(by_ring, told, expected, arguments, {"grid": cluster * clusters, "block": 32 + 32 * workers,
                                                      "cluster": cluster})


# --- judging ---------------------------------------------------------------------------------------------------------


FAMILIES: dict[str, Callable[[random.Random], Drawn]] = {f.__name__: f for f in (wgmma, load, store, warps, ring)}


def failure(family: str, seed: int) -> str | None:
    """What is wrong with a draw, or None."""
    drawn = FAMILIES[family](random.Random(f"{family} {seed}"))
    try:
        found, rest = drawn.arguments()
        report = mo.check(drawn.kernel).launch(found, *rest, **drawn.launch)
        if not report.ok:
            return f"{drawn.told}\n{report}"
        wrong = _differs("simulator", found, drawn.expected)
        if wrong is None:
            found, rest = drawn.arguments()
            with emulated(seed=seed):
                drawn.kernel.launch(found, *rest, **drawn.launch)
            wrong = _differs("emulator", found, drawn.expected)
    except (mo.MoyeError, EmulatorError) as error:
        wrong = f"{type(error).__name__}: {error}"
    return wrong and f"{drawn.told}\n{wrong}"


def _differs(where: str, found: Array, expected: Array) -> str | None:
    same = np.isclose(found.astype(np.float64), expected, rtol=0, atol=0, equal_nan=True)
    if same.all():
        return None
    at = tuple(int(x) for x in np.argwhere(~same)[0])
    return f"{where}: {int((~same).sum())} of {same.size} are wrong, first {at}: {found[at]}, not {expected[at]}"


if __name__ == "__main__":
    sys.exit(command.by_family(__doc__, FAMILIES, failure))
