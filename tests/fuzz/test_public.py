"""Every public function with junk: an error of moye's own in one sentence, or a result; no internal one, no hang.

By hand, longer and with what was found: ``python tests/fuzz/junk.py SEED CALLS_EACH``.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import moye as mo
from fuzz import junk

SECONDS = 10.0


@pytest.mark.slow
@pytest.mark.parametrize("namespace", junk.NAMESPACES)
def test_functions_on_the_host(namespace):
    found = junk.faults(junk.calls(namespace, random.Random(20), 4), SECONDS)
    assert not found, "\n".join(map(str, found))


@pytest.mark.slow
def test_functions_and_methods_in_a_kernel():
    """A sample: all of them take a minute."""
    rng = random.Random(21)
    drawn = list(junk.calls_in_a_kernel(rng, 4))
    found = junk.faults(iter(rng.sample(drawn, 4000)), SECONDS)
    assert not found, "\n".join(map(str, found))


def test_the_judge_sees_internal_errors_and_hangs():
    """The judge itself: what it must call a fault, and what not."""
    def internal(x):
        return x.no_such_thing

    def hang(x):
        while True:
            pass

    def own(x):
        raise mo.ArgumentError("one sentence")

    assert "AttributeError" in junk.judged(junk.Call("f", internal, (1,)), 5).error
    assert "Hang" in junk.judged(junk.Call("f", hang, (1,)), 0.2).error
    assert junk.judged(junk.Call("f", own, (1,)), 5) is None
    assert junk.judged(junk.Call("f", own, (1, 2)), 5) is None, "Python's own sentence about a call that does not bind"


@pytest.mark.parametrize(("call", "result"), [
    (lambda: mo.layout.ceil_div(np.int64(100), 32), 4), (lambda: str(mo.make_layout(np.int64(3))), "3:1"),
    (lambda: mo.size(mo.make_layout((np.int32(4), np.uint8(8)))), 32),
    (lambda: mo.crd2idx((np.int64(1), 2), (4, 8)), 9), (lambda: mo.rank(mo.make_layout((4, 8)), np.int8(1)), 1),
    (lambda: mo.Swizzle(np.int64(3), 3, 3), mo.Swizzle(3, 3, 3)),
    (lambda: mo.layout.shape_div((8, np.int64(4)), 2), (4, 4)), (lambda: mo.layout.is_static(np.int64(3)), True),
])
def test_numpys_integers_are_integers(call, result):
    found = call()
    assert found == result and type(found) is type(result)


@pytest.mark.parametrize(("call", "sentence"), [
    (lambda: mo.crd2idx("x", (4, 8)), r"crd2idx: crd must be a coordinate: .*, not 'x' of type str$"),
    (lambda: mo.layout.offsets(3), r"offsets: layout must be a layout, not 3 of type int$"),
    (lambda: mo.logical_divide(mo.make_layout(8), 0), r"logical_divide is not defined for layout = 8:1, tiler = 0 \("),
    (lambda: mo.Swizzle("a", 0, 0), r"the swizzle's bits has the leaf 'a', which is not an integer$"),
    (lambda: mo.E("a"), r"E: path must be an integer, not 'a' of type str$"),
])
def test_sentences(call, sentence):
    with pytest.raises(mo.LayoutError, match=sentence):
        call()
