"""Fit the costs of ``moye.kernels.gemm.shallow.config`` to what ``gemm_shallow.py --configs`` measured, and
``gemm_shallow_batched.py``.

    cd benchmarks/data; python ../gemm_shallow_fit.py gemm_shallow.csv gemm_shallow_batched.csv [--keep 0.2] [--write]

Column "gemm" is the product without this kernel.  It needs SciPy, and no GPU.  Out: the fitted ``Costs``, the error of
the model, and what the choice takes over the best of what was measured, on products kept back from the fit.
"""

import argparse
import csv
import dataclasses
import random
from functools import partial
from pathlib import Path

import moye as mo
from gemm_fitting import cost_by, fitted, told, write
from gemm_rows import KINDS, geometric_mean
from moye.kernels.gemm.dispatch import modelled
from moye.kernels.gemm.shallow import config as model
from moye.kernels.gemm.shallow.plan import size_of

MULTIPROCESSORS = 132
SHARED = 0.2
"""Of what a product's configurations have in common: others are compared with the time itself."""
FIELDS = [field.name for field in dataclasses.fields(model.ShallowConfig)]

estimate = partial(cost_by, model, MULTIPROCESSORS)


def described(line):
    """A, B and C of a line of the file."""
    dtype = getattr(mo, KINDS[line["kind"]].operands)
    M, N, K = (int(line[name]) for name in "MNK")
    if "batches" in line:
        batches, apart = int(line["batches"]), line["lying"] == "apart"
        of_B = 1 if line["shared"] == "True" else batches
        operands = (batched(dtype, shape, order, count, batches, apart) for shape, order, count in (
            ((M, K), line["orders"][0], batches), ((N, K), line["orders"][1], of_B), ((M, N), "K", batches)))
        return tuple(map(mo.describe, operands))
    operands = [mo.TensorLike(dtype, (rows, K), (K, 1) if order == "K" else (1, rows))
                for order, rows in zip(line["orders"], (M, N), strict=True)]
    return tuple(map(mo.describe, (*operands, mo.TensorLike(dtype, (M, N), (N, 1)))))


def batched(dtype, shape, order, count, batches, apart):
    """As many matrices as ``count``, one behind the other or beside each other in the lines; one is that of all."""
    lines, along = shape if order == "K" else shape[::-1]
    line, matrix = (along, lines * along) if apart else (along * count, along)
    strides = (line, 1) if order == "K" else (1, line)
    return mo.TensorLike(dtype, (*shape, batches), (*strides, matrix if count == batches else 0))


def read(paths):
    """{size: {configuration: microseconds}}, and {size: what the other kernels took over what their models tell}.

    The latter of single products, which were measured without this kernel.
    """
    found, others = {}, {}
    for line in (line for path in paths for line in csv.DictReader(Path(path).read_text().splitlines())):
        config, arrays = model.ShallowConfig(*(int(line[name]) for name in FIELDS)), described(line)
        size = size_of(*arrays)
        found.setdefault(size, {})[config] = float(line["us"])
        if size not in others and size.apart is None:
            others[size] = float(line["gemm"]) / min(modelled(*arrays, MULTIPROCESSORS, True).values())
    return found, others


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--keep", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="into shallow/config.py")
    options = parser.parse_args()
    products, others = read(options.files)
    kept = {size: times for size, times in products.items()
            if random.Random(f"{options.seed} {size}").random() < options.keep}
    fitting = {size: times for size, times in products.items() if size not in kept}
    samples = [(size, config, us) for size, times in fitting.items() for config, us in times.items()]
    told("before", products, estimate(model.COSTS))
    names = [f.name for f in dataclasses.fields(model.Costs) if f.name not in ("others", "odd")]
    wide = dict.fromkeys(names, 20.0) | {"launch": 1.4, "bandwidth": 1.6}
    costs = fitted(samples, model.COSTS, wide, lambda sample, costs: estimate(costs)(*sample[:2]), SHARED)
    for name, whole in (("others", True), ("odd", False)):
        ratios = [ratio for size, ratio in others.items() if (size.A.whole and size.B.whole) == whole]
        costs = dataclasses.replace(costs, **{name: geometric_mean(ratios)})
    print(costs)
    told("fitted", fitting, estimate(costs))
    if kept:
        told("kept back", kept, estimate(costs))
    if options.write:
        write(costs, model)


if __name__ == "__main__":
    main()
