"""Random functions whose expressions do something as well: each happens as often as in Python, and in its order.

    python tests/fuzz/effects.py 1000 300               # first seed, functions

In: a seed.  Out: a ``Program`` of ``pythonic.py``, in which any operand may be a call that changes memory of the
thread, an attribute or an item of a list, and gives a number that follows from what was done before.

Operands, arguments, indices, targets, arms, both sides of ``and`` and ``or``, links of comparisons, conditions of
loops, bounds of ranges, elements of comprehensions that ``any`` and ``all`` need not reach: all take part.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "cases"),
                    str(Path(__file__).parents[2] / "src")]

import numpy as np

from fuzz import command, extremes, on_emulator, pythonic
from fuzz.pythonic import PLAIN, RESULTS, THREADS, Program

LINES = """    def tick(k, times=1):
        memory[0, tid] = (memory[0, tid] * 5 + k) % 1009
        return memory[0, tid] % 7

    def note(k, *, by=3):
        kept.total = (kept.total * by + k) % 1009
        return kept.total % 5

    def mark(k):
        marks[0] = (marks[0] * 7 + k) % 1009
        return marks[0] % 9

    kept, marks = Kept(n), [a, b]
"""
HEAD = """class Kept:
    def __init__(self, total): self.total = total % 1009
    def hit(self, k):
        self.total = (self.total * 3 + k) % 1009
        return self.total % 6


"""


REFUSED = r"\d+: refused: \S+ changes in an (operand that may not run|item that \w+ may not come to) when the "


class Generator(pythonic.Generator):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.rng.seed(f"effects {seed}")
        self.budget = self.rng.randint(4, 16)
        self.alone = 0

    def atom(self) -> str:
        if self.alone or not self.chance(0.3):
            return super().atom()
        k = self.rng.randint(0, 9)
        return self.rng.choice([f"tick({k})", f"tick({k}, times=tick({k + 1}))", f"note({k})", f"note({k}, by=2)",
                                f"mark({k})", f"kept.hit({k})", f"(mo.atomic_add(memory, (1, tid), {k}) % 7)"])

    def function(self, name: str, count: int, decorator: str) -> None:
        """Functions at the top have no memory."""
        self.alone += bool(decorator)
        super().function(name, count, decorator)
        self.alone -= bool(decorator)

    def number(self, depth: int = 2) -> str:
        if depth <= 0 or self.alone or not self.chance(0.15):
            return super().number(depth)
        x, y = self.atom(), self.atom()
        return self.rng.choice([f"([{x}, {y}, 3][1])", f"(tick(k={y}))", f"next(iter(({x}, {y})))",
                                f"dict(p={x}, q={y})['p']", f"mo.where({self.truth(0)}, {x}, {y})",
                                f"(lambda u, w={x}: u - w)({y})", f"tick(*({x},), times={y})",
                                f"sum([{x}, {y}])", f"(({x}, {y}) + ({y},))[1]"])

    def truth(self, depth: int = 1) -> str:
        if self.alone or not self.chance(0.25):
            return super().truth(depth)
        x, y, z = self.atom(), self.atom(), self.atom()
        return self.rng.choice([f"any({x} > q for q in ({y}, {z}, 2))", f"all({x} != q for q in [{y}, {z}])",
                                f"any([{x} > {y}, {z} > 1])", f"{x} < {y} <= {z} != 3", f"{x} in ({y}, {z}, 3)",
                                f"not ({x} or {y})", f"({x} and {y} and {z})", f"({x} > 2 or {y} > 1 or {z} > 0)",
                                f"any({x} for q in (1, 2))", f"next((True for q in (0, 1)), {y}) and {z} > 1",
                                f"(({x} if {y} else {z}) > 1)"])

    def assign(self) -> None:
        """Targets that do something, too, and are evaluated behind the value."""
        if self.alone or not self.chance(0.3):
            return super().assign()
        x, i = self.small(), self.rng.choice(["tick(2) % 2", "tick(1) & 1"])
        self.line(self.rng.choice([
            f"memory[2 + ({i}), tid] = {x}", f"memory[2, tid] += {x}", f"memory[2 + ({i}), tid] += {x}",
            f"marks[0] += {x}", f"marks[1], memory[2 + ({i}), tid] = {x}, {self.atom()}", f"kept.total += {x}",
            f"marks[1] = memory[3, tid] = {x}", f"kept.total, marks[0] = marks[0], {x}",
            f"memory[2 + ({i}), tid], memory[2 + ({i}), tid] = {x}, {self.atom()}"]))
        self.line("memory[2, tid] %= 1009")
        self.line("memory[3, tid] %= 1009")
        self.line("marks[0], marks[1], kept.total = marks[0] % 1009, marks[1] % 1009, kept.total % 1009")
        return None

    def results(self) -> list[str]:
        return [*super().results()[:2], "kept.total", "marks[0] + marks[1]"]

    def program(self) -> Program:
        one = super().program()
        one.source = one.source.replace(pythonic.HEAD, pythonic.HEAD + HEAD, 1).replace(
            "def body(data, tid, a, b, n):\n", "def body(memory, data, tid, a, b, n):\n" + LINES).replace(
            "(out, data, a, b, n):", "(out, memory, data, a, b, n):").replace(
            "body(data, tid,", "body(memory, data, tid,")
        one.arrays.insert(1, np.random.default_rng(self.seed).integers(0, 99, (4, THREADS)).astype(np.int32))
        one.names = ("out", "memory", "data", "a", "b", "n")
        return one


class Memory:
    """Elements of an array as plain integers."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __getitem__(self, at: Any) -> int:
        return int(self.values[at])

    def __setitem__(self, at: Any, x: int) -> None:
        self.values[at] = x

    def add(self, at: Any, k: int) -> int:
        before = self[at]
        self[at] = before + k
        return before


def draw(seed: int) -> Program:
    return Generator(seed).program()


def by_python(one: Program) -> list[Any]:
    """Results and memory of plain Python."""
    names: dict[str, Any] = {"__name__": __name__}
    text = one.source[:one.source.index("@mo.kernel")].replace("import moye as mo\n", "")
    names["mo"] = type("Plain", (), {**{k: staticmethod(v) for k, v in vars(PLAIN).items()},
                                     "atomic_add": staticmethod(lambda memory, at, k: memory.add(at, k))})
    exec(compile(text, "<plain>", "exec", dont_inherit=True), names)
    out, memory, data, a, b, n = one.arrays
    made, kept = np.zeros_like(out), Memory(memory.copy())
    for t in range(THREADS):
        made[:, t] = [int(x) for x in names["body"](kept, data.tolist(), t, int(a[t]), int(b[t]), n)]
    return [made, kept.values]


def judged(programs: Sequence[Program], arch: str = on_emulator.ARCH) -> list[str]:
    """What is wrong with some programs, a text each; objects may not change where tracing cannot know how often."""
    return [told for told in extremes.answers(programs, arch, differ) if not re.match(REFUSED, told)]


def differ(one: Program, simulated: list[Any], emulated: list[Any]) -> list[str]:
    for k, wanted in enumerate(by_python(one)):
        for who, x in (("the simulator", simulated[k]), ("the emulator", emulated[k])):
            if not (x == wanted).all():
                i, t = np.argwhere(x != wanted)[0]
                what = "result" if k == 0 else "memory"
                return [f"{what} {i} of thread {t} is {x[i, t]} in {who}, {wanted[i, t]} in Python"]
    return []


assert RESULTS == 4, "two numbers and two objects"


if __name__ == "__main__":
    sys.exit(command.in_batches(__doc__, draw, judged, 20))
