"""Joins of ``generator.py``: a variable gets its value on one of several ways, and is told apart near the ends of each.

In: the generator that draws the program.  Out: its lines.

What is known on one way must not be taken for known behind the join: of numbers, and of the parts of a tuple, a list or
a dict, after branches, loops and functions with early returns.
"""

from __future__ import annotations

import random

from fuzz.expressions import Expressions, Text, Variable
from fuzz.scalars import NAMES, family, limits, promote

SHAPES = {"number": ("{}",), "tuple": ("{}[0]", "{}[1]"), "list": ("{}[0]", "{}[1]"), "dict": ("{}['a']", "{}['b']")}


class Joins:
    """Draws joins; what it needs of a program is declared here."""

    rng: random.Random
    e: Expressions
    types: list[str]
    loops: list[str]
    depth: int

    def chance(self, p: float) -> bool:
        raise NotImplementedError

    def line(self, text: str) -> None:
        raise NotImplementedError

    def fresh(self, t: str) -> str:
        raise NotImplementedError

    def out(self, t: str, e: Text) -> None:
        raise NotImplementedError

    def targets(self) -> list[Variable]:
        raise NotImplementedError

    def value(self, v: Variable, depth: int = 3) -> str:
        raise NotImplementedError

    def s_join(self) -> None:
        t = self.rng.choice([s for s in self.types if family(s) in "iu"])
        shape = self.rng.choice(["number", "number", *SHAPES])
        way = self.rng.choice(["branch", "once", "function", "loop", "late", *(() if self.loops else ("mixed",))])
        if way == "mixed":
            self._mixed()
            return
        name = f"join{self.fresh(t)}"
        ways = [[self.e.walk(t) for _ in SHAPES[shape]] for _ in range(2)]
        getattr(self, f"_{way}")(name, t, *(self._made(shape, parts) for parts in ways))
        for part, ends in zip(SHAPES[shape], zip(*ways, strict=True), strict=True):
            self._told(part.format(name), t, ends if way != "late" else ends[1:])

    def s_rotate(self) -> None:
        """Each turn of a loop moves a value on by one variable."""
        t = self.rng.choice([s for s in self.types if family(s) in "iu"])
        a, b, c = (f"turn{self.fresh(t)}" for _ in range(3))
        self.line(f"{a}, {b}, {c} = {', '.join(self.e.walk(t).text for _ in range(3))}")
        self.line(f"for _ in range({self.rng.randint(1, 4)}):")
        self.line(f"    {a}, {b}, {c} = {b}, {c}, {self.e.walk(t).text}")
        self.out(t, Text(a))

    def s_restore(self) -> None:
        """A variable is changed under a condition, read, and put back; another way may change it, too."""
        found = [v for v in self.targets() if v.t != "bool" and not v.uniform]
        if not found:
            return
        v = self.rng.choice(found)
        kept, depth = f"kept{self.fresh(v.t)}", self.depth
        if self.chance(0.5):
            self.line(f"for _ in range({self.rng.randint(1, 3)}):")
            self.depth += 1
        branch = self.chance(0.6)
        if branch:
            self.line(f"if {self.e.truth(1)}:")
            self.depth += 1
        self.line(f"{kept} = {v.name}")
        self.line(f"if {self.e.truth(1)}:")
        self.line(f"    {v.name} = {self.value(v, 2)}")
        self.out(v.t, Text(v.name))
        self.line(f"{v.name} = {kept}")
        if branch:
            self.depth -= 1
            self.line("else:")
            self.line(f"    {v.name} = {self.value(v, 2)}")
        self.depth = depth

    @staticmethod
    def _made(shape: str, parts: tuple[Text, ...] | list[Text]) -> str:
        texts = [part.text for part in parts]
        return {"number": texts[0], "tuple": f"({', '.join(texts)})", "list": f"[{', '.join(texts)}]",
                "dict": "{" + ", ".join(f"'{key}': {x}" for key, x in zip("ab", texts, strict=False)) + "}"}[shape]

    def _told(self, value: str, t: str, ends: tuple[Text, ...]) -> None:
        """Comparisons with what each way makes possible, and a remainder that is nothing to do for one of them."""
        signs = ["<", "<=", ">", ">=", "==", "!="]
        bits = [f"mo.int32({value} {self.rng.choice(signs)} {self.e.near(e, t)}) * {1 << i}"
                for i, e in enumerate([e for e in ends for _ in range(3)])]
        self.out("i32", Text(" + ".join(bits)))
        n = max(self.e.near(self.rng.choice(ends), t), 1)
        self.out(t, Text(f"{value} {self.rng.choice(['%', '//'])} {n}"))

    def _branch(self, name: str, t: str, one: str, other: str) -> None:
        self.line(f"if {self.e.truth(1)}:")
        self.line(f"    {name} = {one}")
        self.line("else:")
        self.line(f"    {name} = {other}")

    def _once(self, name: str, t: str, one: str, other: str) -> None:
        self.line(f"{name} = {one}")
        self.line(f"if {self.e.truth(1)}:")
        self.line(f"    {name} = {other}")

    def _function(self, name: str, t: str, one: str, other: str) -> None:
        self.line(f"def made_{name}():")
        self.line(f"    if {self.e.truth(1)}:")
        self.line(f"        return {one}")
        self.line(f"    return {other}")
        self.line(f"{name} = made_{name}()")

    def _loop(self, name: str, t: str, one: str, other: str) -> None:
        self.line(f"{name} = {one}")
        self.line(f"for _ in range({self.rng.randint(1, 3)}):")
        self.line(f"    if {self.e.truth(1)}:")
        self.line(f"        {name} = {other}")
        if self.chance(0.3):
            self.line("        break")

    def _late(self, name: str, t: str, one: str, other: str) -> None:
        """First set in a loop that surely runs."""
        self.line(f"for _ in range({self.rng.randint(1, 3)}):")
        self.line(f"    {name} = {one}")
        self.line(f"    {name} = {other}")

    def _mixed(self) -> None:
        """Two dtypes, of which one holds all numbers of the other."""
        kind = self.rng.choice("if")
        found = [(a, b) for a in self.types for b in self.types if a != b and self._holds(promote(a, b), a, b)
                 and (family(a) == "f") == (kind == "f")]
        if not found:
            return
        a, b = self.rng.choice(found)
        name, t = f"join{self.fresh(promote(a, b))}", promote(a, b)
        self._branch(name, t, self.e.of(a, 1).text, self.e.of(b, 1).text)
        self.out(t, Text(f"mo.{NAMES[t]}({name})"))

    @staticmethod
    def _holds(t: str, a: str, b: str) -> bool:
        families = {family(a), family(b)}
        if families == {"f"}:
            return True
        return families <= {"i", "u"} and all(limits(t)[0] <= limits(s)[0] and limits(s)[1] <= limits(t)[1]
                                              for s in (a, b))
