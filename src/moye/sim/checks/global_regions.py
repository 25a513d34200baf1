"""Which global memory a launch watches, and how much it remembers of each unit of it.

In: a Func, the tensor arguments as memory.  Out: ``Plan``: the regions that the kernel writes (arguments that overlap
share one, by address), the smallest access to each, and per region a ``Packing`` of its records.

A record is one integer: block | thread | op | epoch.  Where records of that kind are too large for what may be spent,
they are block | op, which tells blocks apart but not the threads of one; where those are too, nothing is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import Any

import numpy as np

from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import Buffer, Func, TensorParam
from moye.sim.checks.clocks import Bools, Ints
from moye.sim.flow.once import once_per_func
from moye.sim.values.memory import Global

WRITE, READ, ATOMIC, STRONG = range(4)
"""What an op does to an element: plain write, plain read, atomic (or a store with an order), a load with an order."""
AGAINST = {WRITE: (WRITE, READ, ATOMIC, STRONG), READ: (WRITE, ATOMIC), ATOMIC: (WRITE, READ), STRONG: (WRITE,)}
SHARE, SPARE = 1.25, 9 << 28
"""What the records may take: this share of the written bytes, and 2.25 GB."""


@dataclass(frozen=True, slots=True)
class Packing:
    """The places of block, thread, op and epoch in a record; without ``detail`` there is no thread and no epoch."""

    blocks: int
    threads: int
    ops: int
    epochs: int

    @property
    def detail(self) -> bool:
        return self.epochs > 0

    @property
    def dtype(self) -> type[np.signedinteger[Any]]:
        return np.int32 if self.blocks + self.threads + self.ops + self.epochs <= 31 else np.int64

    @property
    def lane_shift(self) -> int:
        return self.ops + self.epochs

    @property
    def block_shift(self) -> int:
        return self.threads + self.lane_shift

    def block(self, record: Ints) -> Ints:
        return record >> self.block_shift

    def thread(self, record: Ints) -> Ints:
        return (record >> self.lane_shift) & ((1 << self.threads) - 1)

    def op(self, record: Ints) -> Ints:
        return (record >> self.epochs) & ((1 << self.ops) - 1)

    def epoch(self, record: Ints) -> Ints:
        return record & self.last

    @property
    def last(self) -> int:
        """The epoch of what has not happened yet: a tensor copy's store that no thread has waited for."""
        return (1 << self.epochs) - 1

    def pending(self, record: Ints) -> Bools:
        waits: Bools = (record != 0) & (record & self.last == self.last)
        return waits


@dataclass(slots=True)
class Region:
    """Overlapping arguments, at least one of them written: ``units`` of ``unit`` bytes from address ``start`` on."""

    buffers: list[Buffer]
    start: int
    end: int
    unit: int
    kinds: frozenset[int]
    written: int
    narrow: bool = False
    """Whether an atomic access has a scope below the grid, so that atomics of two blocks may clash."""
    uneven: bool = False
    """Whether atomic accesses have several sizes, so that they are not atomic to each other."""
    bulk: bool = False
    """Whether bulk copies store to it."""
    lasts: bool = False
    """Whether asynchronous copies read it."""
    mixed: bool = False
    """Whether both threads and bulk copies use it."""
    packing: Packing | None = None

    def against(self, kind: int) -> tuple[int, ...]:
        """The kinds of access that one of this kind can clash with."""
        more = {ATOMIC: (ATOMIC, STRONG), STRONG: (ATOMIC,)}.get(kind, ()) if self.narrow or self.uneven else ()
        return (*AGAINST[kind], *more)

    @property
    def units(self) -> int:
        return -(-(self.end - self.start) // self.unit)

    @property
    def tracks(self) -> list[int]:
        """The kinds of access that must be remembered because another kind clashes with them."""
        return [kind for kind in sorted(self.kinds) if self.kinds & set(self.against(kind))]

    def bytes(self, packing: Packing) -> int:
        words = sum(1 if kind == WRITE else 2 for kind in self.tracks)
        return self.units * words * np.dtype(packing.dtype).itemsize

    @property
    def name(self) -> str:
        return ", ".join(buffer.name for buffer in self.buffers)


@dataclass(slots=True)
class Plan:
    """The regions of one launch by the buffers in them, and what is left out."""

    ops: list[ops.Op]
    regions: dict[int, Region] = field(default_factory=dict)
    not_judged: list[str] = field(default_factory=list)
    unsupported: list[str] = field(default_factory=list)
    sizes: dict[int, int] = field(default_factory=dict)
    """The bytes of each atomic access, by the id of the op."""


def kind_of(op: ops.Op, written: bool) -> int:
    """What ``op`` does through a reference, or as a tensor copy to its tensor."""
    if isinstance(op, ops.Atomic) or (isinstance(op, ops.Store) and op.order is not None):
        return ATOMIC
    if isinstance(op, ops.AnyBulk) and op.kind == "reduce":
        return ATOMIC
    if isinstance(op, ops.Load) and op.order is not None:
        return STRONG
    return WRITE if written else READ


CTA, CLUSTER, GPU = range(3)
_SCOPES = {"thread": CTA, "cta": CTA, "cluster": CLUSTER, "gpu": GPU, "sys": GPU}


def scope_of(op: ops.Op) -> int:
    """The reach of an atomic access or a fence: the block, the cluster, or the grid, as for bulk reductions."""
    return _SCOPES[getattr(op, "scope", "gpu" if isinstance(op, ops.AnyBulk) else "thread")]


def is_lasting(op: ops.Op) -> bool:
    """Whether what an op reads of global memory is read later than the op is executed."""
    if isinstance(op, ops.AnyBulk):
        return op.kind == "load"
    return isinstance(op, ops.Copy) and op.atom.asynchronous is not None


def tensors_of(op: ops.Op) -> set[Buffer]:
    """The tensors in global memory that an op reads or writes."""
    found = {ref.buffer for ref, _ in op.refs() if ref.buffer.space is Space.GLOBAL}
    return found | {op.tensor} if isinstance(op, ops.TmaCopy) else found


@once_per_func
def accesses(func: Func) -> tuple[tuple[ops.Op, Buffer, int, int], ...]:
    """(op, tensor, kind, bytes at once) of every access to global memory."""
    return tuple(_accesses(func))


def _accesses(func: Func) -> Iterator[tuple[ops.Op, Buffer, int, int]]:
    # By a map that the kernel changes a copy may reach any array that one is made to describe.
    reached = {op.source.buffer for op in func.body.walk() if isinstance(op, ops.TensorMapUpdate) and op.source}
    anywhere = any(isinstance(op, ops.TensorMapUpdate) and op.address is not None for op in func.body.walk())
    if anywhere:
        reached |= {param.buffer for param in func.params if isinstance(param, TensorParam)}
    for op in func.body.walk():
        if isinstance(op, ops.Inspect) or (isinstance(op, ops.AnyBulk) and op.kind.startswith("prefetch")):
            continue
        if isinstance(op, ops.TmaCopy):
            for buffer in (op.tensor, *(reached if op.map is not None else ())):
                yield op, buffer, kind_of(op, op.kind != "load"), max(op.tensor.dtype.bits // 8, 1)
        for ref, written in op.refs():
            if isinstance(op, (ops.TmaCopy, ops.TensorMapUpdate, ops.TensorMapAcquire)):
                continue                                # maps are judged by map_order.py, and arrays when they are used
            if ref.buffer.space is Space.GLOBAL:
                width = op.width if isinstance(op, ops.Copy) and ref in (op.dst, op.src) else 1
                yield op, ref.buffer, kind_of(op, written), width * max(ref.dtype.bits // 8, 1)


def plan(func: Func, memory: Callable[[Buffer], Global], blocks: int, *, ordered: bool, spent: int = 0) -> Plan:
    """What to watch.  ``ordered``: blocks may order each other; ``spent``: bytes that go to something else."""
    found = accesses(func)
    result = Plan(list({id(op): op for op, *_ in found}.values()))
    result.sizes = {id(op): size for op, _, kind, size in found if kind in (ATOMIC, STRONG)}
    regions = _regions(func, memory, found)
    full, brief = _packings(func, blocks, len(result.ops) + 1)
    left = SHARE * sum(region.written for region in regions) + SPARE - spent
    for region in sorted(regions, key=lambda region: region.bytes(brief)):
        if (need := region.bytes(brief)) <= left and not ordered:
            region.packing, left = brief, left - need
    for region in sorted(regions, key=lambda region: region.bytes(full)):
        more = region.bytes(full) - (0 if region.packing is None else region.bytes(brief))
        if more <= left and full.epochs >= 12:
            region.packing, left = full, left - more
    for region in regions:
        _say(region, result, "block" if func.cluster_dim == (1, 1, 1) else "block or cluster")
    return result


def _say(region: Region, result: Plan, within: str) -> None:
    if region.packing is None:
        result.unsupported.append(f"races in global memory on {region.name}: {region.units} units of {region.unit} "
                                  "bytes are more than can be remembered")
        return
    if not region.packing.detail:
        result.not_judged.append(f"races within a {within} in global memory on {region.name}, which is too large for "
                                 "it")
    for buffer in region.buffers:
        result.regions[buffer.id] = region


def _packings(func: Func, blocks: int, count: int) -> tuple[Packing, Packing]:
    block, thread, op = (max(1, (n - 1).bit_length()) for n in (blocks, func.threads, count))
    return Packing(block, thread, op, min(63 - block - thread - op, 40)), Packing(block, 0, op, 0)


def _regions(func: Func, memory: Callable[[Buffer], Global],
             found: Sequence[tuple[ops.Op, Buffer, int, int]]) -> list[Region]:
    """Arguments whose spans overlap, merged; only what is written and can clash."""
    sizes: dict[int, int] = {}
    kinds: dict[int, set[int]] = {}
    narrow: set[int] = set()
    bulk: set[int] = set()
    for op, buffer, kind, size in found:
        if kind in (ATOMIC, STRONG) and scope_of(op) < GPU:
            narrow.add(buffer.id)
        if isinstance(op, ops.AnyBulk) and kind != READ:
            bulk.add(buffer.id)
        sizes[buffer.id] = gcd(sizes.get(buffer.id, 0), size)
        kinds.setdefault(buffer.id, set()).add(kind)
    spans: list[tuple[int, int, Buffer]] = []
    for param in func.params:
        if isinstance(param, TensorParam) and param.buffer.id in sizes:
            here = memory(param.buffer)
            if here.high >= here.low:
                spans.append((here.address + here.low * here.itemsize,
                              here.address + (here.high + 1) * here.itemsize, param.buffer))
    merged: list[Region] = []
    for start, end, buffer in sorted(spans, key=lambda span: span[:2]):
        mine = frozenset(kinds[buffer.id])
        written = end - start if mine & {WRITE, ATOMIC} else 0
        last = merged[-1] if merged else None
        if last is not None and start < last.end:
            last.buffers.append(buffer)
            last.written = max(last.written, written)
            last.end, last.unit, last.kinds = max(last.end, end), gcd(last.unit, sizes[buffer.id]), last.kinds | mine
        else:
            merged.append(Region([buffer], start, end, sizes[buffer.id], mine, written))
    for region in merged:
        region.narrow = any(buffer.id in narrow for buffer in region.buffers)
        region.uneven = len({size for _, buffer, kind, size in found
                             if kind in (ATOMIC, STRONG) and buffer in region.buffers}) > 1
        region.bulk = any(buffer.id in bulk for buffer in region.buffers)
        found_here = [op for op, buffer, *_ in found if buffer in region.buffers]
        units = [isinstance(op, ops.AnyBulk) for op in found_here]
        region.mixed = any(units) and not all(units)
        region.lasts = any(is_lasting(op) for op in found_here)
        region.start -= region.start % region.unit
    return [region for region in merged if region.kinds & {WRITE, ATOMIC} and region.tracks]
