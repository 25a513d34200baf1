"""What methods, properties and operators of users' objects read is compared at each launch, as names of the kernel are.

Each case launches a kernel, changes what it depends on and launches it again.  A case that is right by itself, or by
another thing that the kernel reads, would not tell anything: each reads one thing that changes, in one way.
"""

from __future__ import annotations

import collections
import functools
import types
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import moye as mo
from moye.errors import TraceError
from moye.lang.behaviour import Behaviour
from moye.runtime import compile as compiling

NUMBER = 1
"""What changes."""


@mo.kernel
def asked(out, x: mo.Constexpr, ask: mo.Constexpr):
    out[mo.thread_idx().x] = ask(x)


class Given:
    """Ways to read a global."""

    def method(self): return NUMBER
    def __add__(self, other): return NUMBER + other
    def __getitem__(self, key): return NUMBER + key
    def __len__(self): return NUMBER
    def __iter__(self): return iter((NUMBER, 2))
    def __bool__(self): return NUMBER == 1
    def __enter__(self): return NUMBER
    def __exit__(self, *_): pass
    def __getattr__(self, name): return NUMBER
    def __call__(self): return NUMBER

    @property
    def property(self): return NUMBER

    @functools.cached_property
    def cached(self): return 1

    def through(self): return self._through()
    def _through(self): return NUMBER * 2


class Child(Given):
    def method(self): return super().method() + 1


class Described:
    def __get__(self, instance, owner): return NUMBER


class Holder:
    value = Described()


class Made:
    def __init__(self): self.value = NUMBER


@dataclass
class Filled:
    value: Any = 0

    def __post_init__(self): self.value = NUMBER


class Again:
    def __init__(self): self.value = NUMBER
    def again(self): return type(self)().value


class Meta(type):
    @property
    def value(cls): return NUMBER


class WithMeta(metaclass=Meta):
    pass


@dataclass(frozen=True)
class Scaled:
    a: int

    @property
    def value(self): return self.a * NUMBER


def with_statement(x):
    with x as value:
        return value


TABLE = {"one": lambda: NUMBER}
PARTIAL = functools.partial(lambda k: NUMBER + k, 1)


@functools.lru_cache
def cached(k):
    return NUMBER + k


READS = {
    "method": (Given(), lambda x: x.method()), "add": (Given(), lambda x: x + 1), "item": (Given(), lambda x: x[1]),
    "len": (Given(), lambda x: len(x)), "iter": (Given(), lambda x: sum(iter(x))),
    "bool": (Given(), lambda x: 1 if x else 2), "with": (Given(), with_statement),
    "attribute": (Given(), lambda x: x.anything), "call": (Given(), lambda x: x()),
    "property": (Given(), lambda x: x.property), "through": (Given(), lambda x: x.through()),
    "super": (Child(), lambda x: x.method()), "descriptor": (Holder(), lambda x: x.value),
    "init": (0, lambda _: Made().value), "post_init": (0, lambda _: Filled().value),
    "type_of_self": (Again(), lambda x: x.again()), "metaclass": (0, lambda _: WithMeta.value),
    "inside": ((1, {"x": Given()}), lambda x: x[1]["x"].method()), "bound": (Given().method, lambda x: x()),
    "table": (0, lambda _: TABLE["one"]()), "partial": (0, lambda _: PARTIAL()), "cached": (0, lambda _: cached(2)),
    "by_name": (Given(), lambda x: getattr(x, "method")())}                             # noqa: B009


@pytest.mark.parametrize("name", READS)
def test_a_global_that_a_method_reads(name, monkeypatch):
    x, ask = READS[name]
    out = np.zeros(1, np.int32)
    for number in (1, 5, 5, 1):
        monkeypatch.setitem(globals(), "NUMBER", number)
        cached.cache_clear()
        asked[1, 1](out, x, ask)
        assert out[0] == ask(x), number


def test_a_property_of_an_argument_that_is_taken_apart(monkeypatch):
    @mo.kernel
    def kernel(out, scaled):
        out[mo.thread_idx().x] = scaled.value

    out = np.zeros(1, np.int32)
    for number in (1, 5):
        monkeypatch.setitem(globals(), "NUMBER", number)
        kernel[1, 1](out, Scaled(3))
        assert out[0] == 3 * number


class Base:
    width = 1

    @classmethod
    def of_class(cls): return cls.width

    def of_type(self): return type(self).width
    def of_self(self): return self.width


class Inherits(Base):
    pass


def width_of(cls):
    return cls.width


@pytest.mark.parametrize("ask", [
    lambda x: x.width, lambda x: x.of_self(), lambda x: x.of_type(), lambda _: Base.of_class(),
    lambda _: Inherits.of_class(), lambda _: width_of(Base), lambda _: getattr(Base, "width")],     # noqa: B009
    ids=["direct", "self", "type", "class_method", "inherited", "passed", "getattr"])
def test_attributes_of_classes(ask, monkeypatch):
    x, out = Inherits(), np.zeros(1, np.int32)
    for number in (1, 5, 1):
        monkeypatch.setattr(Base, "width", number)
        asked[1, 1](out, x, ask)
        assert out[0] == number


def test_a_class_as_an_argument(monkeypatch):
    out = np.zeros(1, np.int32)
    for number in (1, 5):
        monkeypatch.setattr(Base, "width", number)
        asked[1, 1](out, (Base,), lambda x: x[0].width)
        assert out[0] == number


@pytest.mark.parametrize("cls", [Given, Child])
def test_a_method_that_is_replaced(cls, monkeypatch):
    out, x = np.zeros(1, np.int32), Child()
    asked[1, 1](out, x, lambda x: x.method())
    assert out[0] == NUMBER + 1
    monkeypatch.setattr(cls, "method", lambda self: 7)
    asked[1, 1](out, x, lambda x: x.method())
    assert out[0] == (7 if cls is Child else 8)


def test_what_nothing_asks_for_costs_no_trace(monkeypatch):
    """Counters of a class, and what a constructor reads of a class that no code names."""
    class Counts:
        made = 0

        def __init__(self):
            Counts.made += 1

        def value(self): return 4

    @mo.kernel
    def kernel(out, x: mo.Constexpr):
        out[mo.thread_idx().x] = x.value()

    traces, out, x, trace = [], np.zeros(1, np.int32), Counts(), compiling.trace
    monkeypatch.setattr(compiling, "trace", lambda *args, **more: (traces.append(1), trace(*args, **more))[1])
    for _ in range(3):
        Counts()
        kernel[1, 1](out, x)
    assert out[0] == 4 and len(traces) == 1


def test_names_are_found_in_text_and_in_functions_inside():
    found = Behaviour(lambda module: module == __name__)
    found.reads(compile("def f(x): return lambda: getattr(x, 'of_self')", "<text>", "exec"))
    found.holds(Inherits())
    assert {name for _, name, _ in found.attributes()} == {"of_self"}
    found.reads(Base.of_self.__code__)
    assert {name for _, name, _ in found.attributes()} == {"width"}
    assert found.functions() == [Base.of_self]


def test_large_values_end():
    found = Behaviour(lambda module: module == __name__)
    loop: list[Any] = []
    loop.append(loop)
    found.holds(loop)
    found.holds(types.SimpleNamespace(a=loop))
    found.holds(tuple(range(10**6)))
    assert found.functions() == []


class Slots:
    __slots__ = ("__hidden", "k")

    def __init__(self):
        self.k, self.__hidden = 1, 0

    def __call__(self): return self.k
    def raise_hidden(self): self.__hidden += 1
    def hidden(self): return self.__hidden


@dataclass(slots=True)
class SlotsOfFields:
    k: int = 1


class Noted(list):
    pass


class Held:
    def __init__(self, k): self.k = k


def _raise(x):
    x.k += 1


CHANGES = {                                     # an object, what is asked of it, how it changes in place
    "slots": (Slots, lambda x: x.k, _raise), "hidden": (Slots, lambda x: x.hidden(), lambda x: x.raise_hidden()),
    "called": (Slots, lambda x: x(), _raise),
    "partial": (lambda: functools.partial(lambda items: items[0], [1]), lambda x: x(),
                lambda x: x.args[0].__setitem__(0, 5)),
    "note": (lambda: Noted([1]), lambda x: getattr(x, "note", 1), lambda x: setattr(x, "note", 5)),
    "deque": (lambda: Held(collections.deque([1])), lambda x: x.k[0], lambda x: x.k.append(x.k.popleft() + 1)),
    "array": (lambda: Held(np.ones(2)), lambda x: int(x.k[1]), lambda x: x.k.__setitem__(1, 5)),
    "set": (lambda: Held({1}), lambda x: len(x.k), lambda x: x.k.add(2)),
    "dataclass": (lambda: Held(SlotsOfFields()), lambda x: x.k.k, lambda x: _raise(x.k)),
    "nested": (lambda: Held(Held(Slots())), lambda x: x.k.k.k, lambda x: _raise(x.k.k))}


@pytest.mark.parametrize("given", ["argument", "closure", "helper"])
@pytest.mark.parametrize("name", CHANGES)
def test_an_object_that_changes_in_place(name, given):
    make, ask, change = CHANGES[name]
    x, out = make(), np.zeros(1, np.int32)

    def helper():
        return ask(x)

    @mo.kernel
    def reads(out):
        out[mo.thread_idx().x] = helper()

    def closure(_):
        return ask(x)

    for _ in range(3):
        if given == "helper":
            reads[1, 1](out)
        else:
            asked[1, 1](out, *((x, ask) if given == "argument" else (0, closure)))
        assert out[0] == ask(x)
        change(x)


def test_an_object_with_slots_that_a_kernel_reads_from_its_surroundings_is_refused():
    class Quiet:
        __slots__ = ("k",)

    held = Quiet()
    held.k = 1

    @mo.kernel
    def kernel(out):
        out[mo.thread_idx().x] = held.k

    with pytest.raises(TraceError, match="the kernel reads 'held', a Quiet that may change between launches"):
        kernel[1, 1](np.zeros(1, np.int32))
