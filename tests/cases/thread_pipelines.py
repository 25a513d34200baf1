"""Kernels with pipelines that threads fill, turns in order, and tiles dealt out while the kernel runs."""

from __future__ import annotations

import numpy as np

import moye as mo

THREADS, STAGES = 128, 3


@mo.kernel
def streamed(out, x: mo.Static, n, fault: mo.Constexpr):
    """One warp copies columns by cp.async, four others add them up."""
    tid = mo.thread_idx().x
    ring = mo.shared_array(mo.float32, (THREADS, STAGES))
    pipe = mo.PipelineCpAsync(STAGES, producers=32, consumers=THREADS)
    pipe.init()
    mo.sync_threads()
    if tid >= THREADS:
        lane = tid - THREADS
        state = pipe.producer_start()
        for k in range(n):
            if fault != "no acquire":
                pipe.producer_acquire(state)
            mo.copyto(mo.CpAsync(mo.uint128), mo.tile(ring[:, state.stage], (4,), (lane,)),
                      mo.tile(x[:, k], (4,), (lane,)))
            pipe.producer_commit(state)
            if fault == "own copies":
                out[tid] = ring[4 * lane, state.stage]
            if fault == "a barrier for the wait":
                mo.barrier_sync(1, THREADS + 32)
            state = state.next()
    else:
        state, total = pipe.consumer_start(), mo.float32(0)
        for k in range(n):
            if fault == "a barrier for the wait":
                mo.barrier_sync(1, THREADS + 32)
            elif fault != "no wait":
                pipe.consumer_wait(state)
            total += ring[(tid + 1) % THREADS, state.stage] * (k + 1)
            if fault != "no release":
                pipe.consumer_release(state)
            state = state.next()
        out[tid] = total


def streamed_arguments(columns=7):
    x = np.random.default_rng(columns).random((columns, THREADS), np.float32).T
    return np.zeros(THREADS + 32, np.float32), x, columns


def streamed_result(x):
    expected = np.zeros(THREADS + 32, np.float32)
    expected[:THREADS] = np.roll(x @ np.arange(1, x.shape[1] + 1, dtype=np.float32), -1)
    return expected


@mo.kernel
def handed_over(out, x, n, tries: mo.Constexpr):
    """One warp group writes squares to shared memory; another asks first, and waits where it has to."""
    tid = mo.thread_idx().x
    ring = mo.shared_array(mo.int32, (THREADS, STAGES))
    pipe = mo.PipelineAsync(STAGES, producers=THREADS, consumers=THREADS)
    pipe.init()
    mo.sync_threads()
    lane = tid % THREADS
    if tid < THREADS:
        state = pipe.producer_start()
        for k in range(n):
            pipe.producer_acquire(state)
            ring[lane, state.stage] = x[lane] * (k + 1)
            pipe.producer_commit(state)
            state = state.next()
    else:
        state, total = pipe.consumer_start(), mo.int32(0)
        for _ in range(n):
            if tries == "polls":
                while not pipe.consumer_try_wait(state):
                    mo.nanosleep(20)
            elif tries == "once":
                if not pipe.consumer_try_wait(state):
                    pipe.consumer_wait(state)
            elif tries == "never mind":
                pipe.consumer_try_wait(state)
            else:
                pipe.consumer_wait(state)
            total += ring[THREADS - 1 - lane, state.stage]
            pipe.consumer_release(state)
            state = state.next()
        out[lane] = total


@mo.kernel
def turns(out, n, groups: mo.Constexpr, ordered: mo.Constexpr):
    """Each group appends its number to a list, in turns; one thread of each arrives."""
    tid = mo.thread_idx().x
    held = mo.shared_array(mo.int32, 1)
    order = mo.PipelineOrder(groups, threads=1)
    order.init()
    if tid == 0:
        held[0] = 0
    mo.sync_threads()
    group = tid // 32
    state = order.start(group)
    for _ in range(n):
        if tid % 32 == 0:
            if ordered:
                order.wait(state)
            at = held[0]
            out[at] = group
            held[0] = at + 1
            if ordered:
                order.arrive(state)
        state = state.next()


@mo.kernel
def dealt(out, counter, rows, columns, fault: mo.Constexpr):
    """Each tile is marked by one more than its number; a thread of a fifth warp fetches the numbers."""
    tid = mo.thread_idx().x
    sched = mo.DynamicTileScheduler(counter, rows, columns, group=3, consumers=THREADS)
    sched.init()
    mo.sync_threads()
    if tid == THREADS:
        state, tile = sched.producer_start(), mo.int32(0)
        while tile < sched.tiles:
            tile = sched.fetch(state)
            state = state.next()
    elif tid < THREADS:
        state = sched.consumer_start()
        tile = sched.take(state)
        while tile < sched.tiles:
            m, n, _ = sched.coordinates(tile)
            out[m, n, tid] = tile + 1
            state = state.next()
            if fault == "reads the slot" and tid == 0:  # of a stage that has been left
                out[m, n, 0] = sched.slots[(state.stage + 1) % 2]
            tile = sched.take(state)


def dealt_result(rows, columns):
    """One more than the number of each tile."""
    sched, found = mo.PersistentTileScheduler(rows, columns, group=3), np.zeros((rows, columns), np.int32)
    for tile in range(rows * columns):
        m, n, _ = sched.coordinates(tile)
        found[m, n] = tile + 1
    return np.repeat(found[:, :, None], THREADS, axis=2)
