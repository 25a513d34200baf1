"""Random problems of ``gemm_sm90`` compiled for sm_90a, no GPU: which kernels that the rule chooses spill registers, or
have a note of ptxas on lost time (C7510, C7514, C7602).

Dtypes, extents from one row to 16384, orders of A, B and C, batches and what is fused are drawn at random.  One line
for each kernel with a spill or a note, and how many there were.  Nothing is multiplied, no array is touched.

    python benchmarks/gemm_programs.py [problems] [seed]
"""

import argparse
import os
import random
import re
from concurrent.futures import ProcessPoolExecutor

import ml_dtypes
import numpy as np

from moye.kernels import gemm_sm90
from moye.runtime.prepare import compile_only

KINDS = [("bfloat16", "bfloat16"), ("bfloat16", "float32"), ("float16", "float16"), ("float32", "float32"),
         ("float8_e4m3fn", "bfloat16"), ("float8_e4m3fn", "float32"), ("float8_e5m2", "float16"), ("int8", "int32")]
ROWS = [1, 8, 16, 33, 64, 100, 128, 200, 512, 1000, 2048, 4096, 8192, 16384]
COLUMNS = [8, 64, 100, 512, 2048, 4096, 4098, 4097, 8192, 11008, 14336]
DEPTHS = [64, 1024, 4097, 4096, 8192, 14336]
FUSED = {"nothing": [], "alpha": ["alpha"], "bias": ["bias"], "gelu": ["gelu"], "bias, gelu": ["bias", "gelu"],
         "residual": ["residual"], "scales": ["scales"], "beta": ["beta"],
         "all": ["alpha", "beta", "bias", "scales", "residual", "gelu"], "gated": ["gated"],
         "gated, bias": ["gated", "bias"]}


def problem(rng):
    """Dtypes, extents, orders, batches and what is fused, of a product that there is."""
    while True:
        (a, c), fused, N = rng.choice(KINDS), rng.choice([*FUSED, "nothing"]), rng.choice(COLUMNS)
        if (a != "int8" or fused == "nothing") and (N % 2 == 0 or "gated" not in fused):
            return {"a": a, "c": c, "M": rng.choice(ROWS), "N": N, "K": rng.choice(DEPTHS),
                    "orders": "".join(rng.choice("CCF") for _ in "ABC"), "batches": rng.choice([0, 0, 0, 3]),
                    "fused": fused, "fast": "float8" in a and rng.random() < 0.5}


def empty(shape, dtype, order, batches):
    """Memory that is never touched; of batches row-major matrices, whose number is the last mode."""
    dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    return np.moveaxis(np.empty((batches, *shape), dtype), 0, -1) if batches else np.empty(shape, dtype, order)


def options(parts, M, N, C):
    """The keywords of ``gemm_sm90`` for what is fused."""
    rows = 2 * N if "gated" in parts else N
    found = {"alpha": {"alpha": 0.5}, "beta": {"beta": 0.5}, "bias": {"bias": np.empty(rows, np.float32)},
             "scales": {"row_scale": np.empty(M, np.float32), "col_scale": np.empty(rows, np.float32)},
             "residual": {"residual": np.empty_like(C)}, "gelu": {"activation": "gelu"},
             "gated": {"gated": True, "activation": "silu"}}
    return {name: value for part in parts for name, value in found[part].items()}


def compiled(case):
    """Spilled bytes and notes of the program of a problem."""
    parts, M, N, K = FUSED[case["fused"]], case["M"], case["N"], case["K"]
    A, B, C = (empty(shape, case[dtype], order, case["batches"]) for shape, dtype, order in
               zip(((M, K), (2 * N if "gated" in parts else N, K), (M, N)), "aac", case["orders"], strict=True))
    with compile_only("sm_90a") as gathered:
        gemm_sm90(A, B, C, fast_accum=case["fast"], **options(parts, M, N, C))
    program = gathered.programs[-1]
    return program.spills + program.stack, re.findall(r"\((C\d+)\)", program.compiled.log)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("problems", nargs="?", type=int, default=400)
    parser.add_argument("seed", nargs="?", type=int, default=0)
    asked = parser.parse_args()
    rng = random.Random(asked.seed)
    cases = [problem(rng) for _ in range(asked.problems)]
    spilled = noted = 0
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for case, (size, notes) in zip(cases, pool.map(compiled, cases), strict=True):
            spilled, noted = spilled + (size > 0), noted + bool(notes)
            if size or notes:
                print(f"{size} bytes of spills and stack, notes {notes}: {case}")
    print(f"{len(cases)} problems: {spilled} kernels spill, {noted} have a note of lost time")


if __name__ == "__main__":
    main()
