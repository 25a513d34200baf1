"""P1: bank conflicts of shared memory, who meets where, and a layout that avoids them.

In: the rows of a launch.  Out: lints; the hint names a padding or a swizzle of the buffer's layout under which all
accesses that the run made to the buffer were counted again.  A cp.async.ca out of many lines costs wavefronts that no
layout of shared memory removes: that is said instead.

Layouts to try come from moye.layout.analysis.proposals; one that breaks up an access is out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from moye.errors import FactError, LayoutError
from moye.hardware import LINE, WARP
from moye.ir.nodes import Buffer, Func
from moye.ir.ops import BulkCopy, TmaCopy, Wgmma
from moye.layout import ComposedLayout, Layout, Swizzle, rank, size, tile_to_shape
from moye.layout.analysis.banks import BankRequest, bank_request
from moye.layout.analysis.proposals import Candidate, candidates
from moye.layout.analysis.requests import Request, ranges
from moye.layout.tables import AnyLayout, plain, static_modes, static_offset
from moye.layout.tuples import flatten_tuple
from moye.sim.costs.lint import Lint
from moye.sim.costs.meter import NOT_READ, Traffic, Variant
from moye.sim.costs.rows import Row
from moye.sim.costs.wavefronts import Bools, Cost, Ints, active_lanes, by_warp, wavefronts
from moye.sim.values.addressing import apply_swizzle, static_table

EXCESS = 0.01
"""The share of all wavefronts that conflicts must cost to be told."""
_LAYOUT_LIMIT = 1 << 16
_BLOCKS = 8
_SEARCHED = 16
"""Accesses of a thread that candidates are tried with; the best is counted with all of them."""


def lints(func: Func, rows: list[Row]) -> list[Lint]:
    """One lint per statement and tensor with conflicts that cost something.

    If TMA or wgmma uses a buffer, only canonical layouts are proposed; if bulk copies use it, none is.
    """
    shared = [row for row in rows if row.shared and row.direction != "atomic"]
    # Conflicts are weighed against all wavefronts of the launch: a bad access that is rare costs nothing.
    total = sum(row.passes for row in shared)
    found = [row for row in shared if (row.degree > 1 or row.spread) and row.excess > EXCESS * total]
    asked = {row.parts[0].ref.buffer.id for row in found if not _scattered(row)}
    runs, fixed = ({ref.buffer.root.id for op in func.body.walk() if isinstance(op, kinds) for ref, _ in op.refs()}
                   for kinds in (BulkCopy, (TmaCopy, Wgmma)))
    answers = {at: None if at in runs else (among_canonical if at in fixed else advice)(
        [part for row in shared for part in row.parts if part.ref.buffer.id == at]) for at in asked}
    return [_from_lines(row, total) if _scattered(row) else _lint(row, answers[row.parts[0].ref.buffer.id], total)
            for row in found]


def _scattered(row: Row) -> bool:
    """Whether most of what is too much comes from the lines that are read, not from banks."""
    return 2 * row.spread >= max(row.excess, 1)


def _from_lines(row: Row, total: int) -> Lint:
    """Copies whose requests read from many lines."""
    each, ideal = row.passes / row.requests, row.ideal / row.requests
    message = (f"{row.tensor} is written with one wavefront per line: {row.instruction} takes {each:.4g} wavefronts a "
               f"request instead of {ideal:.4g}, as cp.async.ca goes line by line")
    hint = f"let a request read longer contiguous runs: {LINE} bytes of a line fill a wavefront"
    numbers, read = _numbers(row, total), _lines_read(row)
    if len(read):                                       # patterns of many elements are not kept
        run = f"{read.min()}" if read.min() == read.max() else f"{read.min()} to {read.max()}"
        message += f" and a request reads {run} bytes from each of {len(read)} lines of {LINE} bytes"
        numbers["lines"] = len(read)
    return Lint("P1", message, (row.loc,), row.tensor, hint, numbers)


def _lines_read(row: Row) -> Ints:
    """How many bytes the request that reads the most lines asks of each, of the patterns that are known."""
    most = np.zeros(0, np.int64)
    for variant in (variant for part in row.parts for variant in part.variants if variant.cost.spread):
        for block in range(_columns(variant)):
            if block >= _BLOCKS and len(most):          # the first blocks may mask all of it off
                break
            address, mask, lines = _column(variant, block)
            assert lines is not None, "only copies by lines are scattered"
            rows, active = by_warp(lines), active_lanes(mask, address.shape)
            for at, read in enumerate(rows):
                here = read != NOT_READ if active is None else active[at] & (read != NOT_READ)
                counts = np.unique(read[here], return_counts=True)[1]
                most = counts * row.bytes if len(counts) > len(most) else most
    return most


def _lint(row: Row, hint: str | None, total: int) -> Lint:
    buffer, worst = row.parts[0].ref.buffer, witness(row.worst)
    verb = "read" if row.direction == "load" else "written"
    each, ideal = row.passes / row.requests, row.ideal / row.requests
    meet = f"; threads {ranges(worst.threads)} meet in bank {worst.bank}" if worst is not None and worst.threads else ""
    message = (f"{row.tensor} of layout {buffer.layout} is {verb} with {row.degree}-way bank conflicts: "
               f"{row.instruction} takes {each:.4g} wavefronts a request instead of {ideal:.4g}{meet}")
    return Lint("P1", message, (row.loc,), row.tensor, hint, _numbers(row, total))


def _numbers(row: Row, total: int) -> dict[str, int | float | str]:
    return {"requests": row.requests, "wavefronts": row.passes, "ideal": row.ideal, "degree": row.degree,
            "share": round(row.excess / total, 4)}


def witness(record: Traffic) -> BankRequest | None:
    """The worst request of an instruction, as the layout analysis tells it."""
    variant = record.worst
    if variant is None:
        return None
    best: BankRequest | None = None
    for block in range(_blocks(variant)):
        address, mask, lines = _column(variant, block)
        cost = wavefronts(address, record.size, mask, record.cache, lines)
        if cost.degree > (0 if best is None else best.degree):         # a block that masks all of it off shows none
            best = _request(address, mask, lines, record, cost.skew)
    return best


def _blocks(variant: Variant) -> int:
    """The first blocks of those that differ."""
    return min(_columns(variant), _BLOCKS)


def _columns(variant: Variant) -> int:
    """How many blocks differ."""
    return max(int(one.shape[2]) for one in (variant.relative, variant.mask, variant.lines) if one is not None)


def _column(variant: Variant, block: int) -> tuple[Ints, Bools | None, Ints | None]:
    """What one block does: addresses, mask and lines of the source, (V, T, 1)."""
    address, mask, lines = (None if one is None else one[:, :, min(block, one.shape[2] - 1)][:, :, None]
                            for one in (variant.relative + variant.origin, variant.mask, variant.lines))
    assert address is not None, "a variant has addresses"
    shape = np.broadcast_shapes(*(one.shape for one in (address, mask, lines) if one is not None))
    return (np.broadcast_to(address, shape), None if mask is None else np.broadcast_to(mask, shape),
            None if lines is None else np.broadcast_to(lines, shape))


def _request(address: Ints, mask: Bools | None, lines: Ints | None, record: Traffic, skew: int) -> BankRequest:
    """One request; of a copy by lines its worst line."""
    warps = -(-address.shape[1] // WARP)
    parts = max(record.size // record.bytes, 1)
    value, warp = divmod(skew, warps)
    lanes = slice(warp * WARP, (warp + 1) * WARP)
    row = address[value // parts, lanes, 0] + value % parts * record.bytes
    active = np.ones(len(row), np.bool_) if mask is None else mask[value // parts, lanes, 0]
    which = np.zeros(len(row), np.int64) if lines is None else lines[value // parts, lanes, 0]
    found = []
    for line in np.unique(which[active]):
        here = active & (which == line)
        # Two lanes at one word share it, so an idle lane adds nothing there.
        settled = np.where(here, row, row[int(here.argmax())])          # an idle lane does what an active one does
        one = bank_request(Request(warp, value, tuple((settled * 8).tolist())), record.bytes * 8)
        found.append(replace(one, threads=tuple(thread for thread in one.threads if here[thread - warp * WARP])))
    return max(found, key=lambda one: one.degree)


# --- proposals -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pattern:
    """Accesses to a buffer as indices into its layout (V, vector, T, 1), the bytes of one, how often it was made."""

    index: Ints
    size: int
    mask: Bools | None
    weight: int
    cache: str | None = None
    lines: Ints | None = None

    def passes(self, place: Ints, itemsize: int, limit: int | None) -> int | None:
        """The wavefronts if index ``i`` lies at element ``place[i]``; None if an access falls apart."""
        moved = place[self.index[:limit]]
        first = moved[:, 0]
        if (moved != first[:, None] + np.arange(moved.shape[1])[:, None, None]).any():
            return None
        address = first * itemsize
        if (address % self.size).any():
            return None
        return self.weight * self._cost(address, limit).passes

    def least(self, limit: int | None) -> int:
        """The fewest wavefronts that any layout takes."""
        if self.cache is None:
            return self.weight * self._cost(np.zeros_like(self.index[:limit, 0]), limit).ideal
        cost = self._cost(self.index[:limit, 0] * (self.size // self.index.shape[1]), limit)
        return self.weight * (cost.ideal + cost.spread)

    def _cost(self, address: Ints, limit: int | None) -> Cost:
        return wavefronts(address, self.size, None if self.mask is None else self.mask[:limit], self.cache,
                          None if self.lines is None else self.lines[:limit])


def advice(records: Iterable[Traffic]) -> str | None:
    """A padding and a swizzle that remove most conflicts of all these accesses to one buffer, in a sentence."""
    records = list(records)
    buffer = records[0].ref.buffer
    patterns = _patterns(buffer, records)
    if not patterns:
        return None
    itemsize = buffer.dtype.bytes
    now = places(buffer.layout)
    before, ideal = _total(patterns, now, itemsize, None), sum(pattern.least(None) for pattern in patterns)
    unit = max(pattern.index.shape[1] for pattern in patterns)
    chosen = []
    for family in (False, True):
        tried = (one for one in candidates(buffer.layout, buffer.dtype.bits, unit)
                 if isinstance(one.layout, ComposedLayout) is family or isinstance(buffer.layout, ComposedLayout))
        best = _best(tried, patterns, itemsize)
        after = None if best is None else _total(patterns, places(best.layout), itemsize, None)
        # Advice that leaves more than half of the conflicts is not worth a change.
        if best is not None and before is not None and after is not None and 2 * (after - ideal) <= before - ideal:
            chosen.append((after, best))
    least = min((after for after, _ in chosen), default=0)
    said = list(dict.fromkeys(str(best.layout) for after, best in chosen if after == least))
    if not said:
        return None
    left = "no bank conflicts are left" if least == ideal else f"{least} wavefronts instead of {before}"
    return f"with {buffer.name} as {' or '.join(said)} {left}"


def among_canonical(records: list[Traffic]) -> str | None:
    """The canonical layout that removes most conflicts of all these accesses, with the atom that it is made of."""
    buffer = records[0].ref.buffer
    patterns, itemsize = _patterns(buffer, records), buffer.dtype.bytes
    before = _total(patterns, places(buffer.layout), itemsize, None) if patterns else None
    if before is None:
        return None
    ideal = sum(pattern.least(None) for pattern in patterns)
    counted = [(after, -row, layout) for row, layout in canonical(buffer.layout, buffer.dtype.bits)
               if (after := _total(patterns, places(layout), itemsize, None)) is not None]
    after, row, layout = min(counted, key=lambda one: one[:2], default=(before, 0, buffer.layout))
    if 2 * (after - ideal) > before - ideal:
        return None
    left = "no bank conflicts are left" if after == ideal else f"{after} wavefronts instead of {before}"
    atom = f'mo.smem_layout_atom(mo.{buffer.dtype}, "{major(buffer.layout)}", {-row})'
    return f"with {buffer.name} as {layout}, of {atom}, for the tensor copy too, {left}"


def _best(tried: Iterable[Candidate], patterns: list[Pattern], itemsize: int) -> Candidate | None:
    """The first with the fewest wavefronts."""
    best, least = None, None
    ideal = sum(pattern.least(_SEARCHED) for pattern in patterns)
    for one in tried:
        # Many candidates, so with few accesses of each thread; the winner is counted again with all of them.
        passes = _total(patterns, places(one.layout), itemsize, _SEARCHED)
        if passes is not None and (least is None or passes < least):
            best, least = one, passes
            if passes <= ideal:
                break
    return best


def _total(patterns: list[Pattern], place: Ints, itemsize: int, limit: int | None) -> int | None:
    total = 0
    for pattern in patterns:
        passes = pattern.passes(place, itemsize, limit)
        if passes is None:
            return None
        total += passes
    return total


def places(layout: AnyLayout) -> Ints:
    """Index -> offset."""
    modes = static_modes(layout, "bank conflicts")
    table = static_table(tuple(extent for extent, _ in modes), tuple(step for _, step in modes))
    assert table is not None, "the layout is static"
    swizzle = layout.swizzle if isinstance(layout, ComposedLayout) else None
    return np.asarray(apply_swizzle(swizzle, table + static_offset(layout)))


def _patterns(buffer: Buffer, records: list[Traffic]) -> list[Pattern]:
    """Every access to the buffer in indices of its layout; empty if that cannot be said of all of them."""
    try:
        place = places(buffer.layout)
    except (FactError, LayoutError):
        return []
    count = max(buffer.elements or 0, int(place.max(initial=0)) + 1)
    if len(place) > _LAYOUT_LIMIT or plain(buffer.layout).shape == () or not all(one.complete for one in records):
        return []
    # The inverse of the layout; what lies in a gap of it (-1) has no index, and cannot be placed elsewhere.
    index = np.full(count, -1, np.int64)
    index[place] = np.arange(len(place))
    found = []
    for record in records:
        for variant in record.variants:
            pattern = _pattern(record, variant, index, buffer.dtype.bytes)
            if pattern is None:
                return []
            found.append(pattern)
    return found


def _pattern(record: Traffic, variant: Variant, index: Ints, itemsize: int) -> Pattern | None:
    address, mask, lines = _column(variant, 0)
    vector = record.size // itemsize
    if not vector or record.size % itemsize or record.size != record.bytes or (address % itemsize).any():
        return None
    elements = address[:, None] // itemsize + np.arange(vector)[:, None, None]
    if mask is not None:                                # idle lanes may point anywhere
        elements = _settled(elements, mask)
    if elements.min() < 0 or elements.max() >= len(index):
        return None
    logical = index[elements]
    if (logical < 0).any():
        return None
    return Pattern(logical, record.size, mask, variant.hits, record.cache, lines)


def _settled(elements: Ints, mask: Bools) -> Ints:
    """Idle lanes take the whole access of the first active lane."""
    at = np.unravel_index(int(mask.argmax()), mask.shape)
    first = elements[at[0], :, at[1], at[2]]
    return np.where(mask[:, None], elements, first[None, :, None, None])


# --- the swizzled layouts that TMA and wgmma take --------------------------------------------------------------------

_ROWS, _ACCESS, _BITS = 8, 128, {128: 3, 64: 2, 32: 1}


def major(layout: AnyLayout) -> str | None:
    """The mode along which a tile is contiguous: "mn" for its first, "k" for its second, None for neither."""
    if isinstance(layout, ComposedLayout) or rank(layout) < 2:
        return None
    for number, name in ((1, "k"), (0, "mn")):
        if flatten_tuple(layout.mode(number).stride)[0] == 1 and size(layout, number) != 1:
            return name
    return None


def canonical(layout: AnyLayout, bits: int) -> Iterator[tuple[int, AnyLayout]]:
    """The layouts that TMA and wgmma take in place of a tile's own: 8 rows of 32, 64 or 128 bytes, repeated.

    They have the tile's shape, are contiguous along the same mode, and their rows divide the tile, of elements of so
    many bits; widest rows first, each with the bytes of its rows.  They are those of ``mo.smem_layout_atom``
    (CuTe cute/atom/mma_traits_sm90_gmma.hpp).

    >>> [row for row, _ in canonical(Layout.parse("(32,32):(32,1)"), 32)]
    [128, 64, 32]
    """
    along = major(layout)
    if along is None:
        return
    shape = tuple(size(layout, mode) for mode in range(rank(layout)))
    for row, swizzled in _BITS.items():
        wide = row * 8 // bits
        block = (_ROWS, wide) if along == "k" else (wide, _ROWS)
        if not all(isinstance(extent, int) for extent in shape) or shape[0] % block[0] or shape[1] % block[1]:
            continue
        plain = Layout(block, (wide, 1) if along == "k" else (1, wide))
        together = _ACCESS // bits
        yield row, tile_to_shape(ComposedLayout(Swizzle(swizzled, together.bit_length() - 1, 3), 0, plain), shape)
