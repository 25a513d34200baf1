"""What of benchmarks/rows_norms.py needs no GPU: each kind of case runs, is right, and counts its bytes."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import rows_norms  # noqa: E402

SMALL = [(rows_norms.rms_norm, (5, 40)), (rows_norms.layer_norm, (5, 40)), (rows_norms.residual, (5, 40)),
         (rows_norms.quantised, (5, 256)), (rows_norms.quantised, (5, 256, 128)), (rows_norms.backward, (20, 48)),
         (rows_norms.backward, (20, 48, True))]


@pytest.mark.skipif(torch.cuda.is_available(), reason="the benchmark itself compares on a GPU")
@pytest.mark.parametrize(("make", "arguments"), SMALL, ids=lambda x: getattr(x, "__name__", ""))
def test_cases(make, arguments):
    torch.manual_seed(0)
    case = make(*arguments)
    assert case.error() < 1e-2 and case.moved > 0
    assert case.peer(*case.arguments) is not None


def test_bytes():
    assert rows_norms.rms_norm(4, 8).moved == 2 * (2 * 32 + 8)
    assert rows_norms.residual(4, 8).moved == 2 * (4 * 32 + 8)
    assert rows_norms.backward(4, 8).moved == 3 * 2 * 32
