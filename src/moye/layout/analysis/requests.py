"""What a warp asks of memory: the address of each thread, for each instruction of a thread/value layout.

In: a layout thread -> offset or (thread, value) -> offset, elements of so many bits, ``vector`` elements an access.
Out: one ``Request`` per warp and instruction.

>>> next(iter(requests(Layout.parse("32:2"), 16, 2))).addresses[:3]        # in bits
(0, 32, 64)

A layout of rank 2 is (thread, value), as everywhere in CuTe.  If only threads have several modes, they are one mode,
``((8,4)):((64,8))``.  What the addresses cost is counted in banks.py and sectors.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from moye.errors import AlignmentError, LayoutError
from moye.hardware import WARP
from moye.layout.layout import rank, size
from moye.layout.tables import AnyLayout, offsets

WIDTHS = (8, 16, 32, 64, 128)


@dataclass(frozen=True, slots=True)
class Request:
    """One instruction of one warp: the address in bits of each active thread, the first of them ``first_thread``."""

    warp: int
    value: int
    addresses: tuple[int, ...]

    @property
    def first_thread(self) -> int:
        return self.warp * WARP


def access_bits(element_bits: int, vector: int) -> int:
    """The width of an access of ``vector`` elements; LayoutError if no instruction has this width."""
    bits = element_bits * vector
    if element_bits <= 0 or bits not in WIDTHS:
        raise LayoutError(f"an access of {vector} elements of {element_bits} bits is {bits} bits wide, "
                          "not 8, 16, 32, 64 or 128")
    return bits


def requests(layout: AnyLayout, element_bits: int, vector: int = 1, active: int = WARP) -> Iterator[Request]:
    """The requests in program order: values ``0 .. vector - 1`` of all warps, then the next values.

    The first ``active`` threads of each warp take part.  AlignmentError if an access is not a multiple of its width,
    LayoutError if the values of one access do not lie side by side.
    """
    table = value_table(layout)
    yield from requests_of_table(table, layout, access_bits(element_bits, vector), vector, active)


def value_table(layout: AnyLayout) -> list[list[int]]:
    """Offsets as ``table[value][thread]``; a layout of rank 1 has only threads."""
    modes = rank(layout)
    if modes > 2:
        raise LayoutError(f"{layout} has {modes} modes; a thread/value layout has two, (thread, value)",
                          hint="group the thread modes: make_layout(layout) has them as its only mode")
    flat = offsets(layout, "an access")
    threads = size(layout, 0)
    assert isinstance(threads, int), "offsets() rejects dynamic layouts"
    if not flat:
        raise LayoutError(f"the thread/value layout {layout} is empty")
    return [flat[i:i + threads] for i in range(0, len(flat), threads)]


def requests_of_table(table: list[list[int]], layout: object, bits: int, vector: int,
                      active: int = WARP) -> Iterator[Request]:
    """The requests of offsets ``table[value][thread]``; ``layout`` is for messages."""
    element_bits = bits // vector
    check_split(table, layout, vector)
    step = vector if len(table) > 1 else 1
    for value in range(0, len(table), step):
        group = table[value:value + step]
        if vector > 1:
            _check(layout, group, value, element_bits, vector)
        for first in range(0, len(group[0]), WARP):
            warp = group[0][first:first + min(WARP, active)]
            yield Request(first // WARP, value, tuple([offset * element_bits for offset in warp]))


def check_split(table: list[list[int]], layout: object, vector: int) -> None:
    """LayoutError if the values are not a whole number of accesses."""
    if len(table) > 1 and len(table) % vector:
        raise LayoutError(f"the {len(table)} values of {layout} do not split into accesses of {vector}")


def _check(layout: object, group: list[list[int]], value: int, element_bits: int, vector: int) -> None:
    """Check that each thread's access starts at a multiple of its width, and that its values follow each other."""
    bits = vector * element_bits
    for thread, (start, *others) in enumerate(zip(*group, strict=True)):
        if start % vector:
            raise AlignmentError(f"thread {thread} of {layout} accesses {bits} bits at value {value}, offset {start}: "
                                 f"bit {start * element_bits} is no multiple of {bits}")
        if others and others != list(range(start + 1, start + vector)):
            listed = ", ".join(map(str, (start, *others)))
            raise LayoutError(f"thread {thread} of {layout} cannot access values {value} to {value + vector - 1} "
                              f"together: their offsets {listed} do not follow each other")


def ranges(numbers: Iterable[int]) -> str:
    """Ascending numbers as text, such as ``0-3,8``."""
    parts: list[list[int]] = []
    for n in numbers:
        if parts and n == parts[-1][1] + 1:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def aligned(rows: list[list[str]], text_last: bool = False) -> list[str]:
    """Rows of cells as lines; cells are right-aligned in columns, and with ``text_last`` the last one is free text."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    if text_last:
        widths[-1] = 0
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
