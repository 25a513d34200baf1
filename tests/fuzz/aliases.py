"""Random functions of objects that several names mean, changed in place: moye refuses them, or is right.

    python tests/fuzz/aliases.py 1000 300               # first seed, functions

In: a seed.  Out: ``Program``, as of ``pythonic.py``, with records, objects, lists and dicts in each other.

Names, parts and closures mean one object; conditions and loops change it, put others in its place, or call helpers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "cases"),
                    str(Path(__file__).parents[2] / "src")]

import numpy as np

import moye as mo
from fuzz import command, extremes, pythonic
from moye.errors import MoyeError

HEAD = pythonic.HEAD + '''import copy
from collections import deque
from dataclasses import field


@dataclass
class Cell:
    x: int
    y: int = 3

    def add(self, by):
        self.x = (self.x + by) % 1009
        return self


class Thing:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def add(self, by):
        self.y = (self.y + by) % 1009
        return self


@dataclass
class Box:
    inner: Cell
    items: list


class Row(list):
    """A list with an attribute, which its constructor changes."""

    def __init__(self, items, note):
        super().__init__(items)
        self.note = (note + 1) % 1009


@dataclass
class Post:
    """What its constructor changes, a field that it makes, and an attribute that is no field."""

    x: int
    y: int = field(init=False)

    def __post_init__(self):
        self.x, self.y, self.more = (self.x * 2) % 1009, (self.x + 1) % 1009, self.x % 5

    def add(self, by):
        self.more = (self.more + by) % 1009
        return self


@mo.jit
def bump(c, v):
    if v > 3:
        c.x = v % 100
        return c.x
    c.y = (c.y + v) % 1009
    return c.y


@mo.jit
def trade(c, d):
    c.x, d.x = d.x, c.x
    return c.x - d.y


@mo.jit
def chosen(c, d, v):
    if v > 2:
        return c
    return d


'''
NUMBERS = {"cell": ("{}.x", "{}.y"), "thing": ("{}.x", "{}.y"), "list": ("{}[0]", "{}[1]", "{}[-1]"),
           "dict": ("{}['a']", "{}['b']"), "box": ("{}.inner.x", "{}.items[0]", "{}.items[-1]", "{}.inner.y"),
           "cells": ("{}[0].x", "{}[1].y", "{}[-1].x"), "row": ("{}[0]", "{}[-1]", "{}.note"),
           "ring": ("{}[0]", "{}[-1]"), "post": ("{}.x", "{}.y", "{}.more")}
PARTS = {"box": (("cell", "{}.inner"), ("list", "{}.items")), "cells": (("cell", "{}[0]"), ("cell", "{}[1]"))}


class Generator(pythonic.Generator):
    """``self.objects``: the kind of each name."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.objects: dict[str, str] = {}
        self.calls: list[str] = []
        self.foreign: set[str] = set()
        """Names of the function around this one, which it does not rebind."""

    def atom(self) -> str:
        if self.calls and self.chance(0.1):
            return self.rng.choice(self.calls)
        if self.objects and self.chance(0.4):
            return self.rng.choice(self.numbers())
        return super().atom()

    def numbers(self) -> list[str]:
        return [path.format(name) for name, kind in self.objects.items() for path in NUMBERS[kind]]

    def of(self, kind: str) -> list[str]:
        """Every object of a kind."""
        found = [name for name, k in self.objects.items() if k == kind]
        return found + [path.format(name) for name, outer in self.objects.items()
                        for k, path in PARTS.get(outer, ()) if k == kind]

    def made(self, kind: str) -> str:
        if (old := self.of(kind)) and self.chance(0.3):
            name = self.rng.choice(old)
            return {"list": f"list({name})", "dict": f"dict({name})", "cells": f"[*{name}]"}.get(kind) or \
                f"copy.copy({name})"
        if kind == "box":
            return f"Box({self.given('cell')}, {self.given('list')})"
        if kind == "cells":
            return f"[{self.given('cell')}, {self.given('cell')}]"
        return {"cell": "Cell({}, {})", "thing": "Thing({}, {})", "list": "[{}, {}]",
                "dict": "dict(a={}, b={})", "row": "Row([{}, 4], {})", "ring": "deque([{}, {}], maxlen=2)",
                "post": "Post({} + 0 * {})"}[kind].format(self.small(), self.small())

    def given(self, kind: str) -> str:
        """An object that is there, or a new one."""
        return self.rng.choice(old) if (old := self.of(kind)) and self.chance(0.6) else self.made(kind)

    def statements(self, most: int) -> None:
        for _ in range(self.rng.randint(1, most)):
            if self.budget <= 0:
                return
            kinds: list[Callable[[], None]] = [self.change] * 4 + [self.rebind, self.put] * 2 + [
                self.exchange, self.method, self.turn, self.helper, self.perhaps, self.perhaps]
            if self.objects and self.chance(0.7):
                self.budget -= 1
                self.rng.choice(kinds)()
            else:
                super().statements(1)

    def declare(self) -> None:
        if self.depth == 1 and len(self.objects) < 3:
            self.record()
        super().declare()

    def results(self) -> list[str]:
        """What the function returns: of every object, and of closures."""
        names = [*self.numbers(), *self.calls, *self.targets()]
        return [" + ".join(self.rng.choices(names, k=4)) for _ in range(pythonic.RESULTS)]

    def inside(self, most: int) -> None:
        objects, calls = dict(self.objects), list(self.calls)
        super().inside(most)
        self.objects, self.calls = objects, calls

    def function(self, name: str, count: int, decorator: str) -> None:
        objects, calls, foreign = dict(self.objects), list(self.calls), set(self.foreign)
        if not self.depth:
            self.objects, self.calls = {}, []
        self.foreign |= set(self.objects)
        super().function(name, count, decorator)
        self.objects, self.calls, self.foreign = objects, calls, foreign

    def record(self) -> None:
        kind, name = self.rng.choice(list(NUMBERS)), self.fresh("o")
        self.line(f"{name} = {self.given(kind)}")
        self.objects[name] = kind

    def change(self) -> None:
        place = self.rng.choice(self.numbers())
        if self.chance(0.5):
            self.line(f"{place} = {self.small()}")
        else:
            self.line(f"{place} {self.rng.choice(['+=', '-=', '^='])} {self.small()}")
            self.line(f"{place} %= 1009")

    def exchange(self) -> None:
        kind = self.rng.choice(list(self.objects.values()))
        if len(found := [name for name in self.of(kind) if name not in self.foreign]) > 1:
            a, b = self.rng.sample(found, 2)
            self.line(f"{a}, {b} = {b}, {a}")

    def method(self) -> None:
        if found := [*self.of("cell"), *self.of("thing"), *self.of("post")]:
            self.line(f"{self.rng.choice(found)}.add({self.small()}){self.rng.choice(['', '.add(2)'])}")

    def turn(self) -> None:
        """The items of a list change places; a ring takes a number in and lets one go."""
        if found := [*self.of("list"), *self.of("row")]:
            self.line(f"{self.rng.choice(found)}.reverse()")
        if found := self.of("ring"):
            how = self.rng.choice(["rotate(1)", "reverse()", f"append({self.small()})"])
            self.line(f"{self.rng.choice(found)}.{how}")

    def helper(self) -> None:
        if found := [*self.of("cell"), *self.of("thing")]:
            name, a, b = self.fresh(), self.rng.choice(found), self.rng.choice(found)
            self.line(f"{name} = {self.rng.choice([f'bump({a}, {self.small()})', f'trade({a}, {b})'])} % 1009")
            self.ints.append(name)

    def rebind(self) -> None:
        """A name means another object from here on, perhaps."""
        own = [name for name in self.objects if name not in self.foreign]
        if not own:
            return
        name = self.rng.choice(own)
        kind = self.objects[name]
        if kind in ("cell", "thing", "post", "row") and self.chance(0.3):
            self.line(f"{name} = chosen({self.given(kind)}, {self.given(kind)}, {self.small()})")
        elif self.chance(0.5):
            self.line(f"if {self.truth(1)}:")
            self.line(f"    {name} = {self.given(kind)}")
        else:
            self.line(f"{name} = {self.given(kind)}")

    def perhaps(self) -> None:
        """A name or a part means another object if conditions in each other hold, or after some turn of a loop."""
        places = [(kind, name) for name, kind in self.objects.items() if name not in self.foreign]
        places += [(kind, path.format(name)) for name, outer in self.objects.items()
                   for kind, path in PARTS.get(outer, ())]
        if not places:
            return
        kind, place = self.rng.choice(places)
        depth = 0
        for _ in range(self.rng.randint(1, 3)):
            turns = self.rng.random() < 0.4
            self.line("    " * depth + (f"for {self.fresh('i')} in range(({self.atom()}) % 3):" if turns else
                                        f"if {self.truth(1)}:"))
            depth += 1
        self.line("    " * depth + f"{place} = {self.given(kind)}")

    def put(self) -> None:
        """A part of an object becomes another one; or a closure that sees objects."""
        parts = [(kind, path.format(name)) for name, outer in self.objects.items()
                 for kind, path in PARTS.get(outer, ())]
        if parts and self.chance(0.6):
            kind, place = self.rng.choice(parts)
            self.line(f"{place} = {self.given(kind)}")
        else:
            name = self.fresh("f")
            self.line(f"{name} = lambda k=2: {self.rng.choice(self.numbers())} + k")
            self.calls += [f"{name}()", f"{name}(3)"]


def draw(seed: int) -> pythonic.Program:
    """A function of objects."""
    one = Generator(seed).program()
    one.source = one.source.replace(pythonic.HEAD, HEAD, 1)
    return one


REFUSALS = ("one of them is changed in place while", "an object of a plain class")


def verdict(one: pythonic.Program) -> tuple[str, str]:
    """(``same`` or ``refused``, what is wrong or nothing)."""
    wanted = pythonic.by_python(one)
    arguments: list[Any] = [x.copy() if isinstance(x, np.ndarray) else x for x in one.arrays]
    try:
        report = mo.check(extremes.kernel_of(one), lints=False)[1, pythonic.THREADS](*arguments)
    except MoyeError as error:
        return "refused", "" if any(text in str(error) for text in REFUSALS) else f"{one.seed}: {error}"
    return "same", pythonic.told(one, report, arguments[0], wanted)


def judged(programs: Sequence[pythonic.Program]) -> list[str]:
    """What is wrong with some programs, a text each."""
    return [told for _, told in map(verdict, programs) if told]


if __name__ == "__main__":
    sys.exit(command.in_batches(__doc__, draw, judged, 20))
