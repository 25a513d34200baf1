"""ldmatrix and stmatrix: one inline function per shape, 32-bit registers in, out.

In: a Copy whose atom moves matrices.  Out: one call per instruction.

>>> copy(kernel, op)     # ldmatrix_x4(r0, r1, r2, r3, sA_s + 2 * (t5 + 64 * i)); ...

Values narrower than 32 bits leave and enter registers in words, the first lowest.
"""

from __future__ import annotations

from moye.atoms.atom import CopyOp
from moye.cuda import vectors
from moye.cuda.expressions import Text, bits_of, from_bits, total
from moye.cuda.kernel import Kernel
from moye.cuda.tiles import merged
from moye.dtypes import DType, Space
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
        at = kernel.memory.offset(registers, space.steps(kernel, 1))
        places = [_element(kernel, registers, at, value) for value in op.registers]
        if loads:
            _load(kernel, name, address, places, registers.dtype)
        else:
            _store(kernel, name, address, places, registers.dtype)


def _element(kernel: Kernel, ref: TileRef, at: Text, value: int) -> Text:
    return kernel.memory.element(ref, total([at, Text(str(value))]))


def _load(kernel: Kernel, name: str, address: Text, places: list[Text], dtype: DType) -> None:
    per_word = 32 // dtype.bits
    words = [kernel.names.fresh(f"w{i}") for i in range(len(places) // per_word)]
    kernel.writer.line(f"unsigned {', '.join(words)};")
    kernel.writer.line(f"{name}({', '.join(words)}, {address.text});")
    for i, place in enumerate(places):
        value = vectors.part_of_word(kernel, Text(words[i // per_word]), dtype, i % per_word) if per_word > 1 \
            else from_bits(dtype, Text(words[i]), kernel.helpers)
        kernel.writer.line(f"{place.text} = {value.text};")


def _store(kernel: Kernel, name: str, address: Text, places: list[Text], dtype: DType) -> None:
    per_word = 32 // dtype.bits
    words = [vectors.packed(kernel, dtype, places[i:i + per_word]) if per_word > 1
             else Text(bits_of(dtype, places[i]).text) for i in range(0, len(places), per_word)]
    kernel.writer.line(f"{name}({address.text}, {', '.join(word.text for word in words)});")


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
    return kernel.helpers.function(name, f"void ({parameters})", body, arch=atom.arch)
