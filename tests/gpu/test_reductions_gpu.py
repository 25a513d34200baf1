"""Reductions, scans and the k largest on the GPU against float64: axes, long rows and columns, NaN, the same bits."""

from __future__ import annotations

import pytest
import torch

from moye.kernels import cumsum, reduce, top_k

CLOSE = {torch.bfloat16: 8e-3, torch.float16: 1e-3, torch.float32: 4e-6, torch.float64: 1e-13}
SHAPES = [((64, 8192), 1), ((8192, 64), 0), ((3, 1000003), 1), ((300001, 5), 0), ((1, 37), 1), ((40, 33, 129), 1),
          ((2000, 4097), 1), ((2000, 4097), 0)]


def exact(kind, x, axis):
    x = x.double()
    if kind.startswith("norm"):
        return torch.linalg.vector_norm(x, {"1": 1, "2": 2, "inf": torch.inf}[kind[4:]], dim=axis)
    return getattr(torch, "amax" if kind == "max" else "amin" if kind == "min" else kind)(x, axis)


@pytest.mark.parametrize("kind", ["sum", "mean", "max", "min", "norm1", "norm2", "norminf", "logsumexp", "argmax",
                                  "argmin"])
def test_kinds(kind):
    torch.manual_seed(0)
    for i, (shape, axis) in enumerate(SHAPES):
        dtype = list(CLOSE)[i % 4]
        x = torch.randn(shape, device="cuda").to(dtype)
        expected = exact(kind, x, axis)
        out = torch.empty(expected.shape, device="cuda", dtype=torch.int64 if kind.startswith("arg") else torch.float64)
        out = out if kind.startswith("arg") else out.to(dtype)
        reduce(out, x, kind, axis=axis)
        if kind.startswith("arg"):
            found = x.gather(axis, out.unsqueeze(axis)).squeeze(axis)
            assert torch.equal(found, x.amax(axis) if kind == "argmax" else x.amin(axis))
            equal = x == found.unsqueeze(axis)          # the lowest index of equals
            places = torch.arange(shape[axis], device="cuda").view([-1 if j == axis else 1 for j in range(x.dim())])
            assert torch.equal(out, torch.where(equal, places, shape[axis]).amin(axis))
            continue
        scale = x.double().abs().sum(axis) if kind == "sum" else expected.abs() + 1
        assert ((out.double() - expected).abs() <= CLOSE[dtype] * (expected.abs() + 0.05 * scale)).all(), (kind, shape)
        again = torch.empty_like(out)
        reduce(again, x, kind, axis=axis)
        assert torch.equal(again, out)


def test_nan_and_infinities():
    x = torch.zeros(4, 5000, device="cuda")
    x[0, 77], x[1, 4000], x[2], x[3, 9] = torch.nan, torch.inf, -torch.inf, -torch.inf
    for kind in ("max", "min", "sum", "logsumexp"):
        out = torch.empty(4, device="cuda")
        reduce(out, x, kind, axis=1)
        assert torch.allclose(out.double(), exact(kind, x, 1), equal_nan=True)
    where = torch.empty(4, device="cuda", dtype=torch.int64)
    reduce(where, x, "argmax", axis=1)
    assert where.tolist()[:3] == [77, 4000, 0]


@pytest.mark.parametrize("dtype", CLOSE, ids=str)
def test_prefix_sums(dtype):
    torch.manual_seed(1)
    for shape, axis in SHAPES:
        x = (torch.rand(shape, device="cuda") - 0.3).to(dtype)
        out = torch.full_like(x, torch.nan)
        cumsum(out, x, axis=axis)
        expected, scale = x.double().cumsum(axis), x.double().abs().cumsum(axis)
        near = (out.double() - expected).abs() <= CLOSE[dtype] * (expected.abs() + 0.1 * scale)
        most = 0.99 * torch.finfo(dtype).max            # the sums of a million of float16 are beyond it
        assert (near | (expected > most) & (out >= most)).all(), shape


@pytest.mark.parametrize(("rows", "columns", "dtype"), [
    (1, 1 << 24, torch.float32), (3, 10000019, torch.float32), (3, 10000019, torch.bfloat16),
    (17, 1 << 20, torch.float16), (1, 50000000, torch.bfloat16)], ids=str)
def test_long_prefix_sums_in_one_pass(rows, columns, dtype):
    """Rows that no L2 holds: exact where sums do not round, else near float64, and the same bits in each run."""
    ones = torch.ones(rows, columns, device="cuda", dtype=dtype)
    out = torch.empty(rows, columns, device="cuda")
    cumsum(out, ones)
    assert torch.equal(out[:, :1 << 24], torch.arange(1, columns + 1, device="cuda").float()[:1 << 24].expand(rows, -1))
    torch.manual_seed(1)
    x = (torch.rand(rows, columns, device="cuda") - 0.3).to(dtype)
    cumsum(out, x)
    expected = x.double().cumsum(1)
    assert ((out.double() - expected).abs() <= 2e-5 * (expected.abs() + 10)).all()
    for _ in range(5):
        again = torch.full_like(out, torch.nan)
        cumsum(again, x)
        assert torch.equal(again, out)


@pytest.mark.parametrize("dtype", CLOSE, ids=str)
def test_the_k_largest(dtype):
    torch.manual_seed(2)
    for rows, n, k in ((64, 32768, 64), (3, 128256, 50), (5, 1000, 1000), (1, 17, 3), (200, 4097, 8), (6, 2224, 1791),
                       (1, 100000, 2048), (2, 70000, 300), (40, 65536, 600), (3, 300, 257), (9, 40000, 100)):
        x = torch.randn(rows, n, device="cuda").to(dtype)
        x[0, ::7] = torch.nan if n > 5000 else x[0, 0].item()
        for largest in (True, False):
            values = torch.empty(rows, k, device="cuda", dtype=dtype)
            indices = torch.empty(rows, k, device="cuda", dtype=torch.int64)
            top_k(values, indices, x, largest=largest)
            order = x.double().sort(dim=1, descending=largest, stable=True)
            assert torch.equal(indices, order.indices[:, :k])
            assert torch.equal(values.nan_to_num(9e4), x.gather(1, indices).nan_to_num(9e4))
