"""Tails that a thread goes round: by continue, by an early return, in the other arm of a condition (B8)."""

from __future__ import annotations

import moye as mo
from sim.holdout.cases import Table, ramp, zeros

table = Table()
ONE = mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32)


@mo.jit
def _fill(s, x, k, n, bad: mo.Constexpr):
    i = k * 32 + mo.thread_idx().x
    if i >= n:
        if not bad:
            s[mo.thread_idx().x] = 0.0
        return
    s[mo.thread_idx().x] = x[i]


@table.faulty("B8", lambda: (zeros(3), ramp(80), 80), block=32)
@mo.kernel
def else_arm(out, x, n, bad: mo.Constexpr):
    """What is in range is stored in the other arm."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 32)
    for k in range(3):
        if k * 32 + tid >= n:
            if not bad:
                s[tid] = 0.0
        else:
            s[tid] = x[k * 32 + tid]
        mo.sync_warp()
        total = mo.warp_reduce(s[31 - tid], "add")
        if tid == 0:
            out[k] = total
        mo.sync_warp()


@table.faulty("B8", lambda: (zeros(3), ramp(80), 80), block=32)
@mo.kernel
def continues(out, x, n, bad: mo.Constexpr):
    """Rows are filled in a loop that leaves out those beyond the end."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 32)
    for k in range(3):
        for part in range(2):
            if tid // 16 != part:
                continue
            if k * 32 + tid >= n:
                if not bad:
                    s[tid] = 0.0
                continue
            s[tid] = x[k * 32 + tid]
        mo.sync_warp()
        total = mo.warp_reduce(s[31 - tid], "add")
        if tid == 0:
            out[k] = total
        mo.sync_warp()


@table.faulty("B8", lambda: (zeros(3), ramp(80), 80), block=32)
@mo.kernel
def returns_early(out, x, n, bad: mo.Constexpr):
    """A function that fills the tile returns where there is nothing left."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 32)
    for k in range(3):
        _fill(s, x, k, n, bad)
        mo.sync_warp()
        total = mo.warp_reduce(s[31 - tid], "add")
        if tid == 0:
            out[k] = total
        mo.sync_warp()


@table.faulty("B8", lambda: (zeros(3), ramp(80), 80), block=32)
@mo.kernel
def copies_behind_continue(out, x, n, bad: mo.Constexpr):
    """The same by asynchronous copies of a row each."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (8, 4))
    for k in range(3):
        for row in range(4):
            if k * 32 + row * 8 + tid % 8 >= n:
                if not bad:
                    s[tid % 8, row] = 0.0
                continue
            if tid // 8 == row:
                mo.copyto(ONE, mo.tile(s, (1, 1), (tid % 8, row))[0, :],
                          mo.tile(x, (1,), (k * 32 + row * 8 + tid % 8,)))
        mo.cp_async_wait()
        mo.sync_warp()
        total = mo.warp_reduce(s[tid % 8, tid // 8], "add")
        if tid == 0:
            out[k] = total
        mo.sync_warp()


@table.right(lambda: (zeros(3), ramp(80), 80), block=32)
@mo.kernel
def leaves_and_masks(out, x, n):
    """What is left is not added."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 32)
    for k in range(3):
        for _ in range(1):
            if k * 32 + tid >= n:
                continue
            s[tid] = x[k * 32 + tid]
        mo.sync_warp()
        total = mo.warp_reduce(mo.where(k * 32 + 31 - tid < n, s[31 - tid], 0.0), "add")
        if tid == 0:
            out[k] = total
        mo.sync_warp()


@table.right(lambda: (zeros(4), ramp(128)), block=32)
@mo.kernel
def keeps_on_purpose(out, x):
    """Every second pass goes on with what is there: no bound of an index."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 32)
    for k in range(4):
        for _ in range(1):
            if k % 2 == 1:
                continue
            s[tid] = x[k * 32 + tid]
        mo.sync_warp()
        total = mo.warp_reduce(s[31 - tid], "add")
        if tid == 0:
            out[k] = total
        mo.sync_warp()


@table.right(lambda: (zeros(3), ramp(96)), block=32)
@mo.kernel
def one_or_the_other(out, x):
    """Who works is told by the thread, in both arms."""
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.float32, 32)
    for k in range(3):
        if tid >= 16:
            s[tid] = x[k * 32 + tid]
        else:
            s[tid] = 2 * x[k * 32 + tid]
        mo.sync_warp()
        total = mo.warp_reduce(s[31 - tid], "add")
        if tid == 0:
            out[k] = total
        mo.sync_warp()
