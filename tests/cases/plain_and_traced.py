"""Functions run three ways: as plain Python, and traced as a device function, interpreted.

In: a function of numbers and arrays that returns numbers.  Out: both results, asserted equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import moye as mo
from ir_interpreter import Fault, run
from moye.ir.nodes import Func

__all__ = ["Fault", "agree", "run", "trace", "traced"]

def _store(out: Any, value: Any) -> None:
    for i, item in enumerate(value if isinstance(value, tuple) else (value,)):
        out[i] = item


def _kernel(fn: Any, count: int) -> Any:
    f = fn if isinstance(fn, type(mo.jit(_store))) or fn.__name__ == "<lambda>" else mo.jit(fn)

    @mo.kernel
    def one(out, a):
        _store(out, f(a))

    @mo.kernel
    def two(out, a, b):
        _store(out, f(a, b))

    @mo.kernel
    def three(out, a, b, c):
        _store(out, f(a, b, c))

    return (one, two, three)[count - 1]


def trace(fn: Any, *args: Any, dtype: Any = np.int64, block: int = 1) -> tuple[Func, np.ndarray]:
    """The Func of a kernel that stores fn(*args), and the array it stores into."""
    out = np.zeros(8, dtype)
    return _kernel(fn, len(args)).trace(out, *args, block=block), out


def traced(fn: Any, *args: Any, dtype: Any = np.int64, guards: bool = True) -> list[Any]:
    """What the traced function returns for these arguments."""
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    func, out = trace(fn, *args, dtype=dtype)
    run(func, [out, *copies], guards=guards)
    return list(out)


def agree(fn: Any, *cases: tuple[Any, ...], dtype: Any = np.int64) -> None:
    """The traced function gives what Python gives, for every case."""
    plain = getattr(fn, "function", fn)
    for case in cases:
        expected = plain(*(a.copy() if isinstance(a, np.ndarray) else a for a in case))
        expected = expected if isinstance(expected, tuple) else (expected,)
        found = traced(fn, *case, dtype=dtype)[:len(expected)]
        if np.issubdtype(dtype, np.floating):
            np.testing.assert_allclose(np.array(found, float), np.array(expected, float), rtol=1e-6, err_msg=str(case))
        else:
            assert [int(x) for x in found] == [int(x) for x in expected], f"{plain.__name__}{case}"
