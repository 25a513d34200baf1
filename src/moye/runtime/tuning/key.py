"""What a tuned choice depends on: the arguments of a host function, described by value.

In: an argument of any kind that a kernel takes.  Out: ``Described``: its arrays, a key for this process and a text for
the disk.

    described((A, 3)).text()      # 'tuple(0: float32 (256):(1) align 16, 1: 3)'

A TMA copy counts as its array and its static part, wherever it is in a container.  A container without arrays counts as
its value.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

from moye.lang.signature import Keys, is_tree, parts_of
from moye.runtime import arrays
from moye.runtime.arguments import tensor_spec
from moye.runtime.arrays import ArrayInfo
from moye.runtime.tma_arguments import TmaCopy
from moye.runtime.tuning.fingerprint import text_of


@dataclass(frozen=True, slots=True)
class Described:
    """One argument: ``info`` of its array, ``parts`` of a container of arrays; ``static`` is the rest.

    ``static`` is the value itself if it holds no array, the key of a TMA copy, or the kind of a container.
    """

    static: Any
    info: ArrayInfo | None = None
    parts: tuple[tuple[str, Described], ...] = ()

    def arrays(self) -> Iterator[ArrayInfo]:
        """Every array in it."""
        if self.info is not None:
            yield self.info
        for _, part in self.parts:
            yield from part.arrays()

    def key(self) -> Hashable:
        """What finds a choice again at once: dtypes, shapes, strides, devices and alignment, not addresses."""
        if self.parts:
            return (self.static, *((name, part.key()) for name, part in self.parts))
        if (info := self.info) is not None:
            return (self.static, info.dtype, tuple(info.shape), tuple(info.strides), info.device, info.ptr & 15)
        try:
            hash(self.static)
        except TypeError:
            return repr(self.static)
        return (type(self.static), self.static)

    def text(self) -> str:
        """The text that a choice is kept under on disk: strides by their kind, as kernels are specialised on that."""
        if self.parts:
            kind = self.static.keys if isinstance(self.static, Keys) else self.static
            return f"{text_of(kind)}({', '.join(f'{name}: {part.text()}' for name, part in self.parts)})"
        if self.info is None:
            return text_of(self.static)
        of_tma = "" if self.static is None else f"tma{text_of(self.static)} of "
        return of_tma + _array_text(self.info)


def described(value: Any) -> Described:
    """An argument as it is now."""
    if isinstance(value, TmaCopy):
        return Described(value.key, value.describe()[0])
    info = arrays.describe(value)
    if info is not None:
        return Described(None, info)
    if is_tree(value):
        kind, names, items = parts_of(value)
        parts = tuple(zip(names, map(described, items), strict=True))
        if any(True for _, part in parts for _ in part.arrays()):
            return Described(kind, parts=parts)
    return Described(value)


def _array_text(info: ArrayInfo) -> str:
    spec = tensor_spec(info)
    strides = ", ".join(str(stride) if stride is not None else f"{divisor}n"
                        for stride, divisor in zip(spec.strides, spec.divisors, strict=True))
    return f"{info.dtype} ({', '.join(map(str, info.shape))}):({strides}) align {spec.align}"
