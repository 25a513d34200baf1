"""A 3 x 3 convolution of each channel with a filter of its own (images, channels, rows, columns), zeros around."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(out, x, weights):
    images, channels, rows, columns = mo.shape(x)
    i = mo.block_idx().x * 256 + mo.thread_idx().x
    if i < images * channels * rows * columns:
        column, row = i % columns, i // columns % rows
        channel, image = i // (columns * rows) % channels, i // (columns * rows * channels)
        total = mo.float32(0)
        for r in mo.static_range(3):
            for s in mo.static_range(3):
                y, z = row + r - 1, column + s - 1
                if y >= 0 and y < rows and z >= 0 and z < columns:
                    total += x[image, channel, y, z] * weights[channel, r, s]
        out[image, channel, row, column] = total


def case(small):
    shape = (2, 3, 10, 17) if small else (16, 64, 112, 112)
    rng = np.random.default_rng(0)
    x, weights = rng.standard_normal(shape, np.float32), rng.standard_normal((shape[1], 3, 3), np.float32)
    out = np.full_like(x, np.nan)

    def expected():
        padded = np.pad(x.astype(float), ((0, 0), (0, 0), (1, 1), (1, 1)))
        return (sum(padded[:, :, r:r + shape[2], s:s + shape[3]] * weights[:, r, s].reshape(1, -1, 1, 1)
                    for r in range(3) for s in range(3)),)
    return {"arguments": (out, x, weights), "outputs": (0,), "twin": (out, x, weights, *shape),
            "grid": mo.ceil_div(x.size, 256), "block": 256, "expected": expected}
