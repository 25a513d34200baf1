"""Batches of products of few k: ``gemm_shallow`` in all its configurations, as ``gemm`` takes them, and ``torch.bmm``.

    for i in 0 1 2 3; do python benchmarks/gemm_shallow_batched.py $i 4 5 6 7 8 [--out FILE_$i] & done

Part i of 4 of the calls that ``batched_random.py`` draws with seeds 5 to 8, those with few k.  Random-normal numbers,
interleaved, L2 flushed, medians in microseconds; results are compared with torch's.  The parts compile beside each
other and take turns on the GPU.  A line of the file for each configuration, for ``gemm_shallow_fit.py``.
"""

import argparse
import csv
import math
from dataclasses import astuple, fields
from functools import partial

import gemm_measure
import moye as mo
from batched_random import CLOSE, Drawn, draw, runs_of
from moye.kernels.gemm.shallow import config as model
from moye.kernels.gemm.shallow.kernel import gemm_shallow
from moye.kernels.gemm.shallow.plan import size_of, suits
from moye.testing import interleave

MULTIPROCESSORS, COUNT, ROUNDS = 132, 60, 15
CASE = [field.name for field in fields(Drawn)]
FIELDS = [field.name for field in fields(model.ShallowConfig)]
HEAD = [*CASE, *FIELDS, "us", "gemm", "bmm"]


def works(one):
    """What is measured of a call, by name or configuration, its size and the results; None for more k."""
    if one.K * (4 if one.kind == "tf32" else 2) > model.MOST:
        return None
    runs, C, D, (a, b, c) = runs_of(one)
    described = tuple(map(mo.describe, (a, b, c)))
    if not suits(*described):
        return None
    size = size_of(*described)
    found = {config: partial(gemm_shallow, a, b, c, config=config) for config in model.options(size)}
    return {"bmm": runs["bmm"], "gemm": runs["moye"], **found}, size, C, D


def wrong(runs, C, D):
    """What is off torch's result, on poisoned memory."""
    runs["bmm"]()
    found = []
    for name, run in runs.items():
        if name != "bmm":
            C.fill_(math.nan)
            run()
            if not float((C.float() - D.float()).norm()) <= CLOSE * float(D.float().norm()):
                found.append(name)
    return found


def measured(one, runs, size, C, D):
    """Lines of a call."""
    bad = wrong(runs, C, D)
    us = {name: 1e3 * ms for name, ms in interleave(runs, ROUNDS).items()}
    shallow = {name: x for name, x in us.items() if not isinstance(name, str)}
    rule, best = model.choose(size, MULTIPROCESSORS), min(shallow, key=shallow.get)
    print(f"{us['bmm'] / us['gemm']:.2f} {one}: bmm {us['bmm']:.1f} gemm {us['gemm']:.1f} shallow {shallow[rule]:.1f} "
          f"best {shallow[best]:.1f}", *astuple(best), f"WRONG {bad}" if bad else "", flush=True)
    return [[*astuple(one), *astuple(config), *(f"{x:.2f}" for x in (time, us["gemm"], us["bmm"]))]
            for config, time in shallow.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("part", type=int)
    parser.add_argument("parts", type=int)
    parser.add_argument("seeds", type=int, nargs="+")
    parser.add_argument("--out")
    options = parser.parse_args()
    calls = [one for seed in options.seeds for one in draw(seed, COUNT)][options.part::options.parts]
    with gemm_measure.preparing():
        for one in calls:
            if found := works(one):
                wrong(found[0], *found[2:])
    with gemm_measure.turn():
        lines = [line for one in calls if (found := works(one)) for line in measured(one, *found)]
    if options.out:
        with open(options.out, "w", newline="") as file:
            csv.writer(file).writerows([HEAD, *lines])


if __name__ == "__main__":
    main()
