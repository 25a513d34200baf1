"""The barrier at the end of block_reduce and block_scan stands where somebody comes to the scratch again."""

import numpy as np
import pytest

import moye as mo
from moye.cuda.printing.printer import print_kernel


@mo.kernel
def once(out, x):
    scratch, tid = mo.shared_array(mo.float32, 4), mo.thread_idx().x
    total = mo.block_reduce(x[tid], scratch)
    if tid == 0:
        out[0] = total


@mo.kernel
def twice(out, x):
    scratch, tid = mo.shared_array(mo.float32, 4), mo.thread_idx().x
    top = mo.block_reduce(x[tid], scratch, "max")
    total = mo.block_reduce(x[tid] + top, scratch)
    out[0] = total - 64 * top


@mo.kernel
def scanned(out, x):
    scratch, tid = mo.shared_array(mo.float32, 4), mo.thread_idx().x
    before = mo.block_scan(x[tid], scratch)
    if tid == mo.block_dim().x - 1:
        out[0] = before


@mo.kernel
def in_turns(out, x):
    scratch, tid = mo.shared_array(mo.float32, 4), mo.thread_idx().x
    total = mo.float32(0)
    for _ in mo.range(2):
        total += mo.block_reduce(x[tid] * 0.5, scratch)
    out[0] = total


@mo.kernel
def under_a_condition(out, x):
    scratch, tid = mo.shared_array(mo.float32, 4), mo.thread_idx().x
    if mo.size(x) > 32:
        total = mo.block_reduce(x[tid], scratch)
        out[0] = total


@mo.kernel
def met_again(out, x):
    scratch, tid = mo.shared_array(mo.float32, 4), mo.thread_idx().x
    total = mo.block_reduce(x[tid], scratch)
    mo.sync_threads()
    scratch[tid % 4] = total
    mo.sync_threads()
    out[0] = scratch[3]


@mo.kernel
def used_again(out, x):
    scratch, tid = mo.shared_array(mo.float32, 4), mo.thread_idx().x
    total = mo.block_reduce(x[tid], scratch)
    if tid == 0:
        scratch[1] = total
        out[0] = scratch[1]


@mo.kernel
def seen_through_another_view(out, x):
    scratch, tid = mo.shared_array(mo.float32, 4), mo.thread_idx().x
    total = mo.block_reduce(x[tid], scratch)
    if tid == 0:
        other = scratch.with_layout(mo.make_layout((2, 2)))
        other[0, 1] = total
        out[0] = other[0, 1]


@mo.kernel
def nobody_knows(out, x):
    scratch, tid = mo.shared_array(mo.float32, 4), mo.thread_idx().x
    total = mo.block_reduce(x[tid], scratch)
    mo.inline_ptx("membar.cta;", volatile=True, memory=True, simulate=lambda: ())
    out[0] = total


@mo.kernel
def other_memory(out, x):
    """What is written before the call and read after it is ordered by the barrier inside."""
    scratch, tid = mo.shared_array(mo.float32, 4), mo.thread_idx().x
    staged = mo.shared_array(mo.float32, 64)
    staged[tid] = x[tid]
    total = mo.block_reduce(x[tid], scratch)
    out[0] = total + staged[63 - tid] * 0


@pytest.mark.parametrize("kernel, barriers", [
    (once, 1), (twice, 3), (scanned, 1), (in_turns, 2), (under_a_condition, 1), (met_again, 3), (used_again, 2),
    (seen_through_another_view, 2), (nobody_knows, 2), (other_memory, 1),
], ids=lambda x: getattr(x, "__name__", ""))
def test_barriers(kernel, barriers):
    x, out = np.arange(64, dtype=np.float32), np.zeros(1, np.float32)
    report = mo.check(kernel)[1, 64](out, x)
    assert report.ok, report
    assert out[0] == x.sum()
    assert print_kernel(kernel.trace(out, x, block=64)).source.count("__syncthreads()") == barriers


def test_the_scratch_of_a_pair_is_two_tensors():
    @mo.kernel
    def places(out, x):
        keys, at = mo.shared_array(mo.float32, 4), mo.shared_array(mo.int32, 4)
        tid = mo.thread_idx().x
        _, where = mo.block_reduce((x[tid], tid), (keys, at), "argmax")
        if tid == 0:
            at[2] = where
            out[0] = at[2]

    x, out = np.arange(64, dtype=np.float32), np.zeros(1, np.int32)
    assert mo.check(places)[1, 64](out, x).ok and out[0] == 63
    assert print_kernel(places.trace(out, x, block=64)).source.count("__syncthreads()") == 2
