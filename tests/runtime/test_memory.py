"""Memory that another program hands over: described, launched on, and on whose stream."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import moye as mo
from moye.cuda.device import driver
from moye.runtime import fast_launch
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
    kind = fast_launch._array_kind(a)
    pointer = fast_launch._ARRAYS[kind][0]
    assert kind == "memory" and eval(pointer.format(a="a"), {"a": a}) == 0x1000
    key = fast_launch._key_function((kind,))
    others = [Memory(0x1008, (4, 8), mo.float32, 0), Memory(0x1000, (8, 4), mo.float32, 0),
              Memory(0x1000, (4, 8), mo.int32, 0), Memory(0x1000, (4, 8), mo.float32, 1),
              Memory(0x1000, (4, 8), mo.float32, 0, False)]
    assert key((a,)) == key((Memory(0x2000, (4, 8), mo.float32, 0),))
    assert len({key((x,)) for x in (a, *others)}) == 6
