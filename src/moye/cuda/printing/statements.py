"""Scalars, accesses of one element, barriers and debugging as C++ statements: one function per op class.

In: an op.  Out: lines in the kernel's writer.

    PRINTERS[ops.SyncThreads](kernel, op)       # __syncthreads();

Tile ops are in ``tiles.py`` and ``gemm.py``, those of sm_90 in ``hopper.py`` and beside it, control flow in
``control.py``: importing this module imports them all.
"""

from __future__ import annotations

from moye import dtypes as dt
from moye.cuda.printing import (  # noqa: F401  (some only register their functions)
    async_stores,
    atomics,
    bulk_copies,
    control,
    conversions,
    device_maps,
    expressions,
    float_pairs,
    gemm,
    hopper,
    inline,
    masked,
    matrix_copies,
    pairs,
    reductions,
    tensor_copies,
    tiles,
    wgmma,
)
from moye.cuda.printing.context import Kernel
from moye.cuda.printing.dispatch import PRINTERS, prints, run
from moye.cuda.printing.escapes import string
from moye.cuda.printing.expressions import SELECT, Text, assignment, bits_of, c_cast, call, from_bits, infix, negated
from moye.cuda.printing.uses import ORDER
from moye.dtypes import Kind, Space
from moye.errors import IRError, UnsupportedError
from moye.ir import ops
from moye.ir.nodes import Operand, Ref, Value, Var

__all__ = ["PRINTERS", "run"]

_SPECIALS = {f"{ours}_{axis}": f"{theirs}.{axis}" for ours, theirs in
             (("thread", "threadIdx"), ("block", "blockIdx"), ("grid", "gridDim")) for axis in "xyz"}


# --- scalars ---------------------------------------------------------------------------------------------------------


@prints(ops.Special)
def _special(kernel: Kernel, op: ops.Special) -> None:
    if op.kind in ("clock", "globaltimer"):
        kernel.values.before(op)
        clock = "clock64" if op.result.dtype.bits == 64 else "clock"
        name = kernel.helpers.globaltimer() if op.kind == "globaltimer" else clock
        kernel.values.name(op.result, f"{name}()", op.kind)
        return
    reads = hopper.special(kernel.helpers, op.kind)
    if reads is not None:
        call_ = Text(f"{reads}()")
        text = call_ if op.result.dtype == dt.int32 else c_cast(op.result.dtype.cuda, call_)
        kernel.values.define(op, text, initial=call_.text, hint=op.kind)
        return
    if op.kind not in _SPECIALS:
        raise UnsupportedError(f"the CUDA printer does not know the special register {op.kind!r}")
    register = _SPECIALS[op.kind]
    text = Text(register) if op.result.dtype.kind is Kind.UINT else c_cast(op.result.dtype.cuda, Text(register))
    kernel.values.define(op, text, initial=register, hint=op.kind)


@prints(ops.Binary)
def _binary(kernel: Kernel, op: ops.Binary) -> None:
    if (uniform := wgmma.warpgroup(kernel, op)) is not None:
        kernel.values.define(op, uniform, alias=True)
        return
    skipping = op.kind in ops.LOGICAL
    a = kernel.values.operand(op.a)
    b = kernel.values.unordered(op.b) if skipping else kernel.values.operand(op.b)
    kernel.values.define(op, expressions.binary(op, a, b, kernel.helpers))


@prints(ops.Unary)
def _unary(kernel: Kernel, op: ops.Unary) -> None:
    a = kernel.values.operand(op.a)
    source = op.a.op if isinstance(op.a, Value) else None
    if op.kind == "not" and isinstance(source, ops.Binary) and source.a.dtype.is_integer:
        kernel.values.define(op, negated(a, True))
    else:
        kernel.values.define(op, expressions.unary(op, a, kernel.helpers))


@prints(ops.Fma)
def _fma(kernel: Kernel, op: ops.Fma) -> None:
    dtype = op.result.dtype
    name = kernel.helpers.fma_16(dtype) if dtype.bits == 16 else "fmaf" if dtype.bits == 32 else "fma"
    kernel.values.define(op, call(name, *(kernel.values.operand(x) for x in (op.a, op.b, op.c))))


@prints(ops.Select)
def _select(kernel: Kernel, op: ops.Select) -> None:
    values = kernel.values
    a, b = values.unordered(op.a), values.unordered(op.b)
    values.define(op, expressions.select(values.operand(op.cond), a, b))


@prints(ops.Cast)
def _cast(kernel: Kernel, op: ops.Cast) -> None:
    a = kernel.values.operand(op.a)
    renamed = op.bits and op.result.dtype.is_integer and op.a.dtype.is_integer and a.text.isidentifier()
    kernel.values.define(op, expressions.cast(op, a, kernel.helpers), alias=renamed)        # "(unsigned)i" is a name


@prints(ops.Declare)
def _declare(kernel: Kernel, op: ops.Declare) -> None:
    if op.var.advances:
        kernel.memory.declare_pointer(op.var, op.init)
        return
    init = "" if op.init is None else f" = {kernel.values.operand(op.init).text}"
    name = kernel.values.vars[op.var.id] = kernel.names.fresh(op.var.name or "v")
    kernel.writer.line(f"{kernel.helpers.ctype(op.var.dtype)} {name}{init};")


@prints(ops.Read)
def _read(kernel: Kernel, op: ops.Read) -> None:
    name = kernel.values.vars[op.var.id]
    kernel.values.define(op, Text(name, deps=frozenset((op.var.id,))))


@prints(ops.Assign)
def _assign(kernel: Kernel, op: ops.Assign) -> None:
    """In order, with a copy of what an earlier pair overwrites and a later one still needs."""
    values = kernel.values
    if len(op.pairs) == 1 and op.pairs[0][0].advances:
        _advance(kernel, op, *op.pairs[0])
        return
    pairs = [(var, values.operand(source)) for var, source in kernel.uses.pairs(op)]
    pairs = [(var, text) for var, text in pairs if text.text != values.vars[var.id]]
    values.before(op)
    for i, (var, text) in enumerate(pairs):
        for later in range(i + 1, len(pairs)):
            other, needed = pairs[later]
            if var.id in needed.deps:
                pairs[later] = (other, _kept(kernel, other, needed))
        kernel.writer.line(assignment(values.vars[var.id], text))


def _advance(kernel: Kernel, op: ops.Assign, var: Var, source: Operand) -> None:
    """``p += step``."""
    total = source.op if isinstance(source, Value) else None
    if not isinstance(total, ops.Binary) or total.kind != "add":
        raise IRError(f"{var} advances by no sum", locs=(op.loc,))
    by = kernel.values.operand(total.b)
    kernel.values.before(op)
    kernel.writer.line(f"{kernel.values.vars[var.id]} += {by.text};")


def _kept(kernel: Kernel, var: Var, text: Text) -> Text:
    name = kernel.names.fresh(f"{kernel.values.vars[var.id]}_next")
    kernel.writer.line(f"const {kernel.helpers.ctype(var.dtype)} {name} = {text.text};")
    return Text(name)


# --- memory, one element ---------------------------------------------------------------------------------------------


def _pointer(kernel: Kernel, ref: Ref) -> str:
    if ref.buffer.space is Space.REGISTER:
        raise UnsupportedError(f"registers ({ref.buffer.name}) have no address")
    if ref.buffer.space is Space.CLUSTER:
        return kernel.memory.peer_address(ref, kernel.memory.offset(ref)).text
    return kernel.memory.address(ref, kernel.memory.offset(ref)).text


@prints(ops.Load)
def _load(kernel: Kernel, op: ops.Load) -> None:
    if op.order is None:
        kernel.values.define(op, kernel.memory.element(op.ref, kernel.memory.offset(op.ref)))
        return
    pointer = _pointer(kernel, op.ref)
    kernel.values.before(op)
    load = kernel.helpers.load(op.ref.dtype, op.ref.buffer.space, op.order, op.scope)
    _effect(kernel, op.result, f"{load}({pointer})")


@prints(ops.Store)
def _store(kernel: Kernel, op: ops.Store) -> None:
    value = kernel.values.operand(op.value)
    if op.order is None:
        line = kernel.memory.set(op.ref, kernel.memory.offset(op.ref), value)
        kernel.values.before(op)
        kernel.writer.line(line)
        return
    pointer = _pointer(kernel, op.ref)
    kernel.values.before(op)
    store = kernel.helpers.store(op.ref.dtype, op.ref.buffer.space, op.order, op.scope)
    kernel.writer.line(f"{store}({pointer}, {value.text});")


@prints(ops.Atomic)
def _atomic(kernel: Kernel, op: ops.Atomic) -> None:
    values = kernel.values
    arguments = [_pointer(kernel, op.ref)]
    if op.compare is not None:
        arguments.append(values.operand(op.compare).text)
    arguments += [values.operand(x).text for x in (op.value, *op.more)]
    values.before(op)
    if op.more:
        name = atomics.vector(kernel.helpers, op.ref.dtype, len(op.more) + 1, op.order, op.scope)
        kernel.writer.line(f"{name}({', '.join(arguments)});")
        return
    used = bool(kernel.uses.count.get(op.result.id))
    name = atomics.atomic(kernel.helpers, op.kind, op.ref.dtype, op.ref.buffer.space, op.order, op.scope, used,
                          kernel.capability)
    _effect(kernel, op.result, f"{name}({', '.join(arguments)})")


def _effect(kernel: Kernel, result: Value, text: str) -> None:
    """A call that must happen here, whether or not its result is used."""
    if kernel.uses.count.get(result.id):
        kernel.values.name(result, text)
    else:
        kernel.writer.line(f"{text};")


# --- tiles -----------------------------------------------------------------------------------------------------------


@prints(ops.Alloc)
def _alloc(kernel: Kernel, op: ops.Alloc) -> None:
    kernel.writer.line(kernel.memory.declaration(op.buffer))


@prints(ops.Map)
def _map(kernel: Kernel, op: ops.Map) -> None:
    ways = conversions.packed, conversions.paired, pairs.map_, float_pairs.map_
    if not any(way(kernel, op) for way in ways):
        tiles.map_(kernel, op)


@prints(ops.Copy)
def _copy(kernel: Kernel, op: ops.Copy) -> None:
    (matrix_copies if op.atom.matrices else masked if op.group > 1 else tiles).copy(kernel, op)


# --- threads together ------------------------------------------------------------------------------------------------


def _line(kernel: Kernel, op: ops.Op, text: str) -> None:
    kernel.values.before(op)
    kernel.writer.line(text)


@prints(ops.SyncThreads)
def _sync_threads(kernel: Kernel, op: ops.SyncThreads) -> None:
    _line(kernel, op, "__syncthreads();")


@prints(ops.GridSync)
def _grid_sync(kernel: Kernel, op: ops.GridSync) -> None:
    _line(kernel, op, f"{kernel.helpers.grid_sync()}();")


@prints(ops.SyncWarp)
def _sync_warp(kernel: Kernel, op: ops.SyncWarp) -> None:
    _line(kernel, op, "__syncwarp();" if op.mask == 0xFFFFFFFF else f"__syncwarp({_mask(op.mask)});")


@prints(ops.NamedBarrier)
def _named_barrier(kernel: Kernel, op: ops.NamedBarrier) -> None:
    barrier = kernel.values.operand(op.barrier).text
    _line(kernel, op, f"{kernel.helpers.named_barrier(op.kind)}({barrier}, {op.threads});")


@prints(ops.Fence)
def _fence(kernel: Kernel, op: ops.Fence) -> None:
    _line(kernel, op, f"{kernel.helpers.fence(op.order, op.scope)}();")


@prints(ops.NanoSleep)
def _nano_sleep(kernel: Kernel, op: ops.NanoSleep) -> None:
    _line(kernel, op, f"__nanosleep({kernel.values.operand(op.duration).text});")


@prints(ops.CpAsyncCommit)
def _commit(kernel: Kernel, op: ops.CpAsyncCommit) -> None:
    _line(kernel, op, f"{kernel.helpers.cp_async_commit()}();")


@prints(ops.CpAsyncWait)
def _wait(kernel: Kernel, op: ops.CpAsyncWait) -> None:
    name = kernel.helpers.cp_async_wait_all() if op.pending is None else \
        f"{kernel.helpers.cp_async_wait_group()}<{op.pending}>"
    _line(kernel, op, f"{name}();")


def _mask(mask: int) -> str:
    return f"{mask:#010x}u"


@prints(ops.Shuffle)
def _shuffle(kernel: Kernel, op: ops.Shuffle) -> None:
    value, lane = kernel.values.operand(op.value), kernel.values.operand(op.lane)
    dtype = op.value.dtype
    narrow = dtype.bits < 32
    if dtype.bits > 64:
        raise UnsupportedError(f"there is no shuffle of {dtype}")
    arguments = [Text(_mask(op.mask)), c_cast("unsigned", bits_of(dtype, value)) if narrow else value, lane]
    if op.width != 32:
        arguments.append(Text(str(op.width)))
    found = call("__shfl_sync" if op.kind == "idx" else f"__shfl_{op.kind}_sync", *arguments)
    _together(kernel, op, op.result, from_bits(dtype, found, kernel.helpers) if narrow else found)


@prints(ops.Vote)
def _vote(kernel: Kernel, op: ops.Vote) -> None:
    found = call(f"__{op.kind}_sync", Text(_mask(op.mask)), kernel.values.operand(op.pred))
    plain = op.kind == "ballot" or not kernel.uses.count.get(op.result.id)
    _together(kernel, op, op.result, found if plain else infix("!=", found, Text("0")))


@prints(ops.Redux)
def _redux(kernel: Kernel, op: ops.Redux) -> None:
    bits = op.kind in ("and", "or", "xor") and op.value.dtype == dt.int32       # these are of unsigned numbers alone
    value = kernel.values.operand(op.value)
    found = call(f"__reduce_{op.kind}_sync", Text(_mask(op.mask)), c_cast("unsigned", value) if bits else value)
    _together(kernel, op, op.result, c_cast("int", found) if bits else found)


@prints(ops.Match)
def _match(kernel: Kernel, op: ops.Match) -> None:
    value, dtype = kernel.values.operand(op.value), op.value.dtype
    wide = c_cast("unsigned long long" if dtype.bits == 64 else "unsigned", value)
    name = "__match_any_sync" if op.kind == "any" else kernel.helpers.match_all(dtype)
    _together(kernel, op, op.result, call(name, Text(_mask(op.mask)), wide))


@prints(ops.Elect)
def _elect(kernel: Kernel, op: ops.Elect) -> None:
    _together(kernel, op, op.result, Text(f"{hopper.elect(kernel.helpers)}()"))


def _together(kernel: Kernel, op: ops.Op, result: Value, text: Text) -> None:
    """All lanes evaluate it here or soon: before any op that changes something, before any control flow."""
    kernel.values.before(op)
    if kernel.uses.count.get(result.id):
        kernel.values.define(op, Text(text.text, text.level, text.deps | {ORDER}))
    else:
        kernel.writer.line(f"{text.text};")


# --- debugging -------------------------------------------------------------------------------------------------------

_WHERE = "[block (%d,%d,%d) thread (%d,%d,%d)]"
_PLACES = "blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z"
_FORMATS = {dt.int64: "%lld", dt.uint64: "%llu", dt.uint32: "%u"}


def _quoted(text: str) -> str:
    """The inside of a C string literal for printf."""
    return string(text).replace("%", "%%")


def _formatted(kernel: Kernel, operand: Operand, asked: str = "") -> tuple[str, str]:
    """(printf format, argument) of one operand."""
    usual, argument = _usual(kernel, operand)
    wide = "ll" if asked and usual in ("%lld", "%llu") else ""
    return (f"{asked[:-1]}{wide}{asked[-1]}" if asked else usual), argument


def _usual(kernel: Kernel, operand: Operand) -> tuple[str, str]:
    text, dtype = kernel.values.operand(operand), operand.dtype
    if dtype.kind is Kind.BOOL:
        return "%s", f'{text.at(SELECT + 1)} ? "True" : "False"'
    if dtype.is_float:
        wide = dtype if dtype.bits == 64 else dt.float32
        return "%g", expressions.convert(dtype, wide, text, kernel.helpers).text
    if dtype.bits > 64:
        raise UnsupportedError(f"print of {dtype}")
    return _FORMATS.get(dtype, "%d"), text.text


@prints(ops.Print)
def _print(kernel: Kernel, op: ops.Print) -> None:
    formats, arguments = [f"{_WHERE} "], [_PLACES]
    asked = iter(op.formats)
    for part in op.parts:
        if isinstance(part, str):
            formats.append(_quoted(part))
        else:
            form, argument = _formatted(kernel, part, next(asked, ""))
            formats.append(form)
            arguments.append(argument)
    if len(arguments) > 27:
        raise UnsupportedError(f"print of {len(arguments) - 1} values; the device's printf takes 32 arguments")
    kernel.values.before(op)
    _printf(kernel, "".join(formats), arguments)


def _printf(kernel: Kernel, form: str, arguments: list[str]) -> None:
    """A printf, its arguments on lines of their own."""
    kernel.writer.line(f'printf("{form}",')
    rows = [arguments[0], *([", ".join(arguments[1:])] if len(arguments) > 1 else [])]
    for row in rows[:-1]:
        kernel.writer.line(f"       {row},")
    kernel.writer.line(f"       {rows[-1]});")


@prints(ops.Assert)
def _assert(kernel: Kernel, op: ops.Assert) -> None:
    cond = op.cond.op if isinstance(op.cond, Value) else None
    integers = isinstance(cond, ops.Binary) and cond.a.dtype.is_integer
    test = negated(kernel.values.operand(op.cond), integers).text
    frame = op.loc.innermost
    where = f"{frame.file.rpartition('/')[2]}:{frame.line}: " if frame else ""
    kernel.writer.open(f"if ({test}) {{")
    _printf(kernel, f"{_WHERE} {_quoted(where + op.message)}\\n", [_PLACES])
    kernel.writer.line("__trap();")
    kernel.writer.close()


@prints(ops.Inspect)
def _inspect(kernel: Kernel, op: ops.Inspect) -> None:
    """Prints nothing: the GPU ignores it."""


@prints(ops.Bounds)
def _bounds(kernel: Kernel, op: ops.Bounds) -> None:
    """Prints nothing: the simulator judges it."""


ops.need_all("the CUDA printer", PRINTERS)
