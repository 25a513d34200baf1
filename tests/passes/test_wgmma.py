"""Which registers fences and waits settle: groups in flight, loops, branches, what other ops write."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
import wgmma_kernels as kernels
from moye.ir import ops
from moye.passes.wgmma_registers import settle

OP = mo.mma.wgmma(mo.bfloat16, mo.bfloat16, mo.float32, 64)


@mo.kernel
def scheduled(D: mo.Static, n, schedule: mo.Constexpr):
    """Steps on accumulators S and O: a letter is a group of its own, a digit a wait, = a fill, [ ] a loop, ? an if."""
    mma = mo.make_tiled_mma(OP)
    thr = mma.get_slice(mo.thread_idx().x)
    atom = mo.smem_layout_atom(mo.bfloat16, "k")
    s = mo.shared_array(mo.bfloat16, mo.tile_to_shape(atom, (64, 64)))
    A, B = thr.partition_fragment_A(s), thr.partition_fragment_B(s)
    S = mma.partition_fragment_C((64, 64))
    O = mma.partition_fragment_C((64, 64))  # noqa: E741
    before, inside, after = schedule
    acc = {"S": S, "O": O}
    for step in before:
        take(mma, A, B, acc, step)
    for _ in range(n):
        for step in inside:
            take(mma, A, B, acc, step)
    if n > 5:
        for step in after:
            take(mma, A, B, acc, step)
    mo.warpgroup_wait(0)
    mo.copyto(thr.partition_C(D), S)
    mo.copyto(thr.partition_C(D), O)


def take(mma, A, B, acc, step):
    if step.isdigit():
        mo.warpgroup_wait(int(step))
    elif step == "=":
        acc["S"].fill(0)
    else:
        mo.warpgroup_arrive()
        mo.gemm(mma, A, B, acc[step])
        mo.warpgroup_commit_batch()


def settled(before="", inside="", after=""):
    """Per fence and wait, in program order, the names of what it settles."""
    func = scheduled.trace(np.zeros((64, 64), np.float32), 3, (before, inside, after), block=128)
    found = []
    for op in settle(func).body.walk():
        if isinstance(op, ops.WgmmaFence):
            found.append("f" + "".join(sorted(buffer.name for buffer in op.registers)))
        elif isinstance(op, ops.WgmmaWait):
            found.append(f"{op.pending}" + "".join(sorted(buffer.name for buffer in op.results)))
    return found


@pytest.mark.parametrize(("schedule", "wanted"), [
    (("S",), ["f", "0S"]),                                      # nothing else has written S
    (("=S",), ["fS", "0S"]),                                    # the fill is settled before the product
    (("SO1",), ["f", "f", "1S", "0O"]),                         # S is complete, O in flight
    (("SOS1",), ["f", "f", "f", "1O", "0S"]),                   # S is in flight again
    (("", "S1"), ["f", "1", "0S"]),                             # of a loop's groups the newest is in flight
    (("", "0S"), ["0S", "f", "0S"]),                            # what the last iteration left is complete
    (("S0", "SO1=0"), ["f", "0S", "fS", "f", "1S", "0O", "0"]),
    (("S", "", "0O"), ["f", "0S", "f", "0OS"]),                 # either branch's groups
    (("S0", "=S", "0"), ["f", "0S", "fS", "0S", "0S"]),
], ids=lambda x: " ".join(x))
def test_schedules(schedule, wanted):
    assert settled(*schedule) == wanted


def test_a_in_registers_is_settled():
    """Fragments that copies fill, before every fence that follows them; not those of one product alone."""
    case = kernels.Case(mo.mma.wgmma(mo.float16, mo.float16, mo.float32, 64, a_source="registers"), add_c=True)
    func = kernels.wgmma_kernel.trace(*case.arguments(np.random.default_rng(0)), block=128)
    fence, = (op for op in func.body.walk() if isinstance(op, ops.WgmmaFence))
    assert sorted(buffer.name for buffer in fence.registers) == ["acc", "tCrA"]


def test_idempotent():
    func = scheduled.trace(np.zeros((64, 64), np.float32), 3, ("=S", "SO1", "0"), block=128)
    once = [(op.registers if isinstance(op, ops.WgmmaFence) else op.results) for op in settle(func).body.walk()
            if isinstance(op, (ops.WgmmaFence, ops.WgmmaWait))]
    assert once == [(op.registers if isinstance(op, ops.WgmmaFence) else op.results) for op in settle(func).body.walk()
                    if isinstance(op, (ops.WgmmaFence, ops.WgmmaWait))]
    assert any(once)


def test_accumulators_nobody_reads_go():
    @mo.kernel
    def unread(D: mo.Static):
        mma = mo.make_tiled_mma(OP)
        thr = mma.get_slice(mo.thread_idx().x)
        s = mo.shared_array(mo.bfloat16, mo.tile_to_shape(mo.smem_layout_atom(mo.bfloat16, "k"), (64, 64)))
        acc = mma.partition_fragment_C((64, 64))
        mo.gemm(mma, thr.partition_fragment_A(s), thr.partition_fragment_B(s), acc, accumulate=False)
        mo.warpgroup_commit_batch()
        mo.warpgroup_wait(0)
        D[0] = 1

    func = unread.trace(np.zeros(1, np.float32), block=128)
    assert not any(isinstance(op, ops.Wgmma) for op in func.body.walk())
    assert [op.results for op in func.body.walk() if isinstance(op, ops.WgmmaWait)] == [()]
