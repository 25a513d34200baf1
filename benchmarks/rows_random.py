"""Kernels of rows on extents that nobody listed: drawn by seed, beside a copy of as many bytes.

    python benchmarks/rows_random.py SEED COUNT [--long | --few] [--rounds 15] [--worst 20] [--compiled] [--csv F]
    for i in 0 1 2 3; do python benchmarks/rows_random.py SEED COUNT [--compiled] --compile $i 4 & done    # ahead

Norms, softmax, cross-entropy, gates, transposes, reductions, scans, top-k and embedding, forward and backward, as
rows_norms.py, rows_softmax.py and rows_moves.py make them.  Rows and columns are log-uniform, up to 2^26 elements, a
third of the columns multiples of 128, a third of 8, a third of any number.  ``--long`` draws rows of 16384 columns and
more, 2^24 to 2^27 elements, of norms, softmax and cross-entropy alone; ``--few`` 1 to 64 rows of any length.
Interleaved, L2 flushed, medians.  "of copy" is the time of ``torch.copy_`` of as many bytes over moye's: it is
launched, and finds cold caches, as moye does.
Beside it torch's own operations and, with ``--compiled``, torch.compile (max-autotune) of them.  Results are compared
with float64.
Seeds below 1000 are for work on the kernels; figures that are told come from seeds from 1000 on, run once.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

import rows_moves
import rows_norms
import rows_softmax
from moye.testing import interleave
from random_calls import arguments, in_turn, status_of, write_csv
from rows_moves import Case

ELEMENTS = 1 << 12, 1 << 26
LONGEST, FEW = 1 << 18, 64                              # columns, rows
CLOSE = 0.02
F32 = torch.float32
FAMILIES: dict[str, list[Callable[..., Case]]] = {
    "norms": [rows_norms.rms_norm, partial(rows_norms.rms_norm, dtype=F32), rows_norms.layer_norm, rows_norms.residual,
              rows_norms.quantised],
    "gradients of norms": [rows_norms.backward, partial(rows_norms.backward, centred=True),
                           partial(rows_norms.backward, dtype=F32)],
    "softmax": [rows_softmax.softmax, partial(rows_softmax.softmax, dtype=F32), rows_softmax.log_softmax,
                rows_softmax.softmax_backward],
    "cross-entropy": [rows_softmax.cross_entropy, partial(rows_softmax.cross_entropy, reduction="mean"),
                      rows_softmax.both, rows_softmax.backward],
    "gates": [rows_moves.swiglu, partial(rows_moves.swiglu, packed=True), rows_moves.swiglu_backward],
    "transposes": [rows_moves.transposed, partial(rows_moves.transposed, dtype=F32)],
    "reductions": [partial(rows_moves.reduced, kind, axis) for kind in ("sum", "max", "argmax") for axis in (0, 1)],
    "scans": [rows_moves.scan, partial(rows_moves.scan, axis=0)],
    "top k": [rows_moves.largest],
    "embedding": [rows_moves.gather, rows_moves.scattered],
}

LONG = ("norms", "gradients of norms", "softmax", "cross-entropy")


@dataclass(frozen=True)
class Drawn:
    """One call: ``make()`` has its tensors."""

    family: str
    make: Callable[[], Case]


def extents(rng: random.Random, most: int) -> tuple[int, int]:
    """Rows, up to so many, and columns."""
    while True:
        rows = round(math.exp(rng.uniform(0, math.log(most))))
        step = rng.choice((128, 8, 1))
        columns = max(1, round(math.exp(rng.uniform(math.log(32), math.log(LONGEST))) / step)) * step
        if ELEMENTS[0] * (most > FEW) <= rows * columns <= ELEMENTS[1]:
            return rows, columns


def draw(seed: int, count: int, most: int = 1 << 17) -> list[Drawn]:
    """So many calls of up to so many rows, of each family as many as of another."""
    rng, found = random.Random(seed), []
    for i in range(count):
        family = list(FAMILIES)[i % len(FAMILIES)]
        make, (rows, columns) = rng.choice(FAMILIES[family]), extents(rng, most)
        if family == "top k":
            make = partial(make, k=rng.randint(1, min(columns, 128)))
        if family == "embedding":
            make = partial(make, count=max(1, round(rows * math.exp(rng.uniform(-2, 2)))))
            columns = min(columns, 16384)
        found.append(Drawn(family, partial(make, rows=rows, columns=columns)))
    return found


def draw_long(seed: int, count: int) -> list[Drawn]:
    """So many calls with long rows."""
    rng, found = random.Random(seed), []
    for i in range(count):
        make, step = rng.choice(FAMILIES[family := LONG[i % len(LONG)]]), rng.choice((128, 8, 1))
        columns = max(1, round(math.exp(rng.uniform(math.log(LONGEST >> 4), math.log(LONGEST))) / step)) * step
        rows = max(1, round(math.exp(rng.uniform(math.log(1 << 24), math.log(1 << 27))) / columns))
        found.append(Drawn(family, partial(make, rows=rows, columns=columns)))
    return found


def copy_of(moved: int) -> Callable[[], Any]:
    """A copy that reads and writes as many bytes together."""
    half = torch.empty(max(1, moved // 4), device=rows_moves.DEVICE, dtype=torch.bfloat16).normal_()
    target = torch.empty_like(half)
    return lambda: target.copy_(half)


def compiled_peer(told: Case) -> Callable[[], Any]:
    """torch.compile (max-autotune) of what torch does for the same, for these extents alone."""
    torch._dynamo.reset()
    faster = torch.compile(told.peer, mode="max-autotune-no-cudagraphs", dynamic=False)
    return lambda: faster(*told.arguments)


def run_once(one: Drawn, compiled: bool) -> None:
    """Have it compiled: caches on disk keep what comes of it."""
    told = one.make()
    told.run()
    if compiled:
        compiled_peer(told)()


def measured(one: Drawn, rounds: int, compiled: bool) -> dict[str, Any]:
    """A row of the table: microseconds of each, the ratios, the error against float64."""
    told = one.make()
    error = told.error()
    runs = {"moye": told.run, "copy": copy_of(told.moved), "torch": lambda: told.peer(*told.arguments)}
    if compiled:
        runs["compile"] = compiled_peer(told)
    us = {name: 1e3 * ms for name, ms in interleave(runs, rounds).items()}
    return {"family": one.family, "case": told.name, "MB": told.moved / 1e6,
            **{name: us.get(name, math.nan) for name in ("moye", "copy", "torch", "compile")},
            "of copy": us["copy"] / us["moye"], "of torch": us["torch"] / us["moye"],
            "of compile": us.get("compile", math.nan) / us["moye"], "error": error}


def line(row: dict[str, Any]) -> str:
    times = "  ".join(f"{name} {row[name]:.1f}" for name in ("moye", "copy", "torch", "compile")
                      if not math.isnan(row[name]))
    return f"{row['of copy']:.3f}  {row['case']:52} {row['MB']:8.1f} MB  {times} us  off {row['error']:.1e}"


def distribution(name: str, rows: list[dict[str, Any]]) -> str:
    """One line: the geometric means of the ratios, the least, and how many are below some."""
    parts = [f"{name}: {len(rows)} calls"]
    for which in ("of copy", "of torch", "of compile"):
        if ratios := [row[which] for row in rows if not math.isnan(row[which])]:
            below = sum(x < 0.9 for x in ratios)
            parts.append(f"{which} {statistics.geometric_mean(ratios):.3f}, below 0.9 {below}, least {min(ratios):.2f}")
    return "; ".join(parts)


def main() -> int:
    def more(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--compiled", action="store_true", help="torch.compile beside it, some seconds a call")
        which = parser.add_mutually_exclusive_group()
        which.add_argument("--long", action="store_true", help="rows of 16384 columns and more")
        which.add_argument("--few", action="store_true", help="1 to 64 rows")

    options = arguments(__doc__, rounds=15, worst=20, more=more)
    few = partial(draw, most=FEW)
    cases = (draw_long if options.long else few if options.few else draw)(options.seed, options.count)
    if options.compile:
        part, of = options.compile
        in_turn(cases[part::of], lambda one: run_once(one, options.compiled))
        return 0
    torch.manual_seed(options.seed)
    rows = in_turn(cases, lambda one: measured(one, options.rounds, options.compiled))
    write_csv(options.csv, rows)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    for family in FAMILIES:
        if some := [row for row in rows if row["family"] == family]:
            print(distribution(family, some))
    return status_of(rows, line, "of compile" if options.compiled else "of copy", options.worst, CLOSE)


if __name__ == "__main__":
    sys.exit(main())
