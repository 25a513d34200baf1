"""Several products of matrices that lie anywhere, each with extents of its own, in one launch; sm_90a.

In: A_i (M_i, K_i), B_i (N_i, K_i) and C_i (M_i, N_i), of one dtype each.  Out: every C_i written in place.

    grouped_gemm_sm90([A0, A1], [B0, B1], [C0, C1])     # C0 = A0 @ B0.T, C1 = A1 @ B1.T

A table of addresses, extents and strides goes to the device.  A first kernel makes a tensor map of each matrix of it.
The tiles of all products are numbered one after the other, and dealt out to a persistent grid of a second one, so
neither is compiled again for other numbers of products or other extents.  Factors of blocks are copied first, one
behind the other.  What TMA cannot load or store as it is goes to ``gemm``.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

import moye as mo
from moye.kernels.gemm.dispatch import gemm
from moye.kernels.gemm.grouped.choice import config_of_groups, rounded
from moye.kernels.gemm.grouped.lists import EXTENTS, STEPS, Lists, Row, described
from moye.kernels.gemm.parts.arguments import activation_of, configured, scalar
from moye.kernels.gemm.parts.epilogues import ACTIVATIONS
from moye.kernels.gemm.sm90.config import GROUP, MOST, Problem, WarpgroupConfig
from moye.kernels.gemm.sm90.epilogue import Epilogue, finish_stores, store
from moye.kernels.gemm.sm90.fusion import Fusion
from moye.kernels.gemm.sm90.host import EIGHTH, Activation, check_extents, multiplied
from moye.kernels.gemm.sm90.kernel import share_registers, sharers, stages_of
from moye.kernels.gemm.sm90.mainloop import TURN, await_turn, first_turn, mainloop, promoted_mainloop
from moye.kernels.gemm.sm90.plan import Plan, make_plan
from moye.kernels.gemm.sm90.scales import BLOCK, check_scales, scales_of_tile
from moye.kernels.upload import host_numbers, tensor_maps
from moye.kernels.workspace import empty, end_to_end, swapped

MATRICES = 3
ADDRESS, EXTENT, STRIDE, BEGIN, FACTORS = 0, 3, 6, 9, 10
"""Rows of the table (12, products + 1): of A, B and C; M, N and K; of A, B and C; the number of the first tile, with
that of all tiles behind the last product; where factors of blocks of A and of B begin among those of all."""
FIELDS, LINE = 12, 128
Scales = tuple[Sequence[Any], Sequence[Any]]
"""Factors of blocks of A and of B, one array a product."""


# --- tensor maps -----------------------------------------------------------------------------------------------------


@mo.kernel
def describe_matrices_kernel(tma_A, tma_B, tma_C, maps, table, count, major_A: mo.Constexpr, major_B: mo.Constexpr):
    """A block a product, a warp a matrix: maps[3 * product + matrix, :] becomes its tensor map.

    The copies say what boxes matrices are copied in; their own arrays are of no matter.
    """
    edited, product = mo.tensormap_array(MATRICES), mo.block_idx().x
    mo.griddepcontrol_launch_dependents()
    for matrix in mo.static_range(MATRICES):
        if (mo.warp_idx() == matrix) & (product < count):
            describe_matrix((tma_A, tma_B, tma_C)[matrix], edited[:, matrix], maps[product * MATRICES + matrix, :],
                            table, product, matrix, (major_A, major_B, "k")[matrix])


@mo.jit
def describe_matrix(tma, edited, place, table, product, matrix, major):
    """The tensor map of one matrix of the table, made in shared memory by one lane."""
    if mo.elect():
        step = table[STRIDE + matrix, product]
        mo.copy_tensormap(edited, tma)
        mo.update_tensormap(tma, edited, address=table[ADDRESS + matrix, product],
                            shape=shapes_of(table, product)[matrix], strides=(step, 1) if major == "k" else (1, step))
    mo.sync_warp()
    mo.release_tensormap(place, edited)


@mo.jit
def shapes_of(table, product):
    """The extents (M, K), (N, K) and (M, N) of A, B and C."""
    M, N, K = [mo.int32(table[EXTENT + i, product]) for i in range(3)]
    return (M, K), (N, K), (M, N)


# --- products --------------------------------------------------------------------------------------------------------


@mo.kernel
def separate_gemm_sm90_kernel(tma_A, tma_B, tma_C, maps, table, count, alpha, scale_A, scale_B, plan: mo.Constexpr):
    """Tiles of all products, block after block of the persistent grid.

    ``scale_A`` and ``scale_B``: factors of blocks, those of one product behind those of the other; None if there are
    none.
    """
    config, groups, tid = plan.config, plan.config.groups, mo.thread_idx().x
    sA, sB, _ = stages_of(plan)                                         # (bM, bK, stages), (bN, bK, stages)
    sC = mo.shared_array(plan.C.dtype, plan.C.staged)                   # (64 * groups, columns, 2)
    pipe = mo.PipelineTma(config.stages, tma_A.bytes + tma_B.bytes, consumers=sharers(plan) * plan.product.readers)
    pipe.init()
    mo.sync_threads()
    mo.griddepcontrol_wait()                                            # for the tensor maps
    work = Work(table, count, plan, scale_A is not None)
    if mo.warpgroup_idx() == groups:
        share_registers(plan, loads=True)
        if tid == groups * GROUP:
            produce(plan, tma_A, tma_B, maps, sA, sB, pipe, work)
    else:
        share_registers(plan, loads=False)
        consume(plan, tma_C, maps, alpha, (scale_A, scale_B), sA, sB, sC, pipe, work)


class Work:
    """The tiles of all products."""

    def __init__(self, table: Any, count: Any, plan: Plan, scaled: bool) -> None:
        self.table, self.count, self.config, self.scaled = table, count, plan.config, scaled

    @property
    def tiles(self) -> Any:
        return mo.int32(self.table[BEGIN, self.count])


@dataclass(frozen=True, slots=True)
class Found:
    """A product, the numbers of its first tile and of the next one's first, its M, N and K, and where its factors of
    blocks begin, if it has some; loops carry it, for memory is asked only where the next tile is of another product.
    """

    varies: ClassVar[bool] = True

    product: Any
    first: Any
    end: Any
    extents: tuple[Any, Any, Any]
    factors: tuple[Any, ...]

    def k_tiles(self, config: WarpgroupConfig) -> Any:
        return mo.ceil_div(self.extents[2], config.bK)


@mo.jit
def read(work, product):
    """What the table says of a product."""
    first, end = [mo.int32(work.table[BEGIN, product + i]) for i in range(2)]
    extents, factors = [tuple(mo.int32(work.table[row + i, product]) for i in range(count))
                        for row, count in ((EXTENT, 3), (FACTORS, 2 if work.scaled else 0))]
    return Found(product, first, end, extents, factors)


@mo.jit
def sought(work, found, tile):
    """The product of a tile behind those of an earlier one: mostly the same, or the next one."""
    if tile >= found.end:
        found = read(work, mo.min(found.product + 1, work.count - 1))
        if tile >= found.end:
            found = read(work, product_of(work, tile))
    return found


@mo.jit
def product_of(work, tile):
    """Which product a tile is of: the last one that begins at it or before, found by halves."""
    low, high = 0, work.count
    while high - low > 1:
        middle = (low + high) // 2
        if tile < work.table[BEGIN, middle]:
            high = middle
        else:
            low = middle
    return low


@mo.jit
def place_of(work, found, tile):
    """The coordinates (m, n) of a tile in its product."""
    config, (M, N, _) = work.config, found.extents
    sched = mo.PersistentTileScheduler(mo.ceil_div(M, config.bM), mo.ceil_div(N, config.bN), 1, config.raster)
    m, n, _ = sched.coordinates(tile - found.first)
    return m, n


@mo.jit
def produce(plan, tma_A, tma_B, maps, sA, sB, pipe, work):
    """One thread fills the stages with what is this block's, by the maps of each tile's product."""
    config, known, found = plan.config, -1, read(work, 0)
    state = pipe.producer_start()
    for tile in range(mo.block_idx().x, work.tiles, mo.grid_dim().x):
        found = sought(work, found, tile)
        product, (M, N, K) = found.product, found.extents
        m, n = place_of(work, found, tile)
        slots = maps[product * MATRICES, :], maps[product * MATRICES + 1, :]
        if product != known:
            mo.acquire_tensormap(slots[0])
            mo.acquire_tensormap(slots[1])
            known = product
        A, B = tma_A.at(slots[0], (M, K)), tma_B.at(slots[1], (N, K))
        gA = mo.tile(A.tensor, (config.bM, config.bK), (None, None), ragged=True)       # (bM, bK, m, k)
        gB = mo.tile(B.tensor, (config.bN, config.bK), (None, None), ragged=True)       # (bN, bK, n, k)
        for k in range(mo.size(gA, 3)):
            pipe.producer_acquire(state)
            mo.copyto(A, sA[:, :, state.stage], gA[:, :, m, k], barrier=pipe.barrier(state))
            mo.copyto(B, sB[:, :, state.stage], gB[:, :, n, k], barrier=pipe.barrier(state))
            state = state.next()


@mo.jit
def factors_of(plan, scales, found, place, thr_mma):
    """The factors of blocks of a tile at ``place`` in its product; None if there are none."""
    if scales[0] is None:
        return None
    M, N, K = found.extents
    k = mo.ceil_div(K, BLOCK)
    A, B = (mo.domain_offset((found.factors[i],), scales[i]).with_layout(mo.make_layout((rows, k), (k, 1)))
            for i, rows in enumerate((M, mo.ceil_div(N, BLOCK))))
    return scales_of_tile(plan, (A, None, B), (M, place[0] * plan.config.bM), place[1], 0, thr_mma)


@mo.jit
def consume(plan, tma_C, maps, alpha, scales, sA, sB, sC, pipe, work):
    """Tiles of the block, whatever product they are of, of its warpgroups together or in turns."""
    config, tid, known = plan.config, mo.thread_idx().x, -1
    thr_mma = plan.product.mma.get_slice(tid % (sharers(plan) * GROUP))
    tCrA = thr_mma.partition_fragment_A(sA)                             # (MMA, MMA_M, MMA_K, stages)
    tCrB = thr_mma.partition_fragment_B(sB)                             # (MMA, MMA_N, MMA_K, stages)
    state, found = pipe.consumer_start(), read(work, 0)
    first, step = mo.block_idx().x, mo.grid_dim().x
    if plan.in_turns:
        if mo.warpgroup_idx() == 1:
            mo.barrier_arrive(TURN, 2 * GROUP)                          # warpgroup 0 begins
            found = sought(work, found, first)
            state = state.advance(found.k_tiles(config))                # the stages of the first tile are the other's
        first, step = first + mo.warpgroup_idx() * step, 2 * step       # every other tile of the block
    first_turn(plan)
    for tile in range(first, work.tiles, step):
        found = sought(work, found, tile)
        product, (M, N, _) = found.product, found.extents
        m, n = place_of(work, found, tile)
        acc, k_tiles = plan.product.mma.partition_fragment_C((config.bM, config.bN)), found.k_tiles(config)
        await_turn(plan)
        if plan.product.promote:
            factors = factors_of(plan, scales, found, (m, n), thr_mma)
            state = promoted_mainloop(plan, pipe, acc, tCrA, tCrB, state, (0, k_tiles), factors)
        else:
            state = mainloop(plan, pipe, acc, tCrA, tCrB, state, (0, k_tiles))
        slot = maps[product * MATRICES + 2, :]
        if product != known:
            if tid % GROUP == 0:                                        # the thread that stores
                mo.acquire_tensormap(slot)
            known = product
        out = Epilogue(tma_C.at(slot, (M, N)), None, None, (None,), None, (None,), alpha, None, None, None)
        store(plan, out, sC, acc, (m, n, 0))
        if plan.in_turns:                               # past the tile that the other multiplies meanwhile, if any
            found = sought(work, found, mo.min(tile + mo.grid_dim().x, work.tiles - 1))
            state = state.advance(found.k_tiles(config))
    finish_stores(plan)


# --- host ------------------------------------------------------------------------------------------------------------


def separate_products(name: str, As: Any, Bs: Any, Cs: Any, scale_a: Any, scale_b: Any, *, activation: Activation,
                      alpha: float, fast_accum: bool, config: WarpgroupConfig | None) -> Any:
    """C[i] = activation(alpha * A[i] @ B[i].T) for every i, in place; returns C."""
    lists = described(name, As, Bs, Cs)
    scales = _factors(name, "scale_a", scale_a, len(As)), _factors(name, "scale_b", scale_b, len(As))
    configured(name, config, WarpgroupConfig)
    function = activation_of(name, activation, ACTIVATIONS)
    if lists is None:
        return Cs
    a, _, c = lists.first
    factor = scalar(alpha, a.dtype, name)
    scaled = () if scale_a is None is scale_b else _scaled(name, lists, scales, fast_accum)
    promote = a.dtype in EIGHTH and not fast_accum
    fusion = Fusion(scaled=factor != 1, activation=function)
    mo.write_by_address(name, Cs)
    held = None if c.device is not None or c.kind == "spec" else mo.addresses([*As, *Bs, *Cs])
    kinds, alone = lists.kinds()
    for i in alone:                                     # refused here as well, with the name of that function
        gemm(As[i], Bs[i], Cs[i], alpha=alpha, activation=activation, fast_accum=fast_accum, scale_a=scales[0][i],
             scale_b=scales[1][i], config=config, tf32=True)
    for majors, rows in kinds.items():
        for given, some in ((scales, [row for row in rows if row[-1] in scaled]),
                            (None, [row for row in rows if row[-1] not in scaled])):
            if some:
                _launch(name, lists, some, majors, fusion, promote, config, factor, given)
    del held                                            # the simulator knew the arrays as long as this was there
    return Cs


def _factors(name: str, letter: str, given: Any, count: int) -> Sequence[Any]:
    """The factors of blocks of each product."""
    if given is None:
        return (None,) * count
    if not isinstance(given, (list, tuple)) or len(given) != count:
        found = f"{len(given)}" if isinstance(given, (list, tuple)) else f"a {type(given).__name__}"
        raise mo.ArgumentError(f"{name}: {letter} must be a list of {count} arrays, as A is, not {found}")
    return given


def _scaled(name: str, lists: Lists, scales: Scales, fast_accum: bool) -> set[int]:
    """The products that have factors of blocks; ArgumentError for those that do not fit.

    The first ones are looked at closely, and others that are not like them.
    """
    found: set[int] = set()
    for i, (x, y) in enumerate(zip(*scales, strict=True)):
        a, b, c = (info._replace(ptr=ptr, shape=tuple(shape), strides=tuple(strides)) for info, (ptr, shape, strides) in
                   zip(lists.first, (places[i] for places in lists.places), strict=True))
        k = -(-a.shape[1] // BLOCK)
        known = min(found, default=None)
        like = known is not None and _is_like(x, scales[0][known], (a.shape[0], k)) \
            and _is_like(y, scales[1][known], (-(-b.shape[0] // BLOCK), k))
        if like or check_scales(f"{name}, product {i}", x, y, a, b, c, {"fast_accum=True": fast_accum}):
            found.add(i)
    return found


def _is_like(x: Any, first: Any, shape: tuple[int, int]) -> bool:
    """Whether an array has this shape, and is otherwise like the first one."""
    devices = {getattr(each, "device", None) for each in (x, first)}    # a ``mo.TensorLike`` has none
    return type(x) is type(first) and tuple(x.shape) == shape and x.dtype == first.dtype and len(devices) == 1


def _launch(name: str, lists: Lists, rows: list[Row], majors: tuple[str, str], fusion: Fusion, promote: bool,
            config: WarpgroupConfig | None, alpha: Any, scales: Scales | None) -> None:
    """One launch of the products of these rows, which lie alike."""
    (a, b, c), count = lists.first, len(rows)
    extents = list(zip(*(row[EXTENTS] for row in rows), strict=True))                   # of M, of N, of K
    check_extents(name, a._replace(shape=tuple(map(max, extents))))
    multiprocessors, (M, N, K) = mo.multiprocessors(c), (_mean(every) for every in extents)
    lines = [math.gcd(128, *(step * x.dtype.bytes for step in {row[at] for row in rows}))
             for at, x in zip(STEPS, (a, b), strict=True)]
    problem = Problem(M, N, K, rounded(count), a.dtype, promote, lines=(lines[0], lines[1]), scaled=scales is not None,
                      most=MOST if fusion.plain else 128, out=c.dtype.bytes)
    way = _way(name, problem, majors, b.dtype, c.dtype, fusion, config, multiprocessors)
    plan, room = way.plan, 1 << max(3, (count - 1).bit_length())        # tables of one size have launches in common
    table = np.zeros((FIELDS, room + 1), np.int64)
    table[:BEGIN, :count] = np.array(rows, np.int64).T[:BEGIN]
    factors: list[Any] = [None, None]
    for i, given in enumerate(scales or ()):
        mine = [given[row[-1]] for row in rows]
        factors[i] = end_to_end(lists.like, mine)
        table[FACTORS + i, 1:count] = list(itertools.accumulate(math.prod(x.shape) for x in mine[:-1]))
    tiles = (-(-row[3] // plan.config.bM) * -(-row[4] // plan.config.bN) for row in rows)
    table[BEGIN, 1:count + 1] = list(itertools.accumulate(tiles))
    copies, maps = way.copies(lists.like, c), tensor_maps(lists.like, MATRICES * room)
    numbers = host_numbers(lists.like, table)
    describe_matrices_kernel.launch(*copies, maps, numbers, count, *majors, grid=room, block=32 * MATRICES)
    separate_gemm_sm90_kernel.launch(*copies, maps, numbers, count, alpha if fusion.scaled else None, *factors, plan,
                                     grid=multiprocessors, block=plan.config.threads, dependent=True)


def _mean(extents: tuple[int, ...]) -> int:
    """What all have in common, else about the mean: products of like extents have one plan."""
    return extents[0] if min(extents) == max(extents) else rounded(sum(extents) // len(extents))


@dataclass(frozen=True, slots=True, eq=False)
class _Way:
    """A plan, and the TMA copies that its kernels take, by what they lie on."""

    plan: Plan
    dtypes: tuple[Any, Any, Any]
    majors: tuple[str, str]
    kept: dict[Any, tuple[mo.TmaCopy, ...]] = field(default_factory=dict)

    def copies(self, like: Any, c: Any) -> tuple[mo.TmaCopy, ...]:
        """TMA copies of matrices that nobody reads: they say how those of the table are copied, and stay the same."""
        found = self.kept.get(key := (c.kind, c.device))
        if found is None:
            config, plan = self.plan.config, self.plan
            load = mo.TmaLoad(rounding=mo.tfloat32 if self.dtypes[0] == mo.float32 else None)
            A, B, C = (swapped(X) if major == "k" else X for X, major in zip(
                (empty(like, dtype, (LINE, LINE)) for dtype in self.dtypes), (*self.majors, "k"), strict=True))
            found = self.kept[key] = (mo.TmaCopy(load, A, plan.A.box, (config.bM, config.bK), 1),
                                      mo.TmaCopy(load, B, plan.B.box, (config.bN, config.bK), 1),
                                      mo.TmaCopy(mo.TmaStore(), C, plan.C.box, (64, plan.C.columns), 1))
        return found


@functools.lru_cache(maxsize=1024)
def _way(name: str, problem: Problem, majors: tuple[str, str], b_dtype: Any, c_dtype: Any, fusion: Fusion,
          config: WarpgroupConfig | None, multiprocessors: int) -> _Way:
    chosen = config_of_groups(name, problem, multiprocessors, config, separate=True)
    plan = make_plan(chosen, (multiplied(problem.dtype), multiplied(b_dtype)), c_dtype, *majors, "k", fusion, 1,
                     problem.promote, scaled="threads" if problem.scaled else "")
    return _Way(plan, (problem.dtype, b_dtype, c_dtype), majors)
