"""Accelerations of n bodies by all others, 256 bodies at a time in shared memory."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(out, bodies, softening):
    tid = mo.thread_idx().x
    i = mo.block_idx().x * 256 + tid
    n = mo.size(bodies, 0)
    tile = mo.shared_array(mo.float32, mo.make_layout((256, 4), (4, 1)))
    me = mo.fragment((4,), mo.float32)
    mo.copyto(me, bodies[i, None])
    ax, ay, az = mo.float32(0), mo.float32(0), mo.float32(0)
    other = mo.fragment((4,), mo.float32)
    for first in mo.range(0, n, 256):
        mo.copyto(tile[tid, None], bodies[first + tid, None])
        mo.sync_threads()
        for j in mo.range(256):
            mo.copyto(other, tile[j, None])
            dx, dy, dz = other[0] - me[0], other[1] - me[1], other[2] - me[2]
            inverse = mo.rsqrt(dx * dx + dy * dy + dz * dz + softening)
            force = other[3] * inverse * inverse * inverse
            ax += force * dx
            ay += force * dy
            az += force * dz
        mo.sync_threads()
    out[i, 0], out[i, 1], out[i, 2] = ax, ay, az


def case(small):
    n = 512 if small else 1 << 15
    rng = np.random.default_rng(0)
    bodies = rng.standard_normal((n, 4), np.float32)
    bodies[:, 3] = abs(bodies[:, 3])
    out = np.full((n, 3), np.nan, np.float32)
    some = 256                                          # that many are compared

    def expected():
        d = bodies[None, :, :3].astype(float) - bodies[:some, None, :3]
        force = bodies[:, 3] * ((d ** 2).sum(2) + 0.01) ** -1.5
        return ((force[..., None] * d).sum(1),)
    return {"arguments": (out, bodies, 0.01), "outputs": (0,), "twin": (out, bodies, 0.01, n), "grid": n // 256,
            "block": 256, "expected": expected, "tolerance": 1e-4}
