"""Random threads that store flags, load the others' and enter where they find none, against a model of PTX's memory.

    python tests/fuzz/litmus.py 1000 200                # first seed, programs

In: a seed.  Out: ``Thread``s, each of a block of its own: stores of its flags, loads of others, fences.  Who has found
nothing in any of its loads writes one element.

The model has every choice of what each load finds, and every order of fence.sc, that the axioms of the PTX ISA allow
(coherence, causality, Fence-SC).  The checker must say nothing where no two writes race in any of them, and something
where they do if all loads find nothing while the threads fence one after the other, in either direction.
"""

from __future__ import annotations

import itertools
import linecache
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "src")]

import numpy as np

import moye as mo
from fuzz import command

Op = tuple[str, str, int]
"""store, load or fence; its order; the flag."""
Program = list[list[Op]]
Event = tuple[int, int]
"""Thread, place in it; what it enters with is behind its last operation."""
Edges = set[tuple[Event, Event]]


def draw(seed: int) -> Program:
    """Threads that mostly store first: what each has stored is known to nobody yet."""
    rng = random.Random(f"litmus {seed}")
    threads, programs = rng.choice([2, 2, 2, 3]), Program()
    for me in range(threads):
        others = [flag for flag in range(threads) if flag != me]
        body: list[Op] = [("store", rng.choice(["relaxed", "release"]), me)]
        for _ in range(rng.choice([1, 1, 2])):
            if rng.random() < 0.7:
                body.append(("fence", rng.choice(["seq_cst", "seq_cst", "seq_cst", "acq_rel"]), -1))
            body.append(("load", rng.choice(["relaxed", "acquire"]), rng.choice(others)))
        if rng.random() < 0.15:
            rng.shuffle(body)
        programs.append(body)
    return programs


# --- the model -------------------------------------------------------------------------------------------------------


def executions(program: Program) -> Iterator[tuple[dict[Event, int], Edges, list[int]]]:
    """What the loads find, what is ordered before what, and whose fence.sc come in which order, in every execution that
    the axioms allow."""
    events = [(t, i) for t, body in enumerate(program) for i in range(len(body) + 1)]
    inside = {((t, i), (t, j)) for t, i in events for u, j in events if u == t and i < j}
    of = {(t, i): op for t, body in enumerate(program) for i, op in enumerate(body)}
    loads = [event for event, op in of.items() if op[0] == "load"]
    fences = [event for event, op in of.items() if op[:2] == ("fence", "seq_cst")]
    stores = {op[2]: event for event, op in of.items() if op[0] == "store"}
    for values in itertools.product((0, 1), repeat=len(loads)):
        found = dict(zip(loads, values, strict=True))
        edges = inside | {pair for load in loads if found[load] for pair in _told(of, stores[of[load][2]], load)}
        for order in itertools.permutations(fences):
            causality = _closed(edges | set(itertools.pairwise(order)))
            if _allowed(of, stores, found, causality):
                yield found, causality, [thread for thread, _ in order]


def _told(of: dict[Event, Op], store: Event, load: Event) -> Iterator[tuple[Event, Event]]:
    """A release pattern synchronizes with the acquire pattern of a load that finds its store."""
    from_ = [event for event, op in of.items() if op[0] == "fence" and event[0] == store[0] and event < store]
    to = [event for event, op in of.items() if op[0] == "fence" and event[0] == load[0] and event > load]
    from_ += [store] if of[store][1] == "release" else []
    to += [load] if of[load][1] == "acquire" else []
    yield from itertools.product(from_, to)


def _closed(edges: Edges) -> Edges:
    nodes = {node for edge in edges for node in edge}
    for middle in nodes:
        before = [a for a, b in edges if b == middle]
        after = [b for a, b in edges if a == middle]
        edges = edges | set(itertools.product(before, after))
    return edges


def _allowed(of: dict[Event, Op], stores: dict[int, Event], found: dict[Event, int], causality: Edges) -> bool:
    if any(a == b for a, b in causality):
        return False
    for load, value in found.items():
        store = stores[of[load][2]]
        if ((store, load) in causality and not value) or ((load, store) in causality and value):
            return False
        if value and any(of[later][2] == of[load][2] and not found[later] and (load, later) in causality
                         for later in found):
            return False                                # coherence: who has seen it does not lose it
    return True


def races(program: Program) -> tuple[bool, bool]:
    """Whether two writes may race, and whether they do if no load finds anything and threads fence in turn."""
    ends, some = [(t, len(body)) for t, body in enumerate(program)], False
    for found, causality, turns in executions(program):
        enter = [end for end in ends if not any(value for load, value in found.items() if load[0] == end[0])]
        if any((a, b) not in causality and (b, a) not in causality for a, b in itertools.combinations(enter, 2)):
            some = True
            if not any(found.values()) and turns in (sorted(turns), sorted(turns, reverse=True)):
                return True, True
    return some, False


# --- text and run ----------------------------------------------------------------------------------------------------


def text(program: Program) -> str:
    """The kernel's source."""
    lines = ["@mo.kernel", "def program(data, flags):", "    me, seen = mo.block_idx().x, mo.int32(0)"]
    for t, body in enumerate(program):
        lines.append(f"    if me == {t}:")
        lines += [f"        {_line(op)}" for op in body]
    return "\n".join([*lines, "    if seen == 0:", "        data[0] = me", ""])


def _line(op: Op) -> str:
    kind, order, flag = op
    return {"store": f"mo.store(flags, {flag}, 1, order={order!r})", "fence": f"mo.fence({order!r})",
            "load": f"seen += mo.load(flags, {flag}, order={order!r})"}[kind]


def report_of(program: Program) -> Any:
    """What the checker says."""
    source = text(program)
    name, space = f"<litmus {abs(hash(source)):x}>", dict[str, Any](mo=mo)
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), space)
    arrays = np.zeros(1, np.int32), np.zeros(len(program), np.int32)
    return mo.check(space["program"], lints=False, strict=True)[len(program), 1](*arrays)


def wrong(program: Program) -> str:
    """What is wrong with the checker's answer, if something is."""
    report, (some, certain) = report_of(program), races(program)
    if not some and not report.ok:
        return f"accused: {[finding.code for finding in report.findings]}"
    return "missed" if certain and report.ok else ""


def main() -> int:
    """Draw by hand."""
    options, bad, kinds = command.parser_of(__doc__).parse_args(), 0, Counter[tuple[bool, bool]]()
    for seed in command.seeds_of(options):
        program = draw(seed)
        kinds[races(program)] += 1
        if said := wrong(program):
            bad += 1
            print(f"seed {seed}: {said}\n{text(program)}", flush=True)
    print(f"{options.count} programs, of which {kinds[False, False]} cannot race and {kinds[True, True]} do where no "
          f"load finds anything; {bad} wrong verdicts")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
