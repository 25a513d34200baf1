"""Control flow as Python source, and the dispatch of every op class to what writes it.

In: segments.  Out: one Python function each, in one module text.

Uniform conditions become Python ``if`` and ``for``; divergent ones run both arms under masks ``m1``, ``m2``...  An
exit takes its lanes out of every mask between it and what it leaves; code after something that may exit is guarded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from moye.errors import UnsupportedError
from moye.ir import ops
from moye.ir.nodes import Block, Extent, Func, Operand, TileRef, Value
from moye.ir.traits import Trait
from moye.sim.flow.choices import Choices, choices, condition
from moye.sim.flow.guards import guards
from moye.sim.flow.segments import (
    Branch,
    Goto,
    Item,
    IvStart,
    IvStep,
    Lap,
    Loops,
    Pause,
    Segment,
    Turn,
    Wait,
    Yield,
    name_of,
)
from moye.sim.flow.uniformity import SCALAR, Levels
from moye.sim.generate import operations, scalars  # noqa: F401  (their functions register themselves)
from moye.sim.generate.guarded import emit_skipped
from moye.sim.generate.writer import AWAITED, EMITTERS, Writer, awaits, emits
from moye.sim.timeline.statements import Statements, space_of
from moye.sim.values.doubts import flows, follow, users


@awaits(ops.SyncThreads, ops.GridSync, ops.SyncWarp, ops.ClusterWait)
def _nothing(w: Writer, op: ops.Op) -> str:
    """The op itself says who meets."""
    return "None"


@awaits(ops.NamedBarrier)
def _barrier(w: Writer, op: ops.NamedBarrier) -> str:
    return w.operand(op.barrier)


@awaits(ops.MbarrierWait)
def _phase(w: Writer, op: ops.MbarrierWait) -> str:
    return f"({w.operand(op.ref.offset)}, {w.operand(op.parity)})"


_DEEPEST = 60
"""Levels of code within each other, of which Python takes a hundred: a chain of elif has one for each arm."""


class Emitter(Writer):
    """A Writer that knows every op."""

    def __init__(self, func: Func, levels: Levels, check: bool, statements: Statements | None = None,
                 loops: Loops | None = None) -> None:
        super().__init__(func, levels, check, loops)
        self.arms: list[tuple[str, ops.If, Block, bool]] = []
        """The arms that ``side_by_side`` is to write: mask, branch, what it holds, and whether it is checked."""
        self.statements = statements
        """What is recorded for a timeline; None for nothing."""
        self.choices = choices(func, scalars.judged_in(func)) if check else Choices()
        self.guards = guards(func) if check else {}
        """Branches that leave something as it was, which checked code looks at."""
        self.flows = flows(func) if check else None
        """The scalars whose values may be in doubt, which checked code follows."""

    # --- segments ----------------------------------------------------------------------------------------------------

    def segment(self, segment: Segment, slots: dict[str, int], params: dict[str, str]) -> None:
        self.line(f"def s{segment.index}(B, E, M):")
        self.mask, self.masks = "m0", [(None, "m0")]
        with self.indented():
            self.line("m0, P = M, B.plans")
            for name in sorted(segment.needs):
                if name in slots:
                    self.line(f"{name} = E[{slots[name]}]")
            for name in sorted(self._params_of(segment, params)):
                self.line(f"{name} = B.params[{name!r}]")
            left = any(self.leaves(item) for item in segment.items if isinstance(item, ops.Op))
            self.items(segment.items)
            for name in sorted(segment.changes & segment.live_out):
                self.line(f"if m0 is not False: E[{slots[name]}] = {name}" if left
                          else f"E[{slots[name]}] = {name}")
            if left:
                self.line("if m0 is False: return ('go', False, 0)")
            self.end(segment, left)
        self.line("")

    @staticmethod
    def _params_of(segment: Segment, params: dict[str, str]) -> set[str]:
        used = set()
        for item in segment.items:
            for op in _walk(item):
                for operand in (*op.operands(), *op.computed()):
                    if isinstance(operand, Value):
                        used.add(f"v{operand.id}")
        end = segment.end
        operands: Iterable[Any] = ()
        if isinstance(end, Branch):
            operands = (end.cond.stop,) if isinstance(end.cond, ops.For) else (end.cond,)
        elif isinstance(end, Wait):
            operands = end.op.operands()
        used |= {f"v{o.id}" for o in operands if isinstance(o, Value)}
        counted = (part for item in segment.items if isinstance(item, (IvStart, IvStep, Turn))
                   and isinstance(item.loop, ops.For) for part in (item.loop.start, item.loop.stop, item.loop.step))
        used |= {f"v{o.id}" for o in counted if isinstance(o, Value)}
        return used & set(params)

    def end(self, segment: Segment, left: bool) -> None:
        end = segment.end
        if isinstance(end, Goto):
            self.jump(str(end.target.index), left)
        elif isinstance(end, Branch):
            if self.flows is not None and (names := self.flows.among(
                    [end.cond.start, end.cond.stop] if isinstance(end.cond, ops.For) else [end.cond])):
                about = end.cond if isinstance(end.cond, ops.For) else end.cond.op      # type: ignore[union-attr]
                if about is not None:
                    self.doubted(about, names)
            cond, level = self.condition(end.cond)
            if level == SCALAR:
                self.jump(f"{end.yes.index} if {cond} else {end.no.index}", left)
            else:
                self.line(f"return ('branch', m0, {cond}, {end.yes.index}, {end.no.index})")
        elif isinstance(end, Wait):
            self.record(end.op)
            acts = Trait.ACTS_WHEN_MET in end.op.traits
            if self.flows is not None and not acts and (names := users(self.flows, end.op)):
                self.doubted(end.op, names)
            payload = "None" if acts else AWAITED[type(end.op)](self, end.op)
            self.line(f"return ('wait', m0, {self.op(end.op)}, {payload}, {end.next.index})")
        elif isinstance(end, Yield):
            self.line(f"return ('yield', m0, {self.op(end.loop)}, {end.next.index})")
        elif isinstance(end, Pause):
            self.line(f"return ('pause', m0, {end.way!r}, {end.next.index})")
        else:
            self.line("return ('leave', m0)")

    def jump(self, target: str, left: bool) -> None:
        self.line(f"return ('go', m0, {target})" if left else f"return {target}")

    def condition(self, cond: Any) -> tuple[str, int]:
        """A bool operand, or whether a For goes on; and its level."""
        if not isinstance(cond, ops.For):
            return self.operand(cond), self.level(cond)
        return f"{self.name(cond.iv)} {'<' if cond.up else '>'} {self.operand(cond.stop)}", \
            self.level(cond.iv, cond.stop)

    # --- items -------------------------------------------------------------------------------------------------------

    def leaves(self, op: ops.Op) -> bool:
        """Whether the op may take lanes out of the code that follows it."""
        inside = {id(op)} | {id(inner) for block in op.blocks() for inner in block.walk()}
        return any(isinstance(x, ops.Exit) and (x.target is None or id(x.target) not in inside or x is op)
                   for x in _walk(op))

    def items(self, items: list[Item]) -> None:
        """Straight code; what follows a possible exit is guarded."""
        if self.depth >= _DEEPEST:
            self.side_by_side(items)
            return
        guarded = False
        for position, item in enumerate(items):
            self.record(item)
            self.item(item)
            if isinstance(item, ops.Op) and self.leaves(item) and position + 1 < len(items):
                if guarded:     # side by side, because Python nests no deeper than a hundred levels
                    self.unguard()
                self.line(f"if {self.mask} is not False:")
                self.depth += 1
                guarded = True
        if guarded:
            self.unguard()

    def unguard(self) -> None:
        """The end of what follows a possible exit."""
        if self.lines[-1].endswith(":"):                # it has no lines of its own
            self.line("pass")
        self.depth -= 1

    def side_by_side(self, items: list[Item]) -> None:
        """Each item under a guard of its own, and what its arms hold behind it, no deeper than it is."""
        for item in items:
            begin, before, self.arms = len(self.lines), self.arms, []
            self.line(f"if {self.mask} is not False:")
            with self.indented():
                self.record(item)
                self.item(item)
            arms, self.arms = self.arms, before
            self.lines[begin:begin] = ["    " * self.depth + f"{mask} = False" for mask, *_ in arms]
            for mask, op, block, check in arms:
                outer, self.check = self.check, check
                self.under(mask, op, block)
                self.check = outer

    def block(self, block: Block) -> None:
        self.items(list(block.ops))

    def item(self, item: Item) -> None:
        if self.flows is None or not isinstance(item, ops.Op):
            self.run(item)
            return
        if Trait.POINTWISE in item.traits:              # their bodies work on whole tensors
            if names := users(self.flows, item):
                self.doubted(item, names)
            following, self.flows = self.flows, None
            self.run(item)
            self.flows = following
            return
        if names := users(self.flows, item):
            self.doubted(item, names)
        self.run(item)
        if told := follow(self.flows, item, self.operand, self.mask):
            self.line(f"if B.doubts.on: {told}")

    def write(self, item: ops.Op) -> None:
        """Checks of what only one side of a choice needs come before it, for the lanes that take that side."""
        check = self.check
        for taken, side in self.choices.sides.get(id(item), ()):
            self.judge(condition(item), taken, side)
        self.check = check and id(item) not in self.choices.postponed
        EMITTERS[type(item)](self, item)
        self.check = check

    def judge(self, cond: Operand, taken: bool, side: list[ops.Op]) -> None:
        """These ops again, with their checks, where the condition is as ``taken``."""
        if not side:
            return
        outer, text = self.mask, self.operand(cond)
        if self.level(cond) == SCALAR:
            self.line(f"if {text}:" if taken else f"if not {text}:")
        else:
            self.mask = self.fresh("k")
            self.line(f"{self.mask} = both({outer}, {text if taken else f'np.logical_not({text})'})")
            self.line(f"if {self.mask} is not False:")
        with self.indented():
            for op in side:
                EMITTERS[type(op)](self, op)
        self.mask = outer

    def doubted(self, op: ops.Op, names: tuple[int, ...]) -> None:
        """The op uses scalars that may be in doubt."""
        listed = ", ".join(f"'v{name}'" for name in names)
        self.line(f"if B.doubts.on: B.watch.uses.used({self.op(op)}, ({listed},), {self.mask})")

    def run(self, item: Item) -> None:
        if isinstance(item, IvStart):
            loop = item.loop
            self.line(f"{self.name(loop.iv)} = {self.as_level(loop.start, self.level(loop.iv))}")
        elif isinstance(item, IvStep):
            self.advance(item.loop, self.mask)
        elif isinstance(item, Lap):
            self.line(f"B.laps.{'enter' if item.first else 'count'}({id(item.loop)}, {self.mask})")
        elif isinstance(item, Turn):
            count = f", {self.turn(item.loop)}" if isinstance(item.loop, ops.For) and not item.first else ""
            self.line(f"B.turns.{'enter' if item.first else 'meet'}({self.op(item.loop)}, {self.mask}{count})")
        elif type(item) in EMITTERS:
            self.write(item)
        else:
            raise UnsupportedError(f"the simulator does not know the operation {type(item).__name__}",
                                   locs=(item.loc,))

    def record(self, item: Item) -> None:
        """Tell the tape of the batch, if it has one, that the op runs now."""
        if self.statements is None or not isinstance(item, ops.Op):
            return
        if told := note(self, self.statements, item):
            self.line(told)
        if (computed := self.statements.sum_of(item)) is not None:
            self.line(f"if B.tape: B.tape.computed({computed.number}, {self.mask})")

    # --- control flow ------------------------------------------------------------------------------------------------

    def under(self, mask: str, owner: object, block: Block) -> None:
        """The block under another mask."""
        before = self.mask
        self.mask = mask
        self.masks.append((owner, mask))
        self.block(block)
        self.masks.pop()
        self.mask = before

    @emits(ops.If)
    def branch(self, op: ops.If) -> None:
        for guard in self.guards.get(id(op), ()):
            emit_skipped(self, op, guard)
        cond, deep = self.operand(op.cond), self.depth > _DEEPEST
        if self.level(op.cond) == SCALAR and not deep:
            self.line(f"if {cond}:")
            with self.indented():
                self.block(op.then)
            if op.orelse.ops:
                self.line("else:")
                with self.indented():
                    self.block(op.orelse)
            return
        then, orelse = self.fresh("m"), self.fresh("m")
        if self.level(op.cond) == SCALAR:
            self.line(f"{then}, {orelse} = ({self.mask}, False) if {cond} else (False, {self.mask})")
        else:
            self.line(f"{then} = both({self.mask}, {cond})")
            if op.orelse.ops:
                self.line(f"{orelse} = minus({self.mask}, {then})")
        for mask, block in ((then, op.then), (orelse, op.orelse)):
            if block.ops and deep:
                self.arms.append((mask, op, block, self.check))
            elif block.ops:
                self.line(f"if {mask} is not False:")
                with self.indented():
                    self.under(mask, op, block)

    @emits(ops.For)
    def count(self, op: ops.For) -> None:
        iv, start, stop, step = self.name(op.iv), self.operand(op.start), self.operand(op.stop), self.step(op)
        live, passes = self._live(op), self.fresh("n")
        self.line(f"{passes} = 0")
        counting = f"{passes} += 1; B.turns.turn({self.op(op)}, {passes}, {live}, {self.turn(op)})"
        if self.level(op.iv, op.stop) == SCALAR:
            self.line(f"for {iv} in range({start}, {stop}, {step}):")
            with self.indented():
                self.line(counting)
                self.body(op, live)
                if self.check and scalars.counter_may_wrap(op):
                    self.line(f"B.watch.counted({self.op(op)}, {iv}, {step}, {live})")
            self._after(live)
            return
        self.line(f"{iv} = {self.as_level(op.start, self.level(op.iv))}")
        self.line("while True:")
        with self.indented():
            self.line(f"{live} = both({live}, {self.condition(op)[0]})")
            self.line(f"if {live} is False: break")
            self.line(counting)
            self.body(op, live)
            self.advance(op, live)
        self._after(live)

    def turn(self, op: ops.For) -> str:
        """The place of a loop."""
        return f"{self.name(op.iv)}, {self.operand(op.stop)}, {self.step(op)}"

    def advance(self, op: ops.For, mask: str) -> None:
        """The next value of a loop's variable."""
        iv, step = self.name(op.iv), self.step(op)
        if self.check and scalars.counter_may_wrap(op):
            self.line(f"{iv} = B.watch.counted({self.op(op)}, {iv}, {step}, {mask})")
        else:
            self.line(f"{iv} = {iv} + {step}")

    def step(self, op: ops.For) -> str:
        return str(op.step) if isinstance(op.step, int) else self.operand(op.step)

    @emits(ops.Scope)
    def scope_(self, op: ops.Scope) -> None:
        live = self._live(op)
        self.under(live, op, op.body)
        self._after(live)

    @emits(ops.Loop)
    def endless(self, op: ops.Loop) -> None:
        live = self._live(op)
        passes = self.fresh("n")
        self.line(f"{passes} = 0")
        self.line("while True:")
        with self.indented():
            self.line(f"{passes} += 1; B.turns.turn({self.op(op)}, {passes}, {live})")
            self.body(op, live)
        self._after(live)

    def _live(self, op: ops.Op) -> str:
        """The mask of the lanes that are still in the region."""
        live = self.fresh("m")
        self.line(f"{live} = {self.mask}")
        self.masks.append((op, live))
        return live

    def _after(self, live: str) -> None:
        self.masks.pop()

    def body(self, op: ops.For | ops.Loop, live: str) -> None:
        """One iteration, under a mask that ``continue`` may shrink."""
        exits = any(isinstance(x, ops.Exit) for x in op.body.walk())
        if not exits:
            self.under(live, op, op.body)
            return
        mask = self.fresh("m")
        self.line(f"{mask} = {live}")
        self.under(mask, op, op.body)
        self.line(f"if {live} is False: break")

    @emits(ops.Exit)
    def exit(self, op: ops.Exit) -> None:
        """The lanes of the mask leave ``op.target``."""
        gone = self.fresh("m")
        self.line(f"{gone} = {self.mask}")
        first = 0
        if op.target is None:
            self.line(f"B.leave({gone}, {self.op(op)})")
        else:
            owned = [i for i, (owner, _) in enumerate(self.masks) if owner is op.target]
            first = owned[1] if op.kind == "continue" else owned[0]
        for name in dict.fromkeys(name for _, name in self.masks[first:]):
            self.line(f"{name} = minus({name}, {gone})")


def _walk(item: Item) -> Iterable[ops.Op]:
    if isinstance(item, (IvStart, IvStep, Lap, Turn)):
        return
    yield item
    for block in item.blocks():
        yield from block.walk()


HANDLED: frozenset[type] = frozenset({*EMITTERS, *AWAITED})
"""Every op class that the simulator runs."""
ops.need_all("the simulator", HANDLED)


def note(w: Writer, statements: Statements, op: ops.Op) -> str:
    """The line that tells the tape that ``op`` runs now; empty for an op that is not shown."""
    statement = statements.of(op)
    if statement is None:
        return ""
    trips = "".join(f"{name_of(variable)}, " for variable in statements.loops[id(op)])
    place = "None"
    if statement.place is not None:
        ref = statement.place
        strides = _listed(w, ref.strides if isinstance(ref, TileRef) else ())
        place = f"({w.operand(ref.offset)}, {strides}, {_listed(w, space_of(op)[0])})"
    pred = "None"
    if isinstance(op, ops.Copy) and op.pred is not None and not isinstance(op.pred, TileRef) and not op.zero_fill:
        pred = w.operand(op.pred)
    return f"if B.tape: B.tape.note({statement.number}, {w.mask}, ({trips}), {place}, {pred})"


def _listed(w: Writer, extents: tuple[Extent, ...]) -> str:
    return f"({''.join(f'{w.operand(e)}, ' for e in extents if isinstance(e, Value))})"
