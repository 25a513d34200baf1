"""The nearest of k centres for each point of d dimensions; the centres are staged in shared memory."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(nearest, points, centres, k, d: mo.Constexpr):
    mo.assume(mo.size(points, 1) == d)
    tid = mo.thread_idx().x
    i = mo.block_idx().x * 256 + tid
    staged = mo.shared_array(mo.float32, mo.make_layout((64, d), (d, 1)))
    for t in mo.range(tid, k * d, 256):
        staged[t // d, t % d] = centres[t // d, t % d]
    mo.sync_threads()
    if i < mo.size(points, 0):
        point = mo.fragment((d,), mo.float32)
        mo.copyto(point, points[i, None])
        best, where = mo.float32(float("inf")), 0
        for c in mo.range(k):
            distance = mo.float32(0)
            for j in mo.static_range(d):
                difference = point[j] - staged[c, j]
                distance += difference * difference
            if distance < best:
                best, where = distance, c
        nearest[i] = where


def case(small):
    n, k, d = (600, 17, 16) if small else (1 << 21, 64, 16)
    rng = np.random.default_rng(0)
    points, centres = rng.standard_normal((n, d), np.float32), rng.standard_normal((k, d), np.float32)
    nearest = np.full(n, -1, np.int32)

    def expected():
        some = points[:4096].astype(float)
        return (((some[:, None] - centres) ** 2).sum(2).argmin(1),)
    return {"arguments": (nearest, points, centres, k, d), "outputs": (0,), "twin": (nearest, points, centres, k, n),
            "grid": mo.ceil_div(n, 256), "block": 256, "expected": expected}
