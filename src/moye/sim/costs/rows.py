"""Traffic records joined to what a reader sees as one: a statement, an instruction, a tensor.

In: the ``Traffic`` of a launch.  Out: ``Row`` records, in program order: unrolled copies of one statement are one row.

    rows(meter)[0].wavefronts
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from moye.dtypes import Space
from moye.errors import Loc
from moye.ir import ops
from moye.ir.nodes import Extent, Operand, Ref, TileRef, Value
from moye.ir.ops import TmaCopy
from moye.sim.costs.meter import Meter, Traffic


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


# --- P2: how wide a copy could be ------------------------------------------------------------------------------------

WIDEST = 16


def possible_bytes(op: ops.Op) -> int:
    """The bytes of the widest access that a copy's layouts allow for sure; 0 for an op that has no width to choose.

    The proof is that of moye.tensor.copying: strides, offsets and bases are multiples of the wider access, in memory
    the values are contiguous, in registers they lie at equal distances.
    """
    if not isinstance(op, ops.Copy) or op.atom.matrices:
        return 0
    now = op.width * op.dst.dtype.bytes
    if all(ref.buffer.space is Space.REGISTER for ref in (op.dst, op.src)):
        return now
    for factor in (16, 8, 4, 2):
        if now * factor <= WIDEST and any(_fits(op, d, factor) for d in range(len(op.extents))):
            return now * factor
    return now


def _fits(op: ops.Copy, at: int, factor: int) -> bool:
    """Whether ``factor`` accesses along dimension ``at`` could be one."""
    extent = op.extents[at]
    if not isinstance(extent, int) or extent % factor:
        return False
    if isinstance(op.pred, TileRef) and op.pred.strides[at] != 0:
        return False
    return all(_side(ref, at, op.width, factor) for ref in (op.dst, op.src))


def _side(ref: TileRef, at: int, width: int, factor: int) -> bool:
    step = ref.strides[at]
    if ref.buffer.space is Space.REGISTER:
        return ref.swizzle is None and isinstance(step, int) and step != 0 and (width == 1 or step == width * ref.lane)
    if step != width:
        return False
    needed = width * factor * ref.dtype.bytes
    known = math.gcd(ref.buffer.align, _divisor(ref.offset) * ref.dtype.bytes)
    for d, stride in enumerate(ref.strides):
        if d != at:
            known = math.gcd(known, _divisor(stride) * ref.dtype.bytes)
    if ref.swizzle is not None and ref.swizzle.bits:
        known = math.gcd(known, (1 << ref.swizzle.base) * ref.dtype.bytes)
    return known % needed == 0


def _divisor(number: Extent | Operand) -> int:
    """A number that divides it, as large as is known."""
    known = number if isinstance(number, int) else number.divisor if isinstance(number, Value) else int(number.value)
    return abs(known) or 1 << 40
