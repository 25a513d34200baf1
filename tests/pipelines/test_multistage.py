"""``mo.Pipeline``: the explicit form that it stands for, every depth and length, faults found, states carried."""

from __future__ import annotations

import re

import numpy as np
import pytest

import moye as mo
from moye.errors import TraceError

ROWS, COLUMNS = 64, 4


@mo.jit
def column_sum(s, total, tid):
    """Adds what the neighbour copied, so that a barrier matters."""
    for j in mo.static_range(COLUMNS):
        total += s[tid ^ 1, j]
    return total


@mo.kernel
def sums(out, x, copy, stages: mo.Constexpr, fault: mo.Constexpr):
    """out[r] = sum of row r ^ 1 of all tiles, through a pipeline."""
    tid = mo.thread_idx().x
    pipe = mo.Pipeline(stages)
    sX = mo.shared_array(x.dtype, mo.make_layout((ROWS, COLUMNS, stages)))      # (ROWS, COLUMNS, stages)
    gX = mo.tile(x, (ROWS, COLUMNS), (0, None))                         # (ROWS, COLUMNS, k)
    thr = copy.get_slice(tid)
    tXgX, tXsX = thr.partition_S(gX), thr.partition_D(sX)
    tiles = mo.size(gX, 2)
    for s in mo.static_range(pipe.ahead):
        if s < tiles:
            mo.copyto(copy, tXsX[:, :, :, s], tXgX[:, :, :, s])
        pipe.commit()
    total, state = x.dtype(0), pipe.start()
    for k in range(tiles):
        if fault == "no wait":
            mo.sync_threads()
        elif fault == "no barrier":
            mo.cp_async_wait(stages - 2)
        elif fault == "waits for too few":
            mo.cp_async_wait(stages - 1)
            mo.sync_threads()
        else:
            pipe.wait()
        if k + pipe.ahead < tiles:
            stage = state.read if fault == "fills what is read" else state.write
            mo.copyto(copy, tXsX[:, :, :, stage], tXgX[:, :, :, k + pipe.ahead])
        if fault != "no commit":
            pipe.commit()
        total = column_sum(sX[:, :, state.read], total, tid)
        state = state.next()
    out[tid] = total


@mo.kernel
def sums_by_hand(out, x, copy, stages: mo.Constexpr):
    """The same without the class."""
    tid = mo.thread_idx().x
    sX = mo.shared_array(x.dtype, mo.make_layout((ROWS, COLUMNS, stages)))      # (ROWS, COLUMNS, stages)
    gX = mo.tile(x, (ROWS, COLUMNS), (0, None))                         # (ROWS, COLUMNS, k)
    thr = copy.get_slice(tid)
    tXgX, tXsX = thr.partition_S(gX), thr.partition_D(sX)
    tiles = mo.size(gX, 2)
    for s in mo.static_range(stages - 1):
        if s < tiles:
            mo.copyto(copy, tXsX[:, :, :, s], tXgX[:, :, :, s])
        mo.cp_async_commit()
    total, state_read, state_write = x.dtype(0), 0, stages - 1
    for k in range(tiles):
        mo.cp_async_wait(stages - 2)
        mo.sync_threads()
        if k + stages - 1 < tiles:
            mo.copyto(copy, tXsX[:, :, :, state_write], tXgX[:, :, :, k + stages - 1])
        mo.cp_async_commit()
        total = column_sum(sX[:, :, state_read], total, tid)
        state_read = state_read + 1 if state_read + 1 < stages else 0
        state_write = state_write + 1 if state_write + 1 < stages else 0
    out[tid] = total


def arguments(tiles):
    x = np.asfortranarray(np.random.default_rng(tiles).integers(-9, 10, (ROWS, COLUMNS * tiles)).astype(np.float32))
    copy = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.uint128, cache="global"), mo.float32),
                              mo.make_layout((16, 4)), mo.make_layout((4, 1)))
    return np.full(ROWS, np.nan, np.float32), x, copy


def checked(stages, tiles, fault="", *, earliest=False):
    out, x, copy = arguments(tiles)
    report = mo.check(sums, earliest=earliest)[1, ROWS](out, x, copy, stages, fault)
    return report, np.array_equal(out, x.sum(axis=1)[np.arange(ROWS) ^ 1])


@pytest.mark.slow
@pytest.mark.parametrize("stages", [2, 3, 4, 5])
@pytest.mark.parametrize("tiles", [1, 2, 3, 4, 5, 6, 13])
def test_every_depth_and_length(stages, tiles):
    """Shorter than the pipeline, as long, longer; asynchronous copies at both of their legal times."""
    for earliest in (False, True):
        report, right = checked(stages, tiles, earliest=earliest)
        assert report.ok, str(report)
        assert right


@pytest.mark.slow
@pytest.mark.parametrize("stages", [2, 3, 4, 5])
@pytest.mark.parametrize(("fault", "code"), [
    ("no wait", "D1"), ("waits for too few", "D2"), ("no barrier", "D3"), ("no commit", "D2"),
    ("fills what is read", "D4")])
def test_faults_are_found(stages, fault, code):
    """What the class does, left out or done wrong: each is a finding that names the element."""
    report, _ = checked(stages, 8, fault)
    assert code in {finding.code for finding in report.findings}
    assert "sX(0, 0, " in str(report)


@pytest.mark.parametrize("stages", [2, 3, 5])
def test_the_same_cuda_as_by_hand(stages):
    out, x, copy = arguments(8)
    mine = sums.compile(out, x, copy, stages, "", block=ROWS, arch="sm_80")
    other = sums_by_hand.compile(out, x, copy, stages, block=ROWS, arch="sm_80")
    assert body(mine.source) == body(other.source)
    assert "state_read" in mine.source
    assert mine.registers == other.registers


def body(source):
    """Printed CUDA without comments, names of kernels and of numbered intermediates."""
    lines = [re.sub(r"//.*", "", line).strip() for line in source.split("\n")]
    text = "\n".join(line for line in lines if line).replace("sums_by_hand", "sums")
    names = {}
    return re.sub(r"\bt\d+\b", lambda m: names.setdefault(m[0], f"t{len(names)}"), text)


# --- the state -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stages", [2, 3, 5])
def test_state_by_hand(stages):
    """Outside of kernels it is plain integers: stages in turn, the one before for writing, a phase per round."""
    state = mo.Pipeline(stages).start()
    for k in range(3 * stages + 1):
        assert (state.read, state.write, state.phase) == (k % stages, (k + stages - 1) % stages, k // stages % 2)
        state = state.next()


def test_a_state_that_stays():
    state = mo.Pipeline(3).start().next(more=False)
    assert (state.read, state.phase) == (0, 0)


@mo.kernel
def walked(out, stages: mo.Constexpr, n):
    """read, write and phase of n steps, carried through a loop and an if."""
    state = mo.Pipeline(stages).start()
    for k in range(n):
        out[k, 0], out[k, 1], out[k, 2] = state.read, state.write, state.phase
        if k % 3 != 1:
            state = state.next()


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_carried_by_loops_and_branches(stages):
    out = np.full((20, 3), -1, np.int32)
    walked[1, 1](out, stages, 20)
    state, wanted = mo.Pipeline(stages).start(), []
    for k in range(20):
        wanted.append((state.read, state.write, state.phase))
        state = state.next() if k % 3 != 1 else state
    assert out.tolist() == [list(row) for row in wanted]


@mo.kernel
def exchanged(out, n):
    state = mo.Pipeline(3).start()
    for k in range(n):
        out[k] = state.read
        if k == 1:
            state = mo.Pipeline(4).start()


def test_another_pipeline_is_another_structure():
    """The error names the variable and shows both."""
    with pytest.raises(TraceError) as caught:
        exchanged[1, 1](np.zeros(4, np.int32), 4)
    assert caught.value.message == (
        "the variable 'state' changes its structure in a loop or branch of the kernel: PipelineState(pipeline="
        "Pipeline(stages=4), read=a scalar, write=a scalar, phase=a scalar) where the condition holds, PipelineState("
        "pipeline=Pipeline(stages=3), read=a scalar, write=a scalar, phase=a scalar) where it does not")


@pytest.mark.parametrize("stages", [1, 0, 2.0])
def test_too_few_stages(stages):
    with pytest.raises(TraceError) as caught:
        mo.Pipeline(stages)
    assert caught.value.message == f"Pipeline(stages={stages}): a pipeline has at least 2 stages, a static number"


@mo.kernel
def given(out, pipe):
    out[0] = pipe.stages
    for s in mo.static_range(pipe.ahead):
        out[1 + s] = s


def test_a_pipeline_as_an_argument_is_static():
    out = np.full(3, -1, np.int32)
    given[1, 1](out, mo.Pipeline(3))
    assert out.tolist() == [3, 0, 1]
