"""Traffic records joined to what a reader sees as one: a statement, an instruction, a tensor.

In: the ``Traffic`` of a launch.  Out: ``Row`` records, in program order: unrolled copies of one statement are one row.

    rows(meter)[0].wavefronts
"""

from __future__ import annotations

from dataclasses import dataclass

from moye.errors import Loc
from moye.ir.nodes import Ref, TileRef
from moye.ir.ops import TmaCopy
from moye.sim.costs.meter import Meter, Traffic
from moye.sim.costs.widths import possible_bytes


@dataclass(slots=True)
class Row:
    """One instruction of one statement on one tensor, all blocks together."""

    loc: Loc
    instruction: str
    tensor: str
    shared: bool
    direction: str
    loop: bool
    parts: list[Traffic]

    @property
    def requests(self) -> int:
        """Instructions of warps."""
        return sum(part.requests for part in self.parts)

    @property
    def passes(self) -> int:
        """Wavefronts of shared memory, sectors of global memory."""
        return sum(part.passes for part in self.parts)

    @property
    def ideal(self) -> int:
        return sum(part.ideal for part in self.parts)

    @property
    def excess(self) -> int:
        return self.passes - self.ideal

    @property
    def spread(self) -> int:
        """The part of ``excess`` that comes from copies out of many lines."""
        return sum(part.spread for part in self.parts)

    @property
    def degree(self) -> int:
        return max((part.degree for part in self.parts), default=0)

    @property
    def sampled(self) -> bool:
        return any(part.sampled for part in self.parts)

    @property
    def bytes(self) -> int:
        """Bytes of one access of a thread."""
        return self.parts[0].bytes

    @property
    def boxes(self) -> bool:
        """Whether these are boxes of a tensor copy, not accesses of threads."""
        return isinstance(self.parts[0].op, TmaCopy)

    @property
    def possible(self) -> int:
        """The widest access that all of its ops could make."""
        return max(self.bytes, min(possible_bytes(part.op) for part in self.parts))

    @property
    def worst(self) -> Traffic:
        return max(self.parts, key=lambda part: part.degree)

    @property
    def statement(self) -> str:
        """The source line."""
        frame = self.loc.innermost
        return frame.text().split("#")[0].strip() if frame else ""


def tensor_of(ref: Ref | TileRef) -> str:
    """The user's name of the memory: that of the view where moye has named the buffer."""
    name = ref.buffer.name
    return (getattr(ref, "name", "") or name) if name.startswith("_") or not name else name


def rows(meter: Meter) -> list[Row]:
    """The rows of a launch; what never ran is left out."""
    found: dict[tuple[object, ...], Row] = {}
    for one in meter.traffic:
        if not one.requests:
            continue
        tensor = tensor_of(one.ref)
        key = (one.op.loc, one.instruction, one.ref.buffer.id, one.direction)
        if key not in found:
            found[key] = Row(one.op.loc, one.instruction, tensor, one.shared, one.direction, one.loop, [])
        found[key].parts.append(one)
        found[key].loop = found[key].loop or one.loop
    return list(found.values())
