"""Random functions whose variables may have no value where they are used: moye refuses them, or is right.

    python tests/fuzz/unset.py 1000 300                 # first seed, functions

In: a seed.  Out: ``Program``, as of ``pythonic.py``, but what a block declares is used behind it, too, and in the next
turn of a loop before it is set again.

If Python has a value at every use of every thread, and moye takes the program, the results are the same.  If it has
none, moye takes the program only where the results do not depend on it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "cases"),
                    str(Path(__file__).parents[2] / "src")]

import numpy as np

import moye as mo
from fuzz import command, extremes, pythonic
from moye.errors import MoyeError

UNSET = ("has no value", "not associated with a value")


class Generator(pythonic.Generator):
    """Lets names out of the blocks that set them."""

    def inside(self, most: int) -> None:
        """A block; some of the numbers that it declares are used behind it."""
        self.depth += 1
        ints, bools, lines, helpers = list(self.ints), list(self.bools), len(self.lines), list(self.helpers)
        self.statements(most)
        if self.loops and self.chance(0.5):
            self.late()
        if len(self.lines) == lines:
            self.line("pass")
        more = [name for name in self.ints if name not in ints and name not in self.fixed and name.isidentifier()]
        self.ints = [*ints, *(name for name in more if self.chance(0.3))]
        self.bools, self.helpers = bools, helpers
        self.depth -= 1

    def late(self) -> None:
        """A variable that gets what another one had in an earlier turn, and is one of those that the loop carries."""
        name, before = self.fresh(), self.fresh("w")
        self.line(f"{before} = {self.small()}")
        self.line(f"if {self.truth(1)}:")
        self.line(f"    {before} = {name}")
        self.line(f"{name} = {self.small()}")
        if found := self.targets():
            self.line(f"{self.rng.choice(found)} = {before}")
        self.ints.append(name)


def draw(seed: int) -> pythonic.Program:
    """A function that may use what has no value."""
    return Generator(seed).program()


def filled(one: pythonic.Program, number: int) -> Any:
    """What Python computes if variables begin with a number; None if some still have no value."""
    lines: list[str] = []
    for line in one.source.splitlines():
        lines.append(line)
        if re.match(r"def (h\d|body)\(", line):
            lines.append(f"    {' = '.join(sorted(set(re.findall(r'[vw][0-9]+', one.source))))} = {number}")
    try:
        return pythonic.by_python(replace(one, source="\n".join(lines)))
    except NameError:
        return None


def expected(one: pythonic.Program) -> Any:
    """The results of Python; those that do not depend on what variables without a value hold count, too."""
    try:
        return pythonic.by_python(one)
    except NameError:                                   # UnboundLocalError, and of a helper's free variable
        first, second = filled(one, 5), filled(one, 878)
        return first if first is not None and second is not None and (first == second).all() else None


def verdict(one: pythonic.Program) -> tuple[str, str]:
    """(``same``, ``refused`` or ``unset``, what is wrong or nothing)."""
    wanted = expected(one)
    arguments: list[Any] = [x.copy() if isinstance(x, np.ndarray) else x for x in one.arrays]
    try:
        report = mo.check(extremes.kernel_of(one), lints=False)[1, pythonic.THREADS](*arguments)
    except MoyeError as error:
        kind = "unset" if wanted is None else "refused"
        return kind, "" if any(text in str(error) for text in UNSET) else f"{one.seed}: {error}"
    if wanted is None:
        return "unset", f"{one.seed}: the results are those of a variable that has no value in Python"
    return "same", pythonic.told(one, report, arguments[0], wanted)


def judged(programs: Sequence[pythonic.Program]) -> list[str]:
    """What is wrong with some programs, a text each."""
    return [told for _, told in map(verdict, programs) if told]


if __name__ == "__main__":
    sys.exit(command.in_batches(__doc__, draw, judged, 20))
