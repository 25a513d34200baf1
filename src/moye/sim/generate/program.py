"""Func -> Program: the generated Python functions, and what a batch needs to run them.

In: a Func, and whether accesses are checked.  Out: ``Program`` (kept for the last few Funcs).

    print(program_of(func, check=False).source)

``MOYE_SHOW`` does not print it; it is for people who debug the simulator.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from moye.dtypes import DType
from moye.ir import ops
from moye.ir.nodes import Func, ScalarParam, Value, Var
from moye.sim.flow.absent import counted
from moye.sim.flow.groups import Slot
from moye.sim.flow.segments import Segment, around, lower, name_of
from moye.sim.flow.spins import deciding, quiet
from moye.sim.flow.uniformity import Levels, analyse
from moye.sim.generate.control import Emitter
from moye.sim.timeline.statements import Statements
from moye.sim.values.memory import numpy_dtype

_KEPT = 32


@dataclass(slots=True)
class Program:
    """Generated code of one Func: ``code[pc](batch, env, mask)``, the sites of its memory ops, the slots of ``env``."""

    func: Func
    check: bool
    source: str
    code: list[Callable[..., Any]]
    sites: list[Any]
    slots: dict[str, Slot]
    live: list[list[Slot]]
    """What the groups of each segment need."""
    decisive: dict[int, list[Slot] | None] = field(default_factory=dict)
    """What decides the next pass of a polling loop, by the segment at which it goes on."""
    statements: Statements | None = None
    """What is told to a tape; None if nothing is."""


    def deciding(self, loop: ops.Op, pc: int) -> list[Slot] | None:
        """The slots of the variables that decide the next pass of a loop that polls; None where more does."""
        assert isinstance(loop, (ops.Loop, ops.For)), "loops poll"
        if pc not in self.decisive:
            names = deciding(loop) if quiet(loop) else frozenset()
            places = {self.slots[name].index for name in names if name in self.slots}
            self.decisive[pc] = [slot for slot in self.live[pc] if slot.index in places] if quiet(loop) else None
        return self.decisive[pc]


_programs: OrderedDict[tuple[int, bool, bool], Program] = OrderedDict()


def program_of(func: Func, *, check: bool, record: bool = False) -> Program:
    """The program of a Func, generated once; with ``record`` it tells the batch's tape what runs."""
    key = (id(func), check, record)
    program = _programs.get(key)
    if program is None or program.func is not func:
        program = _programs[key] = generate(func, check, record)
        while len(_programs) > _KEPT:
            _programs.popitem(last=False)
    _programs.move_to_end(key)
    return program


def generate(func: Func, check: bool, record: bool = False) -> Program:
    levels = analyse(func)
    statements = Statements(func) if record else None
    loops = around(func.body, ops.CpAsyncWait) if check else {}
    segments = lower(func, loops | statements.loops if statements else loops,
                     counted(func, levels) if check else frozenset())
    slots = _slots(func, segments, levels)
    params = {name: name for name in _param_names(func)}
    emitter = Emitter(func, levels, check, statements, loops)
    indices = {name: slot.index for name, slot in slots.items()}
    for segment in segments:
        emitter.segment(segment, indices, params)
    source = "\n".join(emitter.lines)
    exec(compile(source, f"<moye simulator: {func.name}>", "exec"), emitter.scope)
    code = [emitter.scope[f"s{segment.index}"] for segment in segments]
    live = [[slots[name] for name in sorted(segment.live_in) if name in slots] for segment in segments]
    return Program(func, check, source, code, emitter.sites, slots, live, statements=statements)


def _param_names(func: Func) -> set[str]:
    names = set()
    for param in func.params:
        values = (param.value,) if isinstance(param, ScalarParam) else (*param.shape, *param.strides)
        names |= {name_of(value) for value in values if isinstance(value, Value)}
    return names


def _slots(func: Func, segments: list[Segment], levels: Levels) -> dict[str, Slot]:
    """A place for every name that is live across segments."""
    kinds: dict[str, tuple[int, DType]] = {}
    for op in func.body.walk():
        for item in _defined(op):
            level = levels.of(item) if isinstance(item, Value) else levels.of_var(item)
            kinds[name_of(item)] = (level, item.dtype)
    crossing = sorted(set().union(*(segment.live_in for segment in segments)) - _param_names(func))
    missing = [name for name in crossing if name not in kinds]
    if missing:
        raise KeyError(f"{func.name} uses {', '.join(missing)}, which nothing defines")
    return {name: Slot(index, kinds[name][0], numpy_dtype(kinds[name][1])) for index, name in enumerate(crossing)}


def _defined(op: ops.Op) -> list[Value | Var]:
    if isinstance(op, ops.Declare):
        return [op.var]
    result = op.defines()
    return [*op.given(), *([] if result is None else [result])]
