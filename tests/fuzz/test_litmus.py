"""Random threads that store flags and load the others': the checker agrees with a model of PTX's memory.

By hand, longer: ``python tests/fuzz/litmus.py SEED COUNT``.
"""

from __future__ import annotations

import pytest

from fuzz import litmus


def test_the_checker_agrees_with_the_model():
    told = right = 0
    for seed in range(60):
        program = litmus.draw(seed)
        assert not (said := litmus.wrong(program)), f"{said}\n{litmus.text(program)}"
        some, certain = litmus.races(program)
        told, right = told + certain, right + (not some)
    assert told >= 20 and right >= 8


STORES = [("store", "release", 0)], [("store", "release", 1)]
LOADS = [("load", "acquire", 1)], [("load", "acquire", 0)]


@pytest.mark.parametrize(("fences", "race"), [
    (("seq_cst", "seq_cst"), False), (("seq_cst", "acq_rel"), True), (("acq_rel", "acq_rel"), True)])
def test_the_model_knows_store_buffering(fences, race):
    program = [[*store, ("fence", fence, -1), *load]
               for store, fence, load in zip(STORES, fences, LOADS, strict=True)]
    assert litmus.races(program) == (race, race)


def test_the_model_knows_what_a_load_has_told():
    """Thread 1 finds the flag of thread 0, and with it what thread 0 has done before."""
    both = [[("store", "release", 0)], [("load", "acquire", 0), ("store", "relaxed", 1)]]
    assert any(found[1, 0] and ((0, 0), (1, 0)) in causality for found, causality, _ in litmus.executions(both))
    assert all(((0, 0), (1, 0)) not in causality for found, causality, _ in litmus.executions(both) if not found[1, 0])
