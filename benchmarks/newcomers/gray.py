"""Grey values of an image of bytes with three channels last."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(out, image):
    rows, columns = mo.shape(out)
    i, j = mo.block_idx().y * 8 + mo.thread_idx().y, mo.block_idx().x * 32 + mo.thread_idx().x
    if i < rows and j < columns:
        value = 0.299 * image[i, j, 0] + 0.587 * image[i, j, 1] + 0.114 * image[i, j, 2]
        out[i, j] = int(value + 0.5).to(mo.uint8)


def case(small):
    rows, columns = (20, 50) if small else (4320, 7680)
    image = np.random.default_rng(0).integers(0, 256, (rows, columns, 3)).astype(np.uint8)
    out = np.full((rows, columns), 0xAA, np.uint8)
    return {"arguments": (out, image), "outputs": (0,), "twin": (out, image, rows, columns),
            "grid": (mo.ceil_div(columns, 32), mo.ceil_div(rows, 8)), "block": (32, 8),
            "expected": lambda: (np.floor(image @ np.array([0.299, 0.587, 0.114]) + 0.5),), "tolerance": 1e-3}
