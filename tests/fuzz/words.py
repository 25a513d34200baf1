"""Random functions of words, as hashes and generators of random numbers are written: all answers agree.

    python tests/fuzz/words.py 1000 300                 # first seed, functions

In: a seed.  Out: ``Program``: a function of integers of every width and sign that plain Python calls for each thread
with the numbers of ``functions.py``, and that a kernel traces.

Loops carry words that are shifted, rotated, multiplied, mixed and wrap; helpers mix them; tables of narrow elements are
read at any integer; elements of memory and of registers are changed in place by numbers of other dtypes; conditions
compare words of two signs.  What overflows with a finding, and negative counts, make a program unclear.
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

from fuzz import command, extremes, functions, on_emulator
from fuzz.extremes import NUMPY, number
from fuzz.functions import BITS, MO, NAMES, Value
from fuzz.scalars import Unclear

THREADS, CELLS, SLOTS, RESULTS = 64, 16, 4, 4
INTEGERS = ("u8", "i8", "u16", "i16", "u32", "u32", "u64", "i32", "i64")
WRAPS = ("u8", "i8", "u16", "i16", "u32", "u64")


@dataclass
class Program:
    seed: int
    source: str
    results: list[str]          # dtypes of what the function returns
    memory: str                 # the dtype of what it changes in place
    arrays: list[Any] = field(repr=False)
    wanted: list[Any] = field(default_factory=list, repr=False)

    @property
    def name(self) -> str:
        return f"extremes_{self.seed}"


class Cells:
    """Elements of one dtype: what is stored is converted."""

    def __init__(self, values: Any, t: str) -> None:
        self.values, self.t = values, t

    def __getitem__(self, at: Any) -> Value:
        return Value(self.t, self.values[self._at(at)].item())

    def __setitem__(self, at: Any, x: Any) -> None:
        self.values[self._at(at)] = functions.held(x, self.t)

    @staticmethod
    def _at(at: Any) -> Any:
        return tuple(int(i) for i in at) if isinstance(at, tuple) else int(at)


def counted(*bounds: Any) -> Any:
    return (Value("i32", i) for i in range(*(int(b) for b in bounds)))


PLAIN = SimpleNamespace(**vars(MO), jit=lambda f: f, range=counted, static_range=range,
                        fragment=lambda shape, t: Cells(np.zeros(shape, NUMPY[t.t]), t.t))


class Generator:
    def __init__(self, seed: int) -> None:
        self.rng, self.seed = random.Random(f"words {seed}"), seed
        self.lines: list[str] = []
        self.depth, self.budget, self.count = 1, self.rng.randint(6, 18), 0
        self.types = self.rng.sample(INTEGERS, self.rng.randint(1, 3))
        self.words: dict[str, str] = {}
        self.fixed: set[str] = set()
        self.tables = {f"table_{t}": t for t in self.rng.sample(sorted({*INTEGERS}), 2)}
        self.memory = self.rng.choice(INTEGERS)
        self.registers: dict[str, str] = {}
        self.helpers: list[tuple[str, str]] = []
        self.loops = self.nested = 0

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def any(self) -> str:
        return self.rng.choice([*self.types, *self.types, *INTEGERS])

    # --- expressions ---

    def leaf(self, t: str) -> str:
        found = [name for name, of in self.words.items() if of == t]
        way = self.rng.random()
        if found and way < 0.6:
            return self.rng.choice(found)
        if way < 0.8 and self.words:
            return f"{self.rng.choice(list(self.words))}.to(mo.{NAMES[t]})"
        if way < 0.9:
            return f"mo.{NAMES[t]}({self.constant(t)})"
        return f"{self.loaded()}.to(mo.{NAMES[t]})"

    def constant(self, t: str) -> str:
        low, high = functions.limits(t)
        x = number(self.rng, t) if self.chance(0.6) else self.rng.randint(low, high)
        return f"({x})" if x < 0 else self.rng.choice([str(x), hex(x)])

    def loaded(self) -> str:
        if not self.tables:             # a helper at the top has two words alone
            return "h"
        way = self.rng.randrange(4)
        if way == 0:
            return f"memory[{self.rng.randrange(SLOTS)}, tid]"
        if way == 1 and self.registers:
            return f"{self.rng.choice(list(self.registers))}[{self.rng.randrange(SLOTS)}]"
        return f"{self.rng.choice(list(self.tables))}[{self.index(CELLS)}]"

    def index(self, most: int) -> str:
        word = self.rng.choice(list(self.words) or ["tid"])
        return self.rng.choice([f"{word} % {most}", f"{word} & {most - 1}", f"({word} >> 1) % {most}"])

    def of(self, t: str, depth: int = 2) -> str:
        """An expression of the dtype."""
        if depth <= 0:
            return self.leaf(t)
        if self.helpers and self.chance(0.1):
            name, of = self.rng.choice(self.helpers)
            return f"{name}({self.leaf(of)}, {self.leaf(of)}).to(mo.{NAMES[t]})"
        a, b, depth = self.of(t, depth - 1), self.right(t), depth - 1
        kinds: list[Callable[[], str]] = [
            lambda: f"({a} {self.rng.choice('&|^')} {b})", lambda: f"({a} {self.rng.choice('&|^')} {b})",
            lambda: f"({a} >> {self.shift(t)})", lambda: f"(~{a})", lambda: self.rotated(t),
            lambda: f"({a} {self.rng.choice(['//', '%'])} {self.divisor(t)})",
            lambda: f"mo.{NAMES[t]}({self.of(self.any(), depth)})",
            lambda: f"({a} if {self.truth(depth)} else {self.leaf(t)})",
            lambda: f"mo.where({self.truth(depth)}, {a}, {self.leaf(t)})",
            lambda: f"mo.{self.rng.choice(['min', 'max'])}({a}, {b})", lambda: self.loaded() + f".to(mo.{NAMES[t]})",
            lambda: f"mo.brev({a})"]
        if t in WRAPS:
            kinds += [lambda: f"({a} {self.rng.choice('+-*')} {b})"] * 4
            kinds += [lambda: f"({b} - {a})", lambda: f"({a} << {self.shift(t)})", lambda: f"(-{a})"]
        else:
            kinds += [lambda: f"(({a} >> 2) + ({b} >> 3))", lambda: f"(({a} & 0x7F) * {self.rng.randint(-99, 99)})"]
        if BITS[t] >= 32:
            kinds += [lambda: f"mo.mul_hi({a}, {self.leaf(t)})"]
        return self.rng.choice(kinds)()

    def right(self, t: str) -> str:
        return self.constant(t) if self.chance(0.3) else self.leaf(t)

    def shift(self, t: str) -> str:
        return self.rng.choice([str(self.rng.randrange(BITS[t] + 2)), f"({self.leaf(self.any())} & {BITS[t] - 1})",
                                f"({self.leaf(self.any())} % {BITS[t]})"])

    def divisor(self, t: str) -> str:
        high = functions.limits(t)[1]
        return self.rng.choice([str(min(high, n)) for n in (3, 7, 10, 97, 1000, 65535, 4096)] +
                               [f"({self.leaf(t)} | 1)" if t[0] == "u" else "(-5)", f"mo.max({self.leaf(t)}, 1)"])

    def rotated(self, t: str) -> str:
        x = self.rng.choice([n for n, of in self.words.items() if of == t] or [self.leaf(t)])
        r = self.rng.randrange(1, BITS[t])
        if t[0] == "i":
            return f"({x} >> {r})"
        return f"({x} << {r} | {x} >> {BITS[t] - r})"

    def truth(self, depth: int = 1) -> str:
        t = self.any()
        a, b = self.of(t, depth), self.right(t) if self.chance(0.6) else self.leaf(self.any())
        kinds = [f"{a} {self.rng.choice(['<', '<=', '>', '>=', '==', '!='])} {b}"] * 4
        kinds += [f"{a} & {self.constant(t)} != 0", f"{self.leaf(t)} < {self.leaf(self.any())} <= {self.leaf(t)}",
                  f"{self.leaf(t)} % 2", f"not {self.leaf(t)}", f"{self.leaf(t)} in (1, {self.constant(t)})"]
        text = self.rng.choice(kinds)
        return f"(({text}) {self.rng.choice(['and', 'or'])} {self.truth(0)})" if self.chance(0.15) else f"({text})"

    # --- statements ---

    def free(self) -> list[str]:
        return [name for name in self.words if name not in self.fixed]

    def statements(self, most: int) -> None:
        for _ in range(self.rng.randint(1, most)):
            if self.budget <= 0:
                break
            self.budget -= 1
            kinds: list[Callable[[], None]] = [self.declare, self.remember, self.remember, self.keep]
            if self.free():
                kinds += [self.assign] * 4 + [self.augment] * 6 + [self.exchange]
            if self.depth < 5:
                kinds += [self.branch, self.branch]
            if self.nested < 2:                             # plain Python is slow
                kinds += [self.count_up, self.count_up, self.loop, self.unrolled]
            if self.loops:
                kinds += [self.leave]
            self.rng.choice(kinds)()

    def declare(self) -> None:
        name, t = self.fresh("w"), self.any()
        text = f"mo.{NAMES[t]}({self.of(self.any(), 1)})" if self.chance(0.4) else self.of(t)
        self.line(f"{name} = {text}")
        self.words[name] = t

    def assign(self) -> None:
        name = self.rng.choice(self.free())
        self.line(f"{name} = {self.of(self.words[name])}")

    def augment(self) -> None:
        name = self.rng.choice(self.free())
        self.line(f"{name} {self.sign(self.words[name])}")

    def sign(self, t: str) -> str:
        """An operator in place, and what stands behind it, that keeps the dtype."""
        kinds = [f"{sign}= {self.right(t) if self.chance(0.5) else self.of(t, 1)}" for sign in "&|^"]
        kinds += [f">>= {self.shift(t)}", f"//= {self.divisor(t)}", f"%= {self.divisor(t)}"]
        if t in WRAPS:
            kinds += [f"{sign}= {self.right(t) if self.chance(0.5) else self.of(t, 1)}" for sign in "+-*+-*"]
            kinds += [f"<<= {self.shift(t)}"]
        return self.rng.choice(kinds)

    def exchange(self) -> None:
        name = self.rng.choice(self.free())
        t = self.words[name]
        other = self.rng.choice([n for n in self.free() if self.words[n] == t])
        if other != name:
            self.line(f"{name}, {other} = {other}, {self.of(t, 1)}")

    def remember(self) -> None:
        """An element of memory, changed in place or set, by numbers of any dtype."""
        place = f"memory[{self.rng.randrange(SLOTS)}, tid]"
        t = self.memory if self.chance(0.4) else self.any()
        if BITS[t] == 64 and BITS[self.memory] < 64:        # what does not fit is a finding
            t = self.memory
        if self.chance(0.5):
            self.line(f"{place} = {self.of(t)}")
        elif t in WRAPS and self.memory in WRAPS:
            self.line(f"{place} {self.rng.choice(['+', '-', '*', '&', '|', '^'])}= {self.of(t, 1)}")
        else:
            self.line(f"{place} {self.sign(self.memory)}")

    def keep(self) -> None:
        """Registers."""
        if self.registers and self.chance(0.7):
            name = self.rng.choice(list(self.registers))
            place = f"{name}[{self.rng.randrange(SLOTS)}]"
            self.line(f"{place} {self.sign(self.registers[name])}" if self.chance(0.6) else
                      f"{place} = {self.of(self.registers[name], 1)}")
        elif self.depth == 1:
            name, t = self.fresh("r"), self.any()
            self.line(f"{name} = mo.fragment(({SLOTS},), mo.{NAMES[t]})")
            self.line(f"for k in mo.static_range({SLOTS}):")
            self.line(f"    {name}[k] = {self.of(t, 1)}")
            self.registers[name] = t

    def inside(self, most: int) -> None:
        self.depth += 1
        words, lines = dict(self.words), len(self.lines)
        self.statements(most)
        if len(self.lines) == lines:
            self.line("pass")
        self.words = words
        self.depth -= 1

    def branch(self) -> None:
        self.line(f"if {self.truth()}:")
        self.inside(3)
        if self.chance(0.3):
            self.line(f"elif {self.truth()}:")
            self.inside(2)
        if self.chance(0.5):
            self.line("else:")
            self.inside(3)

    def count_up(self) -> None:
        i = self.fresh("i")
        word = self.rng.choice(list(self.words))
        if self.words[word] == "u64":
            word = f"{word}.to(mo.uint8)"
        bounds = self.rng.choice(["3", f"{word} % 5", f"1, ({word} & 3) + 2", f"5, {word} % 4, -2"])
        self.line(f"for {i} in mo.range({bounds}):" if "-2" not in bounds else f"for {i} in range({bounds}):")
        self.inner(i)

    def inner(self, i: str) -> None:
        """The body of a loop, whose counter is read as a word of some dtype."""
        t, name = self.any(), self.fresh("w")
        self.line(f"    {name} = mo.{NAMES[t]}({i})")
        self.words[name] = t
        self.fixed.add(name)
        self.turns()
        del self.words[name]

    def turns(self) -> None:
        self.loops, self.nested = self.loops + 1, self.nested + 1
        self.inside(4)
        self.loops, self.nested = self.loops - 1, self.nested - 1

    def loop(self) -> None:
        """A word that is used up: by shifts, or by counting."""
        name, t = self.fresh("w"), self.rng.choice(["u8", "u16", "u32", "u64", "i8", "i32"])
        self.line(f"{name} = {self.of(t, 1)} & 0x7F")
        self.line(self.rng.choice([f"while {name}:", f"while {name} > 0:", f"while {name} != 0 and {self.truth()}:"]))
        self.line(f"    {name} {self.rng.choice(['>>= 1', '//= 3', '&= ' + name + ' - 1'])}")
        self.words[name] = t
        self.fixed.add(name)
        self.turns()

    def unrolled(self) -> None:
        k = self.fresh("k")
        self.line(f"for {k} in mo.static_range({self.rng.choice(['3', '0, 16, 8', '5, 0, -3'])}):")
        loops, self.loops = self.loops, 0
        self.inner(k)
        self.loops = loops

    def leave(self) -> None:
        self.line(f"if {self.truth()}:")
        self.line(f"    {self.rng.choice(['break', 'continue'])}")

    # --- the whole ---

    def helper(self, n: int) -> None:
        """A function of two words that mixes them, and may return early."""
        t = self.any()
        self.depth, self.words = 1, {"h": t, "k": t}
        budget, self.budget, tables, self.tables = self.budget, 5, self.tables, {}
        self.lines += ["@mo.jit", f"def mix{n}(h, k):"]
        for _ in range(self.rng.randint(1, 3)):
            self.rng.choice([self.augment, self.augment, self.assign, self.exchange])()
        if self.chance(0.4):
            self.line(f"if {self.truth()}:")
            self.line(f"    return {self.of(t, 1)}")
        self.augment()
        self.lines += [f"    return {self.of(t, 1)}", "", ""]
        self.budget, self.tables = budget, tables
        self.helpers.append((f"mix{n}", t))

    def program(self) -> Program:
        for n in range(self.rng.randint(0, 2)):
            self.helper(n)
        inputs = {f"x{i}": self.any() for i in range(2)}
        self.words, self.depth = dict(inputs), 1
        self.lines += ["@mo.jit", f"def body(memory, {', '.join(self.tables)}, {', '.join(inputs)}, tid):"]
        while self.budget > 0:
            self.statements(4)
        names = [self.rng.choice(list(self.words)) for _ in range(RESULTS)]
        self.line(f"return {', '.join(names)}")
        return self._written(inputs, [self.words[name] for name in names])

    def _written(self, inputs: dict[str, str], results: list[str]) -> Program:
        outs = [f"o{k}" for k in range(RESULTS)]
        parameters = [*outs, "memory", *self.tables, *inputs]
        tail = ["", "", "@mo.kernel", f"def extremes_{self.seed}({', '.join(parameters)}):",
                "    tid = mo.thread_idx().x",
                f"    found = body(memory, {', '.join(self.tables)}, {', '.join(f'{x}[tid]' for x in inputs)}, tid)",
                *(f"    o{k}[tid] = found[{k}]" for k in range(RESULTS))]
        arrays = [np.zeros(THREADS, NUMPY[t]) for t in results]
        arrays += [self._numbers(self.memory, (SLOTS, THREADS)),
                   *(self._numbers(t, (CELLS,)) for t in self.tables.values()),
                   *(self._numbers(t, (THREADS,)) for t in inputs.values())]
        source = "import moye as mo\n\n\n" + "\n".join([*self.lines, *tail]) + "\n"
        return Program(self.seed, source, results, self.memory, arrays)

    def _numbers(self, t: str, shape: tuple[int, ...]) -> Any:
        values = [number(self.rng, t) for _ in range(int(np.prod(shape)))]
        return np.array(values, NUMPY[t]).reshape(shape)


def draw(seed: int) -> Program:
    """A program whose every thread is clear."""
    for turn in range(100):
        one = Generator(seed + 1_000_003 * turn).program()
        try:
            one.wanted = by_python(one)
        except Unclear:
            continue
        return one
    raise AssertionError("a hundred programs are unclear")


def by_python(one: Program) -> list[Any]:
    """Results and memory of plain Python."""
    names: dict[str, Any] = {"mo": PLAIN}
    text = one.source[:one.source.index("@mo.kernel")].replace("import moye as mo\n", "")
    exec(compile(text.replace(" in range(", " in mo.range("), "<plain>", "exec", dont_inherit=True), names)
    memory = Cells(one.arrays[RESULTS].copy(), one.memory)
    rest = one.arrays[RESULTS + 1:]
    made = [x.copy() for x in one.arrays[:RESULTS]]
    types = {v: k for k, v in NUMPY.items()}
    tables = [Cells(x, types[x.dtype]) for x in rest[:-2]]
    for tid in range(THREADS):
        given = [Value(types[x.dtype], x[tid].item()) for x in rest[-2:]]
        found = names["body"](memory, *tables, *given, Value("i32", tid))
        for k, x in enumerate(found):
            assert isinstance(x, Value) and x.t == one.results[k], "the generator knows each dtype"
            made[k][tid] = x.v
    return [*made, memory.values]


def judged(programs: Sequence[Program], arch: str = on_emulator.ARCH) -> list[str]:
    """What is wrong with some programs, a text each."""
    return extremes.answers(programs, arch, differ)


def differ(one: Program, simulated: list[Any], emulated: list[Any]) -> list[str]:
    for k, wanted in enumerate(one.wanted):
        for who, x in (("the simulator", simulated[k]), ("the emulator", emulated[k])):
            if not (x == wanted).all():
                at = tuple(int(i) for i in np.argwhere(x != wanted)[0])
                return [f"array {k} at {at} is {x[at]} in {who}, {wanted[at]} in Python"]
    return []


if __name__ == "__main__":
    sys.exit(command.in_batches(__doc__, draw, judged, 20))
