"""Values that are equal in Python and not the same to a kernel: each has a kernel of its own, however it gets there."""

from __future__ import annotations

import collections
import enum
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

import moye as mo
from moye.runtime.arguments import unstable
from moye.runtime.fast_launch import _key_function
from moye.runtime.leaves import kind_of, taken

GLOBAL: Any = 0
SEEN: list[str] = []
NOTED = SEEN.append             # a function: what it has noted is not what a kernel read


class Name(enum.StrEnum):
    x = "x"


class One(enum.IntEnum):
    a = 1


class Another(enum.IntEnum):
    a = 1


class Text(str):
    pass


class Whole(int):
    pass


class Triple(tuple):
    pass


class Pair(NamedTuple):
    a: object
    b: object


class Point(NamedTuple):
    a: object
    b: object


@dataclass(frozen=True)
class Record:
    shown: object = 0
    left_out: object = field(default=0, compare=False)


class ByKey:
    """Its equality leaves out what it weighs."""

    def __init__(self, key: int, weight: object) -> None:
        self.key, self.weight = key, weight

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByKey) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


class Options(dict):
    def doubled(self) -> int:
        return 2 * self["x"]


def described(value: Any) -> str:
    """All that a kernel could find out."""
    if isinstance(value, dict):
        return f"{type(value).__name__} {[(described(k), described(v)) for k, v in value.items()]}"
    if isinstance(value, tuple):
        return f"{type(value).__name__} {[*map(described, value)]} {getattr(value, '__dict__', {})}"
    if isinstance(value, frozenset):
        return f"{type(value).__name__} {sorted(map(described, value))}"
    if isinstance(value, (Record, ByKey)):
        return f"{type(value).__name__} {[(name, described(part)) for name, part in vars(value).items()]}"
    return f"{type(value).__name__} {value!r}"


def weighed(weight: int) -> Triple:
    made = Triple((1, 2, 3))
    made.weight = weight                # type: ignore[attr-defined]
    return made


PAIRS: list[tuple[Any, Any]] = [
    ("x", Name.x), (("x",), (Name.x,)), (("x",), (Text("x"),)), ((1, 2), Pair(1, 2)), (((1, 2),), (Pair(1, 2),)),
    ((Pair(1, 2),), (Point(1, 2),)), (((1, 2, 3),), (Triple((1, 2, 3)),)), (weighed(1), weighed(2)),
    ((1,), (Whole(1),)),
    ((One.a,), (Another.a,)), (Record(1, 2), Record(1, 3)), (Record(1, [2]), Record(1, [3])),
    (Record((1, 2)), Record(Pair(1, 2))), (Record("x"), Record(Name.x)), (Record(Fraction(1)), Record(Decimal(1))),
    (Record(1), Record(Fraction(1))), (Decimal("1.0"), Decimal("1.00")),
    (Record(Decimal("1.0")), Record(Decimal("1.00"))),
    (ByKey(1, 2), ByKey(1, 3)), ((ByKey(1, 2),), (ByKey(1, 3),)), (Record(ByKey(1, [2])), Record(ByKey(1, [3]))),
    (frozenset(["x"]), frozenset([Name.x])), (frozenset([1, 2.0]), frozenset([1.0, 2])),
    (frozenset([1]), frozenset([True])),
    (range(0, 4, 2), range(0, 3, 2)), ((range(0, 4, 2),), (range(0, 3, 2),)),
    ({1: 2}, {True: 2}), ({1: 2}, {1.0: 2}), ({0.0: 1}, {-0.0: 1}), ({(0.0,): 1}, {(-0.0,): 1}),
    ({"x": 1}, {Name.x: 1}),
    ({(1, 2): 1}, {Pair(1, 2): 1}), ({"x": 1}, collections.OrderedDict(x=1)), ({"x": 1}, Options(x=1)),
    ((0.0, 1j), (-0.0, 1j)), ((complex(0.0, 0.0),), (complex(-0.0, 0.0),)), ((np.float32(1),), (np.float64(1),)),
]


def looked_at(out, value):
    NOTED(described(value))
    out[0] = 1.0


@mo.kernel
def of_constexpr(out, value: mo.Constexpr):
    looked_at(out, value)


@mo.kernel
def of_function(out, function):
    looked_at(out, function())


@mo.kernel
def of_global(out):
    looked_at(out, GLOBAL)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{described(pair[0])[:40]}, {described(pair[1])[:40]}")
@pytest.mark.parametrize("way", ["constexpr", "function", "global"])
def test_each_has_a_kernel_of_its_own(pair, way, monkeypatch):
    kernel = {"constexpr": of_constexpr, "function": of_function, "global": of_global}[way]
    monkeypatch.setattr(kernel, "_specialised", {})
    out = np.zeros(1, np.float32)
    SEEN.clear()
    for value in (*pair, *pair):
        monkeypatch.setattr(sys.modules[__name__], "GLOBAL", value)
        try:
            kernel[1, 1](out, *{"constexpr": [value], "function": [lambda value=value: value], "global": []}[way])
        except mo.MoyeError:            # a dict of the module, which is to be an argument
            assert way == "global" or isinstance(value, dict), value
            return
    assert [described(value) for value in pair] == [*dict.fromkeys(SEEN)], SEEN
    assert len(SEEN) == (4 if way == "global" else 2)       # of a name there is one kernel at a time


@pytest.mark.parametrize("change", [
    lambda: (ByKey(1, 2), lambda value: setattr(value, "weight", 3)),
    lambda: ((ByKey(1, 2),), lambda value: setattr(value[0], "weight", 3)),
    lambda: (Record(ByKey(1, 2)), lambda value: setattr(value.shown, "weight", 3)),
    lambda: (Record(1, [2]), lambda value: value.left_out.append(3))])
def test_an_object_that_changes_and_stays_equal_to_itself(change):
    value, changed = change()
    out, before = np.zeros(1, np.float32), described(value)
    SEEN.clear()
    of_constexpr[1, 1](out, value)
    changed(value)
    of_constexpr[1, 1](out, value)
    assert [before, described(value)] == SEEN and SEEN[0] != SEEN[1]
    assert unstable(value)              # a launch on a device does not go by identity


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if isinstance(pair[0], dict)], ids=repr)
def test_dicts_of_arguments(pair):
    """Their items are arguments, their keys and their class are static."""
    @mo.kernel
    def of_items(out, items):
        NOTED(described(dict.fromkeys(items, 0)) + type(items).__name__)
        out[0] = next(iter(items.values()))

    out = np.zeros(1, np.float32)
    SEEN.clear()
    for value in (*pair, *pair):
        of_items[1, 1](out, value)
        assert out[0] == next(iter(value.values()))
    assert [described(dict.fromkeys(value, 0)) + type(value).__name__ for value in pair] == SEEN


def test_methods_of_a_dict_are_there():
    @mo.kernel
    def of_options(out, options):
        out[0] = options.doubled()

    out = np.zeros(1, np.float32)
    of_options[1, 1](out, Options(x=21))
    assert out[0] == 42


def test_the_short_way_looks_at_keys():
    (one, _), (other, _) = (taken((value,), [0]) for value in ({"x": 1.0}, {Name.x: 1.0}))
    assert one != other


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if not isinstance(pair[0], dict)],
                         ids=lambda pair: described(pair[0])[:60])
def test_the_short_way_looks_at_values(pair):
    from moye.lang.signature import StaticSpec

    keys: list[Callable[..., Any]] = [_key_function(["a0"], [kind_of(StaticSpec(0, x), x)]) for x in pair]
    assert type(pair[0]) is not type(pair[1]) or keys[0]((pair[0],)) != keys[1]((pair[1],))
