"""Kernels of few rows ask for all that they read before they wait for any of it: one way to memory, or two where a
label says which logit is wanted.  The machine code tells.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import moye as mo
from moye import kernels
from moye.runtime.prepare import compile_only

BF16, F32, I64 = mo.bfloat16, mo.float32, mo.int64
LINE = re.compile(r"/\*[0-9a-f]{4}\*/\s+(?P<when>@!?U?P\d+ )?\s*(?P<op>[A-Z0-9_.]+)\s*(?P<rest>.*);")


def array(dtype: Any, *shape: int) -> mo.TensorLike:
    """A row-major array of no memory."""
    steps = [1]
    for n in shape[:0:-1]:
        steps.insert(0, steps[0] * n)
    return mo.TensorLike(dtype, shape, tuple(steps))


def ways(sass: str) -> int:
    """How many loads from global memory wait for one another, in the order of the text: 1 if none does."""
    level, most, pending = 1, 0, dict[int, int]()
    for line in sass.splitlines():
        if (found := LINE.search(line)) is None:
            continue
        op, registers = found["op"], [int(n) for n in re.findall(r"\bR(\d+)\b", found["rest"])]
        stores = op.startswith(("ST", "RED"))
        writes = not stores and found["rest"].lstrip().startswith("R")
        for register in registers[1:] if writes else registers:
            if register in pending:
                level = max(level, pending.pop(register) + 1)
        if op.startswith("LDG"):
            most = max(most, level)
            words = 4 if ".128" in op else 2 if ".64" in op else 1
            pending.update(dict.fromkeys(range(registers[0], registers[0] + words), level))
        elif writes:
            pending.pop(registers[0], None)
        if op.split(".")[0] in ("EXIT", "BRA") and not found["when"]:
            level = 1                                   # what follows comes from elsewhere
    return most


def rms(rows: int, n: int) -> Callable[[], Any]:
    x = array(BF16, rows, n)
    return lambda: kernels.rms_norm(x, x, array(BF16, n))


def layer(rows: int, n: int) -> Callable[[], Any]:
    x = array(BF16, rows, n)
    return lambda: kernels.layer_norm(x, x, array(BF16, n), array(BF16, n))


def residual(rows: int, n: int) -> Callable[[], Any]:
    x = array(BF16, rows, n)
    return lambda: kernels.rms_norm(array(BF16, rows, n), x, array(BF16, n), residual=array(BF16, rows, n), summed=x)


def entropy(rows: int, n: int) -> Callable[[], Any]:
    return lambda: kernels.cross_entropy(array(F32, rows), array(BF16, rows, n), array(I64, rows), lse=array(F32, rows),
                                         reduction="none")


def entropy_backward(rows: int, n: int) -> Callable[[], Any]:
    x = array(BF16, rows, n)
    return lambda: kernels.cross_entropy_backward(x, array(F32, 1), x, array(I64, rows), array(F32, rows))


def reduced(kind: str, axis: int, rows: int, n: int) -> Callable[[], Any]:
    out = array(I64 if kind == "argmax" else F32, (rows, n)[1 - axis])
    return lambda: kernels.reduce(out, array(BF16, rows, n), kind, axis=axis)


def scanned(axis: int, rows: int, n: int) -> Callable[[], Any]:
    return lambda: kernels.cumsum(array(BF16, rows, n), array(BF16, rows, n), axis=axis)


def gates(rows: int, n: int) -> Callable[[], Any]:
    dgate, dup, dout, gate, up = (array(BF16, rows, n) for _ in range(5))
    return lambda: kernels.swiglu_backward((dgate, dup), dout, gate, up)


CASES = {
    "rms 3x544": (rms(3, 544), 1), "rms 7x112": (rms(7, 112), 1), "rms 7x1001": (rms(7, 1001), 1),
    "rms 64x4096": (rms(64, 4096), 1), "layer 9x576": (layer(9, 576), 1), "layer 7x1001": (layer(7, 1001), 1),
    "layer 64x4096": (layer(64, 4096), 1), "residual 15x256": (residual(15, 256), 1),
    "residual 64x4096": (residual(64, 4096), 1), "entropy 35x384": (entropy(35, 384), 2),
    "entropy 64x4096": (entropy(64, 4096), 2), "entropy backward 13x392": (entropy_backward(13, 392), 1),
    "entropy backward 4096x4096": (entropy_backward(4096, 4096), 1),
    "entropy backward 7x1001": (entropy_backward(7, 1001), 1),
    "max 236x2176": (reduced("max", 0, 236, 2176), 1), "argmax 33x72": (reduced("argmax", 0, 33, 72), 1),
    "sum 35x23552": (reduced("sum", 0, 35, 23552), 1), "sum of rows 4x6936": (reduced("sum", 1, 4, 6936), 1),
    "argmax of rows 64x4096": (reduced("argmax", 1, 64, 4096), 1), "scan 13x1408": (scanned(0, 13, 1408), 1),
    "scan 81x112": (scanned(0, 81, 112), 1), "scan of rows 6x4096": (scanned(1, 6, 4096), 1),
    "scan of rows 1x937": (scanned(1, 1, 937), 1), "gates 31x11173": (gates(31, 11173), 1),
    "gates 6x74": (gates(6, 74), 1)}


@pytest.mark.parametrize("name", CASES)
def test_ways_to_memory(name):
    """Of the kernel that reads rows; others add up what it, or labels, come to."""
    run, expected = CASES[name]
    with compile_only("sm_90a") as compiled:
        run()
    program, = (p for p in compiled.programs if p.printed.name not in ("total_kernel", "join_kernel"))
    assert ways(program.sass) == expected
