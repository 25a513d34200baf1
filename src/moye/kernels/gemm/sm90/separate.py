"""Several products of matrices that lie anywhere, each with extents of its own, in one launch; sm_90a.

In: A_i (M_i, K_i), B_i (N_i, K_i) and C_i (M_i, N_i), of one dtype each.  Out: every C_i written in place.

    grouped_gemm_sm90([A0, A1], [B0, B1], [C0, C1])     # C0 = A0 @ B0.T, C1 = A1 @ B1.T

The tensor maps of all matrices are parameters of the launch, so that nothing is copied to the device before it, and no
fence is needed.  The tiles of all products are numbered one after the other, and dealt out to a persistent grid.  What
TMA cannot load or store as it is gets a launch of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import moye as mo
from moye.kernels.gemm.parts.arguments import activation_of, configured, matrices, same_problem, scalar
from moye.kernels.gemm.parts.epilogues import ACTIVATIONS
from moye.kernels.gemm.sm90.config import GROUP, MOST, Problem, WarpgroupConfig, choose, estimate
from moye.kernels.gemm.sm90.epilogue import Epilogue, finish_stores, store
from moye.kernels.gemm.sm90.fusion import Fusion
from moye.kernels.gemm.sm90.host import (
    EIGHTH,
    Activation,
    check_dtypes,
    check_extents,
    gemm_sm90,
    loaded,
    multiplied,
    stored,
)
from moye.kernels.gemm.sm90.kernel import share_registers, stages_of
from moye.kernels.gemm.sm90.mainloop import first_turn, mainloop, promoted_mainloop
from moye.kernels.gemm.sm90.plan import Plan, make_plan
from moye.kernels.memory import apart

TOGETHER = 16
"""Products of one launch at most: the kernel names the tensor maps of each, of the 32 kB that parameters may have."""


@mo.kernel
def separate_gemm_sm90_kernel(As, Bs, Cs, alpha, plan: mo.Constexpr):
    """Tiles of all products, block after block of the persistent grid; a tensor map for each matrix."""
    config, groups, tid = plan.config, plan.config.groups, mo.thread_idx().x
    sA, sB, _ = stages_of(plan)                                         # (bM, bK, stages), (bN, bK, stages)
    sC = mo.shared_array(plan.C.dtype, plan.C.staged)                   # (64 * groups, columns, 2)
    pipe = mo.PipelineTma(config.stages, As[0].bytes + Bs[0].bytes, consumers=groups)
    pipe.init()
    mo.sync_threads()
    works = tuple(Work(plan, A, B) for A, B in zip(As, Bs, strict=True))
    if mo.warpgroup_idx() == groups:
        share_registers(plan, loads=True)
        if tid == groups * GROUP:
            produce(plan, As, Bs, sA, sB, pipe, works)
    else:
        share_registers(plan, loads=False)
        consume(plan, Cs, alpha, sA, sB, sC, pipe, works)


class Work:
    """The tiles of one product."""

    def __init__(self, plan: Plan, A: Any, B: Any) -> None:
        config = plan.config
        self.m_tiles = mo.ceil_div(mo.size(A.tensor, 0), config.bM)
        self.n_tiles = mo.ceil_div(mo.size(B.tensor, 0), config.bN)
        self.k_tiles = mo.ceil_div(mo.size(A.tensor, 1), config.bK)


@mo.jit
def produce(plan, As, Bs, sA, sB, pipe, works):
    """One thread fills the stages, product after product, with the tiles of each that are this block's."""
    config, tile, first = plan.config, mo.block_idx().x, 0
    state = pipe.producer_start()
    for i in mo.static_range(len(As)):
        gA = mo.tile(As[i].tensor, (config.bM, config.bK), (None, None), ragged=True)   # (bM, bK, m, k)
        gB = mo.tile(Bs[i].tensor, (config.bN, config.bK), (None, None), ragged=True)   # (bN, bK, n, k)
        sched = mo.PersistentTileScheduler(works[i].m_tiles, works[i].n_tiles, 1, config.raster)
        last = first + sched.tiles
        while tile < last:
            m, n, _ = sched.coordinates(tile - first)
            for k in range(works[i].k_tiles):
                pipe.producer_acquire(state)
                mo.copyto(As[i], sA[:, :, state.stage], gA[:, :, m, k], barrier=pipe.barrier(state))
                mo.copyto(Bs[i], sB[:, :, state.stage], gB[:, :, n, k], barrier=pipe.barrier(state))
                state = state.next()
            tile += mo.grid_dim().x
        first = last


@mo.jit
def consume(plan, Cs, alpha, sA, sB, sC, pipe, works):
    """All warpgroups' rows of a tile, whatever product it is of."""
    config, tid = plan.config, mo.thread_idx().x
    thr_mma = plan.product.mma.get_slice(tid % (config.groups * GROUP))
    tCrA = thr_mma.partition_fragment_A(sA)                             # (MMA, MMA_M, MMA_K, stages)
    tCrB = thr_mma.partition_fragment_B(sB)                             # (MMA, MMA_N, MMA_K, stages)
    state = pipe.consumer_start()
    first_turn(plan)
    total = works[0].m_tiles * works[0].n_tiles
    for work in works[1:]:
        total = total + work.m_tiles * work.n_tiles
    for tile in range(mo.block_idx().x, total, mo.grid_dim().x):
        product, first, m_tiles, n_tiles, k_tiles = product_of(works, tile)
        m, n, _ = mo.PersistentTileScheduler(m_tiles, n_tiles, 1, config.raster).coordinates(tile - first)
        acc = plan.product.mma.partition_fragment_C((config.bM, config.bN))         # (MMA, MMA_M, MMA_N)
        if plan.product.promote:
            state = promoted_mainloop(plan, pipe, acc, tCrA, tCrB, state, (0, k_tiles), None)
        else:
            state = mainloop(plan, pipe, acc, tCrA, tCrB, state, (0, k_tiles))
        out = Epilogue(Cs, None, None, (None,), None, (None,), alpha, None, None, None, None, product)
        store(plan, out, sC, acc, (m, n, 0))
    finish_stores(plan)


@mo.jit
def product_of(works, tile):
    """Which product a tile is of, the number of its first tile, and its tiles along M, N and K."""
    product, first, begin = 0, 0, 0
    m_tiles, n_tiles, k_tiles = works[0].m_tiles, works[0].n_tiles, works[0].k_tiles
    for i in mo.static_range(1, len(works)):
        begin = begin + works[i - 1].m_tiles * works[i - 1].n_tiles
        here = tile >= begin
        product, first = mo.where(here, i, product), mo.where(here, begin, first)
        m_tiles, n_tiles = mo.where(here, works[i].m_tiles, m_tiles), mo.where(here, works[i].n_tiles, n_tiles)
        k_tiles = mo.where(here, works[i].k_tiles, k_tiles)
    return product, first, m_tiles, n_tiles, k_tiles


# --- host ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Product:
    """One product, as the user gave it and as moye describes it."""

    A: Any
    B: Any
    C: Any
    a: Any
    b: Any
    c: Any

    @property
    def majors(self) -> tuple[str, str] | None:
        """How A and B lie, of a product that shares a launch with others of its kind; None for one that is alone."""
        modes = loaded(self.a), loaded(self.b)
        if None in modes or 0 in (*self.a.shape, *self.b.shape) or stored(self.c, "warpgroup") != "k":
            return None
        return "k" if modes[0] else "mn", "k" if modes[1] else "mn"


def separate_products(name: str, As: Any, Bs: Any, Cs: Any, scale_a: Any, scale_b: Any, *, activation: Activation,
                      alpha: float, fast_accum: bool, config: WarpgroupConfig | None) -> Any:
    """C[i] = activation(alpha * A[i] @ B[i].T) for every i, in place; returns C."""
    products = _described(name, As, Bs, Cs)
    scales = [_factors(name, letter, given, len(products)) for letter, given in (("scale_a", scale_a),
                                                                                 ("scale_b", scale_b))]
    configured(name, config, WarpgroupConfig)
    function = activation_of(name, activation, ACTIVATIONS)
    if not products:
        return Cs
    a = products[0].a
    factor = scalar(alpha, a.dtype, name)
    promote = a.dtype in EIGHTH and not fast_accum
    fusion = Fusion(scaled=factor != 1, activation=function)
    alike: dict[tuple[str, str], list[_Product]] = {}
    for i, product in enumerate(products):
        if product.majors is not None and scale_a is None and scale_b is None:
            alike.setdefault(product.majors, []).append(product)
        else:                                           # refused here as well, with the name of that function
            gemm_sm90(product.A, product.B, product.C, alpha=alpha, activation=activation, fast_accum=fast_accum,
                      scale_a=scales[0][i], scale_b=scales[1][i], config=config)
    for majors, found in alike.items():
        for first in range(0, len(found), TOGETHER):
            _launch(name, found[first:first + TOGETHER], majors, fusion, promote, config, factor)
    return Cs


def _factors(name: str, letter: str, given: Any, count: int) -> Sequence[Any]:
    """The factors of blocks of each product."""
    if given is None:
        return (None,) * count
    if not isinstance(given, (list, tuple)) or len(given) != count:
        found = f"{len(given)}" if isinstance(given, (list, tuple)) else f"a {type(given).__name__}"
        raise mo.ArgumentError(f"{name}: {letter} must be a list of {count} arrays, as A is, not {found}")
    return given


def _described(name: str, As: Any, Bs: Any, Cs: Any) -> list[_Product]:
    """The products; ArgumentError for lists and matrices that do not fit."""
    for letter, Xs in (("A", As), ("B", Bs), ("C", Cs)):
        if not isinstance(Xs, (list, tuple)):
            raise mo.ArgumentError(f"{name}: without offsets A, B and C are lists of matrices, and {letter} is a "
                                   f"{type(Xs).__name__}", hint="stacked matrices take offsets, where groups begin")
    if not len(As) == len(Bs) == len(Cs):
        raise mo.ArgumentError(f"{name}: {len(As)} matrices A, {len(Bs)} B and {len(Cs)} C are not as many of each")
    products = []
    for i, (A, B, C) in enumerate(zip(As, Bs, Cs, strict=True)):
        a, b, c = matrices(f"{name}, product {i}", A, B, C)
        check_dtypes(f"{name}, product {i}", a, b, c)
        same_problem(f"{name}, product {i}", a, b, c)
        products.append(_Product(A, B, C, a, b, c))
        for letter, x, first in (("A", a, products[0].a), ("B", b, products[0].b), ("C", c, products[0].c)):
            if x.dtype != first.dtype or x.device != first.device:
                raise mo.ArgumentError(f"{name}, product {i}: {letter} is {x.dtype} on {_place(x)}, and that of "
                                       f"product 0 {first.dtype} on {_place(first)}")
    _require_apart(name, products)
    return products


def _place(info: Any) -> str:
    return "the host" if info.device is None else f"cuda:{info.device}"


def _require_apart(name: str, products: list[_Product]) -> None:
    """ArgumentError for a C that has memory in common with any other matrix: neighbours by their addresses."""
    spans = sorted((x.ptr, i, letter, x) for i, product in enumerate(products)
                   for letter, x in (("A", product.a), ("B", product.b), ("C", product.c)) if 0 not in x.shape)
    reach: list[tuple[int, int, str, Any]] = []         # those before that reach beyond the beginning of this one
    for begin, i, letter, x in spans:
        reach = [other for other in reach if other[0] > begin]
        for _, j, other_letter, other in reach:
            if "C" in (letter, other_letter):
                written, read = ((i, x), (j, other_letter, other)) if letter == "C" else ((j, other), (i, letter, x))
                apart(f"{name}, product {written[0]}", f"{read[1]} of product {read[0]}", read[2], written[1])
        last = sum((extent - 1) * step for extent, step in zip(x.shape, x.strides, strict=True)) + 1
        reach.append((begin + last * x.dtype.bytes, i, letter, x))


def _launch(name: str, products: list[_Product], majors: tuple[str, str], fusion: Fusion, promote: bool,
            config: WarpgroupConfig | None, alpha: Any) -> None:
    """One launch of products that lie alike."""
    a, b, c = products[0].a, products[0].b, products[0].c
    multiprocessors, count = mo.multiprocessors(c), len(products)
    check_extents(name, *(x for p in products for x in (p.a, p.b)))
    M, N, K = (sum(extents) // count for extents in zip(*((*p.c.shape, p.a.shape[1]) for p in products),
                                                            strict=True))
    problem = Problem(M, N, K, count, a.dtype, promote, most=MOST if fusion.plain else 128)
    plan = _plan(name, problem, majors, b.dtype, c.dtype, fusion, config, multiprocessors)
    chosen = plan.config
    load = mo.TmaLoad(rounding=mo.tfloat32 if a.dtype == mo.float32 else None)
    tiles = sum(-(-p.c.shape[0] // chosen.bM) * -(-p.c.shape[1] // chosen.bN) for p in products)
    separate_gemm_sm90_kernel.launch(
        tuple(mo.TmaCopy(load, p.A, plan.A.box, (chosen.bM, chosen.bK), 1) for p in products),
        tuple(mo.TmaCopy(load, p.B, plan.B.box, (chosen.bN, chosen.bK), 1) for p in products),
        tuple(mo.TmaCopy(mo.TmaStore(), p.C, plan.C.box, (64, plan.C.columns), 1) for p in products),
        alpha if fusion.scaled else None, plan, grid=min(tiles, multiprocessors), block=chosen.threads)


@functools.lru_cache(maxsize=1024)
def _plan(name: str, problem: Problem, majors: tuple[str, str], b_dtype: Any, c_dtype: Any, fusion: Fusion,
          config: WarpgroupConfig | None, multiprocessors: int) -> Plan:
    chosen = config_of_groups(name, problem, multiprocessors, config)
    return make_plan(chosen, (multiplied(problem.dtype), multiplied(b_dtype)), c_dtype, *majors, "k", fusion, 1,
                     problem.promote)


def config_of_groups(name: str, problem: Problem, multiprocessors: int, config: WarpgroupConfig | None) -> \
        WarpgroupConfig:
    """The configuration of several products in one launch, as given or for a mean one; ArgumentError for others than
    cooperative ones of two warpgroups.
    """
    if config is None:
        bK = 128 // problem.dtype.bytes
        if problem.promote:                             # the tiles of both were measured with factors
            each, small = replace(problem, scaled=True), WarpgroupConfig(128, 128, bK, 5)
            if problem.most < MOST:                     # sums that are there twice leave no registers for what is fused
                return small
            return min((small, WarpgroupConfig(128, 192, bK, 4, raster=16)),
                       key=lambda tile: estimate(tile, each, multiprocessors))
        found = choose(replace(problem, M=max(129, problem.M)), multiprocessors)
        return WarpgroupConfig(128, 256, bK, 4) if found.bN > 128 and problem.N > 128 else \
            WarpgroupConfig(128, 128, bK, 5)
    if config.schedule != "cooperative" or config.groups != 2 or config.sharing > 1 or config.swap \
            or config.store != "warpgroup":
        raise mo.ArgumentError(f"{name}: {config} is no cooperative configuration of two warpgroups",
                               hint='schedule="cooperative", groups=2, split_k=1, swap=False, share_A=1, share_B=1, '
                                    'store="warpgroup"')
    return config
