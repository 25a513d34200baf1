"""Kernels on more than 2^31 elements: arithmetic on block and thread indices does not leave the bits that it has."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye import dtypes as dt
from moye.ir import fold, ops
from moye.ir.nodes import Value
from moye.runtime.arguments import classify

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


@mo.kernel
def spread(x):
    """Tiles of 2^20 positions, of which the array has the first few: a wrapped index would be taken for one of them."""
    i = mo.block_idx().x * (1 << 20) + mo.thread_idx().x
    if i < mo.size(x):
        x[i] += 1


@mo.kernel
def within(x):
    i = mo.block_idx().x % 4 * (1 << 20) + mo.thread_idx().x
    if i < mo.size(x):
        x[i] += 1


def width(kernel, grid):
    x = np.zeros(64, np.float32)
    _, spec = kernel._checked(classify(kernel.signature, (x,), {}), (grid, 1, 1), (32, 1, 1), (1, 1, 1))
    return spec.func.index_bits


@pytest.mark.parametrize("kernel, grid, bits", [(spread, 1, 32), (spread, 2048, 32), (spread, 2049, 64),
                                                (spread, 1 << 20, 64), (within, 1 << 20, 32)])
def test_indices_that_a_grid_makes_too_large_have_64_bits(kernel, grid, bits):
    """The last index of 2048 blocks is 2^31 - 2^20 + 31."""
    assert width(kernel, grid) == bits


def test_a_grid_of_many_tiles_computes_what_it_must():
    x = np.zeros(64, np.float32)
    report = mo.check(spread)[4100, 32](x)
    assert report.ok, report
    assert (x[:32] == 1).all() and not x[32:].any(), "block 4096 would wrap to position 0, and 2048 to a negative one"


def test_a_kernel_that_cannot_have_64_bits_is_refused_by_name():
    @mo.kernel
    def carried(x):
        first = 0
        for _ in range(2):
            first = mo.block_idx().x * (1 << 20)
        if first < mo.size(x):
            x[first] = 1

    assert width(carried, 2048) == 32
    with pytest.raises(mo.TraceError, match="'first' is int32 before this loop and int64 at the end of its body"):
        width(carried, 2049)


@pytest.mark.parametrize("strides", [(0, 1), (1, 0), (1, 2)], ids=str)
def test_the_size_of_an_array_whose_elements_lie_on_each_other(strides):
    """It has more than 2^31 elements in few places, so that its indices have 32 bits and its size has not."""
    @mo.kernel
    def counted(out, x):
        out[0] = mo.size(x) // 3
        out[1] = x[1, 2]

    @mo.kernel
    def not_counted(out, x):
        out[0] = mo.size(x, 0) // 3

    shape = tuple(1 << 30 if stride == 0 else 5 for stride in strides) if 0 in strides else (1 << 16, 1 << 16)
    places = np.arange(1 << 18, dtype=np.int8)
    x = np.lib.stride_tricks.as_strided(places, shape, strides, writeable=False)
    out = np.zeros(2, np.int64)
    assert mo.check(counted)[1, 1](out, x).ok
    assert out.tolist() == [shape[0] * shape[1] // 3, int(x[1, 2])]
    assert mo.check(not_counted)[1, 1](out, x).ok and out[0] == shape[0] // 3
    bits = {k: {spec.func.index_bits for spec in k._specialised.values()} for k in (counted, not_counted)}
    assert 64 in bits[counted] and bits[not_counted] == {32}
    assert "long long" in counted.compile(out, x, block=1, arch="sm_90a").source
