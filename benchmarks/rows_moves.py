"""Permutations, gates, RoPE, reductions, scans, top-k and embedding at the speed of memory: GB/s beside torch.

Each case runs interleaved in one process with ``torch.copy_`` of a tensor of 16384 x 8192 bfloat16, torch's own
operations and torch.compile (max-autotune) of them, L2 flushed before every launch; medians.  "of copy" is the fraction
of the plain copy's bandwidth in the same run.  Every result is compared with float64 first.

    python benchmarks/rows_moves.py [--rounds 30] [--only transpose] [--csv rows_moves.csv] [--plot rows_moves.svg]

``CASES`` are functions that make a ``Case`` each, for other drivers.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from moye import kernels
from moye.testing import interleave

BF16 = torch.bfloat16
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@dataclass(frozen=True)
class Case:
    """``moved``: bytes read and written, each once.  ``peer(*arguments)`` is the same by torch.  ``error()`` runs it
    once and tells the largest error against float64, relative to the largest element."""

    name: str
    moved: int
    run: Callable[[], Any]
    peer: Callable[..., Any]
    arguments: tuple[Any, ...]
    error: Callable[[], float]


def case(name: str, out: Any, run: Callable[[], Any], peer: Callable[..., Any], arguments: tuple[Any, ...],
         exact: Callable[..., Any] | None = None, moved: int | None = None) -> Case:
    """A case whose output is ``out`` and whose bytes are those of ``out`` and of the tensors among the arguments."""
    tensors = [x for x in (*arguments, *(out if isinstance(out, tuple) else (out,))) if isinstance(x, torch.Tensor)]

    def error() -> float:
        run()
        wide = [x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in arguments]
        wanted = (exact or peer)(*wide)
        pairs = zip(out, wanted, strict=True) if isinstance(out, tuple) else [(out, wanted)]
        return max(float((x.double() - y).abs().max() / y.double().abs().max().clamp(min=1e-30)) for x, y in pairs)
    return Case(name, moved or sum(x.numel() * x.element_size() for x in tensors), run, peer, arguments, error)


def random(*shape: int, dtype: torch.dtype = BF16) -> torch.Tensor:
    return torch.randn(shape, device=DEVICE).to(dtype)


def transposed(rows: int = 16384, columns: int = 8192, dtype: torch.dtype = BF16) -> Case:
    x = random(rows, columns).to(dtype)
    out = torch.empty(columns, rows, device=DEVICE, dtype=dtype)
    return case(f"transpose {rows}x{columns} {str(dtype)[6:]}", out, lambda: kernels.transpose(out, x),
                lambda x: x.T.clone(memory_format=torch.contiguous_format), (x,))     # a view would be one of x


def heads(batch: int = 16, seq: int = 4096, count: int = 16, dim: int = 128) -> Case:
    x = random(batch, seq, count, dim)
    out = torch.empty(batch, count, seq, dim, device=DEVICE, dtype=BF16)
    return case(f"permute (b,s,h,d) to (b,h,s,d) {tuple(x.shape)}", out, lambda: kernels.permute(out, x, (0, 2, 1, 3)),
                lambda x: x.permute(0, 2, 1, 3).contiguous(), (x,))


def swiglu(rows: int = 16384, columns: int = 8192, packed: bool = False) -> Case:
    x, out = random(rows, 2 * columns), torch.empty(rows, columns, device=DEVICE, dtype=BF16)
    if packed:
        return case(f"swiglu packed {rows}x{columns}", out, lambda: kernels.swiglu(out, x),
                    lambda x: F.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1], (x,))
    gate, up = (half.contiguous() for half in x.chunk(2, -1))
    return case(f"swiglu {rows}x{columns}", out, lambda: kernels.swiglu(out, gate, up),
                lambda gate, up: F.silu(gate) * up, (gate, up))


def _swiglu_gradients(dout: Any, gate: Any, up: Any) -> tuple[Any, Any]:
    s = torch.sigmoid(gate.float() if gate.dtype != torch.float64 else gate)
    return (dout * up * s * (1 + gate * (1 - s))).to(gate.dtype), (dout * gate * s).to(gate.dtype)


def swiglu_backward(rows: int = 16384, columns: int = 4096) -> Case:
    dout, gate, up = (random(rows, columns) for _ in range(3))
    grads = torch.empty_like(gate), torch.empty_like(up)
    return case(f"swiglu backward {rows}x{columns}", grads, lambda: kernels.swiglu_backward(grads, dout, gate, up),
                _swiglu_gradients, (dout, gate, up))


def _turned(x: Any, cos: Any, sin: Any) -> Any:
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos[:, None] - b * sin[:, None], b * cos[:, None] + a * sin[:, None]), -1).to(x.dtype)


def rope(batch: int = 16, seq: int = 4096, count: int = 16, dim: int = 128) -> Case:
    x, speeds = random(batch, seq, count, dim), 1e4 ** (-torch.arange(dim // 2, device=DEVICE) * 2 / dim)
    angles = torch.outer(torch.arange(seq, device=DEVICE), speeds)
    cos, sin, out = angles.cos(), angles.sin(), torch.empty_like(x)
    return case(f"rope {tuple(x.shape)}", out, lambda: kernels.rope(out, x, cos, sin), _turned, (x, cos, sin))


def reduced(kind: str, axis: int, rows: int = 16384, columns: int = 8192) -> Case:
    x = random(rows, columns)
    names = {"max": "amax", "norm2": "norm"}
    out = torch.empty(x.shape[1 - axis], device=DEVICE, dtype=torch.int64 if kind == "argmax" else torch.float32)

    def peer(x: Any) -> Any:
        options = {"dtype": torch.float32} if kind == "sum" and x.dtype == BF16 else {}
        return getattr(torch, names.get(kind, kind))(x, dim=axis, **options)
    return case(f"{kind} over axis {axis} {rows}x{columns}", out, lambda: kernels.reduce(out, x, kind, axis=axis), peer,
                (x,))


def summed(rows: int = 16384, columns: int = 8192) -> Case:
    x = random(rows, columns)
    out = torch.empty(1, device=DEVICE, dtype=torch.float32)
    return case(f"sum of all {rows}x{columns}", out, lambda: kernels.reduce(out, x.reshape(1, -1), axis=1),
                lambda x: x.sum(dtype=torch.float32 if x.dtype == BF16 else None).reshape(1), (x,))


def scan(rows: int = 16384, columns: int = 8192, axis: int = 1) -> Case:
    x = random(rows, columns)
    out = torch.empty_like(x)
    return case(f"cumsum along axis {axis} {rows}x{columns}", out, lambda: kernels.cumsum(out, x, axis=axis),
                partial(torch.cumsum, dim=axis), (x,))


def largest(rows: int = 1024, columns: int = 128256, k: int = 64) -> Case:
    x = random(rows, columns)
    values, indices = (torch.empty(rows, k, device=DEVICE, dtype=dtype) for dtype in (BF16, torch.int64))
    return case(f"top {k} {rows}x{columns}", (values,), lambda: kernels.top_k(values, indices, x),
                lambda x: (torch.topk(x, k).values,), (x,))


def gather(rows: int = 128256, columns: int = 4096, count: int = 16384) -> Case:
    table, ids = random(rows, columns), (torch.rand(count, device=DEVICE) ** 3 * rows).long()
    out = torch.empty(count, columns, device=DEVICE, dtype=BF16)
    return case(f"embedding {count} of {rows}x{columns}", out, lambda: kernels.embedding(out, table, ids),
                lambda table, ids: table[ids], (table, ids), moved=2 * out.numel() * 2)


def scattered(rows: int = 128256, columns: int = 4096, count: int = 16384) -> Case:
    dout, ids = random(count, columns), (torch.rand(count, device=DEVICE) ** 3 * rows).long()
    dtable = torch.empty(rows, columns, device=DEVICE, dtype=BF16)
    return case(f"embedding backward {count} of {rows}x{columns}", dtable,
                lambda: kernels.embedding_backward(dtable, dout, ids),
                lambda dout, ids: torch.ops.aten.embedding_dense_backward(dout, ids, rows, -1, False), (dout, ids))


CASES: list[Callable[[], Case]] = [
    transposed, partial(transposed, 16383, 8191), partial(transposed, dtype=torch.float32, columns=4096),
    partial(transposed, dtype=torch.int8), heads, swiglu, partial(swiglu, packed=True), partial(swiglu, columns=4097),
    partial(swiglu, rows=64), swiglu_backward, rope,
    *(partial(reduced, kind, axis) for kind in ("sum", "max", "argmax", "norm2", "logsumexp") for axis in (1, 0)
      if (kind, axis) not in (("logsumexp", 0), ("norm2", 0))),
    partial(reduced, "sum", 1, 64, 131072), summed, scan, partial(scan, axis=0), partial(scan, 1, 1 << 26),
    partial(scan, 16, 1 << 23), largest,
    partial(largest, 64), gather, scattered, partial(scattered, columns=256, count=1 << 20)]


def measured(make: Callable[[], Case], rounds: int) -> dict[str, Any]:
    """One row of the table: GB/s of moye, of torch, of torch.compile; the fraction of copy; the error."""
    told = make()
    error = told.error()
    compiled = torch.compile(told.peer, mode="max-autotune-no-cudagraphs", dynamic=False)
    source, target = random(16384, 8192), torch.empty(16384, 8192, device=DEVICE, dtype=BF16)
    ms = interleave({"moye": told.run, "torch": lambda: told.peer(*told.arguments),
                     "compile": lambda: compiled(*told.arguments), "copy": lambda: target.copy_(source)}, rounds)
    rates = {name: (4 * source.numel() if name == "copy" else told.moved) / time * 1e-6 for name, time in ms.items()}
    return {"case": told.name, "us": ms["moye"] * 1e3, **{f"{name} GB/s": rate for name, rate in rates.items()},
            "of copy": rates["moye"] / rates["copy"], "of compile": ms["compile"] / ms["moye"], "error": error}


def rows(only: str, rounds: int) -> Iterator[dict[str, Any]]:
    for make in CASES:
        if only in str(make):
            torch.cuda.empty_cache()
            torch._dynamo.reset()
            yield measured(make, rounds)


def plot(table: list[dict[str, Any]], path: str) -> None:
    """Bars: the fraction of the copy's bandwidth, moye beside torch.compile."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(9, 0.4 * len(table) + 1))
    for shift, name in ((0.2, "compile"), (-0.2, "moye")):
        axes.barh([i + shift for i in range(len(table))], [r[f"{name} GB/s"] / r["copy GB/s"] for r in table], 0.4,
                  label=name)
    axes.set_yticks(range(len(table)), [r["case"] for r in table])
    axes.invert_yaxis()
    axes.axvline(1, color="gray", lw=0.8)
    axes.set_xlabel("fraction of copy_'s bandwidth")
    axes.legend()
    figure.savefig(path, bbox_inches="tight")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--only", default="")
    parser.add_argument("--csv")
    parser.add_argument("--plot")
    options = parser.parse_args()
    torch.manual_seed(0)
    print(f"{torch.cuda.get_device_name()}, medians of {options.rounds} rounds\n{'':52}      us   moye  torch compile "
          f"  copy  of copy  of compile    error")
    table = []
    for row in rows(options.only, options.rounds):
        table.append(row)
        rates = " ".join(f"{row[f'{name} GB/s']:6.0f}" for name in ("moye", "torch", "compile", "copy"))
        print(f"{row['case']:52} {row['us']:7.1f} {rates} {row['of copy']:8.3f} {row['of compile']:11.2f} "
              f"{row['error']:8.1e}", flush=True)
    if options.csv:
        with open(options.csv, "w", newline="") as file:
            writer = csv.DictWriter(file, list(table[0]))
            writer.writeheader()
            writer.writerows(table)
    if options.plot:
        plot(table, options.plot)


if __name__ == "__main__":
    main()
