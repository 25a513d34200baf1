"""Which padding or swizzle of a shared tile removes bank conflicts.

In: the tile's layout, and every access that threads make to it.  Out: ``Proposal`` records, best first.

>>> rows, columns = Layout.parse("(32,32):(32,1)"), Layout.parse("(32,32):(1,32)")     # (thread, value) -> tile index
>>> print(propose_padding(mo.make_layout((32, 32), mo.LayoutRight), 32, [Access(rows, "st"), Access(columns, "ld")]))
(32,32):(33,1): no bank conflicts, 124 bytes more; stride 32 of mode 0 becomes 33
access  threads  values  degree  before
    st       32      32       1       1
    ld       32      32       1      32

A layout that breaks up an access' vectors is no candidate.  The sum of wavefronts of all accesses is minimised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from moye.errors import AlignmentError, LayoutError
from moye.hardware import BANK_BITS, BANKS
from moye.layout.analysis.banks import BankRequest, access_width, active, bank_request
from moye.layout.analysis.reports import TiledCopyLike, TiledMMALike, operand_values, thread_values
from moye.layout.analysis.requests import Request, aligned, check_split, requests_of_table, value_table
from moye.layout.layout import Layout, cosize, make_layout, rank, size
from moye.layout.swizzle import ComposedLayout, Swizzle
from moye.layout.tables import AnyLayout, element_count, offsets, plain, static_modes
from moye.layout.tuples import product_each, unflatten_tuple

ROW = BANKS * BANK_BITS
"""Bits of one word of every bank: the pattern of banks repeats after it."""


@dataclass(frozen=True, slots=True)
class Access:
    """One access to a shared tile: ``layout_tv`` maps (thread, value) to a column-major index into the tile.

    ``kind`` and ``vector`` are those of ``bank_conflicts``: "ld", "st", "ldmatrix.x4", ...
    """

    layout_tv: Layout
    kind: str = "ld"
    vector: int | None = None

    @staticmethod
    def of_copy(copy: TiledCopyLike, tile: AnyLayout, kind: str = "st") -> Access:
        """What a tiled copy does to this tile; the atom gives the vectors."""
        index = thread_values(copy.layout_tv, copy.tiler, _indices(tile))
        return Access(plain(index), kind, None if "matrix" in kind else copy.atom.values)

    @staticmethod
    def of_mma(mma: TiledMMALike, operand: Literal["A", "B", "C"], tile: AnyLayout, vector: int = 1,
               kind: str = "ld") -> Access:
        """What the threads of a tiled MMA read of one operand's tile."""
        return Access(plain(operand_values(mma, operand, _indices(tile))), kind, vector)


def _indices(tile: AnyLayout) -> Layout:
    """Coordinate of the tile -> column-major index, where each mode of the tile is an integer."""
    return make_layout(product_each(plain(tile).shape))


@dataclass(frozen=True, slots=True)
class Proposal:
    """A layout for the tile, and what it does: the degree per access, all wavefronts, and the memory that it adds."""

    layout: AnyLayout
    change: str
    accesses: tuple[Access, ...]
    before: tuple[int, ...]
    degrees: tuple[int, ...]
    wavefronts: int
    ideal: int
    extra_bytes: int

    @property
    def conflict_free(self) -> bool:
        return self.wavefronts == self.ideal

    def __str__(self) -> str:
        conflicts = self.wavefronts - self.ideal
        outcome = f"{conflicts or 'no'} bank conflict{'s' * (conflicts != 1)}"
        memory = f"{self.extra_bytes} bytes more" if self.extra_bytes else "no more memory"
        rows = [["access", "threads", "values", "degree", "before"]]
        for access, degree, before in zip(self.accesses, self.degrees, self.before, strict=True):
            tv = access.layout_tv
            rows.append([access.kind, str(size(tv, 0)), str(size(tv, 1) if rank(tv) > 1 else 1), str(degree),
                         str(before or "impossible")])
        return "\n".join([f"{self.layout}: {outcome}, {memory}; {self.change}", *aligned(rows)])


def propose(layout: AnyLayout, element_bits: int, accesses: Sequence[Access]) -> tuple[Proposal, ...]:
    """The layout as it is, its best padding and its best swizzle, best first.

    Fewest wavefronts come first, then least memory, then the simplest: as it is, padded, swizzled.  A layout that is
    free of conflicts stays as it is.  A layout that does not fit an access' vectors is left out; LayoutError if none is
    left.
    """
    search = _Search.of(layout, element_bits, accesses)
    found = [search.best([Candidate(layout, "as it is", 0)])]
    if found[0] is None or not found[0].conflict_free:
        found += [search.best(search.paddings(layout)), search.best(search.swizzles(layout))]
    ranked = sorted((proposal for proposal in found if proposal is not None), key=_cost)
    if not ranked:
        raise search.refusal(layout, "padding or swizzle")
    return tuple(ranked)


def propose_padding(layout: AnyLayout, element_bits: int, accesses: Sequence[Access]) -> Proposal:
    """The smallest padding with the fewest conflicts: one stride grows, and the larger strides grow with it.

    The added elements are tried from 0 to one word of every bank (128 bytes), at each mode but the fastest.  The answer
    is the first that is free of conflicts, else the one with the fewest wavefronts.  Source: the padded tiles of the
    CUDA C++ Best Practices Guide, shared memory in matrix multiplication.
    """
    search = _Search.of(layout, element_bits, accesses)
    found = search.best([Candidate(layout, "as it is", 0), *search.paddings(layout)])
    if found is None:
        raise search.refusal(layout, f"padding by up to {ROW // element_bits} elements")
    return found


def propose_swizzle(layout: AnyLayout, element_bits: int, accesses: Sequence[Access]) -> Proposal:
    """The simplest swizzle with the fewest conflicts: fewest bits, then lowest base, then smallest shift.

    Sw<B,M,S> counts in elements.  M leaves the widest vector whole, the changed bits choose a bank (M + B stays inside
    128 bytes), and the bits that they come from exist in the layout.  A swizzle that is already there is replaced.
    Source: CuTe, cute/swizzle.hpp.
    """
    search = _Search.of(layout, element_bits, accesses)
    found = search.best([Candidate(layout, "as it is", 0), *search.swizzles(layout)])
    if found is None:
        raise search.refusal(layout, "swizzle")
    return found


def _cost(proposal: Proposal) -> tuple[int, int]:
    return proposal.wavefronts, proposal.extra_bytes


@dataclass(frozen=True, slots=True)
class Candidate:
    """A layout to try: what was changed, and how many elements longer it is."""

    layout: AnyLayout
    change: str
    extra: int


def candidates(layout: AnyLayout, element_bits: int, vector: int) -> Iterator[Candidate]:
    """Candidates that keep runs of ``vector`` whole: paddings by the memory they add, then swizzles, simplest first."""
    search = _Search(element_bits, (), ((element_bits * vector, vector),), (), ())
    yield from search.paddings(layout)
    yield from search.swizzles(layout)


@dataclass(frozen=True, slots=True)
class _Search:
    """The accesses as tables of tile indices; a candidate is judged by looking up their offsets."""

    element_bits: int
    accesses: tuple[Access, ...]
    widths: tuple[tuple[int, int], ...]
    tables: tuple[list[list[int]], ...]
    before: tuple[int, ...]

    @staticmethod
    def of(layout: AnyLayout, element_bits: int, accesses: Sequence[Access]) -> _Search:
        if not accesses:
            raise LayoutError(f"a proposal for {layout} needs at least one access")
        count = element_count(static_modes(layout, "propose"))
        widths = tuple(access_width(access.kind, element_bits, access.vector) for access in accesses)
        tables = []
        for access, (_, vector) in zip(accesses, widths, strict=True):
            table = value_table(access.layout_tv)
            check_split(table, access.layout_tv, vector)
            out = max(map(max, table))
            if out >= count:
                raise LayoutError(f"the access {access.layout_tv} reaches index {out} of {layout}, which has {count}")
            tables.append(table)
        search = _Search(element_bits, tuple(accesses), widths, tuple(tables), ())
        before = search.judge(layout)
        degrees = (0,) * len(accesses) if isinstance(before, str) else tuple([degree for degree, _, _ in before])
        return replace(search, before=degrees)

    def judge(self, layout: AnyLayout) -> list[tuple[int, int, int]] | str:
        """The (degree, wavefronts, ideal) of each access; the reason if the layout breaks up a vector."""
        where = offsets(layout, "propose")
        result = []
        for access, (bits, vector), table in zip(self.accesses, self.widths, self.tables, strict=True):
            moved = [[where[index] for index in row] for row in table]
            try:
                result.append(_tally(requests_of_table(moved, layout, bits, vector, active(access.kind)), bits))
            except (AlignmentError, LayoutError) as error:
                return error.message
        return result

    def best(self, candidates: Iterable[Candidate]) -> Proposal | None:
        """The candidate with the fewest wavefronts; among equals the earlier one."""
        best: Proposal | None = None
        for candidate in candidates:
            judged = self.judge(candidate.layout)
            if isinstance(judged, str):
                continue
            degrees, wavefronts, ideals = zip(*judged, strict=True)
            proposal = Proposal(candidate.layout, candidate.change, self.accesses, self.before, degrees,
                                sum(wavefronts), sum(ideals), max(0, -(-candidate.extra * self.element_bits // 8)))
            if best is None or proposal.wavefronts < best.wavefronts:
                best = proposal
            # Candidates come by cost: no later one can be better.
            if best.conflict_free:
                break
        return best

    def refusal(self, layout: AnyLayout, family: str) -> LayoutError:
        """The error for a layout that no candidate of a family makes accessible."""
        return LayoutError(f"no {family} makes the accesses to {layout} possible; as it is, {self.judge(layout)}")

    def paddings(self, layout: AnyLayout) -> list[Candidate]:
        """Paddings by the memory they add: the stride at each step of the sorted modes grows by 1, 2, ... elements."""
        modes = static_modes(layout, "propose_padding")
        order = sorted((i for i, (extent, step) in enumerate(modes) if extent > 1 and step > 0),
                       key=lambda i: modes[i][1])
        # Strides grow in proportion, so larger ones must be multiples; padding inside a vector would break it up; and
        # past one row of banks the pattern repeats.
        unit = max(vector for _, vector in self.widths)
        found = [_padded(layout, modes, order[at:], amount)
                 for at in range(1, len(order)) for amount in range(1, ROW // self.element_bits + 1)
                 if modes[order[at]][1] >= unit and all(modes[i][1] % modes[order[at]][1] == 0 for i in order[at:])]
        return sorted(found, key=lambda candidate: candidate.extra)

    def swizzles(self, layout: AnyLayout) -> Iterator[Candidate]:
        """Swizzles by simplicity: bits, base, shift."""
        unit = max(vector for _, vector in self.widths).bit_length() - 1
        row = max(ROW // self.element_bits, 1).bit_length() - 1
        inner = plain(layout)
        top = (_end(inner) - 1).bit_length()
        # Bits below ``unit`` are inside a vector, bits from ``row`` on do not choose a bank, and those past ``top`` are
        # 0.
        for bits in range(1, row - unit + 1):
            for base in range(unit, row - bits + 1):
                for shift in range(bits, top - base - bits + 1):
                    swizzled = ComposedLayout(Swizzle(bits, base, shift), 0, inner)
                    what = f"groups of {1 << base}" if base else "single elements"
                    yield Candidate(swizzled, f"{swizzled.swizzle} permutes {what}", _end(swizzled) - _end(layout))


def _end(layout: AnyLayout) -> int:
    end = cosize(layout)
    assert isinstance(end, int), "the tile is static"
    return end


def _tally(requests: Iterable[Request], bits: int) -> tuple[int, int, int]:
    """The (worst degree, wavefronts, ideal).  Moving all addresses by whole words only rotates the banks."""
    known: dict[tuple[int, ...], BankRequest] = {}
    degree = wavefronts = ideal = 0
    for request in requests:
        # Only distances from the first word count, so that most warps of a regular access are looked up.
        start = request.addresses[0] // BANK_BITS * BANK_BITS
        key = tuple([address - start for address in request.addresses])
        if key not in known:
            known[key] = bank_request(request, bits)
        one = known[key]
        degree, wavefronts, ideal = max(degree, one.degree), wavefronts + one.wavefronts, ideal + one.ideal
    return degree, wavefronts, ideal


def _padded(layout: AnyLayout, modes: list[tuple[int, int]], grown: list[int], amount: int) -> Candidate:
    """The strides from mode ``grown[0]`` on grow in proportion; a swizzle stays around them."""
    old, inner = modes[grown[0]][1], plain(layout)
    steps = [step // old * (old + amount) if i in grown else step for i, (_, step) in enumerate(modes)]
    padded: AnyLayout = Layout(inner.shape, unflatten_tuple(steps, inner.shape))
    if isinstance(layout, ComposedLayout):
        padded = layout.with_layout(plain(padded))
    change = f"stride {old} of mode {grown[0]} becomes {old + amount}"
    return Candidate(padded, change, _end(padded) - _end(layout))
