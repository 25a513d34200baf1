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
    up to 128 KB on their way, and 64 KB keep HBM3 busy.  Small problems give every thread one vector.
    """
    width = views.width_of(modes, *infos)
    bytes_ = sum(info.dtype.bytes for info in infos[1:]) * width
    vectors = math.prod(m.extent for m in modes) // width
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


@mo.kernel
def map_kernel(outs, ins, function: mo.Constexpr, plan: mo.Constexpr):
    """outs = function(*ins), ``each`` vectors a thread."""
    if plan.compute is None:
        outs, ins = [as_bits(x) for x in outs], [as_bits(x) for x in ins]
    shape, threads, columns = mo.shape(outs[0]), mo.block_dim().x, mo.identity_tensor(mo.shape(outs[0]))
    vector = (plan.width,) + (1,) * (len(shape) - 1)
    extents = (mo.ceil_div(shape[0], plan.width), *shape[1:])
    first = mo.block_idx().x * (plan.each * threads) + mo.thread_idx().x
    work = []
    for j in mo.static_range(plan.each):
        at = coordinate(first + j * threads, extents)
        inside = at[-1] < extents[-1]
        if not plan.whole:
            inside = mo.elem_less(mo.tile(columns, vector, at, ragged=True), shape)         # (width, 1, ...)
        held = []
        for x in ins:
            rX = mo.fragment(vector, x.dtype)                                               # (width, 1, ...)
            mo.copyto(rX, mo.tile(x, vector, at, ragged=True), pred=inside, zero_fill=True)
            held.append(rX)
        work.append((at, inside, held))
    for at, inside, held in work:
        results = function(*(rX if plan.compute is None else rX.to(plan.compute) for rX in held))
        for out, result in zip(outs, results, strict=True):
            mo.copyto(mo.tile(out, vector, at, ragged=True), result.to(out.dtype), pred=inside)


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
    vectors = -(-modes[0].extent // plan.width) * math.prod(m.extent for m in modes[1:])
    blocks = -(-vectors // (THREADS * plan.each))
    map_kernel[blocks, THREADS](tuple(seen[:len(outs)]), tuple(seen[len(outs):]), function, plan)
