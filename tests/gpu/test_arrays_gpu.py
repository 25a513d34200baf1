"""arrays.py with the real libraries: torch on host and device, CuPy, JAX, and device memory through the protocols."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from moye import dtypes
from moye.cuda.device import driver
from moye.errors import ArgumentError
from moye.runtime.arrays import ArrayInfo, describe, host_view, numpy_type, same_memory_overlap
from moye.testing import array, host

NAMES = ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
         "float8_e4m3fn", "float8_e5m2"]


class OnlyDLPack:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **keywords):
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class OnlyInterface:
    def __init__(self, array):
        self.array = array

    @property
    def __cuda_array_interface__(self):
        return self.array.__cuda_array_interface__


@pytest.mark.parametrize("name", NAMES)
def test_copies_of_numpy_arrays_and_back(name):
    dtype = dtypes.bool_ if name == "bool" else getattr(dtypes, name)
    x = np.arange(6).reshape(2, 3).astype(numpy_type(dtype))
    for given in (x, x.T):
        there = array(given)
        assert describe(there).dtype == dtype
        back = host(there)
        assert back.dtype == x.dtype and back.tobytes() == np.asarray(given, order="C").tobytes()


def test_torch_on_the_host():
    x = torch.zeros(3, 4)
    assert describe(x) == ArrayInfo(x.data_ptr(), (3, 4), (4, 1), dtypes.float32, None, True, "torch")
    assert describe(x.T[1:])[:3] == (x.data_ptr() + 4, (3, 3), (1, 4))
    assert describe(torch.nn.Parameter(x)).kind == "torch"


@pytest.mark.parametrize("name", NAMES)
def test_torch_host_views(name):
    x = torch.ones(6).to(getattr(torch, name)).reshape(2, 3)
    info = describe(x)
    assert info.dtype is dtypes.BY_NAME[name]
    view = host_view(info, x)
    assert view.dtype == numpy_type(info.dtype)
    assert [float(v) for v in view] == [1.0] * 6
    view[4] = 0
    assert float(x[1, 1]) == 0


@pytest.mark.parametrize(("make", "words"), [
    (lambda: torch.zeros(2, 2).to_sparse(), "a sparse torch tensor"),
    (lambda: torch.zeros(2, 2, device="cuda").to_sparse(), "a sparse torch tensor"),
    (lambda: torch.zeros(2, device="meta"), "device 'meta'"),
    (lambda: torch.zeros(2, dtype=torch.complex64), "complex64"),
    (lambda: torch.zeros(2, dtype=torch.complex64).conj().imag, "negation pending"),
])
def test_torch_refused(make, words):
    with pytest.raises(ArgumentError, match=words):
        describe(make())


@pytest.mark.parametrize("name", NAMES)
def test_torch_on_the_device(name):
    x = torch.zeros(4, 6, device="cuda").to(getattr(torch, name))[1:, ::2].T
    assert describe(x) == ArrayInfo(x.data_ptr(), (3, 3), (2, 6), dtypes.BY_NAME[name], 0, True, "torch")


def test_device_arrays_have_no_host_view():
    x = torch.zeros(3, device="cuda")
    with pytest.raises(ArgumentError, match="on device 0"):
        host_view(describe(x), x)


@pytest.mark.parametrize("wrap", [OnlyDLPack, OnlyInterface])
def test_device_memory_through_the_protocols(wrap):
    x = torch.arange(24, dtype=torch.int32, device="cuda").reshape(4, 6)[1:, ::2]
    got, own = describe(wrap(x)), describe(x)
    assert got._replace(kind="") == own._replace(kind="")
    with torch.cuda.stream(torch.cuda.Stream()):
        assert describe(wrap(x)).ptr == own.ptr
    assert describe(OnlyDLPack(x.to(torch.bfloat16))).dtype is dtypes.bfloat16


def test_cupy():
    cupy = pytest.importorskip("cupy")
    x = cupy.arange(24, dtype="f4").reshape(4, 6)[1:, ::-2]
    assert describe(x) == ArrayInfo(x.data.ptr, (3, 3), (6, -2), dtypes.float32, 0, True, "cupy")
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        assert driver.current_stream(0, "cupy") == stream.ptr


def test_jax():
    jax = pytest.importorskip("jax")
    x = jax.numpy.arange(12, dtype="float32").reshape(3, 4) + 1
    info = describe(x)
    device = None if next(iter(x.devices())).platform == "cpu" else 0
    assert info == ArrayInfo(x.unsafe_buffer_pointer(), (3, 4), (4, 1), dtypes.float32, device, False, "jax")
    on_host = jax.device_put(x, jax.devices("cpu")[0])
    np.testing.assert_array_equal(host_view(describe(on_host), on_host), np.arange(12) + 1)
    with pytest.raises(ArgumentError, match="tracer"):
        jax.jit(lambda y: describe(y) or y)(x)


def test_overlap_on_the_device():
    x = torch.zeros(8, 8, device="cuda")
    assert same_memory_overlap(describe(x), describe(x.T))
    assert not same_memory_overlap(describe(x[:, :4]), describe(x[:, 4:]))
