"""mo.testing: arrays where kernels run, Triton's statistics, the order of runs, and what is refused.

Times themselves are GPU tests.
"""

from __future__ import annotations

import ctypes
import importlib.util
import types

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from moye import testing
from moye.cuda.device import driver, events
from moye.errors import ArgumentError
from moye.testing import host_arrays, timing


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
    assert timing._summary([4.0, 1.0, 3.0, 2.0], None, mode) == expected


def test_quantiles_interpolate_and_take_the_place_of_the_mode():
    times = [4.0, 1.0, 3.0, 2.0, 5.0]
    assert timing._summary(times, [0.5, 0.2, 0.9], "max") == pytest.approx([3.0, 1.8, 4.6])
    assert timing._summary(times, [0.5], "max") == 3.0


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


# --- arrays ----------------------------------------------------------------------------------------------------------


def test_arrays_without_a_gpu_are_copies_in_numpy(monkeypatch):
    monkeypatch.setattr(driver, "available", lambda: False)
    x = np.arange(6.0).reshape(2, 3)
    for order, strides in (("K", (24, 8)), ("C", (24, 8)), ("F", (8, 16))):
        made = testing.array(x, order=order)
        assert made.strides == strides and not np.shares_memory(made, x)
        assert testing.host(made) is made
    assert testing.array(x, mo.bfloat16).dtype == ml_dtypes.bfloat16
    assert testing.array(x.T).strides == x.T.strides
    assert testing.device() == ""


@pytest.mark.parametrize(("arch", "asked", "there"), [
    ("sm_90a", "", True), ("sm_90a", "sm_90a", True), ("sm_90a", "sm_90", True), ("sm_100a", "sm_90", True),
    ("sm_100a", "sm_90a", False), ("sm_80", "sm_90", False), ("sm_80", "", True)])
def test_the_device_is_one_of_the_architecture_that_is_asked_for(monkeypatch, arch, asked, there):
    monkeypatch.setattr(driver, "available", lambda: True)
    monkeypatch.setattr(events, "current_ordinal", lambda: 1)
    monkeypatch.setattr(driver, "device_limits", lambda n: types.SimpleNamespace(name=f"GPU {n}", arch=arch))
    assert testing.device(asked) == ("GPU 1" if there else "")


def test_arrays_without_torch_are_on_the_device(monkeypatch):
    """Bytes go there and back; the interface tells where they are; memory is given back once."""
    held, freed = {}, []

    class Memory:
        def __init__(self, size, ordinal):
            self.pointer = 4096

        def free(self):
            freed.append(self.pointer)

    monkeypatch.setattr(host_arrays, "device", lambda arch="": "GPU")
    monkeypatch.setattr(events, "current_ordinal", lambda: 0)
    monkeypatch.setattr(driver, "pointer_device", lambda pointer: 0)
    monkeypatch.setattr(events, "Memory", Memory)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(driver, "copy_to_device", lambda pointer, host, size, ordinal: held.update(
        {pointer: ctypes.string_at(host, size)}))
    monkeypatch.setattr(driver, "copy_to_host", lambda host, pointer, size, ordinal: ctypes.memmove(
        host, held[pointer], size))
    x = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    made = testing.array(x)
    assert mo.describe(made).strides == (1, 2) and mo.describe(made).ptr == 4096
    assert np.array_equal(testing.host(made), x)
    del made
    assert freed == [4096]
    with pytest.raises(mo.ArgumentError, match=r"^bfloat16 has no name in __cuda_array_interface__"):
        testing.array(x, mo.bfloat16)


def test_progress_is_shown_within_the_block_alone():
    @mo.kernel
    def fill(x):
        x[mo.block_idx().x] = 1.0

    seen, x = [], np.zeros(4, np.float32)
    with testing.progress(lambda done, blocks: seen.append((done, blocks))):
        fill[4, 1](x)
    assert seen[-1] == (4, 4)
    count = len(seen)
    fill[4, 1](x)
    assert len(seen) == count


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_types_of_other_libraries_have_no_name_for_cuda(device, dtype):
    assert not host_arrays.is_numpys(np.dtype(dtype))
    with pytest.raises(ArgumentError, match="has no name in __cuda_array_interface__"):
        mo.testing.DeviceArray(np.zeros(4, dtype))


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint64, np.float16, np.float64])
def test_types_of_numpy(dtype):
    assert host_arrays.is_numpys(np.dtype(dtype))
