"""Products for ``gemm_sm90`` in the simulator: operands inside poisoned memory, and their result in float64.

In: a kind of ``KINDS``, extents, strides, what is fused.  Out: C, after ``agree`` has launched and compared.

>>> agree("bf16", 100, 72, 40, "CFC", odd="A", bias="f32", activation="gelu", config=config)

Memory around and between the elements is NaN, and stays so around C.  The error may be 5% above that of rounding the
exact result once, and what sums in float32 cost; integers are exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from unittest import mock

import ml_dtypes
import numpy as np

import moye as mo
from moye.kernels import WarpgroupConfig, gemm_sm90

DTYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn,
          "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "u8": np.uint8, "s32": np.int32}
KINDS = {"bf16": ("bf16", "bf16", "bf16"), "f16": ("f16", "f16", "f16"), "tf32": ("f32", "f32", "f32"),
         "e4m3": ("e4m3", "e4m3", "bf16"), "e5m2": ("e5m2", "e5m2", "f16"), "mixed": ("e4m3", "e5m2", "f32"),
         "mixed_turned": ("e5m2", "e4m3", "f32"), "s8": ("s8", "s8", "s32"), "u8": ("u8", "u8", "s32")}
"""Dtypes of A, B and C; another C is asked for by ``out``."""
BYTES = {kind: np.dtype(DTYPES[a]).itemsize for kind, (a, _, _) in KINDS.items()}
"""Of an element of A."""


def tile(kind, bM, bN, stages=3, schedule="cooperative", groups=1, **more):
    """A configuration whose k tiles are rows of 128 bytes."""
    return WarpgroupConfig(bM, bN, 128 // BYTES[kind], stages, schedule, groups, **more)


def erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x)


ACTIVATIONS = {"none": lambda x: x, "relu": lambda x: np.maximum(x, 0),
               "gelu": lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))), "silu": lambda x: x / (1 + np.exp(-x))}


@dataclass(frozen=True)
class Memory:
    """A view ``x`` of poisoned memory, and all of that memory."""

    x: np.ndarray
    whole: np.ndarray

    def around(self):
        """The memory with zeros where the view is."""
        rest = self.whole.copy()
        seen_at(rest, self.x.ctypes.data - self.whole.ctypes.data, self.x.shape, self.x.strides)[...] = 0
        return rest.tobytes()


def seen_at(memory, first, shape, strides):
    """A view that begins so many bytes behind the start of memory; of any dtype, which ``as_strided`` is not."""
    return np.ndarray(shape, memory.dtype, memory, first, strides)


def poisoned(count, dtype):
    """Memory at a multiple of 128 bytes."""
    dtype = np.dtype(dtype)
    raw = np.zeros(count * dtype.itemsize + 128, np.uint8)
    memory = raw[-raw.ctypes.data % 128:][:count * dtype.itemsize].view(dtype)
    memory[...] = 77 if dtype.kind in "iu" else np.nan
    return memory


def place(shape, dtype, order="C", *, odd=False):
    """(rows, columns[, batches]) in memory; "C": columns are contiguous, "F": rows.

    Lines are multiples of 16 bytes apart, or an odd number of elements, and begin behind a poisoned element.
    """
    dtype = np.dtype(dtype)
    lines, length = shape[:2] if order == "C" else shape[1::-1]
    part = 16 // dtype.itemsize
    pitch = (length + 1) | 1 if odd else -(-length // part) * part + part
    apart = lines * pitch + (1 - lines * pitch % 2 if odd else part)        # of batches: an odd number, too
    first = 1 if odd else part
    batches = shape[2] if len(shape) == 3 else 1
    whole = poisoned(first + batches * apart + part, dtype)
    steps = [s * dtype.itemsize for s in (pitch, 1)]
    strides = (*(steps if order == "C" else steps[::-1]), *((apart * dtype.itemsize,) if len(shape) == 3 else ()))
    return Memory(seen_at(whole, first * dtype.itemsize, shape, strides), whole)


def filled(rng, shape, dtype, order="C", *, odd=False, small=False):
    """Random-normal, or integers of the whole range of 8 bits; ``small`` ones where products of several fit 32 bits."""
    memory = place(shape, dtype, order, odd=odd)
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(np.int8 if dtype == np.int32 else dtype)
        low, high = (max(info.min, -5), 5) if small else (info.min, info.max)
        memory.x[...] = rng.integers(low, high, shape, endpoint=True)
    else:
        memory.x[...] = rng.standard_normal(shape)
    return memory


def to_tf32(x):
    """To 10 bits of mantissa, ties to even."""
    bits = x.astype(np.float32).view(np.uint32)
    half = np.uint32(0xFFF) + (bits >> np.uint32(13) & np.uint32(1))
    return ((bits + half) & np.uint32(0xFFFFE000)).view(np.float32)


def seen(x):
    """An operand in float64 as the instruction has it."""
    return (to_tf32(x) if x.dtype == np.float32 else x).astype(np.float64)


@dataclass(frozen=True)
class Fused:
    """What is fused, as arrays: ``sums`` gives the result in float64 and the error that sums in float32 may have."""

    alpha: float
    beta: float
    C: np.ndarray | None
    residual: np.ndarray | None
    bias: np.ndarray | None
    rows: np.ndarray | None
    columns: np.ndarray | None

    def linear(self, A, B, part):
        """(alpha * row_scale * col_scale * A B^T + beta * C + residual + bias, its error); ``part`` of B's rows."""
        deep = (1,) * (A.ndim - 2)
        factor = self.alpha * np.ones((1, 1, *deep))
        if self.rows is not None:
            factor = factor * self.rows.astype(np.float64).reshape(-1, 1, *deep)
        if self.columns is not None:
            factor = factor * self.columns[part].astype(np.float64).reshape(1, -1, *deep)
        result = factor * np.einsum("mk...,nk...->mn...", A, B[part])
        size = np.abs(factor) * np.sqrt(np.einsum("mk...,nk...->mn...", A ** 2, B[part] ** 2))
        more = [] if self.C is None else [self.beta * self.C.astype(np.float64)]
        more += [] if self.residual is None else [self.residual.astype(np.float64)]
        more += [] if self.bias is None else [self.bias[part].astype(np.float64).reshape(1, -1, *deep)]
        for term in more:
            result, size = result + term, size + np.abs(term)
        return result, size * 2e-7 * math.sqrt(A.shape[1] + 16)


def expected(A, B, fused, reference, *, gated):
    """The result in float64, and the error that sums in float32 may have."""
    A, B = seen(A), seen(B)
    N = B.shape[0] // 2 if gated else B.shape[0]
    result, error = fused.linear(A, B, slice(0, N))
    result, error = reference(result), 1.2 * error
    if gated:
        more, mores = fused.linear(A, B, slice(N, None))
        result, error = result * more, error * np.abs(more) + np.abs(result) * mores
    return result, error


def expected_of(A, B):
    """The same of the product alone."""
    return expected(A, B, Fused(1, 0, None, None, None, None, None), ACTIVATIONS["none"], gated=False)


def check_error(C, exact, error):
    """No further from the exact result than its rounding, but for 5% and the accumulation."""
    if C.dtype.kind == "i":
        assert np.array_equal(C, exact), "sums of integers are exact"
        return
    got = C.astype(np.float64)
    assert np.isfinite(got).all(), f"{np.count_nonzero(~np.isfinite(got))} elements of C are not finite"
    rounding = np.linalg.norm(exact.astype(C.dtype).astype(np.float64) - exact)
    found, bound = np.linalg.norm(got - exact), 1.05 * rounding + np.linalg.norm(error)
    assert found <= bound, f"error {found:.2e}, allowed {bound:.2e}, of rounding alone {rounding:.2e}"


def agree(kind, M, N, K, orders="CCC", *, out=None, batches=None, odd="", alpha=1, beta=0, bias=None, residual=None,
          row_scale=None, col_scale=None, activation="none", reference=None, gated=False, blocks=132, **options):
    """One launch against float64; ``bias``, ``residual``, ``row_scale`` and ``col_scale`` are their dtypes.

    ``odd``: letters of arrays, of A, B, C, R (the residual) and V (the vectors), that begin and step at odd elements.
    ``reference``: of an activation of one's own.  ``blocks``: how many the persistent grid has at most.
    """
    rng, last = np.random.default_rng([M, N, K]), () if batches is None else (batches,)
    a, b, c = (DTYPES[name] for name in (*KINDS[kind][:2], out or KINDS[kind][2]))
    A, B = (filled(rng, (rows, K, *last), dtype, order, odd=letter in odd, small=gated).x
            for rows, dtype, order, letter in ((M, a, orders[0], "A"), ((1 + gated) * N, b, orders[1], "B")))
    memory = filled(rng, (M, N, *last), c, orders[2], odd="C" in odd)
    C = memory.x
    vectors = {name: filled(rng, (1, count), DTYPES[dtype], odd="V" in odd, small=True).x[0] for name, dtype, count in
               (("bias", bias, B.shape[0]), ("row_scale", row_scale, M), ("col_scale", col_scale, B.shape[0]))
               if dtype is not None}
    if residual is not None:
        vectors["residual"] = filled(rng, (M, N, *last), DTYPES[residual], orders[2], odd="R" in odd).x
    before = C.copy() if beta else None
    if not beta:
        C[...] = np.nan if C.dtype.kind != "i" else -77
    around = memory.around()
    with mock.patch.object(mo, "multiprocessors", lambda array: blocks):
        found = gemm_sm90(A, B, C, alpha=alpha, beta=beta, activation=activation, gated=gated, **vectors, **options)
    assert found is C
    fused = Fused(alpha, beta, before, vectors.get("residual"), vectors.get("bias"), vectors.get("row_scale"),
                  vectors.get("col_scale"))
    check_error(C, *expected(A, B, fused, reference or ACTIVATIONS[activation], gated=gated))
    assert memory.around() == around, "something around C was written"
    return C


def clean(*args, launches=1, **options):
    """``agree`` under every check: a report without findings for each launch, of packed copies and of the product."""
    with mo.checking() as reports:
        agree(*args, **options)
    assert len(reports) == launches, f"{len(reports)} launches"
    for report in reports:
        assert report.ok, str(report)
