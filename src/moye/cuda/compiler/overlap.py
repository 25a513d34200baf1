"""How many multiply-adds of a compiled kernel lie between a copy and its wait: per loop, in static order.

In: SASS or PTX as text.  Out: ``ListingOverlap``, its loops; ``CompiledOverlap`` has both of one kernel.

    print(sass_overlap(program.sass))      # SASS  2 of 512 FFMA (1/256) per trip of the loop 0x0600-0x3160

ptxas moves instructions: what is overlapped in the source need not be so in the SASS.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from moye.cuda.compiler.sass import Instruction, Unit, parse_ptx, parse_sass

_NAMES: dict[Unit, str] = {"tensor": "MMA", "fp32": "FFMA", "fp64": "DFMA", "fp16": "HFMA2", "int32": "IMAD"}


@dataclass(frozen=True, slots=True)
class LoopOverlap:
    """One loop, or straight code where ``loop`` is False: instructions ``first`` to ``last``.

    ``overlapped`` of its ``total`` MMAs lie between a copy and its end; ``copies`` is how many copies and loads from
    global memory it issues, ``unended`` how many of them end at nothing in it.
    """

    first: str
    last: str
    loop: bool
    overlapped: int
    total: int
    copies: int
    unended: int

    @property
    def share(self) -> Fraction:
        """Exact; 0 where there is no MMA."""
        return Fraction(self.overlapped, self.total) if self.total else Fraction(0)


@dataclass(frozen=True, slots=True)
class ListingOverlap:
    """The loops of one listing ("SASS" or "PTX") that multiply; ``name`` is the kind of MMA that was counted."""

    level: str
    name: str
    loops: tuple[LoopOverlap, ...]

    @property
    def main(self) -> LoopOverlap:
        """The loop with most MMAs."""
        return max(self.loops, key=lambda loop: loop.total, default=LoopOverlap("", "", False, 0, 0, 0, 0))

    @property
    def overlapped(self) -> int:
        return self.main.overlapped

    @property
    def total(self) -> int:
        return self.main.total

    @property
    def share(self) -> Fraction:
        """Of the main loop."""
        return self.main.share

    def __str__(self) -> str:
        main = self.main
        if not main.total:
            return f"{self.level:4}  no MMA"
        kind = "per trip of the loop" if main.loop else "in straight code,"
        count = f"{main.overlapped} of {main.total} {self.name} ({main.share})"
        return f"{self.level:4}  {count} {kind} {main.first}-{main.last}"


@dataclass(frozen=True, slots=True)
class CompiledOverlap:
    """The PTX, which is close to the order of the source, and the SASS that ptxas made of it."""

    kernel: str
    arch: str
    ptx: ListingOverlap
    sass: ListingOverlap

    def __str__(self) -> str:
        return f"compiled for {self.arch}, static order:\n  {self.ptx}\n  {self.sass}"


def sass_overlap(text: str, kernel: str | None = None) -> ListingOverlap:
    """Count in SASS, the output of nvdisasm -c or cuobjdump -sass; of the first kernel in it unless one is named.

    An MMA is an HMMA or another tensor-core instruction if there is one, else the most frequent of FFMA, DFMA and
    HFMA2, else IMAD (address arithmetic included).  It is overlapped if it lies, in static order, between an LDGSTS and
    the DEPBAR that covers its group, or between an LDG and the first instruction that names one of its registers.
    Behind the end of a loop comes its beginning.  Predicates are ignored, so this is the steady state: a trip that
    issues no copies is counted like the others.  Bulk copies (TMA) are not followed.
    """
    return _listing("SASS", parse_sass(text, kernel))


def ptx_overlap(text: str, kernel: str | None = None) -> ListingOverlap:
    """The same count in PTX: cp.async and its wait, ld.global and the first use of its registers (mov excepted)."""
    return _listing("PTX", parse_ptx(text, kernel))


def _listing(level: str, code: Sequence[Instruction]) -> ListingOverlap:
    unit = _unit(code)
    if unit is None:
        return ListingOverlap(level, "MMA", ())
    regions = _loops(code, unit) or [(0, len(code) - 1, False)]
    return ListingOverlap(level, _NAMES[unit], tuple(_count(code[a:b + 1], unit, loop) for a, b, loop in regions))


def _unit(code: Sequence[Instruction]) -> Unit | None:
    """What counts as an MMA in this kernel."""
    seen = Counter(instruction.unit for instruction in code if instruction.unit is not None)
    # Beside tensor-core instructions FFMA is the work of the epilogue.
    if seen["tensor"]:
        return "tensor"
    floats: tuple[Unit, ...] = ("fp32", "fp64", "fp16")
    most = max(floats, key=lambda unit: seen[unit])
    return most if seen[most] else "int32" if seen["int32"] else None


def _loops(code: Sequence[Instruction], unit: Unit) -> list[tuple[int, int, bool]]:
    """The innermost loops with MMAs: (first, last) instruction, from the target of a backward branch to the branch."""
    ends: dict[int, int] = {}
    for at, instruction in enumerate(code):
        if instruction.target is not None and instruction.target < at:
            ends[instruction.target] = max(at, ends.get(instruction.target, 0))
    loops = [(a, b, True) for a, b in ends.items() if any(i.unit == unit for i in code[a:b + 1])]
    return sorted(loop for loop in loops if not any(other != loop and loop[0] <= other[0] and other[1] <= loop[1]
                                                    for other in loops))


def _count(body: Sequence[Instruction], unit: Unit, loop: bool) -> LoopOverlap:
    covered: set[int] = set()
    copies = [at for at, instruction in enumerate(body) if instruction.role in ("copy", "load")]
    unended = 0
    for at in copies:
        end = _wait_of(body, at, loop) if body[at].role == "copy" else _use_of(body, at, loop)
        if end is None:
            unended += 1
        else:
            covered.update(i % len(body) for i in range(at + 1, min(end, at + len(body))))
    mmas = [at for at, instruction in enumerate(body) if instruction.unit == unit]
    return LoopOverlap(body[0].where, body[-1].where, loop, sum(at in covered for at in mmas), len(mmas), len(copies),
                       unended)


def _following(body: Sequence[Instruction], at: int, loop: bool, trips: int) -> range:
    """The places behind ``at``: to the end of straight code, or round a loop."""
    return range(at + 1, at + 1 + trips * len(body)) if loop else range(at + 1, len(body))


def _wait_of(body: Sequence[Instruction], at: int, loop: bool) -> int | None:
    """The place where a copy by LDGSTS / cp.async is waited for: behind its commit, when few enough groups are
    younger."""
    # A wait that leaves n groups in flight covers a copy only n commits later, which may be n trips further on.
    most = max((i.pending or 0 for i in body if i.role == "wait"), default=0)
    younger = -1                                        # groups committed after the copy's own
    for place in _following(body, at, loop, most + 2):
        instruction = body[place % len(body)]
        if instruction.role == "commit":
            younger += 1
        elif instruction.role == "wait" and (instruction.pending is None or younger >= instruction.pending):
            return place
    return None


def _use_of(body: Sequence[Instruction], at: int, loop: bool) -> int | None:
    """The place where a register that a load sets is named first; in PTX a mov passes it on."""
    holding = set(body[at].results)
    for place in _following(body, at, loop, 2):
        instruction = body[place % len(body)]
        if instruction.role == "move" and (instruction.registers - instruction.results) & holding:
            holding |= instruction.results
        elif instruction.registers & holding:
            return place
    return None
