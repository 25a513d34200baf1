"""Random pipelines, right by construction, and each with one fault put in.

In: a seed.  Out: ``Case``, the text of a kernel that moves tiles of x through a ring of shared memory and writes
``3 * x + 1`` of them, rows reversed; with the names of the faults that it can have.

>>> case = draw(random.Random(0)); run(case, "").ok, run(case, case.faults[0]).ok
(True, False)

How tiles arrive (plain stores, cp.async, bulk copies, TMA), who loads and who computes, what the two sides wait for
and how results leave are drawn apart from each other.  A fault is listed only where the schedule makes it one: to leave
out a wait for an empty stage is none while there are no more tiles than stages.
"""

from __future__ import annotations

import linecache
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import moye as mo

SECONDS = 60.0


@dataclass
class Case:
    """A pipeline: what was drawn, its text as a function of the fault, and which faults it can have."""

    feed: str                                           # plain, cp.async, bulk, tma
    roles: str                                          # all, specialised
    leave: str                                          # direct, tma
    stages: int
    tiles: int
    buffers: int                                        # of what leaves by TMA
    warps: int                                          # that compute
    rows: int
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (f"{self.feed}, {self.roles}, leaves {self.leave}; {self.tiles} tiles of {self.rows}, {self.stages} "
                f"stages, {self.buffers} buffers, {self.warps} warps")

    @property
    def computing(self) -> int:
        """Threads that compute."""
        return 32 * self.warps

    @property
    def threads(self) -> int:
        return self.computing + (32 if self.roles == "specialised" else 0)


class Text:
    """Lines of Python, indented by blocks; ``but(fault, line)`` leaves a line out where that is the fault."""

    def __init__(self, fault: str) -> None:
        self.fault, self.depth, self.lines = fault, 0, list[str]()

    def __call__(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def but(self, fault: str, line: str) -> None:
        if self.fault != fault:
            self(line)

    def either(self, right: Any, **wrong: Any) -> Any:
        """The right thing, or that of the fault; names of faults have _ for blanks."""
        return wrong.get(self.fault.replace(" ", "_"), right)

    def block(self, head: str) -> Indented:
        self(head)
        return Indented(self)


class Indented:
    def __init__(self, text: Text) -> None:
        self.text = text

    def __enter__(self) -> None:
        self.text.depth += 1

    def __exit__(self, *_: object) -> None:
        self.text.depth -= 1


# --- what computes and how it leaves ---------------------------------------------------------------------------------


def group_barrier(case: Case) -> str:
    """A barrier of all threads that compute."""
    return "mo.sync_threads()" if case.roles == "all" else f"mo.barrier_sync(15, {case.computing})"


def compute(t: Text, case: Case, stage: str) -> None:
    """The tile k, from its stage: each thread reads what others have written."""
    if case.leave == "direct":
        with t.block(f"for i in mo.static_range({case.rows // case.computing}):"):
            t(f"at = c + i * {case.computing}")
            t(f"y[at, k] = 3 * s[{case.rows - 1} - at, 0, {stage}] + 1")
        return
    pending = t.either(case.buffers - 1, leaving_wait=case.buffers)
    with t.block("if c == 0:"):
        t.but("no leaving wait", f"mo.tma_store_wait({pending}, read=True)")
        t("pass")
    t.but("no barrier before leaving", group_barrier(case))
    with t.block(f"for i in mo.static_range({case.rows // case.computing}):"):
        t(f"at = c + i * {case.computing}")
        t(f"o[at, 0, k % {case.buffers}] = 3 * s[{case.rows - 1} - at, 0, {stage}] + 1")
    if t.fault == "one fences":
        with t.block("if c == 0:"):
            t("mo.fence_proxy_async()")
    elif t.fault != "fence late":
        t.but("no fence", "mo.fence_proxy_async()")
    t.but("no barrier after writing", group_barrier(case))
    if t.fault == "fence late":
        t("mo.fence_proxy_async()")
    with t.block("if c == 0:"):
        t(f"mo.copyto(Y, gY[:, :, 0, k], o[:, :, k % {case.buffers}])")
        t.but("no commit of leaving", "mo.tma_store_arrive()")


def end(t: Text, case: Case) -> None:
    if case.leave == "tma":
        with t.block("if c == 0:"):
            t.but("no last wait", "mo.tma_store_wait(0)")
            t("pass")


def leaving_faults(case: Case) -> list[str]:
    if case.leave == "direct":
        return []
    faults = ["no fence", "no barrier after writing", "no last wait", "no commit of leaving"]
    if case.computing > 32 or case.roles == "all":
        faults += ["one fences", "fence late"]
    if case.tiles > case.buffers:
        faults += ["no leaving wait", "leaving wait", "no barrier before leaving"]
    return faults


# --- how tiles arrive: every thread loads ----------------------------------------------------------------------------


def plain_by_all(t: Text, case: Case) -> None:
    """One stage at a time through a register, or a ring of stages with one barrier a tile."""
    per, threads = case.rows // case.threads, case.threads

    def load(tile: str) -> None:
        with t.block(f"for i in mo.static_range({per}):"):
            t(f"s[tid + i * {threads}, 0, ({tile}) % {case.stages}] = x[tid + i * {threads}, {tile}]")

    if case.stages == 1:
        with t.block(f"for k in range({case.tiles}):"):
            load("k")
            t.but("no barrier", "mo.sync_threads()")
            compute(t, case, "0")
            t.but("no second barrier", "mo.sync_threads()")
        return
    load("0")
    with t.block(f"for k in range({case.tiles}):"):
        t.but("no barrier", "mo.sync_threads()")
        with t.block(f"if k + 1 < {case.tiles}:"):
            load(t.either("k + 1", wrong_stage=f"k + {case.stages}") if t.fault == "wrong stage" else "k + 1")
        compute(t, case, f"k % {case.stages}")


def cp_async_by_all(t: Text, case: Case) -> None:
    """A ring: ``stages - 1`` tiles ahead, one commit for each step, also in the tail."""
    ahead = max(case.stages - 1, 1)

    def load(tile: str, stage: str) -> None:
        t(f"mo.copyto(copy, thr.partition_D(s[:, :, ({stage}) % {case.stages}]), thr.partition_S(gx[:, :, 0, {tile}]))")

    if case.stages == 1:
        with t.block(f"for k in range({case.tiles}):"):
            load("k", "k")
            t("mo.cp_async_commit()")
            t.but("no wait", "mo.cp_async_wait(0)")
            t.but("no barrier", "mo.sync_threads()")
            compute(t, case, "0")
            t.but("no second barrier", "mo.sync_threads()")
        return
    with t.block(f"for j in mo.static_range({ahead}):"):
        with t.block(f"if j < {case.tiles}:"):
            load("j", "j")
        t("mo.cp_async_commit()")
    with t.block(f"for k in range({case.tiles}):"):
        t.but("no wait", f"mo.cp_async_wait({t.either(ahead - 1, permissive=ahead)})")
        t.but("no barrier", "mo.sync_threads()")
        if t.fault == "barrier first":
            t.lines[-2:] = reversed(t.lines[-2:])
        with t.block(f"if k + {ahead} < {case.tiles}:"):
            load(f"k + {ahead}", t.either(f"k + {ahead}", wrong_stage=f"k + {case.stages}"))
            if t.fault == "commit in the condition":
                t("mo.cp_async_commit()")
        t.but("commit in the condition", "mo.cp_async_commit()")
        compute(t, case, f"k % {case.stages}")


def by_all_faults(case: Case) -> list[str]:
    faults = ["no barrier"] if case.leave == "direct" else []
    if case.feed == "cp.async":
        faults += ["no wait"]
        if case.stages > 1:
            faults += ["permissive"]
            faults += ["barrier first"] if case.leave == "direct" else []
            faults += ["commit in the condition"] if case.stages > 2 and case.tiles > 1 else []
            faults += ["wrong stage"] if case.tiles > case.stages - 1 and case.leave == "direct" else []
    if case.stages == 1 and case.tiles > 1 and case.leave == "direct":
        faults += ["no second barrier"]
    return faults


# --- how tiles arrive: one thread starts copies that complete on an mbarrier -----------------------------------------


def engine_copy(t: Text, case: Case) -> str:
    this, following = f"k % {case.stages}", f"(k + 1) % {case.stages}"
    stage, barrier = t.either(this, copied_to_the_next=following), t.either(this, completes_on_the_next=following)
    if case.feed == "tma":
        return f"mo.copyto(X, s[:, :, {stage}], gX[:, :, 0, k], barrier=(full, {barrier}))"
    return f"mo.copyto(mo.BulkCopy(), s[:, 0, {stage}], x[:, k], barrier=(full, {barrier}), size={case.rows})"


def barriers(t: Text, case: Case) -> None:
    arrivals = case.warps if case.roles == "specialised" else 1
    full = case.roles == "specialised" and case.feed in ("plain", "cp.async")
    t(f"full, empty = mo.mbarrier_array({case.stages}), mo.mbarrier_array({case.stages})")
    with t.block("if tid == 0:"):
        with t.block(f"for i in mo.static_range({case.stages}):"):
            t(f"mo.mbarrier_init(full, i, {32 if full else 1})")
            count = t.either(arrivals, count_too_high=arrivals + 1, count_too_low=arrivals - 1)
            t(f"mo.mbarrier_init(empty, i, {count})")
        t("mo.fence_mbarrier_init()")
    t.but("no barrier after init", "mo.sync_threads()")


def engine_by_all(t: Text, case: Case) -> None:
    """Thread 0 loads up to ``stages`` tiles ahead; a barrier of the block says that a stage is free again."""
    S, T = case.stages, case.tiles
    barriers(t, case)

    def load(tile: str) -> None:
        t(f"k_, k = k, {tile}" if tile != "k" else "k_ = k")
        few = t.either(0, few_bytes=16, many_bytes=-16)
        t(f"mo.mbarrier_arrive_expect_tx(full, k % {S}, {4 * case.rows - few})")
        t(engine_copy(t, case))
        t("k = k_")

    with t.block("if tid == 0:"), t.block(f"for k in mo.static_range({min(S, T)}):"):
        load("k")
    with t.block(f"for k in range({T}):"):
        parity = t.either(f"k // {S} & 1", wrong_parity=f"(k // {S} & 1) ^ 1")
        if t.fault == "one waits":
            with t.block("if tid == 0:"):
                t(f"mo.mbarrier_wait(full, k % {S}, {parity})")
        else:
            t.but("no wait", f"mo.mbarrier_wait(full, k % {S}, {parity})")
        compute(t, case, f"k % {S}")
        t.but("no second barrier", "mo.sync_threads()")
        with t.block(f"if tid == 0 and k + {S} < {T}:"):
            load(f"k + {S}")


def engine_by_all_faults(case: Case) -> list[str]:
    faults = ["no wait", "few bytes", "many bytes", "wrong parity"]
    faults += ["one waits"] if case.leave == "direct" else []
    faults += ["copied to the next", "completes on the next"] if case.stages > 1 else []
    if case.tiles > case.stages and case.leave == "direct":
        faults += ["no second barrier"]
    return faults


# --- how tiles arrive: a warp of its own -----------------------------------------------------------------------------


def specialised(t: Text, case: Case) -> None:
    S, T = case.stages, case.tiles
    barriers(t, case)
    with t.block(f"if tid >= {case.computing}:"):
        inner = t.block(f"if tid == {case.computing}:") if case.feed in ("bulk", "tma") else t.block("if True:")
        with inner, t.block(f"for k in range({T}):"):
            parity = t.either(f"(k // {S} & 1) ^ 1", producer_parity=f"k // {S} & 1")
            t.but("no empty wait", f"mo.mbarrier_wait(empty, k % {S}, {parity})")
            produce(t, case)
    with t.block("else:"):
        with t.block(f"for k in range({T + 1 if t.fault == 'one tile more' else T}):"):
            parity = t.either(f"k // {S} & 1", consumer_parity=f"(k // {S} & 1) ^ 1")
            t.but("no full wait", f"mo.mbarrier_wait(full, k % {S}, {parity})")
            if t.fault == "released first":
                release(t, S)
            compute(t, case, t.either(f"k % {S}", next_stage=f"(k + 1) % {S}"))
            if t.fault != "released first":
                release(t, S)
        end(t, case)


def release(t: Text, stages: int) -> None:
    t.but("no warp barrier", "mo.sync_warp()")
    with t.block("if c % 32 == 0:"):
        t.but("no release", f"mo.mbarrier_arrive(empty, k % {stages})")
        t("pass")


def produce(t: Text, case: Case) -> None:
    S = case.stages
    if case.feed in ("bulk", "tma"):
        few = t.either(0, few_bytes=16, many_bytes=-16)
        t(f"mo.mbarrier_arrive_expect_tx(full, k % {S}, {4 * case.rows - few})")
        t(engine_copy(t, case))
        return
    if t.fault == "full first":
        t(f"mo.mbarrier_arrive(full, k % {S})")
    if case.feed == "plain":
        with t.block(f"for i in mo.static_range({case.rows // 32}):"):
            t(f"s[tid % 32 + i * 32, 0, k % {S}] = x[tid % 32 + i * 32, k]")
    else:
        t(f"mo.copyto(copy, thr.partition_D(s[:, :, k % {S}]), thr.partition_S(gx[:, :, 0, k]))")
        t("mo.cp_async_commit()")
        t.but("no producer wait", "mo.cp_async_wait(0)")
    t.but("full first", f"mo.mbarrier_arrive(full, k % {S})")


def specialised_faults(case: Case) -> list[str]:
    faults = ["no full wait", "consumer parity", "no barrier after init", "one tile more"]
    if case.feed in ("bulk", "tma"):
        faults += ["few bytes", "many bytes"]
        faults += ["copied to the next", "completes on the next"] if case.stages > 1 else []
    else:
        faults += ["full first"]
        faults += ["no producer wait"] if case.feed == "cp.async" else []
    if case.stages > 1:
        faults += ["next stage"]
    if case.tiles > case.stages:
        faults += ["no empty wait", "no release", "count too high", "producer parity"]
        faults += ["released first"] if case.leave == "direct" or case.warps > 1 else []
        faults += ["count too low"] if case.warps > 1 else []
        faults += ["no warp barrier"] if case.leave == "direct" else []
    else:
        faults += ["producer parity"]
    return faults


# --- drawing, text, running ------------------------------------------------------------------------------------------


def draw(rng: random.Random) -> Case:
    feed = rng.choice(["plain", "cp.async", "bulk", "tma"])
    roles, leave = rng.choice(["all", "specialised"]), rng.choice(["direct", "tma"])
    stages, warps = rng.choice([1, 2, 2, 3, 4]), rng.choice([1, 2, 4])
    tiles = rng.choice([1, 2, stages, stages + 1, 2 * stages + 1, 3 * stages])
    case = Case(feed, roles, leave, stages, tiles, rng.choice([1, 2]), warps, rng.choice([128, 256]))
    if roles == "specialised":
        case.faults = specialised_faults(case)
    else:
        case.faults = engine_by_all_faults(case) if feed in ("bulk", "tma") else by_all_faults(case)
    case.faults += leaving_faults(case)
    return case


def text(case: Case, fault: str) -> str:
    """The kernel's source."""
    t = Text(fault)
    t("@mo.kernel")
    with t.block("def pipeline(x: mo.Static, y: mo.Static, X, Y, copy):"):
        t("tid = mo.thread_idx().x")
        t(f"c = tid % {case.computing}")
        if case.feed == "cp.async":
            t("thr = copy.get_slice(tid % 32)" if case.roles == "specialised" else "thr = copy.get_slice(tid)")
            t(f"gx = mo.tile(x, ({case.rows}, 1), (None, None))")
        t(f"s = mo.shared_array(mo.float32, mo.make_layout(({case.rows}, 1, {case.stages})))")
        if case.leave == "tma":
            t(f"o = mo.shared_array(mo.float32, mo.make_layout(({case.rows}, 1, {case.buffers})))")
            t(f"gY = mo.tile(Y.tensor, ({case.rows}, 1), (None, None))")
        if case.feed == "tma":
            t(f"gX = mo.tile(X.tensor, ({case.rows}, 1), (None, None))")
        body(case)(t, case)
        if case.roles == "all":
            end(t, case)
    return "\n".join(t.lines) + "\n"


def body(case: Case) -> Callable[[Text, Case], None]:
    if case.roles == "specialised":
        return specialised
    return {"plain": plain_by_all, "cp.async": cp_async_by_all}.get(case.feed, engine_by_all)


def kernel_of(source: str) -> Any:
    """The kernel of a text, which error messages can quote."""
    name = f"<pipeline {abs(hash(source)):x}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space: dict[str, Any] = {"mo": mo}
    exec(compile(source, name, "exec"), space)
    return space["pipeline"]


def run(case: Case, fault: str) -> tuple[Any, bool]:
    """The report, and whether the result is right."""
    rng = np.random.default_rng(case.tiles)
    x = np.asfortranarray(rng.standard_normal((case.rows, case.tiles)).astype(np.float32))
    y = np.full(x.shape, np.nan, np.float32, order="F")
    tile = mo.make_layout((case.rows, 1))
    X = mo.make_tma_copy(mo.TmaLoad(), x, tile) if case.feed == "tma" else None
    Y = mo.make_tma_copy(mo.TmaStore(), y, tile) if case.leave == "tma" else None
    loading = 32 if case.roles == "specialised" else case.threads
    copy = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32), mo.make_layout((loading, 1)),
                              mo.make_layout((1, 1)))
    report = mo.check(kernel_of(text(case, fault)), lints=False)[1, case.threads](x, y, X, Y, copy)
    return report, bool(np.array_equal(y, 3 * x[::-1] + np.float32(1)))


def verdict(case: Case, fault: str) -> str:
    """What is wrong with the checker's answer about a case; "" if nothing is."""
    try:
        report, right = run(case, fault)
    except mo.MoyeError as error:
        return f"refused: {str(error).splitlines()[0]}"
    if not fault:
        return "" if report.ok and right else f"accused: {[f.code for f in report.findings]}, result right: {right}"
    return "missed" if report.ok else ""


def main(seed: int, count: int) -> int:
    rng, bad, faulty = random.Random(seed), 0, 0
    for _ in range(count):
        case = draw(rng)
        for fault in ["", *case.faults]:
            faulty += bool(fault)
            if wrong := verdict(case, fault):
                bad += 1
                print(f"{case}; fault: {fault or 'none'}: {wrong}\n{text(case, fault)}", flush=True)
    print(f"{count} pipelines, {faulty} faulty twins, {bad} wrong verdicts")
    return bad > 0


if __name__ == "__main__":
    raise SystemExit(main(*(int(x) for x in sys.argv[1:3])))
