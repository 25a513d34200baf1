"""driver.py without a GPU: the probe, parameter blocks, launch limits, and what is refused before a driver call."""

from __future__ import annotations

import ctypes
import struct
import subprocess
import sys
import threading
import types

import pytest

from moye.cuda.compiler import nvrtc
from moye.cuda.device import driver
from moye.errors import ArgumentError, DriverError, LaunchError

H200 = driver.DeviceLimits("NVIDIA H200", "sm_90a", 1024, 232448, 233472, 2048, 132)
A100 = driver.DeviceLimits("NVIDIA A100", "sm_80", 1024, 166912, 167936, 2048, 108)


def read(block, address):
    """The bytes that a driver would copy for each parameter."""
    pointers = (ctypes.c_void_p * len(block.formats)).from_address(address)
    return [ctypes.string_at(pointer, size) for pointer, size in zip(pointers, block.sizes, strict=True)]


# --- the probe -------------------------------------------------------------------------------------------------------


@pytest.fixture
def no_driver(monkeypatch):
    """A machine without libcuda, whatever this one has."""
    def refuse(name, *args, **kwargs):
        raise OSError(f"{name}: cannot open shared object file")
    monkeypatch.setattr(ctypes, "CDLL", refuse)
    for cached in (driver._probe, driver._driver):
        cached.cache_clear()
    yield
    for cached in (driver._probe, driver._driver):
        cached.cache_clear()


def test_no_driver(no_driver):
    assert driver.available() is False
    assert driver.device_count() == 0


@pytest.mark.parametrize("call", [lambda: driver.device_arch(0), lambda: driver.device_limits(0),
                                  lambda: driver.synchronize(0), lambda: driver.pointer_device(1)])
def test_every_driver_call_says_that_there_is_none(no_driver, call):
    with pytest.raises(DriverError, match=r"no GPU can be used: .*libcuda\.so\.1 cannot be loaded"):
        call()
    with pytest.raises(DriverError, match="no GPU can be used"):
        call()                                          # the second call must not hang


def test_importing_and_probing_need_no_package():
    code = ("import sys; sys.modules['cuda'] = None; import moye.cuda.device.driver as d; d.available(); "
            "print('numpy' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "False"


# --- parameters ------------------------------------------------------------------------------------------------------


def test_param_block_points_at_every_value():
    block = driver.ParamBlock(["P", "i", "d", "128s", "f", "?", "q"])
    values = (0x7F00_1234_5678, -5, 2.5, bytes(range(128)), 1.5, True, -(2**40))
    got = read(block, block.pack(values))
    assert [struct.unpack(form, data)[0] for form, data in zip(block.formats, got, strict=True)] == list(values)


def test_param_block_aligns_naturally():
    block = driver.ParamBlock(["b", "d", "b", "i"])
    pointers = (ctypes.c_void_p * 4).from_address(block.pack((1, 2.0, 3, 4)))
    assert [pointer - pointers[0] for pointer in pointers] == [0, 8, 16, 20]


def test_param_block_reuses_one_buffer():
    block = driver.ParamBlock(["P", "f"])
    assert block.pack((1, 1.0)) == block.pack((2, 2.0))


def test_param_block_without_parameters():
    assert driver.ParamBlock([]).pack(()) != 0


def test_param_block_per_thread():
    block = driver.ParamBlock(["q", "q"])
    barrier, wrong = threading.Barrier(4), []

    def work(number):
        for i in range(200):
            address = block.pack((number, i))
            if not i:
                barrier.wait()                          # every thread has packed before any reads
            if [struct.unpack("q", data)[0] for data in read(block, address)] != [number, i]:
                wrong.append((number, i))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(("formats", "values", "words"), [
    (["P", "i"], (1,), "takes 2 parameters and got 1"),
    (["P", "i"], (1, 2**31), f"parameter 1 is {2**31}, which is no 'i'"),
    (["P", "f"], (None, 1.0), "parameter 0 is None, which is no 'P'"),
    (["i"], (1.5,), "parameter 0 is 1.5, which is no 'i'"),
])
def test_param_block_refuses(formats, values, words):
    with pytest.raises(ArgumentError, match=words):
        driver.ParamBlock(formats).pack(values)


def test_param_block_refuses_a_format():
    with pytest.raises(ArgumentError, match="not struct formats"):
        driver.ParamBlock(["float*"])


# --- what a cubin says against what is passed ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cubin():
    source = 'extern "C" __global__ void axpy(float* y, const float* x, float a, int n) { y[n] += a * x[n]; }'
    return nvrtc.compile_cubin(source, "axpy", "sm_80").cubin


def test_check_params(cubin):
    driver.check_params(cubin, "axpy", ["P", "P", "f", "i"])
    with pytest.raises(DriverError, match=r"takes parameters of \[8, 8, 4, 4\] bytes, .* \[8, 8, 8, 4\]"):
        driver.check_params(cubin, "axpy", ["P", "P", "d", "i"])
    with pytest.raises(DriverError, match="no kernel 'gemm': it has axpy"):
        driver.check_params(cubin, "gemm", [])


# --- launch limits ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("grid", "block", "cluster", "smem", "limits"), [
    ((1, 1, 1), (1024, 1, 1), None, 0, A100),
    ((2**31 - 1, 65535, 65535), (32, 32, 1), None, 232448, H200),
    ((8, 3, 1), (128, 1, 1), (2, 1, 1), 0, H200),
    ((16, 1, 1), (128, 1, 1), (16, 1, 1), 0, H200),
    ((3, 1, 1), (128, 1, 1), (1, 1, 1), 0, A100),
])
def test_allowed_launches(grid, block, cluster, smem, limits):
    driver.check_launch("k", limits, grid, block, cluster, smem)


@pytest.mark.parametrize(("grid", "block", "cluster", "smem", "limits", "words"), [
    ((0, 1, 1), (1, 1, 1), None, 0, H200, r"grid \(0, 1, 1\) lies outside"),
    ((1, 65536, 1), (1, 1, 1), None, 0, H200, r"grid \(1, 65536, 1\) lies outside"),
    ((1, 1, 1), (1025, 1, 1), None, 0, H200, "1025 threads, and at most 1024"),
    ((1, 1, 1), (0, 1, 1), None, 0, H200, "0 threads"),
    ((1, 1, 1), (1, 1, 65), None, 0, H200, "65 threads"),
    ((1, 1, 1), (1, 1, 1), None, 232449, H200, "needs 232449 bytes of shared memory per block, .* has 232448"),
    ((2, 1, 1), (1, 1, 1), (2, 1, 1), 0, A100, "clusters of 2 blocks need sm_90, and NVIDIA A100 is sm_80"),
    ((3, 1, 1), (1, 1, 1), (2, 1, 1), 0, H200, r"cluster \(2, 1, 1\) does not divide grid \(3, 1, 1\)"),
    ((32, 1, 1), (1, 1, 1), (32, 1, 1), 0, H200, "a cluster has 1 to 16 blocks"),
    ((2, 1, 1), (1, 1, 1), (0, 1, 1), 0, H200, "a cluster has 1 to 16 blocks"),
])
def test_refused_launches(grid, block, cluster, smem, limits, words):
    with pytest.raises(LaunchError, match=words):
        driver.check_launch("k", limits, grid, block, cluster, smem)


@pytest.mark.parametrize(("cluster", "dependent", "names"), [
    (None, False, []), ((1, 1, 1), False, []), ((2, 1, 1), False, ["CLUSTER_DIMENSION"]),
    (None, True, ["PROGRAMMATIC_STREAM_SERIALIZATION"]),
    ((2, 1, 1), True, ["CLUSTER_DIMENSION", "PROGRAMMATIC_STREAM_SERIALIZATION"])], ids=str)
def test_launch_attributes(cluster, dependent, names):
    drv = pytest.importorskip("cuda.bindings.driver")
    found = driver._launch_attributes(drv, H200, cluster, dependent)
    assert [attribute.id.name.removeprefix("CU_LAUNCH_ATTRIBUTE_") for attribute in found] == names
    for name, attribute in zip(names, found, strict=True):
        value = attribute.value
        if name == "CLUSTER_DIMENSION":
            assert (value.clusterDim.x, value.clusterDim.y, value.clusterDim.z) == cluster
        else:
            assert value.programmaticStreamSerializationAllowed == 1


def test_launches_do_not_overlap_before_sm_90():
    assert driver._launch_attributes(pytest.importorskip("cuda.bindings.driver"), A100, None, True) == []


def test_a_launch_bound_is_named():
    with pytest.raises(LaunchError, match="registers or launch bound allow 256"):
        driver.check_launch("k", H200, (1, 1, 1), (512, 1, 1), None, 0, threads=256)


# --- streams and errors ----------------------------------------------------------------------------------------------


def test_current_stream_asks_whoever_is_loaded(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert driver.current_stream(0) == 0
    torch = types.SimpleNamespace(_C=types.SimpleNamespace(_cuda_getCurrentRawStream=lambda ordinal: 100 + ordinal))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert driver.current_stream(1) == 101
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(_C=types.SimpleNamespace()))    # built without CUDA
    assert driver.current_stream(1) == 0
    cupy = types.SimpleNamespace(cuda=types.SimpleNamespace(
        get_current_stream=lambda ordinal: types.SimpleNamespace(ptr=200 + ordinal)))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    assert driver.current_stream(1, "cupy") == 201
    assert driver.current_stream(1, "torch") == 0


class _Error(int):
    name = "CUDA_ERROR_ILLEGAL_ADDRESS"


def test_an_asynchronous_error_gets_a_hint(monkeypatch):
    stub = types.SimpleNamespace(cuGetErrorString=lambda error: (0, b"an illegal memory access was encountered"))
    monkeypatch.setattr(driver, "_driver", lambda: stub)
    with pytest.raises(DriverError) as caught:
        driver._check((_Error(700),), "launching k")
    assert caught.value.message == "launching k: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)"
    assert "mo.check" in caught.value.hint
    with pytest.raises(DriverError) as caught:
        driver._check((_Error(1),), "launching k")
    assert caught.value.hint is None
    assert driver._check((_Error(0), 7), "x") == 7
