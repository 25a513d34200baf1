"""What CUDA allows no launch, every way to launch refuses; and what many specialisations of one kernel cost."""

from __future__ import annotations

import time

import numpy as np
import pytest

import moye as mo
from moye.errors import ArgumentError, LaunchError


@mo.kernel
def one(x):
    x[mo.thread_idx().x] = 1.0


@mo.kernel
def numbered(x, number: mo.Constexpr):
    x[mo.thread_idx().x] = number


X = np.zeros(2048, np.float32)


def compile_only(**options):
    with mo.compile_only("sm_90a", trace_only=True):
        one.launch(X, **options)


LAUNCHES = {
    "launch": lambda **options: one.launch(X, **options),
    "check": lambda **options: mo.check(one).launch(X, **options),
    "prepare": lambda **options: one.prepare(X, **options),
    "compile_only": compile_only,
}
OF_A_KERNEL = {
    "compile": lambda grid, **options: one.compile(X, arch="sm_90a", **options),
    "trace": lambda grid, **options: one.trace(X, **options),
}


@pytest.mark.parametrize("way", [*LAUNCHES, *OF_A_KERNEL])
@pytest.mark.parametrize(("options", "told"), [
    ({"block": 1025}, "block (1025, 1, 1) has 1025 threads, and at most 1024"),
    ({"block": 2048}, "block (2048, 1, 1) has 2048 threads, and at most 1024"),
    ({"block": (32, 32, 2)}, "block (32, 32, 2) has 2048 threads, and at most 1024"),
    ({"block": (1, 1, 65)}, "block (1, 1, 65) has extent 65 along z, and at most 64"),
    ({"block": 0}, "block (0, 1, 1) has an extent below 1"),
    ({"block": -1}, "block (-1, 1, 1) has an extent below 1"),
    ({"block": 8, "cluster": 17}, "a cluster has 1 to 16 blocks, not (17, 1, 1)"),
    ({"block": 8, "cluster": (4, 4, 2)}, "a cluster has 1 to 16 blocks, not (4, 4, 2)"),
])
def test_blocks_and_clusters(way, options, told):
    with pytest.raises(LaunchError) as error:
        (LAUNCHES | OF_A_KERNEL)[way](grid=(68, 4, 2), **options)
    assert told in str(error.value)


@pytest.mark.parametrize("way", LAUNCHES)
@pytest.mark.parametrize("grid", [1 << 31, (1, 65536), (1, 1, 65536), (0, 70000), (1 << 40, 1, 1)])
def test_grids(way, grid):
    with pytest.raises(LaunchError, match="lies outside"):
        LAUNCHES[way](grid=grid, block=8)


@pytest.mark.parametrize("way", LAUNCHES)
@pytest.mark.parametrize(("smem", "told"), [(-1, "not -1"), ("8", "not '8'"), (1.5, "not 1.5"), ([8], r"not \[8\]")])
def test_shared_memory_that_is_no_number(way, smem, told):
    with pytest.raises(LaunchError, match=f"smem is a number of bytes, {told}"):
        LAUNCHES[way](grid=1, block=8, smem=smem)


@pytest.mark.parametrize("way", ["launch", "prepare", "compile_only"])
def test_more_shared_memory_than_any_device_has(way):
    LAUNCHES[way](grid=1, block=8, smem=np.int64(1024))
    with pytest.raises(LaunchError, match=r"B10: one needs 232449 bytes of shared memory per block \(smem=232449\)"):
        LAUNCHES[way](grid=1, block=8, smem=232449)


def test_the_largest_that_there_are():
    for block in (1024, (16, 1, 64), (1, 1024), (4, 4, 64)):
        one[1, block](X)
    one.compile(X, block=1024, cluster=16, arch="sm_90a")
    one[0, 1024](X)


@pytest.mark.parametrize("stream", ["s", -1, True, 1.5, object()])
def test_what_is_no_stream(stream):
    with pytest.raises(ArgumentError, match="is no CUDA stream"):
        one.launch(X, grid=1, block=8, stream=stream)


@pytest.mark.parametrize(("launch", "told", "hint"), [
    (lambda: one.launch(X, grid=1, block=8, blocks=3), "one(x) has no parameter 'blocks'", "block=?"),
    (lambda: one.compile(X, block=8, archs="sm_80"), "one(x) has no parameter 'archs'", "arch=?"),
    (lambda: one.prepare(X, grid=1, block=8, steam=0), "no parameter 'steam'", "stream=?"),
    (lambda: one.trace(X, block=8, cluter=1), "no parameter 'cluter'", "cluster=?"),
    (lambda: numbered[1, 8](X, nummer=3), "no parameter 'nummer'", "number=?"),
    (lambda: one[1, 8](X, smem=3), "no parameter 'smem'", "one.launch(..., grid="),
    (lambda: mo.check(one)[1, 8](X, whatever=3), "no parameter 'whatever'", None),
    (lambda: one[1, 8](), "missing a required argument: 'x'", None),
    (lambda: mo.check(one)(X), "needs a launch configuration", "mo.check(one)[grid, block]"),
    (lambda: one(X), "needs a launch configuration", "one[grid, block]"),
])
def test_what_is_asked_for_wrongly(launch, told, hint):
    with pytest.raises((ArgumentError, LaunchError)) as error:
        launch()
    assert told in error.value.message and (hint or "") in (error.value.hint or "")
    assert (hint is None) is (error.value.hint is None)


def test_each_specialisation_costs_the_same():
    """Their reasons too: 2,000 took 9.7 ms each where the first took 3.5."""
    def spent(numbers):
        start = time.process_time()
        for number in numbers:
            numbered.trace(X, number, block=8)
        return time.process_time() - start

    spent(range(50))
    first = spent(range(50, 150))
    for number in range(150, 150 + 6000):               # as many as would show it, without the time to trace them
        shape = next(reversed(numbered._shapes.values()))
        numbered._shapes["more", number] = shape
    assert spent(range(10000, 10100)) < 2.5 * first + 0.05
    assert numbered.why_recompiled()[-1] == "argument 'number' changed from 10098 to 10099"
