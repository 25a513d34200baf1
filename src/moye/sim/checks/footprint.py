"""From the addresses of one access to the distinct shared-memory units it touches, and by whom.

In: byte addresses (V, T, B), the width of each access, a mask.  Out: ``Footprint``: one entry per touched
(unit, group of threads) for reads and atomics, or per unit for writes, with the highest and the lowest thread of it.

Accesses repeat with a constant shift (the stage of a pipeline), so footprints are cached up to a shift.
What the units hold is in shared_records.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from moye.sim.checks.clocks import Bools, Ints

CACHED_ELEMENTS = 1 << 17
CACHED_VARIANTS = 4


@dataclass(frozen=True, slots=True)
class Footprint:
    """Distinct units; ``block`` is None where all blocks of the batch do the same."""

    unit: Ints
    group: Ints
    block: Ints | None
    first: Ints
    """The highest thread that touches the entry."""
    second: Ints
    """The lowest one; it is equal to the highest if there is only one."""
    low: int
    high: int
    """Smallest and largest unit."""

    def shifted(self, units: int) -> Footprint:
        return self if not units else replace(self, unit=self.unit + units, low=self.low + units,
                                              high=self.high + units)

    def pick(self, keep: Ints | Bools) -> Footprint:
        """Some of the entries."""
        return replace(self, unit=self.unit[keep], group=self.group[keep], first=self.first[keep],
                       second=self.second[keep], block=None if self.block is None else self.block[keep])

    def across(self, blocks: Ints) -> Footprint:
        """The same entries in each of these blocks."""
        count, times = len(self.unit), len(blocks)
        return replace(self, unit=np.repeat(self.unit, times), group=np.repeat(self.group, times),
                       block=np.tile(blocks, count), first=np.repeat(self.first, times),
                       second=np.repeat(self.second, times))


@dataclass(frozen=True, slots=True)
class Reach:
    """Entries of an access across the blocks of a cluster: ``at.block`` touches the unit of block ``owner``."""

    at: Footprint
    owner: Ints

    @property
    def actor(self) -> Ints:
        """The block that accesses."""
        assert self.at.block is not None, "the blocks of a cluster are told apart"
        return self.at.block

    def pick(self, keep: Ints | Bools) -> Reach:
        return Reach(self.at.pick(keep), self.owner[keep])


@dataclass(frozen=True, slots=True)
class _Variant:
    relative: Ints
    origin: int
    active: Bools | None
    footprint: Footprint


class FootprintCache:
    """The footprints of one buffer, by (op, reference, width, kind of access)."""

    def __init__(self) -> None:
        self._variants: dict[object, list[_Variant]] = {}

    def clear(self) -> None:
        """Forget everything: units or groups have changed."""
        self._variants.clear()

    def find(self, key: object, addresses: Ints, active: Bools | None, unit: int, units: int) -> Footprint | None:
        if key not in self._variants:
            return None
        origin = int(addresses.flat[0])
        relative = addresses - origin
        for variant in self._variants[key]:
            shift, rest = divmod(origin - variant.origin, unit)
            fits = -variant.footprint.low <= shift < units - variant.footprint.high
            if (not rest and fits and _same(variant.active, active) and variant.relative.shape == relative.shape
                    and np.array_equal(variant.relative, relative)):
                return variant.footprint.shifted(shift)
        return None

    def keep(self, key: object, addresses: Ints, active: Bools | None, footprint: Footprint) -> None:
        if addresses.size > CACHED_ELEMENTS or footprint.unit.size > CACHED_ELEMENTS:
            return
        origin = int(addresses.flat[0])
        variants = self._variants.setdefault(key, [])
        active = None if active is None else active.copy()
        variants.insert(0, _Variant(addresses - origin, origin, active, footprint))
        del variants[CACHED_VARIANTS:]


def _same(a: Bools | None, b: Bools | None) -> bool:
    if a is None or b is None:
        return a is b
    return np.array_equal(a, b)


def footprint(addresses: Ints, width: int, active: Bools | None, unit: int, units: int, group: Ints, groups: int,
              by_group: bool) -> Footprint | None:
    """The footprint of one access; None if no thread takes part.  Accesses outside the buffer are left out."""
    blocks: Ints | None = None
    if active is not None and active.shape[1] > 1 and addresses.shape[2] == 1:
        threads, columns = np.logical_or.reduce(active, axis=1), np.logical_or.reduce(active, axis=0)
        if np.array_equal(active, threads[:, None] & columns):
            blocks, active = np.flatnonzero(columns), threads[:, None]
    unit_of, thread, block = _flatten(addresses, width, active, unit, units)
    if not unit_of.size:
        return None
    key = unit_of if not by_group else unit_of * groups + group[thread]
    if block is not None:
        key = key * (int(block.max()) + 1) + block
    pick, first, second = _distinct(key, thread)
    unit_of = unit_of[pick]
    found = Footprint(unit_of, group[first], None if block is None else block[pick], first, second,
                      int(unit_of.min()), int(unit_of.max()))
    return found if blocks is None else found.across(blocks)


def _flatten(addresses: Ints, width: int, active: Bools | None, unit: int,
             units: int) -> tuple[Ints, Ints, Ints | None]:
    """(unit, thread, block or None) of every access and unit of its width, threads ascending."""
    values, _, columns = addresses.shape
    threads = addresses.shape[1]
    per_access = width // unit
    if active is not None and active.shape[1] > columns:
        columns = active.shape[1]
        addresses = np.broadcast_to(addresses, (values, threads, columns))
    touched = addresses.transpose(1, 0, 2)[:, :, None, :] // unit + np.arange(per_access)[:, None]
    shape = touched.shape                               # (T, V, units per access, B)
    thread = np.broadcast_to(np.arange(threads)[:, None, None, None], shape)
    block = np.broadcast_to(np.arange(columns), shape) if columns > 1 else None
    inside = (touched >= 0) & (touched < units)
    if active is not None:
        inside &= active[:, None, None, :]
    if inside.all():
        return touched.reshape(-1), thread.reshape(-1), None if block is None else block.reshape(-1)
    return touched[inside], thread[inside], None if block is None else block[inside]


def _distinct(key: Ints, thread: Ints) -> tuple[Ints, Ints, Ints]:
    """One position per distinct key, with the highest and the lowest thread that has it; linear time, no sort."""
    positions = np.arange(len(key))
    table = np.empty(int(key.max()) + 1, np.int64)
    table[key] = positions                              # of several, the last assignment stays
    pick = np.flatnonzero(table.take(key) == positions)
    table[key[::-1]] = positions[::-1]
    return pick, thread.take(pick), thread.take(table.take(key.take(pick)))
