"""What a product costs the host: a repeated ``gemm``, a plan of it, and ``torch.mm(out=)``, side by side on the GPU.

Each way queues CALLS products between synchronisations, few enough that nothing waits for the device; the ways take
turns, and the figures are medians over ROUNDS rounds, in microseconds of host time.  ``deciding`` is the same call with
everything decided anew, ``other arrays`` a call with arrays of the same kind by turns, and ``compiled`` a graph of
torch.compile that holds the one product.

    python benchmarks/gemm_call.py [rounds]
"""

import statistics
import sys
import time

import torch

from moye.kernels import gemm
from moye.runtime.prepare import compile_only

CALLS, REPEATS = 50, 20                                 # 1000 products a round
LIMITS = {"gemm": 12.0, "plan()": 4.0, "plan(A, B, C)": 4.0}
MORE = 3.0                                              # for each launch after the first: the driver alone takes 2.5
BF16, F16, F32, E4M3 = torch.bfloat16, torch.float16, torch.float32, torch.float8_e4m3fn
PRODUCTS = {                                            # name: M, N, K, dtype, of which options
    "bf16 128x4096x4096": (128, 4096, 4096, BF16, ()),
    "bf16 1x4096x4096": (1, 4096, 4096, BF16, ()),
    "bf16 384x4096x4096, bias and gelu": (384, 4096, 4096, BF16, ("bias", "gelu")),
    "bf16 384x4096x4096, residual": (384, 4096, 4096, BF16, ("residual",)),
    "bf16 512x512x512, 8 batches": (512, 512, 512, BF16, ("batches",)),
    "f16 64x64x65536, parts meet in memory": (64, 64, 65536, F16, ()),
    "bf16 333x777x1111, operands copied": (333, 777, 1111, BF16, ()),
    "fp32 256x256x256": (256, 256, 256, F32, ()),
    "e4m3 128x4096x4096 into bf16": (128, 4096, 4096, E4M3, ()),
}


def operands(M, N, K, dtype, options):
    """A, B, C and the options of one product."""
    batches = (8,) if "batches" in options else ()
    A, B = (torch.randn(*batches, rows, K, device="cuda").to(dtype) for rows in (M, N))
    C = torch.zeros(*batches, M, N, device="cuda", dtype=BF16 if dtype == E4M3 else dtype)
    if batches:
        A, B, C = (x.permute(1, 2, 0) for x in (A, B, C))
    more = {}
    if "bias" in options:
        more["bias"] = torch.randn(N, device="cuda").to(dtype)
    if "gelu" in options:
        more["activation"] = "gelu"
    if "residual" in options:
        more["residual"] = torch.randn(M, N, device="cuda").to(dtype)
    return (A, B, C), more


def ways(name):
    """Functions of no arguments that queue one product each, and how many launches a product is."""
    M, N, K, dtype, options = PRODUCTS[name]
    (A, B, C), more = operands(M, N, K, dtype, options)
    others = [operands(M, N, K, dtype, options)[0] for _ in range(4)]
    turn = iter(range(1 << 60))
    plan = gemm.plan(A, B, C, **more)
    with compile_only(trace_only=True) as gathered:
        gemm(A, B, C, **more)

    @torch.compile(fullgraph=True)
    def compiled(A, B, C, more):
        gemm(A, B, C, **more)

    found = {
        "gemm": lambda: gemm(A, B, C, **more),
        "other arrays": lambda: gemm(*others[next(turn) % 4], **more),
        "plan()": plan,
        "plan(A, B, C)": lambda: plan(A, B, C),
        "compiled": lambda: compiled(A, B, C, more),
        "deciding": lambda: gemm.function(A, B, C, **more),
    }
    if not options and dtype != E4M3:
        found["torch.mm(out=)"] = lambda: torch.mm(A, B.T, out=C)
    return found, len(gathered.jobs)


def queued(call):
    """Microseconds of host time for each of CALLS calls."""
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    taken = (time.perf_counter() - start) * 1e6 / CALLS
    torch.cuda.synchronize()
    return taken


def measure(runs, rounds):
    """Medians of each way, which take turns."""
    times = {way: [] for way in runs}
    for run in runs.values():                           # compiles, loads, is recorded
        for _ in range(12):
            run()
        torch.cuda.synchronize()
    for i in range(rounds):
        for way in list(runs)[:: 1 if i % 2 == 0 else -1]:
            times[way].append(statistics.median(queued(runs[way]) for _ in range(REPEATS)))
    return {way: statistics.median(taken) for way, taken in times.items()}


def main(rounds=5):
    assert torch.cuda.is_available(), "this benchmark needs an NVIDIA GPU and torch"
    print(f"{torch.cuda.get_device_name()}, Python {sys.version.split()[0]}, torch {torch.__version__}: host us per "
          f"call, median of {rounds} rounds of {CALLS * REPEATS}")
    names = ("gemm", "other arrays", "plan()", "plan(A, B, C)", "compiled", "deciding", "torch.mm(out=)")
    print(f"{'':40} {'launches':>8}", *(f"{way:>14}" for way in names))
    missed = []
    for name in PRODUCTS:
        torch.compiler.reset()                          # which gives up on a function that it has compiled 8 times
        runs, launches = ways(name)
        found = measure(runs, rounds)
        print(f"{name:40} {launches:8}", *(f"{found[way]:14.2f}" if way in found else f"{'':>14}" for way in names),
              flush=True)
        limits = {way: most + MORE * (launches - 1) for way, most in LIMITS.items()}
        missed += [f"{name}: {way} {found[way]:.2f} of {most}" for way, most in limits.items() if found[way] > most]
    print("limits of one launch:", ", ".join(f"{way} {most}" for way, most in LIMITS.items()), "-",
          "; ".join(missed) or "all kept")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
