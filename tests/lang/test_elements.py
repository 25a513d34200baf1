"""Elements that atomics, ordered loads and ordered stores name: by the coordinates that ``t[...]`` takes."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo


@mo.kernel
def counted(count, top, x):
    i = mo.thread_idx().x
    mo.atomic_add(count, (), 1)
    mo.atomic_max(top, (), x[i])
    mo.sync_threads()
    if i == 0:
        mo.store(count, (), mo.load(count, ()) + mo.atomic_exch(count, (), 0) // 32)


def test_arrays_without_modes():
    """An array without modes has one element, at (), as ``count[()]`` says."""
    count, top, x = np.zeros((), np.int32), np.full((), -9, np.float32), np.arange(32, dtype=np.float32)
    assert mo.check(counted)[1, 32](count, top, x).ok
    assert count == 33 and top == 31
    assert counted.compile(count, top, x, block=32, arch="sm_90a").spills == 0


@pytest.mark.parametrize("what", ["atomic_add", "load", "store"])
@pytest.mark.parametrize("coordinate", [(1, None), (slice(None), 2), ...])
def test_views_are_no_elements(what, coordinate):
    @mo.kernel
    def kernel(x):
        if what == "load":
            x[0, 0] = mo.load(x, coordinate)
        else:
            getattr(mo, what)(x, coordinate, 1)

    with pytest.raises(mo.TensorError, match=rf"{what}: x\[.*:.*\] is a view, and one element is needed") as error:
        kernel[1, 1](np.zeros((2, 3), np.int32))
    assert (error.value.hint is None) is (what != "atomic_add")
