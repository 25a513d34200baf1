"""Correct kernels that need every kind of order: fences, tickets, turns, named barriers, warp syncs, copy groups.

The examples and ``moye.kernels`` have block barriers and pipelines; these have the rest, for the mutator to break.
"""

import moye as mo

THREADS, STAGES, ITEMS = 128, 4, 8


@mo.kernel
def ticket_kernel(x, partial, counter, out):
    """out[i] = sum over s of x[i, s]: a block per (tile, s) leaves its share; the last one of a tile adds them up."""
    bx, s, _ = mo.block_idx()
    _, splits, _ = mo.grid_dim()
    tid = mo.thread_idx().x
    i = bx * THREADS + tid
    last = mo.shared_array(mo.int32, 1)
    partial[i, s] = x[i, s] * 2
    mo.sync_threads()
    if tid == 0:
        mo.fence()
        last[0] = mo.atomic_add(counter, bx, 1)
        mo.fence()
    mo.sync_threads()
    if last[0] == splits - 1:
        total = 0.0
        for k in range(splits):
            total += partial[i, k]
        out[i] = total


@mo.kernel
def turns_kernel(x, turn, out):
    """out[i] = sum over s of x[i, s]: the blocks of a tile add to ``out`` one after the other, in order."""
    bx, s, _ = mo.block_idx()
    tid = mo.thread_idx().x
    i = bx * THREADS + tid
    if tid == 0:
        while mo.load(turn, bx, order="acquire") != s:
            pass
    mo.sync_threads()
    if s == 0:
        out[i] = x[i, s]
    else:
        out[i] = out[i] + x[i, s]
    mo.sync_threads()
    if tid == 0:
        mo.store(turn, bx, s + 1, order="release")


@mo.kernel
def roles_kernel(x, out, steps):
    """out = 2 * x turned around in tiles: two warps load tiles into two stages, two others reverse and store them."""
    bx, _, _ = mo.block_idx()
    tid = mo.thread_idx().x
    half = THREADS // 2
    stages = mo.shared_array(mo.float32, mo.make_layout((half, 2)))
    base = bx * steps * half
    if tid < half:
        for step in range(steps):
            if step >= 2:
                mo.barrier_sync(3 + step % 2, THREADS)          # the stage is free
            stages[tid, step % 2] = x[base + step * half + tid]
            mo.barrier_arrive(1 + step % 2, THREADS)            # the stage is full
    else:
        for step in range(steps):
            mo.barrier_sync(1 + step % 2, THREADS)
            out[base + step * half + tid - half] = stages[THREADS - 1 - tid, step % 2] * 2
            if step < steps - 2:
                mo.barrier_arrive(3 + step % 2, THREADS)


@mo.kernel
def warp_kernel(x, out, steps):
    """Each warp turns tile after tile around through shared memory of its own."""
    bx, _, _ = mo.block_idx()
    tid = mo.thread_idx().x
    lane, warp = tid % 32, tid // 32
    own = mo.shared_array(mo.float32, mo.make_layout((32, THREADS // 32)))
    base = (bx * (THREADS // 32) + warp) * steps * 32
    for step in range(steps):
        own[lane, warp] = x[base + step * 32 + lane]
        mo.sync_warp()
        out[base + step * 32 + lane] = own[31 - lane, warp]
        mo.sync_warp()


@mo.kernel
def stages_kernel(x, out, copy, tiles):
    """out = each tile of x turned around: cp.async into a ring of stages, waited for group by group."""
    bx, _, _ = mo.block_idx()
    tid = mo.thread_idx().x
    smem = mo.shared_array(mo.float32, mo.make_layout((THREADS * 4, STAGES)))
    gX = mo.tile(x, (THREADS * 4, 1), (None, bx))               # (THREADS * 4, 1, tile)
    thr_copy = copy.get_slice(tid)
    tXgX = thr_copy.partition_S(gX[:, 0, :])                    # (CPY, CPY_M, tile)
    tXsX = thr_copy.partition_D(smem)                           # (CPY, CPY_M, STAGES)
    for tile in mo.static_range(STAGES - 1):
        if tile < tiles:
            mo.copyto(copy, tXsX[:, :, tile], tXgX[:, :, tile])
        mo.cp_async_commit()
    read, write = 0, STAGES - 1
    for tile in range(tiles):
        mo.cp_async_wait(STAGES - 2)
        mo.sync_threads()
        if tile + STAGES - 1 < tiles:
            mo.copyto(copy, tXsX[:, :, write], tXgX[:, :, tile + STAGES - 1])
        mo.cp_async_commit()
        for j in mo.static_range(4):
            i = j * THREADS + tid
            out[tile * THREADS * 4 + i, bx] = smem[THREADS * 4 - 1 - i, read]
        read = (read + 1) % STAGES
        write = (write + 1) % STAGES


def ticket(x, partial, counter, out):
    ticket_kernel[(x.shape[0] // THREADS, x.shape[1]), THREADS](x, partial, counter, out)


def turns(x, turn, out):
    turns_kernel[(x.shape[0] // THREADS, x.shape[1]), THREADS](x, turn, out)


def roles(x, out):
    roles_kernel[x.shape[0] // (ITEMS * THREADS // 2), THREADS](x, out, ITEMS)


def warp(x, out):
    warp_kernel[x.shape[0] // (ITEMS * THREADS), THREADS](x, out, ITEMS)


def stages(x, out):
    copy = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.uint128, cache="global"), mo.float32),
                              mo.make_layout(THREADS), mo.make_layout(4))
    stages_kernel[x.shape[1], THREADS](x, out, copy, x.shape[0] // (4 * THREADS))
