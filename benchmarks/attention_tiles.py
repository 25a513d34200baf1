"""Forward attention on sm_90a by every configuration of tiles, on drawn calls: what the choice is fitted to.

    python benchmarks/attention_tiles.py SEED COUNT --csv attention_tiles.csv [--seconds 200] [--rounds 5]
    for i in 0 1 2 3; do python benchmarks/attention_tiles.py SEED COUNT --compile $i 4 & done     # to have it compiled

Lengths of 16 to 8192, batches, heads, head dimensions and kinds of calls are drawn by the seed: all keys, a causal
mask, a window, sequences one behind the other with or without a mask, a bias of 16 bits; a tenth in e4m3.  A line of
the CSV is a call by a configuration: microseconds, the median of interleaved launches with the L2 cache flushed, on
random-normal data.  Results of all configurations are compared with each other.
"""

from __future__ import annotations

import argparse
import csv
import math
import random
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

from moye.kernels.attention.parts.arguments import Problem, problem_of
from moye.kernels.attention.sm90 import host
from moye.kernels.attention.sm90.config import ForwardConfig, GradientConfig, candidates, gradient_candidates
from moye.kernels.attention.sm90.forward import attention_sm90_kernel
from moye.kernels.workspace import ordered
from moye.testing import interleave

KINDS = {"full": 6, "causal": 7, "window": 3, "sequences": 2, "causal sequences": 2, "bias": 2}
DIMS = ((64, 64), (64, 64), (96, 96), (128, 128), (128, 128), (192, 192), (192, 128))   # beyond, there is no choice
SHARED_HEADS = {64: 1, 96: 4, 128: 4, 192: 1}           # one number for a dimension, so that fewer kernels are compiled
LEAST, MOST, WORK = 1 << 18, 1 << 26, 1 << 38           # elements of queries; operations
CLOSE = 0.02


@dataclass(frozen=True)
class Drawn:
    """A call: ``window`` is how many keys behind a query it sees, -1 for all; lengths of sequences are mean ones."""

    backward: bool
    kind: str
    batch: int
    queries: int
    keys: int
    heads: int
    dim: int
    dim_v: int
    window: int
    narrow: bool

    @property
    def several(self) -> bool:
        """Whether sequences lie one behind the other."""
        return "sequences" in self.kind

    @property
    def causal(self) -> bool:
        """Whether a query sees no key behind its own place."""
        return "causal" in self.kind or self.kind == "window"


def draw(seed: int, count: int) -> list[Drawn]:
    """So many calls, which take no longer than a millisecond or so."""
    rng, found = random.Random(seed), []
    while len(found) < count:
        kind = rng.choices([*KINDS], [*KINDS.values()])[0]
        keys, (dim, dim_v) = length(rng), rng.choice(DIMS)
        queries = keys if kind != "full" or rng.random() < 0.6 else length(rng)
        heads, backward = SHARED_HEADS[dim] * 2 ** rng.randint(0, 5), dim <= 128 and rng.random() < 0.5
        window = length(rng) if kind == "window" else -1
        narrow = not backward and kind in ("full", "causal") and rng.random() < 0.15
        one = Drawn(backward, kind, 2 ** rng.randint(0, 7), queries, keys, heads, dim, dim_v, window, narrow)
        elements = one.batch * heads * dim * max(queries, keys)
        if LEAST <= elements <= MOST and (10 if backward else 4) * one.batch * heads * queries * keys * dim <= WORK \
                and heads * queries * keys <= 1 << 29:
            found.append(one)
    return found


def length(rng: random.Random) -> int:
    """A length, as often short as long."""
    return round(math.exp(rng.uniform(math.log(16), math.log(8192))))


def arrays_of(one: Drawn) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
    """out, q, k, v, one matrix a head where sequences lie one behind the other, and what else the launch takes."""
    import torch
    heads_K = one.heads // SHARED_HEADS[one.dim]
    batch, times = (1, one.batch) if one.several else (one.batch, 1)
    q, k, v = (torch.randn(batch, times * n, heads, dim, device="cuda").bfloat16() for n, heads, dim in (
        (one.queries, one.heads, one.dim), (one.keys, heads_K, one.dim), (one.keys, heads_K, one.dim_v)))
    out, given = torch.full((*q.shape[:3], one.dim_v), torch.nan, device="cuda").bfloat16(), {}
    if one.kind == "bias":
        given["bias"] = torch.randn(1, one.heads, one.queries, -(-one.keys // 8) * 8, device="cuda").bfloat16()[
            ..., :one.keys].expand(one.batch, -1, -1, -1)
    if one.narrow:
        q, k, v = (x.to(torch.float8_e4m3fn) for x in (q, k, v))
    if one.several:
        cuts = [0, *sorted(random.Random(one.queries).sample(range(1, times * one.keys), times - 1)), times * one.keys]
        offsets = torch.tensor(cuts, dtype=torch.int32, device="cuda")
        given = {"offsets": (offsets, offsets), "longest": max(b - a for a, b in pairwise(cuts))}
    return out, q, k, v, given


def problem(one: Drawn, arrays: tuple[Any, ...], longest: int) -> Problem:
    """The problem as the call makes it of its arguments."""
    window = (None if one.window < 0 else one.window, 0 if one.causal else None)
    whole = problem_of(*arrays, causal=False, window=window, scale=None, softcap=0.0, score=None)
    return replace(whole, batch=one.batch, queries=longest, keys=longest) if one.several else whole


def launch_of(config: ForwardConfig, one: Drawn, arrays: tuple[Any, ...], given: dict[str, Any]) -> Callable[[], Any]:
    """A launch by this configuration; values of 8 bits are turned before, once."""
    whole, (out, q, k, v) = problem(one, arrays, given.get("longest", 0)), arrays
    given = {name: value for name, value in given.items() if name != "longest"}
    values = host.turned(v, None) if one.narrow else ordered(v, (3, 1, 2, 0))
    grid, block, arguments = host.arguments_sm90(whole, (out, q, k, values), config=config, **given)
    return partial(attention_sm90_kernel.launch, *arguments, grid=grid, block=block)


def runs_of(one: Drawn) -> tuple[list[Any], dict[Any, Callable[[], Any]]]:
    """The arrays of results, and the launches of all configurations."""
    *arrays, given = arrays_of(one)
    if one.backward:
        return gradient_runs_of(one, tuple(arrays), given)
    return [arrays[0]], {config: launch_of(config, one, tuple(arrays), given) for config in configs_of(one)}


def configs_of(one: Drawn) -> list[ForwardConfig]:
    """All configurations; where tiles differ in work they come in turn, and from a counter."""
    orders = (False, True) if one.several or one.causal else (False,)
    return [replace(config, dynamic=dynamic) for config in candidates(
        (one.dim, one.dim_v), narrow=one.narrow, biased=one.kind == "bias") for dynamic in orders]


def gradient_runs_of(one: Drawn, arrays: tuple[Any, ...],
                     given: dict[str, Any]) -> tuple[list[Any], dict[GradientConfig, Callable[[], Any]]]:
    """The same for the gradients."""
    import torch
    (out, *inputs), lse = arrays, torch.empty(arrays[0].shape[0], one.heads, arrays[0].shape[1], device="cuda")
    launch_of(configs_of(one)[0], one, arrays, {**given, "lse": lse})()
    gradients = [torch.full_like(x, torch.nan) for x in inputs]
    by_name = dict(zip(("out", "q", "k", "v", "lse", "dout", "dq", "dk", "dv"),
                       (out, *inputs, lse, torch.randn_like(out), *gradients), strict=True))
    whole = problem(one, arrays, given.pop("longest", 0))
    return gradients, {config: partial(host.launch_gradients_sm90, whole, by_name, config=config, **given)
                       for config in gradient_candidates((one.dim, one.dim_v))}


def main() -> int:
    import torch
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no further call afterwards")
    parser.add_argument("--compile", type=int, nargs=2, metavar=("PART", "OF"))
    parser.add_argument("--csv")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("attention_tiles.py measures on a GPU, and torch sees none")
    torch.manual_seed(options.seed)
    rows, off, begin = [], 0, time.monotonic()
    for number, one in enumerate(draw(options.seed, options.count)):
        if time.monotonic() - begin > options.seconds:
            print(f"no time for more than {number} calls")
            break
        results, runs = runs_of(one)
        if options.compile:
            part, of = options.compile
            for i, run in enumerate(runs.values()):
                if (number + i) % of == part:
                    run()
            torch.cuda.synchronize()
            continue
        off += not agree(one, results, runs)
        ms = interleave({str(i): run for i, run in enumerate(runs.values())}, options.rounds)
        rows += [{**asdict(one), "config": str(config), "us": round(1e3 * ms[str(i)], 2)}
                 for i, config in enumerate(runs)]
        del results, runs
        torch.cuda.empty_cache()
    if options.csv and rows:
        with open(options.csv, "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    if not options.compile:
        print(f"{torch.cuda.get_device_name()}: {len(rows)} rows, {off} calls whose results differ")
    return 1 if off else 0


def agree(one: Drawn, results: list[Any], runs: dict[Any, Callable[[], Any]]) -> bool:
    """Whether all configurations give the same, as the norm of the difference over the norm."""
    first: list[Any] = []
    for config, run in runs.items():
        for x in results:
            x.fill_(math.nan)
        run()
        first = first or [x.float() for x in results]
        error = max(float((x.float() - y).norm() / y.norm()) for x, y in zip(results, first, strict=True))
        if not error < CLOSE:
            print(f"off {error:.1e}: {one} by {config}")
            return False
    return True


if __name__ == "__main__":
    sys.exit(main())
