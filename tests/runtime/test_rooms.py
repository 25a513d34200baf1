"""Which scratch arrays calls have in common, and which of a thread, a stream or a plan alone."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from moye.runtime import rooms  # noqa: E402
from moye.runtime.arrays import describe  # noqa: E402
from moye.runtime.recording import Scratch  # noqa: E402
from moye.runtime.rooms import Rooms  # noqa: E402


@pytest.fixture(autouse=True)
def nothing_in_common(monkeypatch):
    monkeypatch.setattr(rooms, "_common", {})


def scratch(count, *, raw=False, restored=False):
    def make(like, count):
        return torch.zeros(count, dtype=torch.uint8)
    return Scratch(make, 0, (count,), describe(make(None, count)), raw, restored)


ARGUMENTS = (torch.zeros(4),)
FILLED, RAW, COUNTED = scratch(100), scratch(1000, raw=True), scratch(64, restored=True)


def test_what_is_filled_anew_is_not_kept():
    for own in (False, True):
        assert Rooms([FILLED, RAW, FILLED, COUNTED], own=own).which == [1, 3]


def test_calls_of_a_thread_on_a_stream_have_memory_in_common():
    one, two = (Rooms([RAW, scratch(10, raw=True)], own=False) for _ in range(2))
    first, second = one.fill((0, 1), ARGUMENTS)
    assert second - first == 1024                       # behind the first one, at a multiple of 256 bytes
    assert two.fill((0, 1), ARGUMENTS) == (first, second)
    assert one.known == {(0, 1): (first, second)}
    for other in ((0, 2), (7, 1)):
        assert not {first, second} & set(two.fill(other, ARGUMENTS))


def test_a_plan_has_its_own():
    plans = [Rooms([RAW, COUNTED], own=True) for _ in range(2)]
    found = [plan.fill(key, ARGUMENTS) for plan in plans for key in ((0, 1), (0, 2))]
    assert len({pointer for pair in found for pointer in pair}) == 8
    assert not rooms._common


def test_more_memory_leaves_the_old_to_those_that_have_it():
    small, large = Rooms([RAW], own=False), Rooms([scratch(3 << 20, raw=True)], own=False)
    first = small.fill((0, 1), ARGUMENTS)
    second = large.fill((0, 1), ARGUMENTS)
    assert first != second and small.known[0, 1] == first
    assert small._arrays[0, 1][0].data_ptr() == first[0]
    assert Rooms([RAW], own=False).fill((0, 1), ARGUMENTS) == second


def test_large_arrays_are_not_kept_but_by_a_plan():
    large = [scratch(20 << 20, raw=True), scratch(13 << 20, raw=True), COUNTED]
    assert Rooms(large, own=False).which == [2]
    assert Rooms(large, own=True).which == [0, 1, 2]
    assert Rooms(large[:1], own=False).which == [0]


def test_threads_and_streams_beyond_the_limit_have_no_room():
    kept = Rooms([RAW], own=False)
    for n in range(rooms._MOST):
        assert kept.fill((0, n), ARGUMENTS)
    before = dict(kept.known)
    assert kept.fill((0, rooms._MOST), ARGUMENTS) is None
    assert Rooms([RAW], own=False).fill((1, 0), ARGUMENTS) is None
    assert kept.known == before
    own = Rooms([RAW], own=True)
    assert own.fill((1, 0), ARGUMENTS)
