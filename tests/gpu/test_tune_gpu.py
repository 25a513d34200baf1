"""do_bench, interleave and autotune on a GPU."""

from __future__ import annotations

import pytest
import torch

import moye as mo
from moye import testing
from moye.cuda.device import driver, events
from moye.errors import LaunchError
from moye.kernels import tuned_gemm_sm90
from moye.runtime.tuning.tune import Config, autotune


@mo.kernel
def scale(x, y, n: mo.Constexpr):
    gx, gy = mo.tile(x, (n,), (mo.block_idx().x,)), mo.tile(y, (n,), (mo.block_idx().x,))
    for i in mo.static_range(n // 64):
        gy[mo.thread_idx().x + 64 * i] = gx[mo.thread_idx().x + 64 * i] * 2.0 + gy[mo.thread_idx().x + 64 * i]


def launch(x, y, *, n):
    scale[mo.ceil_div(x.shape[0], n), 64](x, y, n)


CONFIGS = [Config(n=n) for n in (64, 96, 256, 1024, 2048)]


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("MOYE_CACHE_DIR", str(tmp_path))


def sleep(cycles=2_000_000):
    return lambda: torch.cuda._sleep(cycles)


@pytest.mark.alone
def test_do_bench_agrees_with_torchs_events():
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    sleep()()
    torch.cuda.synchronize()
    start.record()
    sleep()()
    end.record()
    end.synchronize()
    expected = start.elapsed_time(end)
    for options in ({}, {"flush": False}, {"graph": True}, {"graph": True, "flush": False}):
        assert testing.do_bench(sleep(), 5, 20, **options) == pytest.approx(expected, rel=0.15), options
    low, mid, high = testing.do_bench(sleep(), 5, 20, quantiles=[0.2, 0.5, 0.8])
    assert low <= mid <= high
    assert len(testing.do_bench(sleep(), 5, 20, return_mode="all")) >= 5


@pytest.mark.alone
def test_a_slow_host_is_not_device_time():
    x = torch.zeros(64, device="cuda")

    def work():
        for _ in range(20):
            x.add_(1)
    together = testing.do_bench(work, 5, 30, return_mode="median")
    captured = testing.do_bench(work, 5, 30, return_mode="median", graph=True)
    print(f"20 adds: {together * 1e3:.1f} us by events, {captured * 1e3:.1f} us in a graph")
    assert together < 0.2 and captured < 0.2


@pytest.mark.alone
def test_interleave():
    found = testing.interleave({"one": sleep(), "two": sleep(4_000_000)}, rounds=6)
    assert found["two"] == pytest.approx(2 * found["one"], rel=0.15)


def test_memory_saves_and_restores():
    x = torch.randn(1000, device="cuda")
    before, stream = x.clone(), driver.current_stream(0)
    memory = events.Memory(4000, 0)
    memory.save(x.data_ptr(), stream)
    x.zero_()
    memory.restore(x.data_ptr(), stream)
    memory.free()
    assert torch.equal(x, before)


def test_autotune(capsys):
    tuned = autotune(CONFIGS, key=["x"])(launch)
    x, y = torch.randn(1 << 22, device="cuda"), torch.randn(1 << 22, device="cuda")
    expected = 2 * x + y
    tuned(x, y)                                         # y is read and written: tuning must leave it as it was
    torch.testing.assert_close(y, expected)
    assert "PreconditionError" in tuned.report()
    again = autotune(CONFIGS, key=["x"])(launch)
    assert again.best(x, y) == tuned.best(x, y)
    assert "from the disk cache" in again.report()
    print(tuned.report())
    fresh = autotune(CONFIGS)(launch)
    with pytest.raises(LaunchError, match="captured"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        fresh(x[: 1 << 20], y[: 1 << 20])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    y.zero_()
    with torch.cuda.graph(graph):
        tuned(x, y)
    graph.replay()
    torch.testing.assert_close(y, 2 * x)


@mo.kernel
def double_tiles(load, store, threads: mo.Constexpr):
    """Each tile through shared memory and back, doubled."""
    tid, smem, full = mo.thread_idx().x, mo.shared_array(load.dtype, load.smem_layout), mo.mbarrier_array(1)
    bx, by, _ = mo.block_idx()
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(full, 0, load.bytes)
        mo.copyto(load, smem, mo.tile(load.tensor, load.tile, (bx, by)), barrier=(full, 0))
    mo.sync_threads()
    mo.mbarrier_wait(full, 0, 0)
    part = mo.parallelize(smem, mo.make_layout((threads // 64, 64), (64, 1)), tid)
    for i in mo.static_range(mo.size(part)):
        part[i] = part[i] * 2.0
    mo.fence_proxy_async()
    mo.sync_threads()
    if tid == 0:
        mo.copyto(store, mo.tile(store.tensor, store.tile, (bx, by)), smem)
        mo.tma_store_arrive()
        mo.tma_store_wait(0)


def doubled(copies, *, threads):
    load, store = copies
    double_tiles[(load.array.shape[0] // 16, load.array.shape[1] // 64), threads](load, store, threads)


def in_tiles(x):
    return tuple(mo.make_tma_copy(op, x, mo.make_layout((16, 64), (64, 1))) for op in (mo.TmaLoad(), mo.TmaStore()))


def test_tma_copies_are_keyed_by_value_and_their_arrays_restored(capsys):
    if torch.cuda.get_device_capability()[0] < 9:
        pytest.skip("TMA needs sm_90")
    tuned = autotune([Config(threads=n) for n in (64, 128, 256)])(doubled)
    x = torch.randn(1024, 1024, device="cuda")
    expected = 2 * x
    tuned(in_tiles(x))                                  # x is read and written: tuning must leave it as it was
    torch.testing.assert_close(x, expected)
    tuned(in_tiles(x))                                  # other objects, equal by value
    torch.testing.assert_close(x, 2 * expected)
    assert tuned.report().count(" on ") == 1
    assert capsys.readouterr().err == "moye: tuned doubled over 3 configurations\n"


def test_a_new_configuration_is_timed_beside_the_best_of_those_before(capsys):
    x, y = torch.randn(1 << 22, device="cuda"), torch.randn(1 << 22, device="cuda")
    autotune(CONFIGS, key=["x"])(launch).best(x, y)
    more = autotune([*CONFIGS, Config(n=512)], key=["x"])(launch)
    more.best(x, y)
    first, second = (int(line.split()[-2]) for line in capsys.readouterr().err.splitlines())
    assert first == 5 and 2 <= second <= 5              # of the five one is illegal
    assert "n=512" in more.report() and "n=96" in more.report()
    autotune([*CONFIGS, Config(n=512)], key=["x"])(launch).best(x, y)
    assert capsys.readouterr().err == ""                # all of it from the disk


@pytest.mark.parametrize("kind, M, N, K, options", [
    (torch.bfloat16, 2048, 4096, 1024, {}), (torch.bfloat16, 16, 4096, 2048, {"activation": "relu"}),
    (torch.float8_e4m3fn, 1024, 1024, 1024, {"fast_accum": True}), (torch.float32, 1000, 520, 333, {})],
    ids=["wide", "few rows", "float8", "packed"])
def test_tuned_gemm_sm90(kind, M, N, K, options):
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("wgmma needs sm_90a")
    torch.manual_seed(M + N + K)
    A, B = (torch.randn(rows, K, device="cuda").to(kind) for rows in (M, N))
    C = torch.randn(M, N, device="cuda").to(torch.bfloat16)
    expected = A.double() @ B.double().T - 2.0 * C.double()
    if "activation" in options:
        expected.relu_()
    assert tuned_gemm_sm90(A, B, C, beta=-2.0, **options) is C      # C is read and written in every trial
    error = float((C.double() - expected).norm() / expected.norm())
    table = tuned_gemm_sm90.report()
    print(table)
    assert error < (2e-2 if options.get("fast_accum") else 3e-3)
    assert "1.00x" in table and "configurations" in table
    best = tuned_gemm_sm90.best(A, B, C, beta=-2.0, **options)["config"]
    assert best is None or best.swap == (M == 16)       # None: the rule's choice won
