"""Tiles of attention on sm_80 and later: from global memory to shared memory, to fragments, to products, and back.

In: tensors (rows, dim), tiled copies, a tiled MMA.  Out: tiles in shared memory; sums in registers.

    fetch(copy_K, sK, gK, n, keys); arrived(); multiply(mma, S, read_A, sQ, read_B, sK)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import moye as mo


@dataclass(frozen=True, slots=True)
class Sequence:
    """The rows of one sequence: ``rows`` of them from row ``begin`` on, of the tensors' matrix number ``batch``."""

    begin: Any
    rows: Any
    batch: Any


@mo.jit
def sequence(X, offsets, batch):
    """Sequence number ``batch`` of X (rows, dim, heads, batch); with ``offsets`` all of them lie in one matrix."""
    if offsets is None:
        return Sequence(0, mo.size(X, 0), batch)
    begin = offsets[batch]
    return Sequence(begin, offsets[batch + 1] - begin, 0)


@mo.jit
def matrix(X, part, head):
    """One head of a sequence (rows, dim); it may reach beyond the sequence."""
    whole = X[:, :, head, part.batch]
    return whole if mo.is_static(part.begin) else mo.domain_offset((part.begin, 0), whole)


@mo.jit
def numbers(X, part, head):
    """The number that each row of a sequence has for a head, of X (rows, heads, batch)."""
    whole = X[:, head, part.batch]
    return whole if mo.is_static(part.begin) else mo.domain_offset((part.begin,), whole)


@mo.jit
def room(dtype, *layouts):
    """Shared memory that can be seen as any of these layouts."""
    return mo.shared_array(dtype, max(mo.cosize(layout) for layout in layouts), align=1024)


@mo.jit
def arrived():
    """All that was asked for is there, for all threads; and all threads are here."""
    mo.cp_async_wait()
    mo.sync_threads()


@mo.jit
def fetch(copy, smem, X, tile, rows):
    """Ask for a tile of X (rows, dim), of which so many rows count; zeros lie beyond."""
    thr, extents = copy.get_slice(mo.thread_idx().x), (mo.size(smem, 0), mo.size(smem, 1))
    source = thr.partition_S(mo.tile(X, extents, (tile, 0), ragged=True))           # (CPY, CPY_M, CPY_N)
    coords = thr.partition_S(mo.tile(mo.identity_tensor(mo.shape(X)), extents, (tile, 0), ragged=True))
    mo.copyto(copy, thr.partition_D(smem), source, pred=inside(coords, (rows, mo.size(X, 1))), zero_fill=True)
    mo.cp_async_commit()


@mo.jit
def inside(coords, shape):
    """Whether the vectors (CPY, CPY_M, CPY_N) of a copy lie in the array: they do so whole or not at all."""
    found = mo.fragment((1, mo.size(coords, 1), mo.size(coords, 2)), mo.bool)
    for i in mo.static_range(mo.size(coords, 1)):
        for j in mo.static_range(mo.size(coords, 2)):
            found[0, i, j] = mo.elem_less(coords[0, i, j], shape)
    return found


@mo.jit
def multiply(mma, acc, read_A, sA, read_B, sB):
    """acc = A B^T of tiles (M, K) and (N, K) in shared memory, by as many threads as the MMA has."""
    tid = mo.thread_idx().x % mma.threads
    thr, thr_A, thr_B = mma.get_slice(tid), read_A.get_slice(tid), read_B.get_slice(tid)
    tCrA, tCrB = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB)         # (MMA, MMA_M, MMA_K)
    tXsA, tXsB = thr_A.partition_S(sA), thr_B.partition_S(sB)                       # (CPY, CPY_M, CPY_K)
    tXrA, tXrB = thr_A.retile_D(tCrA), thr_B.retile_D(tCrB)
    acc.fill(0)
    for k in mo.static_range(mo.size(tCrA, 2)):
        mo.copyto(read_A, tXrA[:, :, k], tXsA[:, :, k])
        mo.copyto(read_B, tXrB[:, :, k], tXsB[:, :, k])
        mo.gemm(mma, tCrA[:, :, k], tCrB[:, :, k], acc)


@mo.jit
def multiply_further(mma, acc, sums, read_B, sB):
    """acc += A B^T: A are the sums (MMA, MMA_M, MMA_N) of a product before, rounded, as they lie in registers."""
    tid = mo.thread_idx().x % mma.threads
    thr, thr_B = mma.get_slice(tid), read_B.get_slice(tid)
    tCrA = mo.accumulators_as_A(sums.to(sB.dtype), mma, mma)                        # (MMA, MMA_M, MMA_K)
    tCrB = thr.partition_fragment_B(sB)                                             # (MMA, MMA_N, MMA_K)
    tXsB, tXrB = thr_B.partition_S(sB), thr_B.retile_D(tCrB)                        # (CPY, CPY_N, CPY_K)
    for k in mo.static_range(mo.size(tCrB, 2)):
        mo.copyto(read_B, tXrB[:, :, k], tXsB[:, :, k])
        mo.gemm(mma, tCrA[:, :, k], tCrB[:, :, k], acc)


@mo.jit
def multiply_widened(mma, acc, read_A, sA, sB):
    """``multiply`` where B is stored in fewer bits; as a thread's elements of a row lie, it reads them together."""
    tid = mo.thread_idx().x % mma.threads
    thr, thr_A = mma.get_slice(tid), read_A.get_slice(tid)
    tCrA, tXsA = thr.partition_fragment_A(sA), thr_A.partition_S(sA)                # (MMA, MMA_M, MMA_K), (CPY, ...)
    tCsB, tXrA = thr.partition_B(sB), thr_A.retile_D(tCrA)                          # (MMA, MMA_N, MMA_K), (CPY, ...)
    held = mo.fragment(mo.make_layout_like(tCsB.layout), sB.dtype)
    tCrB = mo.fragment(mo.shape(tCsB), sA.dtype)
    for n in mo.static_range(mo.size(tCsB, 1)):
        mo.copyto(held[:, n, :], tCsB[:, n, :])
    acc.fill(0)
    for k in mo.static_range(mo.size(tCrA, 2)):
        mo.copyto(read_A, tXrA[:, :, k], tXsA[:, :, k])
        tCrB[:, :, k][...] = held[:, :, k].to(sA.dtype)
        mo.gemm(mma, tCrA[:, :, k], tCrB[:, :, k], acc)


@mo.jit
def multiply_further_widened(mma, acc, sums, sB, dtype):
    """``multiply_further`` where B is stored in fewer bits than ``dtype``, to which the sums are rounded."""
    thr = mma.get_slice(mo.thread_idx().x % mma.threads)
    tCrA = mo.accumulators_as_A(sums.to(dtype), mma, mma)                           # (MMA, MMA_M, MMA_K)
    tCsB = thr.partition_B(sB)                                                      # (MMA, MMA_N, MMA_K)
    held = mo.fragment(mo.make_layout_like(tCsB.layout), sB.dtype)
    tCrB = mo.fragment(mo.shape(tCsB), dtype)
    mo.copyto(held, tCsB)
    tCrB[...] = held.to(dtype)
    for k in mo.static_range(mo.size(tCrB, 2)):
        mo.gemm(mma, tCrA[:, :, k], tCrB[:, :, k], acc)


@mo.jit
def put(mma, copy, X, smem, acc, tile, rows):
    """Sums to a tile of X (rows, dim), of which so many rows count, by way of shared memory: neighbours together."""
    tid = mo.thread_idx().x
    thr, extents = copy.get_slice(tid), (mo.size(smem, 0), mo.size(smem, 1))
    mo.sync_threads()                                   # nobody reads what lay there any more
    mo.copyto(mma.get_slice(tid).partition_C(smem), acc.to(smem.dtype))
    mo.sync_threads()
    target = thr.partition_D(mo.tile(X, extents, (tile, 0), ragged=True))           # (CPY, CPY_M, CPY_N)
    coords = thr.partition_D(mo.tile(mo.identity_tensor(mo.shape(X)), extents, (tile, 0), ragged=True))
    held = mo.make_fragment_like(target)
    mo.copyto(copy, held, thr.partition_S(smem))
    mo.copyto(copy, target, held, pred=inside(coords, (rows, mo.size(X, 1))))
