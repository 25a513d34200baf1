"""Random launches of up to three dimensions, in clusters too, and arithmetic of all indices: Python knows the answers.

    python tests/fuzz/geometry.py 1000 300              # first seed, launches; --emulate runs the printed CUDA as well

In: a seed.  Out: ``Launch``: a kernel's source, its block, grid and cluster, and what each thread computes.

What tracing knows of an index (its bounds, of which thread it is made) decides comparisons and leaves out arithmetic:
blocks of one, of no whole warp and with empty dimensions are drawn on purpose.  All numbers are small.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "cases"),
                    str(Path(__file__).parents[2] / "src")]

import numpy as np

import moye as mo
from emulator.emulated import emulated
from fuzz import command
from written import block as written_block

RESULTS = 8
BLOCKS = ((5, 3, 2), (16, 4, 1), (33, 2, 1), (1, 1, 40), (8, 8, 2), (4, 1, 9), (32, 2, 1), (7, 1, 1), (64, 1, 1),
          (2, 16, 2), (1, 32, 1), (3, 1, 1), (128, 2, 1), (16, 16, 1))
GRIDS = ((2, 1, 1), (3, 2, 1), (1, 2, 2), (4, 1, 3), (2, 2, 2))
HEAD = """tx, ty, tz = mo.thread_idx()
bx, by, bz = mo.block_idx()
BX, BY, BZ = mo.block_dim()
GX, GY, GZ = mo.grid_dim()
lane, warp, group = mo.lane_idx(), mo.warp_idx(), mo.warpgroup_idx()
flat = tx + BX * (ty + BY * tz)
gx, gy = bx * BX + tx, by * BY + ty
m = mo.size(x)
rank, ranks, inside, cluster = mo.cluster_rank(), mo.cluster_dim().x, mo.block_in_cluster_idx().x, mo.cluster_idx().x
at = bx + GX * (by + GY * bz)
"""
NAMES = ("tx", "ty", "tz", "bx", "by", "bz", "BX", "BY", "BZ", "GX", "GY", "GZ", "lane", "warp", "group", "flat", "gx",
         "gy", "n", "m", "rank", "ranks", "inside", "cluster")
NUMBERS = ("0", "1", "2", "3", "4", "5", "7", "8", "16", "31", "32", "33", "64")
POSITIVE = ("2", "3", "4", "5", "8", "16", "32", "33", "BX", "BY", "(BX * BY)", "GX", "(n + 1)", "m", "(tx + 1)",
            "ranks", "(32 // BX + 1)")


@dataclass
class Launch:
    seed: int
    source: str
    block: tuple[int, int, int]
    grid: tuple[int, int, int]
    cluster: int
    n: int
    m: int
    wanted: np.ndarray[Any, Any]


class Expressions:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def atom(self) -> str:
        return self.rng.choice([*NAMES, *NAMES, *NAMES, *NUMBERS])

    def number(self, depth: int) -> str:
        if depth <= 0 or self.rng.random() < 0.1:
            return self.atom()
        a, b = self.number(depth - 1), self.number(depth - 1)
        return self.rng.choice([
            f"({a} + {b})", f"({a} + {b})", f"({a} - {b})", f"(({a}) % 64 * {self.atom()})", f"abs({a})",
            f"({a} // {self.rng.choice(POSITIVE)})", f"({a} // {self.rng.choice(POSITIVE)})",
            f"({a} % {self.rng.choice(POSITIVE)})", f"({a} % {self.rng.choice(POSITIVE)})",
            f"({a} if {self.truth(depth - 1)} else {b})", f"min({a}, {b})", f"max({a}, {b})",
            f"({a} & {self.rng.choice(['1', '3', '7', '31', '32', '63', '(BX - 1)', 'lane'])})",
            f"({a} >> {self.rng.choice('125')})", f"({a} ^ {self.atom()})"])

    def truth(self, depth: int) -> str:
        sign = self.rng.choice(["<", "<=", ">", ">=", "==", "!="])
        simple = f"({self.number(depth)} {sign} {self.number(depth)})"
        if depth <= 0 or self.rng.random() < 0.6:
            return simple
        return self.rng.choice([f"({simple} {self.rng.choice(['and', 'or'])} {self.truth(depth - 1)})",
                                f"(0 <= {self.number(depth)} < {self.number(depth)})", f"(not {simple})"])


def draw(seed: int) -> Launch:
    rng = random.Random(f"geometry {seed}")
    made, lines = Expressions(rng), []
    for k in range(RESULTS):
        value = made.truth(2) if rng.random() < 0.25 else made.number(3)
        if rng.random() < 0.3:
            lines += ["v = 0", f"if {made.truth(2)}:", f"    v = int({value})"]
        else:
            lines.append(f"v = int({value})")
        lines.append(f"out[{k}, flat, at] = v")
    block, grid = rng.choice(BLOCKS), rng.choice(GRIDS)
    cluster = rng.choice([1, 1, 2]) if grid[0] % 2 == 0 else 1
    n, m = rng.randrange(70), rng.choice([1, 32, 50])
    body = "\n".join(lines)
    return Launch(seed, HEAD + body, block, grid, cluster, n, m, _by_python(body, block, grid, cluster, n, m))


def _by_python(body: str, block: tuple[int, int, int], grid: tuple[int, int, int], cluster: int, n: int,
               m: int) -> np.ndarray[Any, Any]:
    """What plain Python computes for each thread of each block."""
    code = compile(body, "<geometry>", "exec")
    out = np.zeros((RESULTS, int(np.prod(block)), int(np.prod(grid))), np.int64)
    (BX, BY, BZ), (GX, GY, GZ) = block, grid
    for t in range(out.shape[1]):
        for b in range(out.shape[2]):
            tx, ty, tz, bx, by, bz = t % BX, t // BX % BY, t // BX // BY, b % GX, b // GX % GY, b // GX // GY
            exec(code, {"tx": tx, "ty": ty, "tz": tz, "bx": bx, "by": by, "bz": bz, "BX": BX, "BY": BY, "BZ": BZ,
                        "GX": GX, "GY": GY, "GZ": GZ, "lane": t % 32, "warp": t // 32, "group": t // 128, "flat": t,
                        "gx": bx * BX + tx, "gy": by * BY + ty, "n": n, "m": m, "rank": bx % cluster, "ranks": cluster,
                        "inside": bx % cluster, "cluster": bx // cluster, "at": b, "out": out})
    return out


def wrong(one: Launch, *, emulate: bool = False) -> str | None:
    """A finding, or where the simulator (or the printed CUDA) differs from Python."""
    kernel = mo.kernel(written_block(one.source, "out, x, n"))
    for who in ("the simulator", *(["the emulator"] if emulate else [])):
        out, x = np.zeros(one.wanted.shape, np.int32), np.zeros(one.m, np.float32)
        shape: dict[str, Any] = {"grid": one.grid, "block": one.block, "cluster": one.cluster}
        if who == "the emulator":
            with emulated(seed=one.seed):
                kernel.launch(out, x, one.n, **shape)
        elif found := mo.check(kernel, lints=False).launch(out, x, one.n, **shape).findings:
            return f"{one.seed}: {found[0]}"
        if (out != one.wanted).any():
            k, t, b = np.argwhere(out != one.wanted)[0]
            return f"{one.seed}: result {k} of thread {t} in block {b} is {out[k, t, b]} in {who}, and " \
                   f"{one.wanted[k, t, b]} in Python"
    return None


if __name__ == "__main__":
    sys.exit(command.emulated_too(__doc__, lambda seed, emulate: wrong(draw(seed), emulate=emulate)))
