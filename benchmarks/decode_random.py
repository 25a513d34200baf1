"""``moye.kernels.paged_attention`` on calls that nobody listed, beside a copy of as many bytes: drawn by seed.

    python benchmarks/decode_random.py SEED COUNT [--rounds 11] [--worst 12] [--csv decode_random.csv]
    for i in 0 1 2 3; do python benchmarks/decode_random.py SEED COUNT --compile $i 4 & done    # to have it compiled

Sequences, lengths (equal in a third of the calls, drawn up to the longest in the others), heads, head dimensions, sizes
of pages, numbers of queries and caches (bfloat16, or a third of them float8_e4m3fn with factors of heads) are drawn;
what is read is 1 MB to 1 GB.  Interleaved, L2 flushed, medians.  "of copy" is the time of ``torch.copy_`` that reads
and writes as many bytes as there are keys and values, over moye's.  Results are compared with torch's attention in
float32, sequence by sequence, as the norm of the difference over the norm.
Seeds below 1000 are for work on the kernels; figures that are told come from seeds from 1000 on, run once.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from attention_random import distribution
from moye import kernels
from moye.testing import interleave
from random_calls import arguments, rows_of, status_of

LEAST, MOST = 1 << 20, 1 << 30                          # bytes of keys and values that count
TABLE = 1 << 31                                         # bytes of pages
HEADS = ((8, 8), (16, 16), (32, 8), (32, 8), (64, 8), (64, 8), (40, 8), (28, 4), (16, 2), (16, 1), (128, 8))
CLOSE = 0.02


@dataclass(frozen=True)
class Drawn:
    """One call."""

    lengths: tuple[int, ...]
    queries: int
    heads: int
    heads_K: int
    dim: int
    page: int
    stored: str

    @property
    def bytes(self) -> int:
        """Of keys and values."""
        return 2 * sum(self.lengths) * self.heads_K * self.dim * (1 if self.stored else 2)

    @property
    def pages(self) -> int:
        """Of a sequence, in the table."""
        return -(-max(self.lengths) // self.page)

    def __str__(self) -> str:
        least, most = min(self.lengths), max(self.lengths)
        return (f"{len(self.lengths)} x {most if least == most else f'{least}..{most}'} {self.queries} queries "
                f"{self.heads}/{self.heads_K} {self.dim} pages of {self.page} {self.stored or 'bf16'}")


def draw(seed: int, count: int) -> list[Drawn]:
    """So many calls that fit."""
    rng, found = random.Random(seed), []
    while len(found) < count:
        batch, longest = (round(math.exp(rng.uniform(math.log(a), math.log(b)))) for a, b in ((1, 256), (128, 1 << 18)))
        lengths = (longest,) * batch if rng.random() < 1 / 3 else tuple(rng.randint(1, longest) for _ in range(batch))
        one = Drawn(lengths, rng.choice((1, 1, 1, 2, 4)), *rng.choice(HEADS), rng.choice((64, 128, 128, 128, 96, 256)),
                    rng.choice((16, 64, 64, 128, 256)), rng.choice(("", "", "fp8")))
        if LEAST <= one.bytes <= MOST and one.bytes * batch * longest <= TABLE * sum(lengths):
            found.append(one)
    return found


def call_of(one: Drawn) -> tuple[Callable[[], torch.Tensor], Callable[[int], torch.Tensor]]:
    """What is timed, which returns its result, and the result of a sequence in float32."""
    count = sum(-(-n // one.page) for n in one.lengths)
    k, v = (torch.randn(count, one.page, one.heads_K, one.dim, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    q = torch.randn(len(one.lengths), one.queries, one.heads, one.dim, device="cuda").bfloat16()
    given: dict[str, Any] = {}
    if one.stored:
        k, v = (x.to(torch.float8_e4m3fn) for x in (k, v))
        given = {name: 0.5 + torch.rand(one.heads_K, device="cuda") for name in ("k_scale", "v_scale")}
    table, order, at = torch.full((len(one.lengths), one.pages), -1, dtype=torch.int32), torch.randperm(count), 0
    for b, n in enumerate(one.lengths):
        own = -(-n // one.page)
        table[b, :own], at = order[at:at + own].int(), at + own
    table, lengths = table.cuda(), torch.tensor(one.lengths, dtype=torch.int32, device="cuda")
    out = torch.full_like(q, torch.nan)

    def reference(b: int) -> torch.Tensor:
        n = one.lengths[b]
        own = table[b, :-(-n // one.page)].long()
        keys, values = (x[own].float().reshape(-1, one.heads_K, one.dim)[:n].transpose(0, 1) for x in (k, v))
        if one.stored:
            keys, values = (x * factor[:, None, None] for x, factor in zip((keys, values), given.values(), strict=True))
        seen = torch.arange(n, device="cuda") <= torch.arange(n - one.queries, n, device="cuda")[:, None]
        found: torch.Tensor = scaled_dot_product_attention(q[b].float().transpose(0, 1), keys, values, attn_mask=seen,
                                                           enable_gqa=True)
        return found.transpose(0, 1)

    return lambda: kernels.paged_attention(out, q, k, v, table, lengths, **given), reference


def measured(one: Drawn, rounds: int) -> dict[str, Any]:
    """A row of the table: microseconds, of the copy too, and how far results of some sequences are off."""
    run, reference = call_of(one)
    found, whole = run(), [b for b, n in enumerate(one.lengths) if n >= one.queries][:4]
    error = max((float((found[b].double() - (exact := reference(b)).double()).norm() / exact.norm()) for b in whole),
                default=math.nan)
    source = torch.empty(one.bytes // 2, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    ms = interleave({"moye": run, "copy": lambda: target.copy_(source)}, rounds)
    return {"case": str(one), **asdict(one) | {"lengths": len(one.lengths)}, "MB": one.bytes / 1e6,
            "moye": 1e3 * ms["moye"], "copy": 1e3 * ms["copy"], "GB/s": 1e-6 * one.bytes / ms["moye"],
            "ratio": ms["copy"] / ms["moye"], "error": error}


def line(row: dict[str, Any]) -> str:
    return (f"{row['ratio']:.3f}  {row['case']:62}  moye {row['moye']:.1f}  copy {row['copy']:.1f} us  "
            f"{row['GB/s']:.0f} GB/s  off {row['error']:.1e}")


def main() -> int:
    options = arguments(__doc__, rounds=11, worst=12)
    cases = draw(options.seed, options.count)
    rows = rows_of(options, cases, lambda one: call_of(one)[0](), measured)
    if not rows:
        return 0
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    for name, kind in (("bfloat16", lambda r: not r["stored"]), ("8 bits", lambda r: r["stored"]),
                       ("more than 100 MB", lambda r: r["MB"] > 100)):
        if ratios := [row["ratio"] for row in rows if kind(row)]:
            print(distribution(name, ratios))
    return status_of(rows, line, "ratio", options.worst, CLOSE)


if __name__ == "__main__":
    sys.exit(main())
