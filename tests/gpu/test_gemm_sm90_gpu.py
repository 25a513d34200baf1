"""``gemm_sm90`` on the GPU against float64: both dtypes, transposes, edges, configurations; errors beside torch's."""

from __future__ import annotations

import math

import pytest
import torch

from moye.kernels import WarpgroupConfig, gemm_sm90

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
ORDERS = ["CC", "CF", "FC", "FF"]
CONFIGS = {"wide": WarpgroupConfig(128, 256, 64, 4), "narrow": WarpgroupConfig(128, 128, 64, 5),
           "small": WarpgroupConfig(128, 64, 64, 3), "of_192": WarpgroupConfig(128, 192, 64, 4)}
WHOLE = [(2048, 2048, 256), (4096, 2048, 1024)]
RAGGED = [(127, 264, 63), (200, 264, 200), (1000, 2056, 1000), (64, 512, 1024), (16, 8192, 4096), (4095, 4104, 333)]


@pytest.fixture(scope="module", autouse=True)
def _hopper():
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("wgmma needs sm_90a")


def padded(rows, columns, dtype):
    """A row-major NaN array whose rows are multiples of 16 bytes apart, with NaNs between them."""
    return torch.full((rows, -(-columns // 8) * 8 + 8), math.nan, device="cuda", dtype=dtype)[:, :columns]


def array(rows, columns, dtype, order):
    """Random-normal; "C": columns are contiguous, "F": rows."""
    x = padded(rows, columns, dtype) if order == "C" else padded(columns, rows, dtype).T
    return x.copy_(torch.randn(rows, columns, device="cuda"))


def difference(x, exact):
    assert bool(x.double().isfinite().all())
    return float((x.double() - exact).norm() / exact.norm())


def agree(name, M, N, K, orders="CC", **options):
    """One launch on a poisoned C, no further from float64 than 1.05 of torch's; the padding of C stays as it was."""
    torch.manual_seed(M + N + K)
    A, B = (array(rows, K, DTYPES[name], order) for rows, order in ((M, orders[0]), (N, orders[1])))
    C = padded(M, N, DTYPES[name])
    assert gemm_sm90(A, B, C, **options) is C
    exact = A.double() @ B.double().T
    error, torchs = difference(C, exact), difference(torch.mm(A, B.T), exact)
    assert error <= 1.05 * torchs, f"relative error {error:.2e}, torch's {torchs:.2e}"
    assert bool(C._base[:, N:].isnan().all())


@pytest.mark.parametrize("size", WHOLE + RAGGED, ids=str)
@pytest.mark.parametrize("orders", ORDERS)
@pytest.mark.parametrize("name", DTYPES)
def test_shapes_and_transposes(name, orders, size):
    agree(name, *size, orders)


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("name", DTYPES)
def test_configurations(name, config):
    """Several tiles per block, whole and ragged."""
    agree(name, 4096, 4096, 512, config=CONFIGS[config])
    agree(name, 4001, 4088, 520, "FC", config=CONFIGS[config])


@pytest.mark.parametrize("stages", [2, 3, 5])
@pytest.mark.parametrize("k_tiles", [1, 2, 4, 7])
def test_fewer_and_more_k_tiles_than_stages(stages, k_tiles):
    config = WarpgroupConfig(128, 128, 64, stages)
    agree("f16", 256, 256, 64 * k_tiles, config=config)
    agree("bf16", 3001, 3000, 64 * k_tiles - 5, config=config)


@pytest.mark.parametrize("name", DTYPES)
def test_k_of_zero_and_of_one(name):
    C = padded(100, 72, DTYPES[name])
    A, B = (torch.zeros(rows, 0, device="cuda", dtype=DTYPES[name]) for rows in C.shape)
    assert not gemm_sm90(A, B, C).any()
    agree(name, 100, 72, 1)


@pytest.mark.parametrize("name", DTYPES)
def test_again_and_again(name):
    """The same bits from every launch: nothing depends on who comes first."""
    A, B = (array(rows, 1032, DTYPES[name], "C") for rows in (3000, 2000))
    first = gemm_sm90(A, B, padded(3000, 2000, DTYPES[name]))
    for _ in range(20):
        assert torch.equal(gemm_sm90(A, B, padded(3000, 2000, DTYPES[name])), first)
