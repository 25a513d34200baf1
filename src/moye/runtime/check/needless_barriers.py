"""P5: block barriers that order nothing.  The launch is checked again, with one barrier after the other left out.

In: a specialised kernel, copies of its arguments from before a clean launch, the grid.  Out: lints.

The barrier is still executed, so values and control flow stay as they were, but the checks do not count it.  If the run
stays clean, no two conflicting accesses of this launch were ordered by this barrier alone, in any of its executions.

It says nothing if that does not settle the question: about barriers that also order global memory, atomics, ordered
loads and stores, fences or named barriers, and about those of loops that hardly ran.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import Func
from moye.ir.traits import Trait
from moye.runtime.arguments import Call
from moye.runtime.compile import Dim3, Specialised
from moye.runtime.simulate import launch_arguments

if TYPE_CHECKING:
    from moye.sim.costs.lint import Lint
    from moye.sim.costs.meter import Meter

BLOCKS = 64
"""How many blocks are run again, from the start of a launch."""
ROUNDS = 3
"""How often a loop must have run for its barriers to be judged."""


def arguments(spec: Specialised, call: Call) -> list[Any]:
    """The arguments of a launch with memory of their own; arguments that overlapped do so no longer."""
    copies: dict[tuple[int, int], Any] = {}
    found: list[Any] = []
    for argument in launch_arguments(spec, call):
        memory = getattr(argument, "memory", None)
        if memory is None:
            found.append(argument)
            continue
        key = (memory.ctypes.data, memory.nbytes)
        if key not in copies:
            copies[key] = memory.copy()
        found.append(replace(argument, memory=copies[key]))
    return found


def lints(spec: Specialised, before: list[Any], grid: Dim3, meter: Meter) -> list[Lint]:
    """One lint for each barrier without which the launch stays clean."""
    from moye.sim.costs.lint import Lint
    from moye.sim.machine.machine import Hooks, simulate

    found: list[Lint] = []
    without: frozenset[int] = frozenset()               # those of the lints: they can be left out together
    for op in _judged(spec.func, meter):
        again = [replace(a, memory=a.memory.copy()) if hasattr(a, "memory") else a for a in before]
        hooks = Hooks(stop_on_first=True, ignored=without | {id(op)}, first=BLOCKS)
        outcome = simulate(spec.func, again, grid, check=True, hooks=hooks)
        if not outcome.findings:
            without |= {id(op)}
            where = f"{outcome.blocks} blocks" if outcome.blocks > 1 else "1 block"
            message = f"sync_threads orders nothing in this launch: {where} checked without it are as clean as with it"
            found.append(Lint("P5", message, (op.loc,), "", "leave it out, unless another launch needs it",
                              {"blocks": outcome.blocks}))
    return found


def _judged(func: Func, meter: Meter) -> list[ops.SyncThreads]:
    """The barriers whose redundancy the checks can prove."""
    walked = list(func.body.walk())
    others = any(Trait.HANDS_OVER in op.traits or ops.is_ordered(op) for op in walked)
    if others or not func.restrict or _global_exchange(walked):
        return []
    return [op for op in walked if type(op) is ops.SyncThreads
            and all(meter.rounds(loop) >= ROUNDS for loop in meter.loops[id(op)])]


def _global_exchange(walked: list[ops.Op]) -> bool:
    """Whether threads could pass data on through global memory: some array is read and written."""
    used: dict[int, set[bool]] = {}
    for op in walked:
        for ref, written in op.refs():
            if ref.buffer.space is Space.GLOBAL:
                used.setdefault(ref.buffer.id, set()).add(written)
    return any(len(ways) > 1 for ways in used.values())
