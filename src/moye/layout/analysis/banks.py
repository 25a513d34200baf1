"""Shared memory: which accesses of a warp meet in a bank.

In: a layout thread -> offset or (thread, value) -> offset, and the instruction.  Out: a ``BankReport``, one line each.

>>> print(bank_conflicts(Layout.parse("32:32"), 32))
32:32: ld of 32 bits, 1 value at a time
value  warps  wavefronts  ideal  degree  where it is worst
    0      0          32      1      32  bank 0: threads 0-31
32 wavefronts for 1: 31 bank conflicts

Model: 32 banks of 32-bit words; ``bank_conflicts`` says how wide accesses split.  Bases are aligned to 128 bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from moye.errors import LayoutError
from moye.hardware import BANK_BITS, BANKS, ROW_BITS, WARP
from moye.layout.analysis.requests import Request, access_bits, aligned, ranges, requests
from moye.layout.coords import idx2crd
from moye.layout.tables import AnyLayout, offsets, plain
from moye.layout.tuples import IntTuple

# Each 8x8 matrix takes the addresses of 8 threads, one per row (PTX ISA, ldmatrix).
_MATRIX = {f"{name}{suffix}": rows for name in ("ldmatrix", "stmatrix")
           for suffix, rows in (("", WARP), (".x1", 8), (".x2", 16), (".x4", 32))}
ACCESSES = ("ld", "st", *_MATRIX)


@dataclass(frozen=True, slots=True)
class BankRequest:
    """One instruction of one warp: how often it goes to memory, and who meets in its worst bank.

    ``degree`` is the most different words of one bank in one phase (1: no conflict); ``threads`` access the words of
    ``bank`` in that phase.
    """

    warp: int
    value: int
    wavefronts: int
    ideal: int
    degree: int
    bank: int
    threads: tuple[int, ...]

    @property
    def where(self) -> str:
        """The witness of a conflict as text; empty if there is no conflict."""
        return f"bank {self.bank}: threads {ranges(self.threads)}" if self.degree > 1 else ""


@dataclass(frozen=True, slots=True)
class BankReport:
    """The bank conflicts of an access to shared memory, instruction by instruction."""

    layout: AnyLayout
    access: str
    bits: int
    vector: int
    requests: tuple[BankRequest, ...]

    @property
    def degree(self) -> int:
        """The worst of all instructions: 1 is free of conflicts."""
        return max(request.degree for request in self.requests)

    @property
    def wavefronts(self) -> int:
        """How many times all instructions and warps go through shared memory."""
        return sum(request.wavefronts for request in self.requests)

    @property
    def ideal(self) -> int:
        """The wavefronts that there would be without conflicts."""
        return sum(request.ideal for request in self.requests)

    @property
    def conflicts(self) -> int:
        return self.wavefronts - self.ideal

    def __str__(self) -> str:
        rows = [["value", "warps", "wavefronts", "ideal", "degree", "where it is worst"]]
        groups: dict[tuple[int, int, int, int], list[BankRequest]] = defaultdict(list)
        for request in self.requests:
            groups[request.value, request.wavefronts, request.ideal, request.degree].append(request)
        for (value, wavefronts, ideal, degree), same in groups.items():
            rows.append([str(value), ranges(r.warp for r in same), str(wavefronts), str(ideal), str(degree),
                         same[0].where])
        values = f"{self.vector} value{'s' * (self.vector > 1)} at a time"
        total = f"{self.wavefronts} wavefronts for {self.ideal}: " + (
            f"{self.conflicts} bank conflict{'s' * (self.conflicts > 1)}" if self.conflicts else "no bank conflicts")
        head = f"{self.layout}: {self.access} of {self.bits} bits, {values}"
        return "\n".join([head, *aligned(rows, text_last=True), total])


def bank_conflicts(layout: AnyLayout, element_bits: int, access: str = "ld", *,
                   vector: int | None = None) -> BankReport:
    """What each instruction of a thread/value layout costs in shared memory.

    ``layout`` is thread -> offset (rank 1) or (thread, value) -> offset (rank 2), in elements of ``element_bits``. Per
    instruction, a thread accesses ``vector`` neighbouring elements (1 unless given).  If there is one value, they start
    at its offset.  ``access`` is "ld", "st" (also for cp.async), or "ldmatrix" / "stmatrix" with ".x1", ".x2" or ".x4"
    (the default).  For the matrix accesses each thread gives the address of a row of 16 bytes, and the first 8, 16 or
    32 threads of a warp count.

    A warp goes at once for up to 32 bits, by halves for 64 bits, by quarters for 128 bits; matrices go one by one. Each
    such phase costs as many wavefronts as the worst bank has different words in it.  Threads that access one 32-bit
    word, also different bytes of it, do not conflict.  Missing threads of the last warp cost nothing. This is the
    documented rule.  An H100 takes just as many cycles, with one exception that is not counted here: it merges two
    phases of a 64- or 128-bit load if every thread i shares its address with thread i ^ 1 or i ^ 2. Source: CUDA C++
    Programming Guide, shared memory; PTX ISA, ldmatrix and stmatrix.
    """
    bits, vector = access_width(access, element_bits, vector)
    found = [bank_request(request, bits) for request in requests(layout, element_bits, vector, active(access))]
    return BankReport(layout, access, bits, vector, tuple(found))


def access_width(access: str, element_bits: int, vector: int | None) -> tuple[int, int]:
    """The (bits, elements) of one access; LayoutError for an access that does not exist."""
    if access not in ACCESSES:
        raise LayoutError(f"there is no access {access!r} to shared memory: it is one of {', '.join(ACCESSES)}")
    if access in _MATRIX:
        row = ROW_BITS // element_bits if element_bits > 0 else 0
        if vector is not None and vector != row:
            raise LayoutError(f"{access} takes rows of 16 bytes, which are {row} elements of {element_bits} bits, "
                              f"not {vector}")
        vector = row
    vector = 1 if vector is None else vector
    return access_bits(element_bits, vector), vector


def active(access: str) -> int:
    """The threads of a warp whose addresses count."""
    return _MATRIX.get(access, WARP)


def phases(addresses: tuple[int, ...], bits: int) -> Iterable[tuple[int, tuple[int, ...]]]:
    """The parts of a warp's access that go one after another, as (first thread, addresses)."""
    # A wavefront moves at most one word of each bank, so 128 bytes.
    together = WARP * BANK_BITS // max(bits, BANK_BITS)
    return ((first, addresses[first:first + together]) for first in range(0, len(addresses), together))


def bank_request(request: Request, bits: int) -> BankRequest:
    """One warp's instruction, phase by phase."""
    wavefronts = ideal = 0
    worst, at, who = 0, 0, tuple[int, ...]()
    for first, addresses in phases(request.addresses, bits):
        # Words, not threads, are counted: threads that meet in one word are served together.
        words: dict[int, set[int]] = defaultdict(set)
        for address in addresses:
            for word in range(address // BANK_BITS, (address + bits - 1) // BANK_BITS + 1):
                words[word % BANKS].add(word)
        bank = max(words, key=lambda b: len(words[b]))
        degree = len(words[bank])
        wavefronts, ideal = wavefronts + degree, ideal + 1
        if degree > worst:
            start = request.first_thread + first
            worst, at = degree, bank
            who = tuple([start + i for i, address in enumerate(addresses) if _touches(address, bits, words[bank])])
    return BankRequest(request.warp, request.value, wavefronts, ideal, worst, at, who)


def _touches(address: int, bits: int, words: set[int]) -> bool:
    return any(word in words for word in range(address // BANK_BITS, (address + bits - 1) // BANK_BITS + 1))


def bank_map(layout: AnyLayout, element_bits: int) -> dict[IntTuple, tuple[int, int]]:
    """Map each natural coordinate to (32-bit word, bank) of the element's first bit, in the order of the indices."""
    if element_bits <= 0:
        raise LayoutError(f"bank_map of {layout}: an element of {element_bits} bits does not exist")
    words = [offset * element_bits // BANK_BITS for offset in offsets(layout, "bank_map")]
    shape = plain(layout).shape
    return {idx2crd(shape, i): (word, word % BANKS) for i, word in enumerate(words)}
