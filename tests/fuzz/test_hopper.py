"""A few draws of each family of ``hopper.py``: NumPy, the simulator and the emulator agree."""

from __future__ import annotations

import pytest

from fuzz import hopper


@pytest.mark.parametrize("family", hopper.FAMILIES)
@pytest.mark.parametrize("seed", [1, 2])
def test_hopper(family: str, seed: int) -> None:
    assert hopper.failure(family, seed) is None
