"""``mo.check``: run a launch in the checking simulator and report everything found.

In: a kernel; then ``mo.check(kernel)[grid, block](*args)`` on host or CUDA arrays.  Out: a ``Report``.

    report = mo.check(k)[grid, 256](A, B, C); report.ok, report.findings
    print(mo.check(k, timeline=True)[grid, 256](A, B, C).timeline())
    mo.check(k, blocks=16, expect=lambda A, B: A @ B.T).launch(A, B, C, grid=grid, block=256)

Outputs are written as in a normal run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from moye.errors import ArgumentError, LaunchError
from moye.runtime.arguments import Call, classify
from moye.runtime.boundary import boundary
from moye.runtime.check.checking import Lints, Options, Refused, checking, judged, options, session
from moye.runtime.check.report import Report
from moye.runtime.check.sampling import Blocks
from moye.runtime.compile import Dim3, Specialised
from moye.runtime.kernel import Extents, Kernel, dim3
from moye.runtime.launch import more_smem

__all__ = ["Checked", "Report", "check", "checking"]


class Checked:
    """A kernel to be run in the checking simulator; it is launched as the kernel is."""

    def __init__(self, kernel: Kernel, how: Options) -> None:
        self.kernel = kernel
        self.how = how

    def __getitem__(self, config: Any) -> Callable[..., Report]:
        if not isinstance(config, tuple) or len(config) != 2:
            raise LaunchError(f"mo.check({self.kernel.__name__})[...] takes [grid, block], not {config!r}")
        grid, block = dim3(config[0], "grid"), dim3(config[1], "block")

        @boundary
        def launcher(*args: Any, **kwargs: Any) -> Report:
            return self._run(args, kwargs, grid, block, (1, 1, 1))

        return launcher

    def __call__(self, /, *args: Any, **kwargs: Any) -> Report:
        name = self.kernel.__name__
        raise LaunchError(f"a checked launch of {name} needs a launch configuration",
                          hint=f"mo.check({name})[grid, block](...)")

    @boundary
    def launch(self, /, *args: Any, grid: Extents, block: Extents, cluster: Extents = (1, 1, 1), stream: Any = None,
               smem: int | None = None, dependent: bool = False, **kwargs: Any) -> Report:
        """Launch as ``Kernel.launch`` does; the simulator ignores ``stream`` and ``smem`` and waits for all streams."""
        more_smem(smem)
        return self._run(args, kwargs, dim3(grid, "grid"), dim3(block, "block"), dim3(cluster, "cluster"), dependent)

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Dim3, block: Dim3, cluster: Dim3,
             dependent: bool = False) -> Report:
        kernel = self.kernel

        def prepared() -> tuple[Call, Specialised]:
            call = classify(kernel.signature, args, kwargs)
            return call, kernel._checked(call, grid, block, cluster)[1]

        try:
            report = judged(kernel.__name__, grid, block, prepared, self.how, kernel.signature.bind(args, kwargs),
                            dependent)
        except Refused as no:
            report = no.report
        if (around := session()) is not None and around.explicit:
            around.add(report)
        return report


def check(kernel: Kernel, *, earliest: bool = False, timeline: bool | Iterable[int] = False,
          lints: Lints = True, blocks: Blocks | None = None, expect: Callable[..., Any] | None = None,
          rtol: float | None = None, seed: int = 0, schedules: int | None = None,
          poison: Iterable[str] = (), strict: bool = False) -> Checked:
    """Check a kernel: ``mo.check(k)[grid, block](*args)`` returns a Report.

    ``earliest`` completes asynchronous copies at once instead of at their latest legal time.
    ``timeline`` records events for ``report.timeline()``.  True takes the first block that runs; otherwise give the
    numbers of the blocks, x fastest.  ArgumentError at the launch if the grid has no such block.
    ``lints`` counts what accesses cost, for ``report.lints`` and ``report.table()``; "deep" also runs the launch again
    without each of its block barriers, to find redundant ones.
    ``blocks`` runs only this many blocks (corners, edges and the interior in turn), or only those of these indices
    (coordinates, or numbers with x fastest).
    ``expect`` is a function of the arguments as they were before the launch, as NumPy arrays: by the names of its
    parameters if these are the kernel's, else in order.  It returns the expected written array; several are a tuple in
    the order of the parameters, or a dict by name.
    ``rtol`` is the allowed error of floats, relative to their norm; without it the dtypes decide.
    ``schedules`` runs that many schedules (orders of blocks, and of those that wait), from number ``seed`` on, until
    one shows a violation.  None means three if blocks signal to each other through memory, else one.  Outputs are those
    of the first, which is the same every time.
    ``poison`` has the names of arrays (workspaces) that hold nothing yet.  They are filled with poison, and B6 reports
    reads there before the launch has written.
    ``strict`` makes it a violation, not a lint, if several threads or blocks write one value to one element.
    """
    if not isinstance(kernel, Kernel):
        raise ArgumentError(f"mo.check takes a kernel, not {kernel!r}",
                            hint="with mo.checking() as reports: ... checks what a function launches")
    return Checked(kernel, options(earliest, timeline, blocks, lints, expect, rtol, seed, schedules, poison,
                                   strict))
