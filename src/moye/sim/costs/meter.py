"""Counts what every access of a checked run costs, per instruction.

In: each access as the checks see it: op, reference, byte addresses (V, T or 1, B or 1), mask; of an asynchronous copy
the source before the destination.  Out: ``Traffic`` records, one per op and end.

Accesses repeat up to a shift: what a pattern costs is worked out once, and found again by comparing addresses.  Where
patterns keep changing, some blocks of a batch stand for all of them, and the record says that it was sampled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from moye.dtypes import Space
from moye.hardware import LINE
from moye.ir import ops
from moye.ir.nodes import Func, Ref, TileRef
from moye.ir.traits import Trait
from moye.sim.costs.copy_waits import WaitWatch
from moye.sim.costs.mixed_swizzles import SwizzleWatch
from moye.sim.costs.wavefronts import NOTHING, WIDEST, WORD, Bools, Cost, Ints, global_cost, wavefronts
from moye.sim.costs.wgmma_waits import ProductWatch
from moye.sim.flow.once import once_per_func
from moye.sim.values.masks import Mask

VARIANTS = 8
MISSES = 64
"""New patterns of one instruction that are counted in full."""
SAMPLED_LANES = 2048
KEPT_ELEMENTS = 1 << 17
_SECTOR_PERIOD = 32
NOT_READ = -1 << 31
"""This stands for a line in lanes that are filled with zeros instead."""


@dataclass(slots=True)
class Variant:
    """One pattern of addresses, up to a shift, and how many blocks made it."""

    relative: Ints
    origin: int
    mask: Bools | None
    cost: Cost
    lines: Ints | None = None
    """The line of the source that each lane of a cp.async.ca reads, counted from the first lane's."""
    hits: int = 0


@dataclass(slots=True)
class Traffic:
    """What one end of one op did in memory, all blocks together.

    ``passes`` are wavefronts in shared memory, sectors in global memory; ``degree`` is the worst of a request.
    """

    op: ops.Op
    ref: Ref | TileRef
    direction: str
    """``load``, ``store`` or ``atomic``."""
    size: int
    loop: bool
    """Whether the op stands in a loop of the kernel."""
    runs: int = 0
    """The number of times that blocks executed it."""
    requests: int = 0
    passes: int = 0
    ideal: int = 0
    degree: int = 0
    spread: int = 0
    """Passes above the ideal that no layout of shared memory removes: a cp.async.ca goes line by line."""
    sampled: bool = False
    complete: bool = True
    """All of its patterns are among the variants."""
    misses: int = 0
    variants: list[Variant] = field(default_factory=list)

    @property
    def shared(self) -> bool:
        return self.ref.buffer.space is Space.SHARED

    @property
    def matrices(self) -> int:
        """The matrices that one instruction moves, 0 for a plain access."""
        return self.op.atom.matrices if isinstance(self.op, ops.Copy) else 0

    @property
    def asynchronous(self) -> bool:
        return isinstance(self.op, ops.Copy) and self.op.atom.asynchronous is not None

    @property
    def cache(self) -> str | None:
        """How a cp.async that writes this memory goes through L1: "always" or "global"; None for any other access."""
        return self.op.atom.cache if self.shared and self.asynchronous and isinstance(self.op, ops.Copy) else None

    @property
    def bytes(self) -> int:
        """Bytes of one access of a thread (ldmatrix: of the row whose address it gives)."""
        return min(self.size & -self.size, WIDEST)

    @property
    def instruction(self) -> str:
        """``ld.shared.v4``, ``cp.async.16``, ``ldmatrix.x4``, ``st.global.u16`` ..."""
        if self.matrices:
            return f"{'st' if self.direction == 'store' else 'ld'}matrix.x{self.matrices}"
        if self.asynchronous:
            return f"cp.async.{self.size}"
        verb = {"load": "ld", "store": "st", "atomic": "atom"}[self.direction]
        width = {1: ".u8", 2: ".u16", 4: "", 8: ".v2", 16: ".v4"}[self.bytes]
        return f"{verb}.{'shared' if self.shared else 'global'}{width}"

    @property
    def worst(self) -> Variant | None:
        """The pattern with the most expensive request."""
        return max(self.variants, key=lambda variant: variant.cost.degree, default=None)

    def add(self, cost: Cost, times: int) -> None:
        self.requests += cost.requests * times
        self.passes += cost.passes * times
        self.ideal += cost.ideal * times
        self.spread += cost.spread * times
        self.degree = max(self.degree, cost.degree)


class Meter:
    """The traffic of one launch of ``func``."""

    def __init__(self, func: Func) -> None:
        self.func = func
        self.records: dict[tuple[int, int, str, int], Traffic] = {}
        self.loops = loops_of(func)
        self.blocks = 0
        self.swizzles = SwizzleWatch(func)
        self.sources: dict[int, Ints] = {}
        """The lines that the copies into shared memory read that are being counted."""
        inside = {at for at, loops in self.loops.items() if loops}
        self.waits, self.products = WaitWatch(inside), ProductWatch(inside)

    @property
    def traffic(self) -> list[Traffic]:
        """Every record, in program order."""
        order = {id(op): i for i, op in enumerate(self.func.body.walk())}
        return sorted(self.records.values(), key=lambda one: order.get(id(one.op), 0))

    def begin(self, blocks: int) -> None:
        """Further blocks start, as many as this."""
        self.blocks += blocks
        self.waits.begin()
        self.products.close()
        self.swizzles.forget()

    def rounds(self, loop: ops.Op) -> int:
        """The number of passes of a loop, from the accesses right in it and around it; 0 if there are none."""
        around = self.loops[id(loop)]
        outside = self.blocks if not around else self._runs(around[-1])
        return self._runs(loop) // outside if outside else 0

    def _runs(self, loop: ops.Op) -> int:
        inside = (one.runs for one in self.records.values() if self.loops[id(one.op)][-1:] == (loop,))
        return max(inside, default=0)

    def count(self, op: ops.Op, ref: Ref | TileRef, address: Ints, size: int, mask: Mask, how: str, threads: int,
              blocks: int) -> None:
        """One access by all threads of the mask."""
        if mask is False or not address.size:
            return
        address = address if address.ndim == 3 else address[None]
        lanes = _lanes(mask)
        for part, wide, on in _parts(op, address, size, lanes):
            self._count(op, ref, part, wide, on, how, threads, blocks)

    def _count(self, op: ops.Op, ref: Ref | TileRef, address: Ints, size: int, lanes: Bools | None, how: str,
               threads: int, blocks: int) -> None:
        lines = None
        if ref.buffer.space is Space.SHARED:
            self.waits.access(ref, address, size, how)
            self.swizzles.access(op, ref, address, size, lanes, how)
        record = self._record(op, ref, size, how)
        if record.asynchronous and not record.shared:
            self.sources[id(op)] = _lines(address, lanes)
        if record.cache == "always":
            lines = self.sources.pop(id(op), np.full((1, 1, 1), NOT_READ))
        if address.shape[2] > 1 and _congruent(address, _period(record)):
            address = address[:, :, :1]
        columns = max(one.shape[2] for one in (address, lanes, lines) if one is not None)
        times = blocks if columns == 1 else 1
        variant = _find(record, address, lanes, lines)
        if variant is None:
            variant = self._new(record, address, lanes, lines, (threads, columns))
        variant.hits += times
        record.runs += blocks
        record.add(variant.cost, times)

    def _record(self, op: ops.Op, ref: Ref | TileRef, size: int, how: str) -> Traffic:
        key = (id(op), id(ref), how, size)
        record = self.records.get(key)
        if record is None:
            direction = "atomic" if isinstance(op, ops.Atomic) else "load" if how == "read" else "store"
            record = self.records[key] = Traffic(op, ref, direction, size, bool(self.loops.get(id(op))))
        return record

    def _new(self, record: Traffic, address: Ints, lanes: Bools | None, lines: Ints | None,
             shape: tuple[int, int]) -> Variant:
        """The cost of a pattern that was not seen before."""
        record.misses += 1
        variant = Variant(address - int(address.flat[0]), int(address.flat[0]), lanes, NOTHING, lines)
        threads, columns = shape
        # An instruction whose pattern changes each time (a gather) would cost more to count than to run.
        if record.misses > MISSES and columns > 1 and address.shape[0] * threads * columns > SAMPLED_LANES:
            variant.cost = _sampled(record, address, lanes, lines, shape)
            record.sampled = True
        else:
            variant.cost = _cost(record, address, lanes, lines, shape)
        kept = max(address.size, 0 if lines is None else lines.size) <= KEPT_ELEMENTS
        if kept:
            if lanes is not None:
                variant.mask = lanes.copy()
            record.variants.insert(0, variant)
        if len(record.variants) > VARIANTS or not kept:
            record.complete = False
            del record.variants[VARIANTS:]
        return variant


def _parts(op: ops.Op, address: Ints, size: int, lanes: Bools | None) -> Iterator[tuple[Ints, int, Bools | None]]:
    """(addresses, bytes, lanes) of the accesses: groups whose lanes are all on and aligned are one access each."""
    each = op.group if isinstance(op, ops.Copy) else 1
    if each == 1:
        yield address, size, lanes
        return
    first = address.reshape(len(address) // each, each, *address.shape[1:])[:, 0]
    whole = first % (each * size) == 0
    if lanes is not None:
        full = np.broadcast_to(lanes, (len(address), *lanes.shape[1:]))
        whole = whole & full.reshape(len(first), each, *lanes.shape[1:]).all(axis=1)
    if whole.any():
        yield first, each * size, None if whole.all() else whole
    single = ~np.repeat(whole, each, axis=0) & (True if lanes is None else lanes)
    if single.any():
        yield address, size, single


def _lanes(mask: Mask) -> Bools | None:
    if mask is None:
        return None
    lanes = np.asarray(mask)
    return lanes if lanes.ndim == 3 else lanes[None]


def _lines(source: Ints, lanes: Bools | None) -> Ints:
    """Which line each lane reads, counted from the first lane's; arrays are taken to begin at a line."""
    lines = source // LINE
    lines -= lines[:1, :1]
    if lanes is not None:
        lines = np.where(lanes, lines, NOT_READ)
    return lines[:, :, :1] if bool((lines == lines[:, :, :1]).all()) else lines


def _period(record: Traffic) -> int:
    """Moving all addresses by so many bytes changes no cost."""
    return WORD if record.shared else _SECTOR_PERIOD


def _find(record: Traffic, address: Ints, lanes: Bools | None, lines: Ints | None) -> Variant | None:
    origin, period = int(address.flat[0]), _period(record)
    last = int(address.flat[-1]) - origin
    relative = None
    for variant in record.variants:
        # The cheap tests first: most patterns differ in their origin, shape or last address.
        if (origin - variant.origin) % period or variant.relative.shape != address.shape \
                or variant.relative.flat[-1] != last or not _same(variant.mask, lanes) \
                or not _same(variant.lines, lines):
            continue
        if relative is None:
            relative = address - origin
        if np.array_equal(variant.relative, relative):
            return variant
    return None


def _same(a: Bools | Ints | None, b: Bools | Ints | None) -> bool:
    return a is b if a is None or b is None else np.array_equal(a, b)


def _congruent(address: Ints, period: int) -> bool:
    """Whether all blocks do the same, up to a shift that changes no cost."""
    shift = address[:1, :1] - address[:1, :1, :1]
    if not np.array_equal(address[-1, -1] - shift[0, 0], address[-1, -1, :1].repeat(shift.shape[2])):
        return False
    return not (shift % period).any() and bool((address - shift == address[:, :, :1]).all())


def _cost(record: Traffic, address: Ints, lanes: Bools | None, lines: Ints | None, shape: tuple[int, int]) -> Cost:
    full = (address.shape[0], *shape)
    address = np.broadcast_to(address, full)
    mask = None if lanes is None else np.broadcast_to(lanes, full)
    if not record.shared:
        return global_cost(address, record.size, mask)
    return wavefronts(address, record.size, mask, record.cache, None if lines is None else np.broadcast_to(lines, full))


def _sampled(record: Traffic, address: Ints, lanes: Bools | None, lines: Ints | None, shape: tuple[int, int]) -> Cost:
    """The cost of some blocks, scaled to all by the number of their requests."""
    threads, columns = shape
    step = -(-columns * address.shape[0] * threads // SAMPLED_LANES)
    # Evenly spread, so that blocks at the edges of the grid take part.
    some = np.arange(0, columns, step)
    part = _cost(record, _columns(address, some), None if lanes is None else _columns(lanes, some),
                 None if lines is None else _columns(lines, some), (threads, len(some)))
    if not part.requests or (lanes is not None and lanes.shape[2] > 1):
        return _cost(record, address, lanes, lines, shape)
    scale = columns / len(some)
    return replace(part, requests=round(part.requests * scale), passes=round(part.passes * scale),
                   ideal=round(part.ideal * scale), spread=round(part.spread * scale))


def _columns(lanes: npt.NDArray[Any], some: Ints) -> npt.NDArray[Any]:
    """Some of the blocks, where there is more than one."""
    return lanes[:, :, some] if lanes.shape[2] > 1 else lanes


@once_per_func
def loops_of(func: Func) -> dict[int, tuple[ops.Op, ...]]:
    """id(op) -> the loops of the kernel around it, outermost first."""
    found: dict[int, tuple[ops.Op, ...]] = {}

    def visit(block: Iterator[ops.Op], around: tuple[ops.Op, ...]) -> None:
        for op in block:
            found[id(op)] = around
            inside = (*around, op) if Trait.LOOP in op.traits else around
            for inner in op.blocks():
                visit(iter(inner), inside)

    visit(iter(func.body), ())
    return found
