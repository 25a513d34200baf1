"""What of benchmarks/rows_moves.py needs no GPU: each kind of case runs, is right, and counts its bytes."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import rows_moves  # noqa: E402

SMALL = [(rows_moves.transposed, (50, 30)), (rows_moves.swiglu, (5, 32, True)), (rows_moves.swiglu_backward, (5, 40)),
         (rows_moves.rope, (2, 9, 3, 16)), (rows_moves.reduced, ("argmax", 1, 20, 30)), (rows_moves.scan, (5, 40)),
         (rows_moves.largest, (3, 300, 8)), (rows_moves.scattered, (30, 16, 20))]


@pytest.mark.skipif(torch.cuda.is_available(), reason="the benchmark itself compares on a GPU")
@pytest.mark.parametrize(("make", "arguments"), SMALL, ids=lambda x: getattr(x, "__name__", ""))
def test_cases(make, arguments):
    torch.manual_seed(0)
    case = make(*arguments)
    assert case.error() < 5e-3 and case.moved > 0
    assert case.peer(*case.arguments) is not None


def test_bytes():
    assert rows_moves.transposed(50, 30).moved == 2 * 2 * 50 * 30
    assert rows_moves.swiglu(4, 8).moved == 3 * 2 * 32
    assert rows_moves.gather(30, 16, 20).moved == 2 * 2 * 20 * 16
