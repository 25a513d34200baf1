"""Which registers a copy of a whole warp sets: those that it names, not as many as a row has elements."""

from __future__ import annotations

import numpy as np
import pytest

from matrix_kernels import ROUND_TRIPS
from moye.ir import ops
from moye.sim.timeline.statements import _rows


@pytest.mark.parametrize("name", ["x1-float16-stmatrix", "x2-float32-stmatrix", "x4-trans-float16-stmatrix"])
def test_registers_of_matrix_copies(name):
    case = ROUND_TRIPS[name]
    func = case.kernel.trace(*case.arguments, block=case.block)
    copies = [op for op in func.body.walk() if isinstance(op, ops.Copy) and op.atom.matrices]
    assert [op.atom.stores for op in copies] == [False, True]
    for op in copies:
        [(ref, written, rows)] = list(_rows(op))
        assert written != op.atom.stores
        assert np.array_equal(np.sort(rows, axis=None), np.arange(ref.buffer.elements))
