"""Folds, scans and matches on the GPU: NumPy's numbers in the documented order, and the simulator's bits."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from lang import test_collectives as threads
from tensor import test_accumulators as accumulators
from tensor import test_reductions as registers

FLOATS = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)


def on_gpu(kernel, grid, block, *args):
    """The arguments after a launch on the device."""
    placed = [mo.testing.array(x) if isinstance(x, np.ndarray) else x for x in args]
    kernel[grid, block](*placed)
    return [mo.testing.host(x) if isinstance(before, np.ndarray) else x for x, before in zip(placed, args, strict=True)]


def both(kernel, grid, block, *args):
    """The arguments after a launch on the device, which the simulator's equal bit by bit."""
    found = on_gpu(kernel, grid, block, *[x.copy("K") if isinstance(x, np.ndarray) else x for x in args])
    kernel[grid, block](*args)
    for mine, theirs in zip(args, found, strict=True):
        if isinstance(mine, np.ndarray):
            assert mine.tobytes() == theirs.tobytes()
    return found


@pytest.mark.parametrize("dtype", [*FLOATS, np.int32, np.uint8])
def test_registers(dtype):
    rng = np.random.default_rng(0)
    x = np.asfortranarray((rng.standard_normal((48, 32)) * 4).astype(dtype if np.dtype(dtype).kind != "u" else np.int8)
                          .astype(dtype))
    for kind in ("sum", "max", "min"):
        for mode in (None, 0, 1):
            out = both(registers.folded, 1, 32, np.zeros_like(x), x, (8, 6), kind, mode)[0]
            wanted = registers.expected(x, (8, 6), kind, mode)
            assert (out[:len(wanted)] == wanted).all()
    for kind in ("argmax", "argmin"):
        for mode in (None, 0, 1):
            both(registers.placed, 1, 32, np.zeros((24, 32), dtype), np.zeros((24, 32), np.int32),
                 np.asfortranarray(x[:24]), kind, mode)


@pytest.mark.parametrize("dtype", FLOATS[:3])
def test_zeros_of_both_signs(dtype):
    """PTX has -0.0 below 0.0, and so has the simulator."""
    x = np.asfortranarray(np.where(np.random.default_rng(2).random((48, 32)) < 0.5, 0.0, -0.0).astype(dtype))
    for kind in ("max", "min"):
        for mode in (None, 0, 1):
            both(registers.folded, 1, 32, np.zeros_like(x), x, (8, 6), kind, mode)


@pytest.mark.parametrize("dtype", [*FLOATS, np.int32, np.uint16, np.int64])
def test_warps_and_blocks(dtype):
    x = threads.numbers(dtype, -4, 5) if np.dtype(dtype).kind in "iu" else \
        np.random.default_rng(1).standard_normal(threads.THREADS * threads.BLOCKS).astype(dtype)
    grid, block = threads.BLOCKS, threads.THREADS
    for kind in ("add", "max", *(("and", "xor") if np.dtype(dtype).kind in "iu" else ())):
        for width in (32, 8):
            out = both(threads.folded, grid, block, np.zeros_like(x), x, kind, width)[0]
            assert (out == threads.tree(threads.FOLDS[kind], x, width)).all()
        for inclusive in (True, False):
            both(threads.scanned, grid, block, np.zeros_like(x), x, kind, inclusive, 16)
            both(threads.scanned_block, grid, block, np.zeros_like(x), x, kind, inclusive)


@pytest.mark.parametrize(("block", "n"), [(32, 20), (40, 64), (72, 67)])
def test_lanes_that_are_not_there(block, n):
    x = np.arange(block, 0, -1, dtype=np.int32)
    both(threads.fold_of_some, 1, block, np.zeros((block, 2), np.int32), x, n)


@pytest.mark.parametrize("kind", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_pairs(dtype, kind):
    x = threads.numbers(dtype, -3, 4)
    if np.dtype(dtype).kind == "f":
        x[::5] = np.nan
    for whole in (True, False):
        both(threads.best, threads.BLOCKS, threads.THREADS, np.zeros_like(x), np.zeros(len(x), np.int32), x, kind,
             whole)


@pytest.mark.parametrize("mask", [0xFFFFFFFF, 0x0F0F00FF])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float16])
def test_matches(dtype, mask):
    x = threads.numbers(dtype, -2, 3)
    x[32:96] = 1
    both(threads.matched, threads.BLOCKS, threads.THREADS, np.zeros(len(x), np.uint32), np.zeros(len(x), np.uint32), x,
         mask)


@pytest.mark.parametrize("name", [name for name in accumulators.PRODUCTS if name != "quad pairs"])
def test_rows(name):
    mma, (M, N) = accumulators.PRODUCTS[name]
    dtype = np.float64 if mma.op.c_dtype == mo.float64 else np.float32
    C = (np.arange(M)[:, None] * 1000.0 + np.random.default_rng(0).permutation(N)).astype(dtype)
    size = mo.size(mma)
    rows = M * len(accumulators.row_members(mma)) // size
    out, folds = np.zeros((size, rows, M * N // size // rows), dtype), np.zeros((size, rows), dtype)
    both(accumulators.rows_of, 1, size, out, folds, C, "sum", mma)


@pytest.mark.parametrize("name", accumulators.CHAINS)
def test_accumulators_as_A(name):
    first, second, (M, N) = accumulators.CHAINS[name]
    X = np.random.default_rng(0).permutation(M * N).reshape(M, N).astype(np.float16)
    out = both(accumulators.as_A, 1, mo.size(first), np.zeros((mo.size(first), M * N // mo.size(first), 2), np.float16),
               X, first, second)[0]
    assert (out[:, :, 0] == out[:, :, 1]).all()
