"""Random sequences behind each other are right in the simulator, and without findings; faults are found.

By hand, more: ``python tests/fuzz/attention.py SEED COUNT --sequences``.
"""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

import random_attention
import random_sequences
from fuzz import attention as fuzz
from random_products import Place
from random_sequences import Sequences


def right(seeds):
    found = ((seed, drawn, fuzz.failure(drawn)) for seed in seeds for drawn in [fuzz.drawn(seed, 100, sequences=True)])
    assert not (wrong := [f"{seed}: {drawn}\n{why}" for seed, drawn, why in found if why is not None]), wrong[0]


def test_a_few():
    right(range(2))


@pytest.mark.slow
def test_more():
    right(range(2, 12))


def test_all_kinds_are_drawn():
    drawn = [fuzz.drawn(seed, sequences=True) for seed in range(400)]
    assert {len(one.queries) for one in drawn} == {1, 2, 3, 4, 5}
    assert any(0 in one.queries for one in drawn) and any(0 in one.keys for one in drawn)
    assert {one.bounded for one in drawn} == {True, False} and any(one.queries == one.keys for one in drawn)
    assert {one.case.dtype for one in drawn} == {"bf16", "f16", "e4m3"}
    for name in ("causal", "softcap", "alibi", "sinks", "lse"):
        assert len({bool(getattr(one.case, name)) for one in drawn}) == 2, name


# --- faults ----------------------------------------------------------------------------------------------------------

DENSE = Place((2, 1, 0), part=8)
CASE = replace(random_attention.draw(random.Random(2), most=9), dtype="bf16", out="", factors=("", "", ""), batch=3,
               heads=2, heads_K=1, dim=64, dim_v=64, causal=False, window=(None, None), scale=0.125, softcap=0.0,
               bias="", alibi=0, sinks=False, score=False, lse=True, peak=1.0, arch="sm_90a", blocks=132, tiles=None)
PLAIN = Sequences(CASE, (30, 0, 17), (20, 9, 40), (DENSE,) * 7, True)


def moved(offsets):
    """The second sequence begins one row late."""
    return offsets + (np.arange(len(offsets)) == 1).astype(np.int32)


@pytest.mark.parametrize("fault", ["keys", "gradients", "scale"])
def test_faults_are_seen(fault, monkeypatch):
    assert fuzz.failure(PLAIN) is None
    forward, backward = random_sequences.attention_varlen, random_sequences.attention_varlen_backward
    if fault == "gradients":
        monkeypatch.setattr(random_sequences, "attention_varlen_backward", lambda *args, **given: backward(
            *args[:-1], moved(args[-1]), **given))
    else:
        monkeypatch.setattr(random_sequences, "attention_varlen", lambda *args, **given: forward(
            *args[:-1], moved(args[-1]) if fault == "keys" else args[-1], **given | (
                {"scale": 0.13} if fault == "scale" else {})))
    assert "are off by" in str(fuzz.failure(PLAIN))
