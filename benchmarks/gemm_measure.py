"""Microseconds of every configuration worth a try on drawn products: what ``gemm_fit.py`` fits the model of costs to.

    python benchmarks/gemm_measure.py SEED COUNT [--kind bf16] [--orders KK] [--near 1.5] [--shorter 60] [--longer 30]
                                      [--few 128] [--bytes 1.6e8] [--unaligned] [--out FILE]

Products that tensor maps describe alone: the others are copied first, which takes as long for every configuration.
Configurations that the model finds ``--near`` times slower than its best are left out.  Several processes may run at
a time: they compile beside each other, and take turns on the GPU.  A CSV line for each product and configuration.
"""

import argparse
import contextlib
import csv
import fcntl
import gzip
import math
import random
import sys
import tempfile
import time
from pathlib import Path

import torch

import moye as mo
from gemm import Problem
from gemm_draws import draw, layers
from gemm_model import DTYPES, FIELDS, problem_of
from gemm_rows import KINDS
from moye.kernels.gemm.sm80.kernel import gemm_sm80
from moye.kernels.gemm.sm90 import choice
from moye.kernels.gemm.sm90 import config as model
from moye.kernels.gemm.sm90.host import gemm_sm90
from moye.runtime.prepare import compile_only
from moye.runtime.tuning.precompile import Compiling
from moye.testing import interleave

HEAD = ["kind", "orders", "M", "N", "K", *FIELDS, "us"]


@contextlib.contextmanager
def _locked(name, how):
    with open(Path(tempfile.gettempdir()) / f"gemm_{name}.lock", "w") as lock:
        fcntl.flock(lock, how)
        yield


def preparing():
    """This process traces and compiles: nobody measures meanwhile, for launches would wait for the host."""
    return _locked("prepare", fcntl.LOCK_SH)


@contextlib.contextmanager
def turn():
    """The GPU for this process alone, among those that ask for it, once none of them compiles any more."""
    with _locked("prepare", fcntl.LOCK_EX):
        pass
    with _locked("measure", fcntl.LOCK_EX):
        yield


def modelled(row, multiprocessors):
    """Microseconds of the model's choice."""
    problem = problem_of(row)
    return model.estimate(choice.choose(problem, multiprocessors), problem, multiprocessors)


def candidates(row, near, most, multiprocessors):
    """Configurations whose predicted time is near the best one's; the choice is the first.

    If these are many: those of the least corrected times, the soonest of other tiles by the model, and some by chance.
    """
    problem = problem_of(row)
    timed = choice.timed(problem, multiprocessors)
    good = [config for us, config in timed if us <= near * timed[0][0]]
    short, found = choice.shortlist(timed), [choice.choose(problem, multiprocessors)]
    if len(good) > most and choice.measured(problem):
        order = zip(choice.corrected(short, problem, multiprocessors), (config for _, config in short), strict=True)
        found += [config for _, config in sorted(order, key=lambda one: one[0])[:round(0.4 * most)]]
    if len(good) > most:
        good = [*[config for _, config in short][:most // 2], *random.Random(row.label).sample(good, most)]
    return list(dict.fromkeys([*found, *good]))[:most]


def asked_for(row, options):
    """Whether a row is one of those that ``--bytes``, ``--unaligned`` and ``--few`` leave."""
    return min(row.M, row.N) <= options.few and max(row.M, row.N) * row.K * KINDS[row.kind].bytes >= options.bytes \
        and (min(problem_of(row).lines) < 128 or not options.unaligned)


class Pooled(Problem):
    """Operands that lie in memory which all products share: enough to trace and compile a launch."""

    def __init__(self, row, pools):
        self.row, self.kind = row, KINDS[row.kind]
        self.A, self.B = (self._view(pools, letter, rows, row.K, order, self.kind.operands)
                          for letter, rows, order in zip("AB", (row.M, row.N), row.orders, strict=True))
        self.C = self._view(pools, "C", row.M, row.N, "K", self.kind.result)

    @staticmethod
    def _view(pools, letter, rows, columns, order, dtype):
        if letter not in pools or pools[letter].numel() < rows * columns:
            pools[letter] = torch.empty(max(rows * columns, 1 << 28), device="cuda", dtype=getattr(torch, dtype))
        flat = pools[letter][:rows * columns]
        return flat.view(rows, columns) if order == "K" else flat.view(columns, rows).T


def call(problem, config):
    """The product with this configuration; of ``gemm_sm80`` it is one of its own and the number of splits."""
    if isinstance(config, tuple):
        return lambda: gemm_sm80(problem.A, problem.B, problem.C, config=config[0], splits=config[1])
    keywords = {name: x for name, x in problem.kind.keywords.items() if name != "tf32"}
    return lambda: gemm_sm90(problem.A, problem.B, problem.C, config=config, **keywords)


def prepare(chosen):
    """Compile every kernel that is measured; what cannot be compiled is told and left out."""
    start = time.perf_counter()
    with Compiling() as compiling:
        jobs, pools = {}, {}
        for row, configs in chosen.items():
            problem = Pooled(row, pools)
            for config in configs:
                try:
                    with compile_only(trace_only=True) as gathered:
                        call(problem, config)()
                except mo.MoyeError as error:
                    print(f"{row.label} {config}: {error}".splitlines()[0], file=sys.stderr)
                    continue
                jobs[row, config] = gathered.jobs
                compiling.add(*gathered.jobs)
        traced = time.perf_counter() - start
        errors = compiling.finish(lambda done: None)
    print(f"{len(jobs)} pairs, {len({id(j.spec) for found in jobs.values() for j in found})} kernels: traced in "
          f"{traced:.0f} s, compiled after {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    for found in jobs.values():
        for job in found:
            if id(job) in errors:
                print(f"{job.spec.func.name}: {errors[id(job)]}".splitlines()[0], file=sys.stderr)
    return {key for key, found in jobs.items() if not any(id(job) in errors for job in found)}


def check(problem, works):
    """The configurations whose result, on a poisoned C, is not cuBLAS's but for rounding.

    cuBLAS's own may be off by more, as torch lets it add up parts of K in 16 bits: so it is compared with float64.
    """
    most = 0.01 + 1.5 * problem.error(problem.works()["cuBLAS"])
    exact, wrong = problem.C.float(), []
    for config, work in works.items():
        problem.C.fill_(math.nan if problem.C.is_floating_point() else -1)
        work()
        if not float((problem.C.float() - exact).norm()) <= most * float(exact.norm()):
            wrong.append(config)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--kind", default="bf16", choices=DTYPES)
    parser.add_argument("--orders", default="")
    parser.add_argument("--near", type=float, default=1.5)
    parser.add_argument("--most", type=int, default=12, help="configurations of a product")
    parser.add_argument("--shorter", type=float, default=math.inf, help="products that the model finds so alone")
    parser.add_argument("--longer", type=float, default=0, help="the same for those that take longer")
    parser.add_argument("--bytes", type=float, default=0, help="of the longer operand at least")
    parser.add_argument("--unaligned", action="store_true", help="operands whose lines begin anywhere alone")
    parser.add_argument("--few", type=int, default=1 << 20, help="rows, or columns, at most")
    parser.add_argument("--layers", action="store_true", help="part SEED of COUNT of the layers of models instead")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--out", type=Path, default=Path("gemm_measured.csv.gz"))
    options = parser.parse_args()
    drawn = layers(options.kind)[options.seed::options.count] if options.layers else \
        draw(options.seed, options.count, options.kind)
    multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
    rows = [row for row in drawn if row.tma and options.orders in ("", row.orders) and asked_for(row, options)
            and options.longer <= modelled(row, multiprocessors) < options.shorter]
    with preparing():
        chosen = {row: candidates(row, options.near, options.most, multiprocessors) for row in rows}
        ready = prepare(chosen)
    with turn(), gzip.open(options.out, "wt", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(HEAD)
        start = time.perf_counter()
        for row, configs in chosen.items():
            if time.perf_counter() - start > options.seconds:
                break
            problem = Problem(row)
            works = {config: call(problem, config) for config in configs if (row, config) in ready}
            times = interleave({"cuBLAS": problem.works()["cuBLAS"], **works}, options.rounds, warmup=1)
            wrong = check(problem, works)
            for config, ms in times.items():
                values = [getattr(config, name) for name in FIELDS] if config != "cuBLAS" else [""] * len(FIELDS)
                writer.writerow([row.kind, row.orders, row.M, row.N, row.K, *values, f"{1e3 * ms:.3f}"])
            if wrong:
                print(f"{row.label}: WRONG {wrong}", file=sys.stderr, flush=True)
        print(f"{options.out}: measured in {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
