"""Inserts keys of 64 bits into a table with open addressing by compare-and-swap; counts what was new."""

import numpy as np

import moye as mo


@mo.jit
def mixed(x):
    x = (x ^ (x >> 30)) * mo.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> 27)) * mo.uint64(0x94D049BB133111EB)
    return x ^ (x >> 31)


@mo.kernel
def kernel(fresh, table, keys):
    i = mo.block_idx().x * 256 + mo.thread_idx().x
    if i < mo.size(keys):
        key = keys[i]
        mask = (mo.size(table) - 1).to(mo.uint32)
        at = mixed(key).to(mo.uint32) & mask
        found = mo.atomic_cas(table, at, 0, key)
        while found != 0 and found != key:
            at = (at + 1) & mask
            found = mo.atomic_cas(table, at, 0, key)
        fresh[i] = (found == 0).to(mo.uint8)


def case(small):
    n, size = (500, 1024) if small else (1 << 21, 1 << 23)
    keys = np.random.default_rng(0).integers(1, 4 * n, n).astype(np.uint64)
    table, fresh = np.zeros(size, np.uint64), np.full(n, 0xAA, np.uint8)
    order = np.sort(np.unique(keys))

    def expected():
        return (np.isin(np.arange(n), np.unique(keys, return_index=True)[1]).sum(keepdims=True), order)
    return {"arguments": (fresh, table, keys), "outputs": (0, 1), "twin": (fresh, table, keys, size, n),
            "grid": mo.ceil_div(n, 256), "block": 256, "expected": expected, "restart": (1,),
            "seen": lambda got: (got[0].sum(dtype=int, keepdims=True), np.sort(got[1][got[1] > 0]))}
