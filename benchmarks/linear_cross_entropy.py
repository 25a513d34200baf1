"""Linear cross-entropy: milliseconds, TFLOP/s and peak memory beside torch's product and loss.

8192 tokens, hidden 4096, vocabulary 128256, bfloat16.  Ways take turns in one process; medians.  Losses and gradients
of some tokens are compared with float64 first.

    python benchmarks/linear_cross_entropy.py [tokens hidden columns] [--rounds 10] [--chunks 1024 2048 4096]

The accounting: one product is 2 * tokens * hidden * columns operations, 8.6 TFLOP here, 12.5 ms at 690 TFLOP/s.  The
forward pass is one of them, with the gradients there are three: 37.4 ms.  What the rest takes is the last column.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from moye.kernels import gemm, linear_cross_entropy
from moye.testing import interleave


def problem(tokens: int, hidden: int, columns: int) -> tuple[Any, Any, Any]:
    torch.manual_seed(0)
    x, W = (torch.randn(shape, device="cuda").bfloat16() for shape in ((tokens, hidden), (columns, hidden)))
    return x, W.mul_(hidden ** -0.5), torch.randint(0, columns, (tokens,), device="cuda")


def errors(x: Any, W: Any, labels: Any, some: int = 64) -> tuple[float, float, float]:
    """Of losses without logits and by chunks, and of the gradient of x, for some tokens; relative to the largest."""
    wide, exact = W.double(), x[:some].double().requires_grad_()
    wanted = F.cross_entropy(exact @ wide.T, labels[:some], reduction="none")
    gradient, = torch.autograd.grad(wanted.sum(), exact)
    loss, by_chunks = (torch.empty(len(x), device="cuda") for _ in range(2))
    dx = torch.empty_like(x)
    linear_cross_entropy(loss, x, W, labels, reduction="none")
    linear_cross_entropy(by_chunks, x, W, labels, dx=dx, reduction="none")
    pairs = ((loss[:some], wanted), (by_chunks[:some], wanted), (dx[:some], gradient))
    return tuple(float((found - exactly).abs().max() / exactly.abs().max()) for found, exactly in pairs)


def ways(x: Any, W: Any, labels: Any, chunks: list[int]) -> dict[str, tuple[int, Callable[[], Any]]]:
    """By name: how many products, and a run."""
    loss, dx, dW = torch.empty((), device="cuda"), torch.empty_like(x), torch.empty_like(W)
    leaves = [t.detach().requires_grad_() for t in (x, W)]
    logits = torch.empty(min(len(x), 2048), len(W), device="cuda", dtype=x.dtype)

    def plain(x: Any, W: Any) -> Any:
        return F.cross_entropy((x @ W.T).float(), labels)

    def both(function: Callable[..., Any]) -> Any:
        return torch.autograd.grad(function(*leaves), leaves)

    compiled = torch.compile(plain)
    found = {"one product of 2048 tokens": (0, lambda: gemm(x[:2048], W, logits)),
             "moye forward": (1, lambda: linear_cross_entropy(loss, x, W, labels)),
             "torch forward": (1, lambda: plain(x, W)), "torch.compile forward": (1, lambda: compiled(x, W)),
             "torch both": (3, lambda: both(plain)), "torch.compile both": (3, lambda: both(compiled)),
             "moye both": (3, lambda: linear_cross_entropy(loss, x, W, labels, dx=dx, dW=dW))}
    for chunk in chunks:
        found[f"moye both, chunks of {chunk}"] = (
            3, lambda chunk=chunk: linear_cross_entropy(loss, x, W, labels, dx=dx, dW=dW, chunk=chunk))
    return found


def peak(run: Callable[[], Any]) -> float:
    """Bytes beyond what is there before."""
    run()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("shape", type=int, nargs="*", default=[8192, 4096, 128256])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--chunks", type=int, nargs="*", default=[1024, 4096])
    options = parser.parse_args()
    tokens, hidden, columns = options.shape
    x, W, labels = problem(tokens, hidden, columns)
    told = ", ".join(f"{error:.1e}" for error in errors(x, W, labels))
    print(f"{torch.cuda.get_device_name()}, {tokens} x {hidden} x {columns}\n"
          f"errors of losses without logits, of losses by chunks, of dx: {told}")
    runs = ways(x, W, labels, options.chunks)
    memory = {name: peak(run) for name, (_, run) in runs.items()}
    ms = interleave({name: run for name, (_, run) in runs.items()}, options.rounds, warmup=1)
    product = 2 * tokens * hidden * columns * 1e-9
    print(f"{'':32}      ms  TFLOP/s  MB more  ms beyond products at 690 TFLOP/s")
    for name, (products, _) in runs.items():
        work = product * (products or min(2048, tokens) / tokens)
        rest = ms[name] - work / 690
        print(f"{name:32} {ms[name]:7.2f} {work / ms[name]:8.0f} {memory[name] / 1e6:8.0f} {rest:8.2f}")


if __name__ == "__main__":
    main()
