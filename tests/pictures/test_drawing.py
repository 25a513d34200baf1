"""``mo.draw``: formats, files, errors; and the notation that it reads."""

from __future__ import annotations

import subprocess
import sys

import pytest

import moye as mo
from moye.pictures.drawing import read, read_swizzle
from picture_cases import COPY, MMA


@pytest.mark.parametrize(("suffix", "format"), [(".txt", "text"), (".svg", "svg"), (".tex", "latex"), (".typ", "typst"),
                                                (".html", "html")])
def test_the_suffix_chooses_the_format(tmp_path, suffix, format):
    path = tmp_path / f"layout{suffix}"
    picture = mo.draw("(2,2)", file=path)
    assert path.read_text(encoding="utf-8") == picture.render(format)
    assert picture.format == format
    assert picture.save(tmp_path / f"again{suffix}").read_bytes() == path.read_bytes()


def test_a_format_that_is_asked_for_wins_over_the_suffix(tmp_path):
    picture = mo.draw("(2,2)", "svg", tmp_path / "layout.xml")
    assert (tmp_path / "layout.xml").read_text(encoding="utf-8") == picture.svg


def test_print_gives_the_format_asked_for():
    assert str(mo.draw("(2,2)")) == mo.draw("(2,2)").text
    assert str(mo.draw("(2,2)", "latex")) == mo.draw("(2,2)").latex
    assert repr(mo.draw("(2,2)", "svg")) == mo.draw("(2,2)").text


def test_the_title():
    assert mo.draw("(2,2)", title="mine").text.startswith("mine\n")
    assert mo.draw(COPY).sheet.title == str(COPY)
    assert mo.draw("(2,2)", title="two\nlines\x00").sheet.title == "two lines "


@pytest.mark.parametrize(("call", "message"), [
    (lambda: mo.draw(3), "there is no picture of 3"),
    (lambda: mo.draw(), "there is no picture of None"),
    (lambda: mo.draw(mo.CpAsync(mo.uint64)), "how many elements CpAsync"),
    (lambda: mo.draw("(2,2)", "png"), "no format 'png'"),
    (lambda: mo.draw("(2,2)", file="x.png"), "'x.png' ends in '.png'"),
    (lambda: mo.draw(mo.Swizzle(1, 0, 1), swizzle="1,0,1"), "goes around a layout, not around Sw<1,0,1>"),
    (lambda: mo.draw(MMA, bits=16), "banks are a matter of layouts in shared memory"),
])
def test_errors(call, message):
    with pytest.raises(mo.LayoutError, match=message):
        call()


def test_nothing_is_written_where_there_is_nothing_to_draw(tmp_path):
    with pytest.raises(mo.LayoutError):
        mo.draw(3, file=tmp_path / "x.svg")
    assert list(tmp_path.iterdir()) == []


def test_notation():
    assert read("((2,2),4):((1,8),2)") == mo.Layout.parse("((2,2),4):((1,8),2)")
    assert read(" Sw<2,0,-2> ") == mo.Swizzle(2, 0, -2)
    assert read("Sw<2,0,2> o _8 o (4,_4)") == mo.ComposedLayout.parse("Sw<2,0,2> o 8 o (4,4)")
    assert read("Sw<2,0,2> o (4,4)") == mo.ComposedLayout.parse("Sw<2,0,2> o (4,4)")
    assert read("Sw<2,0,2>o4:1") == mo.ComposedLayout.parse("Sw<2,0,2> o 4:1")
    assert read_swizzle("3, 3, 3") == read_swizzle("Sw<3,3,3>") == mo.Swizzle(3, 3, 3)


BAD = [
    # (text, the column of the caret)
    ("((2,2),4):((1,8)2)", 16), ("(4,4):(1,x)", 9), ("(4,4", 4), ("(4,4)  ", None), ("(4,4):(1,4))", 11), ("", 0),
    ("(4,,4)", 3), ("_4:x", 3), ("Sw<3,3>", 6), ("Sw<3,3,3", 8), ("Sw<3,3,3> (4,4)", 10), ("Sw<a,3,3>", 3),
    ("Sw<1,0,2> o (2,4):(4,1", 22), ("Sw<1,0,2> o 3 o (2;4)", 18), ("Sw<1,0,2> o", 11), ("x4", 0),
]


@pytest.mark.parametrize(("source", "column"), BAD, ids=str)
def test_a_caret_stands_under_the_offending_character(source, column):
    if column is None:
        read(source)
        return
    with pytest.raises(mo.LayoutError) as told:
        read(source)
    _, line, caret, hint = str(told.value).splitlines()
    line, caret = line.removeprefix("    "), caret.removeprefix("    ")
    assert source.endswith(line)
    assert caret == " " * (column - len(source) + len(line)) + "^"
    assert hint.startswith("hint: ")


@pytest.mark.parametrize(("source", "column"), [("3,3", 3), ("3,x,3", 2), ("Sw<3,3,3> o 4", 10), ("", 0)], ids=str)
def test_a_bad_swizzle_has_a_caret_too(source, column):
    with pytest.raises(mo.LayoutError) as told:
        read_swizzle(source)
    assert str(told.value).splitlines()[1:3] == [f"    {source}", f"    {' ' * column}^"]


def test_layout_parse_has_the_caret():
    with pytest.raises(mo.LayoutError) as told:
        mo.Layout.parse("(4*4)")
    assert str(told.value).splitlines()[1:3] == ["    (4*4)", "      ^"]


@pytest.mark.slow
def test_draw_is_the_function_whatever_is_imported_first():
    for first in ("import moye.pictures", "import moye.pictures.svg", "import moye; moye.Layout(2, 1)._repr_svg_()"):
        code = f"{first}\nimport moye as mo\nprint(mo.draw('2:1').sheet.title)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == "2:1\n"
