"""Tensor maps that a kernel changes, as 16 words of memory, and the memory that they lead to.

In: the static part of a map; an array's address, extents and strides.  Out: words; ``Reach``, in which elements are
counted from a parameter's first one, and may lie in any array that is known by its address.

>>> Word.EXTENTS.value, Word.STRIDES.value
(2, 7)

The words are the simulator's own: NVIDIA does not tell what a tensor map looks like.  Known are the arguments of the
launch and the arrays of ``mo.addresses``.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from moye.atoms.tma import TensorMap
from moye.dtypes import DType
from moye.errors import UnsupportedError
from moye.sim.values.memory import Array, Global, TensorArg

WORDS, RANK = 16, 5


class Word(IntEnum):
    """Where the parts of a map are."""

    KIND = 0
    ADDRESS = 1
    EXTENTS = 2
    STRIDES = EXTENTS + RANK
    """Of the second dimension on, in bytes."""


@functools.cache
def kind(tensor_map: TensorMap) -> int:
    """A number that only maps of one kind have: what a kernel cannot change is the same in all of them."""
    m = tensor_map
    told = (m.dtype.name, m.modes, m.box, m.swizzle, m.promotion, m.outside, m.window)
    return int.from_bytes(hashlib.blake2b(repr(told).encode(), digest_size=8).digest(), "little")


def words(tensor_map: TensorMap, memory: Global) -> Array:
    """The map of an array, as it is at launch."""
    found = np.zeros(WORDS, np.uint64)
    along = tensor_map.dimensions(memory.arg.shape, memory.arg.strides)
    found[Word.KIND], found[Word.ADDRESS] = kind(tensor_map), memory.address
    found[Word.EXTENTS:Word.EXTENTS + len(along)] = [extent for extent, _ in along]
    found[Word.STRIDES:Word.STRIDES + len(along) - 1] = [stride * memory.itemsize for _, stride in along[1:]]
    return found


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes of host memory, or of a device's."""

    first: int
    end: int
    writable: bool
    device: int | None = None


_known: dict[int, tuple[Span, ...]] = {}
"""The memory of arrays whose addresses were asked for, by a number for each time."""


def remember(number: int, spans: Iterable[Span]) -> None:
    """Kernels may reach this memory by addresses, until it is forgotten."""
    _known[number] = tuple(spans)


def forget(number: int) -> None:
    """The addresses are gone."""
    _known.pop(number, None)


class Reach(Global):
    """Elements counted from those of a parameter, wherever they lie in known memory."""

    __slots__ = ("parts",)

    def __init__(self, arg: TensorArg, dtype: DType, others: Sequence[TensorArg]) -> None:
        super().__init__(arg, dtype)
        own = [Span(x.memory.ctypes.data, x.memory.ctypes.data + x.memory.nbytes, x.memory.flags.writeable)
               for x in others if x.memory.nbytes]
        more = [span for spans in _known.values() for span in spans if span.device is None and span.first < span.end]
        self.parts = [(span, _bytes(span)) for span in _merged([*own, *more])]

    def known(self, index: Array) -> Array:
        """Whether there is such an element."""
        first = self.address + index * self.itemsize
        found = np.zeros(index.shape, np.bool_)
        for span, _ in self.parts:
            found |= (first >= span.first) & (first + self.itemsize <= span.end)
        return found

    def read(self, index: Array | int) -> Array:
        """The elements; what is nowhere is zero."""
        at = np.asarray(index)
        found = np.zeros(at.shape, self.dtype)
        for _, flat, where, place in self._places(at):
            found[where] = flat[place]
        return found

    def write(self, index: Array, values: Any, mask: Array | None) -> None:
        """Scatter; what is nowhere is dropped."""
        if mask is not None:
            index, values = index[mask], np.asarray(values)[mask]
        for span, flat, where, place in self._places(index):
            if not span.writable:
                raise UnsupportedError(f"a kernel writes read-only memory at {span.first:#x}, which it reaches by an "
                                       "address")
            flat[place] = np.asarray(values, self.dtype)[where]

    def _places(self, index: Array) -> Iterable[tuple[Span, Array, Array, Array]]:
        """Per part of memory: its elements, which of the indices lie there, and where."""
        first = self.address + index * self.itemsize
        for span, raw in self.parts:
            here = (first >= span.first) & (first + self.itemsize <= span.end)
            if not here.any():
                continue
            offset = first - span.first
            for skew in np.unique(offset[here] % self.itemsize).tolist():
                some = raw[skew:]
                flat = some[:len(some) // self.itemsize * self.itemsize].view(self.dtype)
                where = here & (offset % self.itemsize == skew)
                yield span, flat, where, offset[where] // self.itemsize


def on_device(address: int) -> bool:
    """Whether it is an address of an array on a device, whose addresses were asked for."""
    return any(span.device is not None and span.first <= address < span.end
               for spans in _known.values() for span in spans)


def _merged(spans: list[Span]) -> list[Span]:
    """Spans that have memory in common are one."""
    found: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.first, span.end)):
        if found and span.first < found[-1].end:
            last = found.pop()
            span = Span(last.first, max(last.end, span.end), last.writable and span.writable)
        found.append(span)
    return found


def _bytes(span: Span) -> Array:
    raw = (ctypes.c_uint8 * (span.end - span.first)).from_address(span.first)
    found: Array = np.ctypeslib.as_array(raw)
    return found
