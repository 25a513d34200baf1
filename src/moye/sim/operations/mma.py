"""Matrix products of groups of threads: fragments gathered into matrices through the atom's layouts, and back.

In: an ``ops.Gemm``.  Out: ``gemm_site(op).bind(batch)``, called with the mask.

Operands are taken exactly (tf32 without its low 13 bits, which the hardware ignores).  One instruction rounds once, to
nearest, from the sum of its exact products and the accumulator in float64; the hardware may align the products and cut
bits off, so its float results can differ by a few units in the last place of the largest summand.  Integer sums wrap
to 32 bits, or clamp where the atom saturates; single bits are combined with xor or and, and counted.
"""

from __future__ import annotations

import numpy as np

from moye.atoms.atom import MmaOp
from moye.dtypes import DType, Kind
from moye.errors import UnsupportedError
from moye.hardware import WARP
from moye.ir import ops
from moye.ir.nodes import TileRef
from moye.layout import Layout
from moye.layout.tuples import flatten_tuple
from moye.sim.findings.wording import Crowd
from moye.sim.operations.batch_state import BatchState
from moye.sim.operations.gemm import Checked, GemmSite
from moye.sim.values import overflow
from moye.sim.values.addressing import static_table
from moye.sim.values.masks import Mask, lanes_of
from moye.sim.values.memory import Array, numpy_dtype


def owners(layout: Layout, elements: int, threads: int) -> tuple[Array, Array]:
    """(thread, value) that hold each element of the tile that the layout of an atom describes."""
    offsets = static_table(*map(flatten_tuple, (layout.shape, layout.stride)))  # type: ignore[arg-type]
    assert offsets is not None, "the layouts of an atom are static"
    held = offsets.reshape(-1, threads).T               # (threads, values)
    thread_of, value_of = np.zeros(elements, np.int64), np.zeros(elements, np.int64)
    thread_of[held] = np.arange(threads)[:, None]
    value_of[held] = np.arange(held.shape[1])
    return thread_of, value_of


def group_lanes(mma: MmaOp, threads: int) -> Array:
    """(group, thread of the atom) -> thread of the block."""
    lanes = np.array([mma.lanes(t) for t in range(mma.threads)], np.int64)
    if mma.thr_id is None:
        return lanes + np.arange(threads // mma.threads)[:, None] * mma.threads
    free = sorted(set(range(WARP)) - {int(lane) for lane in lanes[1:]})
    firsts: list[int] = []                              # the lanes that can be thread 0 of a group
    while free:
        firsts.append(free[0])
        free = [lane for lane in free if lane not in free[0] + lanes]
    warps = np.arange(threads // WARP)[:, None, None] * WARP
    return np.asarray((warps + np.array(firsts)[:, None] + lanes).reshape(-1, mma.threads))


class MatrixProduct(Checked):
    """d = a * b + c of a group of threads."""

    def __init__(self, site: GemmSite, batch: BatchState) -> None:
        super().__init__(site, batch)
        mma: MmaOp = self.op.mma
        m, n, k = mma.shape_mnk
        self.together = max(mma.threads, WARP) if mma.ptx else mma.threads
        if batch.threads % self.together:
            raise UnsupportedError(f"{mma} takes groups of {self.together} threads, and the block has {batch.threads}",
                                   locs=(self.op.loc,))
        self.lanes = group_lanes(mma, batch.threads)
        self.a = owners(mma.a_layout, m * k, mma.threads)
        self.b = owners(mma.b_layout, n * k, mma.threads)
        self.c = owners(mma.c_layout, m * n, mma.threads)

    def __call__(self, mask: Mask) -> None:
        self.check(mask)
        self._whole_groups(mask)
        m, n, k = self.op.mma.shape_mnk
        site = self.site
        # (K, M, k, m, groups, B) -> (K, groups, B, M * m, k), likewise B; C (M, N, n, m, groups, B) -> (groups, B, ...)
        a = self._picked("a", self.op.a, site.a, self.a, (k, m)).transpose(0, 4, 5, 1, 3, 2)
        b = self._picked("b", self.op.b, site.b, self.b, (k, n)).transpose(0, 4, 5, 2, 1, 3)
        c = self._picked("c", self.op.c, site.c, self.c, (n, m)).transpose(4, 5, 0, 3, 1, 2)
        a, b = _wide(a.reshape(*a.shape[:3], -1, k)), _wide(b.reshape(*b.shape[:4], -1))
        result = _wide(c.reshape(*c.shape[:2], c.shape[2] * m, -1))
        with np.errstate(over="ignore", invalid="ignore"):
            for step in range(site.k):
                result = result + self._summed(a[step], b[step])
                self._check_range(result, mask)
                result = self._rounded(result)
            data = self.data("d", self.op.d)
            self._scatter(data, result.astype(data.dtype, copy=False).reshape(c.shape), mask)

    def _picked(self, name: str, ref: TileRef, rows: Array, owner: tuple[Array, Array],
                shape: tuple[int, int]) -> Array:
        """Elements (outer, inner, columns, rows, groups, B) for register rows (outer, inner, V)."""
        thread, value = owner
        picked = self.operand(name, ref)[rows[:, :, value][..., None], self.lanes[:, thread].T]
        return np.asarray(picked.reshape(*rows.shape[:2], *shape, *picked.shape[-2:]))

    def operand(self, name: str, ref: TileRef) -> Array:
        """The registers of one operand as its elements (V, T, B)."""
        data = self.fragments[name].elements(ref.dtype)
        if ref.dtype.name == "tfloat32":                # the hardware ignores the low 13 bits
            data = (data.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
        return data

    def _summed(self, a: Array, b: Array) -> Array:
        """The sum over k of the products."""
        product = self.op.mma.product
        if product == "xor":
            return np.asarray(np.matmul(a, 1 - b) + np.matmul(1 - a, b))
        return np.asarray(np.matmul(a, b))

    def _rounded(self, sums: Array) -> Array:
        """The values as the accumulator's dtype holds them."""
        dtype: DType = self.op.mma.d_dtype
        if dtype.kind is Kind.FLOAT:
            return sums if dtype.bits == 64 else sums.astype(numpy_dtype(dtype)).astype(np.float64)
        if self.op.mma.saturate:
            info = np.iinfo(numpy_dtype(dtype))
            return np.clip(sums, info.min, info.max)
        return sums.astype(np.int64).astype(numpy_dtype(dtype)).astype(np.float64)

    def _check_range(self, sums: Array, mask: Mask) -> None:
        """A11: sums (groups, B, M, N) that a 32-bit accumulator does not hold and the instruction does not saturate."""
        mma = self.op.mma
        if self.watch is None or mma.d_dtype.kind is not Kind.INT or mma.saturate or not overflow.beyond(sums):
            return
        active = lanes_of(mask, self.batch.threads, self.batch.blocks)[self.lanes[:, 0]]
        bad = np.argwhere(((sums < overflow.LOW) | (sums > overflow.HIGH)) & active[:, :, None, None])
        if len(bad):
            group, block, row, column = (int(i) for i in bad[0])
            self.watch.sum_beyond(self.op, int(sums[group, block, row, column]), (int(self.lanes[group, 0]), block),
                                  len(bad))

    def _scatter(self, data: Array, result: Array, mask: Mask) -> None:
        """Matrices (groups, B, M, m, N, n) back into registers."""
        site, (thread, value) = self.site, self.c
        values = result.transpose(2, 4, 5, 3, 0, 1)                    # (M, N, n, m, groups, B)
        values = values.reshape(*values.shape[:2], -1, *values.shape[4:])
        rows, lanes = site.d[:, :, value][..., None], self.lanes[:, thread].T
        if mask is not None:
            active = lanes_of(mask, self.batch.threads, self.batch.blocks)
            values = np.where(active[lanes], values, data[rows, lanes])
        data[rows, lanes] = values

    def _whole_groups(self, mask: Mask) -> None:
        """C6: the atom needs all threads of its group, and an instruction all of its warp."""
        if self.watch is None:
            return
        self.watch.checker.engines.met(None if mask is None else lanes_of(mask, self.batch.threads, self.batch.blocks))
        if mask is None:
            return
        lanes = lanes_of(mask, self.batch.threads, self.batch.blocks)
        inside = lanes.reshape(-1, self.together, lanes.shape[1]).sum(axis=1)
        partial = np.argwhere((inside > 0) & (inside < self.together))
        if len(partial):
            group, block = (int(i) for i in partial[0])
            first = group * self.together
            here = [first + int(t) for t in np.flatnonzero(lanes[first:first + self.together, block])]
            self.watch.tell("C6", "group", self.op, (here[0], block), len(partial), name=self.op.mma, first=first,
                            last=first + self.together - 1, here=Crowd(here, self.batch.threads))


def _wide(x: Array) -> Array:
    """The values as float64, in which products and sums are exact enough; converted last, since narrow data moves
    faster."""
    return x if x.dtype == np.float64 else x.astype(np.float64)


class MatrixSite(GemmSite):
    """The static part of a product by groups of threads."""

    def bind(self, batch: BatchState) -> MatrixProduct:
        return MatrixProduct(self, batch)


def gemm_site(op: ops.Gemm) -> GemmSite:
    """The static part of a Gemm op, by what its atom is."""
    scalar = op.mma.threads == 1 and op.mma.shape_mnk == (1, 1, 1)
    return GemmSite(op) if scalar else MatrixSite(op)
