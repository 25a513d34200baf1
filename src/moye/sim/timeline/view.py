"""``Timeline``: what users see of a recorded launch.

In: the ``Tape`` of a launch.  Out: events, the overlap of MMAs and copies, a table, pictures, a Chrome trace.

    mo.check(k, timeline=True)[grid, 256](A, B, C).timeline().overlap().share      # Fraction(217, 256)

It shows program order, not time, and nothing of what the compiler does: ``compiled`` says that.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from moye.errors import ArgumentError, MoyeError
from moye.sim.timeline.chrome import trace
from moye.sim.timeline.events import Event, Overlap
from moye.sim.timeline.modelled import Modelled, model_of
from moye.sim.timeline.order import events_of
from moye.sim.timeline.svg import picture
from moye.sim.timeline.table import table
from moye.sim.timeline.tape import Tape

HEAD, TAIL = 2, 1
"""How many trips of a long loop a picture shows at its beginning and its end."""


def check_suffix(path: Path) -> str:
    """The suffix of a file that a timeline can be written to; ArgumentError for another."""
    if path.suffix not in (".svg", ".json", ".txt"):
        raise ArgumentError(f"a timeline is written as .svg, .json or .txt, not {path.suffix!r}")
    return path.suffix


class Timeline:
    """The events of the sampled blocks of one launch, in program order per warp.

    ``events`` are sorted by block, warp and program order; ``dropped`` counts statements that were not recorded
    because there were too many.  ``compiled`` gives the same share in the compiled kernel, see ``Program.overlap``.
    """

    def __init__(self, tape: Tape, compiled: Callable[[], object] | None = None) -> None:
        if not isinstance(tape, Tape):
            raise ArgumentError(f"a Timeline is what report.timeline() gives; it is not made of {tape!r}")
        func = tape.statements.func
        self.kernel, self.grid, self.block_dim = func.name, tape.grid, func.block_dim
        self.blocks, self.dropped = tape.sampled, tape.dropped
        self._tape, self._compiled = tape, compiled

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """Every event."""
        return events_of(self._tape)

    def overlap(self) -> Overlap:
        """How many MMAs begin while a copy from global memory is on its way, in program order.

        An MMA is one gemm run by one warp: of register operands, or one of the four of a wgmma; a gemm of shared
        operands is one for each k, as its operands are read for each k.  A copy is in flight if it was issued before
        the MMA and ends after the MMA begins, and if it was issued by the same warp, or by TMA from any warp of the
        block.  ``cp.async`` ends at the wait that covers its group, a load into registers at the first statement that
        reads one, a copy by TMA at the first wait that passes for its phase, in any warp; a synchronous copy where it
        is issued, so it never counts, and one that nothing waits for or uses is not in flight.  docs/timeline.md
        explains the figures of the examples.  ArgumentError if events were dropped.
        """
        if self.dropped:
            raise ArgumentError(f"the timeline of {self.kernel} lacks {self.dropped} statements, so that its overlap "
                                f"is not known", hint="record a smaller launch")
        mmas = [event for event in self.events if event.kind == "mma"]
        return Overlap(sum(event.in_flight > 0 for event in mmas), len(mmas))

    def compiled(self) -> object:
        """The overlap in the compiled kernel, a ``CompiledOverlap``; needs NVRTC and nvdisasm."""
        if self._compiled is None:
            raise ArgumentError(f"this timeline of {self.kernel} does not know how to compile it")
        return self._compiled()

    def modelled(self) -> Modelled:
        """The same in clocks of a model of sm_90: what runs beside what if units are as fast as docs/timeline.md says.

        ``.clocks``, ``.busy("tensor")`` and a picture; it is no measurement.  ArgumentError if events were dropped.
        """
        if lacking := self.dropped + self._tape.uncounted:
            raise ArgumentError(f"the timeline of {self.kernel} lacks {lacking} statements, so that its clocks "
                                f"are not known", hint="record a smaller launch")
        return model_of(self._tape)

    # --- pictures ----------------------------------------------------------------------------------------------------

    def text(self, *, head: int = HEAD, tail: int = TAIL) -> str:
        """A table: a line per event, warps that do the same once; of long loops the first and last trips."""
        return table(self.events, head, tail)

    def svg(self, *, head: int = HEAD, tail: int = TAIL) -> str:
        """A picture: per set of warps lanes for copies in flight, shared memory, MMAs and synchronisation."""
        share = "" if self.dropped else f"{self.overlap()} between a copy's issue and its end"
        return picture(self.events, f"{self.kernel}, program order. {share}", head, tail)

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x:auto">{self.svg()}</div>'

    def chrome(self) -> dict[str, Any]:
        """The Chrome trace, which Perfetto loads; its timestamps count steps of program order."""
        return trace(self.events, self.kernel)

    def to_chrome(self, path: str | Path) -> None:
        """Write ``chrome()`` to a JSON file."""
        Path(path).write_text(json.dumps(self.chrome()), encoding="utf-8")

    def save(self, path: str | Path) -> None:
        """Write an .svg, a .json (Chrome trace) or a .txt; ArgumentError for another suffix."""
        path = Path(path)
        match check_suffix(path):
            case ".json":
                self.to_chrome(path)
            case ".svg":
                path.write_text(self.svg(), encoding="utf-8")
            case _:
                path.write_text(f"{self}\n\n{self.text()}\n", encoding="utf-8")

    def __str__(self) -> str:
        warps = len({(event.block, event.warp) for event in self.events})
        blocks = ", ".join(map(str, self.blocks))
        lines = [f"{self.kernel}[{self.grid}, {self.block_dim}], block {blocks}: {len(self.events)} events of {warps} "
                 f"warps"]
        if self.dropped:
            lines.append(f"{self.dropped} statements were not recorded: the overlap is not known")
        else:
            lines.append(f"program order: {self.overlap()} between a copy's issue and its end")
        if self._compiled is not None:
            try:
                lines.append(str(self.compiled()))
            except MoyeError as error:
                lines.append(f"compiled: not known here, {error.message}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Timeline of {self.kernel}, blocks {self.blocks}>"
