"""Golden files of every kind of picture in every format.

``UPDATE_GOLDEN=1 pytest tests/pictures/test_golden.py`` writes them anew; look at what changed before you keep it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moye.pictures.picture import FORMATS
from picture_cases import CASES

GOLDEN = Path(__file__).parents[1] / "golden" / "pictures"


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", CASES)
def test_golden(name, format):
    path = GOLDEN / f"{name}{FORMATS[format][0]}"
    rendered = CASES[name]().render(format)
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(rendered, encoding="utf-8")
    assert rendered == path.read_text(encoding="utf-8"), f"{path.name} differs: UPDATE_GOLDEN=1, and look at it"


def test_there_is_no_other_golden_file():
    wanted = {f"{name}{suffix}" for name in CASES for suffix, _ in FORMATS.values()}
    assert {path.name for path in GOLDEN.iterdir()} == wanted


def test_attributes_are_the_files_contents():
    for name in CASES:
        picture = CASES[name]()
        assert picture.render("text") == picture.text + "\n"
        assert [picture.render(format) for format in ("svg", "latex", "typst", "html")] == [
            picture.svg, picture.latex, picture.typst, picture.html]
