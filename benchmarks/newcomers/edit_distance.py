"""The edit distance of pairs of strings of up to 128 bytes, a block for each pair, along diagonals in shared memory."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(distance, first, second, length):
    pair, tid = mo.block_idx().x, mo.thread_idx().x
    rows = mo.shared_array(mo.int32, mo.make_layout((3, 129), (129, 1)))
    if tid == 0:
        rows[0, 0] = 0
    mo.sync_threads()
    for d in mo.range(1, 2 * length + 1):
        now, last, before = d % 3, (d + 2) % 3, (d + 1) % 3
        for i in mo.range(tid, length + 1, 128):
            j = d - i
            if j >= 0 and j <= length:
                best = mo.max(i, j)
                if i > 0 and j > 0:
                    change = 0 if first[pair, i - 1] == second[pair, j - 1] else 1
                    best = mo.min(rows[before, i - 1] + change, mo.min(rows[last, i - 1], rows[last, i]) + 1)
                rows[now, i] = best
        mo.sync_threads()
    if tid == 0:
        distance[pair] = rows[2 * length % 3, length]


def case(small):
    pairs, n = (3, 40) if small else (8192, 128)
    rng = np.random.default_rng(0)
    first, second = (rng.integers(0, 4, (pairs, n)).astype(np.uint8) for _ in range(2))
    distance = np.full(pairs, -1, np.int32)
    some = 3 if small else 20

    def expected():
        found = []
        for a, b in zip(first[:some].tolist(), second[:some].tolist(), strict=True):
            row = list(range(n + 1))
            for i, x in enumerate(a, 1):
                corner, row[0] = row[0], i
                for j, y in enumerate(b, 1):
                    corner, row[j] = row[j], min(corner + (x != y), row[j] + 1, row[j - 1] + 1)
            found.append(row[-1])
        return (found,)
    return {"arguments": (distance, first, second, n), "outputs": (0,), "twin": (distance, first, second, n),
            "grid": pairs, "block": 128, "expected": expected}
