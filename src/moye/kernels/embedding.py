"""Embedding: rows of a table by their numbers, and the gradient of the table.

In: a table (rows, columns) and integers of any shape.  Out: an array of the integers' shape and a last axis of columns.

    embedding(out, table, ids)                  # out[..., :] = table[ids[...], :]
    embedding_backward(dtable, dout, ids)       # dtable[r, :] = the sum of dout[i, :] over all i with ids[i] == r

The gradient is the same bit by bit in each run: one block writes a row and adds what belongs to it in the order of ids.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels import views
from moye.kernels.maps import as_bits, coordinate
from moye.kernels.workspace import empty

THREADS = 256
INTEGERS = (mo.int32, mo.int64)


@dataclass(frozen=True, slots=True)
class Plan:
    """``width``: elements of a vector.  The gradient has blocks of ``threads``, which sum ``rounds`` vectors each.

    ``skipped``: the row without a gradient.
    """

    width: int
    threads: int
    rounds: int
    whole: bool
    skipped: int | None


def make_plan(modes: list[views.Mode], infos: tuple[Any, ...], skipped: int | None) -> Plan:
    """The rule: vectors of 16 bytes of the widest dtype, if rows begin at multiples of them.

    The gradient has a block for each row of the table, of 128 threads, which take as few vectors each as cover the
    columns, at most 4 at a time; longer rows are taken in pieces by several blocks.
    """
    width, columns = views.width_of(modes, *infos), modes[0].extent
    rounds = min(4, -(-columns // (width * 128)))
    return Plan(width, 128, rounds, columns % width == 0, skipped)


@mo.kernel
def gather_kernel(out, table, ids, plan: mo.Constexpr):
    """out (columns, *shape) = table (columns, rows) at ids (*shape); a vector a thread, neighbours in a row."""
    gO, gT, w = as_bits(out), as_bits(table), plan.width
    columns, *shape = mo.shape(out)
    parts = mo.ceil_div(columns, w)
    i, *at = coordinate(mo.block_idx().x * THREADS + mo.thread_idx().x, (parts, *shape))
    if at[-1] < shape[-1]:
        row = ids[tuple(at)]
        known = (row >= 0) & (row < mo.size(table, 1))
        assert known, "an id that is no row of the table"
        inside = i < parts
        if not plan.whole:
            inside = mo.elem_less(mo.tile(mo.identity_tensor((columns,)), (w,), (i,), ragged=True), (columns,))
        held = mo.fragment((w,), gT.dtype)                                              # (w)
        ones = (1 << gT.dtype.bits) - 1
        mo.copyto(held, mo.tile(gT[:, row], (w,), (i,), ragged=True), pred=inside & known, other=ones)
        mo.copyto(mo.tile(gO[:, *at], (w,), (i,), ragged=True), held, pred=inside)


@mo.kernel
def clear_kernel(first, count, ids):
    """first = ids' size, count = 0."""
    row = mo.block_idx().x * THREADS + mo.thread_idx().x
    if row < mo.size(first):
        first[row] = mo.size(ids)
        count[row] = 0


@mo.kernel
def count_kernel(first, count, ids):
    """count[r]: how many ids are r; first[r]: the place of the first of them."""
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    if i < mo.size(ids):
        row = ids[i]
        known = (row >= 0) & (row < mo.size(first))
        assert known, "an id that is no row of the table"
        if known:
            mo.atomic_add(count, row, 1)
            mo.atomic_min(first, row, i)


@mo.kernel
def gradient_kernel(dtable, dout, ids, first, count, compute, plan: mo.Constexpr):
    """dtable (columns, rows): a block sums the columns of dout (columns, n) whose ids are its row, in their order."""
    row, piece, tid, w = mo.block_idx().x, mo.block_idx().y, mo.thread_idx().x, plan.width
    columns, mine, left = mo.identity_tensor((mo.size(dtable, 0),)), [], count[row]
    for j in mo.static_range(plan.rounds):
        at = ((piece * plan.rounds + j) * plan.threads + tid,)
        inside = mo.elem_less(mo.tile(columns, (w,), at, ragged=True), (mo.size(dtable, 0),))
        total = mo.fragment((w,), compute)                                              # (w)
        total.fill(0)
        mine.append((at, inside, total, mo.fragment((w,), dout.dtype)))
    if plan.skipped is not None and row == plan.skipped:
        left = 0
    found, start = mo.shared_array(mo.int32, plan.threads // 32), first[row]
    while left > 0:
        here = start + tid
        match = False
        if here < mo.size(ids):
            match = ids[here] == row
        votes = mo.ballot(match)
        if mo.lane_idx() == 0:
            found[mo.warp_idx()] = mo.int32(votes)
        mo.sync_threads()
        for warp in mo.static_range(plan.threads // 32):
            bits = mo.uint32(found[warp])
            while bits != 0:
                place = start + warp * 32 + mo.ffs(bits) - 1
                for at, inside, _, held in mine:
                    mo.copyto(held, mo.tile(dout[:, place], (w,), at, ragged=True), pred=inside, zero_fill=True)
                for _, _, total, held in mine:
                    total += held.to(compute)
                bits = bits & (bits - 1)
                left -= 1
        mo.sync_threads()                               # found is used again
        start += plan.threads
    for at, inside, total, _ in mine:
        mo.copyto(mo.tile(dtable[:, row], (w,), at, ragged=True), total.to(dtable.dtype), pred=inside)


# --- host ------------------------------------------------------------------------------------------------------------


@mo.replayed
def embedding(out: Any, table: Any, ids: Any) -> None:
    """out[..., :] = table[ids[...], :], of any dtype of 1, 2, 4 or 8 bytes and any strides.

    ``ids`` are int32 or int64.  One that is no row of the table fails an ``assert`` (in the simulator, and on a GPU
    under MOYE_ASSERT=1), and else gives a row of which all bits are ones: NaN.  ArgumentError for other dtypes, shapes
    or devices.
    """
    t, o, i = _checked("embedding", "table", table, "out", out, ids, None)
    if o.dtype != t.dtype or t.dtype.bits not in (8, 16, 32, 64):
        raise mo.ArgumentError(f"embedding: out holds {o.dtype}, and table {t.dtype}; and they hold one dtype")
    views.outputs("embedding", {"out": o}, {"table": t, "ids": i})
    if 0 in o.shape:
        return
    rows = views.merged([views.Mode(n, (a, b)) for n, a, b in zip(i.shape, o.strides, i.strides, strict=False)
                         if n != 1]) or [views.Mode(1, (0, 0))]
    line, column = views.Mode(t.shape[1], (o.strides[-1], t.strides[1])), views.Mode(t.shape[0], (0, t.strides[0]))
    plan = make_plan([line, column, *(views.Mode(m.extent, (m.strides[0], 0)) for m in rows)], (o, t), None)
    gO = views.view(out, [line, *rows], 0)
    gT = views.strided(table, (line.extent, t.shape[0]), (line.strides[1], t.strides[0]))
    vectors = -(-line.extent // plan.width) * math.prod(m.extent for m in rows)
    gather_kernel[-(-vectors // THREADS), THREADS](gO, gT, views.view(ids, rows, 1), plan)


@mo.replayed
def embedding_backward(dtable: Any, dout: Any, ids: Any, *, padding_idx: int | None = None) -> None:
    """dtable[r, :] = the sum of dout[i, :] over all i with ids[i] == r; zeros where there is none, and at padding_idx.

    Sums are in float32 (float64 if an array has it) in the order of ids, so that each run gives the same bits; a row
    that several ids name costs a search from its first to its last one.  There must be fewer than 2^31 ids; one that is
    no row fails an ``assert``, and else adds to nothing.
    """
    t, o, i = _checked("embedding_backward", "dtable", dtable, "dout", dout, ids, views.FLOATS)
    views.outputs("embedding_backward", {"dtable": t}, {"dout": o, "ids": i})
    if padding_idx is not None and not (isinstance(padding_idx, int) and 0 <= padding_idx < t.shape[0]):
        raise mo.ArgumentError(f"embedding_backward: padding_idx {padding_idx!r} is none of the {t.shape[0]} rows")
    if 0 in t.shape:
        return
    rows = views.merged([views.Mode(n, (a, b)) for n, a, b in zip(i.shape, o.strides, i.strides, strict=False)
                         if n != 1]) if 0 not in i.shape else []
    if len(rows) > 1:
        raise mo.ArgumentError(f"embedding_backward: dout has strides {tuple(o.strides)} and ids {tuple(i.strides)}, "
                               f"which are no plain lists of rows", hint="pass contiguous arrays")
    rows = rows or [views.Mode(math.prod(i.shape), (0, 0))]
    line, column = views.Mode(t.shape[1], (t.strides[1], o.strides[-1])), views.Mode(t.shape[0], (t.strides[0], 0))
    plan = make_plan([line, column, views.Mode(rows[0].extent, (0, rows[0].strides[0]))], (t, o), padding_idx)
    gI = views.view(ids, rows, 1)
    first, count = (empty(dtable, mo.int32, (t.shape[0],)) for _ in range(2))
    clear_kernel[-(-t.shape[0] // THREADS), THREADS](first, count, gI)
    if 0 not in i.shape:
        count_kernel[-(-rows[0].extent // THREADS), THREADS](first, count, gI)
    gT = views.strided(dtable, (line.extent, t.shape[0]), (line.strides[0], t.strides[0]))
    gO = views.strided(dout, (line.extent, rows[0].extent), (line.strides[1], rows[0].strides[0]))
    compute = mo.float64 if mo.float64 in (t.dtype, o.dtype) else mo.float32
    pieces = -(-line.extent // (plan.width * plan.threads * plan.rounds))
    gradient_kernel[(t.shape[0], pieces), plan.threads](gT, gO, gI, first, count, compute, plan)


def _checked(who: str, one: str, table: Any, other: str, rows: Any, ids: Any, dtypes: Any) -> tuple[Any, Any, Any]:
    """What the arrays are, or ArgumentError."""
    t, o = views.described(who, one, table, dtypes), views.described(who, other, rows, dtypes)
    i = views.described(who, "ids", ids, INTEGERS)
    if len(t.shape) != 2:
        raise mo.ArgumentError(f"{who}: {one} has shape {tuple(t.shape)}; it is (rows, columns)")
    if tuple(o.shape) != (*i.shape, t.shape[1]):
        raise mo.ArgumentError(f"{who}: {other} has shape {tuple(o.shape)}, and ids and {one} make it "
                               f"{(*i.shape, t.shape[1])}")
    views.together(who, **{one: t, other: o, "ids": i})
    return t, o, i
