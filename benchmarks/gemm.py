"""``moye.kernels.gemm`` beside cuBLAS on a Hopper GPU: every dtype of its tensor cores, large shapes, 44 odd ones.

Interleaved in one process, the order reversed every other round; random-normal data; L2 flushed before every launch;
medians.  Every result is compared with float64 on a poisoned output first; "error" is the relative Frobenius error, and
behind it its ratio to cuBLAS's.  Kernels are traced and compiled before anything is timed, several at once.

    python benchmarks/gemm.py [--rounds N] [--seconds BUDGET] [--only REGEX] [--out DIR]
    python benchmarks/gemm.py --steady

``--only`` is matched with "main bf16 4096x4096x4096 KK".  ``--steady`` measures the large shapes launched back to back
instead, at the power limit.  Figures go to DIR (out/) as CSV and, where matplotlib is installed, as plots.
"""

import argparse
import dataclasses
import math
import re
import sys
import time
from collections import Counter
from pathlib import Path

import torch

import gemm_plot
import gemm_rows
import gemm_steady
import moye as mo
import power
from gemm_rows import FORTY, KINDS, MAIN, STEADY, Figures
from moye.kernels import gemm
from moye.runtime.prepare import compile_only
from moye.runtime.tuning.precompile import Compiling
from moye.testing import interleave

DEVICE = "cuda"
SAMPLED = 256                                           # rows of C that are compared with float64
MOST_ERROR = 1.1                                        # of cuBLAS's
EXACT = 8                                               # cuBLAS rounds nothing if its error is so much below that


class Problem:
    """The operands of a row and both functions that multiply them."""

    def __init__(self, row, fill=True):
        self.row, self.kind = row, KINDS[row.kind]
        self.A, self.B = (matrix(rows, row.K, order, self.kind.operands, fill)
                          for rows, order in zip((row.M, row.N), row.orders, strict=True))
        self.C = torch.empty(row.M, row.N, device=DEVICE, dtype=getattr(torch, self.kind.result))

    def works(self):
        A, B, C = self.A, self.B, self.C
        return {"moye": self.moye, "cuBLAS": vendor(A, B, C, self.kind.fast, "tf32" in self.kind.keywords)}

    def moye(self):
        gemm(self.A, self.B, self.C, **self.kind.keywords)

    def error(self, work):
        """Of one launch on a poisoned C, relative to float64; not finite where something of C was not written."""
        self.C.fill_(math.nan if self.C.is_floating_point() else torch.iinfo(self.C.dtype).min)
        work()
        rows = torch.linspace(0, self.row.M - 1, min(SAMPLED, self.row.M), device=DEVICE).long()
        exact = self.A[rows].double() @ self.B.double().T
        error = float((self.C[rows].double() - exact).norm() / exact.norm())
        return error if bool(self.C.isfinite().all()) else math.nan

    def most_error(self, usual):
        """The error that a result may have where cuBLAS's is ``usual``."""
        least = self.kind.rounded if usual < self.kind.rounded / EXACT else 0.0
        return max(MOST_ERROR * usual, least) + self.kind.cut * self.row.K


def matrix(rows, columns, order, dtype, fill):
    """Contiguous along K ("K") or along the rows ("M"); integers are normal with a deviation of 32."""
    shape = (rows, columns) if order == "K" else (columns, rows)
    x = torch.empty(shape, device=DEVICE, dtype=getattr(torch, dtype))
    if fill:
        normal = torch.randn(shape, device=DEVICE)
        x.copy_((32 * normal).round().clamp(-127, 127) if dtype == "int8" else normal)
    return x if order == "K" else x.T


def vendor(A, B, C, fast, tf32=True):
    """cuBLAS's product into C, through torch, whose switch for float32 stays as it is set here."""
    if A.dtype == torch.int8:
        return lambda: torch._int_mm(A, B.T, out=C)
    if A.dtype == torch.float8_e4m3fn:
        one = torch.ones((), device=DEVICE)
        return lambda: torch._scaled_mm(A, B.T, scale_a=one, scale_b=one, out_dtype=C.dtype, use_fast_accum=fast,
                                        out=C)
    torch.backends.cuda.matmul.allow_tf32 = tf32
    return lambda: torch.mm(A, B.T, out=C)


# --- compiling -------------------------------------------------------------------------------------------------------


def prepare(rows):
    """Trace and compile what all rows launch; for each its kernels with their configurations, or why it has none."""
    start, launches, jobs = time.perf_counter(), {}, []
    with Compiling() as compiling:
        for row in rows:
            try:
                with compile_only(trace_only=True) as gathered:
                    Problem(row, fill=False).moye()
            except mo.MoyeError as error:
                launches[row] = error
                continue
            compiling.add(*gathered.jobs)
            jobs += gathered.jobs
            launches[row] = gathered.jobs
        traced = time.perf_counter() - start
        errors = compiling.finish(lambda done: None)
    kernels = len({id(job.spec) for job in jobs})
    print(f"{kernels} kernels: traced in {traced:.1f} s, compiled after {time.perf_counter() - start:.1f} s",
          file=sys.stderr)
    return {row: found if isinstance(found, Exception) else
            next((errors[id(job)] for job in found if id(job) in errors), kernels_text(found))
            for row, found in launches.items()}


def kernels_text(jobs):
    """The kernels of a row in the order of their launches: "2 copy_rows + gemm_sm90 128x128x64 stages=5"."""
    counts = Counter(map(kernel_text, jobs))
    return " + ".join(f"{count} {text}" if count > 1 else text for text, count in counts.items())


def kernel_text(job):
    """A kernel's name and its configuration as far as that is no default: "gemm_sm90 128x256x64 stages=4"."""
    name = job.spec.func.name.removesuffix("_kernel")
    plans = (getattr(spec, "value", None) for spec in job.call.specs.values())
    config = next((plan.config for plan in plans if hasattr(plan, "config")), None)
    if config is None:
        return name
    extents = [extent for extent in ("bM", "bN", "bK") if hasattr(config, extent)]
    tile = "x".join(str(getattr(config, extent)) for extent in extents)
    told = [f"{f.name}={value}" for f in dataclasses.fields(config)[len(extents):]
            if (value := getattr(config, f.name)) != f.default and isinstance(value, (int, str))]
    return " ".join([name, tile, *told])


# --- measuring -------------------------------------------------------------------------------------------------------


def measured(row, kernels, seconds, rounds):
    """The figures of one row; what kept it from being measured, if anything did."""
    try:
        if isinstance(kernels, Exception):
            raise kernels
        return _measured(row, kernels, seconds, rounds)
    except (mo.MoyeError, RuntimeError) as error:       # of moye; of torch, where cuBLAS does not take the operands
        return Figures(row, why=f"{type(error).__name__}: {str(error).splitlines()[0]}")


def _measured(row, kernels, seconds, rounds):
    problem = Problem(row)
    works = problem.works()
    errors = [problem.error(work) for work in works.values()]
    start = time.perf_counter()
    interleave(works, 2, warmup=0)
    count = gemm_rows.rounds_for((time.perf_counter() - start) / 4, seconds, rounds)     # lead and warm-up included
    ms = interleave(works, count)
    found = Figures(row, ms["moye"], ms["cuBLAS"], *errors, count, kernels)
    if not found.error <= problem.most_error(found.cublas_error):
        found.why = f"error {found.error:.2e}, cuBLAS's {found.cublas_error:.2e}"
    return found


def report(rows, options):
    """Print, and write, the figures of all rows; whether all could be measured and are right."""
    kernels, results, last = prepare(rows), [], None
    for row in rows:
        if row.set != last:
            print(f"\n{row.set}\n{gemm_rows.HEAD}")
            last = row.set
        results.append(measured(row, kernels[row], options.seconds / len(rows), options.rounds))
        print(gemm_rows.line(results[-1]), flush=True)
    print("", *gemm_rows.means(results), sep="\n")
    gemm_rows.write_csv(options.out / "gemm.csv", results)
    return not any(figures.why for figures in results)


def report_steady(rows, options):
    """The same of the steady state."""
    kernels, results = prepare(rows), []
    with power.Sampler(f"GPU-{torch.cuda.get_device_properties(DEVICE).uuid}") as sampler:
        print(f"back to back, clocks and power by {sampler.source or 'nobody'}, limit {sampler.limit:.0f} W\n"
              f"{gemm_steady.HEAD}")
        for row in rows:
            if isinstance(kernels[row], Exception):
                print(f"{row.label}: not measured: {str(kernels[row]).splitlines()[0]}")
                continue
            works = Problem(row).works()
            results.append(gemm_steady.steady(row, works, interleave(works, 5), sampler, launched))
            print(gemm_steady.line(results[-1]), flush=True)
    gemm_steady.write_csv(options.out / "gemm_steady.csv", results)
    return len(results) == len(rows)


def launched(work, count):
    """Seconds of the device for so many launches, one behind the other."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(count):
        work()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=200, help="at most so many, fewer where a launch is long")
    parser.add_argument("--seconds", type=float, default=90, help="for timing all rows, each an equal part")
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX")
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="DIR")
    parser.add_argument("--steady", action="store_true", help="the large shapes back to back instead")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse(arguments)
    rows = [row for row in (STEADY if options.steady else MAIN + FORTY) if options.only.search(row.label)]
    if not rows:
        sys.exit(f"no row matches {options.only.pattern!r}")
    options.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    complete = (report_steady if options.steady else report)(rows, options)
    print(gemm_plot.draw(options.out))
    sys.exit(0 if complete else "some rows could not be measured, or are wrong")


if __name__ == "__main__":
    main()
