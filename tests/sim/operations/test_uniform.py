"""Operations of several threads on a value that all of them share, under a condition that blocks decide.

The simulator keeps such a value, and such a condition, as one number for a block; what comes out must be what comes of
the same numbers, loaded by each thread.
"""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo

FOLDS = {
    "sum": lambda v, scratch: mo.warp_reduce(v), "max": lambda v, scratch: mo.warp_reduce(v, "max"),
    "and": lambda v, scratch: mo.warp_reduce(v, "and"), "xor": lambda v, scratch: mo.warp_reduce(v, "xor"),
    "count": lambda v, scratch: mo.warp_reduce(v > 2), "float": lambda v, scratch: mo.warp_reduce(v * 0.5).to(mo.int32),
    "scan": lambda v, scratch: mo.warp_scan(v), "argmax": lambda v, scratch: mo.warp_reduce((v, 5 - v), "argmax")[1],
    "block": lambda v, scratch: mo.block_reduce(v, scratch), "block scan": lambda v, scratch: mo.block_scan(v, scratch),
    "ballot": lambda v, scratch: mo.ballot(v > 2), "match": lambda v, scratch: mo.match_any(v),
    "all": lambda v, scratch: mo.match_all(v), "vote": lambda v, scratch: mo.vote_all(v > 2),
    "shuffle": lambda v, scratch: mo.shuffle_up(v, 1),
}


@mo.kernel
def folded(out, x, n, fold: mo.Constexpr, always: mo.Constexpr):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    scratch = mo.shared_array(mo.int32, 2)
    if always or bid == 1:
        out[bid, 0, tid] = fold(n, scratch)
        out[bid, 1, tid] = fold(x[bid, tid], scratch)


@pytest.mark.parametrize("fold", FOLDS)
@pytest.mark.parametrize("block", [32, 64])
def test_shared_by_all_threads(fold, block):
    x = np.full((2, block), 3, np.int32)
    for always in (True, False):
        out = np.full((2, 2, block), -1, np.int64)
        assert mo.check(folded)[2, block](out, x, 3, FOLDS[fold], always).ok
        assert np.array_equal(out[:, 0], out[:, 1])
        assert (out[0] == -1).all() != always and (out[1] != -1).all()
