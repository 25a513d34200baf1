"""Checked launches of CUDA tensors: host copies in the simulator, results back on the device."""

from __future__ import annotations

import pytest
import torch

import moye as mo
from moye.errors import SimulationError

BLOCK = 64


@mo.kernel
def double(y, x):
    y[mo.thread_idx().x] = x[mo.thread_idx().x] * 2


@mo.kernel
def races(y, x):
    tid = mo.thread_idx().x
    staged = mo.shared_array(x.dtype, BLOCK)
    staged[tid] = x[tid]
    y[tid] = staged[BLOCK - 1 - tid]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32])
def test_mo_check_of_cuda_tensors(dtype):
    x = torch.arange(BLOCK, device="cuda").to(dtype)
    y = torch.zeros(BLOCK, 2, device="cuda", dtype=dtype)
    report = mo.check(double, expect=lambda x: x.astype("float64") * 2)[1, BLOCK](y[:, 1], x)
    assert report.ok, str(report)
    assert torch.equal(y[:, 1], x * 2) and not y[:, 0].any()
    assert [f.code for f in mo.check(races)[1, BLOCK](y[:, 0], x).findings] == ["C1"]


def test_arrays_in_place():
    x = torch.arange(BLOCK, device="cuda", dtype=torch.float32)
    assert mo.check(double)[1, BLOCK](x, x).ok
    assert torch.equal(x, 2 * torch.arange(BLOCK, device="cuda"))


def test_a_session_takes_launches_that_have_a_plan():
    x, y = torch.arange(BLOCK, device="cuda", dtype=torch.float32), torch.zeros(BLOCK, device="cuda")
    again = races.prepare(y, x, grid=1, block=BLOCK)
    for _ in range(3):
        races[1, BLOCK](y, x)
        again()
    with mo.checking() as reports:
        races[1, BLOCK](y, x)
        again()
    assert [[f.code for f in report.findings] for report in reports] == [["C1"], ["C1"]]
    races[1, BLOCK](y, x)
    assert len(reports) == 2


def test_named_checks_simulate_cuda_tensors(monkeypatch):
    monkeypatch.setenv("MOYE_CHECK", "race")
    x, y = torch.arange(BLOCK, device="cuda", dtype=torch.float32), torch.zeros(BLOCK, device="cuda")
    double[1, BLOCK](y, x)
    assert torch.equal(y, 2 * x)

    @mo.kernel
    def other(y, x):
        tid = mo.thread_idx().x
        staged = mo.shared_array(x.dtype, BLOCK)
        staged[tid] = x[tid]
        y[tid] = staged[BLOCK - 1 - tid]

    with pytest.raises(SimulationError, match="C1"):
        other[1, BLOCK](y, x)
