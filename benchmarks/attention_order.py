"""How long blocks of attention stand idle at the end, by a count of tiles: head by head, and in sections of heads as
moye takes them, beside the longest of all first.  Needs no GPU.

    python benchmarks/attention_order.py [SEED] [COUNT]

A tile costs its steps and OVERHEAD more, and each of 132 blocks takes the next tile when it has done one.  Problems are
drawn: 512 to 16,384 tokens a sequence, 4,096 to 65,536 in all, 1 to 64 heads, which may share keys; sequences of drawn
lengths beside them.  What is printed is time over that of the longest first, less 1: mean, and 95 % below.
"""

import heapq
import random
import statistics
import sys
from dataclasses import dataclass

from moye.kernels.attention.sm90.sections import in_sections, section_of

BLOCKS, OVERHEAD, TILE = 132, 2.0, 128


@dataclass(frozen=True)
class Kind:
    """Tiles of ``heads`` heads that cost ``costs`` each, in the order of the kernel; bytes of a head's rows in L2."""

    costs: list[float]
    heads: int
    each: int


def finished(costs, blocks=BLOCKS):
    """When the last of the blocks ends that take tiles in this order."""
    times = [0.0] * blocks
    for cost in costs:
        heapq.heappush(times, heapq.heappop(times) + cost)
    return max(times)


def gradients(rng):
    """A causal mask: tile i of keys has all tiles of queries from its own on, of each head that shares it."""
    dim, tokens, shared = rng.choice((64, 128, 256)), int(2 ** rng.uniform(9, 14)), rng.choice((1, 1, 2, 4, 8))
    heads = max(1, rng.randint(1, 64) * max(1, int(rng.uniform(4096, 65536) // tokens)) // shared)
    keys, queries = (64 if dim == 256 else TILE), (TILE if dim == 64 else 64)
    steps = -(-tokens // queries)
    costs = [shared * (steps - i * keys // queries) + OVERHEAD for i in range(-(-tokens // keys))]
    return Kind(costs, heads, tokens * 8 * dim)


def sequences(rng):
    """The forward pass over sequences of drawn lengths under a causal mask, from the last tile to the first."""
    count, heads, mean = rng.randint(2, 40), rng.randint(1, 64), 2 ** rng.uniform(8, 12)
    lengths = [int(mean * rng.uniform(0.1, 2)) + 1 for _ in range(count)]
    costs = [m + 1 + OVERHEAD for length in reversed(lengths) for m in reversed(range(-(-length // TILE)))]
    return Kind(costs, heads, max(lengths) * 512)


def lost(kind):
    """What two orders take longer than the longest first, as a part of its time."""
    tiles, section = len(kind.costs), section_of(kind.each, kind.heads)
    places = (in_sections(number, section, tiles, kind.heads) for number in range(tiles * kind.heads))
    orders = {"head by head": kind.costs * kind.heads, "in sections": [kind.costs[i] for i, _ in places]}
    least = finished(sorted(kind.costs * kind.heads, reverse=True))
    return {name: finished(order) / least - 1 for name, order in orders.items()}


def main(seed=1000, count=200):
    for draw in (gradients, sequences):
        rng = random.Random(seed)
        drawn = [lost(draw(rng)) for _ in range(count)]
        print(f"{draw.__name__}, {count} drawn: " + ", ".join(
            f"{name} {statistics.fmean(found):.3f} (95 % below {sorted(found)[int(0.95 * count)]:.2f})"
            for name in drawn[0] for found in [[one[name] for one in drawn]]))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
