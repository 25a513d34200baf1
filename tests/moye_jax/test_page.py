"""The blocks about JAX of docs/deployment.md run, in order."""

from __future__ import annotations

import linecache
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "deployment.md"


def test_the_blocks_run():
    pytest.importorskip("jax")
    found = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    namespace = {}
    for number, text in enumerate(found):
        name = f"deployment_jax_{number}.py"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        exec(compile(text, name, "exec"), namespace)
    assert len(found) == 4
