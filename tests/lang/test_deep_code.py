"""Chains of elif, early returns and branches in each other, as many as generated code has, mean what Python means."""

from __future__ import annotations

import random

import numpy as np
import pytest

import moye as mo
from moye.errors import TraceError
from written import block


def launched(function, n=3):
    body = mo.jit(function)

    @mo.kernel
    def kernel(out, x, n):
        t = mo.thread_idx().x
        out[t] = body(t, x, n)

    x = np.arange(64, dtype=np.int32)
    checked, out = np.full(64, -77, np.int32), np.full(64, -77, np.int32)
    assert mo.check(kernel)[1, 64](checked, x, n).ok
    kernel[1, 64](out, x, n)
    assert (checked == out).all()
    return out.tolist(), kernel.compile(out, x, n, block=64, arch="sm_90a")


def chain(arms, value):
    tests = "".join(f"{'el' if i else ''}if {value} == {i}:\n    r = {3 * i + 1}\n" for i in range(arms))
    return f"r = 0\n{tests}return r"


@pytest.mark.parametrize("arms", [21, 40, 130])
@pytest.mark.parametrize("value", ["t", "x[t] * 2", "n"])
def test_a_chain_of_elif(arms, value):
    """Python nests 20 statements with blocks and a hundred levels of code; the chain is one level of the source."""
    function = block(chain(arms, value), "t, x, n")
    wanted = [3 * k + 1 if k < arms else 0 for t in range(64) for k in [{"t": t, "n": 3}.get(value, 2 * t)]]
    found, program = launched(function)
    assert found == wanted and program.spills == 0


@pytest.mark.parametrize("count", [30, 150])
def test_returns_one_after_the_other(count):
    text = "".join(f"if x[t] == {i}:\n    return {i} * n\n" for i in range(count)) + "return -1"
    assert launched(block(text, "t, x, n"))[0] == [3 * t if t < count else -1 for t in range(64)]


def test_early_ends_of_the_kernel_itself():
    @mo.kernel
    def kernel(out):
        t = mo.thread_idx().x
        for i in mo.static_range(120):
            if t == i:
                out[t] = -i
                return
        out[t] = 1

    out = np.zeros(128, np.int32)
    assert mo.check(kernel)[1, 128](out).ok
    assert out.tolist() == [-i for i in range(120)] + [1] * 8


def nested(rng, depth, indent=0):
    """Branches and a few loops in each other, with ends of loops and of the function."""
    tab = "    " * indent
    value = rng.choice(["t", "n", "k", f"x[(t + {rng.randrange(64)}) % 64]"])
    lines = [f"{tab}k = (k * 5 + {value}) % 1021"]
    if depth == 0:
        return lines
    end = rng.choice(["", "", f"{tab}    return k + 7", f"{tab}    break"]) if indent else ""
    if rng.random() < 0.06:
        lines += [f"{tab}for i{depth} in range({value} % 3 + 1):", *nested(rng, depth - 1, indent + 1)]
    else:
        test = rng.choice([f"k % {rng.randrange(2, 9)} != 0", f"n < {rng.randrange(6)}", f"t < {rng.randrange(4, 90)}"])
        arms = [nested(rng, depth - 1, indent + 1), nested(rng, 0, indent + 1)]
        if rng.random() < 0.5:
            arms.reverse()
        lines += [f"{tab}if {test}:", *arms[0], f"{tab}else:", *arms[1]]
    if end and ("return" in end or any(line.startswith("    " * i + "for") for i in range(indent) for line in lines)):
        lines += [f"{tab}if k % 97 == {rng.randrange(97)}:", end.replace("break", "k += 1")]
    return [*lines, f"{tab}k = (k + {rng.randrange(100)}) % 1021"]


@pytest.mark.parametrize("seed", range(12))
def test_branches_in_each_other(seed):
    rng = random.Random(seed)
    function = block("k = t\n" + "\n".join(nested(rng, rng.randrange(15, 75))) + "\nreturn k", "t, x, n")
    x = list(range(64))
    assert launched(function)[0] == [function(t, x, 3) for t in range(64)]


def test_more_loops_than_python_nests():
    """A loop of a kernel takes two of the statements that Python nests, up to a number of them."""
    def loops(count):
        heads = "".join("    " * i + f"for i{i} in range(n - 2):\n" for i in range(count))
        return block(f"r = 0\n{heads}" + "    " * count + "r += 1\nreturn r", "t, x, n")

    assert launched(loops(12))[0] == [1] * 64
    with pytest.raises(TraceError, match="loops of body are nested deeper than Python allows for a kernel") as error:
        launched(loops(18))
    assert error.value.hint == "put the inner ones into a function with @mo.jit"
