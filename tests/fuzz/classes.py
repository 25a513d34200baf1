"""Random functions of users' own classes: Python itself, the simulator and the emulator agree.

    python tests/fuzz/classes.py 1000 300               # first seed, functions

In: a seed.  Out: a ``Program`` of ``pythonic.py``, whose numbers go through objects as well.

Operators and reflected ones, operators in place, indices, calls, properties that are set, class methods, ``super``,
derived classes, context managers, generic functions, functions that make functions; objects that are chosen by
conditions, carried by loops, kept in lists and dicts, and folded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "cases"),
                    str(Path(__file__).parents[2] / "src")]

from fuzz import command, pythonic
from fuzz.pythonic import LIMIT, Program

CLASSES = '''import functools
import operator
from contextlib import contextmanager


@dataclass(frozen=True, eq=False)
class V:
    """A vector: nothing of it changes."""
    x: int
    y: int = 1

    def __add__(self, o): return V(self.x + o.x, self.y + o.y)
    def __sub__(self, o): return V(self.x - o.x, self.y - o.y)
    def __mul__(self, k): return V(self.x * k, self.y * k)
    def __rmul__(self, k): return V(k * self.x, k * self.y)
    def __matmul__(self, o): return self.x * o.x + self.y * o.y
    def __mod__(self, k): return V(self.x % k, self.y % k)
    def __neg__(self): return V(-self.x, -self.y)
    def __abs__(self): return abs(self.x) + abs(self.y)
    def __invert__(self): return V(self.y, self.x)
    def __iter__(self): return iter((self.x, self.y))
    def __len__(self): return 2
    def __getitem__(self, i): return (self.x, self.y)[i]
    def __call__(self, k, *, plus=0): return self.x * k + self.y + plus
    def __lt__(self, o): return self.x < o.x
    def __eq__(self, o): return (self.x == o.x) & (self.y == o.y)
    def __ne__(self, o): return (self.x != o.x) | (self.y != o.y)

    @property
    def sum(self): return self.x + self.y

    @classmethod
    def of(cls, k): return cls(k, y=k - 1)

    @staticmethod
    def unit(k=1): return V(k, 0)

    @mo.jit
    def clipped(self, most):
        if self.x > most:
            return V(most, self.y)
        return self if self.y < most else V(self.x, most)


class Sum:
    """A running sum, which changes."""
    step = 2

    def __init__(self, total, bias=0):
        self.total, self.bias, self.seen = total % 1009, bias, [0, 0]

    def __iadd__(self, k):
        self.total = (self.total + k) % 1009
        self.seen[0] += 1
        return self

    def __enter__(self):
        self.seen[1] += self.step
        return self

    def __exit__(self, *_):
        self.total += 1

    @property
    def mean(self): return self.total // (self.seen[0] + 1)

    @mean.setter
    def mean(self, value): self.total = value * 3 % 1009

    @mo.jit
    def add(self, k):
        if k > self.total:
            self.total = k % 1009
            return self.seen[1]
        while self.seen[1] < 3:
            self.seen[1] += self.step
        self.bias ^= k & 7
        return self.bias

    def __getitem__(self, i): return self.seen[i]
    def __setitem__(self, i, value): self.seen[i] = value % 1009


class Steep(Sum):
    step = 3

    def __init__(self, total):
        super().__init__(total, 5)
        self.more = total % 4

    @mo.jit
    def add(self, k):
        if k % 2:
            self.more = (self.more + k) % 1009
        return super().add(k + self.more)

    @property
    def mean(self): return super().mean + self.more

    @mean.setter
    def mean(self, value): self.total = (value + self.more) % 1009


@functools.singledispatch
def weight(x): return 3


@weight.register
def _(x: V): return x.x


@weight.register
def _(x: Sum): return x.total


def scaled(k):
    def apply(f):
        @functools.wraps(f)
        def called(*args): return f(*args) * k
        return called
    return apply


@scaled(3)
@mo.jit
def larger(a, b):
    if a > b:
        return a
    return b


@contextmanager
def lent(s, k):
    s[0] = k
    yield s
    s[1] = s[0] + 1


'''


class Generator(pythonic.Generator):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.rng.seed(f"classes {seed}")
        self.budget = self.rng.randint(8, 22)
        self.vectors: list[str] = []
        self.sums: list[str] = []

    # --- expressions ---

    def number(self, depth: int = 2) -> str:
        if depth <= 0 or not (self.vectors or self.sums) or self.chance(0.6):
            return super().number(depth)
        return f"({self.rng.choice(self.of_vectors() + self.of_sums())})"

    def of_vectors(self) -> list[str]:
        if not self.vectors:
            return []
        v, w, k = self.vector(1), self.vector(0), self.atom()
        return [f"{v}.x", f"{v}.sum", f"abs({v})", f"{v} @ {w}", f"{v}[{self.rng.choice('01')}]", f"{w}({k}, plus=2)",
                f"sum({v})", f"max({v})", f"int({v} < {w})", f"int({v} == {w})", f"weight({v})", f"max(*{v}, {k})",
                f"functools.reduce(operator.add, [{v}, {w}]).x", f"sum([{v}, {w}], V(0, 0)).y", f"len({w})",
                f"operator.attrgetter('y')({v})", f"[q * {k} for q in {v}][0]", f"dict(zip('ab', {v}))['b']",
                f"larger(*{v})", f"(lambda x, y=2: x - y)(*{w})", f"next(iter({v}))", f"list(map(abs, {v}))[1]"]

    def of_sums(self) -> list[str]:
        if not self.sums:
            return []
        s = self.rng.choice(self.sums)
        return [f"{s}.total", f"{s}.mean", f"{s}[0]", f"{s}.step", f"getattr({s}, 'bias')", f"weight({s})",
                f"sum({s}.seen)", f"isinstance({s}, Steep) + {s}.bias"]

    def vector(self, depth: int) -> str:
        """Below LIMIT, if names are."""
        if depth <= 0 and self.vectors:
            return self.rng.choice(self.vectors)
        x, y = f"({self.atom()}) % 50", f"({self.atom()}) % 50"
        if not self.vectors:
            return self.rng.choice([f"V({x}, {y})", f"V.of({x})", f"V(y={y}, x={x})", f"V.unit({x})", f"V({x})"])
        v, w = self.rng.choice(self.vectors), self.vector(depth - 1)
        return self.rng.choice([f"({v} + {w})", f"({v} - {w})", f"({v} * 3)", f"(2 * {w})", f"(-{v})", f"(~{w})",
                                f"({v} if {super().truth(0)} else {w})", f"V({x}, {v}.x)", f"V(*~{v})",
                                f"{v}.clipped({x})", f"({v} % 7)", f"[{v}, {w}][{self.rng.choice(['0', '-1'])}]",
                                f"V(*(q + 1 for q in {v}))", f"type({v})({x}, 3)", f"{v}.of({y})"])

    # --- statements ---

    def statements(self, most: int) -> None:
        for _ in range(self.rng.randint(1, most)):
            if self.budget <= 0:
                break
            if self.chance(0.5):
                super().statements(1)
                continue
            self.budget -= 1
            kinds: list[Callable[[], None]] = [self.new_vector, self.new_sum]
            if any(v not in self.fixed for v in self.vectors):
                kinds += [self.changed_vector] * 4
            if self.sums:
                kinds += [self.changed_sum] * 5
            if self.sums and self.depth < 5:
                kinds += [self.under_with]
            if len(self.vectors) > 1:
                kinds += [self.swapped, self.listed]
            self.rng.choice(kinds)()

    def inside(self, most: int) -> None:
        vectors, sums = list(self.vectors), list(self.sums)
        super().inside(most)
        self.vectors, self.sums = vectors, sums

    def function(self, name: str, count: int, decorator: str) -> None:
        """What is outside is read, not changed; a function at the top sees nothing of it."""
        vectors, sums, fixed = self.vectors, self.sums, set(self.fixed)
        self.fixed |= set(vectors)
        self.vectors, self.sums = list(vectors) if self.depth else [], []
        super().function(name, count, decorator)
        self.vectors, self.sums, self.fixed = vectors, sums, fixed

    def new_vector(self) -> None:
        name = self.fresh("v")
        self.line(f"{name} = {self.vector(2)} % {LIMIT}")
        self.vectors.append(name)

    def new_sum(self) -> None:
        name = self.fresh("s")
        self.line(f"{name} = {self.rng.choice(['Sum({})', 'Sum({}, bias=4)', 'Steep({})']).format(self.small())}")
        self.sums.append(name)

    def changed_vector(self) -> None:
        name = self.rng.choice([v for v in self.vectors if v not in self.fixed])
        self.line(self.rng.choice([f"{name} = {self.vector(2)} % {LIMIT}", f"{name} += {self.vector(1)}",
                                   f"{name} *= {self.rng.choice(['2', '-3'])}"]))
        self.line(f"{name} %= {LIMIT}")

    def changed_sum(self) -> None:
        s, k = self.rng.choice(self.sums), self.small()
        found = self.fresh()
        way = self.rng.randrange(8)
        if way == 0:
            self.line(f"{found} = {s}.add({k})")
            self.ints.append(found)
        else:
            self.line([f"{s} += {k}", f"{s}.mean = {k}", f"{s}[{self.rng.choice(['0', '1', '-1'])}] = {k}",
                       f"{s}.bias = {k}", f"{s}[0] += {k}", f"setattr({s}, 'total', {k})",
                       f"{s}.seen = [{k}, {s}[0]]"][way - 1])

    def under_with(self) -> None:
        s = self.rng.choice(self.sums)
        self.line(f"with {self.rng.choice([s, f'lent({s}, {self.small()})', f'{s} as {self.fresh()}'])}:")
        loops, returns = self.loops, self.returns
        self.loops, self.returns = [], ""           # a jump may not leave it
        self.inside(3)
        self.loops, self.returns = loops, returns

    def swapped(self) -> None:
        free = [v for v in self.vectors if v not in self.fixed]
        if len(free) > 1:
            v, w = self.rng.sample(free, 2)
            self.line(f"{v}, {w} = {w}, {self.vector(1)} % {LIMIT}")

    def listed(self) -> None:
        """Objects in a list or dict, one of which another takes the place of under a condition."""
        name, made = self.fresh("l"), self.fresh("v")
        v, w = self.rng.sample(self.vectors, 2)
        keys = self.rng.choice([("0", "1"), ("'p'", "'q'")])
        if keys[0] == "0":
            self.line(f"{name} = [{v}, {w}]")
        else:
            self.line(f"{name} = dict(p={v}, q={w})")
        self.line(f"if {self.truth(1)}:")
        self.line(f"    {name}[{keys[0]}] = {self.vector(1)} % {LIMIT}")
        self.line(f"{made} = ({name}[{keys[0]}] - {name}[{keys[1]}]) % {LIMIT}")
        self.vectors.append(made)

    def results(self) -> list[str]:
        numbers = [*super().results(), *(f"{v}.{part}" for v in self.vectors for part in "xy"),
                   *(f"{s}.{part}" for s in self.sums for part in ("total", "bias", "seen[1]"))]
        return [self.rng.choice(numbers) for _ in range(pythonic.RESULTS)]


def draw(seed: int) -> Program:
    one = Generator(seed).program()
    one.source = one.source.replace(pythonic.HEAD, pythonic.HEAD + CLASSES, 1)
    return one


def judged(programs: Any, arch: str = "sm_90a") -> list[str]:
    return pythonic.judged(programs, arch)


if __name__ == "__main__":
    sys.exit(command.in_batches(__doc__, draw, judged, 20))
