"""What a kernel was traced with and what changed since: every launch gives what a new kernel gives."""

from __future__ import annotations

import contextvars
import datetime
import functools
import random
import sys
import threading
import time
import types
import uuid
import weakref
from dataclasses import dataclass
from random import gauss as normal
from typing import Any

import numpy as np
import pytest

import moye as mo


class Base:
    inherited = 2.0


class Setting(Base):
    own = 2.0

    @staticmethod
    def reads():
        return Setting.own


class Plain:
    def __init__(self, v: Any) -> None:
        self.v = v

    def get(self) -> Any:
        return self.v


@dataclass(frozen=True)
class Frozen:
    held: object


def attribute():
    return attribute.v


def default(x=2.0):
    return x


def keyword(*, x=2.0):
    return x


def code():
    return 2.0


attribute.v = 2.0
module = types.ModuleType("settings_of_a_test")
module.v = 2.0
sys.modules[module.__name__] = module
instance = Plain(2.0)
bound = instance.get


@mo.kernel
def of_class(out):
    out[0] = mo.float32(Setting.own)


@mo.kernel
def of_base(out):
    out[0] = mo.float32(Setting.inherited)


@mo.kernel
def of_static_method(out):
    out[0] = mo.float32(Setting.reads())


@mo.kernel
def of_function(out):
    out[0] = mo.float32(attribute.v)


@mo.kernel
def of_helper(out):
    out[0] = mo.float32(attribute())


@mo.kernel
def of_default(out):
    out[0] = mo.float32(default())


@mo.kernel
def of_keyword(out):
    out[0] = mo.float32(keyword())


@mo.kernel
def of_code(out):
    out[0] = mo.float32(code())


@mo.kernel
def of_module(out):
    out[0] = mo.float32(module.v)


CHANGES = {
    of_class: (Setting, "own", 5.0), of_base: (Base, "inherited", 5.0), of_static_method: (Setting, "own", 5.0),
    of_function: (attribute, "v", 5.0), of_helper: (attribute, "v", 5.0), of_default: (default, "__defaults__", (5.0,)),
    of_keyword: (keyword, "__kwdefaults__", {"x": 5.0}), of_code: (code, "__code__", (lambda: 5.0).__code__),
    of_module: (module, "v", 5.0)}


def result(kernel, *arguments):
    out = np.zeros(1, np.float32)
    kernel[1, 1](out, *arguments)
    return out[0]


@pytest.mark.parametrize("kernel", CHANGES, ids=lambda kernel: kernel.__name__)
def test_what_a_kernel_reads(kernel, monkeypatch):
    assert [result(kernel) for _ in range(3)] == [2, 2, 2]
    with monkeypatch.context() as patch:
        patch.setattr(*CHANGES[kernel])
        assert [result(kernel) for _ in range(3)] == [5, 5, 5]
    assert result(kernel) == 2


@mo.kernel
def of_argument(out, x: mo.Constexpr):
    x = x.held if isinstance(x, Frozen) else x
    out[0] = mo.float32(x() if callable(x) else x.v[0] if isinstance(x.v, (list, np.ndarray)) else x.v)


def _attribute(x):
    x.v = 5.0


def _item(x):
    x.v[0] = 5.0


@pytest.mark.parametrize("wrapped", [lambda x: x, Frozen], ids=["itself", "in a frozen dataclass"])
@pytest.mark.parametrize(("held", "change"), [(2.0, _attribute), ([2.0], _item), ([2.0], _attribute)])
def test_objects_that_are_arguments(held, change, wrapped):
    x = Plain(list(held) if isinstance(held, list) else held)
    argument = wrapped(x)
    assert [result(of_argument, argument) for _ in range(3)] == [2, 2, 2]
    change(x)
    assert [result(of_argument, argument) for _ in range(3)] == [5, 5, 5]


def test_methods_that_are_arguments():
    x = Plain(2.0)
    assert [result(of_argument, x.get) for _ in range(3)] == [2, 2, 2]
    x.v = 5.0
    assert [result(of_argument, x.get) for _ in range(3)] == [5, 5, 5]


def test_an_object_that_holds_itself():
    x = Plain(2.0)
    x.own = x
    assert result(of_argument, x) == 2 == result(of_argument, x)


def test_a_method_of_an_object_that_may_change_is_refused():
    @mo.kernel
    def of_bound(out):
        out[0] = mo.float32(bound())

    with pytest.raises(mo.TraceError, match="reads 'bound', a method that may change between launches"):
        result(of_bound)


def test_what_does_not_change_is_not_traced_again():
    helped = functools.partial(result, of_helper)
    helped()
    before = len(of_helper._specialised)
    for _ in range(3):
        helped()
    assert len(of_helper._specialised) == before


HIDDEN = {"numbers": np.random.default_rng(0), "context": contextvars.ContextVar("x", default=2.0),
          "local": threading.local(), "lock": threading.Lock(), "bytes": memoryview(bytearray(4)),
          "weak": weakref.ref(instance), "take": [2.0].pop, "get": {"a": 2.0}.get}


@pytest.mark.parametrize("name", HIDDEN)
def test_states_that_nobody_can_compare_are_refused(name):
    it = HIDDEN[name]

    @mo.kernel
    def kernel(out):
        out[0] = mo.float32(id(it) % 7)
    with pytest.raises(mo.TraceError, match=r"the kernel reads 'it', .* that may change between launches"):
        result(kernel)


def ask_of_random(out):
    out[0] = random.random()


def ask_of_numpy(out):
    out[0] = np.random.rand()


def ask_a_clock(out):
    out[0] = time.perf_counter()


def ask_the_day(out):
    out[0] = mo.float32(datetime.datetime.now().day)


def ask_a_number(out):
    out[0] = mo.float32(uuid.uuid4().int % 7)


def ask_by_a_name(out):
    out[0] = normal()


@pytest.mark.parametrize("ask", [ask_of_random, ask_of_numpy, ask_a_clock, ask_the_day, ask_a_number, ask_by_a_name],
                         ids=lambda ask: ask.__name__)
def test_what_has_another_answer_each_time_is_refused(ask):
    """Every thread of every launch would have the answer that the trace got."""
    with pytest.raises(mo.TraceError, match=r"the kernel asks '[\w.]+' while it is traced") as told:
        result(mo.kernel(ask))
    assert "mo.rand(seed, ...)" in str(told.value)


def test_what_is_asked_on_the_host_may_be_an_argument():
    @mo.kernel
    def kernel(out, x):
        out[0] = x
    assert result(kernel, random.random()) != result(kernel, random.random())
