"""Which accesses happen in every order of blocks and threads, at the same places: found once, from the Func.

In: a Func, the locks in it, whether a tensor is written.  Out: ``Sure``: the ids of operations that are certain, and
of those that are so for whoever has got a lock that was tried for once.

What decides whether an operation is executed, and where, may come from numbers, indices and memory that nobody writes.
It may not come from memory that others write: another order may leave something else there.  A thread that waits
for a lock gets it in the end; so does one that waits for a flag that certain operations set.  Behind any other loop
that waits nothing is certain, except behind one that gives up, because it ends anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import Block, Buffer, Func, Literal, Operand, TileRef, Value
from moye.sim.checks.patience import Patience

CERTAIN, AWAITED, DOUBTFUL = range(3)
"""A value: the same in every order, of a flag that is waited for, or another one in another order."""
Exits = set[tuple[str, int]]
"""Ways on which some may have left: the kind, and the id of what they leave (0: the kernel)."""


@dataclass(frozen=True, slots=True)
class Sure:
    """The ids of the operations that happen in every order; and of those that happen to whoever wins a try for a lock,
    with the ids of these tries."""

    always: frozenset[int]
    won: Mapping[int, frozenset[int]]


def certain(func: Func, locks: Callable[[ops.Op], bool], written: Callable[[Buffer], bool], patience: Patience,
            tries: Mapping[int, int | float | bool]) -> Sure:
    """``locks``: whether an operation takes a lock, or looks at one.  ``tries``: by the ids of the atomics that take
    locks what they find where one is free."""
    found = _Certain(func, locks, written, patience, tries)
    # Levels and sets only grow, so this ends: doubt about a tensor's contents may reach code before the store, by a
    # loop.
    while True:
        before = found.size
        found.block(func.body, False)
        found.settle()
        if found.size == before:
            break
    sure = frozenset(id(op) for op in found.walked if id(op) not in found.places
                     and all(found.level(part) == CERTAIN for part in _where(op)))
    return Sure(sure - found.won.keys(), {key: tries_ for key, tries_ in found.won.items() if key in sure})


def _where(op: ops.Op) -> Iterator[Operand]:
    """What the places of an operation are made of."""
    for ref, _ in op.refs():
        yield from _parts(ref.offset)
        if isinstance(ref, TileRef):
            yield from _parts(*ref.strides)
    if isinstance(op, ops.Copy):
        yield from _parts(*op.extents, None if isinstance(op.pred, TileRef) else op.pred)


def _parts(*parts: object) -> Iterator[Operand]:
    return (part for part in parts if isinstance(part, Value))


def _sources(walked: Iterable[ops.Op]) -> dict[int, list[Operand | None]]:
    """What variables are set to, by their ids."""
    found: dict[int, list[Operand | None]] = {}
    for op in walked:
        if isinstance(op, ops.Declare):
            found.setdefault(op.var.id, []).append(op.init)
        elif isinstance(op, ops.Assign):
            for var, source in op.pairs:
                found.setdefault(var.id, []).append(source)
    return found


class _Certain:
    def __init__(self, func: Func, locks: Callable[[ops.Op], bool], written: Callable[[Buffer], bool],
                 patience: Patience, tries: Mapping[int, int | float | bool]) -> None:
        self.locks, self.written, self.patience, self.walked = locks, written, patience, list(func.body.walk())
        self.tries = tries
        self.trying: frozenset[int] = frozenset()
        """The tries that have been won where the walk is."""
        self.won: dict[int, frozenset[int]] = {}
        self.sources = _sources(self.walked)
        self.values: dict[int, int] = {}
        self.variables: dict[int, int] = {}
        self.registers: set[int] = set()
        """Fragments that hold something doubtful."""
        self.places: set[int] = set()
        """The ids of operations that may or may not be executed."""
        self.unsettled: set[int] = set()
        """The tensors whose final contents are in doubt."""

    @property
    def size(self) -> int:
        return sum(self.values.values()) + sum(self.variables.values()) + len(self.registers) + len(self.places) + \
            len(self.unsettled) + len(self.won)

    def level(self, operand: Operand | None) -> int:
        return self.values.get(operand.id, CERTAIN) if isinstance(operand, Value) else CERTAIN

    def most(self, operands: Iterable[Operand]) -> int:
        return max((self.level(operand) for operand in operands), default=CERTAIN)

    def settle(self) -> None:
        """Tensors that a doubtful operation may write, or to which a doubtful value goes."""
        for op in self.walked:
            plain = isinstance(op, (ops.Store, ops.Atomic))
            unsure = id(op) in self.places or id(op) in self.won
            if unsure or self.most(op.operands()) > CERTAIN or not plain:
                self.unsettled |= {ref.buffer.root.id for ref, written in op.refs() if written}

    def block(self, block: Block, doubt: bool) -> Exits:
        """Out: the ways on which threads may have left the block, in doubt."""
        left: Exits = set()
        lost: Exits = set()
        before = self.trying
        for op in block:
            found = self._op(op, doubt or bool(left))
            # Who has lost a try is gone, and what follows here is done by who has won.
            if not doubt and not left and isinstance(op, ops.If) and (tried := self._losers_leave(op)) is not None:
                self.trying |= {tried}
                lost |= found
            else:
                left |= found
        self.trying = before
        return left | lost

    def _losers_leave(self, op: ops.If) -> int | None:
        """The try for a lock after which everybody leaves who has lost it, and nobody else."""
        if (tried := self._tried(op.cond)) is None:
            return None
        won, lost = (op.then, op.orelse) if tried[1] else (op.orelse, op.then)
        leaves = bool(lost.ops) and isinstance(lost.ops[-1], ops.Exit)
        return tried[0] if leaves and not any(isinstance(inner, ops.Exit) for inner in won.walk()) else None

    def _op(self, op: ops.Op, doubt: bool) -> Exits:
        if isinstance(op, ops.Exit):
            return {(op.kind, 0 if op.target is None else id(op.target))} if doubt else set()
        if isinstance(op, ops.If):
            return self._branch(op, doubt)
        if isinstance(op, (ops.For, ops.Loop, ops.Scope)):
            return self._region(op, doubt)
        if doubt:
            self.places.add(id(op))
        elif self.trying:
            self.won[id(op)] = self.trying
        self._effect(op, doubt or bool(self.trying))
        return set()

    def _branch(self, op: ops.If, doubt: bool) -> Exits:
        level = self.level(op.cond)
        if not doubt and (tried := self._tried(op.cond)) is not None:
            return self._try(op, *tried)
        left = self.block(op.then, doubt or level > CERTAIN) | self.block(op.orelse, doubt or level > CERTAIN)
        # A break at the awaited value ends a wait: threads come to what follows in every order.
        if level == AWAITED and not doubt and {kind for kind, _ in left} == {"break"} and \
                sum(len(arm.ops) for arm in op.blocks()) == 1:
            return {("wait", target) for _, target in left}
        return left

    def _tried(self, cond: Operand) -> tuple[int, bool] | None:
        """The try for a lock whose outcome a condition is, and whether true means that it was won."""
        op = cond.op if isinstance(cond, Value) else None
        if not isinstance(op, ops.Binary) or op.kind not in ("eq", "ne"):
            return None
        for found, free in ((op.a, op.b), (op.b, op.a)):
            tried = self._origin(found, free.value) if isinstance(free, Literal) else None
            if isinstance(free, Literal) and tried is not None and free.value == self.tries.get(tried):
                return tried, op.kind == "eq"
        return None

    def _origin(self, found: Operand, free: object) -> int | None:
        """The try whose result a value is; of a variable, where all else that it may be says that nothing was won."""
        if not isinstance(found, Value):
            return None
        if not isinstance(found.op, ops.Read):
            return id(found.op) if id(found.op) not in self.patience.waits else None
        sources = self.sources.get(found.op.var.id, [])
        tries = [id(source.op) for source in sources if isinstance(source, Value)]
        lost = all(source.value != free for source in sources if isinstance(source, Literal))
        return tries[0] if lost and len(tries) == 1 and tries[0] not in self.patience.waits else None

    def _try(self, op: ops.If, tried: int, true: bool) -> Exits:
        """Who has won does what stands there in every order in which it wins; who leaves there is not to be told."""
        won, lost = (op.then, op.orelse) if true else (op.orelse, op.then)
        leaves = any(isinstance(inner, ops.Exit) for inner in won.walk())
        before, self.trying = self.trying, self.trying | {tried}
        left = self.block(won, leaves)
        self.trying = before
        return left | self.block(lost, True)

    def _region(self, op: ops.For | ops.Loop | ops.Scope, doubt: bool) -> Exits:
        inside = doubt
        if isinstance(op, ops.For):
            bounds = [op.start, op.stop, *_parts(op.step)]
            self._raise(self.values, op.iv.id, self.most(bounds))
            inside = inside or self.most(bounds) > CERTAIN
        left = self.block(op.body, inside)
        mine = {kind for kind, target in left if target == id(op)}
        rest = {(kind, target) for kind, target in left if target != id(op)}
        if isinstance(op, ops.Scope) or not mine - {"continue"}:
            return rest
        # Threads that have left take no part in later turns, so the body is walked once more, in doubt.
        rest |= self.block(op.body, True) - {(kind, id(op)) for kind in ("break", "continue", "wait")}
        endless = isinstance(op, ops.Loop) and "break" in mine and id(op) not in self.patience.gives_up
        return rest | {("return", 0)} if endless else rest

    def _effect(self, op: ops.Op, doubt: bool) -> None:
        if isinstance(op, ops.Declare):
            self._raise(self.variables, op.var.id, self.level(op.init))
        elif isinstance(op, ops.Assign):
            for var, source in op.pairs:
                self._raise(self.variables, var.id, DOUBTFUL if doubt else self.level(source))
        level = self._found(op)
        if (result := op.defines()) is not None:
            self._raise(self.values, result.id, level)
        for value in op.given():
            self._raise(self.values, value.id, level)
        if isinstance(op, ops.Map):
            self.block(op.body, False)
        if doubt or level > CERTAIN or self.most(op.operands()) > CERTAIN:
            self.registers |= {ref.buffer.id for ref, written in op.refs()
                               if written and ref.buffer.space is Space.REGISTER}

    def _found(self, op: ops.Op) -> int:
        """What an operation finds."""
        if isinstance(op, ops.Read):
            return self.variables.get(op.var.id, CERTAIN)
        if isinstance(op, ops.Special):
            return DOUBTFUL if op.kind in ("clock", "globaltimer") else CERTAIN
        if isinstance(op, (ops.Load, ops.Atomic)) and self.locks(op) and id(op) in self.patience.waits:
            return CERTAIN
        if isinstance(op, (ops.Atomic, ops.MbarrierTest)):
            return DOUBTFUL
        if isinstance(op, ops.Load) and op.order is not None and id(op) in self.patience.waits and \
                op.ref.buffer.root.id not in self.unsettled:
            return AWAITED
        level = self.most(op.operands())
        if any(not written and self._doubtful(ref.buffer) for ref, written in op.refs()):
            return DOUBTFUL
        return level

    def _doubtful(self, buffer: Buffer) -> bool:
        if buffer.space is Space.REGISTER:
            return buffer.id in self.registers
        return buffer.space is not Space.GLOBAL or self.written(buffer)

    def _raise(self, table: dict[int, int], key: int, level: int) -> None:
        if level > table.get(key, CERTAIN):
            table[key] = level


