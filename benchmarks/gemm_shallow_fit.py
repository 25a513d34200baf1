"""Fit the costs of ``moye.kernels.gemm.shallow.config`` to what ``gemm_shallow.py --configs`` measured.

    python benchmarks/gemm_shallow_fit.py benchmarks/data/gemm_shallow.csv [--keep 0.2] [--seed 0] [--write]

Column "gemm" is the product without this kernel.  It needs SciPy, and no GPU.  Out: the fitted ``Costs``, the error of
the model, and what the choice takes over the best of what was measured, on products kept back from the fit.
"""

import argparse
import csv
import dataclasses
import random
from functools import partial

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
    operands = [mo.TensorLike(dtype, (rows, K), (K, 1) if order == "K" else (1, rows))
                for order, rows in zip(line["orders"], (M, N), strict=True)]
    return tuple(map(mo.describe, (*operands, mo.TensorLike(dtype, (M, N), (N, 1)))))


def read(path):
    """{size: {configuration: microseconds}}, and {size: what the other kernels took over what their models tell}."""
    found, others = {}, {}
    with open(path, newline="") as file:
        for line in csv.DictReader(file):
            config, arrays = model.ShallowConfig(*(int(line[name]) for name in FIELDS)), described(line)
            size = size_of(*arrays)
            found.setdefault(size, {})[config] = float(line["us"])
            if size not in others:
                others[size] = float(line["gemm"]) / min(modelled(*arrays, MULTIPROCESSORS, True).values())
    return found, others


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file")
    parser.add_argument("--keep", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="into shallow/config.py")
    options = parser.parse_args()
    products, others = read(options.file)
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
