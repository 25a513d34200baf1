"""How the tiles of attention lie on sm_90a, and the instructions that multiply them; all static.

In: a configuration, dtype, head dimensions, the rules of the scores.  Out: a ``ForwardPlan``.

    plan = make_plan(config, mo.bfloat16, 128, 128, Rules(right=True), group=4, heavy_first=True)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import moye as mo
from moye.kernels.attention.parts.scores import Rules
from moye.kernels.attention.sm90.config import ForwardConfig


@dataclass(frozen=True, slots=True)
class ForwardPlan:
    """What the kernel is compiled for.

    ``scores``: Q K^T, both from shared memory.  ``output``: P V, P from registers.  ``Q``, ``K``, ``V``: a tile each,
    (bM, dim), (bN, dim) and (dim_v, bN), all contiguous along the head dimension; the rows of a warpgroup lie together
    in Q, so that its ``O`` (64, dim_v) can take their place.  ``heads_of_a_key``: heads of queries that share keys and
    values.  ``section``: heads whose keys and values fit in L2 together.
    """

    config: ForwardConfig
    rules: Rules
    dtype: Any
    dim: int
    dim_v: int
    heads_of_a_key: int
    section: int
    scores: Any
    output: Any
    store: Any
    Q: Any
    K: Any
    V: Any
    O: Any

    def staged(self, tile: Any, stages: int) -> Any:
        """``stages`` tiles one behind the other."""
        return mo.tile_to_shape(tile, (*(mo.size(tile, i) for i in range(2)), stages))


@lru_cache(maxsize=256)
def make_plan(config: ForwardConfig, dtype: Any, dim: int, dim_v: int, rules: Rules, heads_of_a_key: int,
              section: int) -> ForwardPlan:
    """The plan; once for each kind of call."""
    scores = mo.make_tiled_mma(mo.mma.wgmma(dtype, dtype, mo.float32, config.bN))
    output = mo.make_tiled_mma(mo.mma.wgmma(dtype, dtype, mo.float32, dim_v, b_major="mn", a_source="registers"))
    line = next(row for row in (128, 64, 32) if 2 * dim % row == 2 * dim_v % row == 0)     # O lies where Q did
    rows, columns = (mo.smem_layout_atom(dtype, major, line) for major in ("k", "mn"))
    return ForwardPlan(
        config, rules, dtype, dim, dim_v, heads_of_a_key, section, scores, output,
        mo.make_tiled_copy_C(mo.CopyAtom(mo.StMatrix(4), dtype), output),
        mo.tile_to_shape(mo.tile_to_shape(rows, (64, dim)), (config.bM, dim)),
        mo.tile_to_shape(rows, (config.bN, dim)), mo.tile_to_shape(columns, (dim_v, config.bN), (1, 0)),
        mo.tile_to_shape(rows, (64, dim_v)))
