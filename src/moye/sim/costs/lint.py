"""What a lint is: advice about a line that works, with the numbers that were counted.

In: nothing.  Out: ``Lint``, which prints as a finding does: the sentence, the source frames, a hint.

A lint never fails a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from moye.errors import Loc
from moye.sim.findings.codes import CODES


@dataclass(frozen=True, slots=True)
class Lint:
    """Advice: class, sentence, program points, the tensor it is about, what would help, what was counted."""

    code: str
    message: str
    locs: tuple[Loc, ...] = ()
    tensor: str = ""
    hint: str | None = None
    numbers: Mapping[str, int | float | str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def title(self) -> str:
        return CODES[self.code].title

    @property
    def lines(self) -> tuple[str, ...]:
        """``file:line`` of each program point."""
        return tuple(str(loc.innermost) for loc in self.locs)

    def __str__(self) -> str:
        points = dict.fromkeys(loc for loc in self.locs if loc.frames)
        parts = [f"{self.code}: {self.message}", *(loc.render() for loc in points)]
        if self.hint:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)
