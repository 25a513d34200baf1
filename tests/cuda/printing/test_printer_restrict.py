"""Which pointers are __restrict__: none through which threads pass data on, for the compiler ignores barriers there."""

from __future__ import annotations

import re

import pytest

import moye as mo

SYNCS = {
    "sync_threads": lambda: mo.sync_threads(), "sync_warp": lambda: mo.sync_warp(),
    "barrier_sync": lambda: mo.barrier_sync(1, 64), "fence": lambda: mo.fence("acq_rel", "gpu"),
    "cluster_sync": lambda: mo.cluster_sync(),
}
T = mo.TensorLike(mo.int32, (256,))


@mo.kernel
def passes_on(out, x, factor, n, sync: mo.Constexpr):
    """Every trip reads what another thread may have written to x since the last one."""
    tid = mo.thread_idx().x
    v = 0
    for _ in mo.range(n, unroll=1):
        x[tid] = v
        sync()
        v += x[64 + tid] * factor[0]
        sync()
    out[tid] = v


@mo.kernel
def writes(out, x, n, orders: mo.Constexpr):
    tid = mo.thread_idx().x
    for i in range(n):
        out[tid] = x[i]
        mo.sync_threads()
    if orders:
        mo.store(out, 64, 1, order="release")


def pointers(source):
    """Name -> whether it is restricted."""
    kernel = source.partition('extern "C"')[2]
    return {name: bool(restrict) for restrict, name in re.findall(r"int\*( __restrict__)? (\w+)[,)]", kernel)}


@pytest.mark.slow
@pytest.mark.parametrize("name", SYNCS)
def test_what_threads_pass_on_goes_through_a_plain_pointer(name):
    program = passes_on.compile(T, T, T, 4, SYNCS[name], block=64, cluster=2, arch="sm_90a")
    assert pointers(program.source) == {"out": name in ("sync_threads", "sync_warp", "barrier_sync"), "x": False,
                                        "factor": True}
    body = program.sass[: program.sass.rindex("STG")]                   # up to the store of the result
    loop = [line for line in body.splitlines() if re.search(r"LDG\.E (?!.*CONST)|STG|BRA", line)]
    kinds = [re.search(r"LDG|STG|BRA", line)[0] for line in loop]
    at = kinds.index("STG")
    assert "LDG" in kinds[at:], f"{name}: no load behind the store: {kinds}"


def test_what_is_only_written_stays_restricted():
    assert pointers(writes.compile(T, T, 4, False, block=64).source) == {"out": True, "x": True}
    assert pointers(writes.compile(T, T, 4, True, block=64).source) == {"out": False, "x": True}


def test_what_is_changed_in_place_by_its_own_thread_stays_restricted():
    @mo.kernel
    def doubles(x):
        x[mo.thread_idx().x] = x[mo.thread_idx().x] * 2

    assert pointers(doubles.compile(T, block=64).source) == {"x": True}
