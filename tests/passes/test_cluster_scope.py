"""Which arrivals at mbarriers of other blocks, and which waits, are printed with the scope of the cluster."""

from __future__ import annotations

import re

import pytest

import moye as mo
import ops_kernels_hopper
import ops_kernels_peers
from moye.cuda.printing.printer import print_kernel
from ops_kernels import CASES

X = mo.TensorLike(mo.float32, (128, 8))


def printed(kernel, block=ops_kernels_peers.THREADS):
    """The calls of remote arrivals (a) and waits (w) in the order of the text, capital where they have the scope."""
    body = print_kernel(kernel.trace(X, 3, block=block, cluster=2)).source.partition('extern "C"')[2]
    names = re.findall(r"(?<!mo\.)(mbarrier_arrive\w*_cluster|mbarrier_wait\w*)\(", body)
    letter = {"mbarrier_arrive_cluster": "a", "mbarrier_arrive_release_cluster": "A", "mbarrier_wait": "w",
              "mbarrier_wait_acquire_cluster": "W"}
    return "".join(letter[name] for name in names)


@mo.jit
def pair():
    bars = mo.mbarrier_array(2)
    if mo.thread_idx().x == 0:
        mo.mbarrier_init(bars, 0, 2)
        mo.mbarrier_init(bars, 1, 2)
        mo.fence_mbarrier_init()
    mo.cluster_sync()
    return bars, mo.shared_array(mo.float32, 64)


@mo.kernel
def nothing_is_mapped(x, n):
    bars, s = pair()
    s[mo.thread_idx().x] = x[0, 0]
    mo.mbarrier_arrive(bars, 0, cta=1)
    mo.mbarrier_wait(bars, 0, 0)
    x[0, 1] = s[1]


@mo.kernel
def stored(x, n):
    """st.async, wait, read; then a wait after which nothing is read."""
    bars, s = pair()
    tid = mo.thread_idx().x
    there = mo.map_shared_rank(s, mo.cluster_rank() ^ 1)
    mo.st_async(mo.tile(there, (1,), (tid,)), x[0, 0], barrier=(bars, 0))
    mo.mbarrier_wait(bars, 0, 0)
    x[0, 1] = s[tid]
    mo.cluster_sync()
    mo.mbarrier_wait(bars, 1, 0)


@mo.kernel
def straight(x, n):
    """Write, arrive, wait, read; afterwards a barrier of the cluster, and a pair that hands nothing over."""
    bars, s = pair()
    tid = mo.thread_idx().x
    there = mo.map_shared_rank(s, mo.cluster_rank() ^ 1)
    there[tid] = x[0, 0]
    mo.mbarrier_arrive(bars, 0, cta=mo.cluster_rank() ^ 1)
    mo.mbarrier_wait(bars, 0, 0)
    x[0, 1] = s[tid]
    mo.cluster_sync()
    mo.mbarrier_arrive(bars, 1, cta=mo.cluster_rank() ^ 1)
    mo.mbarrier_wait(bars, 1, 0)


@mo.kernel
def relaxed(x, n):
    """A relaxed barrier lies in between: it takes nothing off the arrival."""
    bars, s = pair()
    there = mo.map_shared_rank(s, mo.cluster_rank() ^ 1)
    there[mo.thread_idx().x] = x[0, 0]
    mo.cluster_arrive(relaxed=True)
    mo.cluster_wait()
    mo.mbarrier_arrive(bars, 0, cta=mo.cluster_rank() ^ 1)


@mo.kernel
def arrives_between(x, n):
    """Between the two halves of the cluster's barrier it is not over."""
    bars, s = pair()
    there = mo.map_shared_rank(s, mo.cluster_rank() ^ 1)
    there[mo.thread_idx().x] = x[0, 0]
    mo.cluster_arrive()
    mo.mbarrier_arrive(bars, 0, cta=1)
    mo.cluster_wait()
    mo.mbarrier_arrive(bars, 1, cta=1)


@mo.kernel
def epilogue(x, n):
    """A loop that only arrives, and an exchange behind it with barriers of the cluster; once, and again and again."""
    bars, s = pair()
    tid = mo.thread_idx().x
    there = mo.map_shared_rank(s, mo.cluster_rank() ^ 1)
    for _ in range(n):
        for k in range(n):
            mo.mbarrier_wait(bars, 0, k % 2)
            mo.mbarrier_arrive(bars, 0, cta=mo.cluster_rank() ^ 1)
        s[tid] = x[tid, 0]
        mo.cluster_sync()
        x[tid, 1] = there[tid]
        mo.cluster_sync()


@mo.kernel
def carried_by_the_loop(x, n):
    """What is written at the end of an iteration is told of at the beginning of the next one."""
    bars, s = pair()
    there = mo.map_shared_rank(s, mo.cluster_rank() ^ 1)
    for k in range(n):
        mo.mbarrier_wait(bars, 0, k % 2)
        mo.mbarrier_arrive(bars, 0, cta=mo.cluster_rank() ^ 1)
        there[mo.thread_idx().x] = s[0]


@mo.kernel
def roles(x, n):
    """One warp writes, another arrives for it, a third reads: named barriers pass on what other branches do."""
    bars, s = pair()
    tid, warp = mo.thread_idx().x, mo.thread_idx().x // 32
    there = mo.map_shared_rank(s, mo.cluster_rank() ^ 1)
    if warp == 0:
        there[tid] = x[0, 0]
        mo.barrier_arrive(1, 64)
    elif warp == 1:
        mo.barrier_sync(1, 64)
        mo.mbarrier_arrive(bars, 0, cta=1)
        mo.mbarrier_wait(bars, 0, 0)
        mo.barrier_arrive(2, 64)
    else:
        mo.barrier_sync(2, 64)
        x[0, 1] = s[tid % 32]


@mo.kernel
def roles_that_return(x, n):
    """The same with a return in place of an else."""
    bars, s = pair()
    tid, warp = mo.thread_idx().x, mo.thread_idx().x // 32
    there = mo.map_shared_rank(s, mo.cluster_rank() ^ 1)
    if warp == 0:
        there[tid] = x[0, 0]
        mo.barrier_arrive(1, 64)
        return
    mo.barrier_sync(1, 64)
    mo.mbarrier_arrive(bars, 0, cta=1)


@mo.kernel
def breaks(x, n):
    """A jump takes what was written to the end of its loop."""
    bars, s = pair()
    there = mo.map_shared_rank(s, mo.cluster_rank() ^ 1)
    for k in range(n):
        if x[0, k] > 0:
            there[0] = x[0, 0]
            break
        mo.mbarrier_arrive(bars, 0, cta=1)
    mo.mbarrier_arrive(bars, 1, cta=1)


@mo.kernel
def ring_beside(x, n):
    """Only the block itself arrives at the first mbarrier, and the asynchronous proxy; another block tells by the
    second one."""
    (bars, s), own = pair(), mo.mbarrier_array(1)
    tid = mo.thread_idx().x
    there = mo.map_shared_rank(s, mo.cluster_rank() ^ 1)
    if tid == 0:
        mo.mbarrier_init(own, 0, 1)
        mo.mbarrier_arrive_expect_tx(own, 0, 0)
    mo.cluster_sync()
    mo.mbarrier_wait(own, 0, 0)
    mo.st_async(mo.tile(there, (1,), (tid,)), x[0, 0], barrier=(bars, 0))
    mo.mbarrier_wait(bars, 0, 0)
    x[0, 1] = s[tid]


@mo.kernel
def passed_on(x, n):
    """A warp that waits for another block tells the other warp by an mbarrier of their own."""
    (bars, s), own = pair(), mo.mbarrier_array(1)
    tid, warp = mo.thread_idx().x, mo.thread_idx().x // 32
    there = mo.map_shared_rank(s, mo.cluster_rank() ^ 1)
    if tid == 0:
        mo.mbarrier_init(own, 0, 32)
    mo.cluster_sync()
    if warp == 0:
        there[tid] = x[0, 0]
        mo.mbarrier_arrive(bars, 0, cta=mo.cluster_rank() ^ 1)
        mo.mbarrier_wait(bars, 0, 0)
        mo.mbarrier_arrive(own, 0)
    else:
        mo.mbarrier_wait(own, 0, 0)
        x[0, 1] = s[tid % 32]


@pytest.mark.parametrize(("kernel", "calls"), [
    (ring_beside, "wW"), (passed_on, "AWw"),
    (nothing_is_mapped, "aw"), (straight, "AWaw"), (stored, "Ww"), (relaxed, "A"), (arrives_between, "Aa"),
    (epilogue, "wa"), (carried_by_the_loop, "WA"), (roles, "AW"), (roles_that_return, "A"), (breaks, "aA"),
], ids=lambda x: getattr(x, "__name__", None))
def test_scopes(kernel, calls):
    assert printed(kernel, block={roles: 96, passed_on: 64}.get(kernel, ops_kernels_peers.THREADS)) == calls


def test_the_instructions():
    """The scope stands in both instructions, and other kernels are printed without it."""
    case = CASES["peer-handover-2"]
    source = case.kernel.compile(*case.arguments(1), block=case.block, cluster=case.cluster, arch="sm_90a").source
    assert "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];" in source
    assert "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;" in source
    case = CASES[f"hopper-cluster-{'x'.join(map(str, ops_kernels_hopper.CLUSTERS[0]))}"]
    source = case.kernel.compile(*case.arguments(1), block=case.block, cluster=case.cluster, arch="sm_90a").source
    assert "release.cluster.shared" not in source and "acquire.cluster.shared" not in source
