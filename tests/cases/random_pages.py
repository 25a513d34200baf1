"""Attention over pages drawn by seed, and its results in float64.

In: a seed, a library of arrays (see ``random_products``).  Out: a ``Case``; ``run`` launches it and compares.

>>> run(draw(random.Random(7), most=300), NumPy())

Pages lie in any order, those that no sequence has are NaN, and entries of the table that nobody may read are -1.  The
bounds are those of ``random_attention``; caches of 8 bits are exact in 16, and their weights are rounded to float16, or
to bfloat16 where each value has a factor.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import Any

from moye.kernels import paged_attention
from random_attention import UNIT, _length, _wide, dimensions, relative
from random_products import Place, _filled, _made


@dataclass(frozen=True)
class Case:
    """One call, on so many multiprocessors (``blocks``); the warps of a block share problems of ``long`` keys.

    Both are for the simulator alone.
    """

    seed: int
    dtype: str
    queries: int
    lengths: tuple[int, ...]
    heads: int
    heads_K: int
    dim: int
    dim_v: int
    page_size: int
    spare: int
    window: int | None = None
    softcap: float = 0.0
    scale: float | None = None
    bias: str = ""
    alibi: int = 0
    sinks: bool = False
    score: bool = False
    stored: str = ""
    factors: tuple[str, str] = ("", "")
    blocks: int = 132
    long: int = 1024

    @property
    def most(self) -> int:
        """Pages of the longest sequence, at least one, and one that nobody has."""
        return max(1, *(-(-n // self.page_size) for n in self.lengths)) + 1


def draw(rng: random.Random, *, most: int) -> Case:
    """A case whose lengths are log-uniform up to ``most``, or 0."""
    heads_K = rng.choice((1, 1, 2, 3))
    dim, dim_v = rng.choice(((64, 64), (128, 128), (192, 192), (96, 96), (192, 128), (256, 256), (40, 72), (8, 8)))
    more = _more(rng)
    if "stored" in more:                                # by 16 bytes
        dim, dim_v = (-(-d // 16) * 16 for d in (dim, dim_v))
    lengths = tuple(rng.choice((0, 1, 16, 17, _length(rng, most), _length(rng, most)))
                    for _ in range(rng.choice((1, 2, 3))))
    return Case(rng.randrange(1 << 30), rng.choice(("bf16", "f16")), rng.choice((1, 1, 2, 5, 16)), lengths,
                heads_K * rng.choice((1, 2, 4, 8)), heads_K, dim, dim_v, rng.choice((16, 32, 64, 128, 256)),
                rng.choice((0, 3)), rng.choice((None, None, 0, rng.randint(0, most))), rng.choice((0.0, 0.0, 20.0)),
                rng.choice((None, 0.25)), blocks=rng.choice((1, 8, 132)), long=rng.choice((1, 1024)), **more)


def resized(rng: random.Random, case: Case) -> Case:
    """The same with head dimensions of any size."""
    dim, dim_v = dimensions(rng, (16,) if case.stored else (16, 8))
    return replace(case, dim=dim, dim_v=dim_v)


def _more(rng: random.Random) -> dict[str, Any]:
    """Half of the cases: other rules of the scores, caches of 8 bits with factors of each kind."""
    if rng.random() < 0.4:
        return {}
    found: dict[str, Any] = {"sinks": rng.random() < 0.4}
    if rng.random() < 0.5:
        found |= {"bias": rng.choice(("", "f32", "bf16")), "alibi": rng.choice((0, 1, 2)),
                  "score": rng.random() < 0.5}
    if rng.random() < 0.7:
        found |= {"stored": "e4m3", "factors": tuple(rng.choice(("", "one", "head", "batch", "token", "token"))
                                                     for _ in range(2))}
    return found


def run(case: Case, library: Any) -> None:
    """Launch, and AssertionError if anything is off."""
    library.start(case.seed)
    rng, batch, size = random.Random(case.seed), len(case.lengths), case.page_size
    counts = [-(-n // size) for n in case.lengths]
    pages = list(range(sum(counts) + case.spare + 1))
    rng.shuffle(pages)
    table = library.places(batch * case.most).reshape(batch, case.most)
    table = (table * 0 - 1).astype("int32") if hasattr(table, "astype") else (table * 0 - 1).int()
    of_sequence, at = [], 0
    for b, count in enumerate(counts):
        own, at = pages[at:at + count], at + count
        for i, page in enumerate(own):
            table[b, i] = page
        of_sequence.append(own)
    lengths = table[:, 0] * 0
    for b, n in enumerate(case.lengths):
        lengths[b] = n
    arrays = _arrays(case, library, len(pages))
    given, factors = _options(case, library, len(pages))
    wide = {name: _wide(library, x.x) for name, x in arrays.items()} | _wide_factors(case, library, factors)
    stored = [arrays["k"].x, arrays["v"].x, *(x for x in factors.values() if len(getattr(x, "shape", ())) == 3)]
    for x in stored:                                    # what belongs to no sequence
        for page in pages[at:]:
            library.fill(x[page], math.nan)
        for b, own in enumerate(of_sequence):
            if case.lengths[b] % size:
                library.fill(x[own[-1], case.lengths[b] % size:], math.nan)
    out = _made(library, case.dtype, (batch, case.queries, case.heads, case.dim_v), _DENSE)
    lse = _made(library, "f32", (batch, case.heads, case.queries), Place((2, 1, 0)))
    paged_attention(out.x, arrays["q"].x, arrays["k"].x, arrays["v"].x, table, lengths, window=case.window,
                    scale=case.scale, softcap=case.softcap, lse=lse.x, **given, **factors)
    for b, own in enumerate(of_sequence):
        _compare(case, library, b, own, wide | {name: _wide(library, x) for name, x in given.items()
                                                if name not in ("score", "tensors")},
                 (_wide(library, out.x)[b], _wide(library, lse.x)[b], given.get("tensors", (None,))[0]))


_DENSE = Place((3, 2, 1, 0))


def _arrays(case: Case, library: Any, pages: int) -> dict[str, Any]:
    """Queries, and pages of keys and values."""
    whole, stored = (pages, case.page_size, case.heads_K), case.stored or case.dtype
    return {"q": _filled(library, case.dtype, (len(case.lengths), case.queries, case.heads, case.dim), _DENSE),
            "k": _filled(library, stored, (*whole, case.dim), _DENSE),
            "v": _filled(library, stored, (*whole, case.dim_v), _DENSE)}


def _options(case: Case, library: Any, pages: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """What goes to the scores, and the factors of keys and values, by their names."""
    def numbers(*shape: int) -> Any:
        return _filled(library, "f32", shape, Place(tuple(reversed(range(len(shape)))))).x

    batch, given, factors = len(case.lengths), {}, {}
    if case.bias:
        place = Place((3, 2, 1, 0), repeated=(1,))
        shape = batch, case.heads, case.queries, case.most * case.page_size
        given["bias"] = _filled(library, case.bias, shape, place).x
    if case.alibi:
        given["alibi"] = numbers(*(batch, case.heads)[2 - case.alibi:])
    if case.sinks:
        given["sinks"] = numbers(case.heads)
    if case.score:
        given |= {"score": relative, "tensors": (numbers(16),)}
    shapes = {"head": (case.heads_K,), "batch": (batch, case.heads_K), "token": (pages, case.page_size, case.heads_K)}
    for name, kind in zip(("k_scale", "v_scale"), case.factors, strict=True):
        if kind == "one":
            factors[name] = 0.75
        elif kind:
            x = numbers(*shapes[kind])
            library.fill(x, 0.5 + abs(x))
            factors[name] = x
    return given, factors


def _wide_factors(case: Case, library: Any, factors: dict[str, Any]) -> dict[str, Any]:
    """The factors in float64, before those of nobody become NaN."""
    return {name: x if isinstance(x, float) else _wide(library, x) * 1.0 for name, x in factors.items()}


def _scaled(case: Case, name: str, wide: dict[str, Any], b: int, own: list[int]) -> Any:
    """Keys or values of a sequence, (keys, heads of keys, dim), times their factors."""
    x, factors = wide[name][own], wide.get(f"{name}_scale", 1.0)
    kind = case.factors["kv".index(name)]
    if kind == "batch":
        factors = factors[b]
    if kind == "token":
        factors = factors[own]
    x = x * (factors[..., None] if kind not in ("", "one") else factors)
    return x.reshape(-1, *x.shape[2:])[:case.lengths[b]]


def _compare(case: Case, library: Any, b: int, own: list[int], wide: dict[str, Any], found: tuple[Any, ...]) -> None:
    """One sequence against float64."""
    f, n, (out, lse, table) = library.functions, case.lengths[b], found
    sink = wide["sinks"][:, None, None] if case.sinks else None
    if n == 0:
        alone = -math.inf if sink is None else sink[:, 0]
        assert bool((out == 0).all()) and bool(f.isclose(lse, alone + 0 * out[:, :, 0].T).all()), \
            f"{case}: sequence {b} has no keys"
        return
    group = case.heads // case.heads_K
    heads = [h // group for h in range(case.heads)]
    k, v = (_scaled(case, name, wide, b, own)[:, heads] for name in "kv")
    s, size, seen = _scores(case, library, b, wide, k, table)
    top = f.amax(f.where(seen, s, -1e300), -1)[..., None]
    top = top if sink is None else f.maximum(top, sink + 0 * top)
    weights = f.where(seen, f.exp(f.where(seen, s, top) - top), 0.0)
    total = weights.sum(-1)[..., None] + (0.0 if sink is None else f.exp(sink - top))
    empty = total == 0
    p = weights / f.where(empty, 1.0, total)
    exact, spread = (f.einsum("hqk,khd->qhd", p, x) for x in (v, abs(v)))
    rounded = UNIT[case.dtype if not case.stored else "bf16" if case.factors[1] == "token" else "f16"]
    off = f.amax(f.where(seen, size, 0.0), -1) * 2.0 ** -22 + 2.0 ** -20
    off = f.moveaxis(off, 0, 1)[..., None]
    bound = (rounded + 2 * off) * spread + UNIT[case.dtype] * abs(exact) + n * 2.0 ** -25 * abs(v).max() + 1e-6
    wrong = ~(abs(out - exact) <= 1.05 * bound)
    assert not wrong.any(), f"{case}: {int(wrong.sum())} results of sequence {b} are off by {abs(out - exact).max()}"
    none, ref = empty[..., 0], (f.log(f.where(empty, 1.0, total)) + top)[..., 0]
    assert bool((lse[none] == -math.inf).all()), f"{case}: lse of a row of sequence {b} that sees nothing is not -inf"
    apart = f.where(none, 0.0, abs(f.where(none, 0.0, lse) - f.where(none, 0.0, ref)))
    fits = bool((apart <= 1e-4 + 2.0 ** -20 * size.max()).all())
    assert fits, f"{case}: lse of sequence {b} is off by {apart.max()}"


def _scores(case: Case, library: Any, b: int, wide: dict[str, Any], k: Any, table: Any) -> tuple[Any, ...]:
    """(scores, sizes of what they were summed from, which count) of a sequence, each (heads, queries, keys)."""
    f, n, q = library.functions, case.lengths[b], wide["q"][b]
    scale = 1 / math.sqrt(case.dim) if case.scale is None else case.scale
    s, size = (scale * f.einsum("qhd,khd->hqk", x, y) for x, y in ((q, k), (abs(q), abs(k))))
    if case.softcap:
        s, size = case.softcap * f.tanh(s / case.softcap), size + case.softcap
    query, key = library.places(case.queries)[:, None], library.places(n)[None, :]
    stands = query + n - case.queries
    if case.alibi:
        slopes = (wide["alibi"] if case.alibi == 1 else wide["alibi"][b])[:, None, None]
        s, size = s - slopes * abs(stands - key), size + abs(slopes * (stands - key))
    if case.bias:
        s, size = s + wide["bias"][b][..., :n], size + abs(wide["bias"][b][..., :n])
    if case.score:
        head = library.places(case.heads)[:, None, None]
        s = s + _wide(library, table)[(query - key) % 16] - 0.125 * head + 0.0625 * b
        size = size + 4
    return s, size, (key <= stands) & (key >= stands - (n if case.window is None else case.window)) & (s == s)
