"""Races in global memory: within a block, between blocks, through flags, fences, locks and aliases; and B8."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye import dtypes as dt
from moye.ir import ops
from moye.sim.machine.machine import TensorArg
from sim_kernels import K, codes, line_of

BATCHES = [None, 1, 3]


def elementwise(shift=0, stride=32):
    """x[i + shift] is read and x[i] written by thread i of the grid."""
    k = K(32)
    X = k.tensor("X")
    i = k.add(k.mul(k.bid, stride), k.tid)
    value = k.load(X, k.add(i, shift))
    k.sync()
    k.store(X, i, k.add(value, 1.0))
    return k


@pytest.mark.parametrize("blocks", BATCHES)
@pytest.mark.parametrize(("shift", "stride", "found"), [(0, 32, []), (32, 32, ["G5"]), (1, 32, ["G5"]), (0, 16, ["G2"]),
                                                        (0, 0, ["G2"]), (64, 32, ["G5"])])
def test_in_place(shift, stride, found, blocks):
    x = np.zeros(512, np.float32)
    assert codes(elementwise(shift, stride).run(x, grid=(6, 1, 1), blocks=blocks)) == found


@pytest.mark.parametrize("blocks", BATCHES)
@pytest.mark.parametrize(("grid", "found"), [((5, 1, 1), []), ((5, 2, 1), ["G1"]), ((1, 1, 3), ["G1"])])
def test_two_blocks_write_one_element(grid, found, blocks):
    k = K(32)
    X = k.tensor("X")
    k.store(X, k.add(k.mul(k.bid, 32), k.tid), 1.0)
    outcome = k.run(np.zeros(160, np.float32), grid=grid, blocks=blocks)
    assert not outcome.findings and [f.code for f in outcome.reporter.advice] == found       # they agree
    outcome = k.run(np.zeros(160, np.float32), grid=grid, blocks=blocks, strict=True)
    assert codes(outcome) == found
    for finding in outcome.findings:
        assert finding.tensor == "X" and finding.coordinate == (0,) and len(finding.threads) == 2


@pytest.mark.parametrize("inside", [True, False])
def test_lanes_that_are_masked_or_outside_write_nothing(inside):
    """The last block of a ragged grid overlaps the one before, but for the predicate."""
    k = K(32)
    X, n = k.tensor("X"), k.scalar("n")
    i = k.sub(k.add(k.mul(k.bid, 32), k.tid), k.mul(k.floordiv(k.bid, 2), 8))
    with k.if_(k.lor(k.lt(k.bid, 2), k.ge(i, 64)) if inside else k.lt(i, n)):
        k.store(X, i, 1.0)
    outcome = k.run(np.zeros(88, np.float32), 88, grid=(3, 1, 1), strict=True)
    assert codes(outcome) == ([] if inside else ["G1"])


@pytest.mark.parametrize("wide", [True, False])
def test_mixed_widths(wide):
    """Block 0 writes pairs, block 1 single elements just behind them, or one too early."""
    k = K(32)
    X = k.tensor("X")
    r = k.fragment(2)
    k.fill(r, 1.0)
    with k.if_(k.eq(k.bid, 0)) as branch:
        k.copy(k.tile(X, k.mul(k.tid, 2), (2,)), k.tile(r), (1,), width=2)
    with k.else_(branch):
        k.store(X, k.add(k.tid, 64 if wide else 63), 2.0)
    outcome = k.run(np.zeros(96, np.float32), grid=(2, 1, 1))
    assert codes(outcome) == ([] if wide else ["G1"])
    if not wide:
        assert outcome.findings[0].coordinate == (63,)


@pytest.mark.parametrize("offset", [0, 32, 31])
def test_two_arguments_that_overlap(offset):
    memory = np.zeros(64, np.float32)
    k = K(32)
    X, Y = k.tensor("X"), k.tensor("Y")
    with k.if_(k.eq(k.bid, 0)) as branch:
        k.store(X, k.tid, 1.0)
    with k.else_(branch):
        k.store(Y, k.tid, 2.0)
    outcome = k.run(TensorArg(memory, 0, (32,), (1,), "X"), TensorArg(memory[offset:], 0, (32,), (1,), "Y"),
                    grid=(2, 1, 1))
    assert codes(outcome) == ([] if offset == 32 else ["G1"])
    if outcome.findings:
        assert "through X" in outcome.findings[0].message


# --- within a block --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shift", "synced", "found"), [(32, True, []), (32, False, ["C1"]), (1, False, ["C3"]),
                                                        (0, False, [])])
def test_exchange_through_global_memory(shift, synced, found):
    k = K(64)
    X, Y = k.tensor("X"), k.tensor("Y")
    base = k.mul(k.bid, 64)
    k.store(X, k.add(base, k.tid), 1.0)
    if synced:
        k.sync()
    value = k.load(X, k.add(base, k.xor_(k.tid, shift)))
    k.store(Y, k.add(base, k.tid), value)
    outcome = k.run(np.zeros(256, np.float32), np.zeros(256, np.float32), grid=(4, 1, 1))
    assert codes(outcome) == found


@pytest.mark.parametrize("synced", [True, False])
def test_overwritten_while_it_is_read(synced):
    k = K(64)
    X = k.tensor("X")
    base = k.mul(k.bid, 64)
    value = k.load(X, k.add(base, k.xor_(k.tid, 32)))
    if synced:
        k.sync()
    k.store(X, k.add(base, k.tid), value)
    outcome = k.run(np.zeros(256, np.float32), grid=(4, 1, 1), blocks=3)
    assert codes(outcome) == ([] if synced else ["C2"])


@pytest.mark.parametrize("same", [True, False])
def test_threads_that_write_one_element_in_one_statement(same):
    """Only values that differ can be told apart afterwards."""
    k = K(32)
    X = k.tensor("X", dtype=dt.int32)
    k.store(X, k.bid, k.mul(k.tid, 0 if same else 1))
    outcome = k.run(np.zeros(4, np.int32), grid=(4, 1, 1))
    assert codes(outcome) == ([] if same else ["C1"]) and len(outcome.reporter.advice) == same
    assert codes(k.run(np.zeros(4, np.int32), grid=(4, 1, 1), strict=True)) == ["C1"]


# --- order between blocks --------------------------------------------------------------------------------------------


def published(store, load, fences=(False, False), sync=True, scope="gpu", plain=False):
    """Block 0 writes X and sets the flag F, block 1 polls the flag and reads X."""
    k = K(64)
    X, F, Y = k.tensor("X"), k.tensor("F", dtype=dt.int32), k.tensor("Y")
    with k.if_(k.eq(k.bid, 0)) as branch:
        k.store(X, k.tid, 1.0)
        if sync:
            k.sync()
        with k.if_(k.eq(k.tid, 0)):
            if fences[0]:
                k.emit(ops.Fence(order="acq_rel", scope=scope))
            k.store(F, 0, 1, **({} if plain else {"order": store, "scope": scope}))
    with k.else_(branch):
        with k.if_(k.eq(k.tid, 0)):
            with k.loop() as loop, k.if_(k.ne(k.load(F, 0, order=load, scope=scope), 0)):
                k.exit("break", loop)
            if fences[1]:
                k.emit(ops.Fence(order="acq_rel", scope=scope))
        k.sync()
        k.store(Y, k.tid, k.load(X, k.tid))
    return k.run(np.zeros(64, np.float32), np.zeros(1, np.int32), np.zeros(64, np.float32), grid=(2, 1, 1), blocks=1)


@pytest.mark.parametrize(("options", "found"), [
    ({"store": "release", "load": "acquire"}, []),
    ({"store": "relaxed", "load": "acquire"}, ["G3"]),
    ({"store": "release", "load": "relaxed"}, ["G3"]),
    ({"store": "relaxed", "load": "relaxed", "fences": (True, True)}, []),
    ({"store": "relaxed", "load": "relaxed", "fences": (False, True)}, ["G3"]),
    ({"store": "release", "load": "acquire", "sync": False}, ["G3"]),
    ({"store": "release", "load": "acquire", "scope": "cta"}, ["G3", "D19"]),
    ({"store": "relaxed", "load": "acquire", "plain": True}, ["G3", "G3"]),
])
def test_data_published_by_a_flag(options, found):
    assert sorted(codes(published(**options))) == sorted(found)


@pytest.mark.parametrize("order", ["acq_rel", "relaxed"])
@pytest.mark.parametrize("blocks", BATCHES)
def test_the_last_block_adds_up(order, blocks):
    """The reader knows of earlier blocks only through the tickets drawn in between."""
    k = K(32)
    P, T, Y, s = k.tensor("P"), k.tensor("T", dtype=dt.int32), k.tensor("Y"), k.shared(1, dt.int32)
    k.store(P, k.add(k.mul(k.bid, 32), k.tid), 1.0)
    k.sync()
    with k.if_(k.eq(k.tid, 0)):
        k.store(s, 0, k.atomic("add", T, 0, 1, order=order))
    k.sync()
    with k.if_(k.eq(k.load(s, 0), 6)), k.for_(0, 7) as loop:
        k.store(Y, k.tid, k.load(P, k.add(k.mul(loop.iv, 32), k.tid)))
    outcome = k.run(np.zeros(224, np.float32), np.zeros(1, np.int32), np.zeros(32, np.float32), grid=(7, 1, 1),
                    blocks=blocks)
    assert codes(outcome) == ([] if order == "acq_rel" else ["G3"])


@pytest.mark.parametrize("order", ["release", "relaxed"])
def test_a_chain_of_blocks_is_transitive(order):
    """Block b waits for block b + 1 and reads what the last block wrote."""
    k = K(32)
    X, F, Y = k.tensor("X"), k.tensor("F", dtype=dt.int32), k.tensor("Y")
    with k.if_(k.lt(k.bid, 5)) as branch:
        with k.if_(k.eq(k.tid, 0)), k.loop() as loop, k.if_(k.ne(k.load(F, k.add(k.bid, 1), order="acquire"), 0)):
            k.exit("break", loop)
        k.sync()
        k.store(Y, k.add(k.mul(k.bid, 32), k.tid), k.load(X, k.tid))
    with k.else_(branch):
        k.store(X, k.tid, 1.0)
    k.sync()
    with k.if_(k.eq(k.tid, 0)):
        k.store(F, k.bid, 1, order=order)
    outcome = k.run(np.zeros(32, np.float32), np.zeros(6, np.int32), np.zeros(192, np.float32), grid=(6, 1, 1),
                    blocks=2)
    assert codes(outcome) == ([] if order == "release" else ["G3"])


@pytest.mark.parametrize("init", [True, False])
def test_atomics_and_who_initialises(init):
    k = K(32)
    X = k.tensor("X", dtype=dt.int32)
    if init:
        with k.if_(k.land(k.eq(k.bid, 0), k.eq(k.tid, 0))):
            k.store(X, 0, 0)
    k.sync()
    k.atomic("add", X, 0, 1)
    assert codes(k.run(np.zeros(1, np.int32), grid=(5, 1, 1))) == (["G2"] if init else [])


def test_too_much_synchronisation_is_said(monkeypatch):
    from moye.sim.checks import flag_history

    monkeypatch.setattr(flag_history, "MOST_STEPS", 2)
    outcome = published("release", "acquire")
    assert not outcome.findings and "too much synchronisation" in outcome.unsupported[0]


# --- B8 --------------------------------------------------------------------------------------------------------------


def tail(space="shared", zero_fill=False, clear=False, used=True, asynchronous=False):
    """Sums a ragged array tile by tile through a copy that is predicated off beyond its end."""
    k = K(32)
    X, Y, n = k.tensor("X"), k.tensor("Y"), k.scalar("n")
    buffer = k.shared(32) if space == "shared" else k.fragment(1)
    mine = k.tid if space == "shared" else 0
    total = k.var(0.0, dt.float32)
    with k.for_(0, 3) as loop:
        i = k.add(k.mul(loop.iv, 32), k.tid)
        if clear:
            k.store(buffer, mine, 0.0)
        (k.cp_async if asynchronous else k.copy)(k.tile(buffer, mine), k.tile(X, i), (1,), pred=k.lt(i, n),
                                                 zero_fill=zero_fill)
        if asynchronous:
            k.wait()
        k.sync()
        value = k.load(buffer, mine)
        if not used:
            value = k.select(k.lt(i, n), value, 0.0)
        k.assign((total, k.add(k.read(total), value)))
        k.sync()
    k.store(Y, k.tid, k.read(total))
    return k


@pytest.mark.parametrize(("options", "found"), [
    ({}, ["B8"]), ({"space": "registers"}, ["B8"]), ({"asynchronous": True}, ["B8"]), ({"zero_fill": True}, []),
    ({"clear": True}, []), ({"used": False}, []), ({"used": False, "space": "registers"}, []),
    ({"clear": True, "space": "registers"}, []),
])
def test_stale_data_of_a_predicated_copy(options, found):
    k = tail(**options)
    x, y = np.ones(96, np.float32), np.zeros(32, np.float32)
    outcome = k.run(x, y, 80)
    assert codes(outcome) == found
    assert (y[:16] == 3).all() and (y[16:] == (3 if found else 2)).all()      # as the first run left them
    if found:
        finding = outcome.findings[0]
        assert finding.threads == (16,) and "Y(16) changes" in finding.message and line_of(finding)


def test_a_tile_that_the_whole_block_keeps_is_not_stale():
    k = K(32)
    X, Y = k.tensor("X"), k.tensor("Y")
    r, total = k.fragment(1), k.var(0.0, dt.float32)
    with k.for_(0, 4) as loop:
        k.copy(k.tile(r), k.tile(X, k.tid), (1,), pred=k.eq(k.mod(loop.iv, 2), 0))
        k.assign((total, k.add(k.read(total), k.load(r, 0))))
    k.store(Y, k.tid, k.read(total))
    assert not k.run(np.ones(32, np.float32), np.zeros(32, np.float32)).findings


def test_the_second_run_is_not_heard():
    k = tail()
    k.emit(ops.Print(parts=("done",)))
    heard = []
    outcome = k.run(np.ones(96, np.float32), np.zeros(32, np.float32), 80, printer=heard.append)
    assert codes(outcome) == ["B8"] and len(heard) == len(outcome.printed) == 32 and outcome.blocks == 1


def test_a_plain_read_of_what_atomics_change_is_told_how_to_read():
    """The loop of CUDA's guide around compare-and-swap begins with a plain read, which races with the others'."""
    @mo.kernel
    def doubled(x, relaxed: mo.Constexpr):
        old = mo.load(x, 0, order="relaxed") if relaxed else x[0]
        while True:
            seen = mo.atomic_cas(x, 0, old, old * 2)
            if seen == old:
                break
            old = seen

    found = mo.check(doubled)[1, 8](np.ones(1, np.float32), False).findings[0]
    assert found.code == "C3"
    assert 'mo.load(x, i, order="relaxed") may meet atomics' in found.hint
    between = [f for f in mo.check(doubled)[2, 1](np.ones(1, np.float32), False).findings if f.code == "G3"]
    assert between and "mo.load(x, i)" in between[0].hint
    x = np.ones(1, np.float32)
    assert mo.check(doubled)[2, 4](x, True).ok
    assert x[0] == 256
