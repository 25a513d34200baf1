"""Three launches in a row that overlap: what the last one may touch follows from what the others have waited for."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo

BLOCK, GRID = 32, 2
FIRST, LAST = ("writes", "reads"), ("none", "waits")
MIDDLE = "none", "waits", "begins", "begins and waits", "waits and begins", "some begin"


@mo.kernel
def first(data, y, does: mo.Constexpr):
    i = mo.block_idx().x * BLOCK + mo.thread_idx().x
    mo.griddepcontrol_launch_dependents()
    if does == "writes":
        data[i] = 1.0
    else:
        y[i] = data[i]


@mo.kernel
def middle(other, way: mo.Constexpr):
    block, tid = mo.block_idx().x, mo.thread_idx().x
    if way in ("begins", "begins and waits") or (way == "some begin" and block == 0):
        mo.griddepcontrol_launch_dependents()
    if way not in ("none", "begins"):
        if tid == 0:
            mo.griddepcontrol_wait()
        mo.sync_threads()
    if way == "waits and begins":
        mo.griddepcontrol_launch_dependents()
    other[block * BLOCK + tid] = 1.0


@mo.kernel
def last(data, y, does: mo.Constexpr, way: mo.Constexpr):
    i = mo.block_idx().x * BLOCK + mo.thread_idx().x
    if way == "waits":
        mo.griddepcontrol_wait()
    if does == "writes":
        y[i] = data[i]
    else:
        data[i] = 2.0


@pytest.mark.parametrize("does", FIRST)
@pytest.mark.parametrize("between", MIDDLE)
@pytest.mark.parametrize("way", LAST)
def test_the_launch_after_next(does, between, way):
    """It begins when every block of the one before has let it, or has ended: if one of them has waited until then, the
    first launch is over.  If they let it begin and wait later, it must wait as well."""
    data, y, other = np.zeros((3, GRID * BLOCK), np.float32)
    reports = [mo.check(kernel, lints=False).launch(*arguments, grid=GRID, block=BLOCK, dependent=number > 0)
               for number, (kernel, arguments) in enumerate([
                   (first, (data, y, does)), (middle, (other, between)), (last, (data, y, does, way))])]
    bad = between in ("none", "begins") or (between == "begins and waits" and way == "none")
    assert [[finding.code for finding in report.findings] for report in reports] == [[], [], ["G3"] if bad else []]
