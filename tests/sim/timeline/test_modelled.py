"""A timeline in modelled clocks: what each unit takes, who waits for whom, and what any model must fulfil."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

import moye as mo
from hopper_kernels import run_gemm
from hopper_pipelines import operands as hopper_operands
from hopper_pipelines import products, run_ring
from moye.errors import ArgumentError
from moye.sim.timeline import effort
from moye.sim.timeline.modelled import APART, QUARTERS
from timeline_pipelines import COPY, LOAD, MMA, THREE, T, carried_scalar, multistage, operands, through_registers

SVG = "{http://www.w3.org/2000/svg}"


def run(kernel, *args, grid=1, block=T):
    return mo.check(kernel, lints=False, timeline=True)[grid, block](*args).timeline()


def of(model, unit, warp=None):
    return [span for span in model.spans if span.unit == unit and warp in (None, span.warp)]


# --- what a unit takes -----------------------------------------------------------------------------------------------


@mo.kernel
def computed(out, x, function: mo.Constexpr):
    """16 elements of a thread."""
    mine = mo.fragment((16,), mo.float32)
    mo.copyto(mine, mo.tile(x, (16,), (mo.thread_idx().x,)))
    mine[...] = function(mine)
    mo.copyto(mo.tile(out, (16,), (mo.thread_idx().x,)), mine)


@pytest.mark.parametrize(("function", "plain", "special"), [
    (lambda x: x + x * x, 32, 0), (lambda x: mo.exp2(x, fast=True), 0, 16 * 8), (lambda x: mo.exp2(x), 96, 16 * 8),
    (lambda x: 1.0 / x, 96, 16 * 8)])
def test_what_arithmetic_takes(function, plain, special):
    """Warps 0 and 4 share a unit, so that one waits for the other; no other two do."""
    model = run(computed, np.zeros(16 * 160, np.float32), np.ones(16 * 160, np.float32), function,
                block=160).modelled()
    for unit, clocks in (("math", plain), ("special", special)):
        mine = of(model, unit)
        assert sum(span.taken for span in mine) == 5 * clocks
        assert not clocks or max(span.end for span in mine if span.warp == 4) >= 2 * clocks
        assert model.busy(unit) == pytest.approx(5 * clocks / 4 / model.clocks)


@mo.kernel
def begun(x, mma: mo.Constexpr, K: mo.Constexpr, N: mo.Constexpr):
    """One product of 64 x N x K, whose operands nobody has written, and one that waits for it."""
    tid = mo.thread_idx().x
    sA = mo.shared_array(mo.bfloat16, mo.tile_to_shape(mo.smem_layout_atom(mo.bfloat16, "k"), (64, K)))
    sB = mo.shared_array(mo.bfloat16, mo.tile_to_shape(mo.smem_layout_atom(mo.bfloat16, "k"), (N, K)))
    thr, acc = mma.get_slice(tid), mma.partition_fragment_C((64, N))
    for _ in mo.static_range(2):
        mo.warpgroup_arrive()
        mo.gemm(mma, thr.partition_fragment_A(sA), thr.partition_fragment_B(sB), acc, accumulate=False)
        mo.warpgroup_commit_batch()
        mo.warpgroup_wait(0)
    mo.copyto(thr.partition_C(x), acc)


@pytest.mark.parametrize(("N", "K"), [(64, 64), (128, 128), (8, 64)])
def test_what_a_product_takes(N, K):
    """A quarter of the multiply-adds for each warp, 512 a clock; the second waits for the first."""
    mma = mo.make_tiled_mma(mo.mma.wgmma(mo.bfloat16, mo.bfloat16, mo.float32, N))
    model = run(begun, np.zeros((64, N), np.float32), mma, K, N, block=128).modelled()
    clocks = 64 * N * K / 4 / 512
    for warp in range(4):
        first, second = of(model, "tensor", warp)
        assert first.end - first.begin == second.end - second.begin == clocks
        assert second.begin >= first.end
    assert model.busy("tensor") == pytest.approx(2 * clocks / model.clocks)


def test_what_a_load_takes():
    """A run of 128 bytes is there 700 clocks after its two of the way; the next one is on its way at once."""
    report, right = run_ring(64, 2)
    assert report.ok and right
    model = report.timeline().modelled()
    first, second = [span for span in of(model, "memory") if span.warp == 0]
    assert (first.end - first.begin, first.taken) == (effort.LATENCY + 2, 2)
    assert (first.stage, second.stage) == (0, 1) and first.end > second.begin >= first.begin + 2
    reads = of(model, "shared")
    assert reads and min(span.begin for span in reads) >= first.end


# --- who waits for whom ----------------------------------------------------------------------------------------------


@mo.kernel
def together(out, barrier: mo.Constexpr):
    """Warp 1 computes much, then all meet, then all compute."""
    mine, tid = mo.fragment((64,), mo.float32), mo.thread_idx().x
    mine.fill(1.0)
    if tid // 32 == 1:
        mine[...] = mo.exp2(mine, fast=True)
    if barrier == "block":
        mo.sync_threads()
    elif barrier == "named":
        mo.barrier_sync(3, 64)
    elif barrier == "computed":
        mo.barrier_sync(out.dtype.bits // 32 + tid // 64, 64)
    mine[...] = mine + 1.0
    out[tid] = mine.reduce("add")


@pytest.mark.parametrize("barrier", ["block", "named", "computed", None])
def test_who_comes_to_a_barrier_waits_for_the_others(barrier):
    model = run(together, np.zeros(64, np.float32), barrier, block=64).modelled()
    late, = of(model, "special", 1)
    begin = min(span.begin for span in of(model, "math", 0))
    assert begin >= late.end if barrier else begin < late.end


@mo.kernel
def in_turns(out, polite: mo.Constexpr):
    """Two warps compute, three times each; one after the other, or beside each other."""
    mine, warp = mo.fragment((32,), mo.float32), mo.thread_idx().x // 32
    order = mo.PipelineOrder(threads=32)
    order.init()
    mo.sync_threads()
    mine.fill(0.0)
    turn = order.start(warp)
    for _ in range(3):
        if polite:
            order.wait(turn)
        mine[...] = mo.exp2(mine, fast=True)
        if polite:
            order.arrive(turn)
        turn = turn.next()
    out[mo.thread_idx().x] = mine.reduce("add")


@pytest.mark.parametrize("polite", [True, False])
def test_turns_are_taken(polite):
    model = run(in_turns, np.zeros(64, np.float32), polite, block=64).modelled()
    spans = sorted(of(model, "special"), key=lambda span: span.begin)
    assert len(spans) == 6
    together = any(a.end > b.begin for a, b in pairwise(spans))
    assert together != polite
    assert not polite or [span.warp for span in spans] == [0, 1] * 3


# --- what any model fulfils ------------------------------------------------------------------------------------------


def timelines():
    wgmma = (("load", 0), "mma", "mma", "commit", ("load", 1), "mma", "commit", 1, ("wait", 0, 0), "mma", "commit", 0,
             ("wait", 1, 0))
    return {
        "cp.async": lambda: run(multistage, *operands(9), THREE, COPY, MMA),
        "registers": lambda: run(through_registers, *operands(5), mo.make_layout((16, 4)), LOAD, MMA),
        "scalars": lambda: run(carried_scalar, np.ones(128, np.float32), np.ones(128, np.float32), 4, block=32),
        "ring": lambda: run_ring(260, 2, 2)[0].timeline(),
        "wgmma": lambda: run(products, *hopper_operands(), wgmma, block=128),
        "gemm": lambda: run_gemm((128, 128, 256), timeline=True)[0].timeline(),
    }


@pytest.mark.parametrize("name", timelines())
def test_units_serve_one_after_the_other_and_waits_wait(name):
    timeline = timelines()[name]()
    model = timeline.modelled()
    assert model.spans and model.clocks == max(span.end for span in model.spans)
    taken = defaultdict(list)
    for span in model.spans:
        assert 0 <= span.begin < span.end
        taken[span.unit, span.warp % QUARTERS if span.unit in APART else 0].append(span)
    for spans in taken.values():
        for a, b in pairwise(spans):
            assert b.begin >= a.begin + a.taken - 1e-6, "one after the other"
    assert all(0 <= model.busy(unit) <= 1 for unit in ("tensor", "math", "special", "memory", "shared"))
    at = {span.order: span for span in model.spans if span.order is not None}
    for event in timeline.events:
        if event.index in at and event.done in at:
            assert at[event.done].begin >= at[event.index].begin


def test_a_picture_has_a_row_for_each_role(tmp_path):
    model = run_gemm((128, 128, 256), timeline=True)[0].timeline().modelled()
    root = ElementTree.fromstring(model.svg())
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert str(model) in texts and {"copies", "tensor cores"} <= set(texts)
    bars = [rect for rect in root.iter(f"{SVG}rect") if rect.find(f"{SVG}title") is not None]
    assert 0 < len(bars) <= len(model.spans)
    assert all(float(rect.get("x")) + float(rect.get("width")) <= float(root.get("width")) for rect in bars)
    assert re.fullmatch(r"\w+: [\d,]+ modelled clocks, tensor cores busy \d+%", str(model))


def test_what_was_not_recorded_has_no_clocks(monkeypatch):
    from moye.sim.timeline import tape

    monkeypatch.setattr(tape, "MOST", 5)
    with pytest.raises(ArgumentError, match="its clocks are not known"):
        run(multistage, *operands(9), THREE, COPY, MMA).modelled()


@mo.kernel
def much(out, count: mo.Constexpr):
    mine = mo.fragment((4,), mo.float32)
    mine.fill(0.0)
    for _ in range(count):
        mine[...] = mine + 1.0
    out[mo.thread_idx().x] = mine.reduce("add")


def test_arithmetic_that_was_not_recorded_counts(monkeypatch):
    from moye.sim.timeline import tape

    monkeypatch.setattr(tape, "MOST", 8)
    assert run(much, np.zeros(32, np.float32), 7, block=32).modelled().clocks >= 7 * 4
    with pytest.raises(ArgumentError, match="lacks 2 statements"):
        run(much, np.zeros(32, np.float32), 9, block=32).modelled()
