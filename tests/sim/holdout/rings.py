"""Faults of cp.async rings and of register prefetch, D1 to D5, and their twins."""

from __future__ import annotations

import moye as mo
from sim.holdout.cases import Table, ramp, zeros

table = Table()
ASYNC = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32), mo.make_layout((64, 1)))
WIDE = mo.CopyAtom(mo.CpAsync(mo.float64), mo.float32)
ONE = mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32)


@mo.jit
def fetch(s, x, stage, k):
    """This thread's element of tile k into a stage."""
    tid = mo.thread_idx().x
    mo.copyto(ONE, mo.tile(s, (1, 1), (tid, stage)), mo.tile(x, (1, 1), (tid, k)))


@table.faulty("D1", lambda: (zeros(64), ramp(64)), block=64)
@mo.kernel
def no_wait_at_all(out, x, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (64, 1))
    fetch(s, mo.domain_offset(0, x).with_layout(mo.make_layout((64, 1))), 0, 0)
    mo.cp_async_commit()
    if not bad:
        mo.cp_async_wait(0)
    mo.sync_threads()
    out[tid] = s[63 - tid, 0]


@table.faulty("D1", lambda: (zeros(64), ramp(64, 2)), block=64)
@mo.kernel
def own_data_without_wait(out, x, bad: mo.Constexpr):
    """Only one's own element is read, so no barrier is needed; the wait is."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (64, 2))
    fetch(s, x, 0, 0)
    fetch(s, x, 1, 1)
    if not bad:
        mo.cp_async_wait()
    out[tid] = s[tid, 0] - s[tid, 1]


@table.faulty("D1 D2", lambda: (zeros(64), ramp(64, 2)), block=64)
@mo.kernel
def wait_without_commit(out, x, bad: mo.Constexpr):
    """wait_group(0) does not wait for copies that no commit closed."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (64, 2))
    fetch(s, x, 0, 0)
    mo.cp_async_commit()
    fetch(s, x, 1, 1)
    if not bad:
        mo.cp_async_commit()
    mo.cp_async_wait(0)
    mo.sync_threads()
    out[tid] = s[63 - tid, 0] + s[63 - tid, 1]


@table.faulty("D2", lambda: (zeros(64), ramp(64, 6)), block=64)
@mo.kernel
def ring_of_two(out, x, bad: mo.Constexpr):
    """Two stages: the next tile is fetched, and one group too many is left in flight."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (64, 2))
    total = 0.0
    fetch(s, x, 0, 0)
    mo.cp_async_commit()
    for k in range(6):
        if k + 1 < 6:
            fetch(s, x, (k + 1) % 2, k + 1)
        mo.cp_async_commit()
        mo.cp_async_wait(2 if bad else 1)
        mo.sync_threads()
        total += s[63 - tid, k % 2]
        mo.sync_threads()
    out[tid] = total


@table.faulty("D2 D5", lambda: (zeros(64), ramp(64, 7)), block=64)
@mo.kernel
def ring_of_three_tail(out, x, bad: mo.Constexpr):
    """Three stages; past the last tile nothing is committed."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (64, 3))
    total = 0.0
    for k in mo.static_range(2):
        fetch(s, x, k, k)
        mo.cp_async_commit()
    for k in range(7):
        mo.cp_async_wait(1)
        mo.sync_threads()
        if k + 2 < 7:
            fetch(s, x, (k + 2) % 3, k + 2)
            if bad:
                mo.cp_async_commit()
        if not bad:
            mo.cp_async_commit()
        total += s[63 - tid, k % 3]
    out[tid] = total


@table.faulty("D3", lambda: (zeros(64), ramp(64, 5)), block=64)
@mo.kernel
def ring_of_four_no_barrier(out, x, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (64, 4))
    total = 0.0
    for k in mo.static_range(3):
        fetch(s, x, k, k)
        mo.cp_async_commit()
    for k in range(5):
        mo.cp_async_wait(2)
        if not bad:
            mo.sync_threads()
        total += s[63 - tid, k % 4]
        if bad:
            mo.sync_threads()
        if k + 3 < 5:
            fetch(s, x, (k + 3) % 4, k + 3)
        mo.cp_async_commit()
    out[tid] = total


@table.faulty("D3", lambda: (zeros(64), ramp(64, 1)), block=64)
@mo.kernel
def barrier_before_wait(out, x, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (64, 1))
    fetch(s, x, 0, 0)
    if bad:
        mo.sync_threads()
        mo.cp_async_wait()
    else:
        mo.cp_async_wait()
        mo.sync_threads()
    out[tid] = s[(tid + 32) % 64, 0]


@table.faulty("D1 D3", lambda: (zeros(64), ramp(64, 1)), block=64)
@mo.kernel
def only_one_warp_waits(out, x, bad: mo.Constexpr):
    """cp_async_wait is of one's own thread: warp 0's wait says nothing of warp 1's copies."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (64, 1))
    fetch(s, x, 0, 0)
    if bad:
        if tid < 32:
            mo.cp_async_wait()
    else:
        mo.cp_async_wait()
    mo.sync_threads()
    if tid < 32:
        out[tid] = s[tid + 32, 0]


@table.faulty("D4", lambda: (zeros(64), ramp(64, 6)), block=64)
@mo.kernel
def ring_of_two_early_refill(out, x, bad: mo.Constexpr):
    """The stage is refilled by threads that have read it, while others still read."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (64, 2))
    total = 0.0
    for k in mo.static_range(2):
        fetch(s, x, k, k)
        mo.cp_async_commit()
    for k in range(6):
        mo.cp_async_wait(1)
        mo.sync_threads()
        total += s[63 - tid, k % 2]
        if not bad:
            mo.sync_threads()
        if k + 2 < 6:
            fetch(s, x, k % 2, k + 2)
        mo.cp_async_commit()
    out[tid] = total


@table.faulty("D4", lambda: (zeros(64), ramp(64, 9)), block=64)
@mo.kernel
def ring_of_five_wrong_stage(out, x, bad: mo.Constexpr):
    """Five stages, four in flight; the refill goes to the stage of this pass instead of the last one's."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (64, 5))
    total = 0.0
    for k in mo.static_range(4):
        fetch(s, x, k, k)
        mo.cp_async_commit()
    read, write = 0, 4
    for k in range(9):
        mo.cp_async_wait(3)
        mo.sync_threads()
        if k + 4 < 9:
            fetch(s, x, read if bad else write, k + 4)
        mo.cp_async_commit()
        total += s[63 - tid, read]
        read = (read + 1) % 5
        write = (write + 1) % 5
    out[tid] = total


@table.faulty("D1 D2 D3", lambda: (zeros(64), ramp(64, 4)), block=64)
@mo.kernel
def wait_by_the_wrong_role(out, x, bad: mo.Constexpr):
    """A warp copies for another; the reader waits for its own groups, of which there are none."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (64, 1))
    if tid < 32:
        mo.copyto(ONE, mo.tile(s, (1, 1), (tid, 0)), mo.tile(x, (1, 1), (tid, 0)))
        mo.copyto(ONE, mo.tile(s, (1, 1), (tid + 32, 0)), mo.tile(x, (1, 1), (tid + 32, 0)))
        mo.cp_async_commit()
        if not bad:
            mo.cp_async_wait(0)
    else:
        if bad:
            mo.cp_async_wait(0)
    mo.sync_threads()
    if tid >= 32:
        out[tid] = s[tid - 32, 0] + s[tid, 0]


@table.faulty("C1 C2", lambda: (zeros(64), ramp(64, 6)), block=64)
@mo.kernel
def register_prefetch(out, x, bad: mo.Constexpr):
    """The next column waits in a register while this one is used; double-buffered, one barrier a pass."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (64, 2))
    held = x[tid, 0]
    s[tid, 0] = held
    mo.sync_threads()
    total = 0.0
    for k in range(6):
        if k + 1 < 6:
            held = x[tid, k + 1]
        total += s[63 - tid, k % 2]
        if k + 1 < 6:
            s[tid, (k + 1) % 2] = held
            if not bad:
                mo.sync_threads()
    out[tid] = total


@table.faulty("C2", lambda: (zeros(64), ramp(64, 6)), block=64)
@mo.kernel
def register_prefetch_one_buffer(out, x, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 64)
    held = x[tid, 0]
    total = 0.0
    for k in range(1, 7):
        s[tid] = held
        mo.sync_threads()
        if k < 6:
            held = x[tid, k]
        total += s[63 - tid]
        if not bad:
            mo.sync_threads()
    out[tid] = total


@table.faulty("D2 D1", lambda: (zeros(64), ramp(64, 8)), block=64)
@mo.kernel
def pipeline_object_ahead(out, x, bad: mo.Constexpr):
    """mo.Pipeline with a prologue of one tile less than it counts on."""
    tid = mo.thread_idx().x
    pipe = mo.Pipeline(stages=3)
    s = mo.shared_array(mo.float32, (64, pipe.stages))
    for k in mo.static_range(pipe.ahead):
        fetch(s, x, k, k)
        if not (bad and k == 1):
            pipe.commit()
    total, state = 0.0, pipe.start()
    for k in range(8):
        pipe.wait()
        if k + pipe.ahead < 8:
            fetch(s, x, state.write, k + pipe.ahead)
        pipe.commit()
        total += s[63 - tid, state.read]
        state = state.next()
    out[tid] = total


@table.faulty("D1 D2", lambda: (zeros(64), ramp(64, 2), zeros(64)), block=64)
@mo.kernel
def tile_read_after_the_loop(out, x, other, bad: mo.Constexpr):
    """What the last pass fetched is used after the loop, whose waits left it in flight."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (64, 2))
    fetch(s, x, 0, 0)
    mo.cp_async_commit()
    for k in range(2):
        fetch(s, x, (k + 1) % 2, (k + 1) % 2)
        mo.cp_async_commit()
        mo.cp_async_wait(1)
        mo.sync_threads()
        out[tid] = s[63 - tid, k % 2]
        mo.sync_threads()
    if not bad:
        mo.cp_async_wait(0)
        mo.sync_threads()
    other[tid] = s[tid, 0]
