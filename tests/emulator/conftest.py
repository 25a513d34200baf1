"""The library of tensor instructions, made once for all tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.tensor_library import Library, compiler


@pytest.fixture(scope="session")
def tensor(tmp_path_factory: pytest.TempPathFactory) -> Library:
    if compiler() is None:
        pytest.skip("no g++")
    folder: Path = tmp_path_factory.mktemp("tensor")
    return Library(folder)
