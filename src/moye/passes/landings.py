"""Func -> Func in which a thread has what it loaded from shared memory before asynchronous units may write there.

Contract: an ordinary load that is under way reads shared memory late where other warps' stores keep its unit busy.  A
thread that arrives meanwhile tells the others that it has read, a copy by TMA or a store by another block, which waits
for that, goes another way, and the load finds what comes next (seen on an H200: ptxas 13.0 takes loads and arrivals for
one queue, which they are for ordinary stores).  In front of whatever hands such memory back stands a ``Landed`` for the
loads since the last.  What was stored since, or what was computed of it, has come in any case.  In place.

    mo.copyto(held, stage); pipe.consumer_release(state); use(held)     # held has landed before the release
"""

from __future__ import annotations

import itertools

from moye import dtypes as dt
from moye.dtypes import Space
from moye.errors import IRError
from moye.ir import ops
from moye.ir.nodes import Block, Func, Literal, Ref, TileRef, Value
from moye.ir.traits import Trait

Pending = dict[int, ops.Op]
"""Loads that nobody has waited for, by the id of the op."""
_Key = int | tuple[int | str, int]
_SHARED = (Space.SHARED, Space.CLUSTER)
_NONE: frozenset[int] = frozenset()


def land(func: Func) -> Func:
    """Wait for loads before what they read is handed back."""
    walked = list(func.body.walk())
    targets = frozenset(root for op in walked for root in _targets(op))
    if targets:
        _Walk(targets, arrivals=any(map(_arrives, walked))).block(func.body, {})
    return func


def _targets(op: ops.Op) -> list[int]:
    """The shared tensors that an op writes when it will, or from another block."""
    if isinstance(op, ops.AnyAsync):
        smem = op.smem
        return [ref.buffer.root.id for ref, written in op.refs() if written and ref is smem]
    return [ref.buffer.root.id for ref, written in op.refs() if written and ref.buffer.space is Space.CLUSTER]


def _arrives(op: ops.Op) -> bool:
    """Whether a thread says at an mbarrier that it has done with something."""
    return isinstance(op, ops.MbarrierArrive) and op.arrives and not op.copies and op.bytes is None


def _tells(behind: list[ops.Op]) -> bool:
    """Whether the first that happens behind a barrier is that a thread arrives, for all that have met there."""
    for op in behind:
        if any(map(_arrives, (op, *(inner for block in op.blocks() for inner in block.walk())))):
            return True
        if not (Trait.QUIET in op.traits or Trait.REMOVABLE in op.traits) or Trait.LOOP in op.traits:
            return False
    return False


def _registers(op: ops.Op) -> list[Ref | TileRef]:
    """The registers that an op writes."""
    return [ref for ref, written in op.refs() if written and ref.buffer.space is Space.REGISTER]


class _Walk:
    """A walk through the blocks, with what is pending.

    ``origins`` are the loads, by the id of the op, that a value (its id), a variable or an element of registers was
    computed of; ``bare`` the elements that were loaded themselves.
    """

    def __init__(self, targets: frozenset[int], *, arrivals: bool) -> None:
        self.targets = targets
        self.arrivals = arrivals
        self.origins: dict[_Key, frozenset[int]] = {}
        self.bare: set[_Key] = set()

    def block(self, block: Block, pending: Pending) -> Pending:
        """Put in what is missing; what is pending at the end."""
        found: list[ops.Op] = []
        for at, op in enumerate(block.ops):
            if isinstance(op, ops.Landed):              # from the first time through a loop
                _extend(op, pending)
                pending = {}
            elif pending and self._hands_back(op, block.ops[at + 1:]):
                found.append(_extend(ops.Landed(loc=op.loc, trips=op.trips), pending))
                pending = {}
            pending = self._region(op, pending) if Trait.REGION in op.traits else self._after(op, pending)
            found.append(op)
        block.ops = found
        return pending

    def _hands_back(self, op: ops.Op, behind: list[ops.Op]) -> bool:
        """Whether others, or copies of the thread's own, may write behind the op what was read before it.

        Where arrivals say so, barriers are about other things, but for one in front of an arrival.
        """
        if isinstance(op, (ops.SyncThreads, ops.NamedBarrier, ops.ClusterArrive)):
            return not self.arrivals or _tells(behind)
        if isinstance(op, ops.If):                          # all lanes, before one of them arrives
            return any(_tells(block.ops) for block in op.blocks())
        return _arrives(op) or (isinstance(op, ops.MbarrierArrive) and op.arrives) or bool(_targets(op))

    def _region(self, op: ops.Op, pending: Pending) -> Pending:
        """Each way through an op's blocks; a loop's twice, as its end comes before its beginning."""
        loop, ends = Trait.LOOP in op.traits, dict(pending)
        for block in op.blocks():
            end = self._inside(block, pending)
            ends |= self._inside(block, end) if loop and end else end
        return ends

    def _inside(self, block: Block, pending: Pending) -> Pending:
        """A block whose own registers end with it."""
        end = self.block(block, pending)
        inner = list(block.walk())
        own = {op.buffer.id for op in inner if isinstance(op, ops.Alloc)}
        within = {id(op) for op in inner}
        local = {key: op for key, op in end.items() if key in within and (
            op.defines() is not None or any(tile.buffer.id in own for tile in _registers(op)))}
        if local:
            at = len(block.ops) - (bool(block.ops) and isinstance(block.ops[-1], ops.Exit))
            block.ops.insert(at, _extend(ops.Landed(loc=next(iter(local.values())).loc), local))
        return {key: op for key, op in end.items() if key not in local}

    def _after(self, op: ops.Op, pending: Pending) -> Pending:
        """What is pending behind an op that is no region."""
        if self._loads(op):
            self._set(op, [frozenset({id(op)})] * len(_points(op)))
            return {**pending, id(op): op}
        if not pending:
            return pending
        come = self._stored(op)
        if not come:
            self._set(op, self._of_points(op))
        return {key: load for key, load in pending.items() if key not in come}

    def _loads(self, op: ops.Op) -> bool:
        """Whether an op brings what asynchronous units write to registers."""
        reads = any(not written and ref.buffer.space in _SHARED and ref.buffer.root.id in self.targets
                    for ref, written in op.refs())
        return reads and Trait.MOVES in op.traits and bool(op.defines() is not None or _registers(op))

    def _stored(self, op: ops.Op) -> frozenset[int]:
        """The loads whose values an op stores, or gives to the tensor core: neither passes an arrival.  Nor does what
        was computed of them where it is pinned; a pin alone asks for no register.
        """
        if isinstance(op, ops.Pin):
            whole = ((tile.buffer.id, at) for tile in op.tiles for at in range(tile.buffer.elements or 0))
            return _NONE.union(*(self.origins.get(key, _NONE) for key in whole if key not in self.bare))
        if isinstance(op, ops.Copy) and op.pred is not None:
            return _NONE                                # who stores nothing asks for nothing
        leaves = any(written and ref.buffer.space is not Space.REGISTER for ref, written in op.refs())
        if not leaves and not isinstance(op, (ops.Wgmma, ops.Shuffle)):
            return _NONE
        return _NONE.union(*self._of_points(op), _NONE)

    def _of_points(self, op: ops.Op) -> list[frozenset[int]]:
        """The loads of which an op reads, at each point of its space."""
        scalars = _NONE.union(*(self.origins.get(value.id, _NONE) for value in op.operands()
                                if isinstance(value, Value)))
        if isinstance(op, ops.Read):
            scalars |= self.origins.get(("var", op.var.id), _NONE)
        found = [scalars] * len(_points(op))
        for ref, written in op.refs():
            if not written and ref.buffer.space is Space.REGISTER:
                elements = [_NONE.union(*(self.origins.get((ref.buffer.id, at), _NONE) for at in access))
                            for access in _elements(op, ref)]
                if len(elements) != len(found):         # whatever is read may be anywhere in what is written
                    elements = [_NONE.union(*elements)] * len(found)
                found = [a | b for a, b in zip(found, elements, strict=True)]
        return found

    def _set(self, op: ops.Op, origins: list[frozenset[int]]) -> None:
        """What an op defines and writes to registers was computed of these loads."""
        value = op.defines()
        if value is not None:
            self.origins[value.id] = _NONE.union(*origins)
        variables = [op.var] if isinstance(op, ops.Declare) else [var for var, _ in op.pairs] \
            if isinstance(op, ops.Assign) else []
        self.origins.update(dict.fromkeys((("var", var.id) for var in variables), _NONE.union(*origins)))
        for tile in _registers(op):
            elements = _elements(op, tile)
            each = origins if len(elements) == len(origins) else [_NONE.union(*origins)] * len(elements)
            found: dict[_Key, frozenset[int]] = {
                (tile.buffer.id, at): of for access, of in zip(elements, each, strict=True) for at in access}
            self.origins.update(found)
            (self.bare.update if self._loads(op) else self.bare.difference_update)(found)


def _points(op: ops.Op) -> list[tuple[int, ...]]:
    """The points of an op's space; one where it has none, and of a copy one for each access."""
    extents = getattr(op, "extents", ())
    return list(itertools.product(*map(range, extents))) if all(isinstance(n, int) for n in extents) else [()]


def _elements(op: ops.Op, ref: Ref | TileRef) -> list[list[int]]:
    """The elements of a register buffer at each point of an op; those of a copy's access."""
    if not isinstance(ref.offset, Literal):
        raise IRError(f"a register tensor at {ref.offset}, which is no constant")
    if Trait.MULTIPLIES in op.traits:                   # an instruction has many of them
        return [list(range(ref.buffer.elements or 0))]
    first, strides = int(ref.offset.value), ref.strides if isinstance(ref, TileRef) else ()
    points = [at for at in _points(op) if len(at) == len(strides)] or [(0,) * len(strides)]
    within = [0]
    if isinstance(op, ops.Copy) and isinstance(ref, TileRef) and ref is not op.pred:
        within = list(op.registers) or [i * ref.lane for i in range(op.width)]
    offsets = [first + sum(i * step for i, step in zip(at, strides, strict=True) if isinstance(step, int))
               for at in points]
    part = ref.dtype.bits // ref.buffer.dtype.bits or 1     # elements of the buffer in one of the reference
    return [[(offset + i) * ref.dtype.bits // ref.buffer.dtype.bits + j for i in within for j in range(part)]
            for offset in offsets]


def _extend(landed: ops.Landed, pending: Pending) -> ops.Landed:
    """The loads are among those that have landed."""
    found = dict.fromkeys((*landed.elements, *(ref for op in pending.values() for ref in _accesses(op))))
    values = dict.fromkeys((*landed.values, *filter(None, (op.defines() for op in pending.values()))))
    landed.elements, landed.values = tuple(found), tuple(values)
    return landed


def _accesses(op: ops.Op) -> list[Ref]:
    """The first register of each access of a load."""
    return [Ref(tile.buffer, Literal(at, dt.int32), tile.buffer.dtype)
            for tile in _registers(op) for at, *_ in _elements(op, tile)]
