"""Builds small Funcs by hand, as a trace would: ``K`` is a kernel under construction."""

from __future__ import annotations

import itertools
from contextlib import contextmanager

import numpy as np

from moye import dtypes as dt
from moye.atoms.universal import AUTO_COPY, CpAsync, UniversalFMA
from moye.dtypes import Space
from moye.errors import Frame, Loc
from moye.ir import ops
from moye.ir.nodes import Block, Buffer, Func, Literal, Ref, ScalarParam, TensorParam, TileRef, Value, Var
from moye.layout import make_layout
from moye.sim.machine.machine import Hooks, TensorArg, simulate


def lit(x, dtype=None):
    if isinstance(x, (Literal, Value)):
        return x
    if dtype is None:
        dtype = dt.bool_ if isinstance(x, bool) else dt.int32 if isinstance(x, int) else dt.float32
    return Literal(x, dtype)


class K:
    """A kernel: ``k.tensor``, ``k.shared``, arithmetic (``k.add(a, b)``), control flow as context managers."""

    def __init__(self, threads=32, name="kernel", block_dim=None):
        self.func = Func(name, [], Block(), block_dim or (threads, 1, 1))
        self.stack = [self.func.body]
        self.lines = itertools.count(1)
        self.specials = {}

    # --- ops

    def emit(self, op):
        op.loc = Loc((Frame("kernel.py", next(self.lines)),))
        result = getattr(op, "result", None)
        if isinstance(result, Value):
            result.op = op
        self.stack[-1].ops.append(op)
        return result if isinstance(result, Value) else op

    @contextmanager
    def inside(self, block):
        self.stack.append(block)
        yield block
        self.stack.pop()

    def special(self, kind):
        if kind not in self.specials:
            value = Value(dt.int32, lower=0, upper=1 << 20)
            op = ops.Special(result=value, kind=kind)
            value.op = op
            self.func.body.ops.insert(0, op)
            self.specials[kind] = value
        return self.specials[kind]

    tid = property(lambda self: self.special("thread_x"))
    bid = property(lambda self: self.special("block_x"))

    def binary(self, kind, a, b, **facts):
        a, b = (lit(x, y.dtype if isinstance(y, (Literal, Value)) and kind not in ("shl", "shr", "ldexp") else None)
                for x, y in ((a, b), (b, a)))
        dtype = dt.bool_ if kind in ops.COMPARISONS + ops.LOGICAL else a.dtype
        return self.emit(ops.Binary(result=Value(dtype, **facts), kind=kind, a=a, b=b))

    def __getattr__(self, kind):
        if kind.rstrip("_") in ops.BINARY:
            return lambda a, b, **facts: self.binary(kind.rstrip("_"), a, b, **facts)
        raise AttributeError(kind)

    def unary(self, kind, a, dtype=None):
        a = lit(a)
        dtype = dtype or (dt.bool_ if kind in ("not", "isnan", "isinf") else
                          dt.int32 if kind in ops.COUNTS else a.dtype)
        return self.emit(ops.Unary(result=Value(dtype), kind=kind, a=a))

    def select(self, c, a, b):
        a = lit(a)
        return self.emit(ops.Select(result=Value(a.dtype), cond=c, a=a, b=lit(b, a.dtype)))

    def cast(self, a, dtype, bits=False):
        return self.emit(ops.Cast(result=Value(dtype), a=lit(a), bits=bits))

    # --- variables

    def var(self, init, dtype=dt.int32, name="x"):
        var = Var(name, dtype)
        self.emit(ops.Declare(var=var, init=None if init is None else lit(init, dtype)))
        return var

    def read(self, var):
        return self.emit(ops.Read(result=Value(var.dtype), var=var))

    def assign(self, *pairs):
        self.emit(ops.Assign(pairs=tuple((var, lit(x, var.dtype)) for var, x in pairs)))

    # --- memory

    def tensor(self, name, rank=1, dtype=dt.float32, shape=None, strides=None):
        shape = shape or tuple(Value(dt.int32, name=f"{name}{i}") for i in range(rank))
        strides = strides or (1, *(Value(dt.int32, name=f"{name}s{i}") for i in range(1, rank)))
        index = sum(isinstance(p, TensorParam) for p in self.func.params)
        buffer = Buffer(name, Space.GLOBAL, dtype, None, make_layout(1), align=dtype.bits // 8, index=index)
        self.func.params.append(TensorParam(name, buffer, shape, strides))
        return buffer

    def scalar(self, name, dtype=dt.int32):
        value = Value(dtype, name=name)
        self.func.params.append(ScalarParam(name, value))
        return value

    def shared(self, elements, dtype=dt.float32, name="sA"):
        return self._alloc(name, Space.SHARED, dtype, elements)

    def fragment(self, elements, dtype=dt.float32, name="r"):
        return self._alloc(name, Space.REGISTER, dtype, elements)

    def _alloc(self, name, space, dtype, elements):
        buffer = Buffer(name, space, dtype, elements, make_layout(elements), align=16)
        self.func.buffers.append(buffer)
        self.emit(ops.Alloc(buffer=buffer))
        return buffer

    def load(self, buffer, offset, dtype=None, **kw):
        dtype = dtype or buffer.dtype
        return self.emit(ops.Load(result=Value(dtype), ref=Ref(buffer, lit(offset), dtype), **kw))

    def store(self, buffer, offset, value, dtype=None, **kw):
        dtype = dtype or buffer.dtype
        self.emit(ops.Store(ref=Ref(buffer, lit(offset), dtype), value=lit(value, dtype), **kw))

    def atomic(self, kind, buffer, offset, value, compare=None, **kw):
        compare = None if compare is None else lit(compare, buffer.dtype)
        return self.emit(ops.Atomic(result=Value(buffer.dtype), kind=kind, ref=Ref(buffer, lit(offset), buffer.dtype),
                                    value=lit(value, buffer.dtype), compare=compare, **kw))

    def tile(self, buffer, offset=0, strides=(1,), dtype=None, swizzle=None):
        return TileRef(buffer, lit(offset), dtype or buffer.dtype, strides, swizzle, None, "")

    def copy(self, dst, src, extents, width=1, atom=AUTO_COPY, **kw):
        return self.emit(ops.Copy(dst=dst, src=src, extents=extents, width=width, atom=atom, **kw))

    def cp_async(self, dst, src, extents, width=1, dtype=dt.float32, **kw):
        return self.copy(dst, src, extents, width, CpAsync({1: dt.float32, 2: dt.float64, 4: dt.uint128}[width]), **kw)

    def wait(self, pending=None):
        self.emit(ops.CpAsyncWait(pending=pending))

    def commit(self):
        self.emit(ops.CpAsyncCommit())

    def fill(self, buffer, value, elements=None):
        self.emit(ops.Map(dst=self.tile(buffer), sources=(), inputs=(), extents=(elements or buffer.elements,),
                          body=Block(), value=lit(value, buffer.dtype)))

    def sync(self):
        self.emit(ops.SyncThreads())

    # --- control flow

    @contextmanager
    def if_(self, cond):
        op = ops.If(cond=lit(cond), then=Block(), orelse=Block())
        self.emit(op)
        with self.inside(op.then):
            yield op

    @contextmanager
    def else_(self, op):
        with self.inside(op.orelse):
            yield

    @contextmanager
    def for_(self, start, stop, step=1, **facts):
        op = ops.For(iv=Value(dt.int32, **facts), start=lit(start), stop=lit(stop), step=step, body=Block())
        self.emit(op)
        with self.inside(op.body):
            yield op

    @contextmanager
    def loop(self):
        op = ops.Loop(body=Block())
        self.emit(op)
        with self.inside(op.body):
            yield op

    @contextmanager
    def scope(self):
        op = ops.Scope(body=Block())
        self.emit(op)
        with self.inside(op.body):
            yield op

    def exit(self, kind, target=None):
        self.emit(ops.Exit(kind=kind, target=target))

    # --- running

    def run(self, *arguments, grid=(1, 1, 1), check=True, **hooks):
        arguments = [arg(a) if isinstance(a, np.ndarray) else a for a in arguments]
        return simulate(self.func, arguments, grid, check=check, hooks=Hooks(**hooks))


def arg(array, name="A"):
    """The TensorArg of a NumPy array with positive strides that owns its memory."""
    base = array if array.base is None else array.base
    flat = base.reshape(-1, order="A") if base.flags.c_contiguous else base.T.reshape(-1)
    return TensorArg(flat, 0, array.shape, tuple(s // array.itemsize for s in array.strides), name)


def codes(outcome):
    return [finding.code for finding in outcome.findings]


def line_of(finding, which=0):
    return finding.locs[which].line


def matmul(tiles, bM=128, bN=128, bK=8):
    """The double-buffered matmul of the reference: 256 threads, 64 accumulators each; A (M,K), B (N,K), C (M,N)."""
    k = K(256, "matmul")
    pad = 2
    A = k.tensor("A", 2, strides=(1, Value(dt.int32, name="lda")))
    B = k.tensor("B", 2, strides=(1, Value(dt.int32, name="ldb")))
    C = k.tensor("C", 2, strides=(1, Value(dt.int32, name="ldc")))
    lda, ldb, ldc = (p.strides[1] for p in k.func.params)
    stage = (bM + pad) * bK
    sA, sB = k.shared(2 * stage, name="sA"), k.shared(2 * stage, name="sB")
    tid, bx, by = k.tid, k.special("block_x"), k.special("block_y")
    # copy: threads (32, 8), values (2, 1)
    t0, t1 = k.mod(tid, 32), k.floordiv(tid, 32)
    col = k.mul(t0, 2)
    s_off = k.add(col, k.mul(t1, bM + pad))

    def gmem(ld, block):
        return k.add(k.add(k.mul(block, bM), col), k.mul(t1, ld))

    ga, gb = gmem(lda, bx), gmem(ldb, by)
    stepA, stepB = k.mul(lda, bK), k.mul(ldb, bK)

    def prefetch(tile, stage_offset):
        for s, g, buf, step, t in ((sA, ga, A, stepA, tile), (sB, gb, B, stepB, tile)):
            k.cp_async(k.tile(s, k.add(s_off, stage_offset), (64,)), k.tile(buf, k.add(g, k.mul(step, t)), (64,)),
                       (bM // 64,), width=2)

    prefetch(lit(0), lit(0))
    rA, rB = k.fragment(8 * bK, name="rA"), k.fragment(8 * bK, name="rB")
    rC = k.fragment(64, name="rC")
    k.fill(rC, 0.0)
    k.wait()
    k.sync()
    read, write = k.var(0, name="smem_read"), k.var(1, name="smem_write")
    tm, tn = k.mod(tid, 32), k.floordiv(tid, 32)
    tm, tn = k.mod(tid, 16), k.floordiv(tid, 16)
    pA, pB = k.var(k.add(tm, 0), name="pA"), k.var(k.add(tn, 0), name="pB")

    def fetch(kb):
        for s, p, r in ((sA, pA, rA), (sB, pB, rB)):
            k.copy(k.tile(r, 8 * kb), k.tile(s, k.add(k.read(p), kb * (bM + pad)), (16,)), (8,))

    fetch(0)
    with k.for_(0, tiles) as loop:
        for kb in range(bK):
            if kb == bK - 1:
                k.wait()
                k.sync()
                k.assign((pA, k.add(tm, k.mul(k.read(read), stage))), (pB, k.add(tn, k.mul(k.read(read), stage))))
            fetch((kb + 1) % bK)
            if kb == 0:
                with k.if_(k.lt(loop.iv, tiles - 1)):
                    prefetch(k.add(loop.iv, 1), k.mul(k.read(write), stage))
                    r, w = k.read(read), k.read(write)
                    k.assign((read, w), (write, r))
            k.emit(ops.Gemm(mma=UniversalFMA(dt.float32), d=k.tile(rC, 0, (1, 8)), a=k.tile(rA, 8 * kb, (1, 0)),
                            b=k.tile(rB, 8 * kb, (0, 1)), c=k.tile(rC, 0, (1, 8)), extents=(8, 8), roles="mn"))
    row = k.add(k.mul(bx, bM), tm)
    column = k.mul(k.add(k.mul(by, bN), tn), ldc)
    k.copy(k.tile(C, k.add(row, column), (16, k.mul(ldc, 16))), k.tile(rC, 0, (1, 8)), (8, 8))
    return k


def run_matmul(M, N, Kd, check, **hooks):
    rng = np.random.default_rng(0)
    A = np.asfortranarray(rng.standard_normal((M, Kd)).astype(np.float32))
    B = np.asfortranarray(rng.standard_normal((N, Kd)).astype(np.float32))
    C = np.zeros((M, N), np.float32, order="F")
    kernel = matmul(Kd // 8)
    arguments = [TensorArg(x.T.reshape(-1), 0, x.shape, (1, x.shape[0]), name) for x, name in
                 ((A, "A"), (B, "B"), (C, "C"))]
    outcome = simulate(kernel.func, arguments, (M // 128, N // 128, 1), check=check, hooks=Hooks(**hooks))
    return outcome, C, A @ B.T, kernel
