"""Kernels of ``elementwise.py`` on NumPy arrays: the same source, and a ``mo`` whose fragments have an axis of threads.

In: source and arrays.  Out: for each array what the kernel leaves, and which elements NumPy can tell.

    run(source, "elementwise_7", {"a0": x, "o1": out, "n": 256})["o1"]      # (values, sure)

It shares nothing with moye.  Values are float64, rounded to their dtype after each operation.  Not sure is what depends
on a sum or product of 16-bit floats that is not exact, because moye may fuse it, and on the order of a sum.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

THREADS = 32
NUMPY = {name: np.dtype(getattr(ml_dtypes, name, None) or name) for name in (
    "float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e5m2", "int8", "uint8", "int16", "int32", "uint32")}
HALF, _LARGEST = frozenset(("float16", "bfloat16")), {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}
_INTERLEAVED = (0, 4, 1, 5, 2, 6, 3, 7)
_LANES = np.arange(THREADS)
FUSED: set[str] = set()
"""The dtypes whose products and sums may be one operation."""
Array = np.ndarray[Any, Any]


def unlike(x: Array, y: Array, sure: Array | None = None, *, signs: bool = False) -> int | None:
    """The first element that differs, in C's order; all NaNs are one, and so are both zeros but for their ``signs``."""
    x, y = (a.astype(np.float64) for a in (x, y))
    same = (x == y) & (~np.bool_(signs) | (np.signbit(x) == np.signbit(y))) | (np.isnan(x) & np.isnan(y))
    if sure is not None:
        same |= ~sure
    return None if same.all() else int(np.argmin(same))


def run(source: str, name: str, arrays: dict[str, Any],
        fused: frozenset[str] = HALF) -> dict[str, tuple[Array, Array]]:
    """Every array as the kernel leaves it, and where that is sure; products of ``fused`` dtypes may be, with sums."""
    FUSED.clear()
    FUSED.update(fused)
    names: dict[str, Any] = {"mo": MO}
    exec(source.replace("import moye as mo\n", ""), names)
    held = {key: Memory(x.astype(np.float64), str(x.dtype)) if isinstance(x, np.ndarray) else
            Regs(x, "float32") if isinstance(x, float) else x for key, x in arrays.items()}
    with np.errstate(all="ignore"):
        names[name](*held.values())
    return {key: (m.v, m.sure) for key, m in held.items() if isinstance(m, Memory)}


def rounded(x: Any, t: str) -> Array:
    """Numbers as the dtype holds them."""
    if t in _LARGEST:
        x = np.clip(np.asarray(x, np.float32), -_LARGEST[t], _LARGEST[t])
    return np.asarray(x).astype(NUMPY[t]).astype(np.float64)


class Memory:
    """An array of global or shared memory; reading gives registers."""

    def __init__(self, v: Array, t: str) -> None:
        self.v, self.t, self.sure = v.copy(), t, np.ones(v.shape, bool)

    def __setitem__(self, at: Any, value: Regs) -> None:
        self.v[at], self.sure[at] = value.v, value.sure


class View:
    """A tile of each thread: where its elements are, and which of them exist."""

    def __init__(self, of: Any, places: list[Array]) -> None:
        self.of, self.places = of, places


class Dtype:
    """``mo.float16``: converts numbers."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, x: Any) -> Regs:
        return Regs(rounded(x, self.name), self.name)


class Regs:
    """Registers of all threads: (threads, *shape); a number of each thread has no shape."""

    __hash__ = None                         # type: ignore[assignment]
    __array_ufunc__ = None

    def __init__(self, v: Any, t: str, sure: Any = True) -> None:
        self.v, self.t = np.array(v), t
        self.sure = np.array(np.broadcast_to(sure, self.v.shape))

    def _at(self, at: Any) -> Any:
        return (slice(None), *(at if isinstance(at, tuple) else (at,)))

    def __getitem__(self, at: Any) -> Regs:
        return Regs(self.v[self._at(at)], self.t, self.sure[self._at(at)])

    def __setitem__(self, at: Any, value: Any) -> None:
        value = lifted(value, self.t)
        v, sure = (_wide(x, self.v[self._at(at)].ndim) for x in (value.v, value.sure))
        self.v[self._at(at)], self.sure[self._at(at)] = v, sure

    def to(self, to: Dtype) -> Regs:
        t, sure = to.name, self.sure
        if t.startswith(("int", "uint")) and self.t.startswith(("float", "bfloat")):
            low, high = np.iinfo(t).min, np.iinfo(t).max
            return Regs(np.clip(np.trunc(np.nan_to_num(self.v, nan=0.0)), low, high), t, sure)
        if t == "bfloat16" and self.t in ("int32", "uint32"):       # NumPy goes through float32, and rounds twice
            sure = sure & (np.abs(self.v) < 1 << 24)
        return Regs(rounded(self.v, t), t, sure)

    def reduce(self, kind: str) -> Regs:
        axes = tuple(range(1, self.v.ndim))
        sure = self.sure.all(axes)
        if kind == "add":
            exact = (self.v * 1024 == np.floor(self.v * 1024)).all(axes) & (np.abs(self.v).sum(axes) < 1 << 13)
            known = exact & (self.t not in HALF) | (self.t not in NUMPY or "int" in self.t)
            return Regs(self.v.sum(axes), self.t, sure & known)
        return Regs((np.fmax if kind == "max" else np.fmin).reduce(self.v, axes), self.t, sure)

    def argmax(self) -> tuple[None, Regs]: return None, self._arg(np.argmax)
    def argmin(self) -> tuple[None, Regs]: return None, self._arg(np.argmin)

    def _arg(self, find: Any) -> Regs:
        """The first place of the largest number, dimension 0 fastest."""
        flat = self.v.reshape(THREADS, -1, order="F")
        sure = self.sure.all(tuple(range(1, self.sure.ndim))) & ~np.isnan(flat).any(1)
        return Regs(find(flat, 1).astype(np.float64), "int32", sure)

    def __add__(self, x: Any) -> Regs: return _arithmetic(np.add, self, x)
    def __radd__(self, x: Any) -> Regs: return _arithmetic(np.add, x, self)
    def __sub__(self, x: Any) -> Regs: return _arithmetic(np.subtract, self, x)
    def __rsub__(self, x: Any) -> Regs: return _arithmetic(np.subtract, x, self)
    def __rmul__(self, x: Any) -> Regs: return _arithmetic(np.multiply, x, self)
    def __mul__(self, x: Any) -> Regs: return _arithmetic(np.multiply, self, x)
    def __truediv__(self, x: Any) -> Regs: return _arithmetic(np.divide, self, x)
    def __floordiv__(self, x: Any) -> Regs: return _integers(np.floor_divide, self, x)
    def __mod__(self, x: Any) -> Regs: return _integers(np.mod, self, x)
    def __and__(self, x: Any) -> Regs: return _integers(np.bitwise_and, self, x)
    def __or__(self, x: Any) -> Regs: return _integers(np.bitwise_or, self, x)
    def __rshift__(self, x: Any) -> Regs: return _integers(np.right_shift, self, x)
    def __neg__(self) -> Regs: return Regs(-self.v, self.t, self.sure)
    def __lt__(self, x: Any) -> Regs: return _compared(np.less, self, x)
    def __le__(self, x: Any) -> Regs: return _compared(np.less_equal, self, x)
    def __gt__(self, x: Any) -> Regs: return _compared(np.greater, self, x)
    def __ge__(self, x: Any) -> Regs: return _compared(np.greater_equal, self, x)
    def __eq__(self, x: Any) -> Regs: return _compared(np.equal, self, x)          # type: ignore[override]
    def __ne__(self, x: Any) -> Regs: return _compared(np.not_equal, self, x)      # type: ignore[override]


def lifted(x: Any, t: str) -> Regs:
    """A Python number takes the dtype of what it meets."""
    return x if isinstance(x, Regs) else Regs(rounded(x, t), t)


def _wide(x: Array, rank: int) -> Array:
    """A number of each thread beside elements."""
    return x.reshape(x.shape + (1,) * (rank - x.ndim)) if x.ndim else x


def together(*values: Any) -> tuple[str, list[Array], Array]:
    """(dtype, numbers that broadcast, where all are sure)."""
    t = next(x.t for x in values if isinstance(x, Regs) and x.t != "bool")
    found = [lifted(x, t) for x in values]
    rank = max(x.v.ndim for x in found)
    sure = np.array(True)
    for x in found:
        sure = sure & _wide(x.sure, rank)
    return t, [_wide(x.v, rank) for x in found], sure


def _arithmetic(function: Callable[..., Any], *values: Any) -> Regs:
    """Rounded once; in float32 where the dtype is narrow, but for sums and products of 16 bits."""
    t, found, sure = together(*values)
    if "float" not in t:
        return Regs(function(*found), t, sure)
    if t in FUSED and function in (np.add, np.subtract, np.multiply):
        exact = function(*found)
        made = rounded(exact, t)
        return Regs(made, t, sure & ((made == exact) | np.isnan(exact)))
    return Regs(rounded(function(*(x.astype(np.float32) for x in found)), t), t, sure)


def _integers(function: Callable[..., Any], *values: Any) -> Regs:
    if all(isinstance(x, Regs) and x.t == "bool" for x in values):
        a, b = values
        return Regs(function(a.v, b.v), "bool", a.sure & b.sure)
    t, found, sure = together(*values)
    return Regs(function(*(x.astype(np.int64) for x in found)).astype(np.float64), t, sure)


def _compared(function: Callable[..., Any], *values: Any) -> Regs:
    _, found, sure = together(*values)
    return Regs(function(*found), "bool", sure)


def _fma(a: Any, b: Any, c: Any) -> Regs:
    """Sure where float64 holds the sum and the dtype, too."""
    t, (x, y, z), sure = together(a, b, c)
    exact = x * y + z
    made = rounded(exact, t)
    return Regs(made, t, sure & ((made == exact) | np.isnan(exact)))


def _where(cond: Regs, a: Any, b: Any) -> Regs:
    t, (x, y), _ = together(a, b)
    a, b = lifted(a, t), lifted(b, t)
    rank = max(cond.v.ndim, x.ndim, y.ndim)
    c, x, y, known, sx, sy = (_wide(v, rank) for v in (cond.v, a.v, b.v, cond.sure, a.sure, b.sure))
    return Regs(np.where(c, x, y), t, known & np.where(c, sx, sy))


# --- memory ----------------------------------------------------------------------------------------------------------


def _tile(of: Any, shape: tuple[int, ...], at: tuple[Any, ...], ragged: bool = False) -> View:
    rank, places = len(shape), []
    for mode, (extent, start) in enumerate(zip(shape, at, strict=True)):
        inner = np.arange(extent).reshape([-1 if i == mode else 1 for i in range(rank)])
        first = np.broadcast_to(start, (THREADS,)).reshape(-1, *[1] * rank) * extent
        places.append(np.broadcast_to(first + inner, (THREADS, *shape)))
    return View(of, places)


def _less(view: View, bounds: tuple[int, ...]) -> Regs:
    return Regs(np.all([place < bound for place, bound in zip(view.places, bounds, strict=True)], 0), "bool")


def _copyto(dst: Any, src: Any, pred: Regs | None = None, other: Any = None, zero_fill: bool = False) -> None:
    held, view = (dst, src) if isinstance(dst, Regs) else (src, dst)
    memory, shape = view.of, held.v.shape
    on = np.broadcast_to(True if pred is None else pred.v, shape)
    known = np.broadcast_to(True if pred is None else pred.sure, shape)
    inside = np.all([place < extent for place, extent in zip(view.places, memory.v.shape, strict=True)], 0)
    at = tuple(np.minimum(place, extent - 1) for place, extent in zip(view.places, memory.v.shape, strict=True))
    if held is dst:
        fill = held if other is None and not zero_fill else lifted(0 if other is None else other, held.t)
        rank = held.v.ndim
        held.v = np.where(on, memory.v[at], _wide(fill.v, rank))
        held.sure = known & np.where(on, memory.sure[at], _wide(fill.sure, rank))
        return
    written = tuple(place[on & inside] for place in at)
    memory.v[written], memory.sure[written] = held.v[on & inside], held.sure[on & inside]
    doubtful = tuple(place[~known & inside] for place in at)
    memory.sure[doubtful] = False


def _unpack(words: Regs, dtype: Dtype, to: Dtype, interleaved: bool = False) -> Regs:
    nibbles = words.v.astype(np.int64)[..., None] >> 4 * np.arange(8) & 15
    if interleaved:
        nibbles = nibbles[..., _INTERLEAVED]
    if dtype.name == "int4":
        nibbles = (nibbles ^ 8) - 8
    return Regs(nibbles.reshape(THREADS, -1).astype(np.float64), to.name)


def _atomic(function: Callable[..., Any]) -> Callable[[Memory, Any, Regs], None]:
    def changed(memory: Memory, at: Any, value: Regs) -> None:
        sure = np.broadcast_to(value.sure, (THREADS,))
        for place, v, s in zip(np.broadcast_to(at, (THREADS,)), np.broadcast_to(value.v, (THREADS,)), sure,
                               strict=True):
            memory.v[place] = function(memory.v[place], v)
            memory.sure[place] &= s
    return changed


def _red(view: View, value: Regs, kind: str) -> None:
    memory, at = view.of, tuple(view.places)
    _, (x, y), sure = together(Regs(memory.v[at], value.t, memory.sure[at]), value)
    memory.v[at], memory.sure[at] = {"add": np.add, "min": np.fmin, "max": np.fmax}[kind](x, y), sure


def _from_lanes(lanes: Any) -> Callable[[Regs, int], Regs]:
    def moved(x: Regs, n: int) -> Regs:
        v, sure = (np.broadcast_to(a, (THREADS, *a.shape[1:])) for a in (x.v, x.sure))
        return Regs(v[lanes(n)], x.t, sure[lanes(n)])
    return moved


def _warp_reduce(x: Regs, kind: str) -> Regs:
    v = np.broadcast_to(x.v, (THREADS,))
    made = v.sum() if kind == "add" else np.fmax.reduce(v)
    return Regs(np.full(THREADS, made), x.t, bool(np.all(x.sure)))


def _exact(function: Callable[..., Any]) -> Callable[..., Regs]:
    def applied(*values: Any) -> Regs:
        t, found, sure = together(*values)
        return Regs(rounded(function(*(x.astype(np.float32) if "float" in t else x for x in found)), t), t, sure)
    return applied


MO = SimpleNamespace(
    **{name: Dtype(name) for name in (*NUMPY, "int4", "uint4")}, kernel=lambda function: function, fma=_fma,
    where=_where, abs=_exact(np.abs), floor=_exact(np.floor), ceil=_exact(np.ceil), sqrt=_exact(np.sqrt),
    min=_exact(np.fmin), max=_exact(np.fmax), thread_idx=lambda: SimpleNamespace(x=_LANES), tile=_tile,
    identity_tensor=lambda shape: None, elem_less=_less, copyto=_copyto, sync_threads=lambda: None,
    make_layout=lambda shape, stride=None: shape, composition=lambda swizzle, shape: shape, Swizzle=lambda *of: of,
    shared_array=lambda t, size: Memory(np.zeros(size), t.name), unpack=_unpack, warp_reduce=_warp_reduce,
    fragment=lambda shape, t: Regs(np.zeros((THREADS, *shape)), t.name, False),
    atomic_add=_atomic(np.add), atomic_min=_atomic(np.fmin), atomic_max=_atomic(np.fmax), red=_red,
    shuffle_xor=_from_lanes(lambda n: _LANES ^ n), shuffle_idx=_from_lanes(lambda n: np.full(THREADS, n)))
"""What a kernel's source calls."""
