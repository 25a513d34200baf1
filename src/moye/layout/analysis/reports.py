"""What a tiled copy or a tiled MMA costs in shared and global memory.

In: a tiled copy (or a thread/value layout into a tile) and the layouts of its memory.  Out: a ``CopyReport``.

>>> copy = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.uint128), mo.float32), (8, 4), (4, 1))
>>> copy_report(copy, smem=mo.make_layout((32, 32))).banks.degree
1

Tiled copies and MMAs live above the layouts, so this module knows them only by their attributes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from moye.errors import LayoutError
from moye.hardware import SECTOR
from moye.layout.algebra import composition
from moye.layout.analysis.banks import BankReport, bank_conflicts
from moye.layout.analysis.sectors import SectorReport, sectors_per_request
from moye.layout.divide import logical_divide, zipped_divide
from moye.layout.inverse import right_inverse
from moye.layout.layout import Layout, make_layout, rank, size
from moye.layout.swizzle import ComposedLayout
from moye.layout.tables import AnyLayout, plain, static_modes


class _Bits(Protocol):
    @property
    def bits(self) -> int: ...


class _Atom(Protocol):
    @property
    def dtype(self) -> _Bits: ...
    @property
    def values(self) -> int: ...


class TiledCopyLike(Protocol):
    """The attributes of a ``TiledCopy`` that are needed here."""

    @property
    def layout_tv(self) -> Layout: ...
    @property
    def tiler(self) -> tuple[int, ...]: ...
    @property
    def atom(self) -> _Atom: ...


class _Mma(Protocol):
    @property
    def a_layout(self) -> Layout: ...
    @property
    def b_layout(self) -> Layout: ...
    @property
    def c_layout(self) -> Layout: ...
    @property
    def shape_mnk(self) -> tuple[int, int, int]: ...


class TiledMMALike(Protocol):
    """The attributes of a ``TiledMMA`` that are needed here."""

    @property
    def op(self) -> _Mma: ...
    @property
    def layout(self) -> Layout: ...
    @property
    def atom_layout(self) -> Layout: ...
    @property
    def permutations(self) -> tuple[Layout | int | None, ...]: ...


@dataclass(frozen=True, slots=True)
class CopyReport:
    """The two sides of a copy: ``banks`` of shared memory, ``sectors`` of global memory; None if not asked for."""

    banks: BankReport | None
    sectors: SectorReport | None

    def __str__(self) -> str:
        return "\n".join(str(part) for part in (self.sectors, self.banks) if part is not None)


def copy_report(copy: TiledCopyLike, *, smem: AnyLayout | None = None, gmem: AnyLayout | None = None,
                access: str = "st", alignment: int = SECTOR) -> CopyReport:
    """What a tiled copy costs per instruction: in a shared tile, in a global one, or from one to the other.

    Each layout is that of the whole tile.  It has at least the copy's rank and is a multiple of its tiler; further
    tiles and modes are further values.  Width and vector come from the atom (one element for the automatic atom).
    ``access`` is what happens in shared memory, and ``alignment`` is that of the global base in bytes.
    """
    if smem is None and gmem is None:
        raise LayoutError(f"copy_report of {copy} has no memory to look at", hint="give smem=, gmem= or both")
    bits, vector = copy.atom.dtype.bits, copy.atom.values
    banks = sectors = None
    if smem is not None:
        tv = thread_values(copy.layout_tv, copy.tiler, smem)
        banks = bank_conflicts(tv, bits, access, vector=None if "matrix" in access else vector)
    if gmem is not None:
        tv = thread_values(copy.layout_tv, copy.tiler, gmem)
        sectors = sectors_per_request(tv, bits, vector=vector, alignment=alignment)
    return CopyReport(banks, sectors)


def thread_values(layout_tv: Layout, tiler: tuple[int, ...], memory: AnyLayout) -> AnyLayout:
    """A layout (thread, (value, tiles...)) -> offset: ``layout_tv`` in every tile of ``memory``.

    ``layout_tv`` maps (thread, value) to a column-major index into a tile of shape ``tiler``, as a ``TiledCopy``'s.
    Law: for each tile r, ``thread_values(tv, t, m)(thr, (val, r)) == zipped_divide(m, t)(tv(thr, val), r)``.
    """
    static_modes(memory, "thread_values")
    whole = plain(memory)
    if rank(layout_tv) != 2 or rank(whole) < len(tiler):
        raise LayoutError(f"thread_values of {layout_tv} in tiles {tiler} of {memory}: a (thread, value) layout and a "
                          "layout with at least the modes of a tile are needed")
    for mode, extent in enumerate(tiler):
        have = size(whole, mode)
        if not isinstance(have, int) or have % extent:
            raise LayoutError(f"mode {mode} of {memory} has extent {have}, no multiple of the {extent} of tile {tiler}")
    divided = zipped_divide(whole, tiler)
    tv = composition(divided.mode(0), layout_tv)
    return _around(memory, make_layout(tv.mode(0), make_layout(tv.mode(1), divided.mode(1))))


def _around(memory: AnyLayout, layout: Layout) -> AnyLayout:
    return memory.with_layout(layout) if isinstance(memory, ComposedLayout) else layout


_OPERANDS = {"A": (0, 2), "B": (1, 2), "C": (0, 1)}


def operand_values(mma: TiledMMALike, operand: str, memory: AnyLayout) -> AnyLayout:
    """A layout (thread, (value, rest of mode 0, rest of mode 1, ...)) -> offset: the part of an operand that each
    thread of a tiled MMA takes.

    ``memory`` is an (M, K) tile for operand "A", (N, K) for "B", (M, N) for "C"; further modes are further values.
    Law: thread t holds the offsets of ``mma.get_slice(t).partition_A(memory)``, in their order.
    """
    if operand not in _OPERANDS:
        raise LayoutError(f'a tiled MMA has the operands "A", "B" and "C", not {operand!r}')
    static_modes(memory, "operand_values")
    dims, whole = _OPERANDS[operand], plain(memory)
    if rank(whole) < 2:
        raise LayoutError(f"operand {operand} of a tiled MMA is a matrix; {memory} has {rank(whole)} mode")
    split = [_split(mma, whole.mode(i), d) for i, d in enumerate(dims)]
    tv = {"A": mma.op.a_layout, "B": mma.op.b_layout, "C": mma.op.c_layout}[operand]
    values = composition(make_layout(*(atom for atom, _, _ in split)), tv)
    threads: list[Layout] = [values.mode(0)]
    for d in range(3):
        inside = split[dims.index(d)][1] if d in dims else Layout(size(mma.atom_layout, d), 0)
        threads.append(inside)
    # a thread's coordinate (V, M, N, K) is the right inverse of the MMA's (V, M, N, K) -> thread
    thread = composition(make_layout(*threads), right_inverse(mma.layout))
    if size(thread) != size(mma.layout):
        raise LayoutError(f"operand_values of {mma}: its layout {mma.layout} does not number the threads from 0 on")
    rest = [rest for _, _, rest in split] + [whole.mode(i) for i in range(2, rank(whole))]
    return _around(memory, make_layout(thread, make_layout(values.mode(1), *rest)))


def _split(mma: TiledMMALike, mode: Layout, d: int) -> tuple[Layout, Layout, Layout]:
    """One mode of the tile, split into (within the atom, over threads, the rest)."""
    tile = mma.permutations[d]
    if tile is not None:
        mode = logical_divide(mode, tile)
    by_atom = logical_divide(mode, mma.op.shape_mnk[d])
    by_thread = logical_divide(by_atom.mode(1), size(mma.atom_layout, d))
    return by_atom.mode(0), by_thread.mode(0), by_thread.mode(1)
