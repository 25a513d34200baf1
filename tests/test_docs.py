"""The code blocks of README.md and docs/ run, in order, one namespace per page; typed output is the real output."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import linecache
import re
from pathlib import Path

import pytest

import tools

ROOT = Path(__file__).parents[1]
LEARN = ROOT / "docs" / "learn"
"""The chapters are run by test_learn.py, as the scripts that they are made of."""
LINKED = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in LINKED if page.parent != LEARN]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page):
    """(language, text, line number) of each fenced block."""
    text = page.read_text()
    for match in BLOCK.finditer(text):
        yield match[1], match[2], text[: match.start()].count("\n") + 2


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page(page, monkeypatch):
    """A ``text`` block right after a ``python`` block is what that block prints."""
    monkeypatch.chdir(ROOT)
    if "import torch" in page.read_text():
        tools.library("torch")
    namespace, printed = {}, None
    for number, (language, text, line) in enumerate(blocks(page)):
        if language == "text" and printed is not None:
            assert printed.replace(f"{ROOT}/", "").strip() == text.strip(), f"{page.name}:{line}"
        printed = run(page, number, text, line, namespace) if language == "python" else None


def run(page, number, text, line, namespace):
    name = f"{page.stem}_{number}.py"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            exec(compile(text, name, "exec"), namespace)
        except Exception as error:
            raise AssertionError(f"the block at {page.name}:{line} failed: {error}") from error
    return out.getvalue()


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    prose = re.sub(r"`[^`\n]*`", "code", BLOCK.sub("", page.read_text()))
    for target in re.findall(r"\]\(([^)#]+)\)", prose):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_readme_fits_one_screen():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 60


def test_the_page_of_examples_has_them_all():
    """Those with a fault have a page of their own."""
    told = set(re.findall(r"examples/(\w+)\.py\)", (ROOT / "docs" / "examples.md").read_text()))
    assert told == {p.stem for p in (ROOT / "examples").glob("*.py")}


def test_the_page_of_the_checker_is_up_to_date():
    spec = importlib.util.spec_from_file_location("make_checker", ROOT / "docs" / "make_checker.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = module.PAGE.read_text()
    assert module.filled(page) == page, "make pictures writes it anew"
