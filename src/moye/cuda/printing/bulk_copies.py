"""Bulk copies without tensor maps as calls of inline functions, one for each form.

In: ``ops.BulkCopy``.  Out: lines such as ``bulk_load(sX_s + 4096 * stage, &X[1024 * k], 4096, full_s + 8 * stage);``.

    copy(kernel, op)

A function takes (destination, source, bytes) and what its name says beside them: a mask of blocks, an L2 policy.
Source: PTX ISA, cp.async.bulk, cp.reduce.async.bulk, cp.async.bulk.prefetch.
"""

from __future__ import annotations

from moye.atoms.bulk import ptx_type
from moye.cuda.printing.cache_hints import POLICIES
from moye.cuda.printing.context import Kernel
from moye.cuda.printing.dispatch import prints
from moye.cuda.printing.expressions import Text
from moye.cuda.printing.intrinsics import Intrinsics
from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import Ref

_WHAT = "bulk copies"
_PTX = {"load": "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes",
        "send": "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes",
        "store": "cp.async.bulk.global.shared::cta.bulk_group",
        "reduce": "cp.reduce.async.bulk.global.shared::cta.bulk_group",
        "prefetch": "cp.async.bulk.prefetch.L2.global"}
_ADDRESSES = ("target", "source", "bar")


@prints(ops.BulkCopy)
def copy(kernel: Kernel, op: ops.BulkCopy) -> None:
    """One run."""
    kernel.values.before(op)
    arguments = [_address(kernel, ref).text for ref in (op.dst, op.src) if ref is not None]
    arguments.append(kernel.values.operand(op.bytes).text)
    if op.barrier is not None:
        arguments.append(_address(kernel, op.barrier).text)
    if op.multicast is not None:
        arguments.append(kernel.values.operand(op.multicast).text)
    if op.hint is not None:
        arguments.append(POLICIES[op.hint])
    kernel.writer.line(f"{_function(kernel.helpers, op)}({', '.join(arguments)});")


def _address(kernel: Kernel, ref: Ref) -> Text:
    """A pointer to global memory, else an address of the shared window."""
    memory = kernel.memory
    if ref.buffer.space is Space.GLOBAL:
        return memory.address(ref, memory.offset(ref))
    if ref.buffer.space is Space.CLUSTER:
        return memory.peer_address(ref, memory.offset(ref))
    return memory.shared_address(ref, memory.offset(ref))


def _function(helpers: Intrinsics, op: ops.BulkCopy) -> str:
    """The inline function of a kind and options."""
    name, ptx = f"bulk_{op.kind}", _PTX[op.kind]
    if op.multicast is not None:
        name, ptx = f"{name}_multicast", f"{ptx}.multicast::cluster"
    if op.hint is not None:
        name, ptx = f"{name}_hint", f"{ptx}.L2::cache_hint"
    if op.kind == "reduce":
        name, ptx = f"{name}_{op.by}_{op.src.dtype.name}", f"{ptx}.{ptx_type(op.by, op.src.dtype)}"
    fields = [_parameter(ref, place) for ref, place in ((op.dst, "target"), (op.src, "source")) if ref is not None]
    fields.append(("unsigned", "bytes", "r"))
    if op.barrier is not None:
        fields.append(("unsigned", "bar", "r"))
    if op.multicast is not None:
        fields.append(("unsigned short", "mask", "h"))
    if op.hint is not None:
        fields.append(("unsigned long long", "policy", "l"))
    parameters = ", ".join(f"{ctype} {field}" for ctype, field, _ in fields)
    places = ", ".join(f"[%{i}]" if field in _ADDRESSES else f"%{i}" for i, (_, field, _) in enumerate(fields))
    inputs = ", ".join(f'"{letter}"({field})' for _, field, letter in fields)
    return helpers.function(name, f"void ({parameters})", f'asm volatile("{ptx} {places};"',
                            f'             :: {inputs} : "memory");', arch=90, what=_WHAT)


def _parameter(ref: Ref, name: str) -> tuple[str, str, str]:
    """(C type, name, register) of an address: a pointer to global memory, or a number of the shared window."""
    if ref.buffer.space is not Space.GLOBAL:
        return "unsigned", name, "r"
    return "const void*" if name == "source" else "void*", name, "l"
