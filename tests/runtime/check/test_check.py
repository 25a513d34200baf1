"""``mo.check`` and MOYE_CHECK: each thing that a Report says was checked is found where it is wrong."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye.errors import MoyeError, SimulationError
from moye.runtime.check.check import Report
from moye.sim.checks import global_regions
from moye.sim.findings.codes import CODES
from moye.sim.findings.groups import GROUPS

BLOCK = 64
FAULTY = {}


def faulty(code, checked, name):
    """Collect a kernel with one fault: the code of its finding, the words of the Report, the name for MOYE_CHECK."""
    def collect(kernel):
        FAULTY[code] = (kernel, checked, name)
        return kernel
    return collect


@faulty("B1", "bounds", "bounds")
@mo.kernel
def outside(x, n):
    tid = mo.thread_idx().x
    x[tid + n] = 1


@faulty("B6", "uninitialised reads", "uninitialised")
@mo.kernel
def unwritten(x, n):
    tid = mo.thread_idx().x
    staged = mo.shared_array(mo.float32, 64)
    x[tid] = staged[tid]


@faulty("B7", "uninitialised reads", "uninitialised")
@mo.kernel
def unset(x, n):
    tid = mo.thread_idx().x
    part = mo.fragment(2, mo.float32)
    x[tid] = part[0]


@faulty("C1", "shared-memory races", "races")
@mo.kernel
def races(x, n):
    tid = mo.thread_idx().x
    staged = mo.shared_array(mo.float32, 64)
    staged[tid] = 1
    x[tid] = staged[63 - tid]


@faulty("D1", "asynchronous copies", "copies")
@mo.kernel
def not_waited(x, n):
    tid = mo.thread_idx().x
    staged = mo.shared_array(mo.float32, 64)
    mo.copyto(mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32), mo.tile(staged, (1,), (tid,)), mo.tile(x, (1,), (tid,)))
    if staged[tid] > 1e30:
        x[tid] = 0


@faulty("C4", "barriers", "barriers")
@mo.kernel
def half_a_barrier(x, n):
    if mo.thread_idx().x < 32:
        mo.sync_threads()
        x[0] = 1
    else:
        mo.sync_threads()


@faulty("C2", "global-memory races", "races")
@mo.kernel
def rotates(x, n):
    tid = mo.thread_idx().x
    x[tid] = x[(tid + 32) % 64]


@faulty("A11", "integer overflow", "overflow")
@mo.kernel
def overflows(x, n):
    if mo.thread_idx().x == 0:
        x[0] = (n + 70_000) * n


@faulty("A12", "asserts", "asserts")
@mo.kernel
def asserts(x, n):
    assert n < 3, "n is small"


def arguments():
    return np.ones(BLOCK + 4, np.float32)[:BLOCK], 2 * BLOCK


def launch(code, run=lambda kernel: kernel):
    kernel = FAULTY[code][0]
    x, n = arguments()
    return run(kernel)[1, BLOCK](x, {"A12": 3, "A11": 70_000}.get(code, n))


@pytest.mark.slow
@pytest.mark.parametrize("code", FAULTY)
def test_each_check_finds_its_fault(code):
    report = launch(code, mo.check)
    assert not report.ok and {f.code for f in report.findings} == {code}, str(report)


def test_every_check_of_a_report_has_a_kernel():
    """But alignment: it is proven while tracing; tests/sim has addresses that break what was assumed."""
    checked = {checked for _, checked, _ in FAULTY.values()}
    assert checked | {"alignment"} == set(Report("k", (1, 1, 1), (1, 1, 1)).checked)
    assert {name for _, _, name in FAULTY.values()} | {"alignment"} == set(GROUPS)
    assert set().union(*GROUPS.values()) <= set(CODES)


def test_a_report_says_what_is_not_judged(monkeypatch):
    """Records that tell the threads of a block apart do not fit, those that tell blocks apart do, or neither."""
    @mo.kernel
    def writes(x):
        x[mo.thread_idx().x] = mo.block_idx().x

    x = np.zeros(BLOCK, np.float32)
    assert mo.check(writes)[1, BLOCK](x).not_judged == ()
    monkeypatch.setattr(global_regions, "SPARE", 0)
    report = mo.check(writes)[1, BLOCK](x)
    assert report.ok and "clean for this launch" in str(report)
    assert str(report).splitlines()[-1] == ("not judged: races within a block in global memory on x, which is too "
                                            "large for it")
    assert [f.code for f in mo.check(writes)[2, BLOCK](x).findings] == ["G1"]
    monkeypatch.setattr(global_regions, "SHARE", 0)
    report = mo.check(writes)[2, BLOCK](x)
    assert not report.ok and not report.findings
    assert report.unsupported == ["races in global memory on x: 64 units of 4 bytes are more than can be remembered"]


@pytest.mark.parametrize("code", FAULTY)
def test_named_checkers(code, monkeypatch):
    name = FAULTY[code][2]
    monkeypatch.setenv("MOYE_CHECK", name)
    with pytest.raises(SimulationError, match=code):
        launch(code)
    others = [other for other in GROUPS if other != name]
    monkeypatch.setenv("MOYE_CHECK", ",".join(others))
    launch(code)
    assert not launch(code, mo.check).ok, "mo.check has every check on"


def test_a_deadlock_is_reported_whatever_is_checked(monkeypatch):
    @mo.kernel
    def waits(x):
        if mo.thread_idx().x < 32:
            mo.barrier_sync(1, 64)

    monkeypatch.setenv("MOYE_CHECK", "bounds")
    with pytest.raises(SimulationError, match="deadlock"):
        waits[1, BLOCK](np.zeros(BLOCK, np.float32))


def test_an_unknown_checker(monkeypatch):
    monkeypatch.setenv("MOYE_CHECK", "bounds,speed")
    with pytest.raises(MoyeError, match="there is no checker 'speed'; the checkers are bounds, alignment, "):
        launch("B7")
