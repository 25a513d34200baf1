"""A producer and a consumer warp hand one tile back and forth: the producer waits until it is free, the consumer until
it is full.  At the start nobody has said that it is free, so both wait for ever: class F4.

The report:

F4: block (0, 0, 0) is deadlocked: warp 0 waits at named barrier 1 (line 32) for 32 more arrivals, which only warp 1 could bring; warp 1 waits at named barrier 2 (line 38) for 32 more arrivals, which only warp 0 could bring
  examples/broken/f4_cyclic_wait.py:32 in hand_over_kernel
    mo.barrier_sync(FREE, 64)
    ^^^^^^^^^^^^^^^^^^^^^^^^^
  examples/broken/f4_cyclic_wait.py:38 in hand_over_kernel
    mo.barrier_sync(FULL, 64)
    ^^^^^^^^^^^^^^^^^^^^^^^^^
hint: one of them must arrive before it waits
"""

# ruff: noqa: E501

import numpy as np

import moye as mo

FREE, FULL = 1, 2                                       # named barriers of 64 threads


@mo.kernel
def hand_over_kernel(x, y):
    lane = mo.lane_idx()
    tile = mo.shared_array(mo.float32, 32)
    tiles = mo.size(x) // 32
    if mo.warp_idx() == 0:                              # the producer
        for k in range(tiles):
            mo.barrier_sync(FREE, 64)
            tile[lane] = x[32 * k + lane]
            mo.barrier_arrive(FULL, 64)
    else:                                               # the consumer
        total = 0.0
        for k in range(tiles):
            mo.barrier_sync(FULL, 64)
            total += tile[31 - lane]
            if k + 1 < tiles:
                mo.barrier_arrive(FREE, 64)
        y[lane] = total


def hand_over(x, y, kernel=hand_over_kernel):
    return kernel[1, 64](x, y)


def main():
    x, y = np.arange(128, dtype=np.float32), np.zeros(32, np.float32)
    report = hand_over(x, y, mo.check(hand_over_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
