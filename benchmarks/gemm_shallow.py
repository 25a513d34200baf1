"""Products of few k: ``gemm_shallow``, as ``gemm`` takes them, and cuBLAS.

    python benchmarks/gemm_shallow.py SEED COUNT [--kind bf16] [--every] [--configs] [--rounds 9] [--out FILE]

Products are drawn as in ``gemm_random.py``, of which those with few k and odd lines stay, or all with few k.
Random-normal numbers, interleaved, L2 flushed, medians in microseconds; each result is compared with float64 on a
poisoned output.  "gemm" is what the library takes.  With ``--configs`` every configuration is measured, a line of the
file each, for ``gemm_shallow_fit.py``.
"""

import argparse
import csv
import time
from dataclasses import astuple, fields
from functools import partial

import torch

import gemm_measure
import moye as mo
from gemm import Problem
from gemm_draws import draw
from gemm_rows import KINDS, geometric_mean
from moye.kernels.gemm.shallow import config as model
from moye.kernels.gemm.shallow.kernel import gemm_shallow
from moye.kernels.gemm.shallow.plan import size_of
from moye.runtime.prepare import compile_only
from moye.runtime.tuning.precompile import Compiling
from moye.testing import interleave

MULTIPROCESSORS = 132
FIELDS = [field.name for field in fields(model.ShallowConfig)]
HEAD = ["kind", "orders", "M", "N", "K", *FIELDS, "us", "gemm", "cuBLAS"]


def drawn(seed, count, kind, every):
    """So many of the drawn products that have few k; unless ``every`` is asked for, of odd lines."""
    found, many = [], 12 * count
    while len(found) < count:
        found = [row for row in draw(seed, many, kind) if few(row) and (every or not row.tma)][:count]
        many *= 2
    return found


def few(row):
    """Whether a product has few k, of what torch takes as it is."""
    return row.K * KINDS[row.kind].bytes <= model.MOST


def configs(problem, every):
    """What is measured: the rule's configuration first."""
    size = size_of(*map(mo.describe, (problem.A, problem.B, problem.C)))
    rule = model.choose(size, MULTIPROCESSORS)
    return list(dict.fromkeys([rule, *(model.options(size) if every else ())]))


def works(problem, every):
    """What is measured of a product, by name or configuration."""
    A, B, C = problem.A, problem.B, problem.C
    return problem.works() | {config: partial(gemm_shallow, A, B, C, config=config)
                              for config in configs(problem, every)}


def prepared(rows, every):
    """Compile what all of them launch."""
    with Compiling() as compiling:
        for row in rows:
            for name, work in works(Problem(row, fill=False), every).items():
                if name != "cuBLAS":
                    with compile_only(trace_only=True) as gathered:
                        work()
                    compiling.add(*gathered.jobs)
        compiling.finish(lambda done: None)


def measured(row, every, rounds):
    """Lines of a product."""
    problem = Problem(row)
    runs = works(problem, every)
    found = [name for name in runs if not isinstance(name, str)]
    most = problem.most_error(problem.error(runs["cuBLAS"]))
    wrong = [name for name, work in runs.items() if not problem.error(work) <= most]
    times = {name: 1e3 * ms for name, ms in interleave(runs, rounds).items()}
    best = min(found, key=times.get)
    print(row.M, row.N, row.K, row.orders, "tma" if row.tma else "", f"cuBLAS {times['cuBLAS']:.1f} gemm "
          f"{times['moye']:.1f} shallow {times[found[0]]:.1f} best of {len(found)} {times[best]:.1f}", *astuple(best),
          f"WRONG {wrong}" if wrong else "", flush=True)
    return [[row.kind, row.orders, row.M, row.N, row.K, *astuple(config),
             *(f"{times[name]:.2f}" for name in (config, "moye", "cuBLAS"))] for config in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--kind", default="bf16", choices=("bf16", "f16", "tf32"))
    parser.add_argument("--configs", action="store_true")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--every", action="store_true")
    parser.add_argument("--out")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    rows = drawn(options.seed, options.count, options.kind, options.every)

    with gemm_measure.preparing():
        prepared(rows, options.configs)
    table = []
    with gemm_measure.turn():
        start = time.perf_counter()
        for row in rows:
            if time.perf_counter() - start > options.seconds:
                break
            table += measured(row, options.configs, options.rounds)
    if options.out:
        with open(options.out, "w", newline="") as file:
            csv.writer(file).writerows([HEAD, *table])
    told = {tuple(line[:5]): [float(x) for x in line[-3:]] for line in reversed(table)}
    for name, place in (("shallow", 0), ("gemm", 1)):
        ratios = sorted(times[2] / times[place] for times in told.values())
        print(f"{name}: {len(ratios)} products, mean {geometric_mean(ratios):.3f} of cuBLAS, least {ratios[0]:.2f}, "
              f"{sum(r < 0.97 for r in ratios)} below 0.97, {sum(r < 0.9 for r in ratios)} below 0.90")


if __name__ == "__main__":
    main()
