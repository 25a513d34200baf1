"""Loads and stores of global memory that tell the caches how long to keep what they bring.

In: a type of C, one element or a vector of up to 16 bytes, and a copy with hints.  Out: the name of an inline function.

    load(helpers, dt.float32, "float4", mo.AutoCopy(hint="evict_first"))    # 'ld_evict_first_float4': (pointer)

A priority is told to L1 by the instruction and to L2 by a policy, as of TMA copies.
"""

from __future__ import annotations

from moye.atoms.atom import CopyOp
from moye.cuda.printing.intrinsics import Intrinsics, output, register_input
from moye.cuda.printing.peers import asm_lines, vector_operands
from moye.dtypes import DType

POLICIES = {"evict_first": "0x12F0000000000000ull", "evict_last": "0x14F0000000000000ull"}


def load(helpers: Intrinsics, dtype: DType, ctype: str | None, op: CopyOp) -> str:
    """ld.global with hints: (pointer) -> one element, or a ``ctype`` that holds several."""
    if ctype is None:
        ctype = helpers.ctype(dtype)
        declared, out, result = output(dtype)
        kind, _, places = f"b{dtype.bits} %0".partition(" ")
        outputs, place = f'"={out}', 1
    else:
        declared, result = f"{ctype} y;", "return y;"
        kind, names, letter = vector_operands(ctype, 0)
        kind, _, places = kind.partition(" ")
        outputs, place = ", ".join(f'"={letter}"(y{name})' for name in names), len(names)
    words, policy = _hints(op, loads=True)
    more = f", %{place + 1}" if policy else ""
    body = asm_lines(f"ld.global{words}.{kind} {places}, [%{place}]{more};", f': {outputs} : "l"(p){policy}')
    return helpers.function(f"ld{_name(op, loads=True)}_{ctype.replace(' ', '_')}", f"{ctype} (const void* p)",
                            declared, *body, result)


def store(helpers: Intrinsics, dtype: DType, ctype: str | None, op: CopyOp) -> str:
    """st.global with a hint: (pointer, one element or a ``ctype`` that holds several)."""
    if ctype is None:
        ctype = helpers.ctype(dtype)
        kind, places, inputs, last = f"b{dtype.bits}", "%1", register_input(dtype, "x"), 1
    else:
        kind, names, letter = vector_operands(ctype, 1)
        kind, _, places = kind.partition(" ")
        inputs, last = ", ".join(f'"{letter}"(x{name})' for name in names), len(names)
    words, policy = _hints(op, loads=False)
    more = f", %{last + 1}" if policy else ""
    body = asm_lines(f"st.global{words}.{kind} [%0], {places}{more};", f':: "l"(p), {inputs}{policy}')
    return helpers.function(f"st{_name(op, loads=False)}_{ctype.replace(' ', '_')}", f"void (void* p, {ctype} x)",
                            *body)


def _hints(op: CopyOp, *, loads: bool) -> tuple[str, str]:
    """The words of the instruction, and the operand with L2's policy."""
    policy = POLICIES.get(op.hint)
    words = (f".L1::{op.hint}" if op.hint else "") + (".L2::cache_hint" if policy else "")
    words += f".L2::{op.prefetch}B" if loads and op.prefetch else ""
    return words, f', "l"({policy})' if policy else ""


def _name(op: CopyOp, *, loads: bool) -> str:
    prefetch = f"_prefetch_{op.prefetch}" if loads and op.prefetch else ""
    return (f"_{op.hint}" if op.hint else "") + prefetch
