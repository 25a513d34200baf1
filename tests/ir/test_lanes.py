"""What depends on the thread's index alone, for all threads at once: as for each of them by itself."""

from __future__ import annotations

import pytest

from moye import dtypes as dt
from moye.ir import ops
from moye.ir.lanes import UnknownError, lanes_of_block, values_of
from moye.ir.nodes import Literal, Value

X, BLOCK = Value(dt.int32), Value(dt.int32)
for _value, _kind in ((X, "thread_x"), (BLOCK, "block_x")):
    _value.op = ops.Special(result=_value, kind=_kind)
LANES = lanes_of_block((8, 1, 1))


def number(n):
    return Literal(n, dt.int32)


def binary(kind, a, b, dtype=dt.int32):
    result = Value(dtype)
    result.op = ops.Binary(result=result, kind=kind, a=a, b=b)
    return result


def select(cond, a, b):
    result = Value(dt.int32)
    result.op = ops.Select(result=result, cond=cond, a=a, b=b)
    return result


def test_arithmetic_is_the_gpus():
    assert values_of(number(3), LANES) == [3] * 8
    assert values_of(binary("mod", binary("mul", X, number(5)), number(7)), LANES) == [5 * x % 7 for x in range(8)]
    less = binary("sub", X, number(3), dt.uint32)
    assert values_of(less, LANES) == [(x - 3) % 2 ** 32 for x in range(8)]
    assert values_of(binary("lt", X, number(3), dt.bool_), LANES) == [1, 1, 1, 0, 0, 0, 0, 0]


def test_an_arm_is_asked_for_its_threads_alone():
    """Threads 0 to 3 divide by nothing, as only the others reach the division."""
    low = binary("lt", X, number(4), dt.bool_)
    quotient = binary("floordiv", number(12), binary("max", binary("sub", X, number(3)), number(0)))
    assert values_of(select(low, X, quotient), LANES) == [0, 1, 2, 3, 12, 6, 4, 3]
    with pytest.raises(UnknownError):
        values_of(quotient, LANES)


def test_what_depends_on_more():
    with pytest.raises(UnknownError):
        values_of(binary("add", X, BLOCK), LANES)
    assert values_of(select(binary("ge", X, number(0), dt.bool_), X, BLOCK), LANES) == list(range(8))
    assert values_of(BLOCK, []) == []
