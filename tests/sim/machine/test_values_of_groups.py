"""Groups of threads that meet again carry their own values: 0.0 and -0.0, which compare equal, are two."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from moye.sim.flow.groups import same_values


@mo.kernel
def by_warps(out, z):
    """The first warp's zero is negative; each warp waits in an arm of its own."""
    tid = mo.thread_idx().x
    g = z[0]
    if tid < 32:
        g = -g
        out[tid, 1] = mo.warp_reduce(1.0)
    else:
        out[tid, 1] = mo.warp_reduce(2.0)
    out[tid, 0] = g


@mo.kernel
def by_blocks(out, z):
    """The same of whole blocks: the value does not depend on the thread."""
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    g = z[bid]
    if bid == 0:
        g = -g
        mo.sync_threads()
        out[bid * 32 + tid, 1] = mo.warp_reduce(1.0)
    else:
        out[bid * 32 + tid, 1] = mo.warp_reduce(2.0)
    out[bid * 32 + tid, 0] = g


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64], ids=lambda t: t.__name__)
@pytest.mark.parametrize("kernel, launch", [(by_warps, (1, 64)), (by_blocks, (2, 32))], ids=["warps", "blocks"])
def test_zeros_keep_their_sign_where_groups_meet(kernel, launch, dtype):
    out = np.ones((64, 2), dtype, order="F")
    report = mo.check(kernel)[launch](out, np.zeros(2, dtype))
    assert report.ok, report
    assert (np.signbit(out[:, 0].astype(np.float32)) == (np.arange(64) < 32)).all()
    assert not out[:, 0].astype(np.float32).any()


def test_what_is_the_same():
    half, zeros = ml_dtypes.bfloat16, np.zeros(2)
    assert same_values([0.0, zeros, zeros.astype(half), 3, np.arange(2)], [0.0, zeros.copy(), zeros.astype(half), 3,
                                                                          np.arange(2)])
    assert same_values([float("nan"), np.float32("nan")], [float("nan"), np.float32("nan")])
    for x, y in ((0.0, -0.0), (zeros, -zeros), (zeros.astype(half), -zeros.astype(half)), (1, 2),
                 (np.float32(0), np.float32(-0.0)), (np.arange(2), np.arange(1, 3))):
        assert not same_values([x], [y])
