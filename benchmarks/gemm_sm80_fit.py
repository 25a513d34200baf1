"""Fit the costs of ``moye.kernels.gemm.sm80.config`` to what ``gemm_unaligned.py`` measured.

    cd benchmarks/data                                                                       # needs SciPy; no GPU
    python ../gemm_sm80_fit.py gemm_sm80.csv.gz gemm_few.csv.gz gemm_tf32_h100.csv.gz gemm_rows.csv.gz \
        gemm_words.csv.gz [--keep 0.2] [--write]

In: CSVs of products, each by both kernels; of an H100, whose memory is slower, if their names say so.  Out: the fitted
``Costs``, what copies of operands cost ``gemm_sm90``, the error of the models, and what choosing a way by both takes
over the best of what was measured, on products kept back from the fit.  Times of ``DISTURBED`` times what a first fit
says are none of the kernel's and do not count: others loaded modules meanwhile.
"""

import argparse
import csv
import dataclasses
import gzip
import math
import random
import re
import statistics

from gemm_fitting import EARLIER_COPY, EARLIER_SUM, fitted, write
from gemm_model import DTYPES, config_of, problem_of
from gemm_rows import KINDS, RESULT_BYTES, Row, geometric_mean
from gemm_unaligned import modelled, stored, ways_of
from moye.kernels.gemm.sm80 import config as sm80
from moye.kernels.gemm.sm90 import config as sm90

MULTIPROCESSORS, DISTURBED = 132, 1.8
UNSEEN = "store_element"
"""What no measured product has: C that lies along no mode."""
NAMED = re.compile(r"(\d+)x(\d+)x(\d+) (\d)x(\d) b(\d) s(\d+)")


def read(paths):
    """{row: {option of gemm_sm80, or configuration of gemm_sm90: microseconds}}; those of the peers by their names.

    Products of which no such option is known any more are left out.
    """
    found = {}
    for path in paths:
        card = "H100" if "h100" in path else ""
        with gzip.open(path, "rt", newline="") as file:
            for line in csv.DictReader(file):
                row = Row(card, line["kind"], *(int(line[name]) for name in "MNK"), line["orders"])
                if chosen := line["way"] if line["way"] in ("cuBLAS", "rule") else \
                        config_of(line) or option_of(row, line["way"]):
                    found.setdefault(row, {})[chosen] = float(line["us"]) - earlier(row, chosen)
    return {row: times for row, times in found.items() if any(not isinstance(key, str) for key in times)}


def earlier(row, chosen):
    """Microseconds that the way would take less today."""
    if isinstance(chosen, tuple):
        return EARLIER_SUM if chosen[1] > 1 else 0.0
    return EARLIER_COPY if not isinstance(chosen, str) and problem_of(row).copies else 0.0


def option_of(row, way):
    """A configuration of today and the number of splits, of what is called like that; None for one that is no more."""
    *numbers, splits = map(int, NAMED.fullmatch(way).groups())
    found = dict(sm80.options(row.K, DTYPES[row.kind], 90, shifted=sm80.shifts(ways_of(row))))
    return next(((config, splits) for config in found if [config.bM, config.bN, config.bK, config.wM, config.wN,
                                                          config.blocks] == numbers), None)


def cost(row, option, costs):
    costs = dataclasses.replace(costs, bandwidth=costs.bandwidth * memory_of(row))
    return sm80.modelled(*option, row.M, row.N, row.K, 1, KINDS[row.kind].bytes, MULTIPROCESSORS, ways_of(row),
                         stored(row), RESULT_BYTES[KINDS[row.kind].result], costs)


def memory_of(row):
    """The share of an H200's memory bandwidth that the card has on which a product was measured."""
    return 0.7 if row.set == "H100" else 1.0


def warpgroups(row, config, costs=sm90.COSTS):
    """What ``gemm_sm90`` should take."""
    costs = dataclasses.replace(costs, dram=costs.dram * memory_of(row))
    return sm90.estimate(config, problem_of(row), MULTIPROCESSORS, costs)


def fit(samples):
    """The costs of ``gemm_sm80``.  None of the error is shared: another kernel is to be compared with it."""
    return fitted(samples, sm80.COSTS, {f.name: 6.0 for f in dataclasses.fields(sm80.COSTS) if f.name != UNSEEN},
                  lambda sample, costs: cost(sample[0], sample[1], costs), shared=0.0)


def copies(products):
    """The costs of ``gemm_sm90``, those of copies and of C stored by rows fitted: of what its model finds best."""
    samples = []
    for row, times in products.items():
        problem = problem_of(row)
        ours = [key for key in times if not isinstance(key, (str, tuple))]
        if (problem.copies or problem.plain) and ours:
            chosen = min(ours, key=lambda key, of=row: warpgroups(of, key))
            samples.append((row, chosen, times[chosen]))
    return fitted(samples, sm90.COSTS, {"copy": 3.0, "copied": 3.0, "by_rows": 3.0},
                  lambda sample, costs: warpgroups(sample[0], sample[1], costs), shared=0.0)


def told(name, products, costs, other=sm90.COSTS):
    """What the way that both models find sooner takes, over the best; and the rule of then, and cuBLAS."""
    regrets, ratios = [], []
    for row, times in products.items():
        ours = {key: us for key, us in times.items() if not isinstance(key, str)}
        known = modelled(row, MULTIPROCESSORS, costs)
        expected = {key: (cost(row, key, costs) if key in known else math.inf) if isinstance(key, tuple) else
                    warpgroups(row, key, other) for key in ours}
        chosen = min(ours, key=expected.get)
        regrets.append(ours[chosen] / min(ours.values()))
        ratios.append(times["cuBLAS"] / ours[chosen])
    over, mean = geometric_mean(regrets) - 1, geometric_mean(ratios)
    print(f"{name}: {len(regrets)} products; over the best by {over:.3f}, to cuBLAS {mean:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--keep", type=float, default=0.2)
    parser.add_argument("--write", action="store_true", help="into sm80/config.py, and sm90's")
    options = parser.parse_args()
    products = read(options.files)
    kept = {row: times for row, times in products.items() if random.Random(str(row)).random() < options.keep}
    fitting = {row: times for row, times in products.items() if row not in kept}
    samples = [(row, key, us) for row, times in fitting.items() for key, us in times.items() if isinstance(key, tuple)]
    told("before", products, sm80.COSTS)
    costs = fit(samples)
    for row, times in products.items():
        expected = {key: cost(row, key, costs) if isinstance(key, tuple) else warpgroups(row, key)
                    for key in times if not isinstance(key, str)}
        for key, us in expected.items():
            if times[key] > max(DISTURBED * us, DISTURBED * min(times.values())):
                print(f"left out: {row.label}, {times.pop(key):.1f} us, by the model {us:.1f}")
    samples = [(row, key, us) for row, key, us in samples if key in products[row]]
    costs = fit(samples)
    print(*(f"    {f.name}: float = {getattr(costs, f.name):.4g}" for f in dataclasses.fields(costs)), sep="\n")
    off = [abs(math.log(cost(row, key, costs) / us)) for row, key, us in samples]
    print(f"error of the model: median {statistics.median(off):.3f}, of {len(off)} rows")
    other = copies(fitting)
    print(f"a copy takes {other.copy:.3g} us, and one for {other.copied:.3g} bytes; an element stored by rows "
          f"{other.by_rows:.3g} us")
    told("fitted", fitting, costs, other)
    if kept:
        told("kept back", kept, costs, other)
    for kind in dict.fromkeys(row.kind for row in products):
        told(kind, {row: times for row, times in products.items() if row.kind == kind}, costs, other)
    if options.write:
        write(costs, sm80)
        write(other, sm90)


if __name__ == "__main__":
    main()
