"""Matrix products on register fragments: scalar FMA as broadcast multiply-add; what all atoms share.

In: an ``ops.Gemm``.  Out: ``GemmSite.bind(batch)``, called with the mask.

    GemmSite(op).bind(batch)(None)

With ``Hooks(exact_fma=True)`` each multiply-add of floats rounds once (fma.py), else the product and the sum do.
Atoms of several threads are in matrix.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from moye.errors import UnsupportedError
from moye.ir import ops
from moye.ir.nodes import TileRef
from moye.sim.operations.batch_state import BatchState
from moye.sim.values import overflow
from moye.sim.values.addressing import as_slice, coordinates, register_rows
from moye.sim.values.fma import fused
from moye.sim.values.masks import Mask
from moye.sim.values.memory import Array, numpy_dtype

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

    def bind(self, batch: BatchState) -> Checked:
        return _Fma(self, batch)


class Checked:
    """What both kinds of product share: fragments, and which of their elements are read and set."""

    def __init__(self, site: GemmSite, batch: BatchState) -> None:
        self.site, self.op, self.batch = site, site.op, batch
        op = site.op
        self.fragments = {name: batch.fragments[ref.buffer.id]
                          for name, ref in (("a", op.a), ("b", op.b), ("c", op.c), ("d", op.d))}
        self.used = [(ref, self.fragments[name], self.fragments[name].rows(ref.dtype, rows))
                     for name, ref, rows in (("a", op.a, site.a), ("b", op.b, site.b), ("c", op.c, site.c))]
        self.set = self.fragments["d"].rows(op.d.dtype, site.d)
        self.watch = batch.watch

    def data(self, name: str, ref: TileRef) -> Array:
        found = self.fragments[name].view(numpy_dtype(ref.dtype))
        if found is None:
            raise UnsupportedError(f"operand {name} of {self.op.mma} is a recast of {ref.buffer} to another width",
                                   locs=(self.op.loc,))
        return found

    def check(self, mask: Mask) -> None:
        if self.watch is None:
            return
        for ref, fragment, rows in self.used:
            self.watch.register(self.op, ref, fragment, rows, mask)
        self.fragments["d"].mark(self.set, None if mask is None else np.asarray(mask))


class _Fma(Checked):
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
        if self.watch is not None and overflow.signed(self.accumulate):
            self._check_sums(mask)
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

    def _check_sums(self, mask: Mask) -> None:
        """A11: a product or a sum on the way leaves the accumulator's dtype."""
        site, kind, bits = self.site, self.accumulate, self.accumulate.itemsize * 8
        if self._fit_together():
            return
        total = self.operands["c"][site.c[..., 0]].astype(kind)
        for k in range(site.k):
            a = self.operands["a"][site.a[k, :, 0]].astype(kind)[:, None]
            b = self.operands["b"][site.b[k, :, 0]].astype(kind)[None, :]
            product, bad = overflow.overflowed("mul", a, b, bits)
            x, y, sign = a, b, "mul"
            if bad is None:
                x, y, sign = total, product, "add"
                total, bad = overflow.overflowed("add", total, product, bits)
            if bad is not None:
                assert self.watch is not None, "asked by what is watched"
                self.watch.grown(self.op, sign, bits, self.op.d.name, x, y, bad, mask)
                return

    def _fit_together(self) -> bool:
        """Whether the largest operands, of all registers or else of these, show that no sum leaves the dtype."""
        site, found = self.site, self.operands
        if overflow.fits_together(found["a"], found["b"], found["c"], site.k):
            return True
        a, b, c = (found[name][np.unique(rows)] for name, rows in (("a", site.a), ("b", site.b), ("c", site.c)))
        return overflow.fits_together(a, b, c, site.k)

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
