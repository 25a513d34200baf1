"""docs/learn: each page is what its script shows when it runs, and each notebook has the cells of its script."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

import tools

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("make_learn", ROOT / "docs" / "make_learn.py")
make_learn = sys.modules["make_learn"] = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(make_learn)
CHAPTERS = make_learn.chapters()
SCRIPT = '''# %% [markdown]
# # A title
#
# Words.

# %%
import moye as mo

print("said")
mo.make_layout((2, 2))

# %%
1 + 1
'''


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_the_page_is_what_the_script_shows(path, monkeypatch):
    monkeypatch.chdir(ROOT)
    if "import torch" in path.read_text():
        tools.library("torch")
    made = make_learn.page(path)
    assert path.with_suffix(".md").read_text() == made.markdown, f"python docs/make_learn.py {path.stem[:2]}"
    assert {each.name: each.read_text() for each in (path.parent / "images").glob(f"{path.stem}_*.svg")} == made.images


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_the_notebook_has_the_cells_of_the_script(path):
    made = json.loads(make_learn.notebook(path))
    cells = make_learn.cells(path.read_text())
    assert [("".join(cell["source"]), cell["cell_type"]) for cell in made["cells"]] == [
        (cell.text, "markdown" if cell.markdown else "code") for cell in cells]
    assert len({cell["id"] for cell in made["cells"]}) == len(cells)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", cell["id"]) for cell in made["cells"])


def kernel_of(path, name):
    """A kernel of a file as it is written, under one name; with ``C += A * B`` where the caller may choose."""
    tree = next(node for node in ast.parse(path.read_text()).body if getattr(node, "name", "") == name)
    tree.name = "kernel"
    tree.args.args = [each for each in tree.args.args if each.arg != "four"]
    for node in ast.walk(tree):
        if isinstance(node, ast.For):
            node.body = [each for line in node.body for each in (
                line.orelse if isinstance(line, ast.If) and ast.unparse(line.test) == "four" else [line])]
    return ast.unparse(tree)


@pytest.mark.parametrize(("name", "example"), [
    ("async_kernel", "04_matmul_async"), ("overlapped_kernel", "06_matmul_overlapped"),
    ("double_buffered_kernel", "09_matmul_double_buffered")])
def test_the_kernels_of_the_manual_are_those_of_the_examples(name, example):
    """The examples are the manual's kernels, in moye's words."""
    assert kernel_of(make_learn.FOLDER / "07_pipelining.py", name) == kernel_of(
        ROOT / "examples" / f"{example}.py", "matmul_kernel")


def test_each_chapter_names_its_puzzles():
    """The sections of docs/puzzles.md are in the order of the chapters."""
    sections = re.split(r"^## ", (ROOT / "docs" / "puzzles.md").read_text(), flags=re.MULTILINE)[1:]
    numbers = [[int(number) for number in re.findall(r"^### (\d+)\.", text, re.MULTILINE)] for text in sections]
    assert len(sections) == len(CHAPTERS)
    for path, (first, *rest) in zip(CHAPTERS, numbers, strict=True):
        named = f"[Puzzles {first} to {rest[-1]}]" if rest else f"[Puzzle {first}]"
        assert named in path.with_suffix(".md").read_text() and f"`moye puzzles start {first}`" in path.read_text()


def test_there_are_pages_for_chapters_alone():
    assert {path.stem for path in CHAPTERS} == {path.stem for path in make_learn.FOLDER.glob("[0-9]*.md")}


def test_a_cell_shows_what_it_prints_and_what_it_ends_with(tmp_path):
    path = tmp_path / "99_example.py"
    path.write_text(SCRIPT)
    made = make_learn.page(path)
    assert "# A title\n\nWords.\n" in made.markdown
    assert "```text\nsaid\n```\n\n![(2,2):(1,2)](images/99_example_1.svg)" in made.markdown
    assert "```text\n2\n```" in made.markdown
    assert list(made.images) == ["99_example_1.svg"] and "<svg" in made.images["99_example_1.svg"]


def test_a_failing_cell_names_its_line(tmp_path):
    path = tmp_path / "99_example.py"
    path.write_text(SCRIPT.replace("1 + 1", "1 // 0"))
    with pytest.raises(ZeroDivisionError) as caught:
        make_learn.page(path)
    assert caught.traceback[-1].lineno + 1 == SCRIPT.splitlines().index("1 + 1") + 1


@pytest.mark.parametrize(("script", "why"), [("x = 1\n# %%\n", "before the first cell"),
                                             ("# %% [markdown]\nx = 1\n", "no comment")])
def test_what_is_no_chapter_is_refused(script, why):
    with pytest.raises(ValueError, match=why):
        make_learn.cells(script)
