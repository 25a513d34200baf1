"""Black-Scholes prices of European calls and puts, one option a thread and turn."""

import math

import numpy as np

import moye as mo


@mo.jit
def normal(d):
    return 0.5 * mo.erfc(-d * 0.7071067811865476)


@mo.kernel
def kernel(call, put, price, strike, years, rate, volatility, n):
    first = mo.block_idx().x * 256 + mo.thread_idx().x
    for i in mo.range(first, n, mo.grid_dim().x * 256):
        root = mo.sqrt(years[i])
        d1 = (mo.log(price[i] / strike[i]) + (rate + 0.5 * volatility * volatility) * years[i]) / (volatility * root)
        d2 = d1 - volatility * root
        discounted = strike[i] * mo.exp(-rate * years[i])
        call[i] = price[i] * normal(d1) - discounted * normal(d2)
        put[i] = discounted * normal(-d2) - price[i] * normal(-d1)


def case(small):
    n = 2000 if small else 1 << 22
    rng = np.random.default_rng(0)
    price, strike, years = (rng.uniform(a, b, n).astype(np.float32) for a, b in ((5, 30), (1, 100), (0.25, 10)))
    call, put = np.full(n, np.nan, np.float32), np.full(n, np.nan, np.float32)
    rate, volatility = 0.02, 0.3

    def expected():
        s, k, t = price[:4096].astype(float), strike[:4096].astype(float), years[:4096].astype(float)
        root = np.sqrt(t)
        d1 = (np.log(s / k) + (rate + volatility ** 2 / 2) * t) / (volatility * root)
        d2, discounted = d1 - volatility * root, k * np.exp(-rate * t)
        cdf = np.vectorize(lambda d: 0.5 * math.erfc(-d / math.sqrt(2)))
        return s * cdf(d1) - discounted * cdf(d2), discounted * cdf(-d2) - s * cdf(-d1)
    return {"arguments": (call, put, price, strike, years, rate, volatility, n), "outputs": (0, 1),
            "twin": (call, put, price, strike, years, rate, volatility, n), "grid": 3 if small else 132 * 8,
            "block": 256, "expected": expected}
