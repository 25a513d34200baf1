"""The images of docs/pictures.md are what docs/make_pictures.py draws, and all of them are shown."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def script():
    spec = importlib.util.spec_from_file_location("make_pictures", DOCS / "make_pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PICTURES = script().PICTURES


@pytest.mark.parametrize("name", PICTURES)
def test_the_image_is_up_to_date(name):
    there = (DOCS / "images" / f"{name}.svg").read_text(encoding="utf-8")
    assert PICTURES[name]().svg == there, "make pictures"


def test_the_page_shows_every_image_and_there_is_no_other():
    shown = re.findall(r"\(images/([^)]*)\)", (DOCS / "pictures.md").read_text())
    assert sorted(shown) == sorted(f"{name}.svg" for name in PICTURES)
    pages = "".join(page.read_text() for page in DOCS.glob("*.md"))
    assert {path.name for path in (DOCS / "images").iterdir()} == set(re.findall(r"\(images/([^)]*)\)", pages))


def test_the_script_writes_them(tmp_path, monkeypatch, capsys):
    module = script()
    monkeypatch.setattr(module, "IMAGES", tmp_path / "images")
    module.make()
    assert len(capsys.readouterr().out.splitlines()) == len(PICTURES) == len(list((tmp_path / "images").iterdir()))
