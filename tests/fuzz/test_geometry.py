"""Random launches of up to three dimensions: what threads compute of their indices is what Python does.

By hand, longer: ``python tests/fuzz/geometry.py SEED COUNT [--emulate]``.
"""

from __future__ import annotations

import pytest

from fuzz import geometry


@pytest.mark.parametrize("seed", range(3))
def test_indices(seed):
    one = geometry.draw(seed)
    assert not (said := geometry.wrong(one)), f"{said}\n{one.source}"


def test_a_wrong_fact_is_told(monkeypatch):
    """Were lanes counted along x alone, blocks of more dimensions would tell."""
    monkeypatch.setattr(geometry, "HEAD", geometry.HEAD.replace("mo.lane_idx()", "tx % 32"))
    assert any(geometry.wrong(geometry.draw(seed)) for seed in range(12))
