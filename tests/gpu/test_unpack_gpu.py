"""Numbers of four and six bits on the GPU: the same bits as in the simulator, and a product of int4 weights."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from unpack_kernels import (
    LANES,
    ROWS,
    WARPS,
    gemv_data,
    gemv_expected,
    gemv_int4,
    numbers,
    plain,
    scaled,
    six_bits,
    six_data,
)

torch = pytest.importorskip("torch")
DTYPES = [mo.int4, mo.uint4, mo.float4_e2m1fn]


def device(array):
    """A tensor on the GPU with the bits of an array."""
    if array.dtype == np.uint32:
        return torch.from_numpy(array.view(np.int32)).cuda().view(torch.uint32)
    return torch.from_numpy(array).cuda()


def words(n):
    found = np.random.default_rng(0).integers(0, 1 << 32, n, dtype=np.uint32)
    found[:16] = np.arange(16, dtype=np.uint32) * 0x11111111
    return found


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("to", [torch.float16, torch.bfloat16], ids=str)
def test_every_number(to, dtype, interleaved):
    w = words(64)
    out = torch.full((512,), 77, dtype=to, device="cuda")
    plain[2, LANES](out, device(w), dtype, interleaved)
    wanted = numbers(w, dtype, interleaved).reshape(-1)
    got = out.float().cpu().numpy()
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("to", [torch.float16, torch.bfloat16], ids=str)
def test_scales(to, dtype, interleaved):
    w = words(128)
    s = torch.randn(128, generator=torch.Generator().manual_seed(1)).to(to)
    s[20:26] = torch.tensor([np.inf, -np.inf, 6e4, 1e-7, 0, -0.0]).to(to)
    out = torch.full((1024,), 77, dtype=to, device="cuda")
    scaled[2, LANES](out, device(w), s.cuda(), None, None, dtype, interleaved)
    exact = torch.from_numpy(numbers(w, dtype, interleaved).astype(np.float32)) * s.float()[:, None]
    wanted = exact.to(to).reshape(-1)
    torch.testing.assert_close(out.cpu(), wanted, rtol=0, atol=0, equal_nan=True)


def test_zero_points():
    w, zeros = words(128), np.arange(64, dtype=np.int32) % 16
    for interleaved in (False, True):
        out = torch.full((1024,), 77, dtype=torch.float16, device="cuda")
        ones = torch.ones(128, dtype=torch.float16, device="cuda")
        scaled[2, LANES](out, device(w), ones, device(zeros), None, mo.uint4, interleaved)
        wanted = numbers(w, "uint4", interleaved) - np.repeat(zeros, 2)[:, None]
        np.testing.assert_array_equal(out.float().cpu().numpy(), wanted.reshape(-1))


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("dtype", [mo.float6_e2m3fn, mo.float6_e3m2fn], ids=str)
@pytest.mark.parametrize("to", [torch.float16, torch.bfloat16], ids=str)
def test_six_bits(to, dtype, padded):
    """All 64 numbers, with and without scales."""
    count = 2 * LANES * 2 * (4 if padded else 16)
    codes, w = six_data(count, padded)
    exact = torch.from_numpy(codes.view(getattr(ml_dtypes, str(dtype))).astype(np.float32))
    out = torch.full((count,), 77, dtype=to, device="cuda")
    six_bits[2, LANES](out, device(w), None, dtype, padded, 2)
    np.testing.assert_array_equal(out.cpu().view(torch.int16).numpy(), exact.to(to).view(torch.int16).numpy())
    s = torch.randn(4 * LANES, generator=torch.Generator().manual_seed(1)).to(to)
    six_bits[2, LANES](out, device(w), s.cuda(), dtype, padded, 2)
    wanted = (exact * s.float().repeat_interleave(4 if padded else 16)).to(to)
    torch.testing.assert_close(out.cpu(), wanted, rtol=0, atol=0)


@pytest.mark.parametrize(("rows", "columns"), [(32, 2048), (4096, 4096)])
def test_gemv(rows, columns):
    _, weights, scales, x = gemv_data(rows, columns)
    out = torch.zeros(rows, device="cuda")
    gemv_int4[rows // (WARPS * ROWS), WARPS * LANES](out, device(weights), device(scales), device(x))
    np.testing.assert_allclose(out.cpu().numpy(), gemv_expected(weights, scales, x), rtol=1e-3, atol=1e-2)
