"""How findings speak: of program points, of threads, and how facts fill the fields of a sentence.

In: ops, thread numbers, facts.  Out: pieces of sentences, and sentences.

    at(op), crowd(range(64, 128), 128), crowd([3, 4, 9], 128)
    # (' at line 41 (k = 0)', 'warps 2-3', 'threads 3-4 and 9')
    say("C1", "{count} element{count:|s} written{op}", {"count": 3, "op": op})
    # '3 elements written at line 41 (k = 0)'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any

from moye.hardware import WARP
from moye.ir.ops import Op
from moye.sim.findings.codes import clause

SHOWN = 4
"""The most runs of threads that are named before "others"."""

Trips = Sequence[tuple[str, object]]


def at(op: Op | None, around: Trips = ()) -> str:
    """The line of an op and its trips: ``around`` of the kernel's loops, then those of unrolled ones."""
    if op is None or not op.loc.line:
        return ""
    trips = trips_of((*around, *op.trips))
    return f" at line {op.loc.line}" + (f" ({trips})" if trips else "")


def bracketed(op: Op) -> str:
    """The same in brackets: `` (line 41, k = 0)``."""
    if not op.loc.line:
        return ""
    return f" (line {', '.join(filter(None, (str(op.loc.line), trips_of(op.trips))))})"


def trips_of(around: Trips) -> str:
    """``k = 4``, or nothing."""
    return ", ".join(f"{name} = {value}" for name, value in around)


def crowd(threads: Iterable[int], block: int) -> str:
    """Threads of a block of ``block`` threads by name: whole warps as warps."""
    numbers = sorted(set(threads))
    warps = sorted({t // WARP for t in numbers})
    whole = sum(min(WARP, block - w * WARP) for w in warps)
    return _named("warp", warps) if whole == len(numbers) else _named("thread", numbers)


def several(threads: Iterable[int], block: int) -> bool:
    """Whether the verb after ``crowd`` is a plural."""
    return not crowd(threads, block).startswith(("warp ", "thread "))


def named(tensor: str, coordinate: Iterable[int]) -> str:
    """``sA(17, 3)``"""
    return f"{tensor}({', '.join(map(str, coordinate))})"


# --- sentences -------------------------------------------------------------------------------------------------------


class Clause(str):
    """The name of a clause, as a fact: its words stand in the field."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """Threads of a block of ``block`` threads, as a fact."""

    threads: Sequence[int]
    block: int

    def __str__(self) -> str:
        return crowd(self.threads, self.block) if self.threads else "nobody"


class _Sentence(Formatter):
    """Fills the fields of sentences about one class."""

    def __init__(self, code: str) -> None:
        self.code = code

    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """A fact by its name, or else a clause."""
        value = kwargs[str(key)] if str(key) in kwargs else Clause(key)
        return self.vformat(clause(self.code, value), (), kwargs) if isinstance(value, Clause) else value

    def format_field(self, value: Any, format_spec: str) -> str:
        """The words for a fact, or one of ``one|several``, ``none|one|several``, ``no|yes`` by what it is."""
        if "|" in format_spec:
            words = format_spec.split("|")
            if isinstance(value, int) and not isinstance(value, bool):
                return words[min(value, 2) if len(words) == 3 else value != 1]
            if isinstance(value, Crowd):
                value = bool(value.threads) and several(value.threads, value.block)
            return words[bool(value)]
        if value is None or isinstance(value, Op):
            return at(value)
        return format(value, format_spec) if format_spec else str(value)


def say(code: str, template: str, facts: Mapping[str, Any]) -> str:
    """A sentence about a violation of this class.

    A field is the name of a fact or of a clause.  Of an op it says the line (`` at line 41``), of None nothing.
    """
    return _Sentence(code).vformat(template, (), facts)


def _named(what: str, numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    parts = [f"{a}" if a == b else f"{a}-{b}" for a, b in runs]
    if len(parts) > SHOWN:
        parts = [*parts[:SHOWN], "others"]
    listed = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"{what}{'s' if len(numbers) > 1 else ''} {listed}"
