"""nanosleep: printed as it is, no work to the simulator, and no way to hide a flag that nobody sets."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye.dtypes import float32, uint32
from moye.ir import ops
from moye.ir.nodes import Literal
from moye.ir.rules import broken


@mo.kernel
def sleeping(x, ns):
    tid = mo.thread_idx().x
    mo.nanosleep(20)
    mo.nanosleep(ns)
    mo.nanosleep(tid * 4)
    x[tid] = 1.0


def test_it_is_printed_and_compiles():
    x = np.zeros(32, np.float32)
    program = sleeping.compile(x, np.uint32(5), block=32, arch="sm_80")
    for line in ("__nanosleep(20u);", "__nanosleep(ns);", "__nanosleep((unsigned)(tx * 4));"):
        assert line in program.source, program.source
    assert program.ptx.count("nanosleep.u32") == 3


@pytest.mark.parametrize("ns", [0, 5, 10**6, np.int32(7), np.uint32(7), np.int64(7)])
def test_the_simulator_does_nothing(ns):
    x = np.zeros(32, np.float32)
    assert mo.check(sleeping)[1, 32](x, ns).ok and (x == 1).all()


@mo.kernel
def polling(x, flags, ok: mo.Constexpr):
    tid, ns = mo.thread_idx().x, 8
    if tid == 0:
        if ok:
            mo.atomic_add(flags, 0, 1, order="release")
        while mo.load(flags, 0) == 0:
            mo.nanosleep(ns)
            ns = mo.min(2 * ns, 256)
    mo.sync_threads()
    x[tid] = 2.0


@mo.kernel
def between_blocks(x, flags, ok: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if b == 0:
        x[tid] = 2.0
        mo.sync_threads()
        if ok and tid == 0:
            mo.store(flags, 0, 1)
    else:
        while mo.load(flags, 0) == 0:
            mo.nanosleep(100)
        x[32 + tid] = x[tid]


@pytest.mark.parametrize(("kernel", "grid"), [(polling, 1), (between_blocks, 2)], ids=["own block", "other block"])
def test_a_flag_that_nobody_sets_is_found_at_once(kernel, grid, monkeypatch):
    """Not after MOYE_STEPS passes: a pause changes nothing, so the next pass is as this one."""
    def judged(ok):
        return mo.check(kernel, lints=False)[grid, 32](np.zeros(32 * grid, np.float32), np.zeros(1, np.int32), ok)

    monkeypatch.setenv("MOYE_STEPS", "1000000000")
    assert judged(True).ok
    assert [finding.code for finding in judged(False).findings] == ["F4"]


@mo.kernel
def unordered(x, flags):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if b == 0:
        x[tid] = 2.0
    else:
        mo.nanosleep(10**6)
        x[32 + tid] = x[tid]


def test_it_orders_nothing():
    report = mo.check(unordered, lints=False)[2, 32](np.zeros(64, np.float32), np.zeros(1, np.int32))
    assert {finding.code for finding in report.findings} == {"G5"}, str(report)


@pytest.mark.parametrize(("ns", "says"), [
    (-1, "nanosleep(-1): a thread sleeps 0 to 1000000 ns"), (10**6 + 1, "a thread sleeps 0 to 1000000 ns"),
    (10**12, "a thread sleeps 0 to 1000000 ns"), (2.5, "takes an integer of nanoseconds, not a float32"),
    ("long", "'long' of type str is no scalar of a kernel"), (True, "not a bool")])
def test_what_is_refused(ns, says):
    @mo.kernel
    def wrong(x):
        mo.nanosleep(ns)
        x[mo.thread_idx().x] = 1.0

    with pytest.raises(mo.MoyeError) as caught:
        wrong.trace(np.zeros(32, np.float32), block=32)
    assert says in str(caught.value)


def test_a_float_of_the_kernel_is_refused():
    with pytest.raises(mo.DTypeError, match="not a float32"):
        sleeping.trace(np.zeros(32, np.float32), 2.5, block=32)


def test_the_verifier_wants_the_dtype_of_the_instruction():
    assert broken(ops.NanoSleep(duration=Literal(1.0, float32))) == "sleeps float32, not uint32"
    assert broken(ops.NanoSleep(duration=Literal(1, uint32))) is None
