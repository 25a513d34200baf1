"""Files that docs, docstrings and comments name are there, so that a reader who looks for one finds it.

A name counts by its end: ``access.py`` and ``operations/access.py`` are both names of one file of the simulator.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
PLAIN = re.compile(r"(?<![\w/.*<>{}-])(?:\.\./|\./)*[\w-][\w./-]*\.(?:py|pyi|md|toml|h)(?![\w*])")
QUOTED = re.compile(r"(?<!`)`{1,2}(?!`)((?:\.\./)*[\w.-]+(?:/[\w.-]+)*/?)`{1,2}")
ENDS = (".py", ".pyi", ".md", ".toml", ".h", ".json", ".svg", ".cu", ".sh", "/")
OTHERS = {"script.py"}                                  # a user's own
MADE = ("dist/", "out/", "puzzles/")                                # folders that commands make
TOP = ("benchmarks", "docs", "examples", "src", "tests", ".github")


def repository() -> list[str]:
    """The files of the repository."""
    return [str(path.relative_to(ROOT)) for top in sorted(ROOT.iterdir()) if top.name in TOP or top.is_file()
            for path in ([top] if top.is_file() else top.rglob("*")) if path.is_file()]


def python_prose(text: str) -> Iterator[tuple[str, int]]:
    """The docstrings and comments of a module, with the line where each begins."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string, token.start[0]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value, node.lineno


def prose(name: str, text: str) -> Iterator[tuple[str, int]]:
    if name.endswith(".md"):
        yield BLOCK.sub(lambda found: "\n" * found[0].count("\n"), text), 1
    elif name.endswith(".py"):
        yield from python_prose(text)
    else:
        yield from ((line, number) for number, line in enumerate(text.splitlines(), 1) if line.startswith("#"))


def named(text: str) -> Iterator[tuple[str, int]]:
    """The files that a text names, with the line of each in it."""
    for found in PLAIN.finditer(text):
        yield found[0], text[: found.start()].count("\n")
    for found in QUOTED.finditer(text):
        if found[1].endswith(ENDS) and "/" in found[1]:
            yield found[1], text[: found.start()].count("\n")


def missing(name: str, text: str, known: set[str]) -> list[str]:
    """What a file says of files that are not there."""
    if all(_known(reference, known) for reference, _ in named(text)):
        return []                                       # most files: nothing to split into prose and code
    told = {(reference, start + line) for words, start in prose(name, text) for reference, line in named(words)}
    return [f"{name}:{line}: {reference}" for reference, line in sorted(told) if not _known(reference, known)]


def _known(reference: str, known: set[str]) -> bool:
    return reference in OTHERS or reference.startswith(MADE) or \
        re.sub(r"^(\.\.?/)+", "", reference).rstrip("/") in known


def names_of(files: list[str]) -> set[str]:
    """What files and their folders may be called: their paths from any folder above."""
    parted = {tuple(file.split("/")[:last]) for file in files for last in range(1, file.count("/") + 2)}
    return {"/".join(parts[first:]) for parts in parted for first in range(len(parts))}


def test_files_that_texts_name_are_there():
    files = repository()
    known = names_of(files)
    texts = [name for name in files if name.endswith((".md", ".py", "Makefile", ".toml")) and "/found/" not in name]
    found = [line for name in texts for line in missing(name, (ROOT / name).read_text(), known)]
    assert not found, "\n".join(found)


GONE = {
    "a docstring": ("a.py", '"""Rewriting is ``gone.py``."""\n', "a.py:1: gone.py"),
    "a second line": ("a.py", 'x = 1\n"""Law.\n\n(see gone.py)."""\n', "a.py:4: gone.py"),
    "a comment": ("a.py", "x = 1  # as NOWHERE.md, section 4, says\n", "a.py:1: NOWHERE.md"),
    "a page": ("docs/a.md", "Text.\n\nSee `../elsewhere/PLAN.md`.\n", "docs/a.md:3: ../elsewhere/PLAN.md"),
    "a page, plain": ("docs/a.md", "See CHECKER.md, section 2.\n", "docs/a.md:1: CHECKER.md"),
    "a file in the wrong folder": ("a.py", "# sim/verify.py\n", "a.py:1: sim/verify.py"),
    "a folder": ("docs/a.md", "They lie in `tests/nowhere/`.\n", "docs/a.md:1: tests/nowhere/"),
    "a file in quotes": ("docs/a.md", "See `docs/images/gone.svg`.\n", "docs/a.md:1: docs/images/gone.svg"),
}
HERE = {
    "from any folder above": ("a.py", "# verify.py, ir/verify.py, moye/ir/verify.py and src/moye/ir/verify.py\n"),
    "a folder": ("docs/a.md", "They lie in `src/moye/ir/`, or `ir/`.\n"),
    "the code of a block": ("docs/a.md", "```sh\npython train.py\n```\n"),
    "a reader's own": ("docs/a.md", "moye check script.py\n"),
    "what a command makes": ("docs/a.md", "It writes `out/a.svg`.\n"),
    "a string that is no docstring": ("a.py", 'x = "gone.py"\n'),
}


@pytest.mark.parametrize("case", GONE, ids=str)
def test_a_file_that_is_not_there_is_found(case):
    name, text, expected = GONE[case]
    assert missing(name, text, names_of(["src/moye/ir/verify.py", "docs/a.md"])) == [expected]


@pytest.mark.parametrize("case", HERE, ids=str)
def test_a_file_that_is_there_is_not(case):
    name, text = HERE[case]
    assert missing(name, text, names_of(["src/moye/ir/verify.py", "docs/a.md"])) == []
