"""Random functions that keep numbers in register tensors, views and aliases of them: NumPy's arrays, and moye's.

    python tests/fuzz/kept.py 1000 300                  # first seed, functions

In: a seed.  Out: ``Program``, as of ``pythonic.py``; plain Python runs it on arrays of NumPy, one thread at a time.

Parts and elements are written through views, closures, helpers, lists and dicts, in loops, branches and after jumps;
sides of an assignment overlap; results that nobody has used yet outlive what they were computed of.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "cases"),
                    str(Path(__file__).parents[2] / "src")]

import numpy as np

from fuzz import command, extremes, on_emulator, pythonic

HEAD = pythonic.HEAD + """
def new(shape, first, step):
    made = mo.fragment(shape, mo.int32)
    for n, at in enumerate(places(shape)):
        made[at] = (first + step * n) % 97
    return made


def places(shape):
    return [(i,) for i in range(shape[0])] if len(shape) == 1 else \\
        [(i, j) for i in range(shape[0]) for j in range(shape[1])]


"""
FOLDS = "def folded(x, kind): return x.reduce(kind)"
PLAIN = SimpleNamespace(
    jit=lambda f: f, range=range, static_range=range, int32=None, fragment=lambda shape, _: np.zeros(shape, np.int64),
    where=np.where, min=np.minimum, max=np.maximum, abs=np.abs, copyto=lambda d, s: d.__setitem__(..., s),
    make_fragment_like=np.zeros_like)
SHAPES = ((4,), (8,), (6,), (2, 4), (4, 2), (3, 2), (1, 4), (4, 1))
Shape = tuple[int, ...]


class Generator(pythonic.Generator):
    """``self.tensors``: the shape of each name; ``self.masks``: of those that hold truths."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.tensors: dict[str, Shape] = {}
        self.masks: dict[str, Shape] = {}
        self.foreign: set[str] = set()

    # --- numbers of tensors ---

    def atom(self) -> str:
        if self.tensors and self.chance(0.4):
            name = self.rng.choice(list(self.tensors))
            if self.chance(0.2):
                return f"folded({name}, {self.rng.choice(['add', 'min', 'max'])!r})"
            return f"{name}[{self.place(self.tensors[name])}]"
        return super().atom()

    def place(self, shape: Shape) -> str:
        return ", ".join(str(self.rng.randrange(extent)) for extent in shape)

    def like(self, shape: Shape, exact: bool = False) -> str:
        """A tensor of a shape, or one that is repeated to it."""
        fit = [name for name, have in self.tensors.items() if len(have) == len(shape) and all(
            x == y or (x == 1 and not exact) for x, y in zip(have, shape, strict=True))]
        parts = [text for name in self.tensors for text, have in self.views(name, 2) if have == shape]
        found = [*fit, *fit, *parts]
        return self.rng.choice(found) if found else f"new({shape}, {self.atom()}, {self.rng.randint(1, 9)})"

    def views(self, name: str, count: int) -> list[tuple[str, Shape]]:
        """Parts of a tensor, and their shapes."""
        made = []
        for _ in range(count):
            texts, shape = [], []
            for extent in self.tensors[name]:
                way = self.rng.randrange(5)
                if way == 0 and extent > 1:
                    texts.append(str(self.rng.randrange(extent)))
                elif way == 1:
                    low = self.rng.randrange(extent)
                    high = self.rng.randint(low + 1, extent)
                    texts.append(f"{low or ''}:{high}")
                    shape.append(high - low)
                elif way == 2 and extent > 2:
                    low, step = self.rng.randrange(2), self.rng.choice([2, 3])
                    texts.append(f"{low}:{extent}:{step}" if self.chance(0.5) else f"{low}::{step}")
                    shape.append(len(range(low, extent, step)))
                else:
                    texts.append(":")
                    shape.append(extent)
            if shape:
                made.append((f"{name}[{', '.join(texts)}]", tuple(shape)))
        return made

    def tensor(self, shape: Shape, depth: int = 2) -> str:
        """An expression of a shape, below about a million."""
        if depth <= 0:
            return self.like(shape, exact=True)
        x, s = self.tensor(shape, depth - 1), self.atom()
        y = self.like(shape)
        kinds = [f"({x} + {y})", f"({x} - {y})", f"({x} * {self.rng.randint(-5, 5)})", f"(-{x})", f"({x} + {s})",
                 f"({s} - {x})", f"({x} % {self.rng.choice([7, 5, -3])})", f"({x} // {self.rng.choice([2, -3, 5])})",
                 f"({x} & 63)", f"({x} ^ {y})", f"mo.max({x}, {y})", f"mo.min({x}, {self.rng.randint(-5, 90)})",
                 f"abs({x})", f"mo.where({self.mask(shape)}, {x}, {y})", f"mo.where({self.mask(shape)}, {x}, 3)", x]
        return self.rng.choice(kinds)

    def mask(self, shape: Shape) -> str:
        found = [name for name, have in self.masks.items() if have == shape]
        if found and self.chance(0.8):
            return self.rng.choice(found)
        x, sign = self.like(shape, exact=True), self.rng.choice(["<", ">=", "==", "!="])
        text = f"({x} {sign} {self.rng.choice([self.like(shape), self.atom()])})"
        return self.rng.choice([text, text, f"(~{text})", f"({text} & ({x} > 5))"])

    def bounded(self, shape: Shape) -> str:
        return f"{self.tensor(shape)} % {self.rng.choice([pythonic.LIMIT, 31, 100])}"

    # --- statements ---

    def statements(self, most: int) -> None:
        for _ in range(self.rng.randint(1, most)):
            if self.budget <= 0:
                return
            kinds: list[Callable[[], None]] = [self.write] * 4 + [self.element] * 3 + [
                self.make, self.make, self.computed, self.computed, self.alias, self.view, self.view, self.exchange,
                self.group, self.truth_of, self.helper, self.overlap, self.each]
            if self.tensors and self.chance(0.65):
                self.budget -= 1
                self.rng.choice(kinds)()
            else:
                super().statements(1)

    def declare(self) -> None:
        if self.depth == 1 and len(self.tensors) < 2:
            self.make()
        super().declare()

    def make(self) -> None:
        name, shape = self.fresh("r"), self.rng.choice(SHAPES)
        self.line(f"{name} = new({shape}, {self.atom()}, {self.rng.randint(1, 9)})")
        self.tensors[name] = shape

    def any(self) -> tuple[str, Shape]:
        """A tensor or a part of one."""
        name = self.rng.choice(list(self.tensors))
        if self.chance(0.4) and (parts := self.views(name, 1)):
            return parts[0]
        return name, self.tensors[name]

    def computed(self) -> None:
        name, shape = self.fresh("r"), self.any()[1]
        self.line(f"{name} = {self.bounded(shape)}")
        self.tensors[name] = shape

    def truth_of(self) -> None:
        name, shape, made = self.fresh("m"), self.any()[1], self.fresh("r")
        self.line(f"{name} = {self.mask(shape)}")
        self.masks[name] = shape
        if self.chance(0.5):                                # what it was made of changes before it is asked
            self.write()
        self.line(f"{made} = mo.where({name}, {self.like(shape, exact=True)}, {self.small()})")
        self.tensors[made] = shape

    def alias(self) -> None:
        name, (of, shape) = self.fresh("r"), self.any()
        self.line(f"{name} = {of}")
        self.tensors[name] = shape

    def view(self) -> None:
        name = self.fresh("r")
        if parts := self.views(self.rng.choice(list(self.tensors)), 1):
            self.line(f"{name} = {parts[0][0]}")
            self.tensors[name] = parts[0][1]

    def write(self) -> None:
        text, shape = self.any()
        way = self.rng.randrange(5)
        if way == 0:
            self.line(f"{text}.fill({self.small()})")
        elif way == 1:
            self.line(f"mo.copyto({text}, {self.like(shape, exact=True)})")
        elif way == 2 and ((text.isidentifier() and text not in self.foreign) or "[" in text):
            self.line(f"{text} {self.rng.choice(['+=', '-=', '^='])} {self.bounded(shape)}")
            self.line(f"{text} %= {pythonic.LIMIT}")
        elif "[" in text:
            self.line(f"{text} = {self.rng.choice([self.bounded(shape), self.small()])}")
        else:
            self.line(f"{text}[...] = {self.rng.choice([self.bounded(shape), self.small()])}")

    def element(self) -> None:
        name = self.rng.choice(list(self.tensors))
        text = f"{name}[{self.place(self.tensors[name])}]"
        self.line(f"{text} {self.rng.choice(['=', '=', '+=', '-='])} {self.small()}")
        self.line(f"{text} %= {pythonic.LIMIT}")

    def exchange(self) -> None:
        x, y = self.rng.choice(list(self.tensors)), self.rng.choice(list(self.tensors))
        a, b = f"{x}[{self.place(self.tensors[x])}]", f"{y}[{self.place(self.tensors[y])}]"
        self.line(f"{a}, {b} = {self.rng.choice([f'{b}, {a}', f'{b}, {a} + 1', f'{a} + 2, {b} + {a}'])}")
        self.line(f"{a} %= {pythonic.LIMIT}")
        self.line(f"{b} %= {pythonic.LIMIT}")

    def overlap(self) -> None:
        """A tensor is written from another part of itself."""
        name = self.rng.choice(list(self.tensors))
        extent, *rest = self.tensors[name]
        if extent < 3:
            return
        n, more = self.rng.randint(1, extent - 1), ", :" * len(rest)
        a, b = (f"{name}[{low}:{low + n}{more}]" for low in self.rng.sample(range(extent - n + 1), 2))
        self.line(self.rng.choice([f"{a} = {b}", f"{a} += {b}", f"mo.copyto({a}, {b})", f"{a} = {b} + {a}"]))
        self.line(f"{a} %= {pythonic.LIMIT}")

    def group(self) -> None:
        """Tensors in a list, tuple or dict, written one after the other."""
        names = self.rng.choices(list(self.tensors), k=2)
        q, made = self.fresh("q"), self.rng.choice(["[{0}, {1}]", "({0}, {1})", "dict(a={0}, b={1}).values()",
                                                    "reversed(({0}, {1}))", "{{3: {0}, 1: {1}}}.values()"])
        self.line(f"for {q} in {made.format(*names)}:")
        self.line(f"    {q} += {self.small()}")
        self.line(f"    {q} %= {pythonic.LIMIT}")

    def each(self) -> None:
        """Elements one by one, in an unrolled loop that the kernel may leave."""
        name, k = self.rng.choice(list(self.tensors)), self.fresh("k")
        shape = self.tensors[name]
        at = ", ".join([k, *(str(self.rng.randrange(extent)) for extent in shape[1:])])
        self.line(f"for {k} in mo.static_range({shape[0]}):")
        if self.chance(0.5):
            self.line(f"    if {self.truth(1)}:")
            self.line(f"        {self.rng.choice(['break', 'continue'])}")
        self.line(f"    {name}[{at}] = ({name}[{at}] + {k} + {self.small()}) % {pythonic.LIMIT}")

    def helper(self) -> None:
        """A function that changes its argument, or what is around it."""
        name, (text, shape), made = self.fresh("f"), self.any(), self.fresh()
        other = self.rng.choice(list(self.tensors))
        self.line(f"def {name}(p, s=2):")
        self.line(f"    p[{self.place(shape)}] = s % 50")
        self.line(f"    {other}[{self.place(self.tensors[other])}] = s % 70")
        if self.chance(0.5):
            self.line("    if s % 3 == 1:")
            self.line(f"        return {self.atom()}")
        self.line(f"    return p[{self.place(shape)}] + {other}[{self.place(self.tensors[other])}]")
        self.line(f"{made} = {name}({text}{self.rng.choice(['', ', ' + self.small(), ', s=' + self.small()])}) % 500")
        self.ints.append(made)

    # --- blocks ---

    def inside(self, most: int) -> None:
        tensors, masks = dict(self.tensors), dict(self.masks)
        super().inside(most)
        self.tensors, self.masks = tensors, masks

    def function(self, name: str, count: int, decorator: str) -> None:
        tensors, masks, foreign = dict(self.tensors), dict(self.masks), set(self.foreign)
        if not self.depth:
            self.tensors, self.masks = {}, {}
        self.foreign |= set(self.tensors)
        super().function(name, count, decorator)
        self.tensors, self.masks, self.foreign = tensors, masks, foreign

    def results(self) -> list[str]:
        names = list(self.tensors)
        elements = [f"{name}[{self.place(self.tensors[name])}]" for name in names for _ in range(3)]
        sums = [f"folded({name}, 'add')" for name in names] + [f"{x} * 3" for x in elements]
        return [" + ".join(self.rng.choices([*elements, *sums, *self.targets()], k=5)) for _ in range(pythonic.RESULTS)]


def draw(seed: int) -> pythonic.Program:
    """A function of integers that keeps some in tensors."""
    one = Generator(seed).program()
    return replace(one, source=HEAD + FOLDS + "\n\n\n" + one.source.removeprefix(pythonic.HEAD))


def by_python(one: pythonic.Program) -> Any:
    """The results of NumPy."""
    text = one.source.replace(FOLDS, "def folded(x, kind): return getattr(x, {'add': 'sum'}.get(kind, kind))()")
    return pythonic.by_python(replace(one, source=text), PLAIN)


def judged(programs: Sequence[pythonic.Program], arch: str = on_emulator.ARCH) -> list[str]:
    """What is wrong with some programs, a text each."""
    return extremes.answers(programs, arch, lambda one, *found: pythonic.differ(one, *found, by_python(one)))


if __name__ == "__main__":
    sys.exit(command.in_batches(__doc__, draw, judged, 20))
