"""arrays.py: anybody's arrays, through their protocols; spans and overlaps.  Torch: tests/gpu/test_arrays_gpu.py."""

from __future__ import annotations

import gc
import subprocess
import sys
import types

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moye import dtypes
from moye.cuda.device import driver
from moye.errors import ArgumentError
from moye.origin import pip_install
from moye.runtime.arrays import ArrayInfo, describe, host_view, numpy_type, same_memory_overlap, span_bytes


class OnlyDLPack:
    """An array that nobody knows, exporting through DLPack alone; ``keywords`` is what its ``__dlpack__`` accepts."""

    def __init__(self, array, old=False):
        self.array, self.old = array, old

    def __dlpack__(self, **keywords):
        if self.old and keywords:
            raise TypeError("unexpected keyword")
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class OnlyInterface:
    """A device array that exports through ``__cuda_array_interface__`` alone."""

    def __init__(self, **told):
        self.__cuda_array_interface__ = {"version": 3, "strides": None, **told}

    __cuda_array_interface__ = None


# --- numpy -----------------------------------------------------------------------------------------------------------


def test_numpy():
    x = np.zeros((3, 4), "f4")
    assert describe(x) == ArrayInfo(x.ctypes.data, (3, 4), (4, 1), dtypes.float32, None, True, "numpy")
    assert describe(x.T)[1:3] == ((4, 3), (1, 4))
    part = x[1:, ::2]
    assert describe(part)[:3] == (x.ctypes.data + 16, (2, 2), (4, 2))
    assert describe(np.float32(1)) is None
    assert describe(np.zeros(()))[1:3] == ((), ())


@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL if d is not dtypes.tfloat32], ids=str)
def test_every_dtype_comes_back(dtype):
    assert describe(np.zeros(4, numpy_type(dtype))).dtype is dtype


def test_numpy_flags():
    x = np.zeros(4)
    x.flags.writeable = False
    assert describe(x).writable is False
    assert describe(np.broadcast_to(np.float32(1), (3,))).strides == (0,)
    assert describe(np.arange(5)[::-1]).strides == (-1,)

    class Sub(np.ndarray):
        pass
    assert describe(np.zeros(3).view(Sub)).kind == "numpy"


@pytest.mark.parametrize(("array", "words"), [
    (np.zeros(3, "c8"), "dtype complex64 cannot be an argument"),
    (np.zeros(3, ">f4"), "byte-swapped"),
    (np.zeros(3, "O"), "dtype object"),
    (np.zeros(3, [("a", "f4"), ("b", "i1")])["a"], r"not aligned|no multiples"),
    (np.zeros(3, [("a", "f4"), ("b", "u2")])["a"], r"not aligned|no multiples"),
    (np.zeros(64, "u1")[1:9].view("f8"), "not aligned"),
])
def test_numpy_refused(array, words):
    with pytest.raises(ArgumentError, match=words):
        describe(array)


@pytest.mark.parametrize("obj", [None, 1, 1.5, "x", (1, 2), [1.0], np.int32(3), np.dtype("f4"), object(), print,
                                 types.SimpleNamespace(shape=(3,))])
def test_what_is_no_array(obj):
    assert describe(obj) is None
    assert describe(obj) is None


# --- host views ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [
    lambda x: x, lambda x: x.T, lambda x: x[1:, 1::2], lambda x: x[2], lambda x: x[:, 3:4], lambda x: x[1, 2, ...],
    lambda x: np.broadcast_to(x[0], (5, 6)), lambda x: x[:0],
], ids=["whole", "T", "part", "row", "column", "scalar", "broadcast", "empty"])
def test_host_view_addresses_every_element(make):
    x = np.arange(24, dtype="i4").reshape(4, 6)
    array = make(x) if make(x) is x else np.asanyarray(make(x))
    info = describe(array)
    view = host_view(info, array)
    for coordinate in np.ndindex(*info.shape):
        offset = sum(c * s for c, s in zip(coordinate, info.strides, strict=True))
        assert view[offset] == array[coordinate]
    cosize = 1 + sum((n - 1) * s for n, s in zip(info.shape, info.strides, strict=True))
    assert view.size == (cosize if array.size else 0)


def test_host_view_writes_through():
    x = np.zeros((2, 3), ml_dtypes.bfloat16)
    view = host_view(describe(x), x)
    view[4] = 1.5
    assert x[1, 1] == 1.5
    assert view.dtype == ml_dtypes.bfloat16


@pytest.mark.usefixtures("short_collections")
def test_host_view_keeps_the_array_alive():
    view = host_view(describe(x := np.full(100000, 7, "i4")), x)
    del x
    gc.collect()
    assert (view == 7).all()


def test_host_view_of_read_only_memory():
    x = np.arange(4)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        host_view(describe(x), x)[0] = 1


def test_host_view_refuses():
    x = np.arange(6).reshape(2, 3)
    with pytest.raises(ArgumentError, match=r"shape \(2, 3\) has negative strides \(3, -1\)"):
        host_view(describe(x[:, ::-1]), x)
    with pytest.raises(ArgumentError, match="on device 1"):
        host_view(ArrayInfo(64, (4,), (1,), dtypes.float32, 1, True, "torch"), None)


def test_host_view_without_ml_dtypes(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    monkeypatch.setattr(np, "dtype", lambda name: (_ for _ in ()).throw(TypeError(name)))
    with pytest.raises(ArgumentError, match="bfloat16 arrays on the host need ml_dtypes") as caught:
        numpy_type(dtypes.bfloat16)
    assert caught.value.hint == pip_install("dtypes")


# --- the protocols ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("old", [False, True], ids=["versioned", "old"])
def test_dlpack_on_the_host(old):
    x = np.arange(24, dtype="i2").reshape(4, 6)[1:, ::2]
    info = describe(OnlyDLPack(x, old))
    assert info == describe(x)._replace(kind="dlpack")
    assert describe(OnlyDLPack(np.zeros(()), old))[1:3] == ((), ())
    view = host_view(info, x)
    view[0] = -1
    assert x[0, 0] == -1


def test_dlpack_read_only():
    x = np.zeros(3)
    x.flags.writeable = False
    assert describe(OnlyDLPack(x)).writable is False
    with pytest.raises(ArgumentError, match="does not hand out its memory"):
        describe(OnlyDLPack(x, old=True))


def test_dlpack_refused():
    with pytest.raises(ArgumentError, match="type code 5, 64 bits, 1 lanes"):
        describe(OnlyDLPack(np.zeros(3, "c8")))

    class Elsewhere(OnlyDLPack):
        def __dlpack_device__(self):
            return 8, 0
    with pytest.raises(ArgumentError, match=r"Elsewhere is on DLPack device \(8, 0\)"):
        describe(Elsewhere(np.zeros(3)))


def test_cuda_array_interface(monkeypatch):
    waited = []
    monkeypatch.setattr(driver, "pointer_device", lambda pointer: 1)
    monkeypatch.setattr(driver, "current_stream", lambda ordinal, kind="": 0)
    monkeypatch.setattr(driver, "synchronize_stream", lambda stream, ordinal: waited.append((stream, ordinal)))
    compact = OnlyInterface(shape=(2, 3, 4), typestr="<f4", data=(4096, False))
    assert describe(compact) == ArrayInfo(4096, (2, 3, 4), (12, 4, 1), dtypes.float32, 1, True, "cuda_array_interface")
    strided = OnlyInterface(shape=(2, 3), typestr="<i8", data=(4096, True), strides=(8, 16), stream=7)
    assert describe(strided) == ArrayInfo(4096, (2, 3), (1, 2), dtypes.int64, 1, False, "cuda_array_interface")
    assert waited == [(7, 1)]
    with pytest.raises(ArgumentError, match="masked"):
        describe(OnlyInterface(shape=(2,), typestr="<f4", data=(1, False), mask=object()))
    with pytest.raises(ArgumentError, match=r"strides of \(6,\) bytes"):
        describe(OnlyInterface(shape=(2,), typestr="<f4", data=(4096, False), strides=(6,)))
    with pytest.raises(ArgumentError, match="complex64"):
        describe(OnlyInterface(shape=(2,), typestr="<c8", data=(4096, False)))


def test_cuda_array_interface_handed_through():
    class Proxy:
        def __getattr__(self, name):
            if name == "__cuda_array_interface__":
                return {"version": 3, "shape": (0,), "typestr": "<f4", "data": (0, False)}
            raise AttributeError(name)
    assert describe(Proxy()).shape == (0,)


def test_cupy_by_class_name():
    cupy = types.ModuleType("cupy")
    exec("class ndarray: pass", cupy.__dict__)
    cupy.ndarray.__module__ = "cupy"
    x = cupy.ndarray()
    x.data, x.device = types.SimpleNamespace(ptr=4096), types.SimpleNamespace(id=2)
    x.shape, x.strides, x.itemsize, x.dtype = (2, 3), (12, 4), 4, np.dtype("f4")
    assert describe(x) == ArrayInfo(4096, (2, 3), (3, 1), dtypes.float32, 2, True, "cupy")


def test_recognising_imports_no_library():
    code = ("import sys, numpy; from moye.runtime.arrays import describe; describe(numpy.zeros(3)); describe(object());"
            "print([m for m in ('torch', 'cupy', 'jax', 'ml_dtypes', 'cuda') if m in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- arrays that are more than their memory --------------------------------------------------------------------------


class Named(np.ndarray):
    """A subclass whose elements are those of its memory."""

    name = "x"


class Reversed(np.ndarray):
    def __getitem__(self, index):
        return super().__getitem__(-1 - index)


class Logged(Named):
    def __setitem__(self, index, value):
        super().__setitem__(index, value)


@pytest.mark.parametrize(("make", "told", "hint"), [
    (lambda x: np.ma.masked_array(x, [1, 0, 0, 1]), "a masked array (MaskedArray)", "filled"),
    (lambda x: np.ma.masked_array(x), "a masked array (MaskedArray)", "getmaskarray"),
    (lambda x: np.ma.masked, "a masked array (MaskedConstant)", "filled"),
    (lambda x: np.ma.mrecords.fromarrays([x, x]), "a masked array (MaskedRecords)", "filled"),
    (lambda x: x.view(Reversed), "Reversed reads and writes elements in a way of its own", "x.view(np.ndarray)"),
    (lambda x: x.view(Logged), "Logged reads and writes elements in a way of its own", "x.view(np.ndarray)"),
    (lambda x: np.rec.fromarrays([x, x], names="a,b"), "an array of records (a, b)".replace("an ", ""), "x['a']"),
    (lambda x: np.zeros(4, [("a", "f4")]), "array of records (a)", "x['a']"),
    (lambda x: x.astype(">f4"), "is byte-swapped", "newbyteorder"),
    (lambda x: x.astype(object), "of dtype object", None),
])
def test_arrays_that_are_more_than_their_memory(make, told, hint):
    import numpy.ma.mrecords  # noqa: F401

    with pytest.raises(ArgumentError) as error:
        describe(make(np.ones(4, "f4")))
    assert told in error.value.message and (hint or "") in (error.value.hint or "")


@pytest.mark.parametrize("cls", [np.matrix, np.recarray, Named])
def test_subclasses_that_are_their_memory(cls):
    x = np.ones((2, 3), "f4")
    assert describe(x.view(cls))[:4] == describe(x)[:4]


def test_mapped_files(tmp_path):
    x = np.memmap(tmp_path / "x", "f4", "w+", shape=(4, 2))
    assert describe(x)[1:3] == ((4, 2), (2, 1))
    read_only = np.memmap(tmp_path / "x", "f4", "r", shape=(4, 2))
    assert not describe(read_only).writable and not describe(np.broadcast_to(x[0], (3, 2))).writable


# --- spans and overlaps ----------------------------------------------------------------------------------------------


def touched(array):
    """Every byte address of an array, by brute force."""
    info = describe(array)
    addresses = set()
    for coordinate in np.ndindex(*info.shape):
        at = info.ptr + info.dtype.bytes * sum(c * s for c, s in zip(coordinate, info.strides, strict=True))
        addresses.update(range(at, at + info.dtype.bytes))
    return addresses


BUFFER = np.zeros((8, 12), "i2")
SLICES = st.builds(slice, st.integers(0, 7), st.integers(1, 12), st.sampled_from([1, 2, 3, -1, -2]))


@settings(max_examples=300, deadline=None)
@given(st.tuples(SLICES, SLICES), st.tuples(SLICES, SLICES), st.booleans())
def test_spans_and_overlaps_against_brute_force(one, two, transpose):
    a, b = BUFFER[one], BUFFER[two].T if transpose else BUFFER[two]
    bytes_a, bytes_b = touched(a), touched(b)
    for array, addresses in ((a, bytes_a), (b, bytes_b)):
        first, end = span_bytes(describe(array))
        assert (first, end) == (min(addresses), max(addresses) + 1) if addresses else first == end
    if bytes_a & bytes_b:
        assert same_memory_overlap(describe(a), describe(b))


@pytest.mark.parametrize(("a", "b", "overlap"), [
    (BUFFER, BUFFER, True),
    (BUFFER[:4], BUFFER[4:], False),
    (BUFFER[:5], BUFFER[4:], True),
    (BUFFER[:, :6], BUFFER[:, 6:], False),
    (BUFFER[:, :7], BUFFER[:, 6:], True),
    (BUFFER[:, ::2], BUFFER[:, 1::2], False),
    (BUFFER[::2], BUFFER[1::2], False),
    (BUFFER[:, ::-1][:, :6], BUFFER[:, :6], False),
    (BUFFER.T[:6], BUFFER.T[6:], False),
    (BUFFER[:0], BUFFER, False),
    (BUFFER[3, 4:5], BUFFER, True),
    (np.zeros(3), np.zeros(3), False),
])
def test_overlaps(a, b, overlap):
    assert same_memory_overlap(describe(a), describe(b)) is overlap
    assert same_memory_overlap(describe(b), describe(a)) is overlap
