"""Atomics on other blocks' shared memory: against NumPy, their instructions, and what the checker still finds."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
import peer_atomic_kernels as cases


def launch(kernel, args, blocks, cluster, block=cases.BLOCK):
    return mo.check(kernel).launch(*args, grid=blocks, block=block, cluster=cluster)


def test_a_histogram_over_a_cluster():
    args = cases.histogram_arguments()
    assert launch(cases.histogram_kernel, args, 12, 4).ok
    assert np.array_equal(args[0], cases.histogram_expected(args))
    ptx = cases.histogram_kernel.compile(*args, block=cases.BLOCK, cluster=4, arch="sm_90a").ptx
    assert "red.relaxed.gpu.shared::cluster.add.u32" in ptx


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "dtype"), cases.KINDS)
def test_kinds(kind, dtype):
    args = cases.kinds_arguments(kind, dtype)
    wanted = cases.kinds_expected(args)
    assert launch(cases.kinds_kernel, args, 4, 4).ok
    assert np.array_equal(args[0], wanted[0]) and np.array_equal(args[1], wanted[1])
    assert ".shared::cluster." in cases.kinds_kernel.compile(*args, block=cases.BLOCK, cluster=4, arch="sm_90a").ptx


def faulty(before, after, plain):
    """A kernel whose block 0 changes the memory of block 1 atomically, with or without barriers around."""
    @mo.kernel
    def kernel(out):
        s, tid, rank = mo.shared_array(mo.int32, 32), mo.thread_idx().x, mo.cluster_rank()
        s[tid] = 1
        if before:
            mo.cluster_sync()
        else:
            mo.cluster_arrive(relaxed=True)
            mo.cluster_wait()
        if rank == 0:
            mo.atomic_add(mo.map_shared_rank(s, 1), tid, 1)
        elif plain == "write":
            s[tid] = 2
        elif plain == "atomic":
            mo.atomic_add(s, tid, 1)
        if after:
            mo.cluster_sync()
        out[mo.block_idx().x, tid] = s[tid]
        mo.cluster_sync()

    return kernel


@pytest.mark.parametrize(("before", "after", "plain", "clean"), [
    (True, True, "none", True), (True, True, "atomic", True), (False, True, "none", False),
    (True, False, "none", False), (True, True, "write", False), (True, False, "atomic", False)])
def test_order(before, after, plain, clean):
    """Atomics do not race with one another; with plain accesses they do."""
    report = launch(faulty(before, after, plain), [np.zeros((2, 32), np.int32)], 2, 2, 32)
    assert report.ok == clean, str(report)


def test_a_block_may_not_end_before():
    @mo.kernel
    def leaves(out):
        s, tid = mo.shared_array(mo.int32, 32), mo.thread_idx().x
        s[tid] = 1
        mo.cluster_sync()
        if mo.cluster_rank() == 0:
            mo.atomic_add(mo.map_shared_rank(s, 1), tid, 1)
            out[tid] = s[tid]

    assert not launch(leaves, [np.zeros(32, np.int32)], 2, 2, 32).ok


def test_beyond_the_memory_of_the_other_block():
    @mo.kernel
    def beyond(out, n):
        s, tid = mo.shared_array(mo.int32, 32), mo.thread_idx().x
        s[tid] = 1
        mo.cluster_sync()
        mo.atomic_add(mo.map_shared_rank(s, 1), tid + n, 1)
        mo.cluster_sync()
        out[mo.block_idx().x, tid] = s[tid]

    report = launch(beyond, [np.zeros((2, 32), np.int32), 4], 2, 2, 32)
    assert {finding.code for finding in report.findings} == {"B2"}


@pytest.mark.parametrize("options", [{"order": "acq_rel"}, {"scope": "cta"}])
def test_refused(options):
    @mo.kernel
    def kernel(out):
        s = mo.shared_array(mo.int32, 32)
        mo.atomic_add(mo.map_shared_rank(s, 1), 0, 1, **options)

    with pytest.raises(mo.TensorError, match="in the shared memory of another block it is relaxed, of scope"):
        kernel.trace(np.zeros(32, np.int32), block=32, cluster=2)
