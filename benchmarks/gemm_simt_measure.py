"""Microseconds of ``gemm_simt``'s configurations on drawn float32 products: what ``gemm_simt_fit.py`` learns from.

    for s in $(seq 12); do python benchmarks/gemm_simt_measure.py $s 40 --seconds 90 --out simt_$s.csv.gz & done; wait

Several processes may run at a time: they trace and compile beside each other, and take turns on the GPU, product by
product.  Each ends after so many seconds.  A CSV line for each product and configuration, and one for cuBLAS (TF32
off).  Every result is compared with cuBLAS's, on a poisoned C.
"""

import argparse
import csv
import gzip
import math
import random
import sys
import time
from pathlib import Path
from unittest import mock

import torch

import moye as mo
from gemm import Problem
from gemm_draws import draw
from gemm_measure import Pooled, turn
from gemm_simt_model import COPIES, FIELDS, problem_of
from moye.kernels import gemm_simt
from moye.kernels.gemm.simt import choice
from moye.runtime.prepare import compile_only
from moye.runtime.tuning.precompile import Compiling
from moye.testing import interleave

HEAD = ["orders", "M", "N", "K", *COPIES, *FIELDS, "parts", "us"]
LARGEST = 1 << 37
"""Multiplications of a product at most: what is larger is no news, and long."""


def candidates(row, near, most, multiprocessors):
    """The choice and ways whose predicted time is near the best; if these are many, half of them the soonest, and the
    others soonest of their kind, or there by chance.
    """
    problem = problem_of(row)
    found = choice.timed(problem, multiprocessors)
    good = [way for us, way in found if us <= near * found[0][0]]
    kinds = {(way.config, way.copied): way for way in reversed(good)}
    first = [choice.choose(problem, multiprocessors), *good[:most // 2], *sorted(kinds.values(), key=good.index)]
    chosen = list(dict.fromkeys(first))[:most - 2]
    others = [way for way in good if way not in chosen]
    return chosen + random.Random(row.label).sample(others, min(2, len(others)))


def call(problem, way):
    """The product in this way."""
    def copied():
        with mock.patch.multiple(choice, streams=lambda *_: "", choose=lambda *_: way):
            gemm_simt(problem.A, problem.B, problem.C)

    return copied if any(way.copied) else \
        lambda: gemm_simt(problem.A, problem.B, problem.C, config=way.config, splits=way.parts)


def compiled(chosen, pools):
    """Compile every kernel that is measured; what can be is returned, what cannot is told."""
    jobs = {}
    with Compiling(2) as compiling:
        for row, configs in chosen.items():
            problem = Pooled(row, pools)
            for config in configs:
                try:
                    with compile_only(trace_only=True) as gathered:
                        call(problem, config)()
                except mo.MoyeError as error:
                    print(f"{row.label} {config}: {error}".splitlines()[0], file=sys.stderr, flush=True)
                    continue
                jobs[row, config] = gathered.jobs
                compiling.add(*gathered.jobs)
        errors = compiling.finish(lambda done: None)
    for found in jobs.values():
        for job in found:
            if id(job) in errors:
                print(f"{job.spec.func.name}: {errors[id(job)]}".splitlines()[0], file=sys.stderr, flush=True)
    return {key for key, found in jobs.items() if not any(id(job) in errors for job in found)}


def measure(row, configs, rounds, writer):
    """Every configuration beside cuBLAS; those with a wrong result are told."""
    problem = Problem(row)
    works = {config: call(problem, config) for config in configs}
    cublas = problem.works()["cuBLAS"]
    times = interleave({"cuBLAS": cublas, **works}, rounds, warmup=1)
    cublas()
    exact = problem.C.clone()
    for config, work in works.items():
        problem.C.fill_(math.nan)
        work()
        if not float((problem.C - exact).norm()) <= 2e-5 * float(exact.norm()):
            print(f"{row.label}: WRONG {config}", file=sys.stderr, flush=True)
    for found, ms in times.items():
        values = [""] * (len(COPIES) + len(FIELDS) + 1) if found == "cuBLAS" else \
            [*map(int, found.copied), *(getattr(found.config, name) for name in FIELDS), found.parts]
        writer.writerow([row.orders, row.M, row.N, row.K, *values, f"{1e3 * ms:.3f}"])
    return len(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--near", type=float, default=1.7)
    parser.add_argument("--most", type=int, default=15, help="ways of a product")
    parser.add_argument("--batch", type=int, default=4, help="products that are compiled at a time")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--out", type=Path, default=Path("gemm_simt_measured.csv.gz"))
    options = parser.parse_args()
    start = time.perf_counter()
    torch.backends.cuda.matmul.allow_tf32 = False
    rows = [row for row in draw(options.seed, options.count, "f32") if row.flops <= 2 * LARGEST]
    multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
    products, lines, pools = 0, 0, {}
    with gzip.open(options.out, "wt", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(HEAD)
        for first in range(0, len(rows), options.batch):
            if time.perf_counter() - start > options.seconds:
                break
            chosen = {row: candidates(row, options.near, options.most, multiprocessors)
                      for row in rows[first:first + options.batch]}
            ready = compiled(chosen, pools)
            for row, configs in chosen.items():
                with turn():
                    if time.perf_counter() - start > options.seconds:
                        break
                    lines += measure(row, [config for config in configs if (row, config) in ready], options.rounds,
                                     writer)
                    products += 1
    print(f"{options.out}: {products} products, {lines} lines in {time.perf_counter() - start:.0f} s", file=sys.stderr,
          flush=True)


if __name__ == "__main__":
    main()
