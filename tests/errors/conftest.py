"""Golden messages: a refused call raises one MoyeError whose text is in golden/errors/, and leaves its outputs alone.

``UPDATE_GOLDEN=1 pytest tests/errors`` writes the files anew; read the difference before you keep it.
"""

from __future__ import annotations

import importlib.util
import os
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from moye.errors import MoyeError

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parents[1] / "golden" / "errors"


@cache
def _example(stem):
    spec = importlib.util.spec_from_file_location(f"errors_{stem}", ROOT / "examples" / f"{stem}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def example():
    """An example as a module, by file name."""
    return _example


@pytest.fixture
def refuses():
    """``refuses(name, call, *outputs)``: the call raises golden/errors/<name>.txt and writes none of the outputs."""
    def check(name, call, *outputs):
        before = [np.array(x) for x in outputs]
        with pytest.raises(MoyeError) as caught:
            call()
        for x, old in zip(outputs, before, strict=True):
            assert np.array_equal(x, old, equal_nan=True), f"{name}: an output was written"
        _compare(GOLDEN / f"{name}.txt", _lasting(f"{type(caught.value).__name__}: {caught.value}\n"))
    return check


def _lasting(text):
    """A message without what differs between checkouts, or as lines of moye's own kernels move."""
    return re.sub(r"(src/moye/[\w/]+\.py):\d+", r"\1:LINE", text.replace(f"{ROOT}/", ""))


def _compare(golden, text):
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert golden.exists(), f"no {golden}; the message is\n{text}"
    assert text == golden.read_text()
