"""The verifier's rules of single ops of sm_90.

In: an op.  Out: a sentence if it is broken, None if not.

    RULES[ops.SetMaxRegisters](op)      # '20 registers: no multiple of 8 from 24 to 256'
"""

from __future__ import annotations

from collections.abc import Callable

from moye.atoms.bulk import ADDED, PART
from moye.dtypes import Kind, Space, uint16, uint32, uint64
from moye.ir import ops
from moye.ir.nodes import Literal, Operand, Ref

_NAMES = {Space.SHARED: "shared memory", Space.CLUSTER: "shared memory of the cluster"}


def is_register_budget(count: int) -> bool:
    """Whether setmaxnreg takes this count."""
    return 24 <= count <= 256 and count % 8 == 0


def _barrier(ref: Ref, space: Space = Space.SHARED) -> str | None:
    if ref.buffer.space is not space or ref.dtype != uint64:
        return f"its barrier is {ref.dtype} in {ref.buffer.space.value}, not uint64 in {_NAMES[space]}"
    return "its barrier is swizzled" if ref.swizzle is not None else None


def _integers(**operands: Operand | None) -> str | None:
    """The first operand that is no 32-bit integer."""
    for name, operand in operands.items():
        if operand is not None and (not operand.dtype.is_integer or operand.dtype.bits != 32):
            return f"its {name} is {operand.dtype}, not a 32-bit integer"
    return None


def _init(op: ops.MbarrierInit) -> str | None:
    return _barrier(op.ref) or _integers(count=op.count)


def _arrive(op: ops.MbarrierArrive) -> str | None:
    if not op.arrives and (op.bytes is None or op.rank is not None):
        return "without an arrival it expects bytes at a barrier of its own block"
    return _barrier(op.ref) or _integers(bytes=op.bytes, rank=op.rank)


def _wait(op: ops.MbarrierWait) -> str | None:
    return _barrier(op.ref) or _integers(parity=op.parity)


def _proxy(op: ops.ProxyFence) -> str | None:
    return None if op.kind in ("async", "mbarrier_init") else f"unknown kind {op.kind!r}"


def _bulk_wait(op: ops.BulkWait) -> str | None:
    return None if op.pending >= 0 else f"waits for all but {op.pending} groups"


def _tma(op: ops.TmaCopy) -> str | None:
    if op.tensor.space is not Space.GLOBAL:
        return f"its tensor is in {op.tensor.space.value}"
    if op.kind == "prefetch":
        return "a prefetch has memory, coordinates or a barrier" if op.smem or op.coordinates or op.barrier else None
    if op.kind == "prefetch_box":
        if op.smem or op.barrier or op.multicast is not None:
            return "what it fetches goes to the L2 cache, and nowhere else"
    elif op.smem is None or op.smem.buffer.space is not Space.SHARED or op.smem.swizzle is not None:
        return "its box is in no shared memory, or swizzled by more than its tensor map"
    if (op.kind == "load") != (op.barrier is not None) or (op.kind != "load" and op.multicast is not None):
        return "loads have a barrier and may be multicast, nothing else"
    if not 1 <= len(op.coordinates) <= 5:
        return f"{len(op.coordinates)} coordinates"
    if op.multicast is not None and op.multicast.dtype != uint16:
        return f"its mask is {op.multicast.dtype}, not uint16"
    coordinates = _integers(**{f"coordinate {d}": x for d, x in enumerate(op.coordinates)})
    return coordinates or (None if op.barrier is None else _barrier(op.barrier))


_PLACES = {"load": (Space.SHARED, Space.GLOBAL), "send": (Space.CLUSTER, Space.SHARED),
           "store": (Space.GLOBAL, Space.SHARED), "reduce_add": (Space.GLOBAL, Space.SHARED),
           "prefetch": (None, Space.GLOBAL)}


def _bulk(op: ops.BulkCopy) -> str | None:
    spaces = (None if op.dst is None else op.dst.buffer.space, op.src.buffer.space)
    if spaces != _PLACES.get(op.kind):
        return f"a {op.kind} from {spaces[1].value} to {'nowhere' if spaces[0] is None else spaces[0].value}"
    if op.src.swizzle is not None or (op.dst is not None and op.dst.swizzle is not None):
        return "its run is swizzled"
    if (op.kind in ("load", "send")) != (op.barrier is not None):
        return "loads and sends have a barrier, nothing else"
    if (op.kind != "load" and op.multicast is not None) or (op.kind == "send" and op.hint is not None):
        return "loads alone are multicast, and sends have no hint"
    if op.multicast is not None and op.multicast.dtype != uint16:
        return f"its mask is {op.multicast.dtype}, not uint16"
    if op.run % PART or (isinstance(op.bytes, Literal) and int(op.bytes.value) not in range(PART, op.run + 1, PART)):
        return f"copies {op.bytes} bytes of a run of {op.run}"
    if op.kind == "reduce_add" and op.src.dtype not in ADDED:
        return f"adds {op.src.dtype}"
    home = Space.CLUSTER if op.kind == "send" else Space.SHARED
    return _integers(bytes=op.bytes) or (None if op.barrier is None else _barrier(op.barrier, home))


def _elect(op: ops.Elect) -> str | None:
    return None if op.result.dtype.kind is Kind.BOOL else f"gives {op.result.dtype}, not bool"


def _map(op: ops.MapShared) -> str | None:
    if op.buffer.space is not Space.SHARED or op.result.dtype != uint32:
        return f"maps {op.buffer} to an address of {op.result.dtype}"
    return _integers(rank=op.rank)


def _registers(op: ops.SetMaxRegisters) -> str | None:
    if op.kind not in ("inc", "dec"):
        return f"unknown kind {op.kind!r}"
    return None if is_register_budget(op.count) else f"{op.count} registers: no multiple of 8 from 24 to 256"


def _grid(op: ops.GridDependency) -> str | None:
    return None if op.kind in ("wait", "launch_dependents") else f"unknown kind {op.kind!r}"


RULES: dict[type[ops.Op], Callable[..., str | None]] = {
    ops.MbarrierInit: _init, ops.MbarrierArrive: _arrive, ops.MbarrierWait: _wait, ops.ProxyFence: _proxy,
    ops.BulkWait: _bulk_wait, ops.Elect: _elect, ops.MapShared: _map, ops.SetMaxRegisters: _registers,
    ops.GridDependency: _grid, ops.TmaCopy: _tma, ops.BulkCopy: _bulk,
}
