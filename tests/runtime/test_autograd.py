"""Launches that write torch tensors: version counters move on, and what autograd records is not written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import moye as mo  # noqa: E402
from moye.errors import ArgumentError, SimulationError  # noqa: E402
from moye.kernels import gemm  # noqa: E402
from moye.runtime import autograd  # noqa: E402


@dataclass(frozen=True)
class Pair:
    source: Any
    target: Any


@mo.kernel
def double(x):
    i = mo.thread_idx().x
    x[i] = x[i] * 2.0


@mo.kernel
def copied(y, x):
    y[mo.thread_idx().x] = x[mo.thread_idx().x]


@mo.kernel
def of_parts(pair, both):
    i = mo.thread_idx().x
    pair.target[i] = pair.source[i] + both[0][i]
    mo.atomic_add(both[1], (i,), 1.0)


@mo.kernel
def beyond(x):
    x[mo.thread_idx().x] = 1.0


def tensors(count=2, **options):
    return [torch.ones(32, **options) for _ in range(count)]


def versions(*found):
    return [x._version for x in found]


def test_what_is_written_is_marked_and_what_is_read_is_not():
    y, x = tensors()
    copied[1, 32](y, x)
    assert versions(y, x) == [1, 0]
    copied[1, 32](y, x)
    assert versions(y, x) == [2, 0]


def test_the_parts_of_containers():
    a, b, c, d = tensors(4)
    of_parts[1, 32](Pair(a, b), (c, d))
    assert versions(a, b, c, d) == [0, 1, 0, 1]


def test_views_share_a_counter():
    x, = tensors(1)
    half = x[:16]
    copied[1, 16](half, torch.zeros(16))
    assert versions(x, half, x.detach()) == [1, 1, 1] and not x[:16].any() and x[16:].all()


@pytest.mark.parametrize("launch", [
    lambda x: mo.check(double)[1, 32](x),
    lambda x: double.prepare(x, grid=1, block=32)(),
    lambda x: double.launch(x, grid=1, block=32),
], ids=["check", "prepare", "launch"])
def test_every_way_to_launch(launch, monkeypatch):
    x, = tensors(1)
    launch(x)
    assert (x._version, x[3].item()) == (1, 2.0)
    with mo.checking():
        launch(x)
    assert (x._version, x[3].item()) == (2, 4.0)
    monkeypatch.setenv("MOYE_CHECK", "0")
    launch(x)
    assert (x._version, x[3].item()) == (3, 8.0)


def test_what_writes_nothing_marks_nothing():
    x, = tensors(1)
    double[0, 32](x)
    double.compile(x, block=32, arch="sm_90a")
    with mo.compile_only("sm_90a", trace_only=True):
        double[1, 32](x)
    assert x._version == 0


def test_a_launch_that_a_violation_ends_has_written():
    x = torch.ones(32)
    with pytest.raises(SimulationError):
        beyond[1, 64](x)
    assert x._version == 1


def test_autograd_notices():
    w = torch.ones(32, requires_grad=True)
    y = w * 1.0
    z = (y * y).sum()
    with torch.no_grad():
        double[1, 32](y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


@pytest.mark.parametrize("make", [
    lambda: torch.ones(32, requires_grad=True),
    lambda: torch.nn.Parameter(torch.ones(32)),
    lambda: torch.ones(32, requires_grad=True) * 1.0,
    lambda: torch.ones(64, requires_grad=True)[::2],
], ids=["leaf", "parameter", "computed", "view"])
@pytest.mark.parametrize("launch", [
    lambda x: double[1, 32](x),
    lambda x: mo.check(double)[1, 32](x),
    lambda x: double.prepare(x, grid=1, block=32),
    lambda x: of_parts[1, 32](Pair(torch.ones(32), x), tensors()),
], ids=["launch", "check", "prepare", "part"])
def test_what_autograd_records_is_not_written(make, launch):
    x = make()
    with pytest.raises(ArgumentError, match="requires grad, and autograd would not know") as error:
        launch(x)
    assert "no_grad" in error.value.hint and x._version == 0 and (x == 1).all()
    with torch.no_grad():
        launch(x)


def test_a_prepared_launch_looks_again():
    x, = tensors(1)
    prepared = double.prepare(x, grid=1, block=32)
    x.requires_grad_()
    with pytest.raises(ArgumentError, match="a leaf that requires grad"):
        prepared()
    with torch.no_grad():
        prepared()
    prepared.update(x=(other := torch.ones(32)))
    prepared()
    assert (x._version, x[0].item()) == (1, 2.0) and (other._version, other[0].item()) == (1, 2.0)


def test_what_is_read_may_require_grad():
    y, x = torch.zeros(32), torch.ones(32, requires_grad=True)
    copied[1, 32](y, x)
    copied[1, 32](y, x * 3.0)
    assert (y == 3).all()


def test_the_ways_that_the_hint_names():
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = torch.empty_like(x)
            copied[1, 32](y, x)
            double[1, 32](y)
            return y

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    x = torch.ones(32, requires_grad=True)
    Doubled.apply(x).sum().backward()
    assert (x.grad == 2).all()
    with torch.no_grad():
        double[1, 32](x)
    assert x[0].item() == 2.0


def test_inference_tensors_have_no_counter():
    with torch.inference_mode():
        x = torch.ones(32)
        double[1, 32](x)
    double[1, 32](x)
    assert (x == 4).all()


def test_products_too():
    A, B = torch.ones(8, 8), torch.ones(8, 8)
    with pytest.raises(ArgumentError, match="requires grad"):
        gemm(A, B, torch.zeros(8, 8, requires_grad=True))
    for dtype in (torch.float32, torch.float16):
        C = torch.zeros(8, 8, dtype=dtype)
        gemm(A.to(dtype), B.to(dtype), C)
        assert C._version and (C == 8).all()


def test_the_public_way_marks_too():
    x, scalar = torch.ones(4, 4).T, torch.ones(())
    autograd._write_nothing((x, scalar, x[:0]))
    assert (x._version, scalar._version) == (2, 1)
    autograd._bumper()((x, scalar))
    assert (x._version, scalar._version) == (3, 2)
