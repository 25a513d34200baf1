"""``packed`` in the checking simulator, bit by bit: dtypes, orders, offsets, ragged sizes, batches, lints."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from moye.kernels import gemm_sm90, packed
from moye.kernels.pack import both_packed, copy_elements_kernel, copy_rows_kernel, make_plan, staged, transpose_kernel
from moye.kernels.workspace import words
from moye.layout import analysis
from moye.runtime.prepare import compile_only
from pairs import pairs

DTYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "e4m3": ml_dtypes.float8_e4m3fn,
          "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "u8": np.uint8}
ONE_OF_A_WIDTH = ["f32", "bf16", "e4m3"]
RAGGED = [(1, 1), (1, 40), (40, 1), (3, 17), (37, 41), (130, 67), (33, 129)]


def bits(x):
    return np.ascontiguousarray(x).view(f"u{x.itemsize}")


def array(name, rows, K, order, *, batches=(), behind=0, gap=0):
    """Random bits, NaNs among them; "K" or "M" contiguous, lines ``gap`` elements longer than what is used of them, the
    first one ``behind`` elements behind a multiple of 16 bytes."""
    rng, dtype = np.random.default_rng([rows, K, behind, gap]), np.dtype(DTYPES[name])
    lines, length = (rows, K) if order == "K" else (K, rows)
    shape = (*batches, lines, length + gap)
    count = int(np.prod(shape))
    raw = rng.integers(0, 256, (count + 32) * dtype.itemsize, np.uint8).view(dtype)
    first = -raw.ctypes.data % 16 // dtype.itemsize + behind
    x = raw[first:first + count].reshape(shape)[..., :length]
    x = np.moveaxis(x, 0, -1) if batches else x
    return x if order == "K" else np.swapaxes(x, 0, 1)


def check(x):
    """Packed without a finding, equal bit by bit, its rows multiples of 16 bytes apart; the last launch's report."""
    before = bits(x).copy()
    with mo.checking() as reports:
        y = packed(x)
    assert all(report.ok for report in reports), str(reports[0])
    assert y.dtype == x.dtype
    assert np.array_equal(bits(y), before)
    assert np.array_equal(bits(x), before)
    assert y.strides[1] == x.itemsize
    assert all(step % 16 == 0 for mode, step in enumerate(y.strides) if mode != 1)
    assert mo.describe(y).ptr % 16 == 0
    return reports[-1] if reports else None


@pytest.mark.slow
@pytest.mark.parametrize("order", "KM")
@pytest.mark.parametrize("name", DTYPES)
def test_dtypes_and_ragged_sizes(name, order):
    """Every size of one dtype of a width, in turn with and without a gap, the other way round in the other order.

    Of the other dtypes, whose bytes go the same way, two sizes.
    """
    sizes = RAGGED if name in ONE_OF_A_WIDTH else RAGGED[3::2]
    for i, (rows, K) in enumerate(sizes):
        check(array(name, rows, K, order, gap=3 * ((i + "KM".index(order)) % 2)))


@pytest.mark.slow
@pytest.mark.parametrize("order", "KM")
@pytest.mark.parametrize("name", ONE_OF_A_WIDTH)
def test_every_place_in_a_buffer(name, order):
    """Every remainder by 16 bytes; of single bytes those around each power of 2."""
    most = 16 // np.dtype(DTYPES[name]).itemsize
    for behind in (1, 2, 3, 4, 5, 7, 8, 9, 15) if most == 16 else range(1, most):
        check(array(name, 19, 35, order, behind=behind, gap=behind % 3))


@pytest.mark.slow
@pytest.mark.parametrize("order", "KM")
@pytest.mark.parametrize("name", ONE_OF_A_WIDTH)
def test_whole_tiles(name, order):
    most = 16 // np.dtype(DTYPES[name]).itemsize
    for gap in (0, 1, most // 2, most):
        check(array(name, 16 * most, 32 * most, order, gap=gap))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "order", "batches", "gap"), pairs(ONE_OF_A_WIDTH, "KM", (1, 3), (0, 5)))
def test_batches(name, order, batches, gap):
    x = array(name, 21, 37, order, batches=(batches,), gap=gap, behind=1)
    check(x)
    assert packed(x).shape == (21, 37, batches)


@pytest.mark.slow
@pytest.mark.parametrize("name", ONE_OF_A_WIDTH)
def test_any_other_strides(name):
    x = array(name, 40, 60, "K", gap=4)
    for view in (x[:, ::2], x[::3, ::2], x.T[::2, ::3], np.broadcast_to(x[:1, ::2], (9, 30)), x[::2, 7:8]):
        check(view)
    for view in (np.broadcast_to(x[:1], (9, 60)), np.broadcast_to(x[:, :1], (40, 9)), x[::7], x.T[:, ::7],
                 np.lib.stride_tricks.as_strided(x, (20, 30), (x.itemsize, x.itemsize))):
        check(view)
    check(np.moveaxis(array(name, 6, 10, "K", batches=(4,)), -1, 0))


@pytest.mark.parametrize("name, orders, launches", [
    *((name, orders, 1) for name in ("bf16", "f32") for orders in ("KK", "KM", "MK", "MM")), ("e4m3", "KK", 1),
    ("e4m3", "KM", 2), ("bf16", "K-", 2)])
def test_both_operands_in_one_launch(name, orders, launches):
    """Where their lines are contiguous, and blocks have as many threads for both."""
    for K, batches in ((67, ()), (130, ()), (67, (3,))):
        A = array(name, 131, K, orders[0], batches=batches, behind=1)
        B = array(name, 45, 2 * K, "K", batches=batches)[:, ::2] if orders[1] == "-" else \
            array(name, 45, K, orders[1], batches=batches, gap=1)
        with mo.checking() as reports:
            copies = both_packed(A, B)
        assert len(reports) == launches and all(report.ok for report in reports), reports
        for x, y in zip((A, B), copies, strict=True):
            assert np.array_equal(bits(y), bits(x)) and y.strides[1] == x.itemsize and mo.describe(y).ptr % 16 == 0
            assert all(step % 16 == 0 for mode, step in enumerate(y.strides) if mode != 1)


def test_both_operands_spill_nothing():
    for orders in ("KK", "KM", "MM"):
        arrays = [array("bf16", rows, 4097, order) for rows, order in zip((300, 200), orders, strict=True)]
        with compile_only("sm_90a") as built:
            both_packed(*arrays)
        program, = built.programs
        assert program.spills == 0 and "copy_both_kernel" in program.source


def test_nothing_to_copy():
    for shape in ((0, 5), (5, 0), (5, 3, 0)):
        assert packed(np.zeros(shape, np.float32)).shape == shape


def test_rows_of_1024_bytes_begin_at_whole_lines_of_128():
    assert packed(array("bf16", 4, 511, "K")).strides == (1024, 2)
    assert packed(array("bf16", 4, 513, "M")).strides == (1152, 2)
    assert packed(array("u8", 4, 33, "M")).strides == (48, 1)


@pytest.mark.parametrize("order", "KM")
def test_the_padding_does_not_matter_to_tma(order):
    A, B = array("f16", 72, 67, order), array("f16", 88, 67, "M")
    rng = np.random.default_rng(0)
    for x in (A, B):
        x[...] = rng.standard_normal(x.shape)
    a, b = packed(A), packed(B)
    for x in (a, b):
        x.base[67:] = np.nan
    C = np.full((72, 88), np.nan, np.float16)
    gemm_sm90(a, b, C)
    assert np.allclose(C, A.astype(np.float64) @ B.astype(np.float64).T, atol=0.05)


@pytest.mark.parametrize(("name", "order", "rows", "K", "gap"), [
    ("bf16", "K", 24, 4097, 0), ("u8", "K", 24, 4097, 0), ("f32", "K", 24, 2051, 0), ("bf16", "K", 24, 4096, 8),
    ("u8", "M", 512, 512, 0), ("bf16", "M", 256, 512, 0), ("f32", "M", 256, 256, 0), ("bf16", "M", 257, 512, 0)])
def test_whole_sectors_and_no_bank_conflicts(name, order, rows, K, gap):
    """No lint, and the requests counted: 16 bytes a thread, all of a request's sectors used but one at each end."""
    report = check(array(name, rows, K, order, gap=gap))
    assert not report.lints
    lines = [line for line in report.counters()["lines"] if line["instruction"].endswith(".v4")]
    assert len(lines) >= 2
    for line in lines:
        spent = line["sectors"] if line["space"] == "global" else line["wavefronts"]
        assert spent <= line["ideal"] + (line["requests"] if line["space"] == "global" else 0)


@pytest.mark.parametrize(("v", "tiles"), [(16, (1, 2)), (8, (2, 2)), (4, (2, 2))])
def test_the_staged_tile_has_no_bank_conflicts(v, tiles):
    """Stored are v x v elements a thread, one row at a time, and loaded is one part a thread along the rows."""
    across, along = (8 * n for n in tiles)
    layout = staged(v, across, along)
    assert mo.size(layout) == across * along * v * v
    store = mo.make_layout(((across, along), v), ((v, across * v * v), across * v))
    load = mo.make_layout(((along, 2), v), ((across * v * v, 1), across * v))
    for access, places in (("st", store), ("ld", load)):
        where = analysis.thread_values(places, (across * v, along * v), layout)
        assert analysis.bank_conflicts(where, 128 // v, access, vector=v).degree == 1


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "order", "whole"), pairs([mo.int8, mo.bfloat16, mo.float32], "KM", [False, True]),
                         ids=str)
def test_instructions(dtype, order, whole):
    """16-byte loads and stores on the GPU, and no spills, wherever lines begin."""
    memory, grain = mo.TensorLike(mo.int32, (1 << 20,)), 16 if whole else dtype.bytes
    pitch = 16896 // dtype.bytes
    room = mo.TensorLike(dtype, (4096, pitch, 1), (pitch, 1, 4096 * pitch))
    strides = (4097, 1, 4096 * 4097) if order == "K" else (1, 4097, 4097 * 4096)
    X = mo.TensorLike(dtype, (4096, 4096, 1), strides, align=grain)
    kernel, plan = (copy_rows_kernel, make_plan(grain, False, False)) if order == "K" else \
        (transpose_kernel, make_plan(grain, False, False, True, (1, 2) if dtype.bytes == 1 else (2, 2)))
    compiled = kernel.compile(X, memory, 0, 4097 * dtype.bytes, 0, room, 4096, plan,
                              block=256 if order == "K" else plan.threads, arch="sm_90a")
    assert compiled.spills == 0
    parts = 4 if order == "K" else 16 // dtype.bytes
    assert compiled.sass.count("LDG.E.128") == parts * (1 if whole else 2)
    assert compiled.sass.count("STG.E.128") >= 4


@pytest.mark.slow
def test_more_than_32_bits_of_bytes_are_counted_in_64(monkeypatch):
    monkeypatch.setattr("moye.kernels.pack._WIDE", 64)
    for name, order in itertools.product(ONE_OF_A_WIDTH, "KM"):
        check(array(name, 19, 35, order, batches=(2,), behind=1))
    check(array("bf16", 19, 35, "K")[:, ::2])


def test_words_of_memory():
    for behind, count in itertools.product(range(8), range(1, 40)):
        x = array("f16", 1, count, "K", behind=behind)
        found = words(x, mo.describe(x))
        whole = max(0, (behind + count) * 2 // 16 - -(-behind * 2 // 16))
        assert (found is None) == (whole == 0)
        if found is not None:
            assert found[0].size == 4 * whole
            assert found[0].ctypes.data + found[1] == x.ctypes.data


@pytest.mark.parametrize(("x", "message"), [
    (3, "packed: X is a int: it copies torch, CuPy and NumPy arrays"),
    (mo.TensorLike(mo.float32, (4,)), "packed: X must be a matrix"),
    (np.zeros(4, np.float32), r"packed: X must be a matrix or a batch of them, not \(4,\)"),
    (np.zeros((4, 4)), "packed: X holds float64, of 8 bytes; it may have 1, 2 or 4"),
    (np.zeros((4, 4), np.float32)[::-1], "packed: X has a negative stride -4")])
def test_what_is_refused(x, message):
    with pytest.raises(mo.ArgumentError, match=message):
        packed(x)


def test_elements_take_their_own_way():
    """What is contiguous in no mode, and what is shorter than 16 whole bytes."""
    for x in (array("f32", 8, 16, "K")[:, ::2], array("u8", 3, 3, "K", behind=9)):
        assert check(x).kernel == copy_elements_kernel.__name__
