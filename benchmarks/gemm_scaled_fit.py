"""Fit what tiles with factors of blocks reach, ``SCALED`` of ``moye.kernels.gemm.sm90.config``, to measured products.

    cd benchmarks/data; python ../gemm_scaled_fit.py gemm_scaled.csv

In: lines of ``gemm_scaled.py --draw``: M, N, K, rows and columns of a tile, when it adds up, microseconds.  Each tile's
share is the one of those in steps of 0.02 with the least squares of logarithms.  Out: the table; what the choice takes
over the best tile, of all products, and of each fifth of them by shares fitted to the other four.  It needs no GPU.
"""

import csv
import functools
import math
import statistics
import sys
from collections import defaultdict

import moye as mo
from moye.kernels import WarpgroupConfig
from moye.kernels.gemm.sm90 import config as model

SHARES = [step / 50 for step in range(15, 80)]
MULTIPROCESSORS, PARTS = 132, 5


def read(paths):
    """{(M, N, K): {tile: microseconds}}"""
    found = defaultdict(dict)
    for path in paths:
        with open(path, newline="") as file:
            for M, N, K, bM, bN, promotion, us in csv.reader(file):
                groups = next(groups for rows, groups in model.SCALED if rows == int(bM))
                deep = model.deepest(int(bM), int(bN), groups, scaled=True)
                tile = WarpgroupConfig(int(bM), int(bN), 128, deep, groups=groups, promotion=promotion,
                                       raster=16 if int(bN) > int(bM) else 8)
                found[int(M), int(N), int(K)][tile] = float(us)
    return found


def estimate(extents, tile, share):
    """Microseconds by the model if the tile reaches this share."""
    widths = model.SCALED[tile.bM, tile.groups]
    before, widths[tile.bN] = widths.get(tile.bN), share
    problem = model.Problem(*extents, 1, mo.float8_e4m3fn, promote=True, scaled=True)
    found = model.estimate(tile, problem, MULTIPROCESSORS)
    widths[tile.bN] = before
    return found


def fitted(rows):
    """{tile: share}"""
    def error(tile, share):
        return sum(math.log(estimate(extents, tile, share) / times[tile]) ** 2
                   for extents, times in rows.items() if tile in times)

    tiles = {tile for times in rows.values() for tile in times}
    return {tile: min(SHARES, key=functools.partial(error, tile)) for tile in tiles}


def regrets(rows, shares):
    """What the choice takes over the best, of each product."""
    found = []
    for extents, times in rows.items():
        chosen = min((tile for tile in times if tile in shares), key=lambda tile: estimate(extents, tile, shares[tile]))
        found.append(times[chosen] / min(times.values()) - 1)
    return found


def told(regrets):
    return f"mean {statistics.mean(regrets):.1%}, most {max(regrets):.1%}"


def main():
    rows = read(sys.argv[1:])
    shares = fitted(rows)
    for (bM, groups), _ in model.SCALED.items():
        mine = sorted((tile.bN, tile.promotion, share) for tile, share in shares.items() if tile.bM == bM)
        print((bM, groups), ", ".join(f"{bN}: {share:g} ({promotion})" for bN, promotion, share in mine))
    print(f"{len(rows)} products, the choice over the best: {told(regrets(rows, shares))}")
    kept = []
    for part in range(PARTS):
        apart = {extents: times for i, (extents, times) in enumerate(rows.items()) if i % PARTS == part}
        rest = {extents: times for extents, times in rows.items() if extents not in apart}
        kept += regrets(apart, fitted(rest))
    print(f"of products that were kept back: {told(kept)}")


if __name__ == "__main__":
    main()
