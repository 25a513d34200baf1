"""``moye.kernels.attention`` beside the fastest of torch's, on calls that nobody listed: drawn by seed.

    python benchmarks/attention_random.py SEED COUNT [--rounds 9] [--worst 12] [--csv attention_random.csv]
    for i in 0 1 2 3; do python benchmarks/attention_random.py SEED COUNT --compile $i 4 & done    # to have it compiled

Batches, lengths (a third multiples of 128, a third of 8, a third of any number), heads and head dimensions are drawn,
forward or backward, with a causal mask, a bias of 16 bits or neither.  A causal mask comes with as many queries as
keys: of others torch's lies elsewhere.  Random-normal bfloat16, interleaved, L2 flushed, medians; the peers are cuDNN,
FlashAttention 2 and, with a bias, the memory-efficient kernels of torch; a ratio is the time of the fastest of them
over moye's.  Results are compared with those of a peer, as the norm of the difference over the norm.
Seeds below 1000 are for work on the kernels; figures that are told come from seeds from 1000 on, run once.
"""

from __future__ import annotations

import math
import random
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from moye import kernels
from moye.testing import interleave
from random_calls import arguments, rows_of

PEERS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "FA2": SDPBackend.FLASH_ATTENTION,
         "efficient": SDPBackend.EFFICIENT_ATTENTION}
LIMIT, WORK = 1 << 26, 1 << 40                          # elements of q; multiplications of one call
SMALL = 1 << 32                                         # some 10 us: below, it is launches that are compared
CLOSE = 0.02


@dataclass(frozen=True)
class Drawn:
    """One call."""

    backward: bool
    batch: int
    queries: int
    keys: int
    heads: int
    heads_K: int
    dim: int
    causal: bool
    bias: bool

    @property
    def work(self) -> float:
        """Multiplications, as forward and backward are counted most often."""
        pairs = self.queries * self.keys * (0.5 if self.causal else 1.0)
        return (10 if self.backward else 4) / 2 * self.batch * self.heads * pairs * self.dim

    def __str__(self) -> str:
        return (f"{'backward' if self.backward else 'forward'} {'causal' if self.causal else 'full'}"
                f"{' bias' if self.bias else ''} {self.batch}x{self.queries}x{self.keys} "
                f"{self.heads}/{self.heads_K} {self.dim}")


def draw(seed: int, count: int) -> list[Drawn]:
    """So many calls that fit and take no longer than some milliseconds."""
    rng, found = random.Random(seed), []
    while len(found) < count:
        heads_K = 2 ** rng.randint(0, 5)
        heads = heads_K * rng.choice((1, 1, 1, 2, 4, 8))
        backward, causal, keys = rng.random() < 0.4, rng.random() < 0.5, length(rng)
        queries = keys if causal or rng.random() < 0.6 else length(rng)
        one = Drawn(backward, 2 ** rng.randint(0, 6), queries, keys, heads, heads if backward else heads_K,
                    rng.choice((64, 64, 128, 128, 128, 96, 192, 256)), causal, not causal and rng.random() < 0.2)
        elements = one.batch * heads * one.dim * max(queries, keys)
        fits = one.work <= WORK and elements <= LIMIT and heads * queries * keys <= 1 << 31
        if fits and (one.work >= SMALL or rng.random() < 0.2):
            found.append(one)
    return found


def length(rng: random.Random) -> int:
    n, step = math.exp(rng.uniform(math.log(32), math.log(16384))), rng.choice((128, 8, 1))
    return max(1, round(n / step)) * step


def runs_of(one: Drawn) -> dict[str, Callable[[], Any]]:
    """What is timed, by name, each returning its results: out, or dq, dk and dv; the first is moye's."""
    q, k, v, dout = (torch.randn(one.batch, n, heads, one.dim, device="cuda").bfloat16()
                     for n, heads in ((one.queries, one.heads), (one.keys, one.heads_K), (one.keys, one.heads_K),
                                      (one.queries, one.heads)))
    out, bias = torch.full_like(q, torch.nan), None
    if one.bias:
        shape = 1, one.heads, one.queries, -(-one.keys // 8) * 8      # rows that begin at 16 bytes: what peers ask for
        bias = torch.randn(shape, device="cuda").bfloat16()[..., :one.keys].expand(one.batch, -1, -1, -1)
    lse = torch.empty(one.batch, one.heads, one.queries, device="cuda") if one.backward else None
    forward = partial(kernels.attention, out, q, k, v, causal=one.causal, bias=bias, lse=lse)
    runs: dict[str, Callable[[], Any]] = {"moye": lambda: (forward(),)}
    if one.backward:
        forward()
        gradients = [torch.full_like(x, torch.nan) for x in (q, k, v)]
        runs["moye"] = partial(kernels.attention_backward, *gradients, dout, q, k, v, out, lse, causal=one.causal,
                               bias=bias)
    inputs = [x.detach().clone().requires_grad_(one.backward) for x in (q, k, v)]
    for name, backend in PEERS.items():
        peer = partial(_peer, backend, one, bias, *inputs)
        try:
            result, = peer()
        except RuntimeError:                            # torch has no such kernel
            continue
        runs[name] = partial(torch.autograd.grad, result, inputs, dout, retain_graph=True) if one.backward else peer
    return runs


def _peer(backend: SDPBackend, one: Drawn, bias: Any, *arrays: torch.Tensor) -> tuple[torch.Tensor]:
    """torch's attention of (batch, seqlen, heads, dim)."""
    with sdpa_kernel(backend):
        out: torch.Tensor = scaled_dot_product_attention(*(x.transpose(1, 2) for x in arrays), attn_mask=bias,
                                                         is_causal=one.causal, enable_gqa=one.heads != one.heads_K)
    return (out.transpose(1, 2),)


def measured(one: Drawn, rounds: int) -> dict[str, Any]:
    """A row of the table: microseconds of each, the ratio, and how far results are off."""
    runs = runs_of(one)
    found = {name: [x.double() for x in run()] for name, run in runs.items()}
    peers = [name for name in runs if name != "moye"]
    error = max((float((x - y).norm() / y.norm()) for x, y in zip(found["moye"], found[peers[0]], strict=True)),
                default=math.nan) if peers else math.nan
    del found
    ms = interleave(runs, rounds)
    best = min((ms[name] for name in peers), default=math.nan)
    return {"case": str(one), **asdict(one), **{name: 1e3 * ms.get(name, math.nan) for name in ("moye", *PEERS)},
            "TFLOP/s": 2e-9 * one.work / ms["moye"], "ratio": best / ms["moye"], "error": error}


def line(row: dict[str, Any]) -> str:
    times = "  ".join(f"{name} {row[name]:.1f}" for name in ("moye", *PEERS) if not math.isnan(row[name]))
    return f"{row['ratio']:.3f}  {row['case']:44}  {times} us  {row['TFLOP/s']:.0f} TFLOP/s  off {row['error']:.1e}"


def distribution(name: str, ratios: list[float]) -> str:
    """One line: the geometric mean of the ratios, and how many are below some."""
    mean = statistics.geometric_mean(ratios)
    below = ", ".join(f"below {limit} {sum(x < limit for x in ratios)}" for limit in (1.0, 0.9, 0.75))
    return f"{name}: {len(ratios)} calls, geometric mean {mean:.3f}, {below}, least {min(ratios):.2f}"


def main() -> int:
    options = arguments(__doc__, rounds=9, worst=12)
    cases = draw(options.seed, options.count)
    rows = rows_of(options, cases, lambda one: runs_of(one)["moye"](), measured)
    if not rows:
        return 0
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    for name, kind in (("forward", lambda r: not r["backward"] and not r["bias"]),
                       ("backward", lambda r: r["backward"] and not r["bias"]), ("bias", lambda r: r["bias"])):
        ratios = [row["ratio"] for row in rows if kind(row) and not math.isnan(row["ratio"])]
        if ratios:
            print(distribution(name, ratios))
    for row in sorted(rows, key=lambda r: math.inf if math.isnan(r["ratio"]) else r["ratio"])[:options.worst]:
        print(line(row))
    bad = [row for row in rows if row["error"] > CLOSE]
    for row in bad:
        print("off:", line(row))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
