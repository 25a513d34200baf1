"""``Report``: what one checked launch showed, as text, as HTML in notebooks, and as data for programs.

In: findings, lints and what could not be judged.  Out: one object that prints itself.

    report = mo.check(k)[grid, 256](A, B, C); report.ok, report.findings; print(report)

It judges nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from moye.errors import ArgumentError, Loc, MoyeError
from moye.runtime.check.report_html import fragment
from moye.runtime.compile import Dim3
from moye.sim.findings.codes import page_of

if TYPE_CHECKING:
    from moye.sim.costs.meter import Meter
    from moye.sim.timeline.view import Timeline


@dataclass(slots=True, repr=False)
class Report:
    """What one checked launch showed.

    ``findings`` are proven violations.  ``unsupported`` says what of this kernel could not be judged, and
    ``not_judged`` what this launch was not checked for.  ``lints`` cost time and are no faults.  ``blocks`` are the
    numbers (x fastest) of the blocks that ran; None if all did.
    """

    kernel: str
    grid: Dim3
    block: Dim3
    findings: list[Any] = field(default_factory=list)
    lints: list[Any] = field(default_factory=list)
    unsupported: list[str] = field(default_factory=list)
    checked: tuple[str, ...] = ("bounds", "alignment", "uninitialised reads", "shared-memory races",
                                "global-memory races", "asynchronous copies", "barriers", "integer overflow", "asserts")
    not_judged: tuple[str, ...] = ()
    recorded: Timeline | None = field(default=None, repr=False)
    traffic: Meter | None = field(default=None, repr=False)
    blocks: tuple[int, ...] | None = None
    schedules: int | None = None
    """How many schedules were seen; None if blocks do not signal to each other, so that one shows all."""

    def __repr__(self) -> str:
        """The report in one line; ``str`` is all of it."""
        codes = ", ".join(dict.fromkeys(str(finding.code) for finding in self.findings))
        lints = f", {_counted(len(self.lints), 'lint')}" if self.lints else ""
        some = f", {self.extent}" if self.extent else ""
        return (f"<Report of {self.kernel}, grid {self.grid}, block {self.block}{some}: {self.verdict}"
                f"{f' ({codes})' if codes else ''}{lints}>")

    @property
    def ok(self) -> bool:
        """Whether no violation was found, and nothing was left unjudged."""
        return not self.findings and not self.unsupported

    def count(self, finding: Any) -> int:
        """How often a finding was seen: elements times threads, as far as they could be told apart."""
        return int(getattr(finding, "count", 1))

    def raise_if_any(self) -> None:
        """Raise SimulationError with the first finding, if there is one."""
        if self.findings:
            from moye.runtime.simulate import violation

            raise violation(self.findings[0])

    def timeline(self) -> Timeline:
        """What the recorded blocks did, in program order; ArgumentError unless ``mo.check`` was asked to record it."""
        if self.recorded is None:
            raise ArgumentError(f"this run of {self.kernel} recorded no timeline",
                                hint="mo.check(kernel, timeline=True)")
        return self.recorded

    def table(self) -> str:
        """What each memory instruction cost: requests, wavefronts, sectors, widths, one line per statement."""
        from moye.sim.costs.table import table

        return table(self._metered())

    def counters(self) -> dict[str, Any]:
        """The same as numbers: totals as a profiler counts them, and under ``lines`` one dict per line of the table."""
        from moye.sim.costs.table import counters

        return counters(self._metered())

    def _metered(self) -> Meter:
        if self.traffic is None:
            raise ArgumentError(f"this run of {self.kernel} counted no accesses",
                                hint="print(report) says what was found" if self.findings else
                                "mo.check(kernel, lints=True)")
        return self.traffic

    def _loops(self) -> str:
        """The table of the instructions in loops."""
        from moye.sim.costs.table import table

        return "" if self.traffic is None else table(self.traffic, loops_only=True)

    # --- text --------------------------------------------------------------------------------------------------------

    @property
    def verdict(self) -> str:
        """The outcome in a few words."""
        if self.findings:
            return _counted(len(self.findings), "finding")
        if self.unsupported:
            return "no finding, but not everything could be judged"
        return "clean for this launch"

    @property
    def extent(self) -> str:
        """Such as ``16 of 4096 blocks``; empty if all ran."""
        return "" if self.blocks is None else f"{len(self.blocks)} of {math.prod(self.grid)} blocks"

    @property
    def head(self) -> str:
        """The launch and the outcome in one line, without what was checked."""
        parts = [self.verdict, self.extent, _counted(self.schedules, "schedule") if self.schedules else "",
                 _counted(len(self.lints), "lint") if self.lints else ""]
        return f"{self.kernel}[{self.grid}, {self.block}]: {', '.join(part for part in parts if part)}"

    def details(self, *, lints: bool = True) -> list[str]:
        """Each finding, lint and unjudged part as text."""
        parts = [str(f) + more(self.count(f)) for f in self.findings]
        parts += [str(lint) for lint in self.lints] if lints else []
        return [*parts, *(f"unsupported: {u}" for u in self.unsupported)]

    def __str__(self) -> str:
        parts = [f"{self.head} ({', '.join(self.checked)})", *self.details()]
        if loops := self._loops():
            parts.append(f"memory accesses in loops:\n{loops}")
        if self.not_judged:
            parts.append(f"not judged: {', '.join(self.not_judged)}")
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        return fragment(self)

    # --- data --------------------------------------------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        """Everything except the timeline, in a form that JSON can hold."""
        return {"kernel": self.kernel, "grid": list(self.grid), "block": list(self.block), "ok": self.ok,
                "blocks": None if self.blocks is None else list(self.blocks), "schedules": self.schedules,
                "findings": [{**_finding(f), "count": self.count(f)} for f in self.findings],
                "lints": [_finding(lint) for lint in self.lints], "unsupported": list(self.unsupported),
                "checked": list(self.checked), "not_judged": list(self.not_judged)}


def more(count: int) -> str:
    """The words after a finding that was seen ``count`` times."""
    return f"\nand {count - 1} more like it" if count > 1 else ""


def refused(error: MoyeError, kernel: str, grid: Dim3, block: Dim3) -> Report:
    """The Report of a launch that an error with a code refused; nothing ran."""
    from moye.sim.findings.finding import Finding

    finding = Finding(error.code or "", error.message, tuple(error.locs), None, (), "", None, error.hint)
    return Report(kernel, grid, block, [finding], checked=("what can be told before a launch",), not_judged=())


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _finding(found: Any) -> dict[str, Any]:
    """A finding or a lint; a lint may lack fields that only a finding has."""
    block, threads = getattr(found, "block", None), getattr(found, "threads", ())
    coordinate = getattr(found, "coordinate", None)
    return {"code": found.code, "page": page_of(found.code), "title": found.title, "message": found.message,
            "hint": getattr(found, "hint", None), "points": [_point(loc) for loc in getattr(found, "locs", ())],
            "block": None if block is None else list(block), "threads": list(threads),
            "tensor": getattr(found, "tensor", ""), "coordinate": None if coordinate is None else list(coordinate),
            "numbers": dict(getattr(found, "numbers", {}))}


def _point(loc: Loc) -> list[dict[str, Any]]:
    """A program point: its call chain, outermost frame first; lines count from 1, columns from 0."""
    return [{"file": f.file, "line": f.line, "column": f.column, "end": f.end, "function": f.function,
             "source": f.text()} for f in loc.frames]
