"""Random functions of Python's own control flow and objects: Python itself, the simulator and the emulator agree.

    python tests/fuzz/pythonic.py 1000 300              # first seed, functions

In: a seed.  Out: ``Program``: a function of integers that plain Python calls for each thread, and a kernel traces.

Nested loops with breaks and returns, helpers with defaults, keywords and closures, records that change, and-or values,
chained comparisons, short circuits around reads of memory, unpacking, comprehensions, walruses.  All numbers are small.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "cases"),
                    str(Path(__file__).parents[2] / "src")]

import numpy as np

from fuzz import command, extremes, on_emulator

THREADS, CELLS, RESULTS = 64, 16, 4
HEAD = """from dataclasses import dataclass
from typing import NamedTuple

import moye as mo


@dataclass
class Record:
    first: int
    second: int = 5

    def moved(self, by, *, times=1):
        return Record(self.first + by * times, self.second)


class Pair(NamedTuple):
    left: int
    right: int


"""
TAIL = """

@mo.kernel
def {name}(out, data, a, b, n):
    tid = mo.thread_idx().x
    found = body(data, tid, a[tid], b[tid], n)
    for k in mo.static_range({results}):
        out[k, tid] = found[k]
"""
LIMIT = 1009
PLAIN = SimpleNamespace(jit=lambda f: f, range=lambda *bounds: range(*bounds), static_range=range,
                        where=lambda c, x, y: x if c else y)


@dataclass
class Program:
    seed: int
    source: str
    arrays: list[Any] = field(repr=False)
    names: tuple[str, ...] = ("out", "data", "a", "b", "n")

    @property
    def name(self) -> str:
        return f"extremes_{self.seed}"


class Generator:
    def __init__(self, seed: int) -> None:
        self.rng, self.seed = random.Random(f"pythonic {seed}"), seed
        self.lines: list[str] = []
        self.depth, self.budget, self.count = 1, self.rng.randint(8, 22), 0
        self.ints = ["tid", "a", "b", "n"]
        self.fixed = {"tid", "a", "b", "n"}
        self.bools: list[str] = []
        self.helpers: list[tuple[str, int]] = []
        self.loops: list[str] = []
        self.returns = ""           # how a return is written here

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, stem: str = "v") -> str:
        self.count += 1
        return f"{stem}{self.count}"

    # --- expressions: below about a million ---

    def atom(self) -> str:
        return self.rng.choice([*self.ints, *self.ints, str(self.rng.randint(-4, 9))])

    def small(self) -> str:
        """Below LIMIT, whatever it is."""
        return f"({self.number(1)}) % {self.rng.choice([LIMIT, 7, 16, 3, 100])}"

    def number(self, depth: int = 2) -> str:
        if depth <= 0:
            return self.atom()
        x, y = self.number(depth - 1), self.atom()
        kinds = [f"{x} + {y}", f"{x} - {y}", f"{self.atom()} * {y}", f"({x}) // {self.rng.choice([2, 3, -4, 7])}",
                 f"({x}) % {self.rng.choice([2, 5, 8, -3])}", f"(({x}) & 63)", f"(({x}) ^ {y})", f"min({x}, {y})",
                 f"max({x}, {y}, 3)", f"abs({x})", f"({x} if {self.truth(1)} else {y})", f"(({y}) >> 2)", f"-({x})",
                 f"({self.atom()} or {y})", f"({self.atom()} and {y})", f"int({self.truth(1)})", self.loaded(),
                 f"mo.where({self.truth(0)}, {x}, {y})", f"sum(({x}, {y}, 2))",
                 f"divmod({x}, 5)[{self.rng.choice('01')}]", f"max(q - {y} for q in ({x}, 2))",
                 f"sum(q * {y} for q in ({self.atom()}, 2))", f"[{x}, {y}][{self.rng.choice(['0', '1', '-1'])}]",
                 f"(lambda u, w=3: u - w)({x})", f"len([{x}, {y}])", "~" + self.atom()]
        if self.helpers and self.chance(0.35):
            return self.called()
        return f"({self.rng.choice(kinds)})"

    def loaded(self) -> str:
        return f"data[({self.atom()}) % {CELLS}]"

    def called(self) -> str:
        name, count = self.rng.choice(self.helpers)
        given = [f"({self.atom()}) % 50" for _ in range(count)]
        way = self.rng.randrange(4)
        if way == 0 and count > 1:
            return f"{name}({given[0]}, p1={given[1]})"
        if way == 1:
            return f"{name}({given[0]})"
        if way == 2:
            return f"{name}(*({', '.join(given)},))"
        return f"{name}({', '.join(given)})"

    def truth(self, depth: int = 1) -> str:
        x, y, z = self.number(depth - 1), self.atom(), self.atom()
        signs = ["<", "<=", ">", ">=", "==", "!="]
        kinds = [f"{x} {self.rng.choice(signs)} {y}"] * 3
        kinds += [f"{x} {self.rng.choice(signs)} {y} {self.rng.choice(signs)} {z}", f"{y} in (1, {z}, 4)",
                  f"{y} not in (0, {z})", f"not {x}", f"0 <= {y} < {CELLS} and data[{y}] > {z}",
                  f"{y} < 0 or {y} >= {CELLS} or data[{y}] == {z}", f"bool({x})", f"{y} in range(2, 30, 3)"]
        if depth > 0:
            kinds += [f"({self.truth(depth - 1)}) {self.rng.choice(['and', 'or'])} ({self.truth(depth - 1)})",
                      f"all(q > {y} for q in ({x}, {z}))", f"any([{x} > {y}, {self.truth(0)}])"]
        if self.bools and self.chance(0.3):
            return self.rng.choice(self.bools)
        return self.rng.choice(kinds)

    # --- statements ---

    def targets(self) -> list[str]:
        return [v for v in self.ints if v not in self.fixed]

    def statements(self, most: int) -> None:
        for _ in range(self.rng.randint(1, most)):
            if self.budget <= 0:
                break
            self.budget -= 1
            kinds: list[Callable[[], None]] = [self.assign] * 5 + [self.augment] * 3 + [
                self.declare, self.truths, self.swap, self.unpack, self.walrus, self.record, self.both, self.comprehend,
                self.shadow]
            if self.depth < 5:
                kinds += [self.branch] * 5 + [self.count_up] * 4 + [self.loop, self.loop, self.unrolled, self.pairs,
                                                                    self.nested_function]
            if self.loops:
                kinds += [self.leave] * 4
            self.rng.choice(kinds)()

    def declare(self) -> None:
        name = self.fresh()
        self.line(f"{name} = {self.rng.choice([self.small(), '0', '1', self.small()])}")
        self.ints.append(name)

    def assign(self) -> None:
        if found := self.targets():
            self.line(f"{self.rng.choice(found)} = {self.small()}")

    def augment(self) -> None:
        if found := self.targets():
            name = self.rng.choice(found)
            self.line(f"{name} {self.rng.choice(['+=', '-=', '^='])} {self.small()}")
            self.line(f"{name} %= {LIMIT}")

    def truths(self) -> None:
        text = f"{self.truth(2)}"
        name = self.fresh("t")
        self.line(f"{name} = bool({text})")
        self.bools.append(name)

    def swap(self) -> None:
        if len(found := self.targets()) > 1:
            x, y = self.rng.sample(found, 2)
            self.line(f"{x}, {y} = {self.rng.choice([f'{y}, {x}', f'{y}, {self.small()}', f'{self.small()}, {x}'])}")

    def unpack(self) -> None:
        x, y = self.fresh(), self.fresh()
        self.line(f"{x}, *{y} = [{self.small()}, {self.small()}, {self.small()}]")
        self.line(f"{y} = {y}[{self.rng.choice(['0', '1', '-1'])}]")
        self.ints += [x, y]

    def both(self) -> None:
        x, y = self.fresh(), self.fresh()
        self.line(f"{x} = {y} = {self.small()}")
        self.ints += [x, y]

    def walrus(self) -> None:
        name = self.fresh()
        self.line(f"if ({name} := {self.small()}) {self.rng.choice('<>')} {self.atom()}:")
        self.ints.append(name)
        self.inside(2)

    def record(self) -> None:
        """An object whose parts change under conditions."""
        name = self.fresh("r")
        way = self.rng.randrange(4)
        if way == 0:
            self.line(f"{name} = Record({self.small()}, second={self.small()})")
            parts = [f"{name}.first", f"{name}.second"]
            self.line(f"{name} = {name}.moved({self.atom()}, times=2)" if self.chance(0.4) else "pass")
        elif way == 1:
            self.line(f"{name} = [{self.small()}, {self.small()}]")
            parts = [f"{name}[0]", f"{name}[-1]"]
        elif way == 2:
            self.line(f"{name} = dict(x={self.small()}, y={self.small()})")
            parts = [f"{name}['x']", f"{name}['y']"]
        else:
            self.line(f"{name} = Pair({self.small()}, {self.small()})")
            self.line(f"if {self.truth()}:")
            self.line(f"    {name} = {name}._replace(left={self.small()})")
            self.fixed |= {f"{name}.left", f"{name}.right"}
            self.ints += [f"{name}.left", f"{name}.right"]
            return
        for part in parts:
            self.line(f"{part} %= {LIMIT}")
        self.ints += parts

    def comprehend(self) -> None:
        name, source = self.fresh(), self.fresh("s")
        made = self.rng.choice(["q + 1", "q * 3", f"q - {self.ints[0]}"])
        self.line(f"{source} = [{made} for q in ({self.small()}, {self.small()}, 4)]")
        self.line(f"{name} = sum({source}[{self.rng.choice([':', '1:', ':2', '::-1', '::2'])}]) % {LIMIT}")
        self.ints.append(name)

    def shadow(self) -> None:
        """A function whose parameter has the name of a variable outside, and that changes it."""
        if not (found := [v for v in self.targets() if v.isidentifier()]):
            return
        name, own = self.fresh("f"), self.rng.choice(found)
        self.line(f"def {name}({own}, other={self.atom()}):")
        self.line(f"    {own} += other")
        self.line(f"    return {own} * 2")
        made = self.fresh()
        self.line(f"{made} = {name}({self.small()}) % {LIMIT} + {own} % 2")
        self.ints.append(made)

    # --- blocks ---

    def inside(self, most: int) -> None:
        """A block; what it declares is not known behind it."""
        self.depth += 1
        ints, bools, lines, helpers = list(self.ints), list(self.bools), len(self.lines), list(self.helpers)
        self.statements(most)
        if len(self.lines) == lines:
            self.line("pass")
        self.ints, self.bools, self.helpers = ints, bools, helpers
        self.depth -= 1

    def branch(self) -> None:
        self.line(f"if {self.truth(2)}:")
        self.inside(3)
        for _ in range(self.rng.choice([0, 0, 1, 2])):
            self.line(f"elif {self.truth(1)}:")
            self.inside(2)
        if self.chance(0.6):
            self.line("else:")
            self.inside(3)

    def count_up(self) -> None:
        i = self.fresh("i")
        low, high = f"({self.atom()}) % 4", f"({self.atom()}) % 6"
        bounds = self.rng.choice(["3", high, f"{low}, {high}", f"{high}, {low}, -1", f"{low}, {high} + 3, 2",
                                  "5, -2, -3", f"-2, {high}", f"{low} - 3"])
        name = self.rng.choice(["range", "range", "mo.range"])
        self.line(f"for {i} in {name}({bounds}):")
        self.loops.append("free")
        self.ints.append(i)
        self.fixed.add(i)
        self.inside(4)
        self.ints.remove(i)
        self.loops.pop()

    def loop(self) -> None:
        fuel = self.fresh("fuel")
        self.line(f"{fuel} = ({self.atom()}) % 5")
        self.line(self.rng.choice(["while True:", f"while {fuel} < 6:", f"while {fuel} < 6 and ({self.truth(1)}):",
                                   f"while not ({fuel} > 5 or {self.truth(0)}):"]))
        self.depth += 1
        self.line(f"{fuel} += 1")
        self.line(f"if {fuel} > 6:")
        self.line("    break")
        self.depth -= 1
        self.loops.append("free")
        self.ints.append(fuel)
        self.fixed.add(fuel)
        self.inside(4)
        self.loops.pop()

    def unrolled(self) -> None:
        k = self.fresh("k")
        self.line(f"for {k} in mo.static_range({self.rng.choice(['3', '1, 4', '4, 0, -2'])}):")
        self._static([k])

    def pairs(self) -> None:
        i, x = self.fresh("k"), self.fresh("e")
        items = f"({self.small()}, {self.small()}, 3)"
        text = self.rng.choice([f"{i}, {x} in enumerate({items})", f"{i}, {x} in zip((1, 2, 5), {items})",
                                f"{i}, {x} in reversed([(1, {self.small()}), (2, {self.small()})])",
                                f"{i}, {x} in dict([(4, {self.small()}), (1, {self.small()})]).items()"])
        self.line(f"for {text}:")
        self._static([i, x])

    def _static(self, names: list[str]) -> None:
        self.loops.append("static")
        self.ints += names
        self.fixed |= set(names)
        self.inside(3)
        for name in names:
            self.ints.remove(name)
        self.loops.pop()

    def leave(self) -> None:
        kinds = [*(["break", "continue"] if self.loops[-1] == "free" else []), *(["return"] if self.returns else [])]
        if not kinds:
            return
        self.line(f"if {self.truth(1)}:")
        kind = self.rng.choice(kinds)
        self.line(f"    {kind if kind != 'return' else self.returns.format(*(self.small() for _ in range(RESULTS)))}")

    def nested_function(self) -> None:
        """A helper that sees what is around it."""
        name, count = self.fresh("g"), self.rng.randint(1, 3)
        self.function(name, count, "")
        self.helpers.append((name, count))

    def function(self, name: str, count: int, decorator: str) -> None:
        given = [f"p{i}" + (f"={self.rng.randint(0, 5)}" if i else "") for i in range(count)]
        if decorator:
            self.line(decorator)
        self.line(f"def {name}({', '.join(given)}{', *rest' if self.chance(0.1) and count > 1 else ''}):")
        ints, bools, loops, fixed = self.ints, self.bools, self.loops, set(self.fixed)
        outer, returns, budget = list(self.helpers), self.returns, self.budget
        self.fixed |= set(ints)                     # what is outside is read, not changed
        self.ints = [*ints, *(f"p{i}" for i in range(count))]
        self.fixed -= {f"p{i}" for i in range(count)}
        self.bools, self.loops, self.returns, self.budget = list(bools), [], "return {0}", min(budget, 5)
        if not self.depth:
            self.ints, self.bools = [f"p{i}" for i in range(count)], []
            self.helpers = []
        self.depth += 1
        self.statements(4)
        self.line(f"return {self.small()}")
        self.depth -= 1
        self.ints, self.bools, self.loops, self.fixed = ints, bools, loops, fixed
        self.helpers, self.returns, self.budget = outer, returns, budget - 2

    # --- the whole ---

    def results(self) -> list[str]:
        """What the function returns."""
        return [self.rng.choice([*self.targets(), *self.bools] or ["0"]) for _ in range(RESULTS)]

    def program(self) -> Program:
        for k in range(self.rng.randint(0, 2)):
            self.depth, before = 0, self.lines
            self.lines = []
            count = self.rng.randint(1, 3)
            self.function(f"h{k}", count, "@mo.jit")
            self.lines = [*before, *(text.replace("data[", "(9, 4, 2, 0, 7, 1, 3, 3, 5, 8, 6, 2, 11, 12, 1, 0)[0 * ")
                                     for text in self.lines), "", ""]
            self.helpers.append((f"h{k}", count))
        self.depth = 0
        self.line("@mo.jit")
        self.line("def body(data, tid, a, b, n):")
        self.depth = 1
        self.returns = "return {0}, {1}, {2}, {3}"
        for _ in range(2):
            self.declare()
        while self.budget > 0:
            self.statements(4)
        self.line("return " + ", ".join(f"int({x})" for x in self.results()))
        rng = np.random.default_rng(self.seed)
        arrays = [np.zeros((RESULTS, THREADS), np.int32), rng.integers(-9, 20, CELLS).astype(np.int32),
                  rng.integers(-20, 20, THREADS).astype(np.int32), rng.integers(-4, 9, THREADS).astype(np.int32),
                  int(rng.integers(-2, 9))]
        tail = TAIL.format(name=f"extremes_{self.seed}", results=RESULTS)
        return Program(self.seed, HEAD + "\n".join(self.lines) + "\n" + tail, arrays)


def draw(seed: int) -> Program:
    return Generator(seed).program()


def told(one: Program, report: Any, results: np.ndarray, wanted: np.ndarray) -> str:
    """What is wrong with a program that the checker has run, or nothing: a finding, or another result than Python's."""
    if report.findings:
        return f"{one.seed}: {report.findings[0]}"
    if (results != wanted).any():
        k, t = np.argwhere(results != wanted)[0]
        return f"{one.seed}: result {k} of thread {t} is {results[k, t]}, and {wanted[k, t]} in Python"
    return ""


def by_python(one: Program, plain: Any = PLAIN) -> Any:
    """The results of plain Python."""
    names: dict[str, Any] = {"__name__": __name__}
    text = one.source[:one.source.index("@mo.kernel")].replace("import moye as mo\n", "")
    names["mo"] = plain
    exec(compile(text, "<plain>", "exec", dont_inherit=True), names)
    out, data, a, b, n = one.arrays
    cells, made = data.tolist(), np.zeros_like(out)
    for t in range(THREADS):
        made[:, t] = [int(x) for x in names["body"](cells, t, int(a[t]), int(b[t]), n)]
    return made


def judged(programs: Sequence[Program], arch: str = on_emulator.ARCH) -> list[str]:
    """What is wrong with some programs, a text each."""
    return extremes.answers(programs, arch, lambda one, *found: differ(one, *found, by_python(one)))


def differ(one: Program, simulated: list[Any], emulated: list[Any], wanted: Any) -> list[str]:
    """Where the first result is another one than Python's."""
    for who, x in (("the simulator", simulated[0]), ("the emulator", emulated[0])):
        if not (x == wanted).all():
            k, t = np.argwhere(x != wanted)[0]
            return [f"result {k} of thread {t} is {x[k, t]} in {who}, {wanted[k, t]} in Python"]
    return []


if __name__ == "__main__":
    sys.exit(command.in_batches(__doc__, draw, judged, 20))
