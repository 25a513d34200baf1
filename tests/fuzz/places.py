"""Where tensors' elements are, by brute force: a view is an array with the offset of every coordinate.

In: layouts as shapes and strides.  Out: ``View`` (memory, offsets, dtype), with slices, tiles and element arithmetic.

>>> v = View([1.0] * 8, np.arange(8), "f32"); v[3]

Part of the interpreter of ``interpreter.py``; it shares no code with moye.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzz import scalars
from fuzz.scalars import Elementwise, Fault, Num, Unclear, convert, fitted


class Lay:
    """A layout: per mode the offsets along it (a nested mode runs its first leaf fastest)."""

    def __init__(self, shape: Any, stride: Any = None) -> None:
        self.shape = shape
        self.stride = compact(shape)[0] if stride is None else stride

    @property
    def modes(self) -> list[np.ndarray]:
        shape, stride = self.shape, self.stride
        return [_along(shape, stride)] if isinstance(shape, int) else [_along(s, d) for s, d in
                                                                      zip(shape, stride, strict=True)]

    def offsets(self) -> np.ndarray:
        total: Any = np.zeros((), np.int64)
        for mode in self.modes:
            total = np.add.outer(total, mode)
        return np.asarray(total)


def compact(shape: Any, step: int = 1) -> tuple[Any, int]:
    if isinstance(shape, int):
        return step, step * shape
    parts = []
    for part in shape:
        stride, step = compact(part, step)
        parts.append(stride)
    return tuple(parts), step


def _along(shape: Any, stride: Any) -> np.ndarray:
    if isinstance(shape, int):
        return np.arange(shape, dtype=np.int64) * stride
    whole = np.zeros(1, np.int64)
    for s, d in zip(shape, stride, strict=True):
        whole = (whole[:, None] + _along(s, d)[None, :]).ravel(order="F")
    return whole


class Swizzle:
    def __init__(self, bits: int, base: int, shift: int) -> None:
        self.bits, self.base, self.shift = bits, base, shift

    def __call__(self, offset: np.ndarray) -> np.ndarray:
        """The bits ``base + shift ..`` of an offset flip the bits ``base ..``."""
        mask = ((1 << self.bits) - 1) << self.base
        return offset ^ (offset >> self.shift & mask)


class Composed:
    def __init__(self, swizzle: Swizzle, offset: int, layout: Lay) -> None:
        self.swizzle, self.layout = swizzle, layout
        assert offset == 0


def select(layout: Any, *modes: int) -> Any:
    if isinstance(layout, Composed):
        return Composed(layout.swizzle, 0, select(layout.layout, *modes))
    return Lay(tuple(layout.shape[m] for m in modes), tuple(layout.stride[m] for m in modes))


class View(Elementwise):
    """Elements of a memory (a list; None is undefined), with an offset for each coordinate."""

    def __init__(self, memory: list, where: np.ndarray, t: str, swizzle: Swizzle | None = None,
                 registers: bool = False) -> None:
        self.memory, self.where, self.t, self.swizzle, self.registers = memory, where, t, swizzle, registers

    @property
    def dtype(self) -> scalars.DType:
        return scalars.DType(self.t)

    def _place(self, linear: int) -> int:
        return int(self.swizzle(np.int64(linear))) if self.swizzle else int(linear)

    def _sub(self, where: np.ndarray) -> View:
        return View(self.memory, where, self.t, self.swizzle, self.registers)

    def _index(self, coordinate: Any) -> tuple[Any, ...]:
        items = coordinate if isinstance(coordinate, tuple) else (coordinate,)
        if any(x is ... for x in items):
            at = next(i for i, x in enumerate(items) if x is ...)
            items = items[:at] + (slice(None),) * (self.where.ndim - len(items) + 1) + items[at + 1:]
        if len(items) != self.where.ndim:
            raise Unclear("a coordinate of another rank")
        found = []
        for x, extent in zip(items, self.where.shape, strict=True):
            if isinstance(x, slice) or x is None:
                found.append(slice(None))
                continue
            x = x.__index__()
            if not 0 <= x < extent:
                raise Fault("B1", f"{x} of {extent}")
            found.append(x)
        return tuple(found)

    def __getitem__(self, coordinate: Any) -> Any:
        index = self._index(coordinate)
        if any(isinstance(x, slice) for x in index):
            return self._sub(self.where[index])
        return self.load(int(self.where[index]))

    def __setitem__(self, coordinate: Any, value: Any) -> None:
        index = self._index(coordinate)
        if any(isinstance(x, slice) for x in index):
            self._sub(self.where[index]).assign(value)
        else:
            self.store(int(self.where[index]), value)

    def load(self, linear: int) -> Num:
        value = self.memory[self._place(linear)]
        if value is None:
            raise Fault("uninitialised")
        return Num(self.t, value)

    def store(self, linear: int, value: Any) -> None:
        new = convert(value.v, value.t, self.t) if isinstance(value, Num) else fitted(value, self.t)
        self.memory[self._place(linear)] = new

    def elements(self) -> list[int]:
        return [int(x) for x in self.where.ravel(order="F")]

    def assign(self, value: Any) -> None:
        if isinstance(value, View):
            source = np.broadcast_to(value.where, self.where.shape)
            new = [value.load(int(x)) for x in source.ravel(order="F")]
        else:
            new = [value] * self.where.size
        for place, item in zip(self.elements(), new, strict=True):
            self.store(place, item)

    def fill(self, value: Any) -> None:
        self.assign(value)

    def to(self, dtype: scalars.DType) -> View:
        return elementwise(lambda x: x.to(dtype), self)

    def with_layout(self, layout: Any) -> View:
        swizzle = self.swizzle
        if isinstance(layout, Composed):
            swizzle, layout = layout.swizzle, layout.layout
        return View(self.memory, int(self.where.flat[0]) + layout.offsets(), self.t, swizzle, self.registers)

    def reduce(self, kind: str) -> Num:
        """Four chains from eight elements on, two from four on; then neighbouring chains, until one is left."""
        items: list[Any] = [self.load(x) for x in self.elements()]
        chains = 1 if len(items) < 4 else 2 if len(items) < 8 else 4
        for i in range(chains, len(items)):
            items[i % chains] = scalars.binary(kind, items[i % chains], items[i])
        found = items[:chains]
        while len(found) > 1:
            found = [scalars.binary(kind, found[i], found[i + 1]) for i in range(0, len(found), 2)]
        return found[0]  # type: ignore[no-any-return]

    def __add__(self, o: Any) -> Any: return _pair("add", self, o)
    def __radd__(self, o: Any) -> Any: return _pair("add", o, self)
    def __sub__(self, o: Any) -> Any: return _pair("sub", self, o)
    def __rsub__(self, o: Any) -> Any: return _pair("sub", o, self)
    def __mul__(self, o: Any) -> Any: return _pair("mul", self, o)
    def __rmul__(self, o: Any) -> Any: return _pair("mul", o, self)
    def __truediv__(self, o: Any) -> Any: return _pair("div", self, o)
    def __floordiv__(self, o: Any) -> Any: return _pair("floordiv", self, o)
    def __mod__(self, o: Any) -> Any: return _pair("mod", self, o)
    def __and__(self, o: Any) -> Any: return _pair("and", self, o)
    def __or__(self, o: Any) -> Any: return _pair("or", self, o)
    def __xor__(self, o: Any) -> Any: return _pair("xor", self, o)
    def __rand__(self, o: Any) -> Any: return _pair("and", o, self)
    def __ror__(self, o: Any) -> Any: return _pair("or", o, self)
    def __rxor__(self, o: Any) -> Any: return _pair("xor", o, self)
    def __lt__(self, o: Any) -> Any: return _pair("lt", self, o)
    def __ge__(self, o: Any) -> Any: return _pair("ge", self, o)
    def __eq__(self, o: object) -> Any: return _pair("eq", self, o)
    def __neg__(self) -> Any: return elementwise(lambda x: -x, self)
    def __abs__(self) -> Any: return elementwise(abs, self)
    def __iadd__(self, o: Any) -> Any: return self._in_place(self + o)
    def __isub__(self, o: Any) -> Any: return self._in_place(self - o)
    def __imul__(self, o: Any) -> Any: return self._in_place(self * o)
    __hash__ = None  # type: ignore[assignment]

    def _in_place(self, value: View) -> View:
        self.assign(value)
        return self


def fragment(shape: Any, dtype: scalars.DType) -> View:
    where = Lay(shape).offsets()
    return View([None] * where.size, where, dtype.t, None, True)


def elementwise(function: Any, *operands: Any) -> View:
    tensors = [x for x in operands if isinstance(x, View)]
    if not all(x.registers for x in tensors):
        raise Unclear("arithmetic of memory")
    shape = np.broadcast_shapes(*(x.where.shape for x in tensors))
    lists = [[x.load(int(i)) for i in np.broadcast_to(x.where, shape).ravel(order="F")] if isinstance(x, View) else
             [x] * int(np.prod(shape)) for x in operands]
    results = [function(*row) for row in zip(*lists, strict=True)]
    made = fragment(tuple(int(n) for n in shape), scalars.DType(results[0].t))
    for place, value in zip(made.elements(), results, strict=True):
        made.store(place, value)
    return made


def _pair(kind: str, a: Any, b: Any) -> View:
    return elementwise(lambda x, y: scalars.binary(kind, x, y), a, b)


def tile(view: View, shape: tuple[Any, ...], coordinate: tuple[Any, ...]) -> View:
    """Tiles of plain extents; ``None`` keeps the mode that counts tiles, behind the tile's own."""
    where, kept, rest = view.where, [], []
    pieces: list[Any] = []
    for mode, (extent, at) in enumerate(zip(shape, coordinate, strict=True)):
        have = where.shape[mode]
        if have % extent:
            raise Fault("A4")
        if at is None:
            rest.append(mode)
            pieces.append(None)
        else:
            at = at.__index__()
            if not 0 <= at < have // extent:
                raise Fault("B1", f"tile {at} of {have // extent}")
            pieces.append(slice(at * extent, (at + 1) * extent))
        kept.append(extent)
    index = tuple(slice(None) if p is None else p for p in pieces)
    where = where[index]
    for mode in sorted(rest, reverse=True):         # extent -> (extent inside the tile, tile)
        split = where.reshape((*where.shape[:mode], where.shape[mode] // kept[mode], kept[mode],
                               *where.shape[mode + 1:]))
        where = np.moveaxis(split, mode, len(where.shape))
    if len(rest) > 1:                               # the last ones moved come from the first modes
        first = len(kept)
        order = list(range(first)) + list(range(first + len(rest) - 1, first - 1, -1))
        where = np.transpose(where, order)
    return view._sub(where)


def parallelize(view: View, layout: Any, thread: Any) -> View:
    """Every T-th element along each mode, from the thread's own coordinate on."""
    layout = layout if isinstance(layout, Lay) else Lay(layout)
    extents = (layout.shape,) if isinstance(layout.shape, int) else layout.shape
    strides = (layout.stride,) if isinstance(layout.stride, int) else layout.stride
    number = thread.__index__()
    index: list[Any] = []
    for mode, (extent, stride) in enumerate(zip(extents, strides, strict=True)):
        if view.where.shape[mode] % extent:
            raise Fault("A4")
        index.append(slice(number // stride % extent if stride else 0, None, extent))
    return view._sub(view.where[(*index, ...)])


def copyto(dst: View, src: View, pred: Any = None) -> None:
    """Element by element, converting; shapes agree."""
    if dst.where.shape != src.where.shape:
        raise Unclear("shapes that differ")
    if pred is not None and not bool(pred):
        return
    new = [src.load(x) for x in src.elements()]
    for place, value in zip(dst.elements(), new, strict=True):
        dst.store(place, value)


def shape_of(x: Any) -> tuple[int, ...]:
    x = x.layout if isinstance(x, Composed) else x
    return x.where.shape if isinstance(x, View) else tuple(len(m) for m in x.modes)


def size(x: Any, mode: int | None = None) -> int:
    shape = shape_of(x)
    return int(np.prod(shape)) if mode is None else shape[mode]
