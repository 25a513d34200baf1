"""The puzzles as a Jupyter notebook: for each a statement, a picture, a cell to fill in, and one that checks it.

In: puzzles.  Out: the notebook, JSON of nbformat 4.5.  The answer's cell writes a file, which the next cell judges.

    Path("puzzles.ipynb").write_text(notebook(pages()))
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from moye.puzzles.catalogue import Page

HEAD = ("# Puzzles\n\nFill in the holes (`...`) or mend what is wrong, run the cell, then the cell below it. Kernels "
        "run in moye's simulator: no GPU is needed.")


def notebook(chosen: Sequence[Page]) -> str:
    """The text of an ``.ipynb`` file."""
    cells = [_cell("markdown", HEAD, "head")]
    chapter = ""
    for page in chosen:
        if page.chapter != chapter:
            chapter = page.chapter
            cells.append(_cell("markdown", f"## {chapter}", f"chapter-{page.number}"))
        cells += _cells(page)
    return json.dumps({"cells": cells, "metadata": {"language_info": {"name": "python"}, "kernelspec": {
        "name": "python3", "display_name": "Python 3", "language": "python"}}, "nbformat": 4, "nbformat_minor": 5},
        indent=1, ensure_ascii=False) + "\n"


def _cells(page: Page) -> Iterator[dict[str, Any]]:
    yield _cell("markdown", f"### {page.number}. {page.title}\n\n{page.statement}", f"{page.name}-statement")
    if page.puzzle.picture is not None:
        yield _cell("code", f"from moye.puzzles import pages\n\npages()[{page.number - 1}].picture",
                    f"{page.name}-picture")
    yield _cell("code", f"%%writefile {page.name}.py\n{page.code}", f"{page.name}-answer")
    yield _cell("code", f"from moye.puzzles import check\n\nprint(check({page.number}, \"{page.name}.py\"))",
                f"{page.name}-check")


def _cell(kind: str, text: str, name: str) -> dict[str, Any]:
    lines = text.splitlines(keepends=True)
    cell: dict[str, Any] = {"cell_type": kind, "id": name[:64].replace("_", "-"), "metadata": {}, "source": lines}
    return {**cell, "execution_count": None, "outputs": []} if kind == "code" else cell
