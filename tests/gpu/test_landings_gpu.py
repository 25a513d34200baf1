"""Loads from shared memory that an arrival follows, while other warps keep the unit of loads and stores busy (GPU)."""

import numpy as np
import pytest
import torch

import moye as mo

WIDTH, STAGES, READERS, WRITERS = 1024, 2, 4, 8
NOISE = 4097                                            # elements from a lane's store to its neighbour's


@mo.kernel
def stream(out, noise, x, use: mo.Constexpr):
    """Warp 0 fills stages, warps 1 to 4 read and hand back, the others store to 32 lines of memory an instruction."""
    mo.assume(mo.size(x, 0) % WIDTH == 0)
    stages = mo.shared_array(mo.float32, (WIDTH, STAGES))
    pipe = mo.PipelineTma(STAGES, 4 * WIDTH, consumers=READERS)
    pipe.init()
    mo.sync_threads()
    turns, warp, lane = mo.size(x) // WIDTH, mo.warp_idx(), mo.lane_idx()
    if warp == 0:
        if lane == 0:
            state = pipe.producer_start()
            for i in range(turns):
                pipe.producer_acquire(state)
                mo.copyto(mo.BulkCopy(), stages[:, state.stage], mo.tile(x, (WIDTH,), (i,)),
                          barrier=pipe.barrier(state))
                state = state.next()
    elif warp <= READERS:
        state, mine = pipe.consumer_start(), mo.thread_idx().x - 32
        for i in range(turns):
            pipe.consumer_wait(state)
            use(pipe, state, stages[:, state.stage], out, i * 128 + mine, mine)
            state = state.next()
    else:
        for i in range(turns * 8):
            noise[(warp - READERS - 1) * 32 + lane, i % 64] = mo.float32(i)


@mo.jit
def release(pipe, state):
    mo.sync_warp()
    if mo.lane_idx() == 0:
        pipe.consumer_release(state)


@mo.jit
def scattered(pipe, state, stage, out, at, mine):
    """Eight loads that each take the banks of 32 lanes one by one."""
    held = [stage[(mine * 32 + j * 8) % WIDTH] for j in range(8)]
    release(pipe, state)
    total = held[0]
    for x in held[1:]:
        total += x
    out[at] = total


@mo.jit
def vectors(pipe, state, stage, out, at, mine):
    held = mo.fragment((8,), mo.float32)
    mo.copyto(held, mo.tile(stage, (8,), (mine,)))
    release(pipe, state)
    out[at] = held.reduce("add")


@pytest.mark.parametrize("use", [scattered, vectors], ids=["scattered", "vectors"])
def test_what_was_loaded_is_of_its_own_turn(use):
    rng, turns = np.random.default_rng(0), 2000
    x = torch.from_numpy(rng.integers(-512, 512, turns * WIDTH).astype(np.float32)).cuda()
    noise = torch.empty(WRITERS * 32, NOISE, device="cuda")[:, :64]
    mine = np.arange(128)
    places = ((mine[:, None] * 32 + np.arange(8) * 8) % WIDTH) if use is scattered else mine[:, None] * 8 + np.arange(8)
    expected = x.view(turns, WIDTH).cpu().numpy()[:, places].sum(2).ravel()
    for _ in range(5):
        out = torch.full((turns * 128,), torch.nan, device="cuda")
        stream[1, 32 * (1 + READERS + WRITERS)](out, noise, x, use)
        assert np.array_equal(out.cpu().numpy(), expected)
