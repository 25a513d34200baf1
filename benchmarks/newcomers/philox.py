"""An array of uniform random numbers: four of Philox a thread."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(out, seed: mo.int64):
    i = mo.block_idx().x * 256 + mo.thread_idx().x
    part = mo.fragment((4,), mo.float32)
    drawn = mo.rand4x(seed, i)
    for j in mo.static_range(4):
        part[j] = drawn[j]
    mo.copyto(mo.tile(out, (4,), (i,)), part)


def case(small):
    n = 2048 if small else 1 << 26
    out = np.full(n, np.nan, np.float32)
    some = 512                                          # threads that are compared

    def expected():
        mask = (1 << 32) - 1
        numbers = np.empty((some, 4))
        for i in range(some):
            c, k = [i, 0, 0, 0], [42, 0]
            for _ in range(10):
                a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
                c = [b >> 32 ^ c[1] ^ k[0], b & mask, a >> 32 ^ c[3] ^ k[1], a & mask]
                k = [k[0] + 0x9E3779B9 & mask, k[1] + 0xBB67AE85 & mask]
            signed = np.array(c, np.uint32).view(np.int32).astype(np.float32)
            numbers[i] = np.where(signed < 0, -signed - 1, signed) * np.float32(4.6566127342e-10)
        return (numbers.ravel(),)
    return {"arguments": (out, 42), "outputs": (0,), "twin": (out, np.int64(42)), "grid": n // 1024, "block": 256,
            "expected": expected}
