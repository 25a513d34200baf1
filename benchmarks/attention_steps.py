"""The nine steps of docs/attention.md on an H200, beside cuDNN's attention and moye.kernels.attention.

Interleaved in one process; random-normal bfloat16 of (heads, seqlen, 128); L2 flushed before every launch; medians.
Every result is compared with float64 on a poisoned output first.  Steps 1 to 8 are full, step 9 is causal, and each has
cuDNN of its kind beside it.  It writes benchmarks/data/attention_steps.csv, which the page shows.

    python benchmarks/attention_steps.py [--heads 32] [--seqlen 4096] [--rounds 20] [--csv FILE]

Then docs/make_attention.py writes the page.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import math
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import moye as mo
from moye import kernels
from moye.testing import interleave

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "attention"
TABLE = ROOT / "benchmarks" / "data" / "attention_steps.csv"
DIM = 128
NORM = 6e-3
"""What the error may be: the norm of the difference over the norm."""
PEER = "cuDNN"


def exact(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """In float64, a head after the other."""
    out = torch.empty(q.shape, dtype=torch.float64, device=q.device)
    for head in range(len(q)):
        scores = q[head].double() @ k[head].double().T / math.sqrt(DIM)
        if causal:
            scores.masked_fill_(~torch.ones_like(scores, dtype=torch.bool).tril(), -math.inf)
        out[head] = torch.softmax(scores, 1) @ v[head].double()
    return out


def steps(causal: bool) -> dict[str, Callable[..., None]]:
    """The steps of one kind by name."""
    sys.path.insert(0, str(FOLDER))
    names = sorted(path.stem for path in FOLDER.glob("step_*.py"))
    return {name: importlib.import_module(name).attention for name in names if ("causal" in name) == causal}


def library(out: torch.Tensor, *arrays: torch.Tensor, causal: bool) -> None:
    """moye.kernels.attention, which takes (batch, seqlen, heads, dim)."""
    kernels.attention(*(x.transpose(0, 1)[None] for x in (out, *arrays)), causal=causal)


def peer(out: torch.Tensor, *arrays: torch.Tensor, causal: bool) -> None:
    """cuDNN, by way of torch."""
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        out.copy_(scaled_dot_product_attention(*(x[None] for x in arrays), is_causal=causal)[0])


def timed_peer(arrays: tuple[torch.Tensor, ...], causal: bool) -> None:
    """The same without a copy of the result."""
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        scaled_dot_product_attention(*(x[None] for x in arrays), is_causal=causal)


def off(name: str, run: Callable[..., None], arrays: tuple[torch.Tensor, ...], expected: torch.Tensor) -> float:
    """The error of a run on a poisoned output; SystemExit if it is wrong."""
    out = torch.full_like(arrays[0], math.nan)
    run(out, *arrays)
    error = float((out.double() - expected).norm() / expected.norm())
    if not error < NORM:
        sys.exit(f"{name}: relative error {error}")
    return error


def measured(arrays: tuple[torch.Tensor, ...], causal: bool, rounds: int) -> list[dict[str, str]]:
    """The rows of one kind: full or causal."""
    expected = exact(*arrays, causal)
    kind = ", causal" if causal else ""
    runs = steps(causal) | {f"attention{kind}": partial(library, causal=causal)}
    errors = {name: off(name, run, arrays, expected) for name, run in runs.items()}
    errors[PEER + kind] = off(PEER, partial(peer, causal=causal), arrays, expected)
    del expected
    out = torch.empty_like(arrays[0])
    launches: dict[str, Callable[[], None]] = {name: partial(run, out, *arrays) for name, run in runs.items()}
    ms = interleave({**launches, PEER + kind: partial(timed_peer, arrays, causal)}, rounds)
    heads, seqlen, _ = arrays[0].shape
    work = 4e-9 * heads * seqlen * seqlen * DIM * (0.5 if causal else 1.0)
    return [{"name": name, "heads": str(heads), "seqlen": str(seqlen), "ms": f"{each:.4f}",
             "tflops": f"{work / each:.2f}", "of_cudnn": f"{ms[PEER + kind] / each:.3f}",
             "error": f"{errors[name]:.2e}", "device": mo.testing.device()} for name, each in ms.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--seqlen", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--csv", type=Path, default=TABLE)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("attention_steps.py measures on a GPU, and torch sees none")
    torch.manual_seed(0)
    shape = options.heads, options.seqlen, DIM
    arrays = tuple(torch.randn(shape, device="cuda").bfloat16() for _ in range(3))
    rows = [row for causal in (False, True) for row in measured(arrays, causal, options.rounds)]
    for row in rows:
        print(f"{row['name']:22} {row['ms']:>10} ms {row['tflops']:>8} TFLOP/s {row['of_cudnn']:>7} of cuDNN "
              f"error {row['error']}")
    with options.csv.open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    main()
