"""Pictures of tiled copies, tiled MMAs and partitions: each thread holds each of its values exactly once."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import moye as mo
from moye.layout import is_injective
from picture_cases import COPY, MMA, TF32_16x8x8


def pairs(panel):
    return [pair for cell in panel.cells for pair in zip(cell.threads, cell.values, strict=True)]


def at(panel, row, column):
    return panel.grid()[row, column]


@settings(deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.booleans())
def test_a_copy_gives_every_value_of_every_thread_one_cell(tm, tn, vm, vn, by_row):
    thr = mo.make_layout((tm, tn), (tn, 1)) if by_row else mo.make_layout((tm, tn))
    copy = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.float32), mo.float32), thr, mo.make_layout((vm, vn)))
    source, target = mo.draw(copy).sheet.panels
    every = {(t, v) for t in range(tm * tn) for v in range(vm * vn)}
    for panel in (source, target):
        assert Counter(pairs(panel)) == Counter(every)
        assert len(panel.cells) == tm * vm * tn * vn
        for cell in panel.cells:
            index = cell.row + tm * vm * cell.column
            assert copy.layout_tv(cell.threads[0], cell.values[0]) == index == cell.index
            assert cell.lines == (f"T{cell.threads[0]}", f"V{cell.values[0]}")
            assert cell.colour == cell.threads[0]


def test_source_and_destination_stand_side_by_side():
    source, target = mo.draw(COPY).sheet.panels
    assert [(p.title, p.place) for p in (source, target)] == [("source", (0, 0)), ("destination", (0, 1))]


def test_tensor_core_fragments_are_the_isas():
    """PTX ISA, mma.m16n8k8 .tf32: rows and columns of a0..a3, b0, b1, c0..c3 by lane."""
    b, a, c = mo.draw(TF32_16x8x8).sheet.panels
    for lane in range(32):
        group, within = divmod(lane, 4)
        for i in range(4):
            row, column = group + 8 * (i % 2), within + 4 * (i // 2)
            assert pairs_at(a, row, column) == [(lane, i)], f"a{i} of lane {lane}"
            row, column = group + 8 * (i // 2), 2 * within + i % 2
            assert pairs_at(c, row, column) == [(lane, i)], f"c{i} of lane {lane}"
        for i in range(2):
            assert pairs_at(b, within + 4 * i, group) == [(lane, i)], f"b{i} of lane {lane}"


def pairs_at(panel, row, column):
    cell = at(panel, row, column)
    return list(zip(cell.threads, cell.values, strict=True))


def test_b_is_drawn_transposed_and_its_facts_are_not():
    b, a, c = mo.draw(TF32_16x8x8).sheet.panels
    assert [panel.place for panel in (b, a, c)] == [(0, 1), (1, 0), (1, 1)]
    cell = at(b, 3, 5)                                  # k = 3, n = 5
    assert (cell.coordinate, cell.index) == ("(5,3)", 5 + 8 * 3)
    assert at(a, 3, 5).coordinate == "(3,5)"
    assert [len(p.columns) for p in (b, c)] == [8, 8]
    assert [len(p.rows) for p in (a, c)] == [16, 16]


def test_an_element_that_threads_share_names_the_first_and_counts_the_others():
    b, a, c = mo.draw(MMA).sheet.panels
    assert at(a, 1, 0).threads == (1, 3, 5, 7)
    assert at(a, 1, 0).lines == ("T1", "V0", "+3")
    assert at(b, 0, 2).threads == (4, 5)
    assert at(c, 1, 2).threads == (5,)
    assert mo.draw(MMA).sheet.notes == ("T thread, V value; +n: n more threads hold the element",)


@settings(deadline=None)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 2), st.sampled_from([1, 2]))
def test_an_mma_gives_every_accumulator_one_cell(am, an, ak, more):
    op = mo.UniversalFMA(mo.float32)
    mma = mo.make_tiled_mma(op, mo.make_layout((am, an, ak)), (am * more, None, None))
    _, _, c = mo.draw(mma).sheet.panels
    assert Counter(pairs(c)) == Counter((t, v) for t in range(mma.threads) for v in range(more))
    assert len(c.cells) == am * more * an


@pytest.mark.slow
def test_a_large_mma_is_cropped_alike_in_all_blocks():
    mma = mo.make_tiled_mma(mo.UniversalFMA(mo.float32), mo.make_layout((8, 8)), (64, 32, 8))
    b, a, c = mo.draw(mma, max_cells=200).sheet.panels
    assert sum(len(panel.cells) for panel in (a, b, c)) <= 200
    assert len(a.rows) == len(c.rows)
    assert len(b.columns) == len(c.columns)
    assert len(a.columns) == len(b.rows)
    assert "of (64,32,8): max_cells=200" in mo.draw(mma, max_cells=200).text


def test_a_partition_shows_threads_offsets_and_banks():
    layout = mo.make_layout((8, 4), (5, 1))
    picture = mo.draw(layout, thr="(4,2)", val="(1,2)", bits=16)
    (panel,) = picture.sheet.panels
    copy = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.float16), mo.float16), mo.make_layout((4, 2)),
                              mo.make_layout((1, 2)))
    assert Counter(pairs(panel)) == Counter((t, v) for t in range(8) for v in range(4))
    for cell in panel.cells:
        assert cell.offset == layout(cell.row, cell.column)
        assert cell.bank == cell.offset // 2 % 32
        thread, value = cell.threads[0], cell.values[0]
        assert copy.layout_tv(thread, value % 2) == cell.row % 4 + 4 * cell.column
        assert value // 2 == cell.row // 4


def test_a_partition_of_a_hierarchical_and_of_a_swizzled_layout():
    plain = mo.draw("(4,4)", thr="(2,2)").sheet.panels[0]
    nested = mo.draw("((2,2),(2,2)):((1,8),(2,4))", thr="(2,2)").sheet.panels[0]
    assert [c.threads for c in nested.cells] == [c.threads for c in plain.cells]
    assert at(nested, 2, 1).coordinate == "((0,1),(1,0))"
    swizzled = mo.draw("Sw<2,0,2> o (4,4):(4,1)", thr="(2,2)").sheet.panels[0]
    assert at(swizzled, 1, 0).offset == 5


def test_a_partition_of_three_modes_has_a_panel_for_each_slice():
    sheet = mo.draw("(4,2,3)", thr="(2,2)").sheet
    assert [panel.title for panel in sheet.panels] == ["(_,_,0)", "(_,_,1)", "(_,_,2)"]
    everything = Counter(pair for panel in sheet.panels for pair in pairs(panel))
    assert everything == Counter((t, v) for t in range(4) for v in range(6))


@pytest.mark.parametrize(("x", "options", "message"), [
    ("(4,4)", {"thr": "3"}, r"threads 3:1 cover a tile \(3\), which does not divide \(4,4\)"),
    ("4", {"thr": "(2,2)"}, r"cover a tile \(2,2\), which does not divide 4"),
    ("(4,4)", {"thr": "(2,2):(0,1)"}, r"thread layout \(2,2\):\(0,1\) gives two coordinates the same thread"),
    ("(4,4)", {"thr": "2", "val": "2:0"}, "value layout 2:0 gives two coordinates the same value"),
    ("(4,4)", {"thr": "0"}, "thread layout 0:1 has no threads"),
    ("(4,4)", {"val": "2"}, "needs a thread layout"),
    ("Sw<1,0,1>", {"thr": "2"}, "share a layout, not Sw<1,0,1>"),
])
def test_partitions_that_there_are_not(x, options, message):
    with pytest.raises(mo.LayoutError, match=message):
        mo.draw(x, **options)


def test_the_hand_made_operation_is_a_bijection():
    """Else the tensor-core tests would test nothing."""
    for layout in (TF32_16x8x8.a_layout, TF32_16x8x8.b_layout, TF32_16x8x8.c_layout):
        assert is_injective(layout)
