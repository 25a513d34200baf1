"""``moye.kernels.gemm_simt`` beside cuBLAS fp32 (TF32 off), on the GPU: three large shapes, 48 shapes, transposes.

Interleaved in one process, the order reversed every other round; random-normal data; L2 flushed before every launch;
medians.  Every result is compared with float64 on a poisoned output first.

    python benchmarks/gemm_simt.py [rounds]
"""

import math
import sys

import torch

import moye as mo
from moye.kernels import gemm_simt
from moye.kernels.gemm.simt.choice import choose
from moye.kernels.gemm.simt.kernel import problem_of
from moye.testing import interleave

LARGE = [(2048, 2048, 256), (2048, 2048, 2048), (4096, 4096, 4096)]
SWEEP = [(M, N, K) for M in (96, 1000, 2048, 4097) for N in (64, 1024, 2050, 4096) for K in (33, 256, 4096)]


def matrix(rows, columns, order):
    """Column-major ("F") or row-major ("C") random-normal data."""
    return torch.randn(columns, rows, device="cuda").T if order == "F" else torch.randn(rows, columns, device="cuda")


def contest(M, N, K, orders, rounds):
    """Milliseconds of cuBLAS and moye on one product; an error above 1e-5 stops the benchmark."""
    A, B = matrix(M, K, orders[0]), matrix(N, K, orders[1])
    C = torch.full((N, M), math.nan, device="cuda").T
    gemm_simt(A, B, C)
    expected = A.double() @ B.double().T
    error = float((C.double() - expected).norm() / expected.norm())
    if not error < 1e-5:
        sys.exit(f"{M}x{N}x{K} {orders}: relative error {error}")
    del expected
    ms = interleave({"cuBLAS": lambda: torch.mm(A, B.T, out=C), "moye": lambda: gemm_simt(A, B, C)}, rounds)
    return ms["cuBLAS"], ms["moye"]


def chosen(M, N, K, orders):
    """The configuration that the rule chooses, the number of parts of K, and which operands are copied first."""
    A, B, C = (mo.describe(matrix(*shape, order)) for shape, order in zip(((M, K), (N, K), (M, N)), orders + "F",
                                                                          strict=True))
    return choose(problem_of(A, B, C), mo.multiprocessors(C))


def row(M, N, K, orders, rounds):
    cublas, moye = contest(M, N, K, orders, rounds)
    config, splits, copied = chosen(M, N, K, orders)
    flops = 2e-9 * M * N * K
    print(f"{M:5} {N:5} {K:5}  {orders}  {flops / moye:7.2f} {flops / cublas:8.2f} {cublas / moye:7.3f}   "
          f"{config.bM}x{config.bN}x{config.bK}" + (f", {splits} splits" if splits > 1 else "")
          + " copied" * sum(copied), flush=True)
    return cublas / moye


def main(rounds):
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)
    print(f"{torch.cuda.get_device_name()}; TFLOP/s, ratio = moye / cuBLAS; A and B column-major (F) or row-major (C)")
    print("    M     N     K  A,B     moye   cuBLAS   ratio   tile")
    for shape in LARGE:
        row(*shape, "FF", rounds)
    ratios = [row(*shape, "FF", rounds) for shape in SWEEP]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"48 shapes: geometric mean {mean:.3f}, least {min(ratios):.3f}")
    for n in (2048, 4096):
        for orders in ("FF", "CF", "FC", "CC"):
            row(n, n, n, orders, rounds)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
