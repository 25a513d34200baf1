"""``moye.kernels.gemm_sm80`` (mma.sync) beside cuBLAS on the GPU: every dtype, transposes, ragged edges, epilogues.

Interleaved in one process, the order reversed every other round; random-normal data; L2 flushed before every launch;
medians.  Every result is compared with float64 on a poisoned output first; "error" is the relative Frobenius error, and
behind it its ratio to cuBLAS's.  cuBLAS has Hopper's own instructions; mma.sync reaches about 620 TFLOP/s in 16 bits.

    python benchmarks/gemm_sm80.py [rounds]
"""

import sys

import torch

from moye.kernels import gemm_sm80
from moye.kernels.gemm.parts.epilogues import Epilogue
from moye.kernels.gemm.sm80.choice import choose
from moye.kernels.gemm.sm80.kernel import gemm_sm80_kernel
from moye.kernels.gemm.sm80.plan import make_plan
from moye.testing import interleave

F8 = torch.float8_e4m3fn
DTYPES = {torch.bfloat16: torch.bfloat16, torch.float16: torch.float16, torch.float32: torch.float32,
          torch.float64: torch.float64, torch.int8: torch.int32, F8: torch.bfloat16}


def matrix(rows, columns, order, dtype):
    """Contiguous along K ("K") or along the rows ("M")."""
    shape = (rows, columns) if order == "K" else (columns, rows)
    x = torch.randint(-100, 100, shape, device="cuda").to(dtype) if dtype == torch.int8 else \
        torch.randn(shape, device="cuda", dtype=torch.float64 if dtype == torch.float64 else torch.float32).to(dtype)
    return x if order == "K" else x.T


def vendor(A, B, C):
    """cuBLAS's product into C, through torch; None where torch has none for these operands."""
    if A.dtype == torch.int8:
        return (lambda: torch._int_mm(A, B.T, out=C)) if A.stride(1) == B.stride(1) == 1 else None
    if A.dtype == F8:
        one = torch.ones((), device="cuda")
        return lambda: torch._scaled_mm(A, B.T, one, one, out_dtype=C.dtype, out=C)
    return lambda: torch.mm(A, B.T, out=C)


def error(C, expected):
    return float((C.double() - expected).norm() / expected.norm())


def row(dtype, M, N, K, orders, rounds, **options):
    A, B = matrix(M, K, orders[0], dtype), matrix(N, K, orders[1], dtype)
    C = torch.empty(M, N, device="cuda", dtype=DTYPES[dtype])
    expected = A.double() @ B.double().T
    works = {"moye": lambda: gemm_sm80(A, B, C, **options)}
    theirs = vendor(A, B, C)
    if theirs is not None:
        works["cuBLAS"] = theirs
    errors = {}
    for name, work in works.items():
        C.fill_(77)
        work()
        errors[name] = error(C, expected)
    ms = interleave(works, rounds)
    flops, config = 2e-9 * M * N * K, choose(M, N, K, 1, _moye(dtype), _sms())
    line = f"{str(dtype)[6:]:14} {M:5} {N:5} {K:5}  {orders}  {flops / ms['moye']:7.1f}"
    if theirs is not None:
        again = errors["moye"] / errors["cuBLAS"] if errors["cuBLAS"] else 1.0
        line += f" {flops / ms['cuBLAS']:7.1f} {ms['cuBLAS'] / ms['moye']:6.3f}  {errors['moye']:.2e} {again:6.3f}"
    else:
        line += f" {'-':>7} {'-':>6}  {errors['moye']:.2e} {'-':>6}"
    tile = config[0]
    print(f"{line}   {tile.bM}x{tile.bN}x{tile.bK}" + (f", {config[1]} splits" if config[1] > 1 else ""), flush=True)


def _sms():
    import moye as mo

    return mo.multiprocessors(torch.empty(0, device="cuda"))


def _moye(dtype):
    import moye as mo

    return getattr(mo, str(dtype)[6:])


def predication(rounds):
    """What predicates cost: the kernel for ragged edges beside the one without, at whole tiles."""
    import moye as mo

    n = 4096
    A, B = matrix(n, n, "K", torch.bfloat16), matrix(n, n, "K", torch.bfloat16)
    C = torch.empty(n, n, device="cuda", dtype=torch.bfloat16)
    config, _ = choose(n, n, n, 1, mo.bfloat16, _sms())
    grid = ((n // config.bM) * (n // config.bN), 1)

    def launch(ragged):
        plan = make_plan(config, mo.bfloat16, mo.bfloat16, "k", "k", (ragged,) * 3, 8, False, 1, Epilogue())
        return lambda: gemm_sm80_kernel[grid, config.threads](A, B, C, None, None, 1.0, 0.0, n // config.bK, plan)

    ms = interleave({"whole": launch(False), "ragged": launch(True)}, rounds)
    print(f"predicated / plain at {n}^3, bfloat16: {ms['ragged'] / ms['whole']:.4f}")


def main(rounds):
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.manual_seed(0)
    print(f"{torch.cuda.get_device_name()}; TFLOP/s, ratio = moye / cuBLAS; operands contiguous along K or along M, N")
    print("operands           M     N     K  A,B     moye  cuBLAS  ratio  error     ratio   tile")
    for dtype in (torch.bfloat16, torch.float16):
        for n in (2048, 4096, 8192):
            row(dtype, n, n, n, "KK", rounds)
    for orders in ("MK", "KM", "MM"):
        row(torch.bfloat16, 4096, 4096, 4096, orders, rounds)
    for orders in ("KK", "MM"):
        row(torch.float32, 4096, 4096, 4096, orders, rounds)
        row(torch.float64, 2048, 2048, 2048, orders, rounds)
    row(torch.int8, 4096, 4096, 4096, "KK", rounds)
    row(F8, 4096, 4096, 4096, "KK", rounds)
    for shape in ((4095, 4097, 4096), (4096, 4096, 4097), (1000, 1000, 1000), (128, 8192, 8192), (16, 8192, 8192),
                  (512, 512, 16384)):
        row(torch.bfloat16, *shape, "KK", rounds)
    predication(rounds)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
