"""The puzzles: solutions pass, files that are handed out fail as they say, and what is written of them is current."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import moye as mo
from moye import cli, puzzles
from moye.puzzles import catalogue, notebook, progress
from moye.testing import Judge

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))
import make_puzzles

PAGES = puzzles.pages()
named = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@pytest.fixture(scope="module")
def judge():
    with Judge() as one:
        yield one


@named
def test_the_solution_passes(judge, page):
    verdict = page.check(page.solution, judge)
    assert verdict.ok, str(verdict)


@named
def test_what_is_handed_out_fails_as_it_says(judge, page):
    verdict = page.check(page.holes, judge)
    assert verdict.status == page.puzzle.given, str(verdict)


@named
def test_a_puzzle_is_whole(page):
    assert page.title and page.statement and len(page.puzzle.hints) in (2, 3)
    assert page.holes != page.solution and "#?" not in page.holes + page.solution
    assert catalogue.MARK not in page.holes + page.solution
    assert page.text_picture().strip()


def test_the_page_and_its_pictures_are_current():
    assert make_puzzles.PAGE.read_text() == make_puzzles.text(), "python docs/make_puzzles.py"
    for page in PAGES:
        path = make_puzzles.PICTURES / f"{page.name}.svg"
        assert path.read_text() == make_puzzles.picture(page), f"{path.name}: python docs/make_puzzles.py"
    assert len(list(make_puzzles.PICTURES.glob("*.svg"))) == len(PAGES)


def run(*args):
    """The exit status of ``moye puzzles ...``."""
    try:
        cli.main(["puzzles", *map(str, args)])
    except SystemExit as left:
        return left.code or 0
    return 0


def test_the_way_through_a_puzzle(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run() == 0 and f"0 of {len(PAGES)} solved" in capsys.readouterr().out
    assert run("start", 2) == 0 and "A view that leaves gaps" in capsys.readouterr().out
    path = Path("puzzles/p02_every_second.py")
    assert path.read_text() == PAGES[1].holes
    assert run("check", path) == 1 and "holes" in capsys.readouterr().out
    path.write_text(path.read_text().replace("view = ...", "view = mo.make_layout((4, 4), (2, 8))"))
    assert run("check", path) == 1
    assert "(0, 1) lies at 8, but element (0, 2) of the matrix lies at 16" in capsys.readouterr().out
    assert run("start", 2) == 0 and "is there already" in capsys.readouterr().out
    hints = []
    for _ in range(3):
        assert run("hint", 2) == 0
        hints.append(capsys.readouterr().out)
    assert hints[0] == hints[2] != hints[1] and PAGES[1].puzzle.hints[0] in hints[0]
    assert run("solution", 2) == 0
    path.write_text(capsys.readouterr().out)
    assert run("check", path) == 0 and "passed" in capsys.readouterr().out
    assert run("list") == 0 and f"1 of {len(PAGES)} solved. Next: moye puzzles start 1" in capsys.readouterr().out
    kept = json.loads(Path("puzzles/progress.json").read_text())["2"]
    assert kept == {"status": "passed", "attempts": 3, "solved": True, "hints": 3}


@pytest.mark.parametrize(("args", "said"), [
    (("check", "p99_none.py"), "there is no puzzle 99"), (("check", "mine.py"), "does not say which puzzle"),
    (("check", "p02_gone.py"), "there is no file p02_gone.py"), (("show", 0), "numbered 1 to")])
def test_what_is_refused(tmp_path, monkeypatch, args, said):
    monkeypatch.chdir(tmp_path)
    assert said in str(run(*args))


def test_a_file_that_is_no_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("p02_mine.py").write_bytes(b"\xff\xfe\xff")
    assert "cannot read p02_mine.py" in str(run("check", "p02_mine.py"))


def test_a_spoiled_record_is_told(tmp_path):
    (tmp_path / "progress.json").write_text("[]")
    with pytest.raises(mo.MoyeError, match="no record of puzzles"):
        progress.Progress(tmp_path)


def test_the_notebook_is_one(tmp_path, monkeypatch):
    """Its cells are those of nbformat 4.5; the answer's cell writes the file that the next one judges."""
    monkeypatch.chdir(tmp_path)
    assert run("notebook") == 0
    told = json.loads(Path("puzzles.ipynb").read_text())
    assert (told["nbformat"], told["nbformat_minor"]) == (4, 5)
    cells = told["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    answers = [cell for cell in cells if cell["source"] and cell["source"][0].startswith("%%writefile ")]
    assert [cell["source"][0].split()[1] for cell in answers] == [f"{page.name}.py" for page in PAGES]
    for cell in cells:
        assert cell["cell_type"] in ("code", "markdown")
        assert (cell["cell_type"] == "code") == ("outputs" in cell) == ("execution_count" in cell)
    one = json.loads(notebook.notebook(PAGES[:1]))["cells"]
    assert "".join(one[-2]["source"]).partition("\n")[2] == PAGES[0].code


@pytest.mark.parametrize("number", [2, 15, 28, 38])
def test_without_processes_the_verdicts_are_the_same(number):
    """As in a browser."""
    page = PAGES[number - 1]
    with Judge(inside=True) as here:
        assert page.check(page.solution, here).ok
        assert page.check(page.holes, here).status == page.puzzle.given


def test_an_answer_in_python(tmp_path):
    assert puzzles.check(1, PAGES[0].solution).ok
    (tmp_path / "answer.py").write_text(PAGES[0].holes)
    assert puzzles.check(1, tmp_path / "answer.py").status == "holes"
    with pytest.raises(mo.ArgumentError, match="cannot read"):
        puzzles.check(1, tmp_path / "gone.py")
