"""A missing browser, LaTeX or library skips a test and is told at the end; with TEST_REQUIRE it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

import longest
import tools


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """A machine without programs."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("TEST_REQUIRE", raising=False)
    return tmp_path


def test_a_missing_program_skips_and_says_what_to_install(bare):
    with pytest.raises(pytest.skip.Exception, match="needs chromium and chromedriver: apt-get install chromium"):
        tools.programs("browser")


def test_a_missing_program_that_is_required_fails(bare, monkeypatch):
    monkeypatch.setenv("TEST_REQUIRE", "latex")
    with pytest.raises(pytest.skip.Exception, match="needs chromium and chromedriver"):
        tools.programs("browser")
    with pytest.raises(pytest.fail.Exception, match=r"needs pdflatex: apt-get install tex.*TEST_REQUIRE=latex asks"):
        tools.programs("latex")


def test_a_missing_library(bare, monkeypatch):
    monkeypatch.setitem(tools.LIBRARIES, "no_such_library", "pip install it")
    with pytest.raises(pytest.skip.Exception, match="needs no_such_library: pip install it"):
        tools.library("no_such_library")
    monkeypatch.setenv("TEST_REQUIRE", "no_such_library, browser")
    with pytest.raises(pytest.fail.Exception, match="needs no_such_library"):
        tools.library("no_such_library")


def test_python_for_the_browser(tmp_path, monkeypatch):
    monkeypatch.setattr(tools, "PYODIDE", tmp_path)
    monkeypatch.delenv("TEST_REQUIRE", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"needs Pyodide in build/pyodide: make browser"):
        tools.pyodide()
    (tmp_path / "pyodide.asm.wasm").touch()
    tools.pyodide()
    monkeypatch.setenv("TEST_REQUIRE", "pyodide")
    with pytest.raises(pytest.skip.Exception, match=r"needs NumPy for Pyodide"):
        tools.pyodide(numpy=True)
    monkeypatch.setenv("TEST_REQUIRE", "pyodide-numpy")
    with pytest.raises(pytest.fail.Exception, match=r"needs NumPy for Pyodide in build/pyodide: make browser, where"):
        tools.pyodide(numpy=True)
    (tmp_path / "numpy-2.2.5-wasm32.whl").touch()
    tools.pyodide(numpy=True)


def test_found_programs_are_paths(bare):
    for name in ("google-chrome", "chromedriver"):
        (bare / name).write_text("#!/bin/sh\n")
        (bare / name).chmod(0o755)
    assert tools.programs("browser") == [str(bare / "google-chrome"), str(bare / "chromedriver")]


def test_what_is_required_has_a_known_name(bare, monkeypatch):
    monkeypatch.setenv("TEST_REQUIRE", "browsers")
    with pytest.raises(pytest.fail.Exception, match="names browsers; it may name browser, latex, torch, pyodide"):
        tools.programs("browser")


def test_the_last_lines_count_what_was_left_out():
    why = "Skipped: this test needs pdflatex: apt-get install it"
    assert tools.left_out([why, "Skipped: no sm_90a", why]) == [
        "NOT RUN: 2 tests or files: this test needs pdflatex: apt-get install it"]
    assert tools.left_out(["Skipped: no sm_90a"]) == []


def test_the_list_of_the_longest_tests_has_tests_that_there_are():
    """Its lines leave tests out of ``make test``: a line of a test that is gone would hide that nothing is left out."""
    root, times = Path(__file__).parents[1], longest.listed()
    places = {tuple(test.partition("[")[0].split("::")) for test in times}
    assert times and not [place for place in places if f"def {place[-1]}(" not in (root / place[0]).read_text()]


def test_shares_of_the_longest_tests_are_all_of_them(monkeypatch):
    """Each belongs to one share, and other tests to none: they always run."""
    class Item:
        def __init__(self, nodeid, marked):
            self.nodeid, self.marked = nodeid, marked

        def get_closest_marker(self, name):
            return name if self.marked else None
    items = [Item(f"tests/test_{i}.py::test[{i}]", i % 4 > 0) for i in range(200)]
    times, runs = {item.nodeid: 1 + i % 7 / 10 for i, item in enumerate(items) if item.marked and i < 190}, []
    monkeypatch.setattr(longest, "listed", lambda: times)
    for share in "123":
        monkeypatch.setenv("TEST_SHARE", f"{share}/3")
        left = longest.of_other_shares(items)
        assert all(item.marked for item in left)
        mine = [item for item in items if item.marked and item not in left]
        assert abs(sum(times.get(item.nodeid, 0) for item in mine) - sum(times.values()) / 3) < 2
        runs += mine
    assert len(runs) == len(set(runs)) == 150
    monkeypatch.setenv("TEST_SHARE", "4/3")
    with pytest.raises(pytest.UsageError, match="no share"):
        longest.of_other_shares(items)
    monkeypatch.delenv("TEST_SHARE")
    assert longest.of_other_shares(items) == []


def test_what_takes_long_is_listed(monkeypatch, tmp_path):
    monkeypatch.setattr(longest, "LIST", tmp_path / "list.txt")
    times = {"b.py::t[1 2]": longest.LONG, "a.py::t": 9.04, "c.py::t": longest.LONG / 2}
    longest.LIST.write_text(longest.text(times))
    assert longest.listed() == {"a.py::t": 9.04, "b.py::t[1 2]": longest.LONG}
    again = longest.with_skipped({"a.py::t": None, "b.py::t[1 2]": 3.0, "new.py::t": None})
    assert again == {"a.py::t": 9.04, "b.py::t[1 2]": 3.0, "new.py::t": 0.0}
