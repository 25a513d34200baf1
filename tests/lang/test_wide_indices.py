"""Kernels on more than 2^31 elements: arithmetic on block and thread indices does not leave the bits that it has."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye import dtypes as dt
from moye.ir import fold, ops
from moye.ir.nodes import Value

HUGE = mo.TensorLike(mo.float32, (3_000_000_000,))
SMALL = mo.TensorLike(mo.float32, (3_000_000,))


@mo.kernel
def direct(x, n):
    i = mo.block_idx().x * 256 + mo.thread_idx().x
    if i < mo.size(x):
        x[i] = 1.0


@mo.kernel
def strided(x, n):
    i = mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x
    while i < mo.size(x):
        x[i] = 1.0
        i += mo.grid_dim().x * mo.block_dim().x


@mo.kernel
def looped(x, n):
    for t in range(mo.block_idx().x, n, mo.grid_dim().x):
        i = t * 1024 + mo.thread_idx().x
        if i < mo.size(x):
            x[i] = 1.0


@mo.kernel
def by_thread(x, n):
    i = mo.thread_idx().x * 30_000_000 + (mo.thread_idx().x << 24)
    if i < mo.size(x):
        x[i] = 1.0


@mo.kernel
def carried(x, n):
    row = 0
    if n > 3:
        row = mo.block_idx().x
    i = row * 1_000_000 + mo.thread_idx().x
    if i < mo.size(x):
        x[i] = 1.0


@mo.jit
def flat(columns):
    return (mo.block_idx().y * mo.grid_dim().x + mo.block_idx().x) * columns + mo.thread_idx().x


@mo.kernel
def nested(x, n):
    i = flat(4096)
    if i < mo.size(x):
        x[i] = 1.0


KERNELS = [direct, strided, looped, by_thread, carried, nested]


def of_hardware(operand):
    """Whether an integer is made of block and thread indices, grid extents and constants."""
    op = operand.op if isinstance(operand, Value) else None
    if isinstance(op, (ops.Binary, ops.Cast)):
        return all(of_hardware(x) for x in op.operands())
    return isinstance(op, ops.Special) or not isinstance(operand, Value)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
def test_no_index_arithmetic_wraps(kernel):
    func = kernel.trace(HUGE, 7, block=256)
    assert func.index_bits == 64
    narrow = [op for op in func.body.walk() if isinstance(op, ops.Binary) and op.a.dtype is dt.int32
              and of_hardware(op.a) and of_hardware(op.b)]
    assert not [op for op in narrow if fold.may_overflow(op.kind, op.a, op.b)]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
def test_it_compiles_and_small_arrays_keep_32_bits(kernel):
    assert "long long" in kernel.compile(HUGE, 7, block=256, arch="sm_90a").source
    if kernel is not by_thread:
        assert "long long" not in kernel.compile(SMALL, 7, block=256, arch="sm_90a").source


def test_the_printed_arithmetic_is_wide():
    source = direct.compile(HUGE, 7, block=256, arch="sm_90a").source
    assert "(long long)blockIdx.x * 256" in source and "(int)blockIdx" not in source


def test_it_runs():
    """A view of more than 2^31 elements of one byte each: nothing but the touched pages is there."""
    @mo.kernel
    def mark(x, first):
        i = (mo.block_idx().x + first) * 256 + mo.thread_idx().x
        if i < mo.size(x):
            x[i] = 7

    x = np.zeros((1 << 31) + 100, np.int8)
    assert not mo.check(mark)[1, 256](x, 1 << 23).findings
    assert x[1 << 31:].tolist() == [7] * 100 and not x[:1000].any()


def test_a_product_that_wraps_in_32_bits_is_a_finding():
    """Of a number that launch gives: 32 bits wide, whatever the arrays are."""
    @mo.kernel
    def kernel(x, stride):
        i = mo.thread_idx().x * stride
        if i >= 0 and i < mo.size(x):
            x[i] = 7

    x = np.zeros(1 << 20, np.int8)
    assert mo.check(kernel)[1, 32](x, 1 << 24).ok
    report = mo.check(kernel)[1, 256](x, 1 << 24)
    assert [finding.code for finding in report.findings] == ["A11"]
