"""Tensor instructions and bulk copies as C++: matrices of warps, wgmma, TMA, st.async.

In: an ``Instruction``.  Out: a statement that calls ``tensor_ops.hpp``.

Source: PTX ISA, Warp Level Matrix, Asynchronous Warpgroup Level Matrix, cp.async.bulk and its kin, st.async.
"""

from __future__ import annotations

import re

from emulator.meetings import barrier_address
from emulator.ptx import WIDTHS, Instruction
from emulator.writer import Writer, translates


def words(w: Writer, operand: str) -> list[str]:
    """The 32-bit words of a vector of registers; one of 64 bits has two."""
    found = []
    for name in w.list(operand):
        wide = w.kernel.registers.get(name) == 64 or name.startswith(("0d", "0D"))
        if wide:
            found += [f"u32({w.get(name, 'b64')})", f"u32({w.get(name, 'b64')} >> 32)"]
        else:
            found.append(w.get(name, "b32"))
    return found


def array(w: Writer, name: str, operand: str) -> str:
    return f"u32 {name}[] = {{{', '.join(words(w, operand))}}};"


def kept(w: Writer, name: str, operand: str) -> str:
    """The words of an array back into registers."""
    lines, at = [], 0
    for register in w.list(operand):
        if w.kernel.registers.get(register) == 64:
            lines.append(w.put(register, f"{name}[{at}] | u64({name}[{at + 1}]) << 32", "b64"))
            at += 2
        else:
            lines.append(w.put(register, f"{name}[{at}]", "b32"))
            at += 1
    return " ".join(lines)


def shared_address(w: Writer, i: Instruction, operand: str) -> str:
    """A shared address; a generic one loses its window."""
    return barrier_address(w, i, operand)


# --- of a warp -------------------------------------------------------------------------------------------------------


def _form(i: Instruction) -> tuple[int, str]:
    count = next(int(part[1]) for part in i.parts if re.fullmatch(r"x[124]", part))
    return count, "true" if "trans" in i.parts else "false"


@translates("ldmatrix.sync.aligned.m8n8")
def ldmatrix(w: Writer, i: Instruction) -> str:
    count, transposed = _form(i)
    return (f"{{ u32 d[4]; ldmatrix(t, {i.line}, {count}, {transposed}, {shared_address(w, i, i.operands[1])}, d); "
            f"{kept(w, 'd', i.operands[0])} }}")


@translates("stmatrix.sync.aligned.m8n8")
def stmatrix(w: Writer, i: Instruction) -> str:
    count, transposed = _form(i)
    return (f"{{ {array(w, 's', i.operands[1])} stmatrix(t, {i.line}, {count}, {transposed}, "
            f"{shared_address(w, i, i.operands[0])}, s); }}")


@translates("movmatrix.sync.aligned")
def movmatrix(w: Writer, i: Instruction) -> str:
    return w.put(i.operands[0], f"movmatrix(t, {i.line}, {w.get(i.operands[1], 'b32')})", "b32")


@translates("mma.sync.aligned")
def mma(w: Writer, i: Instruction) -> str:
    d, a, b, c = i.operands
    size = len(words(w, d))
    return (f"{{ {array(w, 'a', a)} {array(w, 'b', b)} {array(w, 'c', c)} u32 d[{size}]; "
            f'mma(t, {i.line}, "{i.opcode}", a, b, c, d); {kept(w, "d", d)} }}')


# --- of a warpgroup --------------------------------------------------------------------------------------------------


@translates("wgmma.mma_async")
def wgmma(w: Writer, i: Instruction) -> str:
    d, a, b, *rest = i.operands
    numbers = [w.get(x, "s32") for x in rest[1:]]
    in_registers = a.startswith("{")
    first = "0" if in_registers else w.get(a, "u64")
    scales, turns = (numbers[:2] or ["1", "1"]), numbers[2:]
    if in_registers:
        turns = ["0", *turns]
    turns += ["0"] * (2 - len(turns))
    product = f"Product p{{}}; p.a_descriptor = {first}; p.b_descriptor = {w.get(b, 'u64')}; p.scale_d = " \
              f"{w.get(rest[0], 'pred')}; p.scale_a = {scales[0]}; p.scale_b = {scales[1]}; " \
              f"p.transposed_a = {turns[0]}; p.transposed_b = {turns[1]};"
    registers = array(w, "a", a) if in_registers else ""
    return (f"{{ {array(w, 'd', d)} {registers} {product} "
            f'wgmma(t, {i.line}, "{i.opcode}", d, {"a" if in_registers else "nullptr"}, p); {kept(w, "d", d)} }}')


@translates("wgmma.commit_group")
def wgmma_commit(w: Writer, i: Instruction) -> str:
    return f"wgmma_commit(t, {i.line});"


@translates("wgmma.wait_group")
def wgmma_wait(w: Writer, i: Instruction) -> str:
    return f"wgmma_wait(t, {i.line}, {w.get(i.operands[0], 's32')});"


# --- boxes of tensors ------------------------------------------------------------------------------------------------


def box(w: Writer, i: Instruction, operand: str, offsets: str = "") -> str:
    """``[map, {c0, c1}]`` as a Box named ``box``."""
    found = re.fullmatch(r"\[\s*([^,]+),\s*\{(.*)\}\s*\]", operand)
    if found is None:
        raise w.refuse(i, "no coordinates")
    along = [w.get(x.strip(), "s32") for x in found[2].split(",")]
    rank = next(int(part[0]) for part in i.parts if re.fullmatch(r"[1-5]d", part))
    if len(along) != rank:
        raise w.refuse(i, f"{len(along)} coordinates")
    given = f"const u16 o[] = {{{', '.join(w.get(x, 'u16') for x in w.list(offsets))}}};" if offsets else ""
    return (f"const s32 c[] = {{{', '.join(along)}}}; {given} "
            f"const Box box{{{rank}, {w.address('[' + found[1] + ']')}, c, {'o' if offsets else 'nullptr'}}};")


_REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


@translates("cp.async.bulk.tensor")
def tensor_copy(w: Writer, i: Instruction) -> str:
    if i.parts[5] == "global":
        return f'{{ {box(w, i, i.operands[0])} tensor_store(t, {i.line}, box, {w.address(i.operands[1])}, ""); }}'
    operands = list(i.operands)
    to, source, barrier = operands[:3]
    rest = operands[3:]
    offsets = rest.pop(0) if "im2col" in i.parts else ""
    blocks = w.get(rest.pop(0), "u16") if "multicast__cluster" in i.parts else "0"
    return (f"{{ {box(w, i, source, offsets)} tensor_load(t, {i.line}, {w.address(to)}, box, {w.address(barrier)}, "
            f"{blocks}); }}")


@translates("cp.reduce.async.bulk.tensor")
def tensor_reduce(w: Writer, i: Instruction) -> str:
    by = next(part for part in i.parts if part in _REDUCTIONS)
    return f'{{ {box(w, i, i.operands[0])} tensor_store(t, {i.line}, box, {w.address(i.operands[1])}, "{by}"); }}'


@translates("cp.async.bulk.prefetch", "fence.proxy.tensormap")
def prefetched(w: Writer, i: Instruction) -> str:
    return ";"


@translates("prefetch.tensormap", "prefetch.param.tensormap", "prefetch.const.tensormap")
def prefetch_map(w: Writer, i: Instruction) -> str:
    return f"check_map(t, {i.line}, {w.address(i.operands[0])});"


# --- runs of bytes ---------------------------------------------------------------------------------------------------


@translates("cp.async.bulk")
def bulk_copy(w: Writer, i: Instruction) -> str:
    to, source, size = i.operands[:3]
    addresses = f"{w.address(to)}, {w.address(source)}, {w.get(size, 'u32')}"
    if i.parts[3] == "global":
        return f'bulk_store(t, {i.line}, {addresses}, "", "");'
    barrier = w.address(i.operands[3])
    if i.parts[4].startswith("shared"):
        return f"bulk_send(t, {i.line}, {addresses}, {barrier});"
    blocks = w.get(i.operands[4], "u16") if "multicast__cluster" in i.parts else "0"
    return f"bulk_load(t, {i.line}, {addresses}, {barrier}, {blocks});"


@translates("cp.reduce.async.bulk")
def bulk_reduce(w: Writer, i: Instruction) -> str:
    by = next(part for part in i.parts if part in _REDUCTIONS)
    if i.parts[4] != "global":
        raise w.refuse(i)
    to, source, size = i.operands[:3]
    return (f'bulk_store(t, {i.line}, {w.address(to)}, {w.address(source)}, {w.get(size, "u32")}, "{by}", '
            f'"{typed(i.parts[-1])}");')


def typed(name: str) -> str:
    """A type of the instruction as one of numbers: bits are unsigned."""
    return name.replace("b", "u") if re.fullmatch(r"b\d+", name) else name


@translates("cp.async.bulk.commit_group")
def bulk_commit(w: Writer, i: Instruction) -> str:
    return "bulk_commit(t);"


@translates("cp.async.bulk.wait_group")
def bulk_wait(w: Writer, i: Instruction) -> str:
    return f"bulk_wait(t, {i.line}, {w.get(i.operands[0], 's32')}, {'true' if 'read' in i.parts else 'false'});"


# --- elements that threads send --------------------------------------------------------------------------------------


@translates("st.async")
def st_async(w: Writer, i: Instruction) -> str:
    dtype = i.parts[-1]
    target, values, barrier = i.operands
    size = WIDTHS[dtype] // 8 * len(w.list(values))
    return (f"{{ {w.array('s', values, dtype)} async_store(t, {i.line}, {w.address(target)}, "
            f"reinterpret_cast<const u8*>(s), {size}, {w.address(barrier)}); }}")


@translates("red.async")
def red_async(w: Writer, i: Instruction) -> str:
    by = next(part for part in i.parts if part in _REDUCTIONS)
    target, value, barrier = i.operands
    return (f"{{ {w.array('s', value, i.parts[-1])} async_reduce(t, {i.line}, {w.address(target)}, "
            f'reinterpret_cast<const u8*>(s), "{by}", "{typed(i.parts[-1])}", {w.address(barrier)}); }}')


# --- tensor maps -----------------------------------------------------------------------------------------------------


@translates("tensormap.replace")
def map_replace(w: Writer, i: Instruction) -> str:
    from emulator.accesses import pointer

    field, operands = i.parts[i.parts.index("tile") + 1], list(i.operands)
    place = operands.pop(0)
    ord_ = w.get(operands.pop(0), "u32") if len(operands) > 1 else "0"
    p = pointer(w, i, place, 128, "WRITE")
    return f'map_replace(t, {i.line}, {p}, "{field}", {ord_}, {w.get(operands[0], i.parts[-1])});'


@translates("tensormap.cp_fenceproxy")
def map_copy(w: Writer, i: Instruction) -> str:
    site = w.site(i.line)
    to = f"generic_at(t, {w.address(i.operands[0])}, 128, {site}, WRITE)"
    return f"std::memcpy({to}, shared_at(t, {w.address(i.operands[1])}, 128, {i.line}, READ), 128);"
