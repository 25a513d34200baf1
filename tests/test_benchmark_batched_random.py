"""What of benchmarks/batched_random.py needs no GPU: what it draws, that calls run and agree, its lines and command."""

from __future__ import annotations

import argparse

import pytest

torch = pytest.importorskip("torch")

import batched_random  # noqa: E402
import gemm_shallow_batched  # noqa: E402
from batched_random import Drawn  # noqa: E402
from moye.kernels.gemm.shallow.config import options  # noqa: E402
from random_calls import rows_of  # noqa: E402


def test_draws():
    found = batched_random.draw(7, 300)
    assert found == batched_random.draw(7, 300) != batched_random.draw(8, 300)
    assert {one.kind for one in found} == set(batched_random.DRAWN)
    assert {one.kind for one in batched_random.draw(7, 20, exact=True)} == {"f32"}
    assert {one.orders for one in found} == {"KK", "KM", "MK", "MM"}
    assert {one.lying for one in found} == {"apart", "rows"}
    assert sum(one.shared for one in found) > 10 and min(one.batches for one in found) <= 4
    assert sum(min(one.M, one.N) == 1 for one in found) > 10 and sum(one.K % 8 != 0 for one in found) > 50
    assert all(one.work <= batched_random.WORK for one in found)


@pytest.mark.skipif(torch.cuda.is_available(), reason="the benchmark itself compares on a GPU")
@pytest.mark.parametrize("one", [Drawn("bf16", 3, 40, 24, 32, "KK", "apart", False),
                                 Drawn("f16", 2, 5, 33, 17, "MM", "rows", True),
                                 Drawn("tf32", 2, 1, 9, 40, "KM", "rows", False),
                                 Drawn("f32", 2, 33, 9, 40, "MK", "apart", False)], ids=str)
def test_calls(one):
    """Both sides write all of their results, and agree."""
    torch.manual_seed(0)
    runs, C, D, _ = batched_random.runs_of(one)
    for run in runs.values():
        run()
    assert C.shape == (one.batches, one.M, one.N)
    assert float((C.float() - D.float()).norm() / D.float().norm()) < batched_random.CLOSE


@pytest.mark.skipif(torch.cuda.is_available(), reason="the benchmark itself compares on a GPU")
@pytest.mark.parametrize("one", [Drawn("bf16", 3, 40, 24, 32, "KK", "apart", False),
                                 Drawn("f16", 2, 19, 33, 17, "MM", "rows", True)], ids=str)
def test_every_configuration_of_few_k(one):
    """What gemm_shallow_batched.py measures agrees with torch, and what is wrong would be told."""
    torch.manual_seed(0)
    runs, size, C, D = gemm_shallow_batched.works(one)
    assert {"bmm", "gemm", *options(size)} == set(runs) and len(runs) > 6
    assert gemm_shallow_batched.wrong(runs, C, D) == []
    assert gemm_shallow_batched.wrong({**runs, "nothing": lambda: None}, C, D) == ["nothing"]


def test_more_k_is_not_for_it():
    assert gemm_shallow_batched.works(Drawn("tf32", 2, 8, 8, 130, "KK", "apart", False)) is None


def test_lines():
    row = {"case": "bf16 3x40x24x32 KK apart", "ratio": 0.75, "moye": 40.0, "bmm": 30.0, "TFLOP/s": 12.3, "error": 1e-3}
    assert batched_random.line(row).startswith("0.750  bf16 3x40x24x32 KK apart ")
    assert "moye 40.0  bmm 30.0 us  12 TFLOP/s  off 1.0e-03" in batched_random.line(row)
    assert batched_random.distribution("bf16", [0.5, 2.0]) == \
        "bf16: 2 calls, geometric mean 1.000, below 1.0 1, below 0.9 1, below 0.75 1, least 0.50"


@pytest.mark.skipif(torch.cuda.is_available(), reason="it would measure")
def test_no_gpu(monkeypatch):
    monkeypatch.setattr("sys.argv", ["batched_random.py", "1", "2"])
    with pytest.raises(SystemExit, match="torch sees none"):
        batched_random.main()


def test_calls_are_compiled_in_parts_or_measured(tmp_path):
    """What the benchmarks of drawn calls share."""
    options, seen = argparse.Namespace(compile=[1, 2], seed=1, rounds=3, csv=None), []
    assert rows_of(options, [1, 2, 3, 4], seen.append, lambda one, rounds: {}) == [] and seen == [2, 4]
    options.compile, options.csv = None, str(tmp_path / "rows.csv")
    assert rows_of(options, [1, 2], seen.append, lambda one, rounds: {"x": one * rounds}) == [{"x": 3}, {"x": 6}]
    assert (tmp_path / "rows.csv").read_text().split() == ["x", "3", "6"] and seen == [2, 4]
