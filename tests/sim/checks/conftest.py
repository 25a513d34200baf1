"""A bench on which one kernel's shared-memory traffic is played to a SharedChecker, line by line."""

from __future__ import annotations

import numpy as np
import pytest

from moye.dtypes import Space, float32, int32, uint64
from moye.errors import Frame, Loc
from moye.ir.nodes import Block, Buffer, Func, Literal, Ref, Value
from moye.ir.ops import (
    Alloc,
    Atomic,
    CpAsyncCommit,
    CpAsyncWait,
    Load,
    MapShared,
    MbarrierArrive,
    MbarrierInit,
    MbarrierWait,
    NamedBarrier,
    Op,
    Store,
    SyncThreads,
    SyncWarp,
)
from moye.layout import make_layout
from moye.sim.checks.shared_races import SharedChecker
from moye.sim.findings.finding import Reporter


def loc(line):
    return Loc((Frame("kernel.py", line),))


class Bench:
    """Elements instead of bytes, line numbers instead of ops; ``codes()`` is what came out of it.

    Element arrays are (T,), (V, T) or (V, T, B); masks are sequences of thread numbers or bool arrays (T, B).
    """

    def __init__(self, threads=64, blocks=1, elements=256, *, layout=None, stop=False, warp=32, dtype=float32,
                 cluster=1):
        self.threads, self.blocks, self.dtype = threads, blocks, dtype
        body = Block([])
        if cluster > 1:
            body.ops.append(MapShared(result=Value(int32), buffer=None, rank=None))
        self.func = Func("kernel", [], body, (threads, 1, 1), cluster_dim=(cluster, 1, 1))
        self.reporter = Reporter(self.func, stop)
        ids = np.stack([np.arange(blocks), np.zeros(blocks, int), np.zeros(blocks, int)], axis=1)
        self.checker = SharedChecker(self.func, threads, blocks, self.reporter, ids, warp=warp)
        self.tid = np.arange(threads)
        self.sA = self.buffer("sA", elements, layout)
        self._ops = {}

    def buffer(self, name, elements, layout=None):
        return Buffer(name, Space.SHARED, self.dtype, elements, layout or make_layout((elements,)), align=16)

    def op(self, cls, line, **fields):
        key = (cls, line, *fields.items())
        if key not in self._ops:
            self._ops[key] = cls(loc=loc(line), **fields)
        return self._ops[key]

    def mask(self, active):
        if active is None or (isinstance(active, np.ndarray) and active.dtype == bool):
            return active
        return np.isin(self.tid, list(active))[:, None]

    def _access(self, method, op, elements, active, width, buffer):
        buffer = buffer or self.sA
        elements = np.asarray(elements)
        if elements.ndim < 3:
            elements = np.broadcast_to(elements, (*elements.shape[:-1], self.threads)).reshape(-1, self.threads, 1)
        ref = Ref(buffer, Literal(0, int32), self.dtype)
        method(op, ref, elements * self.dtype.bytes, width or self.dtype.bytes, self.mask(active))
        return self

    def read(self, line, elements, active=None, width=None, buffer=None, order=None):
        op = self.op(Load, line, result=Value(int32), ref=None, order=order)
        return self._access(self.checker.read, op, elements, active, width, buffer)

    def write(self, line, elements, active=None, width=None, buffer=None, order=None):
        op = self.op(Store, line, ref=None, value=None, order=order)
        return self._access(self.checker.write, op, elements, active, width, buffer)

    def write_bytes(self, line, addresses, width):
        ref = Ref(self.sA, Literal(0, int32), self.dtype)
        self.checker.write(self.op(Op, line), ref, np.asarray(addresses)[None, :, None], width, None)
        return self

    def copy(self, line, elements, active=None, width=None, buffer=None):
        return self._access(self.checker.async_write, self.op(Op, line), elements, active, width, buffer)

    def atomic(self, line, elements, active=None, order="relaxed"):
        op = self.op(Atomic, line, result=Value(int32), kind="add", ref=None, value=None, order=order)
        return self._access(self.checker.atomic, op, elements, active, None, None)

    # --- clusters: masks are (T, B), ranks are of each block ---

    def _reach(self, method, op, elements, ranks, active, width):
        size = self.checker.cluster
        elements = np.asarray(elements)
        if elements.ndim < 3:
            elements = np.broadcast_to(elements, (*elements.shape[:-1], self.threads)).reshape(-1, self.threads, 1)
        shape = (len(elements), self.threads, self.blocks)
        column = np.arange(self.blocks) // size * size + np.broadcast_to(ranks, (self.blocks,))
        method(op, Ref(self.sA, Literal(0, int32), self.dtype),
               np.broadcast_to(elements, shape) * self.dtype.bytes, column.reshape(1, 1, self.blocks),
               width or self.dtype.bytes, None if active is None else np.broadcast_to(self.mask(active), shape[1:]))
        return self

    def read_at(self, line, elements, ranks, active=None, width=None):
        op = self.op(Load, line, result=Value(int32), ref=None, order=None)
        return self._reach(self.checker.peers.read, op, elements, ranks, active, width)

    def write_at(self, line, elements, ranks, active=None, width=None):
        op = self.op(Store, line, ref=None, value=None, order=None)
        return self._reach(self.checker.peers.write, op, elements, ranks, active, width)

    def _lanes(self, active):
        shape = (self.threads, self.blocks)
        return np.ones(shape, np.bool_) if active is None else np.broadcast_to(self.mask(active), shape)

    def cluster_arrive(self, active=None, relaxed=False):
        self.checker.engines.cluster_arrive(self._lanes(active), relaxed=relaxed)
        return self

    def cluster_wait(self, active=None):
        self.checker.engines.cluster_leave(self._lanes(active))
        return self

    def cluster_sync(self, active=None, relaxed=False):
        return self.cluster_arrive(active, relaxed).cluster_wait(active)

    def arrive(self, line, active=None, to=None):
        """At the one mbarrier of the own block, or of that of rank ``to`` (T, B)."""
        op = self.op(MbarrierArrive, line, ref=self.bars)
        rank, lanes = None if to is None else np.broadcast_to(to, (self.threads, self.blocks)), self._lanes(active)
        if lanes.any():
            self.checker.engines.arrive(op, 0, lanes, np.zeros(self.blocks, np.int64), rank)
        return self

    def phase(self, where=None):
        self.checker.engines.phase(self.bars.buffer, 0, np.ones(self.blocks, np.bool_) if where is None else where)
        return self

    def passed(self, line, active=None):
        op, lanes = self.op(MbarrierWait, line, ref=self.bars, parity=None), self._lanes(active)
        if lanes.any():
            self.checker.engines.passed(op, self.bars, 0, lanes, np.ones(self.blocks, np.int64))
        return self

    def init(self, line, active=(0,)):
        self.checker.engines.init(self.op(MbarrierInit, line, ref=self.bars, count=None), 0, self._lanes(active))
        return self

    @property
    def bars(self):
        if not hasattr(self, "_bars"):
            buffer = Buffer("bars", Space.SHARED, uint64, 1, make_layout(1), align=8)
            self._bars = Ref(buffer, Literal(0, int32), uint64)
        return self._bars

    def exit(self, gone):
        """``gone``: the threads (T, B) that have exited so far."""
        self.checker.peers.left(gone)
        return self

    def commit(self, line=0, active=None):
        self.checker.commit(self.op(CpAsyncCommit, line), self.mask(active))
        return self

    def wait(self, line=0, pending=None, active=None, **trips):
        self.checker.wait(self.op(CpAsyncWait, line, pending=pending), self.mask(active), trips)
        return self

    def allocate(self, line=0, active=None):
        self.checker.allocate(self.op(Alloc, line, buffer=self.sA), self.mask(active))
        return self

    def sync(self, line=0, active=None):
        self.checker.barrier(self.op(SyncThreads, line), self.mask(active))
        return self

    def warp_sync(self, line=0, lanes=0xFFFFFFFF, active=None):
        self.checker.warp_sync(self.op(SyncWarp, line, mask=lanes), lanes, self.mask(active))
        return self

    def named(self, line=0, barrier=1, arrived=(), released=()):
        op = self.op(NamedBarrier, line, kind="sync", barrier=Literal(barrier, int32), threads=32)
        self.checker.named_barrier(op, barrier, self.mask(arrived), self.mask(released))
        return self

    @property
    def findings(self):
        return self.reporter.findings

    def codes(self):
        """``code(line, line)`` of every finding, the write first."""
        return [f"{f.code}({', '.join(str(p.line) for p in f.locs)})" for f in self.findings]


@pytest.fixture
def bench():
    return Bench
