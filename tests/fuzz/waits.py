"""Random threads that poll while they work, for what comes late, or never: the first end, the others are F4, soon.

    python tests/fuzz/waits.py 1000 200                 # first seed, programs

In: a seed.  Out: a ``Program``: who waits (threads of blocks for each other, or warps of a block), what they poll, what
they do in each pass (arithmetic, shared memory, scratch in global memory, counts beside the flag, barriers), and who
sets the flag after how many passes of a loop that polls as well, or nobody.

A right program must end without F4 or G4, however long it takes; a wrong one must be F4 within seconds.
"""

from __future__ import annotations

import linecache
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "src")]

import numpy as np

import moye as mo
from fuzz import command

THREADS, BLOCKS, SOON = 64, 3, 25.0
WORK = {
    "arithmetic": "for i in range({n}):\n    t = t * 0.5 + mo.float32(i)",
    "registers": "for i in range({n}):\n    r[...] = r * 0.5 + 1.0\nt = r[1]",
    "shared": "for i in range({n}):\n    s[tid] = s[tid] * 0.5 + 1.0\nt = s[tid]",
    "scratch": "for i in range({n}):\n    x[me, tid] = x[me, tid] * 0.5 + t",
    "passes": "k += 1\nt += mo.float32(k % 7)",
    "count": "mo.atomic_add(flags, 8 + me, 1)",
    "tries": "mo.atomic_add(flags, 7, 1)",
    "sleep": "mo.nanosleep(20)",
    "neighbour": "t = mo.shuffle_xor(t, 1) + 1.0",
    "copies": "mo.copyto(copy, mo.tile(c, (1,), (tid,)), mo.tile(x[me, :], (1,), (tid,)))\nmo.cp_async_commit()\n"
              "mo.cp_async_wait(0)\nt += c[tid]",
}
"""What a pass does, by name: none of it decides when the wait is over."""
POLLS = {
    "load": "mo.load(flags, {place}, order='acquire') {wrong}",
    "add": "mo.atomic_add(flags, {place}, 0, order='acquire') {wrong}",
    "cas": "mo.atomic_cas(flags, {place}, -1, -1, order='acquire') {wrong}",
}


@dataclass(frozen=True)
class Program:
    """One kernel: its source, and whether the waits end."""

    source: str
    ends: bool


def draw(seed: int) -> Program:
    """Block 0 makes a step for each turn of the others, or waits too; all others wait for its last."""
    rng = random.Random(f"waits {seed}")
    ends, steps = rng.random() < 0.5, rng.choice([1, 3, 40, 200])
    kind = rng.choice(["cycle", "never", "toggle"])
    works = rng.sample(sorted(WORK), rng.choice([1, 2, 3]))
    return _program(rng, ends, steps, kind, works)


def _program(rng: random.Random, ends: bool, steps: int, kind: str, works: list[str]) -> Program:
    poll = POLLS[rng.choice(sorted(POLLS))]
    passes = [_work(rng, name) for name in works]
    lines = ["@mo.kernel", "def program(x, flags, r_layout: mo.Constexpr):",
             "    tid, me = mo.thread_idx().x, mo.block_idx().x",
             f"    s, c = mo.shared_array(mo.float32, {THREADS}), mo.shared_array(mo.float32, {THREADS})",
             "    copy = mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32)",
             "    r = mo.make_fragment_like(r_layout, mo.float32)",
             "    r.fill(0)", "    s[tid] = 0.0", "    t, k = mo.float32(0), 0"]
    lines += ["    if me == 0:", *_indented(_first(rng, ends, steps, kind), 8), "    else:",
              f"        while {poll.format(place=0, wrong=f'< {steps}')}:", *_indented(["pass", *passes], 12),
              *_indented(["if tid == 0 and me == 1:", *_indented(_answer(kind), 4)], 12)]
    return Program("\n".join([*lines, "    x[me, tid] = t", ""]), ends)


def _first(rng: random.Random, ends: bool, steps: int, kind: str) -> list[str]:
    """Block 0: it sets flag 0 step by step, after waiting for an answer each time; a wrong one stops before the end."""
    last = steps if ends else steps - 1
    wait = ["while mo.load(flags, 1, order='acquire') < 0:", "    t += 1.0"]
    body = [f"for step in range({last}):", *_indented(wait, 4), "    if tid == 0:",
            "        mo.atomic_add(flags, 0, 1, order='release')"]
    if ends or kind == "never":
        return body
    flag = 3 if kind == "cycle" else 4
    return [*body, f"while mo.load(flags, {flag}, order='acquire') == 0:",
            *_indented([_work(rng, rng.choice(["arithmetic", "shared", "passes"])), *(
                ["if tid == 0:", "    mo.store(flags, 2, 1 - mo.load(flags, 2), order='release')"]
                if kind == "toggle" else [])], 4)]


def _answer(kind: str) -> list[str]:
    return ["mo.store(flags, 2, 1 - mo.load(flags, 2), order='release')"] if kind == "toggle" else ["pass"]


def _work(rng: random.Random, name: str) -> str:
    return WORK[name].format(n=rng.choice([2, 8, 64]))


def _indented(lines: list[str], by: int) -> list[str]:
    return [" " * by + line for text in lines for line in text.split("\n")]


def report_of(program: Program) -> tuple[Any, float]:
    """What the checker says, and how long it took."""
    name, space = f"<waits {abs(hash(program.source)):x}>", dict[str, Any](mo=mo)
    linecache.cache[name] = (len(program.source), None, program.source.splitlines(keepends=True), name)
    exec(compile(program.source, name, "exec"), space)
    x, flags = np.zeros((BLOCKS, THREADS), np.float32), np.zeros(16, np.int32)
    before = time.process_time()
    report = mo.check(space["program"], lints=False)[BLOCKS, THREADS](x, flags, mo.make_layout(8))
    return report, time.process_time() - before


def wrong(program: Program) -> str:
    """What is wrong with the checker's answer, if something is."""
    report, seconds = report_of(program)
    codes = [finding.code for finding in report.findings]
    if program.ends and codes:
        return f"accused: {codes}"
    if not program.ends and "F4" not in codes:
        return f"missed: {codes}"
    return f"slow: {seconds:.1f} s" if seconds > SOON else ""


def main() -> int:
    """Draw by hand."""
    options, bad, ends = command.parser_of(__doc__).parse_args(), 0, 0
    for seed in command.seeds_of(options):
        program = draw(seed)
        ends += program.ends
        if said := wrong(program):
            bad += 1
            print(f"seed {seed}: {said}\n{program.source}", flush=True)
    print(f"{options.count} programs, of which {ends} end; {bad} wrong verdicts")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
