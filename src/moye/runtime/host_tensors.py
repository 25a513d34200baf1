"""Tensors without a launch: ``mo.tensor(array)`` has the views and the verbs of a tensor of a kernel, and its errors.

In: an array in host memory.  Out: ``HostTensor``.  Each verb on one is traced into a kernel of one thread, which the
checking simulator runs at once.  So the code of ``tensor/`` is the only one, and what holds here holds in a kernel.

    a = mo.tensor(np.arange(48), mo.make_layout((6, 8)))
    mo.tile(a, (3, 4), (0, 1))[0, 0]                    # 24, and the tile is a view of the array

Values that a kernel keeps in registers come back in new memory.  What needs threads exists only in kernels.
"""

from __future__ import annotations

import html
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from moye import env
from moye.atoms.universal import AUTO_COPY
from moye.depth import deeply
from moye.dtypes import Space, bool_
from moye.errors import UNKNOWN, ArgumentError, MoyeError, TensorError
from moye.hardware import DEFAULT_ARCH, of
from moye.ir import ops
from moye.ir.builder import Builder
from moye.ir.nodes import Block, Buffer, Func, Ref, TensorParam
from moye.layout import ComposedLayout, IntTuple, Layout, cosize, make_layout, rank, size
from moye.runtime.arrays import ArrayInfo, describe, host_view, numpy_type
from moye.runtime.boundary import boundary
from moye.runtime.compile import finished
from moye.runtime.host_text import rows_of, table_of
from moye.runtime.simulate import violation
from moye.tensor import copying
from moye.tensor.context import AtOnce, locate, trace_into, tracing
from moye.tensor.expr import Expr
from moye.tensor.tensor import Tensor, make_fragment_like

_ALIGN = 16
_running = threading.RLock()                            # a verb numbers the memories of its operands


@dataclass(frozen=True, slots=True, eq=False)
class HostMemory:
    """The memory of a host tensor: the array that it was made of, and its elements from the first on."""

    array: Any
    flat: np.ndarray[Any, Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    writable: bool
    buffer: Buffer


class HostTensor(Tensor, AtOnce):
    """A view of an array in host memory.  ``array`` is the array, and ``numpy()`` copies the view's elements."""

    def __init__(self, memory: HostMemory, seen: Tensor) -> None:
        if not isinstance(memory, HostMemory) or not isinstance(seen, Tensor):
            raise ArgumentError("HostTensor is made by mo.tensor(array)")
        super().__init__(seen.buffer, seen.offset, seen.layout, seen.dtype, seen.swizzle, seen.name, seen.order,
                         seen.origin)
        self._memory = memory

    @property
    def array(self) -> Any:
        """The array whose memory this is, whole: the one that ``mo.tensor`` was given, or that an operation made."""
        return self._memory.array

    @boundary
    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy of the elements as a NumPy array with one axis for each mode; a nested mode is one axis."""
        if tracing():
            raise self.outside()
        copied: HostTensor = self.run(lambda registers: registers, (self,), {}, registers=True)
        shape = tuple(size(self.layout, mode) for mode in range(rank(self.layout)))
        return copied._memory.flat.reshape(shape, order="F")

    # --- verbs at once ---

    @boundary
    @deeply
    def run(self, verb: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *,
            registers: bool = False) -> Any:
        with _running:
            return _Session(getattr(verb, "__name__", "verb")).result(verb, args, kwargs, registers=registers)

    def _verb(self, name: str, *args: Any, registers: bool = False, **kwargs: Any) -> Any:
        if tracing():
            raise self.outside()
        return self.run(getattr(Tensor, name), (self, *args), kwargs, registers=registers)

    @boundary
    def __getitem__(self, coordinate: object) -> Any: return self._verb("__getitem__", coordinate)
    @boundary
    def __setitem__(self, coordinate: object, value: object) -> None: self._verb("__setitem__", coordinate, value)
    @boundary
    def fill(self, value: Any) -> None: self._verb("fill", value)
    @boundary
    def argmax(self, mode: Any = None) -> Any: return self._verb("argmax", mode, registers=True)
    @boundary
    def argmin(self, mode: Any = None) -> Any: return self._verb("argmin", mode, registers=True)

    @boundary
    def reduce(self, kind: str, mode: Any = None, init: Any = None) -> Any:
        return self._verb("reduce", kind, mode, init, registers=True)

    def applied(self, plain: Callable[[Layout], Layout]) -> Any: return self._verb("applied", plain)
    @boundary
    def with_layout(self, layout: Layout | ComposedLayout) -> Any: return self._verb("with_layout", layout)
    def moved(self, offset: Any) -> Any: return self._verb("moved", offset)
    def shifted(self, coordinate: Any) -> Any: return self._verb("shifted", coordinate)
    def view(self, *args: Any, **kwargs: Any) -> Any: return self._verb("view", *args, **kwargs)
    def derived(self, *args: Any, **kwargs: Any) -> Any: return self._verb("derived", *args, **kwargs)
    def require_tiles(self, tiler: Any, asked: str) -> None: self._verb("require_tiles", tiler, asked)
    def require_inside(self, other: Any, asked: str) -> None: self._verb("require_inside", other, asked)
    def ref(self, coordinate: object, *, write: bool = False) -> Ref: raise self.outside()
    def tile_ref(self, strides: Any) -> NoReturn: raise self.outside()

    # --- Python ---

    def __bool__(self) -> bool:
        raise TensorError(f"{self.label} has {size(self.layout)} elements, and no one truth value",
                          hint='x.reduce("and") and x.reduce("or") fold the elements of a comparison')

    def __array_function__(self, function: Any, *_: object) -> NoReturn:
        name = getattr(function, "__name__", "a function")
        raise TensorError(f"np.{name} does not take {self.label}, which has a layout of its own",
                          hint="x.numpy() is an array of its elements")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:  # type: ignore[override]
        if copy is False:
            raise ValueError(f"{self.label}: NumPy cannot see this layout without a copy")
        found = self.numpy()
        return found if dtype is None else found.astype(dtype)

    def __repr__(self) -> str:
        swizzled = "" if self.swizzle is None else f"{self.swizzle} o "
        return f"{self.label}: host {self.dtype} {swizzled}{self.layout}"

    def __str__(self) -> str:
        try:
            return "\n".join([repr(self), *rows_of(self.numpy())])
        except MoyeError as error:                      # a view may reach beyond the array: no access, no fault
            return f"{self!r}\n  ({error.message})"

    def _repr_html_(self) -> str:
        try:
            return table_of(repr(self), self.numpy())
        except MoyeError as error:
            return f"<pre>{html.escape(repr(self))}\n({html.escape(error.message)})</pre>"


@boundary
def tensor(array: Any, layout: Layout | ComposedLayout | IntTuple | None = None, *, name: str = "") -> HostTensor:
    """A tensor of an array in host memory, with the views and the verbs that it would have in a kernel.

    ``array`` is of NumPy, torch, or whatever a kernel takes, and nothing is copied: writes go to it.  ``layout`` is
    over its memory from the first element on, and may reach no further than the array; the default is the array's own.
    ArgumentError for arrays of a device, which a kernel can take.
    """
    if isinstance(array, HostTensor):
        raise ArgumentError("mo.tensor takes an array, not a tensor", hint="x.with_layout(layout) lays it out anew")
    info = describe(array)
    if info is None or info.kind == "spec":
        raise ArgumentError(f"mo.tensor takes an array in host memory, not {type(array).__name__}",
                            hint="np.array(...) makes one")
    if info.device is not None:
        raise ArgumentError(f"mo.tensor: this {info.kind} array is on device {info.device}, and tensors outside of "
                            f"kernels are of host memory", hint="copy it: x.cpu() in torch, x.get() in CuPy")
    memory = _memory(array, info, name or "x")
    found = HostTensor(memory, Tensor(memory.buffer, 0, _own_layout(info), info.dtype, None, name))
    if layout is None:
        return found
    if not isinstance(layout, (Layout, ComposedLayout)):
        layout = make_layout(layout)
    _require_room(info, layout)
    placed: HostTensor = found.with_layout(layout)
    return placed


def _own_layout(info: ArrayInfo) -> Layout:
    return Layout(tuple(info.shape), tuple(info.strides)) if info.shape else Layout(1, 0)


def _require_room(info: ArrayInfo, layout: Layout | ComposedLayout) -> None:
    """Another layout must stay within an array without gaps."""
    have, reach = math.prod(info.shape), cosize(layout)
    if not isinstance(reach, int):
        raise TensorError(f"mo.tensor: the layout {layout} is not static")
    if reach > have:
        raise TensorError(f"mo.tensor: the layout {layout} reaches {reach} elements, and the array has {have}",
                          hint="mo.cosize(layout) is the number of elements that it needs")
    if cosize(_own_layout(info)) != have:
        raise TensorError(f"mo.tensor: an array with gaps, of layout {_own_layout(info)}, takes no other layout",
                          hint="np.ascontiguousarray(x) has none")


def _memory(array: Any, info: ArrayInfo, name: str) -> HostMemory:
    flat = host_view(info, array)
    layout = _own_layout(info)
    align = math.gcd(_ALIGN, info.ptr) or _ALIGN
    buffer = Buffer(name, Space.GLOBAL, info.dtype, None, layout, align=align, index=0)
    return HostMemory(array, flat, tuple(info.shape), tuple(info.strides), info.writable, buffer)


# --- one verb --------------------------------------------------------------------------------------------------------


class _Session:
    """One verb: its Func, and the memories that it may name."""

    def __init__(self, name: str) -> None:
        self.func = Func(name.strip("_"), [], Block(), (1, 1, 1), index_bits=64, loc=UNKNOWN)
        self.builder = Builder(self.func, locate)
        self.memories: dict[int, HostMemory] = {}

    def result(self, verb: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *,
               registers: bool) -> Any:
        with trace_into(self.builder):
            made = _trace_entry(verb, [self._given(x, registers) for x in args],
                                {key: self._given(x, registers or key == "pred") for key, x in kwargs.items()})
            back = self._taken(made)
        if self.func.guards:
            raise TensorError(f"{self.func.name}: {self.func.guards[0].message}")
        if any(True for op in self.func.body.walk() if not isinstance(op, ops.Bounds)):
            self._simulate()
        return back()

    def _given(self, x: Any, registers: bool) -> Any:
        """An argument as the verb takes it in a kernel."""
        if not isinstance(x, HostTensor):
            return x
        self.memories[x.buffer.id] = x._memory
        plain = Tensor(x.buffer, x.offset, x.layout, x.dtype, x.swizzle, x.name, x.order, x.origin)
        if not registers:
            return plain
        loaded = make_fragment_like(plain)
        loaded.name = x.label
        copying.emit_copy(AUTO_COPY, loaded, plain)
        return loaded

    def _taken(self, made: Any) -> Callable[[], Any]:
        """What the verb gave, for use outside: a function to call after the run."""
        if isinstance(made, tuple):
            parts = [self._taken(part) for part in made]
            return lambda: tuple(part() for part in parts)
        if isinstance(made, Expr):
            kept = self._new(make_layout(1), made)
            kept[0] = made
            memory = self.memories[kept.buffer.id]
            plain = made.dtype.is_integer or made.dtype is bool_
            return lambda: memory.flat[0].item() if plain else memory.flat[0]
        if not isinstance(made, Tensor):
            return lambda: made
        if made.space is Space.REGISTER:
            made = self._stored(made)
        memory = self.memories[made.buffer.id]
        return lambda: HostTensor(memory, made)

    def _stored(self, made: Tensor) -> Tensor:
        """New memory with the values of registers; without values if none were written."""
        kept = self._new(make_layout(made.layout.shape), made)
        if made.buffer.written:
            copying.emit_copy(AUTO_COPY, kept, made)
        return kept

    def _new(self, layout: Layout, like: Any) -> Tensor:
        count = size(layout)
        assert isinstance(count, int), "what registers hold is static"
        array = np.empty(count, numpy_type(like.dtype))
        array.view(np.uint8)[...] = 0xFF                # NaN or the largest number, where nothing is written
        info = describe(array)
        assert info is not None, "an array of NumPy"
        memory = _memory(array, info, "a result")
        self.memories[memory.buffer.id] = memory
        return Tensor(memory.buffer, 0, layout, like.dtype)

    def _simulate(self) -> None:
        from moye.sim.machine.machine import Hooks, TensorArg, simulate

        arguments = []
        for index, memory in enumerate(self.memories.values()):
            buffer = memory.buffer
            buffer.index = index
            self.func.params.append(TensorParam(buffer.name, buffer, memory.shape, memory.strides))
            arguments.append(TensorArg(memory.flat, 0, memory.shape, memory.strides, buffer.name, memory.array))
        written = {ref.buffer.id for op in self.func.body.walk() for ref, write in op.refs() if write}
        for memory in self.memories.values():
            if memory.buffer.id in written and not memory.writable:
                raise ArgumentError(f"{memory.buffer.name} is written, but its array is read-only", hint="pass a copy")
        hooks = Hooks(of(env.arch() or DEFAULT_ARCH), stop_on_first=True, printer=print, exact_fma=env.exact_fma(),
                      steps=env.steps())
        outcome = simulate(finished(self.func), arguments, (1, 1, 1), check=True, hooks=hooks)
        if outcome.findings:
            raise violation(outcome.findings[0])


def _trace_entry(verb: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Where ``locate`` stops: source lines of the user above are in Python's own traceback."""
    return verb(*args, **kwargs)
