"""Random threads that poll while they work: those whose flag comes late end, those whose flag never comes are F4, soon.

By hand, longer: ``python tests/fuzz/waits.py SEED COUNT``.
"""

from __future__ import annotations

import pytest

from fuzz import waits


@pytest.mark.parametrize("first", [0, 8])
def test_waits_end_or_are_told(first):
    ends = 0
    for seed in range(first, first + 8):
        program = waits.draw(seed)
        assert not (said := waits.wrong(program)), f"{said}\n{program.source}"
        ends += program.ends
    assert 1 <= ends <= 7
