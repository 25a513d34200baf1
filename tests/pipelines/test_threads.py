"""Pipelines that threads fill: by stores, by cp.async whose arrivals come with the copies; turns in order."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
import thread_pipelines as kernels
from moye.errors import TraceError
from thread_pipelines import STAGES, THREADS


@pytest.mark.parametrize("columns", [1, 3, 8])
@pytest.mark.parametrize("earliest", [False, True])
def test_copies_that_arrive_themselves(columns, earliest):
    out, x, n = kernels.streamed_arguments(columns)
    report = mo.check(kernels.streamed, earliest=earliest)[1, THREADS + 32](out, x, n, "")
    assert report.ok, report
    assert np.allclose(out, kernels.streamed_result(x), rtol=1e-6)


@pytest.mark.parametrize(("fault", "codes", "told"), [
    ("no wait", {"D6", "B9", "D4"}, "is read by thread 127 at line"),
    ("a barrier for the wait", {"D6", "B9"}, "without a wait for phase 0 of pipe_full(0), which the copy at line"),
    ("no acquire", {"B9"}, "without a wait for phase 0 of pipe_full(0)"),
    ("no release", {"F4"}, "phase 0 of pipe_empty(0)"),
    ("own copies", {"D6"}, "is read by thread 128 at line")])
def test_faults_are_found(fault, codes, told):
    """A barrier does not stand for the wait, though the copies have arrived; nor does a thread see its own ones."""
    out, x, n = kernels.streamed_arguments()
    report = mo.check(kernels.streamed)[1, THREADS + 32](out, x, n, fault)
    assert report.findings and {finding.code for finding in report.findings} <= codes, report
    assert told in str(report)


def test_a_source_that_the_kernel_writes():
    """It is no false alarm, and what cannot be told is said."""
    @mo.kernel
    def again(x: mo.Static):
        tid = mo.thread_idx().x
        held, bars = mo.shared_array(mo.float32, THREADS), mo.mbarrier_array(1)
        if tid == 0:
            mo.mbarrier_init(bars, 0, 32)
        mo.sync_threads()
        if tid < 32:
            mo.copyto(mo.CpAsync(mo.uint128), mo.tile(held, (4,), (tid,)), mo.tile(x, (4,), (tid,)))
            mo.cp_async_mbarrier_arrive(bars, 0)
        mo.mbarrier_wait(bars, 0, 0)
        value = held[THREADS - 1 - tid]
        mo.sync_threads()
        x[tid] = value

    x = np.arange(THREADS, dtype=np.float32)
    report = mo.check(again)[1, THREADS](x)
    assert not report.findings and (x == np.arange(THREADS)[::-1]).all()
    assert report.not_judged == ("whether x is written while copies that arrive at an mbarrier may still read it",)


def test_what_is_printed():
    out, x, n = kernels.streamed_arguments()
    program = kernels.streamed.compile(out, x, n, "", block=THREADS + 32, arch="sm_90a")
    assert program.ptx.count("cp.async.mbarrier.arrive.noinc.shared::cta.b64") == 1
    assert "cp_async_mbarrier_arrive(pipe_full_s + 8 * state_stage);" in program.source
    assert "cp.async.wait" not in program.ptx and "ARRIVES.LDGSTSBAR" in program.sass


# --- asking once -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tries", ["", "once", "polls"])
def test_asking_whether_a_stage_is_full(tries):
    out, x = np.zeros(THREADS, np.int32), np.arange(THREADS, dtype=np.int32)
    report = mo.check(kernels.handed_over)[1, 2 * THREADS](out, x, 7, tries)
    assert report.ok and np.array_equal(out, 28 * x[::-1]), report


def test_an_answer_that_nobody_heeds():
    out, x = np.zeros(THREADS, np.int32), np.arange(THREADS, dtype=np.int32)
    report = mo.check(kernels.handed_over)[1, 2 * THREADS](out, x, 7, "never mind")
    assert not report.ok


def test_a_phase_that_never_comes():
    @mo.kernel
    def never(x):
        bars = mo.mbarrier_array(1)
        if mo.thread_idx().x == 0:
            mo.mbarrier_init(bars, 0, 1)
        mo.sync_threads()
        while not mo.mbarrier_try_wait(bars, 0, 0):
            mo.nanosleep(20)
        x[0] = 1

    finding, = mo.check(never)[1, 32](np.zeros(1, np.int32)).findings
    assert finding.code == "F4"


def test_how_asking_is_printed():
    out, x = np.zeros(THREADS, np.int32), np.arange(THREADS, dtype=np.int32)
    program = kernels.handed_over.compile(out, x, 7, "once", block=2 * THREADS, arch="sm_90a")
    assert "mbarrier_try_wait(pipe_full_s + 8 * state_stage, state_phase)" in program.source


# --- turns -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_turns_come_in_order(groups):
    out = np.full(5 * groups, -1, np.int32)
    report = mo.check(kernels.turns)[1, 32 * groups](out, 5, groups, True)
    assert report.ok and np.array_equal(out, np.tile(np.arange(groups), 5)), report


def test_without_turns_it_races():
    report = mo.check(kernels.turns)[1, 64](np.full(10, -1, np.int32), 5, 2, False)
    assert {finding.code for finding in report.findings} & {"C1", "C2"}, report


# --- what is refused -------------------------------------------------------------------------------------------------


def test_wrong_numbers_and_states():
    @mo.kernel
    def wrong(x, what: mo.Constexpr):
        if what == "producers":
            mo.PipelineAsync(2, 0, 128)
        elif what == "groups":
            mo.PipelineOrder(x[0], 128)
        else:
            pipe = mo.PipelineCpAsync(STAGES, 32, 128)
            pipe.producer_commit(mo.PipelineAsync(2, 32, 128).producer_start() if what == "ring" else 3)

    for what, told in (("producers", "PipelineAsync: producers=0 is no static number"), ("groups", "PipelineOrder"),
                       ("ring", "goes round 2 stages, the pipeline has 3"), ("", "3 is no state of a pipeline")):
        with pytest.raises(TraceError, match=told):
            wrong.compile(np.zeros(1, np.int32), what, block=32, arch="sm_90a")
