"""Trials on disk: an entry for each configuration; times of two days."""

from __future__ import annotations

import pytest

from moye.runtime.tuning.trials import Config, Trial, TrialStore, merged, near


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("MOYE_CACHE_DIR", str(tmp_path))


def work(x):
    return x + 1


def other(x):
    return x + 2


def trials(**ms):
    return {Config(n=name): Trial(Config(n=name), value, "" if value else "illegal") for name, value in ms.items()}


def test_what_was_kept_is_found_by_configuration():
    store, some = TrialStore(work, "x: 3", "Stub"), trials(a=1.5, b=None)
    assert store.load(some) == {}
    store.save(some.values())
    assert store.load([Config(n="b"), Config(n="c"), Config(n="a")]) == some
    TrialStore(work, "x: 3", "Stub").save(trials(c=2.0, a=1.25).values())
    assert store.load([*some, Config(n="c")]) == trials(a=1.25, b=None, c=2.0)


def test_functions_keys_and_devices_are_apart():
    TrialStore(work, "x: 3", "Stub").save(trials(a=1.0).values())
    for function, key, device in ((other, "x: 3", "Stub"), (work, "x: 4", "Stub"), (work, "x: 3", "Stub 2")):
        assert TrialStore(function, key, device).load([Config(n="a")]) == {}


def test_times_with_asserts_in_the_kernels_are_apart(monkeypatch):
    TrialStore(work, "x: 3", "Stub").save(trials(a=1.0).values())
    monkeypatch.setenv("MOYE_ASSERT", "1")
    assert TrialStore(work, "x: 3", "Stub").load([Config(n="a")]) == {}


def test_configurations_that_hold_functions_count_by_what_these_do():
    TrialStore(work, "", "Stub").save([Trial(Config(f=lambda x: x * 2), 1.0)])
    found = TrialStore(work, "", "Stub").load([Config(f=lambda x: x * 2), Config(f=lambda x: x * 3)])
    assert [trial.ms for trial in found.values()] == [1.0]


def test_without_a_disk_cache_nothing_is_kept(monkeypatch):
    monkeypatch.setenv("MOYE_DISK_CACHE", "0")
    store = TrialStore(work, "", "Stub")
    store.save(trials(a=1.0).values())
    assert store.load([Config(n="a")]) == {}


def test_near():
    assert near({}) == []
    assert near({"a": 2.0, "b": 1.0, "c": 1.31, "d": 1.29}) == ["b", "d"]
    assert near({i: 1 + i / 1000 for i in range(20)}) == list(range(10))


def test_what_is_not_tried_again_does_not_win():
    known = trials(best=1.0, near=1.2, far=1.5, slow=9.0, bad=None)
    tried = trials(best=2.0, near=2.1, new=2.2)             # the device was slower on this day
    found = merged(known, list(tried.values()))
    assert {config["n"]: trial.ms for config, trial in found.items()} == \
        {"best": 2.0, "near": 2.1, "far": 2.1, "slow": 9.0, "bad": None, "new": 2.2}
    assert merged({}, list(tried.values())) == tried
