"""The shared-memory atoms against CuTe's table, and what instructions cost in tiles made of them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

import moye as mo
from moye.errors import LayoutError
from moye.layout import ComposedLayout, Layout, is_bijective, make_layout
from moye.layout import analysis as an
from tensor.test_tiled import inside

DTYPES = {8: mo.int8, 16: mo.float16, 32: mo.float32}
ROWS = (128, 64, 32, 16)
ALL = list(itertools.product(DTYPES, ("k", "mn"), ROWS))


def inner(layout):
    return layout.layout if isinstance(layout, ComposedLayout) else layout


@pytest.mark.parametrize(("dtype", "major", "row", "text"), [
    (mo.float16, "k", 128, "Sw<3,3,3> o 0 o (8,64):(64,1)"), (mo.float16, "mn", 128, "Sw<3,3,3> o 0 o (64,8):(1,64)"),
    (mo.bfloat16, "k", 64, "Sw<2,3,3> o 0 o (8,32):(32,1)"), (mo.bfloat16, "mn", 32, "Sw<1,3,3> o 0 o (16,8):(1,16)"),
    (mo.int8, "k", 128, "Sw<3,4,3> o 0 o (8,128):(128,1)"), (mo.tfloat32, "k", 128, "Sw<3,2,3> o 0 o (8,32):(32,1)"),
    (mo.float32, "mn", 64, "Sw<2,2,3> o 0 o (16,8):(1,16)"), (mo.float64, "k", 128, "Sw<3,1,3> o 0 o (8,16):(16,1)"),
    (mo.float16, "k", 16, "(8,8):(8,1)"), (mo.int8, "mn", 16, "(16,8):(1,16)"),
])
def test_cute_has_the_same(dtype, major, row, text):
    assert str(mo.smem_layout_atom(dtype, major, row)) == text
    if row == 128:
        assert mo.smem_layout_atom(dtype, major) == mo.smem_layout_atom(dtype, major, 128)


def tile(bits, major, row, stages=3):
    """A tile of 128 by four atoms' rows, whichever mode is contiguous."""
    atom, wide = mo.smem_layout_atom(DTYPES[bits], major, row), 4 * row * 8 // bits
    return mo.tile_to_shape(atom, (128, wide, stages) if major == "k" else (wide, 128, stages))


def along(major, rows, contiguous, modes):
    """A (thread, value) layout into a tile (rows, contiguous), given as for "k"; transposed for "mn"."""
    shape = (rows, contiguous) if major == "k" else (contiguous, rows)
    steps = {"row": 1 if major == "k" else contiguous, "along": rows if major == "k" else 1}
    threads, values = ([(extent, steps[which] * count) for extent, which, count in part] for part in modes)
    return make_layout(*(Layout(tuple(e for e, _ in part), tuple(s for _, s in part)) for part in (threads, values))), \
        shape


@pytest.mark.slow
@pytest.mark.parametrize(("bits", "major", "row"), ALL)
@pytest.mark.parametrize("access", ["ldmatrix.x1", "ldmatrix.x2", "ldmatrix.x4", "stmatrix.x1", "stmatrix.x4"])
def test_matrices_meet_no_conflict(bits, major, row, access):
    """Matrices below each other and side by side, in every place of the tile."""
    part = 128 // bits
    for order in ((16, 2), (8, 4), (32, 1)):
        down, across = order if row > 16 or order[1] == 1 else (32, 1)
        tv, tiler = along(major, down, across * part, (
            [(down, "row", 1), (across, "along", part)], [(part, "along", 1)]))
        tv = an.thread_values(tv, tiler, tile(bits, major, row))
        report = an.bank_conflicts(tv, bits, access)
        assert report.degree == 1, str(report)


@pytest.mark.parametrize(("bits", "major", "row"), ALL)
def test_16_byte_accesses_meet_no_conflict(bits, major, row):
    """Threads along the atom's rows, as make_tiled_copy lays them out, in every place of the tile."""
    part, across = 128 // bits, row // 16
    threads = (128 // across, across)
    threads = make_layout(threads, (across, 1)) if major == "k" else make_layout(threads[::-1])
    copy = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.uint128, cache="global"), DTYPES[bits]), threads,
                              make_layout((1, part) if major == "k" else (part, 1)))
    report = an.copy_report(copy, smem=tile(bits, major, row), access="st")
    assert report.banks.degree == 1, str(report)
    assert report.banks.bits == 128


@pytest.mark.parametrize(("bits", "row"), [(b, r) for b in DTYPES for r in (128, 64, 32)])
def test_the_same_without_a_swizzle_conflicts(bits, row):
    """The proof can fail: rows of the same length one below another share banks."""
    part, wide = 128 // bits, row * 8 // bits
    rows = an.thread_values(Layout((8, part), (1, 8)), (8, part), make_layout((8, wide), (wide, 1)))
    assert an.bank_conflicts(rows, bits, "ldmatrix.x1").degree == row // 16


@pytest.mark.parametrize(("bits", "major", "row"), ALL)
def test_stages_are_whole_atoms(bits, major, row):
    """One stage after another, each a bijection onto its own atoms: what a pipelined kernel advances by."""
    layout, atom = tile(bits, major, row), mo.smem_layout_atom(DTYPES[bits], major, row)
    assert is_bijective(layout)
    whole, stage = mo.size(atom), mo.size(layout) // 3
    assert [layout(0, 0, s) for s in range(3)] == [0, stage, 2 * stage]
    assert stage % whole == 0
    assert whole * bits // 8 == 8 * row
    one, offset = layout.slice_and_offset((None, None, 0))
    assert offset == 0
    assert is_bijective(one)
    assert inner(one).mode(0).mode(0) == inner(atom).mode(0)
    assert inner(one).mode(1).mode(0) == inner(atom).mode(1)


@pytest.mark.parametrize(("bits", "major", "row"), ALL)
def test_shared_arrays_begin_at_whole_atoms(bits, major, row):
    with inside():
        buffer = mo.shared_array(DTYPES[bits], tile(bits, major, row)).buffer
    assert buffer.align % (8 * row if row > 16 else 16) == 0
    assert buffer.align == {128: 1024, 64: 512, 32: 256, 16: 16}[row]


@given(dtype=st.sampled_from([mo.int8, mo.float16, mo.bfloat16, mo.float32, mo.float64, mo.uint128]),
       major=st.sampled_from(["k", "mn"]), row=st.sampled_from(ROWS), place=st.integers(0, 7))
def test_law(dtype, major, row, place):
    """The 16-byte parts at one place of the 8 rows begin in 8 different groups of 4 banks."""
    atom, part = mo.smem_layout_atom(dtype, major, row), 128 // dtype.bits
    column = place % (row // 16) * part
    offsets = [atom(r, column) if major == "k" else atom(column, r) for r in range(8)]
    assert len({offset * dtype.bits // 128 % 8 for offset in offsets}) == 8
    assert all(offset % part == 0 for offset in offsets)


@pytest.mark.parametrize(("arguments", "sentence"), [
    ((mo.float16, "m"), 'smem_layout_atom(float16, "m", 128): a tile is contiguous along "k" or along "mn", not along '
                        "'m'"),
    ((mo.float16, "k", 256), 'smem_layout_atom(float16, "k", 256): rows are 128, 64, 32, 16 bytes long, not 256'),
])
def test_errors(arguments, sentence):
    with pytest.raises(LayoutError) as caught:
        mo.smem_layout_atom(*arguments)
    assert caught.value.message == sentence


def test_a_tile_that_the_atom_does_not_divide():
    with pytest.raises(LayoutError, match="extent 64 of mode 1 does not divide 48"):
        mo.tile_to_shape(mo.smem_layout_atom(mo.float16, "k"), (64, 48, 3))
