"""Arguments: what a kernel is specialised on, and what it cannot take."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import moye as mo
from ir_interpreter import run
from moye.lang.signature import ScalarSpec, StaticSpec, TensorSpec
from moye.runtime.arguments import Signature, classify, unstable
from moye.runtime.arrays import TensorLike, natural_strides


def one(x):
    pass


def spec(value, function=one):
    return classify(Signature(function), (value,), {}).specs["x"]


def key(value, function=one):
    return classify(Signature(function), (value,), {}).key


def aligned(shape, dtype, offset=0, order="F"):
    """An array whose first byte lies ``offset`` past a multiple of 256."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 1024, np.uint8)
    start = -raw.ctypes.data % 256 + offset
    return raw[start:start + size].view(dtype).reshape(shape, order=order)


def test_stride_classes_divisors_and_alignment():
    a = aligned((8, 6), np.float32)
    assert spec(a) == TensorSpec(mo.float32, (None, None), (1, None), (1, 4), 16)
    assert spec(a.T) == TensorSpec(mo.float32, (None, None), (None, 1), (4, 1), 16)
    assert spec(aligned((6, 4), np.float32)).divisors == (1, 2)
    assert spec(aligned((7, 4), np.float32)).divisors == (1, 1)
    assert spec(aligned((64, 4), np.float32)).divisors == (1, 4)                # 16 bytes, no more
    assert spec(aligned((64, 4), np.int8)).divisors == (1, 16)
    assert spec(aligned((64, 4), np.float64)).divisors == (1, 2)
    assert spec(np.broadcast_to(a[:, :1], (8, 6))).strides == (1, 0)
    assert [spec(aligned((8,), np.float32, o)).align for o in (0, 4, 8, 12, 16, 32)] == [16, 4, 8, 4, 16, 16]
    assert spec(a[::2]).strides == (None, None) and spec(a[::2]).divisors == (2, 4)
    assert spec(np.zeros((), np.float32)).shape == ()


@pytest.mark.parametrize("array", [
    np.zeros((256, 0), np.float32, order="F"), np.zeros((256, 0), np.float32), np.zeros((0, 256), np.float32).T,
    np.zeros((256, 8), np.float32, order="F")[:, :0], TensorLike(mo.float32, (256, 0)),
    TensorLike(mo.float32, (256, 0), (1, 1))], ids=repr)
def test_strides_of_an_empty_array(array):
    """NumPy's are zeros, torch's of a contiguous one (1, 1)."""
    assert spec(array).strides == (1, None) and spec(array).divisors == (1, 4)


@pytest.mark.parametrize("shape,strides,natural", [
    ((1, 4), (0, 1), (4, 1)), ((4, 1), (1, 0), (1, 4)), ((1, 4), (0, 8), (1, 8)), ((4, 1), (8, 0), (8, 1)),
    ((4, 1, 3), (1, 0, 4), (1, 12, 4)), ((1,), (0,), (0,)), ((4, 1), (1, 1), (1, 4)),
    ((1, 4), (1, 1), (4, 1)), ((4, 8), (1, 0), (1, 0)), ((1, 1), (1, 1), (1, 1)),
    ((0,), (0,), (1,)), ((3, 0, 2), (0, 0, 0), (1, 3, 3)), ((4, 0), (16, 1), (16, 1))])
def test_strides_that_no_element_depends_on(shape, strides, natural):
    assert natural_strides(shape, strides) == natural


def test_extents_are_dynamic_unless_static():
    def static(x: mo.Static):
        pass

    assert key(np.zeros((8, 4))) == key(np.zeros((16, 12)))
    assert spec(np.zeros((8, 4)), static).shape == (8, 4)
    assert key(np.zeros((8, 4)), static) != key(np.zeros((8, 8)), static)


@pytest.mark.parametrize("shape, strides, bits", [((1 << 31,), (1,), 64), (((1 << 31) - 1,), (1,), 32),
                                                  ((2, 2), (1, 1 << 31), 64), ((1 << 16, 1 << 14), (1, 1 << 16), 32),
                                                  ((1 << 31,), (0,), 64), ((0, 4), (1, 8), 32)])
def test_index_width(shape, strides, bits):
    assert classify(Signature(one), (TensorLike(mo.int8, shape, strides),), {}).index_bits == bits


def test_scalars():
    assert spec(3) == ScalarSpec(mo.int32) and spec(2**40) == ScalarSpec(mo.int64)
    assert spec(True) == ScalarSpec(mo.bool) and spec(0.5) == ScalarSpec(mo.float32)
    assert spec(np.float64(2)) in (ScalarSpec(mo.float64), ScalarSpec(mo.float32))
    assert spec(np.int16(2)) == ScalarSpec(mo.int16) and spec(np.float16(2)) == ScalarSpec(mo.float16)
    assert spec(np.bool_(True)) == ScalarSpec(mo.bool)
    assert key(3) == key(4) and key(3) != key(3.0) and key(3) != key(True)
    with pytest.raises(mo.ArgumentError, match="does not fit 64 bits"):
        spec(2**70)


def test_constexpr():
    def constant(x: mo.Constexpr):
        pass

    def quoted(x: "mo.Constexpr"):  # noqa: UP037
        pass

    for function in (constant, quoted):
        assert isinstance(spec(3, function), StaticSpec)
        assert key(3, function) != key(4, function) and key(1, function) != key(True, function)
        assert key((1, [2]), function) == key((1, [2]), function) and key({"a": 1}, function) != key({"a": 2}, function)
    with pytest.raises(mo.ArgumentError, match="a ndarray cannot be hashed"):
        spec(np.zeros(3), constant)


class Colour(enum.Enum):
    RED = 1


@dataclass(frozen=True)
class Holder:
    """A static value that holds a function, in a tuple."""

    inner: tuple
    name: str = "x"


def test_functions_in_frozen_dataclasses_count_by_what_they_do():
    def keep(x: mo.Constexpr):
        pass

    def scaled(factor):
        return Holder((lambda x: x * factor,))

    assert key(scaled(2), keep) == key(scaled(2), keep) != key(scaled(3), keep)
    assert key(Holder((abs,)), keep) != key(Holder((abs,), "y"), keep)


def test_what_may_change_within_the_same_object_is_unstable():
    def plain(x, y=1):
        return x + y

    assert unstable(plain) and unstable((1,))
    assert not unstable(Holder((plain, mo.gelu)))
    assert unstable(Holder((lambda x: plain(x),))) and unstable(Holder((Holder((lambda x, y=[]: x,)),)))


def test_layouts_atoms_strings_and_dtypes_are_static_by_value():
    def copy():
        return mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.float64), mo.float32), mo.make_layout((32, 8)),
                                  mo.make_layout((2, 1)))

    for make in (lambda: mo.make_layout((4, 8)), copy, lambda: mo.float32, lambda: "text", lambda: Colour.RED,
                 lambda: mo.make_tiled_mma(mo.UniversalFMA(mo.float32), mo.make_layout((4, 4))), lambda: None,
                 lambda: mo.ComposedLayout(mo.Swizzle(2, 0, 3), 0, mo.make_layout((8, 8)))):
        assert isinstance(spec(make()), StaticSpec) and key(make()) == key(make())
    assert key(mo.make_layout((4, 8))) != key(mo.make_layout((4, 8), (8, 1)))


def test_functions_are_keyed_by_code_defaults_and_closure():
    def make(n, default=0, keyword=0):
        return lambda x, y=default, *, z=keyword: x + n + y + z

    assert key(make(1)) == key(make(1)) and key(make(1)) != key(make(2))
    assert key(make(1, 2)) != key(make(1, 3)) and key(make(1, 2, 3)) != key(make(1, 2, 4))
    assert key(lambda x: x + 1) != key(lambda x: x + 2)
    assert key(mo.jit(plain)) == key(mo.jit(plain)) and key(mo.jit(plain)) != key(plain)

    def recursive(n):
        return recursive(n - 1) if n else 0

    assert key(recursive) == key(recursive)


def plain(x):
    return x


def test_equal_code_of_different_modules_differs():
    functions = []
    for scale in (2, 3):
        namespace = {"SCALE": scale}
        exec("def f(x):\n    return x * SCALE\n", namespace)
        functions.append(namespace["f"])
    assert key(functions[0]) != key(functions[1])


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclass
class Bundle:
    matrix: Any
    scale: Any
    layout: Any
    inner: Any = None


def test_containers_are_classified_leaf_by_leaf():
    @mo.kernel
    def kernel(bundle, pair, table, rest, out):
        assert isinstance(bundle.layout, mo.Layout) and bundle.inner[1] is None and rest == ()
        out[0] = bundle.matrix[1] * bundle.scale + bundle.inner[0]
        out[1] = pair.a[0] + pair.b
        out[2] = table[7] + table["x"][2]

    x, out = np.arange(4, dtype=np.float32), np.zeros(3, np.float32)
    args = (Bundle(x, 3, mo.make_layout(4), [2.5, None]), Pair(x[1:], 5), {7: 40, "x": x}, (), out)
    call = classify(kernel.signature, args, {})
    assert [type(leaf).__name__ for leaf in call.leaves] == ["ArrayInfo", "int", "float", "ArrayInfo", "int", "int",
                                                            "ArrayInfo", "ArrayInfo"]
    func = kernel.trace(*args, block=1)
    assert [p.name for p in func.params] == ["bundle_matrix", "bundle_scale", "bundle_inner_0", "pair_a", "pair_b",
                                             "table_7", "table_x", "out"]
    run(func, [x, 3, 2.5, x[1:], 5, 40, x, out])
    assert list(out) == [5.5, 6, 42]
    other = (Bundle(x, 3, mo.make_layout(8), [2.5, None]), *args[1:])
    assert classify(kernel.signature, other, {}).key != call.key


def test_bad_arguments():
    with pytest.raises(mo.ArgumentError, match=r"argument 'x' is a builtins\.object, which a kernel cannot take"):
        spec(object())
    with pytest.raises(mo.ArgumentError, match="negative stride"):
        spec(np.zeros(4)[::-1])
    with pytest.raises(mo.ArgumentError, match=r"argument 'x'.*complex"):
        spec(np.zeros(4, np.complex64))
    with pytest.raises(mo.ArgumentError, match=r"argument 'x'.*complex"):
        spec(np.complex64(1))
    with pytest.raises(mo.ArgumentError, match="missing a required argument"):
        classify(Signature(one), (), {})
    with pytest.raises(mo.ArgumentError, match="name each one"):
        Signature(lambda *args: None)


def test_a_host_tensor_tells_of_its_array():
    @mo.kernel
    def kernel(x):
        x[0] = 1

    with pytest.raises(mo.ArgumentError) as told:
        kernel[1, 1](mo.tensor(np.zeros(3)))
    assert told.value.hint == "pass its array, x.array"



def test_keyword_and_default_arguments():
    @mo.kernel
    def kernel(out, n=3, *, factor: mo.Constexpr = 2):
        for i in mo.static_range(factor):
            out[i] = n

    out = np.zeros(4, np.int32)
    run(kernel.trace(out, factor=3, block=1), [out, 3])
    assert list(out) == [3, 3, 3, 0]


def test_specialisations_are_reused():
    @mo.kernel
    def kernel(x, f, n):
        x[0] = f(n)

    x = np.zeros(8, np.float32)
    first = kernel.trace(x, lambda v: v * 2, 3, block=32)
    assert kernel.trace(np.zeros(16, np.float32), plain, 3, block=32) is not first
    again = [kernel.trace(x, lambda v: v + 2, n, block=32) for n in (1, 2)]
    assert again[0] is again[1]
    assert kernel.trace(x, lambda v: v * 2, 3, block=64) is not first


@pytest.mark.parametrize("number", [1e300, -1e300, 3.4028235677973366e38, np.float64(1e39)])
def test_floats_beyond_float32(number):
    """At every launch, also when the kernel has run before with another number."""
    @mo.kernel
    def kernel(x, f):
        x[0] = f

    x = np.zeros(1, np.float32)
    kernel[1, 1](x, 1.0)
    for launch in (kernel[1, 1], mo.check(kernel)[1, 1]):
        with pytest.raises(mo.MoyeError, match=r"'f' is .* does not fit float32"):
            launch(x, number)
    for fine in (3.4028235677973362e38, float("inf"), -float("inf"), 1e-300):
        kernel[1, 1](x, fine)
        assert x[0] == np.float32(fine)
    kernel[1, 1](x, float("nan"))
    assert np.isnan(x[0])


@pytest.mark.parametrize("number", [1 << 63, -(1 << 63) - 1, 10**400])
def test_integers_beyond_int64(number):
    @mo.kernel
    def kernel(x, n):
        x[0] = 1

    with pytest.raises(mo.MoyeError, match="does not fit 64 bits"):
        kernel[1, 1](np.zeros(1, np.int32), number)


@pytest.mark.parametrize(("arguments", "message"), [
    (((8,), None, 3), "align=3 is no number of bytes that float32 lies at"), (((8,), None, 0), "align=0 is no number"),
    (((8,), None, 2.0), "align=2.0 is no number"), (((-1,),), "below 0"), (((1 << 64,),), "beyond 64 bits"),
    (((2, 3), (1,)), "2 extents and 1 strides")])
def test_arrays_to_compile_for_are_checked(arguments, message):
    """Code for an alignment that elements do not have would be launched, and fail on the device."""
    with pytest.raises(mo.ArgumentError, match=message):
        mo.TensorLike(mo.float32, *arguments)


class Scaled:
    """Kernels in a class: they are no methods, and take the object as any other argument."""

    def __init__(self, factor):
        self.factor = factor

    @mo.kernel
    def fill(self: mo.Constexpr, out):
        out[0] = mo.float32(self.factor)


def test_a_kernel_in_a_class_takes_the_object():
    out = np.zeros(1, np.float32)
    for factor in (2.0, 3.0):
        Scaled.fill[1, 1](Scaled(factor), out)
        assert out[0] == factor
    with pytest.raises(mo.ArgumentError, match="a kernel is no method: call it by its class"):
        Scaled(2.0).fill[1, 1](out)
