"""One hardware operation as data: ``CopyOp`` and ``MmaOp`` records.

A record holds what all other parts need of the operation: thread/value layouts (for partitioning, drawing, simulating),
dtypes, architecture, alignment and its PTX.  Tables of records are in ``universal.py``, ``mma_sync.py``, ...

>>> mo.UniversalFMA(mo.float32).shape_mnk, mo.CpAsync(mo.float64).bits
((1, 1, 1), 64)

Records are compared and hashed by value: they are part of a kernel's specialisation key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from moye.display import Drawable
from moye.dtypes import DType
from moye.layout import Layout, make_layout


@dataclass(frozen=True, slots=True)
class CopyOp:
    """One copy instruction.

    ``bits`` is the width of one access of one thread; None lets ``copyto`` choose the widest that layouts and alignment
    prove.  ``asynchronous`` is None, or "cp.async" (completes at cp.async.wait_*).  ``cache`` is "always"
    (cp.async.ca), "global" (cp.async.cg) or None.  ``ptx`` is the instruction's text with %0 destination, %1 source.
    ``arch`` is the first architecture that has it (80 for sm_80).  ``matrices`` says how many 8x8 matrices a whole warp
    moves (ldmatrix, stmatrix; their layouts are in ``matrix.py``); ``bits`` are then those in one thread's registers,
    and ``stores`` says that they go to shared memory.  ``hint`` is how long caches should keep what a plain copy loads
    from global memory or stores there, and ``prefetch`` the bytes that a load brings to L2 (0: as the device likes).
    """

    name: str
    bits: int | None
    asynchronous: str | None = None
    cache: str | None = None
    ptx: str = ""
    arch: int = 80
    matrices: int = 0
    transpose: bool = False
    stores: bool = False
    hint: str = ""
    prefetch: int = 0

    @property
    def bytes(self) -> int:
        return (self.bits or 0) // 8

    @property
    def threads(self) -> int:
        """How many threads execute it together."""
        return 32 if self.matrices else 1

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class MmaOp(Drawable):
    """One matrix multiply-accumulate instruction, D = A * B + C.

    ``a_layout`` maps (thread, value) to the element index of A, viewed as a column-major (M, K) tile; ``b_layout`` does
    so for (N, K) and ``c_layout`` for (M, N).  ``threads`` is how many threads execute it together.  If these are not
    neighbours, ``thr_id`` maps them to the lanes of their warp (CuTe's ThrID).
    ``ptx`` is empty for operations that print as plain C++ (``d += a * b``).
    ``product`` is what is summed over k: a * b, or for single bits a ^ b or a & b.  ``saturate`` clamps integer sums,
    which otherwise wrap.
    ``shared`` names the operands that are read from shared memory through descriptors ("ab" or "b", of wgmma): every
    thread of their layouts has the whole tile.  ``a_major`` and ``b_major`` say along which mode these are contiguous.
    """

    name: str
    shape_mnk: tuple[int, int, int]
    a_dtype: DType
    b_dtype: DType
    c_dtype: DType
    d_dtype: DType
    threads: int
    a_layout: Layout
    b_layout: Layout
    c_layout: Layout
    ptx: str = ""
    arch: int = 80
    thr_id: Layout | None = None
    product: Literal["mul", "xor", "and"] = "mul"
    saturate: bool = False
    shared: Literal["", "b", "ab"] = ""
    a_major: Literal["k", "mn"] = "k"
    b_major: Literal["k", "mn"] = "k"

    @property
    def lanes(self) -> Layout:
        """The map from thread of the atom to thread of the warp (of the block for scalar operations)."""
        return self.thr_id or make_layout(self.threads, 1 if self.threads > 1 else 0)

    def __repr__(self) -> str:
        return self.name
