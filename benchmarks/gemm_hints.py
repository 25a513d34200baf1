"""Whether an operand that is read once should leave L2 first: products of few rows or columns, drawn.

    python benchmarks/gemm_hints.py SEED COUNT [--apart] [--rounds 9]

Products of up to 128 rows or columns are drawn until COUNT of them have a long operand of more than 100 MB; its lines
are multiples of 128 bytes apart, or with ``--apart`` of fewer.  Each is multiplied by the configuration that the model
chooses, with the hint "evict_first" and without it.  A line for each: megabytes, microseconds, their ratio; then the
geometric means below and above the bytes from which ``moye.kernels.gemm.sm90.config.leaves_first`` gives no hint.
"""

import argparse
from dataclasses import replace

import torch

import gemm_measure
from gemm import Problem
from gemm_draws import draw
from gemm_model import problem_of, short
from gemm_rows import KINDS, geometric_mean
from moye.kernels.gemm.sm90 import config as model
from moye.kernels.gemm.sm90.choice import choose
from moye.testing import interleave

LEAST, FEW = 1e8, 128


def drawn(seed, count, apart):
    """So many products, and bytes of the operand that each reads once."""
    found, more = {}, 0
    while len(found) < count:
        for row in draw(f"hints {seed} {more}", 100, "bf16"):
            size = max(row.M, row.N) * row.K * KINDS[row.kind].bytes
            if row.tma and min(row.M, row.N) <= FEW and size >= LEAST and apart == (lines_of(row) < 128):
                found[row] = size
        more += 1
    return dict(list(found.items())[:count])


def lines_of(row):
    """Bytes of which distances between lines of the longer operand are multiples, up to 128."""
    lines = problem_of(row).lines
    return lines[0] if row.M > row.N else lines[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--apart", action="store_true", help="lines that begin inside of 128 bytes")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    rows, ratios = drawn(options.seed, options.count, options.apart), {False: [], True: []}
    multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
    chosen = {row: choose(problem_of(row), multiprocessors) for row in rows}
    ready = gemm_measure.prepare({row: [replace(config, stream=hint) for hint in ("A", "")]
                                  for row, config in chosen.items()})
    for row, config in chosen.items():
        both = {hint: replace(config, stream=hint) for hint in ("A", "")}
        if not all((row, each) in ready for each in both.values()):
            continue
        problem = Problem(row)
        ms = interleave({hint: gemm_measure.call(problem, each) for hint, each in both.items()}, options.rounds)
        ratios[model.leaves_first(problem_of(row))].append(ms["A"] / ms[""])
        print(f"{row.M:6}x{row.N}x{row.K} {row.orders} {rows[row] / 1e6:6.0f} MB {short(config):20} hint "
              f"{1e3 * ms['A']:7.1f} none {1e3 * ms['']:7.1f} {ms['A'] / ms['']:.3f}", flush=True)
    for first, some in ratios.items():
        if some:
            print(f"{'hint' if first else 'none'} is the rule of {len(some)}: with over without it "
                  f"{geometric_mean(some):.3f}")


if __name__ == "__main__":
    main()
