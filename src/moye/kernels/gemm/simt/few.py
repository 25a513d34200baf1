"""How warps share a product of few rows with an operand that streams from memory, and what it takes.

In: what streams, few rows, K.  Out: a ``FewPlan``, and microseconds.  ``few_kernel.py`` has the kernel.

    choose(Few(17065, 2, 7034, 4), 132)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from moye.kernels.gemm.parts.epilogues import Epilogue

MOST = 8
"""Rows that count as few."""
WARPS, LANES = 8, 32
RESIDENT = 2
"""Blocks of a multiprocessor: 128 registers a thread."""
_HELD = 32
"""Elements of what streams that a thread has on their way."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What the model of costs is made of, on an H200: microseconds and bytes; ``benchmarks/gemm_few.py`` fits it."""

    launch: float = 3.569       # and the first reads
    dram: float = 4.954e+06     # bytes a microsecond
    one: float = 8.504e+04      # the same of one multiprocessor, the few rows of each block among them
    product: float = 9.086e-06  # of a multiprocessor, for each element read and few row
    product_one: float = 2.328e-05 # the same where elements are read one by one
    fold: float = 0.002983      # and for each sum of all lanes
    block: float = 1.22         # of a block from its begin to its first products, for each that a multiprocessor holds


COSTS = Costs()


@dataclass(frozen=True, slots=True)
class Few:
    """``rows`` that stream, ``few`` of the other operand, of elements of ``bytes``.  ``aligned``: to 16 bytes.

    So for each of ``batches`` products.
    """

    rows: int
    few: int
    K: int
    bytes: int
    aligned: bool = False
    batches: int = 1


_PLAIN = Epilogue()


@dataclass(frozen=True, slots=True)
class FewPlan:
    """What a launch is specialised on: ``few`` rows, a power of two; a warp has ``rows``; ``deep`` warps share them.

    ``width``: elements of a read.  ``bias_streams``: the bias runs along the rows that stream, not along the few.
    """

    few: int
    rows: int
    deep: int
    width: int
    epilogue: Epilogue = _PLAIN
    batched: bool = False
    bias_streams: bool = False

    @property
    def strips(self) -> int:
        """Groups of rows of a block."""
        return WARPS // self.deep

    @property
    def steps(self) -> int:
        """Reads of each row that a thread has on their way."""
        return max(1, _HELD // (self.rows * self.width * (2 if self.few == MOST else 1)))

    def blocks(self, rows: int) -> int:
        """Blocks of all rows."""
        return -(-rows // (self.rows * self.strips))


def choose(size: Few, multiprocessors: int) -> FewPlan:
    """Four rows a warp where that makes two blocks for each multiprocessor; else more warps a row, or fewer rows.

    Each lane of those that share a row has a read of it at least.
    """
    few, width = 1 << max(0, size.few - 1).bit_length(), 16 // size.bytes if size.aligned else 1
    plans = [FewPlan(few, rows, deep, width) for rows, deep in ((4, 1), (4, 2), (4, 4), (2, 4), (2, 8), (1, 8))
             if deep == 1 or deep * LANES * width <= size.K]
    return next((plan for plan in plans if plan.blocks(size.rows) * size.batches >= RESIDENT * multiprocessors),
                plans[-1])


def estimate(size: Few, multiprocessors: int, costs: Costs = COSTS) -> float:
    """Microseconds on an H200, or on a device with so many multiprocessors."""
    plan = choose(size, multiprocessors)
    blocks, rows = plan.blocks(size.rows) * size.batches, plan.rows * plan.strips
    turns = -(-blocks // multiprocessors)               # of blocks, on the multiprocessor with the most
    moved = size.bytes * size.batches * (size.rows * (size.K + size.few) + size.few * size.K)
    read = size.bytes * turns * (rows + size.few) * size.K
    each = costs.product if plan.width > 1 else costs.product_one
    worked = turns * rows * plan.few * (size.K * each + costs.fold * plan.deep)
    begun = costs.block * (-(-turns // RESIDENT) - 1)
    return costs.launch + math.hypot(moved / costs.dram, read / costs.one, worked, begun)
