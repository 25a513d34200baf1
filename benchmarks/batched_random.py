"""``moye.kernels.gemm`` of batches beside ``torch.bmm``, on products that nobody listed: drawn by seed.

    python benchmarks/batched_random.py SEED COUNT [--exact] [--rounds 15] [--worst 15] [--csv batched_random.csv]
    for i in 0 1 2 3; do python benchmarks/batched_random.py SEED COUNT --compile $i 4 & done    # to have it compiled

2 to 1024 products each, of bfloat16, float16 or float32 (TF32; ``--exact``: all of them float32 without), whose
extents are log-uniform, a third multiples of 128, a third of 8, a third of any number.  Batches lie one behind the
other, or beside each other in the rows, as heads of attention do; operands lie along K or along their rows; one B may
be that of all.  Random-normal, interleaved, L2 flushed, medians; a ratio is the time of torch over moye's.  Results
are compared with torch's, as the norm of the difference over the norm.
Seeds below 1000 are for work on the kernels; figures that are told come from seeds from 1000 on, run once.
"""

from __future__ import annotations

import math
import random
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from moye.kernels import gemm
from moye.testing import interleave
from random_calls import arguments, rows_of, status_of

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "tf32": torch.float32, "f32": torch.float32}
DRAWN = "bf16", "bf16", "f16", "tf32"
ELEMENTS, LEAST, WORK = 1 << 28, 1 << 14, 1 << 38       # of an operand or a result; multiplications
EXACT = 1 << 35                                         # of these without tensor cores
CLOSE = 0.02


@dataclass(frozen=True)
class Drawn:
    """One call: how A and B lie, "K" or "M", and whether batches lie "apart" or in the "rows"."""

    kind: str
    batches: int
    M: int
    N: int
    K: int
    orders: str
    lying: str
    shared: bool

    @property
    def work(self) -> int:
        return self.batches * self.M * self.N * self.K

    def __str__(self) -> str:
        return (f"{self.kind:4} {self.batches}x{self.M}x{self.N}x{self.K} {self.orders} {self.lying}"
                f"{', one B' if self.shared else ''}")


def draw(seed: int, count: int, *, exact: bool = False) -> list[Drawn]:
    """So many calls that fit; ``exact``: of float32 without tensor cores."""
    rng, found = random.Random(f"batches {seed}"), []
    while len(found) < count:
        batches = round(math.exp(rng.uniform(math.log(2), math.log(1024))))
        multiple = rng.choice((128, 8, 1))
        M, N, K = (extent(rng, multiple) for _ in range(3))
        orders = "KK" if rng.random() < 0.4 else rng.choice(("KK", "KM", "MK", "MM"))
        kind = rng.choice(DRAWN)
        one = Drawn("f32" if exact else kind, batches, M, N, K, orders, rng.choice(("apart", "apart", "rows")),
                    rng.random() < 0.1)
        if LEAST <= batches * max(M * K, N * K, M * N) <= ELEMENTS and one.work <= (EXACT if exact else WORK):
            found.append(one)
    return found


def extent(rng: random.Random, multiple: int) -> int:
    n = math.exp(rng.uniform(math.log(1), math.log(8192)))
    return max(1, round(n)) if n < multiple / 2 else round(n / multiple) * multiple


def operand(one: Drawn, rows: int, columns: int, order: str, batches: int) -> torch.Tensor:
    """(batches, rows, columns)."""
    shape = (rows, columns) if order == "K" else (columns, rows)
    if one.lying == "rows":
        x = torch.randn(shape[0], batches, shape[1], device=DEVICE).transpose(0, 1)
    else:
        x = torch.randn(batches, *shape, device=DEVICE)
    x = x.to(DTYPES[one.kind])
    return x if order == "K" else x.transpose(1, 2)


def runs_of(one: Drawn) -> tuple[dict[str, Callable[[], Any]], torch.Tensor, torch.Tensor, tuple[torch.Tensor, ...]]:
    """What is timed, by name; the results of moye and of torch, NaN before; A, B and C as moye takes them."""
    torch.backends.cuda.matmul.allow_tf32 = one.kind == "tf32"
    A, B = (operand(one, rows, one.K, order, batches) for rows, order, batches in (
        (one.M, one.orders[0], one.batches), (one.N, one.orders[1], 1 if one.shared else one.batches)))
    B = B.expand(one.batches, -1, -1)
    C, D = (operand(one, one.M, one.N, "K", one.batches).fill_(math.nan) for _ in range(2))
    a, b, c = (x.permute(1, 2, 0) for x in (A, B, C))
    return {"moye": lambda: gemm(a, b, c, tf32=True) if one.kind == "tf32" else gemm(a, b, c),
            "bmm": lambda: torch.bmm(A, B.transpose(1, 2), out=D)}, C, D, (a, b, c)


def measured(one: Drawn, rounds: int) -> dict[str, Any]:
    """A row of the table: microseconds of each, the ratio, and how far results are off."""
    runs, C, D, _ = runs_of(one)
    for run in runs.values():
        run()
    error = float((C.float() - D.float()).norm() / D.float().norm())
    us = {name: 1e3 * ms for name, ms in interleave(runs, rounds).items()}
    return {"case": str(one), **asdict(one), **us, "ratio": us["bmm"] / us["moye"],
            "TFLOP/s": 2e-6 * one.work / us["moye"], "error": error}


def line(row: dict[str, Any]) -> str:
    return (f"{row['ratio']:.3f}  {row['case']:44} moye {row['moye']:.1f}  bmm {row['bmm']:.1f} us  "
            f"{row['TFLOP/s']:.0f} TFLOP/s  off {row['error']:.1e}")


def distribution(name: str, ratios: list[float]) -> str:
    """One line: the geometric mean of the ratios, and how many are below some."""
    below = ", ".join(f"below {limit} {sum(x < limit for x in ratios)}" for limit in (1.0, 0.9, 0.75))
    return (f"{name}: {len(ratios)} calls, geometric mean {statistics.geometric_mean(ratios):.3f}, {below}, least "
            f"{min(ratios):.2f}")


def main() -> int:
    options = arguments(__doc__, rounds=15, worst=15, more=lambda parser: parser.add_argument(
        "--exact", action="store_true", help="float32 without tensor cores"))
    cases = draw(options.seed, options.count, exact=options.exact)
    rows = rows_of(options, cases, lambda one: runs_of(one)[0]["moye"](), measured)
    if not rows:
        return 0
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    for name in (*DTYPES, "apart", "rows"):
        if ratios := [row["ratio"] for row in rows if name in (row["kind"], row["lying"])]:
            print(distribution(name, ratios))
    return status_of(rows, line, "ratio", options.worst, CLOSE)


if __name__ == "__main__":
    sys.exit(main())
