"""``moye draw``, in process and as a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

import moye as mo
from moye import cli
from moye.pictures.picture import FORMATS


def process(*args):
    return subprocess.run([sys.executable, "-m", "moye.cli", "draw", *args], capture_output=True, check=False,
                          encoding="utf-8")


@pytest.fixture
def drawn(capsys):
    def run(*args):
        with pytest.raises(SystemExit) as left:
            cli.main(["draw", *args])
        assert left.value.code == 0, (left.value.code, capsys.readouterr())
        return capsys.readouterr().out
    return run


def test_the_issues_example_as_a_process():
    done = process("((2,2),4):((1,8),2)")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == mo.draw("((2,2),4):((1,8),2)").text + "\n"
    assert "(1,1) │  9 │ 11 │ 13 │ 15 │" in done.stdout


OPTIONS = [
    (["(8,8):(8,1)", "--swizzle", "3,0,3"], lambda: mo.draw("(8,8):(8,1)", swizzle="3,0,3")),
    (["(8,8):(8,1)", "--swizzle", "Sw<3,0,3>"], lambda: mo.draw("(8,8):(8,1)", swizzle="3,0,3")),
    (["Sw<1,1,1>"], lambda: mo.draw(mo.Swizzle(1, 1, 1))),
    (["Sw<1,0,2> o (2,4)"], lambda: mo.draw("Sw<1,0,2> o (2,4)")),
    (["--thr", "(4,2)", "--val", "(1,2)"], lambda: mo.draw(thr="(4,2)", val="(1,2)")),
    (["(8,8)", "--thr", "(4,2)", "--bits", "16"], lambda: mo.draw("(8,8)", thr="(4,2)", bits=16)),
    (["(8,8)", "--banks", "--bits", "16"], lambda: mo.draw("(8,8)", banks=True, bits=16)),
    (["(8,8)", "--title", "mine", "--max-cells", "4"], lambda: mo.draw("(8,8)", title="mine", max_cells=4)),
]


@pytest.mark.parametrize(("args", "picture"), OPTIONS, ids=lambda x: " ".join(x) if isinstance(x, list) else "")
def test_options(drawn, args, picture):
    assert drawn(*args) == picture().render("text")


@pytest.mark.parametrize("format", FORMATS)
def test_formats_and_files(drawn, tmp_path, format):
    expected = mo.draw("(2,2)").render(format)
    assert drawn("(2,2)", "--format", format) == expected
    path = tmp_path / f"layout{FORMATS[format][0]}"
    assert drawn("(2,2)", "-o", str(path)) == ""
    assert path.read_text(encoding="utf-8") == expected
    other = tmp_path / "layout.out"
    assert drawn("(2,2)", "-o", str(other), "--format", format) == ""
    assert other.read_text(encoding="utf-8") == expected


BAD = [
    (["((2,2),4):((1,8)2)"], "((2,2),4):((1,8)2)", 16),
    (["(4,4):(4,1", "-o", "x.svg"], "(4,4):(4,1", 10),
    (["(4,4)", "--swizzle", "3,x,3"], "3,x,3", 2),
    (["(4,4)", "--thr", "(2;2)"], "(2;2)", 2),
    (["(4,4)", "--thr", "2", "--val", "2,"], "2,", 1),
    (["Sw<3,3,3 o (4"], "Sw<3,3,3 o (4", 9),
]


@pytest.mark.parametrize(("args", "source", "column"), BAD, ids=lambda x: " ".join(x) if isinstance(x, list) else "")
def test_bad_notation_gets_a_caret_and_status_1(args, source, column, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as left:
        cli.main(["draw", *args])
    told = f"    {source}\n    {' ' * column}^\n"
    assert told in str(left.value.code), "sys.exit(text) prints it on stderr and leaves with status 1"
    assert list(tmp_path.iterdir()) == []


def test_bad_notation_as_a_process():
    done = process("((2,2),4):((1,8),2")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[1:3] == ["    ((2,2),4):((1,8),2", "                      ^"]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("args", "told"), [
    (["(4,4)", "-o", "x.png"], "'x.png' ends in '.png', which is no format"),
    (["(4,4)", "--format", "png"], "no format 'png'"),
    (["(4,4)", "--banks"], "the width of an element is not given"),
    (["(4,4)", "--thr", "3"], "does not divide (4,4)"),
    (["(4,4)", "-o", "there/is/no/such/folder.svg"], "cannot write there/is/no/such/folder.svg: No such file"),
])
def test_other_errors_are_one_sentence(args, told):
    with pytest.raises(SystemExit) as left:
        cli.main(["draw", *args])
    assert told in str(left.value.code)


def test_nothing_to_draw_is_a_usage_error():
    done = process()
    assert done.returncode == 2
    assert "--thr" in done.stderr
