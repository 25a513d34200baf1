"""Kernels of many designs, right by construction or with faults that their texts name, for the checker to tell apart.

    python tests/fuzz/designs.py 1000 200               # first seed, draws; --only look_back, --pairs, --emulate

In: a seed.  Out: ``Design``: a text with marks, what it is launched with, and what it must compute.  The marks:

    mo.sync_threads()                       #- no barrier
    mo.cp_async_wait(1)                     #= permissive: mo.cp_async_wait(2)
    #+ read twice: x += s[tid]

A line with ``#- fault`` is left out by that fault, ``#=`` puts another in its place, ``#+`` is there with it alone.
The first two may also stand in lines below.
"""

from __future__ import annotations

import itertools
import linecache
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    tests = Path(__file__).parents[1]
    sys.path[:0] = [str(tests), str(tests / "cases"), str(tests.parent / "src")]
    sys.modules["fuzz.designs"] = sys.modules[__name__]                 # what the families import

import numpy as np

import moye as mo
from fuzz import command

MARK = re.compile(r"#([-+=]) ([^#\n]*)")


@dataclass
class Design:
    """A kernel and its launches, one after the other, with arrays that they share."""

    text: str
    grid: int
    block: int
    arrays: Callable[[], list[Any]]
    """New arguments of the kernel, in order."""
    expected: Callable[[list[Any]], dict[int, np.ndarray]]
    """What arguments must be, by their places, after the last launch; of fresh arguments."""
    cluster: tuple[int, int, int] = (1, 1, 1)
    harmless: frozenset[str] = frozenset()
    """Faults of the text that are none in this draw."""
    launches: int = 1
    options: dict[str, Any] = field(default_factory=dict)
    """For ``mo.check``."""
    dependent: bool = False

    @property
    def faults(self) -> list[str]:
        found: dict[str, None] = {}
        for _, body in MARK.findall(self.text):
            found[body.split(":")[0].strip()] = None
        return [fault for fault in found if fault not in self.harmless]

    def source(self, faults: Iterable[str] = ()) -> str:
        """The kernel's text with these faults."""
        found = (_line(line, set(faults)) for line in _joined(self.text))
        return "\n".join(line for line in found if line is not None) + "\n"


def _joined(text: str) -> list[str]:
    """Lines with all of their marks, of which some stand below them."""
    lines = list[str]()
    for line in text.strip("\n").split("\n"):
        if line.lstrip().startswith(("#-", "#=")):
            lines[-1] += "  " + line.strip()
        else:
            lines.append(line)
    return lines


def _line(line: str, faults: set[str]) -> str | None:
    code = line.partition("#")[0].rstrip()
    indent = line[:len(line) - len(line.lstrip())]
    for kind, body in MARK.findall(line):
        name, _, other = body.partition(":")
        if name.strip() in faults:
            code = indent + ("pass" if kind == "-" else other.removeprefix(" ").rstrip())
    return code if code.strip() else None


def kernel_of(source: str) -> Any:
    """The kernel of a text, which error messages can quote."""
    name = f"<design {abs(hash(source)):x}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space: dict[str, Any] = {"mo": mo, "np": np}
    exec(compile(source, name, "exec"), space)
    return space["program"]


@dataclass
class Answer:
    """What the checker says of a design with some faults."""

    codes: list[str]
    right: bool
    """Whether the results are."""
    said: str = ""
    unsupported: bool = False


def answer(design: Design, faults: Iterable[str] = (), **options: Any) -> Answer:
    kernel, arguments = kernel_of(design.source(faults)), design.arrays()
    codes, said, unsupported = list[str](), "", False
    try:
        for _ in range(design.launches):
            report = mo.check(kernel, lints=False, **{**design.options, **options}).launch(
                *arguments, grid=design.grid, block=design.block, cluster=design.cluster,
                **({"dependent": True} if design.dependent else {}))
            codes += [finding.code for finding in report.findings]
            unsupported |= bool(report.unsupported)
            said += "" if report.ok else str(report)
    except mo.MoyeError as error:
        return Answer([getattr(error, "code", None) or "refused"], False, str(error))
    return Answer(codes, right(design, arguments), said, unsupported)


def right(design: Design, arguments: list[Any]) -> bool:
    """Whether the arguments are what they must be after the last launch."""
    expected = design.expected(design.arrays())
    return all(np.array_equal(arguments[place], value) for place, value in expected.items())


# --- what each family draws, and what must be said -------------------------------------------------------------------


def families() -> dict[str, Callable[[random.Random], Design]]:
    from fuzz import (
        designs_async,
        designs_block,
        designs_chained,
        designs_cluster,
        designs_copies,
        designs_grid,
        designs_lanes,
        designs_links,
        designs_locks,
        designs_networks,
        designs_patterns,
        designs_queues,
        designs_readers,
        designs_roles,
        designs_signals,
        designs_stages,
        designs_tiles,
        designs_warpgroups,
    )
    found: dict[str, Callable[[random.Random], Design]] = {}
    for module in (designs_grid, designs_block, designs_cluster, designs_signals, designs_tiles, designs_locks,
                   designs_async, designs_warpgroups, designs_roles, designs_queues,
                   designs_stages, designs_copies, designs_readers, designs_patterns, designs_networks,
                   designs_links, designs_chained, designs_lanes):
        found |= module.FAMILIES
    return found


def draw(family: str, seed: int) -> Design:
    return families()[family](random.Random(f"{family} {seed}"))


RULES = {
    "B1": ("left edge", "right edge", "too far", "beyond the first", "left neighbour", "right neighbour", "from -1"),
    "B6": ("one not set", "none set", "one part more"),
    "C6": ("fold in the branch", "vote in the branch", "match in the branch"),
    "D7": ("few bytes", "many bytes", "its part alone", "a part more"),
    "D10": ("no init fence",), "D12": ("no fence", "no proxy fence"), "D14": ("one fences",), "D17": ("only read",),
    "D20": ("to one beyond",), "E1": ("no arrive",), "E2": ("touched in flight",), "E3": ("refilled in flight",),
    "E5": ("adds to nothing",), "E6": ("half arrives", "one warp"),
    "G3": ("no release", "no acquire", "relaxed flag", "relaxed look", "relaxed prefix flag", "relaxed arrival",
           "relaxed poll", "relaxed generation", "ticket by load", "read before", "written before"),
}
"""The code that must be among those told of one fault, for faults that have the same one in every design."""


def wrong(design: Design, faults: Iterable[str]) -> str:
    """What is wrong with the checker's answer, if something is."""
    faults, found = list(faults), answer(design, faults)
    if not faults:
        return "" if not found.codes and found.right and not found.unsupported else \
            f"accused: {found.codes}, result right: {found.right}, unsupported: {found.unsupported}"
    if not found.codes:
        return "unsupported" if found.unsupported else "missed"
    rules = [code for code, names in RULES.items() if len(faults) == 1 and faults[0] in names]
    return "" if set(rules) <= set(found.codes) else f"another rule: {found.codes}"


def emulated(design: Design, seed: int) -> str:
    """What is wrong with the result of the printed CUDA in the emulator, if something is."""
    from emulator.emulated import emulated as emulator
    kernel, arguments = kernel_of(design.source()), design.arrays()
    with emulator(seed):
        for _ in range(design.launches):
            kernel.launch(*arguments, grid=design.grid, block=design.block, cluster=design.cluster)
    return "" if right(design, arguments) else "the emulator computes something else"


def cases(design: Design, rng: random.Random, pairs: int) -> list[tuple[str, ...]]:
    """Nothing wrong, each fault alone, and some pairs that change other lines."""
    found: list[tuple[str, ...]] = [(), *((fault,) for fault in design.faults)]
    both = list(itertools.combinations(design.faults, 2))
    alone = {fault: design.source([fault]) for fault in design.faults}
    apart = [pair for pair in both if design.source(pair) not in (alone[pair[0]], alone[pair[1]])]
    return found + rng.sample(apart, min(pairs, len(apart)))


def main() -> int:
    parser = command.parser_of(__doc__)
    parser.add_argument("--only", nargs="*", default=list(families()), help="families")
    parser.add_argument("--pairs", type=int, default=0, help="pairs of faults of each design")
    parser.add_argument("--emulate", action="store_true", help="compare right ones with the emulator, and no others")
    options, bad, judged = parser.parse_args(), 0, Counter[str]()
    for seed in command.seeds_of(options):
        family = options.only[seed % len(options.only)]
        design = draw(family, seed)
        for faults in [()] if options.emulate else cases(design, random.Random(seed), options.pairs):
            judged["right" if not faults else "faulty"] += 1
            if said := emulated(design, seed) if options.emulate else wrong(design, faults):
                bad += 1
                named = ", ".join(faults) or "none"
                print(f"{family} {seed}; faults: {named}: {said}\n{design.source(faults)}", flush=True)
    print(f"{judged['right']} right designs, {judged['faulty']} faulty twins, {bad} wrong answers")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
