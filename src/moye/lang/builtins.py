"""The kernel language's own functions: indices, barriers, asynchronous copies, warp operations, atomics, math.

In: scalars and tensors of the kernel being traced.  Out: one op each.

    tid = mo.thread_idx().x; mo.sync_threads(); mo.atomic_add(counter, 0, 1)

Each docstring names the PTX instruction (PTX ISA) that the operation stands for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, get_args

from moye import dtypes as dt
from moye import layout
from moye.dtypes import DType, Space
from moye.errors import DTypeError, TensorError, TraceError
from moye.hardware import MOST_THREADS, WARP
from moye.ir import fold, ops
from moye.ir.nodes import Literal, Operand, Ref, Value
from moye.lang.loops import MOST_TURNS
from moye.layout.tuples import IntTuple
from moye.tensor import expr
from moye.tensor.context import builder, locate, tracing
from moye.tensor.expr import Expr, Int, Scalar, operand_of, plain, truth, wrap
from moye.tensor.known import known, weak
from moye.tensor.slices import is_slice, shown
from moye.tensor.tensor import Tensor, elementwise, make_fragment_like

__all__ = [
    "Dim3", "assume", "atomic_add", "atomic_and", "atomic_cas", "atomic_exch", "atomic_max", "atomic_min", "atomic_or",
    "atomic_xor", "ballot", "barrier_arrive", "barrier_sync", "block_dim", "block_idx", "ceil_div",
    "clock", "cp_async_commit", "cp_async_wait", "fence", "globaltimer", "grid_dim", "grid_sync", "lane_idx", "load",
    "min_blocks", "nanosleep", "shuffle_down", "shuffle_idx", "shuffle_up", "shuffle_xor", "static_range", "store",
    "sync_threads", "sync_warp", "thread_idx", "vote_all", "vote_any", "warp_idx", "where",
]

_AXES = ("x", "y", "z")
_FULL = 0xFFFFFFFF
_LONGEST_SLEEP = 1_000_000                              # nanoseconds (PTX ISA, nanosleep)


class Dim3(NamedTuple):
    """Three indices or extents; an index along an axis of extent 1 is the static 0, and such an extent the static 1."""

    x: Any
    y: Any
    z: Any


def _no_arithmetic(indices: Dim3, _: object) -> Any:
    """TraceError: who writes ``mo.thread_idx() + 1`` means one of the three; a tuple would be joined or repeated."""
    raise TraceError(f"the {len(indices)} numbers of mo.thread_idx(), mo.block_idx() and their like have no arithmetic",
                     hint="take one, such as mo.thread_idx().x", locs=(locate(),))


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "mod", "floordiv", "lt", "le", "gt", "ge"):
    setattr(Dim3, f"__{_name}__", _no_arithmetic)


# --- indices ---------------------------------------------------------------------------------------------------------


def _special(kind: str, name: str, lower: int, upper: int | None, divisor: int = 1) -> Scalar:
    if upper is not None and lower == upper:
        return known(lower, dt.int32)
    value = builder().special(kind, lower=lower, upper=upper)
    value.divisor = divisor
    value.name = value.name or name
    return Expr(value)


def thread_idx() -> Dim3:
    """threadIdx: the thread's index within its block (%tid)."""
    block = builder().func.block_dim
    return Dim3(*(_special(f"thread_{a}", f"t{a}", 0, block[i] - 1) for i, a in enumerate(_AXES)))


def block_idx() -> Dim3:
    """blockIdx: the block's index within the grid (%ctaid)."""
    return Dim3(*(_special(f"block_{a}", f"b{a}", 0, None) for a in _AXES))


def block_dim() -> Dim3:
    """blockDim: the threads of a block; static, part of the specialisation (%ntid)."""
    return Dim3(*builder().func.block_dim)


def grid_dim() -> Dim3:
    """gridDim: the number of blocks along each axis, in whole clusters (%nctaid)."""
    cluster = builder().func.cluster_dim
    return Dim3(*(_special(f"grid_{a}", f"grid_{a}", n, None, n) for a, n in zip(_AXES, cluster, strict=True)))


def linear_thread() -> Scalar:
    """The thread's linear index in its block, x fastest."""
    x, y, _ = builder().func.block_dim
    t = thread_idx()
    return t.x + t.y * x + t.z * (x * y)  # type: ignore[no-any-return]


def lane_idx() -> Scalar:
    """The lane within the warp, 0..31 (%laneid)."""
    return linear_thread() % WARP


def warp_idx() -> Scalar:
    """The index of the warp within the block."""
    return linear_thread() // WARP


def ceil_div(a: IntTuple, b: IntTuple) -> IntTuple:
    """Quotients rounded up, mode by mode, as ``moye.layout.ceil_div``; of a symbol of torch's a symbol again.

    Law: ``ceil_div(a, b)`` is the least n with ``n * b >= a``.
    """
    if type(a).__name__ == "SymInt":                    # as an integer it would bind a graph to one shape
        return -(-a // b)  # type: ignore[operator]
    return layout.ceil_div(a, b)


def min_blocks(count: int) -> None:
    """__launch_bounds__(threads, count): the compiler keeps registers few enough for ``count`` blocks on an SM."""
    count = static(count)
    if not isinstance(count, int) or not 1 <= count <= 32:
        raise TraceError(f"min_blocks({count}): a static count from 1 to 32", locs=(locate(),))
    func = builder().func
    func.min_blocks, func.tells_blocks = count, True


def clock() -> Scalar:
    """%clock64: cycles of the multiprocessor."""
    return Expr(builder().special("clock", dtype=dt.int64))


def globaltimer() -> Scalar:
    """%globaltimer: nanoseconds."""
    return Expr(builder().special("globaltimer", dtype=dt.int64))


def is_static(x: object) -> bool:
    """Whether tracing knows x: a number of Python's, what facts decide, any object but a value or tensor of a kernel.

    Of a tuple or list, whether it knows all that is in it.
    """
    if isinstance(x, (tuple, list)):
        return all(map(is_static, x))
    return not isinstance(x, (Expr, Tensor))


def static_range(*bounds: Int) -> range:
    """``range`` with static bounds, unrolled while tracing; the loop variable is a Python int.

    It has at most 16384 turns.
    """
    args: tuple[Any, ...] = tuple(map(static, bounds))
    if not 1 <= len(args) <= 3 or (len(args) == 3 and args[2] == 0):
        raise TraceError(f"static_range{args}: it takes a stop, or start, stop and a step that is not 0",
                         locs=(locate(),))
    if not all(isinstance(a, int) for a in args):
        told = ", ".join(str(a) for a in args)
        raise TraceError(f"static_range({told}): the bounds must be static", hint="use range for a loop of the kernel",
                         locs=(locate(),))
    turns = range(*args)
    count = max(0, -((turns.start - turns.stop) // turns.step))     # len() stops at 2^63
    if count > MOST_TURNS:
        raise TraceError(f"static_range: {count} turns are more than the {MOST_TURNS} that a loop may be "
                         "unrolled to", hint="use range for a loop of the kernel", locs=(locate(),))
    return turns


# --- barriers and asynchronous copies --------------------------------------------------------------------------------


def sync_threads() -> None:
    """__syncthreads (bar.sync 0): wait for every thread of the block, and order their memory accesses."""
    builder().emit(ops.SyncThreads())


def grid_sync() -> None:
    """Wait for every thread of every block of the grid, and order their memory accesses (CUDA's ``grid.sync()``).

    A kernel with it is launched cooperatively: all its blocks run at once, and LaunchError says with the figures if the
    device cannot hold them.  Every thread comes to it, in the same pass of each loop; it works without clusters alone.
    """
    cluster = builder().func.cluster_dim
    if cluster != (1, 1, 1):
        raise TraceError(f"grid_sync() in clusters of {cluster}: cooperative launches are made without clusters",
                         hint="cluster_sync() meets the blocks of a cluster", locs=(locate(),))
    builder().emit(ops.GridSync())


def sync_warp(mask: int = _FULL) -> None:
    """__syncwarp (bar.warp.sync): wait for the lanes in ``mask``, and order their memory accesses."""
    builder().emit(ops.SyncWarp(mask=lane_mask("sync_warp", mask)))


def _named_barrier(kind: Any, barrier: Scalar, threads: int) -> None:
    barrier, threads = static(barrier), static(threads)
    if not isinstance(threads, int) or threads % WARP or not 0 < threads <= MOST_THREADS:
        raise TraceError(f"barrier_{kind}({barrier}, {threads}): the thread count is a multiple of 32 up to 1024",
                         locs=(locate(),), code="C5")
    if isinstance(barrier, int) and not 0 <= barrier <= 15:
        raise TraceError(f"barrier_{kind}({barrier}, {threads}): barriers are 0 to 15", locs=(locate(),),
                         code="C5")
    number = operand_of(barrier)
    if not number.dtype.is_integer:
        raise DTypeError(f"barrier_{kind}({barrier}, {threads}): the barrier is a {number.dtype}, and no integer",
                         locs=(locate(),))
    builder().emit(ops.NamedBarrier(kind=kind, barrier=operand_of(barrier, dt.int32), threads=threads))


def barrier_sync(barrier: Scalar, threads: int) -> None:
    """bar.sync: wait until ``threads`` threads have arrived at named barrier ``barrier``."""
    _named_barrier("sync", barrier, threads)


def barrier_arrive(barrier: Scalar, threads: int) -> None:
    """bar.arrive: arrive at named barrier ``barrier`` without waiting."""
    _named_barrier("arrive", barrier, threads)


def cp_async_commit() -> None:
    """cp.async.commit_group: make this thread's copies so far its newest group."""
    builder().emit(ops.CpAsyncCommit())


def cp_async_wait(pending: int | Expr | None = None) -> None:
    """Wait for this thread's asynchronous copies: all of them, or all but the newest ``pending`` groups.

    This is cp.async.wait_all, or cp.async.wait_group N.  Other threads need a barrier after it.
    """
    pending = static(pending)
    if pending is not None and (not isinstance(pending, int) or pending < 0):
        raise TraceError(f"cp_async_wait({pending}): the count is a static integer >= 0",
                         hint="a loop variable is static in mo.static_range" if isinstance(pending, Expr) else None,
                         locs=(locate(),))
    builder().emit(ops.CpAsyncWait(pending=pending))


def fence(order: str = "acq_rel", scope: str = "gpu") -> None:
    """fence.{acq_rel,sc}.{cta,cluster,gpu,sys}: order this thread's memory accesses."""
    builder().emit(ops.Fence(order=_checked(order, ops.Order), scope=_checked(scope, ops.Scope_)))


def nanosleep(ns: Scalar) -> None:
    """nanosleep.u32: this thread stops for about ``ns`` nanoseconds, at most twice as long; 0 to 1000000.

    It is a hint, for loops that poll: it orders nothing.  The simulator has no time, and does nothing.
    """
    duration = operand_of(ns)
    if not duration.dtype.is_integer:
        raise DTypeError(f"nanosleep takes an integer of nanoseconds, not a {duration.dtype}", locs=(locate(),))
    if isinstance(duration, Literal) and not 0 <= duration.value <= _LONGEST_SLEEP:
        raise TraceError(f"nanosleep({duration.value}): a thread sleeps 0 to {_LONGEST_SLEEP} ns", locs=(locate(),))
    builder().emit(ops.NanoSleep(duration=builder().cast(duration, dt.uint32)))


def _checked(value: str, allowed: Any) -> Any:
    choices = get_args(allowed)
    if value not in choices:
        raise TraceError(f"{value!r} is none of {', '.join(choices)}", locs=(locate(),))
    return value


# --- warps -----------------------------------------------------------------------------------------------------------


def of_each(function: Callable[[Any], Any], registers: Tensor) -> Tensor:
    """A register tensor of what a function of a warp makes of each element, one after the other."""
    if registers.space is not Space.REGISTER:
        raise TensorError(f"{registers.label} is in memory, and warps exchange registers", locs=(locate(),),
                          hint="copy it to mo.make_fragment_like(x) first")
    elements: Any = layout.size(registers.layout)
    made = [function(registers[i]) for i in range(elements)]
    found: Any = make_fragment_like(registers, operand_of(made[0]).dtype)
    for i, value in enumerate(made):
        found[i] = value
    return found  # type: ignore[no-any-return]


_OTHER_WAY = {"up": "shuffle_down(x, n) reads n lanes above", "down": "shuffle_up(x, n) reads n lanes below"}


def _shuffle(kind: Any, value: Any, lane: Scalar, width: int, mask: int) -> Any:
    if isinstance(value, Tensor):
        return of_each(lambda x: _shuffle(kind, x, lane, width, mask), value)
    width, mask = static(width), lane_mask("shuffle", mask)
    if not isinstance(width, int) or width not in (1, 2, 4, 8, 16, 32):
        raise TraceError(f"shuffle width {width!r} is no power of two up to 32", locs=(locate(),))
    operand = operand_of(value)
    dtype, source = operand.dtype, _distance(kind, lane)
    if dtype.is_float and dtype.bits == 8:              # a conversion back would make infinity the largest number
        return _shuffle(kind, Expr(operand).bitcast(dt.uint8), lane, width, mask).bitcast(dtype)
    if dtype.bits < 32:
        operand = builder().cast(operand, dt.float32 if dtype.is_float else dt.int32)
    result = Value(operand.dtype)
    builder().emit(ops.Shuffle(result=result, kind=kind, value=operand, lane=source, width=width, mask=mask))
    return wrap(builder().cast(result, dtype))


def _distance(kind: str, lane: Scalar) -> Operand:
    """The lane or distance of a shuffle: five bits of the instruction, so a constant outside of them is a mistake."""
    operand = operand_of(lane)
    if not operand.dtype.is_integer:
        raise DTypeError(f"shuffle_{kind}: the lane or distance {lane} is a {operand.dtype}, and no integer",
                         locs=(locate(),))
    if isinstance(operand, Literal) and not 0 <= operand.value < WARP:
        raise TraceError(f"shuffle_{kind}: the {'lane' if kind == 'idx' else 'distance'} {operand.value} is not from 0 "
                         f"to 31 (shfl.sync, PTX ISA)", hint=_OTHER_WAY.get(kind) if operand.value < 0 else None,
                         locs=(locate(),))
    return builder().cast(operand, dt.int32)


def shuffle_idx(value: Any, lane: Scalar, width: int = WARP, mask: int = _FULL) -> Any:
    """shfl.sync.idx: the value of lane ``lane`` of the segment, 0 to 31.

    In all shuffles a lane or distance that is known only when the kernel runs counts modulo 32, as in PTX, and a lane
    modulo ``width``.
    Of a register tensor, every element: as many instructions as it has, twice as many of 64 bits.
    """
    return _shuffle("idx", value, lane, width, mask)


def shuffle_up(value: Any, delta: Scalar, width: int = WARP, mask: int = _FULL) -> Any:
    """shfl.sync.up: the value ``delta`` lanes below, 0 to 31, or the thread's own value if there is no such lane."""
    return _shuffle("up", value, delta, width, mask)


def shuffle_down(value: Any, delta: Scalar, width: int = WARP, mask: int = _FULL) -> Any:
    """shfl.sync.down: the value ``delta`` lanes above, 0 to 31, or the thread's own value if there is no such lane."""
    return _shuffle("down", value, delta, width, mask)


def shuffle_xor(value: Any, lanes: Scalar, width: int = WARP, mask: int = _FULL) -> Any:
    """shfl.sync.bfly: the value of the lane whose index differs in the bits ``lanes``, 0 to 31."""
    return _shuffle("xor", value, lanes, width, mask)


def _vote(kind: Any, pred: Scalar, mask: int) -> Scalar:
    result = Value(dt.uint32 if kind == "ballot" else dt.bool_)
    operand = operand_of(pred)
    if operand.dtype is not dt.bool_:
        operand = builder().binary("ne", operand, operand_of(0, operand.dtype))
    builder().emit(ops.Vote(result=result, kind=kind, pred=operand, mask=lane_mask(f"vote_{kind}", mask)))
    return Expr(result)


def ballot(pred: Scalar, mask: int = _FULL) -> Scalar:
    """vote.sync.ballot: a uint32 with the bit of every lane whose predicate holds."""
    return _vote("ballot", pred, mask)


def vote_any(pred: Scalar, mask: int = _FULL) -> Scalar:
    """vote.sync.any: whether the predicate holds in some lane."""
    return _vote("any", pred, mask)


def vote_all(pred: Scalar, mask: int = _FULL) -> Scalar:
    """vote.sync.all: whether the predicate holds in every lane."""
    return _vote("all", pred, mask)


# --- atomics and scoped accesses -------------------------------------------------------------------------------------


def _element(tensor: Tensor, coordinate: object, what: str, *, peers: bool = False) -> Ref:
    """The element; ``peers``: it may lie in another block of the cluster."""
    known = (Space.GLOBAL, Space.SHARED, *([Space.CLUSTER] if peers else []))
    if not isinstance(tensor, Tensor) or tensor.space not in known:
        raise TensorError(f"{what}: {tensor!r} is no global tensor, nor one in this block's shared memory",
                          locs=(locate(),))
    coordinate = tensor.normalised(coordinate)
    if is_slice(coordinate):
        raise TensorError(f"{what}: {tensor.label}[{shown(coordinate)}] is a view, and one element is needed",
                          locs=(locate(),), hint="mo.red(there, registers) takes tiles" if peers else None)
    return tensor.ref(coordinate, write=what != "load")


def _atomic(kind: str, tensor: Tensor, coordinate: object, value: Scalar, order: str, scope: str,
            compare: Scalar | None = None) -> Scalar:
    ref = _element(tensor, coordinate, f"atomic_{kind}", peers=True)
    if ref.buffer.space is Space.CLUSTER and (order != "relaxed" or scope in ("thread", "cta")):
        raise TensorError(f"atomic_{kind}: in the shared memory of another block it is relaxed, of scope cluster or "
                          f"wider, not {order!r} of scope {scope!r}", locs=(locate(),),
                          hint="cluster_sync or an mbarrier orders blocks")
    if ref.dtype not in ops.ATOMICS[kind]:
        raise DTypeError(f"atomic_{kind} on {ref.dtype}: there is one on "
                         f"{', '.join(map(str, ops.ATOMICS[kind]))} alone", locs=(locate(),))
    result = Value(ref.dtype)
    builder().emit(ops.Atomic(result=result, kind=kind, ref=ref, value=operand_of(value, ref.dtype),
                              compare=None if compare is None else operand_of(compare, ref.dtype),
                              order=_checked(order, ops.Order), scope=_checked(scope, ops.Scope_)))
    return Expr(result)


def atomic_add(tensor: Tensor, coordinate: object, value: Scalar, *, order: str = "relaxed",
               scope: str = "gpu") -> Scalar:
    """atom.add: add ``value`` to ``tensor[coordinate]``, and return the old value."""
    return _atomic("add", tensor, coordinate, value, order, scope)


def atomic_min(tensor: Tensor, coordinate: object, value: Scalar, *, order: str = "relaxed",
               scope: str = "gpu") -> Scalar:
    """atom.min; returns the old value.  Of floats and of 16 bits it is a loop around atom.cas, NaNs as in ``min``."""
    return _atomic("min", tensor, coordinate, value, order, scope)


def atomic_max(tensor: Tensor, coordinate: object, value: Scalar, *, order: str = "relaxed",
               scope: str = "gpu") -> Scalar:
    """atom.max; returns the old value.  Of floats and of 16 bits it is a loop around atom.cas, NaNs as in ``max``."""
    return _atomic("max", tensor, coordinate, value, order, scope)


def atomic_and(tensor: Tensor, coordinate: object, value: Scalar, *, order: str = "relaxed",
               scope: str = "gpu") -> Scalar:
    """atom.and on integers; returns the old value."""
    return _atomic("and", tensor, coordinate, value, order, scope)


def atomic_or(tensor: Tensor, coordinate: object, value: Scalar, *, order: str = "relaxed",
              scope: str = "gpu") -> Scalar:
    """atom.or on integers; returns the old value."""
    return _atomic("or", tensor, coordinate, value, order, scope)


def atomic_xor(tensor: Tensor, coordinate: object, value: Scalar, *, order: str = "relaxed",
               scope: str = "gpu") -> Scalar:
    """atom.xor on integers; returns the old value."""
    return _atomic("xor", tensor, coordinate, value, order, scope)


def atomic_exch(tensor: Tensor, coordinate: object, value: Scalar, *, order: str = "relaxed",
                scope: str = "gpu") -> Scalar:
    """atom.exch: store ``value``, and return the old one."""
    return _atomic("exch", tensor, coordinate, value, order, scope)


def atomic_cas(tensor: Tensor, coordinate: object, compare: Scalar, value: Scalar, *, order: str = "relaxed",
               scope: str = "gpu") -> Scalar:
    """atom.cas: store ``value`` if the element has the bits of ``compare``, and return the old value."""
    return _atomic("cas", tensor, coordinate, value, order, scope, compare)


def load(tensor: Tensor, coordinate: object, *, order: str = "acquire", scope: str = "gpu") -> Scalar:
    """ld.{relaxed,acquire}.{scope}: a load that synchronises with a release."""
    if order not in ("relaxed", "acquire"):
        raise TraceError(f'load: order is "relaxed" or "acquire", not {order!r}', locs=(locate(),))
    ref = _element(tensor, coordinate, "load")
    result = Value(ref.dtype)
    builder().emit(ops.Load(result=result, ref=ref, order=_checked(order, ops.Order),
                            scope=_checked(scope, ops.Scope_)))
    return Expr(result)


def store(tensor: Tensor, coordinate: object, value: Scalar, *, order: str = "release", scope: str = "gpu") -> None:
    """st.{relaxed,release}.{scope}: a store that an acquire synchronises with."""
    if order not in ("relaxed", "release"):
        raise TraceError(f'store: order is "relaxed" or "release", not {order!r}', locs=(locate(),))
    ref = _element(tensor, coordinate, "store")
    builder().emit(ops.Store(ref=ref, value=operand_of(value, ref.dtype), order=_checked(order, ops.Order),
                             scope=_checked(scope, ops.Scope_)))


# --- values and promises ---------------------------------------------------------------------------------------------


def where(cond: Any, a: Any, b: Any) -> Any:
    """``a if cond else b`` element by element; both sides are evaluated.  It takes scalars or register tensors."""
    if any(isinstance(x, Tensor) for x in (cond, a, b)):
        return elementwise(expr.where, cond, a, b)
    expr.require_scalar("where", cond, a, b)
    found = expr.where(cond, a, b)
    return expr.typed(found, expr.together(a, b)) if tracing() else found


def assume(cond: Scalar, message: str = "") -> None:
    """Promise that ``cond`` holds; its facts are used from here on.

    The simulator checks the promise, and the launch does so if arguments alone decide it.
    """
    expr.require_scalar("assume", cond)
    if not isinstance(cond, Expr):
        if not cond:
            raise TraceError(f"assume is false while tracing{f': {message}' if message else ''}", locs=(locate(),))
        return
    cond = truth(cond)
    text = message or "an assumption of the kernel does not hold"
    if expr.can_guard(cond.operand):
        fields = _arguments(cond.operand)
        values = ", ".join(f"{name} = {{{name}}}" for name in fields)
        escaped = text.replace("{", "{{").replace("}", "}}")
        builder().guard(cond.operand, f"{escaped} ({values})" if fields else text, fields)
    else:
        builder().emit(ops.Assert(cond=cond.operand, message=text, assume=True))
    _learn(cond.operand)


def _arguments(operand: Operand) -> dict[str, Operand]:
    """The arguments that an expression is made of, by name."""
    if not isinstance(operand, Value):
        return {}
    if operand.id in builder().parameters:
        return {operand.name: operand} if operand.name.isidentifier() else {}
    parts = operand.op.operands() if operand.op is not None else ()
    return {name: value for part in parts for name, value in _arguments(part).items()}


def _learn(cond: Operand) -> None:
    """Learn facts from x % d == 0, comparisons of integers, and conjunctions of them."""
    op = cond.op if isinstance(cond, Value) else None
    if not isinstance(op, ops.Binary):
        return
    if op.kind == "land":
        _learn(op.a)
        _learn(op.b)
        return
    if not op.a.dtype.is_integer:
        return
    inner = op.a.op if isinstance(op.a, Value) else None
    if op.kind == "eq" and op.b == Literal(0, op.b.dtype) and isinstance(inner, ops.Binary) and inner.kind == "mod" \
            and isinstance(inner.b, Literal) and isinstance(inner.a, Value) and inner.b.value > 0:
        builder().learn(inner.a, divisor=int(inner.b.value))
    _learn_relation(op.kind, op.a, op.b)
    _learn_relation({"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}.get(op.kind, op.kind), op.b, op.a)


def _learn_relation(kind: str, x: Operand, other: Operand) -> None:
    """What ``x kind other`` says about the bounds of x, and ``x == other`` about its divisor."""
    if not isinstance(x, Value):
        return
    lower, upper, divisor = fold.facts_of(other)
    top = {"lt": None if upper is None else upper - 1, "le": upper, "eq": upper}.get(kind)
    bottom = {"gt": None if lower is None else lower + 1, "ge": lower, "eq": lower}.get(kind)
    same = divisor if kind == "eq" and (lower, upper) != (0, 0) else 1
    if top is not None or bottom is not None or same > 1:
        builder().learn(x, bottom, top, same)


def dtype_cast(value: Any, dtype: DType) -> Any:
    """``mo.float32(x)``: a traced scalar (or register tensor) of this dtype."""
    if isinstance(value, (Expr, Tensor)):
        return value.to(dtype)
    if isinstance(value, str) and dtype.is_float and value.strip().lower().lstrip("+-") in ("inf", "infinity", "nan"):
        value = float(value)                            # as NumPy takes them
    if dtype.is_float and type(value) in (int, float) and abs(value) < 2.0**1023:
        own = dt.rounded(float(value), dtype)           # who converts says that it may become infinite
        value = own if math.isinf(own) else value
    return Expr(operand_of(value, dtype))


dt.conversions[:] = [dtype_cast]

def static(value: Any) -> Any:
    """NumPy's integers, and integers that facts decided, as Python's; anything else stays as it is."""
    return weak(plain(value))


def lane_mask(what: str, mask: Any) -> int:
    """A mask of lanes, with at least one."""
    number = static(mask)
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= _FULL:
        told = hex(number) if isinstance(number, int) else repr(number)
        raise TraceError(f"{what}: the mask {told} is no static number from 1 to 0xffffffff, a bit for each lane",
                         locs=(locate(),))
    return number
