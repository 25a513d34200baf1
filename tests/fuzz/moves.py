"""Random arrays for permutations, gates, RoPE, reductions, scans, top-k and embedding, in the simulator, all checks on.

    python tests/fuzz/moves.py SEED COUNT [--seconds S] [--only top_k]      # draws SEED to SEED + COUNT - 1 of each

In: seeds.  Out: a line for each draw that is wrong, refused or has a finding; how many there were.  What is drawn, and
what must hold, is in ``test_drawn`` and its kind of the families' files in ``tests/kernels``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__":
    TESTS = Path(__file__).parents[1]
    sys.path[:0] = [str(TESTS), str(TESTS / "cases"), str(TESTS / "kernels"), str(TESTS.parent / "src")]

import test_embedding
import test_gated
import test_moves
import test_reductions
import test_rope
import test_scans
import test_top_k

import moye as mo
from fuzz import command

FAMILIES: dict[str, Callable[[int], None]] = {
    "permute": test_moves.test_drawn, "rope": test_rope.test_drawn, "reduce": test_reductions.test_drawn,
    "cumsum": test_scans.test_drawn, "cumsum_columns": test_scans.test_drawn_columns, "top_k": test_top_k.test_drawn,
    "embedding": test_embedding.test_drawn_rows, "embedding_backward": test_embedding.test_drawn_gradients,
    "gated": lambda seed: test_gated.test_drawn(("silu", "none", "tanh")[seed % 3], seed)}


def failure(draw: Callable[[int], None], seed: int) -> str | None:
    """What is wrong with a draw, or None."""
    try:
        draw(seed)
    except (AssertionError, mo.MoyeError) as error:
        return f"{type(error).__name__}: {error}"
    return None


if __name__ == "__main__":
    sys.exit(command.by_family(__doc__, FAMILIES, lambda name, seed: failure(FAMILIES[name], seed)))
