"""mo.pin: arithmetic stays where the source has it, and a note tells of waits that the compiler has moved before it."""

from __future__ import annotations

import re

import numpy as np
import pytest

import moye as mo
from moye.cuda.compiler import moved_waits
from moye.dtypes import Space, float32, int32
from moye.errors import TensorError
from moye.ir import ops
from moye.ir.nodes import Buffer, Literal, TileRef
from moye.ir.rules import broken
from moye.layout import make_layout

QK = mo.make_tiled_mma(mo.mma.wgmma(mo.bfloat16, mo.bfloat16, mo.float32, 64))
PV = mo.make_tiled_mma(mo.mma.wgmma(mo.bfloat16, mo.bfloat16, mo.float32, 64, b_major="mn", a_source="registers"))
ROWS = mo.tile_to_shape(mo.smem_layout_atom(mo.bfloat16, "k"), (64, 64))
COLUMNS = mo.tile_to_shape(mo.smem_layout_atom(mo.bfloat16, "mn"), (64, 64), (1, 0))


@mo.kernel
def scores(out, n, how: mo.Constexpr):
    """S = QK, acc += PV, and the softmax of S while the second product is in flight."""
    tid = mo.thread_idx().x
    sQ, sK, sV = (mo.shared_array(mo.bfloat16, layout) for layout in (ROWS, ROWS, COLUMNS))
    for i in range(tid, 4096, 128):
        row, column = i // 64, i % 64
        sQ[row, column] = sK[row, column] = ((row + column) % 3).to(mo.bfloat16)
        sV[column, row] = (row % 2).to(mo.bfloat16)
    mo.fence_proxy_async()
    mo.sync_threads()
    tq, tp = QK.get_slice(tid), PV.get_slice(tid)
    tQ, tK, tV = tq.partition_fragment_A(sQ), tq.partition_fragment_B(sK), tp.partition_fragment_B(sV)
    S, acc = QK.partition_fragment_C((64, 64)), PV.partition_fragment_C((64, 64))
    P = mo.fragment(mo.make_layout(((2, 2, 2), 1, 4)), mo.bfloat16)
    acc.fill(0)
    P.fill(0)
    for _ in range(n):
        mo.warpgroup_arrive()
        mo.gemm(QK, tQ, tK, S, accumulate=False)
        mo.warpgroup_commit_batch()
        mo.warpgroup_arrive()
        mo.gemm(PV, P, tV, acc)
        mo.warpgroup_commit_batch()
        mo.warpgroup_wait(1)
        S[...] = mo.exp2(S - S.reduce("max"), fast=True)
        if how == "wait":
            mo.warpgroup_wait(0, S)
        elif how == "pin":
            mo.pin(S)
            mo.warpgroup_wait(0)
        elif how == "in flight":
            mo.warpgroup_wait(0, acc)
        else:
            mo.warpgroup_wait(0)
        P[...] = S.with_layout(P.layout).to(mo.bfloat16)
    mo.copyto(tp.partition_C(out), acc)


def compiled(how):
    return scores.compile(mo.TensorLike(mo.float32, (64, 64)), 4, how, block=128, arch="sm_90a")


def _between(sass):
    """The exponentials between the two waits of the loop."""
    first = sass.index("WARPGROUP.DEPBAR.LE gsb0, 0x1")
    return sass[first:sass.index("WARPGROUP.DEPBAR.LE gsb0, 0x0", first)].count("MUFU.EX2")


def test_the_compiler_moves_a_wait_and_a_note_says_so():
    program = compiled("")
    assert _between(program.sass) < 10
    note, = program.notes
    assert note.message.startswith("ptxas waits before most of the 32 special functions that stand before "
                                   "warpgroup_wait(0)")
    assert "mo.warpgroup_wait(0)" in str(note) and not note.costs and not note.serial


@pytest.mark.parametrize("how", ["wait", "pin"])
def test_it_stays_behind_what_is_pinned(how):
    program = compiled(how)
    assert _between(program.sass) == 32 and not program.notes
    assert len(re.findall(r"@P\d PMTRIG", program.sass)) == 1, "one instruction, that never acts"
    assert program.spills == 0


def test_the_simulator_does_nothing():
    results = []
    for how in ("", "wait", "pin"):
        out = np.zeros((64, 64), np.float32)
        report = mo.check(scores)[1, 128](out, 3, how)
        assert report.ok, report
        results.append(out)
    assert results[0].any() and np.array_equal(*results[:2]) and np.array_equal(*results[1:])


def test_registers_of_a_product_in_flight():
    findings = mo.check(scores)[1, 128](np.zeros((64, 64), np.float32), 3, "in flight").findings
    assert [finding.code for finding in findings] == ["E2"] and "acc is read" in str(findings[0])


def test_what_has_nothing_to_overlap_is_not_told():
    @mo.kernel
    def alone(out):
        thr = QK.get_slice(mo.thread_idx().x)
        sQ = mo.shared_array(mo.bfloat16, ROWS)
        S = QK.partition_fragment_C((64, 64))
        mo.warpgroup_arrive()
        mo.gemm(QK, thr.partition_fragment_A(sQ), thr.partition_fragment_B(sQ), S, accumulate=False)
        mo.warpgroup_commit_batch()
        mo.warpgroup_wait(0)
        S[...] = mo.exp2(S - S.reduce("max"), fast=True)
        mo.copyto(thr.partition_C(out), S)

    func = alone.trace(mo.TensorLike(mo.float32, (64, 64)), block=128)
    assert moved_waits.stretches(func) == []


def test_other_memory_is_refused():
    @mo.kernel
    def wrong(x, what: mo.Constexpr):
        mo.pin(mo.shared_array(mo.float32, 4) if what == "shared" else x if what == "global" else 3)

    for what, told in (("shared", "pin takes register tensors, not"), ("global", "x in gmem"), ("", "not 3")):
        with pytest.raises(TensorError, match=told):
            wrong.compile(np.zeros(4, np.float32), what, block=32, arch="sm_80")


def test_the_verifier():
    for space, told in ((Space.REGISTER, None), (Space.SHARED, "no register tensor")):
        buffer = Buffer("s", space, float32, 4, make_layout(4), align=16)
        found = broken(ops.Pin(tiles=(TileRef(buffer, Literal(0, int32), float32, ()),)))
        assert found is None if told is None else told in found
