"""Small kernels at the corners of the language: narrow integers, functions with barriers, locks, views of bytes."""

from __future__ import annotations

import numpy as np

import moye as mo
from sim.holdout.cases import Table, ramp, zeros
from sim.holdout.crossings import fetch, ints

table = Table()


@table.faulty("A11", lambda: (ints(32), ints(32, value=-2147483648)), block=32)
@mo.kernel
def negated_least(out, x, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    v = x[tid] if bad else mo.max(x[tid], -2147483647)
    out[tid] = -v


@table.faulty("A11", lambda: (ints(32), ints(32, value=-2147483648)), block=32)
@mo.kernel
def abs_of_least(out, x, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    v = x[tid] if bad else mo.max(x[tid], -2147483647)
    out[tid] = abs(v)


@table.faulty("A11", lambda: (ints(32), ints(32, value=-2147483648), -1), block=32)
@mo.kernel
def least_by_minus_one(out, x, d, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    v = x[tid] if bad else mo.max(x[tid], -2147483647)
    out[tid] = v // d


@table.faulty("A11", lambda: (ints(32), 32), block=32)
@mo.kernel
def shift_by_the_width(out, n, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    out[tid] = (1 << n) if bad else (1 << (n % 31))


@table.faulty("A11", lambda: (ints(1), ints(32, value=100000000)), block=32)
@mo.kernel
def warp_sum_overflows(out, x, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    v = x[tid] if bad else x[tid] // 1000
    total = mo.warp_reduce(v)
    if tid == 0:
        out[0] = total


@table.faulty("A11", lambda: (ints(32), ints(32, value=1 << 33, dtype=np.int64)), block=32)
@mo.kernel
def narrowed_offset(out, x, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    i = x[tid].to(mo.int32) if bad else (x[tid] % 32).to(mo.int32)
    out[i % 32] = 1


@table.faulty("A12", lambda: (ints(32), ints(32)), block=32)
@mo.kernel
def remainder_by_zero(out, x, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    d = x[tid]
    out[tid] = tid % d if bad else (tid % d if d != 0 else 0)


@table.faulty("A11", lambda: (ints(32, dtype=np.int16), ints(32, value=300, dtype=np.int16)), block=32)
@mo.kernel
def int16_products(out, x, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    if bad:
        out[tid] = ((x[tid] * x[31 - tid]) >> 8).to(mo.int16)
    else:
        out[tid] = ((x[tid].to(mo.int32) * x[31 - tid].to(mo.int32)) >> 8).to(mo.int16)


@table.faulty("A11", lambda: (ints(32), ints(32, value=250, dtype=np.uint8)), block=32)
@mo.kernel
def byte_counter_compared(out, x, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    if bad:
        out[tid] = mo.where(x[tid] + 10 < 20, 1, 0)
    else:
        out[tid] = mo.where(x[tid].to(mo.int32) + 10 < 20, 1, 0)


@table.faulty("A11", lambda: (zeros(64), ramp(64), ints(64, value=3, dtype=np.uint8)), block=64)
@mo.kernel
def byte_as_index(out, x, i, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    k = i[tid] * 100 if bad else i[tid].to(mo.int32) * 100
    out[tid] = x[k % 64]


@table.faulty("C4 F4", lambda: (zeros(64), ramp(64)), block=64)
@mo.kernel
def barrier_in_short_circuit(out, x, bad: mo.Constexpr):
    """A function with a barrier as the second operand of ``and``."""
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, 64)
    s[tid] = x[tid]
    if bad:
        if tid < 40 and meets(s, tid):
            out[tid] = 1.0
    else:
        ok = meets(s, tid)
        if tid < 40 and ok:
            out[tid] = 1.0


@mo.jit
def meets(s, tid):
    mo.sync_threads()
    return s[63 - tid] > 0.0


@mo.jit
def early(s, tid, n, bad: mo.Constexpr):
    if bad:
        if tid >= n:
            return mo.float32(0)
        mo.sync_threads()
        return s[n - 1 - tid]
    mo.sync_threads()
    if tid >= n:
        return mo.float32(0)
    return s[n - 1 - tid]


@table.faulty("C4", lambda: (zeros(64), ramp(64), 40), block=64)
@mo.kernel
def early_return_of_a_function(out, x, n, bad: mo.Constexpr):
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, 64)
    s[tid] = x[tid]
    out[tid] = early(s, tid, n, bad)


@table.faulty("C4 C6 C1", lambda: (zeros(64), ramp(64), 40), block=64)
@mo.kernel
def block_reduce_by_a_part(out, x, n, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    total = mo.float32(0)
    if bad:
        if tid < n:
            total = mo.block_reduce(x[tid], mo.shared_array(mo.float32, 2))
    else:
        total = mo.block_reduce(x[tid] if tid < n else mo.float32(0), mo.shared_array(mo.float32, 2))
    out[tid] = total


@table.faulty("C1 C2", lambda: (zeros(64), ramp(64)), block=64)
@mo.kernel
def vector_store_over_neighbours(out, x, bad: mo.Constexpr):
    """16-byte stores that begin at every second float."""
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, 256)
    for k in mo.static_range(4):
        s[tid + 64 * k] = 0.0
    mo.sync_threads()
    r = mo.make_fragment_like(mo.make_layout(4), mo.float32)
    r.fill(x[tid])
    if tid % 2 == 0:
        mo.copyto(mo.domain_offset(tid * (1 if bad else 2), s)[0:4], r)
    mo.sync_threads()
    out[tid] = s[tid]


@table.faulty("B6", lambda: (ints(32), ints(32, dtype=np.uint16)), block=32)
@mo.kernel
def half_of_each_word_written(out, x, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.uint16, 64)
    s[2 * tid] = x[tid]
    if not bad:
        s[2 * tid + 1] = x[tid]
    w = mo.recast(s, mo.uint32)
    out[tid] = w[tid].to(mo.int64).to(mo.int32)


@table.faulty("D19 G3 G5", lambda: (zeros(64), ramp(64), ints(1)), grid=2, block=32)
@mo.kernel
def flag_of_block_scope(out, x, flag, bad: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    scope = "cta" if bad else "gpu"
    if b == 0:
        out[tid] = x[tid]
        mo.sync_threads()
        if tid == 0:
            mo.store(flag, 0, 1, order="release", scope=scope)
    else:
        if tid == 0:
            while mo.load(flag, 0, order="acquire", scope=scope) == 0:
                pass
        mo.sync_threads()
        out[32 + tid] = out[31 - tid]


@table.faulty("G3 G5 G2 G1", lambda: (ints(4), ints(1)), grid=4, block=32)
@mo.kernel
def plain_look_at_an_atomic(out, count, bad: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        mo.atomic_add(count, 0, 1)
        out[b] = count[0] if bad else mo.load(count, 0)


@table.faulty("C1 C2 D19 D18", lambda: (zeros(32, 2), ramp(32, 2)), block=32, grid=2, cluster=2)
@mo.kernel
def written_between_arrive_and_wait(out, x, bad: mo.Constexpr):
    tid, rank = mo.thread_idx().x, mo.cluster_rank()
    s = mo.shared_array(mo.float32, 32)
    s[tid] = 0.0
    if bad:
        mo.cluster_arrive()
        s[tid] = x[tid, rank]
        mo.cluster_wait()
    else:
        s[tid] = x[tid, rank]
        mo.cluster_arrive()
        mo.cluster_wait()
    out[tid, rank] = mo.map_shared_rank(s, rank ^ 1)[31 - tid]
    mo.cluster_sync()


@table.faulty("B1", lambda: (zeros(64, 64), ramp(64, 64), 64), grid=(2, 2), block=32)
@mo.kernel
def halo_of_a_stencil(out, x, n, bad: mo.Constexpr):
    tid = mo.thread_idx().x
    bx, by, _ = mo.block_idx()
    i = bx * 32 + tid
    for j in range(by * 32, by * 32 + 32):
        right = x[i + 1, j] if bad else (x[i + 1, j] if i + 1 < n else mo.float32(0))
        out[i, j] = right


@table.faulty("B1", lambda: (zeros(100), ramp(100)), grid=2, block=64)
@mo.kernel
def guard_with_or(out, x, bad: mo.Constexpr):
    i = mo.block_idx().x * 64 + mo.thread_idx().x
    if (i < 100 or i >= 120) if bad else (i < 100 and i >= 0):
        out[i] = x[i]


@table.faulty("G5 G3", lambda: (ramp(64),), grid=2, block=32)
@mo.kernel
def reverse_in_place_between_blocks(x, bad: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    i = b * 32 + tid
    if bad:
        v = x[63 - i]
        x[i] = v
    elif b == 0:
        a, c = x[i], x[63 - i]
        x[i] = c
        x[63 - i] = a


@table.faulty("C2 C1 C3", lambda: (zeros(64), ramp(64)), block=64)
@mo.kernel
def reverse_in_place_in_a_block(out, x, bad: mo.Constexpr):
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, 64)
    s[tid] = x[tid]
    mo.sync_threads()
    v = s[63 - tid]
    if not bad:
        mo.sync_threads()
    s[tid] = v
    mo.sync_threads()
    out[tid] = s[tid]


@table.faulty("D1 D2 D3", lambda: (zeros(64), ramp(64), 3), block=64)
@mo.kernel
def wait_in_one_arm_only(out, x, n, bad: mo.Constexpr):
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, 64)
    fetch(s, x, tid)
    mo.cp_async_commit()
    if n > 5 or not bad:
        mo.cp_async_wait(0)
    mo.sync_threads()
    out[tid] = s[63 - tid]


@table.faulty("G3 G5 G1 G2", lambda: (ints(1), ints(64), ints(64)), grid=2, block=32)
@mo.kernel
def list_pushed_relaxed(head, nxt, val, bad: mo.Constexpr):
    """A stack whose nodes are stored before the head is changed: with or without release, and one pops."""
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        if b == 0:
            val[1] = 42
            mo.atomic_exch(head, 0, 1, order="relaxed" if bad else "release")
        else:
            top = mo.atomic_exch(head, 0, 0, order="acquire")
            if top != 0:
                nxt[0] = val[top]


@table.faulty("F4 G4", lambda: (ints(4), ints(2)), grid=2, block=64)
@mo.kernel
def two_locks_in_two_orders(out, lock, bad: mo.Constexpr):
    """Deadly embrace: blocks take two locks, each in its own order."""
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        first = b if bad else b * 0
        second = 1 - first
        while mo.atomic_cas(lock, first, 0, 1, order="acquire") != 0:
            pass
        while mo.atomic_cas(lock, second, 0, 1, order="acquire") != 0:
            pass
        out[0] = out[0] + 1
        mo.atomic_exch(lock, second, 0, order="release")
        mo.atomic_exch(lock, first, 0, order="release")


@table.faulty("F4 C4 C3", lambda: (ints(32), ints(1)), block=32)
@mo.kernel
def lanes_spin_for_each_other(out, flag, bad: mo.Constexpr):
    """The lane that holds the lock waits for its siblings, which wait for the lock."""
    done = False
    while not done:
        if mo.atomic_cas(flag, 0, 0, 1, order="acquire") == 0:
            if bad:
                mo.sync_warp()
            out[0] = out[0] + 1
            mo.atomic_exch(flag, 0, 0, order="release")
            done = True


@table.faulty("C1 C2 C3", lambda: (ints(8), ramp(64)), block=64)
@mo.kernel
def histogram_without_atomics(out, x, bad: mo.Constexpr):
    tid, h = mo.thread_idx().x, mo.shared_array(mo.int32, 8)
    if tid < 8:
        h[tid] = 0
    mo.sync_threads()
    k = x[tid].to(mo.int32) % 8
    if bad:
        h[k] = h[k] + 1
    else:
        mo.atomic_add(h, k, 1, scope="cta")
    mo.sync_threads()
    if tid < 8:
        out[tid] = h[tid]


@table.faulty("C5 C4 F4", lambda: (zeros(128), ramp(128)), block=128)
@mo.kernel
def barrier_by_a_dynamic_number(out, x, bad: mo.Constexpr):
    """The number of a named barrier is computed; for one warp it is another one."""
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, 128)
    w = tid // 32
    s[tid] = x[tid]
    number = 1 + (w // 2 if not bad else (w + 1) // 2)
    mo.barrier_sync(number, 64)
    out[tid] = s[tid ^ 63]


@table.faulty("B4", lambda: (zeros(64), ramp(65), 1), block=16)
@mo.kernel
def async_copy_from_an_odd_place(out, x: mo.Static, start, bad: mo.Constexpr):
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, 64)
    atom = mo.CopyAtom(mo.CpAsync(mo.uint128, cache="global"), mo.float32)
    at = tid * 4 + (start if bad else 0 * start)
    mo.assume(at % 4 == 0, "copies begin at multiples of four")
    mo.copyto(atom, mo.domain_offset(tid * 4, s)[0:4], mo.domain_offset(at, x)[0:4])
    mo.cp_async_wait()
    mo.sync_threads()
    for k in mo.static_range(4):
        out[tid + 16 * k] = s[63 - tid - 16 * k]
