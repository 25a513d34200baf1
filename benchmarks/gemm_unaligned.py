"""Products some of whose operands are copied first: every way to multiply them beside cuBLAS, on drawn shapes.

    python benchmarks/gemm_unaligned.py SEED COUNT [--kind bf16] [--only small] [--most 4] [--rounds 7] [--seconds 60]

Those are operands that tensor maps do not describe, and of tf32 all that are not contiguous along K; or with ``--only``
small products that they do describe, those of few k, large results of few k whose rows begin anywhere, or operands
whose lines begin anywhere.  The ways:
copied, and then ``gemm_sm90``; as they are, by ``gemm_sm80``, which shifts rows of 16 bits on their way to shared
memory; what ``gemm`` takes ("rule").  Of each way the configurations that its model finds best are measured,
interleaved, L2 flushed.  One line for each product, the distributions at the end, and a CSV line for each product and
configuration.  Several processes may run at a time: they compile beside each other, and take turns on the GPU.
"""

import argparse
import csv
import gzip
import math
import sys
import time
from pathlib import Path

import torch

from gemm import Problem
from gemm_draws import draw
from gemm_measure import HEAD, call, check, prepare, preparing, turn
from gemm_model import FIELDS, problem_of, short
from gemm_random_plot import distribution
from gemm_rows import KINDS, RESULT_BYTES
from moye.kernels.gemm.sm80 import config as sm80
from moye.kernels.gemm.sm90 import config as model
from moye.kernels.gemm.sm90.choice import choose
from moye.testing import interleave

SHALLOW = 256                                           # K up to which gemm_sm80 takes 16 bits one by one
WIDE = 1 << 23                                          # elements of a large result
SOME = 1 << 18                                          # and of one that is not small
LONG = 1 << 35                                          # multiplications of a long product
SMALL = 8.0                                             # microseconds that a small product takes gemm_sm90


def unaligned(row, multiprocessors):
    """Whether an operand is copied first, or tensor maps do not describe C."""
    return bool(problem_of(row).copies) or not row.tma


def small(row, multiprocessors):
    """Whether tensor maps describe a product that takes little more than its launch."""
    problem = problem_of(row)
    return not unaligned(row, multiprocessors) and \
        model.estimate(choose(problem, multiprocessors), problem, multiprocessors) < SMALL


def wide(row, multiprocessors):
    """Whether a product of few k has a large result, whose rows begin anywhere."""
    return row.K <= SHALLOW and row.M * row.N >= WIDE and stored(row) != "vector"


def few(row, multiprocessors):
    """Whether tensor maps describe a product of few k that has some result."""
    return row.tma and row.K <= SHALLOW and row.M * row.N >= SOME


def shifted(row, multiprocessors):
    """Whether lines of an operand begin anywhere, in a product that is neither short nor long."""
    return sm80.shifts(ways_of(row)) and row.M * row.N * row.K <= LONG and (row.M + row.N) * row.K >= SOME


CLASSES = {"unaligned": unaligned, "small": small, "wide": wide, "few": few, "shifted": shifted}


def drawn(wanted, seed, count, kind, multiprocessors):
    """So many of the drawn products of this class."""
    rows, tried = [], 4 * count
    while len(rows) < count:
        rows = [row for row in draw(seed, tried, kind) if wanted(row, multiprocessors)][:count]
        tried *= 2
    return rows


def ways(row, most, multiprocessors):
    """{way: configurations}, the best of its model first."""
    problem = problem_of(row)
    costs = {config: model.estimate(config, problem, multiprocessors) for config in model.candidates(problem)}
    ranked = sorted(costs, key=costs.get)
    others = modelled(row, multiprocessors)
    return {"copied": ranked[:most], "as they are": sorted(others, key=others.get)[:2 * most]}


def modelled(row, multiprocessors, costs=sm80.COSTS):
    """Microseconds of each option of ``gemm_sm80`` by its model; none where 16 bits would be copied for long."""
    size, ways = KINDS[row.kind].bytes, ways_of(row)
    if size == 2 and any(way.startswith("element") for way in ways) and row.K > SHALLOW:
        return {}
    options = sm80.options(row.K, problem_of(row).dtype, 90, shifted=sm80.shifts(ways))
    return {option: sm80.modelled(*option, row.M, row.N, row.K, 1, size, multiprocessors, ways, stored(row),
                                   RESULT_BYTES[KINDS[row.kind].result], costs)
            for option in options}


def ways_of(row):
    """How ``gemm_sm80`` copies each operand: "k" and "mn" 16 bytes at a time, "shift" and "shift_mn" the same of lines
    that begin anywhere, "element" and "element_mn" one by one."""
    quad = 16 // KINDS[row.kind].bytes
    found = []
    for order, rows in zip(row.orders, (row.M, row.N), strict=True):
        if (row.K if order == "K" else rows) % quad == 0:
            found.append("k" if order == "K" else "mn")
        else:
            way = "element" if (row.K if order == "K" else rows) < quad else "shift"
            found.append(way if order == "K" else f"{way}_mn")
    return tuple(found)


def stored(row):
    """How ``gemm_sm80`` stores C."""
    if row.N % (16 // RESULT_BYTES[KINDS[row.kind].result]) == 0:
        return "vector"
    return "rows" if row.N % 2 else "pairs"


def configs_of(found):
    """All of a product's, each once."""
    return list(dict.fromkeys(config for configs in found.values() for config in configs))


def told(row, found, times):
    """A line: microseconds of cuBLAS, and of the best of each way with its configuration."""
    parts = [f"{row.M:5} {row.N:5} {row.K:6} {row.orders} cuBLAS {1e3 * times['cuBLAS']:8.1f}"]
    for way, configs in found.items():
        timed = [config for config in configs if config in times]
        best = min(timed, key=times.get, default=None)
        parts.append(f"{way} " + ("     -" if best is None else f"{1e3 * times[best]:8.1f} {named(best)}"))
    return " | ".join([*parts, f"rule {1e3 * times['rule']:8.1f}"])


def named(config):
    """A configuration in a few characters."""
    if not isinstance(config, tuple):
        return short(config)
    tile, splits = config
    return f"{tile.bM}x{tile.bN}x{tile.bK} {tile.wM}x{tile.wN} b{tile.blocks} s{splits}"


def measured(rows, found, ready, options, writer):
    """The times of each product, told and written, while there is time."""
    start, results = time.perf_counter(), []
    for row in rows:
        if time.perf_counter() - start > options.seconds:
            break
        problem = Problem(row)
        works = {config: call(problem, config) for config in configs_of(found[row]) if (row, config) in ready}
        peers = {"cuBLAS": problem.works()["cuBLAS"], "rule": problem.moye}
        times = interleave({**peers, **works}, options.rounds, warmup=1)
        wrong = check(problem, works)
        for config, ms in times.items():
            values = [getattr(config, name, "") for name in FIELDS]
            writer.writerow([row.kind, row.orders, row.M, row.N, row.K, *values, f"{1e3 * ms:.3f}",
                             config if isinstance(config, str) else named(config)])
        print(told(row, found[row], times) + (f"  WRONG {wrong}" if wrong else ""), flush=True)
        results.append((row, times, wrong))
    print(f"measured in {time.perf_counter() - start:.0f} s", file=sys.stderr)
    return results


def summary(found, results):
    """Distributions of the ratios to cuBLAS: of each way alone, of the rule, of the best."""
    for way in ("copied", "as they are"):
        ratios = [times["cuBLAS"] / min(times[c] for c in found[row][way] if c in times) for row, times, _ in results
                  if any(c in times for c in found[row][way])]
        print(distribution(way, ratios))
    print(distribution("rule", [times["cuBLAS"] / times["rule"] for _, times, _ in results]))
    best = [times["cuBLAS"] / min(x for name, x in times.items() if name != "cuBLAS") for _, times, _ in results]
    print(distribution("best", best))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--kind", default="bf16", choices=("bf16", "f16", "tf32"))
    parser.add_argument("--only", default="unaligned", choices=CLASSES)
    parser.add_argument("--most", type=int, default=4, help="configurations of a product and way")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--out", type=Path, default=Path("gemm_unaligned.csv.gz"))
    options = parser.parse_args()
    multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
    rows = drawn(CLASSES[options.only], options.seed, options.count, options.kind, multiprocessors)
    with preparing():
        found = {row: ways(row, options.most, multiprocessors) for row in rows}
        ready = prepare({row: configs_of(some) for row, some in found.items()})
    with turn(), gzip.open(options.out, "wt", newline="") as out:
        writer = csv.writer(out)
        writer.writerow([*HEAD, "way"])
        results = measured(rows, found, ready, options, writer)
    summary(found, results)
    return 1 if any(wrong for *_, wrong in results) else 0


if __name__ == "__main__":
    sys.exit(main())
