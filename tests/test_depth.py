"""Long expressions and many statements, as generated code has them: traced, simulated, checked and printed."""

from __future__ import annotations

import linecache
import sys

import numpy as np
import pytest

import moye as mo

SOURCES = {
    "store": lambda n: "    x[mo.thread_idx().x] = " + " + ".join(["n"] * n) + "\n",
    "assume": lambda n: "    mo.assume(" + " + ".join(["n"] * n) + " > 0)\n    x[0] = n\n",
    "condition": lambda n: "    if " + " + ".join(["n"] * n) + " > 0:\n        x[0] = 5\n",
    "statements": lambda n: "    a = n\n" + "    a = a + n\n" * n + "    x[mo.thread_idx().x] = a\n",
    "index": lambda n: "    a = n\n" + "    a = a + n\n" * n + "    x[a - a] = 1\n",
    "floats": lambda n: "    f = mo.float32(n)\n    x[0] = (" + " * 1.5 + ".join(["f"] * n) + ").to(mo.int32)\n",
}


@pytest.mark.slow
@pytest.mark.parametrize(("where", "count"), [("store", 2000), ("assume", 2000), ("condition", 2000),
                                              ("statements", 3000), ("index", 3000), ("floats", 1200)])
def test_long_code(where, count):
    name = f"<long {where}>"
    source = "def k(x, n):\n" + SOURCES[where](count)
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space = {"mo": mo}
    exec(compile(source, name, "exec"), space)
    limit, x = sys.getrecursionlimit(), np.zeros(4, np.int32)
    kernel = mo.kernel(space["k"])
    assert mo.check(kernel)[1, 1](x, 1).ok
    assert x[0] == {"store": 2000, "assume": 1, "condition": 5, "statements": 3001, "index": 1, "floats": 1799}[where]
    assert kernel.compile(x, 1, block=1, arch="sm_80").source
    assert sys.getrecursionlimit() == limit


def test_a_grid_may_be_an_array_of_integers():
    @mo.kernel
    def k(x):
        x[mo.block_idx().x] = 1.0
    x = np.zeros(4, np.float32)
    k[np.array([4, 1]), np.array([1])](x)
    assert (x == 1).all()


@pytest.mark.parametrize("coordinate", [1.5, "a", (1, 2.5), np.zeros(2)])
def test_a_coordinate_that_is_none(coordinate):
    with pytest.raises(mo.LayoutError, match="made of integers"):
        mo.make_layout((4, 8))(coordinate)


STEPS = {
    "sums": lambda a, b: a + b, "products": lambda a, b: a * b, "words": lambda a, b: (a ^ b) - (a & b),
    "remainders": lambda a, b: (a + b) % 1024, "extrema": lambda a, b: mo.max(a - 1, b) + mo.min(a, b + 1),
    "choices": lambda a, b: mo.where(a < b, a + 1, b - a)}
USES = ("index", "bound", "assumption", "condition", "view")


@mo.kernel
def of_both_before(x, out, n, step: mo.Constexpr, use: mo.Constexpr):
    """Each of forty numbers is made of the two before it, so the last one is a formula of a hundred million terms."""
    found = [n, n + 1]
    for _ in mo.static_range(40):
        found.append(step(found[-1], found[-2]))
    last = found[-1]
    if use == "bound":
        for i in range(last % 7):
            out[i] = 1
    elif use == "assumption":
        mo.assume(last != 12345)
    elif use == "condition":
        if last > 3 and last % 2 == 0:
            out[0] = 1
    elif use == "view":
        mo.tile(out, (8,), (last & 3,))[0] = 1
    out[last & 31] = x[last & 15]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("step", STEPS)
def test_a_formula_is_as_long_as_its_operations(step, use):
    """Not as the ways through them: nothing walks what is used twice twice (or it would take days)."""
    x, out = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    arguments = x, out, 0 if step == "products" else 1, STEPS[step], use
    source = of_both_before.compile(*arguments, block=1, arch="sm_90a").source
    assert len(source.splitlines()) < 500
    assert len(mo.check(of_both_before)[1, 1](*arguments).findings) <= 1         # an overflow
