"""Pipelines over several iterations: clean as they are, reported with any one barrier, wait or commit taken out."""

from __future__ import annotations

import numpy as np
import pytest

T, TILE = 64, 128
TID = np.arange(T)
MINE = np.stack([TID, TID + T])                         # what a thread copies: two elements of the tile
READ = np.stack([(TID * 7 + 11 * v) % TILE for v in range(4)])


class Without:
    """Plays a step unless it is the one taken out (of every iteration, or of one)."""

    def __init__(self, b, out=None, iteration=None):
        self.b, self.out, self.iteration, self.now = b, out, iteration, None

    def __call__(self, name, method, line, *args, **trips):
        if name != self.out or (self.iteration is not None and self.now != self.iteration):
            getattr(self.b, method)(line, *args, **trips)


def single_buffer(b, out=None, iteration=None):
    """The first kernel of page 003 of the reference, with the barrier that it lacks ("landed")."""
    do = Without(b, out, iteration)
    for do.now in range(4):
        do("copy A", "copy", 1, MINE)
        do("copy B", "copy", 2, MINE + TILE)
        do("wait", "wait", 3)
        do("landed", "sync", 4)
        do("gemm A", "read", 5, READ)
        do("gemm B", "read", 5, READ + TILE)
        do("used", "sync", 6)


def double_buffer(b, out=None, iteration=None):
    """Two stages: the next tile is on its way while this one is read."""
    do = Without(b, out, iteration)
    do("first copy", "copy", 1, MINE)
    do("first wait", "wait", 2)
    do("first sync", "sync", 3)
    for do.now in range(5):
        here, there = do.now % 2 * TILE, (do.now + 1) % 2 * TILE
        if do.now < 4:
            do("copy", "copy", 4, MINE + there)
        do("read", "read", 5, READ + here)
        do("wait", "wait", 6)
        do("sync", "sync", 7)


def multistage(b, out=None, iteration=None, stages=3, tiles=6):
    """cp.async groups with a wait that leaves stages - 2 of them in flight; one barrier an iteration."""
    do = Without(b, out, iteration)
    for stage in range(stages - 1):
        do("first copy", "copy", 1, MINE + stage * TILE)
        do("first commit", "commit", 2)
    for do.now in range(tiles):
        do("wait", "wait", 3, stages - 2, None, k=do.now)
        do("sync", "sync", 4)
        do("read", "read", 5, READ + do.now % stages * TILE)
        ahead = do.now + stages - 1
        if ahead < tiles:
            do("copy", "copy", 6, MINE + ahead % stages * TILE)
        do("commit" if ahead < tiles else "tail commit", "commit", 7)


@pytest.mark.parametrize("pipeline", [single_buffer, double_buffer, multistage])
@pytest.mark.parametrize("blocks", [1, 3])
def test_clean_pipeline(bench, pipeline, blocks):
    b = bench(T, blocks, 3 * TILE)
    pipeline(b)
    assert b.codes() == []


@pytest.mark.parametrize(("pipeline", "out", "expected"), [
    (single_buffer, "wait", ["D1(1, 5)", "D1(2, 5)", "B9(1, 1)", "B9(2, 2)"]),
    (single_buffer, "landed", ["D3(1, 5)", "D3(2, 5)"]),
    (single_buffer, "used", ["D4(1, 5)", "D4(2, 5)"]),
    (single_buffer, "copy B", ["B6(5)"]),
    (double_buffer, "first wait", ["D1(1, 5)"]),
    (double_buffer, "first sync", ["D3(1, 5)"]),
    (double_buffer, "wait", ["D1(4, 5)", "B9(4, 4)"]),
    (double_buffer, "sync", ["D3(4, 5)", "D4(4, 5)"]),
    (multistage, "wait", ["D1(1, 5)", "B9(1, 6)", "D1(6, 5)", "B9(6, 6)"]),
    (multistage, "sync", ["D3(1, 5)", "D4(6, 5)", "D3(6, 5)"]),
    (multistage, "first commit", ["D2(1, 5)", "B9(1, 6)"]),
    (multistage, "commit", ["D2(1, 5)", "B9(1, 6)", "D2(6, 5)", "B9(6, 6)"]),
    (multistage, "tail commit", ["D2(6, 5)"]),
])
def test_one_step_taken_out_is_reported(bench, pipeline, out, expected):
    b = bench(T, 1, 3 * TILE)
    pipeline(b, out)
    assert sorted(b.codes()) == sorted(expected)


@pytest.mark.parametrize("pipeline", [single_buffer, double_buffer, multistage])
@pytest.mark.parametrize("out", ["wait", "landed", "used", "sync"])
@pytest.mark.parametrize("iteration", [1, 2])
def test_one_step_of_one_iteration_taken_out_is_reported(bench, pipeline, out, iteration):
    whole, b = bench(T, 1, 3 * TILE), bench(T, 1, 3 * TILE)
    pipeline(whole, out)
    pipeline(b, out, iteration)
    assert bool(b.codes()) == bool(whole.codes())
    assert {code[:2] for code in b.codes()} <= {"D1", "D2", "D3", "D4", "B9"}


def test_first_kernel_of_page_003(bench):
    b = bench(256, 1, 129 * 8)
    sB = b.buffer("sB", 129 * 8)
    tid = np.arange(256)
    column, row = tid // 32, tid % 32
    copied = np.stack([row + 32 * v + 129 * column for v in range(4)])
    used = [[tid % 16 + 16 * v + 129 * k for v in range(8) for k in range(8)],
            [tid // 16 + 16 * v + 129 * k for v in range(8) for k in range(8)]]
    for _ in range(3):
        b.copy(30, copied).copy(31, copied, buffer=sB).wait(33)
        b.read(35, used[0]).read(35, used[1], buffer=sB).sync(36)
    assert b.codes() == ["D3(30, 35)", "D3(31, 35)"]
    assert [f.tensor for f in b.findings] == ["sA", "sB"]


def test_tail_without_commits_is_told_apart(bench):
    b = bench(T, 1, 3 * TILE)
    multistage(b, "tail commit")
    assert b.findings[0].code == "D2" and b.findings[0].message.endswith(
        "cp_async_wait(1) at line 3 (k = 5), leaves the newest group in flight, and none was committed after that of "
        "the copy; iteration k = 4 lacks its commit: no cp_async_commit() since the wait before it at line 3")
    assert "an empty group where nothing is left to copy" in b.findings[0].hint


def test_redundant_barriers_make_no_difference(bench):
    b = bench(T, 1, 3 * TILE)
    double_buffer(b)
    b.sync().sync().warp_sync()
    double_buffer(b)
    assert b.codes() == []


def ping_pong(b, full=True, empty=True):
    """Producer warp 0, consumer warp 1: named barriers 1 (stage is full) and 2 (stage is free)."""
    producer, consumer = range(32), range(32, 64)
    for i in range(4):
        if i and empty:
            b.named(1, 2, arrived=producer, released=producer)
        b.write(2, TID % 32, active=producer)
        if full:
            b.named(3, 1, arrived=producer).named(3, 1, arrived=consumer, released=consumer)
        b.read(4, (TID + 5) % 32, active=consumer)
        if empty:
            b.named(5, 2, arrived=consumer)


@pytest.mark.parametrize(("full", "empty", "expected"), [
    (True, True, []), (False, True, ["C1(2, 4)", "C5(1, 5)"]), (True, False, ["C2(2, 4)", "C5(3, 3)"]),
])
def test_producer_and_consumer_over_named_barriers(bench, full, empty, expected):
    b = bench(64)
    ping_pong(b, full, empty)
    assert b.codes() == expected


def test_an_arrival_covers_only_what_was_done_before_it(bench):
    b = bench(64)
    b.write(1, TID, active=range(32)).named(2, 1, arrived=range(32))
    b.write(3, TID + 64, active=range(32))              # after the arrival: not covered
    b.named(4, 1, arrived=range(32, 64), released=range(32, 64))
    b.read(5, TID - 32, active=range(32, 64))
    assert b.codes() == []
    b.read(6, TID + 32, active=range(32, 64))
    assert b.codes() == ["C1(3, 6)"]


def test_named_barriers_with_other_ids_do_not_order(bench):
    b = bench(64)
    b.write(1, TID, active=range(32)).named(2, 1, arrived=range(32))
    b.named(3, 2, arrived=range(32, 64), released=range(32, 64)).read(4, TID - 32, active=range(32, 64))
    assert b.codes() == ["C1(1, 4)"]


# --- one barrier, two groups -----------------------------------------------------------------------------------------


def test_two_groups_on_one_named_barrier(bench):
    """Each pair of warps meets on its own here; but nothing keeps the barrier from letting warps 0 and 2 pass."""
    b = bench(128)
    pairs = range(64), range(64, 128)
    for pair in pairs:
        b.named(2, 1, arrived=pair, released=pair)
    (finding,) = b.findings
    assert finding.code == "C5" and finding.threads == (0, 64)
    assert finding.message == (
        "warps 2-3 of block (0, 0, 0) and warps 0-1 use named barrier 1 in an order that nothing decides: no barrier "
        "between warps 0-1 passing it at line 2 and warps 2-3 arriving at line 2")


@pytest.mark.parametrize("number", [1, 2])
def test_two_groups_on_one_named_barrier_one_after_the_other(bench, number):
    """Ordered by the block barrier, or by another named one: nobody's arrival can count for the others."""
    b = bench(128)
    b.named(2, 1, arrived=range(64), released=range(64))
    if number == 1:
        b.sync(3)
    else:
        b.named(3, 2, arrived=range(96), released=range(64, 96)).named(4, 3, arrived=range(64, 128),
                                                                    released=range(96, 128))
    b.named(5, 1, arrived=range(64, 128), released=range(64, 128))
    assert b.codes() == []


def test_a_group_meets_on_its_barrier_again_and_again(bench):
    b = bench(128, 3)
    for _ in range(3):
        b.named(2, 1, arrived=range(64), released=range(64)).named(3, 2, arrived=range(64, 128),
                                                                released=range(64, 128))
    assert b.codes() == []


@pytest.mark.parametrize("ordered", [True, False])
def test_barrier_0_is_that_of_the_block(bench, ordered):
    b = bench(128)
    b.named(2, 0, arrived=range(64), released=range(64))
    if ordered:
        b.named(3, 1, arrived=range(128), released=range(64, 128))
    b.sync(4)
    assert b.codes() == ([] if ordered else ["C5(2, 4)"])
    assert ordered or "barrier 0, which is that of sync_threads" in b.findings[0].message
