"""Rewritten functions compute what the originals do: under a control object that is plain Python, and under one that,
like a trace, runs every branch and every loop body, and joins them by the carried names alone.
"""

from __future__ import annotations

import functools
import itertools
import linecache
import operator
import random
import re
import textwrap
import traceback

import pytest

from moye.errors import TraceError
from moye.lang.rewrite import free_names, rewrite, rewritten_source

_count = itertools.count()


# --- two control objects ---------------------------------------------------------------------------------------------

OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
             "!=": operator.ne}


class Unbound:
    def __repr__(self):
        return "unbound"


class Static:
    """Every decision is Python's own.  Records what it was asked to carry and to name."""

    def __init__(self):
        self.carried, self.named, self.calls = [], [], []

    def note(self, names, what):
        if (what, names) not in self.carried:
            self.carried.append((what, names))

    def loop(self, iterable, names, target):
        self.note(names, f"for {target}")
        return StaticLoop(iterable, names)

    def while_(self, names, always):
        self.note(names, f"while {always}")
        return StaticLoop(itertools.repeat(None), names)

    def if_(self, cond, names):
        self.note(names, "if")
        return StaticIf(bool(cond), names)

    def function(self):
        return StaticFrame()

    def and_(self, *terms):
        return functools.reduce(lambda value, term: value and term(), terms[1:], terms[0]())

    def or_(self, *terms):
        return functools.reduce(lambda value, term: value or term(), terms[1:], terms[0]())

    def not_(self, value):
        return not value

    def chain(self, operators, left, *terms):
        for op, term in zip(operators, terms, strict=True):
            right = term()
            if not (result := OPERATORS[op](left, right)):
                return result
            left = right
        return result

    def ifexp(self, cond, then, orelse):
        return then() if cond else orelse()

    def assert_(self, cond, message):
        if not cond:
            raise AssertionError(message())

    def builtin(self, fn):
        self.calls.append(getattr(fn, "__name__", "?"))
        return fn

    def name(self, name, value):
        self.named.append(name)
        return value

    def names(self, names, value):
        self.named += names
        return value


class StaticLoop:
    def __init__(self, iterable, names):
        self.iterable, self.names = iterable, names

    def __iter__(self):
        return iter(self.iterable)

    def begin(self, variables):
        return tuple(variables.get(name, Unbound()) for name in self.names)

    after = begin

    def end(self, variables):
        assert "__moye__" not in variables or variables["__moye__"], "locals are the kernel's"

    def test(self, cond):
        return 0 if cond else 1

    def break_(self, variables):
        return 1

    def continue_(self, variables):
        return 1


class StaticIf(StaticLoop):
    def __init__(self, cond, names):
        self.cond, self.names = cond, names

    def then(self, variables):
        self.before = self.begin(variables)
        return self.cond

    def orelse(self):
        return not self.cond

    def restore(self):
        return self.before

    end_then = end_else = StaticLoop.end
    merge = StaticLoop.begin


class StaticFrame:
    def return_(self, value):
        self.value = value
        return 1

    def finish(self):
        return None


class Traced(Static):
    """Both branches and one more turn of each loop run; ``live`` says whether what runs counts."""

    live = True

    def loop(self, iterable, names, target):
        return TracedLoop(self, list(iterable), names)

    def while_(self, names, always):
        return TracedLoop(self, None, names)

    def if_(self, cond, names):
        return TracedIf(self, bool(cond), names)

    def function(self):
        return TracedFrame(self)


def values(names, variables):
    return tuple(variables.get(name, 777) for name in names)


class TracedLoop:
    def __init__(self, control, items, names):
        self.control, self.items, self.names = control, items, names
        self.state, self.left, self.outer = None, False, control.live

    def __iter__(self):
        items = itertools.repeat(None) if self.items is None else self.items
        for item in items if self.outer else ():
            self.again = False
            yield item
            if not self.again:
                break
        self.control.live = False
        for item in [None] if self.items is None else self.items[:1]:
            yield item                                      # a turn that does not count
        self.control.live = self.outer and not (self.outer is True and self.returned())

    def returned(self):
        return any(frame.done for frame in TracedFrame.stack)

    def begin(self, variables):
        if self.state is None:
            self.state = values(self.names, variables)
        return self.state

    def test(self, cond):
        if self.control.live and not cond:
            self.control.live = False
        return 0

    def _keep(self, variables, again):
        if self.control.live:
            self.state, self.again = values(self.names, variables), again

    def end(self, variables):
        self._keep(variables, True)
        self.control.live = self.outer and self.again and not self.returned()

    def break_(self, variables):
        self._keep(variables, False)
        self.control.live = False
        return 0

    def continue_(self, variables):
        self._keep(variables, True)
        self.control.live = False
        return 0

    def after(self, variables):
        return values(self.names, variables) if self.state is None else self.state


class TracedIf:
    def __init__(self, control, cond, names):
        self.control, self.cond, self.names, self.outer = control, cond, names, control.live

    def then(self, variables):
        self.before, self.control.live = values(self.names, variables), self.outer and self.cond
        return True

    def end_then(self, variables):
        self.first, self.control.live = (self.control.live, values(self.names, variables)), self.outer and not self.cond

    def orelse(self):
        return True

    def restore(self):
        return self.before

    def end_else(self, variables):
        self.second = self.control.live, values(self.names, variables)

    def merge(self, variables):
        self.control.live = self.first[0] or self.second[0]
        return self.first[1] if self.first[0] else self.second[1] if self.second[0] else (777,) * len(self.names)


class TracedFrame:
    stack: list[TracedFrame] = []  # noqa: RUF012

    def __init__(self, control):
        self.control, self.value, self.done, self.outer = control, None, False, control.live
        self.stack.append(self)

    def return_(self, value):
        if self.control.live:
            self.value, self.done = value, True
        self.control.live = False
        return 0

    def finish(self):
        self.stack.remove(self)
        self.control.live = self.outer
        return self.value


# --- the battery -----------------------------------------------------------------------------------------------------

# Functions of a, b, c; these only compute.
TRACEABLE = """
    x = 0
    for i in range(a): x = x + i * b
    return x
---
    for i in range(a):
        for j in range(b):
            if j > i: break
            if (i + j) % 2: continue
            c += i * j
        else_ = c
    return c
---
    while a > 0:
        a -= 1
        if a == b: continue
        c = c + a
    return c
---
    n = 0
    while True:
        n += 1
        if n > a: break
        if n == b: return -n
    return n
---
    while (a := a - 1) > 0:
        if a == 3: continue
        c += a
    return a, c
---
    while n := a:
        a -= 1
        if a == b: break
    return a, n
---
    if a > b: return 1
    elif a == b: return 2
    else:
        if c: return 3
    return 4
---
    if a: return
    c = 1
---
    for i in range(4):
        for j in range(4):
            if i * j == a: return i, j
    return None
---
    x = y = 0
    if a > 1:
        x = b
        if b > 1: y = x + 1
        else: x = -1
    elif c: y = 5
    return x, y
---
    read, write = 0, 1
    out = []
    for i in range(a):
        stage = read + 10
        if i % 2 == 0 and i < b:
            read, write = write, read
        out = [*out, (stage, read, write)]
    return out
---
    return [a and b, b or c, not a, a and b or c, not (a and b), a or (b and not c), a and b and c]
---
    return [a < b < c, a < b <= c == 2, a != b > c >= 0, 0 <= a, a < b == (c in (1, 2))]
---
    return a if b else c, (a if a > b else b) if c else (a if c > 1 else -1)
---
    z = (y := a + b) * y
    return z, y
---
    def add(p, q=b, *, r=c):
        if p: return p + q
        return r
    return add(a), add(0, 3), add(a, r=9), add(0, r=9)
---
    def fact(n): return n * fact(n - 1) if n > 1 else 1
    return fact(a)
---
    k = 1
    def scaled(v): return v * k
    for i in range(a): k = k + i
    return scaled(b)
---
    return [x and y for x in range(a) for y in range(b) if x and y or c], {x: x or c for x in range(3)}
---
    return sum(x if x > 1 else -x for x in range(a)), sorted(range(a), key=lambda v: v and -v or 1)
---
    f = lambda v, w=a or 7: v if v > w else w
    return f(b), f(c, 1)
---
    t: int = a
    u: int
    (u) = t + 1
    t += u
    return t, u
---
    p, (q, *r) = a, (b, c, a)
    [s, t] = r
    (u,) = [s]
    return p, q, r, s, t, u
---
    i = 10
    for i in range(a, a + 3):
        if i == b: break
    return i
---
    s = 0
    for i, (j, k) in enumerate(zip(range(a + 1), range(b, b + 4))):
        s += i * j - k
    return s
---
    x = 1
    for i in reversed(range(5)):
        if i == a:
            x = 2
            continue
        if i == b:
            x = x * 3
        else:
            x = x + i
            if x > 9: break
        x += 1
    return x
---
    import math as m
    from operator import mul, add as plus
    return m.gcd(a, b), mul(a, b), plus(b, c)
---
    assert a < 10, "a" + 1
    return min(a, b), max(b, c), abs(-a), round(1.5), len((a, b)), pow(a, 2), divmod(a + 1, 3), any([a]), all((b, c))
---
    flag = False
    for i in range(a):
        if i == b:
            flag = True
            break
    if not flag: c += 100
    return c
---
    return f"{a and b} {a if b else c:>3}"
---
    x = a
    while x:
        y = x
        while y:
            y -= 1
            if y == b: break
            c += 1
        x -= 1
        if c > 12: return c
    return x, y if a else None
---
    total = 0
    for i in range(3):
        x = i
        if a > i:
            for j in range(b):
                if j == 2: break
                x += j
                if x == 3: return "three", total
            else_ = x
        elif b: continue
        total += x
    return total
---
    class Pair:
        left = a and b
        def right(self):
            try: return c and a
            finally: pass
    return Pair.left, Pair().right()
---
    x = a
    del x
    x = b
    return x
---
    "doc"
    return a
    return b
"""

# These have effects, or need every turn to count.
STATIC_ONLY = """
    v = [0] * 4
    for v[0] in range(a): v[1] += v[0]
    v[2], v[3] = v[1], v[0]
    return v
---
    out = []
    with open("/dev/null") as f:
        for i in range(a):
            if i == b: return f.name
            out.append(i)
    return out
---
    match (a, b, [c, a]):
        case (0, x, _): r = x
        case (x, 1 | 2 as y, [z, *w]) if x and y:
            r = x, y, z, w
            if z: return r
        case _: r = None
    return r
---
    for i in range(3):
        match i:
            case 1 if a: continue
            case 2: break
        c += 1
    return c
---
    log = []
    def say(v):
        log.append(v)
        return v
    say(0) and say(1); say(2) or say(3); say(a) < say(b) < say(c)
    r = say(a) if say(b) else say(c)
    return log, not say(1)
---
    d = {}
    for k in [a, b, c]:
        if k in d: d[k] += 1
        else: d[k] = 1
    for k in list(d):
        if d[k] > 1: del d[k]
    return d, a is not b is not None
---
    out = []
    print("x", *out, end="", file=__import__("io").StringIO())
    it = iter(range(a))
    while (v := next(it, None)) is not None and v < b: out.append(v)
    return out
---
    if a > 5: raise ValueError(a)
    if a and b: unset = c
    return (lambda *s, **k: (s, k))(*range(a), k=b or c)
"""


def define(text: str, head: str = "def f(a, b, c):\n", **namespace):
    file = f"<rewrite test {next(_count)}>"
    text = head + text
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace["__name__"] = "notebook"
    exec(compile(text, file, "exec"), namespace)
    return namespace["f"]


def outcome(fn, *args):
    try:
        return repr(fn(*args))
    except (AssertionError, ValueError) as error:
        return repr(error)


INPUTS = [*itertools.product(range(4), repeat=3), (7, 1, 2), (4, 9, 1)]


def each(*texts):
    programs = [program for text in texts for program in text.split("---\n")]
    return pytest.mark.parametrize("text", programs, ids=lambda text: text.strip().split("\n")[0].strip())


@each(TRACEABLE, STATIC_ONLY)
def test_static_battery(text):
    fn = define(text)
    new = rewrite(fn, Static())
    for args in INPUTS:
        assert outcome(new, *args) == outcome(fn, *args), args


@each(TRACEABLE)
def test_traced_battery(text):
    fn = define(text)
    new = rewrite(fn, Traced())
    for args in INPUTS:
        assert outcome(new, *args) == outcome(fn, *args), args
    assert not TracedFrame.stack


# --- random programs -------------------------------------------------------------------------------------------------

class Program:
    """A random function of a, b, c that always ends; every name is bound before it is read."""

    def __init__(self, seed):
        self.random, self.loops, self.lines = random.Random(seed), 0, ["    x = y = z = 0"]
        self.block(1, False, 5)
        self.lines.append(f"    return {', '.join(self.random.sample('abcxyz', 2))}")

    def expression(self, depth=2):
        if depth == 0 or self.random.random() < 0.3:
            return self.random.choice([*"abcxyzxyz", "1", "2"])
        p, q, r = (self.expression(depth - 1) for _ in range(3))
        return self.random.choice([f"({p} + {q})", f"({p} - {q})", f"({p} * {q} % 17)", f"({p} and {q})",
                                   f"({p} or {q})", f"({p} if {q} else {r})", f"(not {p})", f"({p} < {q} <= {r})",
                                   f"({p} > {q})", f"min({p}, {q})"])

    def block(self, depth, loop, budget):
        for _ in range(self.random.randint(2, 5)):
            self.statement(depth, loop, budget)

    def statement(self, depth, loop, budget):
        pad, e, v, w = "    " * depth, self.expression, *self.random.sample("abcxyz", 2)
        kind = self.random.choice([*"====", "swap", "if", "if", "if", "for", "while", "jump", "jump", "return", "walrus"])
        if kind in ("if", "for", "while") and not budget:
            kind = "="
        if kind == "if":
            self.lines.append(f"{pad}if {e()}:")
            self.block(depth + 1, loop, budget - 1)
            if self.random.random() < 0.5:
                self.lines.append(f"{pad}else:")
                self.block(depth + 1, loop, budget - 1)
        elif kind == "for":
            self.lines.append(f"{pad}for {v} in range({self.random.randint(0, 3)}):")
            self.block(depth + 1, True, max(0, budget - 2))
        elif kind == "while":
            self.loops += 1
            self.lines += [f"{pad}n{self.loops} = 4", f"{pad}while n{self.loops} and {e()}:",
                           f"{pad}    n{self.loops} -= 1"]
            self.block(depth + 1, True, max(0, budget - 2))
        elif kind == "jump" and loop:
            self.lines.append(f"{pad}{self.random.choice(['break', 'continue'])}")
        elif kind == "return" and self.random.random() < 0.2:
            self.lines.append(f"{pad}return {e()}, {v}")
        else:
            self.lines.append(pad + {"swap": f"{v}, {w} = {w}, {v}", "walrus": f"{v} = ({w} := {e()}) + {e()}"}.get(
                kind, f"{v} {self.random.choice(['=', '=', '+='])} {e()}"))


@pytest.mark.parametrize("seed", range(400))
def test_random_programs(seed):
    text = "\n".join(Program(seed).lines) + "\n"
    fn = define(text)
    static, traced = rewrite(fn, Static()), rewrite(fn, Traced())
    for args in [(0, 0, 0), (1, 2, 3), (3, 0, 1), (5, 7, 2)]:
        expected = outcome(fn, *args)
        assert outcome(static, *args) == expected, text
        assert outcome(traced, *args) == expected, text
