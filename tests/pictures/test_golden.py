"""Golden files of every kind of picture in every format.

``UPDATE_GOLDEN=1 pytest tests/pictures/test_golden.py`` writes them anew; look at what changed before you keep it.  One
page is kept whole; of the others page.css and page.js, which they all have in common, are left out.
"""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

import pytest

from moye.pictures.picture import FORMATS
from picture_cases import CASES

GOLDEN = Path(__file__).parents[1] / "golden" / "pictures"
WHOLE = "layout"


def without_shared_parts(text):
    """A page with the names of its style and its script for what they hold."""
    for part in ("page.css", "page.js"):
        content = files("moye.pictures").joinpath(part).read_text(encoding="utf-8")
        assert text.count(content) == 1
        text = text.replace(content, f"({part})\n")
    return text


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", CASES)
def test_golden(name, format):
    path = GOLDEN / f"{name}{FORMATS[format][0]}"
    rendered = CASES[name]().render(format)
    if format == "html" and name != WHOLE:
        rendered = without_shared_parts(rendered)
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
