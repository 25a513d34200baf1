"""Stores to another block's shared memory that nobody waits for where they are issued: ``st_async`` and ``red_async``.

In: a mapped tensor, registers, an mbarrier.  Out: one ``ops.AsyncStore`` for each access of 4, 8 or 16 bytes.

    there = mo.map_shared_rank(inbox, peer)                     # (4, threads)
    mo.st_async(there[:, tid], values, barrier=(full, 0))       # st.async.v4: 16 bytes complete on full(0) there

Source: PTX ISA, st.async and red.async.
"""

from __future__ import annotations

from typing import Any

from moye import dtypes as dt
from moye.dtypes import DType, Space
from moye.errors import DTypeError, TensorError
from moye.ir import ops
from moye.ir.nodes import Operand, Ref
from moye.layout import Int, size
from moye.tensor import copying
from moye.tensor.accesses import judge
from moye.tensor.bulk_copy import barrier_there
from moye.tensor.context import builder, locate
from moye.tensor.expr import Scalar, is_scalar, operand_of
from moye.tensor.tensor import Tensor, index_operand
from moye.tensor.tile_atomics import registers_to

_STORED = (dt.int32, dt.uint32, dt.float32, dt.int64, dt.uint64, dt.float64)
REDUCED: dict[str, tuple[DType, ...]] = {
    "add": (dt.int32, dt.uint32, dt.int64, dt.uint64), "min": (dt.int32, dt.uint32), "max": (dt.int32, dt.uint32),
    "inc": (dt.uint32,), "dec": (dt.uint32,), "and": (dt.int32, dt.uint32), "or": (dt.int32, dt.uint32),
    "xor": (dt.int32, dt.uint32)}


def st_async(dst: Tensor, src: Tensor | Scalar, *, barrier: tuple[Tensor, Int]) -> None:
    """st.async: registers go to another block's shared memory, and complete on an mbarrier of that block.

    ``dst`` is a tensor of ``map_shared_rank``, ``src`` a register tensor of its shape and dtype, or a scalar for one
    element; the dtype has 32 or 64 bits (``mo.recast`` makes words of narrower ones).  ``barrier`` is ``(bars, i)`` as
    this block names it: the one at that place in the block of ``dst`` counts the bytes, which must be expected there
    (``mbarrier_arrive_expect_tx``).  What arrived is seen by who waits for its phase, and by nobody before.  Up to 16
    bytes that lie side by side in both are one instruction.  Errors: TensorError, DTypeError.
    """
    _emit("st_async", dst, src, None, barrier, _STORED)


def red_async(dst: Tensor, src: Tensor | Scalar, kind: str = "add", *, barrier: tuple[Tensor, Int]) -> None:
    """red.async: dst[i] = dst[i] kind src[i], atomically, in another block's shared memory; else as ``st_async``.

    ``kind`` is add (of integers of 32 and 64 bits), min, max, and, or, xor (of 32 bits), inc or dec (of uint32, as
    ``red`` of PTX has them).  It adds the bytes of each element to what completes on the mbarrier.  Several threads and
    blocks may change one element in one phase.
    """
    if kind not in REDUCED:
        raise TensorError(f"red_async: kind is {', '.join(REDUCED)}, not {kind!r}", locs=(locate(),))
    _emit("red_async", dst, src, kind, barrier, REDUCED[kind])


def _emit(what: str, dst: Tensor, src: Tensor | Scalar, by: Any, barrier: Any, dtypes: tuple[DType, ...]) -> None:
    _check(what, dst, dtypes, by)
    ref = barrier_there(what, dst, barrier)
    if not isinstance(src, Tensor):
        _one(what, dst, src, by, ref)
        return
    if src.space is not Space.REGISTER or src.dtype != dst.dtype:
        raise TensorError(f"{what}: {src!r} is no register tensor of {dst.dtype}", locs=(locate(),))
    space, most, at = copying.space_of(dst, src), 1, None
    for count in (4, 2) if by is None else ():
        at = copying.run_of(dst, src, space, count) if count * dst.dtype.bits <= 128 else None
        if at is not None:
            most = count
            break
    for to, values in registers_to(what, dst, src, space, most, at):
        _store(dst, to, values, by, ref)


def _check(what: str, dst: Tensor, dtypes: tuple[DType, ...], by: str | None) -> None:
    if not isinstance(dst, Tensor) or dst.space is not Space.CLUSTER:
        raise TensorError(f"{what}: {dst!r} is not in the shared memory of a block of the cluster",
                          hint="mo.map_shared_rank(tensor, rank)", locs=(locate(),))
    if dst.dtype not in dtypes:
        raise DTypeError(f"{what}: {dst.label} holds {dst.dtype}, and {by or 'it'} takes "
                         f"{', '.join(dtype.name for dtype in dtypes)}", locs=(locate(),))


def _one(what: str, dst: Tensor, value: Any, by: Any, barrier: Ref) -> None:
    if not is_scalar(value) or size(dst.layout) != 1:
        raise TensorError(f"{what}: {value!r} is no value for {dst.label} with layout {dst.layout}, which takes a "
                          "register tensor, or a scalar if it has one element", locs=(locate(),))
    judge(dst, True)
    _store(dst, dst.offset, (operand_of(value, dst.dtype),), by, barrier)


def _store(dst: Tensor, offset: Int, values: tuple[Operand, ...], by: Any, barrier: Ref) -> None:
    builder().emit(ops.AsyncStore(dst=Ref(dst.buffer, index_operand(offset), dst.dtype, dst.swizzle), barrier=barrier,
                                  values=values, by=by))
