"""float32 products of up to eight rows with an operand along K: as it streams, by tiles, and cuBLAS.

    python benchmarks/gemm_few.py SEED COUNT [--batched] [--rounds 15] [--csv gemm_few_f32.csv]       # on a GPU
    python benchmarks/gemm_few.py --fit FILE... [--keep 0.25] [--write]                        # needs SciPy; no GPU

Drawn as in gemm_random.py, but for the few rows; in torch's order, half of K multiples of 4; ``--batched``: 2 to 512 of
smaller ones, beside ``torch.bmm``.  Interleaved, L2 flushed,
random-normal data, medians; results are compared with float64.  "tiles" is what ``gemm_simt`` takes without this way,
operands copied first left out.  The fit is that of the costs of ``simt/few.py``, and tells how often and how far
the rule, which takes the lesser of two estimates, is off on products kept back.
"""

import argparse
import csv
import dataclasses
import math
import random
import statistics
import sys
from pathlib import Path

from gemm_rows import Row
from gemm_simt_model import problem_of
from moye.kernels.gemm.simt import config, few

MULTIPROCESSORS = 132
WAYS = "streams", "tiles", "cuBLAS"
LARGEST = 1 << 29                                       # elements of what streams
SHORT = 12.0                                            # microseconds


@dataclasses.dataclass(frozen=True)
class Product(Row):
    """A product, or a batch of them."""

    batches: int = 1


def draw(seed, count, *, batched=False):
    """So many products; a third of the rows that stream multiples of 128, a third of 8."""
    rng, found = random.Random(seed), []
    (least, rows_most), (k_least, k_most) = ((1, 1 << 13), (1, 1 << 12)) if batched else ((64, 1 << 17), (16, 1 << 17))
    while len(found) < count:
        step = rng.choice((128, 8, 1))
        rows = max(1, round(math.exp(rng.uniform(math.log(least), math.log(rows_most))) / step)) * step
        K = round(math.exp(rng.uniform(math.log(k_least), math.log(k_most))))
        K = max(1, K // 4) * 4 if rng.random() < 0.5 else K
        batches = round(math.exp(rng.uniform(math.log(2), math.log(512)))) if batched else 1
        row = Product(f"seed {seed}", "f32", rng.randint(1, few.MOST), rows, K, batches=batches)
        if rows * K * batches <= LARGEST and K > 1:     # a single k lies along any mode
            found.append(row)
    return found


def product_of(line):
    """The product of a line of a CSV."""
    return Product("", "f32", *(int(line[name]) for name in "MNK"), batches=int(line.get("batches", 1)))


def seen(row):
    """The product as the models see it."""
    return dataclasses.replace(problem_of(row), batches=row.batches)


def operands(row):
    """A, B, C and what cuBLAS does, for a batch of products."""
    import torch
    A, B = (torch.randn(row.batches, rows, row.K, device="cuda") for rows in (row.M, row.N))
    C, D = (torch.empty(row.batches, row.M, row.N, device="cuda") for _ in range(2))
    return *(x.permute(1, 2, 0) for x in (A, B, C)), lambda: torch.bmm(A, B.mT, out=D)


def measured(row, rounds):
    """{way: microseconds}, and the error of what streams, relative to the norm."""
    import torch

    from gemm import Problem
    from moye.kernels import gemm_simt
    from moye.kernels.gemm.simt.few_kernel import multiply
    from moye.kernels.workspace import swapped
    from moye.testing import interleave
    torch.backends.cuda.matmul.allow_tf32 = False
    problem = Problem(row) if row.batches == 1 else None
    A, B, C, cublas = (problem.A, problem.B, problem.C, problem.works()["cuBLAS"]) if problem else operands(row)
    size, tiles = config.streaming(seen(row), "A"), config.choose(seen(row), MULTIPROCESSORS)
    plan = dataclasses.replace(few.choose(size, MULTIPROCESSORS), batched=row.batches > 1)
    runs = {"streams": lambda: multiply(B, A, swapped(C), plan, size),
            "tiles": lambda: gemm_simt(A, B, C, config=tiles[0], splits=tiles[1]),
            "cuBLAS": cublas}
    C.fill_(math.nan)
    runs["streams"]()
    exact = torch.einsum("mk...,nk...->mn...", A.double(), B.double())
    error = float((C.double() - exact).norm() / exact.norm())
    return {way: 1e3 * ms for way, ms in interleave(runs, rounds).items()}, error


def measure(options):
    """Measure, tell, write."""
    lines = []
    for row in draw(options.seed, options.count, batched=options.batched):
        us, error = measured(row, options.rounds)
        thought = few.estimate(config.streaming(seen(row), "A"), MULTIPROCESSORS)
        print(f"{row.batches}x{row.M}x{row.N}x{row.K}: streams {us['streams']:.1f} ({thought:.1f})  tiles "
              f"{us['tiles']:.1f}  cuBLAS {us['cuBLAS']:.1f}  off {error:.1e}"
              f"{'  WRONG' if not error < 1e-5 else ''}", flush=True)
        extents = {"batches": row.batches, "M": row.M, "N": row.N, "K": row.K}
        lines.append({**extents, **{way: f"{us[way]:.3f}" for way in WAYS}})
    for way in WAYS[1:]:
        ratios = [float(line[way]) / float(line["streams"]) for line in lines]
        print(f"{way} / streams: geometric mean {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.2f}, "
              f"below 0.97 {sum(x < 0.97 for x in ratios)} of {len(ratios)}")
    if options.csv:
        with open(options.csv, "w", newline="") as file:
            writer = csv.DictWriter(file, list(lines[0]))
            writer.writeheader()
            writer.writerows(lines)


def tiled(row):
    """Microseconds of tiles, by their model."""
    problem = seen(row)
    return config.estimate(*config.choose(problem, MULTIPROCESSORS), problem, MULTIPROCESSORS)


def to_scale(found):
    """The same times as on the machine that the costs of tiles were fitted on, which is to choose between both ways.

    Launches took longer on another one, and all else a part of its time: by the medians of the tiles' times.  Seed 1
    was measured while other work ran on the GPU.
    """
    short = [us["tiles"] - tiled(row) for row, us in found.items() if us["tiles"] < SHORT]
    later = max(0.0, statistics.median(short)) if short else 0.0
    slower = statistics.median((us["tiles"] - later) / tiled(row) for row, us in found.items() if us["tiles"] >= SHORT)
    print(f"launches took {later:.2f} us longer than where tiles were measured, all else {slower:.3f} of the time")
    return {row: {way: (time - later) / slower for way, time in us.items()} for row, us in found.items()}


def fit(options):
    """Fit, judge by what was kept back, write into the source."""
    from gemm_fitting import fitted, write
    found = {}
    for path in options.fit:
        with open(path, newline="") as file:
            found |= to_scale({product_of(line): {way: float(line[way]) for way in WAYS}
                               for line in csv.DictReader(file)})
    kept = {row for row in found if random.Random(str(row)).random() < options.keep}
    samples = [(config.streaming(seen(row), "A"), us["streams"]) for row, us in found.items() if row not in kept]
    costs = fitted(samples, few.COSTS, {f.name: 6.0 for f in dataclasses.fields(few.Costs)},
                   lambda sample, costs: few.estimate(sample[0], MULTIPROCESSORS, costs), shared=0.0)
    print(costs)
    off = [abs(math.log(few.estimate(size, MULTIPROCESSORS, costs) / us)) for size, us in samples]
    print(f"error of the model: median {statistics.median(off):.3f}, worst {max(off):.2f}, of {len(off)}")
    for name, rows in (("fitted", [row for row in found if row not in kept]), ("kept back", sorted(kept, key=str))):
        regrets, ratios = [], []
        for row in rows:
            us, size = found[row], config.streaming(seen(row), "A")
            way = "streams" if few.estimate(size, MULTIPROCESSORS, costs) <= tiled(row) else "tiles"
            regrets.append(us[way] / min(us["streams"], us["tiles"]))
            ratios.append(us["cuBLAS"] / us[way])
        if rows:
            print(f"{name}: {len(rows)} products, regret {statistics.fmean(regrets) - 1:.3f}, worst "
                  f"{max(regrets) - 1:.2f}; to cuBLAS {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.2f}")
    if options.write:
        write(costs, few)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("seed", type=int, nargs="?")
    parser.add_argument("count", type=int, nargs="?")
    parser.add_argument("--batched", action="store_true")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--fit", type=Path, nargs="+")
    parser.add_argument("--keep", type=float, default=0.25)
    parser.add_argument("--write", action="store_true", help="into simt/few.py")
    options = parser.parse_args()
    if options.fit:
        return fit(options)
    if options.seed is None or options.count is None:
        parser.error("SEED and COUNT, or --fit FILE...")
    return measure(options)


if __name__ == "__main__":
    sys.exit(main())
