"""A bench on which one kernel's shared-memory traffic is played to a SharedChecker, line by line."""

from __future__ import annotations

import numpy as np
import pytest

from moye.dtypes import Space, float32, int32
from moye.errors import Frame, Loc
from moye.ir.nodes import Block, Buffer, Func, Literal, Ref
from moye.ir.ops import (
    Alloc,
    Atomic,
    CpAsyncCommit,
    CpAsyncWait,
    Fence,
    Load,
    NamedBarrier,
    Op,
    Store,
    SyncThreads,
    SyncWarp,
)
from moye.layout import make_layout
from moye.sim.checkers.findings import Reporter
from moye.sim.checkers.shared import SharedChecker


def loc(line):
    return Loc((Frame("kernel.py", line),))


class Bench:
    """Elements instead of bytes, line numbers instead of ops; ``codes()`` is what came out of it.

    Element arrays are (T,), (V, T) or (V, T, B); masks are sequences of thread numbers or bool arrays (T, B).
    """

    def __init__(self, threads=64, blocks=1, elements=256, *, layout=None, stop=False, warp=32, dtype=float32,
                 fence=False):
        self.threads, self.dtype = threads, dtype
        body = Block([Fence(order="acq_rel", scope="cta")] if fence else [])
        self.func = Func("kernel", [], body, (threads, 1, 1))
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
        op = self.op(Load, line, result=None, ref=None, order=order)
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
        op = self.op(Atomic, line, result=None, kind="add", ref=None, value=None, order=order)
        return self._access(self.checker.atomic, op, elements, active, None, None)

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
