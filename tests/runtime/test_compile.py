"""``compile_program``: what one specialisation is compiled for at once by several threads."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import moye as mo
from moye.cuda.printing import printer
from moye.dtypes import ALL
from moye.errors import ArgumentError
from moye.ir import ops
from moye.runtime import compile
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


@pytest.mark.parametrize("on", [True, False])
def test_nobody_looks_for_garbage_while_a_kernel_is_traced(on, monkeypatch):
    """Another thread may trace meanwhile, and a trace may fail; afterwards the collector is as it was."""
    like, real, seen = mo.TensorLike(mo.float32, (1024,)), compile.trace, []

    def trace(*args, **options):
        seen.append(gc.isenabled())
        if len(seen) == 1:
            twice.trace(like, like, block=160 + 32 * on)   # not traced before
            seen.append(gc.isenabled())
            raise ArgumentError("on purpose")
        return real(*args, **options)

    monkeypatch.setattr(compile, "trace", trace)
    if not on:
        gc.disable()
    try:
        with pytest.raises(ArgumentError, match="on purpose"):
            twice.trace(like, like, block=96)
        assert seen == [False, False, False]
        assert gc.isenabled() == on
    finally:
        gc.enable()


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


@pytest.mark.slow
def test_ptxas_keeps_the_store_before_a_load_of_the_same_array():
    from moye.cuda.compiler.nvrtc import _disassembler

    def stored(*args):
        return write_then_read.compile(*args, block=32, arch="sm_90a").sass.count("STG")

    if _disassembler() is None:
        pytest.skip("no disassembler is installed")
    assert (stored(ROW, ROW), stored(ROW, OTHER)) == (2, 1)


# --- what an architecture lacks --------------------------------------------------------------------------------------


def register_budget(x):
    mo.warpgroup_reg_alloc(240)
    x[mo.thread_idx().x] = 1.0


def fence_alone(x):
    mo.warpgroup_arrive()
    x[mo.thread_idx().x] = 1.0


def commit_alone(x):
    mo.warpgroup_commit_batch()
    x[mo.thread_idx().x] = 1.0


def wait_alone(x):
    mo.warpgroup_wait(0)
    x[mo.thread_idx().x] = 1.0


def cluster_barrier(x):
    mo.cluster_sync()
    x[mo.thread_idx().x] = 1.0


def narrow_floats(x):
    x[mo.thread_idx().x] = x[0].to(mo.float8_e4m3fn).to(mo.float32)


def bf16_sum(x):
    s = mo.shared_array(mo.bfloat16, (4,))
    mo.atomic_add(s, 0, 1.0)
    x[0] = s[0]


BODIES = [register_budget, fence_alone, commit_alone, wait_alone, cluster_barrier, narrow_floats, bf16_sum]
ARCHS = ["sm_80", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_103a", "sm_120", "sm_120a"]


@pytest.mark.slow
@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("arch", ARCHS)
def test_an_instruction_that_the_architecture_lacks_is_named(body, arch):
    """ptxas is never the one who says it: each compiles or is refused before."""
    kernel = mo.kernel(body)
    only = body in (fence_alone, commit_alone, wait_alone)
    try:
        registers = kernel.compile(mo.TensorLike(mo.float32, (128,)), block=128, arch=arch).registers
    except mo.errors.UnsupportedError as error:
        assert arch in str(error) and (not only or "90" not in arch)
    else:
        assert registers > 0 and (not only or "90" in arch)


@pytest.mark.parametrize("arch", ["sm_80", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("source", ["shared", "registers"])
def test_wgmma_is_named(arch, source):
    mma = mo.make_tiled_mma(mo.mma.wgmma(mo.float16, mo.float16, mo.float32, 64))
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float16, "k"), (64, 64))

    @mo.kernel
    def kernel(mma, layout):
        acc, s = mma.partition_fragment_C((64, 64)), mo.shared_array(mo.float16, layout)
        t = mma.get_slice(mo.thread_idx().x)
        mo.warpgroup_arrive()
        mo.gemm(mma, t.partition_fragment_A(s), t.partition_fragment_B(s), acc, accumulate=source == "shared")
        mo.warpgroup_commit_batch()
        mo.warpgroup_wait(0)

    with pytest.raises(mo.errors.UnsupportedError, match="sm_90a"):
        kernel.compile(mma, layout, block=128, arch=arch)


# --- atomics ---------------------------------------------------------------------------------------------------------


@mo.jit
def cas(x, i, value):
    return mo.atomic_cas(x, i, value, value)


@mo.kernel
def atomic(x, step: mo.Constexpr, shared: mo.Constexpr, used: mo.Constexpr):
    t = mo.shared_array(x.dtype, (8,)) if shared else x
    old = step(t, 0, x[1])
    if used:
        x[2] = old


@pytest.mark.parametrize("kind", ["add", "min", "max", "and", "or", "xor", "exch", "cas"])
def test_atomics_are_refused_while_tracing_or_compile(kind):
    step = cas if kind == "cas" else getattr(mo, f"atomic_{kind}")
    for dtype in ALL:
        spec, has = mo.TensorLike(dtype, (32,)), dtype in ops.ATOMICS[kind]
        for shared, used in ((False, True), (True, False)):
            if has:
                printer.print_kernel(atomic.trace(spec, step, shared, used, block=32))
            else:
                with pytest.raises(mo.errors.DTypeError, match=f"atomic_{kind} on {dtype}: there is one on"):
                    atomic.trace(spec, step, shared, used, block=32)
