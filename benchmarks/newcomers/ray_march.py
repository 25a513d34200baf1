"""Sphere tracing of a torus: each pixel walks until it is near or far, and is shaded by how far it came."""

import numpy as np

import moye as mo


@mo.jit
def scene(x, y, z):
    """The distance to a torus around the z axis."""
    ring = mo.sqrt(x * x + y * y) - 1.0
    return mo.sqrt(ring * ring + z * z) - 0.4


@mo.kernel
def kernel(out, steps):
    rows, columns = mo.shape(out)
    j, i = mo.block_idx().x * 32 + mo.thread_idx().x, mo.block_idx().y * 8 + mo.thread_idx().y
    if i >= rows or j >= columns:
        return
    u, v = (2.0 * j - columns) / rows, (2.0 * i - rows) / rows
    inverse = mo.rsqrt(u * u + v * v + 4.0)
    dx, dy, dz = u * inverse, v * inverse, 2.0 * inverse
    t = mo.float32(0)
    for _ in mo.range(steps):
        d = scene(t * dx, t * dy, t * dz - 3.0)
        if d < 0.001:
            break
        t += d
        if t > 10.0:
            break
    out[i, j] = t


def case(small):
    rows, columns, steps = (16, 40, 60) if small else (2048, 2048, 100)
    out = np.full((rows, columns), np.nan, np.float32)

    def expected():
        some = min(rows, 64)
        j, i = np.meshgrid(np.arange(columns), np.arange(some))
        u, v = (2.0 * j - columns) / rows, (2.0 * i - rows) / rows
        inverse = (u * u + v * v + 4) ** -0.5
        t, live = np.zeros(u.shape), np.ones(u.shape, bool)
        for _ in range(steps):
            x, y, z = t * u * inverse, t * v * inverse, 2 * t * inverse - 3
            d = np.hypot(np.hypot(x, y) - 1, z) - 0.4
            live &= d >= 0.001
            t = np.where(live, t + d, t)
            live &= t <= 10
        return (t,)
    return {"arguments": (out, steps), "outputs": (0,), "twin": (out, steps, rows, columns),
            "grid": (mo.ceil_div(columns, 32), mo.ceil_div(rows, 8)), "block": (32, 8), "expected": expected,
            "tolerance": 1e-3}
