"""Products for ``moye.kernels.gemm`` drawn by seed: dtypes, strides, batches, what is fused, NaNs; and their results.

In: a ``random.Random``, a library of arrays.  Out: a ``Product``; ``run`` launches it and compares.

>>> product = draw(random.Random(7), most=200); run(product, NumPy())

All memory around and between the elements is NaN and stays so, operands stay as they are, and C is NaN before where
nothing of it is read.  Each element of C must lie between the roundings of exact result - error and + error: what
``_sums`` says of sums over K, and some roundings of what is fused.  Where the exact result is NaN, so is C.
"""

from __future__ import annotations

import dataclasses
import math
import random
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import ml_dtypes
import numpy as np

import moye as mo
from moye.kernels import gemm
from moye.kernels.gemm.sm90.config import Problem, candidates

HALVES, EIGHTH = ("bf16", "f16"), ("e4m3", "e5m2")
WIDTHS = {"bf16": 2, "f16": 2, "f32": 4, "f64": 8, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1, "s32": 4}
"""Bytes of an element."""


@dataclass(frozen=True)
class Kind:
    """Dtypes of A, B, and those of which C may be; what sums cost: see ``_sums``.

    ``simt``: on ordinary cores, which take no more than tensor cores of sm_80 do.  ``hopper``: runs on sm_90a alone.
    """

    a: str
    b: str
    outs: tuple[str, ...]
    depth: int = 1
    simt: bool = False
    hopper: bool = False


_FLOATS = ("bf16", "f16", "f32")
KINDS = {
    "bf16": Kind("bf16", "bf16", _FLOATS, 16), "f16": Kind("f16", "f16", _FLOATS, 16),
    "tf32": Kind("f32", "f32", _FLOATS, 8), "f32": Kind("f32", "f32", ("f32",), simt=True),
    "f64": Kind("f64", "f64", ("f64",)), "e4m3": Kind("e4m3", "e4m3", _FLOATS, 32),
    "e5m2": Kind("e5m2", "e5m2", _FLOATS, 32), "mixed": Kind("e4m3", "e5m2", _FLOATS, 32, hopper=True),
    "turned": Kind("e5m2", "e4m3", _FLOATS, 32, hopper=True), "s8": Kind("s8", "s8", ("s32",), 32),
    "u8": Kind("u8", "u8", ("s32",), 32), "s32": Kind("s32", "s32", ("s32",), simt=True)}


@dataclass(frozen=True)
class Place:
    """Where an array lies in its memory.

    ``modes``: from the one whose elements are nearest to the one that is farthest apart.  Elements of the first are
    ``step`` apart; each other mode begins anew behind the ones before it, rounded up to a multiple of ``part`` elements
    and ``slack`` elements later.  ``first``: elements before the array.  ``repeated``: modes of stride 0.
    """

    modes: tuple[int, ...]
    step: int = 1
    part: int = 1
    slack: int = 0
    first: int = 0
    repeated: tuple[int, ...] = ()

    def strides(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """In elements."""
        found, apart = [0] * len(shape), self.step
        for mode in self.modes:
            if mode not in self.repeated:
                found[mode] = apart
                apart = -(-apart * max(1, shape[mode]) // self.part) * self.part + self.slack
        return tuple(found)

    def count(self, shape: tuple[int, ...]) -> int:
        """Elements of the memory: one more part lies behind the array."""
        span = sum((n - 1) * step for n, step in zip(shape, self.strides(shape), strict=True)) if 0 not in shape else 0
        return self.first + span + 1 + max(16, self.part)


@dataclass(frozen=True)
class Product:
    """One call of ``gemm``.

    ``places`` are those of A, B, C and the residual; ``vectors`` of the other arrays by name: dtype, stride, first.
    ``special``: what is strewn over the operands, "nan" or "inf" or "".  ``arch`` and ``blocks``: architecture and
    multiprocessors of the simulated device.  ``pick``: which of the configurations of sm_90a there are for it is asked
    for, counted round; None leaves the choice to ``gemm``.
    """

    seed: int
    kind: str
    out: str
    M: int
    N: int
    K: int
    batches: int | None
    places: tuple[Place, Place, Place, Place]
    alpha: float = 1
    beta: float = 0
    residual: str = ""
    vectors: tuple[tuple[str, str, int, int], ...] = ()
    activation: str = "none"
    gated: bool = False
    options: tuple[tuple[str, Any], ...] = ()
    special: str = ""
    arch: str = "sm_90a"
    blocks: int = 132
    pick: int | None = None

    @property
    def last(self) -> tuple[int, ...]:
        return () if self.batches is None else (self.batches,)

    @property
    def rows_B(self) -> int:
        return self.N * (2 if self.gated else 1)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of A, B, C and the residual."""
        C = (self.M, self.N, *self.last)
        return (self.M, self.K, *self.last), (self.rows_B, self.K, *self.last), C, C

    @property
    def in_place(self) -> bool:
        """Whether the residual is C itself."""
        return self.residual == "C"


# --- drawing ---------------------------------------------------------------------------------------------------------


def draw(rng: random.Random, *, most: int, work: int, archs: tuple[str, ...] = ("sm_90a",)) -> Product:
    """A product whose extents are log-uniform up to ``most``, of at most ``work`` multiplications."""
    name, arch = rng.choice([*KINDS, *HALVES, *HALVES, "f32", "e4m3"]), rng.choice(archs)
    kind = KINDS[name]
    if arch != "sm_90a":
        kind = KINDS[name := rng.choice([name for name, kind in KINDS.items() if not kind.hopper])]
        arch = "sm_89" if kind.a in EIGHTH else arch
    batches = rng.choice((None, None, None, 1, 2, 3))
    M, N, K = _extents(rng, most, work // (batches or 1))
    out = rng.choice((kind.outs[0], *kind.outs))
    hows = ("aligned",) if rng.random() < 0.4 else ("dense", "aligned", "aligned", "odd")
    places = tuple(_place(rng, hows, dtype, 2 if batches is None else 3, i < 2)
                   for i, dtype in enumerate((kind.a, kind.b, out, out)))
    exact = out == "s32"
    product = Product(rng.randrange(1 << 30), name, out, M, N, K, batches, places, arch=arch,
                      alpha=rng.choice((1, 1, 1, 2, -1, 3) if exact else (1, 1, 1, 0.5, -1, 0.1, 4096.0)),
                      beta=rng.choice((0, 0, 0, 1, -2) if exact else (0, 0, 0, 1, -0.5, 0.1)),
                      special="" if exact or rng.random() < 0.6 else rng.choice(("nan", "inf")))
    product = _fused(rng, product, kind)
    return dataclasses.replace(product, options=(*product.options, ("tf32", True))) if name == "tf32" else product


def _extents(rng: random.Random, most: int, work: int) -> tuple[int, int, int]:
    """M, N and K, a third of them multiples of 64, of 8 and of 1; a quarter deep, a quarter of more than a tile.

    Now and then there is nothing.
    """
    if rng.random() < 0.02:
        return tuple(rng.sample((0, rng.randint(1, 40), rng.randint(1, 40)), 3))        # type: ignore[return-value]
    multiple, shape = rng.choice((64, 8, 1)), rng.choice(("any", "any", "deep", "wide"))
    least, sides, depth = {"any": (1, most, most), "deep": (1, max(1, most // 6), 8 * most),
                           "wide": (min(most, 64), most, max(1, most // 4))}[shape]
    while True:
        drawn = [round(math.exp(rng.uniform(math.log(low), math.log(high)))) for low, high in
                 ((least, sides), (least, sides), (min(depth, 256) if shape == "deep" else 1, depth))]
        M, N, K = (n if n < multiple and rng.random() < 0.3 else max(1, round(n / multiple)) * multiple for n in drawn)
        if work >= M * N * K:
            return M, N, K


def like(rng: random.Random, product: Product) -> Product:
    """Another of the same kind, whose extents differ by multiples of 64, so that it mostly takes the same kernels."""
    M, N, K = (max(n % 64 or min(n, 64), n - 64 * rng.randint(0, max(1, n // 512))) for n in
               (product.M, product.N, product.K))
    return dataclasses.replace(product, seed=rng.randrange(1 << 30), M=M, N=N, K=K,
                               special=product.special and rng.choice(("nan", "inf", "")))


def _place(rng: random.Random, hows: tuple[str, ...], dtype: str, rank: int, operand: bool) -> Place:
    """Mostly dense or lines at multiples of 16 bytes; else odd ones, spread elements, batches in between, repeated."""
    part, matrix = 16 // WIDTHS[dtype], rng.choice(((1, 0), (0, 1)))
    modes = (*matrix, 2) if rank == 3 else matrix
    if rank == 3 and rng.random() < 0.2:
        modes = tuple(rng.sample(modes, 3))
    repeated = (2,) if operand and rank == 3 and rng.random() < 0.3 else ()
    if operand and rng.random() < 0.03:
        repeated = (*repeated, 0)
    how = rng.choice(hows)
    if how == "dense":
        return Place(modes, first=rng.choice((0, 0, part, 1)), repeated=repeated)
    if how == "aligned":
        return Place(modes, part=part, slack=part * rng.choice((0, 0, 1, 3)), first=part * rng.choice((0, 1)),
                     repeated=repeated)
    return Place(modes, step=rng.choice((1, 1, 1, 2)), slack=rng.choice((1, 2, 3, 5)), first=rng.randint(0, 2 * part),
                 repeated=repeated)


def _fused(rng: random.Random, product: Product, kind: Kind) -> Product:
    """With an epilogue and options that this dtype has on this architecture; a third with none."""
    exact, options, vectors = product.out == "s32", [], []
    sums = {"s32": ("s32",), "f64": ("f64", "f32")}.get(product.out, _FLOATS)
    hopper = product.arch == "sm_90a" and kind.a != "f64" and not kind.simt
    if hopper and kind.a in EIGHTH and rng.random() < 0.5:
        options.append(("fast_accum", True))
    if not kind.hopper and rng.random() < 0.1:
        options.append(("splits", rng.choice((1, 2, 3))))
        hopper = False
    if rng.random() < 0.35:
        return dataclasses.replace(product, options=tuple(options))
    gated = hopper and rng.random() < 0.2
    names = ["bias", *(("row_scale", "col_scale") if hopper else ())]
    vectors = [(name, rng.choice(sums), rng.choice((1, 1, 1, 2, 0)), rng.choice((0, 0, 1))) for name in names
               if rng.random() < 0.4]
    residual = rng.choice(("", "", product.out, rng.choice(sums), "C")) if not gated else ""
    return dataclasses.replace(product, gated=gated, vectors=tuple(vectors), residual=residual, options=tuple(options),
                               alpha=1 if gated and exact else product.alpha, beta=0 if gated else product.beta,
                               activation=rng.choice(("none", "relu") if exact else ("none", "none", "relu", "gelu",
                                                                                     "silu")))


# --- arrays ----------------------------------------------------------------------------------------------------------


class NumPy:
    """Arrays of the host, which are simulated.  Another library has the same methods: see tests/gpu."""

    dtypes: ClassVar = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "f64": np.float64,
                        "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "u8": np.uint8,
                        "s32": np.int32}
    functions = np

    def start(self, seed: int) -> None:
        """Draw the same numbers again."""
        self.rng = np.random.default_rng(seed)

    def bytes(self, count: int, value: int) -> Any:
        """Memory that begins at a multiple of 128 bytes."""
        raw = np.full(count + 128, value, np.uint8)
        return raw[-raw.ctypes.data % 128:][:count]

    def view(self, memory: Any, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], first: int) -> Any:
        """An array in memory, strides and its first element in elements."""
        size = WIDTHS[dtype]
        return np.ndarray(shape, self.dtypes[dtype], memory, first * size, tuple(step * size for step in strides))

    def normal(self, shape: tuple[int, ...]) -> Any:
        return self.rng.standard_normal(shape, np.float32)

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> Any:
        return self.rng.integers(low, high, shape, endpoint=True)

    def places(self, count: int) -> Any:
        """0, 1, ... count - 1, int64."""
        return np.arange(count)

    def fill(self, x: Any, values: Any) -> None:
        """x[...] = values, rounded."""
        x[...] = values

    def wide(self, x: Any) -> Any:
        """In float64, the batches first."""
        return np.moveaxis(x.astype(np.float64), 2, 0) if x.ndim == 3 else x.astype(np.float64)

    def rounded(self, x: Any, dtype: str) -> Any:
        """Float64 rounded to float32, as sums are held in, and then to a dtype; again as float64."""
        with np.errstate(over="ignore", invalid="ignore"):
            x = x if dtype in ("f64", "s32") else x.astype(np.float32)
            return x.astype(self.dtypes[dtype]).astype(np.float64)

    def untied(self, x: Any) -> None:
        """No float32 is half-way between two tfloat32: the ways to round them agree."""
        bits = x.view(np.uint32)
        bits[(bits & np.uint32(0x1FFF)) == 0x1000] += np.uint32(1)

    def to_tf32(self, x: Any) -> Any:
        """Float64 of what is a float32, rounded to tfloat32."""
        bits = x.astype(np.float32).view(np.uint32)
        short = ((bits + np.uint32(0xFFF) + (bits >> np.uint32(13) & np.uint32(1))) & np.uint32(0xFFFFE000))
        return np.where(np.isfinite(x), short.view(np.float32).astype(np.float64), x)

    def erf(self, x: Any) -> Any:
        return np.vectorize(math.erf, otypes=[np.float64])(x)

    def same(self, a: Any, b: Any) -> bool:
        return bool(np.array_equal(a, b))

    def copy(self, x: Any) -> Any:
        return x.copy()


@dataclass
class _Array:
    """A view ``x`` of a memory of bytes, which was ``before`` when the product was launched."""

    x: Any
    memory: Any
    before: Any = None


def _made(library: Any, dtype: str, shape: tuple[int, ...], place: Place) -> _Array:
    """An array in NaNs (integers: of bytes 7F), full of them itself."""
    poison = 0x7F if WIDTHS[dtype] == 1 or dtype == "s32" else 0xFF
    memory = library.bytes(place.count(shape) * WIDTHS[dtype], poison)
    return _Array(library.view(memory, dtype, shape, place.strides(shape), place.first), memory)


def _filled(library: Any, dtype: str, shape: tuple[int, ...], place: Place, *, small: bool = False) -> _Array:
    """The same with numbers: normal ones, every 16th of them zero, or integers."""
    array = _made(library, dtype, shape, place)
    whole = tuple(min(1, n) if mode in place.repeated else n for mode, n in enumerate(shape))
    if dtype in ("s8", "u8", "s32"):
        low, high = {"s8": (-128, 127), "u8": (0, 255), "s32": (-50, 50)}[dtype]
        values = library.integers(*((max(low, -5), 5) if small else (low, high)), whole)
    else:
        values = library.normal(whole) * (library.integers(0, 15, whole) > 0)
    library.fill(library.view(array.memory, dtype, whole, place.strides(shape), place.first), values)
    return array


def _arrays(product: Product, library: Any) -> dict[str, _Array]:
    """All arrays of a product by name, filled; C as it is before."""
    library.start(product.seed)
    kind = KINDS[product.kind]
    small = product.gated or any(name.endswith("scale") for name, *_ in product.vectors)    # sums stay in 32 bits
    dtypes = (kind.a, kind.b, product.out, product.residual)
    found = {name: _filled(library, dtype, shape, place, small=small) for name, dtype, shape, place
             in zip(("A", "B", "C", "residual"), dtypes, product.shapes, product.places, strict=True)
             if name in ("A", "B") or (name == "residual" and dtype not in ("", "C"))}
    reads = product.beta != 0 or product.in_place
    found["C"] = (_filled if reads else _made)(library, product.out, product.shapes[2], product.places[2])
    for name, dtype, step, first in product.vectors:
        count = product.M if name == "row_scale" else product.rows_B
        place = Place((0,), step, first=first, repeated=() if step else (0,))
        found[name] = _filled(library, dtype, (count,), place, small=True)
    if product.kind == "tf32":
        for name in "AB":
            library.untied(found[name].memory.view(library.dtypes["f32"]))
    _strew(random.Random(product.seed), product, {name: array for name, array in found.items()
                                                  if name != "C" or reads}, library)
    return found


def _strew(rng: random.Random, product: Product, arrays: dict[str, _Array], library: Any) -> None:
    """NaNs, or infinities of both signs, at one to three places of some of what is read."""
    if not product.special:
        return
    kind = KINDS[product.kind]
    for name, array in arrays.items():
        shape = tuple(array.x.shape)
        if 0 in shape or rng.random() < 0.5:
            continue
        finite = {"A": kind.a, "B": kind.b}.get(name) == "e4m3"         # but for NaNs
        for _ in range(rng.randint(1, 3)):
            at = tuple(rng.randrange(n) for n in shape)
            value = math.nan if product.special == "nan" or finite else rng.choice((math.inf, -math.inf))
            library.fill(array.x[tuple(slice(i, i + 1) for i in at)], value)


# --- what comes out --------------------------------------------------------------------------------------------------


def _sums(product: Product) -> float:
    """The error of a sum over K, in units of the root of the sum of the squares of its products.

    That root is the standard deviation of a sum of so many terms of either sign, and some deviations bound every
    partial sum.  Tensor cores cut off what float32 cannot hold, once for ``depth`` products (2^-22 of the partial sum,
    alignment included), so errors add up; sums of float8 have 14 bits, of which promoted ones lose some in each 128 of
    K, independently of each other.  FMAs round to nearest, and their errors add up as a random walk does.
    """
    kind, K = KINDS[product.kind], product.K
    if product.out == "s32":
        return 0.0
    if kind.depth == 1:
        return 2.0 ** (-52 if product.out == "f64" else -24) * (math.sqrt(K) + 16)
    times = K / kind.depth + 16                         # a few more: sums of parts of K
    if kind.a not in EIGHTH:
        return 2.0 ** -22 * times
    fast = ("fast_accum", True) in product.options
    return 2.0 ** -13 * times if fast else 2.0 ** -12 * 4 + 2.0 ** -22 * times


def _half(product: Product, library: Any, wide: dict[str, Any], part: slice) -> tuple[Any, ...]:
    """(alpha * row_scale * col_scale * A B^T + beta * C + residual + bias, a deviation of its sums, that of some eight
    roundings on the way, where an infinite factor has a sum whose sign is not sure); ``part`` of B's rows."""
    f = library.functions
    A, B = wide["A"], wide["B"][..., part, :].swapaxes(-1, -2)
    squares = [f.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0) ** 2 for x in (A, B)]
    factor = product.alpha * f.ones_like(wide["C"][..., :1, :1])
    if "row_scale" in wide:
        factor = factor * wide["row_scale"][:, None]
    if "col_scale" in wide:
        factor = factor * wide["col_scale"][part]
    sums, error = A @ B, f.sqrt(squares[0] @ squares[1]) * _sums(product)
    result = factor * sums
    size = f.abs(result)
    for term in (product.beta * wide["C"] if product.beta else None, wide.get("residual"),
                 wide["bias"][part] if "bias" in wide else None):
        if term is not None:
            result, size = result + term, size + f.abs(term)
    return result, f.abs(factor) * error, size * ROUNDED[product.out] * 8, f.isinf(factor) & (
        f.abs(sums) <= EACH * error)


def _expected(product: Product, library: Any, halves: list[tuple[Any, ...]], chance: float) -> tuple[Any, ...]:
    """The exact result, not rounded, and the error that it may have; nothing is a NaN's or an infinity's error.

    Behind them, where a NaN and an infinity are both right: infinities times an activation that may as well be zero.
    """
    f, ulps = library.functions, 16 * ROUNDED[product.out]
    (result, error), *more = ((exact, chance * one + rounded) for exact, one, rounded, _ in halves)
    if product.activation != "none":                    # whose slopes are below 1.2
        error = 1.2 * error + ulps * f.abs(result)
        result = ACTIVATIONS[product.activation](library, result)
    unclear = f.zeros_like(result) > 0
    for up, ups in more:
        unclear = f.isinf(up) & (f.abs(result) <= error + TINY)
        error = error * (f.abs(up) + ups) + f.abs(result) * ups + ulps * f.abs(result * up)
        result = result * up
    return result, f.nan_to_num(error, nan=0.0, posinf=0.0, neginf=0.0), unclear


ACTIVATIONS = {"relu": lambda library, x: library.functions.where(x < 0, library.functions.zeros_like(x), x),
               "gelu": lambda library, x: 0.5 * x * (1 + library.erf(x / math.sqrt(2))),
               "silu": lambda library, x: x / (1 + library.functions.exp(-x))}
ROUNDED = {**dict.fromkeys(_FLOATS, 2.0 ** -24), "f64": 2.0 ** -53, "s32": 0.0}
"""The error of one rounding of what is between sums and C."""
TINY = 2.0 ** -120
"""Where float32 may underflow."""


def run(product: Product, library: Any) -> None:
    """Launch once; AssertionError for a wrong element, for memory that was written, and for an operand that changed."""
    arrays = _arrays(product, library)
    wide = {name: library.wide(array.x) for name, array in arrays.items()}
    if product.in_place:
        wide["residual"] = wide["C"]
    if product.kind == "tf32":
        wide.update((name, library.to_tf32(wide[name])) for name in "AB")
    for array in arrays.values():
        array.before = library.copy(array.memory)
    given = {name: array.x for name, array in arrays.items() if name not in "ABC"}
    if product.in_place:
        given["residual"] = arrays["C"].x
    fused = {name: x for name, x in (("activation", product.activation), ("gated", product.gated))
             if x not in ("none", False)}
    C = arrays["C"].x
    assert gemm(arrays["A"].x, arrays["B"].x, C, alpha=product.alpha, beta=product.beta, **given, **fused,
                **configured(product), **dict(product.options)) is C, "gemm returns C"
    with np.errstate(all="ignore"):
        _compare(product, library, library.wide(C), wide)
    place, shape = product.places[2], product.shapes[2]
    for memory in (arrays["C"].memory, arrays["C"].before):
        library.fill(library.view(memory, product.out, shape, place.strides(shape), place.first), 0)
    for name, array in arrays.items():
        assert library.same(array.memory, array.before), \
            "something around C was written" if name == "C" else f"{name} was written"


def _compare(product: Product, library: Any, got: Any, wide: dict[str, Any]) -> None:
    """AssertionError unless each element is near enough, and all of many together."""
    if 0 in product.shapes[2]:
        return
    f, N = library.functions, product.N
    parts = (slice(0, N), slice(N, None))[:1 + product.gated]
    halves = [_half(product, library, wide, part) for part in parts]
    exact, error, unclear = _expected(product, library, halves, EACH)
    low, high = (library.rounded(exact + side * error, product.out) for side in (-1, 1))
    either = unclear & ~f.isfinite(got)                 # what may be infinite, NaN or nothing
    for *_, unsure in halves:
        either = either | unsure
    wrong = ~((low <= got) & (got <= high)) & ~(f.isnan(exact) & f.isnan(got)) & ~either
    if bool(wrong.any()):
        at = tuple(int(i[0]) for i in f.where(wrong))
        raise AssertionError(f"{int(wrong.sum())} of {math.prod(got.shape)} elements are wrong; C{list(at)} is "
                             f"{float(got[at])}, not {float(low[at])} to {float(high[at])}")
    good = f.isfinite(exact) & f.isfinite(low) & f.isfinite(high) & ~either
    if product.out == "s32" or int(good.sum()) < MANY:
        return
    off, rounding, allowed = (float(f.sqrt((x[good] ** 2).sum())) for x in (
        got - exact, library.rounded(exact, product.out) - exact, _expected(product, library, halves, ALL)[1]))
    assert off <= 1.05 * rounding + allowed, f"error {off:.2e}, allowed {allowed:.2e}, of rounding {rounding:.2e}"


EACH, ALL, MANY = 8.0, 2.0, 1024
"""Deviations that a partial sum of each element may have, and those of all of MANY elements on average."""

SIMULATED = SimpleNamespace(most=300, work=1_000_000, archs=("sm_90a", "sm_90a", "sm_90a", "sm_80"))
"""Of products that the simulator multiplies soon."""


def simulated(seed: int) -> Product:
    """The small product of a seed, on a device of many multiprocessors, which share a tile, or of few, with several."""
    rng = random.Random(f"product {seed}")
    product = draw(rng, most=SIMULATED.most, work=SIMULATED.work, archs=SIMULATED.archs)
    hopper = product.arch == "sm_90a" and product.kind not in ("f64", "f32", "s32") and "splits" not in dict(
        product.options)
    return dataclasses.replace(product, blocks=rng.choice((132, 5, 1, 17)),
                               pick=rng.randrange(1 << 20) if hopper and rng.random() < 0.6 else None)


def configured(product: Product) -> dict[str, Any]:
    """The configuration that is asked for, as an option of ``gemm``."""
    if product.pick is None or 0 in (product.M, product.N, product.K):
        return {}
    kind = KINDS[product.kind]
    dtype = {"bf16": mo.bfloat16, "f16": mo.float16, "f32": mo.float32, "e4m3": mo.float8_e4m3fn,
             "e5m2": mo.float8_e5m2, "s8": mo.int8, "u8": mo.uint8}[kind.a]
    promote = kind.a in EIGHTH and ("fast_accum", True) not in product.options
    problem = Problem(product.M, product.N, product.K, product.batches or 1, dtype, promote=promote,
                      gated=product.gated, lines=((128, 16)[product.pick % 2],) * 2, out=WIDTHS[product.out])
    ways: dict[tuple[Any, ...], list[Any]] = {}         # each as often, and not as many as it has tiles
    for config in candidates(problem, product.blocks):
        way = config.schedule, config.groups, config.split_k > 1 and config.gather, config.share_A, config.share_B
        ways.setdefault(way, []).append(config)
    chosen = ways[list(ways)[product.pick % len(ways)]]
    return {"config": chosen[product.pick // len(ways) % len(chosen)]}
