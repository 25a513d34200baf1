"""Random views of registers and shared memory as other dtypes hold the bits that NumPy's bytes hold.

By hand, longer: ``python tests/fuzz/bits.py SEED COUNT [--emulate]``.
"""

from __future__ import annotations

import pytest

from fuzz import bits


@pytest.mark.parametrize("seed", range(3))
def test_views_of_other_dtypes(seed):
    one = bits.draw(seed)
    assert not (said := bits.wrong(one)), f"{said}\n{one.source}"


def test_a_wrong_place_is_told():
    one = bits.draw(0)
    one.wanted[...] ^= 1
    assert "in NumPy" in (bits.wrong(one) or "")
