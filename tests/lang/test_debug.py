"""``mo.inspect``, ``breakpoint()`` and the snapshots that they leave."""

import numpy as np
import pytest

import moye as mo


@mo.kernel
def looked_at(A, B):
    i = mo.thread_idx().x
    bx = mo.block_idx().x
    gA = mo.tile(A, (4, 2), (i, bx))
    part = mo.make_fragment_like(gA)
    unset = mo.fragment(2, mo.float32)
    mo.copyto(part, gA)
    mo.inspect("loaded", part=part, i=i)
    for j in range(2):  # noqa: B007 (the snapshots show it)
        part += 1
        breakpoint()
    mo.copyto(mo.tile(B, (4, 2), (i, bx)), part)
    assert mo.size(unset) == 2


def run():
    A = np.asfortranarray(np.arange(32 * 8, dtype=np.float32).reshape(32, 8))
    B = np.full_like(A, np.nan)
    looked_at[4, 8](A, B)
    assert np.array_equal(B, A + 2)
    return A, mo.inspections()


def test_a_snapshot_holds_every_thread_by_logical_coordinate():
    A, (loaded, *_) = run()
    assert loaded.label == "loaded" and loaded.names == ("part", "i")
    for thread in (0, 3, 7):
        for block in ((0, 0, 0), (2, 0, 0)):
            expected = A[4 * thread:4 * thread + 4, 2 * block[0]:2 * block[0] + 2]
            assert np.array_equal(loaded.value("part", thread, block), expected)
            assert loaded.value("i", thread, block) == thread


def test_show_names_the_coordinate_of_each_element():
    _, (loaded, *_) = run()
    lines = loaded.show("part", thread=3, block=(1, 0, 0)).splitlines()
    assert lines[0] == "part of thread 3 in block (1, 0, 0), layout (4,2):(1,4)"
    assert lines[2] == "part(1, 0) = 106.0" and lines[-1] == "part(3, 1) = 123.0"


def test_a_breakpoint_keeps_what_is_visible_each_time_it_is_passed():
    A, (_, first, second) = run()
    assert {"gA", "part", "unset", "i", "j"} <= set(first.names)
    assert [s.value("j") for s in (first, second)] == [0, 1]
    for turn, shot in enumerate((first, second), start=1):
        assert np.array_equal(shot.value("part", 1), A[4:8, :2] + turn)
        assert np.array_equal(shot.value("gA", 1), A[4:8, :2])
        assert shot.loc.frames[-1].text().strip() == "breakpoint()"


def test_asking_for_what_is_not_there_says_what_is():
    _, (loaded, *_) = run()
    with pytest.raises(mo.ArgumentError, match="holds part, i, not 'other'"):
        loaded.value("other")
    with pytest.raises(mo.ArgumentError, match=r"block \(9, 0, 0\) is not in this snapshot"):
        loaded.value("part", 0, (9, 0, 0))
