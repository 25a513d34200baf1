"""Attention over pages drawn by seed, and its results in float64.

In: a seed, a library of arrays (see ``random_products``).  Out: a ``Case``; ``run`` launches it and compares.

>>> run(draw(random.Random(7), most=300), NumPy())

Pages lie in any order, those that no sequence has are NaN, and entries of the table that nobody may read are -1.  The
bounds are those of ``random_attention``.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any

from moye.kernels import paged_attention
from random_attention import UNIT, _length, _wide
from random_products import Place, _filled, _made


@dataclass(frozen=True)
class Case:
    """One call."""

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
    blocks: int = 132

    @property
    def most(self) -> int:
        """Pages of the longest sequence, at least one, and one that nobody has."""
        return max(1, *(-(-n // self.page_size) for n in self.lengths)) + 1


def draw(rng: random.Random, *, most: int) -> Case:
    """A case whose lengths are log-uniform up to ``most``, or 0."""
    heads_K = rng.choice((1, 1, 2, 3))
    dim, dim_v = rng.choice(((64, 64), (128, 128), (128, 128), (96, 96), (192, 128), (256, 256), (40, 72), (8, 8)))
    lengths = tuple(rng.choice((0, 1, 16, 17, _length(rng, most), _length(rng, most)))
                    for _ in range(rng.choice((1, 2, 3))))
    return Case(rng.randrange(1 << 30), rng.choice(("bf16", "f16")), rng.choice((1, 1, 2, 5, 16)), lengths,
                heads_K * rng.choice((1, 2, 4, 8)), heads_K, dim, dim_v, rng.choice((16, 32, 64, 128, 256)),
                rng.choice((0, 3)), rng.choice((None, None, 0, rng.randint(0, most))), rng.choice((0.0, 0.0, 20.0)),
                rng.choice((None, 0.25)), rng.choice((1, 8, 132)))


def run(case: Case, library: Any) -> None:
    """Launch, and AssertionError if anything is off."""
    library.start(case.seed)
    rng, batch, size = random.Random(case.seed), len(case.lengths), case.page_size
    counts = [-(-n // size) for n in case.lengths]
    pages = list(range(sum(counts) + case.spare + 1))
    rng.shuffle(pages)
    table, at = library.places(batch * case.most).reshape(batch, case.most), 0
    table = (table * 0 - 1).astype("int32") if hasattr(table, "astype") else (table * 0 - 1).int()
    whole = (len(pages), size, case.heads_K)
    shapes = {"q": (batch, case.queries, case.heads, case.dim), "k": (*whole, case.dim), "v": (*whole, case.dim_v),
              "out": (batch, case.queries, case.heads, case.dim_v)}
    dense = Place((3, 2, 1, 0))
    q, k, v = (_filled(library, case.dtype, shapes[name], dense) for name in "qkv")
    out = _made(library, case.dtype, shapes["out"], dense)
    lse = _made(library, "f32", (batch, case.heads, case.queries), Place((2, 1, 0)))
    of_sequence = []
    for b, count in enumerate(counts):
        own, at = pages[at:at + count], at + count
        for i, page in enumerate(own):
            table[b, i] = page
        of_sequence.append(own)
    wide = [_wide(library, x.x) for x in (q, k, v)]
    for page in pages[at:]:
        k.x[page], v.x[page] = math.nan, math.nan
    for b, own in enumerate(of_sequence):
        if case.lengths[b] % size:
            k.x[own[-1], case.lengths[b] % size:], v.x[own[-1], case.lengths[b] % size:] = math.nan, math.nan
    lengths = table[:, 0] * 0
    for b, n in enumerate(case.lengths):
        lengths[b] = n
    paged_attention(out.x, q.x, k.x, v.x, table, lengths, window=case.window, scale=case.scale, softcap=case.softcap,
                    lse=lse.x)
    for b, own in enumerate(of_sequence):
        _compare(case, library, b, own, wide, _wide(library, out.x)[b], _wide(library, lse.x)[b])


def _compare(case: Case, library: Any, b: int, own: list[int], wide: list[Any], out: Any, lse: Any) -> None:
    """One sequence against float64."""
    f, n = library.functions, case.lengths[b]
    if n == 0:
        assert bool((out == 0).all()) and bool((lse == -math.inf).all()), f"{case}: sequence {b} has no keys"
        return
    scale, group = 1 / math.sqrt(case.dim) if case.scale is None else case.scale, case.heads // case.heads_K
    heads = [h // group for h in range(case.heads)]
    k, v = (x[own].reshape(-1, *x.shape[2:])[:n][:, heads] for x in wide[1:])
    s, size = (scale * f.einsum("qhd,khd->hqk", x, y) for x, y in ((wide[0][b], k), (abs(wide[0][b]), abs(k))))
    if case.softcap:
        s, size = case.softcap * f.tanh(s / case.softcap), size + case.softcap
    stands, key = library.places(case.queries)[:, None] + n - case.queries, library.places(n)[None, :]
    seen = (key <= stands) & (key >= stands - (n if case.window is None else case.window)) & (s == s)
    top = f.amax(f.where(seen, s, -1e300), -1)[..., None]
    weights = f.where(seen, f.exp(f.where(seen, s, top) - top), 0.0)
    total = weights.sum(-1)[..., None]
    empty = total == 0
    p = weights / f.where(empty, 1.0, total)
    exact, spread = (f.einsum("hqk,khd->qhd", p, x) for x in (v, abs(v)))
    u, off = UNIT[case.dtype], f.amax(f.where(seen, size, 0.0), -1) * 2.0 ** -22 + 2.0 ** -20
    off = f.moveaxis(off, 0, 1)[..., None]
    bound = (u + 2 * off) * spread + u * abs(exact) + n * 2.0 ** -25 * abs(v).max() + 1e-6
    wrong = ~(abs(out - exact) <= 1.05 * bound)
    assert not wrong.any(), f"{case}: {int(wrong.sum())} results of sequence {b} are off by {abs(out - exact).max()}"
    none, ref = empty[..., 0], (f.log(f.where(empty, 1.0, total)) + top)[..., 0]
    assert bool((lse[none] == -math.inf).all()), f"{case}: lse of a row of sequence {b} that sees nothing is not -inf"
    apart = f.where(none, 0.0, abs(f.where(none, 0.0, lse) - f.where(none, 0.0, ref)))
    fits = bool((apart <= 1e-4 + 2.0 ** -20 * size.max()).all())
    assert fits, f"{case}: lse of sequence {b} is off by {apart.max()}"
