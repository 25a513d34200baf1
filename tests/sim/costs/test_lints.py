"""Counts of whole launches, and lints that appear where they should and nowhere else."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import lint_kernels as kernels
import moye as mo
from moye.hardware import of
from moye.sim.costs import meter
from moye.sim.costs.occupancy import Compiled, occupancy
from moye.sim.costs.occupancy import lints as occupancy_lints

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def codes(report):
    return sorted({lint.code for lint in report.lints})


def line(report, instruction, tensor):
    """The one line of the counters with this instruction and tensor."""
    lines = report.counters()["lines"]
    (found,) = [one for one in lines if (one["instruction"], one["tensor"]) == (instruction, tensor)]
    return found


# --- P1 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("stride", "degree"), [(1, 1), (2, 2), (3, 1), (4, 4), (32, 32), (33, 1)])
def test_strides(stride, degree):
    report = kernels.run_strided(stride)
    assert report.ok, str(report)
    store, load = line(report, "st.shared", "smem"), line(report, "ld.shared", "smem")
    assert (store["requests"], store["wavefronts"], store["ideal"], store["degree"]) == (8, 8 * degree, 8, degree)
    assert (load["requests"], load["wavefronts"], load["loop"]) == (2, 2 * degree, False)
    assert codes(report) == (["P1"] if degree > 1 else [])


@pytest.mark.parametrize(("layout", "wavefronts"), [
    (mo.make_layout((32, 32)), 32), (mo.make_layout((32, 32), (32, 1)), None),
    (mo.make_layout((32, 32), (33, 1)), 32),
    (mo.ComposedLayout(mo.Swizzle(3, 2, 3), 0, mo.make_layout((32, 32), (32, 1))), None)])
def test_tiles_read_by_rows(layout, wavefronts):
    """A thread reads a row: 128-bit accesses where it is contiguous."""
    report = kernels.run_columns(layout)
    shared = [one for one in report.counters()["lines"] if one["space"] == "shared"]
    loads = [one for one in shared if one["direction"] == "load"]
    assert sum(one["bytes"] * one["requests"] for one in loads) == 4 * 32
    if wavefronts is not None:
        assert sum(one["wavefronts"] for one in loads) == wavefronts
    else:
        assert {one["bytes"] for one in loads} == {16}


@pytest.mark.parametrize(("layout", "degree"), [
    (mo.make_layout((32, 64), (64, 1)), 8), (mo.make_layout((32, 64), (72, 1)), 1),
    (mo.ComposedLayout(mo.Swizzle(3, 3, 3), 0, mo.make_layout((32, 64), (64, 1))), 1)])
def test_ldmatrix(layout, degree):
    report = kernels.run_matrices(layout)
    assert report.ok, str(report)
    loads = line(report, "ldmatrix.x4", "smem")
    assert (loads["requests"], loads["wavefronts"], loads["degree"]) == (1, 4 * degree, degree)
    conflicts = [lint for lint in report.lints if lint.code == "P1" and "ldmatrix" in lint.message]
    assert len(conflicts) == (degree > 1)
    if degree > 1:
        assert "Sw<" in conflicts[0].hint and "no bank conflicts are left" in conflicts[0].hint


def test_the_proposed_layout_is_free_of_conflicts():
    """What a hint names is tried: the same kernel with it has no lint."""
    report = kernels.run_matrices(mo.make_layout((32, 64), (64, 1)))
    (lint,) = [one for one in report.lints if "ldmatrix" in one.message]
    for text in lint.hint.split(" as ")[1].split(" no bank")[0].split(" or "):
        layout = mo.Layout.parse(text) if "Sw" not in text else mo.ComposedLayout.parse(text)
        assert "P1" not in codes(kernels.run_matrices(layout)), text


# --- P1 of cp.async --------------------------------------------------------------------------------------------------

ROW = mo.layout.LayoutRight
BY_ROWS = mo.make_layout((16, 2), ROW), mo.make_layout((1, 4))              # 32 bytes of each of 16 rows


@pytest.mark.slow
@pytest.mark.parametrize(("name", "wavefronts", "conflicts"), [
    ("async", 8192, 6144), ("double_buffered", 4096, 0), ("ldmatrix", 24576, 18432),
    ("pipelined", 2048, 0)])
def test_the_copies_of_the_examples(name, wavefronts, conflicts):
    """As ncu counted on an H200: conflicts exactly, the wavefronts of pipelined within 64."""
    spec = importlib.util.spec_from_file_location("ncu_agreement", BENCHMARKS / "ncu_agreement.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    counters = module.KERNELS[name](lambda x: x, mo.check).counters()
    assert (counters["cp_async_shared_wavefronts"], counters["cp_async_shared_conflicts"]) == (wavefronts, conflicts)


@pytest.mark.parametrize("layout", [
    mo.make_layout((16, 8), ROW), mo.make_layout((16, 8), (12, 1)),
    mo.ComposedLayout(mo.Swizzle(1, 2, 3), 0, mo.make_layout((16, 8), ROW))])
def test_short_rows_of_many_lines(layout):
    """No layout of shared memory helps, and none is named."""
    report = kernels.run_rows(mo.CpAsync(mo.uint128), layout, *BY_ROWS)
    copy = line(report, "cp.async.16", "smem")
    assert (copy["requests"], copy["wavefronts"], copy["ideal"], copy["degree"]) == (1, 16, 4, 1)
    (lint,) = [lint for lint in report.lints if lint.code == "P1"]
    assert "cp.async.16 takes 16 wavefronts a request instead of 4" in lint.message
    assert "32 bytes from each of 16 lines of 128 bytes" in lint.message and lint.numbers["lines"] == 16
    assert "longer contiguous runs" in lint.hint and "Sw<" not in lint.hint and "layout" not in lint.message


def test_short_rows_whose_pattern_is_not_kept(monkeypatch):
    """Of patterns of very many elements the cost alone is known."""
    monkeypatch.setattr(meter, "KEPT_ELEMENTS", 0)
    report = kernels.run_rows(mo.CpAsync(mo.uint128), mo.make_layout((16, 8), ROW), *BY_ROWS)
    (lint,) = [lint for lint in report.lints if lint.code == "P1"]
    assert lint.message.endswith("instead of 4, as cp.async.ca goes line by line") and "lines" not in lint.numbers


def test_short_rows_that_bypass_l1():
    report = kernels.run_rows(mo.CpAsync(mo.uint128, cache="global"), mo.make_layout((16, 8), ROW), *BY_ROWS)
    copy = line(report, "cp.async.16", "smem")
    assert (copy["requests"], copy["wavefronts"], copy["ideal"]) == (1, 1, 1)
    assert "P1" not in codes(report)


@pytest.mark.parametrize(("count", "wavefronts"), [(32, 16), (16, 8 + 2), (0, 4)])
def test_lanes_filled_with_zeros_are_a_line_of_their_own(count, wavefronts):
    report = kernels.run_filled(count, *BY_ROWS)
    copies = [one for one in report.counters()["lines"]
              if (one["instruction"], one["tensor"]) == ("cp.async.16", "smem")]
    assert [(one["wavefronts"], one["ideal"]) for one in copies] == [(wavefronts, 4)]
    assert [lint.numbers["lines"] for lint in report.lints if lint.code == "P1"] == ([count // 2] if count else [])


def test_a_line_that_goes_to_one_bank():
    """A row of 128 bytes becomes a column: who meets there, and a layout that avoids it, by lines too."""
    report = kernels.run_rows(mo.CpAsync(mo.float32), mo.make_layout((8, 32)), mo.make_layout((8, 32), ROW),
                              mo.make_layout((1, 1)))
    copy = line(report, "cp.async.4", "smem")
    assert (copy["requests"], copy["wavefronts"], copy["ideal"], copy["degree"]) == (8, 8 * 8, 8, 8)
    (lint,) = [lint for lint in report.lints if lint.code == "P1"]
    assert "8-way bank conflicts" in lint.message and "threads 0,4,8,12,16,20,24,28 meet in bank 0" in lint.message
    layout = lint.hint.split(" as ")[1].split(" no bank")[0].split(" or ")[0]
    better = mo.Layout.parse(layout) if "Sw" not in layout else mo.ComposedLayout.parse(layout)
    report = kernels.run_rows(mo.CpAsync(mo.float32), better, mo.make_layout((8, 32), ROW), mo.make_layout((1, 1)))
    assert "P1" not in codes(report)


# --- P2, P3 ----------------------------------------------------------------------------------------------------------


def test_a_narrow_copy():
    x = np.asfortranarray(np.ones((128, 8), np.float32))
    thr, val = mo.make_layout((32, 8)), mo.make_layout((4, 1))
    narrow, wide = (kernels.run_copy(dtype, thr, val, x) for dtype in (mo.float32, mo.uint128))
    assert codes(narrow) == ["P2"] and codes(wide) == []
    assert (narrow.lints[0].numbers["bytes"], narrow.lints[0].numbers["possible"]) == (4, 16)
    assert line(narrow, "ld.global", "x")["possible_bytes"] == 16
    assert line(wide, "ld.global.v4", "x")["possible_bytes"] == 16


def test_a_copy_is_not_narrow_where_a_side_does_not_allow_more():
    """The columns of x are not aligned to more than 8 bytes."""
    x = np.asfortranarray(np.ones((130, 8), np.float32))[:128]
    report = kernels.run_copy(mo.float64, mo.make_layout((32, 8)), mo.make_layout((4, 1)), x)
    assert "P2" not in codes(report)
    assert line(report, "ld.global.v2", "x")["possible_bytes"] == 8


def test_sectors():
    x = np.ones((32, 32), np.float32)                   # row-major
    along, across = (kernels.run_copy(mo.float32, mo.make_layout((32, 8), step), mo.make_layout((1, 1)), x)
                     for step in ((8, 1), (1, 32)))
    assert codes(along) == [] and codes(across) == ["P3"]
    assert line(along, "ld.global", "x")["sectors"] == 32 * 4
    assert line(across, "ld.global", "x")["sectors"] == 32 * 32
    assert "contiguous along mode 1" in across.lints[0].hint


def test_masks_count():
    x, y = np.ones(512, np.float32), np.zeros(512, np.float32)
    report = mo.check(kernels.masked)[4, 128](y, x, 40)
    loads = line(report, "ld.global", "x")
    assert (loads["requests"], loads["sectors"]) == (4 * 2, 4 * (4 + 1))
    assert report.counters()["global_load_sectors"] == 20


# --- P4 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pending", "ahead", "late", "spare"), [
    (0, 2, False, 1), (0, 3, False, 2), (None, 2, False, 1), (1, 2, False, None), (0, 1, False, None),
    (0, 2, True, None)])
def test_waits_for_everything(pending, ahead, late, spare):
    """Told where newer groups are in flight that nobody reads before the next wait."""
    report = kernels.run_staged(pending, ahead, late)
    assert not [f for f in report.findings if f.code != "D4"], str(report)
    found = [lint for lint in report.lints if lint.code == "P4"]
    assert [lint.numbers["pending"] for lint in found] == ([] if spare is None else [spare])


# --- P5, P8, P6 ------------------------------------------------------------------------------------------------------


@mo.kernel
def barriers_in_a_loop(y, x, count):
    tid = mo.thread_idx().x
    smem = mo.shared_array(mo.float32, 64)
    for i in range(count):
        smem[tid] = x[64 * i + tid]
        mo.sync_threads()
        mo.sync_threads()
        y[64 * i + tid] = smem[63 - tid]
        mo.sync_threads()


@pytest.mark.parametrize(("count", "found"), [(4, 1), (1, 0)])
def test_redundant_barriers(count, found):
    """Of two in a row one is redundant, not both, the third is not; a loop that runs once proves nothing."""
    x = np.ones(64 * count, np.float32)
    report = mo.check(barriers_in_a_loop, lints="deep")[1, 64](np.zeros_like(x), x, count)
    assert report.ok, str(report)
    lines = [lint.locs[0].line for lint in report.lints if lint.code == "P5"]
    assert len(lines) == found and len(set(lines)) == found
    assert not mo.check(barriers_in_a_loop)[1, 64](np.zeros_like(x), x, count).lints


@mo.kernel
def through_global(x):
    tid = mo.thread_idx().x
    x[tid] = mo.float32(1)
    mo.sync_threads()
    x[tid] = x[63 - tid] + 1


def test_barriers_that_may_order_global_memory_are_not_judged():
    report = mo.check(through_global, lints="deep")[1, 64](np.zeros(64, np.float32))
    assert "P5" not in codes(report)


@mo.kernel
def told_by_a_flag(x, flag):
    tid = mo.thread_idx().x
    x[tid] = mo.float32(1)
    mo.sync_threads()
    if tid == 0:
        mo.store(flag, 0, 1, order="release")


def test_barriers_before_a_release_are_not_judged():
    """Who waits for the flag may be another kernel: the barrier puts the writes of all threads before it."""
    report = mo.check(told_by_a_flag, lints="deep")[1, 64](np.zeros(64, np.float32), np.zeros(1, np.int32))
    assert report.ok, str(report)
    assert "P5" not in codes(report)


def test_the_deep_run_changes_nothing():
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    mo.check(barriers_in_a_loop, lints="deep")[1, 64](y, x, 1)
    assert np.array_equal(y, x[::-1])


H200 = of("sm_90a")


@pytest.mark.parametrize(("threads", "shared", "registers", "blocks"), [
    (256, 0, None, 8), (64, 0, None, 32), (1024, 0, None, 2), (128, 227 << 10, None, 1), (128, 113 << 10, None, 2),
    (256, 0, 128, 2), (256, 0, 255, 1), (32, 6 << 10, None, 32)])
def test_occupancy(threads, shared, registers, blocks):
    assert occupancy(threads, shared, registers, H200).blocks == blocks


def _func(kernel, *args, block):
    from moye.runtime.arguments import classify
    return kernel.specialised(classify(kernel.signature, args, {}), (block, 1, 1)).func


def test_spills_and_registers_of_a_compiled_program():
    func = _func(barriers_in_a_loop, np.zeros(64, np.float32), np.zeros(64, np.float32), 1, block=64)
    assert occupancy_lints(func, 256, Compiled(32, 0), H200) == []
    assert [lint.code for lint in occupancy_lints(func, 256, Compiled(64, 24), H200)] == ["P6"]
    (lint,) = occupancy_lints(func, 256, Compiled(64, 0, 16), H200)
    assert lint.code == "P6" and lint.message == "each thread keeps 16 bytes in local memory"


# --- reports ---------------------------------------------------------------------------------------------------------


def test_a_launch_that_is_refused_says_why_it_has_no_table():
    wide = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.uint128), mo.float32), mo.make_layout((8, 4)),
                              mo.make_layout((4, 1)))

    @mo.kernel
    def across_rows(dst, src):
        thr = wide.get_slice(mo.thread_idx().x)
        gS, gD = mo.tile(src, (32, 32), (0, 0)), mo.tile(dst, (32, 32), (0, 0))             # (32, 32)
        mo.copyto(wide, thr.partition_D(gD), thr.partition_S(gS))

    report = mo.check(across_rows)[1, 32](np.zeros((32, 32), np.float32), np.zeros((32, 32), np.float32))
    with pytest.raises(mo.ArgumentError, match="counted no accesses") as caught:
        report.table()
    assert report.findings and caught.value.hint == "print(report) says what was found"


def test_plain_launches_count_nothing():
    y = np.zeros(64, np.float32)
    report = kernels.run_strided(32, lints=False)
    assert report.lints == [] and report.traffic is None
    with pytest.raises(mo.ArgumentError, match="counted no accesses"):
        report.table()
    with pytest.raises(mo.ArgumentError, match='True, False or "deep"'):
        mo.check(kernels.strided, lints="all")
    assert not y.any()


def test_the_table():
    report = kernels.run_strided(2, rounds=3)
    rows = report.table().splitlines()
    assert len(rows) == 1 + 4 and rows[0].split()[:4] == ["line", "statement", "instruction", "tensor"]
    told = str(report)
    assert "memory accesses in loops:" in told and "st.shared" in told
    assert "ld.shared" not in told.split("memory accesses in loops:")[1]


def test_totals_are_the_sums_of_the_lines():
    report = kernels.run_strided(4)
    counters = report.counters()
    shared = [one for one in counters["lines"] if one["space"] == "shared"]
    assert counters["shared_wavefronts"] == sum(one["wavefronts"] for one in shared)
    assert counters["shared_conflicts"] == sum(one["wavefronts"] - one["ideal"] for one in shared)
    assert counters["shared_store_requests"] == sum(one["requests"] for one in shared if one["direction"] == "store")


# --- A6 --------------------------------------------------------------------------------------------------------------


@mo.kernel
def two_views(y, x, layout, swizzle, read_swizzled: mo.Constexpr, wide: mo.Constexpr, filled: mo.Constexpr):
    """A tile is written through a swizzle, as words or as halves, and read with or without it, as words."""
    tid = mo.thread_idx().x
    smem = mo.shared_array(mo.float32, layout)                              # (32, 32)
    view = smem.with_layout(mo.ComposedLayout(swizzle, 0, layout))
    if filled:
        if tid == 0:
            view.fill(0)
    else:
        to, of = (view, x) if wide else (mo.recast(view, mo.float16), mo.recast(x, mo.float16))
        column = (32 if wide else 64, 1)
        mo.copyto(mo.tile(to, column, (0, tid)), mo.tile(of, column, (0, tid)))
    mo.sync_threads()
    source = view if read_swizzled else smem
    mo.copyto(mo.tile(y, (32, 1), (0, tid)), mo.tile(source, (32, 1), (0, tid)))


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize(("read_swizzled", "filled", "found"), [
    (True, False, False), (False, False, True), (True, True, False), (False, True, False)])
def test_two_swizzles(read_swizzled, filled, wide, found):
    """A recast view has the swizzle of its tensor in other units; a fill is the same through every one."""
    x, y = np.asfortranarray(np.ones((32, 32), np.float32)), np.zeros((32, 32), np.float32, order="F")
    layout, swizzle = mo.make_layout((32, 32)), mo.Swizzle(3, 2, 3)
    report = mo.check(two_views)[1, 32](y, x, layout, swizzle, read_swizzled, wide, filled)
    assert report.ok, str(report)
    lints = [lint for lint in report.lints if lint.code == "A6"]
    assert len(lints) == found
    if found:
        assert "Sw<3,4,3>" in lints[0].message and len(lints[0].locs) == 2


# --- how it is counted -----------------------------------------------------------------------------------------------


@mo.kernel
def gather(y, x, index, count):
    """Every thread walks its own way through x: no pattern comes twice."""
    bx, _, _ = mo.block_idx()
    tid = mo.thread_idx().x
    at = index[128 * bx + tid]
    total = mo.float32(0)
    for _ in range(count):
        at = (at * 1103 + 12345) % 4096
        total += x[at]
    y[128 * bx + tid] = total


def test_patterns_that_never_repeat_are_sampled():
    """Requests are exact; sectors are those of some blocks, and the table says so."""
    blocks, rounds = 64, 100
    index = np.random.default_rng(0).integers(0, 4096, 128 * blocks).astype(np.int32)
    x, y = np.ones(4096, np.float32), np.zeros(128 * blocks, np.float32)
    report = mo.check(gather)[blocks, 128](y, x, index, rounds)
    exact, at = 0, index.astype(np.int64)
    for _ in range(rounds):
        at = (at * 1103 + 12345) % 4096
        exact += sum(len(set(warp)) for warp in (at.reshape(-1, 32) // 8).tolist())
    loads = line(report, "ld.global", "x")
    assert loads["sampled"] and loads["requests"] == rounds * blocks * 4
    assert loads["sectors"] == pytest.approx(exact, rel=0.02)
    assert "~" in report.table() and "scaled to all" in report.table()


@pytest.mark.parametrize("blocks", [1, 7])
def test_batches_of_blocks_add_up(blocks):
    """The same counts whether blocks run together or one after the other."""
    x, y = np.ones(128 * 9, np.float32), np.zeros(128 * 9, np.float32)
    report = mo.check(kernels.masked)[9, 128](y, x, 100)
    from moye.runtime.arguments import classify
    from moye.runtime.simulate import launch_arguments
    from moye.sim.costs.table import counters
    from moye.sim.machine.machine import Hooks, simulate
    call = classify(kernels.masked.signature, (y, x, 100), {})
    spec = kernels.masked.specialised(call, (128, 1, 1))
    outcome = simulate(spec.func, launch_arguments(spec, call), (9, 1, 1), check=True,
                       hooks=Hooks(lints=True, blocks=blocks))
    assert counters(outcome.meter) == report.counters()


@mo.kernel
def crosswise_kernel(x, y, tile, tma: mo.Constexpr):
    """A tile of plain rows read by columns: by TMA into shared memory, or by threads."""
    tid = mo.thread_idx().x
    smem, bars = mo.shared_array(mo.float32, tile, align=128), mo.mbarrier_array(1)
    if tma:
        if tid == 0:
            mo.mbarrier_init(bars, 0, 1)
            mo.fence_mbarrier_init()
            mo.mbarrier_arrive_expect_tx(bars, 0, x.bytes)
            mo.copyto(x, smem, mo.tile(x.tensor, (32, 32), (0, 0)), barrier=(bars, 0))
        mo.sync_threads()
        mo.mbarrier_wait(bars, 0, 0)
    else:
        for i in range(32):
            smem[i, tid] = x[i, tid]
        mo.sync_threads()
    total = mo.float32(0)
    for j in range(32):
        total += smem[tid, j]
    y[tid] = total


@pytest.mark.parametrize("tma", [False, True])
def test_a_canonical_layout_is_proposed_for_a_tile_of_tma(tma):
    x, y = np.ones((32, 32), np.float32), np.zeros(32, np.float32)
    tile = mo.make_layout((32, 32), (32, 1))
    source = mo.make_tma_copy(mo.TmaLoad(), x, tile) if tma else x
    report = mo.check(crosswise_kernel)[1, 32](source, y, tile, tma)
    assert report.ok and (y == 32).all()
    (lint,) = [lint for lint in report.lints if lint.code == "P1"]
    assert "32-way" in lint.message
    assert ("smem_layout_atom" in lint.hint) is tma     # TMA takes canonical layouts alone
