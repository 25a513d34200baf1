"""The k largest elements of each row, and where they are.

In: an array; rows run along its last axis.  Out: values and indices, sorted.

    top_k(values, indices, x)                   # k is the last extent of values

A block has a row.  It narrows the k-th largest element down by eight bits of its order at a time, counting in shared
memory; then it collects what is larger, and of its equals the first ones, and sorts these k.  Rows are read once for
each eight bits and once more, mostly from L2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels import views
from moye.kernels.folds import LAST
from moye.kernels.maps import as_bits, coordinate
from moye.kernels.options import flag

MOST = 2048
"""Elements that a block sorts."""
_DIGITS = 256
_INFINITY = {"bfloat16": 0x7F80, "float16": 0x7C00, "float32": 0x7F800000, "float64": 0x7FF0000000000000}


@dataclass(frozen=True, slots=True)
class Plan:
    """``room``: a power of two that holds k; ``key``: the dtype of an element's order; ``infinity``: its bits."""

    width: int
    threads: int
    k: int
    room: int
    largest: bool
    key: Any
    infinity: int


def make_plan(k: int, largest: bool, modes: list[views.Mode], info: Any) -> Plan:
    """The rule: vectors of 16 bytes, and 256 threads for a row, or 1024 where each has four vectors even then."""
    width = views.width_of([views.Mode(m.extent, m.strides[:1]) for m in modes], info)
    threads = 1024 if modes[0].extent >= 4 * 1024 * width else 256
    key = mo.uint64 if info.dtype.bytes == 8 else mo.uint32
    return Plan(width, threads, k, 1 << (k - 1).bit_length(), largest, key, _INFINITY[info.dtype.name])


@mo.jit
def order_of(plan, bits, size):
    """An unsigned number in the order of the elements of ``size`` bits: NaN is the largest, and zeros are equal."""
    sign, full = 1 << (size - 1), (1 << size) - 1
    b = plan.key(bits)
    magnitude = b & (sign - 1)
    key = mo.where((b & sign) != 0, full - b, b | sign)
    key = mo.where(magnitude == 0, plan.key(sign), key)
    key = mo.where(magnitude > plan.infinity, plan.key(full), key)
    return key if plan.largest else full - key


@mo.jit
def keys_of(plan, bits, t):
    """(index, key, whether it is there) of each element of vector t of a row."""
    held, n, found = mo.fragment((plan.width,), bits.dtype), mo.size(bits, 0), []           # (width)
    inside = mo.elem_less(mo.tile(mo.identity_tensor((n,)), (plan.width,), (t,), ragged=True), (n,))
    mo.copyto(held, mo.tile(bits, (plan.width,), (t,), ragged=True), pred=inside, zero_fill=True)
    for j in mo.static_range(plan.width):
        found.append((t * plan.width + j, order_of(plan, held[j], bits.dtype.bits), t * plan.width + j < n))
    return found


@mo.jit
def kth_key(plan, bits):
    """The key of the k-th element in order, and how many of its equals are among the k."""
    tid, counts, told = mo.thread_idx().x, mo.shared_array(mo.int32, _DIGITS), mo.shared_array(mo.int32, 2)
    scratch, size = mo.shared_array(mo.int32, plan.threads // 32), bits.dtype.bits
    prefix, wanted = plan.key(0), mo.int32(plan.k)
    for shift in mo.static_range(size - 8, -1, -8):
        if tid < _DIGITS:
            counts[tid] = 0
        mo.sync_threads()
        for t in mo.range(tid, mo.ceil_div(mo.size(bits, 0), plan.width), plan.threads):
            for _, key, there in keys_of(plan, bits, t):
                if there and (shift + 8 == size or (key >> (shift + 8)) == prefix):
                    mo.atomic_add(counts, mo.int32((key >> shift) & 255), 1)
        mo.sync_threads()
        mine = mo.int32(0)
        if tid < _DIGITS:
            mine = counts[_DIGITS - 1 - tid]
        upto = mo.block_scan(mine, scratch)
        if upto >= wanted and upto - mine < wanted:
            told[0], told[1] = _DIGITS - 1 - tid, upto - mine
        mo.sync_threads()
        prefix = plan.key((prefix << 8) | plan.key(told[0])) if shift + 8 < size else plan.key(told[0])
        wanted -= told[1]
    return prefix, wanted


@mo.jit
def sort(plan, keys, places):
    """Descending by key, then ascending by place: a bitonic network over shared memory."""
    size = 2
    while size <= plan.room:
        step = size // 2
        while step > 0:
            for i in mo.range(mo.thread_idx().x, plan.room // 2, plan.threads):
                a = 2 * step * (i // step) + i % step
                b, up = a + step, (a & size) != 0
                x, y, p, q = keys[a], keys[b], places[a], places[b]
                behind = (x < y) | ((x == y) & (p > q))
                if behind != up:
                    keys[a], keys[b], places[a], places[b] = y, x, q, p
            mo.sync_threads()
            step //= 2
        size *= 2


@mo.kernel
def top_k_kernel(values, indices, x, plan: mo.Constexpr):
    """values, indices (k, *rows) of x (n, *rows); a block a row."""
    tid, at = mo.thread_idx().x, coordinate(mo.block_idx().x, mo.shape(x)[1:])
    row, bits = x[:, *at], as_bits(x)[:, *at]                                               # (n)
    keys, places = mo.shared_array(plan.key, plan.room), mo.shared_array(mo.int32, plan.room)
    count, scratch = mo.shared_array(mo.int32, 2), mo.shared_array(mo.int32, plan.threads // 32)
    bound, equals = kth_key(plan, bits)
    for i in mo.range(tid, plan.room, plan.threads):
        keys[i], places[i] = 0, LAST
    if tid == 0:
        count[0], count[1] = 0, 0
    mo.sync_threads()
    before, vectors = mo.int32(0), mo.ceil_div(mo.size(row, 0), plan.width)
    for start in mo.range(0, vectors, plan.threads):
        found = keys_of(plan, bits, start + tid)
        mine = mo.int32(0)
        for _, key, there in found:
            mine += mo.where(there & (key == bound), 1, 0)
        upto = mo.block_scan(mine, scratch)
        rank = before + upto - mine
        for i, key, there in found:
            if there and key > bound:
                slot = mo.atomic_add(count, 0, 1)
                keys[slot], places[slot] = key, i
            elif there and key == bound:
                if rank < equals:
                    keys[plan.k - equals + rank], places[plan.k - equals + rank] = key, i
                rank += 1
        if tid == plan.threads - 1:
            count[1] = upto
        mo.sync_threads()
        before += count[1]
        mo.sync_threads()                               # count[1] is used again
    sort(plan, keys, places)
    for i in mo.range(tid, plan.k, plan.threads):
        values[i, *at] = row[places[i]]
        indices[i, *at] = places[i].to(indices.dtype)


# --- host ------------------------------------------------------------------------------------------------------------


@mo.replayed
def top_k(values: Any, indices: Any, x: Any, *, largest: bool = True) -> None:
    """values[..., j], indices[..., j] = the j-th largest element of x[..., :] (or least), and where it is.

    k, the last extent of both outputs, is at most 2048.  values have x's dtype, indices are int32 or int64.  NaN is
    larger than all numbers, as in PyTorch; zeros are equal; of equals the lowest index comes first, and is taken first.
    Any strides.  ArgumentError for other shapes, dtypes or devices.
    """
    largest = flag("top_k", "largest", largest)
    a, v = views.described("top_k", "x", x), views.described("top_k", "values", values)
    i = views.described("top_k", "indices", indices, (mo.int32, mo.int64))
    views.same("top_k", "dtype", "values", v, "x", a)
    views.same("top_k", "shape", "indices", i, "values", v)
    if not a.shape or tuple(v.shape[:-1]) != tuple(a.shape[:-1]) or len(v.shape) != len(a.shape):
        raise mo.ArgumentError(f"top_k: values have shape {tuple(v.shape)}, and x has {tuple(a.shape)}; "
                               f"they differ in the last axis alone")
    k, n = v.shape[-1], a.shape[-1]
    if k > min(n, MOST) or n > LAST:
        raise mo.ArgumentError(f"top_k: k is {k} of {n} elements; it may be at most {min(n, MOST)}")
    views.outputs("top_k", {"values": v, "indices": i}, {"x": a})
    views.together("top_k", values=v, indices=i, x=a)
    if 0 in v.shape:
        return
    rows = views.merged(views.modes_of(a.shape[:-1], a.strides[:-1], v.strides[:-1], i.strides[:-1]))
    rows = rows or [views.Mode(1, (0, 0, 0))]
    lines = [views.Mode(n, (a.strides[-1], 0, 0)), *rows], [views.Mode(k, (0, v.strides[-1], i.strides[-1])), *rows]
    plan = make_plan(k, largest, lines[0], a)
    blocks = math.prod(m.extent for m in rows)
    top_k_kernel[blocks, plan.threads](views.view(values, lines[1], 1), views.view(indices, lines[1], 2),
                                       views.view(x, lines[0], 0), plan)
