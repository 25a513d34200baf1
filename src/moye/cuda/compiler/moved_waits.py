"""Waits for products (wgmma) that ptxas has moved before arithmetic, which then overlaps nothing.

In: a Func and the SASS of its kernel.  Out: a ``Note`` for each such wait.

    moved(func, program.sass)[0].message
    # 'ptxas waits before most of the 192 operations that stand before warpgroup_wait(0): 35 are left there'

The Func says how much arithmetic on register tensors lies between a wait and the product or wait before it.  In SASS
the same is counted between the instructions of these names; where a loop is unrolled, the largest count decides.  A
product and a sum may be one instruction there, so that a third is enough.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from moye.cuda.compiler.ptxas_notes import Note
from moye.ir import ops
from moye.ir.nodes import Block, Func
from moye.ir.traits import Trait

FEW = 32
"""So little arithmetic before a wait is not worth a word."""
SHARE = 3
"""A wait has been moved if less than one part of so many is left before it."""
_EVENT = re.compile(r"\s(?:(?P<product>[A-Z]?GMMA)\b|WARPGROUP\.DEPBAR\.LE gsb0, (?P<pending>0x\d+)"
                    r"|(?P<work>MUFU|F(?:ADD|MUL|FMA|MNMX|SETP)|HFMA2|HADD2|HMUL2|IADD3|IMAD|VIADD|LOP3|SEL|FSEL)\b)")
Before = int | None
"""What comes before a wait: the groups that another one leaves in flight, None for a product."""


@dataclass(frozen=True, slots=True)
class _Stretch:
    """From something to a wait, and how many operations are between them."""

    before: Before
    wait: ops.WgmmaWait
    work: int


def moved(func: Func, sass: str) -> tuple[Note, ...]:
    """A note for each wait that leaves groups in flight to arithmetic before it, and finds none there in SASS."""
    found = []
    counts: dict[tuple[Before, int], int] = {}
    for stretch in stretches(func):
        counts = counts or _counts(sass)
        left = counts.get((stretch.before, stretch.wait.pending))
        if left is not None and left * SHARE < stretch.work:
            message = (f"ptxas waits before most of the {stretch.work} operations that stand before "
                       f"warpgroup_wait({stretch.wait.pending}): {left} are left there")
            hint = f"warpgroup_wait({stretch.wait.pending}, registers) keeps the arithmetic on them before it"
            found.append(Note("", "", message, (stretch.wait.loc,), hint, False, False))
    return tuple(dict.fromkeys(found))


def stretches(func: Func) -> list[_Stretch]:
    """The waits with arithmetic before them that products in flight could overlap."""
    found: list[_Stretch] = []
    before: Before = None
    work = started = 0
    for op in _in_order(func.body):
        if isinstance(op, ops.Wgmma):
            before, work, started = None, 0, 1
        elif isinstance(op, ops.WgmmaWait):
            # What waits for no more than the wait before it overlaps nothing.
            if started and work >= FEW and (before is None or op.pending < before):
                found.append(_Stretch(before, op, work))
            before, work = op.pending, 0
        else:
            work += _work(op)
    return found


def _in_order(block: Block) -> Iterator[ops.Op]:
    for op in block.ops:
        yield op
        if Trait.REGION in op.traits:
            for inner in op.blocks():
                yield from _in_order(inner)


def _work(op: ops.Op) -> int:
    """Operations of a tile."""
    if isinstance(op, ops.Reduce):
        return math.prod(op.extents)
    if isinstance(op, ops.Map):
        each = sum(isinstance(inner, (ops.Binary, ops.Unary, ops.Select)) for inner in op.body.ops)
        return math.prod(op.extents) * each
    return 0


def _counts(sass: str) -> dict[tuple[Before, int], int]:
    """The operations before each wait, by what comes before them and what it leaves in flight; the most of several."""
    found: dict[tuple[Before, int], int] = {}
    before: Before = None
    work = 0
    for match in _EVENT.finditer(sass):
        if match["work"]:
            work += 1
        elif match["product"]:
            before, work = None, 0
        else:
            pending = int(match["pending"], 16)
            found[before, pending] = max(work, found.get((before, pending), 0))
            before, work = pending, 0
    return found
