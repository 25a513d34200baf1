"""Which blocks of a grid run if not all do: ``mo.check(kernel, blocks=...)``.

In: a grid and what the user asked for.  Out: block numbers, x fastest, ascending; None for all.

>>> sampled((4, 4, 1), 3), sampled((4, 4, 1), [(1, 2), 0])
((2, 10, 15), (0, 9))

A number of blocks takes corners, edges and the interior in turn, the same ones every time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from moye.errors import ArgumentError
from moye.runtime.compile import Dim3

Blocks = int | Iterable[int | Sequence[int]]
_GOLDEN = (math.sqrt(5) - 1) / 2


def sampled(grid: Dim3, blocks: Blocks | None) -> tuple[int, ...] | None:
    """The numbers of the blocks that run; ArgumentError for a block that the grid does not have."""
    total = math.prod(grid)
    if blocks is None or total == 0:
        return None
    if isinstance(blocks, int):
        if isinstance(blocks, bool) or blocks < 1:
            raise ArgumentError(f"blocks is {blocks}, and at least one block must run")
        if blocks >= total:
            return None
        return tuple(sorted(itertools.islice(_spread(grid), blocks)))
    if not hasattr(blocks, "__iter__"):
        raise ArgumentError(f"blocks is a number of blocks or some block indices, not {blocks!r}")
    found = sorted({_number(grid, total, block) for block in blocks})
    if not found:
        raise ArgumentError("blocks is empty, and at least one block must run")
    return None if len(found) == total else tuple(found)


def _number(grid: Dim3, total: int, block: Any) -> int:
    """The number of one block, given as a number or by its coordinates."""
    parts = tuple(block) if isinstance(block, (tuple, list)) else (block,)
    if not 1 <= len(parts) <= 3 or not all(hasattr(p, "__index__") and not isinstance(p, bool) for p in parts):
        raise ArgumentError(f"blocks holds {block!r}, which is no block index", hint="blocks=[0, (1, 2)]")
    at = [int(p) for p in parts]
    if len(at) == 1:
        if not 0 <= at[0] < total:
            raise ArgumentError(f"blocks holds {at[0]}, and the grid {grid} has the blocks 0 to {total - 1}")
        return at[0]
    at += [0] * (3 - len(at))
    if not all(0 <= i < extent for i, extent in zip(at, grid, strict=True)):
        raise ArgumentError(f"blocks holds {tuple(block)}, which lies outside of the grid {grid}")
    return at[0] + grid[0] * (at[1] + grid[1] * at[2])


def _spread(grid: Dim3) -> Iterator[int]:
    """All blocks: a corner, one inside, one on an edge, and so on in turn; then the others, evenly spread."""
    kinds: list[list[int]] = [[], [], []]               # corners, interior, edges
    axes = [sorted({0, extent // 2, extent - 1}) for extent in grid]
    for z, y, x in itertools.product(*reversed(axes)):
        outside = [i in (0, extent - 1) for i, extent in zip((x, y, z), grid, strict=True) if extent > 1]
        kind = 0 if all(outside) else 2 if any(outside) else 1
        kinds[kind].append(x + grid[0] * (y + grid[1] * z))
    kinds[0] = kinds[0][::-1][:1] + kinds[0][:-1]       # the far corner first: what lies past the end is there
    first = [block for turn in itertools.zip_longest(*kinds) for block in turn if block is not None]
    yield from first
    seen, total = set(first), math.prod(grid)
    for turn in range(1, 4 * total):
        block = int(turn * _GOLDEN % 1 * total)
        if block not in seen:
            seen.add(block)
            yield block
    yield from (block for block in range(total) if block not in seen)
