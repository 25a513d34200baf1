"""What the hardware has: one table, which printer, simulator, lints and kernels read.

In: an architecture such as ``sm_90a``.  Out: ``Hardware``: registers, shared memory, threads, blocks, multiprocessors.

>>> of("sm_90a").block_shared, of("sm_90a").multiprocessors
(232448, 132)

Source: CUDA C++ Programming Guide, compute capabilities; NVIDIA's occupancy calculator for the units in which registers
and shared memory are given out.  Products of one architecture differ in their multiprocessors: the table has those of
its largest data-centre product, and a device that is there is asked instead (``mo.multiprocessors``).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

# --- the same on every architecture ----------------------------------------------------------------------------------

WARP, WARPGROUP = 32, 128
"""Lanes of a warp; threads of the four warps that execute a wgmma."""
MOST_THREADS = 1024
"""Threads of a block."""
BANKS, BANK_BITS = 32, 32
"""Banks of shared memory, and the bits of a word, of which each bank serves one at a time."""
SECTOR, LINE = 32, 128
"""Bytes of global memory that are fetched together, and of a cache line of four such sectors."""
ROW_BITS = 128
"""Bits of one row of a matrix that ldmatrix loads."""
STATIC_SHARED = 48 << 10
"""Bytes of shared memory that a block has without opting in to more."""
REGISTERS, REGISTER_BITS = 65_536, 32
"""Registers of a multiprocessor."""
MOST_REGISTERS, MOST_GIVEN, REGISTER_UNIT, WARP_REGISTERS = 255, 256, 8, 256
"""Registers that a thread uses, and is given, at most; they are given out in eights to a thread, in 256 to a warp."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """One architecture.  Bytes of shared memory: ``shared`` of a multiprocessor, of which a block may have
    ``block_shared`` and pays ``reserved`` more, in units of ``shared_unit``.  ``threads`` and ``blocks`` are the most
    that a multiprocessor holds at once."""

    shared: int
    block_shared: int
    reserved: int
    shared_unit: int
    threads: int
    blocks: int
    multiprocessors: int

    @property
    def warps(self) -> int:
        """Warps that a multiprocessor holds at once."""
        return self.threads // WARP


# KB of shared memory of a multiprocessor and of a block, and reserved; its unit; threads, blocks; multiprocessors
_TABLE = """
70   96  96 0 256  2048 32   80  V100
75   64  64 0 256  1024 16   40  T4
80  164 163 1 128  2048 32  108  A100
86  100  99 1 128  1536 16   84  A40
87  164 163 1 128  1536 16   16  Orin
89  100  99 1 128  1536 24  142  L40S
90  228 227 1 128  2048 32  132  H100, H200
100 228 227 1 128  2048 32  148  B200
103 228 227 1 128  2048 32  148  B300
110 228 227 1 128  1536 24   20  Thor
120 100  99 1 128  1536 24  188  RTX PRO 6000
"""


def _parse(row: str) -> tuple[int, Hardware]:
    number, shared, block, reserved, *rest = (int(word) for word in row.split()[:8])
    return number, Hardware(shared << 10, block << 10, reserved << 10, *rest)


ARCHITECTURES = dict(map(_parse, _TABLE.strip().splitlines()))
"""By compute capability, 90 for 9.0."""
MOST_SHARED = max(hardware.block_shared for hardware in ARCHITECTURES.values())
"""Bytes of shared memory that no block of any device exceeds."""


@functools.cache
def of(arch: str) -> Hardware:
    """The facts of an architecture; of one that the table does not have those of the next older one (12.1: 12.0)."""
    number = int(arch.strip("sm_af"))
    return ARCHITECTURES[max((known for known in ARCHITECTURES if known <= number), default=min(ARCHITECTURES))]


DEFAULT_ARCH = "sm_90a"
"""What a launch is checked and compiled for where neither MOYE_ARCH nor a device says otherwise."""
