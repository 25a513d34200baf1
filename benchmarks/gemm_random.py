"""``moye.kernels.gemm`` beside cuBLAS on products that nobody listed: drawn by seed, the distribution of the ratios.

    python benchmarks/gemm_random.py SEED COUNT [--dtype bf16] [--regret 20] [--seconds 60] [--worst 15] [--out DIR]

``--dtype`` is bf16, float16, float32 (exact, no tensor cores), tf32, e4m3 (promoted sums), "e4m3 fast" or int8.
Measured as in ``gemm.py``: interleaved, L2 flushed, random-normal data, compared with float64 on a poisoned output.
Apart for products that tensor maps describe, and the others.  ``--regret N`` also measures every configuration that
the model of costs finds near its best, for the first N products of tensor maps: the time of the choice over the best.
Seeds below 1000 are for work on the kernels; figures that are told come from seeds from 1000 on, run once.  Several
processes may run at a time: they compile beside each other, and take turns on the GPU when all have compiled.
"""

import argparse
import math
import statistics
import sys
from pathlib import Path

import torch

import gemm
import gemm_measure
import gemm_rows
from gemm_draws import draw
from gemm_model import problem_of, short
from gemm_random_plot import distributions, kind_of, refused
from moye.kernels.gemm.sm90.choice import choose
from moye.testing import interleave

AGAIN = 6


def regrets(rows, near, rounds):
    """Of each product: the choice's time over that of the best configuration near it, and both configurations.

    The best of many short measurements owes some of its rank to chance, so both are measured again, AGAIN times as
    often.
    """
    multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
    chosen = {row: gemm_measure.candidates(row, near, 60, multiprocessors) for row in rows}
    with gemm_measure.preparing():
        ready = gemm_measure.prepare(chosen)
    found = []
    for row, configs in chosen.items():
        problem = gemm.Problem(row)
        works = {config: gemm_measure.call(problem, config) for config in configs if (row, config) in ready}
        with gemm_measure.turn():
            times = interleave(works, rounds, warmup=1)
            choice, best = choose(problem_of(row), multiprocessors), min(times, key=times.get)
            again = interleave({config: works[config] for config in (choice, best)}, AGAIN * rounds, warmup=1)
        found.append((again[choice] / again[best], row, choice, best, again[choice], again[best]))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--dtype", default="bf16", type=kind_of)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--regret", type=int, default=0)
    parser.add_argument("--near", type=float, default=1.3)
    parser.add_argument("--worst", type=int, default=15)
    parser.add_argument("--out", type=Path, default=Path("out"))
    options = parser.parse_args()
    if options.regret and options.dtype == "f32":
        parser.error("--regret asks for configurations of tensor cores, and float32 has none")
    rows = draw(options.seed, options.count, options.dtype)
    with gemm_measure.preparing():
        kernels = gemm.prepare(rows)
    with gemm_measure.turn():
        results = [gemm.measured(row, kernels[row], options.seconds / len(rows), options.rounds) for row in rows]
    options.out.mkdir(parents=True, exist_ok=True)
    gemm_rows.write_csv(options.out / f"gemm_random_{options.dtype.replace(' ', '_')}_{options.seed}.csv", results)
    good = [x for x in results if not math.isnan(x.ratio)]
    print(*distributions(good), sep="\n")
    print(gemm_rows.HEAD)
    for figures in sorted(good, key=lambda x: x.ratio)[:options.worst]:
        print(gemm_rows.line(figures))
    if left := sum(map(refused, results)):
        print(f"cuBLAS does not take {left} of {len(results)} products: they are left out")
    bad = [figures for figures in results if figures.why and not refused(figures)]
    for figures in bad:
        print(gemm_rows.line(figures))
    if options.regret:
        tma = [row for row in rows if row.tma][:options.regret]
        found = sorted(regrets(tma, options.near, 5), key=lambda x: -x[0])
        ratios = sorted(x[0] for x in found)
        print(f"regret of {len(found)}: mean {statistics.fmean(ratios) - 1:.3f}, 95 % below "
              f"{ratios[int(0.95 * len(ratios))] - 1:.3f}")
        for regret, row, choice, best, us, least in found[:5]:
            print(f"  {regret:.2f} {row.label}: {short(choice)} {1e3 * us:.1f}, "
                  f"best {short(best)} {1e3 * least:.1f}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
