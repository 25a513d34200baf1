"""``packed`` on the GPU, bit by bit beside torch: dtypes, orders, offsets, ragged sizes, batches; read by TMA."""

from __future__ import annotations

import math

import pytest
import torch

import moye as mo
from moye.kernels import gemm_sm90, packed
from moye.kernels.pack import both_packed

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "e4m3": torch.float8_e4m3fn,
          "e5m2": torch.float8_e5m2, "s8": torch.int8, "u8": torch.uint8}
WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
SIZES = [(1, 1), (1, 40), (40, 1), (3, 17), (37, 41), (130, 67), (333, 1029), (1024, 1024), (4097, 513)]


def array(name, rows, K, order, *, batches=(), behind=0, gap=0):
    """Random bits; "K" or "M" contiguous, ``gap`` elements between lines, ``behind`` elements into a buffer."""
    dtype = DTYPES[name]
    lines, length = (rows, K) if order == "K" else (K, rows)
    shape = (*batches, lines, length + gap)
    raw = torch.randint(0, 256, ((math.prod(shape) + behind) * dtype.itemsize,), device="cuda", dtype=torch.uint8)
    x = raw.view(dtype)[behind:].view(shape)[..., :length]
    x = x.movedim(0, -1) if batches else x
    return x if order == "K" else x.transpose(0, 1)


def check(x):
    """Equal bit by bit, K contiguous, other strides multiples of 16 bytes."""
    y = packed(x)
    words = WORDS[x.element_size()]
    assert y.dtype == x.dtype and y.shape == x.shape
    assert torch.equal(y.view(words), x.contiguous().view(words))
    assert y.stride(1) == 1 and y.data_ptr() % 16 == 0
    assert all(y.stride(mode) * y.element_size() % 16 == 0 for mode in range(y.dim()) if mode != 1)
    return y


@pytest.mark.parametrize("order", "KM")
@pytest.mark.parametrize("name", DTYPES)
def test_dtypes_and_sizes(name, order):
    torch.manual_seed(0)
    for rows, K in SIZES:
        check(array(name, rows, K, order))
        check(array(name, rows, K, order, gap=3))


@pytest.mark.parametrize("orders", ["KK", "KM", "MK", "MM"])
@pytest.mark.parametrize("name", ["f32", "bf16", "e4m3"])
def test_both_operands(name, orders):
    torch.manual_seed(0)
    for M, N, K in ((1, 3, 17), (333, 70, 1029), (4097, 513, 130)):
        arrays = array(name, M, K, orders[0], behind=1), array(name, N, K, orders[1], gap=3)
        for x, y in zip(arrays, both_packed(*arrays), strict=True):
            assert torch.equal(y.view(WORDS[x.element_size()]), x.contiguous().view(WORDS[x.element_size()]))


@pytest.mark.parametrize("order", "KM")
@pytest.mark.parametrize("name", ["f32", "bf16", "e4m3"])
def test_every_place_in_a_buffer(name, order):
    torch.manual_seed(0)
    for behind in range(1, 16):
        check(array(name, 190, 333, order, behind=behind, gap=behind % 3))


@pytest.mark.parametrize("order", "KM")
@pytest.mark.parametrize("name", ["f32", "bf16", "e4m3"])
def test_batches_and_other_strides(name, order):
    torch.manual_seed(0)
    for count in (1, 3):
        x = array(name, 210, 370, order, batches=(count,), gap=5, behind=1)
        check(x)
        check(x[:, ::2])
        check(x[::3])
        check(x.movedim(-1, 0))
    check(x[:1, :, 0].expand(9, 370))
    check(x[:, :1, 0].expand(210, 9))


@pytest.mark.parametrize("order", "KM")
def test_a_large_matrix_and_launching_again(order):
    """The short way of launching, and offsets beyond 2^31 bytes."""
    torch.manual_seed(0)
    x = array("bf16", 16384, 4097, order)
    for _ in range(3):
        check(x)
        x.view(torch.int16).add_(1)
    large = array("u8", 70001, 32769, order)
    y = packed(large)
    for rows in (slice(0, 300), slice(69900, 70001)):
        assert torch.equal(y[rows], large[rows])


@pytest.mark.parametrize("order", "KM")
def test_tma_describes_the_copies(order):
    """A K of no multiple of 16 bytes, with NaNs in the padding."""
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("wgmma needs sm_90a")
    torch.manual_seed(0)
    A, B = (array("bf16", rows, 4097, order, behind=3) for rows in (1000, 1032))
    for x in (A, B):
        x.copy_(torch.randn(x.shape, device="cuda"))
    a, b = packed(A), packed(B)
    for x in (a, b):
        whole = x.as_strided((x.shape[0], x.stride(0)), x.stride())
        whole[:, 4097:] = math.nan
    C = torch.full((1000, 1032), math.nan, device="cuda", dtype=torch.bfloat16)
    gemm_sm90(a, b, C)
    exact = A.double() @ B.double().T
    assert float((C.double() - exact).norm() / exact.norm()) < 2e-3


def test_tensors_on_the_host():
    """They are simulated."""
    torch.manual_seed(0)
    for order in "KM":
        check(array("bf16", 37, 41, order, behind=1, gap=3).cpu())
        check(torch.randn(3, 37, 41).permute(1, 2, 0))


def test_memory_that_belongs_to_somebody_else():
    """CuPy's arrays, and what torch has of them."""
    cupy = pytest.importorskip("cupy")
    for order in "CF":
        x = cupy.asarray(cupy.random.standard_normal((130, 257)), dtype=cupy.float16, order=order)
        y = packed(x)
        assert isinstance(y, cupy.ndarray) and bool((y == x).all())
        assert mo.describe(y).strides[0] % 8 == 0
        check(torch.as_tensor(x, device="cuda")[1:, 1:])
