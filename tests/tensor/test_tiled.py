"""Partitions of tiled copies and tiled MMAs against CuTe's definition, by brute force."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

import moye as mo
from ir_interpreter import run
from moye.layout import composition, idx2crd, logical_divide, zipped_divide
from moye.tensor.context import trace_into
from moye.tensor.tiled import thread_coordinate

L = mo.Layout.parse


def inside(shape=(1, 1, 1)):
    """A trace to build views in."""
    from moye.errors import UNKNOWN
    from moye.ir.builder import Builder
    from moye.ir.nodes import Block, Func
    return trace_into(Builder(Func("f", [], Block(), shape), lambda: UNKNOWN))


def offsets(tensor):
    """The element offsets of a view, in order of its coordinates."""
    return [tensor.offset + tensor.layout(i) for i in range(mo.size(tensor.layout))]


COPIES = [
    (mo.float32, mo.float32, "(32,8):(1,32)", "(1,1):(1,1)", (64, 16)),
    (mo.float64, mo.float32, "(32,8):(1,32)", "(2,1):(1,1)", (128, 16)),
    (mo.uint128, mo.float32, "(8,4):(4,1)", "(1,4):(4,1)", (16, 32)),
    (mo.uint128, mo.float32, "(4,8):(8,1)", "(4,2):(1,4)", (32, 16)),
    (mo.float32, mo.float32, "(4,2):(2,1)", "(2,3):(3,1)", (24, 12)),
    (mo.uint64, mo.float16, "(16,2):(1,16)", "(4,1):(1,0)", (64, 4)),
    (mo.float32, mo.float32, "(8):(1)", "(2):(1)", (32,)),
    (mo.float32, mo.float32, "16:1", "(1,2):(1,1)", (16, 8)),
    (mo.float32, mo.float32, "((2,4),2):((8,1),4)", "(1,2):(0,1)", (16, 8)),
]


@pytest.mark.parametrize("wide, dtype, thr, val, shape", COPIES, ids=lambda x: str(x).replace(" ", ""))
@pytest.mark.parametrize("row_major", [False, True])
def test_partitions_cover_the_tile_once(wide, dtype, thr, val, shape, row_major):
    copy = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(wide), dtype), L(thr), L(val))
    layout = mo.make_layout(shape, mo.LayoutRight) if row_major else mo.make_layout(shape)
    seen = Counter()
    with inside():
        tile = mo.shared_array(dtype, layout)
        for thread in range(mo.size(copy)):
            part = copy.get_slice(thread).partition_S(tile)
            assert mo.size(part, (0, 0)) == wide.bits // dtype.bits
            seen.update(offsets(part))
    assert seen == Counter(range(int(np.prod(shape))))


@pytest.mark.parametrize("thr, val", [("(32,8):(1,32)", "(2,1):(1,1)"), ("(4,8):(8,1)", "(2,2):(1,2)"),
                                      ("(8,4):(4,1)", "(1,4):(4,1)")])
def test_threads_and_values_are_raked(thr, val):
    """Thread (m, n) owns the block of val_layout's shape at (m, n): its values lie together, thread after thread."""
    thr, val = L(thr), L(val)
    copy = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.float32), mo.float32), thr, val)
    extents = tuple(mo.size(thr, i) * mo.size(val, i) for i in range(2))
    assert copy.tiler == extents
    with inside():
        tile = mo.shared_array(mo.float32, extents)
        for m, n in itertools.product(*(range(mo.size(thr, i)) for i in range(2))):
            part = copy.get_slice(thr(m, n)).partition_D(tile)
            here = {}
            for v0, v1 in itertools.product(*(range(mo.size(val, i)) for i in range(2))):
                here[val(v0, v1)] = (m * mo.size(val, 0) + v0) + (n * mo.size(val, 1) + v1) * extents[0]
            assert offsets(part) == [here[v] for v in sorted(here)]


def test_partition_of_a_larger_tensor_repeats_by_tiles():
    copy = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.float64), mo.float32), L("(4,2):(1,4)"), L("(2,1):(1,1)"))
    with inside():
        tensor = mo.shared_array(mo.float32, mo.make_layout((16, 6, 3), (1, 18, 200)))
        for thread in range(8):
            part = copy.get_slice(thread).partition_S(tensor)       # (CPY, 2, 3, 3)
            assert [mo.size(part, i) for i in range(4)] == [2, 2, 3, 3]
            m, n = thread % 4, thread // 4
            for v, i, j, k in itertools.product(range(2), range(2), range(3), range(3)):
                expected = (i * 8 + m * 2 + v) + 18 * (j * 2 + n) + 200 * k
                assert part.offset + part.layout(v, i, j, k) == expected


def test_a_value_layout_smaller_than_the_atom_is_an_error():
    with pytest.raises(mo.LayoutError, match=r"moves 4 float32 at a time.*gives a thread 2"):
        mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.uint128), mo.float32), L("(32,8):(1,32)"), L("(2,1):(1,1)"))
    with pytest.raises(mo.LayoutError, match="no whole number"):
        mo.CopyAtom(mo.UniversalCopy(mo.float16), mo.float32)


# --- MMAs ------------------------------------------------------------------------------------------------------------

FMA = mo.UniversalFMA(mo.float32)
MMAS = [
    ("(16,16):(1,16)", (), (64, 32, 8)), ("(32,8):(1,32)", (), (64, 32, 4)), ("(4,8):(8,1)", (), (16, 16, 2)),
    ("(4,2,3):(1,4,8)", (), (8, 8, 6)), ("(2,2,2):(4,1,2)", (), (8, 4, 4)), ("1:0", (), (2, 2, 2)),
    ("(4,2):(1,4)", (8, None, None), (16, 8, 2)),
    ("(4,2):(1,4)", (L("(4,2):(2,1)"), L("(2,2):(2,1)"), None), (16, 8, 3)),
    ("((2,2),3):((1,6),2)", (), (8, 6, 2)),
]


@pytest.mark.slow
@pytest.mark.parametrize("atoms, perms, mnk", MMAS, ids=lambda x: str(x).replace(" ", ""))
def test_mma_partitions_cover_every_product_once(atoms, perms, mnk):
    """Over threads, (m, n, k) triples of a thread's A, B and C parts are all products, each once."""
    mma = mo.make_tiled_mma(FMA, L(atoms), perms)
    m, n, k = mnk
    products = Counter()
    owners = Counter()
    with inside():
        sA, sB, sC = (mo.shared_array(mo.float32, s) for s in ((m, k), (n, k), (m, n)))
        for thread in range(mo.size(mma)):
            thr = mma.get_slice(thread)
            a, b, c = thr.partition_A(sA), thr.partition_B(sB), thr.partition_C(sC)
            assert mo.size(a, 1) == mo.size(c, 1) and mo.size(b, 1) == mo.size(c, 2) and mo.size(a, 2) == mo.size(b, 2)
            for i, j in itertools.product(range(mo.size(c, 1)), range(mo.size(c, 2))):
                at = c.offset + c.layout(0, i, j)
                owners[at] += 1
                for q in range(mo.size(a, 2)):
                    x, y = a.offset + a.layout(0, i, q), b.offset + b.layout(0, j, q)
                    assert (x % m, y % n) == (at % m, at // m), "row and column of C come from A and B"
                    assert x // m == y // n, "one k"
                    products[x % m, y % n, x // m] += 1
    assert products == Counter(itertools.product(range(m), range(n), range(k)))
    spread = mo.size(mma.atom_layout, 2)
    assert owners == Counter(dict.fromkeys(range(m * n), spread))


def cute_partition(mma, tensor, dims, tv, thread):
    """CuTe's thrfrg by its definition: permute, divide by the atom, then by the threads; all in layout algebra."""
    layout = logical_divide(tensor, tuple(mma.permutations[d] for d in dims)) if any(
        mma.permutations[d] is not None for d in dims) else tensor
    by_atom = zipped_divide(layout, tuple(mma.op.shape_mnk[d] for d in dims))
    values = composition(by_atom.mode(0), tv)                                   # (T, V)
    rest = zipped_divide(by_atom.mode(1), tuple(mo.size(mma.atom_layout, d) for d in dims))
    coordinate = thread_coordinate(thread, mma.layout)
    base = values.mode(0)(coordinate[0]) + rest.mode(0)(tuple(coordinate[1 + d] for d in dims))
    return [base + values.mode(1)(v) + rest.mode(1)(i)
            for i in range(mo.size(rest.mode(1))) for v in range(mo.size(values.mode(1)))]


@pytest.mark.slow
@pytest.mark.parametrize("atoms, perms, mnk", MMAS, ids=lambda x: str(x).replace(" ", ""))
def test_mma_partitions_are_cutes(atoms, perms, mnk):
    mma = mo.make_tiled_mma(FMA, L(atoms), perms)
    m, n, k = mnk
    with inside():
        for dims, shape, tv, name in (((0, 2), (m, k), FMA.a_layout, "A"), ((1, 2), (n, k), FMA.b_layout, "B"),
                                      ((0, 1), (m, n), FMA.c_layout, "C")):
            tile = mo.shared_array(mo.float32, mo.make_layout(shape, (1, shape[0] + 3)))
            for thread in range(mo.size(mma)):
                part = getattr(mma.get_slice(thread), f"partition_{name}")(tile)
                assert offsets(part) == cute_partition(mma, tile.layout, dims, tv, thread)


def test_a_warp_wide_atom():
    """SM80 16x8x8's accumulator: thread (g, t) holds rows g, g + 8 and columns 2t, 2t + 1."""
    op = mo.layout  # the layouts of the atom, written out
    a = L("((4,8),(2,2)):((16,1),(8,64))")
    b = L("((4,8),2):((8,1),32)")
    c = L("((4,8),(2,2)):((32,1),(16,8))")
    from moye.atoms.atom import MmaOp
    mma = mo.make_tiled_mma(MmaOp("16x8x8", (16, 8, 8), *(mo.float32,) * 4, 32, a, b, c), L("(2,1):(1,0)"))
    assert mo.size(mma) == 64 and op is not None
    seen = Counter()
    with inside():
        tile = mo.shared_array(mo.float32, (64, 16))
        for thread in range(64):
            part = mma.get_slice(thread).partition_C(tile)          # (MMA, 2, 2)
            assert [mo.size(part, i) for i in range(3)] == [4, 2, 2]
            lane, warp = thread % 32, thread // 32
            row, column = lane // 4 + 16 * warp, lane % 4 * 2
            first = [idx2crd((64, 16), o) for o in offsets(part)[:4]]
            assert first == [(row, column), (row, column + 1), (row + 8, column), (row + 8, column + 1)]
            seen.update(offsets(part))
    assert seen == Counter(range(64 * 16))


def test_fragments_of_partitions():
    mma = mo.make_tiled_mma(mo.UniversalFMA(mo.float16, mo.float16, mo.float32), L("(4,2):(1,4)"))
    with inside():
        sA, sC = mo.shared_array(mo.float16, (8, 4)), mo.shared_array(mo.float32, mo.make_layout((8, 6), (6, 1)))
        thr = mma.get_slice(3)
        a, c = thr.make_fragment_A(thr.partition_A(sA)), mma.make_fragment_C(thr.partition_C(sC))
        assert (a.dtype, c.dtype) == (mo.float16, mo.float32)
        assert str(a.layout) == "(1,2,4):(0,1,2)" and str(c.layout) == "(1,2,3):(0,1,2)"
        assert str(mma.partition_fragment_C((8, 6)).layout) == "(1,2,3):(0,1,2)"
        assert str(mo.make_fragment_like(sC).layout) == "(8,6):(1,8)"


# --- in kernels ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["(8,4):(1,8)", "(8,4):(4,1)", "(4,8):(8,1)"])
def test_traced_threads_partition_as_static_ones(layout):
    thr = L(layout)
    copy = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.float64), mo.float32), thr, L("(2,1):(1,1)"))
    mma = mo.make_tiled_mma(FMA, thr)

    @mo.kernel
    def kernel(out, copy, mma, thr):
        tid = mo.thread_idx().x
        s = mo.shared_array(mo.int32, (16, 16))
        parts = copy.get_slice(tid).partition_S(s), mma.get_slice(tid).partition_C(s), mo.parallelize(s, thr, tid)
        for part in parts:
            out[tid, part_number(part)] = part.offset

    numbers: list[object] = []

    def part_number(part):
        numbers.append(part)
        return (len(numbers) - 1) % 3

    out = np.zeros((32, 3), np.int32)
    run(kernel.trace(out, copy, mma, thr, block=32), [out])
    with inside():
        s = mo.shared_array(mo.int32, (16, 16))
        for thread in range(32):
            m, n = idx2crd(thr.shape, [thr(i) for i in range(32)].index(thread))
            assert list(out[thread]) == [copy.get_slice(thread).partition_S(s).offset,
                                         mma.get_slice(thread).partition_C(s).offset, m + 16 * n]


def test_the_block_must_have_the_threads_of_the_tiled_objects():
    mma = mo.make_tiled_mma(FMA, L("(16,16):(1,16)"))

    @mo.kernel
    def kernel(out, mma):
        part = mma.get_slice(mo.thread_idx().x).partition_C(out)
        part.fill(0)

    out = np.zeros((16, 16), np.float32, order="F")
    kernel.trace(out, mma, block=256)
    with pytest.raises(mo.LaunchError, match=r"has 256 threads, but the thread index .* runs over 128 .*\n(.*\n)*hint: "
                                             r"launch kernel\[grid, 256\]"):
        kernel.trace(out, mma, block=128)

    @mo.kernel
    def half(out, thr):
        mo.parallelize(out, thr, mo.thread_idx().x).fill(0)

    with pytest.raises(mo.LaunchError, match="parallelize runs over 512"):
        half.trace(out, L("(16,16):(1,16)"), block=512)


def test_tiles_that_do_not_divide():
    mma = mo.make_tiled_mma(FMA, L("(16,16):(1,16)"))
    with inside(), pytest.raises(mo.TensorError, match=r"extent 24 of mode 0 .* no multiple of 16"):
        mma.get_slice(0).partition_C(mo.shared_array(mo.float32, (24, 16)))
    with inside(), pytest.raises(mo.TensorError, match="has rank 1"):
        mma.get_slice(0).partition_C(mo.shared_array(mo.float32, (32,)))
