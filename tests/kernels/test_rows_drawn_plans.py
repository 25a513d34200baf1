"""Plans that are given in the rule's place: drawn ones are right or refused, whatever the arrays' strides."""

from __future__ import annotations

from collections import Counter

import pytest

from drawn_row_plans import drawn_call, judged


@pytest.mark.parametrize("first", [0, 20, 40])
def test_drawn_plans_are_right_or_refused(first):
    """No plan is wrong in silence, or reads beside its rows."""
    found = Counter()
    for seed in range(first, first + 20):
        call = drawn_call(seed)
        how = judged(call)
        assert how in ("right", "refused"), f"{call}: {how}"
        found[how] += 1
    assert min(found["right"], found["refused"]) >= 3, found
