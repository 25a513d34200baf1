"""What of benchmarks/rows_random.py needs no GPU: what it draws, and that each kind of case runs at small extents."""

from __future__ import annotations

from functools import partial

import pytest

torch = pytest.importorskip("torch")

import rows_random  # noqa: E402

MAKERS = [(family, i) for family, makers in rows_random.FAMILIES.items() for i in range(len(makers))]


def test_draws():
    found, again = (rows_random.draw(7, 200) for _ in range(2))
    assert [one.make.keywords for one in found] == [one.make.keywords for one in again]
    assert {one.family for one in found} == set(rows_random.FAMILIES)
    some = [one.make.keywords for one in found if one.family not in ("embedding", "top k")]
    least, most = rows_random.ELEMENTS
    assert all(least <= x["rows"] * x["columns"] <= most for x in some)
    assert sum(x["columns"] % 128 == 0 for x in some) > 40 and sum(x["columns"] % 8 != 0 for x in some) > 30
    assert max(x["columns"] for x in some) > 65536 and min(x["rows"] for x in some) < 8


def test_few_rows():
    found, again = (rows_random.draw(7, 100, most=rows_random.FEW) for _ in range(2))
    assert [one.make.keywords for one in found] == [one.make.keywords for one in again]
    assert {one.family for one in found} == set(rows_random.FAMILIES)
    rows = [one.make.keywords["rows"] for one in found]
    assert min(rows) == 1 and 40 < max(rows) <= rows_random.FEW and sum(n < 8 for n in rows) > 30
    assert min(one.make.keywords["columns"] for one in found) < 100


def test_what_is_compiled_ahead(monkeypatch):
    """moye's call once, and torch.compile's if it is asked for."""
    done = []
    monkeypatch.setattr(rows_random, "compiled_peer", lambda told: lambda: done.append(told.name))
    one = rows_random.Drawn("scans", partial(rows_random.rows_moves.scan, rows=2, columns=8))
    rows_random.run_once(one, compiled=False)
    assert done == []
    rows_random.run_once(one, compiled=True)
    assert done == ["cumsum along axis 1 2x8"]


def test_long_rows():
    found, again = (rows_random.draw_long(7, 80) for _ in range(2))
    assert [one.make.keywords for one in found] == [one.make.keywords for one in again]
    assert {one.family for one in found} == set(rows_random.LONG)
    for x in (one.make.keywords for one in found):
        assert 16300 < x["columns"] <= rows_random.LONGEST and 1 << 23 < x["rows"] * x["columns"] < 1 << 28
    for step, least in ((128, 20), (8, 45)):
        assert least < sum(one.make.keywords["columns"] % step == 0 for one in found) < 70


@pytest.mark.skipif(torch.cuda.is_available(), reason="the benchmark itself compares on a GPU")
@pytest.mark.parametrize(("family", "i"), MAKERS)
def test_cases(family, i):
    torch.manual_seed(0)
    make, more = rows_random.FAMILIES[family][i], {"top k": {"k": 5}, "embedding": {"count": 9}}.get(family, {})
    case = partial(make, rows=5, columns=40, **more)()
    assert case.error() < rows_random.CLOSE and case.moved > 0


def test_lines():
    row = {"family": "scans", "case": "cumsum", "MB": 2.0, "moye": 4.0, "copy": 3.0, "torch": 8.0,
           "compile": float("nan"), "of copy": 0.75, "of torch": 2.0, "of compile": float("nan"), "error": 1e-3}
    assert "0.750" in rows_random.line(row) and "compile" not in rows_random.line(row)
    assert rows_random.distribution("scans", [row, row]) == (
        "scans: 2 calls; of copy 0.750, below 0.9 2, least 0.75; of torch 2.000, below 0.9 0, least 2.00")


def test_the_command(monkeypatch, tmp_path, capsys):
    """What it draws is measured, told and written; a result that is off is told, and its exit status."""
    asked = []

    def measured(one, rounds, compiled):
        asked.append((one.family, rounds, compiled))
        return {"family": one.family, "case": f"case {len(asked)}", "MB": 1.0, "moye": 4.0, "copy": 3.0, "torch": 8.0,
                "compile": float("nan"), "of copy": 0.75, "of torch": 2.0, "of compile": float("nan"),
                "error": 0.5 if len(asked) == 3 else 1e-3}
    monkeypatch.setattr(rows_random, "measured", measured)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    path = tmp_path / "found.csv"
    monkeypatch.setattr("sys.argv", ["rows_random.py", "4", "11", "--rounds", "2", "--csv", str(path)])
    assert rows_random.main() == 1
    told = capsys.readouterr().out
    assert [x for x, _, _ in asked] == [one.family for one in rows_random.draw(4, 11)] and asked[0][1:] == (2, False)
    assert "norms: 2 calls" in told and told.count("off: ") == 1 and "case 3" in told.partition("off: ")[2]
    assert len(path.read_text().splitlines()) == 12
