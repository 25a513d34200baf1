"""What a judge says: ``Verdict``, with a ``Result`` for each case.

In: what was found.  Out: data, as text and as JSON.

    verdict = mo.testing.judge(source, reference, cases); verdict.status; verdict.as_dict()

``STATUSES`` has every status and what it means.  It judges nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from moye.sim.findings.groups import GROUPS

STATUSES = {
    "passed": "every case is right, nothing was found, and every goal is reached",
    "holes": "the source still has a hole (...)",
    "tampering": "the source changed moye or NumPy, or left a thread or a process behind",
    "host": "the host code wrote to an array: only kernels may",
    "timeout": "it took longer than its limit",
    "memory": "it needed more memory than its limit",
    "crash": "its process ended by itself",
    "error": "its Python code raised an exception",
    "refused": "moye refused to trace or to launch the kernel",
    "out of bounds": "an access outside of an array or of shared memory",
    "misaligned": "a wide or an asynchronous access that is not aligned",
    "deadlock": "threads that wait for each other, or for nobody",
    "barriers": "a barrier, a warp operation or an mbarrier that not all come to, or that is used wrongly",
    "uninitialised": "memory or a register is read before it is written",
    "race": "two accesses of one element that nothing orders",
    "copies": "an asynchronous copy or product that is used before it is complete, or its source after it is gone",
    "overflow": "an integer result that its dtype does not hold",
    "assertion": "an assertion or an assumption that does not hold, or a division by zero",
    "wrong": "a result that is not the expected one, or an array written that is no output",
    "unjudged": "something that the simulator cannot run or judge",
    "bank conflicts": "accesses of shared memory with more conflicts than the goal allows",
    "uncoalesced": "accesses of global memory that move more sectors than the goal allows",
    "overlap": "fewer products than the goal asks for run while copies are in flight",
    "costly": "more of something that is counted than the goal allows, or too little of what it asks for",
}
"""By status, what it means.  Of several in one case the first of this table is told."""
FATAL = ("holes", "tampering", "timeout", "memory", "crash")
_ORDER = list(STATUSES)


def status_of(code: str) -> str:
    """The status that a class of defects (``Finding.code``) has."""
    if code in ("F4", "G4", "F3", "F5", "F2"):
        return "deadlock"
    if code[:1] in ("D", "E") and code in GROUPS["copies"]:
        return "copies"
    for group, status in (("bounds", "out of bounds"), ("alignment", "misaligned"), ("overflow", "overflow"),
                          ("asserts", "assertion"), ("uninitialised", "uninitialised")):
        if code in GROUPS[group]:
            return status
    if code[:1] == "A":
        return "refused"
    if code[:1] in ("C", "G") and code in GROUPS["races"]:
        return "race"
    if code in GROUPS["barriers"]:
        return "barriers"
    return "copies" if code in GROUPS["copies"] | GROUPS["races"] else "refused"


def worst(statuses: Iterable[str]) -> str:
    """The one to tell of several; "passed" of none."""
    return min((s for s in statuses if s != "passed"), key=_ORDER.index, default="passed")


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one case.

    ``findings`` are those of ``Report.as_dict``, with their positions.  ``numbers`` are totals of all launches:
    ``launches``, ``degree`` (of the worst bank conflict, as ``Goals`` counts it; 1 is none), ``conflicts`` (wavefronts
    of shared memory above the fewest possible), ``sector_ratio`` (sectors of global memory moved by the fewest
    possible), ``sectors_per_request``, ``overlap`` (share of products that run while copies are in flight; None unless
    a goal asks), ``counters`` (those of ``Report.counters``), ``operations`` (statements of each kind in the kernels),
    ``lines``.
    """

    case: str
    status: str
    message: str = ""
    findings: tuple[Mapping[str, Any], ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.status == "passed"

    def as_dict(self) -> dict[str, Any]:
        return {"case": self.case, "status": self.status, "message": self.message,
                "findings": [dict(f) for f in self.findings], "numbers": dict(self.numbers)}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judge says of one source.

    ``status`` is one of ``STATUSES``, ``message`` one or a few sentences about it, ``output`` what the source printed
    (cut at the limit), ``seconds`` the wall time that it took.
    """

    status: str
    message: str
    results: tuple[Result, ...] = ()
    output: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether it passed."""
        return self.status == "passed"

    @property
    def lines(self) -> tuple[int, ...]:
        """The lines of the source that the first finding names."""
        for result in self.results:
            for finding in result.findings:
                return tuple(chain[-1]["line"] for chain in finding["points"] if chain)
        return ()

    def as_dict(self) -> dict[str, Any]:
        """All of it, in a form that JSON can hold."""
        return {"status": self.status, "meaning": STATUSES[self.status], "message": self.message, "output": self.output,
                "seconds": self.seconds, "results": [result.as_dict() for result in self.results]}

    def as_json(self) -> str:
        return json.dumps(self.as_dict(), indent=1)

    def __str__(self) -> str:
        passed = sum(result.ok for result in self.results)
        head = f"{self.status}: {passed} of {len(self.results)} cases passed" if self.results else self.status
        return f"{head}\n{self.message}" if self.message else head


def of_results(results: Iterable[Result], output: str, seconds: float) -> Verdict:
    """The verdict that follows from the cases."""
    told = tuple(results)
    status = worst(result.status for result in told)
    first = next((r for r in told if r.status == status and not r.ok), None)
    message = "" if first is None else f"{first.case}: {first.message}"
    return Verdict(status, message, told, output, seconds)
