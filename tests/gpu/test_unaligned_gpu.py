"""Products whose lines begin anywhere, on the GPU against float64: C stored by rows, rows shifted."""

from __future__ import annotations

import pytest
import torch

import moye as mo
from moye.kernels import WarpgroupConfig, gemm_sm80, gemm_sm90
from moye.kernels.gemm.sm80.config import configs

CONFIGS = {
    "whole": WarpgroupConfig(128, 256, 64, 4), "tall": WarpgroupConfig(256, 96, 64, 4),
    "three": WarpgroupConfig(192, 64, 64, 5, groups=3), "in_turns": WarpgroupConfig(128, 128, 64, 5, "pingpong"),
    "one": WarpgroupConfig(64, 64, 64, 8, groups=1), "narrow": WarpgroupConfig(128, 16, 64, 10, stream="A"),
    "memory": WarpgroupConfig(128, 128, 64, 5, split_k=3, gather="memory"),
}
SHAPES = [(1, 77, 333), (7, 70, 67), (130, 201, 1029), (333, 515, 77), (257, 1030, 516), (1000, 777, 514),
          (67, 40, 4099)]


def matrix(rows, columns, order):
    """Random-normal and contiguous along its columns ("K") or its rows ("M")."""
    x = torch.randn((rows, columns) if order == "K" else (columns, rows), device="cuda").bfloat16()
    return x if order == "K" else x.T


@pytest.mark.parametrize("orders", ["KK", "MM", "KM", "MK"])
@pytest.mark.parametrize("name", CONFIGS)
def test_each_configuration(name, orders):
    """Memory behind C stays as it is, and nothing of C is missed."""
    torch.manual_seed(0)
    config = CONFIGS[name]
    for M, N, K in (shape for shape in SHAPES if shape[2] > config.bK * (config.split_k - 1)):
        A, B = matrix(M, K, orders[0]), matrix(N, K, orders[1])
        memory = torch.full((M * N + 64,), torch.nan, device="cuda", dtype=torch.bfloat16)
        C = memory[:M * N].view(M, N)
        gemm_sm90(A, B, C, config=config)
        exact = A.double() @ B.double().T
        size = (A.double().square() @ B.double().square().T).sqrt()
        off = (C.double() - exact).abs()
        assert bool((off <= 2 ** -8 * exact.abs() + 1e-5 * size).all()), (M, N, K)
        assert bool(memory[M * N:].isnan().all()), (M, N, K)


def inside(rows, columns, order, first):
    """A random-normal matrix, ``first`` elements behind the beginning of memory that is NaN around it."""
    memory = torch.full((rows * columns + 64,), torch.nan, device="cuda", dtype=torch.bfloat16)
    x = memory[first:first + rows * columns].view((rows, columns) if order == "K" else (columns, rows)).normal_()
    return x if order == "K" else x.T


@pytest.mark.parametrize("orders", ["KK", "MM", "KM", "MK"])
@pytest.mark.parametrize("config", configs(mo.bfloat16, shifted=True), ids=lambda c: f"{c.bM}x{c.bN}x{c.bK}")
def test_lines_are_shifted(config, orders):
    """One launch, or one and the sum of splits; what lies beside an operand is NaN, and so is what is behind C."""
    torch.manual_seed(3)
    for M, N, K in SHAPES:
        A, B = inside(M, K, orders[0], 32), inside(N, K, orders[1], 2)
        memory = torch.full((M * N + 64,), torch.nan, device="cuda", dtype=torch.bfloat16)
        C = memory[:M * N].view(M, N)
        gemm_sm80(A, B, C, config=config, splits=min(2, -(-K // 64)))
        exact = A.double() @ B.double().T
        size = (A.double().square() @ B.double().square().T).sqrt()
        assert bool(((C.double() - exact).abs() <= 2 ** -8 * exact.abs() + 1e-5 * size).all()), (M, N, K)
        assert bool(memory[M * N:].isnan().all()), (M, N, K)


@pytest.mark.parametrize("orders", ["KK", "MM", "KM"])
@pytest.mark.parametrize(("dtype", "beside"), [(torch.bfloat16, False), (torch.bfloat16, True), (torch.float32, True)])
def test_batches_are_shifted(dtype, beside, orders):
    """Each begins otherwise far behind 16 bytes, as they lie one behind the other or beside each other in the rows."""
    torch.manual_seed(4)
    for config in configs(mo.float32 if dtype == torch.float32 else mo.bfloat16, shifted=True)[::3]:
        for M, N, K in SHAPES[:4]:
            A, B = (batches(5, rows, K, order, dtype, beside) for rows, order in zip((M, N), orders, strict=True))
            C = torch.full((5, M, N), torch.nan, device="cuda", dtype=dtype).permute(1, 2, 0)
            gemm_sm80(A, B, C, config=config, splits=min(2, -(-K // 64)))
            exact = torch.einsum("mkl,nkl->mnl", A.double(), B.double())
            size = torch.einsum("mkl,nkl->mnl", A.double().square(), B.double().square()).sqrt()
            fine = 2 ** -8 * exact.abs() + (1e-5 if dtype == torch.bfloat16 else 2e-3) * size
            assert bool(((C.double() - exact).abs() <= fine).all()), (config, M, N, K)


def batches(count, rows, K, order, dtype, beside):
    """(rows, K, count), random-normal."""
    lines, extent = (rows, K) if order == "K" else (K, rows)
    x = torch.randn((lines, count, extent) if beside else (count, lines, extent), device="cuda", dtype=dtype)
    x = x.permute(0, 2, 1) if beside else x.permute(1, 2, 0)
    return x if order == "K" else x.transpose(0, 1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_rows_of_other_dtypes(dtype):
    """Four elements of float32 are 16 bytes; the sums are those of bfloat16 operands."""
    torch.manual_seed(1)
    for M, N, K in SHAPES:
        A, B = (matrix(rows, K, "K").to(torch.float16 if dtype == torch.float16 else torch.bfloat16) for rows in (M, N))
        C = torch.full((M, N), torch.nan, device="cuda", dtype=dtype)
        gemm_sm90(A, B, C, config=CONFIGS["whole"])
        exact = A.double() @ B.double().T
        size = (A.double().square() @ B.double().square().T).sqrt()
        assert bool(((C.double() - exact).abs() <= 2 ** -11 * exact.abs() + 1e-5 * size).all()), (M, N, K)


def test_a_batch_is_stored_by_rows():
    torch.manual_seed(2)
    A, B = (torch.randn(3, rows, 72, device="cuda").bfloat16().permute(1, 2, 0) for rows in (100, 77))
    C = torch.full((3, 100, 77), torch.nan, device="cuda", dtype=torch.bfloat16).permute(1, 2, 0)
    gemm_sm90(A, B, C, config=CONFIGS["whole"])
    exact = torch.einsum("mkl,nkl->mnl", A.double(), B.double())
    assert bool(((C.double() - exact).abs() <= 2 ** -8 * exact.abs() + 1e-3).all())
