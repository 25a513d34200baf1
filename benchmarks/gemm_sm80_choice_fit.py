"""Fit the trees of ``moye.kernels.gemm.sm80.choice`` to what ``gemm_unaligned.py`` measured: where the model is off.

    cd benchmarks/data                                                                      # needs scikit-learn
    python ../gemm_sm80_choice_fit.py gemm_sm80.csv.gz gemm_few.csv.gz gemm_rows.csv.gz gemm_words.csv.gz [--write]

In and out as of ``gemm_choice_fit.py``.  Times of ``DISTURBED`` times what the model says do not count: others loaded
modules meanwhile.  After ``gemm_sm80_fit.py`` has changed the costs, the trees must be fitted again.
"""

import argparse

import numpy as np

from gemm_choice_fit import Sample, judge
from gemm_rows import KINDS, RESULT_BYTES
from gemm_sm80_fit import DISTURBED, MULTIPROCESSORS, read
from gemm_unaligned import modelled, stored, ways_of
from moye.kernels.gemm.sm80 import choice
from moye.kernels.gemm.sm80.config import COSTS


def product_of(row):
    """The product as the trees see it."""
    kind = KINDS[row.kind]
    return choice.Product(row.M, row.N, row.K, 1, kind.bytes, ways_of(row), stored(row), RESULT_BYTES[kind.result])


def samples(files):
    """Products of which two options and more of today were measured."""
    found = []
    for row, times in read(files).items():
        product, known = product_of(row), modelled(row, MULTIPROCESSORS)
        ours = {key: us for key, us in times.items() if key in known}
        ours = {key: us for key, us in ours.items() if us <= DISTURBED * max(known[key], min(ours.values()))}
        if len(ours) > 1 and choice.measured(product, 90):
            rows = [choice.features(option, product, known[option], MULTIPROCESSORS) for option in ours]
            found.append(Sample((row.M, row.N, row.K), np.array(rows, np.float32), np.array(list(ours.values())),
                                times["cuBLAS"]))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--write", action="store_true", help="sm80/choice.npz")
    options = parser.parse_args()
    judge(samples(options.files), options.write, choice.FITTED, COSTS)


if __name__ == "__main__":
    main()
