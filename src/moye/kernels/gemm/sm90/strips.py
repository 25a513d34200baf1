"""Rows of C that begin anywhere, from the sums of ``gemm_sm90`` to memory in whole sectors.

In: a warpgroup's sums of a tile, shared memory for 64 rows of it.  Out: those rows of C.

    store_rows(plan, out, sC, acc, tile)

Memory writes 32 bytes at once, and rows of an odd length begin inside of them.  So neighbouring tiles share 16 columns,
and each row of a tile goes from one multiple of 32 bytes to another: of the columns that two tiles have, one of them
stores each.  A row lies in shared memory as far behind a multiple of 32 bytes as in C; threads store its whole 16
bytes, and single elements are left where C begins and ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels.gemm.parts.rows import Strip, begin_of, staging
from moye.kernels.gemm.sm90.config import GROUP, SECTOR
from moye.kernels.gemm.sm90.fusion import finish

_EACH = 8                               # elements of 16 bytes
_ENDLESS = 1 << 30                      # places for 16 bytes that C has at most: tiles reach beyond it


@mo.jit
def column_of(plan, n):
    """The first column of tile ``n`` of a row of tiles; the first tile begins in front of C."""
    return n * (plan.config.bN - plan.C.overlap) - plan.C.overlap


@mo.jit
def lead_of(strip, row):
    """How many elements behind a multiple of 32 bytes a row begins, in C and in shared memory."""
    return begin_of(strip, row) % SECTOR


@mo.jit
def store_rows(plan, out, sC, acc, tile):
    """The warpgroup's rows of a tile to C, 64 at a time; each warp has 16 of them to itself."""
    sums, config, (bx, by, bz) = plan.pieces(acc), plan.config, tile    # (sums, piece of 16 columns, row)
    group, groups = (0, 1) if plan.in_turns else (mo.warpgroup_idx(), config.groups)
    own = mo.tile(sC, (64, mo.size(sC, 1)), (mo.thread_idx().x // GROUP, 0))            # (64, bN + room)
    place, C = ((bz,), out.C[:, :, bz]) if mo.rank(out.C) == 3 else ((), out.C)
    first = column_of(plan, by)
    for i in mo.static_range(mo.size(sums, 2)):
        row = bx * (config.bM // 64) + group + groups * i
        strip = Strip(out.C, place, C, own, row * 64, first, config.bN, out.M, out.N)
        mo.sync_warp()                                  # all have read the rows before
        stage(plan, out, strip, sums[:, :, i], (row, first // plan.C.columns), bz)
        mo.sync_warp()
        send(plan, strip)


@mo.jit
def stage(plan, out, strip, sums, place, batch):
    """Finished sums (sums, piece), rounded, to shared memory."""
    thr_mma, shape = plan.C.piece.get_slice(mo.thread_idx().x % GROUP), (64, plan.C.columns)
    rows = thr_mma.partition_C(mo.identity_tensor(shape))               # ((2, 2, 2), 1, 1): column, row, 8s
    copy, layout = staging(plan.C.dtype, plan.C.grain), mo.make_layout(shape, mo.stride(strip.staged))
    leads = [lead_of(strip, rows[(0, half, 0), 0, 0][0]) for half in range(2)]
    for c in mo.static_range(mo.size(sums, 1)):
        part = plan.C.piece.partition_fragment_C(shape)                 # (MMA, 1, 1)
        mo.copyto(part.with_layout(mo.make_layout(mo.size(sums, 0))), sums[:, c])
        if c > 0 or plan.C.overlap == 0 or place[1] >= 0:               # in front of C there is nothing to be added
            finish(plan, out, [part], (place[0], place[1] + c), batch)
        rounded = mo.make_fragment_like(part, plan.C.dtype)
        mo.copyto(rounded, part)
        rounded = rounded.with_layout(mo.make_layout(mo.shape(rounded)[0]))             # (2, 2, 2)
        for half in mo.static_range(2):
            begun = mo.domain_offset((0, leads[half] + c * plan.C.columns), strip.staged).with_layout(layout)
            mo.copyto(copy, thr_mma.partition_C(begun)[(None, half, None), 0, 0], rounded[None, half, None])


@dataclass(frozen=True, slots=True)
class Run:
    """What a tile has of a row of C, in elements of the strip: ``first`` to ``end``, and of whole 16 bytes, counted in
    these, ``body`` to ``tail``.
    """

    first: Any
    body: Any
    tail: Any
    end: Any


@mo.jit
def run_of(plan, strip, row):
    """A row's part: whole sectors, but where C begins and ends; nothing of a row that C has not."""
    lead, overlap = lead_of(strip, row), plan.C.overlap
    first = mo.max(overlap, lead - strip.column) if overlap else lead
    end = mo.min(plan.config.bN if overlap else lead + plan.config.bN, lead + strip.N - strip.column)
    end = mo.where(strip.row + row < strip.M, end, first)
    body = (first + _EACH - 1) // _EACH
    return Run(first, body, mo.max(end // _EACH, body), end)


@mo.jit
def send(plan, strip):
    """A warp's rows of a strip, 16 bytes a thread, and what is left where C begins or ends."""
    if plan.C.overlap > 0 and (strip.column >= 0) & (strip.column + plan.config.bN <= strip.N):
        vectors(plan, strip, True)
    else:
        vectors(plan, strip, False)
        ends(plan, strip)


@mo.jit
def vectors(plan, strip, inside):
    """The whole 16 bytes of each row; of a tile ``inside`` of C as many for each."""
    lane, skipped = mo.lane_idx(), plan.C.overlap // _EACH
    parts = plan.config.bN // _EACH + (-skipped if skipped else SECTOR // _EACH)        # of a row
    side = min(32, 1 << (parts - 1).bit_length())       # threads side by side
    memory = strip.whole.with_layout(mo.make_layout((_EACH, _ENDLESS), (1, _EACH)))
    for i in mo.static_range(side // 2):
        row = first_of_warp() + i * (32 // side) + lane // side
        begin, run = (begin_of(strip, row) - lead_of(strip, row) + strip.column) // _EACH, run_of(plan, strip, row)
        for turn in mo.static_range(-(-parts // side)):
            part = skipped + turn * side + lane % side
            has = (strip.row + row < strip.M) & (part < skipped + parts) if inside else \
                (part >= run.body) & (part < run.tail)
            if has:
                mo.copyto(memory[None, begin + part], mo.tile(strip.staged, (1, _EACH), (row, part))[0, None])


@mo.jit
def first_of_warp():
    """The first row of a warp, among the 64 of a warpgroup."""
    return mo.thread_idx().x % GROUP // 32 * 16


@mo.jit
def ends(plan, strip):
    """Up to 7 elements in front of a row's whole 16 bytes, and behind them, an element a thread."""
    for turn in mo.range(8, unroll=1):
        row, e = first_of_warp() + turn * 2 + mo.lane_idx() // 16, mo.lane_idx() % _EACH
        run = run_of(plan, strip, row)
        behind = mo.lane_idx() // _EACH % 2 == 1
        at = mo.where(behind, run.tail * _EACH, run.first) + e
        if at < mo.where(behind, run.end, mo.min(run.body * _EACH, run.end)):
            strip.C[strip.row + row, strip.column + at - lead_of(strip, row)] = strip.staged[row, at]
