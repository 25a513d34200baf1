"""What the benchmarks of drawn calls share: their command line, compiling ahead, the CSV.

    options = arguments(__doc__, rounds=9)              # SEED COUNT [--rounds] [--worst] [--compile PART OF] [--csv]
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch


def arguments(text: str, *, rounds: int, worst: int, more: Callable[[argparse.ArgumentParser], Any] | None = None) \
        -> argparse.Namespace:
    """The options of a script with this text; it ends where torch sees no GPU."""
    parser = argparse.ArgumentParser(description=text.partition("\n")[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--worst", type=int, default=worst)
    parser.add_argument("--compile", type=int, nargs=2, metavar=("PART", "OF"))
    parser.add_argument("--csv")
    if more is not None:
        more(parser)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit(f"{Path(sys.argv[0]).name} measures on a GPU, and torch sees none")
    return options


def in_turn(cases: Sequence[Any], work: Callable[[Any], Any]) -> list[Any]:
    """What ``work`` says of each call, none of whose memory is left for the next."""
    found = []
    for one in cases:
        found.append(work(one))
        torch.cuda.empty_cache()
    return found


def rows_of(options: argparse.Namespace, cases: Sequence[Any], once: Callable[[Any], Any],
            measured: Callable[[Any, int], dict[str, Any]]) -> list[dict[str, Any]]:
    """What is measured of each call, written to the CSV; none if they are only to be compiled, by ``once(call)``."""
    if options.compile:
        part, of = options.compile
        in_turn(cases[part::of], once)
        return []
    torch.manual_seed(options.seed)
    rows = in_turn(cases, lambda one: measured(one, options.rounds))
    write_csv(options.csv, rows)
    return rows


def status_of(rows: list[dict[str, Any]], line: Callable[[dict[str, Any]], str], ratio: str, worst: int,
              close: float) -> int:
    """Print the worst rows by their ratio, and all whose results are off; the status of the script."""
    for row in sorted(rows, key=lambda r: r[ratio])[:worst]:
        print(line(row))
    bad = [row for row in rows if not row["error"] <= close]
    for row in bad:
        print("off:", line(row))
    return 1 if bad else 0


def write_csv(path: str | None, rows: list[dict[str, Any]]) -> None:
    """A line for each call, unless there is no path."""
    if path:
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
