"""P8 and P6: how many blocks a multiprocessor holds, and what limits them; spills of a compiled program.

In: threads and shared memory of a block; registers and spills where the kernel has been compiled.  Out: lints.

The numbers are those of the architecture that the launch is checked for, ``Hardware``.
"""

from __future__ import annotations

from dataclasses import dataclass

from moye.dtypes import Space
from moye.errors import Loc
from moye.hardware import MOST_GIVEN, REGISTERS, WARP, WARP_REGISTERS, Hardware
from moye.ir import ops
from moye.ir.nodes import Func
from moye.ir.traits import Trait
from moye.passes.register_budgets import at_launch
from moye.sim.costs.lint import Lint

FEW_WARPS = 8
"""Warps on a multiprocessor that hide little latency: two on each of its four schedulers."""
FEW_BLOCKS, MANY_WARPS = 3, 32
"""One block more matters where there are few."""
NEAR = 0.05
"""Shared memory is said to be a little too large if this much less would let one block more in."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """What is known of a compiled kernel: registers of a thread, bytes that it spills and has in local memory."""

    registers: int
    spills: int
    local: int = 0


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Blocks that one multiprocessor holds, by each limit alone."""

    threads: int
    by_threads: int
    by_shared: int
    by_registers: int

    @property
    def blocks(self) -> int:
        return min(self.by_threads, self.by_shared, self.by_registers)

    @property
    def warps(self) -> int:
        return self.blocks * -(-self.threads // WARP)


def occupancy(threads: int, shared: int, registers: int | None, hardware: Hardware) -> Occupancy:
    """How many blocks of this kind run on one multiprocessor at once."""
    warps, most, unit = -(-threads // WARP), hardware.blocks, hardware.shared_unit
    by_registers = most if not registers else \
        REGISTERS // (-(-registers * WARP // WARP_REGISTERS) * WARP_REGISTERS * warps)
    by_shared = most if not shared else hardware.shared // (-(-shared // unit) * unit + hardware.reserved)
    return Occupancy(threads, min(most, hardware.warps // warps), min(most, by_shared), min(most, by_registers))


def lints(func: Func, shared: int, compiled: Compiled | None, hardware: Hardware) -> list[Lint]:
    """P8 where few warps are left, or a little less would let one block more in; P6 where local memory is used."""
    found = []
    now = occupancy(func.threads, shared, compiled.registers if compiled else fewest_registers(func), hardware)
    tight = now.by_shared < min(now.by_threads, now.by_registers)
    if tight and now.blocks and (lint := _shared(func, shared, now, compiled, hardware)):
        found.append(lint)
    elif now.by_registers < min(now.by_threads, now.by_shared) and now.warps < FEW_WARPS and compiled:
        found.append(Lint("P8", f"{compiled.registers} registers a thread let {_blocks(now.blocks)} of {func.threads} "
                          f"threads onto a multiprocessor: {now.warps} of {hardware.warps} warps", _where(func),
                          hint="smaller register tiles, or min_blocks", numbers=_numbers(now, shared)))
    if compiled and (compiled.spills or compiled.local):
        found.append(_local(func, compiled))
    return found


def _local(func: Func, compiled: Compiled) -> Lint:
    """P6, at the largest register tile."""
    message = f"each thread keeps {compiled.local} bytes in local memory"
    if compiled.spills:
        message = (f"registers spill: each thread, which has {compiled.registers}, stores and loads {compiled.spills} "
                   f"bytes of local memory")
    tiles = [buffer for buffer in func.buffers if buffer.space is Space.REGISTER]
    largest = max(tiles, key=lambda buffer: buffer.bytes, default=None)
    where = _where(func) if largest is None or not largest.loc.frames else (largest.loc,)
    hint = "smaller register tiles" + (f", or min_blocks below {func.min_blocks}" if func.min_blocks > 1 else "")
    return Lint("P6", message, where, "" if largest is None else largest.name, hint,
                {"spills": compiled.spills, "local": compiled.local, "registers": compiled.registers})


def _shared(func: Func, shared: int, now: Occupancy, compiled: Compiled | None, hardware: Hardware) -> Lint | None:
    unit = hardware.shared_unit                         # what one block more would leave for each:
    each = hardware.shared // (now.by_shared + 1) // unit * unit - hardware.reserved
    overlapped = any(isinstance(op, ops.Copy) and op.atom.asynchronous for op in func.body.walk())
    near = now.by_shared <= FEW_BLOCKS and now.warps < MANY_WARPS and shared - each <= NEAR * shared
    if not near and (now.warps >= FEW_WARPS or overlapped):
        return None
    known = "" if compiled else ", if its registers allow, which are not known before it is compiled"
    message = (f"{shared} bytes of shared memory let {_blocks(now.blocks)} of {func.threads} threads onto a "
               f"multiprocessor: {now.warps} of {hardware.warps} warps")
    hint = f"{shared - each} bytes less let one block more in{known}" if near else \
        f"smaller tiles: {_blocks(now.by_shared + 1)} fit with {each} bytes each{known}"
    return Lint("P8", message, _where(func), _largest(func), hint, _numbers(now, shared))


def fewest_registers(func: Func) -> int:
    """Registers that a thread needs at least: those of its sums; all that it can have where roles share them."""
    if any(isinstance(op, ops.SetMaxRegisters) for op in func.body.walk()):
        return at_launch(func)
    sums = {ref.buffer.id: ref.buffer.bytes for op in func.body.walk() if Trait.MULTIPLIES in op.traits
            for ref, written in op.refs() if written and ref.buffer.space is Space.REGISTER}
    return min(sum(sums.values()) // 4, MOST_GIVEN)


def _blocks(count: int) -> str:
    return f"{count} block{'s' * (count != 1)}"


def _numbers(now: Occupancy, shared: int) -> dict[str, int | float | str]:
    return {"shared_bytes": shared, "blocks": now.blocks, "warps": now.warps, "blocks_by_threads": now.by_threads,
            "blocks_by_shared": now.by_shared, "blocks_by_registers": now.by_registers}


def _largest(func: Func) -> str:
    return max(func.shared_buffers, key=lambda buffer: buffer.bytes).name if func.shared_buffers else ""


def _where(func: Func) -> tuple[Loc, ...]:
    """The largest shared allocation."""
    if not func.shared_buffers:
        return (func.loc,)
    return (max(func.shared_buffers, key=lambda buffer: buffer.bytes).loc,)
