"""What wgmma demands of registers: fences before, waits after.

In: issues, fences and waits of warpgroups, and every use of the registers they work on.  Out: findings E1, E2, E4, E5;
operands in shared memory go to engines.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from moye.dtypes import Space
from moye.hardware import WARPGROUP
from moye.ir import ops
from moye.ir.nodes import Func, Ref, TileRef
from moye.sim.checks.shared_races import SharedChecker
from moye.sim.checks.shared_records import ENGINE, kind_of, thread_of
from moye.sim.values.masks import Mask
from moye.sim.values.memory import Array, Fragment


class Site(Protocol):
    """The static part of a product."""

    shared_a: bool
    a_rows: Array


class Product(Protocol):
    """A wgmma op in one batch: its accumulators and their registers."""

    op: ops.Wgmma
    fragment: Fragment
    rows: Array

    @property
    def site(self) -> Site: ...
    def chunks(self, a: bool, start: int) -> Array: ...


class Instances(Protocol):
    """One execution: per warpgroup and block the starts of the operands, whether sums start at zero, the group."""

    lead: Array
    block: Array
    a: Array
    b: Array
    fresh: Array
    group: Array


class Watching(Protocol):
    """What reports, and knows the checks of shared memory; ``meter`` counts for lints."""

    checker: SharedChecker
    meter: Any

    def tell(self, code: str, case: str, op: ops.Op, lane: tuple[int, int] | None, count: int = 1,
             **facts: Any) -> None: ...
    def register(self, op: ops.Op, ref: Ref | TileRef, fragment: Fragment, rows: Array, mask: Mask) -> None: ...


class Held:
    """What products in flight do with one fragment: per row and lane the group that uses it last (-1: none)."""

    def __init__(self, fragment: Fragment) -> None:
        self.group: Array = np.full(fragment.data.shape, -1, np.int64)
        self.results: Array = np.zeros(len(fragment.data), np.bool_)
        self.op: ops.Wgmma | None = None


class ProductChecks:
    """The checks of the warpgroups of one batch."""

    def __init__(self, watch: Watching, func: Func, fragments: Mapping[int, Fragment]) -> None:
        self.watch, self.fragments = watch, fragments
        self.used = {ref.buffer.id for op in func.body.walk() if isinstance(op, ops.Wgmma) for ref in (op.d, op.a)
                     if ref.buffer.space is Space.REGISTER}
        self.reset()

    def reset(self) -> None:
        self.held: dict[int, Held] = {}
        self.touched: dict[int, Array] = {
            number: np.ones(self.fragments[number].data.shape[1:], np.bool_) for number in self.used}
        """The lanes (T, B) that have changed a fragment since their last fence, by fragment."""

    def fence(self, lanes: Array | None) -> None:
        """warpgroup_arrive."""
        for touched in self.touched.values():
            # wgmma.fence orders register accesses before it with the wgmma after it, for the lanes that execute it.
            touched &= False if lanes is None else ~lanes

    # --- wgmma -------------------------------------------------------------------------------------------------------

    def issue(self, product: Product, issued: Instances, active: Array) -> None:
        """A product begins."""
        op, site = product.op, product.site
        fragments = [(product.fragment, product.rows, True)]
        if not site.shared_a:
            fragments.append((self.fragments[op.a.buffer.id], np.unique(site.a_rows), False))
        for fragment, rows, result in fragments:
            self._unfenced(op, fragment, active)
            if result:
                self._first_k(product, issued, active)
            else:
                self.watch.register(op, op.a, fragment, rows, active)
            held = self.held.setdefault(fragment.buffer.id, Held(fragment))
            group = np.zeros(active.shape, np.int64)
            for w, block, number in zip(issued.lead, issued.block, issued.group, strict=True):
                group[w * WARPGROUP:(w + 1) * WARPGROUP, block] = number
            span = _span(rows)
            held.group[span] = np.where(active, group, held.group[span])
            held.results[span], held.op = result, op
        self._operands(product, issued)
        if self.watch.meter is not None:
            self._count(product, issued)

    def _count(self, product: Product, issued: Instances) -> None:
        """What the first block of the batch issues, for lints."""
        op = product.op
        for i in np.flatnonzero(issued.block == 0).tolist():
            operands = [(op.b, int(issued.b[i]))] + ([(op.a, int(issued.a[i]))] if product.site.shared_a else [])
            times = [self._copied(ref, start) for ref, start in operands] + ([] if product.site.shared_a else [None])
            ready = None if None in times else max(time for time in times if time is not None)
            self.watch.meter.products.issue(int(issued.lead[i]), op.d.buffer.id,
                                            frozenset((ref.buffer.id, start) for ref, start in operands),
                                            not issued.fresh[i], ready)

    def _copied(self, ref: Ref | TileRef, start: int) -> int | None:
        """The time of issue of the tensor copy that has filled an operand; None for any other writer."""
        checker = self.watch.checker
        shadow = checker.shadows[ref.buffer.id]
        record = shadow.write[min(start // shadow.unit, shadow.units - 1), :1]
        if kind_of(record)[0] != ENGINE or not record[0]:
            return None
        engine = checker.engines.all[int(thread_of(record)[0])]
        fills = checker.engines.stages.fills.get((engine.major, engine.minor))
        return None if fills is None else int(fills.last[0])

    def _unfenced(self, op: ops.Wgmma, fragment: Fragment, active: Array) -> None:
        """Report E1: registers were touched since the last fence."""
        touched = self.touched[fragment.buffer.id]
        bad = touched & active
        if bad.any():
            thread, block = (int(i) for i in np.argwhere(bad)[0])
            self.watch.tell("E1", "-", op, (thread, block), tensor=fragment.buffer.name)
            # Reported once, until something touches the registers again.
            touched &= ~active

    def _first_k(self, product: Product, issued: Instances, active: Array) -> None:
        """Report E5: the product adds to what was never set."""
        adds = np.zeros_like(active)
        for w, block, fresh in zip(issued.lead, issued.block, issued.fresh, strict=True):
            adds[w * WARPGROUP:(w + 1) * WARPGROUP, block] = not fresh
        if not adds.any():
            return
        held = self.held.get(product.fragment.buffer.id)
        rows = _span(product.rows)
        missing = product.fragment.unset(rows, adds)
        if missing is not None and held is not None:
            # Sums of a product in flight are set by the time this one adds to them: wgmma of one shape run in order.
            missing = missing & (held.group[rows] < 0)
        if missing is None or not missing.any():
            return
        _, thread, block = (int(i) for i in np.argwhere(missing)[0])
        self.watch.tell("E5", "-", product.op, (thread, block), tensor=product.fragment.buffer.name)

    def _operands(self, product: Product, issued: Instances) -> None:
        """The reads of shared memory, by each group of threads that issues."""
        engines, clocks = self.watch.checker.engines, self.watch.checker.clocks
        for a in (True, False):
            if a and not product.site.shared_a:
                continue
            ref, start = (product.op.a, issued.a) if a else (product.op.b, issued.b)
            for w in np.unique(issued.lead).tolist():
                mine = issued.lead == w
                first = w * WARPGROUP
                # One thread of each history suffices: the others of its group are ordered alike.
                groups, which = np.unique(clocks.group[first:first + WARPGROUP], return_index=True)
                times = len(groups)
                boxes = Reads(np.tile(first + which, int(mine.sum())), *(
                    np.repeat(x[mine], times) for x in (issued.block, start, issued.group)))
                engines.products(product.op, ref, lambda s, a=a: product.chunks(a, s), boxes, w)  # type: ignore[misc]

    def wait(self, op: ops.WgmmaWait, lanes: Array, limit: Array) -> None:
        """warpgroup_wait: groups below the limit (T, B) are complete."""
        if self.watch.meter is not None:
            for lead in np.flatnonzero(lanes[::WARPGROUP, 0]).tolist():
                self.watch.meter.products.wait(op, lead, self.watch.checker.engines.stages.moment)
        for number, held in self.held.items():
            done = (held.group >= 0) & (held.group < limit) & lanes
            if done.any():
                held.group[done] = -1
                if held.results.any():
                    fragment = self.fragments[number]
                    for row in np.flatnonzero(done.any(axis=(1, 2)) & held.results).tolist():
                        rows, here = np.array([row]), done[row]
                        fragment.mark(rows, None if here.all() else here)
        self.watch.checker.engines.products_done(lanes, limit)

    # --- registers ---------------------------------------------------------------------------------------------------

    def use(self, op: ops.Op, fragment: Fragment, rows: Array, mask: Any, *, write: bool) -> bool:
        """Report E2 and E4: other ops read or write registers of products in flight; the result is whether they do.

        After a write the next product needs a fence.
        """
        if self.watch.meter is not None:
            self.watch.meter.products.use(fragment.buffer.id)
        if write and (touched := self.touched.get(fragment.buffer.id)) is not None:
            touched |= True if mask is None else mask
        held = self.held.get(fragment.buffer.id)
        if held is None:
            return False
        bad = held.group[rows] >= 0
        if mask is not None:
            bad = bad & mask
        if not write:
            # Operands may be read while a product reads them; results may not.
            bad = bad & held.results[rows][:, None, None]
        if not bad.any():
            return False
        row, thread, block = (int(i) for i in np.argwhere(bad)[0])
        self.watch.tell("E2" if held.results[rows[row]] else "E4", "-", op, (thread, block),
                        tensor=fragment.buffer.name, written=write, other=held.op)
        return True


class Reads:
    """Operands as engines.py takes them."""

    def __init__(self, thread: Array, block: Array, start: Array, group: Array) -> None:
        self.thread, self.block, self.start, self.group = thread, block, start, group
        self.element = self.phase = np.zeros_like(thread)
        self.issuer = block


def _span(rows: Array) -> Any:
    """The same registers in memory's order; as a slice where they are all from the first to the last: no copies."""
    ordered = np.sort(rows)
    first, last = int(ordered[0]), int(ordered[-1])
    return slice(first, last + 1) if last - first + 1 == len(ordered) else ordered
