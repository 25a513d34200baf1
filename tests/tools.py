"""Programs beside Python that some tests need: found, or the test fails and says how to do without.

``TEST_WITHOUT=browser,latex`` leaves out what needs a browser or LaTeX, on a machine that cannot have them.
"""

from __future__ import annotations

import os
import shutil

import pytest

# what the tests call it -> (one of these programs for each need, the packages of Debian that hold them)
NEEDS = {
    "browser": ((("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"), ("chromedriver",)),
                "chromium chromium-driver"),
    "latex": ((("pdflatex",),), "texlive-latex-base texlive-pictures"),
}


def left_out(tool: str) -> bool:
    """Whether the environment says to do without a tool."""
    names = {name.strip() for name in os.environ.get("TEST_WITHOUT", "").split(",")} - {""}
    if unknown := names - set(NEEDS):
        pytest.fail(f"TEST_WITHOUT names {', '.join(sorted(unknown))}; it may name {', '.join(NEEDS)}")
    return tool in names


def programs(tool: str) -> list[str]:
    """The paths of a tool's programs; skips where the tool is left out on purpose, fails where it is just not there."""
    if left_out(tool):
        pytest.skip(f"TEST_WITHOUT={os.environ['TEST_WITHOUT']}")
    alternatives, packages = NEEDS[tool]
    found = [next(filter(None, map(shutil.which, names)), None) for names in alternatives]
    missing = [names[0] for names, path in zip(alternatives, found, strict=True) if path is None]
    if missing:
        pytest.fail(f"this test needs {' and '.join(missing)}: apt-get install {packages}; "
                    f"TEST_WITHOUT={tool} does without")
    return [path for path in found if path]
