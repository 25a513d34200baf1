"""The IR's meaning, spelled out: one thread at a time, one element at a time.

In: a Func, its arguments (NumPy arrays and numbers), a grid.  Out: the arrays, written in place; ``Outcome``.

>>> run(kernel.trace(x, block=32), [x], grid=(2, 1, 1))

The oracle for the simulator and the printer: slow and exact.  Threads are generators that stop at barriers, shuffles
and votes.  Memory is bytes with a validity flag each: undefined values are POISON, and deciding or addressing by them
raises.  Signed 32- and 64-bit overflow raises, a shift's too; other integers wrap.  Asynchronous copies happen at once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from exact_conversions import converted, rounded
from moye.dtypes import DType, Kind, Space
from moye.ir import ops
from moye.ir.nodes import Block, Buffer, Func, Literal, Operand, Ref, ScalarParam, TensorParam, TileRef, Value
from moye.runtime.guards import compile_guards


class Fault(Exception):
    """What the kernel must not do: out of bounds, overflow, a decision on an undefined value, a failed assert."""


class _Poison:
    def __repr__(self) -> str:
        return "POISON"


POISON = _Poison()


def numpy_type(dtype: DType) -> np.dtype:
    if dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        import ml_dtypes
        return np.dtype(getattr(ml_dtypes, dtype.numpy))
    return np.dtype(dtype.numpy)


def number(value: Any, dtype: DType) -> Any:
    """A value as the dtype holds it: int, bool, or a NumPy float."""
    if value is POISON:
        return POISON
    if dtype.kind is Kind.BOOL:
        return bool(value)
    if dtype.is_float:
        with np.errstate(all="ignore"):
            return numpy_type(dtype).type(value)
    return wrap(int(value), dtype)


def wrap(value: int, dtype: DType) -> int:
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.kind is Kind.INT and value >> (dtype.bits - 1) else value


class Memory:
    """The bytes of one buffer."""

    def __init__(self, size: int, name: str) -> None:
        self.data = np.zeros(size, np.uint8)
        self.valid = np.zeros(size, bool)
        self.name = name

    @classmethod
    def of(cls, array: np.ndarray, name: str) -> Memory:
        """The memory that an array spans, shared with it; gaps between its elements stay invalid."""
        memory = cls(0, name)
        reach = 0 if 0 in array.shape else 1 + sum((e - 1) * s // array.itemsize
                                                   for e, s in zip(array.shape, array.strides, strict=True))
        flat = np.lib.stride_tricks.as_strided(array, (reach,), (array.itemsize,))
        memory.data = flat.view(np.uint8)
        memory.valid = np.ones(memory.data.size, bool)
        return memory

    def span(self, index: int, dtype: DType) -> slice:
        if not isinstance(index, int):
            raise Fault(f"{self.name} is addressed by {index}")
        at = index * dtype.bits // 8
        if not 0 <= at <= self.data.size - dtype.bits // 8:
            raise Fault(f"{self.name}[{index}] of {dtype} lies outside its {self.data.size} bytes")
        return slice(at, at + dtype.bits // 8)

    def load(self, index: int, dtype: DType) -> Any:
        where = self.span(index, dtype)
        if not self.valid[where].all():
            return POISON
        value = self.data[where].view(numpy_type(dtype))[0]
        return value if dtype.is_float or dtype.bits == 128 else value.item()

    def store(self, index: int, value: Any, dtype: DType) -> None:
        where = self.span(index, dtype)
        self.valid[where] = value is not POISON
        if value is not POISON:
            self.data[where] = np.array([value], numpy_type(dtype)).view(np.uint8)


@dataclass
class Outcome:
    printed: list[str] = field(default_factory=list)
    loads: list[tuple[str, int]] = field(default_factory=list)
    """(buffer name, element) of every single-element load, in order."""


class _Jump(Exception):
    def __init__(self, op: ops.Exit) -> None:
        self.op = op


Steps = Iterator[Any]


class Thread:
    """One thread: its values, variables and registers."""

    def __init__(self, func: Func, values: dict[int, Any], memory: dict[int, Memory], special: dict[str, int],
                 outcome: Outcome, overflow: bool = True) -> None:
        self.func = func
        self.values = values
        self.memory = memory
        self.special = special
        self.variables: dict[int, Any] = {}
        self.outcome = outcome
        self.overflow = overflow

    def run(self) -> Steps:
        try:
            yield from self.block(self.func.body)
        except _Jump as jump:
            assert jump.op.kind == "return", "only a return leaves the kernel"

    def block(self, block: Block) -> Steps:
        for op in block.ops:
            yield from self.op(op)

    # --- operands ---

    def get(self, operand: Operand) -> Any:
        return number(operand.value, operand.dtype) if isinstance(operand, Literal) else self.values[operand.id]

    def decide(self, operand: Operand) -> bool:
        value = self.get(operand)
        if value is POISON:
            raise Fault("a condition is undefined")
        assert isinstance(value, bool), f"a condition is {value!r}"
        return value

    def extents(self, extents: Sequence[Any]) -> list[int]:
        return [e if isinstance(e, int) else self.get(e) for e in extents]

    def address(self, ref: Ref | TileRef, point: Sequence[int] = (), extra: int = 0) -> int:
        offset = self.get(ref.offset)
        if isinstance(ref, TileRef):
            for i, stride in zip(point, ref.strides, strict=True):
                offset += i * (stride if isinstance(stride, int) else self.get(stride))
        offset += extra
        return ref.swizzle(offset) if ref.swizzle is not None else offset

    def load(self, ref: Ref | TileRef, point: Sequence[int] = (), extra: int = 0) -> Any:
        return self.memory[ref.buffer.id].load(self.address(ref, point, extra), ref.dtype)

    def store(self, ref: Ref | TileRef, value: Any, point: Sequence[int] = (), extra: int = 0) -> None:
        self.memory[ref.buffer.id].store(self.address(ref, point, extra), value, ref.dtype)

    # --- ops ---

    def op(self, op: ops.Op) -> Steps:
        match op:
            case ops.Special():
                self.values[op.result.id] = self.special[op.kind]
            case ops.Binary():
                self.define(op.result, binary(op.kind, self.get(op.a), self.get(op.b), op.a.dtype, self.overflow))
            case ops.Unary():
                self.define(op.result, unary(op.kind, self.get(op.a), op.a.dtype, self.overflow))
            case ops.Fma():
                self.define(op.result, fma(self.get(op.a), self.get(op.b), self.get(op.c), op.result.dtype))
            case ops.Select():
                cond = self.get(op.cond)
                self.define(op.result, POISON if cond is POISON else self.get(op.a if cond else op.b))
            case ops.Cast():
                self.define(op.result, cast(self.get(op.a), op.a.dtype, op.result.dtype, op.bits))
            case ops.Declare():
                self.variables[op.var.id] = POISON if op.init is None else self.get(op.init)
            case ops.Read():
                self.define(op.result, self.variables[op.var.id])
            case ops.Assign():
                new = [(var.id, self.get(source)) for var, source in op.pairs]
                for key, value in new:
                    assert key in self.variables, "an assigned variable is declared"
                    self.variables[key] = value
            case ops.Alloc():
                self.allocate(op.buffer)
            case ops.Load():
                self.outcome.loads.append((op.ref.buffer.name, self.address(op.ref)))
                self.define(op.result, self.load(op.ref))
            case ops.Store():
                self.store(op.ref, self.get(op.value))
            case ops.Copy() | ops.Map() | ops.Gemm() | ops.Reduce() | ops.Find():
                getattr(self, type(op).__name__.lower())(op)
            case ops.Atomic():
                self.atomic(op)
            case ops.If() | ops.For() | ops.Loop() | ops.Scope():
                yield from getattr(self, "run_" + type(op).__name__.lower())(op)
            case ops.Exit():
                raise _Jump(op)
            case ops.SyncThreads() | ops.SyncWarp() | ops.NamedBarrier():
                yield op
            case ops.Shuffle():
                answer = yield (op, self.get(op.value), self.get(op.lane))
                self.define(op.result, answer)
            case ops.Redux() | ops.Match():
                answer = yield (op, self.get(op.value), None)
                self.define(op.result, answer)
            case ops.Vote():
                answer = yield (op, self.decide(op.pred), None)
                self.define(op.result, answer)
            case ops.Print():
                self.outcome.printed.append("".join(p if isinstance(p, str) else str(self.get(p)) for p in op.parts))
            case ops.Assert():
                if not self.decide(op.cond):
                    raise Fault(f"assertion failed: {op.message}")
            case ops.CpAsyncCommit() | ops.CpAsyncWait() | ops.Fence() | ops.Inspect() | ops.Bounds():
                pass
            case _:
                raise NotImplementedError(type(op).__name__)

    def define(self, value: Value, result: Any) -> None:
        """Set a Value, checking that its facts tell the truth."""
        if result is not POISON and value.dtype.is_integer:
            low, high = value.lower, value.upper
            true = (low is None or low <= result) and (high is None or result <= high) and result % value.divisor == 0
            if not true:
                raise Fault(f"{value} = {result} breaks its facts: {value.lower}..{value.upper}, of {value.divisor}")
        self.values[value.id] = result

    def allocate(self, buffer: Buffer) -> None:
        if buffer.space is Space.REGISTER:
            self.memory = {**self.memory, buffer.id: Memory(buffer.bytes, buffer.name)}

    def copy(self, op: ops.Copy) -> None:
        moved = []
        for point in np.ndindex(*self.extents(op.extents)):
            if op.pred is not None:
                allowed = self.load(op.pred, point) if isinstance(op.pred, TileRef) else self.get(op.pred)
                if allowed is POISON:
                    raise Fault("a copy's predicate is undefined")
                if not allowed:
                    if op.zero_fill:
                        fill = number(0, op.dst.dtype) if op.other is None else self.get(op.other)
                        moved += [(point, v, fill) for v in range(op.width)]
                    continue
            for tile in (op.dst, op.src):
                if tile.buffer.space is not Space.REGISTER:
                    self.check_aligned(tile, point, op.width)
            moved += [(point, v, self.load(op.src, point, v * op.src.lane)) for v in range(op.width)]
        for point, v, value in moved:
            self.store(op.dst, value, point, v * op.dst.lane)

    def check_aligned(self, tile: TileRef, point: Sequence[int], width: int) -> None:
        """Vector accesses are aligned and contiguous, swizzles included (base pointers are as promised)."""
        size = tile.dtype.bits // 8
        first = self.address(tile, point)
        if first * size % math.gcd(width * size, 1 << 30) and width > 1:
            raise Fault(f"an access of {width * size} bytes at byte {first * size} of {tile.buffer}")
        if [self.address(tile, point, v) for v in range(width)] != list(range(first, first + width)):
            raise Fault(f"an access of {width} elements of {tile.buffer} is not contiguous")
        if width > 1 and tile.buffer.align % (width * size):
            raise Fault(f"{tile.buffer} is aligned to {tile.buffer.align} bytes, not to {width * size}")

    def map(self, op: ops.Map) -> None:
        """All values are made before the first is stored."""
        made = []
        for point in np.ndindex(*op.extents):
            for value, source in zip(op.inputs, op.sources, strict=True):
                self.values[value.id] = self.load(source, point)
            for inner in op.body.ops:
                for _ in self.op(inner):
                    raise AssertionError("a Map's body does not wait")
            made.append((point, self.get(op.value)))
        for point, value in made:
            self.store(op.dst, value, point)

    def reduce(self, op: ops.Reduce) -> None:
        """Chain by chain, in index order (dimension 0 runs fastest); then neighbouring chains, until one is left."""
        values = [self.load(op.src, point[::-1]) for point in np.ndindex(*op.extents[::-1])]

        def fold(a, b):
            return binary(op.kind, a, b, op.src.dtype, self.overflow)

        found = [functools.reduce(fold, values[chain::op.chains]) for chain in range(op.chains)]
        while len(found) > 1:
            found = [fold(found[i], found[i + 1]) for i in range(0, len(found), 2)]
        self.define(op.result, found[0])

    def find(self, op: ops.Find) -> None:
        wanted = self.get(op.value)
        values = [self.load(op.src, point[::-1]) for point in np.ndindex(*op.extents[::-1])]
        self.define(op.result, next((i for i, value in enumerate(values) if value == wanted), 0))

    def gemm(self, op: ops.Gemm) -> None:
        """Only one-value atoms: d = c + sum over k of a * b, in the accumulator's dtype."""
        assert len(op.a_values) == len(op.b_values) == len(op.c_values) == 1, "the oracle knows scalar atoms"
        outer = [i for i, role in enumerate(op.roles) if role != "k"]
        inner = [i for i, role in enumerate(op.roles) if role == "k"]
        for fixed in product(*(range(op.extents[i]) for i in outer)):
            point = [0] * len(op.extents)
            for i, x in zip(outer, fixed, strict=True):
                point[i] = x
            total = self.load(op.c, point, op.c_values[0])
            for moving in product(*(range(op.extents[i]) for i in reversed(inner))):
                for i, x in zip(reversed(inner), moving, strict=True):
                    point[i] = x
                a, b = self.load(op.a, point, op.a_values[0]), self.load(op.b, point, op.b_values[0])
                times = binary("mul", cast(a, op.a.dtype, op.d.dtype), cast(b, op.b.dtype, op.d.dtype), op.d.dtype,
                               self.overflow)
                total = binary("add", total, times, op.d.dtype, self.overflow)
            for i in inner:
                point[i] = 0
            self.store(op.d, total, point, op.d_values[0])

    def atomic(self, op: ops.Atomic) -> None:
        old, value = self.load(op.ref), self.get(op.value)
        self.define(op.result, old)
        if op.kind == "exch":
            new = value
        elif op.kind == "cas":
            assert op.compare is not None, "cas compares"
            new = value if old == self.get(op.compare) else old
        else:
            new = binary(op.kind, old, value, op.ref.dtype, overflow=False)
        self.store(op.ref, new)

    # --- control flow ---

    def run_if(self, op: ops.If) -> Steps:
        yield from self.block(op.then if self.decide(op.cond) else op.orelse)

    def run_for(self, op: ops.For) -> Steps:
        start, stop = self.get(op.start), self.get(op.stop)
        if start is POISON or stop is POISON:
            raise Fault("a loop's bound is undefined")
        for i in range(start, stop, op.step if isinstance(op.step, int) else self.get(op.step)):
            self.define(op.iv, i)
            try:
                yield from self.block(op.body)
            except _Jump as jump:
                if jump.op.target is not op:
                    raise
                if jump.op.kind == "break":
                    break

    def run_loop(self, op: ops.Loop) -> Steps:
        for _ in range(100_000):
            try:
                yield from self.block(op.body)
            except _Jump as jump:
                if jump.op.target is not op:
                    raise
                if jump.op.kind == "break":
                    return
        raise Fault("a loop does not end")

    def run_scope(self, op: ops.Scope) -> Steps:
        try:
            yield from self.block(op.body)
        except _Jump as jump:
            if jump.op.target is not op:
                raise


# --- scalars ---------------------------------------------------------------------------------------------------------


def binary(kind: str, a: Any, b: Any, dtype: DType, overflow: bool = True) -> Any:
    """``a kind b`` of two values of a dtype (a shift's count is an int32)."""
    if kind == "land" and (a is False or b is False):
        return False
    if kind == "lor" and (a is True or b is True):
        return True
    if a is POISON or b is POISON:
        return POISON
    if kind in _COMPARE:
        return bool(_COMPARE[kind](a, b))
    if dtype.kind is Kind.BOOL:
        return {"land": a and b, "lor": a or b, "and": a and b, "or": a or b, "xor": a != b}[kind]
    if dtype.is_float:
        with np.errstate(all="ignore"):
            return number(_FLOAT[kind](a, b), dtype)
    if kind in ("floordiv", "mod") and b == 0:
        return POISON
    if kind in ("shl", "shr") and b < 0:
        raise Fault(f"a shift of {dtype} by {b}")
    result = _INTEGER[kind](a, b)
    if overflow and dtype.kind is Kind.INT and dtype.bits >= 32 and wrap(result, dtype) != result:
        raise Fault(f"{a} {kind} {b} overflows {dtype}")
    return wrap(result, dtype)


_COMPARE = {"lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
            "eq": lambda a, b: a == b, "ne": lambda a, b: a != b}
_FLOAT = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
          "min": np.fmin, "max": np.fmax, "pow": np.power, "floordiv": np.floor_divide, "mod": np.mod}
_INTEGER = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
            "floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b, "min": min, "max": max,
            "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
            "shl": lambda a, b: a << b, "shr": lambda a, b: a >> b}
_MATH = {"exp": math.exp, "exp2": math.exp2 if hasattr(math, "exp2") else lambda x: 2.0**x, "log": math.log,
         "log2": math.log2, "log10": math.log10, "sqrt": math.sqrt, "rsqrt": lambda x: 1 / math.sqrt(x),
         "sin": math.sin, "cos": math.cos, "tan": math.tan, "tanh": math.tanh, "erf": math.erf, "floor": math.floor,
         "ceil": math.ceil, "round": round, "trunc": math.trunc, "abs": abs,
         "sigmoid": lambda x: 1 / (1 + math.exp(-x)), "neg": lambda x: -x}


def unary(kind: str, a: Any, dtype: DType, overflow: bool = True) -> Any:
    if a is POISON:
        return POISON
    if kind == "not":
        return not a
    if kind == "invert":
        return not a if dtype.kind is Kind.BOOL else wrap(~a, dtype)
    if kind == "popcount":
        return (a & ((1 << dtype.bits) - 1)).bit_count()
    if kind == "clz":
        return dtype.bits - (a & ((1 << dtype.bits) - 1)).bit_length()
    if kind in ("isnan", "isinf"):
        return bool(np.isnan(a) if kind == "isnan" else np.isinf(a))
    if dtype.is_float:
        return number(_MATH[kind](float(a)), dtype)
    result = _MATH[kind](a)
    if overflow and dtype.kind is Kind.INT and dtype.bits >= 32 and wrap(result, dtype) != result:
        raise Fault(f"{kind} {a} overflows {dtype}")
    return wrap(result, dtype)


def fma(a: Any, b: Any, c: Any, dtype: DType) -> Any:
    """``a * b + c`` of floats of at most 32 bits, rounded once."""
    if a is POISON or b is POISON or c is POISON:
        return POISON
    assert dtype.bits <= 32, "float64 holds the product"
    a, b, c = float(a), float(b), float(c)
    near = a * b + c            # infinities, NaNs, and the sign of zero are right
    if near == 0 or not math.isfinite(near):
        return number(near, dtype)
    return number(rounded(Fraction(a) * Fraction(b) + Fraction(c), dtype.name), dtype)


def cast(a: Any, old: DType, new: DType, bits: bool = False) -> Any:
    if a is POISON:
        return POISON
    if bits:
        value = np.array([a], numpy_type(old)).view(numpy_type(new))[0]
        return value if new.is_float else value.item()
    return number(converted(a, old, new), new)


# --- a launch --------------------------------------------------------------------------------------------------------


def run(func: Func, arguments: Sequence[Any], grid: tuple[int, int, int] = (1, 1, 1), *,
        guards: bool = True, overflow: bool = True) -> Outcome:
    """Run a launch; arrays among the arguments (one per parameter, in order) are written in place.

    ``overflow``: signed overflow is a fault; else it wraps.
    """
    values: dict[int, Any] = {}
    memory: dict[int, Memory] = {}
    slots: list[Any] = []
    for param, argument in zip(func.params, arguments, strict=True):
        if isinstance(param, ScalarParam):
            values[param.value.id] = number(argument, param.value.dtype)
            slots.append(argument)
        else:
            assert isinstance(param, TensorParam)
            numbers = [*argument.shape, *(s // argument.itemsize for s in argument.strides)]
            slots += numbers
            for entry, actual in zip((*param.shape, *param.strides), numbers, strict=True):
                if isinstance(entry, Value):
                    values[entry.id] = actual
                else:
                    assert entry == actual, f"{param.name}: {entry} is {actual}"
            memory[param.buffer.id] = Memory.of(argument, param.name)
    if guards:
        compile_guards(func)(slots, grid)
    outcome = Outcome()
    for block in product(*(range(g) for g in reversed(grid))):
        _block(func, values, memory, block[::-1], grid, outcome, overflow)
    return outcome


def _block(func: Func, values: dict[int, Any], memory: dict[int, Memory], block: tuple[int, ...],
           grid: tuple[int, int, int], outcome: Outcome, overflow: bool) -> None:
    shared = {b.id: Memory(b.bytes, b.name) for b in func.shared_buffers}
    threads: list[tuple[Thread, Steps]] = []
    bx, by, bz = func.block_dim
    for z, y, x in product(range(bz), range(by), range(bx)):
        special = dict(zip(("thread_x", "thread_y", "thread_z", "block_x", "block_y", "block_z", "grid_x", "grid_y",
                            "grid_z"), (x, y, z, *block, *grid), strict=True))
        thread = Thread(func, dict(values), {**memory, **shared}, special, outcome, overflow)
        threads.append((thread, thread.run()))
    answers: list[Any] = [None] * len(threads)
    alive = list(range(len(threads)))
    while alive:
        asked: dict[int, Any] = {}
        for i in alive:
            try:
                asked[i] = threads[i][1].send(answers[i])
            except StopIteration:
                continue
        answers = _answers(asked, len(threads))
        alive = list(asked)


def _answers(asked: dict[int, Any], count: int) -> list[Any]:
    """What each waiting thread is told: nothing at a barrier, a value after a shuffle or vote."""
    answers: list[Any] = [None] * count
    for i, request in asked.items():
        if not isinstance(request, tuple):
            continue
        op, _, lane = request
        warp = {j % 32: r for j, r in asked.items() if j // 32 == i // 32 and isinstance(r, tuple) and r[0] is op}
        me = i % 32
        if isinstance(op, ops.Vote):
            votes = {j: r[1] for j, r in warp.items()}
            answers[i] = {"any": any(votes.values()), "all": all(votes.values()),
                          "ballot": sum(1 << j for j, v in votes.items() if v)}[op.kind]
            continue
        values = {j: r[1] for j, r in warp.items()}
        if isinstance(op, ops.Redux):
            answers[i] = functools.reduce(lambda a, b, op=op: binary(op.kind, a, b, op.value.dtype), values.values())
            continue
        if isinstance(op, ops.Match):
            equal = [j for j, value in values.items() if value == values[me]]
            answers[i] = sum(1 << j for j in equal) if op.kind == "any" or len(equal) == len(values) else 0
            continue
        base, lane = me // op.width * op.width, lane % 32
        source = {"idx": base + lane % op.width, "up": me - lane, "down": me + lane, "xor": me ^ lane}[op.kind]
        source = me if (source < base and op.kind == "up") or source >= base + op.width else source
        answers[i] = warp[source][1] if source in warp else POISON
    return answers
