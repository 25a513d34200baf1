"""A step of Floyd-Warshall in place: no path from i to j is longer than the one by way of k."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(distance, k):
    n = mo.size(distance, 0)
    j = mo.block_idx().x * 256 + mo.thread_idx().x
    if j < n and j != k:
        first = mo.block_idx().y * 8
        onward = distance[k, j]
        for i in mo.range(first, mo.min(first + 8, n)):
            if i != k:
                distance[i, j] = mo.min(distance[i, j], distance[i, k] + onward)


def case(small):
    n, k = (300, 7) if small else (8000, 77)
    distance = abs(np.random.default_rng(0).standard_normal((n, n), np.float32))

    def expected():
        wide = distance.astype(float)
        made = np.minimum(wide, wide[:, k:k + 1] + wide[k])
        made[k], made[:, k] = wide[k], wide[:, k]
        return (made,)
    return {"arguments": (distance, k), "outputs": (0,), "twin": (distance, k, n),
            "grid": (mo.ceil_div(n, 256), mo.ceil_div(n, 8)), "block": 256, "expected": expected}
