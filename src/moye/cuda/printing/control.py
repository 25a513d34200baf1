"""Structured control flow as C++: if / else if, for, while, blocks left by goto.

In: If, For, Loop, Scope, Exit.  Out: lines.

    loop(kernel, op)                # while (i < n) { ... }

What a branch or a loop changes is evaluated before it if it is still needed (``Values.entering``, ``looping``).
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from moye.cuda.printing.context import Kernel
from moye.cuda.printing.dispatch import prints, run, statement
from moye.cuda.printing.expressions import ADD, Text, negated
from moye.cuda.printing.writer import Line
from moye.dtypes import Space
from moye.errors import IRError
from moye.ir import ops
from moye.ir.nodes import Block, Operand, Value
from moye.ir.traits import Trait

_MOST_PREDICATED = 64  # copies of one thread


def _live(kernel: Kernel, block: Block) -> list[ops.Op]:
    return [op for op in block.ops if id(op) in kernel.uses.live]


def _inverted(kernel: Kernel, cond: Operand) -> Text:
    """The text of ``not cond``."""
    op = cond.op if isinstance(cond, Value) else None
    integers = isinstance(op, ops.Binary) and op.a.dtype.is_integer
    return negated(kernel.values.operand(cond), integers)


def _at(kernel: Kernel, op: ops.Op) -> None:
    kernel.values.now = kernel.uses.index[id(op)]
    kernel.writer.at(op.loc, op.trips)


# --- if --------------------------------------------------------------------------------------------------------------


@prints(ops.If)
def if_(kernel: Kernel, op: ops.If) -> None:
    """``if (cond) { ... } else if ... else { ... }``; asynchronous copies alone are predicated instead."""
    cond = _condition(kernel, op)
    if _only_copies(kernel, op):
        _predicated(kernel, op, cond)
        return
    kernel.writer.open(f"if ({cond}) {{")
    _branches(kernel, op)
    kernel.writer.close()


def _only_copies(kernel: Kernel, op: ops.If) -> bool:
    """Whether an if does nothing but a few cp.async: predicated, they leave the compiler one straight run of code.

    It may fill registers of its own with their predicates.
    """
    if _live(kernel, op.orelse) or kernel.when:
        return False
    points, own = 0, set()
    for inner in _live(kernel, op.then):
        if isinstance(inner, ops.Alloc):
            own.add(inner.buffer.id)
            continue
        if isinstance(inner, ops.Store) and inner.ref.buffer.id in own:
            continue
        if isinstance(inner, ops.Load) and inner.ref.buffer.space is Space.REGISTER:
            continue
        if isinstance(inner, ops.Copy) and inner.atom.asynchronous == "cp.async" \
                and (inner.pred is None or inner.zero_fill):
            for extent in inner.extents:
                if not isinstance(extent, int):
                    return False
            points += prod(extent for extent in inner.extents if isinstance(extent, int))
        elif Trait.SPECULATIVE not in inner.traits:
            return False
    return 0 < points <= _MOST_PREDICATED


def _predicated(kernel: Kernel, op: ops.If, cond: str) -> None:
    kernel.when = cond
    if not cond.isidentifier():
        kernel.when = kernel.names.fresh("when")
        kernel.writer.line(f"const bool {kernel.when} = {cond};")
    run(kernel, op.then)
    kernel.when = ""


def _condition(kernel: Kernel, op: ops.If) -> str:
    cond = kernel.values.operand(op.cond) if _live(kernel, op.then) else _inverted(kernel, op.cond)
    kernel.values.entering(op.then, op.orelse)
    return cond.text


def _branches(kernel: Kernel, op: ops.If) -> None:
    then, orelse = _live(kernel, op.then), _live(kernel, op.orelse)
    with kernel.names.scope():
        run(kernel, op.then if then else op.orelse)
    if then and orelse:
        _else(kernel, orelse)


def _else(kernel: Kernel, orelse: list[ops.Op]) -> None:
    """The else branch; where it is nothing but another if, an ``else if``."""
    writer, last = kernel.writer, orelse[-1]
    if not isinstance(last, ops.If):
        writer.between("} else {")
        with kernel.names.scope():
            _each(kernel, orelse)
        return
    with kernel.names.scope():
        with writer.aside() as lines:
            _each(kernel, orelse[:-1])
            _at(kernel, last)
            cond = _condition(kernel, last)
        if lines:
            writer.between("} else {")
            writer.lines += lines
            writer.open(f"if ({cond}) {{")
        else:
            writer.between(f"}} else if ({cond}) {{")
        _branches(kernel, last)
        if lines:
            writer.close()


# --- loops -----------------------------------------------------------------------------------------------------------


@prints(ops.For)
def for_(kernel: Kernel, op: ops.For) -> None:
    """A counting loop."""
    values = kernel.values
    start, stop = values.operand(op.start).text, _fixed(kernel, op, op.stop, "end")
    step = "" if isinstance(op.step, int) else _fixed(kernel, op, op.step, "step").text
    values.looping(op.body)
    with kernel.names.scope():
        _counting(kernel, op, start, stop.at(ADD), step)


def _fixed(kernel: Kernel, op: ops.For, operand: Operand, what: str) -> Text:
    """The text of what every iteration reads; it gets a constant of its own if the body changes what it is made of."""
    text = kernel.values.operand(operand)
    if text.deps.isdisjoint(kernel.uses.block_kills(op.body)):
        return text
    name = kernel.names.fresh(f"{op.iv.name or 'i'}_{what}")
    kernel.writer.line(f"const {kernel.helpers.ctype(op.iv.dtype)} {name} = {text.text};")
    return Text(name)


def _counting(kernel: Kernel, op: ops.For, start: str, stop: str, step: str) -> None:
    """``step``: of a loop whose step is known only when the kernel runs."""
    writer = kernel.writer
    name = kernel.names.fresh(op.iv.name or "i")
    kernel.values.bind(op.iv, name)
    ctype = kernel.helpers.ctype(op.iv.dtype)
    if op.unroll is not None:
        writer.line("#pragma unroll" if op.unroll == 0 else f"#pragma unroll {op.unroll}")
    size = step if isinstance(op.step, Value) else abs(op.step)
    on = f"{'++' if op.up else '--'}{name}" if size == 1 else f"{name} {'+' if op.up else '-'}= {size}"
    writer.open(f"for ({ctype} {name} = {start}; {name} {'<' if op.up else '>'} {stop}; {on}) {{")
    _body(kernel, op, lambda: run(kernel, op.body))


@prints(ops.Loop)
def loop(kernel: Kernel, op: ops.Loop) -> None:
    """``while (cond)`` where the loop starts with its test and the test is one expression, else ``while (true)``."""
    kernel.values.looping(op.body)
    with kernel.names.scope():
        _loop(kernel, op)


def _loop(kernel: Kernel, op: ops.Loop) -> None:
    writer = kernel.writer
    live = _live(kernel, op.body)
    at = next((i for i, inner in enumerate(live) if isinstance(inner, ops.If)), None)
    test = live[at] if at is not None else None
    lines: list[Line] = []
    cond = Text("true")
    if at is None or not isinstance(test, ops.If) or not _leaves(kernel, test, op):
        at = 0
    else:
        writer.level += 1
        with writer.aside() as lines:
            for inner in live[:at]:
                statement(kernel, inner)
            _at(kernel, test)
            cond = _inverted(kernel, test.cond)
        writer.level -= 1
        at += not lines
    _at(kernel, op)
    writer.open(f"while ({'true' if lines else cond.text}) {{")
    writer.lines += lines
    _body(kernel, op, lambda: _each(kernel, live[at:]))


def _leaves(kernel: Kernel, test: ops.If, loop_: ops.Loop) -> bool:
    """Whether an if does nothing but leave the loop."""
    then = _live(kernel, test.then)
    return len(then) == 1 and not _live(kernel, test.orelse) and isinstance(then[0], ops.Exit) \
        and then[0].kind == "break" and then[0].target is loop_


def _each(kernel: Kernel, found: list[ops.Op]) -> None:
    for op in found:
        statement(kernel, op)


def _body(kernel: Kernel, op: ops.For | ops.Loop, run: Callable[[], None]) -> None:
    """The inside of a loop, its closing brace, and the labels that exits from inner loops jump to."""
    writer = kernel.writer
    far = _label(kernel, op, "continue")
    over = _label(kernel, op, "break")
    kernel.loops.append(op)
    if far:
        writer.open("{")
    run()
    if far:
        writer.close(f"}} {far}:;")
    kernel.loops.pop()
    writer.close(f"}} {over}:;" if over else "}")


def _label(kernel: Kernel, op: ops.Op, kind: str) -> str:
    """A label for the exits of this kind that C cannot say without goto; empty where there are none."""
    if (id(op), kind) not in kernel.uses.labels:
        return ""
    name = kernel.labels[id(op), kind] = kernel.names.fresh(f"{kind}_{len(kernel.labels) + 1}", everywhere=True)
    return name


# --- scopes ----------------------------------------------------------------------------------------------------------


@prints(ops.Scope)
def scope(kernel: Kernel, op: ops.Scope) -> None:
    """A block that is left by goto; without an exit, just its statements."""
    label = _label(kernel, op, "leave")
    if not label:
        run(kernel, op.body)
        return
    kernel.values.entering(op.body)
    kernel.writer.open("{")
    with kernel.names.scope():
        run(kernel, op.body)
    kernel.writer.close(f"}} {label}:;")


@prints(ops.Exit)
def exit_(kernel: Kernel, op: ops.Exit) -> None:
    """break, continue, goto or return."""
    kernel.values.before(op)
    if op.kind == "return":
        kernel.writer.line("return;")
        return
    if op.target is None:
        raise IRError(f"Exit {op.kind} has no target", locs=(op.loc,))
    near = op.kind in ("break", "continue") and bool(kernel.loops) and kernel.loops[-1] is op.target
    kernel.writer.line(f"{op.kind};" if near else f"goto {kernel.labels[id(op.target), op.kind]};")
