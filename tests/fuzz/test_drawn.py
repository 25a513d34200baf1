"""Drawn calls of rows, moves and folds are right wherever arrays lie and whatever they hold, and touch nothing else.

By hand, more: ``python tests/fuzz/drawn.py SEED COUNT``.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from drawn_memory import KINDS, TYPES, Memory, near, numbers, rounded
from fuzz.drawn import FAMILIES, failure
from moye import kernels


@pytest.mark.parametrize("family", FAMILIES)
def test_a_few(family):
    for seed in range(3 if family == "linear_cross_entropy" else 10):       # several products each
        assert (why := failure(family, seed)) is None, f"{family} {seed}: {why}"


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_more(family):
    for seed in range(10, 60):
        assert (why := failure(family, seed)) is None, f"{family} {seed}: {why}"


# --- what is drawn, and what is found --------------------------------------------------------------------------------


def test_memory_of_all_kinds():
    rng, seen = np.random.default_rng(0), set()
    for _ in range(300):
        memory = Memory(rng)
        x, values = memory.read((3, 5), "f32", str(rng.choice(KINDS)))
        strides = memory.arrays[0][2] is None and values.shape == (3, 5) and (
            x.strides if memory.library == "numpy" else tuple(4 * step for step in x.stride()))
        seen |= {memory.library, "repeated" if 0 in strides else "", "turned" if strides[0] < strides[1] else "",
                 "gaps" if strides[0] > 5 * strides[1] else "", "windows" if strides == (4, 4) else ""}
    assert seen == {"numpy", "torch", "repeated", "turned", "gaps", "windows", ""}


def test_writing_elsewhere_is_found():
    for what in ("an input", "memory around an output"):
        memory = Memory(np.random.default_rng(1), "numpy")
        _, values = memory.read((4, 8), "f32")
        _, out = memory.written((4, 8), "f32")
        memory.check()
        out[...] = values
        memory.check()
        memory.arrays[0 if what == "an input" else 1][0][...] ^= 1
        with pytest.raises(AssertionError, match=what):
            memory.check()


def test_wrong_elements_are_found():
    want = np.array([1.0, np.nan, np.inf, 1e-3])
    near(want.astype(np.float32), want, 0, "right")
    for wrong in ([1.0, np.nan, np.inf, 1.001e-3], [1.0, 0, np.inf, 1e-3], [1.0, np.nan, 3e38, 1e-3]):
        with pytest.raises(AssertionError, match="1 of 4 in f32"):
            near(np.array(wrong, np.float32), want, 1e-7, "wrong")


def test_rounded_once():
    """6.234374999992 is nearer to 6.21875 than to 6.25; float32 between them would make it a tie."""
    assert rounded(np.array(6.234374999992), "bf16") == 6.21875
    for name in ("bf16", "f16", "f32"):
        x = numbers(np.random.default_rng(0), (2000,), name, "normal")
        assert np.array_equal(rounded(x.astype(np.float64), name), x.astype(np.float64)), TYPES[name]


def test_the_gradient_of_a_loss_of_one_mode():
    """``loss`` and ``dloss`` may be (1,) where losses are added up, also of logits without rows."""
    logits, label, one = np.array([1.0, 2.0, 4.0], np.float32), np.array(1), np.full(1, 0.5, np.float32)
    loss, found, lse = np.zeros(1, np.float32), np.zeros(3, np.float32), np.zeros((), np.float32)
    kernels.cross_entropy(loss, logits, label, lse=lse, dlogits=found, dloss=one)
    again = np.zeros(3, np.float32)
    kernels.cross_entropy_backward(again, one, logits, label, lse)
    p = np.exp(logits) / np.exp(logits).sum()
    for gradient in (found, again):
        assert np.allclose(gradient, 0.5 * (p - [0, 1, 0]), atol=1e-6)
