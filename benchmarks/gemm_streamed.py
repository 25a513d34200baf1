"""Products of at most 64 rows with one whose rows begin anywhere: streamed, as ``gemm`` takes them, and cuBLAS.

    python benchmarks/gemm_streamed.py SEED COUNT [--kind bf16] [--configs] [--rounds 9] [--seconds 90] [--out FILE]

Shapes are drawn as in ``gemm_random.py``, of which those stay where one operand could stream.  Random-normal numbers,
interleaved, L2 flushed, medians in microseconds; each result is compared with float64.  "gemm" is what the library
takes.  With ``--configs`` every configuration is measured, a line of the file each, for ``gemm_streamed_fit.py``.
"""

import argparse
import csv
import math
import time
from dataclasses import fields
from functools import partial

import torch

import moye as mo
from gemm_draws import draw
from moye import kernels
from moye.kernels.gemm.streamed import config as model
from moye.kernels.gemm.streamed.kernel import size_of, streams
from moye.testing import interleave

MULTIPROCESSORS = 132
SIZE = tuple(field.name for field in fields(model.Size) if field.name != "K")
TYPES = {"bf16": torch.bfloat16, "f16": torch.float16}


def drawn(seed, count, kind):
    """So many of the drawn products that could stream, and that tensor maps do not describe."""
    found, many = [], 8 * count
    while len(found) < count:
        found = [row for row in draw(seed, many, kind) if not row.tma and could(row)][:count]
        many *= 2
    return found


def could(row):
    """Whether one operand could stream."""
    return streams(*described(row)) != ""


def described(row):
    """A and B of a product."""
    return [mo.describe(mo.TensorLike(mo.bfloat16, (rows, row.K), (row.K, 1) if order == "K" else (1, rows)))
            for order, rows in zip(row.orders, (row.M, row.N), strict=True)]


def size_for(row):
    """What streams, and by what."""
    a, b = described(row)
    return size_of(a, b) if streams(a, b) == "A" else size_of(b, a)


def matrix(rows, columns, order, dtype):
    """Random-normal, contiguous along K or along its rows."""
    shape = (rows, columns) if order == "K" else (columns, rows)
    x = torch.randn(shape, device="cuda", dtype=torch.float32).to(dtype)
    return x if order == "K" else x.T


def error(C, A, B):
    """Relative to float64, of up to 64 rows and columns."""
    rows, columns = (torch.randint(0, n, (64,), device="cuda") for n in C.shape)
    exact = A[rows].double() @ B[columns].double().T
    return ((C[rows][:, columns].double() - exact).norm() / exact.norm()).item()


def measured(row, dtype, options):
    """Lines of a product: what the rule takes, and every configuration if they are asked for."""
    A, B = (matrix(rows, row.K, order, dtype) for rows, order in zip((row.M, row.N), row.orders, strict=True))
    C = torch.empty((row.M, row.N), device="cuda", dtype=dtype)
    size = size_for(row)
    runs = {"cuBLAS": lambda: torch.mm(A, B.T, out=C), "gemm": lambda: kernels.gemm(A, B, C)}
    rule = model.choose(size, MULTIPROCESSORS)
    configs = [rule, *(model.options(size, MULTIPROCESSORS) if options.configs else ())]
    wrong = 0.0
    for config in dict.fromkeys(configs):
        C.fill_(math.nan)
        kernels.gemm_streamed(A, B, C, config=config)
        wrong = max(wrong, error(C, A, B))
        runs[config] = partial(kernels.gemm_streamed, A, B, C, config=config)
    times = {name: 1e3 * ms for name, ms in interleave(runs, options.rounds).items()}
    lines = []
    for name, config in (("rule", rule), *(("", config) for config in configs[1:])):
        lines.append({"M": row.M, "N": row.N, "K": row.K, "orders": row.orders, "config": name,
                      **{field: getattr(size, field) for field in SIZE},
                      "along": getattr(config, "along", 0), "deep": getattr(config, "deep", 0),
                      "splits": config.splits, "streamed": f"{times[config]:.2f}", "gemm": f"{times['gemm']:.2f}",
                      "cuBLAS": f"{times['cuBLAS']:.2f}", "error": f"{wrong:.1e}"})
    best = min(model_times := [times[config] for config in configs])
    print(row.M, row.N, row.K, row.orders, f"cuBLAS {times['cuBLAS']:.1f} gemm {times['gemm']:.1f} streamed "
          f"{times[rule]:.1f} best of {len(model_times)} {best:.1f}", rule, "" if wrong < 4e-3 else f"WRONG {wrong}",
          flush=True)
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--kind", default="bf16", choices=TYPES)
    parser.add_argument("--configs", action="store_true")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--out")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    dtype, start, table = TYPES[options.kind], time.perf_counter(), []
    for row in drawn(options.seed, options.count, options.kind):
        if time.perf_counter() - start > options.seconds:
            break
        table += measured(row, dtype, options)
    told = [line for line in table if line["config"] == "rule"]
    for name in ("streamed", "gemm"):
        ratios = sorted(float(line["cuBLAS"]) / float(line[name]) for line in told)
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{name}: {len(ratios)} products, mean {mean:.3f} of cuBLAS, least {ratios[0]:.2f}, "
              f"{sum(r < 0.85 for r in ratios)} below 0.85, {sum(r < 0.9 for r in ratios)} below 0.90")
    if options.out:
        with open(options.out, "w", newline="") as file:
            writer = csv.DictWriter(file, list(table[0]))
            writer.writeheader()
            writer.writerows(table)


if __name__ == "__main__":
    main()
