"""Small pipelines whose order is known: the kernels of the timeline tests."""

from __future__ import annotations

import numpy as np

import moye as mo

T = 64
COPY = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32), mo.make_layout((16, 4)),
                          mo.make_layout((1, 1)))
MMA = mo.make_tiled_mma(mo.UniversalFMA(mo.float32), mo.make_layout((16, 4)))
LOAD = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.float32), mo.float32), mo.make_layout((16, 4)),
                          mo.make_layout((1, 1)))
ONE, TWO, THREE = (mo.make_layout((16, 4, stages)) for stages in (1, 2, 3))


@mo.kernel
def multistage(A, B, C, layout, copy, mma):
    """As many stages as the layout has; one group of copies per k-tile, kept in flight over stages - 1 tiles."""
    tid, stages = mo.thread_idx().x, mo.size(layout, 2)
    bM, bK = mo.size(layout, 0), mo.size(layout, 1)
    sA, sB = mo.shared_array(A.dtype, layout), mo.shared_array(B.dtype, layout)         # (bM, bK, stages)
    gA, gB = mo.tile(A, (bM, bK), (0, None)), mo.tile(B, (bM, bK), (0, None))           # (bM, bK, k)
    thr_copy, thr_mma = copy.get_slice(tid), mma.get_slice(tid)
    tAgA, tAsA = thr_copy.partition_S(gA), thr_copy.partition_D(sA)
    tBgB, tBsB = thr_copy.partition_S(gB), thr_copy.partition_D(sB)
    tCsA, tCsB = thr_mma.partition_A(sA), thr_mma.partition_B(sB)
    tCgC = thr_mma.partition_C(mo.tile(C, (bM, bM), (0, 0)))
    tCrA, tCrB = thr_mma.make_fragment_A(tCsA[:, :, :, 0]), thr_mma.make_fragment_B(tCsB[:, :, :, 0])
    tCrC = thr_mma.make_fragment_C(tCgC)
    tCrC.fill(0)
    k_max = mo.size(tAgA, 3)
    for stage in mo.static_range(stages - 1):
        mo.copyto(copy, tAsA[:, :, :, stage], tAgA[:, :, :, stage])
        mo.copyto(copy, tBsB[:, :, :, stage], tBgB[:, :, :, stage])
        mo.cp_async_commit()
    for k in range(k_max):
        mo.cp_async_wait(stages - 2)
        mo.sync_threads()
        if k + stages - 1 < k_max:
            mo.copyto(copy, tAsA[:, :, :, (k + stages - 1) % stages], tAgA[:, :, :, k + stages - 1])
            mo.copyto(copy, tBsB[:, :, :, (k + stages - 1) % stages], tBgB[:, :, :, k + stages - 1])
        mo.cp_async_commit()
        mo.copyto(tCrA, tCsA[:, :, :, k % stages])
        mo.copyto(tCrB, tCsB[:, :, :, k % stages])
        mo.gemm(mma, tCrA, tCrB, tCrC)
    mo.copyto(tCgC, tCrC)


@mo.kernel
def through_registers(A, B, C, layout, load, mma):
    """The next tile is loaded into registers before this one is multiplied, and stored to shared memory after it."""
    tid = mo.thread_idx().x
    bM, bK = mo.size(layout, 0), mo.size(layout, 1)
    sA, sB = mo.shared_array(A.dtype, layout), mo.shared_array(B.dtype, layout)         # (bM, bK)
    gA, gB = mo.tile(A, (bM, bK), (0, None)), mo.tile(B, (bM, bK), (0, None))           # (bM, bK, k)
    thr_copy, thr_mma = load.get_slice(tid), mma.get_slice(tid)
    tAgA, tAsA = thr_copy.partition_S(gA), thr_copy.partition_D(sA)
    tBgB, tBsB = thr_copy.partition_S(gB), thr_copy.partition_D(sB)
    tArA, tBrB = mo.make_fragment_like(tAsA), mo.make_fragment_like(tBsB)
    tCsA, tCsB = thr_mma.partition_A(sA), thr_mma.partition_B(sB)
    tCgC = thr_mma.partition_C(mo.tile(C, (bM, bM), (0, 0)))
    tCrC = thr_mma.make_fragment_C(tCgC)
    tCrC.fill(0)
    mo.copyto(tArA, tAgA[:, :, :, 0])
    mo.copyto(tBrB, tBgB[:, :, :, 0])
    k_max = mo.size(tAgA, 3)
    for k in range(k_max):
        mo.sync_threads()
        mo.copyto(tAsA, tArA)
        mo.copyto(tBsB, tBrB)
        mo.sync_threads()
        if k < k_max - 1:
            mo.copyto(tArA, tAgA[:, :, :, k + 1])
            mo.copyto(tBrB, tBgB[:, :, :, k + 1])
        mo.gemm(mma, tCsA, tCsB, tCrC)
    mo.copyto(tCgC, tCrC)


@mo.kernel
def sequence(x, y, steps: mo.Constexpr, mma):
    """One statement per step: "copy", "commit", "wait", an int for wait_group, "mma"; "half" a copy by 16 lanes."""
    tid = mo.thread_idx().x
    staged = mo.shared_array(mo.float32, mo.make_layout((T, 64)))
    thr = mma.get_slice(tid)
    gC = thr.partition_C(mo.tile(y, (16, 4), (0, 0)))
    tCrC = thr.make_fragment_C(gC)
    tCrC.fill(0)
    tA, tB = (mo.make_fragment_like(tCrC) for _ in range(2))
    tA.fill(1)
    tB.fill(1)
    atom = mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32)
    for column, step in enumerate(steps):
        if step == "copy":
            mo.copyto(atom, mo.tile(staged, (1, 1), (tid, column)), mo.tile(x, (1, 1), (tid, column)))
        elif step == "half":
            if tid % 32 < 16:
                mo.copyto(atom, mo.tile(staged, (1, 1), (tid, column)), mo.tile(x, (1, 1), (tid, column)))
        elif step == "commit":
            mo.cp_async_commit()
        elif step == "wait":
            mo.cp_async_wait()
        elif step == "half wait":
            if tid % 32 < 16:
                mo.cp_async_wait()
        elif step == "mma":
            mo.gemm(mma, tA, tB, tCrC)
        else:
            mo.cp_async_wait(step)
    mo.copyto(gC, tCrC)


@mo.kernel
def carried_scalar(x, y, n):
    """Scalars loaded one trip ahead, in a carried variable, used by arithmetic."""
    tid = mo.thread_idx().x
    ahead = x[tid]
    for k in range(n):
        here = ahead
        if k < n - 1:
            ahead = x[tid + 32 * (k + 1)]
        y[tid + 32 * k] = here * 2


@mo.kernel
def specialised(x, y, n, mma):
    """Warp 0 copies, warps 1 and 2 multiply: no warp has both."""
    tid = mo.thread_idx().x
    staged = mo.shared_array(mo.float32, mo.make_layout((32, 1, 2)))
    gY = mo.tile(y, (16, 4), (0, 0))
    if tid < 32:
        atom = mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32)
        for k in range(n):
            mo.copyto(atom, mo.tile(staged[:, :, k % 2], (1, 1), (tid, 0)), mo.tile(x, (1,), (tid,)))
            mo.cp_async_wait()
    else:
        thr = mma.get_slice(tid - 32)
        gC = thr.partition_C(gY)
        tC = thr.make_fragment_C(gC)
        tA = mo.make_fragment_like(tC)
        tC.fill(1)
        tA.fill(1)
        for _j in range(n):
            mo.gemm(mma, tA, tA, tC)
        mo.copyto(gC, tC)


def operands(tiles):
    """A, B (16, 4 * tiles) and C (16, 16), column-major."""
    rng = np.random.default_rng(tiles)
    A, B = (np.asfortranarray(rng.standard_normal((16, 4 * tiles), np.float32)) for _ in range(2))
    return A, B, np.full((16, 16), np.nan, np.float32, order="F")
