"""Products of few k: ``gemm_shallow``, as ``gemm`` takes them, and cuBLAS.

    python benchmarks/gemm_shallow.py SEED COUNT [--kind bf16] [--configs] [--rounds 9] [--seconds 90] [--out FILE]

Products are drawn as in ``gemm_random.py``, of which those with few k stay.  Random-normal numbers, interleaved, L2
flushed, medians in microseconds; each result is compared with float64 on a poisoned output.  "gemm" is what the library
takes.  With ``--configs`` every configuration is measured, a line of the file each, for ``gemm_shallow_fit.py``.
"""

import argparse
import csv
import math
import time
from dataclasses import astuple, fields
from functools import partial

import torch

import gemm_measure
from gemm import Problem
from gemm_draws import draw
from gemm_rows import geometric_mean
from moye import kernels
from moye.kernels.gemm.shallow import config as model
from moye.kernels.gemm.shallow.kernel import gemm_shallow
from moye.runtime.prepare import compile_only
from moye.runtime.tuning.precompile import Compiling
from moye.testing import interleave

MULTIPROCESSORS = 132
FIELDS = [field.name for field in fields(model.ShallowConfig)]
HEAD = ["kind", "orders", "M", "N", "K", *FIELDS, "us", "gemm", "cuBLAS"]


def drawn(seed, count, kind, every):
    """So many of the drawn products that have few k, and unless ``every`` is asked for, that tensor maps do not describe."""
    found, many = [], 12 * count
    while len(found) < count:
        found = [row for row in draw(seed, many, kind) if row.K <= model.MOST and (every or not row.tma)][:count]
        many *= 2
    return found


def works(problem, configs):
    """What is measured of a product, by name or configuration."""
    A, B, C = problem.A, problem.B, problem.C
    return problem.works() | {config: partial(gemm_shallow, A, B, C, config=config) for config in configs}


def prepared(rows, configs):
    """Compile what all of them launch."""
    with Compiling() as compiling:
        for row in rows:
            problem = Problem(row, fill=False)
            for name, work in works(problem, configs(row)).items():
                if name != "cuBLAS":
                    with compile_only(trace_only=True) as gathered:
                        work()
                    compiling.add(*gathered.jobs)
        compiling.finish(lambda done: None)


def measured(row, configs, rounds):
    """Lines of a product."""
    problem = Problem(row)
    runs = works(problem, configs)
    usual = problem.error(runs["cuBLAS"])
    wrong = [name for name, work in runs.items() if not problem.error(work) <= 1.1 * usual]
    if wrong:
        print("WRONG", row.label, wrong)
    times = {name: 1e3 * ms for name, ms in interleave(runs, rounds).items()}
    best = min(configs, key=times.get)
    print(row.M, row.N, row.K, row.orders, "tma" if row.tma else "", *(f"{name} {us:.1f}" for name, us in times.items()
                                                                    if isinstance(name, str)),
          f"shallow {times[configs[0]]:.1f} best of {len(configs)} {times[best]:.1f}", *astuple(best), flush=True)
    return [[row.kind, row.orders, row.M, row.N, row.K, *astuple(config),
             *(f"{times[name]:.2f}" for name in (config, "moye", "cuBLAS"))] for config in configs]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--kind", default="bf16", choices=("bf16", "f16"))
    parser.add_argument("--configs", action="store_true")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--every", action="store_true")
    parser.add_argument("--out")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    rows = drawn(options.seed, options.count, options.kind, options.every)

    def configs(row):
        return [ShallowConfig(*c) for c in model.CONFIGS]

    with gemm_measure.preparing():
        prepared(rows, configs)
    start, table = time.perf_counter(), []
    with gemm_measure.turn():
        for row in rows:
            if time.perf_counter() - start > options.seconds:
                break
            table += measured(row, configs(row), options.rounds)
    if options.out:
        with open(options.out, "w", newline="") as file:
            csv.writer(file).writerows([HEAD, *table])


if __name__ == "__main__":
    from moye.kernels.gemm.shallow.config import ShallowConfig
    main()
