"""Threads that work together: shuffles, warp and block reductions, votes, atomics.

`sum_kernel` folds a vector into one number: each thread its own elements, a block its threads, atomics the blocks.
`scan_kernel` is a prefix sum over each warp made of shuffles.  `count_kernel` counts with a ballot per warp.
"""

import numpy as np

import moye as mo

THREADS = 256


@mo.kernel
def sum_kernel(x, total, per_thread: mo.Constexpr):
    bx, _, _ = mo.block_idx()
    tid = mo.thread_idx().x
    gX = mo.tile(x, (THREADS * per_thread,), (bx,))             # (THREADS * per_thread)
    tXgX = mo.parallelize(gX, mo.make_layout(THREADS), tid)     # (per_thread)
    tXrX = mo.make_fragment_like(tXgX)                          # (per_thread)
    mo.copyto(tXrX, tXgX)
    scratch = mo.shared_array(mo.float32, THREADS // 32)        # one element a warp
    value = mo.block_reduce(tXrX.reduce("add"), scratch)
    if tid == 0:
        mo.atomic_add(total, 0, value)


@mo.kernel
def scan_kernel(out, x):
    bx, _, _ = mo.block_idx()
    tid = mo.thread_idx().x
    lane = mo.lane_idx()
    gX = mo.tile(x, (THREADS,), (bx,))                          # (THREADS)
    gO = mo.tile(out, (THREADS,), (bx,))                        # (THREADS)
    value = gX[tid]
    for step in mo.static_range(5):
        below = mo.shuffle_up(value, 1 << step)
        value = mo.where(lane >= 1 << step, value + below, value)
    gO[tid] = value


@mo.kernel
def count_kernel(x, threshold, count, largest):
    bx, _, _ = mo.block_idx()
    tid = mo.thread_idx().x
    gX = mo.tile(x, (THREADS,), (bx,))                          # (THREADS)
    above = mo.popcount(mo.ballot(gX[tid] > threshold))
    if mo.lane_idx() == 0:
        mo.atomic_add(count, 0, above)
    most = mo.warp_reduce(int(gX[tid] * 1000), "max")
    if mo.lane_idx() == 0:
        mo.atomic_max(largest, 0, most)


def total_of(x, total, kernel=sum_kernel):
    per_thread = 4
    return kernel[x.shape[0] // (THREADS * per_thread), THREADS](x, total, per_thread)


def scan(out, x, kernel=scan_kernel):
    return kernel[x.shape[0] // THREADS, THREADS](out, x)


def count(x, threshold, found, largest, kernel=count_kernel):
    return kernel[x.shape[0] // THREADS, THREADS](x, threshold, found, largest)


def main(N=1 << 14):
    data = np.random.default_rng(0).standard_normal(N, np.float32)
    wide = data.astype(np.float64)
    x = mo.testing.array(data)

    total = mo.testing.array(np.zeros(1, np.float32))
    total_of(x, total)
    error = abs(mo.testing.host(total)[0] - wide.sum()) / abs(wide).sum()
    assert error < 1e-6, f"sum: error {error:.1e}"
    print(f"sum of {N}: error {error:.1e} of the sum of absolute values")

    out = mo.testing.array(np.full(N, np.nan, np.float32))
    scan(out, x)
    expected = wide.reshape(-1, 32).cumsum(1).ravel()
    error = np.linalg.norm(mo.testing.host(out) - expected) / np.linalg.norm(expected)
    assert error < 1e-6, f"scan: relative error {error:.1e}"
    print(f"prefix sums over each of {N // 32} warps: relative error {error:.1e}")

    found, largest = mo.testing.array(np.zeros(1, np.int32)), mo.testing.array(np.full(1, -1 << 31, np.int32))
    count(x, 0.5, found, largest)
    assert mo.testing.host(found)[0] == (data > np.float32(0.5)).sum(), "count"
    assert mo.testing.host(largest)[0] == (data * np.float32(1000)).astype(np.int32).max(), "largest"
    print(f"{mo.testing.host(found)[0]} of {N} elements above 0.5, the largest is {mo.testing.host(largest)[0] / 1000}")


if __name__ == "__main__":
    main()
