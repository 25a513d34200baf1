"""What is in the mutable objects that a trace read decides no later launch: a change of it is seen."""

from __future__ import annotations

import functools
from collections import OrderedDict
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

import moye as mo
from moye.lang.contents import MOST_PARTS, contents_of

# Each reads one thing, whose value is 2 at first; ``CHANGES`` has what makes it 5.


@mo.jit
def jit_default(x, table=[2.0]):  # noqa: B006
    return x + table[0]


@mo.jit
def jit_keyword(x, *, table={"v": 2.0}):  # noqa: B006
    return x + table["v"]


@mo.jit
def jit_replaced(x, s=2.0):
    return x + s


@mo.jit
def jit_code(x):
    return x + 2.0


def other_code(x):
    return x + 5.0


@mo.jit
def jit_attribute(x):
    return x + jit_attribute.scale


jit_attribute.scale = 2.0


@mo.kernel
def with_attribute(out):
    out[0] = mo.float32(with_attribute.scale)


with_attribute.scale = 2.0


def plain_default(x, table=[2.0]):  # noqa: B006
    return x + table[0]


LIST, NESTED, ARRAY, SET = [2.0], {"a": [1, {"b": 2.0}]}, np.full(3, 2.0), {2.0}
SPACE = SimpleNamespace(v=2.0)


class Plain:
    def __init__(self):
        self.v = 2.0

    def __call__(self, x):
        return x + self.v


@dataclass
class Record:
    v: float = 2.0
    more: list = field(default_factory=list)


class Pair(NamedTuple):
    a: int
    b: list


class Shared:
    table = [2.0]  # noqa: RUF012

    @staticmethod
    def reads(x):
        return x + Shared.table[0]


PLAIN, RECORD, CALLED = Plain(), Record(), Plain()
PARTIAL = functools.partial(lambda x, table: x + table[0], table=[2.0])


def closure():
    kept = {"v": 2.0}
    return kept, lambda x: x + kept["v"]


KEPT, reads_closure = closure()


def reads_list(x):
    return x + LIST[0]


def reads_nested(x):
    return x + NESTED["a"][1]["b"]


def reads_array(x):
    return x + float(ARRAY[1])


def reads_set(x):
    return x + min(SET)


def reads_object(x):
    return x + PLAIN.v


def reads_record(x):
    return x + RECORD.v


def reads_space(x):
    return x + SPACE.v


def _grow(value):
    SET.clear()
    SET.add(value)


CHANGES = {
    "jit_default": lambda v: jit_default.function.__defaults__[0].__setitem__(0, v),
    "jit_keyword": lambda v: jit_keyword.function.__kwdefaults__["table"].__setitem__("v", v),
    "jit_replaced": lambda v: setattr(jit_replaced.function, "__defaults__", (v,)),
    "jit_attribute": lambda v: setattr(jit_attribute, "scale", v),
    "plain_default": lambda v: plain_default.__defaults__[0].__setitem__(0, v),
    "reads_list": lambda v: LIST.__setitem__(0, v), "reads_nested": lambda v: NESTED["a"][1].__setitem__("b", v),
    "reads_array": lambda v: ARRAY.__setitem__(1, v), "reads_set": _grow,
    "reads_object": lambda v: setattr(PLAIN, "v", v), "reads_record": lambda v: setattr(RECORD, "v", v),
    "reads_space": lambda v: setattr(SPACE, "v", v), "reads_closure": lambda v: KEPT.__setitem__("v", v),
    "CALLED": lambda v: setattr(CALLED, "v", v), "PARTIAL": lambda v: PARTIAL.keywords["table"].__setitem__(0, v),
    "Shared.reads": lambda v: Shared.table.__setitem__(0, v)}


def kernel_that_calls(name):
    namespace, kernels = globals(), {}
    for known in CHANGES:
        function = functools.reduce(getattr, known.split(".")[1:], namespace[known.split(".")[0]])
        kernels[known] = function
    function = kernels[name]

    @mo.kernel
    def kernel(out):
        out[0] = mo.float32(function(0.0))

    return kernel


def result(kernel):
    out = np.zeros(1, np.float32)
    kernel[1, 1](out)
    return out[0]


@pytest.mark.parametrize("name", CHANGES)
def test_changes_are_seen(name):
    kernel = kernel_that_calls(name)
    assert [result(kernel) for _ in range(3)] == [2, 2, 2]
    specialised = list(kernel._specialised.values())
    assert [result(kernel) for _ in range(2)] == [2, 2] and list(kernel._specialised.values()) == specialised
    CHANGES[name](5.0)
    try:
        assert [result(kernel) for _ in range(3)] == [5, 5, 5]
        assert len(kernel.why_recompiled()) == 1
    finally:
        CHANGES[name](2.0)
    assert result(kernel) == 2


def test_code_of_a_jit_function():
    kernel = mo.kernel(_calls_jit_code)
    before = jit_code.function.__code__
    assert result(kernel) == 2
    jit_code.function.__code__ = other_code.__code__
    try:
        assert result(kernel) == 5
    finally:
        jit_code.function.__code__ = before
    assert result(kernel) == 2


def _calls_jit_code(out):
    out[0] = jit_code(mo.float32(0))


def test_attribute_of_a_kernel():
    assert result(with_attribute) == 2
    with_attribute.scale = 5.0
    assert result(with_attribute) == 5
    with_attribute.scale = 2.0


ITERATOR = iter([1.0, 2.0])


def test_an_iterator_is_refused():
    @mo.kernel
    def kernel(out):
        out[0] = mo.float32(next(ITERATOR))

    with pytest.raises(mo.TraceError, match="reads 'ITERATOR', a list_iterator that may change") as error:
        result(kernel)
    assert error.value.hint == "make a tuple of what it gives"


def test_mutable_attribute_of_a_jit_function_is_refused():
    @mo.jit
    def table(x):
        return x + table.rows[0]

    table.rows = [1.0]

    @mo.kernel
    def kernel(out):
        out[0] = table(mo.float32(0))

    with pytest.raises(mo.TraceError, match=r"reads 'table.rows', a list that may change"):
        result(kernel)


@pytest.mark.parametrize(("a", "b", "same"), [
    ([1, 2], [1, 2], True), ([1], [True], False), ([0.0], [-0.0], False), ([float("nan")], [float("nan")], True),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}, False), ({1, 2}, {2, 1}, True), ([len], [len], True), ([len], [max], False),
    (np.zeros(3), np.zeros(3), True), (np.zeros(3), np.zeros(3, np.float32), False), ([1], (1,), False),
    (OrderedDict(a=1), OrderedDict(a=2), False), (Pair(1, [2]), Pair(1, [2]), True),
    (Pair(1, [2]), Pair(1, [3]), False),
    (Record(1.0), Record(1.0), True), (Record(1.0), Record(2.0), False),
    ([0] * MOST_PARTS, [0] * MOST_PARTS, False), (np.zeros(100), np.zeros(100), False)])
def test_contents(a, b, same):
    assert (contents_of(a) == contents_of(b)) is same
    assert contents_of(a) == contents_of(a)


def test_an_object_that_holds_itself():
    loop = []
    loop.append(loop)
    assert contents_of(loop) == contents_of(loop)
