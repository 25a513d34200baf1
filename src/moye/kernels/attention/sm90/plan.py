"""How the tiles of attention lie on sm_90a, and the instructions that multiply them; all static.

In: a configuration, dtype, head dimensions, the rules of the scores.  Out: a ``ForwardPlan``.

    plan = make_plan(config, (mo.bfloat16, mo.bfloat16), (128, 128), Rules(right=True), 4)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import moye as mo
from moye.kernels.attention.parts.scores import Rules
from moye.kernels.attention.sm90.config import ForwardConfig, GradientConfig


@dataclass(frozen=True, slots=True)
class ForwardPlan:
    """What the kernel is compiled for.

    ``lacking``: the last tile has no queries for two of three warpgroups, which pass it by.  ``scores``: Q K^T, both
    from shared memory.  ``output``: P V, P from registers.  ``Q``, ``K``, ``V``: a tile each, (bM, dim), (bN, dim) and
    (dim_v, bN), all contiguous along the head dimension; the rows of a warpgroup lie together in Q, so that its ``O``
    (64, dim_v) can take their place.  ``heads_of_a_key``: heads of queries that share keys and values.

    Elements of 8 bits are multiplied along K alone, so V is contiguous along the keys then (``turned.py``); O is
    ``out``, of 16 bits, and lies elsewhere.  ``places``: where a score of a thread is among its operands A.
    """

    config: ForwardConfig
    rules: Rules
    lacking: bool
    dtype: Any
    out: Any
    dim: int
    dim_v: int
    heads_of_a_key: int
    scores: Any
    output: Any
    store: Any
    Q: Any
    K: Any
    V: Any
    O: Any
    places: Any

    @property
    def narrow(self) -> bool:
        """Whether elements have 8 bits."""
        return self.dtype is not self.out

    @property
    def lift(self) -> int:
        """Exponentials, which are at most 1, are 2^lift as large in 8 bits: e4m3 ends at 448, and at 2^-9."""
        return 8 if self.narrow else 0

    def staged(self, tile: Any, stages: int) -> Any:
        """``stages`` tiles one behind the other."""
        return mo.tile_to_shape(tile, (*(mo.size(tile, i) for i in range(2)), stages))


@lru_cache(maxsize=256)
def make_plan(config: ForwardConfig, dtypes: tuple[Any, Any], dims: tuple[int, int], rules: Rules,
              heads_of_a_key: int, lacking: bool = False) -> ForwardPlan:
    """The plan for dtypes of operands and results, and head dimensions; once for each kind of call."""
    (dtype, out), (dim, dim_v), narrow = dtypes, dims, dtypes[0] is not dtypes[1]
    scores = mo.make_tiled_mma(mo.mma.wgmma(dtype, dtype, mo.float32, config.bN))
    output = mo.make_tiled_mma(mo.mma.wgmma(dtype, dtype, mo.float32, dim_v, b_major="k" if narrow else "mn",
                                            a_source="registers"))
    wide = 0 if narrow else 2 * dim_v                   # O lies where Q did
    rows = mo.smem_layout_atom(dtype, "k", _line(dtype.bytes * dim, wide))
    keys = mo.tile_to_shape(rows, (config.bN, dim))
    if narrow:
        V = mo.tile_to_shape(mo.smem_layout_atom(dtype, "k", _line(config.bN)), (dim_v, config.bN))
        results = mo.smem_layout_atom(out, "k", _line(2 * dim_v))
    else:
        columns = mo.smem_layout_atom(dtype, "mn", _line(2 * dim, wide))
        V, results = mo.tile_to_shape(columns, (dim_v, config.bN), (1, 0)), rows
    return ForwardPlan(
        config, rules, lacking, dtype, out, dim, dim_v, heads_of_a_key, scores, output,
        mo.make_tiled_copy_C(mo.CopyAtom(mo.StMatrix(4), out), output),
        mo.tile_to_shape(mo.tile_to_shape(rows, (64, dim)), (config.bM, dim)), keys, V,
        mo.tile_to_shape(results, (64, dim_v)), _places(config.bN) if narrow else None)


def _line(*lengths: int) -> int:
    """The longest swizzled row of which all these are multiples, in bytes."""
    return next(row for row in (128, 64, 32) if all(length % row == 0 for length in lengths))


def _places(bN: int) -> Any:
    """A thread's scores (MMA, MMA_M, MMA_N) by their places in operand A of 8 bits, (MMA, MMA_M, MMA_K).

    Of 16 columns, a thread of the scores has 2t, 2t + 1, 2t + 8 and 2t + 9, and one of A has 4t to 4t + 3: so keys are
    in that order for the product with V.
    """
    return mo.make_layout(((2, 2, (2, 2, bN // 32)), 1, 1), ((1, 4, (2, 8, 16)), 0, 0))


@dataclass(frozen=True, slots=True)
class GradientPlan:
    """What the kernels of gradients are compiled for.

    ``width``: both head dimensions as they lie in shared memory, 64, 128 or 256; zeros behind them change no product.
    ``scores``: K Q^T and V dO^T, both from shared memory; ``keys_mma``: P^T dO and dS^T Q, A from registers, of
    ``columns`` of the head dimension; ``queries_mma``: 64 x 64 of dS K, which warpgroups have one below the other
    (``by_rows``) or side by side, ``pieces`` each.
    ``queries`` (bM, width) and ``keys`` (bN, width) are tiles, ``turned`` and ``turned_keys`` the same memory the other
    way round; so are ``turned_scores`` (bM, bN) and ``scores_rows`` (bN, bM).  ``in_order``: blocks add to the gradient
    of queries one after the other, the same way in each run; ``together``: so many of them the device holds.
    """

    config: GradientConfig
    rules: Rules
    dtype: Any
    width: int
    heads_of_a_key: int
    in_order: bool
    together: int
    scores: Any
    keys_mma: Any
    queries_mma: Any
    store_scores: Any
    store_keys: Any
    store_queries: Any
    queries: Any
    keys: Any
    turned: Any
    turned_keys: Any
    turned_scores: Any
    scores_rows: Any
    rounded: Any

    @property
    def sections(self) -> bool:
        """Whether blocks with the most queries come first, in sections of heads: where a mask makes them differ."""
        return not self.in_order and (self.rules.left or self.rules.right)

    @property
    def rotates(self) -> bool:
        """Whether blocks add in order, and may begin at any queries, as all of these see all keys."""
        return self.in_order and not (self.rules.left or self.rules.right)

    @property
    def by_rows(self) -> bool:
        """Whether the warpgroups have different queries of dQ, and not different parts of the head dimension."""
        return self.config.bM == 128

    @property
    def columns(self) -> int:
        """How much of the head dimension of the gradients of keys and values a warpgroup has."""
        return self.width // 2 if self.config.share else self.width

    @property
    def pieces(self) -> int:
        """How many 64 x 64 sums of dQ a warpgroup has."""
        return self.config.bM * self.width // (64 * 64 * self.config.groups)

    def staged(self, tile: Any, stages: int) -> Any:
        """The stages of a tile, one behind the other."""
        return mo.tile_to_shape(tile, (*(mo.size(tile, i) for i in range(2)), stages))


@lru_cache(maxsize=256)
def make_gradient_plan(config: GradientConfig, dtype: Any, dim: int, dim_v: int, rules: Rules, heads_of_a_key: int,
                       in_order: bool, together: int) -> GradientPlan:
    """The plan; once for each kind of call."""
    width = next(width for width in (64, 128, 256) if max(dim, dim_v) <= width)
    scores = mo.make_tiled_mma(mo.mma.wgmma(dtype, dtype, mo.float32, config.bM))
    keys_mma = mo.make_tiled_mma(mo.mma.wgmma(dtype, dtype, mo.float32, width // 2 if config.share else width,
                                              b_major="mn", a_source="registers"))
    queries_mma = mo.make_tiled_mma(mo.mma.wgmma(dtype, dtype, mo.float32, 64, a_major="mn", b_major="mn"))
    rows, columns = (mo.smem_layout_atom(dtype, major, 128) for major in ("k", "mn"))
    store = mo.CopyAtom(mo.StMatrix(4), dtype)
    return GradientPlan(
        config, rules, dtype, width, heads_of_a_key, in_order, together, scores, keys_mma, queries_mma,
        mo.make_tiled_copy_C(store, scores), mo.make_tiled_copy_C(store, keys_mma),
        mo.make_tiled_copy_C(store, queries_mma),
        mo.tile_to_shape(rows, (config.bM, width)), mo.tile_to_shape(rows, (config.bN, width)),
        mo.tile_to_shape(columns, (width, config.bM), (1, 0)), mo.tile_to_shape(columns, (width, config.bN), (1, 0)),
        mo.tile_to_shape(columns, (config.bM, config.bN), (1, 0)), mo.tile_to_shape(rows, (config.bN, config.bM)),
        mo.tile_to_shape(rows, (64, 64, config.bM * width // (64 * 64))))
