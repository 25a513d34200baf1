"""Shared arrays of which a variable may mean either: they become stages of one, and the kernel is traced anew.

In: two structures of a variable (``carry.py``) that differ in their arrays alone.  Out: ``Joins``, which knows the
arrays by the order in which they are made: ``src, dst = dst, src`` moves pointers into one array then.

    src, dst = mo.shared_array(t, 32), mo.shared_array(t, 32)       # src_dst, of layout (32,2)

Arguments cannot be joined: how far apart they are is not known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from moye.dtypes import DType, Space
from moye.ir.nodes import Buffer
from moye.layout import Layout, append, make_layout

MOST = 16
"""Arrays of a kernel that are joined, one trace after the other."""


@dataclass(slots=True)
class Joins:
    """What is known from the traces before; ``made`` and ``arrays`` are of this one."""

    groups: list[list[int]] = field(default_factory=list)
    """Arrays that are one, by their numbers."""
    names: dict[int, str] = field(default_factory=dict)
    wanted: list[tuple[Buffer, Buffer]] = field(default_factory=list)
    """Arrays that this trace found to be taken for each other."""
    kinds: dict[int, tuple[int, DType, int]] = field(default_factory=dict)
    """How many elements each array has, and of what dtype and alignment."""
    made: int = 0
    arrays: dict[int, list[int]] = field(default_factory=dict)
    """The numbers of what is in an array, by the id of its buffer."""
    buffers: dict[int, Buffer] = field(default_factory=dict)
    """The array of each group that has been made, by its first number."""

    def again(self) -> bool:
        """Join what this trace has found; False if there is nothing."""
        found = False
        for a, b in self.wanted:
            one, other = self.arrays.get(a.id), self.arrays.get(b.id)
            if one is None or other is None or one is other or len(one) + len(other) > MOST or \
                    len({self.kinds[number] for number in (*one, *other)}) > 1:
                continue
            for number, buffer in ((one[0], a), (other[0], b)):
                self.names.setdefault(number, buffer.name)
            self.groups = [group for group in self.groups if group not in (one, other)] + [sorted({*one, *other})]
            found = True
            break                                       # the others may be the same ones now
        self.wanted, self.made, self.arrays, self.buffers = [], 0, {}, {}
        return found

    def place(self, elements: int, dtype: DType, align: int) -> Place | None:
        """Where the next shared array goes; None if it is one of its own."""
        number, self.made = self.made, self.made + 1
        self.kinds[number] = elements, dtype, align
        for group in self.groups:
            if number in group:
                pitch = -(-elements * dtype.bits // 8 // align) * align * 8 // dtype.bits
                return Place(self, group, group.index(number), pitch)
        return None

    def own(self, buffer: Buffer) -> None:
        """The array that was asked for last is one of its own."""
        self.arrays[buffer.id] = [self.made - 1]


@dataclass(frozen=True, slots=True)
class Place:
    """One of several arrays that are one: stage ``number``, ``pitch`` elements behind the one before."""

    joins: Joins
    group: list[int]
    number: int
    pitch: int

    @property
    def buffer(self) -> Buffer | None:
        """The array, if it has been made."""
        return self.joins.buffers.get(self.group[0])

    @property
    def name(self) -> str:
        return "_".join(self.joins.names[number] for number in self.group if number in self.joins.names)

    def whole(self, layout: Layout) -> Layout:
        """The layout of all stages."""
        return append(layout, make_layout(len(self.group), self.pitch))

    def made(self, buffer: Buffer) -> None:
        self.joins.buffers[self.group[0]] = buffer
        self.joins.arrays[buffer.id] = self.group

    @property
    def offset(self) -> int:
        return self.number * self.pitch


def apart(before: object, after: object) -> Iterator[tuple[Buffer, Buffer] | None]:
    """The arrays that two structures have in each other's place; None for what else is different."""
    if not isinstance(before, tuple) or not isinstance(after, tuple) or len(before) != len(after):
        if before != after:
            yield None
    elif before and before[0] == "fragment":            # registers have no addresses
        yield None
    elif before and before[0] == "tensor" == after[0]:
        a, b = before[5].value.buffer, after[5].value.buffer
        same = before[2:5] == after[2:5] and a.space is b.space
        if not same or (a is not b and a.space is not Space.SHARED):
            yield None
        elif a is not b:
            yield a, b
    else:
        for one, other in zip(before, after, strict=True):
            yield from apart(one, other)
