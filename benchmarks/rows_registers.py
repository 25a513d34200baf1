"""Registers and spills of the kernels of rows at every plan of the rule, as ptxas has them; no GPU is needed.

    python benchmarks/rows_registers.py                     # all families; exit status 1 if anything spills
    python benchmarks/rows_registers.py layer_norm_backward cross_entropy --dtype bfloat16 --all

In: names of families and dtypes.  Out: a line for each kernel that spills (with ``--all`` for each), and how many there
were.  Calls are drawn up from extents of columns and alignments at which plans differ; each plan is compiled once for
each set of arrays that go with it.
"""

import argparse
import itertools
import sys
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import moye as mo
from moye.kernels import (
    cross_entropy,
    cross_entropy_backward,
    layer_norm,
    layer_norm_backward,
    log_softmax,
    rms_norm,
    rms_norm_backward,
    softmax,
    softmax_backward,
)
from moye.runtime.prepare import compile_only

DTYPES = {d.name: d for d in (mo.bfloat16, mo.float16, mo.float32, mo.float64)}
COLUMNS = (64, 128, 256, 512, 768, 1024, 1536, 2048, 3072, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384,
           20480, 24576, 28672, 32768, 49152, 65536, 98304, 131072, 196608, 262144, 524288)
MANY, FEW = 16384, 64


@dataclass(frozen=True)
class Call:
    """A call: the host function's arrays, and what of them is there."""

    family: str
    dtype: str
    rows: int
    columns: int
    options: tuple

    def arrays(self, *names):
        """Arrays of rows by name; those that are not among the options are None."""
        return {name: self.matrix() for name in names if name in self.options}

    def matrix(self, dtype=None):
        return mo.TensorLike(dtype or DTYPES[self.dtype], (self.rows, self.columns), (self.columns, 1))

    def vector(self, dtype=None):
        return mo.TensorLike(dtype or DTYPES[self.dtype], (self.columns,))

    def numbers(self, dtype=None):
        return mo.TensorLike(dtype or (mo.float64 if self.dtype == "float64" else mo.float32), (self.rows,))

    def make(self):
        FAMILIES[self.family][0](self)


def _norm(call):
    centred, x = call.family.startswith("layer"), call.matrix()
    out = call.matrix(mo.float8_e4m3fn) if {"by_row", "by_block"} & set(call.options) else x
    more = call.arrays("residual", "summed")
    more |= {name: call.vector() for name in ("weight", "bias") if name in call.options}
    if "by_row" in call.options:
        more["scale"] = call.numbers(mo.float32)
    if "by_block" in call.options:
        more["scale"] = mo.TensorLike(mo.float32, (call.rows, -(-call.columns // 128)), (-(-call.columns // 128), 1))
    (layer_norm if centred else rms_norm)(out, x, rstd=call.numbers(), **more)


def _norm_backward(call):
    centred, x = call.family.startswith("layer"), call.matrix()
    more = call.arrays("dsummed")
    more |= {name: call.vector() for name in ("dweight", "dbias") if name in call.options}
    weight = call.vector() if "weight" in call.options else None
    arrays = call.matrix(), call.matrix(), x, weight, *[call.numbers()] * (2 if centred else 1)
    (layer_norm_backward if centred else rms_norm_backward)(*arrays, **more)


def _softmax(call):
    more = {"mask": call.matrix(mo.bool)} if "kept" in call.options else {}
    more |= {"mask": call.matrix()} if "added" in call.options else {}
    more |= {"causal": 0} if "causal" in call.options else {}
    (log_softmax if "log" in call.options else softmax)(call.matrix(), call.matrix(), **more)


def _softmax_backward(call):
    softmax_backward(call.matrix(), call.matrix(), call.matrix())


def _cross_entropy(call):
    loss, labels = mo.TensorLike(mo.float32, (1,)), call.numbers(mo.int64)
    more = call.arrays("dlogits")
    more |= {"label_smoothing": 0.1} if "smoothed" in call.options else {}
    more |= {"weight": call.vector()} if "weight" in call.options else {}
    cross_entropy(loss, call.matrix(), labels, lse=call.numbers(), **more)


def _cross_entropy_backward(call):
    cross_entropy_backward(call.matrix(), mo.TensorLike(mo.float32, (1,)), call.matrix(), call.numbers(mo.int64),
                           call.numbers())


_ALL = ("weight", "bias", "residual", "summed")
_NORMS = [(), ("weight",), ("weight", "bias"), ("weight", "residual", "summed"), _ALL, ("weight", "residual"),
          ("weight", "by_row"), ("weight", "by_block"), (*_ALL, "by_row"), (*_ALL, "by_block")]
_GRADIENTS = [(), ("weight", "dweight"), ("weight", "dweight", "dsummed"), ("weight", "dweight", "dbias"),
              ("weight", "dweight", "dbias", "dsummed"), ("dsummed",)]
FAMILIES = {
    "rms_norm": (_norm, _NORMS), "layer_norm": (_norm, _NORMS),
    "rms_norm_backward": (_norm_backward, _GRADIENTS), "layer_norm_backward": (_norm_backward, _GRADIENTS),
    "softmax": (_softmax, [(), ("log",), ("kept",), ("added",), ("causal",), ("kept", "causal", "log")]),
    "softmax_backward": (_softmax_backward, [()]),
    "cross_entropy": (_cross_entropy, [(), ("dlogits",), ("smoothed",), ("smoothed", "dlogits"),
                                       ("weight", "dlogits")]),
    "cross_entropy_backward": (_cross_entropy_backward, [()])}


def calls(families, dtypes, columns=COLUMNS):
    """All calls: lengths that are whole vectors, and those whose rows begin anywhere; many rows and few."""
    for family, dtype in itertools.product(families, dtypes):
        for options, n, extra, rows in itertools.product(FAMILIES[family][1], columns, (0, 1), (MANY, FEW)):
            yield Call(family, dtype, rows, n + extra, options)


def jobs(found, arch="sm_90a"):
    """(call, job) of every specialisation that these calls launch, once."""
    seen = {}
    for call in found:
        with compile_only(arch, trace_only=True) as gathered:
            call.make()
        for job in gathered.jobs:
            if id(job.spec) not in seen:
                seen[id(job.spec)] = job
                yield call, job


def measured(found, arch="sm_90a", threads=2):
    """(call, kernel's name, program) of every specialisation."""
    started = deque()
    with ThreadPoolExecutor(threads) as pool:
        for call, job in jobs(found, arch):
            started.append((call, job.spec.func.name, pool.submit(job.compile)))
            if len(started) > 2 * threads:
                call, name, future = started.popleft()
                yield call, name, future.result()
        for call, name, future in started:
            yield call, name, future.result()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("families", nargs="*", help=", ".join(FAMILIES))
    parser.add_argument("--dtype", action="append", choices=[*DTYPES])
    parser.add_argument("--columns", type=int, nargs="*", default=COLUMNS)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--all", action="store_true", help="a line for each kernel, not only for those that spill")
    given = parser.parse_args()
    count = spilled = 0
    drawn = calls(given.families or FAMILIES, given.dtype or DTYPES, given.columns)
    for call, name, program in measured(drawn, given.arch, given.threads):
        count, spilled = count + 1, spilled + (program.spills > 0)
        if given.all or program.spills:
            print(f"{name:30} {call.dtype:9} {call.rows:6} x {call.columns:7}  {' '.join(call.options) or '-':45} "
                  f"{program.registers:4} registers {program.spills:4} bytes spilled", flush=True)
    print(f"{count} kernels, {spilled} of them spill")
    sys.exit(spilled > 0)


if __name__ == "__main__":
    main()
