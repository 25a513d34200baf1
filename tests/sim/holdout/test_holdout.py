"""Every fault of the hold-out kernels is found under a class that fits; their twins and the right ones are clean."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sim.holdout import (
    barriers,
    clusters,
    corners,
    crossings,
    departures,
    memory,
    mixtures,
    programs,
    rings,
    roles,
    streams,
    suspicious,
    tails,
    tensor_copies,
    ways,
)
from sim.holdout.cases import Case, codes, outcome

MODULES = (barriers, clusters, corners, crossings, departures, memory, mixtures, programs, rings, roles, streams,
           suspicious, tails, tensor_copies, ways)


def _cases() -> Iterator[Case]:
    for module in MODULES:
        yield from module.table.cases


def _name(case: Case) -> str:
    return case.name


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in _cases() if case.codes], ids=_name)
def test_the_fault_is_found(case: Case) -> None:
    report = outcome(case, True)
    assert codes(report) & set(case.codes), str(report)


@pytest.mark.slow
@pytest.mark.parametrize("case", list(_cases()), ids=_name)
def test_the_right_one_is_clean(case: Case) -> None:
    report = outcome(case, False)
    assert report.ok and not codes(report), str(report)
