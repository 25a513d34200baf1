"""Whether a traced kernel can have what it asks of a multiprocessor: shared memory, and registers for accumulators.

In: a specialisation, and the shared memory that a block may have.  Out: a sentence for what it cannot have, or nothing.

    excess(spec, 232448)      # 'accumulators take 512 registers of a thread, which has 255 in a block of 256 threads'

It counts what is certain before compiling, so it never refuses a kernel that fits; it does not predict spills.
"""

from __future__ import annotations

from moye.dtypes import Space
from moye.hardware import MOST_REGISTERS, REGISTER_UNIT, REGISTERS, WARP
from moye.ir import ops
from moye.ir.nodes import Buffer, Func
from moye.ir.traits import Trait
from moye.runtime.compile import Specialised


def excess(spec: Specialised, shared_limit: int) -> str:
    """Why no block can run, or none without spilling accumulators; empty if neither is certain."""
    func = spec.func
    if spec.shared_bytes > shared_limit:
        return f"shared memory takes {spec.shared_bytes} bytes of a block, and the device has {shared_limit}"
    needed, cap = accumulators(func), register_cap(func)
    if needed <= cap:
        return ""
    return f"accumulators take {needed} registers of a thread, which has {cap} {_where(func)}"


def accumulators(func: Func) -> int:
    """The most registers that accumulators take at once: those of MMAs, each from its first use to its last.

    Uses are taken in program order, without the way back in loops, so it is a lower bound.
    """
    spans: dict[Buffer, tuple[int, int]] = {}
    places: dict[int, Buffer] = {}
    for place, op in enumerate(func.body.walk()):
        for ref, written in op.refs():
            first, _ = spans.get(ref.buffer, (place, place))
            spans[ref.buffer] = (first, place)
            if written and Trait.MULTIPLIES in op.traits and ref.buffer.space is Space.REGISTER:
                places[place] = ref.buffer
    results = set(places.values())
    live = (sum(buffer.bytes for buffer in results if spans[buffer][0] <= place <= spans[buffer][1])
            for place in places)
    return -(-max(live, default=0) // 4)


def register_cap(func: Func) -> int:
    """The registers that a thread can have: those of its warp group if setmaxnreg sets them, else by block size."""
    if budget := _budget(func):
        return min(MOST_REGISTERS, budget)
    warps = -(-func.threads // WARP) * func.min_blocks
    return min(MOST_REGISTERS, REGISTERS // (warps * WARP) // REGISTER_UNIT * REGISTER_UNIT)


def _budget(func: Func) -> int:
    """The most that setmaxnreg.inc asks for; 0 without it."""
    return max((op.count for op in func.body.walk() if isinstance(op, ops.SetMaxRegisters) and op.kind == "inc"),
               default=0)


def _where(func: Func) -> str:
    if _budget(func):
        return "by setmaxnreg"
    return f"in {f'{func.min_blocks} blocks' if func.min_blocks > 1 else 'a block'} of {func.threads} threads"
