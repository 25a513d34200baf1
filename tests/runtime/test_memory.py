"""Memory that another program hands over: described, launched on, and on whose stream."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import moye as mo
from moye.cuda.device import driver
from moye.runtime import fast_launch, leaves
from moye.runtime.arrays import ArrayInfo, Memory


def over(array, writable=True):
    return Memory(array.ctypes.data, array.shape, mo.float32, None, writable)


@mo.kernel
def copied(y, x):
    y[mo.thread_idx().x] = x[mo.thread_idx().x]


def test_it_is_dense_and_row_major():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert mo.describe(over(x)) == ArrayInfo(x.ctypes.data, (2, 3), (3, 1), mo.float32, None, True, "memory")
    assert over(x).strides == (3, 1)


def test_views():
    m = over(np.zeros((2, 3, 4), np.float32))
    assert m.strides == (12, 4, 1)
    for view, shape, strides in ((m.T, (4, 3, 2), (1, 4, 12)), (m.transpose(1, 0, 2), (3, 2, 4), (4, 12, 1)),
                                 (m.swapaxes(0, 2), (4, 3, 2), (1, 4, 12))):
        assert (view.ptr, view.shape, view.strides) == (m.ptr, shape, strides)
    x, y = np.arange(32, dtype=np.float32).reshape(4, 8), np.zeros((8, 4), np.float32)

    @mo.kernel
    def spread(dst, src):
        i, j = mo.thread_idx().x, mo.thread_idx().y
        dst[i, j] = src[i, j]

    spread[1, (8, 4)](over(y), over(x).T)
    assert np.array_equal(y, x.T)


def test_a_launch_writes_it_in_place():
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    copied[1, 32](over(y), over(x, False))
    assert np.array_equal(x, y)
    with pytest.raises(mo.ArgumentError, match="copied writes argument 'y', which is read-only"):
        copied[1, 32](over(y, False), over(x))


def test_launches_go_to_the_stream_that_was_handed_over():
    assert driver.current_stream(0, "memory") == 0
    found = []
    with driver.on_stream(5):
        with driver.on_stream(7):
            assert fast_launch.stream_reader("memory")(0) == 7
        other = threading.Thread(target=lambda: found.append(driver.current_stream(0, "memory")))
        other.start()
        other.join()
        assert driver.current_stream(0, "memory") == 5 and found == [0]
    assert driver.current_stream(0, "memory") == 0


def test_the_short_way_knows_all_that_matters():
    """What a plan reads of memory: the pointer, and everything that tells two of them apart besides."""
    a = Memory(0x1000, (4, 8), mo.float32, 0)
    kind = leaves.array_kind(a)
    pointer = leaves.ARRAYS[kind][0]
    assert kind == "memory" and eval(pointer.format(a="a"), {"a": a}) == 0x1000
    key = fast_launch._key_function(["a"], [kind])
    others = [Memory(0x1008, (4, 8), mo.float32, 0), Memory(0x1000, (8, 4), mo.float32, 0),
              Memory(0x1000, (4, 8), mo.int32, 0), Memory(0x1000, (4, 8), mo.float32, 1),
              Memory(0x1000, (4, 8), mo.float32, 0, False), Memory(0x1000, (4, 8), mo.float32, 0, True, (1, 4))]
    assert key((a,)) == key((Memory(0x2000, (4, 8), mo.float32, 0),))
    assert len({key((x,)) for x in (a, *others)}) == 7


def test_memory_whose_call_has_ended_is_refused():
    """Also views that were kept, and on the short way: their memory is another's by then."""
    a = Memory(0x1000, (4, 8), mo.float32, 0)
    view, key = a.T, fast_launch._key_function(["a"], [leaves.array_kind(a)])
    before = key((view,))
    a.life.ended = True
    assert key((view,)) != before
    for each in (a, view):
        with pytest.raises(mo.ArgumentError, match="handed over for one call is used after that call"):
            mo.describe(each)
