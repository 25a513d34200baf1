"""Fit the trees of ``moye.kernels.gemm.simt.choice`` to what ``gemm_simt_measure.py`` measured: where the model is off.

    cd benchmarks/data                                                                      # needs scikit-learn
    python ../gemm_simt_choice_fit.py gemm_simt.csv.gz gemm_simt_copied.csv.gz gemm_simt_drawn.csv.gz [--write]

In and out as of ``gemm_choice_fit.py``.  After ``gemm_simt_fit.py`` has changed the costs, the trees must be fitted
again: they correct these costs.
"""

import argparse

import numpy as np

from gemm_choice_fit import Sample, judge
from gemm_simt_fit import MULTIPROCESSORS, read
from gemm_simt_model import problem_of
from moye.kernels.gemm.simt import choice
from moye.kernels.gemm.simt.config import COSTS


def samples(files):
    """Products of which two ways and more were measured."""
    found = []
    for row, times in read(files).items():
        problem, ours = problem_of(row), {way: us for way, us in times.items() if way is not None}
        if len(ours) > 1 and choice.measured(problem):
            rows = [choice.features(way, problem, way.estimate(problem, MULTIPROCESSORS), MULTIPROCESSORS)
                    for way in ours]
            found.append(Sample((problem.M, problem.N, problem.K), np.array(rows, np.float32),
                                np.array(list(ours.values())), times[None]))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--write", action="store_true", help="simt/choice.npz")
    options = parser.parse_args()
    judge(samples(options.files), options.write, choice.FITTED, COSTS)


if __name__ == "__main__":
    main()
