"""Shared memory of the blocks of a cluster, for ``CASES``: copies through every pair of memories, elements, sums.

In: nothing.  Out: cases in ``CASES``, whose sizes count clusters.
"""

from __future__ import annotations

import numpy as np

import moye as mo
from moye import dtypes as dt
from ops_kernels import TOLERANCE, add, normal, poison, values

THREADS = 64
WIDTHS = {1: dt.uint8, 2: dt.uint16, 4: dt.uint32, 8: dt.uint64, 16: dt.uint128}
DTYPES = (dt.uint8, dt.int16, dt.float16, dt.float8_e4m3fn, dt.bfloat16, dt.int32, dt.float32, dt.int64, dt.float64)


# --- copies ----------------------------------------------------------------------------------------------------------


@mo.kernel
def peer_copy_kernel(by_regs, by_smem, by_peer, direct, src, atom, width: mo.Constexpr):
    """From and to the next block of the cluster, ``width`` elements a thread, through every pair of memories."""
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    after = (mo.cluster_rank() + 1) % mo.cluster_dim().x
    gR, gS, gP, gD, gX = (mo.tile(t, (width,), (bx * THREADS + tid,)) for t in (by_regs, by_smem, by_peer, direct, src))
    buffers = [mo.shared_array(src.dtype, THREADS * width) for _ in range(5)]
    mine = [mo.tile(s, (width,), (tid,)) for s in buffers]
    there = [mo.tile(mo.map_shared_rank(s, after), (width,), (tid,)) for s in buffers[:4]]
    regs = mo.make_fragment_like(gX)
    mo.cluster_sync()
    mo.copyto(atom, there[0], gX)                       # gmem -> dsmem
    mo.cluster_sync()
    mo.copyto(atom, regs, there[0])                     # dsmem -> rmem
    mo.copyto(atom, gR, regs)
    mo.copyto(atom, there[1], regs)                     # rmem -> dsmem
    mo.copyto(atom, there[2], mine[0])                  # smem -> dsmem
    mo.copyto(atom, mine[4], there[1])                  # dsmem -> smem
    mo.copyto(atom, gS, mine[4])
    mo.copyto(atom, there[3], there[1])                 # dsmem -> dsmem
    mo.copyto(atom, gD, there[2])                       # dsmem -> gmem
    mo.cluster_sync()
    mo.copyto(atom, gP, mine[3])


def _copied(args, cluster):
    """What comes back is a block's own; what was passed on is of the block before it."""
    src = args[4]
    before = np.roll(src.reshape(-1, cluster, THREADS * args[6]), 1, axis=1).reshape(-1)
    return {0: src, 1: src, 2: before, 3: before}


for _bytes, _unit in WIDTHS.items():
    for _d in DTYPES:
        _w = 8 * _bytes // _d.bits
        if _w:
            _c = 2 if _w % 4 else 4
            add(f"peer-copy-{_d}-{_bytes}", peer_copy_kernel, lambda rng, n, d=_d, w=_w, unit=_unit, c=_c: [
                *(poison(n * c * THREADS * w, d) for _ in range(4)), values(rng, n * c * THREADS * w, d),
                mo.UniversalCopy(unit), w], lambda args, c=_c: _copied(args, c), sizes=(2,),
                grid=lambda n, c=_c: n * c, cluster=(_c, 1, 1))


# --- elements --------------------------------------------------------------------------------------------------------


@mo.kernel
def peer_elements_kernel(out, src, layout):
    """Block r reads an element of block r + k and writes it to block k, for each k; the ranks are dynamic."""
    tid, bx, rank = mo.thread_idx().x, mo.block_idx().x, mo.cluster_rank()
    blocks = mo.size(out, 0)
    s, back = mo.shared_array(src.dtype, layout), mo.shared_array(src.dtype, (THREADS, 4))
    s[tid % 8, tid // 8] = src[tid, bx]
    mo.cluster_sync()
    for k in range(blocks):
        peer = mo.map_shared_rank(s, (rank + k) % blocks)
        mo.map_shared_rank(back, k)[tid, rank] = peer[7 - tid % 8, tid // 8]
    mo.cluster_sync()
    for k in mo.static_range(mo.cluster_dim().x):
        out[k, tid, bx] = back[tid, k]


def _elements(args):
    out, src, _ = args
    cluster, threads, blocks = out.shape
    mirrored = src.reshape(8, 8, -1, order="F")[::-1].reshape(src.shape, order="F")
    wanted = np.empty_like(out)
    for k, t, b in np.ndindex(cluster, threads, blocks):
        wanted[k, t, b] = mirrored[t, b // cluster * cluster + (k + b % cluster) % cluster]
    return {0: wanted}


for _d in DTYPES:
    for _name, _layout in (("plain", mo.make_layout((8, 8), (1, 8))),
                           ("swizzled", mo.ComposedLayout(mo.Swizzle(2, 0, 3), 0, mo.make_layout((8, 8))))):
        _c = 4 if _name == "plain" else 2
        add(f"peer-elements-{_name}-{_d}", peer_elements_kernel, lambda rng, n, d=_d, layout=_layout, c=_c: [
            np.asfortranarray(poison((c, THREADS, n * c), d)),
            np.asfortranarray(values(rng, (THREADS, n * c), d)), layout], _elements, sizes=(2,),
            grid=lambda n, c=_c: n * c, cluster=(_c, 1, 1))


# --- sums ------------------------------------------------------------------------------------------------------------


@mo.kernel
def peer_sum_kernel(out, src, regs: mo.Constexpr):
    """Each thread's registers summed over the cluster, each block a part of them, float4 by float4."""
    tid, bx, rank = mo.thread_idx().x, mo.block_idx().x, mo.cluster_rank()
    x, y, z = mo.cluster_dim()
    blocks, groups = x * y * z, regs // 4
    share = groups // blocks
    s = mo.shared_array(mo.float32, mo.make_layout((4, THREADS, groups)))
    acc = mo.fragment((4, groups), mo.float32)
    mo.copyto(acc, mo.tile(src, (4, groups, 1, 1), (0, 0, tid, bx))[:, :, 0, 0])
    mo.copyto(s[:, tid, :], acc)
    mo.cluster_sync()
    total, part = mo.fragment((4, share), mo.float32), mo.fragment((4, share), mo.float32)
    total.fill(0)
    for p in mo.static_range(blocks):
        peer = mo.map_shared_rank(s, p)
        for q in mo.static_range(share):
            mo.copyto(part[:, q], peer[:, tid, rank * share + q])
        total[...] = total + part
    mo.copyto(mo.tile(out, (4, share, 1, 1), (0, 0, tid, bx))[:, :, 0, 0], total)
    mo.cluster_sync()


def _summed(args, cluster):
    out, src, regs = args
    share = regs // 4 // cluster
    sums = src.reshape(4, regs // 4, THREADS, cluster, -1, order="F").astype(np.float64).sum(axis=3)
    parts = sums.reshape(4, share, cluster, THREADS, -1, order="F").transpose(0, 1, 3, 2, 4)
    return {0: parts.reshape(out.shape, order="F").astype(np.float32)}


for _c in (1, 2, 4, 8):
    add(f"peer-sum-{_c}", peer_sum_kernel, lambda rng, n, c=_c: [
        np.asfortranarray(poison((4, 8 // c, THREADS, n * c), dt.float32)),
        np.asfortranarray(normal(rng, (4, 8, THREADS, n * c))), 32], lambda args, c=_c: _summed(args, c),
        tolerance=TOLERANCE["float32"], sizes=(1, 3), grid=lambda n, c=_c: n * c, cluster=(_c, 1, 1))


# --- a ring ----------------------------------------------------------------------------------------------------------


@mo.kernel
def peer_ring_kernel(out, src, rounds):
    """Each round every block hands what it holds to the next of its cluster, two stages in turn, and adds one."""
    tid, bx = mo.thread_idx().x, mo.block_idx().x
    x, y, z = mo.cluster_dim()
    stages = mo.shared_array(src.dtype, (THREADS, 2))
    there = mo.map_shared_rank(stages, (mo.cluster_rank() + 1) % (x * y * z))
    value = src[tid, bx]
    mo.cluster_sync()
    for k in range(rounds):
        there[tid, k % 2] = value
        mo.cluster_sync()
        value = stages[THREADS - 1 - tid, k % 2] + 1
    out[tid, bx] = value


def _handed_on(args, cluster):
    out, src, rounds = args
    held = src.reshape(THREADS, -1, cluster)
    for _ in range(rounds):
        held = np.roll(held, 1, axis=2)[::-1] + 1
    return {0: held.reshape(out.shape)}


for _c in (2, 4, 8):
    add(f"peer-ring-{_c}", peer_ring_kernel, lambda rng, n, c=_c: [
        poison((THREADS, 2 * c), dt.float64), normal(rng, (THREADS, 2 * c), dt.float64), n],
        lambda args, c=_c: _handed_on(args, c), tolerance=TOLERANCE["float64"], sizes=(1, 5),
        grid=lambda n, c=_c: 2 * c, cluster=(_c, 1, 1))


# --- mbarriers of other blocks ---------------------------------------------------------------------------------------


@mo.kernel
def peer_handover_kernel(out, src, rounds):
    """The same ring by mbarriers: a block writes when the next one has read, and reads when the one before has written.

    No barrier of the cluster lies between the first and the last.
    """
    tid, bx, rank = mo.thread_idx().x, mo.block_idx().x, mo.cluster_rank()
    blocks = mo.cluster_dim().x
    after, before = (rank + 1) % blocks, (rank + blocks - 1) % blocks
    stages = mo.shared_array(src.dtype, (THREADS, 2))
    full, empty = mo.mbarrier_array(2), mo.mbarrier_array(2)
    if tid < 2:
        mo.mbarrier_init(full, tid, THREADS)
        mo.mbarrier_init(empty, tid, THREADS)
        mo.fence_mbarrier_init()
    mo.cluster_sync()
    there = mo.map_shared_rank(stages, after)
    value = src[tid, bx]
    for k in range(rounds):
        stage, phase = k % 2, k // 2 % 2
        mo.mbarrier_wait(empty, stage, phase ^ 1)
        there[tid, stage] = value
        mo.mbarrier_arrive(full, stage, cta=after)
        mo.mbarrier_wait(full, stage, phase)
        value = stages[THREADS - 1 - tid, stage] + 1
        mo.mbarrier_arrive(empty, stage, cta=before)
    out[tid, bx] = value
    mo.cluster_sync()


for _c in (2, 4):
    add(f"peer-handover-{_c}", peer_handover_kernel, lambda rng, n, c=_c: [
        poison((THREADS, 2 * c), dt.float64), normal(rng, (THREADS, 2 * c), dt.float64), n],
        lambda args, c=_c: _handed_on(args, c), tolerance=TOLERANCE["float64"], sizes=(1, 7),
        grid=lambda n, c=_c: 2 * c, cluster=(_c, 1, 1))
