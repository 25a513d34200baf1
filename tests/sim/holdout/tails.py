"""Tails of tiles: what a condition leaves in shared memory, used by mistake (B8) or kept on purpose."""

from __future__ import annotations

import moye as mo
from sim.holdout.cases import Table, ramp, zeros

table = Table()
ONE = mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32)


@table.faulty("B8", lambda: (zeros(3), ramp(80), 80), block=32)
@mo.kernel
def two_statements(out, x, n, bad: mo.Constexpr):
    """Two tiles of 16 in two statements; the tile's condition stands around the one of the lane."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 32)
    for pair in range(3):
        if pair * 32 < n:
            if tid < 16:
                s[tid] = x[pair * 32 + tid]
        if pair * 32 + 16 < n:
            if tid < 16:
                s[16 + tid] = x[pair * 32 + 16 + tid]
        else:
            if not bad:
                if tid < 16:
                    s[16 + tid] = 0.0
        mo.sync_threads()
        total = mo.warp_reduce(s[tid], "add")
        if tid == 0:
            out[pair] = total
        mo.sync_threads()


@table.faulty("B8", lambda: (zeros(3), ramp(80), 80), block=32)
@mo.kernel
def lane_then_tile(out, x, n, bad: mo.Constexpr):
    """The condition of the lane stands outside."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 32)
    for pair in range(3):
        for half in mo.static_range(2):
            first = pair * 32 + half * 16
            if tid >= half * 16:
                if tid < half * 16 + 16:
                    if first < n:
                        s[tid] = x[pair * 32 + tid]
                    elif not bad:
                        s[tid] = 0.0
        mo.sync_threads()
        total = mo.warp_reduce(s[tid], "add")
        if tid == 0:
            out[pair] = total
        mo.sync_threads()


@table.faulty("B8", lambda: (zeros(2), ramp(48), 48), block=32)
@mo.kernel
def one_conjunction(out, x, n, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 32)
    for t in range(2):
        if tid < 32 and t * 32 + tid < n:
            s[tid] = x[t * 32 + tid]
        elif not bad:
            s[tid] = 0.0
        mo.sync_threads()
        if tid == 0:
            total = 0.0
            for j in range(32):
                total += s[j]
            out[t] = total
        mo.sync_threads()


@table.faulty("B8", lambda: (zeros(2), ramp(12, 8), 12, 6), block=64)
@mo.kernel
def rows_and_columns(out, x, m, n, bad: mo.Constexpr):
    """A tile of 8 by 8 of a matrix of 12 by 6, guarded by row and column; all of it is added up."""
    tid = mo.thread_idx().x
    row, column = tid % 8, tid // 8
    s = mo.shared_array(mo.float32, (8, 8))
    for t in range(2):
        i = t * 8 + row
        if not bad:
            s[row, column] = 0.0
        if i < m and column < n:
            s[row, column] = x[i, column]
        elif column >= n:
            s[row, column] = 0.0
        mo.sync_threads()
        if tid == 0:
            total = 0.0
            for j in range(64):
                total += s[j % 8, j // 8]
            out[t] = total
        mo.sync_threads()


@table.faulty("B8", lambda: (zeros(64), ramp(64, 5), 5), block=64)
@mo.kernel
def async_ring_with_tail(out, x, n, bad: mo.Constexpr):
    """Pairs of columns by cp.async; in the last pair the second copy is off for all."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (64, 2))
    total = 0.0
    for k in range(0, n, 2):
        mo.copyto(ONE, mo.tile(s, (1, 1), (tid, 0)), mo.tile(x, (1, 1), (tid, k)))
        if k + 1 < n:
            mo.copyto(ONE, mo.tile(s, (1, 1), (tid, 1)), mo.tile(x, (1, 1), (tid, k + 1)))
        elif not bad:
            s[tid, 1] = 0.0
        mo.cp_async_wait()
        mo.sync_threads()
        total += s[63 - tid, 0] + s[63 - tid, 1]
        mo.sync_threads()
    out[tid] = total


@table.faulty("B8", lambda: (zeros(32, 3), ramp(70), 70), block=32)
@mo.kernel
def strided_fill(out, x, n, bad: mo.Constexpr):
    """Each thread fills several places of a tile in a loop with a condition inside."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 24)
    for t in range(3):
        for j in range(tid, 24, 8):
            if tid < 8:
                if t * 24 + j < n:
                    s[j] = x[t * 24 + j]
                elif not bad:
                    s[j] = 0.0
        mo.sync_warp()
        if tid < 24:
            out[tid, t] = s[23 - tid]
        mo.sync_warp()


@table.right(lambda: (zeros(4), ramp(64)), block=32)
@mo.kernel
def half_refreshed_on_purpose(out, x):
    """The second half is refreshed in every second pass, as it is meant."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 32)
    for k in range(4):
        for half in mo.static_range(2):
            if half == 0 or k % 2 == 0:
                if tid < 16:
                    s[half * 16 + tid] = x[k * 8 + half * 16 + tid]
        mo.sync_warp()
        total = mo.warp_reduce(s[tid], "add")
        if tid == 0:
            out[k] = total
        mo.sync_warp()


@table.right(lambda: (zeros(4), ramp(64)), block=32)
@mo.kernel
def rotating_window(out, x):
    """A window that moves by 8: a quarter of the ring is refreshed by eight lanes in each pass."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 32)
    s[tid] = x[tid]
    mo.sync_warp()
    for k in range(4):
        total = mo.warp_reduce(s[tid], "add")
        if tid == 0:
            out[k] = total
        mo.sync_warp()
        if tid < 8:
            s[(k % 4) * 8 + tid] = x[32 + k * 8 + tid]
        mo.sync_warp()


@table.right(lambda: (zeros(40), ramp(40), 40), block=16)
@mo.kernel
def halo_carried(out, x, n):
    """The last element of a tile stays as the left neighbour of the next one."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 17)
    if tid == 0:
        s[0] = 0.0
    for t in range(mo.ceil_div(n, 16)):
        i = t * 16 + tid
        if i < n:
            s[tid + 1] = x[i]
        mo.sync_threads()
        if i < n:
            out[i] = s[tid + 1] - s[tid]
        mo.sync_threads()
        if tid == 0:
            s[0] = s[16]
        mo.sync_threads()


@table.right(lambda: (zeros(32, 3), ramp(32, 3)), block=32)
@mo.kernel
def table_loaded_once(out, x):
    """A table is loaded in the first pass alone."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 32)
    for k in range(3):
        if k == 0:
            s[tid] = x[tid, 0]
        mo.sync_warp()
        out[tid, k] = s[31 - tid] * k


@table.right(lambda: (zeros(3), ramp(80), 80), block=32)
@mo.kernel
def masked_read(out, x, n):
    """Old data stays, and the reader masks it out."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 32)
    for t in range(3):
        i = t * 32 + tid
        if i < n:
            s[tid] = x[i]
        mo.sync_warp()
        value = s[31 - tid]
        total = mo.warp_reduce(mo.where(t * 32 + 31 - tid < n, value, 0.0), "add")
        if tid == 0:
            out[t] = total
        mo.sync_warp()


@table.right(lambda: (zeros(8), ramp(88)), block=32)
@mo.kernel
def ring_goes_round(out, x):
    """A window of 32 in a ring; eight lanes fill a quarter of it in each pass, by a copy or by a store."""
    tid = mo.thread_idx().x
    s, t = mo.shared_array(mo.float32, 32), mo.shared_array(mo.float32, 32)
    for k in range(8):
        if tid < 8:
            s[(k % 4) * 8 + tid] = x[k * 8 + tid]
        at = mo.min((k % 4) * 8 + tid, 31)
        mo.copyto(ONE, mo.tile(t, (1,), (at,)), mo.tile(x, (1,), (k * 8 + tid,)), pred=tid < 8)
        mo.cp_async_wait()
        mo.sync_warp()
        if k >= 3:
            total = mo.warp_reduce(s[tid] - t[31 - tid], "add")
            if tid == 0:
                out[k] = total
        mo.sync_warp()


@table.faulty("B8", lambda: (zeros(3), ramp(80), 80), block=32)
@mo.kernel
def unrolled_tiles(out, x, n, bad: mo.Constexpr):
    """The loop over tiles is unrolled."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 32)
    for t in mo.static_range(3):
        if t * 32 + tid < n:
            s[tid] = x[t * 32 + tid]
        elif not bad:
            s[tid] = 0.0
        mo.sync_warp()
        total = mo.warp_reduce(s[31 - tid], "add")
        if tid == 0:
            out[t] = total
        mo.sync_warp()


@table.faulty("B8", lambda: (zeros(64, 2), ramp(64, 3), 3), block=64)
@mo.kernel
def predicated_copy_off_for_all(out, x, n, bad: mo.Constexpr):
    """Two columns at a time by predicated cp.async; the last one is off for the whole block."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (64, 2))
    for pair in range(2):
        for side in mo.static_range(2):
            column = pair * 2 + side
            at = mo.min(column, n - 1)
            mo.copyto(ONE, mo.tile(s, (1, 1), (tid, side)), mo.tile(x, (1, 1), (tid, at)),
                      pred=tid + column * 64 < n * 64, zero_fill=not bad)
        mo.cp_async_wait()
        mo.sync_threads()
        out[tid, pair] = s[63 - tid, 0] + s[63 - tid, 1]
        mo.sync_threads()


@table.right(lambda: (zeros(64, 4), ramp(64, 4)), block=64)
@mo.kernel
def predicated_reload(out, x):
    """A predicate of the whole block reloads a table in every second pass."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 64)
    part = mo.fragment((1,), mo.float32)
    for k in range(4):
        mo.copyto(ONE, mo.tile(s, (1,), (tid,)), mo.tile(x, (1, 1), (tid, k))[:, 0], pred=k % 2 == 0)
        mo.copyto(part, mo.tile(x, (1, 1), (tid, k))[:, 0], pred=k == 0)
        mo.cp_async_wait()
        mo.sync_threads()
        out[tid, k] = s[63 - tid] + part[0]
        mo.sync_threads()


ROWS = mo.make_layout((3, 21), (21, 1))


@mo.jit
def rows_in_turn(out, x, n, bad, fill):
    """Rows of 21 are filled and read again; lanes that are off, from the 21st on, have their place in the next row."""
    t, s = mo.thread_idx().x, mo.shared_array(mo.float32, ROWS)
    for i in range(t, 63, 32):
        s[i // 21, i % 21] = 0.0
    mo.sync_threads()
    total = mo.float32(0)
    for r in range(6):
        row = 2 * r % 3
        fill(s[row, 1:], x, t, mo.min(n, 20 - r if bad else 25 + r))
        mo.cp_async_wait()
        mo.sync_threads()
        total += s[row, 1] + s[(row + 1) % 3, 1] + s[row, 20]
        mo.sync_threads()
    out[t] = total


@table.faulty("B8", lambda: (zeros(32), ramp(32), 20), block=32)
@mo.kernel
def beside_the_row(out, x, n, bad: mo.Constexpr):
    """Stores under a condition."""
    @mo.jit
    def fill(to, x, t, limit):
        if t < limit:
            to[t] = x[t]
    rows_in_turn(out, x, n, bad, fill)


@table.faulty("B8", lambda: (zeros(32), ramp(32), 20), block=32)
@mo.kernel
def copies_beside_the_row(out, x, n, bad: mo.Constexpr):
    """Copies under a condition."""
    @mo.jit
    def fill(to, x, t, limit):
        if t < limit:
            mo.copyto(ONE, mo.tile(to, (1,), (t,)), mo.tile(x, (1,), (t,)))
    rows_in_turn(out, x, n, bad, fill)


@table.faulty("B8", lambda: (zeros(32), ramp(32), 20), block=32)
@mo.kernel
def predicated_beside_the_row(out, x, n, bad: mo.Constexpr):
    """Predicated copies."""
    @mo.jit
    def fill(to, x, t, limit):
        mo.copyto(ONE, mo.tile(to, (1,), (t,)), mo.tile(x, (1,), (t,)), pred=t < limit)
    rows_in_turn(out, x, n, bad, fill)


@table.faulty("B8", lambda: (zeros(32), ramp(32), 32), block=32)
@mo.kernel
def another_statement_beside_the_row(out, x, n, bad: mo.Constexpr):
    """That one statement has no place for some lanes excuses no other one."""
    t, s = mo.thread_idx().x, mo.shared_array(mo.float32, mo.make_layout((2, 32), (32, 1)))
    total = mo.float32(0)
    for r in range(4):
        if t + (2 * r if bad else 0) < n:
            if t < 24:
                s[1, t + 8] = 0.0
            mo.copyto(ONE, mo.tile(s[0, None], (1,), (t,)), mo.tile(x, (1,), (t,)))
        mo.cp_async_wait()
        mo.sync_threads()
        total += s[0, 31 - t]
        mo.sync_threads()
    out[t] = total
