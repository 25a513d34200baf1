"""Several products in one call, drawn by seed: stacked groups, separate matrices, batches; factors of blocks of float8.

In: a ``random.Random``, a library of arrays as in ``random_products``.  Out: ``Groups``; ``run`` launches and compares.

>>> groups = draw(random.Random(7), most=200, work=1_000_000); run(groups, NumPy())

Where arrays lie, what they hold, and how far elements may be off is told there.  Rows of no group, and all memory
around what is written, stay as they are.
"""

from __future__ import annotations

import dataclasses
import math
import random
from dataclasses import dataclass
from typing import Any

import numpy as np

import moye as mo
from moye.kernels import gemm, grouped_gemm_sm90
from moye.kernels.gemm.sm90.config import Problem, candidates
from random_products import (
    EIGHTH,
    KINDS,
    WIDTHS,
    NumPy,
    Place,
    Product,
    _Array,
    _compare,
    _extents,
    _filled,
    _made,
    _place,
    _strew,
)

BLOCK = 128
WAYS = ("stacked", "separate", "batched")
NAMES = ("A", "B", "C", "scale_a", "scale_b")
Sizes = tuple[int, int, int]


@dataclass(frozen=True)
class Groups:
    """One call of ``grouped_gemm_sm90``, or of ``gemm`` with batches.

    ``sizes``: M, N and K of each product.  ``places`` are those of A, B, C and their factors, one of each, or of
    "separate" matrices as many as there are products.  ``around``: rows of no group before the first and behind the
    last.  ``steps``: stride and first element of the offsets.  ``blocks``, ``special`` and ``pick`` as of a
    ``Product``; a pick counts configurations that groups may have.
    """

    seed: int
    way: str
    kind: str
    out: str
    sizes: tuple[Sizes, ...]
    places: tuple[tuple[Place, ...], ...]
    around: tuple[int, int] = (0, 0)
    steps: tuple[int, int] = (1, 0)
    alpha: float = 1
    activation: str = "none"
    scaled: bool = False
    fast: bool = False
    special: str = ""
    arch: str = "sm_90a"
    blocks: int = 132
    pick: int | None = None

    @property
    def ends(self) -> list[int]:
        """Where stacked groups begin, and where the last one ends."""
        found = [self.around[0]]
        for rows, _, _ in self.sizes:
            found.append(found[-1] + rows)
        return found

    @property
    def shapes(self) -> list[tuple[tuple[int, ...], ...]]:
        """Of the arrays of ``places``."""
        if self.way == "separate":
            return [_shapes(*one, (), ()) for one in self.sizes]
        (M, N, K), deep = self.sizes[0], (len(self.sizes),)
        if self.way == "batched":
            return [_shapes(M, N, K, deep, deep)]
        return [_shapes(self.ends[-1] + self.around[1], N, K, (), deep)]

    def product(self, i: int) -> Product:
        """The product i alone: what says how far its elements may be off."""
        return Product(self.seed + i, self.kind, self.out, *self.sizes[i], None, (Place((1, 0)),) * 4, alpha=self.alpha,
                       activation=self.activation, special=self.special,
                       options=(("fast_accum", True),) if self.fast else ())

    def part(self, i: int, name: str, arrays: list[dict[str, _Array]]) -> Any:
        """A view of what of an array belongs to product i."""
        if self.way == "separate":
            return arrays[i][name].x
        x = arrays[0][name].x
        if self.way == "batched" or name in ("B", "scale_b"):
            return x[:, :, i]
        return x[self.ends[i]:self.ends[i + 1]]


def _shapes(M: int, N: int, K: int, deep: tuple[int, ...], deep_B: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Of A, B, C and the factors of A and B."""
    of_K = -(-K // BLOCK)
    return ((M, K, *deep), (N, K, *deep_B), (M, N, *deep), (M, of_K, *deep), (-(-N // BLOCK), of_K, *deep_B))


# --- drawing ---------------------------------------------------------------------------------------------------------


def draw(rng: random.Random, *, most: int, work: int, count: int = 5) -> Groups:
    """Up to ``count`` products, of at most ``work`` multiplications together."""
    way, kind = rng.choice(WAYS), rng.choice(("bf16", "bf16", "f16", "tf32", "e4m3", "e4m3", "e5m2", "mixed", "turned",
                                              "s8", "u8"))
    narrow = KINDS[kind].a in EIGHTH
    scaled = narrow and (way == "batched" or rng.random() < 0.5)
    if way == "batched" and not narrow:                 # others are drawn as products are
        way = "stacked"
    exact, many = KINDS[kind].outs == ("s32",), rng.choice((1, 2, 2, 3, rng.randint(1, count)))
    out = rng.choice((KINDS[kind].outs[0], *KINDS[kind].outs))
    hows = ("aligned",) if rng.random() < 0.5 else ("dense", "aligned", "aligned", "odd")
    sizes = _sizes(rng, way, many, most, work)
    ranks = {"separate": (2,) * 5, "batched": (3,) * 5, "stacked": (2, 3, 2, 2, 3)}[way]
    dtypes = KINDS[kind].a, KINDS[kind].b, out, "f32", "f32"
    places = tuple(tuple(_place(rng, hows, dtype, rank, i != 2) for i, (dtype, rank) in
                         enumerate(zip(dtypes, ranks, strict=True))) for _ in range(many if way == "separate" else 1))
    if way == "separate" and rng.random() < 0.6:        # all alike, so that they share a launch
        places = (places[0],) * many
    return Groups(rng.randrange(1 << 30), way, kind, out, sizes, places,
                  around=(rng.choice((0, 0, 1, 9)), rng.choice((0, 0, 3, 140))) if way == "stacked" else (0, 0),
                  steps=(rng.choice((1, 1, 1, 2)), rng.choice((0, 0, 1))),
                  alpha=rng.choice((1, 1, 2, -1) if exact else (1, 1, 1, 0.5, -1, 4096.0)),
                  activation=rng.choice(("none", "relu") if exact else ("none", "none", "relu", "gelu", "silu")),
                  scaled=scaled, fast=narrow and not scaled and rng.random() < 0.5,
                  special="" if exact or rng.random() < 0.6 else rng.choice(("nan", "inf")),
                  blocks=rng.choice((132, 5, 1, 17)),
                  pick=rng.randrange(1 << 20) if way != "batched" and rng.random() < 0.4 else None)


def _sizes(rng: random.Random, way: str, many: int, most: int, work: int) -> tuple[Sizes, ...]:
    """Separate matrices have extents of their own; rows of groups are few, many, or none."""
    if way == "separate":
        return tuple(_extents(rng, most, work // many) for _ in range(many))
    M, N, K = _extents(rng, most, work // many)
    if way == "batched":
        return ((M, N, K),) * many
    kinds = (0, M, M, rng.randint(0, M), min(M, 128), min(M, 129), min(M, 1))
    return tuple((rng.choice(kinds), N, K) for _ in range(many))


def simulated(seed: int) -> Groups:
    """The small call of a seed."""
    return draw(random.Random(f"groups {seed}"), most=260, work=1_200_000)


def like(rng: random.Random, groups: Groups) -> Groups:
    """Another of the same kind with other numbers and rows, which mostly takes the same kernels."""
    sizes = groups.sizes
    if groups.way == "stacked":
        sizes = tuple((rng.choice((0, M, max(0, M - rng.randint(0, 200)))), N, K) for M, N, K in sizes)
    return dataclasses.replace(groups, seed=rng.randrange(1 << 30), sizes=sizes)


# --- arrays and launch -----------------------------------------------------------------------------------------------


def _arrays(groups: Groups, library: Any) -> list[dict[str, _Array]]:
    """All arrays, filled; C is full of NaN."""
    library.start(groups.seed)
    kind, rng, found = KINDS[groups.kind], random.Random(groups.seed), []
    dtypes = kind.a, kind.b, groups.out, "f32", "f32"
    for shapes, places in zip(groups.shapes, groups.places, strict=True):
        made = {name: (_made if name == "C" else _filled)(library, dtype, shape, place) for name, dtype, shape, place in
                zip(NAMES, dtypes, shapes, places, strict=True) if groups.scaled or not name.startswith("scale")}
        if groups.kind == "tf32":
            for name in "AB":
                library.untied(made[name].memory.view(library.dtypes["f32"]))
        _strew(rng, groups.product(0), {name: made[name] for name in "AB"}, library)
        found.append(made)
    return found


def _launch(groups: Groups, arrays: list[dict[str, _Array]], library: Any) -> list[_Array]:
    """One call; returns what else it read."""
    options: dict[str, Any] = {"alpha": groups.alpha, "activation": groups.activation, "fast_accum": groups.fast}
    options |= {"config": config} if (config := _config(groups)) is not None else {}
    if groups.way == "separate":
        lists = {name: [each[name].x for each in arrays] for name in arrays[0]}
        C = lists["C"]
        assert grouped_gemm_sm90(**lists, **options) is C, "lists: C is returned"
        return []
    given, C = {name: array.x for name, array in arrays[0].items()}, arrays[0]["C"].x
    if groups.way == "batched":
        assert gemm(**given, **options) is C, "gemm returns C"
        return []
    offsets = _made(library, "s32", (len(groups.ends),), Place((0,), groups.steps[0], first=groups.steps[1]))
    for i, end in enumerate(groups.ends):
        library.fill(offsets.x[i:i + 1], end)
    offsets.before = library.copy(offsets.memory)
    assert grouped_gemm_sm90(**given, offsets=offsets.x, **options) is C, "C is returned"
    return [offsets]


def _config(groups: Groups) -> Any:
    """The configuration that is asked for."""
    if groups.pick is None:
        return None
    kind = KINDS[groups.kind]
    dtype = {"bf16": mo.bfloat16, "f16": mo.float16, "f32": mo.float32, "e4m3": mo.float8_e4m3fn,
             "e5m2": mo.float8_e5m2, "s8": mo.int8, "u8": mo.uint8}[kind.a]
    promote = kind.a in EIGHTH and not groups.fast
    problem = Problem(max(256, *(M for M, _, _ in groups.sizes)), 256, 512, len(groups.sizes), dtype, promote=promote,
                      scaled=groups.scaled, most=128, out=WIDTHS[groups.out])
    found = [config for config in candidates(problem, groups.blocks)
             if (config.sharing, config.swap, config.store, config.stream_k) == (1, False, "warpgroup", False)]
    return found[groups.pick % len(found)]


def run(groups: Groups, library: Any) -> None:
    """Launch once; AssertionError for a wrong element, for memory that was written, and for an operand that changed."""
    arrays = _arrays(groups, library)
    for each in arrays:
        for array in each.values():
            array.before = library.copy(array.memory)
    wide = [_wide(groups, i, arrays, library) for i in range(len(groups.sizes))]
    others = _launch(groups, arrays, library)
    for i, inputs in enumerate(wide):
        got = library.wide(groups.part(i, "C", arrays))
        try:
            with np.errstate(all="ignore"):
                _compare(groups.product(i), library, got, inputs)
        except AssertionError as error:
            raise AssertionError(f"product {i}: {error}") from None
    for each in arrays:
        for name, array in each.items():
            assert name == "C" or library.same(array.memory, array.before), f"{name} was written"
    assert all(library.same(array.memory, array.before) for array in others), "the offsets were written"
    _untouched(groups, arrays, library)


def _untouched(groups: Groups, arrays: list[dict[str, _Array]], library: Any) -> None:
    """AssertionError where memory around C, or a row of no group, is another."""
    before = [{"C": _view(library, groups.out, each["C"].before, place, shape)} for each, (_, _, place, *_),
              (_, _, shape, *_) in zip(arrays, groups.places, groups.shapes, strict=True)]
    for memory in (arrays, before):
        for i in range(len(groups.sizes)):
            library.fill(groups.part(i, "C", memory), 0)
    for each, old in zip(arrays, before, strict=True):
        assert library.same(each["C"].memory, old["C"].memory), "something around C, or a row of no group, was written"


def _view(library: Any, dtype: str, memory: Any, place: Place, shape: tuple[int, ...]) -> _Array:
    return _Array(library.view(memory, dtype, shape, place.strides(shape), place.first), memory)


def _wide(groups: Groups, i: int, arrays: list[dict[str, _Array]], library: Any) -> dict[str, Any]:
    """The operands of product i in float64, times their factors, and C as it was."""
    found = {name: library.wide(groups.part(i, name, arrays)) for name in "ABC"}
    if groups.kind == "tf32":
        found.update((name, library.to_tf32(found[name])) for name in "AB")
    if groups.scaled:
        M, N, K = groups.sizes[i]
        at = [library.places(n) // BLOCK for n in (N, K)]
        of_A, of_B = (library.wide(groups.part(i, name, arrays)) for name in ("scale_a", "scale_b"))
        if not math.prod((M, N, K)):
            return found
        with np.errstate(invalid="ignore"):             # of NaNs that are strewn
            found["A"] = found["A"] * of_A[:, at[1]]
            found["B"] = found["B"] * of_B[at[0]][:, at[1]]
    return found


__all__ = ["Groups", "NumPy", "draw", "like", "run", "simulated"]
