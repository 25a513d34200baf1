"""Failures of disk, memory and compiler at the calls of cache and runtime: a right answer or an error of moye's own.

By hand, every call in every way: ``python tests/fuzz/failures.py SEED RUNS``.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest

import moye as mo
from fuzz import failures
from moye.cuda.compiler import nvrtc
from moye.errors import MoyeError
from moye.runtime import cache as caches
from moye.runtime import compile as compiling
from moye.runtime import disk


@pytest.fixture(scope="module", autouse=True)
def _compiler():
    failures.prepare()


@pytest.fixture
def root(tmp_path):
    return tmp_path / "cache"


@pytest.mark.slow
@pytest.mark.parametrize("name", failures.SCENARIOS)
def test_each_call_fails_once(name, root):
    found = list(failures.one_by_one(name, root, random.Random(f"{name} 1"), 30))
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize("name", failures.SCENARIOS)
def test_many_calls_fail(name, root):
    found = list(failures.drawn(name, root, random.Random(f"{name} 2"), 12))
    assert not found, "\n".join(map(str, found))


# --- the judge itself ------------------------------------------------------------------------------------------------


def raises(*_, **__):
    raise OSError("not caught")


@pytest.mark.parametrize(("owner", "name", "broken", "told"), [
    (disk, "read", raises, "not caught"),
    (disk, "_FAILS", (ValueError,), "FileNotFoundError"),
    (caches, "_unpack", lambda data: (data, {}), "an entry that is no entry is left"),
    (compiling, "misfit", lambda *_: "broken", "afterwards"),
], ids=["reading raises", "errors are not caught", "no digest", "nothing is taken"])
def test_the_judge_sees_faults(owner, name, broken, told, root, monkeypatch):
    if name == "_unpack":                               # misfit would notice
        monkeypatch.setattr(compiling, "misfit", lambda *_: None)
    monkeypatch.setattr(owner, name, broken)
    assert told in "".join(map(str, failures.run("twice", lambda at, call: None, root)[1]))


def test_the_judge_sees_what_a_compiler_hands_out(root, monkeypatch):
    def garbage(at, call):
        return "garbage" if call == "nvrtcGetCUBIN" else None

    injector, faults = failures.run("cold", garbage, root)
    assert injector.failed and not faults
    monkeypatch.setattr(compiling, "misfit", lambda *_: None)
    assert failures.run("cold", garbage, root)[1]


# --- memory of the simulator -----------------------------------------------------------------------------------------


@mo.kernel
def reversed_sums(y, x):
    i = mo.thread_idx().x
    s = mo.shared_array(mo.float32, (32,))
    s[i] = x[i, mo.block_idx().x]
    mo.sync_threads()
    total = s[31 - i]
    for k in range(3):
        total += s[k]
    y[i, mo.block_idx().x] = total


def test_every_allocation_of_the_simulator_fails_once(monkeypatch):
    x = np.arange(64, dtype=np.float32).reshape(32, 2)
    expected = x[::-1] + x[:3].sum(0)
    y = np.zeros_like(x)
    reversed_sums[2, 32](y, x)
    assert np.array_equal(y, expected)
    count, failing = 0, -1

    def around(function):
        def called(*args, **kwargs):
            nonlocal count
            if f"{'moye'}/sim/" in sys._getframe(1).f_code.co_filename.replace("\\", "/"):
                count += 1
                if count - 1 == failing:
                    raise MemoryError
            return function(*args, **kwargs)
        return called

    for name in ("empty", "zeros", "full", "arange", "empty_like", "zeros_like"):
        monkeypatch.setattr(np, name, around(getattr(np, name)))
    reversed_sums[2, 32](y, x)
    calls = count
    assert calls > 5
    refused = 0
    for number in range(calls):
        failing, count, y[...] = number, 0, 0
        try:
            reversed_sums[2, 32](y, x)
        except MoyeError as error:
            assert "not enough memory" in error.message
            refused += 1
        else:
            assert np.array_equal(y, expected)
    assert refused
    failing = -1
    reversed_sums[2, 32](y, x)
    assert np.array_equal(y, expected)


# --- disassemblers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [OSError("no such program"), MemoryError(),
                                     nvrtc.subprocess.TimeoutExpired("nvdisasm", 120),
                                     UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid")])
def test_a_disassembler_that_fails(failure, monkeypatch):
    def run(*_, **__):
        raise failure
    monkeypatch.setattr(nvrtc, "_disassembler", lambda: Path("/usr/bin/nvdisasm"))
    monkeypatch.setattr(nvrtc.subprocess, "run", run)
    with pytest.raises(MoyeError, match="nvdisasm did not disassemble this cubin"):
        nvrtc.sass(failures.EXPECTED[0][1])
