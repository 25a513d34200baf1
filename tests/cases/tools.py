"""Programs and libraries that some tests need: found, or the test skips and the run says so at its end.

``TEST_REQUIRE=browser,latex,torch,pyodide`` makes the absence of what it names a failure: ``.ci/run`` sets it, so that
no test is left out there without a word.
"""

from __future__ import annotations

import importlib
import os
import shutil
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

# what the tests call it -> (one of these programs for each need, how to install them)
NEEDS = {
    "browser": ((("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"), ("chromedriver",)),
                "apt-get install chromium chromium-driver"),
    "latex": ((("pdflatex",),), "apt-get install texlive-latex-base texlive-pictures"),
}
LIBRARIES = {"torch": "pip install torch"}
PYODIDE = Path(__file__).parents[2] / "build" / "pyodide"
# Python for the browser, and NumPy for that Python -> a file of it
BROWSER = {"pyodide": "pyodide.asm.wasm", "pyodide-numpy": "numpy-*.whl"}
MARK = "this test needs"


def required(tool: str) -> bool:
    """Whether the environment says that a tool must be there."""
    names = {name.strip() for name in os.environ.get("TEST_REQUIRE", "").split(",")} - {""}
    known = [*NEEDS, *LIBRARIES, *BROWSER]
    if unknown := names - set(known):
        pytest.fail(f"TEST_REQUIRE names {', '.join(sorted(unknown))}; it may name {', '.join(known)}")
    return tool in names


def _absent(tool: str, missing: str, install: str) -> None:
    """Skip, or fail where the environment requires the tool."""
    why = f"{MARK} {missing}: {install}"
    if required(tool):
        pytest.fail(f"{why}; TEST_REQUIRE={os.environ['TEST_REQUIRE']} asks for it")
    pytest.skip(why, allow_module_level=True)


def programs(tool: str) -> list[str]:
    """The paths of a tool's programs."""
    alternatives, install = NEEDS[tool]
    found = [next(filter(None, map(shutil.which, names)), None) for names in alternatives]
    missing = [names[0] for names, path in zip(alternatives, found, strict=True) if path is None]
    if missing:
        _absent(tool, " and ".join(missing), install)
    return [path for path in found if path]


def library(name: str) -> ModuleType:
    """A library that only some tests need, imported."""
    try:
        return importlib.import_module(name)
    except ImportError:
        _absent(name, name, LIBRARIES[name])
        raise                                   # not reached: the line above skips or fails


def pyodide(numpy: bool = False) -> None:
    """Python for the browser, and NumPy for it, have been fetched."""
    tool = "pyodide-numpy" if numpy else "pyodide"
    if not any(PYODIDE.glob(BROWSER[tool])):
        _absent(tool, "NumPy for Pyodide in build/pyodide" if numpy else "Pyodide in build/pyodide",
                "make browser, where Pyodide's publisher can be reached" if numpy else "make browser")


def left_out(reasons: list[str]) -> list[str]:
    """The last lines of a run: what was not run for want of a tool, from the reasons of all skipped tests."""
    counts = Counter(reason.removeprefix("Skipped: ") for reason in reasons if MARK in reason)
    return [f"NOT RUN: {count} tests or files: {why}" for why, count in sorted(counts.items())]
