"""Registers that hold their values at a point: neither NVVM nor ptxas moves arithmetic on them across it.

In: Pin ops, and the buffers of fences and waits of wgmma.  Out: an empty asm statement for each register, which NVVM
takes for a use and a change of it; of a Pin an instruction behind them, too, across which ptxas moves nothing.  Of a
Landed op two instructions that wait for loads.

    registers(kernel, (S,))       # for (...) wgmma_pin(S[i]);
"""

from __future__ import annotations

from moye.cuda.printing.context import Kernel
from moye.cuda.printing.dispatch import prints
from moye.cuda.printing.intrinsics import constraint
from moye.dtypes import DType
from moye.ir import ops
from moye.ir.nodes import Buffer, Literal, Ref

# ptxas (13.0) moves arithmetic across fences, barriers and stores, and not across an event for profilers.  It does not
# know that there are 32 lanes, so that this one never happens: a predicated instruction is all it costs.
_KEEP_ORDER = (
    "unsigned lane;", 'asm("mov.u32 %0, %%laneid;" : "=r"(lane));',
    'asm volatile("{.reg .pred p; setp.gt.u32 p, %0, 31; @p pmevent 0;}" :: "r"(lane) : "memory");')


@prints(ops.Pin)
def pin(kernel: Kernel, op: ops.Pin) -> None:
    """The registers, and then the order."""
    kernel.values.before(op)
    registers(kernel, tuple(tile.buffer for tile in op.tiles))
    kernel.writer.line(f"{kernel.helpers.function('keep_order', 'void ()', *_KEEP_ORDER)}();")


# An instruction that asks for what was loaded, and then one that ptxas moves nothing across: an event for profilers,
# which happens if all that was loaded makes this number, and does nothing.
_LANDED = ('asm volatile("{.reg .pred p; setp.eq.u32 p, %0, 0x7fc1d1ce; @p pmevent 0;}" :: "r"(words) : "memory");',)


@prints(ops.Landed)
def landed(kernel: Kernel, op: ops.Landed) -> None:
    """One word of each load, all in one."""
    kernel.values.before(op)
    words = dict.fromkeys((*(_element(kernel, ref) for ref in op.elements),
                           *(_word(value.dtype, kernel.values.operand(value).text) for value in op.values)))
    function = kernel.helpers.function("landed", "void (unsigned words)", *_LANDED)
    kernel.writer.line(f"{function}({' | '.join(words)});")


def _element(kernel: Kernel, ref: Ref) -> str:
    """A register as a word."""
    buffer, at = ref.buffer, int(ref.offset.value) if isinstance(ref.offset, Literal) else 0
    if kernel.memory.in_words(buffer):
        return f"{kernel.memory.name(buffer)}[{at * buffer.dtype.bits // 32}]"
    array = kernel.memory.is_array(buffer)
    return _word(buffer.dtype, f"{kernel.memory.name(buffer)}[{at}]" if array else kernel.memory.scalar(buffer, at))


def _word(dtype: DType, text: str) -> str:
    """A value, or a part of it, as a word."""
    if dtype.bits == 128:
        return f"{text}.x"
    if not dtype.is_float or dtype.bits < 8:
        return f"(unsigned)({text})"
    if dtype.bits < 32:
        return f"{text}.bits"
    return f"__float_as_uint({text})" if dtype.bits == 32 else f"(unsigned)__double_as_longlong({text})"


def registers(kernel: Kernel, buffers: tuple[Buffer, ...]) -> None:
    """No access to these registers moves across this point, as far as NVVM goes."""
    for buffer in buffers:
        memory = kernel.memory
        if memory.in_words(buffer):
            name = _function(kernel, "unsigned", "r")
            count = -(-(buffer.elements or 0) * buffer.dtype.bits // 32)
        else:
            name, count = _of(kernel, buffer.dtype), buffer.elements or 0
        if not memory.is_array(buffer):
            for scalar in memory.scalars(buffer):
                kernel.writer.line(f"{name}({scalar});")
            continue
        with kernel.nest([(count, kernel.indices[0])]):
            at = kernel.indices[0] if count > 1 else "0"
            kernel.writer.line(f"{name}({memory.name(buffer)}[{at}]);")


def _of(kernel: Kernel, dtype: DType) -> str:
    """The function for one element; elements below 16 bits, and bools, go through a word."""
    ctype = kernel.helpers.ctype(dtype)
    if dtype.is_float:
        return _function(kernel, ctype, constraint(dtype), "x" if dtype.bits >= 32 else "x.bits", dtype.bits)
    return _function(kernel, ctype, "r" if dtype.bits < 32 else constraint(dtype), bits=dtype.bits)


def _function(kernel: Kernel, ctype: str, letter: str, place: str = "x", bits: int = 32) -> str:
    if bits >= 32 or (bits == 16 and place != "x"):
        body: tuple[str, ...] = (f'asm volatile("" : "+{letter}"({place}) :: "memory");',)
    else:
        body = (f"unsigned y = {place};", 'asm volatile("" : "+r"(y) :: "memory");',
                f"{place} = ({'unsigned char' if place != 'x' else ctype})y;")
    return kernel.helpers.function("wgmma_pin", f"void ({ctype}& x)", *body, overload=ctype)
