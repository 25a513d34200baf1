"""RMSNorm and LayerNorm at the speed of memory: GB/s beside torch, torch.compile and a plain copy.

The form and the driver are those of rows_moves.py; rows.py runs all families in one process.

    python benchmarks/rows_norms.py [--rounds 30] [--only backward] [--csv rows_norms.csv] [--plot rows_norms.svg]

Bytes are what has to move: x and out; with a residual this and the sum, too; backward x, dout and dx.  The word
``ways`` times the backward pass by other plans than the rule's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from moye import kernels
from moye.kernels.rows import RowPlan
from rows_moves import BF16, DEVICE, Case, case, random

EPS = 1e-6


def rms_norm(rows: int = 16384, columns: int = 8192, dtype: torch.dtype = BF16) -> Case:
    x, weight = random(rows, columns, dtype=dtype), random(columns, dtype=dtype)
    out = torch.empty_like(x)
    return case(f"RMSNorm {rows}x{columns} {str(dtype)[6:]}", out,
                lambda: kernels.rms_norm(out, x, weight, eps=EPS), _rms, (x, weight))


def _rms(x: Any, weight: Any) -> Any:
    wide = x.float() if x.dtype != torch.float64 else x
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPS) * weight).to(x.dtype)


def layer_norm(rows: int = 16384, columns: int = 8192, dtype: torch.dtype = BF16) -> Case:
    x, weight, bias = random(rows, columns, dtype=dtype), random(columns, dtype=dtype), random(columns, dtype=dtype)
    out = torch.empty_like(x)
    return case(f"LayerNorm {rows}x{columns} {str(dtype)[6:]}", out,
                lambda: kernels.layer_norm(out, x, weight, bias, eps=EPS),
                lambda x, weight, bias: F.layer_norm(x, x.shape[-1:], weight, bias, EPS), (x, weight, bias))


def residual(rows: int = 16384, columns: int = 8192) -> Case:
    x, added, weight = random(rows, columns), random(rows, columns), random(columns)
    out, summed = torch.empty_like(x), torch.empty_like(x)

    def peer(x: Any, added: Any, weight: Any) -> Any:
        h = (x + added).to(BF16).to(x.dtype)            # what is normed is the sum as it is written
        return _rms(h, weight), h
    return case(f"RMSNorm + residual {rows}x{columns}", (out, summed),
                lambda: kernels.rms_norm(out, x, weight, eps=EPS, residual=added, summed=summed), peer,
                (x, added, weight))


def quantised(rows: int = 16384, columns: int = 8192, block: int | None = None) -> Case:
    """The error is that of the factors alone: one step of 8 bits is 6 %."""
    x, weight = random(rows, columns), random(columns)
    out = torch.empty(rows, columns, device=DEVICE, dtype=torch.float8_e4m3fn)
    scale = torch.empty((rows, columns // block) if block else (rows,), device=DEVICE)

    def peer(x: Any, weight: Any) -> Any:
        y = _rms(x.float(), weight.float()).reshape(rows, -1, block or columns)
        factor = y.abs().amax(-1, keepdim=True) / 448
        return factor.reshape(scale.shape), (y / factor).to(torch.float8_e4m3fn)

    made = case(f"RMSNorm to e4m3 by {f'1x{block}' if block else 'row'} {rows}x{columns}", scale,
                lambda: kernels.rms_norm(out, x, weight, eps=EPS, scale=scale), peer, (x, weight),
                exact=lambda x, weight: peer(x, weight)[0])
    return Case(made.name, made.moved + out.numel(), made.run, made.peer, made.arguments, made.error)


def backward(rows: int = 16384, columns: int = 8192, centred: bool = False, dtype: torch.dtype = BF16,
             plan: RowPlan | None = None, told: str = "") -> Case:
    x, dout, weight = (random(*shape, dtype=dtype) for shape in ((rows, columns), (rows, columns), (columns,)))
    wide = x.double()
    mean = wide.mean(-1) if centred else torch.zeros_like(wide[:, 0])
    rstd = torch.rsqrt((wide - mean[:, None]).square().mean(-1) + EPS).float()
    mean, dx, dweight = mean.float(), torch.empty_like(x), torch.empty_like(weight)
    dbias = torch.empty_like(weight) if centred else None

    def run() -> None:
        if centred:
            kernels.layer_norm_backward(dx, dout, x, weight, rstd, mean, dweight=dweight, dbias=dbias, plan=plan)
        else:
            kernels.rms_norm_backward(dx, dout, x, weight, rstd, dweight=dweight, plan=plan)

    def peer(x: Any, dout: Any, weight: Any, rstd: Any, mean: Any) -> Any:
        acc = torch.float64 if x.dtype == torch.float64 else torch.float32
        hat, inner = (x.to(acc) - mean[:, None]) * rstd[:, None], dout.to(acc) * weight.to(acc)
        along = (hat * inner).mean(-1, keepdim=True)
        across = inner.mean(-1, keepdim=True) if centred else 0
        found = ((inner - across - hat * along) * rstd[:, None], (dout * hat).sum(0), dout.to(acc).sum(0))
        return tuple(t.to(x.dtype) for t in found[:2 + centred])

    name = f"{'LayerNorm' if centred else 'RMSNorm'} backward {rows}x{columns} {str(dtype)[6:]}{told}"
    return case(name, (dx, dweight, dbias)[:2 + centred], run, peer, (x, dout, weight, rstd, mean),
                moved=3 * x.numel() * x.element_size())


CASES: list[Callable[[], Case]] = [
    rms_norm, partial(rms_norm, columns=4096), partial(rms_norm, columns=4097), partial(rms_norm, columns=4104),
    partial(rms_norm, columns=4096, dtype=torch.float32), partial(rms_norm, 1 << 20, 128),
    partial(rms_norm, 131072, 1024), partial(rms_norm, 8192, 16384), partial(rms_norm, 4096, 32768),
    partial(rms_norm, 2048, 131072), partial(rms_norm, 512, 262144, torch.float32),
    *(partial(rms_norm, rows) for rows in (1, 8, 64)), partial(rms_norm, 1, 131072), layer_norm,
    partial(layer_norm, columns=4097), residual, quantised, partial(quantised, block=128), backward,
    partial(backward, columns=4096), partial(backward, columns=4097), partial(backward, 1 << 18, 512),
    partial(backward, 2048, 65536), partial(backward, centred=True), partial(backward, rows=64)]

WAYS: list[Callable[[], Case]] = [
    partial(backward, plan=RowPlan(8, lanes, rounds=1024 // lanes, full=1024 // lanes, resident=resident),
            told=f" {lanes} threads x {resident}")
    for lanes, resident in ((1024, 1), (512, 1), (512, 2), (256, 1), (256, 2), (256, 3))]

if __name__ == "__main__":
    import sys

    import rows_moves
    rows_moves.CASES[:] = WAYS if "ways" in sys.argv else CASES
    sys.argv[1:] = [word for word in sys.argv[1:] if word != "ways"]
    rows_moves.main()
