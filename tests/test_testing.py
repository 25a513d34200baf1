"""testing.py: Triton's statistics, the order of runs, and what is refused; times themselves are GPU tests."""

from __future__ import annotations

import pytest

from moye import testing
from moye.cuda.device import events
from moye.errors import ArgumentError


class Clock:
    """A device on which each piece of work takes the milliseconds that it says."""

    now = 0.0
    log: tuple = ()


class Event:
    def __init__(self, ordinal):
        self.at = 0.0

    def record(self, stream, *, in_graph=False):
        self.at = Clock.now

    def synchronize(self):
        pass

    def since(self, start):
        return self.at - start.at


class Memory:
    freed = 0

    def __init__(self, size, ordinal):
        assert size == 256 << 20

    def fill(self, stream, value=0):
        Clock.now += 0.1
        Clock.log += ("flush",)

    def free(self):
        Memory.freed += 1


@pytest.fixture(autouse=True)
def device(monkeypatch):
    Clock.now, Clock.log, Memory.freed = 0.0, (), 0
    monkeypatch.setattr(events, "Event", Event)
    monkeypatch.setattr(events, "Memory", Memory)
    monkeypatch.setattr(events, "synchronize", lambda ordinal: None)
    monkeypatch.setattr(events, "current_stream", lambda ordinal, kind="": 0)
    monkeypatch.setattr(events, "current_ordinal", lambda: 0)


def work(name, times):
    taken = iter(times)

    def run():
        Clock.log += (name,)
        Clock.now += next(taken, times[-1])
    return run


def test_do_bench_times_runs_and_not_the_flush():
    assert testing.do_bench(work("a", [2.0]), warmup=5, rep=20) == pytest.approx(2.0)
    assert Memory.freed == 1
    assert testing.do_bench(work("a", [2.0]), warmup=5, rep=20, flush=False) == pytest.approx(2.0)


def test_rep_and_warmup_are_milliseconds():
    testing.do_bench(work("a", [2.0]), warmup=10, rep=21, flush=False)
    assert Clock.log.count("a") == 1 + 5 + 5 + 10       # first, estimate, warm-up, repetitions


@pytest.mark.parametrize(("mode", "expected"), [
    ("min", 1.0), ("max", 4.0), ("mean", 2.5), ("median", 2.5), ("all", [4.0, 1.0, 3.0, 2.0])])
def test_modes(mode, expected):
    assert testing._summary([4.0, 1.0, 3.0, 2.0], None, mode) == expected


def test_quantiles_interpolate_and_take_the_place_of_the_mode():
    times = [4.0, 1.0, 3.0, 2.0, 5.0]
    assert testing._summary(times, [0.5, 0.2, 0.9], "max") == pytest.approx([3.0, 1.8, 4.6])
    assert testing._summary(times, [0.5], "max") == 3.0


def test_grad_to_none():
    class Parameter:
        grad = 1
    parameter = Parameter()
    testing.do_bench(work("a", [1.0]), 1, 1, grad_to_none=[parameter])
    assert parameter.grad is None


def test_interleave_reverses_every_other_round_and_flushes_before_every_run():
    found = testing.interleave({"a": work("a", [1.0]), "b": work("b", [2.0])}, rounds=4, warmup=0)
    assert found == pytest.approx({"a": 1.0, "b": 2.0})
    timed = [name for before, name in zip(Clock.log, Clock.log[1:], strict=False)
             if name != "flush" and before == "flush"]
    assert timed[-8:] == ["a", "b", "b", "a"] * 2


def test_refusals():
    with pytest.raises(ArgumentError, match="return_mode is 'avg'"):
        testing.do_bench(lambda: None, return_mode="avg")
    with pytest.raises(ArgumentError, match="quantiles lie in"):
        testing.do_bench(lambda: None, quantiles=[2])
    with pytest.raises(ArgumentError, match="1 or more rounds"):
        testing.interleave({}, 0)
    with pytest.raises(ArgumentError, match="needs torch"):
        testing.do_bench(work("a", [1.0]), graph=True)
