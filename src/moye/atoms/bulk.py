"""Bulk copies: contiguous runs of bytes between memories, moved by the asynchronous units without a tensor map.

In: nothing.  Out: ``BulkCopy`` and ``BulkReduce``, which ``copyto`` takes in place of a copy atom.

    mo.copyto(mo.BulkCopy(), sX[:, stage], gX[:, k], barrier=(full, stage))

Source: PTX ISA, cp.async.bulk, cp.reduce.async.bulk; sm_90 and later have them.
"""

from __future__ import annotations

from dataclasses import dataclass

from moye import dtypes as dt
from moye.dtypes import DType
from moye.errors import DTypeError

PART = 16
"""Addresses and sizes are multiples of this number of bytes."""


@dataclass(frozen=True, slots=True)
class BulkOp:
    """A copy of one contiguous run."""

    def __str__(self) -> str:
        return f"{type(self).__name__}()"


@dataclass(frozen=True, slots=True)
class BulkCopy(BulkOp):
    """A run from global to shared memory, or from there to another block's; it completes on an mbarrier there.

    A run from shared to global memory belongs to the thread's bulk group.
    """


_WORDS = (dt.int32, dt.uint32, dt.int64, dt.uint64)
_HALVES = (dt.float16, dt.bfloat16)
REDUCED: dict[str, tuple[DType, ...]] = {
    "add": (dt.float16, dt.bfloat16, dt.float32, dt.float64, *_WORDS),
    **dict.fromkeys(("min", "max"), (*_WORDS, *_HALVES)), **dict.fromkeys(("inc", "dec"), (dt.uint32,)),
    **dict.fromkeys(("and", "or", "xor"), _WORDS),
}
"""The reductions of asynchronous copies, and the dtypes of each (PTX ISA, cp.reduce.async.bulk)."""


def require_reduction(asked: str, by: object) -> None:
    """DTypeError if there is no such reduction."""
    if not isinstance(by, str) or by not in REDUCED:
        raise DTypeError(f"{asked}({by!r}): the reductions are {', '.join(REDUCED)}")


@dataclass(frozen=True, slots=True)
class BulkReduce(BulkOp):
    """Combines shared with global memory, element by element, atomically (relaxed, gpu); of the thread's bulk group.

    ``by`` is "add", "min", "max", "inc", "dec", "and", "or" or "xor", as of ``TmaReduce``.
    """

    by: str = "add"

    def __post_init__(self) -> None:
        require_reduction("BulkReduce", self.by)

    def __str__(self) -> str:
        return "BulkReduceAdd()" if self.by == "add" else f'BulkReduce("{self.by}")'


def BulkReduceAdd() -> BulkReduce:
    """``BulkReduce("add")``: adds shared to global memory."""
    return BulkReduce("add")


def ptx_type(by: str, dtype: DType) -> str:
    """The last words of the instruction: ``add.noftz.f16``, ``max.s64``, ``xor.b32``."""
    if by in ("and", "or", "xor"):
        word = f"b{dtype.bits}"
    elif dtype.is_float:
        word = {dt.float16: "f16", dt.bfloat16: "bf16", dt.float32: "f32", dt.float64: "f64"}[dtype]
        word = f"noftz.{word}" if by == "add" and dtype.bits == 16 else word
    else:                                               # sums of signed and unsigned integers of 64 bits wrap alike
        signed = dtype in (dt.int32, dt.int64) and not (by == "add" and dtype.bits == 64)
        word = f"{'s' if signed else 'u'}{dtype.bits}"
    return f"{by}.{word}"
