"""Call frames of XLA's foreign function interface, read through ctypes: no compiler is needed, and no header of XLA.

In: the address of an XLA_FFI_CallFrame.  Out: arrays, an attribute, the stream, and the error that XLA gets back.

    frame = Frame(address); frame.arguments(), frame.results(), frame.attribute("key"), frame.stream()

Source: the C API of XLA's FFI (c_api in xla/ffi/api, version 0.x), whose structures only grow at their
ends and carry their sizes.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from typing import Any

from moye import dtypes
from moye.dtypes import DType
from moye.errors import UnsupportedError
from moye.runtime.arrays import Memory

_METADATA, _BUFFER, _STRING = 1, 1, 4
_ERROR_CREATE, _STREAM_GET, _ORDINAL_GET, _FUNCTIONS = 0, 4, 17, 18
INVALID_ARGUMENT, INTERNAL = 3, 13
_DTYPES = {1: "bool", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "uint8", 7: "uint16", 8: "uint32", 9: "uint64",
           10: "float16", 11: "float32", 12: "float64", 16: "bfloat16", 19: "float8_e5m2", 20: "float8_e4m3fn"}


class _Extension(Structure):
    _fields_ = (("struct_size", c_size_t), ("type", c_int), ("next", c_void_p))


class _Version(Structure):
    _fields_ = (("struct_size", c_size_t), ("extension", c_void_p), ("major", c_int), ("minor", c_int))


class _Metadata(Structure):
    _fields_ = (("struct_size", c_size_t), ("version", _Version), ("traits", c_uint32))


class _MetadataExtension(Structure):
    _fields_ = (("base", _Extension), ("metadata", POINTER(_Metadata)))


class _Api(Structure):
    _fields_ = (("struct_size", c_size_t), ("extension", c_void_p), ("version", _Version), ("internal", c_void_p),
                ("functions", c_void_p * _FUNCTIONS))


class _Buffer(Structure):
    _fields_ = (("struct_size", c_size_t), ("extension", c_void_p), ("dtype", c_int), ("data", c_void_p),
                ("rank", c_int64), ("dims", POINTER(c_int64)))


class _Span(Structure):
    _fields_ = (("data", c_void_p), ("size", c_size_t))


class _Buffers(Structure):
    _fields_ = (("struct_size", c_size_t), ("extension", c_void_p), ("size", c_int64), ("types", POINTER(c_int)),
                ("items", POINTER(c_void_p)))


class _Attributes(Structure):
    _fields_ = (("struct_size", c_size_t), ("extension", c_void_p), ("size", c_int64), ("types", POINTER(c_int)),
                ("names", POINTER(POINTER(_Span))), ("items", POINTER(c_void_p)))


class _CallFrame(Structure):
    _fields_ = (("struct_size", c_size_t), ("extension", POINTER(_Extension)), ("api", POINTER(_Api)),
                ("context", c_void_p), ("stage", c_int), ("arguments", _Buffers), ("results", _Buffers),
                ("attributes", _Attributes))


class _ErrorCreate(Structure):
    _fields_ = (("struct_size", c_size_t), ("extension", c_void_p), ("message", c_char_p), ("code", c_int))


class _StreamGet(Structure):
    _fields_ = (("struct_size", c_size_t), ("extension", c_void_p), ("context", c_void_p), ("stream", c_void_p))


class _OrdinalGet(Structure):
    _fields_ = (("struct_size", c_size_t), ("extension", c_void_p), ("context", c_void_p), ("ordinal", c_int32))


_Function = ctypes.CFUNCTYPE(c_void_p, c_void_p)
Handler = _Function
"""The type of a handler: the address of a frame in, the address of an error (or nothing) out."""


class Frame:
    """One call of XLA."""

    def __init__(self, address: int) -> None:
        self._frame = _CallFrame.from_address(address)

    def is_metadata(self) -> bool:
        """Whether XLA asks, when the handler is registered, for which version it is; the answer is written."""
        extension = self._frame.extension
        if not extension or extension.contents.type != _METADATA:
            return False
        metadata = ctypes.cast(extension, POINTER(_MetadataExtension)).contents.metadata.contents
        version = self._frame.api.contents.version if self._frame.api else None
        metadata.version.major, metadata.version.minor = 0, version.minor if version else 1
        metadata.traits = 0
        return True

    def arguments(self, device: int | None) -> list[Memory]:
        """The arrays that come in; nobody may write them."""
        return _memories(self._frame.arguments, device, False)

    def results(self, device: int | None) -> list[Memory]:
        """The arrays to write."""
        return _memories(self._frame.results, device, True)

    def attribute(self, name: str) -> str:
        """A text that was given with the call."""
        told = self._frame.attributes
        for i in range(told.size):
            if _text(told.names[i].contents) == name and told.types[i] == _STRING:
                return _text(_Span.from_address(_address(told.items[i])))
        raise UnsupportedError(f"moye.jax: XLA calls without the attribute {name!r}")

    def stream(self) -> int:
        """The CUDA stream that XLA works on."""
        asked = _StreamGet(ctypes.sizeof(_StreamGet), None, self._frame.context, None)
        self._ask(_STREAM_GET, asked)
        return int(asked.stream or 0)

    def device(self) -> int:
        """The ordinal of the device that XLA works on."""
        asked = _OrdinalGet(ctypes.sizeof(_OrdinalGet), None, self._frame.context, -1)
        self._ask(_ORDINAL_GET, asked)
        return int(asked.ordinal)

    def error(self, message: str, code: int) -> int | None:
        """The address of an error for XLA."""
        made = _ErrorCreate(ctypes.sizeof(_ErrorCreate), None, message.replace("\0", " ").encode(), code)
        found: int | None = self._function(_ERROR_CREATE)(ctypes.addressof(made))
        return found

    def _ask(self, index: int, asked: Structure) -> None:
        if self._function(index)(ctypes.addressof(asked)):
            raise UnsupportedError("moye.jax: XLA does not say on which stream and device it calls")

    def _function(self, index: int) -> Any:
        api = self._frame.api.contents
        if api.struct_size < _Api.functions.offset + (index + 1) * ctypes.sizeof(c_void_p):
            raise UnsupportedError("moye.jax: this jaxlib is too old: a foreign function cannot ask for its device")
        return _Function(api.functions[index])


def _memories(buffers: _Buffers, device: int | None, writable: bool) -> list[Memory]:
    return [_memory(_Buffer.from_address(_address(buffers.items[i])), device, writable) for i in range(buffers.size)]


def _memory(buffer: _Buffer, device: int | None, writable: bool) -> Memory:
    return Memory(int(buffer.data or 0), tuple(buffer.dims[: buffer.rank]), _dtype(buffer.dtype), device, writable)


def _dtype(number: int) -> DType:
    name = _DTYPES.get(number)
    if name is None:
        raise UnsupportedError(f"moye.jax: arrays of XLA's type {number} cannot be arguments of a kernel")
    return dtypes.from_name(name)


def _address(pointer: int | None) -> int:
    assert pointer is not None, "XLA hands over no null pointers here"
    return pointer


def _text(span: _Span) -> str:
    return ctypes.string_at(span.data, span.size).decode() if span.size else ""
