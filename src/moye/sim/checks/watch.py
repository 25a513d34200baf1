"""Judges every access of a checked run: bounds, alignment, undefined registers, overflow; feeds the race checkers.

In: the indices (V, T or 1, B or 1) and the mask of an access.  Out: findings B1-B4, B7, A11, A12 through the
reporter; accesses for ``SharedChecker`` and ``GlobalChecker``.

It never changes what the kernel computes.  Races are judged in the other modules of this room.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from moye.dtypes import DType, int32, int64
from moye.hardware import WARP
from moye.ir import ops
from moye.ir.constants import fits, kept, limits
from moye.ir.nodes import Buffer, Func, Ref, TileRef
from moye.layout import make_layout
from moye.sim.checks.dependent_launches import Dependence, Dependent, Prior
from moye.sim.checks.global_races import GlobalChecker
from moye.sim.checks.shared_races import SharedChecker
from moye.sim.checks.wgmma_operands import ProductChecks
from moye.sim.costs.meter import Meter
from moye.sim.findings.finding import Reporter, coordinate_beyond, place_of
from moye.sim.flow.async_copies import AsyncCopies
from moye.sim.values import overflow
from moye.sim.values.doubts import Doubts, Origin, Uses
from moye.sim.values.masks import Mask
from moye.sim.values.memory import Array, Fragment, Global, Shared, numpy_dtype, poison
from moye.sim.values.scalars import BINARY, UNARY, wrap

_INTS = {32: int32, 64: int64}
_UNDEFINED = frozenset({"B6", "B7"})
"""Findings about data that nobody wrote: arithmetic on it is not judged."""


def label(ref: Ref | TileRef) -> str:
    """The user's name of what is accessed."""
    return ref.name if isinstance(ref, TileRef) and ref.name else ref.buffer.name


class Watch:
    """The checks of one batch of blocks."""

    def __init__(self, threads: int, block_ids: Array, reporter: Reporter, checker: SharedChecker,
                 globals_: GlobalChecker, meter: Meter | None, func: Func, fragments: dict[int, Fragment],
                 doubts: Doubts) -> None:
        self.threads = threads
        self.block_ids = block_ids
        self.reporter = reporter
        self.checker = checker
        self.globals = globals_
        self.dependent: Dependent | None = None
        self.meter = meter
        """Counts what accesses cost, where lints are wanted."""
        self.wgmma = ProductChecks(self, func, fragments)
        self.doubts = doubts
        self.uses = Uses(doubts, reporter, self.block)

    def restart(self, block_ids: Array, checker: SharedChecker, globals_: GlobalChecker) -> None:
        """The next blocks."""
        self.block_ids, self.checker, self.globals = block_ids, checker, globals_
        self.wgmma.reset()

    def depend(self, launch: Dependence | None) -> None:
        """These blocks belong to a launch that may run beside those before it."""
        self.dependent = None
        if launch is not None and (launch.prior or launch.recording):
            self.dependent = Dependent(launch, self.checker, self.threads, len(self.block_ids), self._too_early)

    def _too_early(self, op: ops.Op, lane: tuple[int, int], memory: Global, element: int, written: bool, does: str,
                   prior: Prior, count: int) -> None:
        """G3: an access that may come before those of an earlier launch."""
        self.tell("G3", "launch", op, lane, count, tensor=memory.arg.name, coordinate=memory.coordinate(element),
                  written=written, prior=prior.name, does=does)

    def waited_for_launches(self, lanes: Array | None) -> None:
        """Threads wait for the launches before this one."""
        if self.dependent is not None:
            self.dependent.wait(lanes)

    def let_begin_launches(self, lanes: Array | None) -> None:
        """Threads let the launches behind this one begin."""
        if self.dependent is not None:
            self.dependent.trigger(lanes)

    def boxes(self, op: ops.AnyBulk, tensor: Buffer, memory: Global, issued: Any,
              elements: Callable[[], tuple[Array, Array]]) -> None:
        """A bulk copy of elements of global memory is issued."""
        if self.dependent is not None:
            self.dependent.boxes(op, memory, issued.thread, issued.block, *elements())
        self.globals.boxes(op, tensor, memory, issued, elements)

    # --- reporting ---------------------------------------------------------------------------------------------------

    def tell(self, code: str, case: str, op: ops.Op, lane: tuple[int, int] | None, count: int = 1,
             **facts: Any) -> None:
        """One violation; ``lane`` is (thread, block of the batch), and ``facts`` are as for ``Reporter.tell``."""
        block, threads = (None, ()) if lane is None else (self.block(lane[1]), lane[:1])
        self.reporter.tell(code, case, (op,), block=block, threads=threads, count=count, **facts)

    def block(self, column: int) -> tuple[int, ...]:
        """The coordinates of a block of the batch."""
        return tuple(int(i) for i in self.block_ids[column])

    def first(self, bad: Array, mask: Mask) -> tuple[tuple[int, ...], int]:
        """Position (V, T, B) of the first bad lane of the mask, and how many there are; () if there is none."""
        shape = (*bad.shape[:-2], self.threads, len(self.block_ids))
        full = np.broadcast_to(bad, shape)
        if mask is not None:
            full = full & np.asarray(mask)
        at = np.flatnonzero(full)
        return (tuple(int(i) for i in np.unravel_index(at[0], shape)), len(at)) if len(at) else ((), 0)

    # --- memory ------------------------------------------------------------------------------------------------------

    def globally(self, op: ops.Op, ref: Ref | TileRef, memory: Global, index: Array, width: int, mask: Mask,
                 verb: str, *, asynchronous: bool = False) -> None:
        """B1, B3, B4 of an access to global memory, which is then told to the checker of races there."""
        if width > 1:
            index, mask = index[::width], _per_access(mask, width)
        if not index.size:
            return
        if self.meter is not None and not isinstance(op, ops.AnyMap):
            # as on a device: an allocation starts at a whole sector
            self.meter.count(op, ref, index * memory.itemsize + memory.address % 16, width * memory.itemsize, mask,
                             "read" if verb == "reads" else "write", self.threads, len(self.block_ids))
        high = memory.high - (width - 1)
        if index.min() < memory.low or index.max() > high:
            self._outside(op, ref, memory, index, width, mask, verb)
        size = width * memory.itemsize
        if memory.address % size == 0 and size & (size - 1) == 0:
            skew: Array = index & (width - 1)
        else:
            skew = (memory.address + index * memory.itemsize) % size
        if (width > 1 or memory.address % size) and skew.any():
            self._misaligned(op, ref, index * memory.itemsize + memory.address, skew != 0, size, mask, asynchronous)
        lanes = None if mask is None else np.asarray(mask)
        if self.dependent is not None:
            self.dependent.access(op, memory, index, size, lanes, verb == "writes")
        self.globals.access(op, ref, memory, index, size, lanes, verb == "writes")

    def fence(self, op: ops.Fence, mask: Mask) -> None:
        """A fence of the lanes of the mask."""
        lanes = None if mask is None else np.asarray(mask)
        self.globals.flags.fence(op, lanes)
        self.checker.fence(op, lanes if lanes is None else np.broadcast_to(lanes, (self.threads, lanes.shape[1])))

    def _outside(self, op: ops.Op, ref: Ref | TileRef, memory: Global, index: Array, width: int, mask: Mask,
                 verb: str) -> None:
        high = memory.high - (width - 1)
        if (ref.buffer.name, op.loc) in self.reporter.judged:
            return
        found, count = self.first((index < memory.low) | (index > high), mask)
        if not found:
            return
        offset = int(np.broadcast_to(index, (*index.shape[:-2], self.threads, len(self.block_ids)))[found])
        wrong = offset if offset < memory.low else max(offset, memory.high + 1)
        plain = memory.itemsize == memory.arg.memory.dtype.itemsize
        facts = {} if plain else {"element": f"{memory.arg.name} element {wrong}"}
        self.tell("B1", "-", op, (found[-2], found[-1]), count, written=verb == "writes", tensor=memory.arg.name,
                  coordinate=memory.coordinate(wrong) if plain else None,
                  layout=make_layout(memory.arg.shape, memory.arg.strides), **facts)

    def _misaligned(self, op: ops.Op, ref: Ref | TileRef, address: Array, bad: Array, size: int, mask: Mask,
                    asynchronous: bool) -> None:
        found, count = self.first(bad, mask)
        if not found:
            return
        where = int(np.broadcast_to(address, (*address.shape[:-2], self.threads, len(self.block_ids)))[found])
        self.tell("B4" if asynchronous else "B3", "-", op, (found[-2], found[-1]), count, tensor=ref.buffer.name,
                  size=size, label=label(ref), address=where)

    def shared(self, op: ops.Op, ref: Ref | TileRef, shared: Shared, index: Array, width: int, mask: Mask,
               how: str) -> None:
        """Report B2-B4 of an access to shared memory; what stays inside is told to the shared checker as ``how``."""
        if shared.left is not None and how in ("read", "atomic"):
            shared.left.look(index if ref.dtype.bits == shared.buffer.dtype.bits else None, mask)
        if width > 1:
            index, mask = index[::width], _per_access(mask, width)
        if not index.size:
            return
        itemsize = ref.dtype.bytes
        elements = shared.elements * shared.dtype.itemsize // itemsize
        if index.min() < 0 or index.max() > elements - width:
            self._outside_shared(op, ref, index, elements, width, mask, how)
        address = index * itemsize
        size = width * itemsize
        if size > itemsize and (skew := address & (size - 1)).any():
            self._misaligned(op, ref, address, skew != 0, size, mask, how == "async_write")
        if self.meter is not None and not isinstance(op, ops.AnyMap):
            self.meter.count(op, ref, address, size, mask, how, self.threads, len(self.block_ids))
        if how != "read" and (clear := self._clear(op, ref, address, size, mask)) is not None:
            mask = clear
        self._tell(op, ref, address, size, mask, getattr(self.checker, how))

    def peer(self, op: ops.Op, ref: Ref | TileRef, shared: Shared, index: Array, column: Array, width: int,
             mask: Mask, how: str) -> None:
        """The same of an access to the shared memory of the blocks ``column`` (V, T or 1, B) of the batch."""
        if shared.left is not None:
            shared.left.look()
        if width > 1:
            index, column, mask = index[::width], column[::width], _per_access(mask, width)
        if not index.size:
            return
        itemsize, size = ref.dtype.bytes, width * ref.dtype.bytes
        elements = shared.elements * shared.dtype.itemsize // itemsize
        if index.min() < 0 or index.max() > elements - width:
            self._outside_shared(op, ref, index, elements, width, mask, how, column)
        address = index * itemsize
        if size > itemsize and (skew := address & (size - 1)).any():
            self._misaligned(op, ref, address, skew != 0, size, mask, False)
        tell = getattr(self.checker.peers, how)
        self._tell(op, ref, address, size, mask,
                   lambda op, ref, address, size, lanes: tell(op, ref, address, column[:1], size, lanes))

    def _clear(self, op: ops.Op, ref: Ref | TileRef, address: Array, size: int, mask: Mask) -> Array | None:
        """Report D11: an ordinary access overwrites an initialised mbarrier.  The result is the lanes that do not.

        An mbarrier may lie beside data in one tensor: an access that misses it is an access as any other.
        """
        made, bytes_ = self.checker.engines.barriers.get(ref.buffer.root.id), ref.buffer.root.dtype.bytes
        clear: Array | None = None
        for element, init in sorted(made.items()) if made else ():
            meets = (address < (element + 1) * bytes_) & (address + size > element * bytes_)
            found, count = self.first(meets, mask) if meets.any() else ((), 0)
            if not found:
                continue
            self.tell("D11", "data", op, (found[-2], found[-1]), count, tensor=ref.buffer.root.name,
                      coordinate=(element,), made=init)
            self.checker.engines.stages.tell(ref.buffer.root.id, "D11")
            before = True if mask is None and clear is None else np.asarray(mask) if clear is None else clear
            shape = (*meets.shape[:-2], self.threads, len(self.block_ids))
            clear = np.broadcast_to(~meets, shape) & before
        return clear

    def _outside_shared(self, op: ops.Op, ref: Ref | TileRef, index: Array, elements: int, width: int, mask: Mask,
                        how: str, column: Array | None = None) -> None:
        if (ref.buffer.name, op.loc) in self.reporter.judged:
            return
        found, count = self.first((index < 0) | (index > elements - width), mask)
        if not found:
            return
        shape = (*index.shape[:-2], self.threads, len(self.block_ids))
        offset = int(np.broadcast_to(index, shape)[found])
        there = None if column is None else self.block(int(np.broadcast_to(column, shape)[found]))
        facts: dict[str, Any] = {"tensor": ref.buffer.name, "there": there, "written": how != "read"}
        beyond = coordinate_beyond(ref.buffer, offset * ref.dtype.bits // ref.buffer.dtype.bits)
        if beyond is None:
            facts |= {"offset": offset, "elements": elements, "dtype": ref.dtype}
        else:
            last = beyond.mode == len(beyond.coordinate) - 1 > 0
            # The last of three modes or more counts stages; of a plain tile it may.
            facts |= {"coordinate": beyond.coordinate, "layout": ref.buffer.layout, "stages": last,
                      "index": beyond.coordinate[beyond.mode], "extent": beyond.extent, "mode": beyond.mode,
                      "depth": beyond.extent,
                      "mend": None if not last else "stage" if len(beyond.coordinate) > 2 else "count"}
        self.tell("B2", "-" if beyond is None else "beyond", op, (found[-2], found[-1]), count, **facts)

    def _tell(self, op: ops.Op, ref: Ref | TileRef, address: Array, size: int, mask: Mask,
              tell: Callable[..., None]) -> None:
        if address.ndim == 2:
            address = address[None]
        if address.shape[1] != self.threads:
            address = np.broadcast_to(address, (address.shape[0], self.threads, address.shape[2]))
        if mask is None:
            tell(op, ref, address, size, None)
            return
        lanes = np.asarray(mask)
        if lanes.shape[-2] != self.threads:
            lanes = np.broadcast_to(lanes, (*lanes.shape[:-2], self.threads, lanes.shape[-1]))
        if lanes.ndim == 2:
            tell(op, ref, address, size, lanes)
            return
        for access in range(len(lanes)):                # a predicate of its own for each access
            if lanes[access].any():
                tell(op, ref, address[access:access + 1], size, lanes[access])

    def waiting(self, op: ops.CpAsyncWait, copies: AsyncCopies) -> None:
        """A wait for asynchronous copies begins."""
        if self.meter is not None:
            self.meter.waits.before(op, copies)

    def waited(self, op: ops.CpAsyncWait, lanes: Array | None, trips: dict[str, Any]) -> None:
        """It is over."""
        self.checker.wait(op, lanes, trips)
        self.globals.overlaps.waited()

    def proxy_fence(self, op: ops.ProxyFence, lanes: Array | None) -> None:
        """Threads fence for asynchronous units."""
        self.checker.engines.fence(op, lanes)
        if op.kind == "async":
            self.globals.overlaps.fence(lanes)

    def register(self, op: ops.Op, ref: Ref | TileRef, fragment: Fragment, rows: Array, mask: Mask) -> None:
        """B7: elements of a fragment are used before they were set."""
        if self.wgmma.used and self.wgmma.use(op, fragment, rows, mask, write=False):
            return
        missing = fragment.unset(rows, None if mask is None else np.asarray(mask))
        if missing is None:
            return
        found, count = self.first(missing, None)
        self.tell("B7", "-", op, (found[1], found[2]), count, later=None,
                  **place_of(fragment.buffer, int(rows[found[0]]) * fragment.per_row))
        self.uses.tell(op, self.unset(op, fragment, rows, missing))

    def pinned(self, op: ops.Op, fragment: Fragment, mask: Mask) -> None:
        """A whole fragment is kept at its place: E2 where products in flight still work on it."""
        if self.wgmma.used:
            self.wgmma.use(op, fragment, np.arange(len(fragment.data)), mask, write=False)

    def carried(self, op: ops.Op, fragment: Fragment, rows: Array, mask: Mask) -> Array | None:
        """The numbers of the origins of elements (rows, T, B) that are not set and will be kept; None if all are
        set."""
        if self.wgmma.used and self.wgmma.use(op, fragment, rows, mask, write=False):
            return None
        missing = fragment.unset(rows, None if mask is None else np.asarray(mask))
        return None if missing is None else self.unset(op, fragment, rows, missing)

    def unset(self, op: ops.Op, fragment: Fragment, rows: Array, missing: Array) -> Array:
        """Where (rows, T, B) elements that an op reads are not set, the numbers of where that comes from."""
        numbers = np.zeros(missing.shape, np.int16)
        for position in np.flatnonzero(missing.any(axis=(1, 2))).tolist():
            row = int(rows[position])
            number = fragment.origin.get(row, 0)
            if not number:
                number = self.doubts.begin(Origin("B7", op, place_of(fragment.buffer, row * fragment.per_row)))
            numbers[position] = np.where(missing[position], number, 0)
        return numbers

    # --- scalars -----------------------------------------------------------------------------------------------------

    def arithmetic(self, op: ops.Binary, function: Any, a: Any, b: Any, mask: Mask) -> Array:
        """A11: the int32 or int64 result of an operation on arrays, with its overflow reported."""
        result, bad = overflow.overflowed(op.kind, a, b, op.a.dtype.bits, function)
        if bad is not None:
            self.grown(op, op.kind, op.a.dtype.bits, op.result.name, a, b, bad, mask)
        return result

    def grown(self, op: ops.Op, kind: str, bits: int, name: str, a: Any, b: Any, bad: Array, mask: Mask) -> None:
        """A11: where ``bad``, ``a kind b`` does not fit."""
        bad = bad & ~(self._unset(a, _INTS[bits]) | self._unset(b, _INTS[bits]))
        found, count = self.first(np.atleast_2d(bad), mask)
        if not found:
            return
        shape = (*np.shape(bad)[:-2], self.threads, len(self.block_ids))
        x, y = (int(np.broadcast_to(part, shape)[found]) for part in (a, b))
        self._overflow(op, kind, name, overflow.number(kind, x, y), bits, (found[-2], found[-1]), count)

    def wrapped(self, op: ops.Binary, a: Any, b: Any, result: Any, mask: Mask) -> None:
        """A11: a result of 8 or 16 bits has lost bits that matter where it is used."""
        exact = BINARY[op.kind](np.asarray(a, np.int64), np.asarray(b, np.int64))
        self._lost(op, exact, result, (a,) if op.kind == "shl" else (a, b), mask)

    def negated(self, op: ops.Unary, a: Any, result: Any, mask: Mask) -> None:
        """A11: the same for a negative or absolute value."""
        self._lost(op, UNARY[op.kind](np.asarray(a, np.int64)), result, (a,), mask)

    def _lost(self, op: ops.Binary | ops.Unary, exact: Any, result: Any, parts: tuple[Any, ...], mask: Mask) -> None:
        bad = np.not_equal(exact, result)
        if not bad.any():
            return
        for part in parts:
            bad = bad & ~self._unset(part, op.a.dtype)
        found, count = self.first(np.atleast_2d(bad), mask)
        if found:
            number = int(np.broadcast_to(exact, (*np.shape(bad)[:-2], self.threads, len(self.block_ids)))[found])
            self._overflow(op, op.kind, op.result.name, str(number), op.a.dtype.bits, (found[-2], found[-1]), count)

    def wrapped_alike(self, op: ops.Binary | ops.Unary, number: int) -> int:
        """The same for a number that all lanes have; the wrapped one."""
        dtype = op.result.dtype
        self._overflow(op, op.kind, op.result.name, str(number), dtype.bits, (0, 0), 1)
        return wrap(number, dtype.bits, dtype.is_signed)

    def summed(self, op: ops.Redux, exact: Array, values: Array, bad: Array, mask: Mask) -> None:
        """A11: where ``bad``, the sum of a warp's values does not fit."""
        unset = np.broadcast_to(self._unset(values, op.value.dtype), values.shape)
        undefined = np.add.reduceat(unset, np.arange(0, self.threads, WARP), axis=0)
        bad = bad & ~np.repeat(undefined, WARP, axis=0)[:self.threads]
        found, count = self.first(np.atleast_2d(bad), mask)
        if found:
            number = int(np.broadcast_to(exact, (self.threads, len(self.block_ids)))[found])
            self._overflow(op, "add", op.result.name, str(number), op.value.dtype.bits, (found[-2], found[-1]), count)

    def counted(self, op: ops.For, value: Any, step: Any, mask: Mask) -> Any:
        """A11: the next value of a loop's variable, which the kernel computes before it sees that the loop is over."""
        bits = op.iv.dtype.bits
        if isinstance(value, int) and isinstance(step, int):
            if not fits(value + step, op.iv.dtype):
                found, count = self.first(np.ones((1, 1), np.bool_), mask)
                if found:
                    self._overflow(op, "add", op.iv.name, str(value + step), bits, (found[-2], found[-1]), count)
            return value + step
        result, bad = overflow.overflowed("add", value, step, bits)
        if bad is not None:
            self.grown(op, "add", bits, op.iv.name, value, step, bad, mask)
            low, high = limits(op.iv.dtype)
            result = np.where(bad, high if op.up else low, result).astype(result.dtype)     # told; the loop ends
        return result

    def _unset(self, numbers: Any, dtype: DType) -> Array:
        """Where they may be what nothing has set.  Bytes of 127 are numbers like others if no such thing was read."""
        looks = np.equal(numbers, poison(dtype))
        return looks if self.doubts.on or self.reporter.findings else np.zeros_like(looks)

    def _overflow(self, op: ops.Op, kind: str, name: str, number: str, bits: int, lane: tuple[int, int],
                  count: int) -> None:
        if any(finding.code in _UNDEFINED for finding in self.reporter.findings):
            return                                      # what is computed from undefined data says nothing
        what = overflow.name_of(kind, name)
        wide = "int32" if bits == 32 else "int64"
        if isinstance(op, ops.For):
            wide = "counter" if bits == 32 else "counter64"
        self.tell("A11", "-", op, lane, count, tensor=what, what=what, number=number, bits=bits,
                  mend="narrow" if bits < 32 else "shl" if kind == "shl" else wide,
                  wider="int64" if bits == 32 else "uint64")

    def added(self, op: ops.Op, name: str, old: Array, values: Array, lane: tuple[int, int]) -> None:
        """A11: the elements that an asynchronous copy adds to what memory holds, for the thread that issued it."""
        if not overflow.signed(old.dtype) or not old.size:
            return
        bits = old.dtype.itemsize * 8
        _, bad = overflow.overflowed("add", old, values, bits)
        if bad is not None:
            first = int(np.flatnonzero(bad)[0])
            sides = (int(np.broadcast_to(side, bad.shape).reshape(-1)[first]) for side in (old, values))
            self._overflow(op, "add", name, overflow.number("add", *sides), bits, lane, int(bad.sum()))

    def sum_beyond(self, op: ops.Gemm | ops.Wgmma, number: int, lane: tuple[int, int], count: int) -> None:
        """A11: a sum of a matrix instruction leaves its 32-bit accumulators."""
        self._overflow(op, "add", op.d.name, str(number), 32, lane, count)

    def overflow(self, op: ops.Binary, number: int) -> int:
        """A11 for an integer that is the same for all lanes; the wrapped number."""
        bits = op.result.dtype.bits
        text = str(number) if abs(number) < 1 << 128 else f"a number of {number.bit_length()} bits"
        self._overflow(op, op.kind, op.result.name, text, bits, (0, 0), 1)
        return wrap(number, bits, True)

    def negation(self, op: ops.Unary, a: Any, mask: Mask) -> None:
        """A11: neg or abs of the smallest int32 or int64."""
        bits = op.a.dtype.bits
        bad = np.equal(a, -(1 << (bits - 1)))
        if bad.any():
            found, count = self.first(np.atleast_2d(bad), mask)
            if found:
                self._overflow(op, op.kind, op.result.name, str(1 << (bits - 1)), bits, (found[-2], found[-1]), count)

    def narrowing(self, op: ops.Cast, a: Any, mask: Mask) -> None:
        """A11: a conversion from 64 to 32 bits of a number that these do not hold."""
        low, high = kept(op.result.dtype)
        array = np.asarray(a, numpy_dtype(op.a.dtype))
        bad = (array > high) | (array < low) if low and op.a.dtype.is_signed else array > high
        bad = bad & ~self._unset(array, op.a.dtype)
        if not bad.any():
            return
        found, count = self.first(np.atleast_2d(bad), mask)
        if found:
            number = int(np.broadcast_to(array, (*array.shape[:-2], self.threads, len(self.block_ids)))[found])
            self.tell("A11", "cast", op, (found[-2], found[-1]), count, tensor=op.result.name, name=op.result.name,
                      number=number, source=op.a.dtype, result=op.result.dtype)

    def shift(self, op: ops.Binary, b: Any, mask: Mask) -> None:
        """A11: an integer is shifted by a negative count."""
        bad = np.less(b, 0)
        if not bad.any():
            return
        found, count = self.first(np.atleast_2d(bad), mask)
        if found:
            amount = int(np.broadcast_to(b, (*np.shape(bad)[:-2], self.threads, len(self.block_ids)))[found])
            self.tell("A11", "shift", op, (found[-2], found[-1]), count, tensor=op.result.name, amount=amount,
                      sign="<<" if op.kind == "shl" else ">>")

    def divisor(self, op: ops.Binary, b: Any, mask: Mask) -> None:
        """A12: an integer is divided by zero."""
        bad = np.equal(b, 0)
        if not bad.any():
            return
        found, count = self.first(np.atleast_2d(bad), mask)
        if found:
            self.tell("A12", "zero", op, (found[-2], found[-1]), count, tensor=op.result.name or "",
                      sign="//" if op.kind == "floordiv" else "%")

    def assertion(self, op: ops.Assert, cond: Any, mask: Mask) -> None:
        """A12: an assert or an assumption does not hold."""
        bad = ~np.asarray(cond, np.bool_).reshape((1, 1) if np.ndim(cond) == 0 else np.shape(cond))
        found, count = self.first(bad, mask)
        if found:
            self.tell(op.code or "A12", "asserted" if op.code else "assert", op, (found[-2], found[-1]), count,
                      mend="none", assumed=op.assume, message=op.message)


def _per_access(mask: Mask, width: int) -> Mask:
    return mask[::width] if isinstance(mask, np.ndarray) and mask.ndim == 3 else mask
