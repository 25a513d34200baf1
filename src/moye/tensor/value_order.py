"""Which element of a tile each value of a thread is, if the trace knows it.

In: partitions, and what is written to registers.  Out: ``Order.known``, the partition that the values follow, or None.

    tCrC.order.known                        # Partition(tiled=TiledMMA(...), part='C') once gemm has written it

Views of a partition and retiled registers have a fixed order.  Registers have the order of what was put in last.  They
have none if two different orders, or something unknown, were put in.  Whether two orders agree is asked in
copy_agreement.py.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Partition:
    """The partition S, D, A, B or C of a tiled copy or a tiled MMA."""

    tiled: Hashable
    part: str


class Order:
    """The order of a thread's values; all slices of a tensor share it."""

    __slots__ = ("fixed", "mixed", "partition")

    def __init__(self, partition: Partition | None = None) -> None:
        self.partition = partition
        self.fixed = partition is not None
        self.mixed = False

    @property
    def known(self) -> Partition | None:
        """The partition that all values follow."""
        return None if self.mixed else self.partition

    def put(self, partition: Partition | None) -> None:
        """Values of this order are written; None if it is not known."""
        if not self.fixed:
            self.mixed = self.mixed or partition is None or self.partition not in (None, partition)
            self.partition = partition

    def fill(self, *, conditional: bool) -> None:
        """All values become the same one, on every path or on some paths."""
        if conditional and self.partition is not None:
            self.put(None)
        elif not self.fixed:
            self.partition = None
