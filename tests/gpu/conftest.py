"""GPU tests run on the first device."""

from __future__ import annotations

import os

import pytest

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")     # JAX would take most of the memory, torch's share

@pytest.fixture(autouse=True, scope="session")
def _first_device() -> None:
    """Tests name device 0, or leave the choice to torch.

    JAX, which is imported while tests are collected, has a context on every device, and leaves that of the last one
    current: where there are several, torch's ``device="cuda"`` would be that one.
    """
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        torch.cuda.set_device(0)
