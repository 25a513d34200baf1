"""Kernels whose accesses are known in advance."""

from __future__ import annotations

import numpy as np

import moye as mo
from moye.atoms.matrix import register_layout


@mo.kernel
def strided(y, layout, stride: mo.Constexpr, rounds):
    """Thread t writes element ``stride * t`` of a flat tile and reads it back, in a loop."""
    tid = mo.thread_idx().x
    smem = mo.shared_array(mo.float32, layout)
    for _ in range(rounds):
        smem[stride * tid] = y[tid]
    mo.sync_threads()
    y[tid] = smem[stride * tid]


def run_strided(stride, rounds=4, threads=64, **options):
    y = np.zeros(threads, np.float32)
    return mo.check(strided, **options)[1, threads](y, mo.make_layout(stride * threads), stride, rounds)


@mo.kernel
def columns(y, x, layout, vector: mo.Constexpr):
    """A (rows, columns) tile is written along mode 0 and read along mode 1, ``vector`` elements at a time."""
    tid = mo.thread_idx().x
    smem = mo.shared_array(x.dtype, layout)                                 # (32, 32)
    mo.copyto(mo.parallelize(smem, mo.make_layout((32, 1)), tid), mo.parallelize(x, mo.make_layout((32, 1)), tid))
    mo.sync_threads()
    fragment = mo.fragment((1, 32), x.dtype)
    mo.copyto(fragment, mo.tile(smem, (1, 32), (tid, 0)))
    mo.copyto(mo.tile(y, (1, 32), (tid, 0)), fragment)


def run_columns(layout, dtype=np.float32):
    x = np.asfortranarray(np.arange(1024).reshape(32, 32).astype(dtype))
    y = np.zeros_like(x)
    report = mo.check(columns)[1, 32](y, x, layout, 1)
    assert report.ok and np.array_equal(x, y), str(report)
    return report


@mo.kernel
def masked(y, x, count):
    """The first ``count`` threads of each block read and write one element."""
    bx, _, _ = mo.block_idx()
    tid = mo.thread_idx().x
    if tid < count:
        y[128 * bx + tid] = x[128 * bx + tid] + 1


@mo.kernel
def rows_of_matrices(y, x, layout, load):
    """ldmatrix of one warp from the first columns of a (rows, 64) tile of halves."""
    tid = mo.thread_idx().x
    smem = mo.shared_array(mo.float16, layout)                              # (32, 64)
    across = mo.make_layout((1, 32))
    mo.copyto(mo.parallelize(smem, across, tid), mo.parallelize(x, across, tid))
    mo.sync_threads()
    regs = mo.fragment((load.atom.values, 1, 1), mo.float16)
    mo.copyto(load, regs, load.get_slice(tid).partition_S(mo.tile(smem, (32, 8), (0, 0))))
    for v in mo.static_range(load.atom.values):
        y[tid, v] = regs[v, 0, 0]


def run_matrices(layout):
    x = np.arange(32 * 64).reshape(32, 64).astype(np.float16)
    held = register_layout(mo.LdMatrix(4), 16)
    tv = mo.composition(mo.make_layout((8, 32), (32, 1)), held)
    load = mo.TiledCopy(mo.CopyAtom(mo.LdMatrix(4), mo.float16), mo.make_layout(tv.mode(0), tv.mode(1)), (32, 8))
    y = np.zeros((32, 8), np.float16)
    report = mo.check(rows_of_matrices)[1, 32](y, x, layout, load)
    assert sorted(y.ravel().tolist()) == sorted(x[:, :8].ravel().tolist())
    return report


@mo.kernel
def tiled_copy(y, x, tiled):
    tid = mo.thread_idx().x
    thr = tiled.get_slice(tid)
    mo.copyto(tiled, thr.partition_D(y), thr.partition_S(x))


def run_copy(dtype, thr, val, x):
    y = np.zeros_like(x)
    tiled = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(dtype), mo.float32), thr, val)
    return mo.check(tiled_copy)[1, mo.size(thr)](y, x, tiled)


@mo.kernel
def staged_sum(y, x, pending: mo.Constexpr, ahead: mo.Constexpr, late: mo.Constexpr):
    """A pipeline of cp.async; ``late`` reads the newest stage too."""
    tid = mo.thread_idx().x
    stages = ahead + 1
    smem = mo.shared_array(mo.float32, mo.make_layout((32, stages)))
    atom = mo.CpAsync(mo.float32)
    total = mo.float32(0)
    for s in mo.static_range(ahead):
        mo.copyto(atom, mo.tile(smem, (1, 1), (tid, s)), mo.tile(x, (1, 1), (tid, s)))
        mo.cp_async_commit()
    for k in range(mo.size(x, 1) - ahead):
        mo.cp_async_wait(pending)
        mo.sync_threads()
        total += smem[31 - tid, k % stages]
        if late:
            total += smem[31 - tid, (k + ahead - 1) % stages]
        mo.copyto(atom, mo.tile(smem, (1, 1), (tid, (k + ahead) % stages)), mo.tile(x, (1, 1), (tid, k + ahead)))
        mo.cp_async_commit()
    y[tid] = total


def run_staged(pending, ahead, late=False):
    x = np.asfortranarray(np.ones((32, 8), np.float32))
    return mo.check(staged_sum)[1, 32](np.zeros(32, np.float32), x, pending, ahead, late)


@mo.kernel
def staged_rows(y, x, layout, tiled):
    """A tile comes by cp.async; one element goes out again."""
    tid = mo.thread_idx().x
    smem = mo.shared_array(mo.float32, layout)
    thr_copy = tiled.get_slice(tid)
    mo.copyto(tiled, thr_copy.partition_D(smem), thr_copy.partition_S(x))
    mo.cp_async_commit()
    mo.cp_async_wait()
    mo.sync_threads()
    if tid == 0:
        y[0] = smem[0, 0]


def run_rows(atom, layout, thr, val):
    """The tile is the first columns of an array of rows of 1024 bytes, which begin at lines."""
    x = np.ones((mo.size(layout, 0), 256), np.float32)[:, :mo.size(layout, 1)]
    tiled = mo.make_tiled_copy(mo.CopyAtom(atom, mo.float32), thr, val)
    report = mo.check(staged_rows)[1, mo.size(thr)](np.zeros(1, np.float32), x, layout, tiled)
    assert report.ok, str(report)
    return report


@mo.kernel
def filled_rows(y, x, count, tiled):
    """As staged_rows; the threads from ``count`` on fill in zeros."""
    tid = mo.thread_idx().x
    smem = mo.shared_array(mo.float32, mo.make_layout((16, 8), (8, 1)))
    thr_copy = tiled.get_slice(tid)
    mo.copyto(tiled, thr_copy.partition_D(smem), thr_copy.partition_S(x), pred=tid < count, zero_fill=True)
    mo.cp_async_commit()
    mo.cp_async_wait()
    mo.sync_threads()
    if tid == 0:
        y[0] = smem[15, 7]


def run_filled(count, thr, val):
    x = np.ones((16, 256), np.float32)[:, :8]
    tiled = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.uint128), mo.float32), thr, val)
    y = np.full(1, 7, np.float32)
    report = mo.check(filled_rows)[1, mo.size(thr)](y, x, count, tiled)
    assert report.ok and y[0] == (count == 32), str(report)
    return report
