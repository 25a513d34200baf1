"""What of benchmarks/rows_softmax.py needs no GPU: each kind of case runs, is right, and counts its bytes."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import rows_softmax  # noqa: E402

SMALL = [(rows_softmax.softmax, (5, 300)), (rows_softmax.log_softmax, (5, 40)), (rows_softmax.causal, (2, 24)),
         (rows_softmax.softmax_backward, (5, 40)), (rows_softmax.cross_entropy, (5, 40)), (rows_softmax.both, (5, 40)),
         (rows_softmax.backward, (5, 40))]


@pytest.mark.skipif(torch.cuda.is_available(), reason="the benchmark itself compares on a GPU")
@pytest.mark.parametrize(("make", "arguments"), SMALL, ids=lambda x: getattr(x, "__name__", ""))
def test_cases(make, arguments):
    torch.manual_seed(0)
    case = make(*arguments)
    assert case.error() < 8e-3 and case.moved > 0
    assert case.peer(*case.arguments) is not None


def test_bytes():
    assert rows_softmax.softmax(4, 8).moved == rows_softmax.both(4, 8).moved == 2 * 2 * 32
    assert rows_softmax.cross_entropy(4, 8).moved == 2 * 32
    assert rows_softmax.softmax_backward(4, 8).moved == 3 * 2 * 32
