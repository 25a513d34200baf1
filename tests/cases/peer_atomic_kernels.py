"""Atomics on the shared memory of other blocks of the cluster: a histogram that is spread over them, and every kind."""

from __future__ import annotations

import numpy as np

import moye as mo

BINS, BLOCK = 32, 64


@mo.kernel
def histogram_kernel(out, x):
    """Each block of a cluster keeps a part of the bins, and all count into all parts: out is (bins, clusters)."""
    bins, tid, bid = mo.shared_array(mo.int32, BINS), mo.thread_idx().x, mo.block_idx().x
    blocks, rank = mo.cluster_dim().x, mo.cluster_rank()
    if tid < BINS:
        bins[tid] = 0
    mo.cluster_sync()
    value = x[bid * BLOCK + tid]
    mo.atomic_add(mo.map_shared_rank(bins, value // BINS), value % BINS, 1)
    mo.cluster_sync()
    if tid < BINS:
        out[rank * BINS + tid, bid // blocks] = bins[tid]


@mo.kernel
def kinds_kernel(out, old, cells, x, kind: mo.Constexpr):
    """Every block changes the cells of the next one; ``old`` is what each thread found."""
    mine, tid = mo.shared_array(cells.dtype, BLOCK), mo.thread_idx().x
    blocks, rank, at = mo.cluster_dim().x, mo.cluster_rank(), mo.block_idx().x * BLOCK + tid
    mine[tid] = cells[at]
    mo.cluster_sync()
    there = mo.map_shared_rank(mine, (rank + 1) % blocks)
    if kind == "cas":
        old[at] = mo.atomic_cas(there, tid, x[at], x[at] + 1, scope="cluster")
    else:
        old[at] = getattr(mo, f"atomic_{kind}")(there, tid, x[at])
    mo.cluster_sync()
    out[at] = mine[tid]


_NEW = {"add": np.add, "min": np.fmin, "max": np.fmax, "and": np.bitwise_and, "or": np.bitwise_or,
        "xor": np.bitwise_xor, "exch": lambda old, x: x, "cas": lambda old, x: np.where(old == x, x + 1, old)}
KINDS = tuple((kind, dtype) for kind in _NEW for dtype in (np.int32, np.uint64, np.float32, np.float16, np.int16)
              if np.dtype(dtype).kind in "iu" or kind not in ("and", "or", "xor"))


def kinds_arguments(kind, dtype, blocks=4):
    rng = np.random.default_rng(0)
    cells, x = (rng.integers(0, 5, blocks * BLOCK).astype(dtype) for _ in range(2))
    return [np.zeros_like(cells), np.zeros_like(cells), cells, x, kind]


def kinds_expected(args):
    """(out, old): block i changes the cells of block i + 1."""
    _, _, cells, x, kind = args
    blocks = len(x) // BLOCK
    found = np.roll(cells.reshape(blocks, BLOCK), -1, axis=0)
    new = _NEW[kind](found, x.reshape(blocks, BLOCK)).astype(x.dtype)
    return np.roll(new, 1, axis=0).ravel(), found.ravel()


def histogram_arguments(blocks=4, clusters=3):
    x = np.random.default_rng(1).integers(0, BINS * blocks, clusters * blocks * BLOCK).astype(np.int32)
    return [np.zeros((BINS * blocks, clusters), np.int32), x]


def histogram_expected(args):
    out, x = args
    return np.stack([np.bincount(part, minlength=len(out)) for part in x.reshape(out.shape[1], -1)], axis=1)
