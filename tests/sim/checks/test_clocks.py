"""Clocks of asynchronous units: who has heard of what, through barriers and channels, groups that split, and blocks."""

from __future__ import annotations

import numpy as np

from moye.sim.checks.clocks import Clocks


def mask(*threads, size=128):
    found = np.zeros((size, 1), np.bool_)
    found[list(threads)] = True
    return found


def groups(clocks, threads):
    clocks.split(threads)
    return clocks.groups_of(threads)


def heard(clocks, thread, engine):
    return int(clocks.heard[clocks.group[thread], engine, 0])


def test_an_epoch_is_heard_by_those_who_waited_alone():
    clocks = Clocks(128, 32)
    engine = clocks.engine()
    clocks.hear(engine, groups(clocks, mask(5)), 3)
    assert [heard(clocks, t, engine) for t in (5, 4, 40)] == [3, 0, 0]
    clocks.hear(engine, groups(clocks, mask(5)), 2)
    assert heard(clocks, 5, engine) == 3


def test_a_barrier_passes_it_on():
    clocks = Clocks(128, 32)
    engine = clocks.engine()
    clocks.hear(engine, groups(clocks, mask(*range(32))), 1)
    clocks.barrier(groups(clocks, mask(*range(64))))
    assert [heard(clocks, t, engine) for t in (0, 63, 64)] == [1, 1, 0]
    clocks.barrier(None)
    assert heard(clocks, 127, engine) == 1


def test_a_phase_passes_on_what_came_before_it_was_complete():
    clocks = Clocks(128, 32)
    first, consumers, producer = clocks.engine(), groups(clocks, mask(*range(32))), groups(clocks, mask(*range(32, 64)))
    clocks.hear(first, consumers, 1)
    clocks.send(("arrive", 0), consumers)
    clocks.publish(("arrive", 0), ("phase", 0), np.ones(1, np.bool_))
    second = clocks.engine()                            # made after the channel
    clocks.hear(first, consumers, 2)
    clocks.hear(second, consumers, 7)
    clocks.send(("arrive", 0), consumers)               # of a phase that is not complete
    clocks.receive(("phase", 0), producer)
    assert (heard(clocks, 32, first), heard(clocks, 32, second)) == (1, 0)
    clocks.publish(("arrive", 0), ("phase", 0), np.ones(1, np.bool_))
    clocks.receive(("phase", 0), producer)
    assert (heard(clocks, 32, first), heard(clocks, 32, second)) == (2, 7)


def test_blocks_hear_for_themselves():
    clocks = Clocks(64, 32)
    engine = clocks.engine()
    clocks.expand(2)
    who = np.array([[True, False], [False, False]])
    clocks.hear(engine, who, np.array([4, 9]))
    np.testing.assert_array_equal(clocks.heard[:, engine], [[4, 0], [0, 0]])
    clocks.send(("arrive", 0), who)
    clocks.publish(("arrive", 0), ("phase", 0), np.array([True, False]))
    clocks.receive(("phase", 0), np.array([[False, False], [True, True]]))
    np.testing.assert_array_equal(clocks.heard[:, engine], [[4, 0], [4, 0]])
