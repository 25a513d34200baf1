"""Proposals: what must be found is found, does what it says, and nothing in its family does better."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import moye as mo
import moye.layout as ml
from moye.errors import AlignmentError, FactError, LayoutError
from moye.layout import ComposedLayout, Layout, LayoutRight, Swizzle, cosize, make_layout
from moye.layout import analysis as an
from moye.layout.analysis import Access


def row_major(shape):
    return make_layout(shape, LayoutRight)


P, C = Layout.parse, ComposedLayout.parse


def counted(layout: Any, bits: int, accesses: Any) -> tuple[list[int], int] | None:
    """Degrees and wavefronts of the accesses to a layout, through one layout each; None where one is impossible."""
    reports = []
    for access in accesses:
        inner = layout.layout if isinstance(layout, ComposedLayout) else layout
        tv = ml.composition(inner, access.layout_tv)
        tv = layout.with_layout(tv) if isinstance(layout, ComposedLayout) else tv
        try:
            reports.append(an.bank_conflicts(tv, bits, access.kind, vector=access.vector))
        except (AlignmentError, LayoutError):
            return None
    return [r.degree for r in reports], sum(r.wavefronts for r in reports)


def check(proposal: an.Proposal, layout: Layout, bits: int) -> None:
    """A proposal is what it says it is."""
    assert counted(proposal.layout, bits, proposal.accesses) == (list(proposal.degrees), proposal.wavefronts)
    inner = proposal.layout.layout if isinstance(proposal.layout, ComposedLayout) else proposal.layout
    assert inner.shape == layout.shape and ml.is_injective(proposal.layout)
    assert proposal.extra_bytes >= (max(ml.offsets(proposal.layout)) - max(ml.offsets(layout))) * bits // 8
    assert proposal.conflict_free == all(degree == 1 for degree in proposal.degrees)


TRANSPOSE = [Access(P("(32,32):(32,1)"), "st"), Access(P("(32,32):(1,32)"), "ld")]      # rows in, columns out


@pytest.mark.parametrize("tile", [row_major((32, 32)), make_layout((32, 32))], ids=str)
def test_transpose_is_padded_by_one(tile: Layout) -> None:
    padded = an.propose_padding(tile, 32, TRANSPOSE)
    assert sorted(padded.layout.stride) == [1, 33]                  # type: ignore[type-var, arg-type]
    assert padded.conflict_free and padded.extra_bytes == 31 * 4
    swizzled = an.propose_swizzle(tile, 32, TRANSPOSE)
    assert swizzled.layout == ComposedLayout(Swizzle(5, 0, 5), 0, tile) and swizzled.conflict_free
    ranked = an.propose(tile, 32, TRANSPOSE)
    assert [p.layout for p in ranked] == [swizzled.layout, padded.layout, tile]
    assert max(ranked[2].degrees) == 32
    for proposal in ranked:
        check(proposal, tile, 32)


def ldmatrix_tile(k: int) -> tuple[Layout, list[Access]]:
    """64 rows of k halves, stored 16 bytes a thread along the rows, read by ldmatrix.x4 in 16 x 16 blocks."""
    tile = row_major((64, k))
    store = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.uint128), mo.float16), row_major((1024 // k, k // 8)),
                               make_layout((1, 8)))
    lanes = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.uint128), mo.float16), make_layout((16, 2)),
                               make_layout((1, 8)))
    return tile, [Access.of_copy(store, tile, "st"), Access.of_copy(lanes, tile, "ldmatrix")]


@pytest.mark.parametrize(("k", "swizzle", "padding", "degree"), [
    (64, "Sw<3,3,3>", 72, 8), (32, "Sw<2,3,3>", None, 4), (128, "Sw<3,3,4>", 136, 8), (16, "Sw<1,3,3>", None, 2),
])
def test_ldmatrix_rows(k: int, swizzle: str, padding: int | None, degree: int) -> None:
    """A row of 64 halves is one word of every bank; eight rows of 16 bytes must lie apart, and stay 16 bytes."""
    tile, accesses = ldmatrix_tile(k)
    proposal = an.propose_swizzle(tile, 16, accesses)
    assert str(proposal.layout) == f"{swizzle} o 0 o {tile}"
    assert proposal.conflict_free and proposal.before == (1, degree) and proposal.extra_bytes == 0
    check(proposal, tile, 16)
    padded = an.propose_padding(tile, 16, accesses)
    check(padded, tile, 16)
    if padding is None:                 # 16 bytes more a row take the stores of one row out of their phase
        assert not padded.conflict_free
    else:
        assert padded.layout == Layout(tile.shape, (padding, 1)) and padded.conflict_free
    assert an.propose(tile, 16, accesses)[0] == proposal


def test_a_swizzle_that_is_not_enough() -> None:
    """Another swizzle takes its place; a padding goes inside it."""
    tile, accesses = ldmatrix_tile(64)
    weak = ComposedLayout(Swizzle(1, 3, 3), 0, tile)
    swizzled, padded, same = an.propose(weak, 16, accesses)
    assert (str(swizzled.layout), str(padded.layout)) == ("Sw<3,3,3> o 0 o (64,64):(64,1)",
                                                          "Sw<1,3,3> o 0 o (64,64):(80,1)")
    assert swizzled.conflict_free and swizzled.before == (1, 4) and same.layout == weak
    for proposal in (swizzled, padded):
        assert counted(proposal.layout, 16, accesses) == (list(proposal.degrees), proposal.wavefronts)


def double_buffered() -> Any:
    path = Path(__file__).parents[3] / "examples" / "09_matmul_double_buffered.py"
    spec = importlib.util.spec_from_file_location("double_buffered", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def double_buffered_accesses(tile: Layout) -> list[Access]:
    example = double_buffered()
    return [Access.of_copy(example.COPY, tile, "st"), Access.of_mma(example.MMA, "A", tile),
            Access.of_mma(example.MMA, "B", tile)]


def test_double_buffered_kernel_of_the_manual() -> None:
    """Its columns are bM + 2 apart: free of conflicts, as is every even padding, 0 too; an odd one splits copies."""
    example = double_buffered()
    tile = make_layout((example.BM, example.BK, 2))
    accesses = double_buffered_accesses(tile)
    for pad in range(9):
        padded = make_layout(tile.shape, (1, example.BM + pad, (example.BM + pad) * example.BK))
        judged = counted(padded, 32, accesses)
        assert (judged is None) == (pad % 2 == 1)
        assert judged is None or judged[0] == [1, 1, 1]
    assert example.S_LAYOUT.stride == (1, example.BM + 2, (example.BM + 2) * example.BK)
    assert [p.change for p in an.propose(tile, 32, accesses)] == ["as it is"]


def test_padding_keeps_copies_of_eight_bytes_whole() -> None:
    """Transposed fragments, read along k, need a padding; copies of 8 bytes along m allow even ones only."""
    tile = make_layout((128, 8, 2))
    along_k = Access(P("((8,4),(32,2)):((128,1),(4,1024))"), "ld")          # 8 threads along k, 4 along m
    alone = an.propose_padding(tile, 32, [along_k])
    assert alone.layout == P("(128,8,2):(1,132,1056)") and alone.conflict_free
    scattered = Access(P("((2,16),(8,8)):((128,1),(256,16))"), "ld")         # 2 along k
    both = an.propose_padding(tile, 32, [*double_buffered_accesses(tile), scattered])
    assert both.conflict_free and both.layout == P("(128,8,2):(1,144,1152)")
    for proposal in (alone, both):
        check(proposal, tile, 32)


def paddings(layout: Layout, most: int) -> list[Layout]:
    """Every padding of one mode of a two-mode tile."""
    slow = 0 if layout.stride[0] != 1 else 1                               # type: ignore[index]
    steps = [list(layout.stride) for _ in range(most + 1)]                 # type: ignore[arg-type]
    for amount, step in enumerate(steps):
        step[slow] += amount
    return [Layout(layout.shape, tuple(step)) for step in steps]


def swizzles(layout: Layout, row: int) -> list[ComposedLayout]:
    top = max(ml.offsets(layout)).bit_length()
    return [ComposedLayout(Swizzle(b, m, s), 0, layout) for b in range(1, 6) for m in range(6) for s in range(b, 8)
            if m + b <= row and m + s + b <= top]


@st.composite
def searches(draw: Any) -> tuple[Layout, int, list[Access]]:
    """Small tiles with accesses along both modes, some of them wide."""
    bits = draw(st.sampled_from([16, 32, 64]))
    rows, columns = draw(st.sampled_from([(8, 8), (16, 8), (8, 32), (32, 16)]))
    tile = draw(st.sampled_from([row_major, make_layout]))((rows, columns))
    major = tile.stride[0] == 1
    accesses = []
    for _ in range(draw(st.integers(1, 2))):
        vector = draw(st.sampled_from([1, 1, 128 // bits, 64 // bits]))
        if major:
            run, slow, along, across = rows, columns, 1, rows
        else:
            run, slow, along, across = columns, rows, rows, 1
        if draw(st.booleans()):                                             # threads along the contiguous mode
            tv = Layout(((run // vector, slow), vector), ((along * vector, across), along))
        else:                                                               # threads across it
            tv = Layout(((slow, run // vector), vector), ((across, along * vector), along))
        accesses.append(Access(tv, draw(st.sampled_from(["ld", "st"])), vector))
    return tile, bits, accesses


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(searches())
def test_no_candidate_of_the_family_is_better(search: Any) -> None:
    tile, bits, accesses = search
    for proposal, family in ((an.propose_padding(tile, bits, accesses), paddings(tile, 1024 // bits)),
                             (an.propose_swizzle(tile, bits, accesses),
                              [tile, *swizzles(tile, (1024 // bits).bit_length() - 1)])):
        check(proposal, tile, bits)
        judged = [(wavefronts[1], cosize(layout)) for layout in family
                  if (wavefronts := counted(layout, bits, accesses)) is not None]
        assert proposal.wavefronts == min(judged)[0]
        if isinstance(proposal.layout, Layout):
            assert (proposal.wavefronts, cosize(proposal.layout)) == min(judged)
    assert an.propose(tile, bits, accesses)[0].wavefronts <= proposal.wavefronts


def test_a_proposal_as_text() -> None:
    assert str(an.propose_padding(row_major((32, 32)), 32, TRANSPOSE)) == """\
(32,32):(33,1): no bank conflicts, 124 bytes more; stride 32 of mode 0 becomes 33
access  threads  values  degree  before
    st       32      32       1       1
    ld       32      32       1      32"""
    odd = P("(32,8):(1,33)")
    pairs = Access(P("((16,8),2):((2,32),1)"), "st", 2)
    fixed = an.propose_padding(odd, 32, [pairs])
    assert str(fixed).splitlines()[2].split() == ["st", "128", "2", "1", "impossible"]
    assert fixed.layout == P("(32,8):(1,34)")


def test_nested_tiles_are_padded_at_the_best_step() -> None:
    """Strides grow from one step of the sorted modes on, in proportion."""
    tile = P("((8,4),32):((1,8),32)")
    padded = an.propose_padding(tile, 32, TRANSPOSE)
    assert padded.conflict_free and padded.layout == P("((8,4),32):((1,8),33)")
    assert padded.change == "stride 32 of mode 2 becomes 33"


def test_proposal_errors(sym: Any) -> None:
    tile = row_major((32, 32))
    with pytest.raises(LayoutError, match=r"^a proposal for \(32,32\):\(32,1\) needs at least one access$"):
        an.propose(tile, 32, [])
    with pytest.raises(LayoutError, match=r"^the access \(32,33\):\(1,32\) reaches index 1055 of .*, which has 1024$"):
        an.propose(tile, 32, [Access(P("(32,33):(1,32)"))])
    with pytest.raises(LayoutError, match=r"the 3 values of \(32,3\):\(1,32\) do not split into accesses of 2"):
        an.propose(tile, 32, [Access(P("(32,3):(1,32)"), "ld", 2)])
    columns = Access(P("(16,2):(2,1)"), "st", 2)                     # the vector runs across the rows
    for ask, family in ((an.propose, "padding or swizzle"), (an.propose_padding, "padding by up to 32 elements"),
                        (an.propose_swizzle, "swizzle")):
        with pytest.raises(LayoutError) as caught:
            ask(tile, 32, [columns])
        assert str(caught.value) == (
            f"no {family} makes the accesses to (32,32):(32,1) possible; as it is, thread 0 of (32,32):(32,1) cannot "
            "access values 0 to 1 together: their offsets 0, 32 do not follow each other")
    with pytest.raises(FactError, match="propose needs static integers, but the extent M of mode 1"):
        an.propose(Layout((32, sym("M")), (1, 32)), 32, TRANSPOSE)
