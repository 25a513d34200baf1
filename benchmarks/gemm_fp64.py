"""float64 products of ``moye.kernels.gemm_sm80`` beside cuBLAS: every instruction and tile that was considered.

Interleaved in one process, the order reversed every other round; random-normal data; L2 flushed before every launch;
medians.  Every result is compared with cuBLAS's on a poisoned output first, and "WRONG" stands where they differ.  The
first line of a shape is what ``gemm`` chooses, and the others are sorted by their ratio to cuBLAS.

    python benchmarks/gemm_fp64.py [rounds] [shapes, such as 2048 4096]
"""

import math
import sys

import torch

from moye.kernels import gemm
from moye.kernels.gemm.sm80.config import TensorConfig
from moye.kernels.gemm.sm80.kernel import gemm_sm80
from moye.testing import interleave

OPS = {k: f"SM90_16x8x{k}_F64F64F64F64_TN" for k in (4, 8, 16)}
OLD = TensorConfig(128, 64, 16, 3, 4, 2, 1)             # the 8x8x4 instruction of sm_80
# bM, bN, bK, stages, wM, wN, blocks, and k of the instructions that do not spill with it
TILES = (
    (128, 128, 16, 4, 2, 4, 1, (4, 8)), (128, 128, 16, 3, 2, 4, 1, (4, 8)), (128, 128, 16, 3, 4, 2, 1, (4, 8)),
    (128, 128, 32, 2, 2, 4, 1, (4,)), (128, 128, 16, 3, 4, 4, 1, (4,)), (128, 64, 16, 5, 4, 2, 1, (4, 8)),
    (128, 64, 16, 3, 2, 2, 2, (4, 8)), (128, 64, 32, 3, 4, 2, 1, (4, 8, 16)), (64, 128, 16, 2, 2, 2, 2, (4,)),
    (64, 64, 16, 3, 2, 2, 2, (4, 8)), (64, 64, 32, 2, 2, 2, 2, (4, 8, 16)),
)
CANDIDATES = tuple(TensorConfig(*tile[:7], mma=OPS[k]) for tile in TILES for k in tile[7])


def label(config):
    k = config.mma.partition("x8x")[2].partition("_")[0] or "4 of sm_80"
    return (f"{config.bM}x{config.bN}x{config.bK} stages={config.stages} warps={config.wM}x{config.wN} "
            f"blocks={config.blocks} k={k}")


def shape(n, orders, rounds):
    A, B = (x if order == "K" else x.T for x, order in
            zip((torch.randn(n, n, device="cuda", dtype=torch.float64) for _ in range(2)), orders, strict=True))
    C = torch.empty(n, n, device="cuda", dtype=torch.float64)
    exact = torch.mm(A, B.T)
    works = {"cuBLAS": lambda: torch.mm(A, B.T, out=C), "gemm": lambda: gemm(A, B, C)}
    for config in (OLD, *CANDIDATES):
        works[label(config)] = lambda config=config: gemm_sm80(A, B, C, config=config, splits=1)
    wrong = set()
    for name, work in works.items():
        C.fill_(math.nan)
        work()
        if not float((C - exact).norm() / exact.norm()) < 1e-14:
            wrong.add(name)
    ms = interleave(works, rounds)
    print(f"\n{n}^3, operands {orders}: cuBLAS {2e-9 * n ** 3 / ms['cuBLAS']:.1f} TFLOP/s")
    first = ["gemm"]
    for name in first + sorted((name for name in works if name not in ("gemm", "cuBLAS")), key=ms.__getitem__):
        print(f"  {ms['cuBLAS'] / ms[name]:6.3f}  {2e-9 * n ** 3 / ms[name]:5.1f} TFLOP/s  {name}"
              + ("  WRONG" if name in wrong else ""), flush=True)


def main(rounds, sizes):
    torch.manual_seed(0)
    print(f"{torch.cuda.get_device_name()}; ratio = cuBLAS's time / ours; operands contiguous along K or along M, N")
    for n in sizes:
        for orders in ("KK", "MM"):
            shape(n, orders, rounds)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10, [int(n) for n in sys.argv[2:]] or [2048, 4096])
