"""Names that a kernel reads otherwise than as ``module.NAME``, or that are not there yet: a change traces anew."""

from __future__ import annotations

import functools
import sys
import types
from typing import Any

import numpy as np
import pytest

import moye as mo
from moye.runtime.fast_launch import Writer, captured

N = 3
OTHER = types.ModuleType("read_otherwise")
HELD: Any = (OTHER,)


class Base:
    WIDTH = 3

    def times(self, x):
        return x * self.WIDTH

    def __add__(self, x):
        return x + 3


class Derived(Base):
    pass


class Holder:
    def __init__(self):
        self.module = OTHER


def with_default(x, module=OTHER):
    return x * module.N


def with_attribute(x):
    return x


def gives_module():
    return OTHER


@mo.jit
def imports(x):
    from read_otherwise import N
    return x * N


def evaluates(x):
    return x * eval("N + 0")


@mo.kernel
def imported(out):
    import read_otherwise as other
    out[0] = mo.block_dim().x * other.N


@mo.kernel
def imported_in_a_function(out):
    out[0] = imports(1)


@mo.kernel
def by_the_table_of_modules(out):
    out[0] = sys.modules["read_otherwise"].N


@mo.kernel
def by_getattr(out):
    out[0] = getattr(OTHER, "N")  # noqa: B009


@mo.kernel
def not_there(out):
    out[0] = getattr(OTHER, "MORE", 3)


@mo.kernel
def another_name(out):
    other = OTHER
    out[0] = other.N


@mo.kernel
def of_a_tuple(out):
    out[0] = HELD[0].N


@mo.kernel
def of_a_function(out):
    out[0] = gives_module().N


@mo.kernel
def of_a_default(out):
    out[0] = with_default(1)


@mo.kernel
def of_an_object(out, holder: mo.Constexpr):
    out[0] = holder.module.N


@mo.kernel
def attribute_of_a_function(out):
    function = with_attribute
    out[0] = function.N


@mo.kernel
def by_globals(out):
    out[0] = globals()["N"]


@mo.kernel
def evaluated(out):
    out[0] = evaluates(1)


@mo.kernel
def overridden_method(out, x: mo.Constexpr):
    out[0] = x.times(1)


@mo.kernel
def overridden_number(out):
    out[0] = Derived.WIDTH


@mo.kernel
def overridden_operator(out):
    out[0] = Derived() + 0


@mo.kernel
def not_there_in_a_class(out):
    out[0] = getattr(Derived, "MORE", 3)


@mo.kernel
def asked_for(out, x: mo.Constexpr):
    out[0] = 5 if hasattr(x, "MORE") else 3


OF_MODULE = (OTHER, "N", 5)
HERE = (sys.modules[__name__], "N", 5)


@pytest.mark.parametrize(("kernel", "change", "more"), [
    (imported, OF_MODULE, ()), (imported_in_a_function, OF_MODULE, ()), (by_the_table_of_modules, OF_MODULE, ()),
    (by_getattr, OF_MODULE, ()), (not_there, (OTHER, "MORE", 5), ()), (another_name, OF_MODULE, ()),
    (of_a_tuple, OF_MODULE, ()), (of_a_function, OF_MODULE, ()), (of_a_default, OF_MODULE, ()),
    (of_an_object, OF_MODULE, (Holder(),)), (attribute_of_a_function, (with_attribute, "N", 5), ()),
    (by_globals, HERE, ()), (evaluated, HERE, ()), (overridden_method, (Derived, "WIDTH", 5), (Derived(),)),
    (overridden_method, (Derived, "times", lambda self, x: 5 * x), (Derived(),)),
    (overridden_number, (Derived, "WIDTH", 5), ()),
    (overridden_operator, (Derived, "__add__", lambda self, x: x + 5), ()),
    (not_there_in_a_class, (Derived, "MORE", 5), ()), (not_there_in_a_class, (Base, "MORE", 5), ()),
    (asked_for, (Base, "MORE", 5), (Derived(),))],
    ids=lambda x: x.__name__ if isinstance(x, mo.kernel(with_attribute).__class__) else None)
def test_a_change_traces_anew(kernel, change, more, monkeypatch):
    monkeypatch.setitem(sys.modules, "read_otherwise", OTHER)
    monkeypatch.setattr(OTHER, "N", 3, raising=False)
    monkeypatch.setattr(with_attribute, "N", 3, raising=False)
    monkeypatch.setattr(kernel, "_specialised", {})
    out = np.zeros(1, np.int32)

    def ran():
        kernel[1, 1](out, *more)
        [spec] = kernel._specialised.values()
        conditions = short_way(spec)
        assert not spec.stale() and conditions()
        return int(out[0]), spec, conditions

    before, spec, conditions = ran()
    assert ran()[1] is spec                             # nothing has changed
    place, name, value = change
    with monkeypatch.context() as patch:
        patch.setattr(place, name, value, raising=False)
        assert spec.stale() and not conditions()
        assert (before, ran()[0]) == (3, 5)
        assert any(name in why for why in kernel.why_recompiled())
    assert ran()[0] == 3                                # and back


def short_way(spec):
    """What a launch on a device asks, as it asks it."""
    writer = Writer()
    text = " and ".join(captured(writer, *spec.watched()))

    def conditions():
        try:
            return eval(text, dict(writer.values))
        except KeyError:
            return False
    return conditions


@functools.lru_cache
def half():
    return mo.block_dim().x // 2


def third():
    return mo.block_dim().x // 3


@functools.cache
def thirds(n):
    return n * third()


@functools.cache
def place():
    return 2 * mo.thread_idx().x


class Cached:
    @functools.cached_property
    def threads(self):
        return mo.block_dim().x

    @functools.cache  # noqa: B019
    def twice(self):
        return 2 * self.threads


@functools.cache
def expensive():
    """What is the same in each launch stays in its cache."""
    return [None]


@mo.kernel
def cached_kernel(out, cached: mo.Constexpr):
    out[mo.thread_idx().x] = half() + thirds(3) + place() + cached.twice() + cached.threads + len(expensive())


def test_caches_hold_nothing_of_another_launch():
    kept, cached = expensive(), Cached()
    for n in (66, 33, 66, 12):
        out = np.zeros(n, np.int32)
        cached_kernel[1, n](out, cached)
        assert np.array_equal(out, n // 2 + n // 3 * 3 + 2 * np.arange(n) + 3 * n + 1)
    assert expensive() is kept
