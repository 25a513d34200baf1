"""Fit the costs of ``moye.kernels.gemm.sm90.config`` to what ``gemm_measure.py`` measured.

    cd benchmarks/data; python ../gemm_fit.py gemm_sm90.csv.gz [--seed 0] [--write]     # SciPy

In: CSVs of measured products and configurations.  Out: the fitted ``Costs``, the error of the model, and the regret of
its choice: the time of what it chooses, among what was measured, over the best, on products kept back from the fit.
"""

import argparse
import dataclasses
import math
import random
import statistics

from gemm_fitting import fitted, write
from gemm_model import read, short
from moye.kernels.gemm.sm90 import config as model

MULTIPROCESSORS, DISTURBED = 132, 1.8
FIXED = {"flops", "copy", "copied", "by_rows", "single", "single_turned"}
"""Known, or not of products that tensor maps describe."""
SHARED = 0.5
"""Of what a product's configurations have in common: ``gemm`` compares these times with those of other kernels."""
LONG = 8.0
"""Microseconds from which on chance is a small part: sooner ones are measured 0.8 more, or not, one time of eight."""
SHARP = {"sharp", "sharp_dram", "sharp_loads", "sharp_one"}


def fit(samples, start):
    """The costs that fit (problem, configuration, microseconds) best."""
    wide = {f.name: 2.0 if f.name in SHARP else 3.0 for f in dataclasses.fields(start) if f.name not in FIXED}
    return fitted(samples, start, wide, lambda sample, costs: model.estimate(sample[1], sample[0], MULTIPROCESSORS,
                                                                             costs), SHARED, surer=1.0)


def alike(config):
    """What is compared: not the order of tiles, nor what leaves L2 first, which the tiles of few rows have alike."""
    return dataclasses.replace(config, raster=1, stream="")


def today(products):
    """Without configurations that the rule does not have today, and times during which something else ran."""
    found = {}
    for (problem, order), times in products.items():
        known, least = {alike(config) for config in model.candidates(problem)}, min(times.values())
        found[problem, order] = {config: us for config, us in times.items() if config is None or (
            alike(config) in known and us < DISTURBED * max(least, model.estimate(config, problem, MULTIPROCESSORS)))}
    return found


def kept_back(problem, options):
    """Whether all products of these extents are kept back from the fit, whatever their operands' orders."""
    return random.Random(f"{problem.M}x{problem.N}x{problem.K} {options.seed}").random() < options.keep


def regrets(products, costs):
    """For each product: time of the choice over the best one's, cuBLAS's time over that of the choice."""
    found = []
    for (problem, order), times in products.items():
        ours = {config: us for config, us in times.items() if config is not None}
        if ours:
            chosen = min(ours, key=lambda config: model.estimate(config, problem, MULTIPROCESSORS, costs))
            best = min(ours, key=ours.get)
            found.append((ours[chosen] / ours[best], times[None] / ours[chosen], problem, order, chosen, best,
                          ours[chosen], ours[best], times[None]))
    return found


def told(name, found):
    regret = sorted(x[0] for x in found)
    ratios = sorted(x[1] for x in found)
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    low, lower = (sum(x < bound for x in ratios) / len(ratios) for bound in (0.97, 0.9))
    print(f"{name}: {len(found)} products; regret mean {statistics.fmean(regret) - 1:.3f}, 95 % below "
          f"{regret[int(0.95 * len(regret))] - 1:.3f}; to cuBLAS {mean:.3f}, below 0.97 {low:.2f}, 0.90 "
          f"{lower:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--keep", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=0, help="of which products are kept back")
    parser.add_argument("--write", action="store_true", help="into sm90/config.py")
    parser.add_argument("--worst", type=int, default=12)
    options = parser.parse_args()
    products = today(read(options.files))
    kept = {key: times for key, times in products.items() if kept_back(key[0], options)}
    samples = [(problem, config, us) for (problem, order), times in products.items() if (problem, order) not in kept
               for config, us in times.items() if config is not None and us < 4 * min(times.values())]
    told("before", regrets(products, model.COSTS))
    costs = fit(samples, model.COSTS)
    print(*(f"    {f.name}: float = {getattr(costs, f.name):.4g}" for f in dataclasses.fields(costs)), sep="\n")
    if options.write:
        write(costs, model)
    off = [abs(math.log(model.estimate(c, p, MULTIPROCESSORS, costs) / us)) for p, c, us in samples]
    print(f"error of the model: median {statistics.median(off):.3f}, of {len(off)} rows")
    told("fitted", regrets({k: v for k, v in products.items() if k not in kept}, costs))
    if kept:
        found = regrets(kept, costs)
        told("kept back", found)
        told(f"kept back, of {LONG:g} us and more", [x for x in found if x[7] >= LONG])
    for regret, ratio, p, order, chosen, best, us, least, cublas in \
            sorted(regrets(products, costs), key=lambda x: -x[0])[:options.worst]:
        print(f"{regret:.2f} {ratio:.2f} {p.M}x{p.N}x{p.K} {order}: {short(chosen)} {us:.1f} of "
              f"{model.estimate(chosen, p, 132, costs):.1f}; best {short(best)} {least:.1f} of "
              f"{model.estimate(best, p, 132, costs):.1f}; cuBLAS {cublas:.1f}")


if __name__ == "__main__":
    main()
