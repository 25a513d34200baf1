"""Random pipelines: the right ones are clean and compute what they must, and each with one fault is found.

By hand, longer: ``python tests/fuzz/pipelines.py SEED COUNT``.
"""

from __future__ import annotations

import random

import pytest

from fuzz import pipelines

# What a fault is called where its class does not depend on the rest of the pipeline.
CODES = {"few bytes": {"D7"}, "many bytes": {"D7"}, "no fence": {"D12"}, "fence late": {"D12"}, "one fences": {"D14"},
         "leaving wait": {"D15"}, "no leaving wait": {"D15"}, "no last wait": {"D18"}, "permissive": {"D2"},
         "count too high": {"D9"}, "count too low": {"D9"}, "no barrier after init": {"D10"}, "no empty wait": {"F1"},
         "producer parity": {"F4"}, "one tile more": {"F3"}, "wrong parity": {"D8"}, "consumer parity": {"D8"},
         "no commit of leaving": {"D15", "D18"}, "no producer wait": {"D1"}, "no release": {"F4"}}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_right_ones_are_clean_and_faulty_ones_found(seed):
    rng = random.Random(seed)
    for _ in range(2):
        case = pipelines.draw(rng)
        for fault in ["", *rng.sample(case.faults, min(5, len(case.faults)))]:
            assert not (wrong := pipelines.verdict(case, fault)), f"{case}; {fault or 'right'}: {wrong}"


@pytest.mark.slow
@pytest.mark.parametrize("fault", CODES)
def test_faults_have_the_code_of_their_cause(fault):
    rng = random.Random(0)
    case = next(case for case in (pipelines.draw(rng) for _ in range(1000)) if fault in case.faults)
    report, _ = pipelines.run(case, fault)
    assert report.findings[0].code in CODES[fault], f"{case}\n{report}"


def test_every_kind_of_pipeline_is_drawn():
    rng = random.Random(0)
    cases = [pipelines.draw(rng) for _ in range(300)]
    assert {(c.feed, c.roles, c.leave) for c in cases} == {
        (feed, roles, leave) for feed in ("plain", "cp.async", "bulk", "tma") for roles in ("all", "specialised")
        for leave in ("direct", "tma")}
    assert len({fault for case in cases for fault in case.faults}) >= 30
