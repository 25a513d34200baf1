"""A step of Adam: parameters and both moments in place, four elements a thread."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(p, m, v, g, rate, beta1, beta2, eps, correction1, correction2):
    for t in (p, m, v, g):
        mo.assume(mo.size(t) % 4 == 0)
    i = mo.block_idx().x * 256 + mo.thread_idx().x
    if i < mo.size(p) // 4:
        gP, gM, gV, gG = (mo.tile(t, (4,), (i,)) for t in (p, m, v, g))          # (4)
        rP, rM, rV, rG = (mo.make_fragment_like(t) for t in (gP, gM, gV, gG))
        for held, there in ((rP, gP), (rM, gM), (rV, gV), (rG, gG)):
            mo.copyto(held, there)
        rM[...] = beta1 * rM + (1 - beta1) * rG
        rV[...] = beta2 * rV + (1 - beta2) * rG * rG
        rP -= rate * (rM / correction1) / (mo.sqrt(rV / correction2) + eps)
        for held, there in ((rP, gP), (rM, gM), (rV, gV)):
            mo.copyto(there, held)


def case(small):
    n = 2000 if small else 1 << 24
    rng = np.random.default_rng(0)
    p, m, g = (rng.standard_normal(n, np.float32) for _ in range(3))
    v = abs(rng.standard_normal(n, np.float32))
    numbers = (1e-3, 0.9, 0.999, 1e-8, 0.19, 0.002)

    def expected():
        rate, beta1, beta2, eps, c1, c2 = numbers
        m1 = beta1 * m.astype(float) + (1 - beta1) * g
        v1 = beta2 * v.astype(float) + (1 - beta2) * g.astype(float) ** 2
        return p - rate * (m1 / c1) / (np.sqrt(v1 / c2) + eps), m1, v1
    return {"arguments": (p, m, v, g, *numbers), "outputs": (0, 1, 2), "twin": (p, m, v, g, *numbers, n),
            "grid": mo.ceil_div(n, 1024), "block": 256, "expected": expected}
