"""Stores to other blocks that complete on an mbarrier there, as calls of inline functions.

In: ``ops.AsyncStore``.  Out: lines such as ``st_async_v2_f32(s_1 + 8 * tid, a, b, full_1);``.

    store(kernel, op)

A function takes (address, values, mbarrier); both addresses are numbers of the cluster's window.
Source: PTX ISA, st.async, red.async.
"""

from __future__ import annotations

from moye.cuda.printing.context import Kernel
from moye.cuda.printing.dispatch import prints
from moye.cuda.printing.intrinsics import Intrinsics
from moye.ir import ops

_COMPLETES = "shared::cluster.mbarrier::complete_tx::bytes"
_REGISTERS = {"f32": "f", "f64": "d"}


@prints(ops.AsyncStore)
def store(kernel: Kernel, op: ops.AsyncStore) -> None:
    """One access."""
    kernel.values.before(op)
    memory = kernel.memory
    to, bar = (memory.peer_address(ref, memory.offset(ref)).text for ref in (op.dst, op.barrier))
    values = [kernel.values.operand(value).text for value in op.values]
    kernel.writer.line(f"{_function(kernel.helpers, op)}({', '.join((to, *values, bar))});")


def _function(helpers: Intrinsics, op: ops.AsyncStore) -> str:
    """The inline function of a dtype, a number of elements and what becomes of them."""
    dtype, count = op.dst.dtype, len(op.values)
    if op.by is None:
        ptx_type = f"{'f' if dtype.is_float else 'b'}{dtype.bits}"
        vector = f"v{count}." if count > 1 else ""
        name, head = f"st_async_{vector}{ptx_type}".replace(".", "_"), f"st.async.weak.{_COMPLETES}.{vector}{ptx_type}"
    else:
        ptx_type = _combined(op.by, dtype.bits, signed=dtype.is_signed)
        name, head = f"red_async_{op.by}_{ptx_type}", f"red.async.relaxed.cluster.{_COMPLETES}.{op.by}.{ptx_type}"
    letter = _REGISTERS.get(ptx_type, "l" if dtype.bits == 64 else "r")
    names = [f"x{i}" for i in range(count)] if count > 1 else ["x"]
    places = ", ".join(f"%{i + 1}" for i in range(count))
    values = f"{{{places}}}" if count > 1 else places
    inputs = ", ".join(f'"{letter}"({each})' for each in names)
    parameters = ", ".join(f"{helpers.ctype(dtype)} {each}" for each in names)
    return helpers.function(name, f"void (unsigned address, {parameters}, unsigned bar)",
                            f'asm volatile("{head} [%0], {values}, [%{count + 1}];"',
                            f'             :: "r"(address), {inputs}, "r"(bar) : "memory");',
                            arch=90, what="asynchronous stores to other blocks")


def _combined(by: str, bits: int, *, signed: bool) -> str:
    """The type of red.async: bits are bits, and sums of 64 bits are the same with a sign and without one."""
    if by in ("and", "or", "xor"):
        return f"b{bits}"
    return f"{'s' if signed and bits == 32 else 'u'}{bits}"
