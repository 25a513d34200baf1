"""Launching the short way and prepared launches on a GPU: values, streams, graphs, threads, contexts, CuPy."""

from __future__ import annotations

import threading

import pytest
import torch

import moye as mo
from moye.cuda.device import driver, events
from moye.errors import ArgumentError, PreconditionError
from moye.runtime import fast_launch

TILE = 128


@mo.kernel
def axpy(x, y, layout, a):
    gx, gy = mo.tile(x, (TILE,), (mo.block_idx().x,)), mo.tile(y, (TILE,), (mo.block_idx().x,))
    i = mo.thread_idx().x
    gy[i] = gx[i] * a + gy[i]


@mo.kernel
def copy(x, y):
    gx, gy = mo.tile(x, (TILE,), (mo.block_idx().x,)), mo.tile(y, (TILE,), (mo.block_idx().x,))
    gy[mo.thread_idx().x] = gx[mo.thread_idx().x]


LAYOUT = mo.make_layout((4, 8))


def pair(n=1024):
    return torch.randn(n, device="cuda"), torch.zeros(n, device="cuda")


def is_short(kernel, grid, block=TILE):
    """Whether kernel[grid, block] is a plan's function."""
    return not hasattr(kernel[grid, block], "kernel")


def test_torchs_guards_are_in_use():
    pair()
    assert fast_launch._tensor_guards() is not None
    a, b = torch.zeros(8, 6, device="cuda"), torch.zeros(8, 6, device="cuda").T
    check = fast_launch.tensor_check([a, b])
    assert check(torch.ones_like(a), torch.ones_like(a).T)
    for other in (a[:7], a.T, a.double(), a.cpu(), torch._neg_view(a), torch.zeros(6, 8, device="cuda").T):
        assert not check(other, b)
    with torch.inference_mode():
        check(a, b)


def test_values_along_both_ways():
    x, y = pair()
    for i in range(5):
        axpy[8, TILE](x, y, LAYOUT, float(i))
        assert is_short(axpy, 8)
    torch.testing.assert_close(y, 10 * x)
    with torch.inference_mode():
        axpy[8, TILE](x, y, mo.make_layout((4, 8)), -10.0)
    torch.testing.assert_close(y, torch.zeros_like(y), atol=1e-5, rtol=0)


def test_every_guard_holds_on_the_short_way():
    x, y = pair()
    for _ in range(3):
        copy[8, TILE](x, y)
    other = torch.randn(2048, device="cuda")
    copy[8, TILE](other[::2], y)
    assert torch.equal(y, other[::2])
    copy[8, TILE](other[1:1025], y)
    assert torch.equal(y, other[1:1025])
    copy[8, TILE](x.double(), y.double())
    with pytest.raises(PreconditionError):
        copy[8, TILE](x[:1000], y)
    copy[8, TILE](x, x)                                 # overlapping: without __restrict__
    copy[7, TILE](x, y.zero_())
    assert torch.equal(y[:896], x[:896]) and not y[896:].any()
    with pytest.raises(ArgumentError, match="on the host"):
        copy[8, TILE](x, y.cpu())
    y.resize_(512)
    with pytest.raises((PreconditionError, ArgumentError)):
        copy[8, TILE](x, y[:500])


def test_parameters_and_memory_that_come_back():
    for _ in range(60):
        x = torch.randn(1024, device="cuda")
        y = torch.empty_like(x)
        copy[8, TILE](x, y)
        assert torch.equal(x, y)
        del x, y
        torch.empty(777, device="cuda")


def test_streams_and_graphs():
    x, y = pair()
    prepared = axpy.prepare(x, y, LAYOUT, 1.0, grid=8, block=TILE)
    axpy[8, TILE](x, y, LAYOUT, 1.0)
    copy[8, TILE](*pair())                              # loaded before the capture
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)
        axpy[8, TILE](x, y, LAYOUT, 1.0)
        prepared()
        assert not side.query()
    side.synchronize()
    torch.testing.assert_close(y, 3 * x)
    y.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        axpy[8, TILE](x, y, LAYOUT, 1.0)
        prepared()
        copy[8, TILE](y, x)
    assert not y.any()
    before = x.clone()
    graph.replay()
    torch.testing.assert_close(y, 2 * before)
    torch.testing.assert_close(x, 2 * before)


@mo.kernel
def forward(out, x, k, times, place):
    """out[i] = x reversed plus k, slowly; ``times`` has when the first block began (0) and when the last ended (1)."""
    mo.griddepcontrol_launch_dependents()
    i, last = mo.block_idx().x * TILE + mo.thread_idx().x, mo.size(x, 0) - 1
    began = mo.globaltimer()
    if i == 0:
        times[place, 0] = began
    mo.griddepcontrol_wait()
    start = mo.clock()
    while mo.clock() - start < 20000:
        pass
    out[i] = x[last - i] * 3 % 65521 + k
    mo.sync_threads()
    if i == last:
        times[place, 1] = mo.globaltimer()


@pytest.mark.alone
@pytest.mark.parametrize("way", ["launch", "prepared", "graph"])
def test_dependent_launches(way):
    """Each reads what the one before it wrote, 200 times, and begins before that one has ended."""
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("dependent launches need sm_90")
    n = 64 * TILE
    first = torch.randint(0, 65521, (n,), device="cuda", dtype=torch.int32)
    x, y, times = first.clone(), torch.zeros_like(first), torch.zeros(400, 2, device="cuda", dtype=torch.int64)
    options = {"grid": 64, "block": TILE, "dependent": True}

    def both(k):
        forward.launch(y, x, k, times, 2 * k, **options)
        forward.launch(x, y, k, times, 2 * k + 1, **options)

    both(0)                                             # compiled
    torch.cuda.synchronize()
    x.copy_(first)
    torch.cuda._sleep(100_000_000)                      # 50 ms: launches are queued before the first one begins
    if way == "launch":
        for k in range(200):
            both(k)
    elif way == "prepared":
        pair = forward.prepare(y, x, 0, times, 0, **options), forward.prepare(x, y, 0, times, 0, **options)
        for k in range(200):
            for turn, again in enumerate(pair):
                again.update(k=k, place=2 * k + turn)
                again()
    else:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for k in range(200):
                both(k)
        graph.replay()
    expected = first.clone()
    for k in range(200):
        for _ in range(2):
            expected = expected.flip(0) * 3 % 65521 + k
    assert torch.equal(x, expected)
    began, ended = times[1:, 0], times[:-1, 1]
    assert int((began < ended).sum()) > 100
    assert bool((times[1:, 1] > times[:-1, 1]).all())


def test_launches_in_order_do_not_overlap():
    n = 64 * TILE
    x, y, times = (torch.zeros(*shape, device="cuda", dtype=dtype) for shape, dtype in
                   (((n,), torch.int32), ((n,), torch.int32), ((20, 2), torch.int64)))
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("griddepcontrol needs sm_90")
    for k in range(10):
        forward.launch(y, x, k, times, 2 * k, grid=64, block=TILE)
        forward.launch(x, y, k, times, 2 * k + 1, grid=64, block=TILE)
    assert bool((times[1:, 0] >= times[:-1, 1]).all())


def test_prepared_and_update():
    (x, y), z = pair(), torch.zeros(1024, device="cuda")
    prepared = axpy.compile(x, y, LAYOUT, 2.0, block=TILE).prepare(x, y, LAYOUT, 2.0, grid=8)
    assert not y.any()
    prepared()
    prepared()
    prepared.update(y=z, a=3.0)
    prepared()
    torch.testing.assert_close(y, 4 * x)
    torch.testing.assert_close(z, 3 * x)
    with pytest.raises(ArgumentError, match="overlaps another"):
        prepared.update(x=z)
    with pytest.raises(ArgumentError, match="shape"):
        prepared.update(x=x[:512])


def test_threads_without_a_context():
    outs = [pair() for _ in range(6)]
    for x, y in outs:
        axpy[8, TILE](x, y, LAYOUT, 0.0)
    torch.cuda.synchronize()
    failures = []

    def work(x, y):
        try:
            for _ in range(300):
                axpy[8, TILE](x, y, LAYOUT, 1.0)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=o) for o in outs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    assert not failures
    for x, y in outs:
        torch.testing.assert_close(y, 300 * x, rtol=1e-4, atol=1e-3)


def test_a_foreign_context_is_current():
    x, y = pair()
    for _ in range(2):
        copy[8, TILE](x, y)
    y.zero_()
    torch.cuda.synchronize()
    drv = driver._driver()
    context = driver._check(drv.cuCtxCreate(None, 0, drv.CUdevice(0)), "cuCtxCreate")
    try:
        copy[8, TILE](x, y)
        assert int(drv.cuCtxGetCurrent()[1]) == int(context)
    finally:
        drv.cuCtxDestroy(context)
    driver.synchronize(0)
    assert torch.equal(x, y)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one device")
def test_other_devices():
    for ordinal in (1, 0, 1, 0):
        x = torch.randn(1024, device=f"cuda:{ordinal}")
        y = torch.zeros_like(x)
        for _ in range(3):
            copy[8, TILE](x, y)
        assert torch.equal(x, y) and torch.cuda.current_device() == 0


def test_cupy():
    cupy = pytest.importorskip("cupy")
    x, y = cupy.random.standard_normal(1024, dtype=cupy.float32), cupy.zeros(1024, cupy.float32)
    for _ in range(3):
        axpy[8, TILE](x, y, LAYOUT, 1.0)
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        axpy[8, TILE](x, y, LAYOUT, 1.0)
    stream.synchronize()
    assert cupy.allclose(y, 4 * x)
    assert is_short(axpy, 8)


def test_launch_function_is_the_drivers():
    assert events.launch_function().__name__.startswith("cuLaunchKernelEx")
