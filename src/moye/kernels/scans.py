"""Inclusive prefix sums along any axis.

In: an array.  Out: another one of its shape, in which each element is the sum of x up to it.

    cumsum(out, x, axis=-1)                     # out[..., j] = x[..., 0] + ... + x[..., j]

Along a contiguous axis a block has a row and reads it once: warps scan parts of it, and a block carries its sum from
part to part.  Where rows are few and long, blocks share them: a first pass sums their shares, and a second one begins
with the sums of the shares before.  Long rows that no L2 holds are read once all the same: blocks look back at what
those before them have (``chained_kernel``).  Other axes: scans_columns.py.  Each run gives the same bits.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import moye as mo
from moye.kernels import views
from moye.kernels.loads import in_flight
from moye.kernels.maps import coordinate
from moye.kernels.scans_columns import scan_columns
from moye.kernels.workspace import empty

_FILL, _SHARED = 1024, 256
"""Threads that keep a multiprocessor busy, and of a block that has a row at most."""
ONCE = 1 << 25
"""Bytes of x that stay in L2 until a second pass reads them."""
_BACK = 96
"""Parts that a warp looks at at once, whose loads from L2 take the time of one; with 128 registers spill."""
_SUM, _PREFIX = 1, 2
"""What a part's word has: the sum of its own elements, or of all elements of the row up to its end."""


@dataclass(frozen=True, slots=True)
class Plan:
    """``width``: elements of a vector; ``whole``: whether vectors divide the lines; ``each``: vectors that a thread has
    on their way; ``splits``: blocks that share a row; ``sums``: the first pass, that writes sums alone;
    ``shifted``: rows begin anywhere, and vectors count from the multiple of 16 bytes in front of them; ``chained``:
    one pass, a block for each part of a row."""

    width: int
    whole: bool
    each: int
    threads: int
    splits: int
    sums: bool
    compute: Any
    shifted: bool = False
    chained: bool = False


def make_plan(n: int, modes: Sequence[views.Mode], infos: tuple[Any, Any]) -> Plan:
    """The rule.  Vectors of 16 bytes, four a thread, and as many warps as have them up to 8; along rows that begin
    anywhere two vectors, which take more registers there, and up to 16 warps.  Few short rows that vectors do not
    divide go in narrower ones.

    Where this makes fewer threads than half of what fills the device, up to 1024 blocks share a row, with four parts
    each at least.

    Where blocks would share rows of more than 32 MB in all, and sums are float32, there is one pass instead (chained):
    a part is what 512 threads have.
    """
    width, lines = views.width_of(modes, *infos), math.prod(m.extent for m in modes[1:])
    full = 16 // max(info.dtype.bytes for info in infos)
    few = n <= 4 * _SHARED and lines * _SHARED <= _FILL * mo.multiprocessors(infos[0])
    width = math.gcd(width, n) if few else width
    while few and width > 1 and 2 * n <= width * _SHARED:
        width //= 2
    shifted = not few and width < full <= n // 4 and infos[0].dtype == infos[1].dtype and modes[0].strides == (1, 1)
    width = full if shifted else width
    whole, wide = modes[0].extent % width == 0 and not shifted, any(info.dtype is mo.float64 for info in infos)
    each, vectors = (2, -(-(n + width - 1) // width)) if shifted else (4, -(-n // width))
    each = -(-vectors // _SHARED) if few else each
    threads = min(1024 // each, 32 * -(-vectors // (32 * each)))
    running, most = lines * threads, min(1024, -(-vectors // (threads * each)) // 4)
    room = _FILL * mo.multiprocessors(infos[0])
    splits = max(1, min(most, -(-room // max(running, 1)))) if running < room // 2 else 1
    if splits > 1 and not wide and lines * n * infos[1].dtype.bytes > ONCE:
        return Plan(width, whole, each, 512, -(-vectors // (512 * each)), False, mo.float32, shifted, True)
    return Plan(width, whole, each, threads, splits, False, mo.float64 if wide else mo.float32, shifted)


def compiled(plan: Plan) -> Plan:
    """What of a plan kernels are compiled for: whether there are several splits; how many, the grid tells."""
    return replace(plan, splits=min(plan.splits, 2))


@mo.jit
def load(plan, line, i, there, lead):
    """Vector i of a line, zeros where it is not there; and what of it is."""
    inside, part, extent = there, mo.fragment((plan.width,), line.dtype), (mo.size(line, 0),)           # (width)
    columns = mo.identity_tensor(extent)
    if plan.shifted:
        line, columns = mo.with_lead(line, lead), mo.with_lead(columns, lead)                           # (lead + n)
    if not plan.whole:
        inside = mo.inside(mo.tile(columns, (plan.width,), (i,), ragged=True), extent) & there
    mo.copyto(part, mo.tile(line, (plan.width,), (i,), ragged=True), pred=inside, zero_fill=True)
    return part, inside


@mo.jit
def take(plan, line, first, end, lead):
    """What a thread takes in front of ``end``: vectors from its ``first`` on, 32 apart; number and inside of each."""
    held, mask = [], []
    for k in mo.static_range(plan.each):
        i = first + k * 32
        vector, inside = load(plan, line, i, i < end, lead)
        held.append(vector)
        mask.append((i, inside))
    in_flight(*held)
    return [vector.to(plan.compute) for vector in held], mask


@mo.jit
def scan_warp(plan, parts, lane):
    """The vectors of a warp, one behind the other by round, scanned in place; the sum of all."""
    total = plan.compute(0)
    for part in parts:
        for j in mo.static_range(1, plan.width):
            part[j] += part[j - 1]
        upto = mo.warp_scan(part[plan.width - 1])
        before = mo.shuffle_up(upto, 1)
        part += total + mo.where(lane > 0, before, 0)
        total += mo.shuffle_idx(upto, 31)
    return total


@mo.kernel
def rows_kernel(out, x, sums, plan: mo.Constexpr):
    """out = x summed along the first mode, (n, *rows) both; sums (splits, rows) if blocks share a row."""
    tid, split, w, warps = mo.thread_idx().x, mo.block_idx().y, plan.width, plan.threads // 32
    lane, warp, scratch = tid % 32, tid // 32, mo.shared_array(plan.compute, warps)
    row = coordinate(mo.block_idx().x, mo.shape(x)[1:])
    gX, gO, n = x[:, *row], out[:, *row], mo.size(x, 0)                                     # (n)
    chunk, carry, lead = plan.threads * plan.each, plan.compute(0), 0
    vectors = mo.ceil_div(n + (w - 1 if plan.shifted else 0), w)
    if plan.shifted:
        lead = mo.misalignment(gX)
        gO = mo.with_lead(gO, lead)                                                         # (lead + n)
    share = mo.ceil_div(mo.ceil_div(vectors, chunk), mo.grid_dim().y if plan.splits > 1 else 1) * chunk
    if plan.sums:
        mo.griddepcontrol_launch_dependents()
    if plan.splits > 1 and not plan.sums:
        mo.griddepcontrol_wait()
        for s in mo.range(tid, split, plan.threads):
            carry += sums[s, mo.block_idx().x]
        carry = mo.block_reduce(carry, scratch)
        mo.sync_threads()                               # scratch is used again
    end = mo.min(share * (split + 1), vectors)
    for start in mo.range(split * share, end, chunk):
        held, mask = take(plan, gX, start + warp * plan.each * 32 + lane, end, lead)
        mine = scan_warp(plan, held, lane)
        if lane == 0:
            scratch[warp] = mine
        mo.sync_threads()
        before = carry
        for other in mo.static_range(warps):
            carry += scratch[other]
            before = mo.where(other < warp, carry, before)
        mo.sync_threads()                               # scratch is used again
        if not plan.sums:
            for part, (i, inside) in zip(held, mask, strict=True):
                part += before
                mo.copyto(mo.tile(gO, (w,), (i,), ragged=True), part.to(out.dtype), pred=inside)
    if plan.sums and tid == 0:
        sums[split, mo.block_idx().x] = carry


@mo.kernel
def clear_kernel(words, ticket):
    """No part of ``words`` has a sum, and none is taken."""
    mo.griddepcontrol_launch_dependents()
    i = mo.block_idx().x * 256 + mo.thread_idx().x
    if i < mo.size(words):
        words[i] = 0
    if i == 0:
        ticket[0] = 0


@mo.jit
def word(value, state):
    """A float and what it is as one word, so that they are seen together."""
    return mo.int64(state) << 32 | value.bitcast(mo.uint32).to(mo.int64)


@mo.jit
def value_of(seen):
    """The float of a word."""
    return (seen & 0xFFFFFFFF).to(mo.uint32).bitcast(mo.float32)


@mo.jit
def add_parts(words, first, total):
    """(total + the sums of ``_BACK`` parts from ``first`` on, or what the last prefix there makes of it; whether one is
    there), by a warp, as soon as all of them that are in the row have a sum."""
    seen, values, prefixes = [], [], []
    for k in mo.static_range(0, _BACK, 32):
        seen.append(mo.load(words, mo.max(first + k + mo.lane_idx(), 0), order="relaxed"))
    for k in mo.static_range(_BACK // 32):
        mine, found = first + k * 32 + mo.lane_idx(), seen[k]
        while mo.vote_any(mine >= 0 and found == 0):
            found = mo.load(words, mo.max(mine, 0), order="relaxed")
        values.append(value_of(found))
        prefixes.append(mo.ballot(mine >= 0 and found >= _PREFIX << 32))
    for k in mo.static_range(_BACK // 32):
        later = functools.reduce(operator.or_, prefixes[k + 1:], mo.uint32(0))
        if later == 0:                                  # else a prefix makes these parts needless
            begin = 32 - mo.clz(prefixes[k])            # behind the last prefix
            if begin > 0:
                total = mo.shuffle_idx(values[k], begin - 1)
            for i in mo.range(begin, 32, unroll=4):
                total += mo.shuffle_idx(values[k], i)
    return total, functools.reduce(operator.or_, prefixes) != 0


@mo.jit
def look_back(words, part):
    """The sum of the row before a part, by a warp.  It goes back to parts among which one has a prefix, and from there
    adds forwards: a prefix is the one before and a sum, so that all ways give the same bits."""
    first, total, found = part - _BACK, mo.float32(0), part < 0
    while first < part:
        total, known = add_parts(words, first, total)   # until a prefix is found, total is none
        found = found | known
        first += mo.where(found, _BACK, -_BACK)         # the row's first part has a prefix
    return total


@mo.kernel
def chained_kernel(out, x, words, ticket, plan: mo.Constexpr):
    """out = x summed along the first mode, (n, *rows) both, in one pass; words (parts, rows) and ticket are zeros."""
    tid, w, warps, lead = mo.thread_idx().x, plan.width, plan.threads // 32, 0
    lane, warp, scratch = tid % 32, tid // 32, mo.shared_array(plan.compute, warps)
    place, told = mo.shared_array(mo.int32, 1), mo.shared_array(plan.compute, 1)
    mo.griddepcontrol_wait()
    if tid == 0:
        place[0] = mo.atomic_add(ticket, 0, 1)          # parts before this one have blocks that run
    mo.sync_threads()
    line, part = place[0] % mo.size(words, 1), place[0] // mo.size(words, 1)
    row = coordinate(line, mo.shape(x)[1:])
    gX, gO, mine = x[:, *row], out[:, *row], words[:, line]                                  # (n), (n), (parts)
    if plan.shifted:
        lead = mo.misalignment(gX)
        gO = mo.with_lead(gO, lead)                                                         # (lead + n)
    end = mo.ceil_div(mo.size(x, 0) + (w - 1 if plan.shifted else 0), w)
    held, mask = take(plan, gX, (part * warps + warp) * plan.each * 32 + lane, end, lead)
    of_warp = scan_warp(plan, held, lane)
    if lane == 0:
        scratch[warp] = of_warp
    mo.sync_threads()
    whole, before = plan.compute(0), plan.compute(0)
    for other in mo.static_range(warps):
        before = mo.where(other == warp, whole, before)
        whole += scratch[other]
    if tid == 0:
        mo.store(mine, part, word(whole, mo.where(part == 0, _PREFIX, _SUM)), order="relaxed")
    if warp == 0:
        carry = plan.compute(0)
        if part > 0:
            carry = look_back(mine, part)
        if tid == 0:
            told[0] = carry
            if part > 0:
                mo.store(mine, part, word(carry + whole, _PREFIX), order="relaxed")
    mo.sync_threads()
    for vector, (i, inside) in zip(held, mask, strict=True):
        vector += told[0] + before
        mo.copyto(mo.tile(gO, (w,), (i,), ragged=True), vector.to(out.dtype), pred=inside)


# --- host ------------------------------------------------------------------------------------------------------------


@mo.replayed
def cumsum(out: Any, x: Any, *, axis: int = -1) -> None:
    """out = the inclusive prefix sums of x along an axis.  Any strides; ``out`` may be x.

    Sums are in float32, or float64 if x or out has it, and are rounded to out's dtype once.  ArgumentError if shapes or
    devices do not match.
    """
    a, o = views.described("cumsum", "x", x), views.described("cumsum", "out", out)
    views.same("cumsum", "shape", "out", o, "x", a)
    axis = views.axis_of("cumsum", axis, len(a.shape)) if a.shape else 0
    views.outputs("cumsum", {"out": o}, {"x": a}, in_place=("x",))
    views.together("cumsum", out=o, x=a)
    if 0 in a.shape:
        return
    pairs = list(zip(o.strides, a.strides, strict=True))
    along = views.Mode(a.shape[axis], pairs[axis]) if a.shape else views.Mode(1, (1, 1))
    kept = views.merged([views.Mode(n, steps) for i, (n, steps) in enumerate(zip(a.shape, pairs, strict=True))
                         if i != axis and n != 1]) or [views.Mode(1, (0, 0))]
    if along.strides[0] != 1 and any(m.extent != 1 and m.strides[0] <= along.strides[0] for m in kept):
        scan_columns(out, x, [*kept, along], (o, a))
    else:
        _scan_rows(out, x, [along, *kept], (o, a))


def _scan_rows(out: Any, x: Any, modes: list[views.Mode], infos: tuple[Any, Any]) -> None:
    """out = x summed along the first of the modes."""
    plan, sums = make_plan(modes[0].extent, modes, infos), None
    lines = math.prod(m.extent for m in modes[1:])
    if plan.chained:
        words, ticket = empty(out, mo.int64, (plan.splits, lines)), empty(out, mo.int32, (1,))
        clear_kernel[-(-plan.splits * lines // 256), 256](words, ticket)
        chained_kernel.launch(views.view(out, modes, 0), views.view(x, modes, 1), words, ticket, compiled(plan),
                              grid=plan.splits * lines, block=plan.threads, dependent=True)
        return
    passes = [compiled(plan)]
    if plan.splits > 1:
        sums, passes = empty(out, plan.compute, (plan.splits, lines)), [replace(passes[0], sums=True), passes[0]]
    for each in passes:
        rows_kernel.launch(views.view(out, modes, 0), views.view(x, modes, 1), sums, each, grid=(lines, plan.splits),
                           block=plan.threads, dependent=plan.splits > 1 and not each.sums)
