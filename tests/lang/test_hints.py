"""Hints that a newcomer follows: what is refused, what the hint says, and that it works."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

import moye as mo
from moye.errors import MoyeError
from written import block


@mo.kernel
def other(out, x):
    out[0] = x[0]


@mo.jit
def shared_part(out, x):
    out[0] = x[0]


def plain_round(v):
    return round(v)


def plain_digits(v):
    return round(v, 1)


def plain_max(v):
    return max(v, 2)


def plain_int(v):
    return int(v)


def plain_range(n):
    total = 0
    for i in range(n):
        total = total + i
    return total


def plain_floor(v):
    return math.floor(v) + math.ceil(v) * 10 + math.trunc(-v) * 100


folded = functools.reduce
jit_max, jit_int, jit_range = map(mo.jit, (plain_max, plain_int, plain_range))


def launched(text, dtype=np.float32):
    """What a kernel stores of x = 1.6, 2.6, ... and n = 3."""
    out, x = np.zeros(2, dtype), np.arange(4, dtype=np.float32) + np.float32(1.6)
    names = {name: value for name, value in globals().items() if not name.startswith("__")}
    mo.kernel(block(text, "out, x, n", names))[1, 1](out, x, 3)
    return out.tolist()


@pytest.mark.parametrize(("text", "message", "hint", "mended", "expected"), [
    ("other(out, x)", "the kernel other is called in another kernel", "a function with @mo.jit, which both call",
     "shared_part(out, x)", 1.6),
    ("other[1, 1](out, x)", "argument 'out' is of the kernel that is being traced", "with @mo.jit, which both call",
     "shared_part(out, x)", 1.6),
    ("other.launch(out, x, grid=1, block=1)", "a kernel launches no kernels", "with @mo.jit, which both call",
     "shared_part(out, x)", 1.6),
    ("out[0] = plain_digits(x[0])", "a kernel rounds to integers only", "mo.round(x * 100) / 100 rounds to two digits",
     "out[0] = mo.round(x[0] * 10) / 10", 1.6),
    ("out[0] = round(x[0], 1)", "a kernel rounds to integers only", "mo.round(x * 100) / 100 rounds to two digits",
     "out[0] = mo.round(x[0] * 100) / 100", 1.6),
    ("out[0] = folded(max, [x[0], x[1]])", "cannot become a Python bool", "pass mo.max in place of max",
     "out[0] = folded(mo.max, [x[0], x[1]])", 2.6),
    ("out[0] = plain_max(x[0])", "cannot become a Python bool",
     "max, min, any and all take it in a function with @mo.jit",
     "out[0] = jit_max(x[0])", 2.0),
    ("out[0] = plain_int(x[0])", "cannot become a Python int", "and so does int(x) in a function with @mo.jit",
     "out[0] = jit_int(x[0]) + x[0].to(mo.int32)", 2.0),
    ("out[0] = plain_range(n)", "a static integer is needed", "range(n) is a loop in a function with @mo.jit",
     "out[0] = jit_range(n)", 3.0),
    ("out[0] = math.exp(x[0])", "cannot become a Python float", "mo.exp for math.exp",
     "out[0] = mo.log(mo.exp(x[0]))", 1.6),
    ("out[0] = np.float32(n)", "NumPy does not take scalars", "x.to(mo.float32) converts",
     "out[0] = n.to(mo.float32)", 3.0),
    ("out[0] = x[-1]", "index -1 is outside mode 0", "mo.size(x, 0) - 1 is the last one",
     "out[0] = x[mo.size(x, 0) - 1]", 4.6),
    ("out[0] = x[0] if x else 0", "has no truth value", "x is not None asks whether there is one",
     "out[0] = x[0] if x is not None else 0", 1.6),
    ("r = mo.fragment(4, mo.float32)\nr.fill(n)\nif r > 2 and r < 4: out[0] = 1", "has no truth value",
     "& and | combine elements, x.reduce(\"or\") is whether any is true",
     "r = mo.fragment(4, mo.float32)\nr.fill(n)\nif ((r > 2) & (r < 4)).reduce(\"or\"): out[0] = 1", 1.0),
    ("out[0] = (1.0, 2.0, 5.0)[n]", r"\(1.0, 2.0, 5.0\) is a tuple of 3 elements, and n, at which it is indexed",
     "pass an array, np.asarray((1.0, 2.0, 5.0))", "out[0] = x[n - 2]", 2.6),
    ("out[0] = ord('abcd'[n])", "'abcd' is a str of 4 elements, and n, at which it is indexed", "",
     "out[0] = ord('a')", 97.0),
    ("x[n][0] = 1.0", r"x\[n\]\[0\]: a scalar of the kernel has no elements", "x[i, :] is a row", "out[0] = x[1]", 2.6),
    ("if x[0] > 0 & x[1] < 3: out[0] = 1", "bitwise operations are for integers, not float32",
     "& and | bind before comparisons: (x > 0) & (x < 3)", "if (x[0] > 0) & (x[1] < 3): out[0] = 1", 1.0),
    ("out[0] = x[0] ^ 1", "bitwise operations are for integers, not float32", "x.bitcast(mo.uint32) is x's bits",
     "out[0] = (x[0].bitcast(mo.uint32) >> 29) ^ 1", 0.0),
    ("mo.copyto(mo.CpAsync(mo.float32), out[0], x[0])", ", the value of an element, the value of an element",
     "mo.tile(x, (1,), (i,)) is a view of the element x[i]",
     "mo.copyto(mo.tile(out, (1,), (0,)), mo.tile(x, (1,), (0,)))", 1.6),
    ("out[0] = x @ x", "unsupported operand", "mo.gemm(A, B, C) is C += A * B.T", "out[0] = 1", 1.0),
    ("print(x)", "has a number of elements that is known only when the kernel runs", "print a slice",
     "out[0] = 1", 1.0),
    ("r, s = mo.fragment(4, mo.float32), mo.fragment(3, mo.float32)\nr.fill(1)\ns.fill(1)\nr + s",
     r"r 4:1 and s 3:1 do not fit together: mode 0 has 4 and 3 elements", "",
     "out[0] = 1", 1.0),
    ("s = mo.fragment(2, float)\nout[0] = 1", "no dtype of moye", "use mo.float32",
     "s = mo.fragment(2, mo.float32)\ns[0] = 3\nout[0] = s[0]", 3.0),
    ("global launches\nlaunches = 1", "cannot use global", "write it into an array that is a parameter",
     "out[0] = 1", 1.0),
    ("for i in range(n):\n    yield i", "is a generator", "write into an array instead",
     "for i in range(n):\n    out[0] = i", 2.0),
    ("v = 0\nwhile v < 20000:\n    v += 1\nout[0] = v", "is unrolled while tracing, and not done after 16384 turns",
     "such as mo.int32(0)", "v = mo.int32(0)\nwhile v < 20000:\n    v += 1\nout[0] = v", 20000.0),
    ("r = mo.fragment(2, mo.float32)\nmo.copyto(r, x[n - 2:n])", "the bounds of a slice are static integers",
     "mo.domain_offset((begin,), x)",
     "r = mo.fragment(2, mo.float32)\nmo.copyto(r, mo.tile(mo.domain_offset((n - 2,), x), (2,), (0,), ragged=True))\n"
     "out[0] = r[1]", 3.6),
    ("r = mo.fragment(2, mo.float32)\nr.fill(1)\nr.reduce('sum', axis=0)", "unexpected keyword argument 'axis'",
     "Tensor.reduce(kind, mode=None, init=None)",
     "r = mo.fragment(2, mo.float32)\nr.fill(1)\nout[0] = r.reduce('sum', mode=0)", 2.0),
    ("mo.PipelineAsync(2, 32, 32).consumer_wait()", "missing 1 required positional argument: 'state'",
     "PipelineAsync.consumer_wait(state", "out[0] = 1", 1.0),
    ("acc = [0.0, 0.0, 0.0]\nacc[n % 3] += x[0]", "acc is a list of 3 elements",
     "keep what the kernel writes in mo.shared_array",
     "acc = mo.shared_array(mo.float32, 3)\nacc.fill(0)\nacc[n % 3] += x[0]\nout[0] = acc[0]", 1.6),
    ("out[0] = x[n / 2]", "^the index is a float32, not an integer", "// divides integers", "out[0] = x[n // 2]", 2.6),
    ("out[0] = mo.float32[n]", r"^mo\.float32 is a dtype, which has no elements",
     "mo.TensorLike(dtype, shape) for compile", "out[0] = mo.float32(n)", 3.0),
    ("out[0] = mo.identity_tensor((4, 4))[n, 1]", "is one element; it cannot hold", "are coordinates, not the array's",
     "out[0] = mo.identity_tensor((4, 4))[n, 1][0]", 3.0),
    ("out.fill(0, 1, 2)", r"^Tensor.fill\(\) takes 2 positional arguments", "", "out.fill(7)", 7.0),
])
def test_hints_work(text, message, hint, mended, expected):
    with pytest.raises(MoyeError, match=message) as error:
        launched(text)
    assert hint in (error.value.hint or "")
    assert launched(mended)[0] == pytest.approx(expected)


def test_rounding_in_plain_functions():
    assert launched("out[0] = plain_round(x[1])\nout[1] = plain_round(n)", np.int32) == [3, 3]
    assert launched("out[0] = plain_floor(x[1])\nout[1] = math.floor(n)", np.int32) == [2 + 30 - 200, 3]


def test_math_functions_of_registers_that_tracing_decides():
    assert launched("out[0] = math.floor(2.5) + round(n // 4 * 0 + 2)", np.int32)[0] == 4


@pytest.mark.parametrize(("decorator", "method"), [(mo.kernel, staticmethod), (mo.jit, staticmethod),
                                                     (mo.kernel, classmethod)])
def test_decorators_of_methods_stand_above(decorator, method):
    with pytest.raises(MoyeError, match=f"@{method.__name__} stands above it"):
        decorator(method(plain_max))
    assert callable(method(decorator(plain_max)).__func__)


def test_calls_of_a_function_that_calls_itself_are_shown_three_times():
    @mo.jit
    def product(n, depth: mo.Constexpr):
        return n if depth == 0 else n * product(n, depth - 1)

    @mo.kernel
    def powers(out, n):
        out[0] = product(n, 40)

    with pytest.raises(mo.SimulationError, match="which does not fit 32 bits") as error:
        powers[1, 1](np.zeros(1, np.int32), 3)
    text = str(error.value)
    assert text.count("in product") == 3
    assert "  ... and 19 more of these calls\n" in text


def test_a_tensor_map_has_no_elements():
    @mo.kernel
    def k(out, tma):
        out[0] = tma[0, 1]

    tma = mo.make_tma_copy(mo.TmaLoad(), np.zeros((8, 32), np.float32), mo.make_layout((8, 32), (32, 1)))
    with pytest.raises(mo.TraceError, match=r"^tma is a TMA copy, which has no elements") as error:
        k[1, 1](np.zeros(1, np.float32), tma)
    assert "it brings tiles of tma.tensor to shared memory" in error.value.hint
