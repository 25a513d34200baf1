"""Matrix products on register fragments: scalar FMA as broadcast multiply-add, other atoms through their layouts.

In: an ``ops.Gemm``.  Out: ``GemmSite.bind(batch)``, called with the mask.

>>> GemmSite(op).bind(batch)(None)

With ``Hooks(exact_fma=True)`` each multiply-add of floats rounds once (fma.py), else the product and the sum do.
For an atom of several threads the fragments are gathered into matrices by ``a_layout``, ``b_layout`` and ``c_layout``,
multiplied by ``np.matmul`` in the accumulator's precision, and scattered back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from moye.atoms.atom import MmaOp
from moye.dtypes import DType, Kind
from moye.errors import UnsupportedError
from moye.ir import ops
from moye.ir.nodes import TileRef
from moye.layout import Layout, size
from moye.sim.addressing import as_slice, coordinates, register_rows
from moye.sim.fma import fused
from moye.sim.masks import Mask, lanes_of
from moye.sim.memory import Array, numpy_dtype
from moye.sim.state import BatchState

Step = tuple[Array, Array, Array, Array]


class GemmSite:
    """The static part: registers of every operand by (m, n, k) and value."""

    def __init__(self, op: ops.Gemm) -> None:
        self.op = op
        sizes = {role: [e for e, r in zip(op.extents, op.roles, strict=True) if r == role] for role in "mnk"}
        self.m, self.n, self.k = (int(np.prod(sizes[role], dtype=np.int64)) for role in "mnk")
        self.a = self._rows(op.a, "km", op.a_values)    # (K, M, V)
        self.b = self._rows(op.b, "kn", op.b_values)    # (K, N, V)
        self.c = self._rows(op.c, "mn", op.c_values)    # (M, N, V)
        self.d = self._rows(op.d, "mn", op.d_values)    # (M, N, V)

    def _rows(self, ref: TileRef, roles: str, values: tuple[int, ...]) -> Array:
        offset = register_rows(TileRef(ref.buffer, ref.offset, ref.dtype, ()), (), 1)[0]
        table = np.full((1,) * 3, offset, np.int64)
        for axis, role in enumerate(roles):
            extents = tuple(e for e, r in zip(self.op.extents, self.op.roles, strict=True) if r == role)
            strides = [s for s, r in zip(ref.strides, self.op.roles, strict=True) if r == role]
            part = np.zeros(int(np.prod(extents, dtype=np.int64)), np.int64)
            for coordinate, stride in zip(coordinates(extents), strides, strict=True):
                part += coordinate * stride
            shape = [1, 1, 1]
            shape[axis] = len(part)
            table = table + part.reshape(shape)
        return table + np.array(values, np.int64)

    def bind(self, batch: BatchState) -> _Fma | _Matrix:
        scalar = self.op.mma.threads == 1 and self.op.mma.shape_mnk == (1, 1, 1)
        return _Fma(self, batch) if scalar else _Matrix(self, batch)


class _Checked:
    """What both kinds share: fragments, and which of their elements are read and set."""

    def __init__(self, site: GemmSite, batch: BatchState) -> None:
        self.site, self.op, self.batch = site, site.op, batch
        op = site.op
        self.fragments = {name: batch.fragments[ref.buffer.id]
                          for name, ref in (("a", op.a), ("b", op.b), ("c", op.c), ("d", op.d))}
        self.used = [(ref, batch.fragments[ref.buffer.id], np.unique(rows))
                     for ref, rows in ((op.a, site.a), (op.b, site.b), (op.c, site.c))]
        self.set = np.unique(site.d)
        self.watch = batch.watch

    def data(self, name: str, ref: TileRef) -> Array:
        return self.fragments[name].data.view(numpy_dtype(ref.dtype))

    def check(self, mask: Mask) -> None:
        if self.watch is None:
            return
        for ref, fragment, rows in self.used:
            self.watch.register(self.op, ref, fragment, rows, mask)
        self.fragments["d"].mark(self.set, None if mask is None else np.asarray(mask))


class _Fma(_Checked):
    """d = a * b + c of one thread: for each k, one multiply and one add per row of n (or of m)."""

    def __init__(self, site: GemmSite, batch: BatchState) -> None:
        super().__init__(site, batch)
        accumulate = numpy_dtype(self.op.mma.c_dtype)
        narrow = accumulate.itemsize < 4 and accumulate.kind not in "iu"
        self.accumulate = np.dtype(np.float32) if narrow else accumulate
        self.exact = batch.launch.exact_fma and self.accumulate.kind == "f"
        refs = (("a", self.op.a), ("b", self.op.b), ("c", self.op.c), ("d", self.op.d))
        self.operands = {name: self.data(name, ref) for name, ref in refs}
        plain = all(data.dtype == self.accumulate for data in self.operands.values())
        across = site.m >= site.n                       # which of m and n is one axis of the array operation
        self.steps: list[Step] | None = None
        if plain and self.exact:
            self.steps = self._points()                 # its temporaries want to stay in cache
        elif plain:
            self.steps = self._rows(across) or self._rows(not across) or self._points()
        longest = max((len(step[3]) for step in self.steps or ()), default=1)
        self.scratch: Array = np.empty((longest, batch.threads, batch.blocks), self.accumulate)

    def _rows(self, across: bool) -> list[Step]:
        """(a, b, c, d) of each step, a row over m (or n) at a time; empty where the registers of a row are no slice."""
        site, steps = self.site, []
        for k in range(site.k):
            for outer in range(site.n if across else site.m):
                one, all_ = slice(outer, outer + 1), slice(None)
                step = self._step(k, *((all_, one) if across else (one, all_)))
                if step is None:
                    return []
                steps.append(step)
        return steps

    def _points(self) -> list[Step]:
        """One element of m and n at a time."""
        site = self.site
        steps = [self._step(k, slice(m, m + 1), slice(n, n + 1))
                 for k in range(site.k) for m in range(site.m) for n in range(site.n)]
        return [step for step in steps if step is not None]

    def _step(self, k: int, m: slice, n: slice) -> Step | None:
        site, first = self.site, k == 0
        rows = (("a", site.a[k, m, 0]), ("b", site.b[k, n, 0]), ("c" if first else "d", (site.c if first else site.d)
                [m, n, 0].reshape(-1)), ("d", site.d[m, n, 0].reshape(-1)))
        views = [(name, as_slice(row)) for name, row in rows]
        if any(at is None for _, at in views):
            return None
        a, b, c, d = (self.operands[name][at] for name, at in views)
        return a, b, c, d

    def __call__(self, mask: Mask) -> None:
        self.check(mask)
        if self.steps is None:
            self._gathered(mask)
            return
        multiply, add, scratch = np.multiply, np.add, self.scratch
        where: Any = True if mask is None else np.asarray(mask)
        if self.exact:
            for a, b, c, d in self.steps:
                np.copyto(d, fused(a, b, c), where=where)
            return
        for a, b, c, d in self.steps:
            product = scratch[:len(d)]
            multiply(a, b, product)
            if mask is None:
                add(c, product, d)
            else:
                add(c, product, out=d, where=where)

    def _gathered(self, mask: Mask) -> None:
        site, operands, kind = self.site, self.operands, self.accumulate
        result = operands["c"][site.c[..., 0]].astype(kind)
        for k in range(site.k):
            a = operands["a"][site.a[k, :, 0]].astype(kind)
            b = operands["b"][site.b[k, :, 0]].astype(kind)
            result = fused(a[:, None], b[None, :], result) if self.exact else result + a[:, None] * b[None, :]
            if self.operands["d"].dtype != kind:
                result = result.astype(self.operands["d"].dtype).astype(kind)
        store_rows(operands["d"], site.d[..., 0], result, mask)


def store_rows(data: Array, rows: Array, values: Array, mask: Mask) -> None:
    """data[rows] = values in the lanes of the mask."""
    values = values.astype(data.dtype)
    data[rows] = values if mask is None else np.where(np.asarray(mask), values, data[rows])


def owners(layout: Layout, elements: int, threads: int) -> tuple[Array, Array]:
    """(thread, value) that hold each element of the tile that the layout of an atom describes."""
    thread_of, value_of = np.zeros(elements, np.int64), np.zeros(elements, np.int64)
    values = int(size(layout)) // threads  # type: ignore[arg-type]
    for thread in range(threads):
        for value in range(values):
            element = int(layout(thread, value))  # type: ignore[arg-type]
            thread_of[element], value_of[element] = thread, value
    return thread_of, value_of


def _precision(dtype: DType) -> np.dtype[Any]:
    if dtype.kind in (Kind.INT, Kind.UINT) or dtype.name == "float64":
        return np.dtype(np.float64)                     # exact for the products of 8-bit integers
    return np.dtype(np.float32)


class _Matrix(_Checked):
    """d = a * b + c of a group of threads."""

    def __init__(self, site: GemmSite, batch: BatchState) -> None:
        super().__init__(site, batch)
        mma: MmaOp = self.op.mma
        m, n, k = mma.shape_mnk
        if batch.threads % mma.threads:
            raise UnsupportedError(f"{mma} takes groups of {mma.threads} threads, and the block has {batch.threads}",
                                   locs=(self.op.loc,))
        self.kind = _precision(mma.c_dtype)
        self.groups = batch.threads // mma.threads
        self.a = owners(mma.a_layout, m * k, mma.threads)
        self.b = owners(mma.b_layout, n * k, mma.threads)
        self.c = owners(mma.c_layout, m * n, mma.threads)

    def _tiles(self, data: Array, rows: Array, owner: tuple[Array, Array], shape: tuple[int, int]) -> Array:
        """Fragments as matrices (outer, inner, groups, B, *shape) for rows (outer, inner, V)."""
        threads = self.op.mma.threads
        grouped = data.reshape(len(data), self.groups, threads, -1)
        picked = grouped[rows[:, :, owner[1]], :, owner[0]]        # (outer, inner, elements, groups, B)
        matrix = picked.astype(self.kind).reshape(*rows.shape[:2], shape[1], shape[0], *picked.shape[-2:])
        return matrix.transpose(0, 1, 4, 5, 3, 2)

    def __call__(self, mask: Mask) -> None:
        self.check(mask)
        self._whole_groups(mask)
        site, mma = self.site, self.op.mma
        m, n, k = mma.shape_mnk
        a = self._tiles(self._operand("a", self.op.a), site.a, self.a, (m, k))
        b = self._tiles(self._operand("b", self.op.b), site.b, self.b, (n, k))
        result = self._tiles(self.data("c", self.op.c), site.c, self.c, (m, n))
        columns = b.swapaxes(-1, -2)
        for step in range(site.k):
            result = result + np.matmul(a[step][:, None], columns[step][None, :])
        self._scatter(result, mask)

    def _operand(self, name: str, ref: TileRef) -> Array:
        data = self.data(name, ref)
        if ref.dtype.name == "tfloat32":                # the hardware ignores the low 13 bits
            data = (data.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
        return data

    def _scatter(self, result: Array, mask: Mask) -> None:
        """Matrices (M, N, groups, B, m, n) back into registers."""
        threads, site = self.op.mma.threads, self.site
        data = self.data("d", self.op.d)
        flat = result.swapaxes(-1, -2).reshape(*result.shape[:4], -1)
        grouped = data.reshape(len(data), self.groups, threads, -1)
        values = np.moveaxis(flat, -1, 2).astype(data.dtype)       # (M, N, elements, groups, B)
        rows, lanes = site.d[:, :, self.c[1]], self.c[0]
        if mask is not None:
            active = lanes_of(mask, self.batch.threads, self.batch.blocks).reshape(self.groups, threads, -1)
            keep = np.moveaxis(active[:, lanes], 1, 0)             # (elements, groups, B)
            values = np.where(keep, values, grouped[rows, :, lanes])
        grouped[rows, :, lanes] = values

    def _whole_groups(self, mask: Mask) -> None:
        """C6: the atom needs all threads of its group."""
        if self.watch is None or mask is None:
            return
        lanes = lanes_of(mask, self.batch.threads, self.batch.blocks)
        inside = lanes.reshape(self.groups, self.op.mma.threads, -1).sum(axis=1)
        partial = np.argwhere((inside > 0) & (inside < self.op.mma.threads))
        if len(partial):
            group, block = (int(i) for i in partial[0])
            first = group * self.op.mma.threads
            self.watch.report("C6", f"{self.op.mma} needs threads {first} to {first + self.op.mma.threads - 1} "
                              f"together, but only {int(inside[group, block])} of them are here", self.op,
                              lane=(first, block), count=len(partial))
