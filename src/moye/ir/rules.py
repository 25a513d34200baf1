"""What must hold of a single op: one rule per class, a sentence if it is broken.

In: an op.  Out: the sentence, None where all is well.

>>> broken(ops.SetMaxRegisters(kind="inc", count=20))
'20 registers: no multiple of 8 from 24 to 256'

What depends on where an op stands is in ``verify.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, get_args, get_origin, get_type_hints
from typing import Literal as OneOf

from moye.atoms.bulk import PART, REDUCED
from moye.dtypes import DType, Kind, Space, bfloat16, bool_, float16, float32, float64, int32, uint16, uint32, uint64
from moye.hardware import MOST_THREADS, WARP
from moye.ir import ops
from moye.ir.nodes import Literal, Operand, Ref, TileRef, Value

O = TypeVar("O", bound=ops.Op)  # noqa: E741
RULES: dict[type[ops.Op], Callable[[Any], str | None]] = {}
_CHOICES: dict[type[ops.Op], list[tuple[str, tuple[object, ...]]]] = {}
"""By class its fields that hold one of a few words, and these words."""
_NAMES = {Space.SHARED: "shared memory", Space.CLUSTER: "shared memory of the cluster"}


def verifies(kind: type[O]) -> Callable[[Callable[[Any], str | None]], Callable[[Any], str | None]]:
    """The rule of ops of this class."""
    def note(rule: Callable[[Any], str | None]) -> Callable[[Any], str | None]:
        RULES[kind] = rule
        return rule
    return note


def broken(op: ops.Op) -> str | None:
    """What is wrong with an op, wherever it stands."""
    for name, words in _choices(type(op)):
        if getattr(op, name) not in words:
            return f"unknown {name} {getattr(op, name)!r}"
    rule = RULES.get(type(op))
    return "the verifier has no rule for it" if rule is None else rule(op)


def _choices(kind: type[ops.Op]) -> list[tuple[str, tuple[object, ...]]]:
    found = _CHOICES.get(kind)
    if found is None:
        found = _CHOICES[kind] = []
        for name, hint in get_type_hints(kind).items():
            words = [get_args(each) for each in (hint, *get_args(hint)) if get_origin(each) is OneOf]
            if words:
                found.append((name, (*words[0], *((None,) if type(None) in get_args(hint) else ()))))
    return found


@verifies(ops.SyncThreads)
@verifies(ops.GridSync)
@verifies(ops.Fence)
@verifies(ops.CpAsyncCommit)
@verifies(ops.BulkCommit)
@verifies(ops.ProxyFence)
@verifies(ops.WgmmaFence)
@verifies(ops.WgmmaCommit)
@verifies(ops.ClusterArrive)
@verifies(ops.ClusterWait)
@verifies(ops.GridDependency)
@verifies(ops.Inspect)
@verifies(ops.Loop)
@verifies(ops.Scope)
def _anything(_: ops.Op) -> str | None:
    """Nothing can be wrong with it but its words."""
    return None


# --- scalars, accesses, tiles, control flow --------------------------------------------------------------------------


@verifies(ops.Declare)
def _declare(op: ops.Declare) -> str | None:
    fits = op.init is None or op.init.dtype == op.var.dtype
    return None if fits else f"{op.var} is {op.var.dtype}, not {op.init.dtype}"     # type: ignore[union-attr]


@verifies(ops.Read)
def _read(op: ops.Read) -> str | None:
    return None if op.result.dtype == op.var.dtype else f"{op.var} is {op.var.dtype}, not {op.result.dtype}"


@verifies(ops.Assign)
def _assign(op: ops.Assign) -> str | None:
    return next((f"{var} is {var.dtype}, not {source.dtype}" for var, source in op.pairs if var.dtype != source.dtype),
                None)


@verifies(ops.Exit)
def _exit(op: ops.Exit) -> str | None:
    if op.kind == "return":
        return None
    wrong = op.target is None or isinstance(op.target, ops.Scope) != (op.kind == "leave")
    return f"{op.kind} of a {type(op.target).__name__}" if wrong else None


@verifies(ops.Alloc)
def _alloc(op: ops.Alloc) -> str | None:
    return f"{op.buffer} has no static size" if op.buffer.elements is None else None


@verifies(ops.Map)
def _map(op: ops.Map) -> str | None:
    if len(op.sources) != len(op.inputs):
        return f"{len(op.sources)} sources but {len(op.inputs)} inputs"
    for ref in (*op.sources, op.dst):
        if len(ref.strides) != len(op.extents):
            return f"{len(ref.strides)} strides over {len(op.extents)} extents"
    return None if op.value.dtype == op.dst.dtype else f"stores {op.value.dtype} into {op.dst.dtype}"


@verifies(ops.Bounds)
def _bounds(op: ops.Bounds) -> str | None:
    return next((f"{len(check.strides)} strides over {len(op.points)} points" for check in (*op.checks, *op.place)
                 if check.strides and len(check.strides) != len(op.points)), None)


@verifies(ops.Reduce)
def _reduce(op: ops.Reduce) -> str | None:
    if op.kind not in ("add", "mul", "min", "max", "and", "or", "xor"):
        return f"unknown kind {op.kind!r}"
    if op.chains < 1 or op.chains & (op.chains - 1) or op.chains > max(1, math.prod(op.extents)):
        return f"{op.chains} chains over the extents {op.extents}"
    return None if op.result.dtype == op.src.dtype else f"reduces {op.src.dtype} to {op.result.dtype}"


@verifies(ops.Find)
def _find(op: ops.Find) -> str | None:
    if op.value.dtype != op.src.dtype or op.result.dtype != int32:
        return f"finds {op.value.dtype} among {op.src.dtype} and gives {op.result.dtype}"
    return None if math.prod(op.extents) else f"searches the extents {op.extents}"


@verifies(ops.Atomic)
def _atomic(op: ops.Atomic) -> str | None:
    if op.kind not in ops.ATOMICS:
        return f"unknown kind {op.kind!r}"
    if (op.compare is not None) != (op.kind == "cas"):
        return "cas compares, nothing else"
    if op.ref.buffer.space is Space.CLUSTER and (op.order != "relaxed" or op.scope in ("thread", "cta")):
        return f"an atomic {op.order} {op.scope} in {op.ref.buffer}"
    if op.more and (op.kind != "add" or 1 + len(op.more) not in ops.VECTORS.get(op.ref.dtype, ())
                    or op.ref.buffer.space is not Space.GLOBAL or op.order not in ("relaxed", "release")):
        return f"{op.kind} of {1 + len(op.more)} {op.ref.dtype} in {op.ref.buffer.space.value} at a time"
    return next((f"{x.dtype} for an element of {op.ref.dtype}" for x in (op.value, op.compare, op.result, *op.more)
                 if x is not None and x.dtype != op.ref.dtype), None)


@verifies(ops.SyncWarp)
def _lanes(op: ops.SyncWarp | ops.Shuffle | ops.Vote | ops.Redux | ops.Match) -> str | None:
    return None if 0 < op.mask < 1 << 32 else f"the lanes {op.mask:#x}"


@verifies(ops.Shuffle)
def _shuffle(op: ops.Shuffle) -> str | None:
    if op.result.dtype != op.value.dtype:
        return f"a shuffle of {op.value.dtype} gives {op.result.dtype}"
    return _lanes(op) if op.width in (1, 2, 4, 8, 16, 32) else f"segments of {op.width} lanes"


@verifies(ops.Vote)
def _vote(op: ops.Vote) -> str | None:
    wanted = uint32 if op.kind == "ballot" else bool_
    if op.pred.dtype != bool_ or op.result.dtype != wanted:
        return f"{op.kind} of {op.pred.dtype} gives {op.result.dtype}"
    return _lanes(op)


@verifies(ops.Redux)
def _redux(op: ops.Redux) -> str | None:
    if op.value.dtype not in (int32, uint32) or op.result.dtype != op.value.dtype:
        return f"redux of {op.value.dtype} gives {op.result.dtype}"
    return _lanes(op)


@verifies(ops.Match)
def _match(op: ops.Match) -> str | None:
    if not op.value.dtype.is_integer or op.value.dtype.bits not in (32, 64) or op.result.dtype != uint32:
        return f"a match of {op.value.dtype} gives {op.result.dtype}"
    return _lanes(op)


@verifies(ops.Print)
def _print(op: ops.Print) -> str | None:
    asked, values = len(op.formats), sum(not isinstance(part, str) for part in op.parts)
    return f"{asked} formats for {values} values" if asked not in (0, values) else None


@verifies(ops.Binary)
def _binary(op: ops.Binary) -> str | None:
    if op.kind not in ops.BINARY:
        return f"unknown kind {op.kind!r}"
    counted = op.kind in ("shl", "shr", "ldexp")
    if not counted and op.a.dtype != op.b.dtype:
        return f"{op.kind} of {op.a.dtype} and {op.b.dtype}"
    wanted: DType = op.result.dtype
    decides = op.kind in ops.COMPARISONS or op.kind in ops.LOGICAL
    if not decides and wanted != op.a.dtype:
        return f"{op.kind} of {op.a.dtype} gives {wanted}"
    if decides and wanted.kind is not Kind.BOOL:
        return f"{op.kind} gives {wanted}, not bool"
    return None if decides or _defined(op.kind, op.a.dtype) else f"{op.kind} of {op.a.dtype}"


def _defined(kind: str, dtype: DType) -> bool:
    """Whether an operation on two numbers is defined on the dtype."""
    if kind == "mul_hi":
        return dtype.is_integer and dtype.bits in (32, 64)
    return dtype.is_float and (kind != "nextafter" or dtype.bits >= 32) if kind in ("div", "pow", *ops.MATH_PAIRS) \
        else True


@verifies(ops.Unary)
def _unary(op: ops.Unary) -> str | None:
    if op.kind not in ops.UNARY:
        return f"unknown kind {op.kind!r}"
    if op.kind in (*ops.MATH, *ops.SLOW_MATH) and not ops.dtype_of_math(op.kind, op.a.dtype):
        return f"{op.kind} of {op.a.dtype}"
    return None


@verifies(ops.Fma)
def _fma(op: ops.Fma) -> str | None:
    dtypes = {op.result.dtype, op.a.dtype, op.b.dtype, op.c.dtype}
    if len(dtypes) > 1:
        return f"gives {op.result.dtype} from {op.a.dtype}, {op.b.dtype} and {op.c.dtype}"
    return None if op.result.dtype in (float16, bfloat16, float32, float64) else f"of {op.result.dtype}"


@verifies(ops.Inline)
@verifies(ops.InlineEffect)
def _inline(op: ops.Inline | ops.InlineEffect) -> str | None:
    snippet, given = op.snippet, tuple(argument.dtype for argument in op.arguments)
    if given != snippet.takes:
        return f"{snippet} takes {snippet.takes}, not {given}"
    wanted = snippet.gives[0] if snippet.gives else None
    found = None if op.result is None else op.result.dtype
    return None if wanted == found else f"{snippet} gives {wanted}, not {found}"


@verifies(ops.InlinePart)
def _inline_part(op: ops.InlinePart) -> str | None:
    made = op.first.op if isinstance(op.first, Value) else None
    if not isinstance(made, (ops.Inline, ops.InlineEffect)):
        return "a part of what is no snippet"
    gives = made.snippet.gives
    fits = 0 < op.index < len(gives) and gives[op.index] == op.result.dtype
    return None if fits else f"result {op.index} of {made.snippet} as {op.result.dtype}"


@verifies(ops.If)
@verifies(ops.Select)
@verifies(ops.Assert)
def _cond(op: ops.If | ops.Select | ops.Assert) -> str | None:
    return None if op.cond.dtype.kind is Kind.BOOL else f"its condition is {op.cond.dtype}, not bool"


@verifies(ops.For)
def _for(op: ops.For) -> str | None:
    if isinstance(op.step, Value):
        if op.step.dtype != op.iv.dtype:                # that it is positive was known where the loop was traced
            return f"its step is {op.step.dtype}, and its variable {op.iv.dtype}"
    elif op.step == 0:
        return "its step is 0"
    if not op.start.dtype == op.stop.dtype == op.iv.dtype:
        return f"bounds {op.start.dtype}, {op.stop.dtype} and variable {op.iv.dtype} differ"
    return None


@verifies(ops.Copy)
def _copy(op: ops.Copy) -> str | None:
    if op.dst.dtype.bits != op.src.dtype.bits:
        return f"copies {op.src.dtype} to {op.dst.dtype}"
    if not len(op.dst.strides) == len(op.src.strides) == len(op.extents):
        return "strides and extents differ in number"
    if op.atom.matrices:
        return _matrices(op)
    if op.atom.bits is not None and op.atom.bits != op.width * op.dst.dtype.bits:
        return f"moves {op.width} {op.dst.dtype} with {op.atom}"
    if op.width * op.dst.dtype.bits > 128:
        return f"an access of {op.width} {op.dst.dtype} is wider than 16 bytes"
    if any(ref.lane != 1 and ref.buffer.space is not Space.REGISTER for ref in (op.dst, op.src)):
        return "an access to memory is not contiguous"
    if (op.atom.hint or op.atom.prefetch) and Space.GLOBAL not in (op.dst.buffer.space, op.src.buffer.space):
        return f"{op.atom} without an end in global memory"
    if op.atom.asynchronous and (op.dst.buffer.space, op.src.buffer.space) != (Space.SHARED, Space.GLOBAL):
        return f"{op.atom} from {op.src.buffer.space.value} to {op.dst.buffer.space.value}"
    if op.other is not None and (op.other.dtype != op.dst.dtype or not op.zero_fill or op.atom.asynchronous):
        return f"fills with {op.other} of {op.other.dtype}"
    return _group(op) if op.group > 1 else None


def _group(op: ops.Copy) -> str | None:
    """Elements that are one access where their predicates allow it."""
    if op.width != 1 or not isinstance(op.pred, TileRef) or not op.extents or op.extents[0] != op.group:
        return f"takes groups of {op.group} without a predicate of as many elements"
    if op.group * op.dst.dtype.bits > 128:
        return f"a group of {op.group} {op.dst.dtype} is wider than 16 bytes"
    if any(ref.strides[0] != 1 and ref.buffer.space is not Space.REGISTER for ref in (op.dst, op.src)):
        return "a group is not contiguous in memory"
    return None


def _matrices(op: ops.Copy) -> str | None:
    spaces = {op.dst.buffer.space, op.src.buffer.space}
    if spaces != {Space.SHARED, Space.REGISTER}:
        return f"{op.atom} from {op.src.buffer.space.value} to {op.dst.buffer.space.value}"
    if op.width * op.dst.dtype.bits != 128 or len(op.registers) * op.dst.dtype.bits != op.atom.bits:
        return f"{op.atom} of rows of {op.width} and {len(op.registers)} values of {op.dst.dtype}"
    return "is predicated" if op.pred is not None else None


@verifies(ops.Gemm)
def _gemm(op: ops.Gemm) -> str | None:
    if len(op.roles) != len(op.extents) or set(op.roles) - set("mnk"):
        return f"roles {op.roles!r} for {len(op.extents)} extents"
    for name in "abcd":
        ref: TileRef = getattr(op, name)
        if ref.buffer.space is not Space.REGISTER:
            return f"operand {name} is not in registers"
        if ref.dtype != getattr(op.mma, f"{name}_dtype"):
            return f"operand {name} is {ref.dtype}, not {getattr(op.mma, name + '_dtype')}"
        for stride, role in zip(ref.strides, op.roles, strict=True):
            if stride and role not in {"a": "mk", "b": "nk", "c": "mn", "d": "mn"}[name]:
                return f"operand {name} moves along {role}"
    if "k" in op.roles and (op.c.buffer, op.c.offset, op.c.strides) != (op.d.buffer, op.d.offset, op.d.strides):
        return "a sum over k must accumulate in place: d is not c"
    return None


@verifies(ops.Wgmma)
def _wgmma(op: ops.Wgmma) -> str | None:
    if len(op.roles) != len(op.extents) or set(op.roles) - set("mnk"):
        return f"roles {op.roles!r} for {len(op.extents)} extents"
    if op.accumulate.dtype.kind is not Kind.BOOL:
        return f"accumulate is {op.accumulate.dtype}, not bool"
    if (op.a_descriptor is not None) != ("a" in op.mma.shared):
        return f"{op.mma} and the descriptor {op.a_descriptor} of a"
    for name in "abd":
        ref: TileRef = getattr(op, name)
        if (ref.buffer.space is Space.SHARED) != (name in op.mma.shared):
            return f"operand {name} is in {ref.buffer.space.value}"
        if ref.dtype != getattr(op.mma, f"{name}_dtype"):
            return f"operand {name} is {ref.dtype}, not {getattr(op.mma, name + '_dtype')}"
        if len(ref.strides) != len(op.roles) or any(
                stride and role not in {"a": "mk", "b": "nk", "d": "mn"}[name]
                for stride, role in zip(ref.strides, op.roles, strict=True)):
            return f"operand {name} moves by {ref.strides} along {op.roles!r}"
    return None


@verifies(ops.Store)
def _store(op: ops.Store) -> str | None:
    if op.order is not None and op.ref.buffer.space is Space.CLUSTER:
        return f"an ordered store into {op.ref.buffer}"
    return None if op.value.dtype == op.ref.dtype else f"stores {op.value.dtype} into {op.ref.dtype}"


@verifies(ops.Load)
def _load(op: ops.Load) -> str | None:
    if op.order is not None and op.ref.buffer.space is Space.CLUSTER:
        return f"an ordered load from {op.ref.buffer}"
    return None if op.result.dtype == op.ref.dtype else f"loads {op.ref.dtype} as {op.result.dtype}"


@verifies(ops.Pin)
def _pin(op: ops.Pin) -> str | None:
    other = next((tile.buffer for tile in op.tiles if tile.buffer.space is not Space.REGISTER), None)
    return None if other is None else f"pins {other}, which is no register tensor"


@verifies(ops.Landed)
def _landed(op: ops.Landed) -> str | None:
    other = next((ref.buffer for ref in op.elements if ref.buffer.space is not Space.REGISTER), None)
    return None if other is None else f"waits for {other}, which is no register tensor"


@verifies(ops.NanoSleep)
def _nano_sleep(op: ops.NanoSleep) -> str | None:
    return None if op.duration.dtype == uint32 else f"sleeps {op.duration.dtype}, not uint32"


@verifies(ops.NamedBarrier)
def _named_barrier(op: ops.NamedBarrier) -> str | None:
    return None if op.threads % WARP == 0 and 0 < op.threads <= MOST_THREADS else f"{op.threads} threads"


@verifies(ops.Cast)
def _cast(op: ops.Cast) -> str | None:
    return f"bitcast of {op.a.dtype} to {op.result.dtype}" if op.bits and op.a.dtype.bits != op.result.dtype.bits \
        else None


@verifies(ops.Special)
def _special(op: ops.Special) -> str | None:
    return None if op.kind in ops.SPECIALS else f"unknown kind {op.kind!r}"


# --- sm_90 -----------------------------------------------------------------------------------------------------------


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


@verifies(ops.MbarrierInit)
def _init(op: ops.MbarrierInit) -> str | None:
    return _barrier(op.ref) or _integers(count=op.count)


@verifies(ops.MbarrierArrive)
def _arrive(op: ops.MbarrierArrive) -> str | None:
    if not op.arrives and (op.bytes is None or op.rank is not None):
        return "without an arrival it expects bytes at a barrier of its own block"
    if op.copies and not (op.arrives and op.bytes is None and op.rank is None):
        return "an arrival of copies is one at a barrier of its own block, which expects no bytes"
    return _barrier(op.ref) or _integers(bytes=op.bytes, rank=op.rank)


@verifies(ops.MbarrierTest)
def _test(op: ops.MbarrierTest) -> str | None:
    if op.result.dtype is not bool_:
        return f"gives {op.result.dtype}, not bool"
    return _barrier(op.ref) or _integers(parity=op.parity)


@verifies(ops.MbarrierWait)
def _wait(op: ops.MbarrierWait) -> str | None:
    return _barrier(op.ref) or _integers(parity=op.parity)


@verifies(ops.BulkWait)
@verifies(ops.WgmmaWait)
@verifies(ops.CpAsyncWait)
def _groups(op: ops.BulkWait | ops.WgmmaWait | ops.CpAsyncWait) -> str | None:
    return None if op.pending is None or op.pending >= 0 else f"waits for all but {op.pending} groups"


@verifies(ops.TmaCopy)
def _tma(op: ops.TmaCopy) -> str | None:
    if op.tensor.space is not Space.GLOBAL:
        return f"its tensor is in {op.tensor.space.value}"
    if op.map is not None and (wrong := _map_at(op.map, Space.GLOBAL)):
        return wrong
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
    if op.gathered and (len(op.coordinates) != 5 or op.offsets or op.kind == "reduce" or op.multicast is not None):
        return "four rows have five coordinates, are not reduced, and go to one block"
    if op.offsets and (len(op.offsets) != len(op.coordinates) - 2 or op.kind not in ("load", "prefetch_box")):
        return f"a {op.kind} with {len(op.coordinates)} coordinates and {len(op.offsets)} offsets"
    if any(x.dtype != uint16 for x in op.offsets):
        return f"its offsets are {', '.join(str(x.dtype) for x in op.offsets)}, not uint16"
    coordinates = _integers(**{f"coordinate {d}": x for d, x in enumerate(op.coordinates)})
    return coordinates or (None if op.barrier is None else _barrier(op.barrier))


def _map_at(ref: Ref, space: Space) -> str | None:
    if ref.buffer.space is not space or ref.swizzle is not None or ref.dtype.bits != 64 or not ref.dtype.is_integer:
        return f"its tensor map is {ref.dtype} in {ref.buffer.space.value}, not 64-bit integers in {space.value}"
    return None


@verifies(ops.TensorMapCopy)
def _map_copy(op: ops.TensorMapCopy) -> str | None:
    return _map_at(op.map, Space.SHARED)


@verifies(ops.TensorMapUpdate)
def _map_update(op: ops.TensorMapUpdate) -> str | None:
    if op.address is not None and (op.source is not None or op.address.dtype != uint64):
        return f"its address is {op.address.dtype}, or that of an element too"
    if op.source is not None and op.source.buffer.space is not Space.GLOBAL:
        return f"it describes an array in {op.source.buffer.space.value}"
    if len(op.extents) > 5 or len(op.strides) > 4 or any(x.dtype != uint64 for x in op.strides):
        return f"{len(op.extents)} extents, and strides {', '.join(str(x.dtype) for x in op.strides)}"
    return _map_at(op.map, Space.SHARED) or _integers(**{f"extent {d}": x for d, x in enumerate(op.extents)})


@verifies(ops.TensorMapRelease)
def _map_release(op: ops.TensorMapRelease) -> str | None:
    return _map_at(op.dst, Space.GLOBAL) or _map_at(op.src, Space.SHARED)


@verifies(ops.TensorMapAcquire)
def _map_acquire(op: ops.TensorMapAcquire) -> str | None:
    return _map_at(op.map, Space.GLOBAL)


_PLACES = {"load": (Space.SHARED, Space.GLOBAL), "send": (Space.CLUSTER, Space.SHARED),
           "store": (Space.GLOBAL, Space.SHARED), "reduce": (Space.GLOBAL, Space.SHARED),
           "prefetch": (None, Space.GLOBAL)}


@verifies(ops.BulkCopy)
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
    if op.kind == "reduce" and op.src.dtype not in REDUCED[op.by]:
        return f"combines {op.src.dtype} by {op.by}"
    home = Space.CLUSTER if op.kind == "send" else Space.SHARED
    return _integers(bytes=op.bytes) or (None if op.barrier is None else _barrier(op.barrier, home))


@verifies(ops.AsyncStore)
def _async_store(op: ops.AsyncStore) -> str | None:
    spaces = {ref.buffer.space for ref in (op.dst, op.barrier)}
    if spaces != {Space.CLUSTER} or not _same_rank(op):
        return "its memory and its mbarrier are not in one block of the cluster"
    bits = len(op.values) * op.dst.dtype.bits
    if any(value.dtype != op.dst.dtype for value in op.values) or bits not in (32, 64, 128) or op.dst.dtype.bits < 32:
        return f"stores {', '.join(str(value.dtype) for value in op.values)} as {op.dst.dtype}"
    if op.by is not None and len(op.values) != 1:
        return f"combines {len(op.values)} elements at once"
    return _barrier(op.barrier, Space.CLUSTER)


def _same_rank(op: ops.AsyncStore) -> bool:
    """Whether both addresses are of one block, as far as their ranks tell."""
    mapped = [ref.buffer.base.op if ref.buffer.base is not None else None for ref in (op.dst, op.barrier)]
    ranks = [base.rank if isinstance(base, ops.MapShared) else None for base in mapped]
    return ranks[0] is not None and ranks[0] == ranks[1]


@verifies(ops.Elect)
def _elect(op: ops.Elect) -> str | None:
    return None if op.result.dtype.kind is Kind.BOOL else f"gives {op.result.dtype}, not bool"


@verifies(ops.MapShared)
def _map_shared(op: ops.MapShared) -> str | None:
    if op.buffer.space is not Space.SHARED or op.result.dtype != uint32:
        return f"maps {op.buffer} to an address of {op.result.dtype}"
    return _integers(rank=op.rank)


@verifies(ops.SetMaxRegisters)
def _registers(op: ops.SetMaxRegisters) -> str | None:
    return None if is_register_budget(op.count) else f"{op.count} registers: no multiple of 8 from 24 to 256"


def is_register_budget(count: int) -> bool:
    """Whether setmaxnreg takes this count."""
    return 24 <= count <= 256 and count % 8 == 0


ops.need_all("the verifier", RULES)
