"""Copies of rows at any indices: in the simulator against NumPy, as they are printed, and what is refused."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import moye as mo
from gathered_rows import BLOCK, CASES, fetched_kernel, moved_kernel
from moye.errors import ArgumentError, DTypeError, LayoutError, TensorError, UnsupportedError
from moye.ir import ops
from moye.ir.rules import RULES

CASE = CASES["float32-128"]
GATHER = mo.TmaGather4()


@pytest.mark.parametrize("earliest", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_rows_are_moved(name, earliest):
    """Rows that are not there read as zero, and places behind the last row are not written."""
    case = CASES[name]
    arguments = case.arguments(1)
    target, source, picks, places = arguments
    expected = case.expected(*arguments)
    report = mo.check(moved_kernel, earliest=earliest)[3, BLOCK](*case.copies(target, source), picks, places,
                                                                 case.column, case.rows)
    assert report.ok, str(report)
    assert np.array_equal(target, expected)
    assert target.any() and not target.all()


def compiled(arch, case=CASE):
    target, source, picks, places = case.arguments(1)
    return moved_kernel.compile(*case.copies(target, source), picks, places, case.column, case.rows, block=BLOCK,
                                arch=arch)


@pytest.mark.parametrize("arch", ["sm_100a", "sm_103a"])
def test_compiled(arch):
    found = compiled(arch)
    assert found.spills == 0
    assert len(re.findall(r"tile::gather4\.mbarrier::complete_tx::bytes \[%0\], \[%1, \{%2, %3, %4, %5, %6\}\], \[%7\]",
                          found.source)) == 1
    assert "global.shared::cta.tile::scatter4.bulk_group [%1, {%2, %3, %4, %5, %6}], [%0]" in found.source
    assert len(re.findall(r"^ +tma_gather4\(", found.source, re.MULTILINE)) == 4


@pytest.mark.parametrize(("arch", "why"), [
    ("sm_90a", r"gather4\), which need sm_100 or later, but is compiled for sm_90a"),
    ("sm_100", r"scatter4\), which need an architecture with an a"),
    ("sm_120a", r"scatter4\), which sm_120 and later lack, but is compiled for sm_120a")])
def test_older_and_other_architectures_are_refused(arch, why):
    with pytest.raises(UnsupportedError, match=why):
        compiled(arch)


def test_rows_are_fetched_to_the_cache():
    _, source, picks, _ = CASES["int8-32"].arguments(1)
    copy = CASES["int8-32"].copies(source, source)[1]
    assert mo.check(fetched_kernel)[1, BLOCK](copy, picks).ok
    assert "prefetch.tensor.2d.L2.global.tile::gather4 [%0, {%1, %2, %3, %4, %5}]" in fetched_kernel.compile(
        copy, picks, block=BLOCK, arch="sm_100a").source


def moved(case, change):
    """The findings of a run whose arguments were changed."""
    target, source, picks, places = case.arguments(1)
    column = change(picks, places)
    report = mo.check(moved_kernel)[3, BLOCK](*case.copies(target, source), picks, places,
                                              case.column if column is None else column, case.rows)
    return [(finding.code, str(finding).splitlines()[0]) for finding in report.findings]


def test_a_row_that_is_written_twice():
    def change(picks, places):
        places[9], places[10] = 5, 5

    (code, text), *_ = moved(CASE, change)
    assert code == "B5" and "writes row 5 of target from two rows of shared memory at once" in text


def test_two_rows_behind_the_last_are_not_written():
    def change(picks, places):
        places[9], places[10] = 99, 99

    assert moved(CASE, change) == []


def test_two_instructions_that_write_one_row():
    def change(picks, places):
        places[0], places[4] = 6, 6

    assert {code for code, _ in moved(CASE, change)} & {"C1", "G1", "D17", "B9"}


def test_a_row_below_zero_is_loaded_and_not_stored():
    def change(picks, places):
        picks[:], places[3] = -1, -1

    (code, text), *more = moved(CASE, change)
    assert code == "B5" and "begins at coordinate (0," in text and "of target" in text
    assert {code for code, _ in more} <= {"B5"}


def test_a_column_that_is_no_multiple_of_16_bytes():
    (code, text), *_ = moved(CASE, lambda picks, places: 2)
    assert code == "B5" and "begins 8 bytes from the beginning of a row" in text


# --- what is refused -------------------------------------------------------------------------------------------------


def named(indices, start=0, op=GATHER):
    @mo.kernel
    def kernel(tma):
        smem, full = mo.shared_array(tma.dtype, tma.smem_layout), mo.mbarrier_array(1)
        mo.copyto(tma, smem, tma.rows(indices, start), barrier=(full, 0))

    kernel.trace(mo.make_tma_copy(op, np.zeros((50, 64), np.float32), CASE.layout), block=BLOCK)


@pytest.mark.parametrize(("indices", "start", "error", "why"), [
    ((0, 1, 2), 0, TensorError, "3 indices, and a tile has 8 rows"),
    (7, 0, TensorError, "takes a tensor or a tuple of the indices of rows, not a int"),
    ((0.5,) * 8, 0, DTypeError, "index 0 is 0.5, and an index is an integer"),
    ((0,) * 8, 1.5, DTypeError, "the first element is 1.5, and an index is an integer"),
    ((0,) * 8, 2, TensorError, "begins 8 bytes from the beginning of a row")])
def test_indices(indices, start, error, why):
    with pytest.raises(error, match=why):
        named(indices, start)


def test_tiles_that_are_not_named_by_rows():
    @mo.kernel
    def kernel(tma):
        smem, full = mo.shared_array(tma.dtype, tma.smem_layout), mo.mbarrier_array(1)
        mo.copyto(tma, smem, mo.tile(tma.tensor, tma.tile, (0, 0)), barrier=(full, 0))

    with pytest.raises(TensorError, match="copies rows at any indices, and these are named by a CoordTensor"):
        kernel.trace(mo.make_tma_copy(mo.TmaGather4(), np.zeros((50, 64), np.float32), CASE.layout), block=BLOCK)
    with pytest.raises(TensorError, match="copies tiles of rows that follow each other"):
        named((0,) * 8, op=mo.TmaLoad())


def test_arrays_and_tiles():
    x = np.zeros((50, 64), np.float32)
    for layout, why in ((mo.make_layout((6, 32), (32, 1)), "the tile has 6 rows of 128 bytes"),
                        (mo.make_layout((4, 4), (4, 1)), "the tile has 4 rows of 16 bytes")):
        with pytest.raises(LayoutError, match=why):
            mo.make_tma_copy(mo.TmaGather4(), x, layout)
    with pytest.raises(LayoutError, match="the array has 3 modes"):
        mo.make_tma_copy(mo.TmaGather4(), np.zeros((2, 50, 64), np.float32), CASE.layout)
    with pytest.raises(ArgumentError, match="go to one block, not to 2"):
        mo.make_tma_copy(mo.TmaGather4(), x, CASE.layout, multicast=2)


def test_the_verifier_knows_four_rows():
    target, source, picks, places = CASE.arguments(1)
    func = moved_kernel.trace(*CASE.copies(target, source), picks, places, 0, CASE.rows, block=BLOCK)
    load = next(op for op in func.body.walk() if isinstance(op, ops.TmaCopy))
    assert load.gathered and RULES[ops.TmaCopy](load) is None
    assert "four rows have five coordinates" in RULES[ops.TmaCopy](replace(load, coordinates=load.coordinates[:2]))
