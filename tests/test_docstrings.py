"""Every ``>>>`` example in a docstring of ``src/moye`` runs, and prints what it says.

An example sees the names of its module, the public names of moye, and ``mo``.  One that needs more is a sketch: it
stands in the docstring as indented code without ``>>>``.
"""

from __future__ import annotations

import ast
import doctest
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import moye as mo

SRC = Path(__file__).parents[1] / "src"
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")


def docstrings(text: str) -> Iterator[tuple[int, str]]:
    """The line and the text of each docstring that has an example."""
    for node in ast.walk(ast.parse(text)):
        docstring = ast.get_docstring(node) if isinstance(node, DOCUMENTED) else None
        if docstring and ">>>" in docstring:
            yield node.body[0].lineno, docstring


FOUND = {f"{module_name(path)}:{line}": (path, line, docstring) for path in sorted(SRC.rglob("*.py"))
         for line, docstring in docstrings(path.read_text())}


def outcome(name: str, text: str, names: dict[str, object]) -> tuple[doctest.TestResults, str]:
    said: list[str] = []
    test = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    return doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.append), "".join(said)


@pytest.mark.parametrize("name", FOUND)
def test_the_examples_of_a_docstring_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, _, docstring = FOUND[name]
    public = {word: getattr(mo, word) for word in mo.__all__}
    module = importlib.import_module(module_name(path))
    results, said = outcome(name, docstring, {**public, **vars(module), "mo": mo})
    assert results.attempted and not results.failed, said


def test_an_example_that_prints_something_else_is_found():
    assert outcome("right", ">>> 1 + 1\n2\n", {})[0].failed == 0
    assert outcome("wrong", ">>> 1 + 1\n3\n", {})[0].failed == 1
    assert outcome("not self-contained", ">>> there_is_no_such_name\n", {})[0].failed == 1
