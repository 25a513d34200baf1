"""What warp groups make of a block's registers: F6 where they ask for more than there are, or in a wrong way.

In: a Func, and the registers of a thread where it has been compiled.  Out: nothing, or a TraceError.

    budgets(func)       # the last setmaxnreg of each warp group, by its number
    # {0: SetMaxRegisters(kind='dec', count=40), 1: SetMaxRegisters(kind='inc', count=232)}

A block starts with as many registers as its threads have at launch, and setmaxnreg only hands them round (PTX ISA,
setmaxnreg): whoever asks for more than the others give back waits for ever.  .dec only takes away and .inc only adds,
and between two of a warp group its warps must meet.  Branches on anything but the thread's index, and warps that may
have met, are left to the simulator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from moye.errors import TraceError
from moye.hardware import MOST_GIVEN, REGISTER_UNIT, REGISTERS, WARPGROUP
from moye.ir import ops
from moye.ir.lanes import Lane, UnknownError, lanes_of_block, values_of
from moye.ir.nodes import Block, Func
from moye.ir.traits import Trait

Budgets = dict[int, ops.SetMaxRegisters]
Steps = dict[int, list[ops.Op]]
"""What each warp group does: its setmaxnreg in order, and between them all by which its warps may have met."""


def budgets(func: Func) -> Budgets | None:
    """The last budget that each warp group sets, of those that set one; None if that cannot be told."""
    found = _steps(func)
    return None if found is None else _last(found)


def _last(found: Steps) -> Budgets:
    changes = {group: _changes(steps) for group, steps in found.items()}
    return {group: each[-1] for group, each in changes.items() if each}


def _changes(steps: Sequence[ops.Op]) -> list[ops.SetMaxRegisters]:
    return [op for op in steps if isinstance(op, ops.SetMaxRegisters)]


def _steps(func: Func) -> Steps | None:
    """What the warp groups do; None if that cannot be told."""
    if func.threads % WARPGROUP or not _asked(func):
        return {}
    found: Steps = {}
    all_lanes = lanes_of_block(func.block_dim)
    for group in range(func.threads // WARPGROUP):
        lanes = all_lanes[group * WARPGROUP:(group + 1) * WARPGROUP]
        try:
            _walk(func.body, lanes, found.setdefault(group, []))
        except UnknownError:
            return None
    return found


def _asked(func: Func) -> list[ops.SetMaxRegisters]:
    return [op for op in func.body.walk() if isinstance(op, ops.SetMaxRegisters)]


def at_launch(func: Func, registers: int | None = None) -> int:
    """The registers of a thread when the kernel starts: what it was compiled to, or else what it will be."""
    # Registers are handed out in multiples of 8 a thread (PTX ISA, setmaxnreg).
    if registers is not None:
        return -(-registers // REGISTER_UNIT) * REGISTER_UNIT
    most = REGISTERS // (func.threads * func.min_blocks) // REGISTER_UNIT * REGISTER_UNIT
    # ptxas gives a kernel with budgets all that its bounds allow, up to the most that any warp group asks for.
    return min([most, MOST_GIVEN, *sorted((op.count for op in _asked(func) if op.kind == "inc"), reverse=True)[:1]])


def require_budgets(func: Func, registers: int | None = None) -> None:
    """Report F6 if a budget is asked for in a wrong way, or all exceed what the block starts with."""
    steps, each = _steps(func) or {}, at_launch(func, registers)
    for group, ops_of_group in steps.items():
        _require_changes(func, group, ops_of_group, each)
    found = _last(steps)
    if found and (message := exceeded(func, found, each)):
        raise _error(func, message, advice(found, each), found.values())


def _require_changes(func: Func, group: int, steps: Sequence[ops.Op], has: int) -> None:
    """Report F6 where one warp group's budget goes the wrong way, or changes again before its warps have met."""
    before: ops.SetMaxRegisters | None = None
    met = True
    for op in steps:
        if not isinstance(op, ops.SetMaxRegisters):
            met = True
            continue
        if turned(op, has):
            after = f" after {name_of(before)}" if before is not None else ""
            raise _error(func, f"warp group {group} has {has} registers for a thread{after}, and {name_of(op)} "
                         f"{WRONG_WAY[op.kind]}", other_way(op), (before, op))
        if before is not None and not met:
            raise _error(func, f"warp group {group} executes {name_of(op)} after {name_of(before)}, and its warps do "
                         "not meet in between", MEET, (before, op))
        before, met, has = op, False, op.count


MEET = "let the 128 threads of the warp group meet between the two: barrier_sync(id, 128), or sync_threads()"
"""What mends it where they do not."""
WRONG_WAY = {"dec": "asks for more: it can only give registers back",
             "inc": "asks for fewer: it can only add registers"}


def name_of(op: ops.SetMaxRegisters) -> str:
    """What the user called."""
    return f"warpgroup_reg_{'alloc' if op.kind == 'inc' else 'dealloc'}({op.count})"


def other_way(op: ops.SetMaxRegisters) -> str:
    """The call that goes the other way."""
    return f"warpgroup_reg_{'dealloc' if op.kind == 'inc' else 'alloc'}({op.count})"


def turned(op: ops.SetMaxRegisters, has: int) -> bool:
    """Whether a change goes the wrong way: PTX defines .dec as a reduction and .inc as an increase."""
    return op.count > has if op.kind == "dec" else op.count < has


def _error(func: Func, message: str, mend: str | None, at: Iterable[ops.Op | None]) -> TraceError:
    return TraceError(f"{func.name}: {message}", hint=mend, code="F6",
                      locs=tuple({str(op.loc): op.loc for op in at if op is not None}.values()))


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


def _walk(block: Block, lanes: Sequence[Lane], steps: list[ops.Op]) -> ops.Exit | None:
    """Follow one warp group; the result is where it leaves the block early."""
    for op in block.ops:
        left: ops.Exit | None = None
        if isinstance(op, ops.SetMaxRegisters) or _may_meet(op):
            steps.append(op)
        if isinstance(op, ops.Exit):
            return op
        if not _matters(op):
            continue
        if isinstance(op, ops.If):
            left = _branch(op, lanes, steps)
        elif isinstance(op, ops.Scope):
            left = _walk(op.body, lanes, steps)
            left = None if left is not None and left.target is op else left
        else:
            raise UnknownError
        if left is not None:
            return left
    return None


def _branch(op: ops.If, lanes: Sequence[Lane], steps: list[ops.Op]) -> ops.Exit | None:
    """Follow the side that is taken.  If both are, each with some of the threads, neither may set a budget or leave."""
    taken = [bool(value) for value in values_of(op.cond, lanes)]
    if all(taken) or not any(taken):
        return _walk(op.then if taken[0] else op.orelse, lanes, steps)
    before = len(_changes(steps))
    for side, block in ((True, op.then), (False, op.orelse)):
        some = [lane for lane, yes in zip(lanes, taken, strict=True) if yes is side]
        if _walk(block, some, steps) is not None or len(_changes(steps)) != before:
            raise UnknownError
    return None


def _may_meet(op: ops.Op) -> bool:
    """Whether threads may hear of other warps by an op, or by one inside of it that is not followed."""
    if isinstance(op, ops.If | ops.Scope) and _matters(op):
        return False
    inside = [op, *(inner for block in op.blocks() for inner in block.walk())]
    return any(Trait.MEETS_WARP not in inner.traits and not {Trait.HEARS, Trait.WAITS}.isdisjoint(inner.traits)
               and not (isinstance(inner, ops.Load) and inner.order is None) for inner in inside)


def _matters(op: ops.Op) -> bool:
    """Whether an op with blocks sets a budget, or may leave what is around it."""
    inside = [inner for block in op.blocks() for inner in block.walk()]
    return any(isinstance(inner, ops.SetMaxRegisters) or (
        isinstance(inner, ops.Exit) and inner.target is not op and inner.target not in inside) for inner in inside)
