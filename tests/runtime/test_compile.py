"""``compile_program``: what one specialisation is compiled for at once by several threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import moye as mo
from moye.cuda import printer
from moye.runtime.arguments import classify
from moye.runtime.compile import compile_program


@mo.kernel
def twice(x, y):
    i = mo.block_idx().x * 64 + mo.thread_idx().x
    y[i] = x[i] * 2.0


def test_overlapping_and_other_arguments_are_compiled_at_once(monkeypatch):
    """Each program is printed for its own arguments, wherever the other thread is."""
    like, real, inner = mo.TensorLike(mo.float32, (1024,)), printer.print_kernel, []
    spec = twice.specialised(classify(twice.signature, (like, like), {}), (64, 1, 1))

    def print_kernel(func, **options):
        if not inner:                                   # another thread gets this far meanwhile
            inner.append(None)
            inner.append(compile_program(spec, "sm_90a", restrict=True))
        return real(func, **options)

    monkeypatch.setattr(printer, "print_kernel", print_kernel)
    overlapping = compile_program(spec, "sm_90a", restrict=False)
    assert "__restrict__" not in overlapping.source and "__restrict__" in inner[1].source


# --- arguments that overlap, without a launch ------------------------------------------------------------------------

MEMORY = np.zeros((64, 64), np.float32)
TILED = mo.make_layout((8, 8), (8, 1))


@dataclass(frozen=True)
class Operands:
    source: Any
    target: Any


@mo.kernel
def write_then_read(y, x):
    i = mo.thread_idx().x
    y[i] = 1.0
    y[i] = x[i] + 1.0


@mo.kernel
def of_records(pair, rest):
    i = mo.thread_idx().x
    pair.target[i] = pair.source[i] + rest[0][i]


@mo.kernel
def only_reads(y, a, b):
    i = mo.thread_idx().x
    y[i] = a[i] + b[i]


@mo.kernel
def adds(y, x):
    mo.atomic_add(y, (mo.thread_idx().x,), x[0])


@mo.kernel
def by_tma(tma, x):
    s = mo.shared_array(mo.float32, TILED, align=128)
    tile = mo.tile(tma.tensor, (8, 8), (0, 0))
    if mo.thread_idx().x == 0:
        s[0, 0] = x[0, 0]
        mo.copyto(tma, tile, s)
        mo.tma_store_wait(0, read=False)


def stores(array):
    return mo.make_tma_copy(mo.TmaStore(), array, TILED)


ROW, OTHER = MEMORY[0], MEMORY[1]


@pytest.mark.parametrize(("kernel", "args", "apart"), [
    (write_then_read, (ROW, ROW), False),
    (write_then_read, (ROW[:40], ROW[30:]), False),
    (write_then_read, (MEMORY[:, 3], OTHER), False),
    (write_then_read, (ROW, OTHER), True),
    (write_then_read, (ROW[:32], ROW[32:]), True),
    (write_then_read, (ROW[::2], ROW[1::2]), True),
    (write_then_read, (mo.TensorLike(mo.float32, (64,)),) * 2, True),
    (of_records, (Operands(ROW, ROW), (OTHER,)), False),
    (of_records, (Operands(OTHER, ROW), (ROW[:9],)), False),
    (of_records, (Operands(OTHER, ROW), (OTHER,)), True),
    (only_reads, (ROW, OTHER, OTHER), True),
    (only_reads, (ROW, OTHER, ROW), False),
    (adds, (ROW, ROW), False),
    (by_tma, (stores(MEMORY), MEMORY), False),
    (by_tma, (stores(MEMORY[:32]), MEMORY[32:]), True),
], ids=str)
def test_restrict_is_printed_where_what_is_written_overlaps_nothing(kernel, args, apart):
    compiled = kernel.compile(*args, block=32, arch="sm_90a")
    assert ("__restrict__" in compiled.source) is apart
    with mo.compile_only("sm_90a") as gathered:
        kernel[1, 32](*args)
    assert gathered.programs == [kernel.specialised(classify(kernel.signature, args, {}), (32, 1, 1)).programs[
        "sm_90a", apart, False, False]]


def test_ptxas_keeps_the_store_before_a_load_of_the_same_array():
    from moye.cuda.nvrtc import _disassembler

    def stored(*args):
        return write_then_read.compile(*args, block=32, arch="sm_90a").sass.count("STG")

    if _disassembler() is None:
        pytest.skip("no disassembler is installed")
    assert (stored(ROW, ROW), stored(ROW, OTHER)) == (2, 1)
