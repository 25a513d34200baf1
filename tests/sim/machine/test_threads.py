"""Threads together: barriers, roles, warps, asynchronous copies, blocks that wait for blocks."""

import numpy as np
import pytest

from moye import dtypes as dt
from moye.hardware import of
from moye.ir import ops
from moye.ir.nodes import Value
from moye.sim.machine.machine import blocks_per_batch, resident_blocks
from sim_kernels import K, codes, line_of

T = 128


def named(k, kind, barrier, threads):
    return k.emit(ops.NamedBarrier(kind=kind, barrier=k.cast(barrier, dt.int32).op.a, threads=threads))


# --- block barriers --------------------------------------------------------------------------------------------------


def reverse(barrier):
    k = K(T)
    A, s = k.tensor("A"), k.shared(T)
    k.store(s, k.tid, k.load(A, k.add(k.tid, k.mul(k.bid, T))))
    if barrier:
        k.sync()
    k.store(A, k.add(k.tid, k.mul(k.bid, T)), k.load(s, k.sub(T - 1, k.tid)))
    return k


def test_exchange_through_shared_memory():
    a = np.arange(5 * T, dtype=np.float32)
    assert not reverse(True).run(a, grid=(5, 1, 1), blocks=2).findings
    np.testing.assert_array_equal(a.reshape(5, T), np.arange(5 * T).reshape(5, T)[:, ::-1])


def test_a_missing_barrier_is_a_race():
    assert codes(reverse(False).run(np.zeros(T, np.float32))) == ["C1"]


def test_a_missing_block_barrier_is_told_before_a_missing_warp_barrier():
    """Two exchanges lack one barrier: the first stays within the warps, and its hint alone would mend half of it."""
    k = K(T)
    A, near, far = k.tensor("A"), k.shared(T), k.shared(T)
    k.store(near, k.tid, k.load(A, k.tid))
    k.store(far, k.tid, k.load(A, k.tid))
    neighbour = k.xor(k.tid, 1)
    k.store(A, k.tid, k.add(k.load(near, neighbour), k.load(far, k.sub(T - 1, k.tid))))
    assert codes(k.run(np.zeros(T, np.float32))) == ["C1", "C3"]


@pytest.mark.parametrize("split", [64, 48], ids=["whole warps", "half a warp"])
def test_barrier_in_a_condition(split):
    """C4, though hardware since Volta counts arrivals at barrier 0 wherever they come from, and goes on here.

    ``sync_threads`` is ``__syncthreads``, in PTX ``bar.sync 0``, which is ``barrier.sync.aligned 0``: all threads of
    the block execute the same barrier, and in conditional code all must take the same side, else the behaviour is
    undefined (PTX ISA, bar; CUDA C++ Programming Guide, synchronization functions).  compute-sanitizer's synccheck
    reports it too.  It is also what the mistake looks like: since each thread is at some barrier 0 or has exited,
    counting alone would never find a barrier that only part of the block reaches.  Threads that have exited are none
    of them, and roles that synchronise at points of their own have named barriers.
    """
    k = K(T)
    with k.if_(k.lt(k.tid, split)):
        k.sync()
    k.sync()
    outcome = k.run()
    assert codes(outcome) == ["C4"] and len(outcome.findings[0].locs) == 2


def test_barrier_that_the_others_never_reach():
    k = K(T)
    with k.if_(k.lt(k.tid, 64)) as branch:
        k.sync()
    with k.else_(branch):
        named(k, "sync", 1, 96)
    outcome = k.run(grid=(3, 1, 1))
    assert codes(outcome) == ["C4"]
    finding = outcome.findings[0]
    assert finding.message == (
        f"block (0, 0, 0) is deadlocked: warps 0-1 wait at sync_threads (line {finding.locs[0].line}) for warps 2-3; "
        f"warps 2-3 wait at named barrier 1 (line {finding.locs[1].line}) for 32 more arrivals, which only warps 0-1 "
        f"could bring")


def test_barriers_in_a_loop_with_a_break():
    """Threads leave the loop at different times, and the rest go on without those that have exited."""
    k = K(T)
    out, n = k.tensor("out", dtype=dt.int32), k.var(0)
    with k.loop():
        with k.if_(k.ge(k.read(n), k.floordiv(k.tid, 32))):
            k.store(out, k.tid, k.read(n))
            k.exit("return")
        k.sync()
        k.assign((n, k.add(k.read(n), 1)))
    out = np.full(T, -1, np.int32)
    assert not k.run(out).findings
    assert out.tolist() == [t // 32 for t in range(T)]


# --- roles -----------------------------------------------------------------------------------------------------------


def roles(full_count, steps=6):
    """Warps 0-1 produce, warps 2-3 consume, one stage, full and empty barriers."""
    k = K(T)
    A, C, s = k.tensor("A"), k.tensor("C"), k.shared(64)
    with k.if_(k.lt(k.tid, 64)) as branch, k.for_(0, steps) as loop:
        with k.if_(k.gt(loop.iv, 0)):
            named(k, "sync", 2, 128)
        k.store(s, k.tid, k.load(A, k.add(k.tid, k.mul(loop.iv, 64))))
        named(k, "arrive", 1, full_count)
    with k.else_(branch):
        total = k.var(0.0, dt.float32)
        me = k.sub(k.tid, 64)
        with k.for_(0, steps) as loop:
            named(k, "sync", 1, full_count)
            k.assign((total, k.add(k.read(total), k.load(s, k.sub(63, me)))))
            with k.if_(k.lt(loop.iv, steps - 1)):
                named(k, "arrive", 2, 128)
        k.store(C, k.add(me, k.mul(k.bid, 64)), k.read(total))
    return k


def test_warp_specialised_roles():
    a, c = np.arange(6 * 64, dtype=np.float32), np.zeros(3 * 64, np.float32)
    outcome = roles(128).run(a, c, grid=(3, 1, 1))
    assert not outcome.findings
    np.testing.assert_array_equal(c.reshape(3, 64)[1], a.reshape(6, 64).sum(0)[::-1])


def test_wrong_count_of_a_named_barrier():
    outcome = roles(160).run(np.zeros(6 * 64, np.float32), np.zeros(64, np.float32))
    assert codes(outcome)[0] in ("C5", "F4") and "named barrier" in outcome.findings[0].message


def test_too_many_arrivals():
    k = K(T)
    named(k, "sync", 1, 64)
    assert "C5" in codes(k.run())


# --- warps -----------------------------------------------------------------------------------------------------------


def test_warp_reduction():
    k = K(96)
    A, C = k.tensor("A"), k.tensor("C")
    x = k.load(A, k.tid)
    for delta in (16, 8, 4, 2, 1):
        other = k.emit(ops.Shuffle(result=Value(dt.float32), kind="xor", value=x, lane=k.cast(delta, dt.int32).op.a))
        x = k.add(x, other)
    k.store(C, k.tid, x)
    a, c = np.arange(96, dtype=np.float32), np.zeros(96, np.float32)
    assert not k.run(a, c).findings
    np.testing.assert_array_equal(c, np.repeat(a.reshape(3, 32).sum(1), 32))


@pytest.mark.parametrize("kind", ["idx", "up", "down", "xor"])
@pytest.mark.parametrize("width", [32, 8])
def test_shuffles(kind, width):
    k = K(64)
    C = k.tensor("C", dtype=dt.int32)
    x = k.add(k.mul(k.tid, 10), k.bid)
    got = k.emit(ops.Shuffle(result=Value(dt.int32), kind=kind, value=x, lane=k.cast(3, dt.int32).op.a, width=width))
    k.store(C, k.add(k.tid, k.mul(k.bid, 64)), got)
    c = np.zeros(128, np.int32)
    assert not k.run(c, grid=(2, 1, 1)).findings
    for t in range(64):
        i, base = t % width, t - t % width
        source = {"idx": 3, "up": i - 3 if i >= 3 else i, "down": i + 3 if i + 3 < width else i,
                  "xor": i ^ 3}[kind] + base
        assert c[t] == source * 10 and c[64 + t] == source * 10 + 1


@pytest.mark.parametrize("width", [1, 4, 16, 32])
@pytest.mark.parametrize("delta", [0, 5, 21, 33, -1])
@pytest.mark.parametrize("kind", ["idx", "up", "down", "xor"])
def test_shuffles_as_ptx_defines_them(kind, delta, width):
    """The pseudocode of shfl.sync, with the c that CUDA's intrinsics pass."""
    k = K(64)
    C = k.tensor("C", dtype=dt.int32)
    lane = k.cast(delta, dt.int32).op.a
    k.store(C, k.tid, k.emit(ops.Shuffle(result=Value(dt.int32), kind=kind, value=k.tid, lane=lane, width=width)))
    c = np.zeros(64, np.int32)
    assert not k.run(c).findings
    segment, clamp, b = 32 - width, 0 if kind == "up" else 31, delta & 31
    for t in range(64):
        me = t % 32
        far, near = (me & segment) | (clamp & ~segment), me & segment
        j = {"up": me - b, "down": me + b, "xor": me ^ b, "idx": near | (b & ~segment)}[kind]
        there = j >= far if kind == "up" else j <= far
        assert c[t] == t - me + (j if there else me)


def test_votes():
    k = K(64)
    C = k.tensor("C", dtype=dt.uint32)
    p = k.lt(k.mod(k.tid, 32), k.add(k.floordiv(k.tid, 32), 2))
    ballot = k.emit(ops.Vote(result=Value(dt.uint32), kind="ballot", pred=p))
    some = k.emit(ops.Vote(result=Value(dt.bool_), kind="any", pred=p))
    all_ = k.emit(ops.Vote(result=Value(dt.bool_), kind="all", pred=p))
    k.store(C, k.tid, k.select(some, ballot, 0))
    k.store(C, k.add(k.tid, 64), k.cast(all_, dt.uint32))
    c = np.zeros(128, np.uint32)
    assert not k.run(c).findings
    assert c[:64].tolist() == [3] * 32 + [7] * 32 and not c[64:].any()


def test_a_shuffle_in_a_divergent_branch_with_its_mask():
    k = K(32)
    C = k.tensor("C", dtype=dt.int32)
    with k.if_(k.lt(k.tid, 16)):
        got = k.emit(ops.Shuffle(result=Value(dt.int32), kind="idx", value=k.tid, lane=k.sub(15, k.tid), mask=0xFFFF))
        k.store(C, k.tid, got)
    c = np.full(32, -1, np.int32)
    assert not k.run(c).findings
    assert c.tolist() == [*range(15, -1, -1)] + [-1] * 16


def test_a_shuffle_that_reads_an_inactive_lane():
    k = K(32)
    C = k.tensor("C", dtype=dt.int32)
    with k.if_(k.lt(k.tid, 16)):
        shuffle = k.emit(ops.Shuffle(result=Value(dt.int32), kind="idx", value=k.tid, lane=k.add(k.tid, 1),
                                     mask=0xFFFF))
        k.store(C, k.tid, shuffle)
    outcome = k.run(np.zeros(32, np.int32))
    assert codes(outcome) == ["C7"] and outcome.findings[0].threads == (15,)
    assert line_of(outcome.findings[0]) == shuffle.op.loc.line


def test_a_shuffle_that_part_of_its_mask_never_reaches():
    k = K(64)
    with k.if_(k.lt(k.tid, 16)):
        k.emit(ops.Shuffle(result=Value(dt.int32), kind="idx", value=k.tid, lane=k.tid))
    with k.if_(k.ge(k.tid, 16)):
        k.sync()
    assert codes(k.run())[0] in ("C4", "C6")
    k = K(64)
    C = k.tensor("C", dtype=dt.int32)
    with k.if_(k.lt(k.tid, 16)):
        k.exit("return")
    got = k.emit(ops.Shuffle(result=Value(dt.int32), kind="idx", value=k.tid, lane=k.cast(3, dt.int32).op.a))
    k.store(C, k.tid, got)
    assert codes(k.run(np.zeros(64, np.int32))) == ["C7"]


@pytest.mark.parametrize("sync", [True, False])
def test_exchange_within_a_warp(sync):
    k = K(64)
    A, s = k.tensor("A"), k.shared(64)
    k.store(s, k.tid, k.load(A, k.tid))
    if sync:
        k.emit(ops.SyncWarp())
    k.store(A, k.tid, k.load(s, k.xor(k.tid, 1)))
    a = np.arange(64, dtype=np.float32)
    assert codes(k.run(a)) == ([] if sync else ["C3"])
    assert a.tolist() == [float(t ^ 1) for t in range(64)]


# --- asynchronous copies ---------------------------------------------------------------------------------------------


def staged(wait, barrier=True, pending=None):
    k = K(T)
    A, C, s = k.tensor("A"), k.tensor("C"), k.shared(T)
    issue = k.cp_async(k.tile(s, k.tid), k.tile(A, k.tid), (1,))
    if wait == "group":
        k.commit()
        k.wait(0)
    elif wait:
        k.wait(pending)
    if barrier:
        k.sync()
    k.store(C, k.tid, k.load(s, k.sub(T - 1, k.tid)))
    return k, issue


@pytest.mark.parametrize("wait", [True, "group"])
@pytest.mark.parametrize("when", ["latest", "earliest"])
def test_asynchronous_copy(wait, when):
    a, c = np.arange(T, dtype=np.float32), np.zeros(T, np.float32)
    outcome = staged(wait)[0].run(a, c, asynchronous=when)
    assert not outcome.findings
    np.testing.assert_array_equal(c, a[::-1])


def test_missing_wait_gives_poison_and_a_finding():
    a, c = np.arange(T, dtype=np.float32), np.zeros(T, np.float32)
    k, issue = staged(False)
    outcome = k.run(a, c)
    assert codes(outcome) == ["D1"] and np.isnan(c).all()
    assert issue.loc.line in (loc.line for loc in outcome.findings[0].locs)
    assert codes(k.run(a, c, asynchronous="earliest")) == ["D1"]
    np.testing.assert_array_equal(c, a[::-1])


def test_wait_group_does_not_wait_for_what_is_not_committed():
    a, c = np.arange(T, dtype=np.float32), np.zeros(T, np.float32)
    k, _ = staged(True, pending=0)
    assert codes(k.run(a, c))[0].startswith("D") and np.isnan(c).all()


def test_groups_in_flight():
    """Three stages; wait_group 1 completes the oldest two groups only."""
    k = K(T)
    A, C = k.tensor("A"), k.tensor("C")
    s = k.shared(3 * T)
    for stage in range(3):
        at = k.add(k.tid, stage * T)
        k.cp_async(k.tile(s, at), k.tile(A, at), (1,))
        k.commit()
    k.wait(1)
    for stage in range(3):
        k.store(C, k.add(k.tid, stage * T), k.load(s, k.add(k.tid, stage * T)))
    a, c = np.arange(3 * T, dtype=np.float32), np.zeros(3 * T, np.float32)
    k.run(a, c)
    np.testing.assert_array_equal(c[:2 * T], a[:2 * T])
    assert np.isnan(c[2 * T:]).all()


def test_groups_are_counted_per_thread():
    k = K(T)
    A, C, s = k.tensor("A"), k.tensor("C"), k.shared(T)
    k.cp_async(k.tile(s, k.tid), k.tile(A, k.tid), (1,))
    k.commit()
    with k.if_(k.lt(k.tid, 64)):
        k.commit()
    k.wait(1)
    k.store(C, k.tid, k.load(s, k.tid))
    a, c = np.arange(T, dtype=np.float32), np.zeros(T, np.float32)
    outcome = k.run(a, c)
    assert outcome.findings
    np.testing.assert_array_equal(c[:64], a[:64])
    assert np.isnan(c[64:]).all()


def test_zero_fill_of_predicated_asynchronous_copies():
    k = K(T)
    A, C, s = k.tensor("A"), k.tensor("C"), k.shared(T)
    k.cp_async(k.tile(s, k.tid), k.tile(A, k.tid), (1,), pred=k.lt(k.tid, 100), zero_fill=True)
    k.wait()
    k.store(C, k.tid, k.load(s, k.tid))
    a, c = np.arange(1, 101, dtype=np.float32), np.full(T, 5, np.float32)
    assert not k.run(a, c).findings
    assert c.tolist() == [*range(1, 101)] + [0] * 28


# --- blocks that wait for blocks -------------------------------------------------------------------------------------


def chain(acquire=True):
    """Block b waits for the flag of block b + 1, so later batches have to run first."""
    k = K(32)
    F, C, n = k.tensor("F", dtype=dt.int32), k.tensor("C", dtype=dt.int32), k.scalar("n")
    with k.if_(k.lt(k.bid, k.sub(n, 1))):
        with k.if_(k.eq(k.tid, 0)), k.loop() as loop:
            order = {"order": "acquire"} if acquire else {}
            with k.if_(k.ne(k.load(F, k.add(k.bid, 1), **order), 0)):
                k.exit("break", loop)
        k.sync()
    with k.if_(k.eq(k.tid, 0)):
        k.store(C, k.bid, k.atomic("add", C, n, 1))
        k.store(F, k.bid, 1, order="release")
    return k


@pytest.mark.parametrize("acquire", [True, False])
def test_blocks_wait_for_later_blocks(acquire):
    f, c = np.zeros(13, np.int32), np.zeros(13, np.int32)
    outcome = chain(acquire).run(f, c, 12, grid=(12, 1, 1), blocks=4)
    assert codes(outcome) == ([] if acquire else ["G3"])        # a plain read of what is stored with an order
    assert c[:12].tolist() == list(range(11, -1, -1))


def test_spinning_on_blocks_that_cannot_be_resident():
    f, c = np.zeros(13, np.int32), np.zeros(13, np.int32)
    outcome = chain().run(f, c, 12, grid=(12, 1, 1), blocks=4, resident=8, spins=50)
    assert codes(outcome) == ["G4"]


def test_spinning_forever():
    f, c = np.zeros(14, np.int32), np.zeros(14, np.int32)
    outcome = chain().run(f, c, 13, grid=(12, 1, 1), blocks=4, spins=50)
    assert codes(outcome) == ["F4"] and "polls memory forever" in outcome.findings[0].message


def test_a_long_walk_through_memory_is_no_deadlock():
    """The loop reads its bound from memory each time, and nothing is written while it runs."""
    k = K(32)
    A, C = k.tensor("A", dtype=dt.int32), k.tensor("C", dtype=dt.int32)
    i = k.var(0)
    with k.loop() as loop:
        with k.if_(k.ge(k.read(i), k.load(A, 0))):
            k.exit("break", loop)
        k.assign((i, k.add(k.read(i), 1)))
    k.store(C, k.tid, k.read(i))
    c = np.zeros(32, np.int32)
    assert not k.run(np.array([300], np.int32), c, spins=50).findings
    assert (c == 300).all()


def test_polling_with_a_count_of_tries_is_given_up_in_the_end():
    k = K(32)
    A, i = k.tensor("A", dtype=dt.int32), k.var(0)
    with k.loop() as loop:
        with k.if_(k.ne(k.load(A, 0, order="acquire"), 0)):
            k.exit("break", loop)
        k.assign((i, k.add(k.read(i), 1)))
    assert codes(k.run(np.zeros(1, np.int32), spins=10)) == ["F4"]


def test_a_warp_waits_for_another_through_shared_memory():
    k = K(64)
    C, s = k.tensor("C", dtype=dt.int32), k.shared(2, dt.int32)
    with k.if_(k.eq(k.tid, 0)):
        k.store(s, 0, 0)
        k.store(s, 1, 0)
    k.sync()
    with k.if_(k.lt(k.tid, 32)) as branch:
        with k.loop() as loop, k.if_(k.eq(k.load(s, 0, order="acquire", scope="cta"), 1)):
            k.exit("break", loop)
        k.store(C, k.add(k.tid, k.mul(k.bid, 32)), k.load(s, 1))
    with k.else_(branch), k.if_(k.eq(k.tid, 63)):
        k.store(s, 1, 42)
        k.store(s, 0, 1, order="release", scope="cta")
    c = np.zeros(96, np.int32)
    outcome = k.run(c, grid=(3, 1, 1))
    assert not outcome.findings
    assert (c == 42).all()


@pytest.mark.slow
def test_a_lock_between_threads_and_blocks():
    k = K(32)
    lock, count = k.tensor("lock", dtype=dt.int32), k.tensor("count", dtype=dt.int32)
    with k.loop() as loop, k.if_(k.eq(k.atomic("cas", lock, 0, 1, compare=0, order="acquire"), 0)):
        k.store(count, 0, k.add(k.load(count, 0), 1))
        k.atomic("exch", lock, 0, 0, order="release")
        k.exit("break", loop)
    a, c = np.zeros(1, np.int32), np.zeros(1, np.int32)
    outcome = k.run(a, c, grid=(5, 1, 1), blocks=2)
    assert not outcome.findings and outcome.blocks == 5
    assert c[0] == 160


def test_persistent_blocks_draw_tiles_from_a_counter():
    k = K(32)
    ticket, out, n, s = k.tensor("ticket", dtype=dt.int32), k.tensor("out", dtype=dt.int32), k.scalar("n"), \
        k.shared(1, dt.int32)
    with k.loop() as loop:
        with k.if_(k.eq(k.tid, 0)):
            k.store(s, 0, k.atomic("add", ticket, 0, 1))
        k.sync()
        tile = k.load(s, 0)
        k.sync()
        with k.if_(k.ge(tile, n)):
            k.exit("break", loop)
        k.atomic("add", out, tile, k.tid)
    t, o = np.zeros(1, np.int32), np.zeros(17, np.int32)
    outcome = k.run(t, o, 17, grid=(4, 1, 1))
    assert not outcome.findings
    assert (o == 31 * 16).all() and t[0] == 21


# --- sizes -----------------------------------------------------------------------------------------------------------


def test_batches():
    k = K(256)
    assert blocks_per_batch(k.func, 256) == 64 and blocks_per_batch(k.func, 65) == 33
    k.shared(1 << 24)
    assert blocks_per_batch(k.func, 256) == 4
    assert resident_blocks(k.func, of("sm_90a")) == 132 and resident_blocks(k.func, of("sm_80")) == 108
    assert resident_blocks(K(256).func, of("sm_90a")) == 8 * 132


def test_progress():
    seen = []
    reverse(True).run(np.zeros(5 * T, np.float32), grid=(5, 1, 1), blocks=2, progress=lambda *x: seen.append(x))
    assert seen == [(2, 5), (4, 5), (5, 5)]
