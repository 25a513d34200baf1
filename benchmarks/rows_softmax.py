"""Softmax and cross-entropy of rows at the speed of memory: GB/s beside torch, torch.compile and a plain copy.

The form and the driver are those of rows_moves.py: interleaved in one process, cold L2, medians, errors against
float64; "of copy" is the fraction of the plain copy's bandwidth in the same run.

    python benchmarks/rows_softmax.py [--rounds 30] [--only cross] [--csv rows_softmax.csv] [--plot rows_softmax.svg]

Bytes are what has to move: x and out of softmax, x of a cross-entropy, x and its gradient of the backward pass and of
both passes at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from moye import kernels
from rows_moves import BF16, DEVICE, Case, case, random


def _like(x: Any, *shape: int) -> Any:
    return torch.empty(shape, device=DEVICE, dtype=torch.float32)


def softmax(rows: int = 16384, columns: int = 8192, dtype: torch.dtype = BF16) -> Case:
    x = random(rows, columns, dtype=dtype)
    out = torch.empty_like(x)
    return case(f"softmax {rows}x{columns} {str(dtype)[6:]}", out, lambda: kernels.softmax(out, x),
                partial(torch.softmax, dim=-1), (x,))


def log_softmax(rows: int = 16384, columns: int = 8192) -> Case:
    x = random(rows, columns)
    out = torch.empty_like(x)
    return case(f"log-softmax {rows}x{columns}", out, lambda: kernels.log_softmax(out, x),
                partial(torch.log_softmax, dim=-1), (x,))


def causal(heads: int = 64, rows: int = 2048) -> Case:
    x, edge = random(heads, rows, rows), torch.ones(rows, rows, dtype=torch.bool, device=DEVICE).tril()
    out = torch.empty_like(x)
    return case(f"causal softmax {heads}x{rows}x{rows}", out, lambda: kernels.softmax(out, x, scale=0.125, causal=0),
                lambda x: torch.softmax((x * 0.125).masked_fill(~edge, -torch.inf), -1), (x,),
                moved=3 * x.numel())                    # half of x is not read


def softmax_backward(rows: int = 16384, columns: int = 8192) -> Case:
    out, dout = torch.softmax(random(rows, columns).float(), -1).to(BF16), random(rows, columns)
    dx = torch.empty_like(out)
    return case(f"softmax backward {rows}x{columns}", dx, lambda: kernels.softmax_backward(dx, dout, out),
                lambda dout, out: out * (dout - (out * dout).sum(-1, keepdim=True)), (dout, out))


def cross_entropy(rows: int = 16384, columns: int = 8192, dtype: torch.dtype = BF16, reduction: str = "none") -> Case:
    x, labels = random(rows, columns, dtype=dtype), torch.randint(0, columns, (rows,), device=DEVICE)
    loss, lse = _like(x, *([rows] if reduction == "none" else [])), _like(x, rows)
    return case(f"cross-entropy {reduction} {rows}x{columns} {str(dtype)[6:]}", loss,
                lambda: kernels.cross_entropy(loss, x, labels, lse=lse, reduction=reduction),
                partial(_losses, reduction), (x, labels), moved=x.numel() * x.element_size())


def _losses(reduction: str, x: Any, labels: Any) -> Any:
    return F.cross_entropy(x.float() if x.dtype == BF16 else x, labels, reduction=reduction)


def both(rows: int = 16384, columns: int = 8192) -> Case:
    """The loss and, from the same read, the gradient."""
    x, labels = random(rows, columns), torch.randint(0, columns, (rows,), device=DEVICE)
    loss, dx = _like(x), torch.empty_like(x)
    return case(f"cross-entropy with gradient {rows}x{columns}", (dx,),
                lambda: kernels.cross_entropy(loss, x, labels, dlogits=dx), _gradient, (x, labels),
                moved=2 * x.numel() * x.element_size())


def backward(rows: int = 16384, columns: int = 8192) -> Case:
    x, labels = random(rows, columns), torch.randint(0, columns, (rows,), device=DEVICE)
    lse, dx = torch.logsumexp(x.float(), -1), torch.empty_like(x)
    return case(f"cross-entropy backward {rows}x{columns}", (dx,),
                lambda: kernels.cross_entropy_backward(dx, None, x, labels, lse), _gradient, (x, labels),
                moved=2 * x.numel() * x.element_size())


def _gradient(x: Any, labels: Any) -> Any:
    """Of the mean."""
    shares = torch.softmax(x.float() if x.dtype == BF16 else x, -1)
    return (((shares - F.one_hot(labels, x.shape[1]).to(shares.dtype)) / len(x)).to(x.dtype),)


CASES: list[Callable[[], Case]] = [
    softmax, partial(softmax, columns=4096), partial(softmax, columns=4097), partial(softmax, dtype=torch.float32),
    partial(softmax, 1 << 20, 128), partial(softmax, 131072, 1024), partial(softmax, 2048, 131072),
    partial(softmax, 512, 262144, torch.float32), *(partial(softmax, rows) for rows in (1, 8, 64)),
    partial(softmax, 1, 131072), partial(softmax, 8192, 32768),
    log_softmax, causal, softmax_backward, partial(softmax_backward, 1024, 131072),
    cross_entropy, partial(cross_entropy, columns=4096), partial(cross_entropy, columns=4097),
    partial(cross_entropy, 8192, 128256), partial(cross_entropy, 512, 262144, torch.float32),
    partial(cross_entropy, reduction="mean"), partial(cross_entropy, 64, 128256), both, partial(both, 4096, 128256),
    backward, partial(backward, 4096, 128256)]

if __name__ == "__main__":
    import rows_moves
    rows_moves.CASES[:] = CASES
    rows_moves.main()
