"""Arguments and launch configurations that no kernel accepts: one clear sentence each, and nothing runs."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye.cuda.device import driver


@mo.kernel
def fill(x, value):
    tid = mo.thread_idx().x
    x[tid] = value


@mo.kernel
def add(out, x, y):
    tid = mo.thread_idx().x
    out[tid] = x[tid] + y[tid]


def floats(n=256):
    return np.full(n, np.nan, np.float32)


def read_only():
    x = floats()
    x.flags.writeable = False
    return x


class FakeCudaArray:
    """What a CUDA array looks like to moye; its memory is never touched."""

    __cuda_array_interface__ = {"shape": (256,), "typestr": "<f4", "data": (1 << 40, False), "version": 3}  # noqa: RUF012


ARGUMENTS = {
    "read_only_output": lambda: fill[1, 256](read_only(), 1.0),
    "negative_stride": lambda: fill[1, 256](floats()[::-1], 1.0),
    "complex_dtype": lambda: fill[1, 256](floats().astype(np.complex64), 1.0),
    "byte_swapped": lambda: fill[1, 256](floats().astype(">f4"), 1.0),
    "unknown_object": lambda: fill[1, 256](object(), 1.0),
    "number_of_65_bits": lambda: fill[1, 256](floats(), 1 << 64),
    "missing_argument": lambda: fill[1, 256](floats()),
}
CONFIGURATIONS = {
    "no_configuration": lambda x: fill(x, 1.0),
    "configuration_without_block": lambda x: fill[1](x, 1.0),
    "grid_of_four": lambda x: fill[(1, 1, 1, 1), 256](x, 1.0),
    "grid_of_floats": lambda x: fill[1.5, 256](x, 1.0),
    "block_of_none": lambda x: fill[1, 0](x, 1.0),
    "block_of_2048": lambda x: fill[1, 2048](x, 1.0),
    "grid_beyond_the_limit": lambda x: fill[(1, 1 << 16), 256](x, 1.0),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_argument(name, refuses):
    refuses(name, ARGUMENTS[name])


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_configuration(name, refuses):
    x = floats(2048)
    refuses(name, lambda: CONFIGURATIONS[name](x), x)


def test_mixed_devices(refuses, monkeypatch):
    monkeypatch.setattr(driver, "pointer_device", lambda pointer: 0)
    out = floats()
    refuses("mixed_devices", lambda: add[1, 256](out, FakeCudaArray(), floats()), out)


def test_two_devices(refuses, monkeypatch):
    class Other(FakeCudaArray):
        __cuda_array_interface__ = {**FakeCudaArray.__cuda_array_interface__, "data": (1 << 41, False)}  # noqa: RUF012

    monkeypatch.setattr(driver, "pointer_device", lambda pointer: int(pointer == 1 << 41))
    refuses("two_devices", lambda: add[1, 256](FakeCudaArray(), Other(), FakeCudaArray()))


@pytest.mark.skipif(driver.available(), reason="there is a GPU")
def test_cuda_array_without_a_gpu(refuses):
    out = FakeCudaArray()
    refuses("cuda_array_without_a_gpu", lambda: fill[1, 256](out, 1.0))


def test_check_of_something_else(refuses):
    refuses("check_of_a_function", lambda: mo.check(len))
