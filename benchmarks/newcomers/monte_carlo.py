"""Points in the unit circle, drawn by a xorshift generator in each thread; a ballot and an atomic for each warp."""

import numpy as np

import moye as mo


@mo.jit
def step(state):
    state ^= state << 13
    state ^= state >> 17
    return state ^ (state << 5)


@mo.kernel
def kernel(inside, draws, seed: mo.uint32):
    i = mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x
    state = (i.to(mo.uint32) + 1) * mo.uint32(2654435761) ^ seed
    found = 0
    for _ in mo.range(draws):
        state = step(state)
        x = (state >> 8).to(mo.float32) * (1.0 / (1 << 24))
        state = step(state)
        y = (state >> 8).to(mo.float32) * (1.0 / (1 << 24))
        if x * x + y * y < 1.0:
            found += 1
    found = mo.warp_reduce(found, "add")
    if mo.lane_idx() == 0:
        mo.atomic_add(inside, 0, found)


def case(small):
    threads, draws = (512, 20) if small else (132 * 2048, 1000)
    inside = np.zeros(1, np.int32)

    def expected():
        return ([threads * draws * np.pi / 4],)
    return {"arguments": (inside, draws, 12345), "outputs": (0,), "twin": (inside, draws, 12345),
            "grid": threads // 256, "block": 256, "expected": expected, "tolerance": 2e-2}
