"""The k largest in the checking simulator: any k, dtypes and strides, ties by index, NaN, zeros, infinities."""

from __future__ import annotations

import sys

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from drawn_arrays import FLOATS, clean, drawn, laid_out, poisoned, wide
from moye.kernels import top_k
from moye.kernels.top_k import make_plan, top_k_kernel
from moye.kernels.top_k_list import expected_of, listed
from moye.kernels.top_k_warps import WARPS, top_k_warps_kernel, warp_plan
from moye.kernels.views import Mode
from moye.runtime.prepare import compile_only

module = sys.modules["moye.kernels.top_k"]


def exact(x, k, largest=True):
    """Indices by a stable sort, NaN above all numbers."""
    y = wide(x)
    rank = np.where(np.isnan(y), np.inf, y)
    order = np.lexsort((np.broadcast_to(np.arange(y.shape[-1]), y.shape), *((-rank, ~np.isnan(y)) if largest else
                                                                             (rank, np.isnan(y)))), axis=-1)
    return order[..., :k]


def check(x, k, largest=True, dtype=np.int64, outputs=None):
    values, indices = outputs or (np.zeros((*x.shape[:-1], k), x.dtype), np.zeros((*x.shape[:-1], k), dtype))
    with clean():
        top_k(values, indices, x, largest=largest)
    expected = exact(x, k, largest)
    assert np.array_equal(indices, expected)
    assert np.array_equal(wide(values), wide(np.take_along_axis(x, expected, -1)), equal_nan=True)


@pytest.mark.parametrize("seed", range(8))
def test_drawn(seed):
    rng = np.random.default_rng(seed)
    name = list(FLOATS)[seed % 4]
    rows = tuple(int(n) for n in rng.integers(1, 5, rng.integers(0, 3)))
    n = int(rng.choice([1, 2, 7, 40, 300, 2500]))
    k = int(rng.integers(1, min(n, 60) + 1))
    x = drawn(rng, (*rows, n), name)
    outputs = poisoned(rng, (*rows, k), name), laid_out(rng, np.zeros((*rows, k), [np.int32, np.int64][seed % 2]))
    check(x, k, bool(seed // 2 % 2), outputs=outputs)


@pytest.mark.parametrize("k", [128, 513])
def test_many_of_long_rows(k):
    x = np.random.default_rng(k).standard_normal((1, 16500 if k == 128 else 513)).astype(np.float32)
    check(x, k)


@pytest.mark.parametrize("seed", range(18))
def test_large_k(seed):
    """Each room from 64 to 2048, once exactly filled and else not, by 256 threads and, of one row, by 1024."""
    rng, room = np.random.default_rng(seed), 64 << seed % 6
    name, long = list(FLOATS)[int(rng.integers(4))], seed % 3 == 0
    k = room if seed < 6 else int(rng.integers(room // 2 + 1, room))
    n = 4096 * 16 // FLOATS[name]().itemsize + 1 if long else int(rng.integers(max(k, 600), 3 * k + 900))
    x = rng.standard_normal((1 if long else 3, n)) * (1 if seed % 2 else 30)
    x = (x if seed % 2 else np.round(x)).astype(FLOATS[name])
    x[rng.random(x.shape) < 0.02] = np.nan
    check(laid_out(rng, x, 1.0 if long else 0.4), k, bool(seed // 2 % 2), np.int32)


@pytest.mark.parametrize(("n", "largest"), [(65536, True), (65536, False), (65537, True), (70001, False)])
def test_places_of_more_bits_than_an_element(n, largest):
    """Words of 32 bits have the places of 65536 elements of 16 bits; those of more have 64."""
    x = np.full(n, 1.0, np.float16)
    x[-300:] = 2.0 if largest else np.nan
    check(x, 500, largest)
    x[:-300] = 3.0 if largest else np.nan
    x[5::7] = np.nan
    check(x, 500, largest)
    check(np.full(n, np.nan, np.float16), 33, largest)


@pytest.mark.parametrize("n", [2000, 2048])
def test_all_of_a_row(n):
    """Keys of 0 among them, as of the words that fill a room."""
    x = np.random.default_rng(n).standard_normal(n).astype(np.float16)
    x[-40:] = np.nan
    check(x, n, False)


@pytest.mark.parametrize("seed", range(12))
def test_rows_of_warps_in_chunks(monkeypatch, seed):
    """Many chunks, ties in all of them, the last word at any place of a chunk."""
    monkeypatch.setattr(module, "by_warps", lambda *given: True)
    rng = np.random.default_rng(seed)
    name = ["bf16", "f16", "f32"][seed % 3]
    n, rows = int(rng.integers(257, 2049)), int(rng.integers(1, 7))
    k = int(rng.choice([1, int(rng.integers(1, 33)), int(rng.integers(33, 257))]))
    x = laid_out(rng, drawn(rng, (rows, n), name)) if seed % 2 else rng.integers(0, 9, (rows, n)).astype(FLOATS[name])
    assert not warp_plan(k, True, [Mode(n, (1,))], mo.describe(x)).once
    check(x, k, bool(seed // 2 % 2))


def test_chunks_in_order(monkeypatch):
    """Each chunk has larger words than all before, or none."""
    monkeypatch.setattr(module, "by_warps", lambda *given: True)
    up = np.arange(2000, dtype=np.float32)
    check(np.stack([up, -up]), 40)


@pytest.mark.parametrize(("dtype", "rows", "n", "k", "kernels"), [
    (mo.bfloat16, 5000, 88, 28, ["top_k_warps_kernel"]), (mo.float32, 4, 200, 8, ["top_k_warps_kernel"]),
    (mo.float32, 5000, 512, 8, ["top_k_kernel"]), (mo.float16, 5000, 1016, 8, ["top_k_warps_kernel"]),
    (mo.float16, 200, 1024, 8, ["top_k_kernel"]), (mo.float32, 1000, 3000, 8, ["top_k_kernel"]),
    (mo.float32, 11, 253512, 28, ["top_k_kernel"] * 2), (mo.float32, 1, 100000, 2048, ["top_k_kernel"] * 2),
    (mo.float32, 1, 20000, 2048, ["top_k_kernel"]),
    (mo.float64, 5000, 88, 28, ["top_k_kernel"])])
def test_rule(dtype, rows, n, k, kernels):
    x, v = mo.TensorLike(dtype, (rows, n), (n, 1)), mo.TensorLike(dtype, (rows, k), (k, 1))
    with compile_only("sm_90a") as compiled:
        top_k(v, mo.TensorLike(mo.int64, (rows, k), (k, 1)), x)
    assert [program.printed.name for program in compiled.programs] == kernels


@pytest.mark.parametrize("seed", range(6))
def test_rows_in_parts(monkeypatch, seed):
    """Equals in several parts; parts of whole vectors, the last one shorter."""
    monkeypatch.setattr(module, "_PART", 200)           # and 32 of those that are wanted
    monkeypatch.setattr(mo, "multiprocessors", lambda x: 13)
    rng = np.random.default_rng(seed)
    name, rows, n = ["f32", "bf16", "f64"][seed % 3], [(), (3,), (2, 2)][seed // 2], int(rng.integers(1500, 4000))
    k = int(rng.integers(1, 20))
    x = drawn(rng, (*rows, n), name) if seed % 2 else rng.integers(0, 9, (*rows, n)).astype(FLOATS[name])
    with mo.checking() as reports:
        top_k(np.zeros((*rows, k), x.dtype), np.zeros((*rows, k), np.int32), x)
    assert [report.kernel for report in reports] == ["top_k_kernel"] * 2
    check(x, k, outputs=(poisoned(rng, (*rows, k), name), laid_out(rng, np.zeros((*rows, k), np.int64))))


@pytest.mark.parametrize("seed", range(8))
def test_parts_that_do_not_sort(monkeypatch, seed):
    """k of more than 256: equals above the least of a part, some of which are taken, are in order."""
    monkeypatch.setattr(module, "_PART", 1000)
    monkeypatch.setattr(mo, "multiprocessors", lambda x: 13)
    rng = np.random.default_rng(seed)
    name, rows, k = ["f32", "bf16", "f64", "f16"][seed % 4], (1 + seed % 2,), int(rng.integers(257, 400))
    n = int(rng.integers(16 * k, 9000))
    x = rng.integers(0, [3, 40, 1000][seed % 3], (*rows, n)).astype(FLOATS[name])
    if seed % 3 == 0:
        x[..., : n // 2] = rng.standard_normal((*rows, n // 2)).astype(FLOATS[name])
    with mo.checking() as reports:
        top_k(np.zeros((*rows, k), x.dtype), np.zeros((*rows, k), np.int32), x)
    assert [report.kernel for report in reports] == ["top_k_kernel"] * 2
    check(laid_out(rng, x), k, bool(seed // 2 % 2))


def test_ties_take_the_lowest_indices():
    rng = np.random.default_rng(0)
    for n in (50, 3000):
        check(rng.integers(0, 4, (3, n)).astype(ml_dtypes.bfloat16), 20, dtype=np.int32)
    check(np.zeros((2, 700), np.float32), 33)


@pytest.mark.parametrize(("name", "largest"), [("bf16", True), ("f16", False), ("f32", True), ("f64", False)])
def test_nan_zeros_and_infinities(name, largest):
    rng = np.random.default_rng(1)
    x = rng.choice([np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf, 1.5, -1.5, 1e-7, -1e-7], (4, 90)).astype(FLOATS[name])
    check(x, 70, largest)


def ordinary(rng, n):
    return rng.standard_normal(n)


ROWS = {
    "ordinary": ordinary,
    "some NaN": lambda rng, n: np.where(rng.random(n) < 0.005, np.nan, ordinary(rng, n)),
    "many NaN": lambda rng, n: np.where(rng.random(n) < 0.5, np.nan, ordinary(rng, n)),
    "hardly a number": lambda rng, n: np.where(rng.random(n) < 4 / n, ordinary(rng, n), np.nan),
    "no number": lambda rng, n: np.full(n, np.nan),
    "infinite": lambda rng, n: rng.choice([np.inf, -np.inf], n),
    "least": lambda rng, n: np.where(rng.random(n) < 4 / n, 1.0, -np.inf),
    "zeros": lambda rng, n: rng.choice([0.0, -0.0], n),
    "upwards": lambda rng, n: np.arange(n) / n,
    "downwards": lambda rng, n: -np.arange(n) / n,
    "of one warp": lambda rng, n: ordinary(rng, n) + 10 * (np.arange(n) // 8 % 128 < 32),
}


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("name", ["bf16", "f16", "f32", "f64"])
@pytest.mark.parametrize("kind", ROWS)
def test_short_lists_of_any_rows(kind, name, largest):
    """Lists that fit, that do not, and that NaN leave too short."""
    rng = np.random.default_rng(len(kind))
    for n, k in ((1030, 9), (2051, 40)):
        x = np.stack([ROWS[kind](rng, n) for _ in range(2)]).astype(FLOATS[name])
        assert make_plan(k, largest, [Mode(n, (1,))], mo.describe(x)).list is not None
        check(x, k, largest)


@pytest.mark.parametrize("threads", [128, 256, 1024])
@pytest.mark.parametrize("k", [1, 4, 20, 64, 100])
def test_a_list_has_room_for_numbers_in_any_order(k, threads):
    """As many numbers as are expected, and no more than there is room for, in 200 rows."""
    how, rng, counts = listed(k, threads), np.random.default_rng(k), []
    for _ in range(200):
        lanes = rng.random((12, threads // 32, 32))
        nth = np.sort(lanes.max(0), 1)[:, 32 - how.rank]
        counts.append((lanes >= np.sort(nth)[threads // 32 - how.warps]).sum())
    assert min(counts) >= k and max(counts) <= how.room
    assert 0.6 < np.mean(counts) / expected_of(how.rank, how.warps, threads // 32, k) < 1.6


def test_nothing_and_what_is_refused():
    x = np.zeros((4, 6), np.float32)
    values, indices = np.zeros((4, 3), np.float32), np.zeros((4, 3), np.int32)
    top_k(values[:, :0], indices[:, :0], x)
    top_k(values[:0], indices[:0], x[:0])
    for arguments, text in [((values, indices, x[:, :2]), "k is 3 of 2 elements; it may be at most 2"),
                            ((values, indices[:, :2], x), r"indices has shape \(4, 2\), and values has \(4, 3\)"),
                            ((values, indices, x[:3]), "they differ in the last axis alone"),
                            ((values.astype(np.float16), indices, x), "values has dtype float16, and x has float32"),
                            ((values, values, x), "indices holds float32; it may hold int32, int64")]:
        with pytest.raises(mo.ArgumentError, match=text):
            top_k(*arguments)


def test_loads_are_16_bytes():
    x = mo.TensorLike(mo.bfloat16, (32768, 64))
    plan = make_plan(64, True, [Mode(32768, (1, 0, 0)), Mode(64, (32768, 64, 64))], x.info())
    values, indices = mo.TensorLike(mo.bfloat16, (64, 64)), mo.TensorLike(mo.int64, (64, 64))
    program = top_k_kernel.compile(values, indices, x, None, plan, block=plan.threads, arch="sm_90a")
    assert sum(".128" in line for line in program.sass.splitlines() if " LDG" in line) >= 3
    assert program.spills == 0 and program.registers <= 64


@pytest.mark.parametrize("k", [50, 300, 1000, 2048])
@pytest.mark.parametrize("n", [2224, 100000])
@pytest.mark.parametrize("dtype", [mo.bfloat16, mo.float32, mo.float64], ids=str)
def test_blocks_hold_their_words(dtype, n, k):
    """In registers, with loops for the steps between lanes: code that is loaded once is loaded while others wait."""
    x = mo.TensorLike(dtype, (n, 6))
    plan = make_plan(k, True, [Mode(n, (1, 0, 0)), Mode(6, (n, k, k))], x.info())
    values, indices = mo.TensorLike(dtype, (k, 6)), mo.TensorLike(mo.int64, (k, 6))
    program = top_k_kernel.compile(values, indices, x, None, plan, block=plan.threads, arch="sm_90a")
    assert program.spills == 0 and program.registers <= 64
    assert program.sass.count(";") < 7000


@pytest.mark.parametrize(("dtype", "n"), [(mo.bfloat16, 1 << i) for i in range(4, 11)]
                         + [(mo.float32, 1 << i) for i in range(4, 11)])
def test_warps_hold_their_words(dtype, n):
    """In registers; few instructions beside those of the network."""
    x = mo.TensorLike(dtype, (n, 5000))
    plan = warp_plan(8, True, [Mode(n, (1, 0, 0)), Mode(5000, (n, 8, 8))], x.info())
    values, indices = mo.TensorLike(dtype, (8, 5000)), mo.TensorLike(mo.int64, (8, 5000))
    program = top_k_warps_kernel.compile(values, indices, x, plan, block=32 * WARPS, arch="sm_90a")
    assert program.spills == 0 and program.registers <= 96


@pytest.mark.parametrize("n", [8192, 1 << 24, 1 << 26, 1 << 30])
def test_parts_are_counted_in_32_bits(n):
    """Elements one by one, of one row; each part has as many as are wanted."""
    plan = make_plan(50, True, [Mode(n, (3,))], mo.TensorLike(mo.float32, (n,), (3,)).info())
    parts = module.parts_of(plan, n, 1, 132)
    assert plan.width == 1 and parts * n < 1 << 31 and n // parts >= 50
    assert parts > 1 or n == 1 << 30
