"""docs/architecture.md: its rooms are those of the house, its figure is current, and what its walks name is there."""

from __future__ import annotations

import ast
import importlib.util
import re
import textwrap
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "moye"
PAGE = ROOT / "docs" / "architecture.md"
STEP = re.compile(r"`([\w/]+\.py)`\s+`([\w.]+)`")
QUOTE = re.compile(r"^ *```py\n *# (\S+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


@cache
def loaded(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def defined(path: Path) -> set[str]:
    """The classes, functions and methods of a module, methods with their class; and its constants."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        found |= {target.id for target in targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
            found |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return found


def steps(text: str) -> list[tuple[str, str]]:
    """(file, name) of all that the walks pass."""
    return STEP.findall(text)


def quotes(text: str) -> list[tuple[str, str]]:
    """(file, lines) of what the page quotes from the sources."""
    return [(path.removeprefix("src/moye/"), textwrap.dedent(lines).strip("\n")) for path, lines in QUOTE.findall(text)]


def quoted(path: str, lines: str, text: str) -> bool:
    """Whether the text of a file has these lines, indented by more or less."""
    return textwrap.dedent(lines) in textwrap.dedent(text) or any(
        textwrap.indent(lines, " " * depth) in text for depth in (4, 8))


@pytest.mark.parametrize(("path", "name"), sorted(set(steps(PAGE.read_text()))))
def test_what_the_walks_name_is_there(path, name):
    assert name in defined(SRC / path)


def test_the_walks_are_walks():
    """The sections that follow one thing each name enough files."""
    for section in PAGE.read_text().split("\n## "):
        if " way to " in section.split("\n")[0]:
            assert len({path for path, _ in steps(section)}) >= 7, section.split("\n")[0]


def test_a_step_that_is_not_there_is_seen():
    assert steps("1. `runtime/kernel.py` `Kernel.gone` and\n`sim/x.py`\n`f`.") == [("runtime/kernel.py", "Kernel.gone"),
                                                                             ("sim/x.py", "f")]
    kernel = defined(SRC / "runtime/kernel.py")
    assert "Kernel.gone" not in kernel and "Kernel.launch" in kernel


@pytest.mark.parametrize(("path", "lines"), quotes(PAGE.read_text()), ids=lambda x: x.split("\n")[0][:40])
def test_what_the_page_quotes_is_so(path, lines):
    assert quoted(path, lines, (SRC / path).read_text())


def test_a_quotation_that_has_changed_is_seen():
    assert not quoted("a.py", "x = 1\ny = 2", "x = 1\ny = 3\n") and quoted("a.py", "x = 1", "if c:\n    x = 1\n")


def test_the_table_has_every_room_in_order():
    table = re.findall(r"^\| `([\w.]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert table == loaded("tests/test_architecture.py").ROOMS


def test_the_types_of_the_table_are_in_their_rooms():
    for room, types in re.findall(r"^\| `([\w.]+)` \|[^|]*\|([^|]*)\|$", PAGE.read_text(), re.MULTILINE):
        place = SRC / room.replace(".", "/")
        files = [*place.glob("*.py")] if place.is_dir() else [place.with_suffix(".py")]
        for name in re.findall(r"`(\w+)`", types):
            assert any(name in defined(file) for file in files), f"{room} has no {name}"


@pytest.mark.slow
def test_the_figure_is_current():
    maker = loaded("docs/make_architecture.py")
    assert maker.FIGURE.read_text() == maker.svg(), "run docs/make_architecture.py"


def test_the_figure_leaves_out_what_follows_and_nothing_else():
    maker = loaded("docs/make_architecture.py")
    edges = {"a": {"b", "c"}, "b": {"c"}, "c": set(), "d": {"a", "c"}}
    assert maker.reduced(edges) == {"a": {"b"}, "b": {"c"}, "c": set(), "d": {"a"}}
    assert maker.levels(edges) == [["d"], ["a"], ["b"], ["c"]]
    house = maker.drawn()
    kept = maker.reduced(house)
    assert all(maker.reachable(kept, box) == maker.reachable(house, box) for box in house)
