"""From what was counted to what is worth saying: every lint of a launch.

In: the ``Meter`` of a checked run, the shared memory of a block, what is known of a compiled program.
Out: ``Lint`` records, by class.

P5 needs further runs and is in moye.runtime.check.needless_barriers.  P7 is the compiler's to say
(moye.runtime.simulate).
"""

from __future__ import annotations

import numpy as np

from moye.dtypes import Space
from moye.hardware import WARP, Hardware
from moye.ir import ops
from moye.ir.nodes import Func, TensorParam
from moye.layout import Swizzle
from moye.sim.costs import bank_conflicts, occupancy
from moye.sim.costs.copy_waits import NEVER
from moye.sim.costs.lint import Lint
from moye.sim.costs.meter import Meter
from moye.sim.costs.occupancy import Compiled
from moye.sim.costs.rows import Row, rows
from moye.sim.flow.once import once_per_func

UNCOALESCED, CONTRIBUTES = 1.5, 0.1
"""P3: sectors for one that would do, and the share of all sectors that are too many."""
NARROW = 0.01
"""P2: the share of all requests."""
_NAMES = {8: "float64", 16: "uint128"}


def lints(meter: Meter, shared_bytes: int, compiled: Compiled | None, blocks: int, hardware: Hardware) -> list[Lint]:
    """What one launch of so many blocks could do better on this hardware."""
    meter.waits.close()
    seen = rows(meter)
    wider = narrow(seen)
    at = {lint.locs for lint in wider}                  # a wider access is the cure of what narrow ones cost
    rest = [row for row in seen if (row.loc,) not in at]
    return [*bank_conflicts.lints(meter.func, rest), *wider, *uncoalesced(meter.func, rest), *waits(meter),
            *products(meter, shared_bytes, compiled, blocks, hardware), *swizzles(meter),
            *occupancy.lints(meter.func, shared_bytes, compiled, hardware)]


# --- P2 --------------------------------------------------------------------------------------------------------------


def narrow(seen: list[Row]) -> list[Lint]:
    """Copies whose accesses could be wider as their layouts are."""
    total, found = sum(row.requests for row in seen), dict[object, Lint]()
    for row in seen:
        op = row.parts[0].op
        if row.possible <= row.bytes or row.requests <= NARROW * total or not isinstance(op, ops.Copy):
            continue
        to, of = op.dst.name or op.dst.buffer.name, op.src.name or op.src.buffer.name
        message = (f"{op.atom} copies {row.bytes} bytes at a time from {of} to {to}, where {row.possible} are "
                   f"possible: a thread's values lie side by side on both sides, at multiples of {row.possible} bytes")
        numbers = {"bytes": row.bytes, "possible": row.possible, "requests": row.requests}
        found.setdefault(row.loc, Lint("P2", message, (row.loc,), row.tensor, _wider(op, row.possible), numbers))
    return list(found.values())


def _wider(op: ops.Copy, wide: int) -> str:
    bits = f"mo.{_NAMES[wide]}" if wide in _NAMES else f"a type of {8 * wide} bits"
    if op.atom.asynchronous:
        return f'mo.CpAsync({bits}{", cache=" + chr(34) + "global" + chr(34) if wide == 16 else ""})'
    return f"mo.UniversalCopy({bits})"


# --- P3 --------------------------------------------------------------------------------------------------------------


def uncoalesced(func: Func, seen: list[Row]) -> list[Lint]:
    """Requests to global memory that touch more sectors than their bytes fill, where that is much of the traffic."""
    there = [row for row in seen if not row.shared and row.direction != "atomic" and not row.boxes]
    total, found = sum(row.passes for row in there), []
    for row in there:
        if row.passes < UNCOALESCED * row.ideal or row.excess < CONTRIBUTES * total:
            continue
        verb = "read" if row.direction == "load" else "written"
        apart, step = _step(row), ""
        if apart is not None:
            step = f"; neighbouring threads are {apart} bytes apart"
        message = (f"{row.tensor} is {verb} with {row.passes / row.requests:.4g} sectors of 32 bytes a request, where "
                   f"{row.ideal / row.requests:.4g} hold what is asked for{step}")
        numbers = {"requests": row.requests, "sectors": row.passes, "ideal": row.ideal,
                   "share": round(row.excess / total, 4)}
        found.append(Lint("P3", message, (row.loc,), row.tensor, _along(func, row), numbers))
    return found


def _step(row: Row) -> int | None:
    """The distance of neighbouring threads in the worst request, if most have the same."""
    variant = row.worst.worst
    if variant is None or variant.relative.shape[1] < 2:
        return None
    steps = np.diff(variant.relative[0, :WARP, 0])
    values, counts = np.unique(steps, return_counts=True)
    most = int(counts.argmax())
    return abs(int(values[most])) if 2 * counts[most] > len(steps) else None


def _along(func: Func, row: Row) -> str:
    """Along which mode the tensor is contiguous."""
    buffer, size = row.parts[0].ref.buffer, row.bytes
    if (fixed := _of_product(func, row)) is not None:
        return fixed
    if _step(row) == size:
        return "neighbouring threads lie side by side already: let rows begin at multiples of 32 bytes, or be longer"
    strides = next((p.strides for p in func.params if isinstance(p, TensorParam) and p.buffer is buffer), ())
    modes = [mode for mode, stride in enumerate(strides) if isinstance(stride, int) and stride == 1]
    if len(modes) != 1 or len(strides) < 2:
        return "let neighbouring threads take neighbouring elements"
    return f"{row.tensor} is contiguous along mode {modes[0]}: let neighbouring threads run along it"


def _of_product(func: Func, row: Row) -> str | None:
    """The hint where the registers are those of a matrix product, whose atom says which thread holds what."""
    results, operands = product_buffers(func)
    here = {ref.buffer.id for part in row.parts for ref, _ in part.op.refs() if ref.buffer.space is Space.REGISTER}
    if row.direction == "load" and here & operands and not here & results:
        return "the atom says which thread holds what: copy the tile to shared memory first, by a tiled copy whose " \
               "threads run along rows"
    if row.direction != "load" and here & results:
        return "the atom says which thread holds what: bring the tile to shared memory first, and store it from " \
               "there by a tiled copy whose threads run along rows"
    return None


@once_per_func
def product_buffers(func: Func) -> tuple[set[int], set[int]]:
    """The ids of the register buffers with results of products of many threads, and with their operands."""
    results, operands, moves = set[int](), set[int](), list[tuple[int, int]]()
    for op in func.body.walk():
        refs = [(ref.buffer, written) for ref, written in op.refs() if ref.buffer.space is Space.REGISTER]
        if isinstance(op, ops.Wgmma) or (isinstance(op, ops.Gemm) and op.mma.threads > 1):
            results |= {buffer.id for buffer, written in refs if written}
            operands |= {buffer.id for buffer, written in refs if not written}
        elif isinstance(op, (ops.Copy, ops.Map)):
            moves += [(of.id, to.id) for of, read in refs if not read for to, written in refs if written]
    operands -= results
    for _ in moves:                                     # what is converted or scaled before or after
        results |= {to for of, to in moves if of in results}
        operands |= {of for of, to in moves if to in operands and of not in results}
    return results, operands


# --- P4 --------------------------------------------------------------------------------------------------------------


def waits(meter: Meter) -> list[Lint]:
    """Waits in loops that wait for copies which nobody reads before the next wait."""
    found = []
    for steps in meter.waits.steps.values():
        spare = steps.spare
        if not 0 < spare < NEVER or steps.uneven:
            continue
        said = "cp_async_wait()" if steps.op.pending is None else "cp_async_wait(0)"
        newest = "the newest of them is" if spare == 1 else f"the newest {spare} of them are"
        message = (f"{said} waits for all of the {steps.groups} groups of copies in flight, but {newest} not read "
                   "before the next wait")
        found.append(Lint("P4", message, (steps.op.loc,), "",
                          f"cp_async_wait({spare}), and a commit in every step, also where there is nothing to copy",
                          {"steps": steps.several, "groups": steps.groups, "pending": spare}))
    return found


def products(meter: Meter, shared_bytes: int, compiled: Compiled | None, blocks: int,
             hardware: Hardware) -> list[Lint]:
    """Waits for all wgmma in each step of the one warp group that multiplies, with no other block to fill the gap."""
    registers = compiled.registers if compiled else None
    resident = occupancy.occupancy(meter.func.threads, shared_bytes, registers, hardware).blocks
    if len(meter.products.groups) != 1 or (resident > 1 and blocks > hardware.multiprocessors):
        return []
    return [Lint("P4", "warpgroup_wait(0) waits for the products of each step before the next ones are issued, whose "
                 "operands are in another stage already: the tensor cores idle in between", (steps.op.loc,), "",
                 "warpgroup_wait(1), and release the stage of the step before; warpgroup_wait(0) after the loop",
                 {"steps": steps.spare}) for steps in meter.products.steps.values() if steps.idle]


# --- A6 --------------------------------------------------------------------------------------------------------------


def swizzles(meter: Meter) -> list[Lint]:
    """Bytes that were written through one swizzle and read through another."""
    found, pairs = [], {(one.write.loc, one.read.loc): one for one in reversed(meter.swizzles.found.values())}
    for one in pairs.values():
        name = one.buffer.name
        message = (f"byte {one.at} of {name} was written through {_named(one.written)} and is read through "
                   f"{_named(one.taken)}: the reader finds another element there (swizzles in bytes)")
        found.append(Lint("A6", message, (one.write.loc, one.read.loc), name,
                          f"make the views that write {name} and those that read it from one swizzled tensor",
                          {"byte": one.at}))
    return found


def _named(swizzle: Swizzle | None) -> str:
    return "no swizzle" if swizzle is None else str(swizzle)
