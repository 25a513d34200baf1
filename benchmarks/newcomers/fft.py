"""The FFT of each 1024 complex numbers in shared memory, radix 2: real and imaginary parts in arrays of their own."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(out_re, out_im, in_re, in_im):
    tid, start = mo.thread_idx().x, mo.block_idx().x * 1024
    re, im = mo.shared_array(mo.float32, 1024), mo.shared_array(mo.float32, 1024)
    for k in mo.static_range(2):
        i = tid + 512 * k
        to = mo.brev(i.to(mo.uint32)) >> 22
        re[to], im[to] = in_re[start + i], in_im[start + i]
    half = 1
    while half < 1024:
        mo.sync_threads()
        at = tid % half
        i = 2 * tid - at
        j = i + half
        angle = at * (-np.pi) / half
        c, s = mo.cos(angle, fast=True), mo.sin(angle, fast=True)
        u, v = re[j] * c - im[j] * s, re[j] * s + im[j] * c
        a, b = re[i], im[i]
        re[i], im[i], re[j], im[j] = a + u, b + v, a - u, b - v
        half *= 2
    mo.sync_threads()
    for k in mo.static_range(2):
        i = tid + 512 * k
        out_re[start + i], out_im[start + i] = re[i], im[i]


def case(small):
    n = 2048 if small else 1 << 22
    rng = np.random.default_rng(0)
    re, im = (rng.standard_normal(n, np.float32) for _ in range(2))
    out_re, out_im = np.full(n, np.nan, np.float32), np.full(n, np.nan, np.float32)

    def expected():
        made = np.fft.fft((re + 1j * im.astype(float)).reshape(-1, 1024))
        return made.real, made.imag
    return {"arguments": (out_re, out_im, re, im), "outputs": (0, 1), "twin": (out_re, out_im, re, im),
            "grid": n // 1024, "block": 512, "expected": expected}
