"""Bulk copies: contiguous runs of bytes between memories, moved by the asynchronous units without a tensor map.

In: nothing.  Out: ``BulkCopy`` and ``BulkReduceAdd``, which ``copyto`` takes in place of a copy atom.

    mo.copyto(mo.BulkCopy(), sX[:, stage], gX[:, k], barrier=(full, stage))

Source: PTX ISA, cp.async.bulk, cp.reduce.async.bulk; sm_90 and later have them.
"""

from __future__ import annotations

from dataclasses import dataclass

from moye import dtypes as dt

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


@dataclass(frozen=True, slots=True)
class BulkReduceAdd(BulkOp):
    """Adds shared to global memory, element by element, atomically (relaxed, gpu); of the thread's bulk group."""


ADDED = {dt.float16: "noftz.f16", dt.bfloat16: "noftz.bf16", dt.float32: "f32", dt.float64: "f64", dt.int32: "s32",
         dt.uint32: "u32", dt.int64: "u64", dt.uint64: "u64"}
"""The types of cp.reduce.async.bulk.add; signed and unsigned integers of 64 bits wrap alike."""
