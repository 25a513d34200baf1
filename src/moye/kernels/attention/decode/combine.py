"""The parts of problems that several warps share, combined.

In: for each part results (dim_v, rows) and the logarithms of its sums.  Out: rows of O, and theirs.
"""

from __future__ import annotations

import math

import moye as mo
from moye.kernels.attention.decode.work import Work, found, parts_of, share_of, tiles_of
from moye.kernels.attention.parts.scores import LOG2_E
from moye.kernels.attention.parts.softmax import above

WARPS = 8
_FEW = 16
"""Parts up to which a warp has a row."""


@mo.kernel
def combine_kernel(O, lse, lengths, left, results, log_sums, sinks, crews: mo.int32,    # type: ignore[valid-type]
                   plan: mo.Constexpr, by_share: mo.Constexpr):
    """O (dim_v, heads, queries, batch): a block has some rows of a problem, and weighs its parts by their sums.

    ``by_share``: there is a block for each team instead, which takes the problem that its share begins in, if no share
    before it does.  Where one team had all keys of a problem there is nothing to do.
    """
    heads_K, x = mo.size(O, 1) // plan.heads_of_a_key, mo.block_idx().x
    work = Work(lengths, mo.size(O, 2), left, heads_K * plan.row_tiles, crews, plan.together, plan.keys)
    batch, number = x // work.problems, x % work.problems
    if by_share:
        batch, number = begun_by(work, x)
    share, start, total = share_of(work, batch)
    parts = parts_of(work, share, start, batch, number)
    shared = parts.count > 1
    if by_share:
        crew = x // work.together
        shared = shared & (crew == parts.first + 1) & (crew * share < total)
    mo.griddepcontrol_wait()                            # for results and log_sums
    if shared:
        for_rows(plan, O, lse, results, log_sums, sinks, batch, number, parts)


@mo.jit
def begun_by(work, x):
    """(sequence, number) of the problem in which the share of team number ``x`` begins."""
    share, _, _ = share_of(work)
    batch, within = found(work, x // work.together * share)
    first, end, _ = tiles_of(work, batch)
    return batch, within // (end - first) * work.together + x % work.together


@mo.jit
def for_rows(plan, O, lse, results, log_sums, sinks, batch, number, parts):
    """The rows of a problem: each has a warp where parts are few, and else a block."""
    alone, room = parts.count <= _FEW, mo.shared_array(mo.float32, (plan.dim_v, WARPS))
    step, first = mo.grid_dim().y, mo.block_idx().y
    if alone:
        step, first = step * WARPS, first * WARPS + mo.warp_idx()
    for i in mo.range(first, plan.used, step):
        row, group = number % plan.row_tiles * plan.rows + i, plan.heads_of_a_key
        query, head = row // group, number // plan.row_tiles * group + row % group
        if query < mo.size(O, 2):
            base, total = sum_of(log_sums, i, parts, None if sinks is None else sinks[head] * LOG2_E)
            target = O[:, head, query, batch]
            if alone:
                put(target, weighed(plan, results, log_sums, i, parts, base, 0, 1), total)
            else:
                value = weighed(plan, results, log_sums, i, parts, base, mo.warp_idx(), WARPS)
                put_together(room, target, value, total)
            if lse is not None and mo.lane_idx() == 0 and (alone or mo.warp_idx() == 0):
                lse[query, head, batch] = mo.where(total == 0.0, -math.inf, (base + mo.log2(total)) / LOG2_E)


@mo.jit
def sum_of(log_sums, row, parts, sink):
    """(a number b, the sum s), so that s * 2^b is the sum of exponentials of a row."""
    top, total, count = mo.float32(-math.inf), mo.float32(0), parts.count
    for p in mo.range(mo.lane_idx(), count, 32, unroll=4):
        top = mo.max(top, log_sums[row, parts.place(p)])
    top = mo.warp_reduce(top, "max")
    if sink is not None:
        top = mo.max(top, sink)
    base = above(top, True)
    for p in mo.range(mo.lane_idx(), count, 32, unroll=4):
        total += mo.exp2(log_sums[row, parts.place(p)] - base)
    total = mo.warp_reduce(total)
    if sink is not None:
        total += mo.exp2(sink - base)
    return base, total


@mo.jit
def weighed(plan, results, log_sums, row, parts, base, first, step):
    """The sum of every so many parts of a row, each times its weight (columns side by side, such runs of a lane)."""
    run = math.gcd(4, plan.dim_v // 32)
    value, lane = mo.fragment((run, plan.dim_v // 32 // run), mo.float32), mo.lane_idx()
    value.fill(0)
    for p in mo.range(first, parts.count, step, unroll=4 if mo.size(value) <= 4 else 2):
        place, held = parts.place(p), mo.make_fragment_like(value)
        weight = mo.exp2(log_sums[row, place] - base)
        for j in mo.static_range(mo.size(value, 1)):
            mo.copyto(held[:, j], mo.tile(results[:, row, place], (run,), (lane + 32 * j,), ragged=True))
        value[...] = value + weight * held
    return value


@mo.jit
def put_together(room, target, value, total):
    """A row of which each warp has a sum: the block adds them up."""
    for j in mo.static_range(mo.size(value, 1)):
        mo.copyto(mo.tile(room[:, mo.warp_idx()], (mo.size(value, 0),), (32 * j + mo.lane_idx(),)), value[:, j])
    mo.sync_threads()
    for d in mo.range(mo.thread_idx().x, mo.size(target), WARPS * 32):
        whole = mo.float32(0)
        for w in mo.static_range(WARPS):
            whole += room[d, w]
        target[d] = mo.where(total == 0.0, 0.0, whole / total).to(target.dtype)
    mo.sync_threads()                                   # who goes on writes to this memory


@mo.jit
def put(target, value, total):
    """A row, divided by the sum; runs of columns lie inside of it or outside."""
    for j in mo.static_range(mo.size(value, 1)):
        d = mo.lane_idx() + 32 * j
        if d * mo.size(value, 0) < mo.size(target):
            mo.copyto(mo.tile(target, (mo.size(value, 0),), (d,), ragged=True),
                      mo.where(total == 0.0, 0.0, value[:, j] / total).to(target.dtype))
