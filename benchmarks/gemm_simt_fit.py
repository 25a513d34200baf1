"""Fit the costs of ``moye.kernels.gemm.simt.config`` to what ``gemm_simt_measure.py`` measured.

    cd benchmarks/data; python ../gemm_simt_fit.py gemm_simt.csv.gz gemm_simt_copied.csv.gz [--keep 0.2] [--write]

After it has changed the costs, ``gemm_simt_choice_fit.py`` must be run again: its trees correct these costs.

It needs SciPy, and no GPU.  In: CSVs of measured products and configurations.  Out: the fitted ``Costs``, the error of
the model, and the regret of its choice: the time of what it chooses, among what was measured, over the best, on
products kept back from the fit.
"""

import argparse
import csv
import dataclasses
import gzip
import math
import random
import statistics

from gemm_fitting import fitted, write
from gemm_rows import Row
from gemm_simt_model import COPIES, FIELDS, problem_of, short
from moye.kernels.gemm.simt import config as model
from moye.kernels.gemm.simt.choice import Way

MULTIPROCESSORS, TIMES = 132, 4


def read(paths):
    """{row: {way: microseconds}}, and cuBLAS's under None; configurations that are no more are left out."""
    found = {}
    for path in paths:
        with gzip.open(path, "rt", newline="") as file:
            for row in csv.DictReader(file):
                if row["M"] == "M":             # files may be put one behind the other
                    continue
                M, N, K = (int(row[name]) for name in "MNK")
                chosen = None
                if row["bM"]:
                    copied = tuple(bool(int(row.get(name, 0))) for name in COPIES)
                    config = model.TileConfig(**{name: int(row[name]) for name in FIELDS})
                    chosen = Way(config, int(row["parts"]), copied)
                product = Row("", "f32", M, N, K, row["orders"])
                if chosen is None or (chosen.config in model.FLOAT and not uneven(product, chosen)):
                    found.setdefault(product, {})[chosen] = float(row["us"])
    return {row: times for row, times in found.items() if len(times) > 1}


def uneven(row, way):
    """Whether blocks began while operands were copied, and shared the multiprocessors unevenly: today they do not."""
    config, problem = way.config, problem_of(row)
    blocks = -(-problem.M // config.bM) * -(-problem.N // config.bN) * way.parts
    return any(way.copied) and -(-blocks // MULTIPROCESSORS) < config.blocks


def fit(samples, start):
    """The costs that fit (problem, way, microseconds) best; ways that copy are few, and count several times."""
    room = {"sharp": 2.0, "one": 50.0}
    wide = {f.name: room.get(f.name.partition("_")[0], 4.0) for f in dataclasses.fields(start)}
    mixed = {problem for problem, way, _ in samples if any(way.copied)}
    return fitted([sample for sample in samples for _ in range(TIMES if sample[0] in mixed else 1)], start, wide,
                  lambda sample, costs: sample[1].estimate(sample[0], MULTIPROCESSORS, costs))


def regrets(products, costs):
    """For each product: time of the choice over the best one's, cuBLAS's time over that of the choice."""
    found = []
    for row, times in products.items():
        ours = {key: us for key, us in times.items() if key is not None}
        chosen = min(ours, key=lambda way: way.estimate(problem_of(row), MULTIPROCESSORS, costs))
        best = min(ours, key=ours.get)
        us, least, cublas = ours[chosen], ours[best], times[None]
        found.append((us / least, cublas / us, cublas / least, row, chosen, best, us, least, cublas))
    return found


def told(name, found):
    regret = sorted(x[0] for x in found)
    ratios = sorted(x[1] for x in found)
    mean, best = (math.exp(statistics.fmean(math.log(x[i]) for x in found)) for i in (1, 2))
    low = sum(x < 0.9 for x in ratios)
    print(f"{name}: {len(found)} products; regret mean {statistics.fmean(regret) - 1:.3f}, 95 % below "
          f"{regret[int(0.95 * len(regret))] - 1:.3f}; to cuBLAS {mean:.3f}, {low} below 0.90, least {ratios[0]:.2f}; "
          f"the best of all {best:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--keep", type=float, default=0.2)
    parser.add_argument("--write", action="store_true", help="into simt/config.py")
    parser.add_argument("--worst", type=int, default=12)
    options = parser.parse_args()
    products = read(options.files)
    kept = {row: times for row, times in products.items() if random.Random(str(row)).random() < options.keep}
    samples = [(problem_of(row), key, us) for row, times in products.items() if row not in kept
               for key, us in times.items() if key is not None and us < 4 * min(times.values())]
    told("before", regrets(products, model.COSTS))
    costs = fit(samples, model.COSTS)
    print(*(f"    {f.name}: float = {getattr(costs, f.name):.4g}" for f in dataclasses.fields(costs)), sep="\n")
    if options.write:
        write(costs, model)
    off = [abs(math.log(way.estimate(problem, MULTIPROCESSORS, costs) / us)) for problem, way, us in samples]
    print(f"error of the model: median {statistics.median(off):.3f}, of {len(off)} rows")
    told("fitted", regrets({row: times for row, times in products.items() if row not in kept}, costs))
    if kept:
        told("kept back", regrets(kept, costs))
    for orders in ("KK", "KM", "MK", "MM"):
        if some := {row: times for row, times in products.items() if row.orders == orders}:
            told(orders, regrets(some, costs))
    for regret, ratio, _, row, chosen, best, us, least, cublas in \
            sorted(regrets(products, costs), key=lambda x: -x[0])[:options.worst]:
        predicted = [way.estimate(problem_of(row), MULTIPROCESSORS, costs) for way in (chosen, best)]
        print(f"{regret:.2f} {ratio:.2f} {row.M}x{row.N}x{row.K} {row.orders}: {short(chosen)} {us:.1f} of "
              f"{predicted[0]:.1f}; best {short(best)} {least:.1f} of {predicted[1]:.1f}; cuBLAS {cublas:.1f}")


if __name__ == "__main__":
    main()
