"""Global memory: how many 32-byte sectors a warp's access touches.

In: a layout thread -> offset or (thread, value) -> offset.  Out: a ``SectorReport``, one line per instruction.

>>> print(sectors_per_request(Layout.parse("32:2"), 32))
32:2: 32 bits, 1 value at a time, base aligned to 32 bytes
value  warps  sectors  ideal  useful
    0      0        8      4  50%
8 sectors for 4: 50% of their bytes are useful

It counts what a request touches, whatever caches already hold.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from moye.errors import AlignmentError, LayoutError
from moye.hardware import SECTOR
from moye.layout.analysis.requests import Request, access_bits, aligned, ranges, requests
from moye.layout.tables import AnyLayout

"""Bytes of a sector."""


@dataclass(frozen=True, slots=True)
class SectorRequest:
    """One instruction of one warp: the sectors it touches, and the bytes it wants (shared bytes count once)."""

    warp: int
    value: int
    sectors: int
    useful_bits: int

    @property
    def ideal(self) -> int:
        """The fewest sectors that hold so many bytes."""
        return -(-self.useful_bits // (8 * SECTOR))

    @property
    def efficiency(self) -> float:
        """Bytes wanted / bytes of the sectors."""
        return self.useful_bits / (8 * SECTOR * self.sectors)


@dataclass(frozen=True, slots=True)
class SectorReport:
    """The sectors of an access to global memory, instruction by instruction."""

    layout: AnyLayout
    bits: int
    vector: int
    alignment: int
    requests: tuple[SectorRequest, ...]

    @property
    def sectors(self) -> int:
        return sum(request.sectors for request in self.requests)

    @property
    def ideal(self) -> int:
        return sum(request.ideal for request in self.requests)

    @property
    def efficiency(self) -> float:
        """Bytes wanted / bytes of the sectors, of all instructions."""
        return sum(request.useful_bits for request in self.requests) / (8 * SECTOR * self.sectors)

    def __str__(self) -> str:
        rows = [["value", "warps", "sectors", "ideal", "useful"]]
        groups: dict[tuple[int, int, int], list[SectorRequest]] = defaultdict(list)
        for request in self.requests:
            groups[request.value, request.sectors, request.useful_bits].append(request)
        for same in groups.values():
            one = same[0]
            rows.append([str(one.value), ranges(r.warp for r in same), str(one.sectors), str(one.ideal),
                         f"{one.efficiency:.0%}"])
        head = (f"{self.layout}: {self.bits} bits, {self.vector} value{'s' * (self.vector > 1)} at a time, "
                f"base aligned to {self.alignment} bytes")
        total = f"{self.sectors} sectors for {self.ideal}: {self.efficiency:.0%} of their bytes are useful"
        return "\n".join([head, *aligned(rows), total])


def sectors_per_request(layout: AnyLayout, element_bits: int, *, vector: int = 1,
                        alignment: int = SECTOR) -> SectorReport:
    """What each instruction of a thread/value layout touches in global memory, in sectors of 32 bytes.

    ``layout`` is as for ``bank_conflicts``; a request is all threads of one warp.  ``alignment`` is that of the base,
    in bytes.  Below 32, each request counts its worst base.  AlignmentError if it is less than an access. Source: CUDA
    C++ Best Practices Guide, coalesced access to global memory.
    """
    bits = access_bits(element_bits, vector)
    if alignment <= 0 or alignment & (alignment - 1):
        raise LayoutError(f"the alignment of a base is a power of two of bytes, not {alignment}")
    if alignment * 8 < bits:
        raise AlignmentError(f"an access of {bits} bits needs a base aligned to {bits // 8} bytes, not {alignment}")
    found = [_count(request, bits, alignment) for request in requests(layout, element_bits, vector)]
    return SectorReport(layout, bits, vector, alignment, tuple(found))


def _count(request: Request, bits: int, alignment: int) -> SectorRequest:
    starts = set(request.addresses)                # aligned accesses of one width are the same or disjoint
    # If the base is not known to start a sector, the worst place of it that its alignment allows counts.
    sectors = max(len({(base * 8 + start) // (8 * SECTOR) for start in starts}) for base in range(0, SECTOR, alignment))
    return SectorRequest(request.warp, request.value, sectors, len(starts) * bits)
