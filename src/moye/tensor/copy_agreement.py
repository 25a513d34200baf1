"""Do a tiled copy, a destination and a source agree on who holds which element?  Classes A1, A2, A5 and A8.

In: the tiled copy that ``copyto`` names, and two tensors with what is known of the order of their values.  Out:
nothing, or a TensorError that names an element that is written twice, left out or put elsewhere.

    check_cover(copy_A, dst); check_partitions(copy_A, dst, src)

An unknown order is not judged: registers in an order of the user's own, or slices of one instruction's values.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from moye.dtypes import Space
from moye.errors import LayoutError, TensorError
from moye.layout import Layout, crd2idx, make_layout, size
from moye.layout.tuples import text
from moye.tensor.context import locate
from moye.tensor.tensor import Tensor, known_order
from moye.tensor.tiled import TiledCopy, TiledMMA, copy_parts, mma_parts, operand_of_mma, thread_coordinate
from moye.tensor.value_order import Partition

_APART = 1 << 20
"""Stride of the second mode of the tile in which places are counted: more than any extent."""


class Places(NamedTuple):
    """Where each thread's first value is in a tile, and where its other values are from there."""

    threads: tuple[int, ...]
    values: tuple[int, ...]

    def coordinate(self, thread: int, value: int, rank: int) -> tuple[int, ...]:
        place = self.threads[thread] + self.values[value]
        return tuple(place // _APART ** mode % _APART for mode in range(rank))


@lru_cache(maxsize=512)
def places(partition: Partition) -> Places | None:
    """The elements of a tile that a partition gives each thread; None if the algebra cannot tell."""
    tiled = partition.tiled
    try:
        if isinstance(tiled, TiledCopy):
            side = tiled.atom.source if partition.part == "S" else tiled.atom.destination
            threads, values, _ = copy_parts((tiled, side), _tile(tiled.tiler))
            return Places(_offsets(threads), _offsets(values))
        assert isinstance(tiled, TiledMMA), "partitions are made by tiled copies and tiled MMAs"
        dims, layout = operand_of_mma(tiled.op, partition.part)
        threads, values, _ = mma_parts((tiled, dims, layout), _tile(tuple(tiled.tile_size(d) for d in dims)))
        modes = [threads.mode(i) for i in range(3)]
        firsts = []
        for thread in range(tiled.threads):
            crd = thread_coordinate(thread, tiled.layout)
            firsts.append(sum(_static(crd2idx(crd[d], mode)) for d, mode in zip((0, *(1 + d for d in dims)), modes,
                                                                                 strict=True)))
        return Places(tuple(firsts), _offsets(values))
    except LayoutError:
        return None


def _tile(extents: tuple[int, ...]) -> Layout:
    return make_layout(extents, tuple(_APART ** mode for mode in range(len(extents))))


def _offsets(layout: Layout) -> tuple[int, ...]:
    return tuple(_static(layout(i)) for i in range(_static(size(layout))))


def _static(x: object) -> int:
    if not isinstance(x, int):
        raise LayoutError(f"{x} must be static here")
    return x


# --- A1, A2 ----------------------------------------------------------------------------------------------------------


def check_cover(how: TiledCopy, dst: Tensor) -> None:
    """A1: one thread writes each element of memory.  A2: the whole tile is copied."""
    twice, missed = _cover(how)
    tile = "its tile" if known_order(dst) is None else f"the tile that {dst.label} is a part of"
    if twice is not None and dst.space is not Space.REGISTER:
        place, first, second = twice
        raise TensorError(f"{how} writes element {text(place)} of {tile} from threads {first} and {second}: its "
                          f"(thread, value) layout is not injective", locs=(locate(),), code="A1",
                          hint="mo.make_tiled_copy of a compact thread layout gives each element to one thread")
    if missed is not None:
        place, reached = missed
        raise TensorError(f"{how} leaves element {text(place)} of {tile} uncopied: its (thread, value) layout has "
                          f"{reached} of the {math.prod(how.tiler)} elements", locs=(locate(),), code="A2",
                          hint="let threads times values cover the tile")


Twice = tuple[tuple[int, ...], int, int]
Missed = tuple[tuple[int, ...], int]


@lru_cache(maxsize=512)
def _cover(how: TiledCopy) -> tuple[Twice | None, Missed | None]:
    """An element that two threads have, with them; an element that no thread has, and how many elements have one."""
    owners: dict[int, int] = {}
    twice: Twice | None = None
    count = math.prod(how.tiler)
    threads, values = _offsets(how.layout_tv.mode(0)), _offsets(how.layout_tv.mode(1))
    for thread, first in enumerate(threads):
        for value in values:
            owner = owners.setdefault(first + value, thread)
            if owner != thread and twice is None:
                twice = (_in_tile(first + value, how), owner, thread)
    missed = next((i for i in range(count) if i not in owners), None)
    if missed is None:
        return twice, None
    return twice, (_in_tile(missed, how), sum(place < count for place in owners))


def _in_tile(index: int, how: TiledCopy) -> tuple[int, ...]:
    return tuple(index // math.prod(how.tiler[:mode]) % extent for mode, extent in enumerate(how.tiler))


# --- A5, A8 ----------------------------------------------------------------------------------------------------------


def check_partitions(how: object, dst: Tensor, src: Tensor) -> None:
    """A5 and A8: each value goes to the element that it belongs to."""
    to, of = known_order(dst), known_order(src)
    if to is None or of is None or dst.order is None or not dst.order.fixed:
        return
    if isinstance(to.tiled, TiledMMA) and isinstance(of.tiled, TiledMMA):
        if to.part == of.part == "C" and src.space is Space.REGISTER and (why := _difference(to, of, dst, src)):
            raise TensorError(f"{src.label} holds accumulators of {of.tiled} and {dst.label} is a part of {to.tiled}: "
                              f"{why}", locs=(locate(),), code="A8",
                              hint="partition the output with the tiled MMA of the gemm")
        return
    if not (isinstance(how, TiledCopy) and isinstance(to.tiled, TiledCopy) and isinstance(of.tiled, TiledCopy)):
        return
    if how.atom.op.matrices:                            # memory and registers have orders of their own
        memory, registers = (to, of) if how.atom.op.stores else (of, to)
        if memory.tiled.atom.op != how.atom.op:  # type: ignore[attr-defined]
            return
        held = Partition(memory.tiled, memory.tiled.register_side)  # type: ignore[attr-defined]
        to, of = (held, registers) if how.atom.op.stores else (registers, held)
    if why := _difference(to, of, dst, src):
        raise TensorError(f"{src.label} is partitioned by {of.tiled} and {dst.label} by {to.tiled}: {why}",
                          locs=(locate(),), code="A5", hint="partition both with the tiled copy that copyto names")


def _difference(to: Partition, of: Partition, dst: Tensor, src: Tensor) -> str | None:
    """In words, a value that is another element in the destination than in the source; None if none is known."""
    if to == of:
        return None
    a, b = places(of), places(to)
    if a is None or b is None or [len(x) for x in a] != [len(x) for x in b] or a == b:
        return None
    modes = len(of.tiled.tiler) if isinstance(of.tiled, TiledCopy) else 2
    thread, value = next((t, v) for t in range(len(a.threads)) for v in range(len(a.values))
                         if a.threads[t] + a.values[v] != b.threads[t] + b.values[v])
    return (f"value {value} of thread {thread} is element {text(a.coordinate(thread, value, modes))} of the tile in "
            f"{src.label} and {text(b.coordinate(thread, value, modes))} in {dst.label}")


def after_copy(how: object, dst: Tensor, src: Tensor) -> None:
    """What is known now of the order of the registers that were written."""
    if dst.order is None or dst.space is not Space.REGISTER:
        return
    matrices = isinstance(how, TiledCopy) and how.atom.op.matrices
    dst.order.put(Partition(how, "D") if matrices and known_order(src) == Partition(how, "S") else
                  None if matrices else known_order(src))
