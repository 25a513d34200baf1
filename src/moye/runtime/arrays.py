"""Recognise arrays of any library without importing the library.

In: any object.  Out: ``ArrayInfo`` (pointer, shape, strides in elements, dtype, device), or None if it is not an array.

>>> import numpy
>>> describe(numpy.zeros((4, 3), "f4"))
ArrayInfo(ptr=..., shape=(4, 3), strides=(3, 1), dtype=float32, device=None, writable=True, kind='numpy')

torch, CuPy and JAX are known by the class's module, and others by ``__cuda_array_interface__`` or DLPack.  Nothing is
copied and no reference is kept: the caller keeps the array alive.  This module does not decide where a kernel runs.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from moye import dtypes
from moye.cuda.device import driver
from moye.dtypes import DType, require_dtype
from moye.errors import ArgumentError, DTypeError
from moye.origin import pip_install


class ArrayInfo(NamedTuple):
    """One array: ``ptr`` addresses the element at coordinate 0; ``device`` is None on the host, else the ordinal."""

    ptr: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType
    device: int | None
    writable: bool
    kind: str


@dataclass(frozen=True, slots=True)
class TensorLike:
    """An array to compile for without having one: dtype, shape, strides in elements (column-major by default)."""

    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    align: int = 16

    def __post_init__(self) -> None:
        require_dtype("TensorLike", self.dtype)
        for what, value in (("shape", self.shape), ("strides", self.strides)):
            if value is not None and (not isinstance(value, tuple) or not all(isinstance(x, int) for x in value)):
                raise ArgumentError(f"TensorLike: the {what} {value!r} is no tuple of integers")
        if any(not 0 <= n < 1 << 63 for n in self.shape):
            raise ArgumentError(f"TensorLike: the shape {self.shape!r} has an extent below 0 or beyond 64 bits")
        if self.strides is not None and len(self.strides) != len(self.shape):
            raise ArgumentError(f"TensorLike: {len(self.shape)} extents and {len(self.strides)} strides")
        element = max(1, self.dtype.bits // 8)
        if not isinstance(self.align, int) or self.align < 1 or self.align % element:
            raise ArgumentError(f"TensorLike: align={self.align!r} is no number of bytes that {self.dtype} lies at: a "
                                f"multiple of {element}")

    def info(self) -> ArrayInfo:
        strides = self.strides
        if strides is None:
            strides = tuple(math.prod(self.shape[:i]) for i in range(len(self.shape)))
        return ArrayInfo(self.align, self.shape, strides, self.dtype, None, True, "spec")


class Life:
    """How long memory is handed over for; arrays and their views share one."""

    __slots__ = ("ended",)

    def __init__(self) -> None:
        self.ended = False


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory that another program hands over as an array; ``device`` None is the host.

    ``strides`` are in elements; without them it is dense, the last mode contiguous.  Whoever makes it keeps the memory
    alive until its ``life`` has ended; then it is refused.  Launches go to the stream of ``driver.on_stream``.
    """

    ptr: int
    shape: tuple[int, ...]
    dtype: DType
    device: int | None
    writable: bool = True
    strides: tuple[int, ...] = ()
    life: Life = field(default_factory=Life, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.strides:
            object.__setattr__(self, "strides", _compact(self.shape))

    def info(self) -> ArrayInfo:
        if self.life.ended:
            raise ArgumentError("an array that was handed over for one call is used after that call: its memory is "
                                "another's now", hint="launch inside of the function that got it")
        return ArrayInfo(self.ptr, self.shape, self.strides, self.dtype, self.device, self.writable, "memory")

    def transpose(self, *order: int) -> Memory:
        """A view with its modes in this order."""
        shape, strides = (tuple(values[mode] for mode in order) for values in (self.shape, self.strides))
        return replace(self, shape=shape, strides=strides)

    def swapaxes(self, a: int, b: int) -> Memory:
        """A view with two modes exchanged."""
        order = list(range(len(self.shape)))
        order[a], order[b] = order[b], order[a]
        return self.transpose(*order)

    @property
    def T(self) -> Memory:
        """A view with its modes in reverse."""
        return self.transpose(*reversed(range(len(self.shape))))


_new = tuple.__new__                                    # half the time of ArrayInfo(...), on the launch path
Describe = Callable[[Any], ArrayInfo | None]


def describe(obj: Any) -> ArrayInfo | None:
    """Describe an array.  None if it is not an array; ArgumentError if it is one that moye cannot use."""
    reader = _READERS.get(type(obj))
    if reader is None:
        reader = _READERS[type(obj)] = _reader(type(obj))
    return reader(obj)


def _reader(cls: type) -> Describe:
    """How to read instances of a class; this is decided once per class."""
    if issubclass(cls, (TensorLike, Memory)):
        return cls.info
    for base in cls.__mro__:
        package = base.__module__.partition(".")[0]
        if base is np.ndarray:
            return _ndarray_reader(cls)
        if (package, base.__name__) in _KNOWN:
            return _KNOWN[package, base.__name__]
        if package in ("jax", "jaxlib"):
            return _jax_tracer if any(c.__name__ == "Tracer" for c in cls.__mro__) else _jax
    if hasattr(cls, "__cuda_array_interface__"):
        return _cuda_interface
    if hasattr(cls, "__dlpack__") and hasattr(cls, "__dlpack_device__") and not issubclass(cls, np.generic):
        return _dlpack
    return _by_instance if hasattr(cls, "__getattr__") else _nothing


def never_an_array(cls: type) -> bool:
    """Whether instances of a class are no arrays, whatever they hold."""
    return _reader(cls) is _nothing


def _nothing(obj: Any) -> ArrayInfo | None:
    return None


def _by_instance(obj: Any) -> ArrayInfo | None:
    """Read by instance: a class with ``__getattr__`` may pass on the protocol of what it wraps."""
    return _cuda_interface(obj) if hasattr(obj, "__cuda_array_interface__") else None


# --- dtypes ----------------------------------------------------------------------------------------------------------

_NUMPY_TYPES: dict[Any, DType] = {}
_TORCH_TYPES: dict[Any, DType] = {}


def _numpy_dtype(dtype: Any, kind: str) -> DType:
    found = _NUMPY_TYPES.get(dtype)
    if found is None:
        dtype = np.dtype(dtype)
        if not dtype.isnative:
            raise ArgumentError(f"a {kind} array of dtype {dtype.str} is byte-swapped",
                                hint="x.astype(x.dtype.newbyteorder('='))")
        if dtype.names:
            raise ArgumentError(f"a {kind} array of records ({', '.join(dtype.names)}) cannot be an argument of a "
                                f"kernel", hint=f"pass its fields: np.ascontiguousarray(x[{dtype.names[0]!r}])")
        found = _NUMPY_TYPES[dtype] = _named("uint128" if dtype == np.dtype("V16") else dtype.name, kind)
    return found


def _named(name: str, kind: str) -> DType:
    try:
        found = dtypes.from_name(name)
        if found.bits < 8:
            raise ArgumentError(f"a {kind} array of dtype {name} cannot be an argument of a kernel: it holds one "
                                f"element a byte", hint=f"pack {32 // found.bits} elements into a uint32, the first "
                                f"lowest, and take mo.recast(x, mo.{name}) in the kernel")
        return found
    except DTypeError as error:
        real = "torch.view_as_real(x), whose last mode has two parts" if kind == "torch" else \
            "x.view(x.real.dtype), where real and imaginary parts take turns"
        raise ArgumentError(f"a {kind} array of dtype {name} cannot be an argument of a kernel: "
                            f"moye knows {', '.join(map(str, dtypes.ALL))}",
                            hint=f"pass {real}" if "complex" in name else None) from error


def _element_strides(strides: tuple[int, ...], size: int, kind: str) -> tuple[int, ...]:
    """Strides in elements of strides in bytes."""
    if any(stride % size for stride in strides):
        raise ArgumentError(f"a {kind} array has strides of {strides} bytes, which are no multiples of its "
                            f"{size}-byte elements", hint="pass a copy")
    return tuple(stride // size for stride in strides)


def _compact(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides, which a missing ``strides`` entry means."""
    return tuple(math.prod(shape[i + 1:]) for i in range(len(shape)))


# --- libraries -------------------------------------------------------------------------------------------------------


_PLAIN_ARRAYS = (np.ndarray, np.memmap, np.matrix, np.recarray)


def _ndarray_reader(cls: type) -> Describe:
    """Refuse subclasses whose elements are not just what lies in memory, because a kernel would see only the memory."""
    bases = cls.__mro__[:cls.__mro__.index(np.ndarray)]
    if any(base.__module__.startswith("numpy.ma") for base in bases):
        return _masked
    own = [base for base in bases if base not in _PLAIN_ARRAYS and {"__getitem__", "__setitem__"} & vars(base).keys()]
    return _with_items_of_its_own if own else _numpy


def _masked(obj: Any) -> ArrayInfo:
    raise ArgumentError(f"a masked array ({type(obj).__name__}) cannot be an argument of a kernel, which would not see "
                        f"its mask", hint="pass x.filled(value), or x.data and np.ma.getmaskarray(x) as two arguments")


def _with_items_of_its_own(obj: Any) -> ArrayInfo:
    raise ArgumentError(f"a {type(obj).__module__}.{type(obj).__qualname__} reads and writes elements in a way of its "
                        f"own, and a kernel would see its memory alone", hint="pass x.view(np.ndarray)")


def _numpy(obj: Any) -> ArrayInfo:
    dtype = _NUMPY_TYPES.get(obj.dtype) or _numpy_dtype(obj.dtype, "numpy")
    if not obj.flags.aligned:
        raise ArgumentError(f"a numpy array of dtype {dtype} is not aligned to its elements", hint="pass a copy")
    return ArrayInfo(obj.ctypes.data, obj.shape, _element_strides(obj.strides, obj.itemsize, "numpy"), dtype, None,
                     obj.flags.writeable, "numpy")


def _torch(obj: Any) -> ArrayInfo:
    try:
        dtype = _TORCH_TYPES.get(obj.dtype) or _torch_dtype(obj)
        device = obj.get_device() if obj.is_cuda else None
        if device is None and obj.device.type != "cpu":
            raise ArgumentError(f"a torch tensor is on device {str(obj.device)!r}: moye takes cpu and cuda tensors")
        if obj.is_neg():
            raise ArgumentError("a torch tensor has its negation pending", hint="x.resolve_neg()")
        pointer, shape = obj.data_ptr(), obj.shape
        if not pointer and 0 not in shape:              # one that wraps others: masked, fake, distributed
            raise RuntimeError("its pointer is null")
        if device is None and 0 not in shape:
            _require_room(obj)
        return _new(ArrayInfo, (pointer, shape, obj.stride(), dtype, device, True, "torch"))
    except RuntimeError as error:                       # sparse, fake and functional tensors have no memory to point to
        what, hint = _without_memory(obj, error)
        raise ArgumentError(what, hint=hint) from error


def _require_room(obj: Any) -> None:
    """ArgumentError for a host tensor whose storage was made smaller: the simulator would write what is behind it."""
    reach = sum((n - 1) * step for n, step in zip(obj.shape, obj.stride(), strict=True)) + 1
    needed, there = (obj.storage_offset() + reach) * obj.element_size(), obj.untyped_storage().nbytes()
    if needed > there:
        raise ArgumentError(f"a torch tensor of shape {tuple(obj.shape)} reaches to byte {needed} of a storage of "
                            f"{there}",
                            hint="its storage was resized: give it its memory back, or resize the tensor too")


def _without_memory(obj: Any, error: RuntimeError) -> tuple[str, str | None]:
    """What a tensor is that is no strided memory, and what to pass instead."""
    name = type(obj).__name__
    layout = str(getattr(obj, "layout", "")).rpartition(".")[2]
    if name in ("FakeTensor", "FunctionalTensor"):
        return f"a torch tensor of class {name} has no memory that a kernel could use ({error})", \
            "@mo.torch_op makes an operator of the function that launches, and torch.compile takes it"
    if getattr(obj, "is_nested", False):
        return "a nested torch tensor is several tensors of different shapes, and a kernel takes one", \
            "pass x.to_padded_tensor(0), or the tensors of x.unbind() one by one"
    if layout.startswith("sparse"):
        parts = {"sparse_coo": "x.coalesce().indices() and .values()",
                 "sparse_csr": "x.crow_indices(), x.col_indices() and x.values()",
                 "sparse_bsr": "x.crow_indices(), x.col_indices() and x.values()"}
        return f"a sparse torch tensor ({layout}) keeps its elements in several arrays, and a kernel takes one", \
            f"pass {parts.get(layout, 'x.ccol_indices(), x.row_indices() and x.values()')}, or x.to_dense()"
    if layout == "_mkldnn":
        return "a torch tensor of MKL-DNN's layout cannot be an argument of a kernel", "pass x.to_dense()"
    if name == "MaskedTensor":
        return "a masked torch tensor cannot be an argument of a kernel, which would not see its mask", \
            "pass x.get_data() and x.get_mask() as two arguments"
    batched = getattr(getattr(sys.modules["torch"]._C, "_functorch", None), "is_batchedtensor", None)
    if batched is not None and batched(obj):
        return "a torch tensor inside of torch.func.vmap has no memory of its own", \
            "launch on the whole batch, with a mode for it"
    why = str(error).splitlines()[0].partition(". ")[0]
    return f"a torch tensor of class {name} has no memory that a kernel could use ({why})", None


def _torch_dtype(obj: Any) -> DType:
    found = _TORCH_TYPES[obj.dtype] = _named(str(obj.dtype), "torch")
    return found


def _cupy(obj: Any) -> ArrayInfo:
    return ArrayInfo(obj.data.ptr, obj.shape, _element_strides(obj.strides, obj.itemsize, "cupy"),
                     _numpy_dtype(obj.dtype, "cupy"), int(obj.device.id), True, "cupy")


def _jax(obj: Any) -> ArrayInfo | None:
    """Read JAX arrays, which are immutable and computed asynchronously on streams of JAX's own."""
    if not hasattr(obj, "unsafe_buffer_pointer"):
        return None
    if len(obj.devices()) != 1:
        raise ArgumentError(f"a JAX array is spread over {len(obj.devices())} devices: moye takes arrays on one")
    obj.block_until_ready()
    device, = obj.devices()
    ordinal = None if device.platform == "cpu" else int(device.local_hardware_id)
    shape = tuple(obj.shape)
    return ArrayInfo(obj.unsafe_buffer_pointer(), shape, _compact(shape), _numpy_dtype(obj.dtype, "jax"), ordinal,
                     False, "jax")


def _jax_tracer(obj: Any) -> ArrayInfo:
    raise ArgumentError("a JAX tracer has no memory: call the kernel outside jax.jit")


def _cuda_interface(obj: Any) -> ArrayInfo:
    """Read ``__cuda_array_interface__``, versions 2 and 3."""
    told = obj.__cuda_array_interface__
    if told.get("mask") is not None:
        raise ArgumentError(f"a masked array ({type(obj).__name__}) cannot be an argument of a kernel")
    kind = type(obj).__name__
    scalar = np.dtype(told["typestr"])
    dtype, shape, (pointer, read_only) = _numpy_dtype(scalar, kind), tuple(told["shape"]), told["data"]
    strides = told.get("strides")
    steps = _compact(shape) if strides is None else _element_strides(tuple(strides), scalar.itemsize, kind)
    device = driver.pointer_device(pointer) if pointer else 0
    stream = told.get("stream")
    if stream is not None and stream != driver.current_stream(device):
        driver.synchronize_stream(stream, device)       # its producer may still be writing
    return ArrayInfo(pointer, shape, steps, dtype, device, not read_only, "cuda_array_interface")


# --- DLPack ----------------------------------------------------------------------------------------------------------

_CPU, _CUDA, _PINNED, _MANAGED = 1, 2, 3, 13
_CODES = {(0, 8): "int8", (0, 16): "int16", (0, 32): "int32", (0, 64): "int64",
          (1, 8): "uint8", (1, 16): "uint16", (1, 32): "uint32", (1, 64): "uint64",
          (2, 16): "float16", (2, 32): "float32", (2, 64): "float64", (4, 16): "bfloat16", (6, 8): "bool",
          (10, 8): "float8_e4m3fn", (12, 8): "float8_e5m2"}


class _DLTensor(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64))


class _Versioned(ctypes.Structure):
    _fields_ = (("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _DLTensor))


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)


def _dlpack(obj: Any) -> ArrayInfo:
    """Read DLPack, old and versioned capsules.  The memory is the array's own, so the capsule may be dropped."""
    place, ordinal = (int(number) for number in obj.__dlpack_device__())
    if place not in (_CPU, _CUDA, _PINNED, _MANAGED):
        raise ArgumentError(f"{type(obj).__name__} is on DLPack device ({place}, {ordinal}): moye takes CPU and CUDA")
    host = place in (_CPU, _PINNED)
    capsule = _capsule(obj, None if host else (driver.current_stream(ordinal) or 1))
    if _is_valid(capsule, b"dltensor_versioned"):
        versioned = _Versioned.from_address(_pointer_of(capsule, b"dltensor_versioned"))
        tensor, writable = versioned.tensor, not versioned.flags & 1
    else:
        tensor, writable = _DLTensor.from_address(_pointer_of(capsule, b"dltensor")), True
    name = _CODES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if name is None:
        raise ArgumentError(f"{type(obj).__name__} has DLPack type code {tensor.code}, {tensor.bits} bits, "
                            f"{tensor.lanes} lanes, which is no dtype of moye")
    shape = tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else ()
    strides = tuple(tensor.strides[: tensor.ndim]) if shape and tensor.strides else _compact(shape)
    return ArrayInfo((tensor.data or 0) + tensor.byte_offset, shape, strides, _named(name, "dlpack"),
                     None if host else ordinal, writable, "dlpack")


def _capsule(obj: Any, stream: int | None) -> Any:
    """A capsule over the array's own memory; older exporters know neither ``max_version`` nor ``copy``."""
    keywords: dict[str, Any] = {} if stream is None else {"stream": stream}
    try:
        try:
            return obj.__dlpack__(**keywords, max_version=(1, 0), copy=False)
        except TypeError:
            return obj.__dlpack__(**keywords)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ArgumentError(f"{type(obj).__name__} does not hand out its memory through DLPack ({error})") from error


_KNOWN: dict[tuple[str, str], Describe] = {("torch", "Tensor"): _torch, ("cupy", "ndarray"): _cupy}
_READERS: dict[type, Describe] = {np.ndarray: _numpy}


# --- host memory, spans, overlap -------------------------------------------------------------------------------------


class _Span:
    """Bytes of memory that NumPy takes for an array; their owner lives as long as any view of it."""

    def __init__(self, first: int, size: int, writable: bool, owner: Any) -> None:
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (size,), "data": (first, not writable)}
        self.owner = owner


def host_view(info: ArrayInfo, obj: Any) -> np.ndarray[Any, Any]:
    """The memory that a host array spans, flat: element 0 is coordinate 0, and writes go to ``obj``.

    bfloat16 and float8 come as ml_dtypes arrays.  Negative strides have no such view: ArgumentError.
    """
    if info.device is not None:
        raise ArgumentError(f"a {info.kind} array is on device {info.device}, and only host memory can be viewed")
    if any(stride < 0 and extent > 1 for extent, stride in zip(info.shape, info.strides, strict=True)):
        raise ArgumentError(f"a {info.kind} array of shape {tuple(info.shape)} has negative strides "
                            f"{tuple(info.strides)}, which the simulator does not follow", hint="pass a copy")
    dtype = numpy_type(info.dtype)
    first, end = span_bytes(info)
    if first == end:
        return np.empty(0, dtype)
    return np.asarray(_Span(first, end - first, info.writable, obj)).view(dtype)


def numpy_type(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype of a moye dtype; ArgumentError if it needs ml_dtypes, which is not installed."""
    try:
        return np.dtype(dtype.numpy)
    except TypeError:
        pass
    try:
        import ml_dtypes
    except ImportError as error:
        raise ArgumentError(f"{dtype} arrays on the host need ml_dtypes, which is not installed",
                            hint=pip_install("dtypes")) from error
    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, dtype.numpy))
    return found


def span_bytes(info: ArrayInfo) -> tuple[int, int]:
    """(address of the first byte, address after the last) over all elements; an empty array spans nothing."""
    ptr, shape, strides, dtype, _, _, _ = info
    low = high = 0
    for extent, stride in zip(shape, strides, strict=True):
        if extent == 0:
            return ptr, ptr
        if stride < 0:
            low += (extent - 1) * stride
        else:
            high += (extent - 1) * stride
    size = dtype.bits >> 3
    return ptr + low * size, ptr + (high + 1) * size


def same_memory_overlap(a: ArrayInfo, b: ArrayInfo) -> bool:
    """May two arrays share a byte?  False is certain; True may be too cautious for interleaved arrays.

    Arrays whose spans interleave are told apart if there is a period (a stride of either, or the greatest common
    divisor of all) in which each stays in its own window.  Even and odd columns, or left and right halves, are
    examples.
    """
    (first_a, end_a), (first_b, end_b) = span_bytes(a), span_bytes(b)
    if first_a >= end_b or first_b >= end_a or first_a == end_a or first_b == end_b:      # apart, or empty
        return False
    steps_a, steps_b = _byte_steps(a), _byte_steps(b)
    periods = {step for step, _ in steps_a + steps_b}
    periods.add(math.gcd(*periods))
    return not any(_apart(first_a, _window(a, steps_a, period), first_b, _window(b, steps_b, period), period)
                   for period in periods if period)


def _byte_steps(info: ArrayInfo) -> list[tuple[int, int]]:
    """The (stride in bytes, extent) of the modes that move; the sign is in the span's first byte."""
    size = info.dtype.bytes
    return [(abs(stride) * size, extent) for extent, stride in zip(info.shape, info.strides, strict=True)
            if extent > 1 and stride]


def _window(info: ArrayInfo, steps: list[tuple[int, int]], period: int) -> int:
    """The bytes that an array reaches over, beyond whole periods."""
    return info.dtype.bytes + sum(step * (extent - 1) for step, extent in steps if step % period)


def _apart(first_a: int, size_a: int, first_b: int, size_b: int, period: int) -> bool:
    """Do [first_a, +size_a) and [first_b, +size_b) miss each other modulo the period?"""
    return (first_b - first_a) % period >= size_a and (first_a - first_b) % period >= size_b


def natural_strides(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The strides, with those that no element depends on replaced by what a dense array has there.

    NumPy gives strides of zero to empty arrays and to new axes of extent 1.  torch gives an empty mode and its
    neighbour the same stride.  Both give a last mode of extent 1 the stride 1, and so its neighbour.  An empty array of
    which nothing else is known is column-major.
    """
    if 0 in shape and not any(strides):
        return tuple(math.prod(max(1, extent) for extent in shape[:mode]) for mode in range(len(shape)))
    natural = list(strides)
    for mode, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
        doubled = extent <= 1 and stride == 1 and natural.count(1) > 1
        if doubled or (stride == 0 and extent <= 1 and any(natural)):
            turn = max(max(1, e) * s for e, s in zip(shape, natural, strict=True))
            natural[mode] = turn if 1 in natural else 1
    return tuple(natural)
