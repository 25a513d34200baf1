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
