"""Run a specialised kernel in the simulator, on the memory of host arrays.

In: a ``Specialised``, the classified call, a grid.  Out: the outputs, written in place, and the Outcome.

    run(spec, call, (16, 16, 1), check=True)

MOYE_FMA=exact rounds multiply-adds of ``mo.gemm`` as the GPU does.  With checks on, the first violation raises
SimulationError; if MOYE_CHECK names checkers, only theirs count.  ``collect=True`` gathers all findings instead.
"""

from __future__ import annotations

import contextvars
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from moye import env
from moye.depth import deeply
from moye.errors import CompileError, SimulationError, UnsupportedError
from moye.hardware import DEFAULT_ARCH, of
from moye.ir.nodes import TensorParam
from moye.runtime.arguments import Call
from moye.runtime.arrays import ArrayInfo, host_view
from moye.runtime.compile import Dim3, Specialised, compile_program, default_arch, require_shared
from moye.runtime.scoped import Scoped
from moye.runtime.snapshots import Snapshot, snapshots

if TYPE_CHECKING:
    from moye.sim.costs.lint import Lint
    from moye.sim.timeline.view import Timeline

Progress = Callable[[int, int], None]


class _Last(threading.local):
    """What the last simulated launch of a thread left."""

    inspections: tuple[Snapshot, ...] = ()


_last = _Last()
_timelines: Scoped[list[Any]] = Scoped("timelines")
_progress: list[Progress] = []


def set_progress(callback: Progress | None) -> None:
    """Call ``callback(blocks_done, blocks)`` while simulated launches of any thread run; None means silence."""
    _progress[:] = [] if callback is None else [callback]


def inspections() -> list[Snapshot]:
    """The snapshots that ``mo.inspect`` and ``breakpoint()`` took in the last simulated launch of this thread."""
    return list(_last.inspections)


@contextmanager
def timelines(*, everywhere: bool = False) -> Iterator[list[Timeline]]:
    """Record the timeline of block 0 of every simulated launch in the block; they are collected in the list.

    This means every launch of this thread and of tasks begun in the block; with ``everywhere``, of all threads and
    tasks.
    """
    with _timelines.set([], everywhere=everywhere) as found:
        yield found


def timeline_of(outcome: Any, spec: Specialised) -> Timeline | None:
    """The timeline of a simulated launch; None if nothing was recorded."""
    if outcome.tape is None:
        return None
    from moye.sim.timeline.view import Timeline

    return Timeline(outcome.tape, lambda: compile_program(spec, default_arch()).overlap())


def advice_of(outcome: Any) -> list[Lint]:
    """Writes that nothing orders and that agree; with ``strict`` they are findings instead."""
    from moye.sim.costs.lint import Lint

    return [Lint(found.code, found.message, found.locs, found.tensor, found.hint) for found in outcome.reporter.advice]


def lints_of(outcome: Any, spec: Specialised, grid: Dim3, *, deep: bool) -> tuple[list[Lint], str | None]:
    """What a counted launch could do better, and what could not be judged; ``deep`` compiles it if nobody has."""
    if outcome.meter is None:
        return [], None
    from moye.sim.costs.advice import lints
    from moye.sim.costs.lint import Lint
    from moye.sim.costs.occupancy import Compiled

    hardware = of(default_arch())
    program, missing = next(reversed(spec.programs.values()), None), None
    if program is None and deep:
        try:
            program = compile_program(spec, default_arch())
        except (CompileError, UnsupportedError) as error:
            missing = f"spills and serialised wgmma, which a compiler would tell of: {error.message.splitlines()[0]}"
    if program is None:
        return lints(outcome.meter, spec.shared_bytes, None, math.prod(grid), hardware), missing
    compiled = Compiled(program.registers, program.spills, program.stack)
    found = lints(outcome.meter, spec.shared_bytes, compiled, math.prod(grid), hardware)
    serial = [note for note in program.notes if note.serial]
    if any(note.registers for note in serial):          # spills have the same cause
        found = [lint for lint in found if lint.code != "P6"]
    return [*found, *(Lint("P7", note.message, note.locs, "", note.hint, {"ptxas": note.code, "spills": program.spills})
                      for note in serial)], None


_before: contextvars.ContextVar[tuple[Any, ...]] = contextvars.ContextVar("before", default=())
"""The last checked launch, and those that may run beside it."""


def launched_before() -> tuple[Any, ...]:
    """The last checked launch of this thread or task, and those that may run beside it."""
    return _before.get()


@deeply
def run(spec: Specialised, call: Call, grid: Dim3, *, check: bool, collect: bool = False, earliest: bool = False,
        record: tuple[int, ...] = (), lints: bool = False, sample: tuple[int, ...] | None = None,
        probe: Any = None, compare: Any = None, seed: int = 0, schedules: int | None = 1,
        poison: frozenset[str] = frozenset(), strict: bool = False, dependent: bool = False) -> Any:
    """Simulate one launch, and return the simulator's Outcome.

    ``record`` has the blocks whose timeline is wanted.  ``lints`` counts what every access costs.  ``sample`` has the
    blocks that run, None for all.  ``compare``, ``seed``, ``schedules``, ``poison`` and ``strict`` are as in Hooks.
    A ``dependent`` launch is judged as one that overlaps the launches before it in this thread or task.
    """
    from moye.sim.findings.groups import chosen
    from moye.sim.machine.machine import Hooks, simulate

    named = env.check() if check and not collect else True
    arch = default_arch() if collect else env.arch()
    if arch:
        require_shared(spec, arch)
    arguments = launch_arguments(spec, call)
    gathered = _timelines.get()
    hooks = Hooks(of(arch or DEFAULT_ARCH), progress=_progress[0] if _progress else None,
                  stop_on_first=not collect, printer=print, record=record or ((0,) if gathered is not None else ()),
                  sample=sample, probe=probe, compare=compare, lints=lints,
                  prior=_before.get() if dependent else None, seed=seed, schedules=schedules,
                  poison=poison, strict=strict,
                  codes=chosen(named) if isinstance(named, frozenset) else None,
                  asynchronous="earliest" if earliest else "latest", exact_fma=env.exact_fma(), steps=env.steps())
    try:
        outcome = simulate(spec.func, arguments, grid, check=check, hooks=hooks)
    except MemoryError as error:
        raise UnsupportedError(f"{spec.func.name}: there was not enough memory to simulate this launch; what it "
                               f"writes may be written in part", hint="mo.check(kernel, blocks=16) runs a few blocks"
                               ) from error
    if check:
        _before.set(outcome.prior)
    _last.inspections = tuple(snapshots(outcome.inspections, spec.func))
    if gathered is not None:
        gathered.append(timeline_of(outcome, spec))
    if outcome.findings and not collect:
        raise violation(outcome.findings[0])
    return outcome


def probed(spec: Specialised, call: Call, grid: Dim3, block: int, probe: Any, *, earliest: bool) -> None:
    """Run one block again, unchecked and without output, to look at what it does."""
    from moye.sim.machine.machine import Hooks, simulate

    hooks = Hooks(sample=(block,), probe=probe, asynchronous="earliest" if earliest else "latest",
                  exact_fma=env.exact_fma(), steps=env.steps())
    simulate(spec.func, launch_arguments(spec, call), grid, check=False, hooks=hooks)


def violation(finding: Any) -> SimulationError:
    """Turn a finding into an error."""
    return SimulationError(finding.message, finding=finding, hint=finding.hint, locs=finding.locs, code=finding.code)


def launch_arguments(spec: Specialised, call: Call) -> list[Any]:
    """The arguments that the simulator takes, on the memory of the call's host arrays."""
    from moye.sim.machine.machine import TensorArg

    objects = {id(info): obj for _, info, obj in call.arrays}
    arguments: list[Any] = []
    for param, leaf in zip(spec.func.params, call.leaves, strict=True):
        if isinstance(param, TensorParam):
            assert isinstance(leaf, ArrayInfo), "a tensor parameter has an array"
            owner = objects[id(leaf)]
            arguments.append(TensorArg(host_view(leaf, owner), 0, tuple(leaf.shape), tuple(leaf.strides), param.name,
                                       owner))
        else:
            arguments.append(leaf)
    return arguments
