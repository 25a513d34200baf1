"""Bank conflicts, sectors and copy reports, against hand tables, brute force, and what an H100 took."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import moye as mo
import moye.layout as ml
from moye.errors import UNKNOWN, AlignmentError, LayoutError
from moye.ir.builder import Builder
from moye.ir.nodes import Block, Func
from moye.layout import ComposedLayout, Layout, LayoutRight, Swizzle, make_layout, zipped_divide
from moye.layout import analysis as an
from moye.tensor.context import trace_into


def row_major(shape):
    return make_layout(shape, LayoutRight)


P, C = Layout.parse, ComposedLayout.parse


@pytest.mark.parametrize(("source", "bits", "vector", "degree", "wavefronts"), [
    ("32:1", 32, 1, 1, 1), ("32:2", 32, 1, 2, 2), ("32:32", 32, 1, 32, 32), ("32:33", 32, 1, 1, 1),
    ("32:0", 32, 1, 1, 1),                                          # one word for all
    ("32:1", 16, 1, 1, 1), ("32:1", 8, 1, 1, 1), ("32:64", 16, 1, 32, 32), ("(32,2):(1,0)", 16, 1, 1, 2),
    ("32:4", 32, 4, 1, 4), ("32:8", 32, 4, 2, 8), ("32:1", 64, 1, 1, 2), ("32:16", 64, 1, 16, 32),
    ("((8,4)):((64,8))", 16, 8, 8, 32), ("64:32", 32, 1, 32, 64), ("40:32", 32, 1, 32, 40), ("8:32", 32, 1, 8, 8),
    ("8:4", 32, 4, 1, 1), ("9:4", 32, 4, 1, 2), ("(32,4):(4,1)", 32, 4, 1, 4), ("(32,4):(1,32)", 32, 1, 1, 4),
    ("(32,4):(32,1)", 32, 1, 32, 128),
])
def test_bank_conflicts(source: str, bits: int, vector: int, degree: int, wavefronts: int) -> None:
    report = an.bank_conflicts(P(source), bits, vector=vector)
    assert (report.degree, report.wavefronts) == (degree, wavefronts)
    assert an.bank_conflicts(P(source), bits, "st", vector=vector).requests == report.requests
    assert report.conflicts == report.wavefronts - report.ideal >= 0


@pytest.mark.parametrize(("access", "source", "degree", "wavefronts", "ideal"), [
    ("ldmatrix", "((8,4)):((64,8))", 8, 32, 4), ("ldmatrix.x4", "((8,4)):((72,8))", 1, 4, 4),
    ("ldmatrix.x2", "((8,4)):((64,8))", 8, 16, 2), ("ldmatrix.x1", "((8,4)):((64,8))", 8, 8, 1),
    ("stmatrix.x4", "((8,4)):((32,8))", 4, 16, 4), ("stmatrix", "((8,4)):((8,64))", 1, 4, 4),
    ("ldmatrix.x2", "((16,4)):((64,8))", 8, 32, 4),                   # two warps, rows of threads 0-15 and 32-47
    ("ldmatrix", "(32,8):(8,1)", 1, 4, 4),                            # with the values of each row
])
def test_matrices_go_one_by_one(access: str, source: str, degree: int, wavefronts: int, ideal: int) -> None:
    report = an.bank_conflicts(P(source), 16, access)
    assert (report.degree, report.wavefronts, report.ideal) == (degree, wavefronts, ideal)


def test_swizzles_remove_conflicts() -> None:
    rows = C("Sw<3,3,3> o 0 o ((8,4)):((64,8))")
    assert an.bank_conflicts(rows, 16, "ldmatrix").degree == an.bank_conflicts(rows, 16, vector=8).degree == 1


FIXED = [[i * s % 512 for i in range(32)] for s in (0, 1, 2, 4, 8, 16)]
NEIGHBOURS = [[i // 2 for i in range(32)], [i // 4 for i in range(32)], [i % 16 for i in range(32)],
              [i % 8 for i in range(32)], [i % 2 for i in range(32)], [i % 2 + i // 4 * 2 for i in range(32)],
              [i % 2 * 16 + i // 2 * 32 for i in range(32)]]

# Cycles per request, eight warps at once, NVIDIA H100 80GB HBM3: clock64 around 1024 requests a warp.  By words of an
# access; threads -> elements are FIXED, NEIGHBOURS, then random ones below these bounds, one generator for all.
LOADS = {
    1: [1.0, 1.0, 1.99, 3.98, 7.96, 15.92, 0.96, 1.0, 1.0, 1.0, 0.96, 1.0, 15.92, 1.0, 0.96, 1.99, 1.99, 4.98, 2.98,
        2.98, 3.98, 2.98, 3.98],
    2: [1.01, 2.0, 3.98, 7.98, 15.96, 31.92, 1.01, 1.01, 2.0, 2.0, 1.01, 1.01, 31.92, 1.99, 1.99, 4.97, 4.97, 6.96,
        4.97, 3.98, 5.97, 4.97, 5.97],
    4: [1.99, 3.98, 7.96, 15.92, 31.83, 31.83, 1.99, 1.99, 3.98, 3.98, 1.99, 1.99, 31.83, 3.98, 7.96, 8.96, 10.95, 8.96,
        8.96, 10.94, 11.94, 9.95, 9.95],
}
LOAD_BOUNDS = (4, 16, 64, 256, 512, 512, 512, 512, 512, 512)
# The same for one request of eight warps between two rounds of a loop, which takes 4 cycles itself: FIXED, three of
# NEIGHBOURS, then eight random ones; the generator went on through ld 1, st 1, ld 2, st 2, ... in the order below.
OTHERS = {
    ("ld", 1): [], ("st", 1): [3.5, 3.5, 3.5, 3.8, 7.7, 15.7, 3.5, 3.5, 3.5, 3.5, 3.5, 3.5, 3.5, 3.5, 4.8, 3.5, 3.8],
    ("ld", 2): [], ("st", 2): [3.5, 3.5, 3.8, 7.7, 15.7, 31.5, 3.5, 3.5, 3.5, 3.5, 3.5, 4.8, 4.8, 4.8, 6.7, 5.8, 4.8],
    ("ld", 4): [], ("st", 4): [3.8, 3.8, 7.7, 15.7, 31.5, 31.5, 3.8, 3.8, 3.8, 3.8, 7.7, 8.6, 11.7, 14.7, 11.7, 7.7,
                               10.7],
    ("ldmatrix.x1", 4): [4.0, 4.0, 4.0, 4.2, 8.2, 8.2, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0],
    ("ldmatrix.x2", 4): [3.8, 3.8, 4.2, 8.2, 16.0, 16.0, 3.8, 3.8, 4.0, 3.8, 4.2, 5.1, 4.2, 5.1, 4.2, 7.2, 5.1],
    ("ldmatrix.x4", 4): [4.2, 4.2, 8.2, 16.0, 31.8, 31.8, 4.2, 4.2, 4.2, 4.2, 7.2, 7.2, 13.1, 9.1, 13.1, 10.1, 10.1],
}
OTHER_BOUNDS = (4, 16, 64, 256, 512, 512, 512, 512)


def wavefronts(threads: list[int], words: int, access: str) -> int:
    """The model on a table of elements of so many words: thread -> element need not be a layout."""
    from moye.layout.analysis.banks import active, bank_request
    from moye.layout.analysis.requests import requests_of_table
    found = requests_of_table([threads], threads, 32 * words, 1, active(access))
    return sum(bank_request(request, 32 * words).wavefronts for request in found)


def shares_with_a_neighbour(threads: list[int]) -> bool:
    """Threads i and i ^ 1, or i and i ^ 2, have one address throughout: an H100 merges two phases of a load."""
    return any(all(threads[i] == threads[i ^ other] for i in range(32)) for other in (1, 2))


def test_wavefronts_of_loads_are_the_cycles_that_an_h100_takes() -> None:
    rng, merged = random.Random(0), 0
    for words, cycles in LOADS.items():
        tables = [*FIXED, *NEIGHBOURS, *([rng.randrange(n) for _ in range(32)] for n in LOAD_BOUNDS)]
        for threads, took in zip(tables, cycles, strict=True):
            merges = words > 1 and shares_with_a_neighbour(threads)
            merged += merges
            assert wavefronts(threads, words, "ld") == round(took) * (2 if merges else 1), (words, threads)
    assert merged == 10


def test_wavefronts_of_stores_and_matrices_are_the_cycles_that_an_h100_takes() -> None:
    rng, compared = random.Random(0), 0
    for (access, words), cycles in OTHERS.items():
        tables = [*FIXED, NEIGHBOURS[0], NEIGHBOURS[2], NEIGHBOURS[4]]
        tables += [[rng.randrange(n) for _ in range(32)] for n in OTHER_BOUNDS]
        for threads, took in zip(tables, cycles, strict=False):
            count = wavefronts(threads, words, access)
            assert abs(took - count) <= 0.5 if count > 4 else took < 4.5, (access, words, threads)
            compared += count > 4
    assert compared == 43


@given(st.lists(st.tuples(st.sampled_from([2, 4, 8, 3]), st.sampled_from([0, 1, 2, 4, 8, 16, 32, 33, 64])),
                min_size=1, max_size=3), st.sampled_from([8, 16, 32, 64, 128]), st.sampled_from([0, 2, 3]))
def test_bank_conflicts_against_counting(modes: list[tuple[int, int]], bits: int, swizzle: int) -> None:
    """Every byte that a phase touches, sorted into words and banks."""
    plain = Layout((tuple(s for s, _ in modes),), (tuple(d for _, d in modes),))
    layout = ComposedLayout(Swizzle(swizzle, 1, 3), 0, plain) if swizzle else plain
    table = ml.offsets(layout)
    report = an.bank_conflicts(layout, bits)
    together = {128: 8, 64: 16}.get(bits, 32)
    for request in report.requests:
        threads = range(32 * request.warp, min(32 * request.warp + 32, len(table)))
        degrees = []
        for first in threads[::together]:
            touched = {byte // 4 for t in threads[first - threads[0]:][:together]
                       for byte in range(table[t] * bits // 8, (table[t] + 1) * bits // 8)}
            degrees.append(max(sum(word % 32 == bank for word in touched) for bank in range(32)))
        assert (request.wavefronts, request.ideal, request.degree) == (sum(degrees), len(degrees), max(degrees))
        met = {word for t in request.threads for word in range(table[t] * bits // 32, -(-(table[t] + 1) * bits // 32))
               if word % 32 == request.bank}
        assert len(met) == request.degree, "the witness meets in its bank"
        assert len({t // together for t in request.threads}) == 1, "the witness is of one phase"


def test_a_bank_report_as_text() -> None:
    assert str(an.bank_conflicts(P("(64,8):(8,1)"), 16, "st", vector=4)) == """\
(64,8):(8,1): st of 64 bits, 4 values at a time
value  warps  wavefronts  ideal  degree  where it is worst
    0    0-1           4      2       2  bank 0: threads 0,8
    4    0-1           4      2       2  bank 2: threads 0,8
16 wavefronts for 8: 8 bank conflicts"""
    assert str(an.bank_conflicts(P("8:1"), 32)).endswith("1 wavefronts for 1: no bank conflicts")


def test_bank_map() -> None:
    assert an.bank_map(P("(2,2):(1,33)"), 32) == {(0, 0): (0, 0), (1, 0): (1, 1), (0, 1): (33, 1), (1, 1): (34, 2)}
    assert list(an.bank_map(P("3:16"), 64).values()) == [(0, 0), (32, 0), (64, 0)]
    assert an.bank_map(C("Sw<1,0,1> o 0 o ((2,2)):((1,2))"), 16) == {
        ((0, 0),): (0, 0), ((1, 0),): (0, 0), ((0, 1),): (1, 1), ((1, 1),): (1, 1)}


@pytest.mark.parametrize(("ask", "error", "text"), [
    (lambda: an.bank_conflicts(P("32:1"), 32, vector=8), LayoutError,
     "an access of 8 elements of 32 bits is 256 bits wide, not 8, 16, 32, 64 or 128"),
    (lambda: an.bank_conflicts(P("32:1"), 32, "load"), LayoutError,
     "there is no access 'load' to shared memory: it is one of ld, st, ldmatrix, ldmatrix.x1, ldmatrix.x2, "),
    (lambda: an.bank_conflicts(P("32:1"), 16, "ldmatrix", vector=4), LayoutError,
     "ldmatrix takes rows of 16 bytes, which are 8 elements of 16 bits, not 4"),
    (lambda: an.bank_conflicts(P("32:1"), 32, vector=2), AlignmentError,
     "thread 1 of 32:1 accesses 64 bits at value 0, offset 1: bit 32 is no multiple of 64"),
    (lambda: an.bank_conflicts(P("(32,2):(3,1)"), 32, vector=2), AlignmentError, "thread 1 of (32,2):(3,1) accesses"),
    (lambda: an.bank_conflicts(P("(32,2):(2,64)"), 32, vector=2), LayoutError,
     "thread 0 of (32,2):(2,64) cannot access values 0 to 1 together: their offsets 0, 64 do not follow each other"),
    (lambda: an.bank_conflicts(P("(32,3):(4,1)"), 32, vector=2), LayoutError,
     "the 3 values of (32,3):(4,1) do not split into accesses of 2"),
    (lambda: an.bank_conflicts(P("(8,4,2):(1,8,32)"), 32), LayoutError, "(8,4,2):(1,8,32) has 3 modes; a thread/value"),
    (lambda: an.bank_conflicts(P("0:1"), 32), LayoutError, "the thread/value layout 0:1 is empty"),
    (lambda: an.sectors_per_request(P("32:1"), 32, alignment=24), LayoutError,
     "the alignment of a base is a power of two of bytes, not 24"),
    (lambda: an.sectors_per_request(P("32:4"), 32, vector=4, alignment=8), AlignmentError,
     "an access of 128 bits needs a base aligned to 16 bytes, not 8"),
    (lambda: an.bank_map(P("4:1"), 0), LayoutError, "bank_map of 4:1: an element of 0 bits does not exist"),
])
def test_errors(ask: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        ask()
    assert type(caught.value) is error and str(caught.value).startswith(text)


# --- global memory ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "bits", "vector", "alignment", "sectors", "ideal", "efficiency"), [
    ("32:1", 32, 1, 32, 4, 4, 1.0), ("32:1", 32, 1, 4, 5, 4, 0.8), ("32:2", 32, 1, 32, 8, 4, 0.5),
    ("32:8", 32, 1, 32, 32, 4, 0.125), ("32:0", 32, 1, 32, 1, 1, 0.125), ("32:1", 16, 1, 32, 2, 2, 1.0),
    ("32:1", 8, 1, 32, 1, 1, 1.0), ("32:4", 32, 4, 32, 16, 16, 1.0), ("32:1", 128, 1, 16, 17, 16, 16 / 17),
    ("40:1", 32, 1, 32, 5, 5, 1.0), ("(32,4):(1,32)", 32, 1, 32, 16, 16, 1.0),
    ("(32,4):(4,1)", 32, 1, 32, 64, 16, 0.25), ("((8,4)):((1,100))", 32, 1, 32, 6, 4, 4 / 6),
])
def test_sectors_per_request(source: str, bits: int, vector: int, alignment: int, sectors: int, ideal: int,
                             efficiency: float) -> None:
    report = an.sectors_per_request(P(source), bits, vector=vector, alignment=alignment)
    assert (report.sectors, report.ideal) == (sectors, ideal)
    assert report.efficiency == pytest.approx(efficiency)


@given(st.lists(st.tuples(st.sampled_from([2, 4, 8, 3]), st.integers(0, 70)), min_size=1, max_size=3),
       st.sampled_from([8, 16, 32, 64, 128]), st.sampled_from([16, 32, 64]))
def test_sectors_against_counting(modes: list[tuple[int, int]], bits: int, alignment: int) -> None:
    layout = Layout((tuple(s for s, _ in modes),), (tuple(d for _, d in modes),))
    table = ml.offsets(layout)
    for request in an.sectors_per_request(layout, bits, alignment=alignment).requests:
        touched = {byte for offset in table[32 * request.warp:][:32]
                   for byte in range(offset * bits // 8, (offset + 1) * bits // 8)}
        assert request.useful_bits == 8 * len(touched)
        assert request.sectors == max(len({(base + byte) // 32 for byte in touched})
                                      for base in range(0, 512, alignment))


def test_a_sector_report_as_text() -> None:
    assert str(an.sectors_per_request(P("(64,2):(1,100)"), 32)) == """\
(64,2):(1,100): 32 bits, 1 value at a time, base aligned to 32 bytes
value  warps  sectors  ideal  useful
    0    0-1        4      4    100%
    1    0-1        5      4     80%
18 sectors for 16: 89% of their bytes are useful"""


# --- tiled copies and MMAs -------------------------------------------------------------------------------------------

COPIES = [
    (mo.float64, mo.float32, "(32,8):(1,32)", "(2,1):(1,1)", "(128,16):(1,128)"),
    (mo.uint128, mo.float32, "(8,4):(4,1)", "(1,4):(4,1)", "(16,32):(36,1)"),
    (mo.uint128, mo.float16, "(16,8):(8,1)", "(1,8):(8,1)", "Sw<3,3,3> o 0 o (32,64,2):(64,1,2048)"),
    (mo.float32, mo.float32, "(4,2):(2,1)", "(2,3):(3,1)", "((3,8),12):((8,24),192)"),
    (mo.float32, mo.float32, "32:1", "1:0", "(64,3):(1,100)"),
]


def tile_of(source: str) -> Any:
    return C(source) if source.startswith("Sw") else P(source)


def traced() -> Any:
    return trace_into(Builder(Func("f", [], Block(), (1, 1, 1)), lambda: UNKNOWN))


@pytest.mark.parametrize(("wide", "dtype", "thr", "val", "tile"), COPIES, ids=lambda x: str(x).replace(" ", ""))
def test_thread_values(wide: Any, dtype: Any, thr: str, val: str, tile: str) -> None:
    copy = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(wide), dtype), P(thr), P(val))
    memory = tile_of(tile)
    found = an.thread_values(copy.layout_tv, copy.tiler, memory)
    divided = zipped_divide(memory, copy.tiler)
    inner, tiles = ml.size(divided, 0), ml.size(divided, 1)
    assert (ml.size(found, 0), ml.size(found, 1)) == (copy.threads, ml.size(copy.layout_tv, 1) * tiles)
    for thread in range(copy.threads):
        for value in range(ml.size(copy.layout_tv, 1)):
            index = copy.layout_tv(thread, value)
            assert index < inner
            for rest in range(tiles):
                assert found(thread, (value, rest)) == divided(index, rest)


@pytest.mark.parametrize(("wide", "dtype", "thr", "val", "tile"), COPIES, ids=lambda x: str(x).replace(" ", ""))
def test_thread_values_are_the_partitions(wide: Any, dtype: Any, thr: str, val: str, tile: str) -> None:
    copy = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(wide), dtype), P(thr), P(val))
    inner = tile_of(tile).layout if tile.startswith("Sw") else P(tile)
    found = an.thread_values(copy.layout_tv, copy.tiler, inner)
    with traced():
        shared = mo.shared_array(dtype, inner)
        for thread in range(copy.threads):
            part = copy.get_slice(thread).partition_D(shared)
            assert [part.offset + part.layout(i) for i in range(mo.size(part.layout))] == \
                [found(thread, i) for i in range(ml.size(found, 1))]


MMAS = [("(32,8):(1,32)", ()), ("(4,2):(2,1)", ()), ("((2,4),2):((8,1),4)", ()), ("(4,2,2):(1,4,8)", ()),
        ("(4,2):(1,4)", (P("(4,2):(2,1)"), 8))]


@pytest.mark.slow
@pytest.mark.parametrize(("atoms", "permutations"), MMAS, ids=str)
@pytest.mark.parametrize("operand", ["A", "B", "C"])
def test_operand_values(atoms: str, permutations: Any, operand: Any) -> None:
    mma = mo.make_tiled_mma(mo.UniversalFMA(mo.float32), P(atoms), permutations)
    check_operand(mma, operand, P("(64,32,2):(1,66,2112)"))


def test_operand_values_of_a_warp_wide_instruction() -> None:
    from moye.atoms.atom import MmaOp
    a, b, c = P("((4,8),(2,2)):((16,1),(8,64))"), P("((4,8),2):((8,1),32)"), P("((4,8),(2,2)):((32,1),(16,8))")
    op = MmaOp("16x8x8", (16, 8, 8), *(mo.float32,) * 4, 32, a, b, c)
    for operand in "ABC":
        check_operand(mo.make_tiled_mma(op, P("(2,2):(1,2)")), operand, P("(64,32):(1,66)"))


def check_operand(mma: Any, operand: str, memory: Layout) -> None:
    found = an.operand_values(mma, operand, memory)
    with traced():
        shared = mo.shared_array(mo.float32, memory)
        for thread in {*range(0, mma.threads, 7), mma.threads - 1}:
            part = getattr(mma.get_slice(thread), f"partition_{operand}")(shared)
            assert [part.offset + part.layout(i) for i in range(mo.size(part.layout))] == \
                [found(thread, i) for i in range(ml.size(found, 1))]


def test_copy_report() -> None:
    copy = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.float32), mo.float32), make_layout((32, 8)))
    report = an.copy_report(copy, smem=row_major((32, 32)), gmem=make_layout((32, 32), (1, 4096)))
    assert report.banks is not None and report.sectors is not None
    assert (report.banks.degree, report.banks.wavefronts, report.banks.ideal) == (32, 1024, 32)
    assert report.sectors.efficiency == 1.0
    assert str(report) == f"{report.sectors}\n{report.banks}"
    assert an.copy_report(copy, gmem=row_major((32, 32))).banks is None
    assert an.copy_report(copy, smem=row_major((32, 32)), access="ld").sectors is None
    with pytest.raises(LayoutError, match="has no memory to look at"):
        an.copy_report(copy)
    with pytest.raises(LayoutError, match=r"^mode 1 of \(32,12\):\(1,32\) has extent 12, no multiple of the 8 of tile"):
        an.copy_report(copy, smem=make_layout((32, 12)))
    with pytest.raises(LayoutError, match="at least the modes of a tile are needed"):
        an.copy_report(copy, smem=make_layout(32))
    with pytest.raises(LayoutError, match='has the operands "A", "B" and "C", not \'D\''):
        an.operand_values(mo.make_tiled_mma(mo.UniversalFMA(mo.float32), P("(4,2):(1,4)")), "D", P("(8,8):(1,8)"))


def test_ldmatrix_of_a_tiled_copy() -> None:
    """Lanes take rows of 8 halves: 16 rows, two halves of 16 columns."""
    copy = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.uint128), mo.float16), make_layout((16, 2)),
                              make_layout((1, 8)))
    conflicts = an.copy_report(copy, smem=row_major((64, 64)), access="ldmatrix").banks
    swizzled = an.copy_report(copy, smem=ComposedLayout(Swizzle(3, 3, 3), 0, row_major((64, 64))), access="ldmatrix")
    assert conflicts is not None and swizzled.banks is not None
    assert (conflicts.degree, swizzled.banks.degree) == (8, 1)
    assert conflicts.requests[0].threads == tuple(range(8))


def test_threads_of_several_modes_are_one_mode() -> None:
    threads = P("(8,4):(64,8)")
    assert an.bank_conflicts(make_layout(threads), 16, vector=8).degree == 8
    assert len(an.bank_conflicts(threads, 16).requests) == 4, "as it is: 8 threads with 4 values"
