"""Designs of many kinds: right ones are clean and compute what they must, faulty ones are told.

By hand, longer: ``python tests/fuzz/designs.py SEED COUNT --pairs 4``, and ``--emulate`` for the printed CUDA.
"""

from __future__ import annotations

import random

import pytest

from fuzz import designs


@pytest.mark.parametrize("family", designs.families())
def test_designs(family):
    for seed in range(2):
        design, rng = designs.draw(family, seed), random.Random(seed)
        right, *faulty = designs.cases(design, rng, pairs=1)
        for faults in (right, *rng.sample(faulty[:-1], min(2, len(faulty) - 1)), faulty[-1]):
            said = designs.wrong(design, faults)
            assert not said, f"{seed}; faults: {', '.join(faults) or 'none'}: {said}\n{design.source(faults)}"


def test_the_marks_of_a_text():
    text = """
call()                  #- gone
    #= other: another()
#+ more: added()
"""
    design = designs.Design(text, 1, 1, list, lambda _: {})
    assert design.faults == ["gone", "other", "more"]
    assert design.source() == "call()\n" and design.source(["gone"]) == "pass\n"
    assert design.source(["other", "more"]) == "another()\nadded()\n"
