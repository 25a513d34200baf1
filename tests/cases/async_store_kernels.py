"""st.async and red.async: rings through a cluster, sums of all blocks, and what is wrong with them.

In: nothing.  Out: kernels, their arguments and what NumPy says of them.
"""

from __future__ import annotations

import numpy as np

import moye as mo
from ops_kernels import add

BLOCK, CLUSTER = 64, 4


@mo.kernel
def ring_kernel(out, x, count: mo.Constexpr, turns: mo.Constexpr):
    """Each block sends ``count`` elements a thread to the next one: out is x of ``turns`` blocks before."""
    tid, bid, rank, blocks = mo.thread_idx().x, mo.block_idx().x, mo.cluster_rank(), mo.cluster_dim().x
    inbox, full = mo.shared_array(x.dtype, (count, BLOCK, 2)), mo.mbarrier_array(2)
    if tid < 2:
        mo.mbarrier_init(full, tid, 1)
        mo.fence_mbarrier_init()
    mo.cluster_sync()
    held = mo.fragment((count,), x.dtype)
    mo.copyto(held, mo.tile(x, (count,), (bid * BLOCK + tid,)))
    there = mo.map_shared_rank(inbox, (rank + 1) % blocks)
    for turn in mo.static_range(turns):
        slot = turn % 2
        if tid == 0:
            mo.mbarrier_arrive_expect_tx(full, slot, count * BLOCK * x.dtype.bits // 8)
        mo.st_async(there[:, tid, slot], held, barrier=(full, slot))
        mo.mbarrier_wait(full, slot, turn // 2 % 2)
        mo.copyto(held, inbox[:, tid, slot])
        mo.cluster_sync()                               # all have read: the next but one may come
    mo.copyto(mo.tile(out, (count,), (bid * BLOCK + tid,)), held)


@mo.kernel
def sums_kernel(out, x, kind: mo.Constexpr):
    """Every thread of every block changes one cell of each block by a number of its own; x is (numbers, thread)."""
    tid, rank, blocks = mo.thread_idx().x, mo.cluster_rank(), mo.cluster_dim().x
    cells, full = mo.shared_array(x.dtype, BLOCK // 2), mo.mbarrier_array(1)
    if tid < BLOCK // 2:
        cells[tid] = x[0, tid]
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(full, 0, blocks * BLOCK * x.dtype.bits // 8)
    mo.cluster_sync()
    for other in mo.range(blocks):
        place = mo.tile(mo.map_shared_rank(cells, other), (1,), (tid % (BLOCK // 2),))
        mo.red_async(place, x[1 + rank + other, tid], kind, barrier=(full, 0))
    mo.mbarrier_wait(full, 0, 0)
    if tid < BLOCK // 2:
        out[tid, mo.block_idx().x] = cells[tid]
    mo.cluster_sync()


SUMS = (("add", np.int32), ("add", np.uint32), ("add", np.int64), ("add", np.uint64), ("min", np.int32),
        ("max", np.int32), ("min", np.uint32), ("max", np.uint32), ("and", np.uint32), ("or", np.int32),
        ("xor", np.uint32), ("inc", np.uint32), ("dec", np.uint32))
RINGS = (("float32", 1), ("float32", 2), ("float32", 4), ("float32", 8), ("int32", 3), ("uint32", 4), ("int64", 1),
         ("uint64", 2), ("float64", 2), ("float64", 1))


def ring_arguments(dtype, count, turns, clusters=2):
    x = np.random.default_rng(count).integers(-99, 99, clusters * CLUSTER * BLOCK * count).astype(dtype)
    return [np.zeros_like(x), x, count, turns]


def ring_expected(args):
    _, x, count, turns = args
    return np.roll(x.reshape(-1, CLUSTER, BLOCK * count), turns, axis=1).ravel()


def sums_arguments(kind, dtype, clusters=2):
    """Numbers with all bits; for inc and dec the same bound everywhere, as their order is open."""
    rng = np.random.default_rng(0)
    bound = np.iinfo(dtype)
    x = rng.integers(bound.min // 2, bound.max // 2, (2 * CLUSTER, BLOCK), dtype=dtype)
    if kind == "add":
        x >>= x.itemsize * 8 - 8
    if kind in ("inc", "dec"):
        x[1:], x[0] = 5, rng.integers(0, 9, BLOCK)
        x[0, :6] = np.arange(6)
    return [np.zeros((BLOCK // 2, clusters * CLUSTER), dtype), x, kind]


_STEP = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
         "xor": np.bitwise_xor, "inc": lambda old, x: np.where(old >= x, 0, old + 1),
         "dec": lambda old, x: np.where((old == 0) | (old > x), x, old - 1)}


def sums_expected(args):
    out, x, kind = args
    columns = []
    for other in range(CLUSTER):
        cells = x[0, :BLOCK // 2]
        for rank in range(CLUSTER):
            for half in (slice(0, BLOCK // 2), slice(BLOCK // 2, BLOCK)):
                cells = _STEP[kind](cells, x[1 + rank + other, half]).astype(x.dtype)
        columns.append(cells)
    return np.tile(np.stack(columns, axis=1), out.shape[1] // CLUSTER)


for _dtype, _count in RINGS:
    add(f"async-ring-{_dtype}-{_count}", ring_kernel,
        lambda rng, n, dtype=_dtype, count=_count: ring_arguments(dtype, count, n),
        lambda args: {0: ring_expected(args)},
        sizes=(1, 3), block=BLOCK, grid=lambda n: 2 * CLUSTER, cluster=(CLUSTER, 1, 1))
for _kind, _type in SUMS:
    add(f"async-sums-{_kind}-{_type.__name__}", sums_kernel,
        lambda rng, n, kind=_kind, dtype=_type: sums_arguments(kind, dtype, n), lambda args: {0: sums_expected(args)},
        sizes=(1, 2), block=BLOCK, grid=lambda n: n * CLUSTER, cluster=(CLUSTER, 1, 1))


@mo.kernel
def handed_on(out, x, rounds):
    """A ring of two stages with full and empty mbarriers, and no barrier of the cluster in the loop."""
    tid, bid, rank, blocks = mo.thread_idx().x, mo.block_idx().x, mo.cluster_rank(), mo.cluster_dim().x
    stages, full, empty = mo.shared_array(mo.float32, (32, 2)), mo.mbarrier_array(2), mo.mbarrier_array(2)
    if tid < 2:
        mo.mbarrier_init(full, tid, 1)
        mo.mbarrier_init(empty, tid, 32)
        mo.fence_mbarrier_init()
    mo.cluster_sync()
    there, value = mo.map_shared_rank(stages, (rank + 1) % blocks), x[tid, bid]
    for k in range(rounds):
        stage, phase = k % 2, k // 2 % 2
        if tid == 0:
            mo.mbarrier_arrive_expect_tx(full, stage, 4 * 32)
        mo.mbarrier_wait(empty, stage, phase ^ 1)
        mo.st_async(mo.tile(there[:, stage], (1,), (tid,)), value, barrier=(full, stage))
        mo.mbarrier_wait(full, stage, phase)
        value = stages[31 - tid, stage] + 1
        mo.mbarrier_arrive(empty, stage, cta=(rank + blocks - 1) % blocks)
    out[tid, bid] = value
    mo.cluster_sync()


def handed_on_arguments(rounds, clusters=2):
    x = np.random.default_rng(0).standard_normal((32, clusters * CLUSTER)).astype(np.float32)
    return [np.zeros_like(x), x, rounds]


def handed_on_expected(args):
    """Turned over and one more, by each block that it has passed."""
    _, x, rounds = args
    found = x.reshape(32, -1, CLUSTER)
    for _ in range(rounds):
        found = np.roll(found, 1, axis=2)[::-1] + np.float32(1)
    return found.reshape(x.shape)


@mo.kernel
def faulty_kernel(out, x, fault: mo.Constexpr):
    """Two blocks exchange a number a thread, with one fault, or none (None)."""
    tid, other = mo.thread_idx().x, 1 - mo.cluster_rank()
    inbox, full = mo.shared_array(mo.int32, BLOCK), mo.mbarrier_array(1)
    if fault == "combined":
        pass
    elif fault in ("written", "unordered"):
        inbox[tid] = 0
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(full, 0, {"few": 2, "many": 8}.get(fault, 4) * BLOCK)
    if fault in ("early", "unordered"):
        mo.sync_threads()
    else:
        mo.cluster_sync()
    there = mo.map_shared_rank(inbox, other)
    place = {"same": tid // 2, "beyond": tid + BLOCK}.get(fault, tid)
    cell = mo.tile(there, (1,), (place,), ragged=True) if fault == "beyond" else mo.tile(there, (1,), (place,))
    if fault == "combined":
        mo.red_async(cell, x[tid], barrier=(full, 0))
    else:
        mo.st_async(cell, x[tid], barrier=(full, 0))
    if fault == "written":
        inbox[tid] = 1
    if fault not in ("unwaited", "ends"):
        mo.mbarrier_wait(full, 0, 0)
    if fault != "ends":
        out[tid, mo.block_idx().x] = inbox[tid]
    if fault == "again":
        if tid == 0:
            mo.mbarrier_arrive_expect_tx(full, 0, 4 * BLOCK)
        mo.st_async(cell, x[tid], barrier=(full, 0))
        mo.mbarrier_wait(full, 0, 1)
    mo.cluster_sync()


FAULTS = ("unwaited", "few", "many", "early", "unordered", "same", "beyond", "combined", "written", "ends", "again")


def faulty_arguments(fault):
    return [np.zeros((BLOCK, 2), np.int32), np.arange(BLOCK, dtype=np.int32), fault]
