"""Hand-built kernels for the CUDA printer: a tiny builder, the double-buffered matmul, and one kernel per op family.

``test_printer.py`` takes its cases from here; this file checks that the matmul compiles like its hand-written twin.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable

from moye import dtypes as dt
from moye.atoms.atom import MmaOp
from moye.atoms.universal import AUTO_COPY, CpAsync, UniversalFMA
from moye.dtypes import DType, Space
from moye.errors import Frame, Loc
from moye.ir import ops
from moye.ir.builder import Builder
from moye.ir.nodes import Block, Buffer, Func, Literal, Operand, Ref, ScalarParam, TensorParam, TileRef, Value, Var
from moye.layout import Swizzle, make_layout


def i32(value: int) -> Literal:
    return Literal(value, dt.int32)


class E:
    """An operand with Python's operators; each writes IR."""

    def __init__(self, b: K, operand: Operand) -> None:
        self.b, self.o = b, operand

    def _bin(self, kind, other, swap=False):
        other = other.o if isinstance(other, E) else \
            Literal(other, self.o.dtype) if not isinstance(other, (Value, Literal)) else other
        a, b = (other, self.o) if swap else (self.o, other)
        return E(self.b, self.b.binary(kind, a, b))

    def __add__(self, o): return self._bin("add", o)
    def __radd__(self, o): return self._bin("add", o, True)
    def __sub__(self, o): return self._bin("sub", o)
    def __mul__(self, o): return self._bin("mul", o)
    def __rmul__(self, o): return self._bin("mul", o, True)
    def __truediv__(self, o): return self._bin("div", o)
    def __floordiv__(self, o): return self._bin("floordiv", o)
    def __mod__(self, o): return self._bin("mod", o)
    def __lt__(self, o): return self._bin("lt", o)
    def __ge__(self, o): return self._bin("ge", o)


class K(Builder):
    """The IR builder with shorthands; ``at`` sets the source line of what follows."""

    def __init__(self, name: str = "kernel", block=(256, 1, 1), source: str = "", **options) -> None:
        self.where = Loc()
        super().__init__(Func(name, [], Block(), block, **options), lambda: self.where)
        self.file = f"{name}.py"
        if source:
            linecache.cache[self.file] = (len(source), None, [line + "\n" for line in source.splitlines()], self.file)

    def at(self, line: int) -> None:
        self.where = Loc((Frame(self.file, line),))

    def tensor(self, name: str, dtype: DType, rank: int = 2, unit: int = 0, align: int = 16) -> Buffer:
        """A tensor argument with dynamic extents and strides but one."""
        buffer = Buffer(name, Space.GLOBAL, dtype, None, make_layout(1), align=align, index=len(self.func.params))
        shape = tuple(Value(self.index, lower=0) for _ in range(rank))
        strides = tuple(1 if mode == unit else Value(self.index, lower=1) for mode in range(rank))
        self.func.params.append(TensorParam(name, buffer, shape, strides))
        return buffer

    def param(self, position: int) -> TensorParam:
        return self.func.params[position]

    def scalar(self, name: str, dtype: DType) -> E:
        value = Value(dtype, name=name)
        self.func.params.append(ScalarParam(name, value))
        return E(self, value)

    def shared(self, name: str, dtype: DType, layout, align: int = 16) -> Buffer:
        size = layout.shape if isinstance(layout, int) else None
        elements = size or (max_offset(layout) + 1)
        return self.allocate(Buffer(name, Space.SHARED, dtype, elements, layout, align=align))

    def registers(self, name: str, dtype: DType, elements: int) -> Buffer:
        return self.allocate(Buffer(name, Space.REGISTER, dtype, elements, make_layout(elements), align=16))

    def thread(self, axis: str = "x") -> E:
        return E(self, self.special(f"thread_{axis}", lower=0, upper=self.func.threads - 1))

    def block_index(self, axis: str = "x") -> E:
        return E(self, self.special(f"block_{axis}", lower=0))

    def e(self, operand: Operand) -> E:
        return E(self, operand)

    def load(self, buffer: Buffer, offset, **options) -> E:
        value = Value(buffer.dtype)
        self.emit(ops.Load(result=value, ref=Ref(buffer, operand(offset), buffer.dtype), **options))
        return E(self, value)

    def store(self, buffer: Buffer, offset, value, **options) -> None:
        self.emit(ops.Store(ref=Ref(buffer, operand(offset), buffer.dtype), value=operand(value, buffer.dtype),
                            **options))

    def copy(self, dst: TileRef, src: TileRef, *extents: int, width: int = 1, atom=AUTO_COPY, **options) -> None:
        self.emit(ops.Copy(dst=dst, src=src, extents=extents, width=width, atom=atom, **options))

    def fill(self, buffer: Buffer, value) -> None:
        self.emit(ops.Map(dst=tile(buffer, 0, 1), sources=(), inputs=(), extents=(buffer.elements,), body=Block(),
                          value=operand(value, buffer.dtype)))

    def map(self, dst: TileRef, sources: list[TileRef], extents: tuple[int, ...], f: Callable[..., E]) -> None:
        inputs = tuple(Value(source.dtype) for source in sources)
        with self.inside(Block()) as body:
            value = f(*(E(self, value) for value in inputs)).o
        self.emit(ops.Map(dst=dst, sources=tuple(sources), inputs=inputs, extents=extents, body=body, value=value))

    def loop(self, start, stop, body: Callable[[E], None], name: str = "k", step: int = 1, unroll=None) -> None:
        iv = Value(self.index, lower=0, name=name)
        block = Block()
        op = ops.For(iv=iv, start=operand(start), stop=operand(stop), step=step, body=block, unroll=unroll)
        iv.op = op
        begin = self.where
        with self.inside(block):
            body(E(self, iv))
        self.where = begin
        self.emit(op)

    def when(self, cond: E, then: Callable[[], None], orelse: Callable[[], None] | None = None) -> None:
        blocks, begin = (Block(), Block()), self.where
        for block, branch in zip(blocks, (then, orelse), strict=True):
            if branch is not None:
                with self.inside(block):
                    branch()
        self.where = begin
        self.emit(ops.If(cond=cond.o, then=blocks[0], orelse=blocks[1]))

    def var(self, name: str, init, dtype: DType = dt.int32) -> Var:
        var = Var(name, dtype)
        self.declare(var, operand(init, dtype))
        return var

    def get(self, var: Var) -> E:
        return E(self, self.read(var, (0, None, 1)))

    def set(self, *pairs) -> None:
        self.emit(ops.Assign(pairs=tuple((var, operand(value, var.dtype)) for var, value in pairs)))


def operand(x, dtype: DType = dt.int32) -> Operand:
    return x.o if isinstance(x, E) else x if isinstance(x, (Value, Literal)) else Literal(x, dtype)


def max_offset(layout) -> int:
    shape = layout.shape if isinstance(layout.shape, tuple) else (layout.shape,)
    stride = layout.stride if isinstance(layout.stride, tuple) else (layout.stride,)
    return sum((n - 1) * d for n, d in zip(shape, stride, strict=True))


def tile(buffer: Buffer, offset, *strides, dtype: DType | None = None, swizzle=None) -> TileRef:
    return TileRef(buffer, operand(offset), dtype or buffer.dtype, strides, swizzle)


# --- the reference's double-buffered matmul --------------------------------------------------------------------------

MATMUL = """\
@mo.kernel
def matmul(A, sA_layout, copy_A, B, sB_layout, copy_B, C, mma_C):
    sA = mo.shared_array(A.dtype, sA_layout)            # (bM, bK, 2)
    sB = mo.shared_array(B.dtype, sB_layout)            # (bN, bK, 2)
    mo.copyto(copy_A, tAsA[:, :, :, 0], tAgA[:, :, :, 0])
    mo.copyto(copy_B, tBsB[:, :, :, 0], tBgB[:, :, :, 0])
    tCrA = thr_mma.make_fragment_A(tCsA[:, :, :, 0])    # (MMA, MMA_M, MMA_K)
    tCrB = thr_mma.make_fragment_B(tCsB[:, :, :, 0])    # (MMA, MMA_N, MMA_K)
    tCrC = thr_mma.make_fragment_C(tCgC)                # (MMA, MMA_M, MMA_N)
    tCrC.fill(0)
    mo.cp_async_wait()
    mo.sync_threads()
    smem_read, smem_write = 0, 1
    tCsA_p = tCsA[:, :, :, smem_read]
    tCsB_p = tCsB[:, :, :, smem_read]
    mo.copyto(tCrA[:, :, 0], tCsA_p[:, :, 0])
    mo.copyto(tCrB[:, :, 0], tCsB_p[:, :, 0])
    for k_tile in range(k_tile_max):
        for k_block in mo.static_range(k_block_max):
            if k_block == k_block_max - 1:
                mo.cp_async_wait()
                mo.sync_threads()
                tCsA_p = tCsA[:, :, :, smem_read]
                tCsB_p = tCsB[:, :, :, smem_read]
            mo.copyto(tCrA[:, :, k_block_next], tCsA_p[:, :, k_block_next])
            mo.copyto(tCrB[:, :, k_block_next], tCsB_p[:, :, k_block_next])
            if k_block == 0 and k_tile < k_tile_max - 1:
                mo.copyto(copy_A, tAsA[:, :, :, smem_write], tAgA[:, :, :, k_tile + 1])
                mo.copyto(copy_B, tBsB[:, :, :, smem_write], tBgB[:, :, :, k_tile + 1])
                smem_read, smem_write = smem_write, smem_read
            mo.gemm(mma_C, tCrA[:, :, k_block], tCrB[:, :, k_block], tCrC)
    mo.copyto(tCgC, tCrC)
"""


def matmul(order: str = "rows") -> Func:
    """The last matmul of MoYe's manual: 128x128x8, 256 threads, cp.async of 8 bytes, two stages, register prefetch."""
    b = K("matmul", source=MATMUL)
    b.func.notes = ["A: global float32 (M,K):(1,A_s1)", "B: global float32 (N,K):(1,B_s1)",
                    "C: global float32 (M,N):(1,C_s1)", 'copy_A: CpAsync(float64, cache="always")',
                    "mma_C: UniversalFMA(float32) x (32,8)"]
    A, B, C = (b.tensor(name, dt.float32) for name in "ABC")
    b.at(2)
    tid, bx, by = b.thread(), b.block_index("x"), b.block_index("y")
    stage = 130 * 8
    b.at(3)
    sA = b.shared("sA", dt.float32, make_layout((128, 8, 2), (1, 130, stage)))
    b.at(4)
    sB = b.shared("sB", dt.float32, make_layout((128, 8, 2), (1, 130, stage)))
    lda, ldb, ldc = (b.e(b.param(i).strides[1]) for i in range(3))
    copier = CpAsync(dt.float64)

    def load(which: int, slot, k_tile) -> None:
        block, ld, buffer, smem = (bx, lda, A, sA) if which == 0 else (by, ldb, B, sB)
        source = block * 128 + tid % 32 * 2 + tid // 32 * ld + k_tile * 8 * ld
        b.copy(tile(smem, tid % 32 * 2 + tid // 32 * 130 + slot, 64), tile(buffer, source, 64), 2, width=2,
               atom=copier)

    for which in range(2):
        b.at(5 + which)
        load(which, 0, b.e(i32(0)))
    b.at(7)
    rA = b.registers("tCrA", dt.float32, 32)
    b.at(8)
    rB = b.registers("tCrB", dt.float32, 128)
    b.at(9)
    rC = b.registers("tCrC", dt.float32, 64)
    b.at(10)
    b.fill(rC, 0.0)
    b.at(11)
    b.emit(ops.CpAsyncWait())
    b.at(12)
    b.emit(ops.SyncThreads())
    b.at(13)
    read, write = b.var("smem_read", 0), b.var("smem_write", 1)
    b.at(14)
    pA = b.var("tCsA_p", tid % 32)
    b.at(15)
    pB = b.var("tCsB_p", tid // 32)

    def fragments(k: int, line: int) -> None:
        b.at(line)
        b.copy(tile(rA, 4 * k, 1), tile(sA, b.get(pA) + 130 * k, 32), 4)
        b.at(line + 1)
        b.copy(tile(rB, 16 * k, 1), tile(sB, b.get(pB) + 130 * k, 8), 16)

    fragments(0, 16)
    k_tiles = b.e(b.param(0).shape[1]) // 8

    def prefetch(k_tile: E) -> None:
        for which in range(2):
            b.at(28 + which)
            load(which, b.get(write) * stage, k_tile + 1)
        b.at(30)
        b.set((read, b.get(write)), (write, b.get(read)))

    def body(k_tile: E) -> None:
        for k in range(8):
            if k == 7:
                b.at(21)
                b.emit(ops.CpAsyncWait())
                b.at(22)
                b.emit(ops.SyncThreads())
                b.at(23)
                b.set((pA, tid % 32 + b.get(read) * stage))
                b.at(24)
                b.set((pB, tid // 32 + b.get(read) * stage))
            fragments((k + 1) % 8, 25)
            if k == 0:
                b.at(27)
                b.when(k_tile < k_tiles - 1, lambda: prefetch(k_tile))
            b.at(31)
            b.emit(ops.Gemm(mma=UniversalFMA(dt.float32), d=tile(rC, 0, 1, 4), a=tile(rA, 4 * k, 1, 0),
                            b=tile(rB, 16 * k, 0, 1), c=tile(rC, 0, 1, 4), extents=(4, 16), roles="mn", order=order))

    b.at(18)
    b.loop(0, k_tiles, body, "k_tile")
    b.at(32)
    to = bx * 128 + tid % 32 + (by * 128 + tid // 32) * ldc
    b.copy(tile(C, to, 32, (ldc * 8).o), tile(rC, 0, 1, 4), 4, 16)
    return b.func


# --- one kernel per family of ops ------------------------------------------------------------------------------------

INTEGERS = (dt.int8, dt.uint8, dt.int16, dt.uint16, dt.int32, dt.uint32, dt.int64, dt.uint64)
FLOATS = (dt.float16, dt.bfloat16, dt.float32, dt.float64)
FP8 = (dt.float8_e4m3fn, dt.float8_e5m2)
NUMBERS = (*INTEGERS, *FLOATS)


def outputs(b: K, dtypes) -> dict[DType, Buffer]:
    return {dtype: b.tensor(f"out_{dtype}", dtype, 1) for dtype in dtypes}


def raw(k: K, op_class, dtype: DType, **fields) -> E:
    """An op as it is, unfolded."""
    value = Value(dtype)
    op = op_class(result=value, **fields)
    value.op = op
    k.emit(op)
    return E(k, value)


def binary_ops() -> Func:
    """Every Binary kind on every dtype that has it, on values that nothing is known about."""
    b = K("binary_ops", (32, 1, 1))
    x = {dtype: (b.scalar(f"a_{dtype}", dtype), b.scalar(f"b_{dtype}", dtype)) for dtype in (*NUMBERS, dt.bool_)}
    out = outputs(b, (*NUMBERS, dt.bool_))
    count = 0
    for dtype in (*NUMBERS, dt.bool_):
        for kind in ops.BINARY:
            if not allowed(kind, dtype):
                continue
            right = b.scalar(f"n{count}", dt.int32) if kind in ("shl", "shr", "ldexp") else x[dtype][1]
            result = dt.bool_ if kind in ops.COMPARISONS + ops.LOGICAL else dtype
            value = raw(b, ops.Binary, result, kind=kind, a=x[dtype][0].o, b=right.o)
            b.store(out[result], count, value)
            count += 1
    return b.func


def allowed(kind: str, dtype: DType) -> bool:
    if dtype is dt.bool_:
        return kind in (*ops.LOGICAL, "and", "or", "xor", "eq", "ne")
    if dtype.is_float:
        return kind not in ("shl", "shr", "and", "or", "xor", "mul_hi", *ops.LOGICAL) and \
            (kind != "nextafter" or dtype.bits >= 32)
    return kind not in ("div", "pow", *ops.LOGICAL, *ops.MATH_PAIRS) and (kind != "mul_hi" or dtype.bits >= 32)


def unary_ops() -> Func:
    b = K("unary_ops", (32, 1, 1))
    x = {dtype: b.scalar(f"a_{dtype}", dtype) for dtype in (*NUMBERS, dt.bool_)}
    out = outputs(b, (*NUMBERS, dt.bool_))
    count = 0
    for dtype in (*NUMBERS, dt.bool_):
        for kind in ops.UNARY:
            if dtype is dt.bool_ and kind not in ("not", "invert"):
                continue
            if kind == "not" and dtype is not dt.bool_:
                continue
            if dtype.is_float and kind in ("invert", "brev", *ops.COUNTS):
                continue
            if dtype.is_integer and kind in ("isnan", "isinf", *ops.MATH, *ops.SLOW_MATH) and kind != "abs":
                continue
            result = dt.bool_ if kind in ("not", "isnan", "isinf") or dtype is dt.bool_ else \
                dt.int32 if kind in ops.COUNTS else dtype
            for fast in (False, True) if kind in ops.MATH and dtype.is_float else (False,):
                value = raw(b, ops.Unary, result, kind=kind, a=x[dtype].o, fast=fast)
                b.store(out[result], count, value)
                count += 1
    return b.func


def casts(dtypes=(*NUMBERS, dt.bool_, dt.tfloat32), extra=()) -> Func:
    """Every conversion and every bitcast between dtypes of one width."""
    everything = (*dtypes, *extra)
    b = K("casts", (32, 1, 1))
    x = {dtype: b.scalar(f"a_{dtype}", dtype) for dtype in everything}
    out = outputs(b, everything)
    count = 0
    for source in everything:
        for target in everything:
            if source == target or (extra and source not in extra and target not in extra):
                continue
            b.store(out[target], count, raw(b, ops.Cast, target, a=x[source].o))
            if source.bits == target.bits and dt.bool_ not in (source, target):
                b.store(out[target], count + 1, raw(b, ops.Cast, target, a=x[source].o, bits=True))
            count += 2
    return b.func


def literals() -> Func:
    b = K("literals", (32, 1, 1))
    infinity = float("inf")
    numbers = {dt.float32: (0.1, -2.0, 1e-30, infinity, -infinity, float("nan"), 3.4e38, 1e39),
               dt.float64: (0.1, -1.0, infinity, float("nan"), 1e300), dt.float16: (1.0, -0.5, 1e-8, infinity),
               dt.bfloat16: (1.0, -3.0), dt.int32: (0, -1, -2**31, 2**31 - 1), dt.uint32: (7, 2**32 - 1),
               dt.int64: (1, -2**63, 2**40), dt.uint64: (2**64 - 1,), dt.int8: (-128, 5), dt.bool_: (True, False)}
    for dtype, values in numbers.items():
        out = b.tensor(f"out_{dtype}", dtype, 1)
        for i, value in enumerate(values):
            b.store(out, i, Literal(value, dtype))
    return b.func


def select_and_floor() -> Func:
    """Floor division where facts prove nothing, something, and everything."""
    b = K("select_and_floor", (64, 1, 1))
    n, m = b.scalar("n", dt.int32), b.scalar("m", dt.int32)
    out = b.tensor("out", dt.int32, 1)
    tid = b.thread()
    positive = E(b, Value(dt.int32, lower=0, name="size"))
    b.func.params.append(ScalarParam("size", positive.o))
    cases = (tid // 32, tid % 32, n // 8, n % 8, n // m, n % m, positive // 3, positive % 3, positive // 4, n // -2)
    for i, case in enumerate(cases):
        b.store(out, i, case)
    least = b.e(b.select((n < m).o, n.o, (m + 1).o))
    b.store(out, least, b.select((tid < 5).o, least.o, i32(-1)))
    return b.func


def memory_ops() -> Func:
    """Ordered loads and stores, every atomic, fences, in shared and global memory."""
    b = K("memory_ops", (128, 1, 1))
    numbers = (dt.int32, dt.uint32, dt.int64, dt.uint64, dt.float32, dt.float64)
    for dtype in (*numbers, dt.float16, dt.uint8):
        for place in (b.tensor(f"g_{dtype}", dtype, 1), b.shared(f"s_{dtype}", dtype, make_layout(8))):
            for order, scope in (("relaxed", "gpu"), ("acquire", "cta"), ("seq_cst", "sys")):
                value = b.load(place, 0, order=order, scope=scope)
                b.store(place, 1, value, order=order.replace("acquire", "release"), scope=scope)
            if dtype in numbers:
                atomics(b, place, dtype)
    half = b.tensor("half", dt.float16, 1)
    raw(b, ops.Atomic, dt.float16, kind="add", ref=Ref(half, i32(0), dt.float16), value=Literal(1.0, dt.float16))
    for order in ("relaxed", "acquire", "release", "acq_rel", "seq_cst"):
        for scope in ("thread", "cta", "gpu", "sys"):
            b.emit(ops.Fence(order=order, scope=scope))
    return b.func


def number(x: int, dtype: DType) -> Literal:
    return Literal(float(x) if dtype.is_float else x, dtype)


def atomics(b: K, place: Buffer, dtype: DType) -> None:
    for kind in ("add", "min", "max", "and", "or", "xor", "exch", "cas"):
        if dtype.is_float and kind in ("and", "or", "xor"):
            continue
        for order, used in (("relaxed", False), ("acq_rel", True), ("seq_cst", True)):
            old = raw(b, ops.Atomic, dtype, kind=kind, ref=Ref(place, i32(2), dtype), value=number(3, dtype),
                      compare=number(4, dtype) if kind == "cas" else None, order=order, scope="gpu")
            if used:
                b.store(place, 3, old)


def copies(dtype: DType) -> Func:
    """Plain copies of every width, between every pair of spaces, with and without predicates."""
    b = K(f"copies_{dtype}", (128, 1, 1))
    A, B = b.tensor("A", dtype), b.tensor("B", dtype)
    sA = b.shared("sA", dtype, make_layout(512 * 128 // dtype.bits))
    p = b.scalar("p", dt.bool_)
    tid = b.thread()
    width = 1
    while width * dtype.bits <= 128:
        r = b.registers(f"r{width}", dtype, 4 * width)
        flags = b.registers(f"flags{width}", dt.bool_, 4)
        b.map(tile(flags, 0, 1), [], (4,), lambda: tid < 7)
        at = tid * (4 * width)
        for options in ({}, {"pred": p.o}, {"pred": tile(flags, 0, 1)}, {"pred": p.o, "zero_fill": True},
                        {"pred": tile(flags, 0, 1), "zero_fill": True}):
            b.copy(tile(r, 0, width), tile(A, at, width), 4, width=width, **options)
            b.copy(tile(sA, at, width), tile(r, 0, width), 4, width=width, **options)
            b.emit(ops.SyncThreads())
            b.copy(tile(B, at, width), tile(sA, at, width), 4, width=width, **options)
        width *= 2
    n = b.e(b.param(0).shape[0])
    b.copy(tile(B, 0, 1, b.param(1).strides[1]), tile(A, 0, 1, b.param(0).strides[1]), n.o, 3)
    return b.func


def async_copies() -> Func:
    b = K("async_copies", (128, 1, 1))
    A = b.tensor("A", dt.float32)
    swizzle = Swizzle(3, 2, 3)
    sA = b.shared("sA", dt.float32, make_layout((64, 64)), align=1024)
    tid = b.thread()
    flags = b.registers("flags", dt.bool_, 4)
    b.map(tile(flags, 0, 1), [], (4,), lambda: tid < 7)
    for atom in (CpAsync(dt.float32), CpAsync(dt.float64), CpAsync(dt.uint128), CpAsync(dt.uint128, cache="global")):
        width = atom.bytes // 4
        for options in ({}, {"pred": (tid < 9).o}, {"pred": (tid < 9).o, "zero_fill": True},
                        {"pred": tile(flags, 0, 1), "zero_fill": True}):
            b.copy(tile(sA, tid * width, 512, swizzle=swizzle), tile(A, tid * width, 512), 4, width=width, atom=atom,
                   **options)
            b.emit(ops.CpAsyncCommit())
            b.emit(ops.CpAsyncWait(pending=0))
            b.emit(ops.SyncThreads())
    b.emit(ops.CpAsyncWait())
    r = b.registers("r", dt.float32, 16)
    b.copy(tile(r, 0, 4, 1), tile(sA, tid * 4, 512, 1, swizzle=swizzle), 4, 4)
    b.copy(tile(A, tid * 4, 512, 1), tile(r, 0, 4, 1), 4, 4)
    return b.func


def control() -> Func:
    """Loops of every kind and exits to every place."""
    b = K("control", (64, 1, 1))
    n = b.scalar("n", dt.int32)
    out = b.tensor("out", dt.int32, 1)
    total = b.var("total", 0)
    for step, unroll in ((1, None), (2, 0), (-1, 1), (-3, 4)):
        start, stop = (0, n) if step > 0 else (n, 0)
        b.loop(start, stop, lambda i: b.set((total, b.get(total) + i)), "i", step, unroll)
    i = b.var("i", 0)
    whole = ops.Scope(body=Block())
    outer, inner = ops.Loop(body=Block()), ops.Loop(body=Block())

    def leave(kind, target):
        return lambda: b.emit(ops.Exit(kind=kind, target=target))

    with b.inside(whole.body):
        with b.inside(outer.body):
            b.when(b.get(i) >= n, leave("break", outer))
            b.set((i, b.get(i) + 1))
            with b.inside(inner.body):
                b.set((total, b.get(total) * 3))
                b.when(b.get(total) < 10, leave("continue", outer))
                b.when(b.get(total) < 20, leave("break", outer))
                b.when(b.get(total) < 30, leave("continue", inner))
                b.when(b.get(total) < 40, leave("leave", whole))
                b.when(b.get(total) < 50, leave("return", None), lambda: b.when(
                    b.get(total) < 60, leave("break", inner), lambda: b.set((i, b.get(i) + 5))))
            b.emit(inner)
            late = b.get(total)
            b.store(out, 1, late * late)
        b.emit(outer)
        b.store(out, 2, b.get(i))
    b.emit(whole)
    b.store(out, 0, b.get(total))
    return b.func


def snapshots() -> Func:
    """Reads whose variable or memory changes before their use: each must keep its old value."""
    b = K("snapshots", (64, 1, 1))
    out, A = b.tensor("out", dt.int32, 1), b.tensor("A", dt.int32, 1)
    n = b.scalar("n", dt.int32)
    x, y = b.var("x", 1), b.var("y", 2)
    old = b.get(x)  # outlives the assignment
    b.set((x, n))
    b.store(out, 0, old)
    b.set((x, b.get(y)), (y, b.get(x)))  # swap
    before = b.get(x)  # outlives the branch that changes x
    b.when(n < 3, lambda: b.set((x, n + 1)))
    b.store(out, 1, before + b.get(x))
    kept = b.get(x)  # each iteration needs the value from before the loop
    b.loop(0, n, lambda i: (b.store(out, i + 2, kept), b.set((x, b.get(x) * 2))), "i")
    loaded = b.load(out, 7)  # the store may change it
    b.store(out, 7, b.load(A, 0) + 1)
    b.store(out, 8, loaded)
    waiting = b.load(out, 9)  # the barrier may
    b.emit(ops.SyncThreads())
    b.store(out, 10, waiting)
    total = b.get(x) + b.load(out, 11)
    b.when(n < 9, lambda: (b.set((x, 5)), b.store(out, 12, total)))  # needed only inside, after the change
    b.store(out, 13, b.get(x))
    return b.func


def warps() -> Func:
    b = K("warps", (64, 1, 1))
    lane = b.thread() % 32
    for dtype in (*INTEGERS, *FLOATS, dt.bool_):
        x, out = b.scalar(f"x_{dtype}", dtype), b.tensor(f"out_{dtype}", dtype, 1)
        for i, kind in enumerate(("idx", "up", "down", "xor")):
            got = raw(b, ops.Shuffle, dtype, kind=kind, value=x.o, lane=i32(1) if i else lane.o, width=32 >> i)
            b.store(out, i, got)
    flag = lane < 7
    bits, both = b.tensor("bits", dt.uint32, 1), b.tensor("both", dt.bool_, 1)
    b.store(bits, 0, raw(b, ops.Vote, dt.uint32, kind="ballot", pred=flag.o))
    half = lane < 16
    b.when(half, lambda: b.store(both, 0, raw(b, ops.Vote, dt.bool_, kind="any", pred=flag.o, mask=0xFFFF)))
    b.store(both, 1, raw(b, ops.Vote, dt.bool_, kind="all", pred=flag.o))
    raw(b, ops.Vote, dt.bool_, kind="all", pred=flag.o)
    signed, words = b.scalar("signed", dt.int32), b.tensor("words", dt.int32, 1)
    for i, kind in enumerate(("add", "max", "and")):
        b.store(words, i, raw(b, ops.Redux, dt.int32, kind=kind, value=signed.o))
    long = b.scalar("long_", dt.uint64)
    b.store(bits, 1, raw(b, ops.Match, dt.uint32, kind="any", value=signed.o))
    b.store(bits, 2, raw(b, ops.Match, dt.uint32, kind="all", value=long.o))
    hidden = raw(b, ops.Shuffle, dt.float32, kind="xor", value=b.scalar("f", dt.float32).o, lane=i32(4))
    chosen = b.select(flag.o, hidden.o, Literal(0.0, dt.float32))  # every lane must shuffle, whatever it chooses
    b.store(b.tensor("chosen", dt.float32, 1), 0, chosen)
    b.emit(ops.SyncWarp())
    b.when(half, lambda: b.emit(ops.SyncWarp(mask=0xFFFF)))
    b.emit(ops.NamedBarrier(kind="sync", barrier=(b.thread() // 32 + 1).o, threads=32))
    b.emit(ops.NamedBarrier(kind="arrive", barrier=i32(3), threads=64))
    clock = raw(b, ops.Special, dt.int64, kind="clock")
    timer = raw(b, ops.Special, dt.int64, kind="globaltimer")
    b.store(b.tensor("times", dt.int64, 1), 0, timer - clock)
    return b.func


def debugging() -> Func:
    b = K("debugging", (32, 1, 1))
    n = b.scalar("n", dt.int32)
    values = [b.scalar(f"x_{dtype}", dtype) for dtype in (*NUMBERS, dt.bool_)]
    b.emit(ops.Print(parts=('100% "sure"\\', " ", n.o, "\n")))
    b.emit(ops.Print(parts=(*(value.o for value in values), "\n")))
    b.emit(ops.Assert(cond=(n < 5).o, message="n is too large"))
    b.emit(ops.Inspect(label="here", tensors=(), scalars=(("n", (n * 77).o),)))
    return b.func


def elementwise() -> Func:
    """Maps, reductions, named scalars for fragments that only constants index, arrays that nobody reads."""
    b = K("elementwise", (32, 1, 1))
    A, out = b.tensor("A", dt.float32), b.tensor("out", dt.float32, 1)
    x, y, unread = (b.registers(name, dt.float32, 12) for name in ("x", "y", "unread"))
    h = b.registers("h", dt.float16, 12)
    b.copy(tile(x, 0, 1, 4), tile(A, 0, 1, b.param(0).strides[1]), 4, 3)
    scale = b.load(A, 5)
    b.map(tile(y, 0, 1), [tile(x, 0, 1)], (12,), lambda e: e * e + scale)
    b.map(tile(h, 0, 1), [tile(y, 0, 1)], (12,), lambda e: E(b, b.cast(e.o, dt.float16)))
    b.map(tile(unread, 0, 1), [tile(x, 0, 1)], (12,), lambda e: e + 1.0)
    b.map(tile(x, 0, 1, 4), [tile(x, 0, 3, 1), tile(y, 0, 0, 0)], (4, 3), lambda e, f: e / f)
    for i, kind in enumerate(("add", "mul", "min", "max")):
        b.store(out, i, raw(b, ops.Reduce, dt.float32, kind=kind, src=tile(x, 0, 1, 4), extents=(4, 3)))
        b.store(out, i + 4, b.cast(raw(b, ops.Reduce, dt.float16, kind=kind, src=tile(h, 0, 1, 6), extents=(4, 2)).o,
                                   dt.float32))
    chained = raw(b, ops.Reduce, dt.float32, kind="add", src=tile(x, 0, 1, 4), extents=(4, 3), chains=4)
    b.store(out, 8, chained)
    b.store(out, 11, b.cast(raw(b, ops.Find, dt.int32, value=chained.o, src=tile(x, 0, 1, 4), extents=(4, 3)).o,
                            dt.float32))
    b.store(out, 12, raw(b, ops.Reduce, dt.float32, kind="min", src=tile(x, 0, 2), extents=(5,), chains=2))
    few = b.registers("few", dt.float32, 2)
    one = b.registers("one", dt.float32, 1)
    b.store(few, 0, b.load(A, 1))
    b.store(few, 1, b.load(few, 0) * 2.0)
    b.fill(one, 3.0)
    b.store(out, 9, b.load(few, 1) + b.load(one, 0))
    bits = b.registers("bits", dt.int32, 8)
    b.fill(bits, 6)
    b.store(out, 10, b.cast(raw(b, ops.Reduce, dt.int32, kind="xor", src=tile(bits, 0, 1), extents=(8,)).o, dt.float32))
    return b.func


def gemms() -> Func:
    """Scalar FMAs of every dtype, several k, dimensions that do not merge; PTX atoms."""
    b = K("gemms", (32, 1, 1))
    for dtype in (dt.float16, dt.bfloat16, dt.float32, dt.float64, dt.int32):
        rows, columns, depth = 4, 6, 2
        A, B, C = (b.registers(f"{x}_{dtype}", dtype, n) for x, n in (("a", 8), ("b", 12), ("c", 24)))
        memory = b.tensor(f"g_{dtype}", dtype, 1)
        for fragment in (A, B, C):
            b.copy(tile(fragment, 0, 1), tile(memory, 0, 1), fragment.elements)
        for order in ("rows", "serpentine"):
            b.emit(ops.Gemm(mma=UniversalFMA(dtype), d=tile(C, 0, 1, 4, 0), a=tile(A, 0, 1, 0, 4),
                            b=tile(B, 0, 0, 1, 6), c=tile(C, 0, 1, 4, 0), extents=(rows, columns, depth), roles="mnk",
                            order=order))
            b.emit(ops.Gemm(mma=UniversalFMA(dtype), d=tile(C, 0, 2, 1, 4), a=tile(A, 0, 2, 1, 0),
                            b=tile(B, 0, 0, 0, 1), c=tile(C, 0, 1, 2, 4), extents=(2, 2, columns), roles="mmn",
                            order=order))
        b.copy(tile(memory, 0, 1), tile(C, 0, 1), 24)
    for mma in (TF32, F16, F64, S8):
        counts = [values_of(layout) for layout in (mma.c_layout, mma.a_layout, mma.b_layout)]
        memory = [b.tensor(f"{x}_{mma.name}", dtype, 1) for x, dtype in
                  (("D", mma.d_dtype), ("A", mma.a_dtype), ("B", mma.b_dtype))]
        fragments = [b.registers(f"r{m.name}", m.dtype, 2 * n) for m, n in zip(memory, counts, strict=True)]
        for fragment, m in zip(fragments, memory, strict=True):
            b.copy(tile(fragment, 0, 1), tile(m, 0, 1), fragment.elements)
        d, a, bb = fragments
        b.emit(ops.Gemm(mma=mma, d=tile(d, 0, counts[0]), a=tile(a, 0, counts[1]), b=tile(bb, 0, 0),
                        c=tile(d, 0, counts[0]), extents=(2,), roles="m", a_values=tuple(range(counts[1])),
                        b_values=tuple(range(counts[2])), c_values=tuple(range(counts[0])),
                        d_values=tuple(range(counts[0]))))
        b.copy(tile(memory[0], 0, 1), tile(d, 0, 1), d.elements)
    return b.func


def atom(name: str, k: int, a: DType, c: DType, counts: tuple[int, int, int], ptx: str, m: int = 16) -> MmaOp:
    a_layout, b_layout, c_layout = (make_layout((32, n)) for n in counts)
    return MmaOp(name, (m, 8, k), a, a, c, c, 32, a_layout, b_layout, c_layout, ptx)


def values_of(layout) -> int:
    return layout.shape[1]


TF32 = atom("SM80_16x8x8_F32TF32TF32F32_TN", 8, dt.tfloat32, dt.float32, (4, 2, 4),
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {d}, {a}, {b}, {c};")
F16 = atom("SM80_16x8x16_F16F16F16F16_TN", 16, dt.float16, dt.float16, (8, 4, 4),
           "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16")
F64 = atom("SM80_8x8x4_F64F64F64F64_TN", 4, dt.float64, dt.float64, (1, 1, 2),
           "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", 8)
S8 = atom("SM80_16x8x32_S32S8S8S32_TN", 32, dt.int8, dt.int32, (16, 8, 4),
          "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32")


def wide() -> Func:
    """64-bit indices, a dynamic pool of shared memory, clusters, an alias of another dtype, overlapping arguments."""
    b = K("wide<locals>.kernel", (32, 2, 1), index_bits=64, cluster_dim=(2, 1, 1), restrict=False)
    A, B = b.tensor("A", dt.float32), b.tensor("int", dt.float16)
    sA = b.shared("sA", dt.float32, make_layout((128, 128)))
    sB = b.shared("sB", dt.float16, make_layout((64, 8)), align=128)
    tid = E(b, b.special("thread_x", lower=0, upper=31, dtype=dt.int64))
    stride = b.e(b.param(0).strides[1])
    r = b.registers("r", dt.uint32, 4)
    b.copy(tile(r, Literal(0, dt.int64), 1, dtype=dt.uint32), tile(B, tid * 4, 1, dtype=dt.uint32), 4)
    b.copy(tile(sB, tid * 4, 1, dtype=dt.uint32), tile(r, Literal(0, dt.int64), 1), 4)
    b.copy(tile(sA, tid, 32), tile(A, tid + stride * 3, 32), 16)
    b.emit(ops.SyncThreads())
    b.store(A, tid, b.load(sA, tid + 5))
    return b.func


CASES: dict[str, Callable[[], Func]] = {
    "matmul": matmul, "matmul_serpentine": lambda: matmul("serpentine"),
    **{f.__name__: f for f in (binary_ops, unary_ops, casts, literals, select_and_floor, memory_ops, async_copies,
                               control, snapshots, warps, debugging, elementwise, gemms, wide)},
    **{f"copies_{dtype}": (lambda dtype=dtype: copies(dtype)) for dtype in (*NUMBERS, *FP8, dt.bool_)},
    "casts_fp8": lambda: casts(extra=FP8),
}
