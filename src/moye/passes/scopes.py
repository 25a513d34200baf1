"""How far mbarrier operations and proxy fences must reach: the block, its cluster, or all memory.

In: a Func.  Out: the ids of mbarrier operations that need the cluster's scope: remote arrivals (release) after accesses
that other blocks may depend on, and waits (acquire) before reads of what other blocks may have written (by st.async,
too), each with no barrier of the cluster in between; no waits on mbarriers at which no other block ever arrives.  And
the space of its proxy fences.

Spelled out, the scope costs a fence of the whole GPU at each arrival and an invalidation of L1 at each wait; the ring
of stages of a multicast, whose tiles the asynchronous proxy writes, does without.  May flag too many, never too few.
Global memory is not asked for: what blocks hand over there needs fences, or a barrier of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import Block, Buffer, Func
from moye.ir.traits import Trait

State = tuple[bool, bool]
"""Whether there were such accesses before the last arrival at the cluster's barrier, and since."""
CLEAN: State = (False, False)
CTA, CLUSTER, EVERYTHING = ".shared::cta", ".shared::cluster", ""
"""The suffixes of ``fence.proxy.async``, cheapest first."""


def handovers(func: Func) -> set[int]:
    """The ids of the arrivals and waits that hand over what threads have done to shared memory of the cluster."""
    walked = list(func.body.walk())
    mapped = {op.buffer.id for op in walked if isinstance(op, ops.MapShared)}
    if not mapped or not any(isinstance(op, ops.AsyncStore) or (isinstance(op, ops.MbarrierArrive)
                                                                and op.rank is not None) for op in walked):
        return set()
    found: set[int] = set()
    _Releases({id(op) for op in walked if _tells(op, mapped)}, found).block(func.body, CLEAN, False)
    acquires = _Acquires({id(op) for op in walked if _asks(op, mapped)}, found, barriers=_reached(walked))
    acquires.block(func.body, False, False)
    return found


def _reached(walked: Sequence[ops.Op]) -> set[int]:
    """The allocations of mbarriers at which other blocks may arrive, or complete bytes of what they write."""
    found = set[int]()
    for op in walked:
        if isinstance(op, ops.MbarrierArrive):
            barrier, away = op.ref, op.rank is not None
        elif isinstance(op, (ops.AsyncStore, ops.BulkCopy)) and op.barrier is not None:
            barrier, away = op.barrier, isinstance(op, ops.AsyncStore) or op.kind == "send"
        else:
            continue
        if away or barrier.buffer.space is Space.CLUSTER:
            found.add(barrier.buffer.root.id)
    return found


def _tells(op: ops.Op, mapped: set[int]) -> bool:
    """Whether an op writes what is mapped, or reads it in another block: that is done when the value is here."""
    return any(ref.buffer.root.id in mapped and (written or ref.buffer.space is Space.CLUSTER)
               for ref, written in op.refs())


def _asks(op: ops.Op, mapped: set[int]) -> bool:
    """Whether an op reads what is mapped."""
    return any(ref.buffer.root.id in mapped and not written for ref, written in op.refs())


def _passes_on(op: ops.Op, way: Trait) -> bool:
    """Whether it tells threads of the block, or hears from them, what others know: plain accesses do not."""
    return way in op.traits and (ops.is_ordered(op) or not isinstance(op, (ops.Load, ops.Store)))


def _join(a: State, b: State) -> State:
    return a[0] or b[0], a[1] or b[1]


def _leaves(op: ops.Op) -> bool:
    """Whether threads may not come to what follows the op in its block."""
    return any(isinstance(inner, ops.Exit) for block in op.blocks() for inner in block.walk())


@dataclass(slots=True)
class _Flow:
    """A walk through the blocks: ``accesses`` are the ids of the ops that matter, ``found`` those that need the
    scope."""

    accesses: set[int]
    found: set[int]

    def any(self, inside: Sequence[ops.Op]) -> bool:
        """Whether one of these ops, or one inside of them, matters."""
        return any(id(op) in self.accesses for op in Block(list(inside)).walk())

    def elsewhere(self, block: Block) -> Iterator[tuple[ops.Op, bool]]:
        """The ops of a block, each with whether threads that took another way there have accesses that matter."""
        before = False
        for position, op in enumerate(block.ops):
            leaves = isinstance(op, ops.If) and _leaves(op)
            yield op, before or (leaves and self.any(block.ops[position + 1:]))
            before |= leaves and self.any([op])


@dataclass(slots=True)
class _Releases(_Flow):
    """Forwards: what other blocks may depend on.  ``others``: whether threads in another branch have such accesses,
    which barriers within the block pass on."""

    left: dict[tuple[int, bool], State] = field(default_factory=dict)
    """The state at the jumps, by a region and whether the jump goes on there with ``continue``."""

    def block(self, block: Block, state: State, others: bool) -> State:
        for op, elsewhere in self.elsewhere(block):
            state = self.op(op, state, others or elsewhere)
        return state

    def op(self, op: ops.Op, state: State, others: bool) -> State:
        # A barrier in the block hands on what its other threads did, so this thread's arrival publishes that, too.
        if others and _passes_on(op, Trait.HEARS):
            state = state[0], True
        if isinstance(op, ops.MbarrierArrive) and op.rank is not None and any(state):
            self.found.add(id(op))
        elif isinstance(op, ops.ClusterArrive) and not op.relaxed:
            return any(state), False
        elif isinstance(op, ops.ClusterWait):
            return False, state[1]
        elif isinstance(op, ops.Exit):
            key = (id(op.target), op.kind == "continue")
            self.left[key] = _join(self.left.get(key, CLEAN), state)
            return CLEAN
        elif isinstance(op, ops.If):
            return _join(self.block(op.then, state, others or self.any(op.orelse.ops)),
                         self.block(op.orelse, state, others or self.any(op.then.ops)))
        elif isinstance(op, (ops.For, ops.Loop, ops.Scope)):
            return self.region(op, state, others)
        elif id(op) in self.accesses:
            return state[0], True
        return state

    def region(self, op: ops.For | ops.Loop | ops.Scope, state: State, others: bool) -> State:
        end = state
        for _ in range(3 if Trait.LOOP in op.traits else 1):     # two bits: a third round changes nothing more
            end = _join(self.block(op.body, state, others), self.left.get((id(op), True), CLEAN))
            state = _join(state, end)
        end = state if isinstance(op, ops.For) else end
        return _join(end, self.left.get((id(op), False), CLEAN))


@dataclass(slots=True)
class _Acquires(_Flow):
    """Backwards: whether what other blocks may have written is read before the next barrier of the cluster."""

    barriers: set[int] = field(default_factory=set)
    """The mbarriers through which other blocks tell."""
    on: dict[tuple[int, bool], bool] = field(default_factory=dict)
    """What holds where a jump goes, by a region and whether the jump goes to its next iteration."""

    def block(self, block: Block, needed: bool, others: bool) -> bool:
        for op, elsewhere in reversed(list(self.elsewhere(block))):
            needed = self.op(op, needed, others or elsewhere)
        return needed

    def op(self, op: ops.Op, needed: bool, others: bool) -> bool:
        if isinstance(op, ops.AnyPhase) and needed and op.ref.buffer.root.id in self.barriers:
            self.found.add(id(op))
        elif isinstance(op, ops.ClusterWait):
            return False
        elif isinstance(op, ops.Exit):
            return self.on.get((id(op.target), op.kind == "continue"), False)
        elif isinstance(op, ops.If):
            then = self.block(op.then, needed, others or self.any(op.orelse.ops))
            return self.block(op.orelse, needed, others or self.any(op.then.ops)) or then
        elif isinstance(op, (ops.For, ops.Loop, ops.Scope)):
            return self.region(op, needed, others)
        return needed or id(op) in self.accesses or (others and _passes_on(op, Trait.TELLS))

    def region(self, op: ops.For | ops.Loop | ops.Scope, needed: bool, others: bool) -> bool:
        self.on[id(op), False], start = needed, needed
        # Backwards over a single bit: the second round carries it from the body's start to its end, and a third adds
        # nothing.
        for _ in range(2 if Trait.LOOP in op.traits else 1):
            self.on[id(op), True] = start or needed
            start = self.block(op.body, start or needed, others) or (needed and isinstance(op, ops.For))
        return start


def fenced_space(func: Func) -> str:
    """The space of all proxy fences of the kernel: shared memory alone, where that is enough, which is cheaper.

    Global memory counts only where threads write what bulk copies of the same kernel read or write.
    """
    threads, units, anywhere = set[Buffer](), set[Buffer](), False
    for op in func.body.walk():
        if isinstance(op, ops.TmaCopy) and not op.kind.startswith("prefetch"):
            units.add(op.tensor)
        if isinstance(op, ops.TensorMapUpdate):
            anywhere |= op.address is not None
            units |= set() if op.source is None else {op.source.buffer}
        for ref, written in op.refs():
            if isinstance(op, ops.AnyMap) or (isinstance(op, ops.TmaCopy) and ref is op.map):
                continue                                # maps have fences of their own
            if isinstance(op, (ops.AnyBulk, ops.Wgmma)):
                units.add(ref.buffer)
            elif written and ref.buffer.space in (Space.GLOBAL, Space.CLUSTER):
                threads.add(ref.buffer)
    wrote, used = ({buffer for buffer in found if buffer.space is Space.GLOBAL} for found in (threads, units))
    # Without __restrict__ two arguments may be one memory.
    if wrote & used or (wrote and used and not func.restrict) or (wrote and anywhere):
        return EVERYTHING
    away = {buffer.root for buffer in threads if buffer.space is Space.CLUSTER}
    return CLUSTER if away & {buffer.root for buffer in units} else CTA
