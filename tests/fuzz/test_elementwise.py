"""Random kernels of register tensors, a few seconds of them: the simulator, the emulator and NumPy agree.

``python tests/fuzz/elementwise.py 1000 300`` draws 300 by hand.
"""

from __future__ import annotations

import numpy as np
import pytest

from emulator import build
from fuzz import elementwise, registers
from fuzz.elementwise import draw

FIRST, COUNT = 97, 3


@pytest.mark.slow
@pytest.mark.skipif(build.compiler() is None, reason="the emulator needs g++ on x86-64")
def test_three_answers_agree():
    assert not elementwise.judged([draw(seed) for seed in range(FIRST, FIRST + COUNT)])


def test_numpy_can_tell_most():
    """Of most elements NumPy is sure, and they are not all zero."""
    count = told = other = 0
    for seed in range(20):
        one = draw(seed)
        found = registers.run(one.source, f"elementwise_{seed}", dict(zip(one.arrays, one.arguments(), strict=True)))
        for v, sure in (found[name] for name in found if name[0] in "oqz"):
            count, told, other = count + v.size, told + int(sure.sum()), other + int((sure & (v != 0)).sum())
    assert told > 0.7 * count and other > 0.5 * count


def test_a_difference_is_seen():
    """One bit of one result, which is told by name and place."""
    one = draw(3)
    name = next(name for name in one.arrays if name[0] == "o")
    right, wrong = one.arguments(), one.arguments()
    at = list(one.arrays).index(name)
    wrong[at].flat[5] += np.ones((), wrong[at].dtype)
    assert elementwise._differ(one, right, wrong, "sm_90a").startswith(f"{name}[5] is 0")
