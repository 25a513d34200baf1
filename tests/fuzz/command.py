"""What the scripts of this folder do when they are run: seeds from the command line, draws judged, failures told.

    if __name__ == "__main__":
        sys.exit(command.in_batches(__doc__, draw, judged, 20, arch="sm_90a"))

Each function returns the exit status: 1 if something failed.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any


def parser_of(doc: str | None) -> argparse.ArgumentParser:
    """A parser of the first seed, the number of seeds and the time that there is."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    return parser


def seeds_of(options: argparse.Namespace) -> Iterator[int]:
    """The seeds, as long as there is time."""
    start = time.monotonic()
    for seed in range(options.seed, options.seed + options.count):
        if time.monotonic() - start > options.seconds:
            return
        yield seed


def in_batches(doc: str | None, draw: Callable[[int], Any], judged: Callable[..., Sequence[str]], batch: int,
               arch: str | None = None) -> int:
    """``judged(draws)``, or ``judged(draws, arch)``, gives what is wrong with so many at a time."""
    parser = parser_of(doc)
    if arch is not None:
        parser.add_argument("--arch", default=arch)
    options = parser.parse_args()
    start, wrong, seeds = time.perf_counter(), 0, seeds_of(options)
    while some := list(itertools.islice(seeds, batch)):
        draws = [draw(seed) for seed in some]
        lines = judged(draws) if arch is None else judged(draws, options.arch)
        wrong += len(lines)
        print(f"to {some[-1] + 1}: {time.perf_counter() - start:.0f} s", *lines, sep="\n", flush=True)
    return int(wrong > 0)


def by_family(doc: str | None, families: Iterable[str], failure: Callable[[str, int], str | None]) -> int:
    """``failure(family, seed)`` says what is wrong with a draw, or None."""
    families, parser = list(families), parser_of(doc)
    parser.add_argument("--only", choices=families)
    options = parser.parse_args()
    return told(((f"{family} {seed}", failure(family, seed)) for seed in seeds_of(options) for family in families
                 if options.only in (None, family)), "draws")


def emulated_too(doc: str | None, failure: Callable[[int, bool], str | None]) -> int:
    """``failure(seed, emulate)`` says what is wrong with a draw, or None; with ``--emulate`` in the emulator, too."""
    parser = parser_of(doc)
    parser.add_argument("--emulate", action="store_true")
    options = parser.parse_args()
    return told(((seed, failure(seed, options.emulate)) for seed in seeds_of(options)), "draws")


def told(found: Iterable[tuple[Any, str | None]], noun: str) -> int:
    """Print what failed of (name, what is wrong or None), and how many there were."""
    count = wrong = 0
    for name, why in found:
        count += 1
        if why is not None:
            wrong += 1
            print(f"{name}: {why}", flush=True)
    print(f"{count} {noun}, {wrong} failures")
    return int(wrong > 0)
