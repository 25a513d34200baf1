"""do_bench, interleave and autotune on a GPU."""

from __future__ import annotations

import pytest
import torch

import moye as mo
from moye import testing
from moye.cuda import driver, events
from moye.errors import LaunchError
from moye.runtime.tune import Config, autotune


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
