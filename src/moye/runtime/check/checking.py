"""Checked launches: one of them (``judged``), or all of a program (``with mo.checking() as reports:``).

In: a specialised kernel and its classified arguments.  Out: a ``Report``, here or in the list of the session.

    with mo.checking(blocks=64) as reports: program()
    all(report.ok for report in reports)

A session belongs to its thread or task; launches of others run as usual, unless it is ``everywhere``.  Its launches run
in the simulator wherever their arrays are, and write their outputs.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from typing import Literal as OneOf

from moye.errors import ArgumentError, MoyeError, UnsupportedError
from moye.ir.hopper import GridDependency
from moye.ir.nodes import TensorParam
from moye.runtime import fast_launch, sessions, simulate
from moye.runtime.arguments import Call
from moye.runtime.check import needless_barriers
from moye.runtime.check.report import Report, refused
from moye.runtime.check.sampling import Blocks, sampled
from moye.runtime.compile import Dim3, Specialised
from moye.runtime.host_copies import on_host
from moye.runtime.sessions import Launch

if TYPE_CHECKING:
    from moye.runtime.check.wrong_result import Expectation


Lints = bool | OneOf["deep"]
_OWN_REFERENCES = 2
"""Of the session and of the call that counts."""


@dataclass(frozen=True, slots=True)
class Options:
    """How launches are checked; the names are those of ``mo.check``."""

    earliest: bool = False
    timeline: bool | tuple[int, ...] = False
    blocks: Blocks | None = None
    lints: Lints = True
    expect: Callable[..., Any] | None = None
    rtol: float | None = None
    seed: int = 0
    schedules: int | None = None
    poison: frozenset[str] = frozenset()
    strict: bool = False

    def __post_init__(self) -> None:
        if self.lints not in (True, False, "deep"):
            raise ArgumentError(f'mo.check takes lints=True, False or "deep", not {self.lints!r}')
        if not _whole(self.seed) or self.seed < 0:
            raise ArgumentError(f"seed is {self.seed!r}, and must be an integer that is not negative")
        if self.schedules is not None and (not _whole(self.schedules) or self.schedules < 1):
            raise ArgumentError(f"schedules is {self.schedules!r}, and must be a positive integer, or None")
        if self.rtol is not None and not self.rtol >= 0:
            raise ArgumentError(f"rtol is {self.rtol}, and must not be negative")
        if self.expect is not None and not callable(self.expect):
            raise ArgumentError(f"expect is {self.expect!r}, and must be a function of the kernel's arguments")


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def options(earliest: bool, timeline: bool | Iterable[int], blocks: Blocks | None, lints: Lints,
            expect: Callable[..., Any] | None = None, rtol: float | None = None, seed: int = 0,
            schedules: int | None = None, poison: Iterable[str] = (), strict: bool = False) -> Options:
    """The options that a user gave."""
    recorded = timeline if isinstance(timeline, bool) else tuple(timeline)
    names = frozenset((poison,) if isinstance(poison, str) else poison)
    several = tuple(blocks) if isinstance(blocks, Iterable) else blocks     # an iterator can be read but once
    return Options(earliest, recorded, several, lints, expect, rtol, seed, schedules, names, strict)


def judged(name: str, grid: Dim3, block: Dim3, prepared: Launch, how: Options,
           values: dict[str, Any] | None = None, dependent: bool = False) -> Report:
    """Run one launch with every check; Refused if an error with a code refuses it.

    ``values`` are the arguments by the kernel's parameters, for ``expect``.  A ``dependent`` launch runs after those
    before it, like any other, and is judged as one that overlaps the last of them.
    """
    try:
        call, spec = prepared()
        with on_host(call, spec.func) as host:
            known = bool(simulate.launched_before())
            report = _run(name, grid, block, spec, host, how, values, dependent)
            if dependent and not known and not _waits(spec):
                report.not_judged += ("what launches before it may still be doing to its arrays: it is launched "
                                      "dependent and never calls griddepcontrol_wait()",)
            if dependent and known and host is not call:
                report.not_judged += ("what launches before it may still be doing to arrays on a device: launches are "
                                      "compared where arrays lie in host memory",)
            return report
    except MoyeError as error:
        if error.code:
            raise Refused(error, refused(error, name, grid, block)) from error
        raise


def _waits(spec: Specialised) -> bool:
    """Whether a kernel waits for the launches before it."""
    return any(isinstance(op, GridDependency) and op.kind == "wait" for op in spec.func.body.walk())


class Refused(Exception):
    """A launch that an error with a code refused, and its Report."""

    def __init__(self, error: MoyeError, report: Report) -> None:
        super().__init__(str(error))
        self.error, self.report = error, report


def _run(name: str, grid: Dim3, block: Dim3, spec: Specialised, call: Call, how: Options,
         values: dict[str, Any] | None, dependent: bool = False) -> Report:
    report = Report(name, grid, block)
    if 0 in grid:
        return report
    report.blocks = sample = sampled(grid, how.blocks)
    arrays = [param.name for param in spec.func.params if isinstance(param, TensorParam)]
    if unknown := sorted(str(name) for name in how.poison if name not in arrays):
        raise ArgumentError(f"poison names {unknown[0]!r}, which is no array of {name}: it has "
                            f"{', '.join(arrays) or 'none'}")
    wanted: Expectation | None = None
    if how.expect is not None:
        from moye.runtime.check.wrong_result import expectation  # the simulator is loaded where it is needed

        wanted = expectation(how.expect, how.rtol, spec, call, values or {})
    record = _recorded(how.timeline, sample)
    before = needless_barriers.arguments(spec, call) if how.lints == "deep" and sample is None else None
    try:
        outcome = simulate.run(spec, call, grid, check=True, collect=True, earliest=how.earliest, record=record,
                               lints=bool(how.lints), sample=sample, probe=None if wanted is None else wanted.owners,
                               compare=None if wanted is None or sample is not None else wanted.elsewhere,
                               seed=how.seed, schedules=how.schedules, poison=how.poison, strict=how.strict,
                               dependent=dependent)
    except UnsupportedError as error:
        report.unsupported.append(str(error))
        return report
    report.findings = list(outcome.findings)
    report.schedules = outcome.schedules
    report.unsupported, report.not_judged = list(outcome.unsupported), (*outcome.not_judged, *spec.func.not_judged)
    report.lints, missing = simulate.lints_of(outcome, spec, grid, deep=how.lints == "deep")
    report.lints += simulate.advice_of(outcome)
    report.traffic = outcome.meter
    report.not_judged += () if missing is None else (missing,)
    if before is not None and outcome.meter is not None and not outcome.findings:
        report.lints += needless_barriers.lints(spec, before, grid, outcome.meter)
    report.recorded = simulate.timeline_of(outcome, spec)
    if sample is not None:
        report.not_judged = (f"only {report.extent} ran; outputs of the others are untouched", *report.not_judged)
    if wanted is not None:
        _compare(report, wanted, grid, how)
    return report


def _compare(report: Report, wanted: Expectation, grid: Dim3, how: Options) -> None:
    """The separate verdict: is the result right?"""
    report.checked = (*report.checked, "the result")
    if found := wanted.wrong(grid, report.blocks, earliest=how.earliest):
        report.findings = [finding for finding in report.findings if finding.code != "V1"] + found


def _recorded(timeline: bool | tuple[int, ...], sample: tuple[int, ...] | None) -> tuple[int, ...]:
    """The blocks whose timeline is wanted; True means the first block that runs."""
    if isinstance(timeline, bool):
        return (sample[0] if sample is not None else 0,) if timeline else ()
    if sample is not None and (missing := [block for block in timeline if block not in sample]):
        raise ArgumentError(f"a timeline of block {missing[0]} was asked for, and only the blocks "
                            f"{', '.join(map(str, sample[:8]))}{', ...' if len(sample) > 8 else ''} run")
    return timeline


# --- every launch of a program ---------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Session:
    """What ``checking`` collects."""

    how: Options
    each: Callable[[Report], None] | None = None
    explicit: bool = False
    reports: list[Report] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)

    def launch(self, name: str, grid: Dim3, block: Dim3, prepared: Launch, *, dependent: bool = False) -> None:
        """Check a launch instead of running it; what refuses it raises, as without a session."""
        how = self.how
        if how.blocks is not None and not isinstance(how.blocks, int):      # indices that another grid may not have
            how = replace(how, blocks=_inside(how.blocks, grid))
        try:
            self.add(judged(name, grid, block, prepared, how, dependent=dependent))
        except Refused as no:
            self.refused.append(no)
            raise no.error from None

    def add(self, report: Report) -> None:
        self.reports.append(report)
        if self.each is not None:
            self.each(report)


    def raise_unseen(self) -> None:
        """SimulationError for the first violation, if nobody but this session has the list to see it in."""
        alone = sys.getrefcount(self.reports) <= _OWN_REFERENCES and self.each is None
        found = [finding for report in self.reports if not report.ok for finding in report.findings] if alone else []
        if found:
            raise simulate.violation(found[0])


def _inside(blocks: Iterable[Any], grid: Dim3) -> tuple[Any, ...] | None:
    """Those of the blocks that the grid has; None (all) if it has none of them."""
    total = math.prod(grid)
    found = tuple(b for b in blocks if (b < total if isinstance(b, int) else
                                        all(i < extent for i, extent in zip(b, grid, strict=False))))
    return found or None


def session() -> Session | None:
    """The innermost ``checking`` block of this thread or task; None outside of all."""
    found = sessions.current.get()
    return found if isinstance(found, Session) else None


@contextmanager
def checking(*, earliest: bool = False, timeline: bool = False, blocks: Blocks | None = None, lints: Lints = True,
             each: Callable[[Report], None] | None = None, explicit: bool = False,
             everywhere: bool = False) -> Iterator[list[Report]]:
    """Check every launch of every kernel in the block as ``mo.check`` does; the reports are collected in the list.

    This means every launch of this thread and of tasks begun in the block; with ``everywhere``, of all threads and
    tasks. CUDA arrays are checked in the simulator too.  Launches that are refused raise as usual; such an error with a
    code is also a report if it leaves the block.  ``each(report)`` is called as each launch ends. Reports of launches
    under ``mo.check`` belong to their callers; with ``explicit`` they are in the list too.

    Where nobody takes the reports (no ``as``, no ``each``), the end of the block raises the first violation.
    """
    here = Session(options(earliest, timeline, blocks, lints), each, explicit)
    fast_launch.held.append(here)
    try:
        with sessions.current.set(here, everywhere=everywhere):
            yield here.reports
        here.raise_unseen()
    except MoyeError as error:
        for no in here.refused:
            if no.error is error:
                here.add(no.report)
        raise
    finally:
        fast_launch.held.remove(here)
