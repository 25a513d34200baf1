"""Matrix products of warpgroups (wgmma): issued now, computed at the wait that covers their group.

In: an ``ops.Wgmma`` with its offsets, the accumulate flag and the mask; commits and waits.  Out: accumulators, which
are poison from the first product on until a wait covers the last.

Operands in shared memory are found through their descriptors and read when the product is computed, or when it is
issued (``earliest``).  Products are summed in float32 (integers exactly); tf32 operands lose their low 13 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from moye.dtypes import Kind, Space
from moye.errors import UnsupportedError
from moye.hardware import WARPGROUP
from moye.ir import ops
from moye.ir.nodes import TileRef
from moye.sim.findings.wording import Crowd
from moye.sim.operations.batch_state import BatchState
from moye.sim.operations.mma import owners
from moye.sim.operations.tma import swizzled
from moye.sim.values import overflow
from moye.sim.values.addressing import coordinates
from moye.sim.values.masks import Mask, lanes_of
from moye.sim.values.memory import Array, Fragment, numpy_dtype, poison


class WgmmaSite:
    """The static part: registers and bytes of every operand."""

    def __init__(self, op: ops.Wgmma) -> None:
        self.op = op
        mma = op.mma
        m, n, k = mma.shape_mnk
        if mma.threads != WARPGROUP or m != 64:
            raise UnsupportedError(f"{mma} is no wgmma: {mma.threads} threads, {m} rows", locs=(op.loc,))
        sizes = {role: [e for e, r in zip(op.extents, op.roles, strict=True) if r == role] for role in "mnk"}
        self.m, self.n, self.k = (int(np.prod(sizes[role], dtype=np.int64)) for role in "mnk")
        self.shared_a = op.a.buffer.space is Space.SHARED
        thread, value = owners(mma.c_layout, m * n, WARPGROUP)
        self.d_thread = thread
        self.d = self._steps(op.d, "mn")[:, :, None] + np.array(op.d_values)[value]     # (M, N, m n)
        self.b = self._steps(op.b, "nk")                # (N, K): elements to add to the start
        self.a = self._steps(op.a, "mk")
        if self.shared_a:
            assert op.a_descriptor is not None, "a in shared memory has a descriptor"
            self.a_bytes = operand_bytes(m, k, op.a.dtype.bytes, mma.a_major, op.a_descriptor)
        else:
            self.a_thread, a_value = owners(mma.a_layout, m * k, WARPGROUP)
            self.a_rows = self.a[:, :, None] + np.array(op.a_values)[a_value]           # (M, K, m k)
        self.b_bytes = operand_bytes(n, k, op.b.dtype.bytes, mma.b_major, op.b_descriptor)
        self.chunks: dict[tuple[bool, int], Array] = {}         # stages of a ring come again and again

    def _steps(self, ref: TileRef, roles: str) -> Array:
        """The offset of each tile of the operand, by its two roles; of registers with the first one's."""
        table: Array = np.zeros((1, 1), np.int64)
        for axis, role in enumerate(roles):
            extents = tuple(e for e, r in zip(self.op.extents, self.op.roles, strict=True) if r == role)
            part = np.zeros(int(np.prod(extents, dtype=np.int64)), np.int64)
            strides = [s for s, r in zip(ref.strides, self.op.roles, strict=True) if r == role]
            for coordinate, stride in zip(coordinates(extents), strides, strict=True):
                part += coordinate * stride
            table = table + (part[:, None] if axis == 0 else part)
        first = int(ref.offset.value) if ref.buffer.space is Space.REGISTER else 0      # type: ignore[union-attr]
        return table + first

    def bind(self, batch: BatchState) -> Wgmma:
        return Wgmma(self, batch)


class Issued:
    """An executed op: warpgroup and block of each instance, start bytes of the operands, accumulate, group."""

    __slots__ = ("a", "b", "block", "fresh", "group", "lead", "product")

    def __init__(self, product: Wgmma, lead: Array, block: Array, a: Array, b: Array, fresh: Array,
                 group: Array) -> None:
        self.product, self.lead, self.block = product, lead, block
        self.a, self.b, self.fresh, self.group = a, b, fresh, group

    def part(self, keep: Array) -> Issued:
        return Issued(self.product, *(x[keep] for x in (self.lead, self.block, self.a, self.b, self.fresh,
                                                        self.group)))


class Accumulators:
    """The true values of accumulators in flight, (warpgroups, blocks, M, N, 64, n), and the last group that adds."""

    __slots__ = ("group", "product", "values")

    def __init__(self, product: Wgmma, values: Array) -> None:
        self.product, self.values = product, values
        self.group: Array = np.full(values.shape[:2], -1, np.int64)


class Wgmma:
    """One op in one batch."""

    def __init__(self, site: WgmmaSite, batch: BatchState) -> None:
        self.site, self.op, self.batch = site, site.op, batch
        self.fragment = batch.fragments[self.op.d.buffer.id]
        self.data = self._view(self.fragment, self.op.d)
        self.kind = np.dtype(np.float64 if self.op.mma.c_dtype.kind is not Kind.FLOAT else np.float32)
        self.rows = np.unique(site.d)
        self.warpgroups = -(-batch.threads // WARPGROUP)
        """The last one may lack threads, and executes no product then."""

    def _view(self, fragment: Fragment, ref: TileRef) -> Array:
        found = fragment.view(numpy_dtype(ref.dtype))
        if found is None:
            raise UnsupportedError(f"an operand of {self.op.mma} is a recast of {ref.buffer} to another width",
                                   locs=(self.op.loc,))
        return found

    def __call__(self, a: Any, b: Any, accumulate: Any, mask: Mask) -> None:
        if mask is False:
            return
        batch, op = self.batch, self.op
        lanes = lanes_of(mask, batch.threads, batch.blocks)
        whole = self._whole(lanes)
        lead, block = np.nonzero(whole)
        if not len(lead):
            return

        def of(value: Any) -> Array:
            full: Array = np.broadcast_to(np.asarray(value), (batch.threads, batch.blocks))
            return full[lead * WARPGROUP, block]

        starts = of(a) * op.a.dtype.bytes if self.site.shared_a else np.zeros(len(lead), np.int64)
        issued = Issued(self, lead, block, starts, of(b) * op.b.dtype.bytes, ~of(accumulate).astype(np.bool_),
                        batch.products.committed[lead * WARPGROUP, block])
        active = np.repeat(whole, WARPGROUP, axis=0)[:batch.threads]
        if batch.watch is not None:
            batch.watch.wgmma.issue(self, issued, active)
        self._take(issued, active)
        if batch.products.earliest:
            self.compute(issued)
        else:
            batch.products.flying.append(issued)

    def _whole(self, lanes: Array) -> Array:
        """The whole warpgroups (W, B) of the mask; report E6 for others."""
        inside = np.add.reduceat(lanes.astype(np.int64), np.arange(0, len(lanes), WARPGROUP), axis=0)
        watch = self.batch.watch
        partial = (inside > 0) & (inside < WARPGROUP)
        if watch is not None and partial.any():
            group, block = (int(i) for i in np.argwhere(partial)[0])
            first = group * WARPGROUP
            here = [first + int(t) for t in np.flatnonzero(lanes[first:first + WARPGROUP, block])]
            watch.tell("E6", "part", self.op, (here[0], block), int(partial.sum()), name=self.op.mma, first=first,
                       last=first + WARPGROUP - 1, here=Crowd(here, self.batch.threads))
        return np.asarray(inside == WARPGROUP)

    # --- accumulators ------------------------------------------------------------------------------------------------

    def _take(self, issued: Issued, active: Array) -> None:
        """Move accumulators that are in no product's hands out of their registers, which are poison then."""
        key, site = (self.op.d.buffer.id, self.rows.tobytes(), site_shape(self.site)), self.site
        held = self.batch.products.accumulators.get(key)
        if held is None:
            m, n, _ = self.op.mma.shape_mnk
            shape = (self.warpgroups, self.batch.blocks, site.m, site.n, m * n)
            held = Accumulators(self, np.zeros(shape, self.kind))
            self.batch.products.accumulators[key] = held
        lead, block = issued.lead, issued.block
        new = held.group[lead, block] < 0
        if new.any() and not issued.fresh[new].all():
            self._gather(held, lead[new], block[new])
        held.group[lead, block] = issued.group
        if new.any():
            lanes = np.zeros((self.batch.threads, self.batch.blocks), np.bool_)
            for w in np.unique(lead[new]).tolist():
                lanes[w * WARPGROUP:(w + 1) * WARPGROUP, block[new & (lead == w)]] = True
            self.data[self.rows] = np.where(lanes, poison(self.op.d.dtype), self.data[self.rows])

    def _gather(self, held: Accumulators, lead: Array, block: Array) -> None:
        thread = lead[:, None] * WARPGROUP + self.site.d_thread                 # (N, m n)
        at_ = self.site.d[None], thread[:, None, None, :], block[:, None, None, None]
        held.values[lead, block] = self.data[at_]

    def scatter(self, held: Accumulators, lead: Array, block: Array) -> None:
        """The accumulators of these warpgroups back into their registers."""
        for w in np.unique(lead).tolist():
            here = block[lead == w]
            values = held.values[w][here].transpose(1, 2, 3, 0)                 # (M, N, m n, B)
            rows, thread = self.site.d, w * WARPGROUP + self.site.d_thread
            if len(here) == self.batch.blocks:
                self.data[rows, thread] = values
            else:
                self.data[rows[..., None], thread[:, None], here] = values

    # --- products ----------------------------------------------------------------------------------------------------

    def compute(self, issued: Issued) -> None:
        """Read the operands and add the products."""
        site, batch = self.site, self.batch
        held = batch.products.accumulators[self.op.d.buffer.id, self.rows.tobytes(), site_shape(site)]
        block = issued.block
        m, _, k = self.op.mma.shape_mnk
        for number in range(site.k):
            b = [self._shared(self.op.b, issued.b, site.b[j, number], site.b_bytes, self.op.b_descriptor, block)
                 for j in range(site.n)]
            for i in range(site.m):
                if site.shared_a:
                    assert self.op.a_descriptor is not None, "a in shared memory has a descriptor"
                    a = self._shared(self.op.a, issued.a, site.a[i, number], site.a_bytes, self.op.a_descriptor, block)
                else:
                    a = self._registers(issued, i, number).reshape(-1, m, k)
                for j in range(site.n):
                    product = np.matmul(a, b[j].transpose(0, 2, 1))             # (N, m, n)
                    self._add(held, issued, (i, j), product, number == 0)

    def _add(self, held: Accumulators, issued: Issued, tile: tuple[int, int], product: Array, first: bool) -> None:
        lead, block = issued.lead, issued.block
        flat = product.transpose(0, 2, 1).reshape(len(product), -1)             # (M, N) tiles count m fastest
        before = held.values[lead, block, tile[0], tile[1]]
        if first and issued.fresh.any():
            before = np.where(issued.fresh[:, None], 0, before)
        total = before + flat
        narrow = self.op.mma.d_dtype
        if self.op.mma.saturate:
            total = np.clip(total, overflow.LOW, overflow.HIGH)
        elif narrow.kind is not Kind.FLOAT:
            self._check_range(issued, total)
            total = total.astype(np.int64).astype(np.int32).astype(self.kind)
        elif narrow.bits < 32:
            total = total.astype(numpy_dtype(narrow)).astype(self.kind)
        held.values[lead, block, tile[0], tile[1]] = total

    def _check_range(self, issued: Issued, sums: Array) -> None:
        """A11: sums (N, values) that a 32-bit accumulator does not hold."""
        watch = self.batch.watch
        if watch is None or not overflow.beyond(sums):
            return
        found = np.argwhere((sums < overflow.LOW) | (sums > overflow.HIGH))
        one, value = (int(i) for i in found[0])
        lane = int(issued.lead[one]) * WARPGROUP, int(issued.block[one])
        watch.sum_beyond(self.op, int(sums[one, value]), lane, len(found))

    def _shared(self, ref: TileRef, start: Array, step: int, inside: Array, descriptor: tuple[int, int, int],
                block: Array) -> Array:
        """(N, rows, k) of one operand."""
        shared, dtype = self.batch.shared[ref.buffer.id], numpy_dtype(ref.dtype)
        data = shared.data
        if shared.left is not None:
            shared.left.look()
        if dtype.itemsize != shared.dtype.itemsize:
            raise UnsupportedError(f"an operand of {self.op.mma} is a recast of {ref.buffer} to another width",
                                   locs=(self.op.loc,))
        data = data.view(dtype)
        size = dtype.itemsize
        first = start + step * size
        if (first == first[0]).all():
            index = swizzled(int(first[0]) + inside, descriptor[2]) // size
            rows = data.take(index.reshape(-1), axis=0, mode="clip")            # (rows k, B)
            if len(block) != data.shape[1] or not np.array_equal(block, shared.column):
                rows = rows[:, block]
            found = rows.T.reshape(len(block), *inside.shape)
        else:
            index = swizzled(first[:, None, None] + inside, descriptor[2]) // size
            found = data.reshape(-1).take(index * self.batch.blocks + block[:, None, None], mode="clip")
        return self._exact(ref, found)

    def _registers(self, issued: Issued, i: int, number: int) -> Array:
        """(N, m k) of a in registers."""
        data = self._view(self.batch.fragments[self.op.a.buffer.id], self.op.a)
        thread = issued.lead[:, None] * WARPGROUP + self.site.a_thread
        values = data[self.site.a_rows[i, number], thread, issued.block[:, None]]
        m, _, k = self.op.mma.shape_mnk
        return self._exact(self.op.a, values.reshape(-1, k, m).transpose(0, 2, 1))

    def _exact(self, ref: TileRef, values: Array) -> Array:
        """The elements as the multiplier sees them."""
        if ref.dtype.name == "tfloat32":
            values = (np.ascontiguousarray(values).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
        return values.astype(self.kind)

    def chunks(self, a: bool, start: int) -> Array:
        """The 16-byte chunks of one operand, by address."""
        site, op = self.site, self.op
        if (known := site.chunks.get((a, start))) is not None:
            return known
        ref, steps, inside = (op.a, site.a, site.a_bytes) if a else (op.b, site.b, site.b_bytes)
        span = (op.a_descriptor if a else op.b_descriptor) or (0, 0, 0)
        found = swizzled(start + steps.reshape(-1, 1, 1) * ref.dtype.bytes + inside, span[2])
        site.chunks[a, start] = chunks = np.unique(found // 16 * 16)
        return chunks


def site_shape(site: WgmmaSite) -> tuple[int, int, int]:
    """What tells accumulators of one register set apart."""
    return site.m, site.n, site.op.mma.shape_mnk[1]


class Products:
    """The products in flight of one batch; groups are counted per thread."""

    def __init__(self, batch: BatchState, *, earliest: bool) -> None:
        self.batch, self.earliest = batch, earliest
        self.reset()

    def reset(self) -> None:
        self.flying: list[Issued] = []
        self.accumulators: dict[tuple[int, bytes, tuple[int, int, int]], Accumulators] = {}
        self.committed: Array = np.zeros((self.batch.threads, self.batch.blocks), np.int64)

    def commit(self, op: ops.WgmmaCommit, mask: Mask) -> None:
        """The group of each warpgroup of the mask ends here."""
        if mask is not False:
            self.committed = self.committed + lanes_of(mask, self.batch.threads, self.batch.blocks)

    def wait(self, op: ops.WgmmaWait, mask: Mask) -> None:
        """Compute all but the newest groups of the warpgroups of the mask."""
        if mask is False:
            return
        lanes = lanes_of(mask, self.batch.threads, self.batch.blocks)
        limit = (self.committed - op.pending)[::WARPGROUP]
        leads = lanes[::WARPGROUP]
        kept = []
        for issued in self.flying:
            now = leads[issued.lead, issued.block] & (issued.group < limit[issued.lead, issued.block])
            if now.all():
                issued.product.compute(issued)
            elif now.any():
                issued.product.compute(issued.part(now))
                kept.append(issued.part(~now))
            else:
                kept.append(issued)
        self.flying = kept
        for held in self.accumulators.values():
            done = (held.group >= 0) & (held.group < limit) & leads
            if done.any():
                held.product.scatter(held, *np.nonzero(done))
                held.group[done] = -1
        if self.batch.watch is not None:
            self.batch.watch.wgmma.wait(op, lanes, self.committed - op.pending)

    def finish(self) -> None:
        """The blocks have ended: report D18 for products that nobody has waited for."""
        watch = self.batch.watch
        for held in self.accumulators.values():
            flying = np.argwhere(held.group >= 0)
            if watch is not None and len(flying):
                group, block = (int(i) for i in flying[0])
                op = held.product.op
                watch.tell("D18", "products", op, (group * WARPGROUP, block), len(flying), tensor=op.d.buffer.name,
                           group=group)


# --- where the elements of a wgmma operand lie in shared memory, from its matrix descriptor --------------------------


_CHUNK, _ROWS = 16, 8


def operand_bytes(rows: int, k: int, itemsize: int, major: str, descriptor: tuple[int, int, int]) -> Array:
    """(rows, k) -> byte offset."""
    leading, stride, span = descriptor
    row, column = np.arange(rows, dtype=np.int64)[:, None], np.arange(k, dtype=np.int64)
    if major == "k":
        return _tiled(column * itemsize, row, span or _CHUNK, leading, stride, bool(span))
    if not span:                                        # the two offsets change their roles
        return _tiled(row * itemsize, column, _CHUNK, stride, leading, False)
    return _tiled(row * itemsize, column, span, leading, stride, False)


def _tiled(along: Array, across: Array, span: int, beyond: int, group: int, single: bool) -> Array:
    """Contiguous ``span`` bytes along the major mode, 8 of them across, then ``group`` bytes to the next 8.

    ``beyond`` is the distance of the next span along the major mode; a swizzled operand that is k-major has one only.
    """
    step = 0 if single else along // span * beyond
    inner = along if single else along % span
    return np.asarray(inner + step + across % _ROWS * span + across // _ROWS * group)
