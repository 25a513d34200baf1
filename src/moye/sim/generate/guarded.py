"""What a guarded statement leaves as it was, as Python source: its addresses in the lanes where the condition is false.

In: a Writer, a branch, one of its ``Guard``s.  Out: lines before the branch; nothing is moved or judged there.

    P[12].skipped(v30, m4, True, None)
"""

from __future__ import annotations

from contextlib import nullcontext

from moye.ir import ops
from moye.ir.nodes import Block
from moye.sim.flow.guards import Guard, Target
from moye.sim.flow.uniformity import SCALAR
from moye.sim.generate.operations import dynamic, ref_of
from moye.sim.generate.writer import Writer
from moye.sim.operations.plans import CopySite, LoadSite, StoreSite

LONGEST = 1 << 12
"""Passes of a loop that is looked at though nobody runs it."""


def emit_skipped(w: Writer, branch: ops.If, guard: Guard) -> None:
    """The lanes of the mask that do not come to what is guarded leave something."""
    cond, off, before, checked = w.operand(branch.cond), w.fresh("m"), w.mask, w.check
    if w.level(branch.cond) == SCALAR:
        w.line(f"{off} = False if {cond} else {before}" if guard.when else f"{off} = {before} if {cond} else False")
    else:
        here = f"both({before}, {cond})"
        w.line(f"{off} = minus({before}, {here})" if guard.when else f"{off} = {here}")
    w.line(f"if B.launch.stale is not None and {off} is not False:")
    w.mask, w.check = off, False
    with w.indented():
        w.line("pass")
        _dry(w, guard.block, guard)
    w.mask, w.check = before, checked


def _dry(w: Writer, block: Block, guard: Guard) -> None:
    """A block without its effects: loops, arithmetic and addresses."""
    targets = {id(target.op): target for target in guard.targets}
    for op in block.ops:
        if id(op) in targets:
            _within(w, targets[id(op)], guard)
        elif isinstance(op, ops.For):
            if any(id(inner) in targets for inner in op.body.walk()):
                _loop(w, op, guard)
        elif isinstance(op, ops.If):
            if any(id(inner) in targets for arm in op.blocks() for inner in arm.walk()):
                _arms(w, op, guard)
        elif isinstance(op, (ops.Scope, ops.Loop)):
            for inner in op.blocks() if isinstance(op, ops.Scope) else ():
                _dry(w, inner, guard)
        elif id(op) in guard.needed:
            w.run(op)                                   # type: ignore[attr-defined]


def _arms(w: Writer, op: ops.If, guard: Guard) -> None:
    """What would be done of a branch inside."""
    before, cond, then, other = w.mask, w.operand(op.cond), w.fresh("m"), w.fresh("m")
    if w.level(op.cond) == SCALAR:
        w.line(f"{then}, {other} = ({before}, False) if {cond} else (False, {before})")
    else:
        w.line(f"{then} = both({before}, {cond})")
        w.line(f"{other} = minus({before}, {then})")
    for w.mask, arm in ((then, op.then), (other, op.orelse)):
        w.line(f"if {w.mask} is not False:")
        with w.indented():
            w.line("pass")
            _dry(w, arm, guard)
    w.mask = before


def _loop(w: Writer, op: ops.For, guard: Guard) -> None:
    iv, step = w.name(op.iv), str(op.step) if isinstance(op.step, int) else w.operand(op.step)
    if w.level(op.iv, op.stop) == SCALAR:
        w.line(f"for {iv} in range({w.operand(op.start)}, {w.operand(op.stop)}, {step})[:{LONGEST}]:")
        with w.indented():
            _dry(w, op.body, guard)
        return
    before, live = w.mask, w.fresh("m")
    w.line(f"{live} = {before}")
    w.line(f"{iv} = {w.as_level(op.start, w.level(op.iv))}")
    w.line(f"for _ in range({LONGEST}):")
    w.mask = live
    with w.indented():
        w.line(f"{live} = both({live}, {iv} {'<' if op.up else '>'} {w.operand(op.stop)})")
        w.line(f"if {live} is False: break")
        _dry(w, op.body, guard)
        w.line(f"{iv} = {iv} + {step}")
    w.mask = before


def _within(w: Writer, target: Target, guard: Guard) -> None:
    """The address in the lanes whose indices name an element: others would be counted as elements of the next row."""
    before = w.mask
    for check in target.within:
        index, lanes = w.operand(check.offset), w.fresh("m")
        extent = check.extent if isinstance(check.extent, int) else w.operand(check.extent)
        w.line(f"{lanes} = inside({w.mask}, {index}, {extent})")
        w.mask = lanes
    if target.within:
        w.line(f"if {w.mask} is not False:")
    with w.indented() if target.within else nullcontext():
        _address(w, target.op, target.load, guard)
    w.mask = before


def _address(w: Writer, op: ops.Store | ops.Copy, load: ops.Load | None, guard: Guard) -> None:
    if isinstance(op, ops.Copy):
        w.line(f"P[{w.site(CopySite(op))}].skipped({ref_of(w, op.dst)}, {ref_of(w, op.src)}, "
               f"{dynamic(w, op.dst.strides)}, {dynamic(w, op.src.strides)}, {dynamic(w, op.extents, uniform=op)}, "
               f"{w.mask}, {guard.ragged})")
        return
    assert load is not None, "a store of what was loaded"
    w.line(f"P[{w.site(StoreSite(op))}].skipped({ref_of(w, op.ref)}, {w.mask}, {guard.ragged}, "
           f"lambda: P[{w.site(LoadSite(load))}].outside({ref_of(w, load.ref)}))")
