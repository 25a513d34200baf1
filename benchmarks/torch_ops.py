"""What a call of an operator costs the host: ``mo.torch_op`` beside ``torch.library.custom_op`` and ``triton_op``.

Every operator allocates its result and makes one launch, of x + alpha * y on 1024 float32.  Each way queues CALLS calls
between synchronisations, few enough that nothing waits for the device; the ways take turns, and the figures are medians
over ROUNDS rounds in microseconds of host time, with what is beyond the direct launch into memory that is there.
``captured`` is a replay of a CUDA graph of 50 calls, by call.  Without a GPU the launch is a function that does
nothing, which leaves the host's part.

    python benchmarks/torch_ops.py [rounds] [--csv FILE]
"""

import argparse
import csv
import gc
import importlib.util
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import Tensor

import moye as mo

CALLS, REPEATS, SIZE, THREADS = 50, 20, 1024, 256       # 1000 calls a round
LIMIT = 7.0                                             # microseconds of an eager call beyond the direct launch
GPU = torch.cuda.is_available()
TRITON = """import triton
import triton.language as tl

@triton.jit
def add(out, x, y, alpha, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, inside) + alpha * tl.load(y + i, inside), inside)
"""


@mo.kernel
def add_kernel(out, x, y, alpha):
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    if i < mo.size(out):
        out[i] = x[i] + alpha * y[i]


def launch(out, x, y, alpha):
    """The direct launch."""
    add_kernel[SIZE // THREADS, THREADS](out, x, y, alpha)


def nothing(out, x, y, alpha):
    """In its place where there is no GPU."""


direct = launch if GPU else nothing


def function(x: Tensor, y: Tensor, alpha: float) -> Tensor:
    out = torch.empty_like(x)
    direct(out, x, y, alpha)
    return out


def keep(ctx, inputs, output):
    ctx.alpha = inputs[2]
    ctx.save_for_backward(inputs[0], inputs[1])


def backward(ctx, gradient):
    return function(gradient, ctx.saved_tensors[0], 0.0), function(gradient, ctx.saved_tensors[1], ctx.alpha), None


moye_op = mo.torch_op("bench::moye")(function)
moye_op.backward(backward, setup=keep)
custom_op = torch.library.custom_op("bench::custom", function, mutates_args=())
custom_op.register_fake(lambda x, y, alpha: torch.empty_like(x))
custom_op.register_autograd(backward, setup_context=keep)


def triton_ways():
    """Triton's direct launch and its operator, both with their gradients; None where Triton is not."""
    if not GPU or importlib.util.find_spec("triton") is None or not hasattr(torch.library, "triton_op"):
        return None
    path = Path(tempfile.mkdtemp()) / "add_triton.py"   # Triton wants its source in a file
    path.write_text(TRITON)
    spec = importlib.util.spec_from_file_location("add_triton", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    grid = (SIZE // THREADS,)

    def plain(out, x, y, alpha):
        module.add[grid](out, x, y, alpha, SIZE, BLOCK=THREADS)

    @torch.library.triton_op("bench::triton", mutates_args=())
    def triton_op(x: Tensor, y: Tensor, alpha: float) -> Tensor:
        out = torch.empty_like(x)
        torch.library.wrap_triton(module.add)[grid](out, x, y, alpha, SIZE, BLOCK=THREADS)
        return out
    triton_op.register_autograd(backward, setup_context=keep)
    return plain, triton_op


def captured(call):
    """A replay of a graph of CALLS calls."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            call()
    return graph.replay


def ways():
    """Functions that queue one call each, by name; those of ``whole`` queue CALLS."""
    device = "cuda" if GPU else "cpu"
    x, y = (torch.randn(SIZE, device=device) for _ in range(2))
    xg, yg = (t.clone().requires_grad_() for t in (x, y))
    out, ones = torch.empty_like(x), torch.ones_like(x)
    operators = {"moye": moye_op, "custom_op": custom_op}
    found = {"direct launch": lambda: direct(out, x, y, 2.0), "and empty_like": lambda: function(x, y, 2.0),
             "torch.add": lambda: torch.add(x, y, alpha=2.0)}
    if (triton := triton_ways()) is not None:
        found["Triton's direct launch"] = lambda: triton[0](out, x, y, 2.0)
        operators["triton_op"] = triton[1]
    whole = {}
    for name, op in operators.items():
        found[name] = lambda op=op: op(x, y, 2.0)
        found[f"{name}, no_grad"] = lambda op=op: without_grad(op, xg, yg)
        found[f"{name}, with autograd"] = lambda op=op: op(xg, yg, 2.0)
        found[f"{name}, and backward"] = lambda op=op: torch.autograd.grad(op(xg, yg, 2.0), (xg, yg), ones)
        compiled = torch.compile(lambda x, y, op=op: op(x, y, 2.0), fullgraph=True,
                                 backend="inductor" if GPU else "aot_eager")
        found[f"{name}, compiled"] = lambda compiled=compiled: compiled(x, y)
        if GPU:
            whole[f"{name}, captured"] = captured(found[name])
    found["moye, by the dispatcher"] = lambda: moye_op.overload(x, y, 2.0)
    wanted = x + 2 * y
    for name, call in found.items():
        if GPU and isinstance(result := call(), torch.Tensor):
            assert torch.allclose(result, wanted, atol=1e-6), name
    return found, whole


def without_grad(op, x, y):
    with torch.no_grad():
        return op(x, y, 2.0)


def queued(call, times):
    """Microseconds of host time for each call; ``times`` are made, and no garbage is looked for meanwhile."""
    gc.disable()
    start = time.perf_counter()
    for _ in range(times):
        call()
    taken = (time.perf_counter() - start) * 1e6 / CALLS
    gc.enable()
    if GPU:
        torch.cuda.synchronize()
    return taken


def measure(found, whole, rounds):
    """Medians of each way, which take turns."""
    runs = {name: (call, CALLS) for name, call in found.items()} | {name: (call, 1) for name, call in whole.items()}
    for call, _ in runs.values():                       # compiles, loads, is recorded
        for _ in range(12):
            call()
    times = {name: [] for name in runs}
    for i in range(rounds):
        for name in list(runs)[:: 1 if i % 2 == 0 else -1]:
            times[name].append(statistics.median(queued(*runs[name]) for _ in range(REPEATS)))
    return {name: statistics.median(taken) for name, taken in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rounds", nargs="?", type=int, default=7)
    parser.add_argument("--csv")
    asked = parser.parse_args()
    where = torch.cuda.get_device_name() if GPU else "no GPU: the launch does nothing"
    print(f"{where}, Python {sys.version.split()[0]}, torch {torch.__version__}: host us per call, median of "
          f"{asked.rounds} rounds of {CALLS * REPEATS}")
    found = measure(*ways(), asked.rounds)
    beyond = {name: taken - found["direct launch"] for name, taken in found.items()}
    print(f"{'':32} {'us':>8} {'beyond the direct launch':>26}")
    for name, taken in found.items():
        print(f"{name:32} {taken:8.2f} {beyond[name]:26.2f}")
    if asked.csv:
        with open(asked.csv, "w", newline="") as file:
            csv.writer(file).writerows([("way", "us", "beyond"), *((name, f"{found[name]:.3f}", f"{beyond[name]:.3f}")
                                                                  for name in found)])
    print(f"an eager call of moye's is {beyond['moye']:.2f} us beyond the direct launch, of at most {LIMIT}:",
          "kept" if beyond["moye"] <= LIMIT else "missed")


if __name__ == "__main__":
    main()
