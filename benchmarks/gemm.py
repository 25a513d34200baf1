"""``moye.kernels.gemm_sm90`` (TMA and wgmma) beside cuBLAS on a Hopper GPU: shapes, transposes, ragged edges.

Interleaved in one process, the order reversed every other round; random-normal data; L2 flushed before every launch;
medians.  Every result is compared with float64 on a poisoned output first; "error" is the relative Frobenius error, and
behind it its ratio to cuBLAS's.

    python benchmarks/gemm.py [rounds]
"""

import math
import sys

import torch

from moye.kernels.gemm_sm90 import gemm_sm90
from moye.kernels.warpgroup_plan import choose
from moye.testing import interleave

SHAPES = ((2048, 2048, 256), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (4096, 14336, 4096),
          (128, 8192, 8192), (16, 8192, 8192))


def matrix(rows, columns, order, dtype):
    """Contiguous along K ("K") or along the rows ("M")."""
    shape = (rows, columns) if order == "K" else (columns, rows)
    x = torch.randn(shape, device="cuda").to(dtype)
    return x if order == "K" else x.T


def error(C, A, B):
    """Relative Frobenius error against float64, on 256 rows of C."""
    rows = torch.linspace(0, C.shape[0] - 1, min(256, C.shape[0]), device="cuda").long()
    expected = A[rows].double() @ B.double().T
    return float((C[rows].double() - expected).norm() / expected.norm())


def row(dtype, M, N, K, orders, rounds, config=None):
    """One line of the table; the ratio."""
    A, B = matrix(M, K, orders[0], dtype), matrix(N, K, orders[1], dtype)
    C = torch.empty(M, N, device="cuda", dtype=dtype)
    works = {"moye": lambda: gemm_sm90(A, B, C, config=config), "cuBLAS": lambda: torch.mm(A, B.T, out=C)}
    errors = {}
    for name, work in works.items():
        C.fill_(float("nan"))
        work()
        errors[name] = error(C, A, B)
    ms = interleave(works, rounds)
    flops, ratio, tile = 2e-9 * M * N * K, ms["cuBLAS"] / ms["moye"], config or choose(M, N, K)
    print(f"{str(dtype)[6:]:9} {M:5} {N:5} {K:5} {orders}  {flops / ms['moye']:7.1f} {flops / ms['cuBLAS']:7.1f} "
          f"{ratio:6.3f}  {errors['moye']:.2e} {errors['moye'] / errors['cuBLAS']:6.3f}   {tile.bM}x{tile.bN}x{tile.bK}",
          flush=True)
    return ratio


def main(rounds=20):
    print(f"{torch.cuda.get_device_name()}, medians of {rounds} rounds\n"
          f"dtype         M     N     K         moye  cuBLAS  ratio  error  of cuBLAS's   tile")
    for dtype in (torch.bfloat16, torch.float16):
        ratios = [row(dtype, *shape, "KK", rounds) for shape in SHAPES]
        print(f"{str(dtype)[6:]}: geometric mean {math.prod(ratios) ** (1 / len(ratios)):.3f}")
    for orders in ("KM", "MK", "MM"):
        row(torch.bfloat16, 4096, 4096, 4096, orders, rounds)
    for shape in ((1000, 4096, 1024), (64, 512, 1024), (1000, 4096, 4104), (16384, 11008, 1024)):
        row(torch.bfloat16, *shape, "KK", rounds)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
