"""Kernels with ldmatrix, stmatrix and tensor cores, what they compute, and the shapes that have all of their cases.

In: nothing.  Out: ``ROUND_TRIPS`` and ``PRODUCTS``, name -> ``Case`` (kernel, arguments, block, what comes out).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import moye as mo
from moye.atoms.matrix import register_layout
from moye.layout import composition, make_layout

F16, TF32 = mo.mma.SM80_16x8x16_F32F16F16F32_TN, mo.mma.SM80_16x8x8_F32TF32TF32F32_TN
S8, F64 = mo.mma.SM80_16x8x32_S32S8S8S32_TN, mo.mma.SM80_8x8x4_F64F64F64F64_TN


@dataclass(frozen=True)
class Case:
    """A launch of one block: outputs come first, ``expected`` are their values."""

    kernel: Any
    arguments: tuple[Any, ...]
    block: int
    expected: tuple[np.ndarray, ...]
    tolerance: float = 0.0

    def compare(self, arguments):
        """Relative Frobenius error of each output within the tolerance; without one, bit by bit."""
        for found, wanted in zip(arguments, self.expected, strict=False):
            if not self.tolerance:
                assert np.array_equal(found, wanted)
                continue
            error = np.linalg.norm(found.astype(np.float64) - wanted) / np.linalg.norm(wanted)
            assert error <= self.tolerance, f"relative error {error:.1e}"


# --- one instruction there and back ----------------------------------------------------------------------------------


@mo.kernel
def round_trip(raw, dst, src, load, store, layout, pitch: mo.Constexpr):
    """Registers of every thread as ``load`` fills them, and the tile as ``store`` (or plain stores) writes it."""
    tid = mo.thread_idx().x
    s, t = mo.shared_array(src.dtype, layout), mo.shared_array(src.dtype, layout)
    rows, columns = mo.size(layout, 0), mo.size(layout, 1)
    if tid < rows:
        for j in mo.static_range(columns):
            s[tid, j] = src[tid * pitch + j]
    mo.sync_threads()
    regs = mo.fragment((load.atom.values, 1, 1), src.dtype)
    mo.copyto(load, regs, load.get_slice(tid).partition_S(s))
    for v in mo.static_range(load.atom.values):
        raw[tid, v] = regs[v, 0, 0]
    thr = load.get_slice(tid) if store is None else store.get_slice(tid)
    if store is None:
        mo.copyto(thr.partition_D(t), regs)
    else:
        mo.copyto(store, thr.partition_D(t), regs)
    mo.sync_threads()
    if tid < rows:
        for j in mo.static_range(columns):
            dst[tid, j] = t[tid, j]


NUMPY = {mo.int8: np.int8, mo.uint8: np.uint8, mo.float8_e4m3fn: ml_dtypes.float8_e4m3fn, mo.float16: np.float16,
         mo.bfloat16: ml_dtypes.bfloat16, mo.int16: np.int16, mo.float32: np.float32, mo.int32: np.int32}


def one_warp(op, dtype):
    """The tiled copy of one instruction: the rows of its matrices one below another."""
    row, rows = 128 // dtype.bits, 8 * op.matrices
    tv = composition(make_layout((row, rows), (rows, 1)), register_layout(op, dtype.bits))
    return mo.TiledCopy(mo.CopyAtom(op, dtype), make_layout(tv.mode(0), tv.mode(1)), (rows, row))


def held(thread, value, bits, transpose):
    """PTX ISA, ldmatrix: the (row of all matrices, element) that a thread's value is, from the figures alone."""
    per_word = 32 // bits
    matrix, part = divmod(value, per_word)
    row, column = thread // 4, thread % 4 * per_word + part
    if transpose:
        row, column = column, row
    return matrix * 8 + row, column


def round_trip_case(matrices, transpose, dtype, *, stmatrix, padded=False):
    row, rows = 128 // dtype.bits, 8 * matrices
    bits = np.random.default_rng(matrices).permutation(rows * row * 2) % 120
    src = bits.astype(np.int8 if dtype.bits == 8 else np.int16 if dtype.bits == 16 else np.int32)
    src = src.view(NUMPY[dtype]) if dtype.bits == 8 else bits.astype(NUMPY[dtype])
    tile = src.reshape(rows, 2 * row)[:, :row]
    values = 32 * matrices // dtype.bits
    raw = np.array([[tile[held(t, v, dtype.bits, transpose)] for v in range(values)] for t in range(32)])
    op = mo.LdMatrix(matrices, transpose=transpose)
    store = one_warp(mo.StMatrix(matrices, transpose=transpose), dtype) if stmatrix else None
    layout = make_layout((rows, row), (2 * row if padded else row, 1))
    return Case(round_trip, (np.zeros_like(raw), np.zeros_like(tile), src, one_warp(op, dtype), store, layout, 2 * row),
                32, (raw, tile.copy()))


ROUND_TRIPS = {
    f"x{n}{'-trans' if transpose else ''}-{dtype}-{'stmatrix' if stmatrix else 'st'}{'-padded' if padded else ''}":
        round_trip_case(n, transpose, dtype, stmatrix=stmatrix, padded=padded)
    for n in (1, 2, 4) for transpose in (False, True) for dtype in NUMPY for stmatrix in (False, True)
    for padded in (False, True) if (dtype.bits == 16 or not transpose) and (not padded or dtype is mo.float16)}

# --- products --------------------------------------------------------------------------------------------------------


@mo.kernel
def product(C, A, B, sA_layout, sB_layout, copy_A, copy_B, load_A, load_B, mma, store, sC_layout):
    """One block: C = A * B^T; smem by cp.async, registers by ldmatrix, C by plain stores or through stmatrix."""
    tid = mo.thread_idx().x
    sA, sB = mo.shared_array(A.dtype, sA_layout), mo.shared_array(B.dtype, sB_layout)
    thr_A, thr_B = copy_A.get_slice(tid), copy_B.get_slice(tid)
    bM, bN, bK = mo.size(sA, 0), mo.size(sB, 0), mo.size(sA, 1)
    gA, gB = mo.tile(A, (bM, bK), (0, 0)), mo.tile(B, (bN, bK), (0, 0))
    gC = mo.tile(C, (bM, bN), (0, 0))
    mo.copyto(copy_A, thr_A.partition_D(sA), thr_A.partition_S(gA))
    mo.copyto(copy_B, thr_B.partition_D(sB), thr_B.partition_S(gB))
    mo.cp_async_wait()
    mo.sync_threads()
    thr_mma, thr_lA, thr_lB = mma.get_slice(tid), load_A.get_slice(tid), load_B.get_slice(tid)
    tCrA, tCrB = thr_mma.partition_fragment_A(sA), thr_mma.partition_fragment_B(sB)     # (MMA, MMA_M, MMA_K)
    tCgC = thr_mma.partition_C(gC)                                      # (MMA, MMA_M, MMA_N)
    tCrC = thr_mma.make_fragment_C(tCgC)
    tCrC.fill(0)
    tCsA, tXrA = thr_lA.partition_S(sA), thr_lA.retile_D(tCrA)          # (CPY, CPY_M, CPY_K)
    tCsB, tXrB = thr_lB.partition_S(sB), thr_lB.retile_D(tCrB)          # (CPY, CPY_N, CPY_K)
    for k in mo.static_range(mo.size(tCrA, 2)):
        mo.copyto(load_A, tXrA[:, :, k], tCsA[:, :, k])
        mo.copyto(load_B, tXrB[:, :, k], tCsB[:, :, k])
        mo.gemm(mma, tCrA[:, :, k], tCrB[:, :, k], tCrC)
    if store is None:
        mo.copyto(tCgC, tCrC)
    else:
        sC = mo.shared_array(C.dtype, sC_layout)                        # (bM, bN)
        thr_C = store.get_slice(tid)
        mo.copyto(store, thr_C.partition_D(sC), thr_C.retile_S(tCrC.to(C.dtype)))
        mo.sync_threads()
        rows = mo.make_layout((mo.size(mma), 1))
        mo.copyto(mo.parallelize(gC, rows, tid), mo.parallelize(sC, rows, tid))


def cp_async_copy(dtype, major, threads, row=128):
    """16 bytes a thread along the rows of the shared-memory atom."""
    part, across = 128 // dtype.bits, row // 16
    down = threads // across
    thr = make_layout((down, across), (across, 1)) if major == "k" else make_layout((across, down))
    return mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.uint128, cache="global"), dtype), thr,
                              make_layout((1, part) if major == "k" else (part, 1)))


def product_case(op, atoms, perms, shape, major="k", row=128, loads=(4, 4), store=None):
    """C (M, N) = A B^T of one block; ``major`` of both operands, ``row`` bytes of their shared-memory atoms."""
    M, N, K = shape
    dtype = op.a_dtype
    mma = mo.make_tiled_mma(op, make_layout(atoms), perms)
    rng, kind = np.random.default_rng(0), np.float32 if dtype is mo.tfloat32 else NUMPY.get(dtype, np.float64)
    A, B = ((rng.integers(-8, 9, (n, K)) / (1 if dtype.is_integer else 8)).astype(kind) for n in (M, N))
    out = NUMPY[store.dtype] if store else np.int32 if dtype.is_integer else np.float32
    exact = A.astype(np.float64) @ B.astype(np.float64).T
    wanted = exact.astype(out)
    if major == "mn":
        A, B = np.asfortranarray(A), np.asfortranarray(B)
    atom = mo.smem_layout_atom(dtype, major, row)
    trans = major == "mn"
    load_A, load_B = (make(mo.CopyAtom(mo.LdMatrix(n, transpose=trans), dtype), mma) for make, n in zip(
        (mo.make_tiled_copy_A, mo.make_tiled_copy_B), loads, strict=True))
    copy = cp_async_copy(dtype, major, mo.size(mma), row)
    sC = mo.tile_to_shape(mo.smem_layout_atom(store.dtype, "k", 64), (M, N)) if store else None
    return Case(product, (np.zeros((M, N), out), A, B, mo.tile_to_shape(atom, (M, K)), mo.tile_to_shape(atom, (N, K)),
                          copy, copy, load_A, load_B, mma,
                          mo.make_tiled_copy_C(store, mma) if store else None, sC), mo.size(mma), (wanted,))


PRODUCTS = {
    "f16": product_case(F16, (2, 2), (32, 32, 16), (64, 64, 64)),
    "f16-large": product_case(F16, (2, 2), (32, 32, 16), (128, 128, 64)),
    "f16-64-byte-rows": product_case(F16, (2, 2), (32, 32, 16), (64, 64, 32), row=64),
    "f16-32-byte-rows": product_case(F16, (2, 2), (32, 32, 16), (64, 64, 16), row=32),
    "f16-x2": product_case(F16, (2, 2), (None, None, None), (64, 64, 64), loads=(4, 2)),
    "f16-x1": product_case(F16, (4, 1), (64, 8, 16), (64, 32, 64), loads=(2, 1)),
    "f16-mn-major": product_case(F16, (2, 2), (32, 32, 16), (64, 64, 64), major="mn"),
    "f16-stmatrix": product_case(F16, (4, 1), (64, 16, 16), (128, 64, 64),
                                 store=mo.CopyAtom(mo.StMatrix(4), mo.float16)),
    "tf32": product_case(TF32, (2, 2), (32, 32, 8), (64, 64, 32)),
    "s8": product_case(S8, (2, 2), (32, 32, 32), (64, 64, 128)),
}
