"""Control flow and places where threads meet, as C++: branches, votes, shuffles, barriers, mbarriers, fences.

In: an ``Instruction``.  Out: a statement.

Source: PTX ISA, Control Flow; Parallel Synchronization and Communication; mbarrier; Miscellaneous.
"""

from __future__ import annotations

from emulator.ptx import Instruction
from emulator.writer import Writer, translates


@translates("bra")
def bra(w: Writer, i: Instruction) -> str:
    target = i.operands[0]
    if target not in w.labels:
        raise w.refuse(i, "there is no such label")
    back = "again(t); " if w.labels[target] <= i.line else ""
    return f"{back}goto {w.label(target)};"


@translates("ret")
def ret(w: Writer, i: Instruction) -> str:
    return f"t.line = {i.line}; return;"


@translates("exit")
def exit_(w: Writer, i: Instruction) -> str:
    return f"t.line = {i.line}; leave(t);"


@translates("trap")
def trap(w: Writer, i: Instruction) -> str:
    return f'fault({i.line}, "trap");'


@translates("pmevent", "brkpt", "griddepcontrol", "setmaxnreg", "membar", "fence", "wgmma.fence")
def nothing(w: Writer, i: Instruction) -> str:
    """What has no effect where memory is one, launches follow each other and registers are many."""
    return ";"


@translates("fence.proxy.async")
def proxy_fence(w: Writer, i: Instruction) -> str:
    return ";" if "global" in i.parts else f"proxy_fence(t, {i.line});"


@translates("nanosleep")
def nanosleep(w: Writer, i: Instruction) -> str:
    return f"poll(t, {i.line});"


# --- of a warp -------------------------------------------------------------------------------------------------------


def flagged(w: Writer, i: Instruction, call: str, flag: str, dtype: str = "u32") -> str:
    """A call with a result and a predicate beside it: ``{flag}`` stands for the address of the latter."""
    target, predicate = w.pair(i.operands[0])
    done = f"bool f = false; const u32 x = {call.replace(flag, '&f')}; {w.put(target, 'x', dtype)}"
    return f"{{ {done} {w.put(predicate, 'f', 'pred') if predicate else ''} }}"


@translates("shfl.sync")
def shfl(w: Writer, i: Instruction) -> str:
    value, lane, clamp, mask = (w.get(x, "b32") for x in i.operands[1:5])
    mode = i.parts[2][0]
    return flagged(w, i, f"shfl(t, {i.line}, '{mode}', {value}, {lane}, {clamp}, {mask}, FLAG)", "FLAG")


@translates("vote.sync")
def vote(w: Writer, i: Instruction) -> str:
    kind = {"all": "a", "any": "y", "uni": "u", "ballot": "b"}[i.parts[2]]
    text = f"vote(t, {i.line}, '{kind}', {w.get(i.operands[1], 'pred')}, {w.get(i.operands[2], 'u32')})"
    return w.put(i.operands[0], text, "u32" if kind == "b" else "pred")


@translates("match.any.sync")
def match_any(w: Writer, i: Instruction) -> str:
    return w.put(i.operands[0], f"match_any(t, {i.line}, {w.get(i.operands[1], i.parts[-1])}, "
                                f"{w.get(i.operands[2], 'u32')})", "u32")


@translates("match.all.sync")
def match_all(w: Writer, i: Instruction) -> str:
    return flagged(w, i, f"match_all(t, {i.line}, {w.get(i.operands[1], i.parts[-1])}, {w.get(i.operands[2], 'u32')}, "
                         f"FLAG)", "FLAG")


@translates("redux.sync")
def redux(w: Writer, i: Instruction) -> str:
    kind, dtype = i.parts[2], i.parts[-1]
    if dtype not in ("u32", "s32", "b32"):
        raise w.refuse(i)
    name = f"RED_{'U' if kind in ('min', 'max') and dtype == 'u32' else ''}{kind.upper()}"
    return w.put(i.operands[0], f"redux(t, {i.line}, {name}, {w.get(i.operands[1], 'u32')}, "
                                f"{w.get(i.operands[2], 'u32')})", "u32")


@translates("elect.sync")
def elect(w: Writer, i: Instruction) -> str:
    return flagged(w, i, f"elect(t, {i.line}, {w.get(i.operands[1], 'u32')}, FLAG)", "FLAG")


@translates("activemask")
def activemask(w: Writer, i: Instruction) -> str:
    return w.put(i.operands[0], "active_mask(t)", "u32")


@translates("bar.warp.sync")
def warp_sync(w: Writer, i: Instruction) -> str:
    return f"warp_sync(t, {i.line}, {w.get(i.operands[0], 'u32')});"


# --- of a block and of a cluster -------------------------------------------------------------------------------------


@translates("bar", "barrier")
def barrier(w: Writer, i: Instruction) -> str:
    parts = [part for part in i.parts if part != "cta"]
    if parts[1] not in ("sync", "arrive", "red"):
        raise w.refuse(i)
    aligned = "true" if parts[0] == "bar" or "aligned" in parts else "false"
    if parts[1] == "red":
        return reduced(w, i, parts)
    number, count = w.get(i.operands[0], "u32"), w.get(i.operands[1], "u32") if len(i.operands) > 1 else "0"
    waits = "true" if parts[1] == "sync" else "false"
    return f"block_barrier(t, {i.line}, {number}, {count}, {waits}, {aligned});"


def reduced(w: Writer, i: Instruction, parts: list[str]) -> str:
    kind = {"popc": "p", "and": "a", "or": "o"}[parts[2]]
    count = w.get(i.operands[2], "u32") if len(i.operands) > 3 else "0"
    number, flag = w.get(i.operands[1], "u32"), w.get(i.operands[-1], "pred")
    text = f"block_reduce(t, {i.line}, '{kind}', {number}, {count}, {flag})"
    return w.put(i.operands[0], text, "u32" if kind == "p" else "pred")


@translates("barrier.cluster")
def cluster_barrier(w: Writer, i: Instruction) -> str:
    return f"cluster_{i.parts[2]}(t, {i.line}, {'false' if 'relaxed' in i.parts else 'true'});"


@translates("mapa")
def mapa(w: Writer, i: Instruction) -> str:
    dtype, rank = i.parts[-1], w.get(i.operands[2], "u32")
    if "shared__cluster" in i.parts:
        base = w.address(i.operands[1])
        return w.put(i.operands[0], f"mapa(t, {i.line}, u32({base}), {rank})", dtype)
    base = w.get(i.operands[1], "u64")
    return w.put(i.operands[0], f"SHARED_WINDOW + mapa(t, {i.line}, u32({base}), {rank})", "u64")


# --- mbarriers -------------------------------------------------------------------------------------------------------


def barrier_address(w: Writer, i: Instruction, operand: str) -> str:
    """A shared address; a generic one loses its window."""
    shared = any(part.startswith("shared") for part in i.parts)
    return w.address(operand) if shared else f"({w.address(operand)} & ~WINDOW_MASK)"


@translates("mbarrier.init", "mbarrier.inval")
def mbarrier_init(w: Writer, i: Instruction) -> str:
    count = f", {w.get(i.operands[1], 'u32')}" if len(i.operands) > 1 else ""
    return f"mbarrier_{i.parts[1]}(t, {i.line}, {barrier_address(w, i, i.operands[0])}{count});"


@translates("mbarrier.arrive", "mbarrier.arrive_drop")
def mbarrier_arrive(w: Writer, i: Instruction) -> str:
    if i.parts[1] == "arrive_drop" or "noComplete" in i.parts:
        raise w.refuse(i)
    operands = list(i.operands)
    target = operands.pop(0) if not operands[0].startswith("[") else "_"
    remote = "true" if "shared__cluster" in i.parts else "false"
    address = barrier_address(w, i, operands[0])
    expects = "expect_tx" in i.parts
    more = w.get(operands[1], "u32") if len(operands) > 1 else "1"
    before = f"mbarrier_expect(t, {i.line}, a, {more}, {remote}); " if expects else ""
    count = "1" if expects else more
    done = w.put(target, f"mbarrier_arrive(t, {i.line}, a, {count}, {remote})", "b64")
    return f"{{ const u64 a = {address}; {before}{done} }}"


@translates("mbarrier.expect_tx", "mbarrier.complete_tx")
def mbarrier_bytes(w: Writer, i: Instruction) -> str:
    verb = i.parts[1].removesuffix("_tx")
    remote = ", true" if verb == "expect" else ""
    return (f"mbarrier_{verb}(t, {i.line}, {barrier_address(w, i, i.operands[0])}, "
            f"{w.get(i.operands[1], 'u32')}{remote});")


@translates("mbarrier.test_wait", "mbarrier.try_wait")
def mbarrier_wait(w: Writer, i: Instruction) -> str:
    parity, waits = "parity" in i.parts, "true" if i.parts[1] == "try_wait" else "false"
    state = w.get(i.operands[2], "u32" if parity else "u64")
    given = f"{state}, true, 0" if parity else f"0, false, {state}"
    address = barrier_address(w, i, i.operands[1])
    return w.put(i.operands[0], f"mbarrier_test(t, {i.line}, {address}, {given}, {waits})", "pred")
