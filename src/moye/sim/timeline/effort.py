"""What an op asks of which unit of a multiprocessor of sm_90: the rates of the model of a timeline's clocks.

In: an op.  Out: ``Effort``s, clocks of one warp on a unit; empty for what takes no unit.

    efforts_of(wgmma)       # (Effort("tensor", 512.0),)

Tensor cores, arithmetic and special functions are there four times, for the warps 0, 4, 8, ... and so on; shared
memory and the way to global memory once.  Scalar arithmetic takes no time: only tiles are counted.  Sources: NVIDIA
H100 Tensor Core GPU Architecture (2022); CUDA C++ Programming Guide, arithmetic instructions; Luo et al.: Benchmarking
and Dissecting the Nvidia Hopper GPU Architecture (2024), for mma.sync.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal as OneOf

from moye.dtypes import Space, float64
from moye.hardware import WARP
from moye.ir import ops
from moye.ir.nodes import Func, TensorParam
from moye.sim.timeline.kinds import kind_of

Unit = OneOf["tensor", "math", "special", "shared", "memory"]
PRODUCTS = 512
"""Multiply-adds of 16-bit operands a clock on one of the four tensor cores."""
SYNCHRONOUS = 0.625
"""How much of that mma.sync reaches."""
SPECIAL = 4
"""Results of exp2, log2, rcp and the like a clock on one of the four units; of ordinary arithmetic it is WARP."""
ACCURATE = 6
"""Ordinary instructions beside an accurate function or a division."""
SHARED = 128
"""Bytes a clock."""
MEMORY = 64
"""Bytes a clock from L2 to one multiprocessor; if all ask at once there may be less."""
LATENCY = 700
"""Clocks until what was loaded is there, beside those that its bytes take."""
_FUNCTIONS = {"exp", "exp2", "log", "log2", "log10", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh", "erf", "sigmoid",
              "rcp", *ops.SLOW_MATH}


@dataclass(frozen=True, slots=True)
class Effort:
    """Clocks of one warp on a unit."""

    unit: Unit
    clocks: float


def efforts_of(op: ops.Op, func: Func) -> tuple[Effort, ...]:
    """What one warp asks for that runs ``op`` with all lanes."""
    if isinstance(op, (ops.Wgmma, ops.Gemm)):
        return (_product(op),)
    if isinstance(op, ops.TmaCopy):
        return (Effort("memory", _box(op, func) / MEMORY),) if op.kind in ("load", "store", "reduce") else ()
    if isinstance(op, ops.BulkCopy):
        return (Effort("memory", op.run / MEMORY),)
    if isinstance(op, (ops.Map, ops.Reduce)) and kind_of(op) is None:
        return _arithmetic(op)
    return _moved(op) if kind_of(op) in ("cp.async", "copy", "load", "read", "write", "store") else ()


def _product(op: ops.Wgmma | ops.Gemm) -> Effort:
    count = math.prod(op.extents) * math.prod(op.mma.shape_mnk)
    if op.mma.threads < WARP:
        return Effort("math", float(count))
    rate = PRODUCTS / 16 if op.mma.a_dtype is float64 else PRODUCTS * 16 / op.mma.a_dtype.bits
    if isinstance(op, ops.Gemm):
        return Effort("tensor", count / (rate * SYNCHRONOUS))
    return Effort("tensor", count * WARP / op.mma.threads / rate)


def _box(op: ops.TmaCopy, func: Func) -> int:
    """Bytes of the box of a tensor map."""
    return next(param.tensor_map.bytes for param in func.params
                if isinstance(param, TensorParam) and param.buffer is op.tensor and param.tensor_map is not None)


def _arithmetic(op: ops.Map | ops.Reduce) -> tuple[Effort, ...]:
    points = math.prod(op.extents)
    if isinstance(op, ops.Reduce):
        return (Effort("math", float(points)),)
    plain = special = 0
    for inner in op.body:
        kind = getattr(inner, "kind", "")
        function = isinstance(inner, ops.Unary) and kind in _FUNCTIONS
        division = isinstance(inner, ops.Binary) and kind == "div" and inner.result.dtype.is_float
        special += function or division
        plain += ACCURATE if division or (function and not getattr(inner, "fast", False)) else not function
    found = [Effort("math", float(points * plain))] if plain else []
    return (*found, Effort("special", points * special * WARP / SPECIAL)) if special else tuple(found)


def _moved(op: ops.Op) -> tuple[Effort, ...]:
    """By the spaces that are read and written, of all lanes."""
    width = op.width if isinstance(op, ops.Copy) else 1
    count = math.prod(extent for extent in getattr(op, "extents", ()) if isinstance(extent, int)) * width * WARP
    amount = count * max(ref.dtype.bits for ref, _ in op.refs()) / 8
    spaces = {ref.buffer.root.space for ref, _ in op.refs()}
    found = []
    if Space.GLOBAL in spaces:
        found.append(Effort("memory", amount / MEMORY))
    if Space.SHARED in spaces:
        found.append(Effort("shared", amount / SHARED))
    return tuple(found)
