"""What of benchmarks/grouped_random.py needs no GPU: what it draws, that calls run and agree, its lines and command."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import grouped_random  # noqa: E402
from grouped_random import Drawn, row_of  # noqa: E402


def test_draws():
    found = grouped_random.draw(7, 300)
    assert found == grouped_random.draw(7, 300) != grouped_random.draw(8, 300)
    assert [one.way for one in found] == ["stacked", "separate"] * 150
    experts = [len(one.heights) for one in found]
    assert min(experts) == 4 and max(experts) > 100
    assert sum(0 in one.heights for one in found) > 40 and all(one.rows > 0 for one in found)
    assert sum((one.N, one.K) in grouped_random.LAYERS for one in found) > 100
    assert sum(one.N % 8 != 0 and one.K % 8 != 0 for one in found) > 10
    assert all(one.work <= grouped_random.WORK for one in found)
    assert max(max(one.heights) / (one.rows / len(one.heights)) for one in found) > 10


@pytest.mark.skipif(torch.cuda.is_available(), reason="the benchmark itself compares on a GPU")
@pytest.mark.parametrize("one", [Drawn("stacked", (40, 0, 3), 24, 32), Drawn("separate", (40, 0, 3), 24, 32),
                                 Drawn("stacked", (0, 5, 130, 1), 17, 19)], ids=str)
def test_calls(one):
    """Both sides write all of their results, and agree."""
    torch.manual_seed(0)
    runs, C, D = grouped_random.runs_of(one)
    runs = grouped_random.taken(runs)
    assert {"moye", "mm"} <= set(runs) and not (one.way == "separate" and "grouped" in runs)
    assert float((C.float() - D.float()).norm() / D.float().norm()) < grouped_random.CLOSE
    if "grouped" in runs:
        assert torch.allclose(runs["grouped"]().float(), D.float(), rtol=0.02, atol=0.1)


def test_what_torch_refuses_is_left_out():
    def refused():
        raise RuntimeError("strides should be multiples of 16 bytes")
    assert list(grouped_random.taken({"moye": bool, "mm": bool, "grouped": refused})) == ["moye", "mm"]
    with pytest.raises(RuntimeError, match="strides"):
        grouped_random.taken({"moye": refused})


ONE = Drawn("stacked", (100, 0, 28), 4096, 7168)


def test_lines():
    row = row_of(ONE, {"moye": 40.0, "grouped": 30.0, "mm": 80.0}, 1e-3)
    assert row["of torch"] == 0.75 and row["of mm"] == 2.0
    assert row["TFLOP/s"] == pytest.approx(2 * 128 * 4096 * 7168 / 40e-6 / 1e12)
    told = grouped_random.line(row)
    assert told.startswith("0.750  stacked 3 experts, 128 rows (to 100, 1 of none) x4096x7168 ")
    assert "moye 40.0  grouped 30.0  mm 80.0 us" in told
    other = row_of(Drawn("separate", (100, 28), 64, 64), {"moye": 40.0, "mm": 80.0}, 1e-3)
    assert "grouped" not in grouped_random.line(other) and other["of torch"] == 2.0
    assert grouped_random.distributions([row, row, other]) == [
        "stacked, beside torch._grouped_mm: 2 calls; of torch 0.750, below 1.0 2, below 0.9 2, below 0.75 0, least "
        "0.75; of mm 2.000, below 1.0 0, below 0.9 0, below 0.75 0, least 2.00",
        "separate, beside torch.mm: 1 calls; of torch 2.000, below 1.0 0, below 0.9 0, below 0.75 0, least 2.00; "
        "of mm 2.000, below 1.0 0, below 0.9 0, below 0.75 0, least 2.00"]


def test_the_choice_of_lists_knows_which_have_rows():
    stacked, separate = (grouped_random.problem_of(Drawn(way, (40, 0, 3, 21), 64, 72)) for way in grouped_random.WAYS)
    assert (stacked.batches, stacked.M, separate.batches, separate.M) == (4, 16, 3, 22)
    assert stacked.lines == (16, 16) and (stacked.N, stacked.K) == (64, 72)


def test_tiles_are_told(capsys):
    """How much longer the choices took, and where another tile gains most."""
    tile = dict(zip(grouped_random.TILE, (128, 192, 4, "pingpong", 2, 16), strict=True))
    calls = [[{"case": "a", "us": 10.0}, {"case": "a", "us": 10.0, **tile}],
             [{"case": "b", "us": 12.0}, {"case": "b", "us": 20.0, **tile},
              {"case": "b", "us": 10.0, **tile, "bM": 64}]]
    grouped_random.tell_tiles(calls, 1)
    mean, worst = capsys.readouterr().out.splitlines()
    assert mean == "choice over the best: 10.0% more in the mean"
    assert worst.split() == ["+20.0%", "b", "12.0", "10.0", "us", "64", "192", "4", "pingpong", "2", "16"]


def test_disturbed_measurements_do_not_count():
    """Short calls that took much longer than the model says; long ones do."""
    pytest.importorskip("sklearn")
    from grouped_choice_fit import undisturbed
    modelled = [0.0, 0.0, math.log(3)]
    assert undisturbed(np.array(modelled), np.array([10.0, 16.0, 40.0])) == [0, 2]
    assert undisturbed(np.array(modelled), np.array([300.0, 900.0, 900.0])) == [0, 1, 2]
    assert undisturbed(np.array([]), np.array([])) == []


def test_the_command(monkeypatch, tmp_path, capsys):
    """What it draws is measured, told and written; a result that is off is told, and its exit status."""
    asked = []

    def measured(one, rounds):
        asked.append((one, rounds))
        return row_of(one, {"moye": 4.0, "mm": 8.0}, math.nan if len(asked) == 3 else 1e-3)
    monkeypatch.setattr(grouped_random, "measured", measured)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    path = tmp_path / "found.csv"
    monkeypatch.setattr("sys.argv", ["grouped_random.py", "4", "11", "--rounds", "2", "--csv", str(path)])
    assert grouped_random.main() == 1
    told = capsys.readouterr().out
    assert [one for one, _ in asked] == grouped_random.draw(4, 11) and {rounds for _, rounds in asked} == {2}
    assert "stacked, beside torch.mm: 6 calls" in told and told.count("off: ") == 1
    assert len(path.read_text().splitlines()) == 12


@pytest.mark.skipif(torch.cuda.is_available(), reason="it runs where there is one")
def test_without_a_gpu_it_says_so(monkeypatch):
    monkeypatch.setattr("sys.argv", ["grouped_random.py", "4", "11"])
    with pytest.raises(SystemExit, match=r"grouped_random\.py measures on a GPU, and torch sees none"):
        grouped_random.main()
