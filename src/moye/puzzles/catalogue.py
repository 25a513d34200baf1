"""The book of puzzles: ``pages()``, by number; what a file of it says to whom.

In: the files of ``book/``.  Out: ``Page``: title, statement, holes to fill, solution, ``Puzzle``.

    page = pages()[6]; print(page.statement); print(page.holes); page.puzzle.hints

A file is a program that solves its puzzle.  A line that ends with ``#? text`` is ``text`` in what is handed out, and
``#? -`` is no line there.  Below the line ``MARK`` it says how it is judged, which is not handed out.
"""

from __future__ import annotations

import ast
import re
import runpy
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from moye.errors import ArgumentError
from moye.puzzles.puzzle import Puzzle
from moye.testing.judging import Judge
from moye.testing.verdicts import Verdict

BOOK = Path(__file__).parent / "book"
MARK = "# --- how it is judged ---"
CHAPTERS = (("Layouts, seen", 1), ("A copy", 6), ("Shared memory and banks", 10), ("Races", 15),
            ("A matrix product in steps", 19), ("Tensor cores", 24), ("Asynchronous copies", 27),
            ("TMA and mbarriers", 30), ("Warpgroups and roles", 33), ("Attention in steps", 35), ("Clusters", 38),
            ("All in one kernel", 40))
"""The chapters and the number of the first puzzle of each."""
_SHOWN = 24
"""The lines of a timeline that a terminal gets."""
_HOLE = re.compile(r"^(?P<indent>\s*)(?P<code>.*?)\s*#\? ?(?P<hole>.*)$")


@dataclass(frozen=True)
class Page:
    """One puzzle of the book."""

    number: int
    path: Path

    @property
    def name(self) -> str:
        """The name of its file, without the suffix."""
        return self.path.stem

    @property
    def chapter(self) -> str:
        return next(title for title, first in reversed(CHAPTERS) if first <= self.number)

    @property
    def title(self) -> str:
        return self._told()[0]

    @property
    def statement(self) -> str:
        """Markdown, without the title."""
        return self._told()[1]

    def _told(self) -> tuple[str, str]:
        text = ast.get_docstring(ast.parse(self._upper())) or ""
        head, _, rest = text.partition("\n")
        return head.lstrip("# ").strip(), rest.strip()

    @property
    def holes(self) -> str:
        """The file that is handed out."""
        return "".join(f"{line}\n" for line in self._lines(handed_out=True))

    @property
    def solution(self) -> str:
        return "".join(f"{line}\n" for line in self._lines(handed_out=False))

    @property
    def code(self) -> str:
        """What is handed out, without the statement."""
        lines = self.holes.splitlines()
        first = ast.parse(self.holes).body[0]
        return "\n".join(lines[first.end_lineno:]).strip() + "\n"

    @property
    def puzzle(self) -> Puzzle:
        found = _run(self.path)["puzzle"]
        assert isinstance(found, Puzzle), f"{self.name} defines no puzzle"
        return found

    @property
    def picture(self) -> Any:
        """What helps to see it: a Picture or a Timeline; None if there is none."""
        draw = self.puzzle.picture
        return None if draw is None else draw()

    def text_picture(self) -> str:
        """The picture for a terminal."""
        drawn = self.picture
        if hasattr(drawn, "render"):
            return f"{drawn.render('text').rstrip()}\n"
        lines = str(drawn.text()).rstrip().splitlines()
        return "\n".join([*lines[:_SHOWN], *(["..."] if len(lines) > _SHOWN else [])]) + "\n"

    def _upper(self) -> str:
        return self.path.read_text(encoding="utf-8").partition(MARK)[0].rstrip() + "\n"

    def _lines(self, *, handed_out: bool) -> Iterator[str]:
        for line in self._upper().splitlines():
            found = _HOLE.match(line)
            if found is None:
                yield line
            elif not handed_out:
                if found["code"]:
                    yield f"{found['indent']}{found['code']}"
            elif found["hole"] != "-":
                yield f"{found['indent']}{found['hole']}"

    def check(self, text: str, judge: Judge | None = None) -> Verdict:
        """The verdict on an answer."""
        if judge is not None:
            return self.puzzle.judge(text, judge)
        with Judge(inside=sys.platform == "emscripten") as one:         # a browser has no processes
            return self.puzzle.judge(text, one)


@cache
def _run(path: Path) -> dict[str, object]:
    return runpy.run_path(str(path), run_name=f"moye_{path.stem}")


@cache
def pages() -> tuple[Page, ...]:
    """All puzzles in order."""
    return tuple(Page(int(path.stem[1:3]), path) for path in sorted(BOOK.glob("p[0-9][0-9]_*.py")))


def page(number: int) -> Page:
    """The puzzle of a number; ArgumentError if there is none."""
    for one in pages():
        if one.number == number:
            return one
    raise ArgumentError(f"there is no puzzle {number!r}: they are numbered 1 to {len(pages())}")


def number_of(path: Path) -> int:
    """The puzzle that a file is an answer to, by its name; ArgumentError if the name says none."""
    found = re.match(r"p?(\d{1,2})(?!\d)", path.stem)
    if found is None:
        raise ArgumentError(f"{path.name} does not say which puzzle it answers",
                            hint="moye puzzles start 7 writes p07_...py")
    return int(found[1])


def check(number: int, source: str | Path) -> Verdict:
    """Judge an answer to a puzzle: a file, by its Path or its name, or the text itself."""
    if isinstance(source, str) and "\n" not in source and source.endswith(".py"):
        source = Path(source)
    if not isinstance(source, (str, Path)):
        raise ArgumentError(f"check: source is a {type(source).__name__}, and must be Python text or a file")
    return page(number).check(text_of(source) if isinstance(source, Path) else source)


def text_of(path: Path) -> str:
    """What a file holds; ArgumentError if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"cannot read {path}: {error}") from None
