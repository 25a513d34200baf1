"""Random groups of products are right in the simulator, and without findings; calls with a fault are found.

By hand, more: ``python tests/fuzz/groups.py SEED COUNT``.
"""

from __future__ import annotations

import dataclasses
import itertools
import random

import numpy as np
import pytest

import random_groups
from fuzz import groups
from random_groups import BLOCK, WAYS, Groups, like, run, simulated
from random_products import KINDS, NumPy, Place


def right(seeds):
    found = ((seed, call, groups.failure(call)) for seed in seeds for call in [simulated(seed)])
    assert not (wrong := [f"{seed}: {call}\n{why}" for seed, call, why in found if why is not None]), wrong[0]


def test_a_few():
    right(range(8))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(8, 56, 16))
def test_more(first):
    right(range(first, first + 16))


# --- what is drawn ---------------------------------------------------------------------------------------------------


def test_everything_is_drawn():
    drawn = [simulated(seed) for seed in range(2000)]
    assert {(call.way, call.kind) for call in drawn if call.way != "batched"} == {
        (way, kind) for way in WAYS for kind in KINDS if way != "batched" and kind not in ("f32", "f64", "s32")}
    assert {(call.kind, call.out) for call in drawn} == {
        (name, out) for name, kind in KINDS.items() if name not in ("f32", "f64", "s32") for out in kind.outs}
    assert {call.way for call in drawn if call.scaled} == set(WAYS) and any(call.fast for call in drawn)
    assert {len(call.sizes) for call in drawn} >= {1, 2, 3, 4, 5}
    assert any(0 in [M for M, _, _ in call.sizes] and len(call.sizes) > 1 for call in drawn)
    assert any(sum(M for M, _, _ in call.sizes) < len(call.sizes) for call in drawn), "more groups than rows"
    assert any(0 in [K for _, _, K in call.sizes] for call in drawn)
    assert {call.special for call in drawn} == {"", "nan", "inf"}
    assert {call.activation for call in drawn} == {"none", "relu", "gelu", "silu"}
    assert any(sum(call.around) for call in drawn) and {call.steps[0] for call in drawn} == {1, 2}
    assert any(call.pick is not None for call in drawn)


def test_others_of_the_same_kind():
    rng = random.Random(0)
    for seed in range(100):
        call = simulated(seed)
        more = like(rng, call)
        assert [n for _, *n in more.sizes] == [n for _, *n in call.sizes] and more.places == call.places


# --- faults ----------------------------------------------------------------------------------------------------------

DENSE = Place((1, 0))
PLAIN = Groups(3, "stacked", "bf16", "bf16", ((30, 24, 40), (0, 24, 40), (11, 24, 40)),
               ((DENSE, Place((1, 0, 2)), Place((1, 0), slack=2), DENSE, Place((1, 0, 2))),), around=(2, 3))
SCALED = dataclasses.replace(PLAIN, kind="e4m3", scaled=True,
                             sizes=((30, 136, 300), (0, 136, 300), (11, 136, 300)))
LISTS = dataclasses.replace(PLAIN, way="separate", sizes=((30, 24, 40), (11, 17, 9)), places=((DENSE,) * 5,) * 2,
                            around=(0, 0))


def multiplied(A, B, C, offsets=None, *, scale_a=None, scale_b=None, **options):
    """What grouped_gemm_sm90 does, in NumPy."""
    if offsets is None:
        for X, Y, Z in zip(A, B, C, strict=True):
            Z[...] = X.astype(np.float64) @ Y.T.astype(np.float64)
        return C
    for g, (first, last) in enumerate(itertools.pairwise(offsets)):
        X, Y = A[first:last].astype(np.float64), B[:, :, g].astype(np.float64)
        if scale_a is not None:
            at = np.arange(A.shape[1]) // BLOCK
            X = X * scale_a[first:last][:, at]
            Y = Y * scale_b[:, :, g][np.arange(len(Y)) // BLOCK][:, at]
        C[first:last] = X @ Y.T
    return C


def one_group_late(A, B, C, offsets, **options):
    return multiplied(A, np.roll(B, 1, 2), C, offsets, **options)


def beyond_the_groups(A, B, C, offsets, **options):
    multiplied(A, B, C, offsets, **options)
    C[offsets[-1]] = 0
    return C


def without_factors(A, B, C, offsets, *, scale_a, scale_b, **options):
    return multiplied(A, B, C, offsets, scale_a=np.ones_like(scale_a), scale_b=scale_b)


def moved_offsets(A, B, C, offsets, **options):
    multiplied(A, B, C, offsets, **options)
    offsets[0] += 1
    return C


def swapped_results(A, B, C, **options):
    multiplied(A, B, C)
    C[1][...] = C[1][::-1]
    return C


@pytest.mark.parametrize(("fault", "call", "message"), [
    (one_group_late, PLAIN, "product 0: .* elements are wrong"), (beyond_the_groups, PLAIN, "a row of no group"),
    (without_factors, SCALED, "product 0: .* elements are wrong"), (moved_offsets, PLAIN, "the offsets were written"),
    (swapped_results, LISTS, "product 1: .* elements are wrong")])
def test_faults_are_seen(fault, call, message, monkeypatch):
    monkeypatch.setattr(random_groups, "grouped_gemm_sm90", multiplied)
    run(call, NumPy())
    monkeypatch.setattr(random_groups, "grouped_gemm_sm90", fault)
    with pytest.raises(AssertionError, match=message):
        run(call, NumPy())
