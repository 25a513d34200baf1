"""Fit the costs of ``moye.kernels.gemm.streamed.config`` to what ``gemm_streamed.py --configs`` measured.

    python benchmarks/gemm_streamed_fit.py benchmarks/data/gemm_streamed.csv [--keep 0.2] [--write]

It needs SciPy, and no GPU.  Out: the fitted ``Costs``, the error of the model, and what the choice takes over the best
of what was measured, on products kept back from the fit.
"""

import argparse
import csv
import dataclasses
import random

from gemm_fitting import fitted, write
from gemm_rows import geometric_mean
from moye.kernels.gemm.streamed import config as model

MULTIPROCESSORS = 132
SHARED = 0.2
"""Of what a product's configurations have in common: others are compared with the time itself."""


def read(path):
    """{(rows, few, K, single): {configuration: microseconds}}."""
    found = {}
    with open(path, newline="") as file:
        for line in csv.DictReader(file):
            M, N, K = (int(line[name]) for name in "MNK")
            problem = max(M, N), min(M, N), K, line["orders"][N < M] != "K"
            config = model.StreamConfig(*(int(line[name]) for name in ("along", "deep", "splits")))
            found.setdefault(problem, {})[config] = float(line["streamed"])
    return found


def cost(problem, config, costs):
    rows, few, K, single = problem
    return model.modelled(config, rows, few, K, MULTIPROCESSORS, single, costs)


def told(name, products, costs):
    """What the model's choice takes over the best, and how far its times are off."""
    regrets, off = [], []
    for problem, times in products.items():
        chosen = min(times, key=lambda config, of=problem: cost(of, config, costs))
        regrets.append(times[chosen] / min(times.values()))
        off.append(max(r := cost(problem, chosen, costs) / times[chosen], 1 / r))
    print(f"{name}: {len(regrets)} products; over the best by {geometric_mean(regrets) - 1:.3f}, at most by "
          f"{max(regrets) - 1:.2f}; times off by {geometric_mean(off) - 1:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file")
    parser.add_argument("--keep", type=float, default=0.2)
    parser.add_argument("--write", action="store_true", help="into streamed/config.py")
    options = parser.parse_args()
    products = read(options.file)
    kept = {row: times for row, times in products.items() if random.Random(str(row)).random() < options.keep}
    fitting = {row: times for row, times in products.items() if row not in kept}
    samples = [(row, config, us) for row, times in fitting.items() for config, us in times.items()]
    told("before", products, model.COSTS)
    wide = {f.name: 6.0 for f in dataclasses.fields(model.COSTS)}
    costs = fitted(samples, model.COSTS, wide, lambda sample, costs: cost(sample[0], sample[1], costs), SHARED)
    print(costs)
    told("fitted", fitting, costs)
    told("kept back", kept, costs)
    if options.write:
        write(costs, model)


if __name__ == "__main__":
    main()
