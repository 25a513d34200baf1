"""Attention drawn by seed: lengths, heads, dimensions, windows, biases, strides; and its results in float64.

In: a seed, a library of arrays (see ``random_products``).  Out: a ``Case``; ``run`` launches it and compares.

>>> run(draw(random.Random(7), most=200), NumPy())

All memory around and between the elements is NaN, and stays so around the results, which are NaN before.  With p the
exact weights of a row and u the unit roundoff of the dtype, an element of the result may be off by u (p |v|) for the
weights, which are rounded, u |result| for the result, and what rounding of the scores to float32 makes of both.

Operands of 8 bits are stored exactly. Their weights have 4 bits, down to 2^-17 of the largest: roundings of many are
independent of each other, so that few deviations bound their sum, but that of equal weights is one. Sums of products
have 14 bits, cut off once for 32 keys or dimensions.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import moye as mo
from moye.kernels import attention, attention_backward
from moye.kernels.attention.sm90 import config, host
from random_products import NumPy, Place, _Array, _filled, _made

UNIT = {"bf16": 2.0 ** -8, "f16": 2.0 ** -11, "f32": 2.0 ** -24, "f64": 2.0 ** -53, "e4m3": 2.0 ** -4}
LEAST = 2.0 ** -25
"""Half of the least float16: what rounding of a number that is smaller than all normal ones may cost."""
DIMS = ((64, 64), (64, 64), (128, 128), (128, 128), (96, 96), (192, 128), (192, 192), (256, 256), (80, 80), (32, 16),
        (40, 72), (50, 33), (1, 1), (64, 128), (96, 64))
NARROW_DIMS = ((64, 64), (64, 64), (128, 128), (128, 128), (256, 256), (96, 96), (32, 32), (192, 128), (160, 64))
BATCH_FIRST, HEADS_FIRST = (3, 2, 1, 0), (3, 1, 2, 0)


@dataclass(frozen=True)
class Case:
    """One call: extents, what its scores go through, where the arrays lie (q, k, v, out, bias).

    ``out``: the dtype of the result, if it is another; ``factors`` of q, k and v: "one" number, of a "head", of the
    heads of a "batch", or "".  ``tiles``: which configuration on sm_90a, and in which order, or None for the rule's.
    """

    seed: int
    dtype: str
    batch: int
    queries: int
    keys: int
    heads: int
    heads_K: int
    dim: int
    dim_v: int
    places: tuple[Place, Place, Place, Place, Place]
    causal: bool = False
    window: tuple[int | None, int | None] = (None, None)
    scale: float | None = None
    softcap: float = 0.0
    bias: str = ""
    alibi: int = 0
    sinks: bool = False
    score: bool = False
    lse: bool = True
    peak: float = 1.0
    arch: str = "sm_90a"
    blocks: int = 132
    deterministic: bool = False
    out: str = ""
    factors: tuple[str, str, str] = ("", "", "")
    tiles: int | None = None

    @property
    def numbers(self) -> str:
        """The dtype of lse, slopes, sinks and sums."""
        return "f64" if self.dtype == "f64" else "f32"

    @property
    def fine(self) -> float:
        """How much finer sums are than those of float32, eight units in the last place left for those here."""
        return 2.0 ** -26 if self.dtype == "f64" else 1.0

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of q, k, v, out and the bias."""
        return ((self.batch, self.queries, self.heads, self.dim), (self.batch, self.keys, self.heads_K, self.dim),
                (self.batch, self.keys, self.heads_K, self.dim_v), (self.batch, self.queries, self.heads, self.dim_v),
                (self.batch, self.heads, self.queries, self.keys))


@mo.jit
def relative(s, row, column, head, batch, table):
    """A score function of a user's: a learned value for each distance modulo 16, and less for later heads."""
    return s + table[(row - column) % 16] - 0.125 * head + 0.0625 * batch


# --- drawing ---------------------------------------------------------------------------------------------------------


def draw(rng: random.Random, *, most: int, archs: tuple[str, ...] = ("sm_90a",), work: int = 1 << 24) -> Case:
    """A case whose lengths are log-uniform up to ``most``, of at most ``work`` multiplications."""
    dim, dim_v = rng.choice(DIMS)
    heads_K = rng.choice((1, 1, 2, 3))
    heads = heads_K * rng.choice((1, 1, 2, 4))
    batch = rng.choice((1, 1, 2, 3))
    while True:
        queries, keys = _length(rng, most), _length(rng, most)
        keys = queries if rng.random() < 0.3 else keys
        if batch * heads * queries * keys * (dim + dim_v) <= work:
            break
    window = (None, None)
    if rng.random() < 0.35:
        window = tuple(rng.choice((None, 0, 1, rng.randint(0, most))) for _ in range(2))
    modified = rng.random() < 0.4
    case = Case(rng.randrange(1 << 30), rng.choice(("bf16", "f16")), batch, queries, keys, heads, heads_K, dim, dim_v,
                (*(_place(rng) for _ in range(4)), _bias_place(rng)), causal=rng.random() < 0.5, window=window,
                scale=rng.choice((None, None, 0.25)), softcap=rng.choice((0.0, 0.0, 3.0, 30.0)) if modified else 0.0,
                bias=rng.choice(("", "", "f32", "bf16")) if modified else "",
                alibi=rng.choice((0, 0, 1, 2)) if modified else 0, sinks=rng.random() < 0.2,
                score=modified and rng.random() < 0.25, lse=rng.random() < 0.8, peak=rng.choice((1.0, 1.0, 1.0, 8.0)),
                arch=rng.choice(archs), blocks=rng.choice((132, 132, 3, 1)),
                deterministic=rng.random() < 0.3)
    case = _narrowed(rng, case) if "sm_90a" in archs and rng.random() < 0.25 else case
    return replace(case, tiles=rng.choice((None, *range(10))))


def dimensions(rng: random.Random, steps: tuple[int, ...]) -> tuple[int, int]:
    """Head dimensions of any size, multiples of one of ``steps``; those of values mostly no larger."""
    step = rng.choice(steps)
    dim = step * rng.randint(1, 256 // step)
    return dim, step * rng.randint(1, (dim if rng.random() < 0.75 else 256) // step)


def resized(rng: random.Random, case: Case) -> Case:
    """The same with head dimensions of any size; of 8 bits, with what these take."""
    dim, dim_v = dimensions(rng, (32,) if case.out else (16, 16, 16, 8, 1))
    return replace(case, dim=dim, dim_v=min(dim, dim_v) if case.out else dim_v)


def _narrowed(rng: random.Random, case: Case) -> Case:
    """The same in 8 bits, which only TMA and wgmma take, with factors."""
    dim, dim_v = rng.choice(NARROW_DIMS)
    places = tuple(Place(rng.choice((BATCH_FIRST, HEADS_FIRST)), part=part, slack=part * rng.choice((0, 0, 1)),
                         first=part * rng.choice((0, 1))) for part in (16, 16, 16, 8))
    factors = tuple(rng.choice(("", "one", "head", "batch", "batch")) for _ in range(3))
    return replace(case, dtype="e4m3", out=case.dtype, dim=dim, dim_v=dim_v, places=(*places, case.places[4]),
                   arch="sm_90a", factors=factors)


def _length(rng: random.Random, most: int) -> int:
    """Often around a multiple of 64, or 1."""
    n = round(math.exp(rng.uniform(0, math.log(most))))
    return max(1, round(n / 64) * 64 + rng.choice((-1, 0, 0, 1))) if rng.random() < 0.4 else n


def _place(rng: random.Random) -> Place:
    """Mostly what TMA takes: heads inside of sequences or outside; else lines that begin anywhere, or spread ones."""
    modes = rng.choice((BATCH_FIRST, BATCH_FIRST, HEADS_FIRST))
    how = rng.random()
    if how < 0.7:
        return Place(modes, part=8, slack=8 * rng.choice((0, 0, 1, 3)), first=8 * rng.choice((0, 1)))
    if how < 0.9:
        return Place(modes, slack=rng.choice((0, 1, 3)), first=rng.randint(0, 9))
    return Place(rng.choice(((2, 3, 1, 0), (0, 1, 2, 3))), step=rng.choice((1, 2)), slack=1, first=1)


def _bias_place(rng: random.Random) -> Place:
    """Rows of any strides, half of which begin at words of two; the same for all batches or heads."""
    return Place((3, 2, 1, 0), slack=rng.choice((0, 1, 2, 0)), first=rng.choice((0, 1, 0, 2)),
                 repeated=rng.choice(((), (0,), (0, 1), (1,))))


# --- arrays and results ----------------------------------------------------------------------------------------------


def run(case: Case, library: Any) -> None:
    """Launch, and AssertionError if anything is off."""
    with pinned(case.tiles):
        _run(case, library)


@contextmanager
def pinned(tiles: int | None) -> Iterator[None]:
    """On sm_90a the configuration of this number, modulo how many there are, each in two orders; None: the rule's."""
    if tiles is None:
        yield
        return

    def forward(calls: Any, dims: tuple[int, int], multiprocessors: int, **given: bool) -> Any:
        found = config.candidates(dims, **given)
        tile = found[tiles // 2 % len(found)]
        return replace(tile, dynamic=tiles % 2 == 1 and (calls.unequal or tile.lacks_rows(calls.queries)))

    def gradient(calls: Any, dims: tuple[int, int], multiprocessors: int, **given: bool) -> Any:
        found = config.gradient_candidates(dims)
        return found[tiles % len(found)]

    with mock.patch.object(host, "choose", forward), mock.patch.object(host, "choose_gradient", gradient):
        yield


def _run(case: Case, library: Any) -> None:
    library.start(case.seed)
    dense = [Place(tuple(reversed(range(rank)))) for rank in range(4)]
    q, k, v = (_filled(library, case.dtype, case.shapes[i], case.places[i]) for i in range(3))
    library.fill(q.x, _wide(library, q.x) * case.peak)
    arrays = {"q": q, "k": k, "v": v, "out": _made(library, case.out or case.dtype, case.shapes[3], case.places[3])}
    factors = _factors(case, library)
    if case.bias:
        arrays["bias"] = _filled(library, case.bias, case.shapes[4], case.places[4])
    if case.alibi:
        shape = (case.batch, case.heads)[2 - case.alibi:]
        arrays["alibi"] = _filled(library, case.numbers, shape, dense[len(shape)])
    if case.sinks:
        arrays["sinks"] = _filled(library, case.numbers, (case.heads,), dense[1])
    if case.lse:
        arrays["lse"] = _made(library, case.numbers, (case.batch, case.heads, case.queries), dense[3])
    table = _filled(library, "f32", (16,), dense[1])
    before = {name: library.copy(array.memory) for name, array in arrays.items()}
    given = {name: arrays[name].x for name in ("bias", "alibi", "sinks", "lse") if name in arrays}
    if case.score:
        given |= {"score": relative, "tensors": (table.x,)}
    attention(arrays["out"].x, arrays["q"].x, arrays["k"].x, arrays["v"].x, causal=case.causal, window=case.window,
              scale=case.scale, softcap=case.softcap, **given, **factors)
    for name in arrays.keys() - {"out", "lse"}:
        assert library.same(arrays[name].memory, before[name]), f"{case}: {name} has changed"
    found = _compare(case, library, arrays, table, factors)
    if case.lse and not case.score and not case.out:
        _backward(case, library, arrays, found)
    for name in ("out", "lse"):
        if name in arrays:
            _untouched(case, library, name, arrays[name], before[name])


def _factors(case: Case, library: Any) -> dict[str, Any]:
    """The factors of q, k and v by name."""
    found: dict[str, Any] = {}
    for name, kind, heads in zip("qkv", case.factors, (case.heads, case.heads_K, case.heads_K), strict=True):
        if kind == "one":
            found[f"{name}_scale"] = 0.75
        elif kind:
            shape = (case.batch, heads)[kind == "head":]
            x = found[f"{name}_scale"] = _filled(library, "f32", shape, Place(tuple(reversed(range(len(shape)))))).x
            library.fill(x, 0.5 + abs(x))
    return found


def _scaled(library: Any, name: str, arrays: dict[str, _Array], factors: dict[str, Any]) -> Any:
    """q, k or v in float64, times its factors."""
    x, factor = _wide(library, arrays[name].x), factors.get(f"{name}_scale", 1.0)
    if isinstance(factor, float):
        return x * factor
    wide = _wide(library, factor)
    return x * (wide if wide.ndim == 1 else wide[:, None])[..., None]


def _untouched(case: Case, library: Any, name: str, array: _Array, before: Any) -> None:
    """Nothing around the elements was written."""
    library.fill(array.x, math.nan)
    _poisoned(library, array.x)
    assert library.same(array.memory, before), f"{case}: memory around {name} has changed"


def _poisoned(library: Any, x: Any) -> None:
    """The elements as they were made: all bits set."""
    width = x.itemsize if isinstance(x.itemsize, int) else x.element_size()
    if isinstance(library, NumPy):
        x.view(f"u{width}")[...] = (1 << 8 * width) - 1
    else:
        import torch
        x.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[width]).fill_(-1)


def _backward(case: Case, library: Any, arrays: dict[str, _Array], found: dict[str, Any]) -> None:
    """Gradients, launched and compared."""
    arrays = dict(arrays, dout=_filled(library, case.dtype, case.shapes[3], case.places[3]))
    for name, i in (("dq", 0), ("dk", 1), ("dv", 2)):
        arrays[name] = _made(library, case.dtype, case.shapes[i], case.places[(i + 1) % 3])
    before = {name: library.copy(arrays[name].memory) for name in ("dq", "dk", "dv")}
    given = {name: arrays[name].x for name in ("bias", "alibi") if name in arrays}
    attention_backward(*(arrays[name].x for name in ("dq", "dk", "dv", "dout", "q", "k", "v", "out", "lse")),
                       causal=case.causal, window=case.window, scale=case.scale, softcap=case.softcap,
                       deterministic=case.deterministic, **given)
    _compare_gradients(case, library, arrays, found)
    for name, memory in before.items():
        _untouched(case, library, name, arrays[name], memory)


def _compare_gradients(case: Case, library: Any, arrays: dict[str, _Array], found: dict[str, Any]) -> None:
    """Gradients against float64: the weights' and the scores' gradients are rounded, and so are the results.

    The product of result and gradient that is taken off is that of the rounded result.
    """
    f, u, p, v = library.functions, UNIT[case.dtype], found["p"], found["v"]
    least, fine = LEAST * case.fine, 2.0 ** -20 * case.fine
    dout, out = _wide(library, arrays["dout"].x), _wide(library, arrays["out"].x)
    dp, size = f.einsum("bqhd,bkhd->bhqk", dout, v), f.einsum("bqhd,bkhd->bhqk", abs(dout), abs(v))
    taken = f.moveaxis((out * dout).sum(-1), 1, 2)[..., None]
    most = f.moveaxis((abs(out) * abs(dout)).sum(-1), 1, 2)[..., None]
    off = 4 * f.moveaxis(found["off"][..., 0], 1, 2)[..., None]             # of a weight, relative
    mean = (p * dp).sum(-1)[..., None]
    ds, slope = p * (dp - mean) * found["slope"], abs(found["slope"])
    error = u * abs(ds) + least + p * slope * (abs(taken - mean) + off * abs(dp - taken) + fine * (size + most))
    if case.softcap:                                    # 1 minus a square near 1, times the scale
        scale = 1 / math.sqrt(case.dim) if case.scale is None else case.scale
        error = error + p * fine * scale * abs(dp - taken)
    group, both = case.heads // case.heads_K, {}
    both["dq"] = [f.einsum("bhqk,bkhd->bqhd", x, y) for x, y in ((ds, found["k"]), (error, abs(found["k"])))]
    both["dk"] = [f.einsum("bhqk,bqhd->bkhd", x, y) for x, y in ((ds, found["q"]), (error, abs(found["q"])))]
    both["dv"] = [f.einsum("bhqk,bqhd->bkhd", x, y) for x, y in ((p, dout), ((u + off) * p + least, abs(dout)))]
    for name, (exact, bound) in both.items():
        if name != "dq":                                # heads that share keys add up
            exact, bound = (x.reshape(*x.shape[:2], case.heads_K, group, x.shape[3]).sum(3) for x in (exact, bound))
        got = _wide(library, arrays[name].x)
        wrong = ~(abs(got - exact) <= 1.1 * bound + u * abs(exact) + 1e-6 * case.fine)
        assert not wrong.any(), f"{case}: {int(wrong.sum())} of {name} are off by up to {abs(got - exact).max()}"


def _compare(case: Case, library: Any, arrays: dict[str, _Array], table: _Array,
             factors: dict[str, Any]) -> dict[str, Any]:
    """Results against float64, within what the rounding of weights, results and scores allows; what gradients need."""
    f = library.functions
    q, k, v = (_scaled(library, name, arrays, factors) for name in "qkv")
    k, v = (x[:, :, [h // (case.heads // case.heads_K) for h in range(case.heads)]] for x in (k, v))
    s, size, seen, slope = _scores(case, library, arrays, table, q, k)
    sink = None
    if case.sinks:
        sink = _wide(library, arrays["sinks"].x)[None, :, None, None]
    top = f.amax(f.where(seen, s, -1e300), -1)[..., None]
    top = top if sink is None else f.maximum(top, sink + 0 * top)
    weights = f.where(seen, f.exp(f.where(seen, s, top) - top), 0.0)
    total = weights.sum(-1)[..., None] + (0.0 if sink is None else f.exp(sink - top))
    empty = total == 0
    p = weights / f.where(empty, 1.0, total)
    exact, spread = (f.einsum("bhqk,bkhd->bqhd", p, x) for x in (v, abs(v)))
    cut = 2.0 ** -13 * (case.dim / 32 + 1) if case.out else 2.0 ** -22
    off = case.fine * (f.moveaxis(f.amax(f.where(seen, size, 0.0) * cut, -1), 1, 2)[..., None] + 2.0 ** -20)
    bound = 2 * off * spread + UNIT[case.out or case.dtype] * abs(exact) + 1e-6 * case.fine + _rounded_weights(
        case, library, p, v, exact, spread)
    out = _wide(library, arrays["out"].x)
    wrong = ~(abs(out - exact) <= 1.05 * bound)
    assert not wrong.any(), f"{case}: {int(wrong.sum())} results are off by up to {abs(out - exact).max()}"
    if case.lse:
        found = _wide(library, arrays["lse"].x)
        none, ref = empty[..., 0], (f.log(f.where(empty, 1.0, total)) + top)[..., 0]
        assert bool((found[none] == -math.inf).all()), f"{case}: lse of a row that sees nothing is not -inf"
        apart = f.where(none, 0.0, abs(f.where(none, 0.0, found) - ref))
        limit = 1e-5 * case.fine + 2.0 ** -21 * case.fine * abs(ref) + 2 * f.moveaxis(off[..., 0], 1, 2)
        assert bool((apart <= limit).all()), f"{case}: lse is off by {apart.max()}"
    return {"p": p, "q": q, "k": k, "v": v, "off": off, "slope": slope}


def _rounded_weights(case: Case, library: Any, p: Any, v: Any, exact: Any, spread: Any) -> Any:
    """What rounding of weights, and of sums of products of 8 bits, may cost results."""
    f, u = library.functions, UNIT[case.dtype]
    if not case.out:
        return u * spread + case.keys * LEAST * case.fine * abs(v).max()
    deviation = f.einsum("bhqk,bkhd->bqhd", p ** 2, v ** 2) ** 0.5
    weights = f.minimum(u * spread, 4 * u * deviation + u * abs(exact))
    return weights + 2.0 ** -13 * (case.keys / 32 + 4) * spread + case.keys * 2.0 ** -18 * abs(v).max()


def _scores(case: Case, library: Any, arrays: dict[str, _Array], table: _Array, q: Any, k: Any) -> tuple[Any, ...]:
    """(scores, sizes of what they were summed from, which count, derivatives), each (batch, heads, queries, keys)."""
    f, scale = library.functions, 1 / math.sqrt(case.dim) if case.scale is None else case.scale
    s, size = (scale * f.einsum("bqhd,bkhd->bhqk", x, y) for x, y in ((q, k), (abs(q), abs(k))))
    row, column = library.places(case.queries)[:, None], library.places(case.keys)[None, :]
    stands = row + case.keys - case.queries
    slope = scale + 0 * s
    if case.softcap:
        s = case.softcap * f.tanh(s / case.softcap)
        slope = scale * (1 - (s / case.softcap) ** 2)
        size = size + case.softcap
    if case.alibi:
        slopes = _wide(library, arrays["alibi"].x)
        slopes = (slopes[None] if case.alibi == 1 else slopes)[..., None, None]
        s, size = s - slopes * abs(stands - column), size + abs(slopes * (stands - column))
    if case.bias:
        bias = _wide(library, arrays["bias"].x)
        s, size = s + bias, size + abs(bias)
    if case.score:
        head, batch = library.places(case.heads)[:, None, None], library.places(case.batch)[:, None, None, None]
        s = s + _wide(library, table.x)[(row - column) % 16] - 0.125 * head + 0.0625 * batch
        size = size + 4
    left, right = case.window[0], 0 if case.causal else case.window[1]
    seen = column >= (stands - left if left is not None else 0 * stands)
    if right is not None:
        seen = seen & (column <= stands + right)
    return s, size, seen & (s == s), slope


def _wide(library: Any, x: Any) -> Any:
    """In float64, modes as they are."""
    return x.astype("float64") if isinstance(library, NumPy) else x.double()
