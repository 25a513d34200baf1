"""Copies between drawn layouts of one size: element k of the source arrives at element k, or the copy is refused.

python tests/tensor/test_copies_drawn.py 1000 400       # first seed, copies
"""

from __future__ import annotations

import itertools
import random
import sys

import numpy as np
import pytest

import moye as mo

ENDS = [a + b for a, b in itertools.product("gsr", repeat=2)]


def drawn_layout(rng: random.Random, count: int) -> mo.Layout:
    """``count`` elements in any order, in nested modes, some of one element, with gaps between some."""
    extents = [1] * (rng.random() < 0.4)
    while count > 1:
        extents.append(rng.choice([d for d in range(2, count + 1) if count % d == 0]))
        count //= extents[-1]
    rng.shuffle(extents)
    strides, step = [0] * len(extents), rng.choice([1, 1, 2])
    for place in rng.sample(range(len(extents)), len(extents)):
        strides[place] = step
        step = step * extents[place] + rng.choice([0, 0, 0, 1])
    cuts = sorted(rng.sample(range(1, len(extents)), rng.randrange(len(extents))))
    parts = list(zip([0, *cuts], [*cuts, len(extents)], strict=True))
    return mo.make_layout(*(mo.make_layout(tuple(extents[a:b]), tuple(strides[a:b])) for a, b in parts))


@mo.kernel
def moved(out, x, of, to, ends: mo.Constexpr):
    given, wanted = x.with_layout(of), out.with_layout(to)
    src, dst = given, wanted
    if ends[0] != "g":
        src = mo.shared_array(x.dtype, of) if ends[0] == "s" else mo.fragment(of, x.dtype)
        for k in mo.static_range(mo.size(of)):
            src[k] = given[k]
    if ends[1] != "g":
        dst = mo.shared_array(out.dtype, to) if ends[1] == "s" else mo.fragment(to, out.dtype)
    mo.copyto(dst, src)
    if ends[1] != "g":
        for k in mo.static_range(mo.size(to)):
            wanted[k] = dst[k]


def copied_or_refused(seed: int) -> bool:
    rng = random.Random(seed)
    count, ends = rng.choice([4, 6, 8, 12, 16]), rng.choice(ENDS)
    of, to = drawn_layout(rng, count), drawn_layout(rng, count)
    if rng.random() < 0.3:
        to = mo.make_layout(of.shape)
    x = np.arange(1, mo.layout.cosize(of) + 1).astype(rng.choice([np.float32, np.int8, np.float16]))
    out = np.zeros(mo.layout.cosize(to), rng.choice([x.dtype, np.dtype(np.float32)]))
    expected = out.copy()
    for k in range(count):
        expected[to(k)] = x[of(k)]
    try:
        moved[1, 1](out, x, of, to, ends)
    except mo.TensorError:
        return False
    assert (out == expected).all(), (seed, ends, of, to)
    return True


def test_every_element_arrives_or_none():
    assert sum(map(copied_or_refused, range(12))) > 5


def shapes(out: str, x: str, pred: str = "") -> mo.errors.TensorError:
    @mo.kernel
    def copies(a, b):
        held = mo.fragment(mo.Layout.parse(pred or "1:0"), mo.bool)
        held.fill(True)
        mo.copyto(a.with_layout(mo.Layout.parse(out)), b.with_layout(mo.Layout.parse(x)), pred=held if pred else None)

    with pytest.raises(mo.TensorError) as error:
        copies[1, 1](np.zeros(16, np.float32), np.ones(16, np.float32))
    return error.value


def test_a_mode_of_one_element_takes_one():
    assert "mode 0 has 2 elements in a and 1 in b" in str(shapes("(2,1):(1,0)", "(1,2):(0,1)"))
    assert "mode 1 has 2 elements in b and 1 in a" in str(shapes("(8,1,2):(1,0,8)", "(8,2,1):(1,8,0)"))
    wide = shapes("(4,1):(1,0)", "(4,1):(1,0)", pred="(4,2):(1,4)")
    assert "has more elements than a (4,1):(1,0) in a mode of one" in str(wide)


def test_a_dynamic_mode_beside_one_element_is_checked_by_each_launch():
    @mo.kernel
    def first_column(out, x):
        mo.copyto(out.with_layout(mo.make_layout((mo.size(out, 0), 1))), x)

    out = np.zeros((3, 2), np.float32)
    first_column[1, 1](out, np.ones((3, 1), np.float32))
    assert out.ravel().tolist() == [1, 1, 1, 0, 0, 0]
    with pytest.raises(mo.PreconditionError, match="extent 2 of mode 1 of x is not 1"):
        first_column[1, 1](out, np.ones((3, 2), np.float32))


if __name__ == "__main__":
    first, number = map(int, sys.argv[1:])
    print(sum(map(copied_or_refused, range(first, first + number))), "of", number, "copied, the others refused")
