"""Loops while tracing that are loops of the kernel (DynamicFor, While), and what all loops have in common.

In: the protocol of ``rewrite.py``: iterate, ``begin``, ``test``, ``break_``, ``continue_``, ``end``, ``after``.
Out: ``ops.For`` / ``ops.Loop`` whose carried variables are Vars.

    for i in loop: (x,) = loop.begin(locals()); ...; loop.end(locals())

A dynamic body is traced again where a carried value's facts at its end are weaker than at its start.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from moye import dtypes as dt
from moye.dtypes import Space
from moye.errors import TraceError
from moye.ir import constants, fold, ops
from moye.ir.builder import LoopBound
from moye.ir.nodes import Block, Operand, Value, Var
from moye.lang import failures, identity, swaps
from moye.lang.beside import NONE
from moye.lang.carry import Carried, Undefined, carried_dtype, fit, rebuild, same_structure, take_apart, variable, widen
from moye.lang.disagreement import BODY, LOOP, changed_structure, check_dtype
from moye.lang.host_objects import Place, Snapshot
from moye.lang.merging import still_holds
from moye.lang.ranges import DynamicRange
from moye.lang.reachable import Reached
from moye.lang.scopes import above, leave, regions, require_end
from moye.tensor.context import builder, locate
from moye.tensor.expr import Expr, Scalar, operand_of, truth
from moye.tensor.known import Known
from moye.tensor.tensor import Tensor

Locals = dict[str, Any]
_PASSES = 6
MOST_TURNS = 1 << 14
"""Turns that a loop may be unrolled to while tracing."""


class Loop(ABC):
    """The protocol; see the module's docstring."""

    dynamic = False

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    @abstractmethod
    def __iter__(self) -> Iterator[Any]: ...

    def begin(self, variables: Locals) -> tuple[Any, ...]:
        return tuple(variables.get(n, Undefined(n)) for n in self.names)

    def end(self, variables: Locals) -> None: ...  # noqa: B027  most need nothing

    def __enter__(self) -> Loop:
        """Around the body, for errors in it."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 where: TracebackType | None) -> bool | None:
        return None

    def after(self, variables: Locals) -> tuple[Any, ...]:
        return tuple(variables.get(n, Undefined(n)) for n in self.names)

    @abstractmethod
    def break_(self, variables: Locals, through: bool = False) -> int:
        """A jump; ``through``: it leaves a with statement inside of the loop."""

    @abstractmethod
    def continue_(self, variables: Locals, through: bool = False) -> int: ...


@dataclass(slots=True)
class _Slot:
    """One carried variable: its structure and, per leaf, the Var and the facts assumed in the body.

    ``late``: it has no value before the loop, or before a later turn, so the body cannot read it before writing it.
    """

    structure: Any
    variables: list[Var]
    facts: list[fold.Facts]
    late: bool = False
    shared: bool = False
    """Whether it holds an object that something else refers to too, before the loop or at the end of a turn."""
    first: object = None
    others: list[object] = field(default_factory=list)
    """What it may be behind a turn, if it is shared."""
    gone: Undefined | None = None
    """What a turn has left in its place."""


class _Dynamic(Loop):
    """What For and While of the kernel share: Vars, the body's block, repeated passes."""

    op: ops.For | ops.Loop

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(names)
        self.slots: dict[str, _Slot] = {}
        self.preamble: list[ops.Op] = []
        self.weaker = False
        self.dynamic = True
        self.skips = False
        """Whether the body may be left before its first statement."""
        self.gaps: set[str] = set()
        """Late variables that some way out of the loop leaves unset."""
        self.host: Snapshot | None = None
        self.places: list[Place] = []
        """Parts of Python objects that the body changes, carried like names; each is found by a pass of its own."""
        self.found: list[Place] = []
        self.outside: list[Tensor] = []
        """Register tensors that other variables refer to when the loop begins, if the loop carries several alike."""
        self.failure: failures.Failure | None = None
        """What went wrong in the first pass that failed."""
        self.level = 0

    def _open_pass(self) -> None:
        b = builder()
        self._opened, self._around = b.mark(), b.trips
        self.weaker = self.failed = self.lost = False
        self.found.clear()
        self.gaps.clear()
        self.op.body = Block()
        self._buffers = len(b.func.buffers)
        self._mark_objects = identity.opened()
        b.push(self.op.body)
        regions().append(self)

    def _passes(self) -> Iterator[None]:
        """One turn for each time that the body must be traced."""
        self.passes = 0
        while True:
            self._open_pass()
            yield None
            if self.failed:
                continue
            found = list(self.found)
            if not self._close_pass(self.passes == _PASSES - 1):
                break
            self.places += found
            # Passes that find new places are few by themselves; those that weaken facts might go on for ever, so they
            # count.
            self.passes += not (found or self.lost)

    def _close_pass(self, last: bool) -> bool:
        """Close the body; True if it must be traced again."""
        b = builder()
        identity.closed(self._mark_objects)
        leave(self)
        b.pop()
        again = bool(self.found) or self.lost or (self.weaker and not last)
        if again:
            # The next pass allocates the body's buffers again.
            del b.func.buffers[self._buffers:]
        if again and not self.found and self.passes == _PASSES - 2:
            for slot in self.slots.values():  # enough: with no facts at all the next pass is the last
                slot.facts = [failures.NOTHING] * len(slot.facts)
        return again

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 where: TracebackType | None) -> bool:
        """What is wrong for the values that a pass assumes may be right for others: see ``failures``."""
        if not isinstance(error, Exception):
            return False
        last = failures.failure(error, where)
        if self._is_conditional() and self._begins_anew():
            self.failure = self.failure or last
            return True
        told = failures.told(self.failure, last)
        if told is not None:
            raise told from None
        return False

    def _is_conditional(self) -> bool:
        """Whether the kernel's values decide if a turn gets to this point."""
        inner = any(isinstance(region, _Dynamic) and region.dynamic for region in above(self))
        return inner or builder().conditional_since(self._opened)

    def _begins_anew(self) -> bool:
        """Forget the pass, for one that assumes less of the carried variables, if any is left."""
        b, slots = builder(), [slot for slot in self.slots.values() if not slot.late]
        while self.level < failures.LEVELS:
            weaker = [[failures.less(facts, self.level) for facts in slot.facts] for slot in slots]
            self.level += 1
            if b.failures < failures.MOST and weaker != [slot.facts for slot in slots]:
                for slot, facts in zip(slots, weaker, strict=True):
                    slot.facts = facts
                self._forget_pass()
                return True
        return False

    def _forget_pass(self) -> None:
        b = builder()
        b.failures += 1
        self.failed = True
        late = {id(var) for slot in self.slots.values() if slot.late for var in slot.variables}
        self.slots = {name: slot for name, slot in self.slots.items() if not slot.late}
        self.preamble = [op for op in self.preamble if not (isinstance(op, ops.Declare) and id(op.var) in late)]
        identity.forget(self._mark_objects)
        leave(self)
        b.rollback(self._opened)
        b.trips = self._around

    def begin(self, variables: Locals) -> tuple[Any, ...]:
        if not self.dynamic:
            return super().begin(variables)
        if self.host is None:
            self.host = Snapshot()
        if not self._started:
            self._started = True
            self._declare(self.names, variables)
            self._look_outside(variables)
        self.host.restore()
        new = [place for place in self.places if place not in self.slots]
        self._declare(new, {place: self.host.before(place) for place in new})
        values = {name: self._read(name) for name in (*self.places, *self.names)}
        self.host.put([(place, values[place]) for place in self.places])
        self._watch(values)
        return tuple(values[n] for n in self.names)

    def _look_outside(self, variables: Locals) -> None:
        """Keep who else refers to registers, in case those of carried variables change places."""
        own = [part for slot in self.slots.values() for part in swaps.fragments(slot.structure)]
        if len({part[1] for part in own}) > 1:
            carried, reached = Counter(id(part[5]) for part in own), Reached()
            self.outside = [thing for thing in reached.things
                            if isinstance(thing, Tensor) and thing.space is Space.REGISTER
                            and reached.references[id(thing)] > carried[id(thing)]]

    def _watch(self, values: Locals) -> None:
        """From here on the objects in carried variables stand for others: see ``identity``."""
        for name, value in values.items():
            slot = self.slots.get(name)
            if slot is not None:
                identity.watch(name, value, (slot.first, *slot.others) if slot.shared else (), slot.shared)

    def _declare(self, names: Sequence[str], variables: Locals) -> None:
        """Vars for carried names, with their first values, in front of the loop."""
        for name in names:
            value = variables.get(name, Undefined(name))
            if isinstance(value, Undefined):
                continue
            # What makes the first values must stand before the loop, but begin() is called with its body open.
            with builder().inside(Block()) as before:
                parts = take_apart(value)
                slot = _Slot(parts.structure, [], [])
                declared: list[ops.Op] = []
                for leaf, part in zip(parts.leaves, parts.names, strict=True):
                    var = variable(name, part, carried_dtype(leaf))
                    operand = operand_of(leaf, var.dtype)
                    slot.variables.append(var)
                    slot.facts.append(fold.facts_of(operand) if var.dtype.is_integer else failures.NOTHING)
                    declared.append(ops.Declare(var=var, init=operand, loc=locate()))
            if identity.has_objects(value) and self.host is not None:
                slot.first, slot.shared = value, identity.is_shared(value, self.host.references)
            self.preamble += [*before.ops, *declared]
            self.slots[name] = slot

    def _read(self, name: str) -> Any:
        slot = self.slots.get(name)
        if slot is None or slot.late:
            return Undefined(name) if slot is None or slot.gone is None else slot.gone
        b = builder()
        reads = [Expr(b.read(v, f)) for v, f in zip(slot.variables, slot.facts, strict=True)]
        return rebuild(slot.structure, iter(reads))

    def _assign(self, variables: Locals, *, leaves: bool, returns: bool = True) -> None:
        """Write the carried variables at the end of the body or at a jump; ``leaves``: the loop may be over then,
        ``returns``: there may be another turn."""
        gaps = set(self.gaps)
        values = {**{name: variables.get(name, Undefined(name)) for name in self.names}, **self._parts()}
        self._store(values)
        if returns:
            self._lose(values)
        if not leaves:
            self.gaps = gaps

    def _lose(self, values: Locals) -> None:
        """What has no value at the end of a turn has none in the next one: another pass, which knows it."""
        for name, value in values.items():
            slot = self.slots.get(name)
            if isinstance(value, Undefined) and slot is not None and not slot.late:
                slot.late, slot.gone, self.lost = True, value, True

    @property
    def endless(self) -> bool:
        """Whether only ``break`` leaves it, so that what the next iteration begins with is not seen behind it."""
        return False

    def _store(self, values: Locals) -> None:
        identity.look()
        places = self._exchange(values)
        pairs: list[tuple[Var, Operand]] = []
        references = Reached().references if any(map(identity.has_objects, values.values())) else {}
        for name, value in values.items():
            if isinstance(value, Undefined):
                self.gaps.add(name)
                continue
            slot = self.slots.get(name) or self._late_slot(name, value, places)
            parts = take_apart(value)
            parts.structure = swaps.placed(parts.structure, places)
            if not same_structure(parts.structure, slot.structure):
                raise changed_structure(f"the variable {name!r}", slot.structure, parts.structure,
                                        BODY if slot.late else LOOP)
            self._unite(name, slot, parts)
            parts = fit(parts, slot.structure)
            if references and not slot.shared and identity.is_shared(value, references):
                slot.shared = True
                self.weaker |= not slot.late            # another pass, which knows it from the start
            if references and slot.shared:
                slot.others += [each for each in (value, *identity.behind(value))
                                if not any(each is known for known in slot.others)]
            for i, leaf in enumerate(parts.leaves):
                pairs.extend(self._update(name, slot, i, leaf))
        if pairs:
            # One parallel assignment: a swap of two carried variables reads both before it writes either.
            builder().emit(ops.Assign(pairs=tuple(pairs)))

    def _exchange(self, values: Locals) -> swaps.Places:
        """Let register tensors that have changed places have their contents changed instead."""
        if len({part[1] for slot in self.slots.values() for part in swaps.fragments(slot.structure)}) < 2:
            return {}
        known = [(slot.structure, take_apart(values[name]).structure) for name, slot in self.slots.items()
                 if not slot.late and name in values and not isinstance(values[name], Undefined)]
        places = swaps.changed(known)
        if places:
            swaps.refuse_others(self.outside, places)
            swaps.exchange(places)
            if isinstance(self.op, ops.For) and self.op.unroll is None:
                self.op.unroll = swaps.turns(places)    # then the moves go
        return places

    def _unite(self, name: str, slot: _Slot, parts: Carried) -> None:
        """More indices than so far go with a view, or its coordinates cannot: another pass."""
        new = widen(slot, parts.structure, name)
        if new is not None:
            self.weaker = True
            self.preamble += [ops.Declare(var=var, init=operand_of(NONE), loc=locate()) for var in new]

    def _parts(self) -> Locals:
        """What is now in the carried parts of Python objects; others that changed are noted, for another pass."""
        assert self.host is not None, "begin took it"
        changed = self.host.changed()
        self.found += [place for place in changed if place not in self.places and place not in self.found]
        return {place: changed[place] if place in changed else self.host.before(place) for place in self.places}

    def _update(self, name: str, slot: _Slot, i: int, leaf: Scalar) -> list[tuple[Var, Operand]]:
        var = slot.variables[i]
        check_dtype(f"the variable {name!r}", var.dtype, leaf, BODY if slot.late else LOOP)
        operand = operand_of(leaf, var.dtype)
        if var.dtype.is_integer:
            facts = fold.facts_of(operand)
            if not fold.implied(facts, slot.facts[i]):
                # A late variable is written before it is read, so no read of the body has relied on weaker facts.
                slot.facts[i] = _widen(slot.facts[i], facts, 0 if slot.late else self.passes)
                self.weaker = self.weaker or not slot.late
        op = operand.op if isinstance(operand, Value) else None
        return [] if isinstance(op, ops.Read) and op.var is var and still_holds(op) else [(var, operand)]

    def _late_slot(self, name: str, value: object, places: swaps.Places) -> _Slot:
        """A variable first set inside the loop: declared in front of it without a value."""
        parts = take_apart(value)
        parts.structure = swaps.placed(parts.structure, places)
        slot = _Slot(parts.structure, [], [], late=True)
        for leaf, part in zip(parts.leaves, parts.names, strict=True):
            var = variable(name, part, carried_dtype(leaf))
            operand = operand_of(leaf, var.dtype)
            slot.variables.append(var)
            slot.facts.append(fold.facts_of(operand) if var.dtype.is_integer else failures.NOTHING)
            self.preamble.append(ops.Declare(var=var, init=None, loc=locate()))
        self.slots[name] = slot
        return slot

    passes = 0
    failed = lost = broken = False
    _started = False

    def end(self, variables: Locals) -> None:
        if self.dynamic and not builder().terminated():
            self._assign(variables, leaves=not self.endless)

    def after(self, variables: Locals) -> tuple[Any, ...]:
        if not self.dynamic:
            leave(self)
            return super().after(variables)
        left: Locals = {}
        if self.host is not None:
            self.host.restore()
            left = {place: self._left(place, self.host.before(place)) for place in self.places}
            self.host.put([(place, left[place]) for place in self.places])
        left |= {name: self._left(name, variables.get(name, Undefined(name))) for name in self.names}
        self._watch(left)
        return tuple(left[name] for name in self.names)

    def _left(self, name: str, otherwise: object) -> Any:
        """The value of a variable behind the loop."""
        slot = self.slots.get(name)
        if slot is None:
            return otherwise
        if slot.late and slot.gone is not None and name in self.gaps:
            return slot.gone
        if slot.late and (self.skips or name in self.gaps):
            return Undefined(name, "where the loop before runs no iteration" if self.skips else
                             "on some way out of the loop before")
        reads = [Expr(builder().read(v, f)) for v, f in zip(slot.variables, slot.facts, strict=True)]
        return rebuild(slot.structure, iter(reads))

    def break_(self, variables: Locals, through: bool = False) -> int:
        return self._jump("break", variables, through)

    def continue_(self, variables: Locals, through: bool = False) -> int:
        return self._jump("continue", variables, through)

    def _jump(self, kind: Any, variables: Locals, through: bool) -> int:
        inner = above(self)
        if not self.dynamic:                            # only a while: under a traced condition it starts again
            return self._restart() if inner else 1 if kind == "break" else 2
        require_end(kind, through)
        self.broken = self.broken or kind == "break"
        self._assign(variables, leaves=kind == "break" or not self.endless, returns=kind != "break")
        builder().emit(ops.Exit(kind=kind, target=self.op))
        return 0 if inner else 2

    def _restart(self) -> int:
        raise AssertionError("what is no while is one of the kernel from the start")

    def _place(self) -> None:
        """Put the declarations and the loop into the surrounding block."""
        b = builder()
        for op in (*self.preamble, self.op):
            b.emit(op, op.loc)


class DynamicFor(_Dynamic):
    """for i in range(...): one ``ops.For``."""

    op: ops.For

    def __init__(self, bounds: DynamicRange, names: tuple[str, ...], target: str) -> None:
        super().__init__(names)
        b = builder()
        ends = bounds.start, bounds.stop, bounds.step
        wide = any(isinstance(x, (Expr, Known)) and x.dtype.bits == 64 for x in ends)
        wide |= any(isinstance(x, Expr) and x.dtype is dt.uint32 and (x.upper is None or x.upper >= 2**31)
                    for x in ends)                      # as int32 it might be negative
        wide |= any(isinstance(x, int) and not constants.fits(int(x), dt.int32) for x in ends)
        self.narrow = not wide and _may_wrap(*(operand_of(x, dt.int32) for x in ends))
        """Whether it counts in int64, since the step behind its last turn may leave the int32 that the body sees."""
        index = dt.int64 if wide or self.narrow else dt.int32
        start, stop, by = (operand_of(x, index) for x in (bounds.start, bounds.stop, bounds.step))
        iv = Value(index, name=target or "i")
        self.op = ops.For(iv=iv, start=start, stop=stop, step=by if isinstance(by, Value) else int(by.value),
                          body=Block(), unroll=bounds.unroll, loc=b.locate())
        iv.lower, iv.upper, iv.divisor = _iv_facts(self.op)
        self.bound = LoopBound(self.op, stop, b.conditions)
        if self.op.up:
            b.loops[iv.id] = self.bound
        first, last = (start, stop) if self.op.up else (stop, start)
        most, least = fold.facts_of(first)[1], fold.facts_of(last)[0]
        self.skips = most is None or least is None or most >= least
        least, most = fold.facts_of(first)[0], fold.facts_of(last)[1]
        self.never = least is not None and most is not None and least >= most
        """Whether it runs no iteration in any launch: its body is not traced."""

    def __iter__(self) -> Iterator[Any]:
        if self.never:
            return
        for _ in self._passes():
            yield Expr(builder().cast(self.op.iv, dt.int32) if self.narrow else self.op.iv)
        if self.bound.left:  # its variable need not reach the bound
            guards = builder().func.guards
            guards[:] = [g for g in guards if not any(g is void for void in self.bound.guards)]
        self._place()


class While(_Dynamic):
    """while c: ``ops.Loop`` whose body starts with ``if not c: break``; unrolled as long as c is static.

    Where c turns out to be traced after iterations in which it was static, or a traced condition leaves the loop, what
    was unrolled is forgotten, and the loop starts again as one of the kernel.
    """

    def __init__(self, names: tuple[str, ...], always: bool) -> None:
        super().__init__(names)
        self.op = ops.Loop(body=Block(), loc=builder().locate())
        self.dynamic = always
        self._mark, self._objects = builder().mark(), identity.opened()
        self._opened, self._around = self._mark, builder().trips
        self._first: Locals | None = None
        self._turns = 0

    def __iter__(self) -> Iterator[Any]:
        # Static conditions unroll, as they do in Python; at the first traced one ``_restart`` starts over.
        if self._unrolled():
            regions().append(self)
            while self._unrolled():
                yield None
            leave(self)
        for _ in self._passes():
            yield None
        self._place()
        if self.endless and not self.broken:
            builder().endless(self.op)

    @property
    def endless(self) -> bool:
        return not self.skips                           # no condition of its own was traced

    def _unrolled(self) -> bool:
        """Whether every condition so far was static."""
        return not self.dynamic

    def begin(self, variables: Locals) -> tuple[Any, ...]:
        if self._first is None:
            self.host, self._first = Snapshot(), {name: variables[name] for name in self.names if name in variables}
        if self.dynamic:
            return super().begin(self._first)
        self._turns += 1
        if self._turns > MOST_TURNS:
            raise too_many_turns("this while", "start with a traced value, such as mo.int32(0)")
        return tuple(variables.get(n, Undefined(n)) for n in self.names)

    def _restart(self) -> int:
        """From the start again, as a loop of the kernel."""
        builder().rollback(self._mark)
        if self.host is not None:
            self.host.restore()                         # the first values of its variables are taken apart next
        identity.forget(self._objects)
        leave(self)
        self.dynamic = True
        return 2

    def _begins_anew(self) -> bool:
        if self.dynamic:
            return super()._begins_anew()
        if builder().failures >= failures.MOST:
            return False
        builder().failures += 1
        builder().trips = self._around
        self._restart()
        return True

    def test(self, cond: object) -> int:
        if not self.dynamic:
            # A condition of the kernel's constants, mo.int32(0) < n, is one of its variables in a loop.
            many = isinstance(cond, Known) and self._turns >= MOST_TURNS
            return self._restart() if isinstance(cond, Expr) or many else 0 if cond else 1
        if not isinstance(cond, Expr) and cond:
            return 0
        b = builder()
        self.skips = True
        if isinstance(cond, Expr):
            # The test stays in the body, so that whatever computes it is computed again in each turn.
            leave = ops.If(cond=b.unary("not", truth(cond).operand), then=Block(), orelse=Block())
            with b.inside(leave.then):
                self._store(self._parts())              # the test may have changed them
                b.emit(ops.Exit(kind="break", target=self.op))
            b.emit(leave)
            return 0
        self._store(self._parts())
        b.emit(ops.Exit(kind="break", target=self.op))
        return 2


def too_many_turns(what: str, hint: str) -> TraceError:
    return TraceError(f"{what} is unrolled while tracing, and not done after {MOST_TURNS} turns", hint=hint,
                      locs=(locate(),))


_LONG_STEP = 1 << 24
"""A loop of steps as long has few turns, so that a counter of 64 bits costs nothing."""


def _may_wrap(start: Operand, stop: Operand, step: Operand) -> bool:
    """Whether an int32 counter may leave its dtype by the step behind its last turn: then it would go on for ever.

    Of shorter steps and other bounds than constants it is not asked: the checker tells of them where it happens (A11).
    """
    if isinstance(step, Value):
        return False
    by = int(step.value)
    if not isinstance(start, Value) and not isinstance(stop, Value):
        turns = range(int(start.value), int(stop.value), by)
        return bool(turns) and not constants.fits(turns[-1] + by, dt.int32)
    last = fold.facts_of(stop)[1 if by > 0 else 0]
    return abs(by) >= _LONG_STEP and (last is None or not constants.fits(last + by, dt.int32))


def _iv_facts(op: ops.For) -> fold.Facts:
    low, high = (op.start, op.stop) if op.up else (op.stop, op.start)
    # Upwards the variable lies in [start, stop - 1], downwards in [stop + 1, start]; it is start plus steps.
    lower, upper = fold.facts_of(low)[0], fold.facts_of(high)[1]
    upper = upper - 1 if op.up and upper is not None else upper
    lower = lower if op.up or lower is None else lower + 1
    if lower is not None and upper is not None and lower > upper:
        lower = upper = None        # it never runs: bounds that contradict each other would prove anything of its body
    step = op.step.divisor if isinstance(op.step, Value) else abs(op.step)
    return lower, upper, fold.common_divisor(fold.facts_of(op.start)[2], step)


def _widen(assumed: fold.Facts, seen: fold.Facts, passes: int) -> fold.Facts:
    """The meet; from the second pass on, bounds that still move are given up, and then all facts that do."""
    both = fold.meet(assumed, seen)
    if passes == 0:
        return both
    if passes > 2:
        return failures.NOTHING
    # Widening, as in abstract interpretation: a bound that moved twice (i += 1) moves in every pass.
    lower = both[0] if both[0] == assumed[0] else None
    upper = both[1] if both[1] == assumed[1] else None
    return lower, upper, both[2]
