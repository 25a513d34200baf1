"""ldmatrix and stmatrix: one inline function per shape, 32-bit registers in, out.

In: a Copy whose atom moves matrices.  Out: one call per instruction.

    copy(kernel, op)     # ldmatrix_x4(r0, r1, r2, r3, sA_s + 2 * (t5 + 64 * i)); ...

Values narrower than 32 bits leave and enter registers in words, the first lowest.
"""

from __future__ import annotations

from itertools import pairwise

from moye.atoms.atom import CopyOp
from moye.cuda.printing import vectors
from moye.cuda.printing.context import Kernel
from moye.cuda.printing.expressions import Text, bits_of, from_bits
from moye.cuda.printing.tiles import Steps, merged
from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import TileRef


def copy(kernel: Kernel, op: ops.Copy) -> None:
    """Rows of shared memory to the registers of a warp, or back."""
    loads = op.src.buffer.space is Space.SHARED
    memory, registers = (op.src, op.dst) if loads else (op.dst, op.src)
    space = merged(op.extents, [memory.strides, registers.strides])
    for operand in op.operands():
        kernel.values.evaluated(operand)
    kernel.values.before(op)
    name = _function(kernel, op.atom, loads)
    with kernel.nest(space.loops(kernel)):
        address = kernel.memory.shared_address(memory, kernel.memory.offset(memory, space.steps(kernel, 0)))
        steps = space.steps(kernel, 1)
        if loads:
            _load(kernel, op, name, address, steps)
        else:
            words = [_word(kernel, registers, steps, part) for part in _parts(op, registers)]
            kernel.writer.line(f"{name}({address.text}, {', '.join(word.text for word in words)});")


def _parts(op: ops.Copy, ref: TileRef) -> list[tuple[int, ...]]:
    """The register offsets of the values of each 32-bit register."""
    each = 32 // ref.dtype.bits
    return [op.registers[i:i + each] for i in range(0, len(op.registers), each)]


def _whole(kernel: Kernel, ref: TileRef, steps: Steps, part: tuple[int, ...]) -> Text | None:
    """A word of registers that holds just these values, as an lvalue."""
    if any(b - a != 1 for a, b in pairwise(part)):
        return None
    at = kernel.memory.word(ref, steps, part[0], len(part))
    return None if at is None else Text(f"{kernel.memory.name(ref.buffer)}[{at.text}]")


def _word(kernel: Kernel, ref: TileRef, steps: Steps, part: tuple[int, ...]) -> Text:
    """The values of one 32-bit register as an unsigned number."""
    whole = _whole(kernel, ref, steps, part)
    if whole is not None:
        return whole
    values = [kernel.memory.element(ref, kernel.memory.offset(ref, steps, value)) for value in part]
    return vectors.packed(kernel, ref.dtype, values) if len(part) > 1 else bits_of(ref.dtype, values[0])


def _load(kernel: Kernel, op: ops.Copy, name: str, address: Text, steps: Steps) -> None:
    """A call whose results go to words of registers, or through words of their own to the values."""
    ref, memory = op.dst, kernel.memory
    parts = _parts(op, ref)
    places = [_whole(kernel, ref, steps, part) for part in parts]
    fresh = {i: kernel.names.fresh(f"w{i}") for i, place in enumerate(places) if place is None}
    if fresh:
        kernel.writer.line(f"unsigned {', '.join(fresh.values())};")
    results = [fresh[i] if place is None else place.text for i, place in enumerate(places)]
    kernel.writer.line(f"{name}({', '.join(results)}, {address.text});")
    for i, word in fresh.items():
        for lane, value in enumerate(parts[i]):
            whole = Text(word)
            number = vectors.part_of_word(kernel, whole, ref.dtype, lane) if len(parts[i]) > 1 \
                else from_bits(ref.dtype, whole, kernel.helpers)
            kernel.writer.line(memory.set(ref, memory.offset(ref, steps, value), number))


def _function(kernel: Kernel, atom: CopyOp, loads: bool) -> str:
    """The inline function of one shape."""
    count = atom.matrices
    name = f"{'ldmatrix' if loads else 'stmatrix'}_x{count}{'_trans' if atom.transpose else ''}"
    registers = [f"r{i}" for i in range(count)]
    places = ", ".join(f"%{i if loads else i + 1}" for i in range(count))
    operands = ", ".join(f'"{"=r" if loads else "r"}"({r})' for r in registers)
    if loads:
        parameters = ", ".join([*(f"unsigned& {r}" for r in registers), "unsigned src_smem"])
        body = f'asm volatile("{atom.ptx} {{{places}}}, [%{count}];" : {operands} : "r"(src_smem) : "memory");'
    else:
        parameters = ", ".join(["unsigned dst_smem", *(f"unsigned {r}" for r in registers)])
        body = f'asm volatile("{atom.ptx} [%0], {{{places}}};" :: "r"(dst_smem), {operands} : "memory");'
    return kernel.helpers.function(name, f"void ({parameters})", body, arch=atom.arch,
                                   what=f"{'ldmatrix' if loads else 'stmatrix'} instructions")
