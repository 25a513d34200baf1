"""``mo.check``: run a launch in the checking simulator and report everything found.

In: a kernel; then ``mo.check(kernel)[grid, block](*args)`` on host or CUDA arrays.  Out: a ``Report``.

>>> report = mo.check(k)[grid, 256](A, B, C); report.ok, report.findings
>>> print(mo.check(k, timeline=True)[grid, 256](A, B, C).timeline())

Outputs are written as a normal run does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from typing import Literal as OneOf

import numpy as np

from moye.errors import ArgumentError, MoyeError
from moye.runtime import barriers, simulate
from moye.runtime.arguments import Call, classify
from moye.runtime.arrays import ArrayInfo, describe, numpy_type
from moye.runtime.compile import Dim3
from moye.runtime.kernel import Kernel, check_written, dim3, slots
from moye.sim.checkers.findings import Finding

if TYPE_CHECKING:
    from moye.sim.lints.meter import Meter
    from moye.sim.timeline.view import Timeline

Lints = bool | OneOf["deep"]


@dataclass(slots=True)
class Report:
    """What one checked launch showed.

    ``findings`` are proven violations; ``unsupported`` says what of this kernel could not be judged, ``not_judged``
    what was left out because it is too large.
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

    @property
    def ok(self) -> bool:
        """No violation was found, and nothing was left unjudged."""
        return not self.findings and not self.unsupported

    def raise_if_any(self) -> None:
        """SimulationError with the first finding, if there is one."""
        if self.findings:
            raise simulate.violation(self.findings[0])

    def timeline(self) -> Timeline:
        """What the recorded blocks did in program order; ArgumentError unless ``mo.check`` was asked to record it."""
        if self.recorded is None:
            raise ArgumentError(f"this run of {self.kernel} recorded no timeline",
                                hint="mo.check(kernel, timeline=True)")
        return self.recorded

    def table(self) -> str:
        """What each memory instruction cost: requests, wavefronts, sectors, widths, one line per statement."""
        from moye.sim.lints.table import table

        return table(self._counted())

    def counters(self) -> dict[str, Any]:
        """The same as numbers: totals as a profiler counts them, and under ``lines`` one dict per line of the table."""
        from moye.sim.lints.table import counters

        return counters(self._counted())

    def _counted(self) -> Meter:
        if self.traffic is None:
            raise ArgumentError(f"this run of {self.kernel} counted no accesses", hint="mo.check(kernel, lints=True)")
        return self.traffic

    def _loops(self) -> str:
        """The table of the instructions in loops."""
        from moye.sim.lints.table import table

        return "" if self.traffic is None else table(self.traffic, loops_only=True)

    def __str__(self) -> str:
        verdict = "clean for this launch" if self.ok else f"{len(self.findings)} finding(s)"
        head = f"{self.kernel}[{self.grid}, {self.block}]: {verdict} ({', '.join(self.checked)})"
        parts = [head, *(str(f) for f in self.findings), *(f"unsupported: {u}" for u in self.unsupported)]
        parts += [str(lint) for lint in self.lints]
        if loops := self._loops():
            parts.append(f"memory accesses in loops:\n{loops}")
        if self.not_judged:
            parts.append(f"not judged: {', '.join(self.not_judged)}")
        return "\n".join(parts)


class Checked:
    """A kernel to be run in the checking simulator."""

    def __init__(self, kernel: Kernel, earliest: bool = False, record: tuple[int, ...] = (),
                 lints: Lints = True) -> None:
        self.kernel = kernel
        self.earliest = earliest
        self.record = record
        self.lints = lints

    def __getitem__(self, config: Any) -> CheckedLauncher:
        grid, block = config
        return CheckedLauncher(self, dim3(grid, "grid"), dim3(block, "block"))


class CheckedLauncher:
    """A checked kernel with grid and block."""

    def __init__(self, checked: Checked, grid: Dim3, block: Dim3) -> None:
        self.checked = checked
        self.grid = grid
        self.block = block

    def __call__(self, *args: Any, **kwargs: Any) -> Report:
        try:
            return self._run(*args, **kwargs)
        except MoyeError as error:
            if error.code is None:
                raise
            found = Finding(error.code, error.message, tuple(error.locs), None, (), "", None, error.hint)
            return Report(self.checked.kernel.__name__, self.grid, self.block, [found])

    def _run(self, *args: Any, **kwargs: Any) -> Report:
        kernel = self.checked.kernel
        call = classify(kernel.signature, args, kwargs)
        back = _to_host(call)
        spec = kernel.specialised(call, self.block)
        check_written(spec.func, call, kernel.__name__)
        spec.check(slots(call), self.grid)
        report = Report(kernel.__name__, self.grid, self.block)
        if 0 not in self.grid:
            before = barriers.arguments(spec, call) if self.checked.lints == "deep" else None
            outcome = simulate.run(spec, call, self.grid, check=True, collect=True, earliest=self.checked.earliest,
                                   record=self.checked.record, lints=bool(self.checked.lints))
            report.lints, report.traffic = simulate.lints_of(outcome, spec), outcome.meter
            if before is not None and outcome.meter is not None and not outcome.findings:
                report.lints += barriers.lints(spec, before, self.grid, outcome.meter)
            report.findings = list(outcome.findings)
            report.unsupported, report.not_judged = list(outcome.unsupported), tuple(outcome.not_judged)
            report.recorded = simulate.timeline_of(outcome, spec)
        for host, device in back:
            device[...] = _as_device(host, device)
        return report


def check(kernel: Kernel, *, earliest: bool = False, timeline: bool | Iterable[int] = False,
          lints: Lints = True) -> Checked:
    """Check a kernel: ``mo.check(k)[grid, block](*args)`` returns a Report.

    ``earliest`` completes asynchronous copies at once instead of at their latest legal time.
    ``timeline`` records events for ``report.timeline()``: True those of block 0, or the numbers of the blocks, x
    fastest; ArgumentError at the launch where the grid has no such block.
    ``lints`` counts what accesses cost, for ``report.lints`` and ``report.table()``; "deep" also runs the launch again
    without each of its block barriers, to find redundant ones.
    """
    if lints not in (True, False, "deep"):
        raise ArgumentError(f'mo.check takes lints=True, False or "deep", not {lints!r}')
    if not isinstance(kernel, Kernel):
        raise ArgumentError(f"mo.check takes a kernel, not {kernel!r}")
    record = ((0,) if timeline else ()) if isinstance(timeline, bool) else tuple(timeline)
    return Checked(kernel, earliest, record, lints)


def _to_host(call: Call) -> list[tuple[Any, Any]]:
    """Replace CUDA arrays by host copies of the same strides; returns (host, device) pairs to copy back."""
    back: list[tuple[Any, Any]] = []
    for i, (name, info, obj) in enumerate(call.arrays):
        if info.device is None:
            continue
        host = _host_copy(info, obj)
        told = describe(host)
        assert told is not None, "a NumPy array is an array"
        position = next(j for j, leaf in enumerate(call.leaves) if leaf is info)
        call.arrays[i] = (name, told, host)
        call.leaves[position] = told
        back.append((host, obj))
    return back


def _host_copy(info: ArrayInfo, obj: Any) -> Any:
    """A 16-byte-aligned NumPy array with the device array's contents and strides."""
    dtype = numpy_type(info.dtype)
    reach = 1 + sum((e - 1) * s for e, s in zip(info.shape, info.strides, strict=True)) if 0 not in info.shape else 0
    raw = np.zeros(reach * dtype.itemsize + 256, np.uint8)
    start = -raw.ctypes.data % 256
    flat = raw[start:start + reach * dtype.itemsize].view(dtype)
    view = np.lib.stride_tricks.as_strided(flat, info.shape, tuple(s * dtype.itemsize for s in info.strides))
    source = obj.cpu().numpy() if hasattr(obj, "cpu") else obj.get() if hasattr(obj, "get") else np.asarray(obj)
    view[...] = source
    return view


def _as_device(host: Any, device: Any) -> Any:
    """A host array as something that ``device[...] =`` accepts."""
    if hasattr(device, "cpu"):
        import torch  # the user's own

        return torch.from_numpy(np.ascontiguousarray(host)).to(device.device)
    return host
