"""Control flow: random programs against a one-thread-at-a-time interpreter, and the cases that deserve a name."""

import random

import numpy as np
import pytest

from moye import dtypes as dt
from moye.ir import ops
from moye.ir.nodes import Literal, Value
from moye.sim.flow.segments import lower
from moye.sim.flow.uniformity import BLOCK, FULL, SCALAR, THREAD, analyse
from moye.sim.generate.control import HANDLED
from moye.sim.generate.program import program_of
from moye.sim.values.scalars import PYTHON, wrap
from sim_kernels import K, codes

T, BLOCKS, VARS = 64, 5, 4


# --- the oracle ------------------------------------------------------------------------------------------------------


class Left(Exception):
    def __init__(self, op):
        self.op = op


class OneThread:
    """Runs one thread of a Func of scalar ops, stores and control flow."""

    def __init__(self, func, thread, block, params, out):
        self.env, self.specials, self.out = dict(params), {"thread_x": thread, "block_x": block}, out
        try:
            self.block(func.body)
        except Left as left:
            assert left.op.kind == "return"

    def value(self, x):
        return x.value if isinstance(x, Literal) else self.env[x]

    def block(self, block):
        for op in block:
            self.run(op)

    def run(self, op):
        if isinstance(op, ops.Special):
            self.env[op.result] = self.specials[op.kind]
        elif isinstance(op, ops.Binary):
            r = PYTHON[op.kind](self.value(op.a), self.value(op.b))
            self.env[op.result] = r if isinstance(r, bool) else wrap(r, 32, True)
        elif isinstance(op, ops.Declare):
            self.env[op.var] = self.value(op.init)
        elif isinstance(op, ops.Read):
            self.env[op.result] = self.env[op.var]
        elif isinstance(op, ops.Assign):
            self.env.update([(var, self.value(x)) for var, x in op.pairs])
        elif isinstance(op, ops.Store):
            self.out[self.value(op.ref.offset)] = self.value(op.value)
        elif isinstance(op, ops.If):
            self.block(op.then if self.value(op.cond) else op.orelse)
        elif isinstance(op, ops.Exit):
            raise Left(op)
        elif isinstance(op, (ops.For, ops.Loop, ops.Scope)):
            self.region(op)

    def region(self, op):
        i = self.value(op.start) if isinstance(op, ops.For) else 0
        while True:
            if isinstance(op, ops.For):
                self.env[op.iv] = i
                if not (i < self.value(op.stop) if op.up else i > self.value(op.stop)):
                    return
                i += op.step if isinstance(op.step, int) else self.value(op.step)
            try:
                self.block(op.body)
            except Left as left:
                if left.op.target is not op:
                    raise
                if left.op.kind != "continue":
                    return
            if isinstance(op, ops.Scope):
                return


# --- random programs -------------------------------------------------------------------------------------------------


class Gen:
    """A random program: assignments, each stored at once, inside random control flow; some cut it into segments."""

    def __init__(self, seed, cuts):
        self.r = random.Random(seed)
        self.cuts = cuts
        self.k = K(T)
        k = self.k
        self.out = k.tensor("out", dtype=dt.int32)
        self.n = k.scalar("n")
        self.me = k.mul(k.add(k.tid, k.mul(k.bid, T)), VARS)
        self.leaves = [k.tid, k.bid, self.n]
        self.vars = [k.var(self.r.choice([0, 3, self.n, k.tid, k.bid]), name=f"x{i}") for i in range(VARS)]
        self.regions = []
        self.budget = 22
        self.block(3)

    def expr(self):
        r, k = self.r, self.k
        x = k.read(r.choice(self.vars)) if r.random() < 0.6 else r.choice(self.leaves)
        for _ in range(r.randrange(3)):
            y = k.read(r.choice(self.vars)) if r.random() < 0.5 else r.choice([*self.leaves, r.randrange(1, 9)])
            x = k.binary(r.choice(["add", "sub", "mul", "xor", "min", "max"]), x, y)
        return k.binary("mod", x, r.choice([5, 16, 64]))

    def cond(self):
        kind, other = self.r.choice(["lt", "gt", "eq", "ne"]), self.r.choice([self.expr(), 1, 2, 3])
        return self.k.binary(kind, self.expr(), other)

    def block(self, depth):
        for _ in range(self.r.randrange(1, 5)):
            self.statement(depth)
            block = self.k.stack[-1]
            if block.ops and isinstance(block.ops[-1], ops.Exit):
                return

    def statement(self, depth):
        r, k = self.r, self.k
        self.budget -= 1
        if self.cuts and r.random() < 0.25:
            k.emit(ops.NamedBarrier(kind="arrive", barrier=k.cast(1, dt.int32).op.a, threads=1 << 40))
        kind = r.choices(["assign", "if", "for", "loop", "scope", "exit"], [5, 4, 2, 2, 2, 3])[0]
        if depth == 0 or self.budget < 0 or kind == "assign":
            self.assign()
        elif kind == "if":
            with k.if_(self.cond()) as op:
                self.block(depth - 1)
            if r.random() < 0.5:
                with k.else_(op):
                    self.block(depth - 1)
        elif kind == "exit":
            with k.if_(self.cond()):
                self.assign()
                self.exit()
        else:
            self.region(kind, depth)

    def assign(self):
        k, count = self.k, self.r.choice([1, 1, 2])
        chosen = self.r.sample(range(VARS), count)
        k.assign(*[(self.vars[i], self.expr()) for i in chosen])
        for i in chosen:
            k.store(self.out, k.add(self.me, i), k.read(self.vars[i]))

    def exit(self):
        choices = [("return", None)] if self.r.random() < 0.2 or not self.regions else []
        for op in self.regions:
            choices += [("leave", op)] if isinstance(op, ops.Scope) else [("break", op), ("continue", op)]
        self.k.exit(*self.r.choice(choices))

    def region(self, kind, depth):
        k, r = self.k, self.r
        if kind == "for":
            start, stop = (r.choice([0, 1, 2]), r.choice([3, 4, k.binary("mod", self.expr(), 5)]))
            step = r.choice([1, 2, -1, k.add(self.expr(), 1)])
            if isinstance(step, Value):
                step.lower = 1
            manager = k.for_(stop, start, step) if step == -1 else k.for_(start, stop, step)
        elif kind == "loop":
            count = k.var(0, name="count")
            manager = k.loop()
        else:
            manager = k.scope()
        with manager as op:
            self.regions.append(op)
            if kind == "loop":
                k.assign((count, k.add(k.read(count), 1)))
                with k.if_(k.gt(k.read(count), r.choice([2, 3, k.binary("mod", k.tid, 4)]))):
                    k.exit("break", op)
            if kind == "for":
                self.leaves.append(op.iv)
            self.block(depth - 1)
            if kind == "for":
                self.leaves.pop()
            self.regions.pop()


@pytest.mark.slow
@pytest.mark.parametrize("cuts", [False, True], ids=["inline", "cut"])
@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed, cuts):
    program = Gen(seed, cuts)
    func = program.k.func
    out = np.full(T * BLOCKS * VARS, -1, np.int32)
    outcome = program.k.run(out, 7, grid=(BLOCKS, 1, 1), check=bool(seed % 2), blocks=3)
    assert set(codes(outcome)) <= {"A11"} and outcome.blocks == BLOCKS
    expected = np.full_like(out, -1)
    for block in range(BLOCKS):
        for thread in range(T):
            OneThread(func, thread, block, {program.n: 7}, expected)
    np.testing.assert_array_equal(out, expected, err_msg=program_of(func, check=bool(seed % 2)).source)
    if cuts:
        assert len(lower(func)) >= 1


# --- named cases -----------------------------------------------------------------------------------------------------


def test_uniformity():
    k = K(T)
    n = k.scalar("n")
    a, b = k.add(k.tid, n), k.add(k.bid, 1)
    stays, varies, inner = k.var(0), k.var(0), None
    with k.if_(k.lt(k.tid, n)):
        inner = k.var(0)
        k.assign((inner, 1))
        k.assign((varies, 1))
    with k.if_(k.lt(n, 3)):
        k.assign((stays, n))
    levels = analyse(k.func)
    assert [levels.of(x) for x in (n, a, b, k.mul(a, b))] == [SCALAR, THREAD, BLOCK, SCALAR]
    assert analyse(k.func).of(k.func.body.ops[-1].result) == FULL
    assert [levels.of_var(x) for x in (stays, varies, inner)] == [SCALAR, THREAD, SCALAR]


def test_a_divergent_break_makes_what_the_loop_changes_divergent():
    k = K(T)
    out, i = k.tensor("out", dtype=dt.int32), k.var(0)
    with k.loop() as loop:
        with k.if_(k.ge(k.read(i), k.tid)):
            k.exit("break", loop)
        k.assign((i, k.add(k.read(i), 1)))
    k.store(out, k.tid, k.read(i))
    assert analyse(k.func).of_var(i) == THREAD
    out = np.zeros(T, np.int32)
    k.run(out)
    assert out.tolist() == list(range(T))


def test_uniform_loops_are_python_loops():
    k = K(T)
    out, total = k.tensor("out", dtype=dt.int32), k.var(0)
    with k.for_(0, 10) as loop:
        k.assign((total, k.add(k.read(total), loop.iv)))
    k.store(out, k.tid, k.read(total))
    source = program_of(k.func, check=False).source
    assert "in range(0, 10, 1):" in source and "both" not in source
    out = np.zeros(T, np.int32)
    k.run(out)
    assert (out == 45).all()


def test_early_return_before_a_barrier():
    """Threads that have exited are not waited for."""
    k = K(T)
    A, s = k.tensor("A"), k.shared(T)
    with k.if_(k.ge(k.tid, 40)):
        k.exit("return")
    k.store(s, k.tid, k.load(A, k.tid))
    k.sync()
    k.store(A, k.tid, k.load(s, k.sub(39, k.tid)))
    a = np.arange(T, dtype=np.float32)
    outcome = k.run(a)
    assert not outcome.findings
    assert a.tolist() == [*range(39, -1, -1), *range(40, T)]


def test_blocks_may_take_different_ways_around_barriers():
    """Block b goes through b barriers: blocks are regrouped, not masked by hand."""
    k = K(T)
    out, s, total = k.tensor("out", dtype=dt.int32), k.shared(T, dt.int32), k.var(0)
    with k.for_(0, k.bid) as loop:
        k.store(s, k.tid, k.add(k.tid, loop.iv))
        k.sync()
        k.assign((total, k.add(k.read(total), k.load(s, k.mod(k.add(k.tid, 1), T)))))
        k.sync()
    k.store(out, k.add(k.tid, k.mul(k.bid, T)), k.read(total))
    out = np.full(7 * T, -1, np.int32)
    outcome = k.run(out, grid=(7, 1, 1))
    assert not outcome.findings
    t = (np.arange(T) + 1) % T
    expected = [sum(t + i for i in range(b)) if b else np.zeros(T, int) for b in range(7)]
    np.testing.assert_array_equal(out, np.concatenate(expected))


def test_programs_are_kept():
    k = K(T)
    k.store(k.tensor("out", dtype=dt.int32), k.tid, 1)
    assert program_of(k.func, check=True) is program_of(k.func, check=True)
    assert program_of(k.func, check=True) is not program_of(k.func, check=False)


def test_every_op_class_is_run():
    classes = {c for c in vars(ops).values() if isinstance(c, type) and issubclass(c, ops.Op) and c is not ops.Op}
    assert classes == set(HANDLED)


def test_a_loop_backwards_that_never_runs_reads_nothing():
    """Its bounds are of run-time values, and contradict each other: nothing of its body is proved out of bounds."""
    import moye as mo

    @mo.kernel
    def never(out, x, n):
        tid = mo.thread_idx().x
        out[tid] = 7
        for i in range(-1, mo.min(mo.max(n, -4), -1), -1):
            out[tid] = x[(i >> 31) % 64]
        for i in range(5, mo.max(mo.min(n, 9), 5)):
            if i > 100:
                out[tid] = x[i + 1000]

    out, x = np.zeros(32, np.int32), np.zeros(64, np.int32)
    assert mo.check(never)[1, 32](out, x, 3).ok
    assert (out == 7).all()
