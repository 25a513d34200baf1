"""ldmatrix and stmatrix: a warp moves 8x8 matrices of 16-bit elements between shared memory and registers.

In: how many matrices (1, 2 or 4), transposed or not.  Out: ``CopyOp`` records, and their thread/value layouts.

>>> mo.CopyAtom(mo.LdMatrix(4), mo.float16)
CopyAtom(op=LdMatrix(4), dtype=float16)

Thread 8 i + r gives the address of row r (16 bytes) of matrix i.  Thread t holds elements 2 (t % 4) and 2 (t % 4) + 1
of row t / 4, or of column t / 4 if transposed.  Elements of 8 or 32 bits travel as parts or pairs of 16-bit elements
(not transposed).  Source: PTX ISA, "ldmatrix" and "stmatrix"; CuTe cute/atom/copy_traits_sm75.hpp,
copy_traits_sm90.hpp.
"""

from __future__ import annotations

from moye.atoms.atom import CopyOp
from moye.errors import DTypeError
from moye.hardware import REGISTER_BITS, ROW_BITS, WARP
from moye.layout import Layout

ROWS = 8


def LdMatrix(matrices: int, *, transpose: bool = False) -> CopyOp:
    """ldmatrix.x1, .x2 or .x4: shared memory to registers; sm_75 and later."""
    return _matrix("LdMatrix", "ldmatrix", matrices, transpose, 75)


def StMatrix(matrices: int, *, transpose: bool = False) -> CopyOp:
    """stmatrix.x1, .x2 or .x4: registers to shared memory; sm_90 and later."""
    return _matrix("StMatrix", "stmatrix", matrices, transpose, 90)


def _matrix(name: str, instruction: str, matrices: int, transpose: bool, arch: int) -> CopyOp:
    if not isinstance(matrices, int) or matrices not in (1, 2, 4):
        raise DTypeError(f"{name}({matrices!r}): {instruction} moves 1, 2 or 4 matrices, not {matrices!r}")
    ptx = f"{instruction}.sync.aligned.m8n8.x{matrices}{'.trans' if transpose else ''}.shared.b16"
    return CopyOp(f"{name}({matrices}{', transpose=True' if transpose else ''})", REGISTER_BITS * matrices, ptx=ptx,
                  arch=arch, matrices=matrices, transpose=transpose, stores=name == "StMatrix")


def memory_layout(op: CopyOp, bits: int) -> Layout:
    """A layout (thread, value) -> element of the matrices, row after row: the row whose address a thread gives.

    Threads beyond the rows repeat those of others.  ``bits`` is the width of an element.
    """
    check_width(op, bits)
    row = ROW_BITS // bits
    rows = ROWS * op.matrices
    if rows == WARP:
        return Layout((WARP, row), (row, 1))
    return Layout(((rows, WARP // rows), row), ((row, 0), 1))


def register_layout(op: CopyOp, bits: int) -> Layout:
    """A layout (thread, value) -> element of the matrices, row after row: the elements that a thread holds."""
    check_width(op, bits)
    row, pair = ROW_BITS // bits, REGISTER_BITS // bits
    if op.transpose:
        return Layout(((4, 8), (pair, op.matrices)), ((pair * row, 1), (row, ROWS * row)))
    return Layout((WARP, (pair, op.matrices)), (pair, (1, ROWS * row)))


def check_width(op: CopyOp, bits: int) -> None:
    """DTypeError if the matrices cannot have elements of this width."""
    if bits not in (8, 16, 32) or (op.transpose and bits != 16):
        possible = "16" if op.transpose else "8, 16 or 32"
        raise DTypeError(f"{op} moves elements of {possible} bits, not {bits}", hint=_instead(op, bits))


def _instead(op: CopyOp, bits: int) -> str | None:
    """The operation that moves elements of this width."""
    if bits < 8:
        return "mo.recast them to whole words, mo.uint32"
    each = "mo.UniversalCopy(dtype) moves them one by one"
    if not op.transpose or bits not in (8, 32):
        return each
    return f"without transpose it moves 8, 16 or 32 bits, of a tile that is contiguous along K; along M or N, {each}"
