"""Whole small programs: every fault is found in its class, and no right twin is accused."""

from __future__ import annotations

import pytest

import moye as mo
from sim.holdout_order import (
    chains,
    clusters,
    element_bounds,
    flags,
    handovers,
    integers,
    late,
    locks,
    locksets,
    overlaps,
    signals,
    suspicious,
    view_bounds,
    waits,
)

MODULES = (element_bounds, view_bounds, integers, flags, locks, locksets, signals, handovers, chains, overlaps,
           clusters, suspicious, waits, late)
IN_ALL = [case for module in (locksets, waits) for case in module.TABLE
          if True in case.twins and (case.how or module is locksets)]
CASES = [(case, fault) for module in MODULES for case in module.TABLE for fault in case.twins]


def _arguments(case):
    found = case.arguments()
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.slow
@pytest.mark.parametrize(("case", "fault"), CASES, ids=[f"{case.name}-{'faulty' if fault else 'right'}"
                                                       for case, fault in CASES])
def test_program(case, fault):
    checked = mo.check(case.kernel, lints=False, expect=None if fault else case.expect, **case.how)
    report = checked.launch(*_arguments(case), fault, grid=case.grid, block=case.block, cluster=case.cluster)
    assert not report.unsupported, str(report)
    if not fault:
        assert report.ok, str(report)
        return
    assert report.findings, f"{case.name} is clean"
    assert {finding.code for finding in report.findings} <= case.codes, str(report)
    assert case.text in str(report), str(report)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("case", IN_ALL, ids=lambda case: case.name)
def test_in_every_schedule(case, seed):
    """What locks do not guard, and what is used whether a wait has seen its flag or not, is found in any schedule."""
    checked = mo.check(case.kernel, lints=False, seed=seed, schedules=1)
    report = checked.launch(*_arguments(case), True, grid=case.grid, block=case.block, cluster=case.cluster)
    assert report.findings and {finding.code for finding in report.findings} <= case.codes, str(report)


def test_a_lint_of_a_block_that_masks_everything_off():
    """The bank conflicts of a fill that only the second block does."""
    case = next(case for case in element_bounds.TABLE if case.name == "cp_async")
    assert mo.check(case.kernel).launch(*_arguments(case), False, grid=case.grid, block=case.block).ok
