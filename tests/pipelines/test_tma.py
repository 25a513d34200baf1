"""``mo.PipelineTma``: products in every depth and length, faults found, the same machine code as by hand, states.

``UPDATE_GOLDEN=1 pytest tests/pipelines/test_tma.py`` rewrites the golden file.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import moye as mo
import pipeline_tma_kernels as kernels
from moye.errors import TraceError
from moye.pipelines.tma import PipelineTmaState, Ring
from moye.runtime.prepare import compile_only
from pairs import pairs

GOLDEN = Path(__file__).parents[1] / "golden" / "pipeline_tma.cu"
SIZES = [(128, 64, 64), (200, 70, 130), (70, 97, 1)]


def launched(name, M, N, K, stages, fault="", *, earliest=False):
    """The checker's report, and the relative error against float64."""
    C, A, B = kernels.arguments(M, N, K)
    report = kernels.run(name, mo.check(kernels.KERNELS[name], earliest=earliest), C, A, B, stages, fault)
    return report, error(C, A, B)


def error(C, A, B):
    exact = A.astype(np.float64) @ B.astype(np.float64).T
    return np.linalg.norm(C - exact) / np.linalg.norm(exact)


def compiled(kernel, stages, size=(256, 64, 512)):
    C, A, B = kernels.arguments(*size)
    with compile_only("sm_90a") as compilation:
        kernels.run("roles", kernel, C, A, B, stages)
    return compilation.programs[0]


# --- products --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("name", "stages", "k_tiles"),
                         pairs(["roles", "persistent", "ping_pong"], [2, 3, 4, 5], range(1, 8)))
def test_every_depth_and_length(name, stages, k_tiles):
    """Shorter than the ring, as long, longer, each with one of the kernels; several tiles in turn, the last ragged."""
    report, difference = launched(name, 130, 90, 64 * k_tiles - 7, stages)
    assert report.ok, str(report)
    assert difference < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(("name", "stages"), [("roles", 2), ("roles", 7), ("ping_pong", 1), ("ping_pong", 7)])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_sizes(name, stages, size):
    """Whole and ragged; asynchronous copies at both of their legal times.

    One stage is enough for those who free it before they wait for the next.
    """
    for earliest in (False, True):
        report, difference = launched(name, *size, stages, earliest=earliest)
        assert report.ok, str(report)
        assert difference < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("k_tiles", [1, 3, 5])
def test_arrivals_of_a_cluster(stages, k_tiles):
    """A stage that both blocks fill and read is freed by both."""
    report, difference = launched("cluster", 130, 90, 64 * k_tiles - 7, stages)
    assert report.ok, str(report)
    assert difference < 1e-6


# --- faults ----------------------------------------------------------------------------------------------------------


FAULTS = {
    "no acquire": ("F1", "nobody has waited for pipe_empty(0)"),
    "starts with the other phase": ("F4", "pipe_empty(0)"),
    "expects too few": ("D7", "pipe_full(0)"), "no wait": ("D6", "sA(0, 0, 0)"),
    "released too early": ("E3", "sA(0, 0, "), "no release": ("F4", "pipe_empty(0)"),
    "counts one of two": ("F4", "pipe_empty(0)"), "no init": ("F4", "pipe_full(0), which is not initialised"),
    "no barrier": ("D10", "pipe_empty(0)"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "stages"), [(fault, stages) for i, fault in enumerate(FAULTS)
                                               for stages in (2, (3, 5)[i % 2])])
def test_faults_are_found(fault, stages):
    """Each call of the pipeline left out or done wrong is a finding that names the element or the barrier."""
    report, _ = launched("roles", 128, 64, 64 * 9, stages, fault)
    code, named = FAULTS[fault]
    assert code in {finding.code for finding in report.findings}
    assert named in str(report)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "fault", "code"), [
    ("ping_pong", "no advance", "D8"), ("ping_pong", "out of turn", "D8"), ("persistent", "stays", "D8"),
    ("cluster", "releases its own", "E3")])
def test_faults_among_several_are_found(name, fault, code):
    """A group that does not go past the other's stages, or waits two phases ahead of a barrier; a state that stays; a
    stage that the neighbour fills again while it is read.
    """
    report, _ = launched(name, 64, 128, 64 * 5, 3, fault)
    assert code in {finding.code for finding in report.findings}


def test_a_finding_lies_at_the_call_of_the_pipeline():
    """And the call chain leads there; nothing of moye's own is in it."""
    report, _ = launched("roles", 128, 64, 64 * 9, 3, "no barrier")
    finding = next(f for f in report.findings if f.code == "D10")
    chains = [[frame.function for frame in loc.frames] for loc in finding.locs]
    assert chains == [["roles"], ["roles", "produce"]]
    text = str(finding)
    assert "    pipe.init()\n    ^^^^^^^^^^^\n" in text
    assert "    pipe.producer_acquire(state, bytes=" in text


# --- what is printed -------------------------------------------------------------------------------------------------


def instructions(program):
    """How often each instruction occurs, what fills up the last cache line aside."""
    found = Counter(re.findall(r"/\*[0-9a-f]{4,}\*/ +(?:@!?U?P\w+ +)?([A-Z][\w.]*)", program.sass))
    del found["NOP"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_the_same_machine_code_as_by_hand(stages):
    """But for the order in which ptxas puts some of it; of two stages it makes one move more."""
    mine, other = (compiled(kernel, stages) for kernel in (kernels.roles, kernels.roles_by_hand))
    if stages > 2:
        assert instructions(mine) == instructions(other)
    assert instructions(mine).total() <= instructions(other).total() + 1
    assert mine.registers == other.registers
    assert mine.spills == mine.stack == 0
    assert "(C7" not in mine.compiled.log


def test_golden():
    source = compiled(kernels.roles, 3).source
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(source)
    assert source == GOLDEN.read_text(), f"{GOLDEN} differs; UPDATE_GOLDEN=1 rewrites it"


@mo.kernel
def skipping(out, n):
    """A state that goes on by n at a time, as its stage and phase."""
    pipe = mo.PipelineTma(5, 16)
    state = pipe.consumer_start()
    for k in range(4):
        state = state.advance(n)
        out[k, 0], out[k, 1] = state.stage, state.phase


def test_advance_divides_once():
    """Unsigned, by the constant: a multiplication and shifts, of 32 bits."""
    source = skipping.compile(mo.TensorLike(mo.int32, (4, 2)), 3, block=32, arch="sm_90a").source
    body = source[source.index("__global__"):]
    assert body.count(" / 5") == body.count(" % 5") == 1
    assert "long" not in body.replace("unsigned long long pipe", "")
    assert "floor" not in source


@mo.kernel
def two_rings():
    loads, stores = mo.PipelineTma(2, 16), mo.PipelineTma(3, 16)
    other = loads
    for pipe in (other, stores):
        pipe.init()


def test_barriers_have_the_name_of_the_first_variable():
    names = [buffer.name for buffer in two_rings.trace(block=32).buffers]
    assert names == ["loads_full", "loads_empty", "stores_full", "stores_empty"]


# --- states ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stages", [1, 2, 3, 5])
@pytest.mark.parametrize("phase", [0, 1])
def test_state_by_hand(stages, phase):
    """Outside of kernels it is plain integers; n steps at once are n single ones."""
    state = PipelineTmaState(Ring(stages), 0, phase)
    for k in range(3 * stages + 1):
        assert (state.stage, state.phase) == (k % stages, phase ^ (k // stages & 1))
        assert state == PipelineTmaState(Ring(stages), 0, phase).advance(k)
        state = state.next()


@mo.kernel
def walked(out, stages: mo.Constexpr, n, far):
    """Stage and phase of n steps, carried through a loop and an if, by static, dynamic and single steps."""
    state = mo.PipelineTma(stages, 16).producer_start()
    for k in range(n):
        out[k, 0], out[k, 1] = state.stage, state.phase
        if k % 3 == 0:
            state = state.next()
        elif k % 3 == 1:
            state = state.advance(far)
        else:
            state = state.advance(7)


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize("far", [0, 1, 6, 100])
def test_carried_by_loops_and_branches(stages, far):
    out = np.full((20, 2), -1, np.int32)
    walked[1, 1](out, stages, 20, far)
    state, wanted = PipelineTmaState(Ring(stages), 0, 1), []
    for k in range(20):
        wanted.append([state.stage, state.phase])
        state = state.advance((1, far, 7)[k % 3])
    assert out.tolist() == wanted


def test_a_state_goes_on_by_whole_stages():
    """A traced float was truncated."""
    @mo.kernel
    def half(x):
        mo.PipelineTma(3, 16).producer_start().advance(mo.where(mo.thread_idx().x > 0, 1.5, 2.5))

    with pytest.raises(mo.TraceError, match=r"advance.*: a state goes on by a number of stages >= 0"):
        half.trace(mo.TensorLike(mo.float32, (4,)), block=32)


def test_a_state_does_not_go_back():
    with pytest.raises(mo.PreconditionError, match="a pipeline's state does not go back"):
        skipping[1, 1](np.zeros((4, 2), np.int32), -1)
    for n in (-1, 2.0):
        with pytest.raises(TraceError, match=rf"^advance\({n}\): a state goes on by a number of stages >= 0"):
            PipelineTmaState(Ring(3), 0, 0).advance(n)


# --- errors ----------------------------------------------------------------------------------------------------------


@mo.kernel
def made(arguments: mo.Constexpr, use: mo.Constexpr):
    pipe = mo.PipelineTma(*arguments)
    if use == "a number":
        pipe.consumer_wait(3)
    elif use == "another's":
        other = mo.PipelineTma(4, 16)
        pipe.producer_acquire(other.producer_start())
    elif use == "exchanged":
        state = pipe.producer_start()
        for _ in range(3):
            pipe.consumer_wait(state)
            state = mo.PipelineTma(4, 16).producer_start()


@pytest.mark.parametrize(("arguments", "use", "message"), [
    ((0, 16), "", "PipelineTma: stages=0 is no static number from 1 to 1048575"),
    ((2.0, 16), "", "PipelineTma: stages=2.0 is no static number from 1 to 1048575"),
    ((2, 0), "", "PipelineTma: bytes=0 is no static number from 1 to 1048575"),
    ((2, 1 << 20), "", "PipelineTma: bytes=1048576 is no static number from 1 to 1048575"),
    ((2, 16, 0), "", "PipelineTma: consumers=0 is no static number from 1 to 1048575"),
    ((2, 16), "a number", "consumer_wait: 3 is no state of a PipelineTma"),
    ((3, 16), "another's", "producer_acquire: the state goes round 4 stages, the pipeline has 3"),
    ((3, 16), "exchanged", "the variable 'state' changes its structure in a loop or branch of the kernel: "
     "PipelineTmaState(ring=Ring(stages=3), stage=a scalar, phase=a scalar) before this loop, "
     "PipelineTmaState(ring=Ring(stages=4), stage=a scalar, phase=a scalar) at the end of its body"),
])
def test_errors(arguments, use, message):
    with pytest.raises(TraceError) as caught:
        made.trace(arguments, use, block=32)
    assert caught.value.message == message


def test_one_needs_a_kernel():
    with pytest.raises(TraceError, match=r"^this operation exists only inside a kernel"):
        mo.PipelineTma(3, 16)
