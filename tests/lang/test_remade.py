"""Objects of users' classes that control flow and arguments make anew: no constructor runs twice, and nothing is lost.

Every class goes through every kind of control flow, and plain Python says what must come out.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

import moye as mo
from moye.errors import TraceError
from moye.lang import remade


@dataclass
class Doubled:
    a: Any

    def __post_init__(self):
        self.a = self.a * 2


@dataclass(frozen=True)
class Raised:
    a: Any

    def __post_init__(self):
        object.__setattr__(self, "a", self.a + 1)


@dataclass
class Derived:
    a: Any
    b: Any = field(init=False)

    def __post_init__(self):
        self.b, self.more = self.a + 1, self.a * 3


@dataclass
class Shifted:
    a: Any
    by: dataclasses.InitVar[int] = 5

    def __post_init__(self, by):
        self.a = self.a + by


@dataclass(slots=True)
class Slotted:
    a: Any
    b: int = 3


class Child(Doubled):
    """No dataclass itself, with a constructor of its own."""

    def __init__(self, a):
        self.a, self.b = a, 2


@dataclass
class Hidden:
    """A field that is a property."""

    a: Any

    @property
    def a(self):
        return self._a + 1

    @a.setter
    def a(self, value):
        self._a = value


class Row(list):
    def total(self):
        return self[0] + 2 * self[1]


class Pair(tuple):
    def total(self):
        return self[0] + 2 * self[1]


class Next(collections.namedtuple("Next", ["a", "b"])):
    def __new__(cls, a):
        return super().__new__(cls, a, a + 1)


class Table(dict):
    def __missing__(self, key):
        return 42


class Noted(list):
    def __init__(self, items, note):
        super().__init__(items)
        self.note = note


CLASSES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {       # how one is made, what is asked of it
    "post_init": (Doubled, lambda x: x.a), "frozen": (Raised, lambda x: x.a),
    "no_init": (Derived, lambda x: x.a + 7 * x.b + 100 * x.more), "init_var": (Shifted, lambda x: x.a),
    "slots": (Slotted, lambda x: x.a + x.b), "own_init": (Child, lambda x: x.a + 5 * x.b),
    "property": (Hidden, lambda x: x.a), "list": (lambda t: Row([t, 1]), lambda x: x.total()),
    "tuple": (lambda t: Pair((t, 1)), lambda x: x.total()), "named_tuple": (Next, lambda x: x.a + 3 * x.b),
    "dict": (lambda t: Table(a=t), lambda x: x["a"] + x["none"]),
    "default_dict": (lambda t: collections.defaultdict(lambda: 8, a=t), lambda x: x["a"] + x["none"]),
    "counter": (lambda t: collections.Counter(a=t), lambda x: x["a"] + x["none"]),
    "ordered_dict": (lambda t: collections.OrderedDict(a=t, b=1),
                     lambda x: (x.move_to_end("a"), x["a"] + 10 * next(iter(x.values())))[1]),
    "deque": (lambda t: collections.deque([t, 1], maxlen=2), lambda x: (x.append(5), 10 * x[0] + x[1] + len(x))[1]),
    "attribute": (lambda t: Noted([t], t + 1), lambda x: x[0] + 10 * x.note)}


def branch(make, ask, t, n):
    x = make(t)
    if t > 3:
        x = make(n)
    elif t > 1:
        x = make(t + n)
    return ask(x)


def chosen(make, ask, t, n):
    return ask(make(t) if t > 3 else make(n))


def loop(make, ask, t, n):
    x = make(t)
    for i in range(n):
        x = make(i + t)
    return ask(x)


def loop_inside(make, ask, t, n):
    x, total = make(t), 0
    for i in range(n):
        total += ask(x)
        x = make(i)
        if i == t:
            break
    return total


def unrolled(make, ask, t, n):
    x = make(t)
    for i in (1, 2, 3):
        if i > t:
            break
        x = make(i * n)
    return ask(x)


def early(make, ask, t, n):
    def which():
        if t > 4:
            return make(n)
        return make(t)

    return ask(which())


def nested(make, ask, t, n):
    x = (make(t), [make(n)])
    if t > 3:
        x = (make(1), [make(t)])
    return ask(x[0]) + 7 * ask(x[1][0])


@pytest.mark.parametrize("name", CLASSES)
def test_control_flow_keeps_objects(name):
    make, ask = CLASSES[name]
    for flow in (branch, chosen, loop, loop_inside, unrolled, early, nested):
        def body(t, n, flow=flow):
            return flow(make, ask, t, n)

        traced = mo.jit(flow)

        @mo.kernel
        def kernel(out, n, traced=traced):
            t = mo.thread_idx().x
            out[t] = traced(make, ask, t, n)

        out = np.full(8, -777, np.int32)
        kernel[1, 8](out, 3)
        assert out.tolist() == [body(t, 3) for t in range(8)], flow.__name__


@mo.kernel
def asked(out, x, ask: mo.Constexpr):
    out[mo.thread_idx().x] = ask(x)


@pytest.mark.parametrize("name", [name for name in CLASSES if name not in (
    "dict", "default_dict", "counter", "ordered_dict", "deque", "attribute")])
def test_arguments_are_the_objects_that_were_passed(name):
    make, ask = CLASSES[name]
    out = np.zeros(4, np.int32)
    for number in (3, 9):
        asked[1, 4](out, make(number), ask)
        assert out.tolist() == [ask(make(number))] * 4


def test_an_argument_whose_array_is_copied_is_not_constructed_again():
    @dataclass
    class Held:
        x: Any
        count: Any = field(init=False)

        def __post_init__(self):
            self.x, self.count = self.x * 2, 7

    @mo.kernel
    def scaled(held):
        t = mo.thread_idx().x
        held.x[t] = held.x[t] + held.count

    held = Held(np.arange(8, dtype=np.float32))
    report = mo.check(scaled, expect=lambda held: {"held_x": held.x + held.count})[1, 8](held)
    assert report.ok and held.x.tolist() == [2 * i + 7 for i in range(8)]


def test_members_of_enumerations_stay_themselves():
    @dataclass(frozen=True)
    class Both:
        a: int
        b: int

    class Mode(Both, enum.Enum):
        FEW = 1, 2
        MANY = 5, 7

    @mo.kernel
    def kernel(out, mode, n):
        t = mo.thread_idx().x
        for _ in range(n):
            mode = mode
        out[t] = mode.b if mode is Mode.MANY else -1

    out = np.zeros(4, np.int32)
    kernel[1, 4](out, Mode.MANY, 3)
    assert out.tolist() == [7] * 4


@pytest.mark.parametrize("way", ["branch", "loop"])
def test_whether_two_names_mean_one_object_is_not_guessed(way):
    @mo.kernel
    def branched(out):
        t, a, b = mo.thread_idx().x, [1], [1]
        if t > 3:
            a = b
        out[t] = 1 if a is b else 0

    @mo.kernel
    def looped(out):
        t = mo.thread_idx().x
        a = b = Slotted(t)
        for i in range(t):
            a = Slotted(i)
        out[t] = 1 if a is b else 0

    with pytest.raises(TraceError, match="cannot know whether two names mean one object"):
        (branched if way == "branch" else looped)[1, 8](np.zeros(8, np.int32))


def test_structures_that_differ_are_told_part_by_part():
    @mo.kernel
    def kernel(out, n):
        t, state = mo.thread_idx().x, {"x": 1, "y": (2, None)}
        for i in range(n):
            state = {"x": i, "y": (2, i)}
        out[t] = state["x"]

    with pytest.raises(TraceError, match=r"a dict of 2 \('x': a scalar, 'y': a tuple of 2 \(a scalar, None\)\) before "
                                         r"this loop, a dict of 2 \('x': a scalar, 'y': a tuple of 2 \(a scalar, a s"):
        kernel[1, 8](np.zeros(8, np.int32), 3)


class Point(NamedTuple):
    x: int
    y: int


@pytest.mark.parametrize("value", [
    (1, 2), [1], {"a": 1}, Point(1, 2), Derived(2), Slotted(1), Child(3), Hidden(4), Noted([1], 5), Next(1),
    collections.OrderedDict(b=1, a=2), collections.deque([1, 2], 3)], ids=lambda value: type(value).__name__)
def test_law(value):
    """Of the same parts an equal object is made, of the same class and with the same attributes."""
    again = remade.remade(value, list(remade.parts_of(value).values()))
    assert again is not value or isinstance(value, tuple)
    assert type(again) is type(value) and again == value
    assert getattr(again, "__dict__", None) == getattr(value, "__dict__", None)


def test_what_is_computed_once_is_no_part():
    @dataclass(frozen=True)
    class Config:
        a: int

        @functools.cached_property
        def twice(self):
            return 2 * self.a

    config = Config(3)
    assert config.twice == 6 and remade.parts_of(config) == {"a": 3}
    assert remade.remade(config, [5]).twice == 10


def test_a_namespace_is_no_container():
    assert not remade.is_record(types.SimpleNamespace(a=1))
