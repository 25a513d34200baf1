"""Scans down columns, gradients of embedding, odd transposes, losses of rows on the GPU: drawn, the same bits again."""

from __future__ import annotations

import math
import random

import pytest
import torch
from torch.nn import functional

from moye.kernels import cross_entropy, cumsum, embedding_backward, rms_norm_backward, transpose

CLOSE = {torch.bfloat16: 8e-3, torch.float16: 1e-3, torch.float32: 4e-6, torch.float64: 1e-13}


def drawn(rng, most, elements):
    """Two extents, log-uniform, a third of the second ones multiples of 8."""
    rows = round(math.exp(rng.uniform(0, math.log(most))))
    columns = max(1, round(math.exp(rng.uniform(0, math.log(max(2, min(most, elements // rows)))))))
    return rows, columns if rng.random() < 0.6 else -(-columns // 8) * 8


@pytest.mark.parametrize("seed", range(12))
def test_sums_down_columns(seed):
    """Blocks that share columns wait for each other, in any order and with other work beside them."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    dtype = list(CLOSE)[seed % 4]
    rows, columns = drawn(rng, 200_000, 1 << 25)
    x = torch.randn(rows, columns, device="cuda").to(dtype)
    out = torch.full_like(x, torch.nan)
    cumsum(out, x, axis=0)
    expected, scale = x.double().cumsum(0), x.double().abs().cumsum(0)
    assert ((out.double() - expected).abs() <= CLOSE[dtype] * (expected.abs() + 0.1 * scale)).all(), (rows, columns)
    beside, other = torch.cuda.Stream(), torch.randn(4096, 4096, device="cuda")
    for _ in range(4):
        with torch.cuda.stream(beside):
            other @ other
        again = torch.full_like(x, torch.nan)
        cumsum(again, x, axis=0)
        assert torch.equal(again.view(torch.uint8), out.view(torch.uint8))


@pytest.mark.parametrize("seed", range(12))
def test_gradients_of_embedding(seed):
    """Ids that are searched, sorted by a cluster, and by a launch a step; many of one row, and a row of padding."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    dtype = list(CLOSE)[seed % 4]
    rows, columns = drawn(rng, 300_000, 1 << 24)
    count = min(round(math.exp(rng.uniform(0, math.log(150_000)))), (1 << 25) // columns + 1)
    ids = (torch.rand(count, device="cuda") ** 3 * rows).to([torch.int32, torch.int64][seed % 2])
    dout, padding = torch.randn(count, columns, device="cuda").to(dtype), rng.choice((None, 0))
    found = [torch.full((rows, columns), torch.nan, device="cuda", dtype=dtype) for _ in range(2)]
    for one in found:
        embedding_backward(one, dout, ids, padding_idx=padding)
    expected, scale = (torch.zeros(rows, columns, device="cuda", dtype=torch.float64).index_add_(0, ids, part)
                       for part in (dout.double(), dout.double().abs()))
    if padding is not None:
        expected[padding] = 0
    near = (found[0].double() - expected).abs() <= CLOSE[dtype] * (expected.abs() + 0.1 * scale)
    assert near.all() and torch.equal(*found), (rows, columns, count)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_odd_transposes(dtype):
    """Tiles of lines that begin anywhere on either side, of arrays with gaps, several in one."""
    rng = random.Random(dtype.itemsize)
    torch.manual_seed(3)
    for _ in range(12):
        rows, columns, gap = rng.randint(700, 3000), rng.randint(700, 3000), rng.randint(0, 9)
        x = torch.randint(0, 256, (2, rows, (columns + gap) * dtype.itemsize), device="cuda", dtype=torch.uint8)
        x = x.view(dtype)[:, :, :columns]
        out = torch.zeros(2, columns, rows + gap, device="cuda", dtype=dtype)[:, :, :rows]
        transpose(out, x)
        bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
        assert torch.equal(out.view(bits), x.mT.view(bits)), (rows, columns, gap)


@pytest.mark.parametrize(("rows", "columns"), [(119365, 38), (40001, 301), (143, 108760), (92, 65537), (7, 262144),
                                               (261, 9001), (5, 3)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_losses(rows, columns, dtype):
    """Of short rows, of long ones that several blocks share, and their mean, which a cluster adds up."""
    torch.manual_seed(rows)
    x = torch.randn(rows, columns, device="cuda").to(dtype) * 3
    labels = torch.randint(0, columns, (rows,), device="cuda")
    labels[rows // 2] = -100
    each, mean = torch.full((rows,), torch.nan, device="cuda"), torch.full((), torch.nan, device="cuda")
    cross_entropy(each, x, labels, reduction="none")
    cross_entropy(mean, x, labels)
    for found, reduction in ((each, "none"), (mean, "mean")):
        assert torch.allclose(found.double(), functional.cross_entropy(x.double(), labels, reduction=reduction),
                              rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize(("rows", "columns"), [(1, 5120), (5, 99407), (40, 3000), (300, 1030), (2000, 5120)])
def test_gradients_of_few_rows(rows, columns):
    """One to many blocks leave sums of columns, which threads or several below each other fold."""
    torch.manual_seed(columns)
    x, dout = (torch.randn(rows, columns, device="cuda") for _ in range(2))
    weight, rstd = torch.randn(columns, device="cuda"), x.double().square().mean(1).add(1e-6).rsqrt()
    dx, dweight = torch.full_like(x, torch.nan), torch.full_like(weight, torch.nan)
    rms_norm_backward(dx, dout, x, weight, rstd.float(), dweight=dweight)
    exact = (dout.double() * x.double() * rstd[:, None]).sum(0)
    scale = (dout.double() * x.double() * rstd[:, None]).abs().sum(0)
    assert ((dweight.double() - exact).abs() <= 2e-6 * scale + 1e-6).all() and dx.isfinite().all()
