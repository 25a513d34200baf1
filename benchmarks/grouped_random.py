"""``moye.kernels.grouped_gemm_sm90`` beside torch's grouped product, on mixtures of experts drawn by seed.

    python benchmarks/grouped_random.py SEED COUNT [--rounds 15] [--worst 15] [--csv grouped_random.csv] [--tiles]
    for i in 0 1 2 3; do python benchmarks/grouped_random.py SEED COUNT --compile $i 4 & done    # to have it compiled

4 to 128 experts, stacked or matrices of their own; rows of each uneven, some none; N and K of layers of models, or any
multiples of 8, or any numbers.  Random-normal bfloat16, interleaved, L2 flushed, medians.  The peers are
``torch._grouped_mm`` of stacked experts, where torch has and takes it, and one ``torch.mm`` after the other; "of torch"
is the time of the former, else of the latter, over moye's.  Results are compared with those of ``torch.mm``, as the
norm of the difference over the norm.  With ``--tiles`` instead, moye's choice beside the tiles that the model of costs
finds nearly as good, of extents that are multiples of 8; the CSV is for ``grouped_choice_fit.py``.
Seeds below 1000 are for work on the kernels; figures that are told come from seeds from 1000 on, run once.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
import random
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from gemm_model import problem_of_groups
from moye.kernels import grouped_gemm_sm90
from moye.kernels.gemm.grouped.choice import shortlist, timed
from moye.kernels.gemm.sm90.config import Problem, WarpgroupConfig
from moye.testing import interleave
from random_calls import arguments, in_turn, rows_of, status_of, write_csv

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LAYERS = ((28672, 4096), (4096, 14336), (4096, 7168), (7168, 2048), (1536, 2048), (2048, 768), (3072, 4096),
          (4096, 1536), (5760, 2880), (2880, 2880), (2048, 2048), (2048, 1024), (2816, 2048), (2048, 1408))
"""(N, K) of experts of models."""
ELEMENTS, WORK, MOST_ROWS = 1 << 31, 1 << 41, 1 << 16   # of weights; multiplications of a call; rows of all
CLOSE = 0.01
WAYS = ("stacked", "separate")
TILE = ("bM", "bN", "stages", "schedule", "groups", "raster")
"""What is told of a tile."""
Run = Callable[..., Any]


@dataclass(frozen=True)
class Drawn:
    """One call: rows of each expert."""

    way: str
    heights: tuple[int, ...]
    N: int
    K: int

    @property
    def rows(self) -> int:
        return sum(self.heights)

    @property
    def work(self) -> int:
        return self.rows * self.N * self.K

    def __str__(self) -> str:
        none = self.heights.count(0)
        return (f"{self.way} {len(self.heights)} experts, {self.rows} rows (to {max(self.heights)}"
                f"{f', {none} of none' if none else ''}) x{self.N}x{self.K}")


# --- drawing ---------------------------------------------------------------------------------------------------------


def draw(seed: int, count: int) -> list[Drawn]:
    """So many calls that fit, every other one of separate matrices."""
    rng, found = random.Random(seed), []
    while len(found) < count:
        experts, (N, K) = round(logarithmic(rng, 4, 128)), extents(rng)
        one = Drawn(WAYS[len(found) % 2], heights(rng, experts, round(logarithmic(rng, experts, MOST_ROWS))), N, K)
        if experts * N * K <= ELEMENTS and one.work <= WORK:
            found.append(one)
    return found


def logarithmic(rng: random.Random, least: float, most: float) -> float:
    return math.exp(rng.uniform(math.log(least), math.log(most)))


def extents(rng: random.Random) -> tuple[int, int]:
    """N and K: of a layer three times in five, else multiples of 8, or any."""
    if rng.random() < 0.6:
        return rng.choice(LAYERS)
    step = rng.choice((8, 8, 1))
    N, K = (max(1, round(logarithmic(rng, 64, 8192) / step)) * step for _ in range(2))
    return N, K


def heights(rng: random.Random, experts: int, rows: int) -> tuple[int, ...]:
    """So many rows, equal shares, uneven ones or very uneven ones; a third of the draws has experts without rows."""
    spread, none = rng.choice((0.0, 0.4, 1.5)), rng.choice((0.0, 0.0, 0.4))
    shares = [0.0 if rng.random() < none else math.exp(rng.gauss(0, spread)) for _ in range(experts)]
    if not any(shares):
        shares[rng.randrange(experts)] = 1.0
    ends = [round(rows * part / sum(shares)) for part in itertools.accumulate(shares)]
    return tuple(end - begin for begin, end in itertools.pairwise([0, *ends]))


# --- calls -----------------------------------------------------------------------------------------------------------


def runs_of(one: Drawn) -> tuple[dict[str, Run], torch.Tensor, torch.Tensor]:
    """What is timed, by name; the results of moye and of ``torch.mm``, which are NaN before."""
    A, B = (torch.randn(*shape, device=DEVICE, dtype=torch.bfloat16)
            for shape in ((one.rows, one.K), (len(one.heights), one.N, one.K)))
    C, D = (torch.full((one.rows, one.N), math.nan, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    ends = [0, *itertools.accumulate(one.heights)]
    As, Bs, Cs, Ds = A.split(one.heights), B.unbind(), C.split(one.heights), D.split(one.heights)

    def each() -> None:
        for X, Y, Z in zip(As, Bs, Ds, strict=True):
            torch.mm(X, Y.T, out=Z)

    if one.way == "separate":
        As, Bs = ([X.clone() for X in several] for several in (As, Bs))
        lists = list(As), list(Bs), list(Cs)
        return {"moye": lambda config=None: grouped_gemm_sm90(*lists, config=config), "mm": each}, C, D
    offsets = torch.tensor(ends, dtype=torch.int32, device=DEVICE)
    experts, behind = B.permute(1, 2, 0), offsets[1:]
    runs: dict[str, Run] = {
        "moye": lambda config=None: grouped_gemm_sm90(A, experts, C, offsets, config=config), "mm": each}
    if hasattr(torch, "_grouped_mm"):
        runs["grouped"] = lambda: torch._grouped_mm(A, B.transpose(1, 2), offs=behind)
    return runs, C, D


def taken(runs: dict[str, Run]) -> dict[str, Run]:
    """Each is run once, and torch's grouped product left out where it refuses the extents."""
    found = {}
    for name, run in runs.items():
        try:
            run()
        except (RuntimeError, ValueError):
            if name != "grouped":
                raise
            continue
        found[name] = run
    return found


def measured(one: Drawn, rounds: int) -> dict[str, Any]:
    """A row of the table: microseconds of each, ratios, and how far results are off."""
    runs, C, D = runs_of(one)
    runs = taken(runs)
    error = float((C.float() - D.float()).norm() / D.float().norm())
    return row_of(one, {name: 1e3 * ms for name, ms in interleave(runs, rounds).items()}, error)


def row_of(one: Drawn, us: dict[str, float], error: float) -> dict[str, Any]:
    """The row of these microseconds."""
    peer = us.get("grouped", us["mm"])
    return {"case": str(one), "way": one.way, "experts": len(one.heights), "rows": one.rows, "N": one.N, "K": one.K,
            **{name: us.get(name, math.nan) for name in ("moye", "grouped", "mm")}, "of torch": peer / us["moye"],
            "of mm": us["mm"] / us["moye"], "TFLOP/s": 2e-6 * one.work / us["moye"], "error": error}


# --- tiles -----------------------------------------------------------------------------------------------------------


def problem_of(one: Drawn) -> Problem:
    """The call as the choice sees it, which of stacked experts does not know the rows."""
    experts = len(one.heights) - (one.heights.count(0) if one.way == "separate" else 0)
    return problem_of_groups(experts, one.rows, one.N, one.K)


def tiles_near(one: Drawn) -> list[WarpgroupConfig]:
    """The tiles that the model of costs finds nearly as good as the best."""
    found = timed(problem_of(one), torch.cuda.get_device_properties(0).multi_processor_count)
    return [tile for _, tile in shortlist(found)]


def tiles_measured(one: Drawn, rounds: int) -> list[dict[str, Any]]:
    """A row for each tile and, without one, for the choice."""
    run = runs_of(one)[0]["moye"]
    runs = {None: run, **{tile: functools.partial(run, config=tile) for tile in tiles_near(one)}}
    call = {"case": str(one), "way": one.way, "experts": problem_of(one).batches, "rows": one.rows, "N": one.N,
            "K": one.K}
    return [{**call, **dict.fromkeys(TILE), **({} if tile is None else {name: getattr(tile, name) for name in TILE}),
             "us": round(1e3 * ms, 2)} for tile, ms in interleave(runs, rounds).items()]


def tiles_told(options: argparse.Namespace, cases: list[Drawn]) -> int:
    """Compile the tiles of these calls, or measure them."""
    if options.compile:
        part, of = options.compile
        in_turn(cases[part::of], lambda one: tiles_measured(one, 1))
        return 0
    torch.manual_seed(options.seed)
    calls = in_turn(cases, lambda one: tiles_measured(one, options.rounds))
    write_csv(options.csv, [row for call in calls for row in call])
    tell_tiles(calls, options.worst)
    return 0


def tell_tiles(calls: list[list[dict[str, Any]]], worst: int) -> None:
    """How much longer the choices took than the best tiles, and the calls where another one gains most."""
    found = []
    for (choice, *others) in calls:
        best = min(others, key=lambda row: row["us"])
        found.append((choice["us"] / best["us"] - 1, choice, best))
    print(f"choice over the best: {statistics.mean(more for more, _, _ in found):.1%} more in the mean")
    for more, choice, best in sorted(found, key=lambda one: one[0], reverse=True)[:worst]:
        print(f"{more:+.1%}  {choice['case']:72} {choice['us']:.1f} {best['us']:.1f} us ", *(best[x] for x in TILE))


# --- the table -------------------------------------------------------------------------------------------------------


def line(row: dict[str, Any]) -> str:
    times = "  ".join(f"{name} {row[name]:.1f}" for name in ("moye", "grouped", "mm") if not math.isnan(row[name]))
    return f"{row['of torch']:.3f}  {row['case']:72} {times} us  {row['TFLOP/s']:.0f} TFLOP/s  off {row['error']:.1e}"


def distribution(name: str, rows: list[dict[str, Any]]) -> str:
    """One line: the geometric means of both ratios, the least, and how many are below some."""
    parts = [f"{name}: {len(rows)} calls"]
    for which in ("of torch", "of mm"):
        ratios = [row[which] for row in rows]
        below = ", ".join(f"below {limit} {sum(x < limit for x in ratios)}" for limit in (1.0, 0.9, 0.75))
        parts.append(f"{which} {statistics.geometric_mean(ratios):.3f}, {below}, least {min(ratios):.2f}")
    return "; ".join(parts)


def distributions(rows: list[dict[str, Any]]) -> list[str]:
    """A line for what torch groups, for stacked experts that it does not, and for separate matrices."""
    kinds = {"stacked, beside torch._grouped_mm": lambda row: not math.isnan(row["grouped"]),
             "stacked, beside torch.mm": lambda row: row["way"] == "stacked" and math.isnan(row["grouped"]),
             "separate, beside torch.mm": lambda row: row["way"] == "separate"}
    return [distribution(name, some) for name, kind in kinds.items() if (some := list(filter(kind, rows)))]


def main() -> int:
    options = arguments(__doc__, rounds=15, worst=15,
                        more=lambda parser: parser.add_argument("--tiles", action="store_true"))
    cases = draw(options.seed, options.count)
    if options.tiles:
        return tiles_told(options, [one for one in cases if one.N % 8 == one.K % 8 == 0])
    rows = rows_of(options, cases, lambda one: runs_of(one)[0]["moye"](), measured)
    if not rows:
        return 0
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    print(*distributions(rows), sep="\n")
    return status_of(rows, line, "of torch", options.worst, CLOSE)


if __name__ == "__main__":
    sys.exit(main())
