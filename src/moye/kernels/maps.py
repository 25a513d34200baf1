"""Any function of elements over arrays of one shape: a thread has vectors, neighbours beside each other.

In: outputs, inputs, a function of register tensors.  Out: the outputs, written.

    mapped((out,), (x, y), lambda x, y: (2.0 * x + y,))

All modes that memory runs through alike are one (``views.merged``), so contiguous arrays of any rank are vectors.  The
function computes in float32, or in float64 where an array has it; with ``exact=True`` it gets the bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels import views

THREADS = 256
_NARROW = 256
"""Threads of a multiprocessor up to which vectors are narrower."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a launch is specialised on: elements of a vector, vectors of a thread, whether vectors divide the lines."""

    width: int
    each: int
    whole: bool
    compute: Any


def make_plan(modes: Sequence[views.Mode], infos: Sequence[Any], exact: bool) -> Plan:
    """The rule: vectors of 16 bytes where all lines begin at multiples of them, else narrower ones.

    A thread reads up to 64 bytes, of all inputs together, before it computes: with 2048 threads a multiprocessor has
    up to 128 KB on their way, and 64 KB keep HBM3 busy.  Small problems give every thread one vector, and narrower
    ones where as many threads are there.
    """
    width, elements = views.width_of(modes, *infos), math.prod(m.extent for m in modes)
    while width > 1 and 2 * elements <= width * _NARROW * mo.multiprocessors(infos[0]):
        width //= 2
    bytes_ = sum(info.dtype.bytes for info in infos[1:]) * width
    vectors = elements // width
    each = max(1, min(4, 64 // max(bytes_, 1))) if vectors >= 4 * THREADS * mo.multiprocessors(infos[0]) else 1
    wide = any(info.dtype is mo.float64 for info in infos)
    return Plan(width, each, modes[0].extent % width == 0, None if exact else mo.float64 if wide else mo.float32)


def as_bits(x: Any) -> Any:
    """A tensor of unsigned integers that are the bits of its elements."""
    return mo.recast(x, {1: mo.uint8, 2: mo.uint16, 4: mo.uint32, 8: mo.uint64}[x.dtype.bytes])


@mo.jit
def coordinate(t, extents):
    """The coordinate of number t, the first mode fastest; the last one may be beyond its extent."""
    place = []
    for n in extents[:-1]:
        place.append(t % n)
        t = t // n
    return (*place, t)


@mo.jit
def apply(outs, ins, function, plan, pieces, begin, extents):
    """outs = function(*ins) of this thread's ``pieces``, (number, width) of one width, among those of ``extents`` each
    line from element ``begin`` on."""
    work = []
    for number, width in pieces:
        at = coordinate(number, extents)
        inside, place = at[-1] < extents[-1], (at[0] + begin // width, *at[1:])
        vector, held = (width,) + (1,) * (len(at) - 1), []                                  # (width, 1, ...)
        for x in ins:
            rX = mo.fragment(vector, x.dtype)
            mo.copyto(rX, mo.tile(x, vector, place, ragged=True), pred=inside, zero_fill=True)
            held.append(rX)
        work.append((vector, place, inside, held))
    for vector, place, inside, held in work:
        results = function(*(rX if plan.compute is None else rX.to(plan.compute) for rX in held))
        for out, result in zip(outs, results, strict=True):
            mo.copyto(mo.tile(out, vector, place, ragged=True), result.to(out.dtype), pred=inside)


@mo.kernel
def map_kernel(outs, ins, function: mo.Constexpr, plan: mo.Constexpr):
    """outs = function(*ins), ``each`` vectors a thread; behind these, in blocks of their own, what is left of lines
    that vectors do not divide, an element a thread.

    A vector that is left in part would be read one element after the other, by a warp for which all others wait.
    """
    if plan.compute is None:
        outs, ins = [as_bits(x) for x in outs], [as_bits(x) for x in ins]
    (n, *lines), w, block, threads = mo.shape(outs[0]), plan.width, mo.block_idx().x, mo.block_dim().x
    vectors = (n // w, *lines)
    first = block * (plan.each * threads) + mo.thread_idx().x
    pieces = [(first + j * threads, w) for j in range(plan.each)]
    if plan.whole:
        apply(outs, ins, function, plan, pieces, 0, vectors)
    else:
        count = vectors[0]
        for extent in lines:
            count = count * extent
        blocks = mo.ceil_div(count, plan.each * threads)
        if block < blocks:
            apply(outs, ins, function, plan, pieces, 0, vectors)
        else:
            number = (block - blocks) * threads + mo.thread_idx().x
            apply(outs, ins, function, plan, [(number, 1)], n // w * w, (n % w, *lines))


def mapped(outs: Sequence[Any], ins: Sequence[Any], function: Callable[..., tuple[Any, ...]], *,
           exact: bool = False) -> None:
    """outs = function(*ins) of arrays that all have one shape, and have been found right.  Empty arrays: nothing."""
    infos: list[Any] = [mo.describe(x) for x in (*outs, *ins)]
    launch(outs, ins, views.modes_of(infos[0].shape, *(info.strides for info in infos)), function, exact=exact)


def launch(outs: Sequence[Any], ins: Sequence[Any], modes: Sequence[views.Mode], function: Callable[..., Any], *,
           exact: bool = False) -> None:
    """The same over these modes of the outputs and inputs."""
    if any(mode.extent == 0 for mode in modes):
        return
    arrays = (*outs, *ins)
    modes = views.merged(modes) or [views.Mode(1, (1,) * len(arrays))]
    infos = [mo.describe(x) for x in arrays]
    plan = make_plan(modes, infos, exact)
    seen = [views.view(x, modes, i) for i, x in enumerate(arrays)]
    lines = math.prod(m.extent for m in modes[1:])
    vectors, left = (lines * n for n in divmod(modes[0].extent, plan.width))
    blocks = -(-vectors // (THREADS * plan.each)) + -(-left // THREADS)
    map_kernel[blocks, THREADS](tuple(seen[:len(outs)]), tuple(seen[len(outs):]), function, plan)
