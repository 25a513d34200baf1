"""Random IR of a block of 32 threads in every dtype: expressions, tiles, shuffles, swizzled shared memory, branches.

In: a seed.  Out: ``Drawn``: the function, and the arrays that it reads.

>>> print(print_kernel(draw(7).func).source)

No lane's work depends on another's but through barriers and shuffles; whatever is read has been written before.
``tiles.py`` draws where the elements of an operation lie.
"""

from __future__ import annotations

import ctypes
import math
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from emulator import build
from fuzz import host, on_emulator
from fuzz.narrow import HALF, Narrow
from fuzz.tiles import HELD, LANES, LENGTH, SLOTS
from ir_interpreter import Fault, numpy_type, run
from moye import dtypes as dt
from moye.cuda.printing.printer import print_kernel
from moye.dtypes import DType, Kind, Space
from moye.ir import constants, ops
from moye.ir.nodes import Block, Buffer, Func, Literal, Operand, Ref, ScalarParam, TensorParam, Value, Var
from moye.layout import Swizzle, make_layout

I32 = dt.int32
INTEGERS = (dt.int8, dt.uint8, dt.int16, dt.uint16, dt.int32, dt.uint32, dt.int64, dt.uint64)
FLOATS = (dt.float16, dt.bfloat16, dt.float32, dt.float64)
ARITHMETIC = ("add", "sub", "mul", "min", "max")
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
_SHARED = tuple(Swizzle(*s) for s in ((2, 0, 3), (1, 1, 2), (2, 1, -2), (3, 0, 3)))


@dataclass
class Drawn:
    """A program; where ``zeros`` is false the sign of a zero is not decided (by min and max)."""

    seed: int
    func: Func
    zeros: bool

    @property
    def name(self) -> str:
        return self.func.name

    def arguments(self) -> list[Any]:
        """The arrays and numbers of a launch, aligned as CUDA's are."""
        rng = random.Random(f"data {self.seed}")
        found: list[Any] = []
        for p in self.func.params:
            if isinstance(p, ScalarParam):
                numbers = {"n": rng.randint(1, 3), "s": rng.randint(1, 4), "x": rng.choice([0.5, -1.25, 3.0])}
                found.append(numbers[p.name])
                continue
            dtype, count = p.buffer.dtype, p.shape[0]
            assert isinstance(count, int)
            array = _aligned(count, numpy_type(dtype))
            array[...] = [number(rng, dtype) if p.name[0] == "A" else 0 for _ in range(count)]
            found.append(array)
        return found


def _aligned(count: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    room = np.zeros(count * dtype.itemsize + 32, np.uint8)
    start = -room.ctypes.data % 32
    return room[start:start + count * dtype.itemsize].view(dtype)


def number(rng: random.Random, dtype: DType) -> Any:
    """Small, at the ends of the dtype, or anywhere in it; a float that the dtype holds."""
    if dtype.kind is Kind.BOOL:
        return rng.random() < 0.5
    if dtype.is_float:
        special = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-3, 0.1]
        plain = rng.choice([-1, 1]) * rng.randint(1, 4000) / rng.choice([1, 2, 3, 7, 64])
        return constants.literal(rng.choice(special) if rng.random() < 0.12 else plain, dtype).value
    low, high = constants.limits(dtype)
    ends = [low, low + 1, high - 1, high, low // 2, high // 2 + 1]
    near = rng.randint(max(low, -20), 20)
    return rng.choice([near, near, near, rng.choice(ends), rng.randint(low, high)])


# --- answers ---------------------------------------------------------------------------------------------------------


def printed(one: Drawn) -> Any:
    return print_kernel(one.func)


def judged(programs: list[tuple[Drawn, Any]], folder: Path) -> tuple[list[str], int]:
    """What is wrong, a text a program, and how many ran: on the host, or in the emulator where there is PTX in them."""
    hosted = [(one, text, source) for one, text in programs if (source := host.spelled(text.source)) is not None]
    told: list[str] = []
    if hosted:
        library, errors = host.compiled([(one, source) for one, _, source in hosted], folder)
        told += [f"{seed}: {error}" for seed, error in errors.items()]
        told += [found for one, text, _ in hosted if one.seed not in errors and (found := _differs(library, one, text))]
    chosen = {one.seed for one, _, _ in hosted}
    found, ran = emulated([(one, text) for one, text in programs if one.seed not in chosen])
    return told + found, len(hosted) + ran


def emulated(programs: list[tuple[Drawn, Any]], arch: str = on_emulator.ARCH) -> tuple[list[str], int]:
    """The same for the PTX that NVRTC makes of them; an integer that overflows there may be any."""
    if build.compiler() is None:
        return [], 0
    chosen = [(one, text, wanted) for one, text in programs if (wanted := _wanted(one, overflow=True)) is not None]
    launches = [on_emulator.Launch(text, one.arguments()) for one, text, _ in chosen]
    found = on_emulator.answers(launches, arch)
    return [f"{one.seed}: {why}" for (one, _, wanted), launch, ran in zip(chosen, launches, found, strict=True)
            if (why := ran or _wrong(one, launch.arguments, wanted))], len(chosen)


def _wanted(one: Drawn, overflow: bool) -> list[Any] | None:
    """The arguments as the interpreter leaves them; None where it finds an ``overflow``."""
    wanted = one.arguments()
    try:
        run(one.func, wanted, guards=False, overflow=overflow)
    except Fault:
        if overflow:
            return None
        raise
    return wanted


def _differs(library: Any, one: Drawn, text: Any) -> str:
    arrays = one.arguments()
    keep = [host.CTYPES[slot.format](arrays[slot.param].ctypes.data if slot.kind == "ptr" else arrays[slot.param])
            for slot in text.slots]
    pointers = (ctypes.c_void_p * len(keep))(*(ctypes.addressof(x) for x in keep))
    if library.launch(getattr(library, f"entry_{one.seed}"), pointers, 1, LANES):
        return f"{one.seed}: the threads wait for ever"
    why = _wrong(one, arrays, _wanted(one, overflow=False) or [])
    return f"{one.seed}: {why}" if why else ""


def _wrong(one: Drawn, arrays: list[Any], wanted: list[Any]) -> str:
    """The first element that is not the interpreter's."""
    for p, x, y in zip(one.func.params, arrays, wanted, strict=True):
        if p.name[0] == "o" and (at := _unlike(x, y, one.zeros)) is not None:
            return f"{p.name}[{at // SLOTS}, {at % SLOTS}] is {x[at]}, not {y[at]}"
    return ""


def _unlike(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any], zeros: bool) -> int | None:
    """The first element that differs; any NaN is like any other."""
    if x.dtype.kind in "fV":
        x, y = x.astype(np.float64), y.astype(np.float64)
        same = (x == y) & ((np.signbit(x) == np.signbit(y)) | (not zeros)) | (np.isnan(x) & np.isnan(y))
    else:
        same = x == y
    return None if same.all() else int(np.argmin(same))


# --- programs --------------------------------------------------------------------------------------------------------


def draw(seed: int) -> Drawn:
    return Generator(seed).drawn()


class Generator(Narrow):
    """Writes one program, statement by statement."""

    def __init__(self, seed: int) -> None:
        self.rng, self.seed = random.Random(f"ir {seed}"), seed
        self.zeros = self.rng.random() < 0.6
        self.calm = self.rng.random() < 0.6
        self.types = [I32, *self.rng.sample([*INTEGERS[:4], *INTEGERS[5:], *FLOATS], 3)]
        if self.rng.random() < 0.5:     # what is packed
            self.types = list(dict.fromkeys([I32, self.rng.choice(HALF), dt.float32, self.types[1]]))
        self.scalars = {name: Value(dtype, name=name) for name, dtype in (("n", I32), ("s", I32), ("x", dt.float32))}
        self.scalars["n"].lower = self.scalars["s"].lower = 1
        self.inputs = [self._parameter("A", t, LENGTH, i) for i, t in enumerate(self.types)]
        self.outputs = [self._parameter("o", t, LANES * SLOTS, i + 4) for i, t in enumerate(self.types)]
        sizes = [*((b, LENGTH) for b in self.inputs), *((b, LANES * SLOTS) for b in self.outputs)]
        params = [TensorParam(b.name, b, (size,), (1,)) for b, size in sizes]
        self.func = Func(f"ir_{seed}", [*params, *(ScalarParam(k, v) for k, v in self.scalars.items())], Block(),
                         (LANES, 1, 1), restrict=self.rng.random() < 0.5)
        self.body = self.func.body.ops
        self.values: list[Value] = [v for k, v in self.scalars.items() if k == "x" or self.rng.random() < 0.5]
        self.variables: list[Var] = []
        self.slots = dict.fromkeys(self.types, 0)
        self.depth = 0

    def _parameter(self, letter: str, t: DType, size: int, index: int) -> Buffer:
        return Buffer(f"{letter}_{t.name}", Space.GLOBAL, t, None, make_layout(size), align=32, index=index)

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def drawn(self) -> Drawn:
        self.tid = self.define(ops.Special, I32, kind="thread_x")
        self.tid.lower, self.tid.upper = 0, LANES - 1
        self.base = self.binary("mul", self.tid, self.lit(SLOTS))
        self.base.lower, self.base.upper, self.base.divisor = 0, (LANES - 1) * SLOTS, SLOTS
        self.values.append(self.tid)
        self.fragments = [self.fragment(t) for t in (*self.types, *self.types[:2])]
        for fragment in self.fragments:
            if fragment.dtype in HALF and self.chance(0.7):
                self.in_words(fragment)
        self.shared = [self._shared_tensor() for _ in range(2)]
        for _ in range(self.rng.randint(8, 16)):
            self.statement()
        self._finish()
        return Drawn(self.seed, self.func, self.zeros)

    def _finish(self) -> None:
        for var in self.variables:
            self.out(self.define(ops.Read, var.dtype, var=var))
        for fragment in self.fragments:
            self.keep(fragment)

    # --- ops ---

    def lit(self, x: Any, t: DType = I32) -> Literal:
        return Literal(x, t)

    def define(self, op_class: Any, dtype: DType, **fields: Any) -> Value:
        value = Value(dtype, name=self.rng.choice(["", "", "", "x", "i"]))
        value.op = op_class(result=value, **fields)
        self.body.append(value.op)
        return value

    def binary(self, kind: str, a: Operand, b: Operand) -> Value:
        dtype = dt.bool_ if kind in ops.COMPARISONS or kind in ops.LOGICAL else a.dtype
        return self.define(ops.Binary, dtype, kind=kind, a=a, b=b)

    def cast(self, a: Operand, t: DType) -> Operand:
        """To 32 and 64 bits only floats that fit: CUDA saturates there, which C++ on the host does not.

        Its NaNs become what the host's become if the integer is signed, and has 64 bits or comes of a double.
        """
        if a.dtype.is_float and t.is_integer and t.bits >= 32:
            low, nan = self.lit(-1000.0 if t.kind is Kind.INT else 0.0, a.dtype), a
            a = self.binary("min", self.binary("max", a, low), self.lit(1000.0, a.dtype))
            if t.kind is Kind.INT and max(t.bits, nan.dtype.bits) == 64 and self.rng.random() < 0.5:
                unknown = self.define(ops.Unary, dt.bool_, kind="isnan", a=nan)
                a = self.define(ops.Select, a.dtype, cond=unknown, a=nan, b=a)
        return a if a.dtype == t else self.define(ops.Cast, t, a=a)

    def out(self, value: Operand) -> None:
        """A result of the thread; the last slots are left to tiles."""
        t = value.dtype if value.dtype in self.types else I32
        slot = self.slots[t]
        if slot < HELD and value.dtype in (t, dt.bool_):
            self.slots[t] = slot + 1
            at = self.binary("add", self.base, self.lit(slot))
            self.body.append(ops.Store(ref=Ref(self.outputs[self.types.index(t)], at, t), value=self.cast(value, t)))

    # --- expressions ---

    def leaf(self, t: DType) -> Operand:
        found = [v for v in self.values[-12:] if v.dtype == t]
        if found and self.chance(0.6):
            return self.rng.choice(found)
        variables = [v for v in self.variables if v.dtype == t]
        if variables and self.chance(0.4):
            return self.define(ops.Read, t, var=self.rng.choice(variables))
        if t in self.types and self.chance(0.7):
            return self.load(t)
        return self.lit(number(self.rng, t), t)

    def load(self, t: DType) -> Value:
        own = [f for f in self.fragments if f.dtype == t]
        if own and self.chance(0.4):
            return self.define(ops.Load, t, ref=Ref(self.rng.choice(own), self.lit(self.rng.randrange(HELD)), t))
        at = self.binary("add", self.tid, self.lit(self.rng.randrange(LENGTH - LANES)))
        return self.define(ops.Load, t, ref=Ref(self.inputs[self.types.index(t)], at, t))

    def expression(self, t: DType, depth: int) -> Operand:
        """A value of the dtype, of operands that are drawn first."""
        if t.kind is Kind.BOOL:
            return self.truth(depth)
        if depth <= 0 or self.chance(0.1):
            return self.leaf(t)
        kind = self.rng.choice(["binary"] * 5 + ["unary", "select", "cast", "cast", "chain", "floor"])
        if kind == "binary":
            return self.binary(self.kind(t), self.expression(t, depth - 1), self.expression(t, depth - 1))
        if kind == "chain":
            return self.chained(self.expression(t, depth - 1), depth - 1)
        if kind == "unary":
            ways = ["neg", "abs"] if t.is_float else ["invert"] if self.calm else ["neg", "abs", "invert"]
            way = self.rng.choice(ways)
            return self.define(ops.Unary, t, kind=way, a=self.expression(t, depth - 1))
        if kind == "select":
            cond = self.truth(depth - 1)
            a, b = self.expression(t, depth - 1), self.expression(t, depth - 1)
            return self.define(ops.Select, t, cond=cond, a=a, b=b)
        if kind == "cast":
            source = self.rng.choice([*self.types, dt.bool_])
            return self.cast(self.expression(source, depth - 1), t)
        return self.floored(t, self.expression(t, depth - 1))

    def kind(self, t: DType) -> str:
        if self.calm and t.kind is Kind.INT and t.bits >= 32:       # no sum or product that overflows
            return self.rng.choice(("min", "max", "and", "or", "xor"))
        kinds = ARITHMETIC if not t.is_float or not self.zeros else ARITHMETIC[:3]
        return self.rng.choice([*kinds, "div"] if t.is_float else [*kinds, "and", "or", "xor"])

    def chained(self, a: Operand, depth: int) -> Operand:
        """Two operations on the same value, as ``a - b - c`` is."""
        for _ in range(2):
            a = self.binary(self.kind(a.dtype), a, self.expression(a.dtype, depth - 1))
        return a

    def floored(self, t: DType, a: Operand) -> Operand:
        """Floors and shifts by constants, and of floats quotients close to zero."""
        if t.is_float:
            by = self.lit(self.rng.choice([3.0, -2.0, 0.5, -64.0]), t)
            return self.binary(self.rng.choice(["floordiv", "mod"]), a, by)
        kind = self.rng.choice(["floordiv", "mod", "shr", *([] if self.calm else ["shl"])])
        if kind in ("shl", "shr"):
            return self.binary(kind, a, self.lit(self.rng.randrange(t.bits)))
        numbers = [2, 3, 4, 7, 8, 16, *([-3, -4] if t.kind is Kind.INT else [])]
        return self.binary(kind, a, self.lit(self.rng.choice(numbers), t))

    def truth(self, depth: int) -> Operand:
        """A condition: a comparison, a conversion to bool, or some of them."""
        kind = self.rng.choice(["compare"] * 4 + ["not", "both", "cast", "known", "isnan"])
        t = self.rng.choice(self.types)
        found = [v for v in self.values if v.dtype.kind is Kind.BOOL]
        if kind == "known" and found:
            return self.rng.choice(found)
        if kind == "not":
            return self.define(ops.Unary, dt.bool_, kind="not", a=self.truth(depth - 1))
        if kind == "both" and depth > 0:
            way = self.rng.choice(["land", "lor", "and", "or", "xor"])
            a, b = self.truth(depth - 1), self.truth(depth - 1)
            return self.define(ops.Binary, dt.bool_, kind=way, a=a, b=b)
        if kind == "cast":
            return self.cast(self.expression(t, depth - 1), dt.bool_)
        if kind == "isnan" and t.is_float:
            return self.define(ops.Unary, dt.bool_, kind=kind, a=self.expression(t, depth - 1))
        return self.binary(self.rng.choice(COMPARISONS), self.expression(t, depth - 1), self.expression(t, depth - 1))

    # --- statements ---

    def statement(self) -> None:
        kinds = ["value"] * 4 + ["tiled"] * 5 + ["narrow"] * 4 + ["change"] * 2 + ["element", "product"]
        if self.depth == 0:
            kinds += ["exchange"] * 2 + ["shuffle"] * 2 + ["vote", "fold"]
        if self.depth < 2:
            kinds += ["branch", "count", "loop"]
        getattr(self, self.rng.choice(kinds))()

    def value(self) -> None:
        made = self.expression(self.rng.choice([*self.types, dt.bool_]), 3)
        if isinstance(made, Value):
            self.values.append(made)
            if self.depth == 0 and self.chance(0.6):
                self.out(made)

    def element(self) -> None:
        """One element of a fragment changes."""
        fragment = self.rng.choice(self.fragments)
        ref = Ref(fragment, self.lit(self.rng.randrange(HELD)), fragment.dtype)
        old = self.define(ops.Load, fragment.dtype, ref=ref) if self.chance(0.5) else None
        self.body.append(ops.Store(ref=ref, value=self.expression(fragment.dtype, 2)))
        if old is not None:         # what it was
            self.out(old)

    def change(self) -> None:
        """A variable becomes what one or two operations make of it."""
        if len(self.variables) < 3 and self.depth == 0:
            t = self.rng.choice(self.types)
            new = Var(f"v{len(self.variables)}", t)
            self.body.append(ops.Declare(var=new, init=self.expression(t, 1)))
            self.variables.append(new)
        if self.variables:
            var = self.rng.choice(self.variables)
            read = self.define(ops.Read, var.dtype, var=var)
            self.body.append(ops.Assign(pairs=((var, self.chained(read, 1)),)))

    def inside(self, block: Block, most: int) -> None:
        outer, known = self.body, len(self.values)
        self.body, self.depth = block.ops, self.depth + 1
        for _ in range(self.rng.randint(0, most)):
            self.statement()
        self.body, self.depth = outer, self.depth - 1
        del self.values[known:]

    def branch(self) -> None:
        op = ops.If(cond=self.truth(1), then=Block(), orelse=Block())
        self.inside(op.then, 2)
        if not op.then.ops or self.chance(0.5):
            self.inside(op.orelse, 3)
        self.body.append(op)

    def count(self) -> None:
        stop = self.lit(self.rng.randint(1, 3))
        op = ops.For(iv=Value(I32, name="i"), start=self.lit(0), stop=stop, step=1, body=Block())
        self.inside(op.body, 3)
        self.body.append(op)

    def loop(self) -> None:
        """Left by a condition of any dtype, or after some turns."""
        op, counter = ops.Loop(body=Block()), Var("turns", I32)
        self.body.append(ops.Declare(var=counter, init=self.lit(0)))
        outer, known, self.body = self.body, len(self.values), op.body.ops
        leave = ops.If(cond=self.truth(1), then=Block([ops.Exit(kind="break", target=op)]), orelse=Block())
        self.body.append(leave)
        turn = self.binary("add", self.define(ops.Read, I32, var=counter), self.lit(1))
        self.body.append(ops.Assign(pairs=((counter, turn),)))
        done = self.binary("ge", self.define(ops.Read, I32, var=counter), self.lit(3))
        self.body.append(ops.If(cond=done, then=Block([ops.Exit(kind="break", target=op)]), orelse=Block()))
        self.body = outer
        self.inside(op.body, 3)
        del self.values[known:]
        self.body.append(op)

    # --- threads together ---

    def shuffle(self) -> None:
        t, width = self.rng.choice([*self.types, dt.bool_]), self.rng.choice([32, 16, 8, 4, 2])
        a = self.expression(t, 1)
        lane: Operand = self.lit(self.rng.randrange(width))
        kind = self.rng.choice(["idx", "up", "down", "xor"])
        if kind == "idx" and self.chance(0.5):
            lane = self.binary("and", self.expression(I32, 1), self.lit(width - 1))
        made = self.define(ops.Shuffle, t, kind=kind, value=a, lane=lane, width=width)
        self.together(made)

    def vote(self) -> None:
        kind = self.rng.choice(["any", "all", "ballot"])
        pred = self.truth(1)
        self.together(self.define(ops.Vote, dt.uint32 if kind == "ballot" else dt.bool_, kind=kind, pred=pred))

    def fold(self) -> None:
        """A fold or a match of the warp."""
        t = self.rng.choice([dt.int32, dt.uint32])
        kinds = ["min", "max", "and", "or", "xor", *(["add"] if t is dt.uint32 else [])]
        a = self.cast(self.expression(self.rng.choice(self.types), 1), t)
        if self.chance(0.5):
            self.together(self.define(ops.Redux, t, kind=self.rng.choice(kinds), value=a))
        else:
            self.together(self.define(ops.Match, dt.uint32, kind=self.rng.choice(["any", "all"]), value=a))

    def together(self, made: Value) -> None:
        """What lanes have made; used once at once, or later, or twice."""
        if self.chance(0.6) and made.dtype != dt.uint32:
            t = self.rng.choice(self.types)
            self.out(self.binary(self.kind(t), self.cast(made, t), self.leaf(t)))
        if self.chance(0.7):
            self.values.append(made)

    def _shared_tensor(self) -> tuple[Buffer, Swizzle | None]:
        t = self.rng.choice(self.types)
        buffer = Buffer("sh", Space.SHARED, t, 2 * LANES, make_layout(2 * LANES), align=128)
        self.func.buffers.append(buffer)
        self.body.append(ops.Alloc(buffer=buffer))
        return buffer, self.rng.choice([None, *_SHARED])

    def exchange(self) -> None:
        """Each lane writes two elements; after a barrier any are read, one by one or as a tile."""
        buffer, swizzle = self.rng.choice(self.shared)
        t = buffer.dtype
        for half in self.rng.sample((0, LANES), 2):
            at = self.binary("add", self.tid, self.lit(half)) if half else self.tid
            self.body.append(ops.Store(ref=Ref(buffer, at, t, swizzle), value=self.expression(t, 1)))
        self.body.append(ops.SyncThreads())
        if self.chance(0.5):
            at = self.binary("and", self.expression(I32, 1), self.lit(2 * LANES - 1))
            self.values.append(self.define(ops.Load, t, ref=Ref(buffer, at, t, swizzle)))
        else:
            self.from_shared(buffer, swizzle)
        self.body.append(ops.SyncThreads())
        if self.chance(0.5) and self.values[-1].dtype == t:
            self._overwrite(buffer, swizzle, self.values[-1])

    def _overwrite(self, buffer: Buffer, swizzle: Swizzle | None, old: Value) -> None:
        """Another value where every lane has read: what was read before the barrier is old."""
        ref = Ref(buffer, self.tid, buffer.dtype, swizzle)
        self.body.append(ops.Store(ref=ref, value=self.lit(number(self.rng, buffer.dtype), buffer.dtype)))
        self.out(old)
        self.body.append(ops.SyncThreads())
        self.values.remove(old)


