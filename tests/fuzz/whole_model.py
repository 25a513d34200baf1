"""The plain twin of ``mo`` for ``whole.py``: tensors are arrays of places, threads are generators that meet.

In: the source of a kernel and its arguments.  Out: the arrays as plain Python leaves them.

    run(source, "kernel", arrays, threads=64)

It knows nothing of layouts but where an element lies: a view is an array of places in a list of numbers, with one axis
for each mode.  What threads do together (barriers, shuffles, folds) is a ``yield`` of the kernel's own body.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

WARP = 32
TOGETHER = ("sync_threads", "sync_warp", "warp_reduce", "warp_scan", "block_reduce", "shuffle_xor", "shuffle_idx",
            "shuffle_up", "shuffle_down", "ballot", "vote_any", "vote_all", "match_any")


class Cells:
    """A tensor: places in memory, an axis for each mode."""

    def __init__(self, memory: Any, places: np.ndarray) -> None:
        self.memory, self.places = memory, places

    @property
    def dtype(self) -> Any:
        return self.memory.dtype

    def __getitem__(self, at: Any) -> Any:
        found = self.places[self._at(at)]
        return Cells(self.memory, found) if isinstance(found, np.ndarray) else self.memory[found].item()

    def __setitem__(self, at: Any, value: Any) -> None:
        found = self.places[self._at(at)]
        if isinstance(value, Cells):
            value = value.values()
        self.memory[found] = value

    def _at(self, at: Any) -> Any:
        at = at if isinstance(at, tuple) else (at,)
        if at == (Ellipsis,):
            return (slice(None),) * self.places.ndim
        if len(at) == 1 and self.places.ndim > 1 and not isinstance(at[0], slice):
            return np.unravel_index(at[0], self.places.shape, order="F")    # one number counts column-major
        assert all(isinstance(i, slice) or i is None or 0 <= i < n for i, n in zip(at, self.places.shape, strict=True))
        return tuple(slice(None) if i is None else i for i in at)

    def values(self) -> np.ndarray:
        return self.memory[self.places]

    def fill(self, value: Any) -> None:
        self.memory[self.places] = value

    def reduce(self, kind: str, mode: int | None = None) -> Any:
        function = {"add": np.sum, "max": np.max, "min": np.min, "xor": np.bitwise_xor.reduce}[kind]
        found = function(self.values().astype(np.int64), axis=None if mode is None else mode)
        return int(found) if mode is None else own(found)

    def argmax(self) -> tuple[int, int]:
        flat = self.values().reshape(-1, order="F")
        return int(flat.max()), int(flat.argmax())

    def with_layout(self, layout: Places) -> Cells:
        return Cells(self.memory, layout.places + self.places.min())

    def applied(self, f: Callable[[np.ndarray], np.ndarray]) -> Cells:
        return own(f(self.values().astype(np.int64)))

    def __add__(self, o: Any) -> Cells: return self.applied(lambda x: x + _of(o))
    def __sub__(self, o: Any) -> Cells: return self.applied(lambda x: x - _of(o))
    def __mul__(self, o: Any) -> Cells: return self.applied(lambda x: x * _of(o))
    def __mod__(self, o: Any) -> Cells: return self.applied(lambda x: x % _of(o))
    def __and__(self, o: Any) -> Cells: return self.applied(lambda x: x & _of(o))
    def __rsub__(self, o: Any) -> Cells: return self.applied(lambda x: _of(o) - x)
    def __gt__(self, o: Any) -> Cells: return self.applied(lambda x: x > _of(o))
    __radd__, __rmul__ = __add__, __mul__

    def __iadd__(self, o: Any) -> Cells:
        self.memory[self.places] = self.values() + _of(o)
        return self

    def __imod__(self, o: Any) -> Cells:
        self.memory[self.places] = self.values() % _of(o)
        return self


def _of(x: Any) -> Any:
    return x.values().astype(np.int64) if isinstance(x, Cells) else x


def own(values: Any) -> Cells:
    """A register tensor with these values."""
    values = np.asarray(values)
    return Cells(values.reshape(-1, order="F").copy(), np.arange(values.size).reshape(values.shape, order="F"))


class Places:
    """A layout: the place of each coordinate; a mode of several extents counts its first fastest."""

    def __init__(self, shape: Any, stride: Any = None) -> None:
        shape = shape if isinstance(shape, tuple) else (shape,)
        if stride is None:
            steps = itertools.accumulate([1, *_flat(shape)], lambda x, y: x * y)
            stride = _like(shape, iter(steps))
        stride = stride if isinstance(stride, tuple) else (stride,)
        places = np.zeros((), np.int64)
        for mode, step in zip(shape, stride, strict=True):
            inner = np.zeros((), np.int64)
            for n, d in zip(_flat(mode), _flat(step), strict=True):
                inner = np.add.outer(inner, np.arange(n) * d)
            places = np.add.outer(places, inner.reshape(-1, order="F"))
        self.places = places


def _flat(x: Any) -> list[int]:
    return [n for item in x for n in _flat(item)] if isinstance(x, tuple) else [x]


def _like(shape: Any, steps: Any) -> Any:
    return tuple(_like(item, steps) for item in shape) if isinstance(shape, tuple) else next(steps)


# --- verbs ------------------------------------------------------------------------------------------------------------


def tile(t: Cells, tiler: tuple[int, ...], crd: tuple[Any, ...]) -> Cells:
    """(tile..., rest...) of which coordinates choose from the rest."""
    table, count = t.places, len(tiler)
    for mode, extent in enumerate(tiler):
        at, shape = 2 * mode, table.shape
        table = table.reshape(*shape[:at], shape[at] // extent, extent, *shape[at + 1:]).swapaxes(at, at + 1)
    table = table.transpose(*range(0, 2 * count, 2), *range(1, 2 * count, 2), *range(2 * count, table.ndim))
    return Cells(t.memory, table[(*(slice(None),) * count, *(slice(None) if c is None else c for c in crd))])


def parallelize(t: Cells, threads: Places, thread: int) -> Cells:
    """Every n-th element of each mode, from this thread's place on; threads are counted column-major."""
    shape = threads.places.shape
    at = np.argwhere(threads.places == thread)[0]
    return Cells(t.memory, t.places[tuple(slice(i, None, n) for i, n in zip(at, shape, strict=True))])


def composition(t: Cells, layout: Places) -> Cells:
    return Cells(t.memory, t.places.reshape(-1, order="F")[layout.places])


def flat_divide(t: Cells, tiler: tuple[int, ...]) -> Cells:
    return tile(t, tiler, (None,) * len(tiler))


def zipped_divide(t: Cells, tiler: tuple[int, ...]) -> Cells:
    """((tile), (rest))."""
    found, count = flat_divide(t, tiler).places, len(tiler)
    return Cells(t.memory, found.reshape(math.prod(found.shape[:count]), -1, order="F"))


def copyto(*given: Any) -> None:
    if len(given) == 3:
        _, dst, src = given
        if not isinstance(dst, Cells):          # parts of a tiled copy: the first thread moves all
            if dst.thread == 0:
                dst.whole.memory[dst.whole.places] = src.whole.values()
            return
    dst, src = given[-2:]
    dst.memory[dst.places] = src.values()


def tiled_copy(*_: Any) -> Any:
    return SimpleNamespace(get_slice=lambda thread: SimpleNamespace(
        partition_S=lambda t: SimpleNamespace(whole=t, thread=thread),
        partition_D=lambda t: SimpleNamespace(whole=t, thread=thread)))


def recast(t: Cells, dtype: Any) -> Cells:
    """Twice as many elements of half the width, along the first mode, which is contiguous."""
    memory = t.memory.view(dtype)
    times = t.memory.itemsize // memory.itemsize
    places = t.places[:, None, ...] * times + np.arange(times).reshape(1, times, *[1] * (t.places.ndim - 1))
    return Cells(memory, places.swapaxes(0, 1).reshape(-1, *t.places.shape[1:], order="F"))


def _where(c: Any, x: Any, y: Any) -> Any:
    if isinstance(c, Cells):
        return own(np.where(c.values(), _of(x), _of(y)))
    return x if c else y


def plain(block: dict[str, Any], thread: int) -> SimpleNamespace:
    """``mo`` for one thread; shared arrays are the block's, by the order of their making."""
    made = iter(range(1 << 20))

    def shared_array(dtype: Any, layout: Any) -> Cells:
        places = layout.places if isinstance(layout, Places) else Places(layout).places
        size = max(4, int(places.max()) + 1)
        return Cells(block.setdefault(f"s{next(made)}", np.full(size, 77, dtype)), places)

    def fragment(shape: Any, dtype: Any) -> Cells:
        return own(np.zeros(shape, dtype))

    return SimpleNamespace(
        thread_idx=lambda: SimpleNamespace(x=thread), shared_array=shared_array, fragment=fragment, tile=tile,
        make_layout=Places, parallelize=parallelize, composition=composition, flat_divide=flat_divide,
        zipped_divide=zipped_divide, copyto=copyto, recast=recast, make_tiled_copy=tiled_copy,
        CopyAtom=lambda *_: None, UniversalCopy=lambda *_: None, CpAsync=lambda *_: None, cp_async_wait=lambda: None,
        Swizzle=lambda *_: None, swizzled=lambda _, layout: layout, where=_where,
        make_fragment_like=lambda t: own(np.zeros(t.places.shape, t.memory.dtype)),
        size=lambda t, mode=None: t.places.size if mode is None else t.places.shape[mode],
        shape=lambda t: t.places.shape, rank=lambda t: t.places.ndim, jit=lambda f: f, kernel=lambda f: f,
        range=lambda *bounds, **_: range(*bounds), static_range=range, popcount=lambda x: bin(x).count("1"),
        min=min, max=max, abs=abs, ceil_div=lambda a, b: -(-a // b), Constexpr=None,
        assume=lambda _: None, Static=None,
        int32=np.int32, int16=np.int16, uint8=np.uint8, int8=np.int8, uint16=np.uint16, int64=np.int64)


# --- threads ----------------------------------------------------------------------------------------------------------


class _Meets(ast.NodeTransformer):
    """What threads do together becomes a yield of what each brings."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        function = node.func
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "mo" \
                and function.attr in TOGETHER:
            names = ast.Tuple([ast.Constant(k.arg) for k in node.keywords], ast.Load())
            brought = [ast.Constant(function.attr), names, *node.args, *(k.value for k in node.keywords)]
            return ast.Yield(ast.Tuple(brought, ast.Load()))
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.decorator_list = [each for each in node.decorator_list if not ast.unparse(each).startswith("mo.")]
        for arg in node.args.args:
            arg.annotation = None
        return node


def run(source: str, name: str, arguments: Sequence[Any], threads: int) -> None:
    """Run a kernel's source; its arrays are written."""
    code = compile(ast.fix_missing_locations(_Meets().visit(ast.parse(source.replace("import moye as mo\n", "")))),
                   "<plain>", "exec")
    given = [_cells(x) for x in arguments]
    block: dict[str, Any] = {}
    waiting = []
    for thread in range(threads):
        names: dict[str, Any] = {"__name__": __name__, "mo": plain(block, thread)}
        exec(code, names)
        waiting.append(names[name](*given))
    brought = [next(each, None) for each in waiting]
    while brought[0] is not None:
        met = _met(brought)
        brought = [_sent(each, x) for each, x in zip(waiting, met, strict=True)]
    assert not any(brought), "all threads end together"


def _sent(thread: Any, x: Any) -> Any:
    try:
        return thread.send(x)
    except StopIteration:
        return None


def _cells(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        steps = [s // x.itemsize for s in x.strides]
        reach = 1 + sum((n - 1) * s for n, s in zip(x.shape, steps, strict=True))
        whole = np.lib.stride_tricks.as_strided(x, (reach,), (x.itemsize,))
        places = np.zeros((), np.int64)
        for n, s in zip(x.shape, steps, strict=True):
            places = np.add.outer(places, np.arange(n) * s)
        return Cells(whole, places)
    if isinstance(x, tuple):
        return tuple(map(_cells, x))
    if isinstance(x, dict):
        return {key: _cells(item) for key, item in x.items()}
    return x


def _met(brought: list[Any]) -> list[Any]:
    """What each thread takes away from a meeting."""
    kinds = {(x[0], x[1]) for x in brought}
    assert len(kinds) == 1, kinds
    kind, names = kinds.pop()
    values = [x[2] if len(x) > 2 else None for x in brought]
    more = [dict(zip(names, x[len(x) - len(names):], strict=True)) for x in brought]
    rest = [x[3:len(x) - len(names)] for x in brought]
    if kind == "block_reduce":
        return [_fold(values, rest[0][1])] * len(values)
    found: list[Any] = []
    for first in range(0, len(values), WARP):
        lanes = values[first:first + WARP]
        found += [_lane(kind, lanes, i, rest[first + i], more[first + i]) for i in range(len(lanes))]
    return found


def _fold(values: list[int], kind: str) -> int:
    found = values[0]
    for x in values[1:]:
        found = {"add": found + x, "max": max(found, x), "min": min(found, x), "xor": found ^ x}[kind]
    return int(found)


def _lane(kind: str, lanes: list[Any], i: int, rest: Any, more: dict[str, Any]) -> Any:
    if kind.startswith("sync"):
        return None
    if kind == "warp_reduce":
        width = more.get("width", WARP)
        start = i // width * width
        return _fold(lanes[start:start + width], rest[0])
    if kind == "warp_scan":
        part = lanes[:i + 1] if more.get("inclusive", True) else lanes[:i]
        return _fold(part, rest[0]) if part else 0
    if kind == "ballot":
        return sum(1 << j for j, x in enumerate(lanes) if x)
    if kind == "match_any":
        return sum(1 << j for j, x in enumerate(lanes) if x == lanes[i])
    if kind.startswith("vote"):
        return (any if kind == "vote_any" else all)(lanes)
    n = rest[0]
    source = {"shuffle_xor": i ^ n, "shuffle_idx": n, "shuffle_up": i - n, "shuffle_down": i + n}[kind]
    return lanes[source] if 0 <= source < WARP else lanes[i]
