"""A filter of 31 weights over a signal; signal and weights are staged in shared memory, four results a thread."""

import numpy as np

import moye as mo

TAPS = 31


@mo.kernel
def kernel(out, x, weights):
    tid, n = mo.thread_idx().x, mo.size(out)
    start = mo.block_idx().x * 1024
    signal = mo.shared_array(mo.float32, 1024 + TAPS - 1)
    w = mo.shared_array(mo.float32, TAPS)
    if tid < TAPS:
        w[tid] = weights[tid]
    for i in mo.range(tid, 1024 + TAPS - 1, 256):
        signal[i] = x[start + i] if start + i < mo.size(x) else 0.0
    mo.sync_threads()
    sums = mo.fragment((4,), mo.float32)
    sums.fill(0)
    for k in mo.static_range(TAPS):
        for r in mo.static_range(4):
            sums[r] += w[k] * signal[r * 256 + tid + k]
    for r in mo.static_range(4):
        i = start + r * 256 + tid
        if i < n:
            out[i] = sums[r]


def case(small):
    n = 3000 if small else (1 << 24) + 77
    rng = np.random.default_rng(0)
    x, weights = rng.standard_normal(n, np.float32), rng.standard_normal(TAPS, np.float32)
    out = np.full(n - TAPS + 1, np.nan, np.float32)
    return {"arguments": (out, x, weights), "outputs": (0,), "twin": (out, x, weights, len(out), n),
            "grid": mo.ceil_div(len(out), 1024), "block": 256,
            "expected": lambda: (np.correlate(x.astype(float), weights.astype(float), "valid"),)}
