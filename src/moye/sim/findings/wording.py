"""How findings speak of program points and of threads.

In: ops, thread numbers.  Out: pieces of sentences.

    at(op), crowd(range(64, 128), 128), crowd([3, 4, 9], 128)
    # (' at line 41 (k = 0)', 'warps 2-3', 'threads 3-4 and 9')
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from moye.hardware import WARP
from moye.ir.ops import Op

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
