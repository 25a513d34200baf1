"""Text made of the kernel's values: printed on the device, or refused; ``raise`` and ``assert False`` in branches."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import moye as mo
from moye.errors import TraceError
from moye.lang.texts import formatted_value
from moye.sim.operations import debug


def printed(kernel, capsys, *args, block=1):
    """What the threads print in the simulator, without their places."""
    kernel[1, block](*args)
    out = capsys.readouterr().out
    return [line.partition("] ")[2] for line in out.splitlines()]


@dataclass
class Pair:
    first: Any
    second: Any


def made(body):
    def k(x, n, u: mo.uint32, b: mo.bool):
        body(x, n, u, b)
    return mo.kernel(k)


X = np.array([0.5, -2.25, 1e6], np.float32)

PYTHON = [
    lambda x, n, u, b: f"n={n}",
    lambda x, n, u, b: f"{n=}",
    lambda x, n, u, b: f"{n:5}|{n:<5}|{n:>5}|{n:05}|{n:+d}|{n: d}|{n:5d}",
    lambda x, n, u, b: f"{x[0]:.2f} {x[1]:8.3f} {x[1]:<8.1e}| {x[2]:g} {x[0]:+.0f} {x[1]:08.2f} {x[2]:.3G}",
    lambda x, n, u, b: f"{u:x} {u:#X} {u:o} {u:08x} {u}",
    lambda x, n, u, b: f"{b} {not b}",
    lambda x, n, u, b: f"{n:.1f} {n + 1}",
    lambda x, n, u, b: f"{'a' if n > 3 else 'b'} {3:>4} {{}} {'lit'!r}" if False else f"{3:>4} {{}} {'lit'!r} {n}",
    lambda x, n, u, b: "n is " + str(n) + ", u is " + format(u, "x"),
    lambda x, n, u, b: f"{f'<{n}>'} %d 100%",
    lambda x, n, u, b: f"{[n, 2]} {(n,)} {{'k': 1}} {n!r}",
    lambda x, n, u, b: f"{n:{4}d}",
    lambda x, n, u, b: f"{n!s} {n!r}",
    lambda x, n, u, b: f"{u - 48879:#x} {u:#X} {u:#010x} {n:#5d} {x[2]:#.3g} {u:#d}",
]


@pytest.mark.slow
@pytest.mark.parametrize("make", PYTHON, ids=lambda f: str(f.__code__.co_firstlineno))
def test_printed_as_python_does(make, capsys):
    source = __import__("inspect").getsource(make).strip().rstrip(",").partition(": ")[2]
    name = f"<texts {make.__code__.co_firstlineno}>"
    text = f"def k(x, n, u: uint32, b: bool_):\n    print({source})\n"
    import linecache
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    from moye import dtypes
    space = {"uint32": dtypes.uint32, "bool_": dtypes.bool_, "__name__": __name__}
    exec(compile(text, name, "exec", dont_inherit=True), space)
    kernel = mo.kernel(space["k"])
    assert printed(kernel, capsys, X.copy(), -7, 48879, True) == [make(X.tolist(), -7, 48879, True)]
    cuda = kernel.compile(X, -7, 48879, True, block=1, arch="sm_90a").source
    assert "printf(" in cuda and "value" not in cuda.partition("printf(")[2]


SPECS = [f"{align}{sign}{alt}{zero}{width}{kind}" for align in ("", "<", ">") for sign in ("", "+", " ", "-")
         for alt in ("", "#") for zero in ("", "0") for width in ("", "2", "9", "5.1") for kind in "dxXoeEfFgG"]
EDGES = {"uint32": (0, 8, 48879, 2**32 - 1), "int32": (0, -7, 1234), "float32": (0.5, -1e6, float("inf"), -0.0)}


@pytest.mark.parametrize("dtype", EDGES)
def test_printf_shows_what_python_shows(dtype):
    """Of the formats that are taken: ``%#x`` of 0 has no prefix in C, ``%+u`` no sign, ``%06f`` no zeros before inf."""
    taken, library, room = {}, ctypes.CDLL(None), ctypes.create_string_buffer(64)

    def collect(value):
        for spec in SPECS:
            with contextlib.suppress(TraceError):
                taken[spec] = formatted_value(value, spec)

    @mo.kernel
    def k(x):
        collect(x[0])
    k.trace(np.zeros(1, dtype), block=1)
    assert len(taken) > 100
    for (spec, parts), value in itertools.product(taken.items(), EDGES[dtype]):
        text, form = "".join(p for p in parts if isinstance(p, str)), parts[-1][1]
        given = ctypes.c_double(value) if form[-1] in "eEfFgG" else ctypes.c_uint32(value % 2**32)
        library.snprintf(room, ctypes.c_size_t(64), form.encode(), given)
        simulated = text + debug._text(np.dtype(dtype).type(value), form)
        assert text + room.value.decode() == simulated, (spec, value)
        assert simulated == format(value, spec) or (np.isinf(value) and "0" in spec), (spec, value)


def test_each_thread_prints_its_own(capsys):
    @mo.kernel
    def k(x, n):
        t = mo.thread_idx().x
        print(f"{t}: {x[t]:.1f}", end=f" of {n}\n")
    assert printed(k, capsys, X.copy(), 3, block=3) == ["0: 0.5 of 3", "1: -2.2 of 3", "2: 1000000.0 of 3"]


def test_lists_and_tensors_are_printed_by_value(capsys):
    @mo.kernel
    def k(x, n):
        r = mo.fragment(2, mo.float32)
        r.fill(1.5)
        print([n, "a"], {"n": n}, (x[0],))
        print(f"r: {r}")
    assert printed(k, capsys, X.copy(), 3) == ["[3, 'a'] {'n': 3} (0.5,)", "r: r [1.5, 1.5]"]


def test_static_text_stays_python(capsys):
    @mo.kernel
    def k(x, n):
        kind = f"{mo.size(x.layout.shape) if False else 3:>2}" + str([1, 2])
        assert kind == " 3[1, 2]"
        print(kind)
    assert printed(k, capsys, X.copy(), 3) == [" 3[1, 2]"]


def helper(n):
    return f"<{n}>"


class Shows:
    def __init__(self, v):
        self.v = v

    def __repr__(self):
        return f"Shows({self.v})"


def refused_bodies():
    yield "percent", lambda x, n, u, b: print("%s" % n)  # noqa: UP031
    yield "percent_d", lambda x, n, u, b: print("%d" % n)  # noqa: UP031
    yield "percent_f", lambda x, n, u, b: print("%.2f" % x[0])  # noqa: UP031
    yield "dot_format", lambda x, n, u, b: print("{}".format(n))  # noqa: UP032
    yield "dot_format_spec", lambda x, n, u, b: print("{:>5}".format(n))  # noqa: UP032
    yield "join", lambda x, n, u, b: print(" ".join(map(repr, [n])))
    yield "plain_helper", lambda x, n, u, b: print(helper(n))
    yield "user_repr", lambda x, n, u, b: print(f"{Shows(n)}")
    yield "dataclass", lambda x, n, u, b: print(f"{Pair(n, 1)}")
    yield "repr_in_list", lambda x, n, u, b: print("a" + repr([n]))


@pytest.mark.parametrize(("name", "body"), list(refused_bodies()), ids=lambda x: x if isinstance(x, str) else "")
def test_other_formatting_is_refused(name, body):
    with pytest.raises(TraceError, match=r"known only when|a scalar of the kernel") as caught:
        made(body)[1, 1](X.copy(), 1, 2, True)
    assert "value'" not in str(caught.value)


def as_key(x, n, u, b):
    table = {f"{n}": 1}
    x[0] = table["1"]


def compared(x, n, u, b):
    if f"{n}" == "1":
        x[0] = 1


def measured(x, n, u, b):
    x[0] = len(f"{n}")


def searched(x, n, u, b):
    x[0] = f"{n}".find("1")


def odd_format(x, n, u, b):
    print(f"{x[0]:^9}")


def comma_format(x, n, u, b):
    print(f"{n:,}")


def hex_of_a_signed(x, n, u, b):
    print(f"{n:x}")


def dynamic_width(x, n, u, b):
    print(f"{1:{n}}")


@pytest.mark.parametrize("body", [as_key, compared, measured, searched, odd_format, comma_format, hex_of_a_signed,
                                  dynamic_width], ids=lambda f: f.__name__)
def test_text_of_the_kernel_can_only_be_printed(body):
    device = mo.jit(body)
    with pytest.raises(TraceError) as caught:
        made(lambda *args: device(*args))[1, 1](X.copy(), 1, 2, True)
    assert re.search("known only when the kernel runs|printf has no format", str(caught.value))


def test_messages_of_assertions_name_the_expression():
    @mo.kernel
    def k(x, n):
        assert n < 3, f"n={n} and x={x[0]:.1f}"
        x[0] = 1
    with pytest.raises(mo.MoyeError, match=re.escape("n={n} and x={x[0]}")):
        k[1, 1](X.copy(), 5)


@pytest.mark.parametrize("fails", [False, True])
def test_messages_of_assertions_change_nothing(fails):
    """Python makes a message only where its assertion fails."""
    @mo.kernel
    def stores(x, n):
        assert n < 3, f"it was {mo.atomic_add(x, 0, 1.0)}"

    @mo.kernel
    def counts(x, n):
        seen = [0]
        assert n < 3, f"after {seen.__setitem__(0, 1)}"
        x[0] = seen[0]

    for kernel in (stores, counts):
        with pytest.raises(TraceError, match="the message of an assert changes something"):
            kernel[1, 1](X.copy(), 5 if fails else 1)


# --- raise -----------------------------------------------------------------------------------------------------------


@mo.kernel
def raises_in_a_branch(x, n):
    if n > 4:
        raise ValueError("too large")
    x[0] = 1


@mo.kernel
def raises_in_an_else(x, n):
    if n < 4:
        x[0] = 1
    else:
        raise ValueError


@mo.kernel
def raises_in_a_loop(x, n):
    for i in range(n):
        if i == 3:
            raise ValueError(f"i = {i}")
        x[0] = i


@mo.jit
def checked(n):
    if n > 4:
        raise ValueError("too large")
    return n


@mo.kernel
def raises_in_a_device_function(x, n):
    x[0] = checked(n)


@mo.kernel
def raises_behind_a_return(x, n):
    if n < 4:
        return
    raise ValueError("too large")


@pytest.mark.parametrize("kernel", [raises_in_a_branch, raises_in_an_else, raises_in_a_loop, raises_behind_a_return,
                                    raises_in_a_device_function], ids=lambda k: k.__name__)
def test_raise_under_a_traced_condition_is_refused(kernel):
    with pytest.raises(TraceError, match="cannot raise under a traced condition") as caught:
        kernel[1, 1](X.copy(), 1)
    assert "raise ValueError" in str(caught.value) and "assert False" in caught.value.hint


def test_static_conditions_may_raise():
    @mo.kernel
    def k(x, n: mo.Constexpr):
        if n > 4:
            raise ValueError("too large")
        x[0] = n
    k[1, 1](X.copy(), 3)
    with pytest.raises(ValueError, match="too large"):
        k[1, 1](X.copy(), 5)


def test_what_a_plain_function_raises_under_a_traced_condition_says_so():
    def plain():
        raise KeyError("no such tile")

    @mo.kernel
    def k(x, n):
        if n > 4:
            plain()
        x[0] = n
    with pytest.raises(KeyError) as caught:
        k[1, 1](X.copy(), 3)
    assert any("both sides of a traced condition are traced" in note for note in caught.value.__notes__)


def test_assert_false_waits_for_the_thread_that_gets_there():
    @mo.kernel
    def k(x, n):
        if n > 4:
            assert False, f"n is {n}"  # noqa: B011
        x[0] = n
    k[1, 1](x := X.copy(), 3)
    assert x[0] == 3
    with pytest.raises(mo.MoyeError, match=re.escape("n is {n}")):
        k[1, 1](X.copy(), 5)
