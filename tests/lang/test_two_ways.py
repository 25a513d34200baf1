"""Variables of which two ways disagree: the message says which way has what, and its hint works."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye.errors import TraceError
from written import block


class Plain:
    def __init__(self):
        self.v = 0


@mo.jit
def early(t, x):
    if t > 3:
        return 0
    return x[t]


@mo.jit
def early_tuple(t, x):
    if t > 3:
        return x[t], 1
    return x[t]


@mo.jit
def first_of(x):
    return x[0]


@mo.jit
def sets(s, t, x):
    if t > 3:
        s.v = 5
        return
    s.v = x[t]


def launched(text):
    names = {name: globals()[name] for name in ("Plain", "early", "early_tuple", "first_of", "sets")}
    out, x = np.full(8, -1, np.float32), np.arange(1, 9, dtype=np.float32)
    mo.kernel(block(f"t = mo.thread_idx().x\n{text}", "out, x, n", names))[1, 8](out, x, 3)
    return out.tolist()


CASES = [
    ("v = (1, 2)\nif t > 3:\n    v = (x[t], 2, 3)\nout[t] = v[0]",
     "a tuple of 3 where the condition holds, a tuple of 2 where it does not", "on every way to this point",
     "v = (1, 2, 0)\nif t > 3:\n    v = (x[t], 2, 3)\nout[t] = v[0]"),
    ("if t > 3:\n    v = x[t]\nelse:\n    v = None\nout[t] = 0 if v is None else v",
     "a scalar where the condition holds, None where it does not", "instead of None give it",
     "if t > 3:\n    v = x[t]\nelse:\n    v = 0\nout[t] = v"),
    ("v = None\nfor i in range(n):\n    v = x[i] if v is None else mo.max(v, x[i])\nout[t] = v",
     "None before this loop, a scalar at the end of its body", "instead of None give it",
     "v = float('-inf')\nfor i in range(n):\n    v = mo.max(v, x[i])\nout[t] = v"),
    ("f = mo.fragment((2,), mo.float32)\nf.fill(0)\nif t > 2:\n    f = f + 1\nout[t] = f[0]",
     "the register tensor f with layout .* where the condition holds, another register tensor f", "f[...] = ...",
     "f = mo.fragment((2,), mo.float32)\nf.fill(0)\nif t > 2:\n    f[...] = f + 1\nout[t] = f[0]"),
    ("s = 'max' if t > 2 else 'min'\nout[t] = 1", "'max' where the condition holds, 'min' where it does not",
     "tracing decides it: use each of the two where", "out[t] = mo.max(x[t], 3) if t > 2 else mo.min(x[t], 3)"),
    ("s = 'a'\nfor i in range(n):\n    s = 'b'\nout[t] = 1 if s == 'a' else 2", "a' before this loop, 'b' at the end",
     "unroll the loop, with mo.static_range",
     "s = 'a'\nfor i in mo.static_range(3):\n    s = 'b'\nout[t] = 1 if s == 'a' else 2"),
    ("v = mo.shared_array(mo.float32, 8)\nv[t] = 0\nif t > 5:\n    v = x\nout[t] = v[0]",
     "a view of x with layout .* where the condition holds, a view of v with layout .* where it does not",
     "call a function with @mo.jit in both places",
     "v = mo.shared_array(mo.float32, 8)\nv[t] = 0\nmo.sync_threads()\n"
     "if t > 5:\n    out[t] = first_of(x)\nelse:\n    out[t] = first_of(v)"),
    ("v = 0\nfor i in range(n):\n    v = x[i]\nout[t] = v",
     "'v' is int32 before this loop and float32 at the end of its body",
     "start with mo.float32(...), or convert with mo.int32(...)",
     "v = mo.float32(0)\nfor i in range(n):\n    v = x[i]\nout[t] = v"),
    ("v = True\nfor i in range(n):\n    v = 2\nout[t] = v",
     "'v' is bool before this loop and int32 at the end of its body",
     "start with mo.int32(...), or convert with mo.bool(...)",
     "v = True\nfor i in range(n):\n    v = mo.bool(2)\nout[t] = v"),
    ("if t > 2:\n    w = t\nelse:\n    w = x[t]\nout[t] = w",
     "'w' is int32 where the condition holds and float32 where",
     "convert one of the two, with mo.int32(...) or mo.float32(...)",
     "if t > 2:\n    w = mo.float32(t)\nelse:\n    w = x[t]\nout[t] = w"),
    ("if t > 2:\n    v = mo.int8(1)\nelse:\n    v = mo.uint8(2)\nout[t] = v",
     "'v' is int8 where the condition holds and uint8",
     "convert one of the two, with mo.int32(...) or mo.int64(...)",
     "if t > 2:\n    v = mo.int8(1)\nelse:\n    v = mo.int32(mo.uint8(2))\nout[t] = v"),
    ("if t > 2:\n    v = mo.uint32(t)\nelse:\n    v = -7\nout[t] = v",
     "'v' is uint32 where the condition holds and int32",
     "convert one of the two", "if t > 2:\n    v = mo.int64(mo.uint32(t))\nelse:\n    v = -7\nout[t] = v"),
    ("for i in range(n):\n    if i == 1:\n        w = t\n        continue\n    w = x[i]\nout[t] = w",
     "'w' is int32 on one way through this loop's body and float32 on another", "convert one of the two",
     "out[t] = 1"),
    ("s = Plain()\nsets(s, t, x)\nout[t] = s.v",
     "'s.v' is int32 on one way out of the function and float32 on another",
     "convert one of the two, with mo.int32(...) or mo.float32(...)",
     "s = Plain()\ns.v = 0.0\nsets(s, t, x)\nout[t] = s.v"),
    ("out[t] = early(t, x)", "early returns int32 on one path and float32 on another",
     "convert one of them, with mo.int32(...) or mo.float32(...)", "out[t] = 1"),
    ("out[t] = early_tuple(t, x)[0]", "a tuple of 2 on one way out of the function, a scalar on another",
     "on every way to this point", "out[t] = 1"),
    ("s = {'a': 1}\nif t > 2:\n    s['b'] = 2\nout[t] = s['a']", "the dict s changes its parts",
     "give it all its keys before",
     "s = {'a': 1, 'b': 0}\nif t > 2:\n    s['b'] = 2\nout[t] = s['b']"),
    ("s = []\nfor i in range(n):\n    s.append(x[i])\nout[t] = s[0]", "the list s changes its parts",
     "give it all its items before", "s = [0.0] * 4\nif t > 2:\n    s[1] = x[t]\nout[t] = s[1]"),
]


@pytest.mark.parametrize(("text", "message", "hint", "mended"), CASES)
def test_messages_and_hints(text, message, hint, mended):
    if message is not None:
        with pytest.raises(TraceError, match=message) as error:
            launched(text)
        assert hint in error.value.hint
    assert -1 not in launched(mended)


def test_functions_have_names():
    with pytest.raises(TraceError, match="the function <lambda> where the condition holds, the function <lambda>"):
        launched("g = (lambda v: v + 1) if n == 3 else (lambda v: v - 1)\nout[t] = g(t)")
