"""Random programs of warps that synchronise in every way, right ones and such with one change, against a model.

    python tests/fuzz/orders.py 1000 200                # first seed, programs

In: a seed.  Out: ``Plan``: stores, loads, cp.async, bulk copies, mbarriers, named barriers, warp syncs, proxy fences
and cluster barriers, warp by warp; ``changed``: with one operation left out, swapped or altered.

A plan grows by one interleaving in which the model of ``order_model.py`` finds nothing.  Then the model plays others:
the checker must say nothing where none of them goes wrong, and something where all do.
"""

from __future__ import annotations

import copy
import linecache
import random
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "src")]

import numpy as np

import moye as mo
from fuzz import command
from fuzz.order_model import Op, Plan, State, Violation, verdict

KINDS = ("write", "read", "warp", "vote", "named", "named arrive", "arrive", "wait", "cp.async", "cp.async wait",
         "cp.async arrive", "load", "fence", "store", "bulk wait", "cluster", "commit", "bulk commit", "send", "turns")
ALWAYS = ("write", "read", "named", "wait", "arrive", "warp", "turns")
ORDERS = {"warp", "vote", "named", "named arrive", "arrive", "wait", "commit", "cp.async wait", "cp.async arrive",
          "fence", "bulk commit", "bulk wait", "expect"}
WHOLE = ("all", "all", "lane 0")


class Draft:
    """A plan that grows."""

    def __init__(self, seed: str) -> None:
        self.rng = rng = random.Random(seed)
        blocks, warps = rng.choice([(1, 2), (1, 2), (1, 3), (1, 3), (2, 1), (2, 2)])
        counts = [rng.choice([1, 1, 2, 32, 32, 33, 64]) for _ in range(rng.choice([1, 2, 3]))]
        self.plan = plan = Plan(blocks, warps, rng.choice([2, 3, 4]), counts)
        plan.programs, plan.tails = ([[] for _ in plan.everybody] for _ in range(2))
        self.state = State(plan)

    def grown(self) -> Plan:
        rng, plan = self.rng, self.plan
        kinds, size = [*rng.sample(KINDS, 13), *ALWAYS, "read", "wait"], rng.randint(5, 17) * len(plan.everybody) + 6
        for _ in range(500):
            self.take(self.drawn(rng.choice(kinds), rng.choice(plan.everybody)))
            if sum(map(len, plan.programs)) > size:
                break
        for warp, body in enumerate(plan.programs):
            used = {op[0] for op in body}
            plan.tails[warp] = [("cp.async wait", None)] if "cp.async" in used else []
            plan.tails[warp] += [("bulk commit",), ("bulk wait", 0, False)] if "store" in used else []
            plan.tails[warp] += [("cluster arrive",), ("cluster wait",)] if plan.blocks == 2 else []
        return plan

    def take(self, items: list[tuple[int, Op]]) -> None:
        """Operations of warps, one after the other, if nothing is wrong with them."""
        state = copy.deepcopy(self.state)
        try:
            for warp, op in items:
                while not state.enabled(warp, op):
                    if not state.events:
                        return
                    state.complete(self.rng.randrange(len(state.events)))
                state.step(warp, op)
        except Violation:
            return
        if not state.waiting:
            self.state = state
            for warp, op in items:
                self.plan.programs[warp].append(op)

    def drawn(self, kind: str, warp: int) -> list[tuple[int, Op]]:
        rng, plan = self.rng, self.plan
        block, cell, i = warp // plan.warps, rng.randrange(plan.cells), rng.randrange(len(plan.counts))
        owner = int(plan.blocks == 2 and rng.random() < 0.35)
        single: dict[str, Op] = {
            "write": ("write", owner, cell, rng.choice([0, 0, 1]), rng.choice(WHOLE)),
            "read": ("read", owner, cell, rng.choice([0, 1, 1]), "all"), "warp": ("warp",), "vote": ("vote",),
            "commit": ("commit",),
            "arrive": ("arrive", i, owner, rng.choice(["all", "lane 0"])),
            "cp.async": ("cp.async", cell, rng.choice([0, 1])),
            "cp.async wait": ("cp.async wait", rng.choice([None, 0, 1, 2])), "cp.async arrive": ("cp.async arrive", i),
            "load": ("load", i, cell, 128), "fence": ("fence", rng.choice(WHOLE)), "store": ("store", cell),
            "bulk commit": ("bulk commit",), "bulk wait": ("bulk wait", rng.choice([0, 0, 1]), rng.random() < 0.5)}
        written = [(warp, op) for op in (("write", 0, cell, 0, "all"), ("fence", "all"), ("warp",))]
        if kind == "store" and rng.random() < 0.7:
            return [*written, (warp, single[kind])]
        if kind in single:
            return [(warp, single[kind])]
        if kind == "wait":
            phase = self.state.barriers[block, i].phase
            parity = phase if self.state.events and rng.random() < 0.5 else phase - 1
            known = phase or self.state.events or rng.random() < 0.05
            return [(warp, ("wait", i, parity & 1, rng.choice(["all", *WHOLE])))] if known else []
        if plan.blocks == 2 and kind in ("cluster", "send"):
            if kind == "send":
                other = rng.choice([w for w in plan.everybody if w // plan.warps != block])
                there = rng.randrange(plan.cells)
                sent = rng.sample([(other, ("expect", i, 128)), (warp, ("send", i, cell, there))], 2)
                return [*written, *sent] if rng.random() < 0.7 else sent
            order = rng.sample(plan.everybody, len(plan.everybody))
            return [(w, (step,)) for step in ("cluster arrive", "cluster wait") for w in order]
        if kind == "turns":
            return self.turns(block, warp, i)
        return self.meeting(block, kind) if kind.startswith("named") else []

    def turns(self, block: int, warp: int, i: int) -> list[tuple[int, Op]]:
        """One or two phases of an mbarrier, each with a wait, and in between those who tell of the wait."""
        rng, barrier, items = self.rng, self.state.barriers[block, i], list[tuple[int, Op]]()
        for turn in range(rng.choice([1, 2, 2])):
            items += self.arrivals(block, i, barrier.count if turn else barrier.pending)
            items.append((warp, ("wait", i, (barrier.phase + turn) & 1, rng.choice(WHOLE))))
            way = rng.choice(["nobody", "warp", "vote", "named", "named arrive", "cluster"])
            if way in ("warp", "vote"):
                items.append((warp, (way,)))
            elif way == "cluster":
                items += self.drawn("cluster", warp)
            elif way != "nobody":
                items += self.meeting(block, way)
        return items

    def arrivals(self, block: int, i: int, missing: int) -> list[tuple[int, Op]]:
        """What completes a phase, if few operations can."""
        rng, plan, items = self.rng, self.plan, list[tuple[int, Op]]()
        while missing > 0 and len(items) < 4:
            warp = rng.choice(plan.everybody)
            away = int(warp // plan.warps != block)
            ways: list[Op] = [("arrive", i, away, "all" if missing >= 32 else "lane 0")]
            if not away:
                ways.append(("cp.async arrive", i) if missing >= 32 else ("load", i, rng.randrange(plan.cells), 128))
            items.append((warp, rng.choice(ways)))
            missing -= 32 if missing >= 32 else 1
        return items

    def meeting(self, block: int, kind: str) -> list[tuple[int, Op]]:
        """Some warps of a block at a named barrier."""
        mine = range(block * self.plan.warps, (block + 1) * self.plan.warps)
        group = self.rng.sample(mine, self.rng.randint(min(2, len(mine)), len(mine)))
        # At times nobody waits where it opens.
        most = max(1, len(group) - (self.rng.random() < 0.8))
        arriving = self.rng.randint(1, most) if kind == "named arrive" else 0
        number = self.rng.choice([1, 2, 3])
        return [(w, ("named arrive" if k < arriving else "named", number, len(group))) for k, w in enumerate(group)]


def draw(seed: int) -> Plan:
    """A right program, or after some tries another."""
    for part in range(12):
        plan = Draft(f"orders {seed} {part}").grown()
        if not verdict(plan, 12)[0]:
            break
    return plan


def changed(plan: Plan, rng: random.Random) -> Plan:
    """The plan with one change."""
    made = copy.deepcopy(plan)
    for _ in range(50):
        body = rng.choice(made.programs)
        at = rng.randrange(len(body)) if body else 0
        way = rng.choice(["left out", "left out", "swapped", "altered", "altered", "twice"])
        if not body or "cluster" in body[at][0]:
            continue
        if way == "left out" and body[at][0] in ORDERS:
            del body[at]
        elif way == "twice" and body[at][0] in ("arrive", "wait", "commit"):
            body.insert(at, body[at])
        elif way == "swapped" and at + 1 < len(body) and "cluster" not in body[at + 1][0]:
            body[at:at + 2] = reversed(body[at:at + 2])
        elif way == "altered" and (other := altered(body[at], made, rng)) is not None:
            body[at] = other
        if made != plan:
            break
    return made


def altered(op: Op, plan: Plan, rng: random.Random) -> Op | None:
    """Another operation, mostly of the same kind."""
    i, cell, others = rng.randrange(len(plan.counts)), rng.randrange(plan.cells), list[Op]()
    match op:
        case ("wait", own, parity, lanes):
            others = [("wait", own, parity ^ 1, lanes), ("wait", own, parity, "lane 0"), ("wait", i, parity, lanes)]
        case ("arrive", own, owner, lanes):
            others = [("arrive", own, owner, "lane 0" if lanes == "all" else "all"), ("arrive", i, owner, lanes),
                      ("arrive", own, owner ^ (plan.blocks == 2), lanes)]
        case ("read" | "write" as kind, owner, own, flip, lanes):
            others = [(kind, owner, own, flip ^ 1, lanes), (kind, owner, cell, flip, lanes)]
        case ("load", own, to, count):
            others = [("load", own, to, count + rng.choice([-16, 16, 128])), ("load", i, to, count),
                      ("load", own, cell, count)]
        case ("named", number, count):
            others = [("named arrive", number, count), ("named", rng.choice([1, 2, 3]), count),
                      ("named", number, max(1, count + rng.choice([-1, 1])))]
        case ("bulk wait", pending, read):
            others = [("bulk wait", pending + 1, read)]
        case ("cp.async wait", pending):
            others = [("cp.async wait", (pending or 0) + 1)]
        case ("cp.async", _, flip):
            others = [("cp.async", cell, flip)]
        case ("expect", own, count):
            others = [("expect", own, count + rng.choice([-16, 16]))]
        case ("send", own, here, there):
            others = [("send", i, here, there), ("send", own, cell, there), ("send", own, here, cell)]
        case ("fence", _):
            others = [("fence", "lane 0")]
        case ("store", _):
            others = [("store", cell)]
    return rng.choice(others) if others else None


# --- text and run ----------------------------------------------------------------------------------------------------


def line(op: Op, number: int) -> list[str]:
    """The statements of an operation; ``number`` tells stores apart."""
    kind, x, y = op[0], *(*op[1:3], None, None)[:2]
    lane = f"lane{' ^ 1' if op[3] else ''}" if kind in ("read", "write") else f"lane{' ^ 1' if y else ''}"
    of = ("there" if x else "s") if kind in ("read", "write") else ""
    peer = f"mo.map_shared_rank(s[:, {op[3]}], rank ^ 1)" if kind == "send" else ""
    expected = f"mo.mbarrier_arrive_expect_tx(bars, {x}, {op[-1]})"
    return {
        "read": [f"total += {of}[{lane}, {y}]"], "write": [f"{of}[{lane}, {y}] = tid + {number}"],
        "warp": ["mo.sync_warp()"],
        "vote": ["total += mo.where(mo.vote_any(lane == 0), 1.0, 0.0)"], "fence": ["mo.fence_proxy_async()"],
        "commit": ["mo.cp_async_commit()"],
        "named": [f"mo.barrier_sync({x}, 32 * {y})"], "named arrive": [f"mo.barrier_arrive({x}, 32 * {y})"],
        "arrive": [f"mo.mbarrier_arrive(bars, {x}{', cta=rank ^ 1' if y else ''})"],
        "wait": [f"mo.mbarrier_wait(bars, {x}, {y})"],
        "cp.async": [f"mo.copyto(mo.CpAsync(mo.float32), mo.tile(s[:, {x}], (1,), ({lane},)), "
                     f"mo.tile(x[:, {x}], (1,), (lane,)))"],
        "cp.async wait": [f"mo.cp_async_wait({'' if x is None else x})"],
        "cp.async arrive": [f"mo.cp_async_mbarrier_arrive(bars, {x})"], "expect": [expected],
        "load": [expected, f"mo.copyto(mo.BulkCopy(), s[:, {y}], x[:, {y}], barrier=(bars, {x}))"],
        "send": [f"mo.copyto(mo.BulkCopy(), {peer}, s[:, {y}], barrier=(bars, {x}))"],
        "store": [f"mo.copyto(mo.BulkCopy(), y[:, {number}], s[:, {x}])"], "bulk commit": ["mo.tma_store_arrive()"],
        "bulk wait": [f"mo.tma_store_wait({x}, read={y})"], "cluster arrive": ["mo.cluster_arrive()"],
        "cluster wait": ["mo.cluster_wait()"]}[kind]


def text(plan: Plan) -> str:
    """The kernel's source."""
    cluster = plan.blocks == 2
    lines = [
        "@mo.kernel", "def program(out, x: mo.Static, y: mo.Static):",
        "    tid, lane = mo.thread_idx().x, mo.thread_idx().x % 32",
        f"    rank = {'mo.cluster_rank()' if cluster else 0}", f"    who = rank * {plan.warps} + tid // 32",
        f"    s, bars = mo.shared_array(mo.float32, (32, {plan.cells})), mo.mbarrier_array({len(plan.counts)})",
        f"    there = {'mo.map_shared_rank(s, rank ^ 1)' if cluster else 's'}", "    if tid == 0:",
        *(f"        mo.mbarrier_init(bars, {i}, {count})" for i, count in enumerate(plan.counts)),
        "        mo.fence_mbarrier_init()", f"    mo.{'cluster_sync' if cluster else 'sync_threads'}()",
        "    total = mo.float32(0)"]
    for warp, (body, tail) in enumerate(zip(plan.programs, plan.tails, strict=True)):
        lines += [f"    if who == {warp}:", "        pass"]
        for op in [*body, *tail]:
            one = op[0] in ("load", "expect", "send", "store", "bulk commit", "bulk wait") or op[-1] == "lane 0"
            lines += ["        if lane == 0:"] if one else []
            lines += [f"        {'    ' if one else ''}{made}" for made in line(op, len(lines))]
    return "\n".join([*lines, "    out[who * 32 + lane] = total", ""])


def report_of(plan: Plan) -> Any:
    """What the checker says."""
    source = text(plan)
    name, space = f"<orders {abs(hash(source)):x}>", dict[str, Any](mo=mo)
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), space)
    out, x = np.zeros(32 * len(plan.everybody), np.float32), np.ones((32, 8), np.float32, order="F")
    y = np.zeros((32, source.count("\n")), np.float32, order="F")
    options = {"cluster": 2} if plan.blocks == 2 else {}
    return mo.check(space["program"], lints=False).launch(out, x, y, grid=plan.blocks, block=32 * plan.warps, **options)


def wrong(plan: Plan) -> str:
    """What is wrong with the checker's answer, if something is."""
    found, always = verdict(plan)
    try:
        report = report_of(plan)
    except mo.MoyeError as error:               # refused before it ran: a number that no barrier has
        return "" if found else f"refused: {error}"
    if not found and not report.ok:
        return f"accused: {[finding.code for finding in report.findings]}"
    return f"missed: {sorted(found)}" if always and report.ok else ""


def main() -> int:
    """Draw by hand."""
    options, bad, right = command.parser_of(__doc__).parse_args(), 0, 0
    for seed in command.seeds_of(options):
        plan, rng = draw(seed), random.Random(seed)
        right += not verdict(plan)[0]
        for one in [plan, *(changed(plan, rng) for _ in range(4))]:
            if said := wrong(one):
                bad += 1
                print(f"seed {seed}: {said}\n{text(one)}", flush=True)
    print(f"{options.count} programs, {right} of them right; {bad} wrong verdicts")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
