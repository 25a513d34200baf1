"""What a kernel asks of a multiprocessor, counted before it is compiled."""

from __future__ import annotations

import pytest

import moye as mo
from moye.runtime.prepare import compile_only
from moye.runtime.tuning.candidates import accumulators, excess, register_cap


@mo.kernel
def products(D, A, B, mma, bM: mo.Constexpr, order: mo.Constexpr, blocks: mo.Constexpr, budget: mo.Constexpr):
    """Two products of bM x 128 tiles, by all threads: one after the other, or both summed up in one loop."""
    mo.min_blocks(blocks)
    if budget:
        mo.warpgroup_reg_alloc(budget)
    thr = mma.get_slice(mo.thread_idx().x)
    tCgD = thr.partition_C(mo.tile(D, (bM, 128), (0, 0)))               # (MMA, MMA_M, MMA_N)
    tCgA = thr.partition_A(mo.tile(A, (bM, 4), (0, None)))              # (MMA, MMA_M, MMA_K, k)
    tCgB = thr.partition_B(mo.tile(B, (128, 4), (0, None)))             # (MMA, MMA_N, MMA_K, k)
    tCrA, tCrB = thr.make_fragment_A(tCgA[:, :, :, 0]), thr.make_fragment_B(tCgB[:, :, :, 0])
    mo.copyto(tCrA, tCgA[:, :, :, 0])
    mo.copyto(tCrB, tCgB[:, :, :, 0])
    one, two = thr.make_fragment_C(tCgD), thr.make_fragment_C(tCgD)
    one.fill(0)
    if order == "apart":
        mo.gemm(mma, tCrA, tCrB, one)
        mo.copyto(tCgD, one)
        two.fill(0)
        mo.gemm(mma, tCrA, tCrB, two)
    else:
        two.fill(0)
        for _ in range(mo.size(tCgA, 3)):
            mo.gemm(mma, tCrA, tCrB, one)
            mo.gemm(mma, tCrA, tCrB, two)
        mo.copyto(tCgD, one)
    mo.copyto(tCgD, two)


def traced(bM, order="apart", blocks=1, budget=0, threads=256, dtype=mo.float32):
    """The specialisation whose accumulators have bM * 128 / threads values each."""
    mma = mo.make_tiled_mma(mo.UniversalFMA(dtype, dtype, dtype), mo.make_layout((threads // 16, 16)))
    arrays = [mo.TensorLike(dtype, shape) for shape in ((bM, 128), (bM, 8), (128, 8))]
    with compile_only("sm_90a", trace_only=True) as gathered:
        products[1, threads](*arrays, mma, bM, order, blocks, budget)
    return gathered.jobs[0].spec


@pytest.mark.parametrize("order, expected", [("apart", 64), ("together", 128)])
def test_accumulators_that_live_at_once(order, expected):
    assert accumulators(traced(128, order).func) == expected
    assert accumulators(traced(128, order, dtype=mo.float64).func) == 2 * expected
    assert accumulators(traced(128, order, dtype=mo.float16).func) == expected // 2


def test_a_kernel_without_products_has_no_accumulators():
    @mo.kernel
    def copy(x, y):
        y[mo.thread_idx().x] = x[mo.thread_idx().x]
    with compile_only("sm_90a", trace_only=True) as gathered:
        copy[1, 32](*[mo.TensorLike(mo.float32, (32,))] * 2)
    assert accumulators(gathered.jobs[0].spec.func) == 0
    assert excess(gathered.jobs[0].spec, 0) == ""


def test_the_registers_that_a_thread_can_have():
    for options, expected in (({"threads": 128}, 255), ({"threads": 256}, 255), ({"threads": 512}, 128),
                              ({"blocks": 2}, 128), ({"blocks": 3}, 80), ({"budget": 152}, 152),
                              ({"budget": 256}, 255)):
        assert register_cap(traced(128, **options).func) == expected, options


LARGE = 1 << 20


@pytest.mark.parametrize("bM, options, sentence", [
    (256, {"order": "together", "threads": 512}, ""),
    (384, {"order": "together", "threads": 512}, "192 registers of a thread, which has 128 in a block of 512 threads"),
    (256, {"blocks": 3}, "128 registers of a thread, which has 80 in 3 blocks of 256 threads"),
    (256, {"order": "together", "budget": 168}, "256 registers of a thread, which has 168 by setmaxnreg"),
], ids=["fits", "block", "blocks", "setmaxnreg"])
def test_what_cannot_fit(bM, options, sentence):
    assert excess(traced(bM, **options), LARGE) == (f"accumulators take {sentence}" if sentence else "")


@pytest.mark.slow
@pytest.mark.parametrize("bM, refused", [(64, False), (512, True)])
def test_the_compiler_spills_what_cannot_fit(bM, refused):
    mma = mo.make_tiled_mma(mo.UniversalFMA(mo.float32), mo.make_layout((16, 16)))
    arrays = [mo.TensorLike(mo.float32, shape) for shape in ((bM, 128), (bM, 8), (128, 8))]
    with compile_only("sm_90a") as gathered:
        products[1, 256](*arrays, mma, bM, "together", 1, 0)
    assert bool(excess(gathered.jobs[0].spec, LARGE)) is refused
    assert (gathered.programs[0].spills > 0) is refused


@mo.kernel
def keeps(x, n: mo.Constexpr):
    s = mo.shared_array(mo.float32, mo.make_layout(n))
    s[mo.thread_idx().x] = x[mo.thread_idx().x]
    mo.sync_threads()
    x[mo.thread_idx().x] = s[31 - mo.thread_idx().x]


def test_shared_memory_beyond_the_devices():
    with compile_only("sm_90a", trace_only=True) as gathered:
        keeps[1, 32](mo.TensorLike(mo.float32, (32,)), 16384)
    spec = gathered.jobs[0].spec
    assert excess(spec, 65536) == ""
    assert excess(spec, 65535) == "shared memory takes 65536 bytes of a block, and the device has 65535"
