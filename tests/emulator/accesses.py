"""Accesses of memory as C++: loads, stores, atomics, copies by cp.async, prefetches, calls.

In: an ``Instruction``.  Out: a statement in which every access is checked for its bounds.

Source: PTX ISA, ld, st, atom, red, cp.async, Cache Operators, Memory Consistency Model.
"""

from __future__ import annotations

import re

from emulator.ptx import WIDTHS, Instruction
from emulator.writer import TYPES, Writer, translates

SPACES = ("global", "shared", "shared__cta", "shared__cluster", "local", "param", "param__entry", "param__func",
          "const")
_ORDERED = ("volatile", "relaxed", "acquire", "release", "mmio")


def space_of(w: Writer, i: Instruction, operand: str) -> str:
    """The space of an access: that of the opcode; generic ones are empty."""
    found = next((part for part in i.parts[1:] if part in SPACES), "")
    same = {"shared__cta": "shared", "param__entry": "param", "param__func": "param", "const": "global"}
    return same.get(found, found)


def pointer(w: Writer, i: Instruction, operand: str, size: int, access: str) -> str:
    """A host pointer to ``size`` bytes at an address, checked."""
    space, address = space_of(w, i, operand), w.address(operand)
    if space == "param":
        return f"reinterpret_cast<u8*>({address})"
    if space == "shared":
        return f"shared_at(t, {address}, {size}, {i.line}, {access})"
    if space == "shared__cluster":
        return f"cluster_at(t, {address}, {size}, {i.line}, {access})"
    if space == "local":
        return f"local_at(t, {address}, {size}, {i.line})"
    site = w.site(i.line)
    if space == "global":
        return f"global_at({address}, {size}, {site}, {access})"
    return f"generic_at(t, {address}, {size}, {site}, {access})"


def dtype_of(i: Instruction) -> tuple[str, int]:
    return i.parts[-1], WIDTHS[i.parts[-1]] // 8


@translates("ld", "ldu")
def ld(w: Writer, i: Instruction) -> str:
    dtype, size = dtype_of(i)
    targets = w.list(i.operands[0])
    access = "CONSTANT_READ" if "nc" in i.parts else "READ"
    p = pointer(w, i, i.operands[1], size * len(targets), access)
    raw = {"f32": "u32", "f64": "u64"}.get(dtype, dtype)
    moved = [w.put(target, f"get<{TYPES[raw]}>(m + {n * size})", raw) for n, target in enumerate(targets)]
    poll = f" poll(t, {i.line});" if any(part in _ORDERED for part in i.parts) else ""
    return f"{{ const u8* m = {p}; {' '.join(moved)}{poll} }}"


@translates("st")
def st(w: Writer, i: Instruction) -> str:
    dtype, size = dtype_of(i)
    sources = w.list(i.operands[1])
    p = pointer(w, i, i.operands[0], size * len(sources), "WRITE")
    word = f"u{size * 8}"
    moved = [f"put<{word}>(m + {n * size}, {w.word(source, dtype)});" for n, source in enumerate(sources)]
    return f"{{ u8* m = {p}; {' '.join(moved)} }}"


# --- atomics ---------------------------------------------------------------------------------------------------------

_KINDS = {"and": "a & b", "or": "a | b", "xor": "a ^ b", "exch": "b", "add": "a + b", "inc": "atomic_inc(a, b)",
          "dec": "atomic_dec(a, b)", "min": "a < b ? a : b", "max": "a > b ? a : b"}
_HALVES = {"f16": "H", "bf16": "B"}


def combined(kind: str, dtype: str) -> str:
    """What an atomic operation makes of ``a`` and ``b``."""
    half = _HALVES.get(dtype.removesuffix("x2"))
    if half is not None and kind in ("add", "min", "max"):
        function = f"{half}::{kind}"
        return f"{f'pairwise<{function}>' if dtype.endswith('x2') else function}(a, b)"
    if dtype in ("f32", "f64") and kind in ("add", "min", "max"):
        return {"add": "xadd(a, b)", "min": "fmin2(a, b)", "max": "fmax2(a, b)"}[kind]
    return _KINDS[kind]


def one_atomic(w: Writer, at: int, kind: str, dtype: str, value: str, swap: str) -> str:
    """One element: read, combine, write, and note whether it is another one now."""
    cpp = TYPES[dtype]
    text = f"const {cpp} b{at} = {w.get(value, dtype)}, a{at} = get<{cpp}>(m + {at});"
    formula = re.sub(r"\b([ab])\b", rf"\g<1>{at}", combined(kind, dtype) if kind != "cas" else "a == b ? SWAP : a")
    formula = formula.replace("SWAP", w.get(swap, dtype) if swap else "")
    return f"{text} const {cpp} n{at} = {cpp}({formula}); if (n{at} != a{at}) ++changes; put<{cpp}>(m + {at}, n{at});"


@translates("atom", "red")
def atom(w: Writer, i: Instruction) -> str:
    dtype, size = dtype_of(i)
    kind = next((part for part in i.parts[1:] if part in (*_KINDS, "cas")), "")
    returns = i.parts[0] == "atom"
    operands = list(i.operands)
    target = w.list(operands.pop(0)) if returns else []
    place, values = operands[0], w.list(operands[1])
    if not kind or (kind in ("and", "or", "xor") and dtype[0] == "f"):
        raise w.refuse(i)
    swaps = w.list(operands[2]) if kind == "cas" else [""] * len(values)
    p = pointer(w, i, place, size * len(values), "ATOMIC")
    steps = [one_atomic(w, n * size, kind, dtype, value, swap)
             for n, (value, swap) in enumerate(zip(values, swaps, strict=True))]
    kept = [w.put(name, f"a{n * size}", dtype) for n, name in enumerate(target)]
    poll = f" poll(t, {i.line});" if returns and target != ["_"] else ""
    return f"{{ u8* m = {p}; {' '.join(steps)} {' '.join(kept)}{poll} }}"


# --- copies that threads start ---------------------------------------------------------------------------------------


@translates("cp.async")
def cp(w: Writer, i: Instruction) -> str:
    parts = i.parts
    if parts[2] == "commit_group":
        return "cp_async_commit(t);"
    if parts[2] == "wait_all":
        return f"cp_async_wait(t, {i.line}, -1);"
    if parts[2] == "wait_group":
        return f"cp_async_wait(t, {i.line}, s32({w.get(i.operands[0], 'u32')}));"
    if parts[2] == "mbarrier":
        counted = "false" if "noinc" in parts else "true"
        address = w.address(i.operands[0])
        return f"cp_async_arrive(t, {i.line}, u32({address}), {counted});"
    size = i.operands[2]
    extra = i.operands[3] if len(i.operands) > 3 and "cache_hint" not in i.opcode else ""
    if "cache_hint" in i.opcode and len(i.operands) > 4:
        extra = i.operands[3]
    read = w.get(size, "u32")
    if extra:
        flag = w.kernel.registers.get(extra.lstrip("!")) == 1
        read = f"({w.get(extra, 'pred')} ? 0 : {read})" if flag else w.get(extra, "u32")
    return (f"cp_async(t, {w.site(i.line)}, {w.address(i.operands[0])}, {w.address(i.operands[1])}, "
            f"{w.get(size, 'u32')}, {read});")


@translates("prefetch", "prefetchu", "discard", "applypriority")
def prefetch(w: Writer, i: Instruction) -> str:
    return f"(void)({w.address(i.operands[0])});"


@translates("createpolicy")
def createpolicy(w: Writer, i: Instruction) -> str:
    return w.put(i.operands[0], "0ull", "b64")


@translates("call")
def call(w: Writer, i: Instruction) -> str:
    own = [name for name in w.functions if name in i.operands]
    if own:
        names = [name.strip() for x in i.operands if x.startswith("(") for name in x.strip("() ").split(",")]
        given = [f"reinterpret_cast<u8*>({w.address_of(name)})" for name in names if name]
        return f"v_{own[0].replace('$', 'S')}({', '.join(['t', *given])});"
    names = [name for name in ("vprintf", "__assertfail") if name in i.operands]
    if not names:
        raise w.refuse(i)
    if names == ["__assertfail"]:
        return f'fault({i.line}, "an assertion of the kernel fails");'
    result = i.operands[0].strip("() ")
    return f"put<u32>(reinterpret_cast<u8*>({w.address_of(result)}), 0);"
