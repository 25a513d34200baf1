"""The Mandelbrot set: a pixel a thread, a loop that ends when the point has left."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(out, left, top, step, limit):
    rows, columns = mo.shape(out)
    j = mo.block_idx().x * 32 + mo.thread_idx().x
    i = mo.block_idx().y * 8 + mo.thread_idx().y
    if i < rows and j < columns:
        cx, cy = left + j * step, top + i * step
        x, y, n = mo.float32(0), mo.float32(0), 0
        while x * x + y * y <= 4.0 and n < limit:
            x, y = x * x - y * y + cx, 2.0 * x * y + cy
            n += 1
        out[i, j] = n


def case(small):
    rows, columns, limit = (16, 40, 50) if small else (1024, 2048, 1000)
    out = np.full((rows, columns), -1, np.int32)
    left, top, step = -2.0, -0.3, 3.0 / columns
    some = min(rows, 64)                                # rows that are compared

    def expected():
        c = (left + np.arange(columns) * step) + 1j * (top + np.arange(some) * step)[:, None]
        z, n, live = np.zeros_like(c), np.zeros(c.shape, int), np.arange(c.size)
        flat, here, count = c.ravel(), z.ravel(), n.ravel()
        for _ in range(limit):
            live = live[abs(here[live]) <= 2]
            here[live] = here[live] ** 2 + flat[live]
            count[live] += 1
        return (n,)
    return {"arguments": (out, left, top, step, limit), "outputs": (0,),
            "twin": (out, left, top, step, limit, rows, columns),
            "grid": (mo.ceil_div(columns, 32), mo.ceil_div(rows, 8)), "block": (32, 8), "expected": expected,
            "tolerance": 0.1}                            # float32 leaves a few of the points at the edge early or late
