"""What of benchmarks/rows_plans.py needs no GPU: its plans cover their rows, and each kind of case is right by one."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import rows_plans  # noqa: E402


def test_plans_cover_their_rows():
    for _, _, columns, plan in rows_plans.drawn_up():
        if plan is not None:
            each = plan.lanes * plan.cluster
            assert plan.full * each * 8 <= columns <= plan.rounds * each * 8 and plan.threads * plan.resident <= 2048


@pytest.mark.skipif(torch.cuda.is_available(), reason="the benchmark itself compares on a GPU")
@pytest.mark.parametrize("make", [make for make, _ in rows_plans.PLANS], ids=lambda make: make.__name__)
def test_cases(make):
    torch.manual_seed(0)
    case = make(3, 512, rows_plans.plan_of(512, 64, 1))
    assert case.error() < 1e-2 and case.moved > 0
