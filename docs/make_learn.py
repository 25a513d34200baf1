"""The chapters of docs/learn: one script each, from which its page and its notebook are made.

    python docs/make_learn.py                   # run every chapter, and write docs/learn/*.md and docs/learn/images
    python docs/make_learn.py 04                # those whose names begin so
    python docs/make_learn.py --notebooks DIR   # write DIR/*.ipynb, with nothing run

A script has cells, as editors know them: ``# %% [markdown]`` begins text in comments, ``# %%`` code.  In the page, a
cell of code is followed by what it printed.  If its last line is an expression, its value is shown as in a notebook:
as a picture if it can be drawn, else as text.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "learn"
MARK = re.compile(r"^# %%(.*)$")


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a script: its text without the mark, and the line on which that text begins."""

    markdown: bool
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Page:
    """What a chapter becomes: Markdown, and its pictures by file name."""

    markdown: str
    images: dict[str, str]


def chapters() -> list[Path]:
    """The scripts, in their order."""
    return sorted(FOLDER.glob("[0-9][0-9]_*.py"))


def cells(script: str) -> list[Cell]:
    """The cells of a script; text before the first mark is refused, and so is code in a cell of text."""
    found: list[tuple[bool, int, list[str]]] = []
    for number, line in enumerate(script.splitlines(), 1):
        if mark := MARK.match(line):
            found.append((mark[1].strip() == "[markdown]", number + 1, []))
        elif found:
            found[-1][2].append(line)
        elif line.strip():
            raise ValueError(f"line {number} stands before the first cell: {line}")
    return [_cell(*each) for each in found if any(each[2])]


def _cell(markdown: bool, line: int, lines: list[str]) -> Cell:
    if markdown:
        for offset, text in enumerate(lines):
            if text and not text.startswith("#"):
                raise ValueError(f"line {line + offset} is no comment, and stands in a cell of text: {text}")
        lines = [text.removeprefix("#").removeprefix(" ") for text in lines]
    while lines and not lines[0].strip():
        lines, line = lines[1:], line + 1
    return Cell(markdown, "\n".join(lines).rstrip(), line)


def page(path: Path) -> Page:
    """Run a chapter, in a namespace of its own, and write down what its cells show."""
    namespace: dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
    parts: list[str] = []
    images: dict[str, str] = {}
    for cell in cells(path.read_text()):
        if cell.markdown:
            parts.append(cell.text)
            continue
        parts.append(f"```python\n{cell.text}\n```")
        printed, value = _run(cell, path, namespace)
        if picture := _picture(value):
            name = f"{path.stem}_{len(images) + 1}.svg"
            images[name] = picture
        elif value is not None:
            printed += f"{value}\n"
        if printed.strip():
            parts.append(f"```text\n{_plain(printed)}\n```")
        if picture:
            parts.append(f"![{_words_for(value)}](images/{name})")
    parts.append(f"<!-- docs/make_learn.py makes this page of {path.name}. -->")
    return Page("\n\n".join(parts) + "\n", images)


def _run(cell: Cell, path: Path, namespace: dict[str, Any]) -> tuple[str, Any]:
    """What a cell prints, and the value of its last line if that is an expression."""
    tree = ast.increment_lineno(ast.parse(cell.text), cell.line - 1)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    out, value = io.StringIO(), None
    with contextlib.redirect_stdout(out):
        exec(compile(tree, str(path), "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), str(path), "eval"), namespace)
    return out.getvalue(), value


def _picture(value: object) -> str | None:
    show = getattr(value, "_repr_svg_", None)
    return show() if show else None


def _words_for(value: object) -> str:
    """The alternative text of a picture: what is drawn, in one line."""
    title = getattr(getattr(value, "sheet", None), "title", "")
    words = title or str(value).splitlines()[0]
    return re.sub(r"[\[\]]", "", words)


def _plain(printed: str) -> str:
    """Paths as seen from the repository, no trailing spaces, no blank lines around."""
    return "\n".join(line.rstrip() for line in printed.replace(f"{ROOT}/", "").strip("\n").splitlines())


def notebook(path: Path) -> str:
    """The chapter as a notebook (nbformat 4.5) of which no cell has run."""
    made = []
    for number, cell in enumerate(cells(path.read_text())):
        common = {"id": f"{path.stem[:2]}-{number}", "metadata": {}, "source": cell.text.splitlines(keepends=True)}
        made.append({"cell_type": "markdown", **common} if cell.markdown else
                    {"cell_type": "code", "execution_count": None, "outputs": [], **common})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return json.dumps({"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5},
                      indent=1, ensure_ascii=False) + "\n"


def write(path: Path) -> None:
    """Write the page of a chapter and its pictures; pictures that it no longer has go."""
    made = page(path)
    images = FOLDER / "images"
    images.mkdir(exist_ok=True)
    for old in images.glob(f"{path.stem}_*.svg"):
        old.unlink()
    for name, svg in made.images.items():
        (images / name).write_text(svg)
    path.with_suffix(".md").write_text(made.markdown)


def main(arguments: list[str]) -> None:
    """As the text at the top says."""
    if arguments[:1] == ["--notebooks"]:
        folder = Path(arguments[1])
        folder.mkdir(parents=True, exist_ok=True)
        for path in chapters():
            (folder / f"{path.stem}.ipynb").write_text(notebook(path))
        return
    os.chdir(ROOT)
    for path in chapters():
        if not arguments or path.stem.startswith(tuple(arguments)):
            write(path)


if __name__ == "__main__":
    main(sys.argv[1:])
