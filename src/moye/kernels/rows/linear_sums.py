"""Sums of exponentials of the rows of A @ B.T that are never written: what a cross-entropy's forward needs; sm_90a.

In: TMA copies of A (M, K) and B (N, K), labels (M).  Out: of each row and tile of columns the largest sum, the sum of
exponentials below it and the plain sum, and the sum at the label's column; then losses of rows.

The product is that of ``gemm_sm90``, a persistent grid of 128 x 256 tiles; four threads have a row of a tile.  What
they leave takes 12 bytes for each 256 columns of a row.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels.gemm.sm90.config import GROUP, WarpgroupConfig
from moye.kernels.gemm.sm90.epilogue import Epilogue
from moye.kernels.gemm.sm90.host import loaded
from moye.kernels.gemm.sm90.kernel import first_place, produce, schedule, share_registers, stages_of
from moye.kernels.gemm.sm90.mainloop import mainloop
from moye.kernels.gemm.sm90.plan import make_plan
from moye.kernels.rows.entropy import label_of, row_loss, target_of
from moye.kernels.rows.softmax import LOG2E, LOWEST
from moye.kernels.rows.views import dtype_of, shape_of
from moye.kernels.workspace import empty

CONFIG = WarpgroupConfig(bM=128, bN=256, bK=64, stages=4, raster=16)
_LOAD = mo.TmaLoad()
ROWS, WARPS = 32, 16
"""Rows of a block that folds tiles, and warps that share them."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Of each row and tile of columns, (M, tiles): the largest, the sum of exponentials, the sum; (M): at the label."""

    top: Any
    total: Any
    plain: Any
    own: Any


@mo.kernel
def row_parts_kernel(A, B, labels, parts, plan: mo.Constexpr):
    """The parts of all rows, tile after tile of a persistent grid."""
    config, tid = plan.config, mo.thread_idx().x
    mo.griddepcontrol_launch_dependents()
    sA, sB, _ = stages_of(plan)                                         # (bM, bK, stages), (bN, bK, stages)
    pipe = mo.PipelineTma(config.stages, A.bytes + B.bytes, consumers=config.groups)
    M, N = mo.size(A.tensor, 0), mo.size(B.tensor, 0)
    sched, k_tiles = schedule(plan, A, (B,), Epilogue(None, None, None, None, None, None, None, None, M, N))
    pipe.init()
    first = first_place(plan, sched)
    mo.sync_threads()
    if mo.warpgroup_idx() == config.groups:
        share_registers(plan, loads=True)
        if tid == config.groups * GROUP:
            produce(plan, A, (B,), sA, sB, pipe, sched, first, k_tiles, (None, None))
    else:
        share_registers(plan, loads=False)
        thr_mma = plan.product.mma.get_slice(tid)
        tCrA, tCrB = thr_mma.partition_fragment_A(sA), thr_mma.partition_fragment_B(sB)
        state = pipe.consumer_start()
        for tile in range(sched.first, sched.tiles, sched.step):
            m, n, _ = sched.coordinates(tile)
            acc = plan.product.mma.partition_fragment_C((config.bM, config.bN))     # (MMA, 1, 1)
            state = mainloop(plan, pipe, acc, tCrA, tCrB, state, (0, k_tiles))
            cC = mo.tile(mo.identity_tensor((M, N)), (config.bM, config.bN), (m, n), ragged=True)
            fold_tile(plan, acc, thr_mma.partition_C(cC), labels, parts, n, (M, N))


@mo.jit
def fold_tile(plan, acc, tCcC, labels, parts, n, extents):
    """What a tile adds to the parts of its rows; acc is used up."""
    mma, (M, N) = plan.product.mma, extents
    view, columns = mo.mn_view(acc, mma), plan.config.bN                # ((2,1), (2, bN / 8, 1))
    first, ends = n * columns, mo.size(view, 1)
    places = [tCcC[(0, half, 0), 0, 0] for half in mo.static_range(2)]  # of this thread's first element of its rows
    for half in mo.static_range(2):
        row, column = places[half]
        if row < M:
            label = labels[row]                         # an ignored one may be any number of 64 bits
            at = mo.int32(mo.where((label >= 0) & (label < N), label, label.dtype(-1))) - column
            if (at >= 0) & (at < columns):
                for j in mo.static_range(ends):
                    if at == j // 2 * 8 + j % 2:
                        parts.own[row] = view[half, j]
    if parts.plain is not None:
        plain = mo.row_reduce(acc, "add", mma)                          # TMA reads zeros beyond N
    if first + columns > N:
        for j in mo.static_range(ends):
            if places[0][1] + (j // 2 * 8 + j % 2) >= N:
                for half in mo.static_range(2):
                    view[half, j] = LOWEST
    top = mo.row_reduce(acc, "max", mma)                                # ((2, 1))
    base = mo.make_fragment_like(top)
    for half in mo.static_range(2):
        base[half] = mo.where(top[half] == LOWEST, mo.float32(0), top[half])
        view[half, None] = mo.exp2(mo.fma(view[half, None], LOG2E, -(base[half] * LOG2E)), fast=True)
    total = mo.row_reduce(acc, "add", mma)
    for half in mo.static_range(2):                                     # one instruction an element; what the product
        lost = mo.fma(base[half], mo.float32(LOG2E), -(base[half] * LOG2E))     # loses by rounding is mended here
        total[half] = total[half] * mo.exp2(-lost, fast=True)
    for half in mo.static_range(2):
        row, _ = places[half]
        if (row < M) & (mo.thread_idx().x % 4 == 0):                    # one of the four threads of the row
            parts.top[row, n], parts.total[row, n] = top[half], total[half]
            if parts.plain is not None:
                parts.plain[row, n] = plain[half]


@mo.kernel
def loss_of_parts_kernel(loss, lse, labels, weight, parts, n,
                         ignored: mo.int64, smoothing: mo.float64, z: mo.float64):      # type: ignore[valid-type]
    """Losses of rows from the parts of their tiles; a lane has a row, and the warps of a block share its tiles."""
    lane, warp, tiles = mo.lane_idx(), mo.warp_idx(), mo.size(parts.top, 1)
    row, smooth, z = mo.block_idx().x * ROWS + lane, mo.float32(smoothing), mo.float32(z)
    there = row < mo.size(labels, 0)
    folds = mo.shared_array(mo.float32, (ROWS, WARPS, 3))
    mo.griddepcontrol_launch_dependents()
    mo.griddepcontrol_wait()
    top, total, plain = mo.float32(LOWEST), mo.float32(0), mo.float32(0)
    if there:
        for i in mo.range(warp, tiles, WARPS, unroll=4):
            above = mo.max(top, parts.top[row, i])
            part = parts.total[row, i] * mo.exp2((parts.top[row, i] - above) * LOG2E, fast=True)
            total, top = total * mo.exp2((top - above) * LOG2E, fast=True) + part, above
            if parts.plain is not None:
                plain += parts.plain[row, i]
    folds[lane, warp, 0], folds[lane, warp, 1], folds[lane, warp, 2] = top, total, plain
    mo.sync_threads()
    if (warp == 0) & there:
        for i in mo.static_range(1, WARPS):
            above = mo.max(top, folds[lane, i, 0])
            part = folds[lane, i, 1] * mo.exp2((folds[lane, i, 0] - above) * LOG2E, fast=True)
            total, top = total * mo.exp2((top - above) * LOG2E, fast=True) + part, above
            plain += folds[lane, i, 2]
        target = target_of(mo.float32, label_of(labels, row, there), weight, there, ignored, n)
        own = mo.float32(float("nan"))
        if target.known:
            own = parts.own[row]
        rest, mean = mo.log(total), None if parts.plain is None else plain / n
        loss[row] = loss.dtype(row_loss(target, top, own, rest, mean, smooth, z))
        lse[row] = lse.dtype(top + rest)


# --- host ------------------------------------------------------------------------------------------------------------


def suits(a: Any, w: Any, arch: str | None) -> bool:
    """Whether rows of a @ w.T can be summed so: 16-bit operands that TMA loads along K, on sm_90a."""
    return arch == "sm_90a" and a.dtype == w.dtype and a.dtype.bits == 16 and loaded(a) == 1 and loaded(w) == 1


def launch_sums(losses: Any, lse: Any, x: Any, W: Any, labels: Any, weight: Any, ignored: int, smoothing: float,
                z: float) -> None:
    """Losses of rows and logarithms of their sums, of logits x @ W.T that are never written; two launches."""
    rows, n, plan = shape_of(x)[0], shape_of(W)[0], plan_of(dtype_of(x))
    tiles = -(-n // CONFIG.bN)
    tops, totals = (empty(x, mo.float32, (rows, tiles)) for _ in range(2))          # rows beside each other
    plain = empty(x, mo.float32, (rows, tiles)) if smoothing else None
    parts = Parts(tops, totals, plain, empty(x, mo.float32, (rows,)))
    copies = [mo.TmaCopy(_LOAD, t, side.box, (extent, CONFIG.bK), 1)
              for t, side, extent in ((x, plan.A, CONFIG.bM), (W, plan.B, CONFIG.bN))]
    blocks = min(-(-rows // CONFIG.bM) * tiles, mo.multiprocessors(x))
    row_parts_kernel.launch(*copies, labels, parts, plan, grid=blocks, block=CONFIG.threads)
    loss_of_parts_kernel.launch(losses, lse, labels, weight, parts, n, ignored, smoothing, z, grid=-(-rows // ROWS),
                                block=32 * WARPS, dependent=True)


@functools.cache
def plan_of(dtype: Any) -> Any:
    """The plan of the product; its C is never stored."""
    return make_plan(CONFIG, (dtype, dtype), dtype, "k", "k", "k")
