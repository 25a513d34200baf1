"""From two tensors to one ldmatrix or stmatrix copy: which registers, which rows, and the proof of their alignment.

In: a CopyOp of a whole warp, and a shared and a register tensor whose first modes hold what one thread gives and gets.
Out: an ``ops.Copy`` with ``registers``, or a sentence that says why not.

    emit_matrices(LdMatrix(4), tCrA_view[:, :, k], tCsA[:, :, k, stage])
"""

from __future__ import annotations

from moye.atoms.atom import CopyOp
from moye.dtypes import Space
from moye.errors import LayoutError, TensorError
from moye.hardware import ROW_BITS
from moye.ir import ops
from moye.layout import Layout, coalesce, logical_divide, make_layout, rank, size
from moye.tensor.accesses import judge
from moye.tensor.context import builder, locate
from moye.tensor.copying import extent_of, misaligned, proven
from moye.tensor.space import common_space, merged
from moye.tensor.view import View


def emit_matrices(op: CopyOp, dst: View, src: View) -> None:
    """Record a copy by whole warps, dst[i] = src[i]."""
    memory, registers = (dst, src) if dst.space is Space.SHARED else (src, dst)
    if (memory.space, registers.space) != (Space.SHARED, Space.REGISTER) or op.stores != (dst is memory):
        way = "registers to smem" if op.stores else "smem to registers"
        raise TensorError(f"{op} copies from {way}; {src.label} lives in {src.space.value} and {dst.label} in "
                          f"{dst.space.value}", locs=(locate(),))
    width, held = ROW_BITS // dst.dtype.bits, (op.bits or 0) // dst.dtype.bits
    row, rows = _split(op, memory, width)
    values, others = _split(op, registers, held)
    if coalesce(row) != make_layout(width):
        raise TensorError(f"{op} moves rows of {width} contiguous {memory.dtype}, but a thread's row of {memory.label} "
                          f"is {row}: its layout is {memory.layout}", locs=(locate(),), code="A9",
                          hint="the tile is contiguous along the other mode: transpose="
                          + ("False" if op.transpose else "True (16-bit elements alone)"))
    count, times = size(others), size(rows)
    if isinstance(times, int) and count != times:
        raise TensorError(f"{registers.label} {registers.layout} takes {count} times {op}, but {memory.label} "
                          f"{memory.layout} {times}", locs=(locate(),))
    layouts = [others, rows] if dst is registers else [rows, others]
    try:
        space = merged(common_space(layouts))
    except LayoutError as error:
        raise TensorError(f"{dst.label} {dst.layout} cannot be copied from {src.label} {src.layout}: {error.message}",
                          locs=(locate(),)) from None
    steps = space.strides[1 if dst is registers else 0]
    if proven(memory, steps, -1) % (ROW_BITS // 8):
        raise misaligned(op, memory, steps, -1, ROW_BITS // 8)
    judge(memory, write=dst is memory)
    builder().emit(ops.Copy(
        dst=dst.tile_ref(space.strides[0]), src=src.tile_ref(space.strides[1]),
        extents=tuple(extent_of(e) for e in space.extents), width=width, atom=op,
        registers=tuple(_static(values(i)) for i in range(held))))


def _split(op: CopyOp, view: View, count: int) -> tuple[Layout, Layout]:
    """A thread's part of one instruction, and everything else."""
    modes = [view.layout.mode(i) for i in range(rank(view.layout))]
    first = size(modes[0])
    if not isinstance(first, int) or first % count:
        raise TensorError(f"{op} takes {count} {view.dtype} of {view.label} per thread, but the first mode of its "
                          f"layout {view.layout} has {first}", locs=(locate(),),
                          hint="partition it by the tiled copy, and registers of an MMA by its retile_D (or retile_S)")
    divided = logical_divide(modes[0], count)
    return divided.mode(0), make_layout(divided.mode(1), *modes[1:])


def _static(offset: object) -> int:
    assert isinstance(offset, int), "register fragments have static layouts"
    return offset
