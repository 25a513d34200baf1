"""What warp groups make of a block's registers: F6 where they ask for more than there are.

In: a Func, and the registers of a thread where it has been compiled.  Out: nothing, or a TraceError.

    budgets(func)       # the last setmaxnreg of each warp group, by its number
    # {0: SetMaxRegisters(kind='dec', count=40), 1: SetMaxRegisters(kind='inc', count=232)}

A block starts with as many registers as its threads have at launch, and setmaxnreg only hands them round (PTX ISA,
setmaxnreg): whoever asks for more than the others give back waits for ever.  Branches on anything but the thread's
index are left to the simulator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moye.errors import TraceError
from moye.hardware import MOST_GIVEN, REGISTER_UNIT, REGISTERS, WARPGROUP
from moye.ir import ops
from moye.ir.lanes import Lane, UnknownError, lanes_of_block, values_of
from moye.ir.nodes import Block, Func

Budgets = dict[int, ops.SetMaxRegisters]
def budgets(func: Func) -> Budgets | None:
    """The last budget that each warp group sets, of those that set one; None if that cannot be told."""
    if func.threads % WARPGROUP or not any(isinstance(op, ops.SetMaxRegisters) for op in func.body.walk()):
        return {}
    found: Budgets = {}
    all_lanes = lanes_of_block(func.block_dim)
    for group in range(func.threads // WARPGROUP):
        lanes = all_lanes[group * WARPGROUP:(group + 1) * WARPGROUP]
        try:
            _walk(func.body, lanes, group, found)
        except UnknownError:
            return None
    return found


def at_launch(func: Func, registers: int | None = None) -> int:
    """The most registers of a thread when the kernel starts; the exact number once it has been compiled."""
    # Registers are handed out in multiples of 8 a thread (PTX ISA, setmaxnreg).
    most = REGISTERS // (func.threads * func.min_blocks) // REGISTER_UNIT * REGISTER_UNIT
    return min(most, MOST_GIVEN) if registers is None else -(-registers // REGISTER_UNIT) * REGISTER_UNIT


def require_budgets(func: Func, registers: int | None = None) -> None:
    """Report F6 if the budgets of all warp groups exceed what the block starts with."""
    found = budgets(func)
    if found and (message := exceeded(func, found, at_launch(func, registers))):
        raise TraceError(f"{func.name}: {message}", hint=advice(found, at_launch(func, registers)), code="F6",
                         locs=tuple({str(op.loc): op.loc for op in found.values()}.values()))


def exceeded(func: Func, found: Mapping[int, ops.SetMaxRegisters], each: int) -> str | None:
    """The sentence, if the budgets of some warp groups are more than these had: the others keep theirs."""
    counts = [op.count for _, op in sorted(found.items())]
    if sum(counts) <= each * len(counts):
        return None
    some = f"{len(counts)} warp groups" if len(counts) > 1 else "a warp group"
    return (f"{some} of a block of {func.threads} threads want {' + '.join(map(str, counts))} = {sum(counts)} "
            f"registers for a thread of each, and have {len(counts)} * {each} = {each * len(counts)}: who asks last "
            f"waits for ever")


def advice(found: Mapping[int, ops.SetMaxRegisters], each: int) -> str | None:
    """The largest budget that those who ask for more could have."""
    more = [op.count for op in found.values() if op.kind == "inc"]
    left = each * len(found) - sum(op.count for op in found.values() if op.kind == "dec")
    count = left // len(more) // REGISTER_UNIT * REGISTER_UNIT if more else 0
    return f"warpgroup_reg_alloc({count})" if count > each else None


def _walk(block: Block, lanes: Sequence[Lane], group: int, found: Budgets) -> ops.Exit | None:
    """Follow one warp group; the result is where it leaves the block early."""
    for op in block.ops:
        left: ops.Exit | None = None
        if isinstance(op, ops.SetMaxRegisters):
            found[group] = op
        elif isinstance(op, ops.Exit):
            return op
        elif not _matters(op):
            continue
        elif isinstance(op, ops.If):
            left = _branch(op, lanes, group, found)
        elif isinstance(op, ops.Scope):
            left = _walk(op.body, lanes, group, found)
            left = None if left is not None and left.target is op else left
        else:
            raise UnknownError
        if left is not None:
            return left
    return None


def _branch(op: ops.If, lanes: Sequence[Lane], group: int, found: Budgets) -> ops.Exit | None:
    """Follow the side that is taken.  If both are, each with some of the threads, neither may set a budget or leave."""
    taken = [bool(value) for value in values_of(op.cond, lanes)]
    if all(taken) or not any(taken):
        return _walk(op.then if taken[0] else op.orelse, lanes, group, found)
    before = found.get(group)
    for side, block in ((True, op.then), (False, op.orelse)):
        some = [lane for lane, yes in zip(lanes, taken, strict=True) if yes is side]
        if _walk(block, some, group, found) is not None or found.get(group) is not before:
            raise UnknownError
    return None


def _matters(op: ops.Op) -> bool:
    """Whether an op with blocks sets a budget, or may leave what is around it."""
    inside = [inner for block in op.blocks() for inner in block.walk()]
    return any(isinstance(inner, ops.SetMaxRegisters) or (
        isinstance(inner, ops.Exit) and inner.target is not op and inner.target not in inside) for inner in inside)
