"""Tiled copies that fit an MMA, and retiled registers: what a copy brings to a register is what the MMA wants there."""

from __future__ import annotations

import itertools

import pytest

import matrix_kernels as kernels
import moye as mo
from moye.atoms.matrix import REGISTER_BITS, ROW_BITS, ROWS
from moye.errors import LayoutError, TensorError
from moye.layout import make_layout, rank, size
from tensor.test_tiled import inside

F16, TF32, S8, F64 = kernels.F16, kernels.TF32, kernels.S8, kernels.F64
L = mo.Layout.parse
MMAS = {
    "one atom": mo.make_tiled_mma(F16),
    "2x2 atoms": mo.make_tiled_mma(F16, make_layout((2, 2))),
    "2x2 row by row": mo.make_tiled_mma(F16, L("(2,2):(2,1)")),
    "4x1, wide N": mo.make_tiled_mma(F16, make_layout((4, 1)), (64, 16, 16)),
    "2x2, 32x32x16": mo.make_tiled_mma(F16, make_layout((2, 2)), (32, 32, 16)),
    "1x2x2 along K": mo.make_tiled_mma(F16, make_layout((1, 2, 2)), (None, 32, 32)),
    "permuted M": mo.make_tiled_mma(F16, make_layout((2, 2)), (L("(16,2):(1,16)"), 32, 16)),
    "permuted N": mo.make_tiled_mma(F16, make_layout((2, 2)), (32, L("(8,2,2):(1,16,8)"), 16)),
    "tf32": mo.make_tiled_mma(TF32, make_layout((2, 2)), (32, 32, 8)),
    "s8": mo.make_tiled_mma(S8, make_layout((2, 1)), (32, 16, 32)),
    "f64": mo.make_tiled_mma(F64, make_layout((2, 2)), (32, 16, 16)),
    "fma": mo.make_tiled_mma(mo.UniversalFMA(mo.float32), make_layout((8, 4))),
    "fma, 2 of M": mo.make_tiled_mma(mo.UniversalFMA(mo.float32), make_layout((8, 4)), (L("(8,2):(2,1)"), 8, 2)),
}
SIDES = {"A": (mo.make_tiled_copy_A, (0, 2)), "B": (mo.make_tiled_copy_B, (1, 2)), "C": (mo.make_tiled_copy_C, (0, 1))}


def dtype_of(mma, side):
    return getattr(mma.op, f"{side.lower()}_dtype")


def atoms(dtype):
    """Copies of one thread, and of a warp where the elements can be in matrices."""
    yield mo.UniversalCopy(dtype)
    if dtype.bits in (8, 16, 32):
        yield from (mo.LdMatrix(1), mo.LdMatrix(2), mo.LdMatrix(4), mo.StMatrix(1), mo.StMatrix(4))
    if dtype.bits == 16:
        yield mo.LdMatrix(4, transpose=True)
        yield mo.StMatrix(2, transpose=True)


def fitting():
    """Every MMA, operand and copy of it whose values divide a thread's."""
    for name, side in itertools.product(MMAS, SIDES):
        mma = MMAS[name]
        for op in atoms(dtype_of(mma, side)):
            atom = mo.CopyAtom(op, dtype_of(mma, side))
            try:
                yield name, side, SIDES[side][0](atom, mma)
            except LayoutError as error:
                assert f"{atom} moves {atom.values}" in error.message


FITTING = list(fitting())
"""Every second one is tried: some of each MMA and operand, and each instruction with half of these."""


def test_enough_fit():
    """Of all combinations these do: every MMA, each operand, and matrix copies for each tensor core."""
    assert {(name, side) for name, side, _ in FITTING} == set(itertools.product(MMAS, SIDES))
    for name in MMAS:
        if MMAS[name].op.threads == 32 and name != "f64":
            assert {copy.atom.op.name[:2] for n, _, copy in FITTING if n == name} == {"Un", "Ld", "St"}
            assert any(copy.atom.op.matrices == 4 for n, side, copy in FITTING if n == name and side == "A")


def tile_of(mma, side, times=(2, 2)):
    """An identity tensor of so many tiles of the MMA."""
    return mo.identity_tensor(tuple(n * mma.tile_size(d) for n, d in zip(times, SIDES[side][1], strict=True)))


def some(threads):
    """Threads whose bits are all set and clear in some of them: partitions are linear in each bit."""
    return [0, *(1 << bit for bit in range(threads.bit_length() - 1)), threads - 1]


def values(part):
    """(first mode, rest modes) -> coordinate, by linear indices."""
    first, rest = size(part.layout, 0), size(part.layout) // size(part.layout, 0)
    modes = [part.layout.mode(i) for i in range(rank(part.layout))]
    flat = part.with_layout(make_layout(modes[0], make_layout(*modes[1:])))
    return [[flat[v, r] for v in range(first)] for r in range(rest)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "side", "copy"), FITTING[::2],
                         ids=lambda x: str(x).partition("(CopyAtom(")[2][:24] or x)
def test_retiled_registers_hold_what_the_mma_wants(name, side, copy):
    """Register r of the fragment, seen through retile, is the element that the copy addresses."""
    mma = MMAS[name]
    with inside():
        identity = tile_of(mma, side)
        for thread in some(mma.threads):
            thr, mine = copy.get_slice(thread), mma.get_slice(thread)
            wanted = getattr(mine, f"partition_{side}")(identity)           # (MMA, MMA_M, MMA_K)
            fragment = mo.make_fragment_like(wanted.layout, dtype_of(mma, side))
            of_register = {fragment.layout(i): x for i, x in enumerate(x for row in values(wanted) for x in row)}
            load = not copy.atom.op.name.startswith("St")
            held = (thr.partition_D if load else thr.partition_S)(identity)
            view = (thr.retile_D if load else thr.retile_S)(fragment)
            assert [size(held.layout, m) for m in range(3)] == [size(view.layout, m) for m in range(3)]
            found = [of_register[view.offset + view.layout(i)] for i in range(size(view.layout))]
            assert found == [x for row in values(held) for x in row]
            assert sorted(view.layout(i) for i in range(size(view.layout))) == list(range(size(fragment.layout)))


def delivered(rows, thread, value, op, bits):
    """The element that ldmatrix puts there, or stmatrix takes from there: ``rows[t]`` are those that thread t names."""
    row, column = kernels.held(thread, value, bits, op.transpose)
    return rows[row][column]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "side", "copy"), [f for f in FITTING if f[2].atom.op.matrices][::2],
                         ids=lambda x: str(x).partition("(CopyAtom(")[2][:24] or x)
def test_matrices_deliver_it(name, side, copy):
    """By PTX's own rule: the rows that the 32 threads of a warp name give each thread what its registers stand for."""
    mma, op = MMAS[name], copy.atom.op
    bits, held = dtype_of(mma, side).bits, op.matrices * REGISTER_BITS // dtype_of(mma, side).bits
    with inside():
        identity, load = tile_of(mma, side, (1, 1)), op.name.startswith("Ld")
        named, wanted = [], []
        for thread in range(mma.threads - 32, mma.threads):                 # the last warp
            thr = copy.get_slice(thread)
            memory, registers = (thr.partition_S, thr.partition_D) if load else (thr.partition_D, thr.partition_S)
            named.append(by_instruction(memory(identity), ROW_BITS // bits))
            wanted.append(by_instruction(registers(identity), held))
    for step in range(len(wanted[0])):
        rows = [named[t][step] for t in range(ROWS * op.matrices)]
        for thread, value in itertools.product(range(32), range(held)):
            assert delivered(rows, thread, value, op, bits) == wanted[thread][step][value]


def by_instruction(part, count):
    """A thread's coordinates, ``count`` at a time."""
    flat = [x for row in values(part) for x in row]
    assert len(flat) % count == 0
    return [flat[i:i + count] for i in range(0, len(flat), count)]


def test_retile_of_one_thread_atoms():
    """The same registers in the copy's groups: 8 values of a thread, two rows of 2 x 2."""
    mma = MMAS["fma, 2 of M"]
    copy = mo.make_tiled_copy_A(mo.CopyAtom(mo.UniversalCopy(mo.float64), mo.float32), mma)
    with inside():
        fragment = mo.fragment((1, 4, 2), mo.float32)                       # (MMA, MMA_M, MMA_K) of two tiles
        view = copy.get_slice(0).retile_D(fragment)
        assert (size(view.layout, 0), size(view.layout)) == (4, 8)
        assert view.buffer is fragment.buffer
        assert sorted(view.layout(i) for i in range(8)) == list(range(8))
        plain = mo.make_tiled_copy_A(mo.CopyAtom(mo.UniversalCopy(mo.float32), mo.float32), MMAS["fma"])
        same = plain.get_slice(3).retile_S(fragment)
        assert [same.layout(i) for i in range(8)] == list(range(8))


@pytest.mark.parametrize(("side", "op", "mma", "sentence", "hint"), [
    ("B", mo.LdMatrix(4), "one atom", "CopyAtom(LdMatrix(4), float16) moves 8 float16 per thread at a time, but "
     f"TiledMMA({F16}, atoms (1,1,1):(0,0,0)) gives a thread 4 of its 8x16 tile",
     "an atom of fewer values, or a larger tile: permutations=(M, N, K) of make_tiled_mma"),
    ("A", mo.UniversalCopy(mo.uint128), "fma", "CopyAtom(UniversalCopy(uint128), float32) moves 4 float32 per thread "
     "at a time, but TiledMMA(UniversalFMA(float32), atoms (8,4,1):(1,8,0)) gives a thread 1 of its 8x1 tile",
     "an atom of fewer values, or a larger tile: permutations=(M, N, K) of make_tiled_mma"),
])
def test_atoms_that_do_not_fit(side, op, mma, sentence, hint):
    with pytest.raises(LayoutError) as caught:
        SIDES[side][0](mo.CopyAtom(op, dtype_of(MMAS[mma], side)), MMAS[mma])
    assert (caught.value.message, caught.value.hint) == (sentence, hint)


def test_too_few_threads():
    mma = mo.make_tiled_mma(mo.UniversalFMA(mo.float16), make_layout((4, 4)))
    with pytest.raises(LayoutError) as caught:
        mo.make_tiled_copy_A(mo.CopyAtom(mo.LdMatrix(1), mo.float16), mma)
    assert caught.value.message == "CopyAtom(LdMatrix(1), float16) is executed by 32 threads together, but " \
                                   "TiledMMA(UniversalFMA(float16), atoms (4,4,1):(1,4,0)) has 16"


def test_registers_of_another_partition_cannot_be_retiled():
    """One value per thread and rest is not what a copy of eight has."""
    copy = mo.make_tiled_copy_A(mo.CopyAtom(mo.LdMatrix(4), mo.float16), MMAS["2x2, 32x32x16"])
    with inside(), pytest.raises(TensorError, match=r"retile_D: the values .* of a thread are not those of the tiled"):
        copy.get_slice(0).retile_D(mo.fragment((3, 2, 1), mo.float16))
