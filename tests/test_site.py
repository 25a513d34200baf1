"""The site of docs/: every public name has a place in the reference, every page is in the navigation, and pages are
turned into what Python-Markdown reads.  `make site` builds it, with warnings as errors."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

import moye as mo
from moye.sim.findings.codes import CODES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def loaded(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


reference = loaded("site_reference")
hooks = loaded("site_hooks")


@pytest.fixture(scope="module")
def pages():
    return reference.pages()


def anchors(text):
    return re.findall(r"\{ #(mo\.[\w.]+) \}", text)


def test_every_public_name_has_one_place_in_the_reference(pages):
    found = [name for text in pages.values() for name in anchors(text)]
    assert len(found) == len(set(found))
    wanted = {f"mo.{name}" for name in mo.__all__ if name != "__version__"}
    assert wanted <= set(found), sorted(wanted - set(found))


def test_the_list_of_names_leads_to_their_places(pages):
    for page, name in re.findall(r"\]\((\w+\.md)#(mo\.\w+)\)", pages["index.md"]):
        assert name in anchors(pages[page]), name
    assert len(re.findall(r"#mo\.\w+", pages["index.md"])) == len(mo.__all__) - 1


def test_names_are_shown_with_their_parameters_and_text(pages):
    text = pages["kernels.md"]
    assert "mo.check(\n    kernel: Kernel,\n    *,\n" in text and ") -> Checked" in text
    assert mo.check.__doc__.splitlines()[0] in text
    assert "mo.abs(" in pages["math.md"] and "`int32`" in pages["dtypes.md"]


def test_every_class_of_defects_leads_to_its_section(pages):
    page = hooks.anchored((DOCS / "checker.md").read_text())
    for code in CODES:
        assert page.count(f'<a id="{code.lower()}"></a>') == 1, code
        assert f"[{code}](../checker.md#{code.lower()})" in pages["codes.md"]


def test_every_operation_of_tensor_cores_is_listed(pages):
    assert all(f"| `{name}` |" in pages["operations.md"] for name in mo.mma.ALL)


def test_every_page_is_once_in_the_navigation():
    text = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    sections = re.findall(r"^  - (\w+):\n((?:      - .*\n)*)", text, re.MULTILINE)
    config = {"nav": [{title: re.findall(r"- (\S+)", pages)} for title, pages in sections]}
    assert [title for title, _ in sections] == ["Start", "Learn", "Guides", "Reference", "Kernels", "Internals"]
    listed = re.findall(r"'([\w/-]+\.md)'", str(hooks.on_config(config)["nav"]))
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert sorted(set(listed)) == sorted(listed)
    assert pages <= set(listed) and set(listed) - pages <= set(hooks.generated())


def test_links_to_files_outside_of_docs_lead_to_their_pages():
    def page(markdown):
        return hooks.relinked(markdown, DOCS / "learn", "learn/05_sgemm.md")

    assert page("[a](../../examples/03_matmul_tiled.py)") == "[a](../examples/03_matmul_tiled.md)\n"
    assert page("[a](../../CONTRIBUTING.md#set-up)") == "[a](../contributing.md#set-up)\n"
    assert page("[a](../layouts.md#x)") == "[a](../layouts.md#x)\n"
    assert page("`k[g, b](*args)` [a](https://example.org)") == "`k[g, b](*args)` [a](https://example.org)\n"
    assert page("```\n[a](../../CONTRIBUTING.md)\n```") == "```\n[a](../../CONTRIBUTING.md)\n```\n"


def test_lists_are_indented_as_python_markdown_wants_them():
    assert hooks.indented("1. a\n\n   ```py\n   x\n   ```\n2. b") == "1. a\n\n    ```py\n    x\n    ```\n2. b"
    assert hooks.indented("* a\n  more\n  - inner\n\nb\n  text") == "* a\n    more\n    - inner\n\nb\n  text"


def test_sessions_in_docstrings_become_code():
    def function():
        """Adds.

        >>> 1 + 1
        2

        After.
        """

    assert reference.words(function) == "Adds.\n\n\n```pycon\n>>> 1 + 1\n2\n```\n\nAfter."
