"""What drawn calls of all kernels, operators and users' kernels cost the host, without a GPU: the dearest first.

    python tests/fuzz/host_costs.py SEED COUNT [--seconds S] [--only softmax]       # draws SEED to SEED + COUNT - 1

In: seeds.  Out: for each family the dearest draw, in microseconds: ``again``, the same call; ``moved``, with arrays at
addresses that it has not seen; ``1st``, ``2nd`` and ``3rd`` of arrays of other sizes, whose kernels are compiled;
``stream``, on a stream that it has not seen.  ``long`` has the long ways that the same call and a moved one go; these
are told in ``tests/cases/host_calls.py``.  The driver's part is not in it: about 2 us a launch.
"""

from __future__ import annotations

import ctypes
import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in (".", "cases", "../src")]

import host_calls
from fuzz import command
from host_calls import Draw

SIZES = tuple(range(144, 1200, 32))
"""Rows of the calls that are measured; kernels are compiled for others that are as many."""
COLUMNS = ("again", "moved", "1st", "2nd", "3rd", "stream")


def microseconds(calls: Iterable[Callable[[], Any]]) -> list[float]:
    """What each call takes."""
    found = []
    for call in calls:
        start = time.perf_counter_ns()
        call()
        found.append((time.perf_counter_ns() - start) / 1000)
    return found


def nothing() -> Any:
    """A C function that stands for the driver's launch: it takes as much, and returns 0."""
    address = ctypes.cast(ctypes.CDLL(None).pthread_equal, ctypes.c_void_p).value
    assert address is not None, "the C library has threads"
    return ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(address)


def costs(family: str, seed: int) -> tuple[dict[str, float], str]:
    """The medians of one draw, and the long ways."""
    make, found = host_calls.FAMILIES[family](Draw(seed)), {}
    with host_calls.device() as launches:
        launches.function = nothing()
        for rows in (*(rows + 16 for rows in SIZES), *[96] * 4):        # compiled, and then known
            call = make(rows)
            for _ in range(4 if rows == 96 else 1):
                call()
        launches.taken()
        gc.disable()
        try:
            moved = [make(96) for _ in range(40)]
            found["again"] = statistics.median(microseconds([call] * 100))
            found["moved"] = statistics.median(microseconds(moved))
            sizes = [make(rows) for rows in SIZES]
            for column in ("1st", "2nd", "3rd"):
                found[column] = statistics.median(microseconds(sizes))
            found["stream"] = statistics.median(_on_streams(launches, call))
        finally:
            gc.enable()
    return found, told(family, seed)


def _on_streams(launches: Any, call: Callable[[], Any]) -> list[float]:
    found = []
    for launches.stream in range(100, 120):
        found += microseconds([call])
    return found


def told(family: str, seed: int) -> str:
    """The long ways, as text."""
    again, moved = host_calls.long_ways(family, seed)
    return "".join(f" {what}" for what in again) + "".join(f" moved-{what}" for what in moved)


def price(found: dict[str, float]) -> float:
    """By what families are sorted: first calls of a size are rarer."""
    return max(found["again"], found["moved"], found["1st"] / 5)


def main() -> int:
    parser = command.parser_of(__doc__)
    parser.add_argument("--only", choices=list(host_calls.FAMILIES))
    options = parser.parse_args()
    dearest: dict[str, tuple[dict[str, float], str, int]] = {}
    for seed in command.seeds_of(options):
        for family in [options.only] if options.only else host_calls.FAMILIES:
            found, ways = costs(family, seed)
            if family not in dearest or price(found) > price(dearest[family][0]):
                dearest[family] = found, ways, seed
    print(f"{'':28}" + "".join(f"{column:>9}" for column in COLUMNS) + "  seed long")
    for family, (found, ways, seed) in sorted(dearest.items(), key=lambda item: -price(item[1][0])):
        print(f"{family:28}" + "".join(f"{found[column]:9.1f}" for column in COLUMNS) + f"  {seed:4}{ways}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
