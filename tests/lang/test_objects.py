"""Attributes, items and other state of Python objects that traced loops and branches change: carried, or refused.

Each function runs as plain Python and traced, and both results are equal; what cannot be carried names the object.
"""

from __future__ import annotations

import collections
import linecache
import random
import types
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import moye as mo
from moye.errors import TraceError
from plain_and_traced import agree, trace


class Box:
    """The user's own class."""

    total = 0

    def __init__(self, v: Any = 0) -> None:
        self.v = v

    @mo.jit
    def add(self, x):
        if x > 2:
            self.v = self.v + x

    def plain(self, x):
        self.v += x
        return self.v

    @property
    def twice(self):
        return self.v * 2

    @twice.setter
    def twice(self, value):
        self.v = value // 2


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self):
        self.a, self.b = 0, 1


@dataclass
class Nested:
    box: Box
    items: list[Any] = field(default_factory=lambda: [0, 0])
    table: dict[str, Any] = field(default_factory=lambda: {"k": 0})


# --- carried ---------------------------------------------------------------------------------------------------------


def attribute_in_for(n, m):
    s = Box()
    for i in range(n):
        s.v = s.v + i
    return s.v + m


def attribute_in_if(n, m):
    s = Box(3)
    if n > m:
        s.v = 5
    elif n == m:
        s.v = s.v + n
    return s.v


def attribute_set_in_else_alone(n, m):
    s = Box(3)
    if n > m:
        pass
    else:
        s.v = n * 2
    return s.v


def list_item(n, m):
    c = [0, m]
    for i in range(n):
        c[0] += i
        if c[0] > 5:
            c[1] -= 1
    return c[0], c[1]


def dict_item_in_while(n, m):
    d = {"k": 0, "steps": 0}
    while d["k"] < n:
        d["k"] += m
        d["steps"] += 1
    return d["k"], d["steps"]


def nested_places(n, m):
    s = Nested(Box(1))
    for i in range(n):
        s.box.v = s.box.v * 2 + i
        s.items[1] += s.box.v
        if i % 2 == 0:
            s.table["k"] = s.table["k"] + m
    return s.box.v, s.items[1], s.table["k"]


def loops_in_loops(n, m):
    s, c = Box(), [0]
    for i in range(n):
        for j in range(i, m):
            if j == 3:
                continue
            s.v += j
            if s.v > 40:
                c[0] += 1
                break
    return s.v, c[0]


def method_with_a_branch(n, m):
    s = Box(1)
    for i in range(n):
        s.add(i + m)
    return s.v


def undecorated_method(n, m):
    s = Box(1)
    last = 0
    for i in range(n):
        last = s.plain(i)
    return s.v + m, last


def property_setter(n, m):
    s = Box(4)
    for i in range(n):
        s.twice = s.twice + 2 * i
    return s.v + m


def slots_of_a_class(n, m):
    s = Slotted()
    for _ in range(n):
        s.a, s.b = s.b, s.a + s.b
    return s.a, s.b + m


def namespace_object(n, m):
    s = types.SimpleNamespace(x=m)
    for i in range(n):
        if i != 2:
            s.x ^= i
    return s.x


def deque_items(n, m):
    q = collections.deque([0, m])
    for i in range(n):
        q[0] += i
    return q[0], q[1]


def rotated_in_place(n, m):
    q = [1, m, 3]
    for _ in range(n):
        q.append(q.pop(0))
    return q[0], q[1], q[2]


def cell_of_a_closure(n, m):
    def counter():
        count = Box(m)

        def bump(by):
            count.v += by
            return count.v
        return bump
    bump = counter()
    for i in range(n):
        bump(i)
    return bump(0)


def _make_counter(start):
    count = start

    def bump(by):
        nonlocal count
        count = count + by
        return count
    return bump


def nonlocal_of_a_helper(n, m):
    bump = _make_counter(m)
    for i in range(n):
        bump(i)
    return bump(0)


def alias(n, m):
    s = Box(m)
    t = s
    for i in range(n):
        s.v += i
        t.v += 1
    return s.v, t.v


def created_inside(n, m):
    total = 0
    for i in range(n):
        parts = []
        for k in mo.static_range(3):
            parts.append(i * k + m)
        table = {}
        table["sum"] = parts[0] + parts[1] + parts[2]
        total += table["sum"]
    return total


def attribute_first_set_inside(n, m):
    s, total = Box(), 0
    for i in range(n):
        s.scratch = i * m
        total += s.scratch
    return total


def conditional_expression(n, m):
    s = Box(1)
    got = s.plain(n) if n > m else m
    return s.v, got


def early_return_of_a_device_function(n, m):
    s = Box(1)

    @mo.jit
    def step(x):
        if x > 2:
            return
        s.v = s.v + x
    for i in range(n):
        step(i + m)
    return s.v


def early_returns_with_values(n, m):
    s = Nested(Box(m))

    @mo.jit
    def step(x):
        if x % 3 == 0:
            s.items[0] = x
            return 1
        s.box.v += 1
        for j in range(x):
            if j == 2:
                s.box.v += 10
                return 2
        return 3
    total = 0
    for i in range(n):
        total += step(i)
    return total, s.box.v, s.items[0]


def dataclass_by_name_and_in_place(n, m):
    s = Box(0)
    for i in range(n):
        if i > m:
            s.v = i
        else:
            s.v -= 1
    while s.v > 3:
        s.v -= 2
    return s.v


def loop_variable_is_an_attribute(n, m):
    s = Box(m)
    total = 0
    for s.v in range(n):
        total += s.v
    return total


def break_after_a_change(n, m):
    s = Box(0)
    for i in range(n):
        s.v += 2
        if i == m:
            break
        s.v += 1
    return s.v


def test_condition_changes(n=0):
    def fn(n, m):
        s = Box(m)

        def step():
            s.v = s.v + 3
            return s.v
        turns = 0
        while step() < n:
            turns += 1
        return s.v, turns
    agree(fn, (10, 0), (0, 0), (4, 3))


CARRIED = [attribute_in_for, attribute_in_if, attribute_set_in_else_alone, list_item, dict_item_in_while, nested_places,
           loops_in_loops, method_with_a_branch, undecorated_method, property_setter, slots_of_a_class,
           namespace_object, deque_items, rotated_in_place, cell_of_a_closure, nonlocal_of_a_helper, alias,
           created_inside, attribute_first_set_inside, conditional_expression, early_return_of_a_device_function,
           early_returns_with_values, dataclass_by_name_and_in_place, loop_variable_is_an_attribute,
           break_after_a_change]


@pytest.mark.slow
@pytest.mark.parametrize("fn", CARRIED, ids=lambda fn: fn.__name__)
def test_carried(fn):
    agree(fn, (5, 3), (0, 3), (1, 1), (4, 1))


def test_floats_are_carried():
    def fn(n, m):
        s = Box(0.0)
        for _ in range(n):
            s.v = s.v + 1.5
        if m > 2:
            s.v = 5.0
        return s.v
    agree(fn, (4, 1), (4, 3), dtype=np.float32)


COUNT = 0


def test_a_global_that_a_helper_counts():
    def helper(x):
        global COUNT
        COUNT = COUNT + x
        return COUNT

    def reset():
        global COUNT
        COUNT = 0

    def both(n, m):
        reset()
        for i in range(n):
            helper(i)
        return helper(0) + m
    agree(both, (4, 1), (0, 2))


def test_class_attribute():
    def fn(n, m):
        Box.total = 0
        for i in range(n):
            Box.total += i
        return Box.total + m
    agree(fn, (4, 1), (0, 1))


def test_objects_are_as_they_were_outside_of_the_arm_that_changed_them():
    def fn(n, m):
        s = Box(1)
        seen = 0
        if n > m:
            s.v = 10
            seen = s.v
        else:
            seen = s.v
        return seen
    agree(fn, (2, 1), (1, 2))


# --- refused ---------------------------------------------------------------------------------------------------------


def grows(n, m):
    kept = []
    for i in range(n):
        kept.append(i)
    return len(kept) + m


def grows_in_a_branch(n, m):
    kept = [m]
    if n > m:
        kept.append(n)
    return len(kept)


def inserted(n, m):
    kept = [m]
    for i in range(n):
        kept.insert(0, i)
    return kept[0]


def new_key(n, m):
    kept = {}
    if n > m:
        kept["k"] = 1
    return len(kept)


def updated(n, m):
    kept = {"a": m}
    for i in range(n):
        kept.update(b=i)
    return kept["a"]


def set_default(n, m):
    kept = {}
    for i in range(n):
        kept.setdefault("k", []).append(i)
    return m


def deleted(n, m):
    kept = [n, m]
    if n > m:
        del kept[0]
    return kept[0]


def set_member(n, m):
    kept = set()
    for _ in range(n):
        kept.add("x")
    return len(kept) + m


def iterator_moves(n, m):
    numbers = iter([1, 2, 3])
    total = 0
    for _ in range(n):
        total += next(numbers)
    return total + m


def numpy_array(n, m):
    kept = np.zeros(3, np.int32)
    for _ in range(n):
        kept[0] += 1
    return int(kept[0]) + m


def operand_of_and(n, m):
    s = Box(1)
    if n > 1 and s.plain(1) > m:
        return 1
    return 2 + s.v


def becomes_another_kind(n, m):
    s = Box(None)
    for i in range(n):
        s.v = i
    return m


def int_then_float(n, m):
    s = Box(0)
    for _ in range(n):
        s.v = s.v + 0.5
    return s.v + m


def byte_array(n, m):
    kept = bytearray(4)
    if n > m:
        kept[0] = 1
    return kept[0]


def deep_growth(n, m):
    s = Nested(Box([1]))
    if n > m:
        s.box.v.append(2)
    return len(s.box.v)


REFUSED = {"kept": [grows, grows_in_a_branch, inserted, new_key, updated, set_default, deleted, set_member, numpy_array,
                    byte_array],
           "numbers": [iterator_moves], "s.v": [operand_of_and, becomes_another_kind, int_then_float],
           "s.box.v": [deep_growth]}


@pytest.mark.parametrize(("name", "fn"), [(name, fn) for name, fns in REFUSED.items() for fn in fns],
                         ids=lambda x: getattr(x, "__name__", x))
def test_refused_by_name(name, fn):
    with pytest.raises(TraceError) as caught:
        trace(fn, 4, 1)
    message = str(caught.value)
    assert name in message.splitlines()[0] and "\n    " in message, message


def test_a_generator_from_outside_of_the_loop():
    def source():
        yield from (1, 2, 3)

    def fn(n, m):
        numbers = source()
        total = 0
        for _ in range(n):
            for k in numbers:
                total += k
        return total + m
    with pytest.raises(TraceError, match="numbers"):
        trace(fn, 4, 1)


def test_static_state_outside_of_traced_regions_is_pythons():
    def fn(n, m):
        kept, it, s = [], iter([1, 2, 3]), Box(0)
        for k in mo.static_range(3):
            kept.append(k * n)
            s.v += next(it)
        return kept[2] + s.v + len(kept) + m
    agree(fn, (4, 1))


@pytest.mark.parametrize("space", [{}, {"__name__": "builtins"}, {"__name__": "notebook"}, {"__name__": None}])
def test_classes_and_globals_of_code_that_was_executed(space):
    source = """class State:
    total = 0
    def __init__(self):
        self.v = 0
    def add(self, x):
        self.v += x
        State.total += 1
def reset():
    global count
    State.total = count = 0
def step():
    global count
    count += 2
def drawn(n, m):
    reset()
    s = State()
    for i in range(n):
        s.add(i)
        if i > m:
            step()
    return s.v, State.total, count
"""
    name = f"<executed {space}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    exec(compile(source, name, "exec"), space)
    agree(space["drawn"], (5, 2), (0, 3))


# --- which object a variable holds ------------------------------------------------------------------------------------


@dataclass
class Sum:
    v: Any = 0

    def __iadd__(self, x):
        self.v = self.v + x
        return self

    @mo.jit
    def add(self, x):
        if x > 2:
            self.v = self.v + x
            return self
        return self


@mo.jit
def pick(n, m, p, q):
    if n > m:
        return p
    return q


def swapped_lists(n, m):
    p, q = [n], [m]
    for i in range(n):
        p, q = q, p
        p[0] = p[0] + i
    return p[0], q[0]


def changed_in_place_without_an_alias(n, m):
    s = Sum(m)
    for i in range(n):
        s += i
        s = Sum(s.v + 1)
    s.v = s.v * 2
    return s.v


def the_same_object_in_both_arms(n, m):
    s = Sum(m)
    other = s
    if n > m:
        s += n
    s += 1
    return s.v, other.v


def the_other_one_is_changed_inside_the_arm(n, m):
    a, b = [n], [m]
    if n > m:
        a = b
        b[0] = 99
    return a[0], b[0]


def fresh_in_a_conditional_expression(n, m):
    x = [n] if n > m else [m]
    x[0] = x[0] + 1
    return x[0]


def a_method_that_returns_itself_early(n, m):
    s = Sum(m)
    t = s.add(n)
    t = t.add(m)
    return s.v, t.v


def left_behind_and_changed(n, m):
    p, t = [n], [m]
    for i in range(n):
        t = p
        p = [p[0] + i]
        t[0] = 9
    return p[0], t[0]


@pytest.mark.parametrize("fn", [swapped_lists, changed_in_place_without_an_alias, the_same_object_in_both_arms,
                                the_other_one_is_changed_inside_the_arm, fresh_in_a_conditional_expression,
                                a_method_that_returns_itself_early, left_behind_and_changed],
                         ids=lambda fn: fn.__name__)
def test_objects_without_a_second_reference(fn):
    agree(fn, (5, 3), (0, 3), (1, 1), (4, 1))


def alias_from_before_the_loop(n, m):
    acc = [n]
    other = acc
    for _ in range(n):
        acc[0] = acc[0] + 1
        acc = [acc[0] * 2]
    return other[0] + m


def alias_of_what_adds_to_itself(n, m):
    acc = Sum(m)
    other = acc
    for i in range(n):
        acc += i
    return other.v


def alias_in_another_object(n, m):
    acc = Sum([m])
    inner = acc.v
    for _ in range(n):
        acc = Sum(acc.v)
        acc.v[0] = acc.v[0] + 1
    return inner[0]


def alias_made_in_the_loop(n, m):
    acc, last = [n], [m]
    for _ in range(n):
        acc = [acc[0] + 1]
        last = acc
    acc[0] = 100
    return last[0]


def alias_in_a_while_loop(n, m):
    acc, kept = [n], Nested(Box(m))
    kept.items = acc
    while acc[0] < 10:
        acc = [acc[0] + m]
        kept.items[0] = 1
    return acc[0]


def one_of_two_after_an_if(n, m):
    acc, b = [n], [m]
    if n > m:
        acc = b
    acc[0] = 77
    return b[0]


def the_other_name_after_an_if(n, m):
    acc, b = [n], [m]
    if n > m:
        acc = b
    b[0] = 77
    return acc[0]


def one_of_two_through_nested_ifs(n, m):
    acc, b = {"k": n}, {"k": m}
    if n > 1:
        n = n + 1
        if n > m:
            acc = b
    for i in range(n):
        acc["k"] = i
    return b["k"]


def conditional_expression_of_objects(n, m):
    p, q = [n], [m]
    acc = p if n > m else q
    acc[0] = 55
    return p[0], q[0]


def result_of_a_function(n, m):
    p, q = [n], [m]
    pick(n, m, p, q)[0] = 31
    return p[0], q[0]


@pytest.mark.parametrize("fn", [alias_from_before_the_loop, alias_of_what_adds_to_itself, alias_in_another_object,
                                alias_made_in_the_loop, alias_in_a_while_loop, one_of_two_after_an_if,
                                the_other_name_after_an_if, one_of_two_through_nested_ifs,
                                conditional_expression_of_objects, result_of_a_function], ids=lambda fn: fn.__name__)
def test_a_change_that_a_second_reference_would_miss_is_refused(fn):
    with pytest.raises(TraceError, match="cannot tell which one changes") as caught:
        trace(fn, 4, 1)
    first = str(caught.value).splitlines()[0]
    assert "acc" in first or "conditional" in first or "result of pick" in first, first


# --- drawn programs --------------------------------------------------------------------------------------------------

PLACES = ["a", "b", "s.v", "s.w", "c[0]", "c[1]", "d['k']", "o.box.v", "o.items[0]"]


class _Draw:
    """A random function over names and places of objects; loops are short, numbers stay small."""

    def __init__(self, seed: int) -> None:
        self.random, self.loops = random.Random(seed), 0

    def source(self) -> str:
        body = self.suite(3, 1, False)
        return ("def drawn(n, m):\n    s, c, d, o = Box(n), [0, m], {'k': 1}, Nested(Box(2))\n    s.w = 3\n"
                "    a, b = n, m\n" + body + f"    return {', '.join(PLACES[:7])}, o.box.v + o.items[0]\n")

    def term(self) -> str:
        return self.random.choice([*PLACES, "n", "m", "1", "2", "3"])

    def suite(self, depth: int, indent: int, loop: bool) -> str:
        return "".join(self.statement(depth, indent, loop) for _ in range(self.random.randint(1, 3)))

    def statement(self, depth: int, indent: int, loop: bool) -> str:
        pad, draw = "    " * indent, self.random.random()
        if depth and draw < 0.25:
            self.loops += 1
            return f"{pad}for i{self.loops} in range({self.random.choice(['n', 'm', '3'])}):\n" + \
                self.suite(depth - 1, indent + 1, True)
        if depth and draw < 0.6:
            text = f"{pad}if {self.term()} < {self.term()}:\n{self.suite(depth - 1, indent + 1, loop)}"
            if self.random.random() < 0.5:
                text += f"{pad}elif {self.term()} > {self.term()} and {self.term()} != 2:\n"
                text += self.suite(depth - 1, indent + 1, loop)
            return text + (f"{pad}else:\n{self.suite(depth - 1, indent + 1, loop)}" if draw < 0.5 else "")
        if loop and draw < 0.68:
            return f"{pad}if {self.term()} > {self.term()}: {self.random.choice(['break', 'continue'])}\n"
        one, other = self.random.sample(PLACES, 2)
        if draw < 0.75:
            return f"{pad}{one}, {other} = {other}, {one}\n"
        return f"{pad}{one} = ({self.term()} + {self.term()} * {self.random.choice('123')}) % 17\n"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_drawn_programs(seed):
    source = _Draw(seed).source()
    name = f"<drawn {seed}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space: dict[str, Any] = {"Box": Box, "Nested": Nested, "__name__": __name__}
    exec(compile(source, name, "exec"), space)
    agree(space["drawn"], (3, 2), (0, 4))
