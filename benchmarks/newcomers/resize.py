"""Bilinear resizing of an image of bytes with channels last, rounded to the nearest."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(out, image, scale_y, scale_x):
    rows, columns, channels = mo.shape(out)
    j = mo.block_idx().x * 32 + mo.thread_idx().x
    i = mo.block_idx().y * 8 + mo.thread_idx().y
    if i < rows and j < columns:
        y, x = mo.max((i + 0.5) * scale_y - 0.5, 0.0), mo.max((j + 0.5) * scale_x - 0.5, 0.0)
        y0, x0 = int(y), int(x)
        fy, fx = y - y0, x - x0
        y1, x1 = mo.min(y0 + 1, mo.size(image, 0) - 1), mo.min(x0 + 1, mo.size(image, 1) - 1)
        for c in mo.range(channels):
            upper = image[y0, x0, c] * (1 - fx) + image[y0, x1, c] * fx
            lower = image[y1, x0, c] * (1 - fx) + image[y1, x1, c] * fx
            out[i, j, c] = mo.round(upper * (1 - fy) + lower * fy).to(mo.uint8)


def case(small):
    (rows, columns), (h, w) = ((20, 50), (13, 33)) if small else ((2160, 3840), (1080, 1920))
    image = np.random.default_rng(0).integers(0, 256, (h, w, 3)).astype(np.uint8)
    out = np.full((rows, columns, 3), 0xAA, np.uint8)

    def expected():
        (y0, y1, fy), (x0, x1, fx) = (
            (low, np.minimum(low + 1, n - 1), at - low) for at, low, n in (
                (at, at.astype(int), n) for at, n in (
                    (np.maximum((np.arange(m) + 0.5) * (n / m) - 0.5, 0), n) for m, n in ((rows, h), (columns, w)))))
        wide, fy, fx = image.astype(float), fy[:, None, None], fx[None, :, None]
        upper = wide[y0][:, x0] * (1 - fx) + wide[y0][:, x1] * fx
        lower = wide[y1][:, x0] * (1 - fx) + wide[y1][:, x1] * fx
        return (np.round(upper * (1 - fy) + lower * fy),)
    return {"arguments": (out, image, h / rows, w / columns), "outputs": (0,),
            "twin": (out, image, h / rows, w / columns, rows, columns, h, w, 3),
            "grid": (mo.ceil_div(columns, 32), mo.ceil_div(rows, 8)), "block": (32, 8), "expected": expected,
            "tolerance": 1e-3}                           # halves are rounded to either side
