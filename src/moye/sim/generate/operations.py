"""Memory, tile and warp ops as Python source: a call of the plan that the batch holds for the op.

In: a Writer and an op.  Out: one line, such as ``P[7](v12, v9, (), (), (), None, m0)``.

What a plan does is in plans.py, gemm.py and atomics.py.
"""

from __future__ import annotations

from moye.errors import UnsupportedError
from moye.ir import ops
from moye.ir.nodes import Extent, Literal, Operand, Ref, TileRef, Value
from moye.sim.flow.uniformity import SCALAR
from moye.sim.generate.writer import Writer, emits
from moye.sim.operations.async_stores import AsyncStoreSite
from moye.sim.operations.atomics import AtomicSite
from moye.sim.operations.bounds import BoundsSite
from moye.sim.operations.bulk import BulkSite
from moye.sim.operations.device_maps import TensorMapSite
from moye.sim.operations.inline import InlineSite
from moye.sim.operations.mapped_boxes import TmaSite
from moye.sim.operations.matrix_copies import MatrixCopySite
from moye.sim.operations.mma import gemm_site
from moye.sim.operations.plans import CopySite, FindSite, InspectSite, LoadSite, MapSite, ReduceSite, StoreSite
from moye.sim.operations.wgmma import WgmmaSite


def _tuple(parts: list[str]) -> str:
    return f"({', '.join(parts)},)" if parts else "()"


def dynamic(w: Writer, extents: tuple[Extent, ...], *, uniform: ops.Op | None = None) -> str:
    """The run-time ones among extents or strides, as a tuple."""
    values = [extent for extent in extents if isinstance(extent, Value)]
    if uniform is not None and any(w.level(value) != SCALAR for value in values):
        raise UnsupportedError("the simulator cannot run a tile operation whose extents differ between threads",
                               locs=(uniform.loc,))
    return _tuple([w.operand(value) for value in values])


def ref_of(w: Writer, ref: Ref | TileRef) -> str:
    """Its offset, with the column of the block where that may be another one."""
    base = ref.buffer.base
    return w.operand(ref.offset) if base is None else f"({w.operand(ref.offset)}, {w.operand(base)})"


def _optional(w: Writer, operand: Operand | None) -> str:
    return "None" if operand is None else w.operand(operand)


@emits(ops.Load)
def emit_load(w: Writer, op: ops.Load) -> None:
    w.line(f"{w.name(op.result)} = P[{w.site(LoadSite(op))}]({ref_of(w, op.ref)}, {w.mask})")


@emits(ops.Store)
def emit_store(w: Writer, op: ops.Store) -> None:
    w.line(f"P[{w.site(StoreSite(op))}]({ref_of(w, op.ref)}, {w.operand(op.value)}, {w.mask})")


@emits(ops.Atomic)
def emit_atomic(w: Writer, op: ops.Atomic) -> None:
    w.line(f"{w.name(op.result)} = P[{w.site(AtomicSite(op))}]({ref_of(w, op.ref)}, {w.operand(op.value)}, "
           f"{_optional(w, op.compare)}, {w.mask}{''.join(f', {w.operand(x)}' for x in op.more)})")


@emits(ops.Fence)
def emit_fence(w: Writer, op: ops.Fence) -> None:
    """Simulated memory is sequentially consistent; what a fence orders is judged by the checkers."""
    if w.check:
        w.line(f"B.watch.fence({w.op(op)}, {w.mask})")


@emits(ops.NanoSleep)
def emit_nano_sleep(w: Writer, op: ops.NanoSleep) -> None:
    """Nothing: simulated threads have no clock, and no order of theirs depends on time."""


@emits(ops.Pin)
def emit_pin(w: Writer, op: ops.Pin) -> None:
    """Simulated statements are in the order of the source; registers of products in flight are told of."""
    for tile in op.tiles if w.check else ():
        w.line(f"B.watch.pinned({w.op(op)}, B.fragments[{tile.buffer.id}], {w.mask})")


@emits(ops.Landed)
def emit_landed(w: Writer, op: ops.Landed) -> None:
    """Nothing: a simulated load is done before the next statement."""


@emits(ops.Alloc)
def emit_alloc(w: Writer, op: ops.Alloc) -> None:
    """A register fragment begins as poison; shared memory is poisoned when its blocks start."""
    if op.buffer.space.value == "rmem":
        w.line(f"B.fragments[{op.buffer.id}].reset({w.mask})")
    elif w.check:
        w.line(f"B.watch.checker.allocate({w.op(op)}, B.lanes({w.mask}))")


@emits(ops.Copy)
def emit_copy(w: Writer, op: ops.Copy) -> None:
    pred = "None"
    if isinstance(op.pred, TileRef):
        pred = ref_of(w, op.pred)
    elif op.pred is not None:
        pred = w.operand(op.pred)
    other = "" if op.other is None else f", {w.operand(op.other)}"
    site = MatrixCopySite(op) if op.atom.matrices else CopySite(op)
    w.line(f"P[{w.site(site)}]({ref_of(w, op.dst)}, {ref_of(w, op.src)}, {dynamic(w, op.dst.strides)}, "
           f"{dynamic(w, op.src.strides)}, {dynamic(w, op.extents, uniform=op)}, {pred}, {w.mask}{other})")


@emits(ops.Gemm)
def emit_gemm(w: Writer, op: ops.Gemm) -> None:
    w.line(f"P[{w.site(gemm_site(op))}]({w.mask})")


@emits(ops.Map)
def emit_map(w: Writer, op: ops.Map) -> None:
    site = w.site(MapSite(op))
    inputs = [w.name(value) for value in op.inputs]
    if inputs:
        offsets = _tuple([ref_of(w, ref) for ref in op.sources])
        w.line(f"{', '.join(inputs)}, = P[{site}].read({offsets}, {w.mask})")
    w.block(op.body)  # type: ignore[attr-defined]
    value = w.operand(op.value)
    w.line(f"P[{site}].write({ref_of(w, op.dst)}, {value}, {w.mask})")


@emits(ops.Bounds)
def emit_bounds(w: Writer, op: ops.Bounds) -> None:
    """The place of the element is worked out only where a check fails."""
    if not w.check:
        return
    site = w.site(BoundsSite(op))
    checks = _tuple([_tuple([w.operand(check.offset), dynamic(w, check.strides), _extent(w, check.extent)])
                     for check in op.checks])
    pred = "None" if op.pred is None else ref_of(w, op.pred) if isinstance(op.pred, TileRef) else w.operand(op.pred)
    points = dynamic(w, op.points, uniform=op)
    bad = w.fresh("b")
    w.line(f"{bad} = P[{site}]({checks}, {points}, {pred}, {w.mask})")
    w.line(f"if {bad} is not None:")
    with w.indented():
        w.block(op.body)  # type: ignore[attr-defined]
        place = _tuple([_tuple([w.operand(index.offset), dynamic(w, index.strides)]) for index in op.place])
        shape = _tuple([_extent(w, extent) for extent in op.shape])
        there = "None" if op.buffer.base is None else w.operand(op.buffer.base)
        w.line(f"P[{site}].report({bad}, {place}, {shape}, {points}, {there})")


def _extent(w: Writer, extent: Extent) -> str:
    return str(extent) if isinstance(extent, int) else w.operand(extent)


@emits(ops.Reduce)
def emit_reduce(w: Writer, op: ops.Reduce) -> None:
    w.line(f"{w.name(op.result)} = P[{w.site(ReduceSite(op))}]({ref_of(w, op.src)}, {w.mask})")


@emits(ops.Find)
def emit_find(w: Writer, op: ops.Find) -> None:
    w.line(f"{w.name(op.result)} = P[{w.site(FindSite(op))}]({ref_of(w, op.src)}, {w.operand(op.value)}, {w.mask})")


@emits(ops.CpAsyncCommit)
def emit_commit(w: Writer, op: ops.CpAsyncCommit) -> None:
    w.line(f"B.copies.commit({w.mask})")
    if w.check:
        w.line(f"B.watch.checker.commit({w.op(op)}, B.lanes({w.mask}))")


@emits(ops.CpAsyncWait)
def emit_wait(w: Writer, op: ops.CpAsyncWait) -> None:
    if w.check:
        w.line(f"B.watch.waiting({w.op(op)}, B.copies)")
    w.line(f"B.copies.wait({op.pending!r}, {w.mask})")
    if w.check:
        trips = ", ".join(f"{iv.name!r}: {w.name(iv)}" for iv in w.loops.get(id(op), ()))
        w.line(f"B.watch.waited({w.op(op)}, B.lanes({w.mask}), {{{trips}}})")


@emits(ops.Shuffle)
def emit_shuffle(w: Writer, op: ops.Shuffle) -> None:
    w.line(f"{w.name(op.result)} = shuffle(B, {w.op(op)}, {w.operand(op.value)}, {w.operand(op.lane)}, {w.mask})")


@emits(ops.Vote)
def emit_vote(w: Writer, op: ops.Vote) -> None:
    w.line(f"{w.name(op.result)} = vote(B, {w.op(op)}, {w.operand(op.pred)}, {w.mask})")


@emits(ops.Redux)
def emit_redux(w: Writer, op: ops.Redux) -> None:
    w.line(f"{w.name(op.result)} = redux(B, {w.op(op)}, {w.operand(op.value)}, {w.mask})")


@emits(ops.Match)
def emit_match(w: Writer, op: ops.Match) -> None:
    w.line(f"{w.name(op.result)} = match(B, {w.op(op)}, {w.operand(op.value)}, {w.mask})")


@emits(ops.Inline)
def emit_inline(w: Writer, op: ops.Inline) -> None:
    _snippet(w, op, uniform=w.level(op.result) == SCALAR)


@emits(ops.InlineEffect)
def emit_inline_effect(w: Writer, op: ops.InlineEffect) -> None:
    _snippet(w, op, uniform=False)


def _snippet(w: Writer, op: ops.Inline | ops.InlineEffect, *, uniform: bool) -> None:
    if op.snippet.meaning is None:
        raise UnsupportedError(f"the simulator does not know what {op.snippet} means",
                               hint="simulate= takes a function of NumPy arrays, one for each operand", locs=(op.loc,))
    site = w.site(InlineSite(op, uniform=uniform))
    call = f"P[{site}]({_tuple([w.operand(argument) for argument in op.arguments])})"
    if op.result is None or len(op.snippet.gives) == 1:
        w.line(call if op.result is None else f"{w.name(op.result)} = {call}")
        return
    w.line(f"{w.name(op.result)}_all = {call}")
    w.line(f"{w.name(op.result)} = {w.name(op.result)}_all[0]")


@emits(ops.InlinePart)
def emit_inline_part(w: Writer, op: ops.InlinePart) -> None:
    """It stands right behind the snippet, in the same function of the program."""
    w.line(f"{w.name(op.result)} = {w.operand(op.first)}_all[{op.index}]")


@emits(ops.Print)
def emit_print(w: Writer, op: ops.Print) -> None:
    values = _tuple([w.operand(part) for part in op.parts if not isinstance(part, str)])
    w.line(f"say({w.op(op)}, {values}, {w.mask}, B)")


@emits(ops.Assert)
def emit_assert(w: Writer, op: ops.Assert) -> None:
    if not w.check:
        return
    cond = w.operand(op.cond)
    if isinstance(op.cond, Literal) or w.level(op.cond) == SCALAR:
        w.line(f"if not {cond}: B.watch.assertion({w.op(op)}, False, {w.mask})")
    else:
        w.line(f"B.watch.assertion({w.op(op)}, {cond}, {w.mask})")


@emits(ops.Inspect)
def emit_inspect(w: Writer, op: ops.Inspect) -> None:
    places = [_tuple([ref_of(w, ref), dynamic(w, ref.strides), dynamic(w, extents, uniform=op)])
              for _, ref, extents in op.tensors]
    scalars = _tuple([w.operand(scalar) for _, scalar in op.scalars])
    w.line(f"P[{w.site(InspectSite(op))}]({_tuple(places)}, {scalars}, {w.mask})")


# --- the ops of sm_90 as Python source -------------------------------------------------------------------------------


@emits(ops.MbarrierInit)
def emit_init(w: Writer, op: ops.MbarrierInit) -> None:
    w.line(f"B.mbarriers.init({w.op(op)}, {w.operand(op.ref.offset)}, {w.operand(op.count)}, {w.mask})")


@emits(ops.MbarrierArrive)
def emit_arrive(w: Writer, op: ops.MbarrierArrive) -> None:
    w.line(f"B.mbarriers.arrive({w.op(op)}, {w.operand(op.ref.offset)}, {_optional(w, op.bytes)}, "
           f"{_optional(w, op.rank)}, {w.mask})")


@emits(ops.MbarrierTest)
def emit_test(w: Writer, op: ops.MbarrierTest) -> None:
    w.line(f"{w.name(op.result)} = B.mbarriers.test({w.op(op)}, {w.operand(op.ref.offset)}, {w.operand(op.parity)}, "
           f"{w.mask})")


@emits(ops.ProxyFence)
def emit_proxy_fence(w: Writer, op: ops.ProxyFence) -> None:
    if w.check:
        w.line(f"B.watch.proxy_fence({w.op(op)}, B.lanes({w.mask}))")


@emits(ops.TmaCopy)
def emit_tma(w: Writer, op: ops.TmaCopy) -> None:
    offset = "None" if op.smem is None else w.operand(op.smem.offset)
    barrier = "None" if op.barrier is None else w.operand(op.barrier.offset)
    first = "".join(f"{w.operand(x)}, " for x in (*op.coordinates, *op.offsets))
    place = "" if op.map is None else f", {w.operand(op.map.offset)}"
    w.line(f"P[{w.site(TmaSite(op))}]({offset}, ({first}), {barrier}, {_optional(w, op.multicast)}, {w.mask}{place})")


@emits(ops.TensorMapCopy)
def emit_map_copy(w: Writer, op: ops.TensorMapCopy) -> None:
    w.line(f"P[{w.site(TensorMapSite(op))}].copy({w.operand(op.map.offset)}, {w.mask})")


@emits(ops.TensorMapUpdate)
def emit_map_update(w: Writer, op: ops.TensorMapUpdate) -> None:
    source = "None" if op.source is None else w.operand(op.source.offset)
    extents, strides = (_tuple([w.operand(x) for x in operands]) for operands in (op.extents, op.strides))
    w.line(f"P[{w.site(TensorMapSite(op))}].update({w.operand(op.map.offset)}, {_optional(w, op.address)}, {source}, "
           f"{extents}, {strides}, {w.mask})")


@emits(ops.TensorMapRelease)
def emit_map_release(w: Writer, op: ops.TensorMapRelease) -> None:
    w.line(f"P[{w.site(TensorMapSite(op))}].release({w.operand(op.dst.offset)}, {w.operand(op.src.offset)}, {w.mask})")


@emits(ops.TensorMapAcquire)
def emit_map_acquire(w: Writer, op: ops.TensorMapAcquire) -> None:
    w.line(f"P[{w.site(TensorMapSite(op))}].acquire({w.operand(op.map.offset)}, {w.mask})")


@emits(ops.BulkCopy)
def emit_bulk_copy(w: Writer, op: ops.BulkCopy) -> None:
    dst, barrier = ("None" if ref is None else w.operand(ref.offset) for ref in (op.dst, op.barrier))
    column = _optional(w, None if op.dst is None else op.dst.buffer.base)
    w.line(f"P[{w.site(BulkSite(op))}]({dst}, {w.operand(op.src.offset)}, {w.operand(op.bytes)}, {barrier}, {column}, "
           f"{_optional(w, op.multicast)}, {w.mask})")


@emits(ops.AsyncStore)
def emit_async_store(w: Writer, op: ops.AsyncStore) -> None:
    assert op.dst.buffer.base is not None, "it goes to a block of the cluster"
    values = "".join(f"{w.operand(value)}, " for value in op.values)
    w.line(f"P[{w.site(AsyncStoreSite(op))}]({w.operand(op.dst.offset)}, ({values}), {w.operand(op.barrier.offset)}, "
           f"{w.operand(op.dst.buffer.base)}, {w.mask})")


@emits(ops.BulkCommit)
def emit_bulk_commit(w: Writer, op: ops.BulkCommit) -> None:
    w.line(f"B.tensor_copies.commit({w.mask})")


@emits(ops.BulkWait)
def emit_bulk_wait(w: Writer, op: ops.BulkWait) -> None:
    w.line(f"B.tensor_copies.wait({w.op(op)}, {w.mask})")


@emits(ops.Wgmma)
def emit_wgmma(w: Writer, op: ops.Wgmma) -> None:
    w.line(f"P[{w.site(WgmmaSite(op))}]({w.operand(op.a.offset)}, {w.operand(op.b.offset)}, "
           f"{w.operand(op.accumulate)}, {w.mask})")


@emits(ops.WgmmaFence)
def emit_wgmma_fence(w: Writer, op: ops.WgmmaFence) -> None:
    if w.check:
        w.line(f"B.watch.wgmma.fence(B.lanes({w.mask}))")


@emits(ops.WgmmaCommit)
def emit_wgmma_commit(w: Writer, op: ops.WgmmaCommit) -> None:
    w.line(f"B.products.commit({w.op(op)}, {w.mask})")


@emits(ops.WgmmaWait)
def emit_wgmma_wait(w: Writer, op: ops.WgmmaWait) -> None:
    w.line(f"B.products.wait({w.op(op)}, {w.mask})")


@emits(ops.Elect)
def emit_elect(w: Writer, op: ops.Elect) -> None:
    w.line(f"{w.name(op.result)} = elect(B, {w.mask})")


@emits(ops.MapShared)
def emit_map_shared(w: Writer, op: ops.MapShared) -> None:
    """Which of the batch's blocks has the rank stands for the address there."""
    w.line(f"{w.name(op.result)} = B.cluster.mapped({w.op(op)}, {w.operand(op.rank)}, {w.mask})")


@emits(ops.ClusterArrive)
def emit_cluster_arrive(w: Writer, op: ops.ClusterArrive) -> None:
    w.line(f"B.cluster.arrive({w.op(op)}, {w.mask})")


@emits(ops.SetMaxRegisters)
def emit_registers(w: Writer, op: ops.SetMaxRegisters) -> None:
    if w.check:
        w.line(f"B.budgets.change({w.op(op)}, {w.mask})")


@emits(ops.GridDependency)
def emit_dependency(w: Writer, op: ops.GridDependency) -> None:
    """The order of launches changes no value of one launch."""
    if w.check:
        w.line(f"B.watch.{'waited_for' if op.kind == 'wait' else 'let_begin'}_launches(B.lanes({w.mask}))")
