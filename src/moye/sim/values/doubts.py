"""Scalars that no lane may rely on: of registers that nothing has set (B7), of lanes that were not there (C7).

In: where such values come from, and how they flow through arithmetic, variables, shuffles and registers.  Out: the
finding, told where one is used: stored, read by other threads, decided on.  One that nobody uses is none.

    flows(func).values      # the ids of the scalars that may be such values
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import Block, Func, Operand, Value
from moye.ir.traits import Trait
from moye.sim.findings.finding import Reporter
from moye.sim.values.masks import Mask, lanes_of
from moye.sim.values.memory import Array

_NO_USE = {Trait.ARITHMETIC, Trait.VARIABLE, Trait.SHOWS, Trait.POINTWISE}


@dataclass(slots=True)
class Flows:
    """The ids of Values and of Vars that may depend on a register or on a shuffle."""

    values: set[int] = field(default_factory=set)
    variables: set[int] = field(default_factory=set)

    def among(self, operands: Sequence[Operand]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(o.id for o in operands if isinstance(o, Value) and o.id in self.values))


def flows(func: Func) -> Flows:
    """A fixed point over the kernel."""
    found, size = Flows(), -1
    walked = list(_outside_maps(func.body))
    while size != len(found.values) + len(found.variables):
        size = len(found.values) + len(found.variables)
        for op in walked:
            begins = isinstance(op, ops.Shuffle) or (isinstance(op, ops.Load) and
                                                     op.ref.buffer.space is Space.REGISTER)
            result = op.defines()
            if result is not None and (begins or (Trait.ARITHMETIC in op.traits and found.among(list(op.operands())))):
                found.values.add(result.id)
            elif isinstance(op, ops.Declare) and op.init is not None and found.among([op.init]):
                found.variables.add(op.var.id)
            elif isinstance(op, ops.Assign):
                found.variables |= {var.id for var, source in op.pairs if found.among([source])}
            elif isinstance(op, ops.Read) and op.var.id in found.variables:
                found.values.add(op.result.id)
    return found


def _outside_maps(block: Block) -> Iterator[ops.Op]:
    for op in block:
        yield op
        for inner in () if Trait.POINTWISE in op.traits else op.blocks():
            yield from _outside_maps(inner)


def users(found: Flows, op: ops.Op) -> tuple[int, ...]:
    """The scalars in doubt that an op uses, so that somebody else sees them."""
    if isinstance(op, ops.Map):
        return found.among([operand for inner in op.body.walk() for operand in inner.operands()] + [op.value])
    if not op.traits.isdisjoint(_NO_USE):
        return ()
    if isinstance(op, ops.Copy) and op.dst.buffer.space is Space.REGISTER:
        return found.among([operand for operand in op.operands() if operand is not op.other])
    if isinstance(op, ops.Shuffle):
        return found.among([op.lane])
    if isinstance(op, ops.Store) and op.ref.buffer.space is Space.REGISTER:
        return ()
    return found.among(list(op.operands()))


def follow(found: Flows, op: ops.Op, text: Callable[[Operand], str], mask: str) -> str:
    """A call that hands doubts on from the operands of a pure op to its result, as source; empty for others."""
    if isinstance(op, ops.Select) and op.result.id in found.values:
        names = ", ".join(_name(operand) for operand in (op.cond, op.a, op.b))
        return f"B.doubts.select('v{op.result.id}', {text(op.cond)}, ({names}), {mask})"
    if isinstance(op, ops.Binary) and op.kind in ("land", "lor") and op.result.id in found.values:
        return (f"B.doubts.decide('v{op.result.id}', ({_name(op.a)}, {_name(op.b)}), ({text(op.a)}, {text(op.b)}), "
                f"{op.kind == 'lor'}, {mask})")
    result = op.defines()
    if result is not None and Trait.ARITHMETIC in op.traits and result.id in found.values:
        return f"B.doubts.flow('v{result.id}', ({_names(op.operands())}), {mask})"
    if isinstance(op, ops.Read) and op.result.id in found.values:
        return f"B.doubts.flow('v{op.result.id}', ('x{op.var.id}',), {mask})"
    if isinstance(op, ops.Declare) and op.var.id in found.variables:
        return f"B.doubts.flow('x{op.var.id}', ({_names([] if op.init is None else [op.init])}), {mask})"
    if isinstance(op, ops.Assign) and (pairs := [(v, s) for v, s in op.pairs if v.id in found.variables]):
        listed = "".join(f"('x{var.id}', {_name(source)}), " for var, source in pairs)
        return f"B.doubts.assign(({listed}), {mask})"
    return ""


def _name(operand: Operand) -> str:
    return f"'v{operand.id}'" if isinstance(operand, Value) else "''"


def _names(operands: Iterable[Operand]) -> str:
    return "".join(f"{_name(operand)}, " for operand in operands)


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a value in doubt: the finding without the use of the value."""

    code: str
    op: ops.Op
    facts: dict[str, Any] = field(default_factory=dict)
    lanes: Array | None = None
    """The place where it begins, (T, B), if there are facts about each lane."""
    of_lane: Callable[[tuple[int, int]], dict[str, Any]] = lambda lane: {}
    """These facts, by (thread, block)."""


class Doubts:
    """The number of a scalar's origin in each lane (T, B), by scalar (``v12``, ``x3``); 0 means none."""

    def __init__(self, threads: int, blocks: int) -> None:
        self.shape = threads, blocks
        self.reset()

    def reset(self) -> None:
        self.on = False
        self.of: dict[str, Array] = {}
        self.origins: list[Origin] = []
        self.numbers: dict[tuple[int, str, tuple[int, ...] | None], int] = {}

    def begin(self, origin: Origin) -> int:
        """The number of an origin; the last one of each op, tensor and element is kept."""
        self.on = True
        key = id(origin.op), origin.facts.get("tensor", ""), origin.facts.get("coordinate")
        number = self.numbers.get(key)
        if number is None and len(self.origins) == np.iinfo(np.int16).max:
            number = len(self.origins)                  # so many that one of them stands for the rest
        if number is None:
            self.origins.append(origin)
            number = self.numbers[key] = len(self.origins)
        self.origins[number - 1] = origin
        return number

    def put(self, name: str, new: Array | None, mask: Mask) -> None:
        """The scalar is set in the lanes of the mask."""
        old = self.of.get(name)
        if new is None and old is None:
            return
        if mask is not None:
            zero: Any = np.int16(0)
            new = np.where(lanes_of(mask, *self.shape), zero if new is None else new, zero if old is None else old)
        if new is None or not new.any():
            self.of.pop(name, None)
        else:
            self.of[name] = new

    def flow(self, name: str, sources: tuple[str, ...], mask: Mask) -> None:
        """The scalar is computed from these."""
        new: Array | None = None
        for source in sources:
            other = self.of.get(source)
            if other is not None:
                new = other if new is None else np.where(new != 0, new, other)
        self.put(name, new, mask)

    def decide(self, name: str, names: tuple[str, str], sides: tuple[Any, Any], settles: bool, mask: Mask) -> None:
        """The scalar is ``a and b`` or, where True ``settles`` it, ``a or b``: one side may leave no doubt."""
        if not any(part in self.of for part in names):
            self.put(name, None, mask)
            return
        zero = np.zeros(self.shape, np.int16)
        a, b = (self.of.get(part, zero) for part in names)
        sure = [(here == 0) & (np.broadcast_to(side, self.shape) == settles)
                for here, side in zip((a, b), sides, strict=True)]
        self.put(name, np.where(sure[0] | sure[1], zero, np.where(a != 0, a, b)), mask)

    def assign(self, pairs: tuple[tuple[str, str], ...], mask: Mask) -> None:
        """Variables are assigned to, all at once."""
        for (var, _), new in zip(pairs, [self.of.get(source) for _, source in pairs], strict=True):
            self.put(var, new, mask)

    def select(self, name: str, cond: Any, names: tuple[str, str, str], mask: Mask) -> None:
        """The scalar is one of two."""
        if not any(part in self.of for part in names):
            self.put(name, None, mask)
            return
        zero = np.zeros(self.shape, np.int16)
        doubt, yes, no = (self.of.get(part, zero) for part in names)
        self.put(name, np.where(doubt != 0, doubt, np.where(np.broadcast_to(cond, self.shape), yes, no)), mask)


class Uses:
    """Tells of values in doubt that are used."""

    def __init__(self, doubts: Doubts, reporter: Reporter, block: Callable[[int], tuple[int, ...]]) -> None:
        self.doubts, self.reporter, self.block = doubts, reporter, block

    def used(self, op: ops.Op, names: tuple[str, ...], mask: Mask) -> None:
        """An op uses these scalars."""
        for name in names:
            numbers = self.doubts.of.get(name)
            if numbers is not None:
                self.tell(op, np.where(lanes_of(mask, *self.doubts.shape), numbers, np.int16(0)))

    def tell(self, op: ops.Op, numbers: Array) -> None:
        """Report the origins of these values (.., T, B), which ``op`` uses."""
        for number in np.unique(numbers[numbers != 0]).tolist():
            origin, here = self.doubts.origins[number - 1], numbers == number
            first = here
            if origin.lanes is not None:                # who has read what was not there, if it uses that itself
                first = here & origin.lanes if (here & origin.lanes).any() else \
                    np.broadcast_to(origin.lanes, here.shape)
            place = np.unravel_index(int(np.argmax(np.moveaxis(first, -1, -2))), np.moveaxis(first, -1, -2).shape)
            lane = int(place[-1]), int(place[-2])
            later = None if op is origin.op or op.loc == origin.op.loc else op
            self.reporter.tell(origin.code, "-", (origin.op, later), block=self.block(lane[1]), threads=(lane[0],),
                               count=int(here.sum()), op=origin.op, later=later, **origin.facts, **origin.of_lane(lane))
