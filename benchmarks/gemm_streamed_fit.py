"""Fit the costs of ``moye.kernels.gemm.streamed.config`` to what ``gemm_streamed.py --configs`` measured.

    python benchmarks/gemm_streamed_fit.py benchmarks/data/gemm_streamed.csv [--keep 0.2] [--write]

It needs SciPy, and no GPU.  Out: the fitted ``Costs``, the error of the model, and what the choice takes over the best
of what was measured, on products kept back from the fit.
"""

import argparse
import csv
import dataclasses
import random
from functools import partial

from gemm_fitting import EARLIER_SUM, cost_by, fitted, told, write
from moye.kernels.gemm.streamed import config as model

MULTIPROCESSORS = 132
SHARED = 0.2
"""Of what a product's configurations have in common: others are compared with the time itself."""

estimate = partial(cost_by, model, MULTIPROCESSORS)


def read(path):
    """{size: {configuration: microseconds}}."""
    found = {}
    with open(path, newline="") as file:
        for line in csv.DictReader(file):
            size = model.Size(int(line["rows"]), int(line["few"]), int(line["K"]), line["turned"] == "True",
                              line["single"] == "True")
            numbers = [int(line[name]) for name in ("along", "deep", "splits")]
            config = model.TurnedConfig(numbers[-1]) if size.turned else model.StreamConfig(*numbers)
            earlier = EARLIER_SUM if config.splits > 1 and not size.turned else 0.0
            found.setdefault(size, {})[config] = float(line["streamed"]) - earlier
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file")
    parser.add_argument("--keep", type=float, default=0.2)
    parser.add_argument("--write", action="store_true", help="into streamed/config.py")
    options = parser.parse_args()
    products = read(options.file)
    for turned, costs in ((False, model.COSTS), (True, model.TURNED_COSTS)):
        print("contiguous along its rows" if turned else "contiguous along K")
        fitted_costs = fit({size: times for size, times in products.items() if size.turned == turned}, costs,
                           options.keep)
        if options.write:
            write(fitted_costs, model)


def fit(products, costs, keep):
    """The fitted costs, and what they are worth, told."""
    kept = {size: times for size, times in products.items() if random.Random(str(size)).random() < keep}
    fitting = {size: times for size, times in products.items() if size not in kept}
    samples = [(size, config, us) for size, times in fitting.items() for config, us in times.items()]
    told("before", products, estimate(costs))
    wide = {f.name: 6.0 for f in dataclasses.fields(costs)} | {"bandwidth": 1.1, "sharp": 2.0}     # as copies have it
    found = fitted(samples, costs, wide, lambda sample, costs: estimate(costs)(*sample[:2]), SHARED)
    print(found)
    told("fitted", fitting, estimate(found))
    told("kept back", kept, estimate(found))
    return found


if __name__ == "__main__":
    main()
