"""Attention of sequences behind each other, drawn by seed, and its gradients; each compared as attention of its own.

In: a ``random.Random``, a library of arrays (see ``random_products``).  Out: ``Sequences``; ``run`` launches and
compares.

>>> run(draw(random.Random(7), most=200), NumPy())

Sequences may have no queries or no keys.  What an element may be off by is told in ``random_attention``.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import random_attention
from moye.kernels import attention_varlen, attention_varlen_backward
from random_attention import Case, _compare, _compare_gradients, _factors, _untouched, _wide, pinned
from random_products import Place, _Array, _filled, _made

ORDERS = ((2, 1, 0), (2, 0, 1))
"""Heads inside of rows, and around all of them."""


@dataclass(frozen=True)
class Sequences:
    """One call: ``case`` as if all were one, with as many batches as there are sequences; lengths of each.

    ``places`` of q, k, v, out and of the gradients; ``bounded``: the call is told the longest.
    """

    case: Case
    queries: tuple[int, ...]
    keys: tuple[int, ...]
    places: tuple[Place, ...]
    bounded: bool

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of q, k, v and out."""
        case, rows, keys = self.case, sum(self.queries), sum(self.keys)
        return ((rows, case.heads, case.dim), (keys, case.heads_K, case.dim), (keys, case.heads_K, case.dim_v),
                (rows, case.heads, case.dim_v))

    @property
    def ends(self) -> tuple[list[int], list[int]]:
        """Where the queries and the keys of each begin."""
        return [0, *accumulate(self.queries)], [0, *accumulate(self.keys)]

    @property
    def longest(self) -> dict[str, int]:
        return {"longest_q": max(self.queries), "longest_k": max(self.keys)} if self.bounded else {}


def draw(rng: random.Random, *, most: int, archs: tuple[str, ...] = ("sm_90a",), work: int = 1 << 24) -> Sequences:
    """Up to five sequences of lengths up to ``most``."""
    case, count = random_attention.draw(rng, most=most, archs=archs, work=work), rng.randint(1, 5)
    case = replace(case, batch=count, bias="", score=False, alibi=min(case.alibi, 1), deterministic=False)
    each = work // (count * case.heads * (case.dim + case.dim_v))
    queries = tuple(_length(rng, most) for _ in range(count))
    keys = queries if rng.random() < 0.4 else tuple(_length(rng, most) for _ in range(count))
    keys = tuple(m if n * m <= each else max(1, each // n) for n, m in zip(queries, keys, strict=True))
    part = 16 if case.out else 8
    places = tuple(Place(rng.choice(ORDERS), part=part, slack=part * rng.choice((0, 0, 1)), first=part * rng.choice(
        (0, 1))) if case.out or rng.random() < 0.8 else Place(rng.choice((*ORDERS, (0, 1, 2))), slack=rng.choice(
            (0, 1, 3)), first=rng.randint(0, 9)) for _ in range(7))
    return Sequences(case, queries, keys, places, rng.random() < 0.6)


def _length(rng: random.Random, most: int) -> int:
    return 0 if rng.random() < 0.1 else random_attention._length(rng, most)


# --- arrays and results ----------------------------------------------------------------------------------------------


def run(drawn: Sequences, library: Any) -> None:
    """Launch, and AssertionError if anything is off."""
    with pinned(drawn.case.tiles):
        _run(drawn, library)


def _run(drawn: Sequences, library: Any) -> None:
    case, dense = drawn.case, [Place(tuple(reversed(range(rank)))) for rank in range(3)]
    library.start(case.seed)
    arrays = {name: _filled(library, case.dtype, drawn.shapes[i], drawn.places[i]) for i, name in enumerate("qkv")}
    library.fill(arrays["q"].x, _wide(library, arrays["q"].x) * case.peak)
    arrays["out"] = _made(library, case.out or case.dtype, drawn.shapes[3], drawn.places[3])
    arrays["lse"] = _made(library, case.numbers, (case.heads, sum(drawn.queries)), dense[2])
    for name in ("alibi", "sinks"):
        if getattr(case, name):
            arrays[name] = _filled(library, case.numbers, (case.heads,), dense[1])
    factors, offsets = _factors(case, library), [_offsets(library, ends) for ends in drawn.ends]
    before = {name: library.copy(array.memory) for name, array in arrays.items()}
    given = {name: arrays[name].x for name in ("alibi", "sinks", "lse") if name in arrays}
    if not case.lse:
        del given["lse"]
    options = {"causal": case.causal, "window": case.window, "scale": case.scale, "softcap": case.softcap,
               **drawn.longest}
    attention_varlen(*(arrays[name].x for name in ("out", "q", "k", "v")), *offsets, **options, **given, **factors)
    for name in arrays.keys() - {"out", "lse"}:
        assert library.same(arrays[name].memory, before[name]), f"{name} has changed"
    found = [_sequence(drawn, library, i, arrays, factors) for i in range(len(drawn.queries))]
    if case.lse and not case.out:
        _backward(drawn, library, arrays, offsets, options, found)
    for name in ("out", "lse"):
        _untouched(case, library, name, arrays[name], before[name])


def _offsets(library: Any, ends: list[int]) -> Any:
    x = _made(library, "s32", (len(ends),), Place((0,))).x
    for i, end in enumerate(ends):
        library.fill(x[i:i + 1], end)
    return x


def _part(drawn: Sequences, arrays: dict[str, _Array], i: int) -> tuple[Case, dict[str, _Array]]:
    """Sequence i as a call of attention, with views of what is its."""
    rows, keys = (slice(*list(pairwise(ends))[i]) for ends in drawn.ends)
    found = dict(arrays)
    for name, array in arrays.items():
        if name in ("q", "out", "dout", "dq"):
            found[name] = _Array(array.x[rows][None], None)
        elif name in ("k", "v", "dk", "dv"):
            found[name] = _Array(array.x[keys][None], None)
        elif name == "lse":
            found[name] = _Array(array.x[:, rows][None], None)
    return replace(drawn.case, batch=1, queries=drawn.queries[i], keys=drawn.keys[i]), found


def _sequence(drawn: Sequences, library: Any, i: int, arrays: dict[str, _Array], factors: dict[str, Any]) -> Any:
    """What gradients of sequence i need, None if it has no queries or no keys; AssertionError if a result is off."""
    case, own = _part(drawn, arrays, i)
    if not case.queries:
        return None
    if not case.keys:
        assert bool((_wide(library, own["out"].x) == 0).all()), f"sequence {i}: results of no keys"
        return None
    mine = {name: x[i:i + 1] if not isinstance(x, float) and x.ndim == 2 else x for name, x in factors.items()}
    return _compare(case, library, own, None, mine)


def _backward(drawn: Sequences, library: Any, arrays: dict[str, _Array], offsets: list[Any], options: dict[str, Any],
              found: list[Any]) -> None:
    """Gradients, launched and compared; those of keys that nobody asks for, and of queries without keys, are 0."""
    case = drawn.case
    arrays = dict(arrays, dout=_filled(library, case.dtype, drawn.shapes[3], drawn.places[3]))
    for i, name in enumerate(("dq", "dk", "dv")):
        arrays[name] = _made(library, case.dtype, drawn.shapes[i], drawn.places[4 + i])
    before = {name: library.copy(arrays[name].memory) for name in ("dq", "dk", "dv")}
    given = {"alibi": arrays["alibi"].x} if "alibi" in arrays else {}
    attention_varlen_backward(*(arrays[name].x for name in ("dq", "dk", "dv", "dout", "q", "k", "v", "out", "lse")),
                              *offsets, **options, **given)
    for i, needed in enumerate(found):
        own, parts = _part(drawn, arrays, i)
        if needed is not None:
            _compare_gradients(own, library, parts, needed)
        for name in ("dq", "dk", "dv") if needed is None else ():
            assert bool((_wide(library, parts[name].x) == 0).all()), f"sequence {i}: {name} of nothing"
    for name, memory in before.items():
        _untouched(case, library, name, arrays[name], memory)
