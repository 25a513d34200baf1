"""Waits for products (wgmma) that ptxas has moved before arithmetic, which then overlaps nothing.

In: a Func and the SASS of its kernel.  Out: a ``Note`` for each such wait.

    moved(func, program.sass)[0].message
    # 'ptxas waits before most of the 192 operations that stand before warpgroup_wait(0): 35 are left there'

The Func says how much arithmetic on register tensors lies between a wait and the product or wait before it.  In SASS
the same is counted between the instructions of these names; where a loop is unrolled, the largest count decides.  A
product and a sum may be one instruction there, so that a third is enough.  Functions such as exp2, which take longest,
are also counted by themselves.
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
SPECIAL = ("exp", "exp2", "log", "log2", "log10", "sin", "cos", "sqrt", "rsqrt", "rcp", "tanh")
"""Functions of the special-function unit, which takes a warp eight times as long as arithmetic does."""
Work = tuple[int, int]
"""Operations, and the special functions among them."""
NOTHING: Work = (0, 0)
Before = int | None
"""What comes before a wait: the groups that another one leaves in flight, None for a product."""


@dataclass(frozen=True, slots=True)
class _Stretch:
    """From something to a wait, and how many operations are between them."""

    before: Before
    wait: ops.WgmmaWait
    work: Work


def moved(func: Func, sass: str) -> tuple[Note, ...]:
    """A note for each wait that leaves groups in flight to arithmetic before it, and finds none there in SASS."""
    found = []
    counts: dict[tuple[Before, int], Work] = {}
    for stretch in stretches(func):
        counts = counts or _counts(sass)
        left = counts.get((stretch.before, stretch.wait.pending))
        what = None if left is None else _missing(stretch.work, left)
        if what is not None:
            message = (f"ptxas waits before most of the {what[0]} that stand before "
                       f"warpgroup_wait({stretch.wait.pending}): {what[1]} are left there")
            hint = f"warpgroup_wait({stretch.wait.pending}, registers) keeps the arithmetic on them before it"
            found.append(Note("", "", message, (stretch.wait.loc,), hint, False, False))
    return tuple(dict.fromkeys(found))


def _missing(work: Work, left: Work) -> tuple[str, int] | None:
    """What of the source is not before the wait, and how much of it is."""
    for i, (few, name) in enumerate(((FEW, "operations"), (FEW // 2, "special functions"))):
        if work[i] >= few and left[i] * SHARE < work[i]:
            return f"{work[i]} {name}", left[i]
    return None


def stretches(func: Func) -> list[_Stretch]:
    """The waits with arithmetic before them that products in flight could overlap."""
    found: list[_Stretch] = []
    before: Before = None
    work, started = NOTHING, 0
    for op in _in_order(func.body):
        if isinstance(op, ops.Wgmma):
            before, work, started = None, NOTHING, 1
        elif isinstance(op, ops.WgmmaWait):
            # What waits for no more than the wait before it overlaps nothing.
            if started and work[0] >= FEW and (before is None or op.pending < before):
                found.append(_Stretch(before, op, work))
            before, work = op.pending, NOTHING
        else:
            work = _sum(work, _work(op))
    return found


def _in_order(block: Block) -> Iterator[ops.Op]:
    for op in block.ops:
        yield op
        if Trait.REGION in op.traits:
            for inner in op.blocks():
                yield from _in_order(inner)


def _work(op: ops.Op) -> Work:
    """Operations of a tile, and the special functions among them."""
    if isinstance(op, ops.Reduce):
        return math.prod(op.extents), 0
    if isinstance(op, ops.Map):
        each = [inner for inner in op.body.ops if isinstance(inner, (ops.Binary, ops.Unary, ops.Select))]
        special = sum(isinstance(inner, ops.Unary) and inner.kind in SPECIAL for inner in each)
        return math.prod(op.extents) * len(each), math.prod(op.extents) * special
    return NOTHING


def _sum(a: Work, b: Work) -> Work:
    return a[0] + b[0], a[1] + b[1]


def _counts(sass: str) -> dict[tuple[Before, int], Work]:
    """The operations before each wait, by what comes before them and what it leaves in flight; the most of several."""
    found: dict[tuple[Before, int], Work] = {}
    before: Before = None
    work = NOTHING
    for match in _EVENT.finditer(sass):
        if match["work"]:
            work = _sum(work, (1, int(match["work"] == "MUFU")))
        elif match["product"]:
            before, work = None, NOTHING
        else:
            pending = int(match["pending"], 16)
            found[before, pending] = max(work, found.get((before, pending), NOTHING))
            before, work = pending, NOTHING
    return found
