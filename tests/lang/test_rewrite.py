"""Rewritten functions compute what the originals do: under a control object that is plain Python, and under one that,
like a trace, runs every branch and every loop body, and joins them by the carried names alone.
"""

from __future__ import annotations

import functools
import itertools
import linecache
import operator
import random
import textwrap
import traceback

import pytest

from moye.errors import TraceError
from moye.lang.rewrite import free_names, rewrite, rewritten_source
from moye.lang.texts import joined

_count = itertools.count()


# --- two control objects ---------------------------------------------------------------------------------------------

OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
             "!=": operator.ne, "is": operator.is_, "is not": operator.is_not,
             "in": lambda a, b: a in b, "not in": lambda a, b: a not in b}


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

    def loop(self, iterable, names, target, jumps=()):
        self.note(names, f"for {target}")
        return StaticLoop(iterable, names)

    def while_(self, names, always):
        self.note(names, f"while {always}")
        return StaticLoop(itertools.repeat(None), names)

    def raising(self):
        pass

    def fails(self, message):
        raise AssertionError(message())

    def text(self, *parts):
        return joined(parts)

    def subject(self, truths, value):
        return value

    def chosen(self, cond):
        return bool(cond)

    def if_(self, cond, names, dead=(), called=None):
        self.note(names, "if")
        return StaticIf(bool(cond), names)

    def function(self):
        return StaticFrame()

    def and_(self, *terms):
        return functools.reduce(lambda value, term: value and term(), terms[1:], terms[0]())

    def or_(self, *terms):
        return functools.reduce(lambda value, term: value or term(), terms[1:], terms[0]())

    def and_value(self, called, *terms):
        return self.and_(*terms)

    def or_value(self, called, *terms):
        return self.or_(*terms)

    def not_(self, value):
        return not value

    def beside(self, left, right):
        return right

    def operator(self, symbol, left, right):
        return {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "%": operator.mod,
                "//": operator.floordiv, "**": operator.pow, **OPERATORS}[symbol](left, right)

    def added(self, of, before, value):
        before()
        return value

    def chain(self, operators, left, *terms):
        for op, term in zip(operators, terms, strict=True):
            right = term()
            if not (result := OPERATORS[op](left, right)):
                return result
            left = right
        return result

    def ifexp(self, cond, then, orelse, called):
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


class Arms:
    def __enter__(self):
        pass

    def __exit__(self, *_):
        pass


class StaticLoop(Arms):
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

    def break_(self, variables, through=False):
        return 1

    def continue_(self, variables, through=False):
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
    def return_(self, value, through=False):
        self.value = value
        return 1

    def finish(self):
        return None


class Traced(Static):
    """Both branches and one more turn of each loop run; ``live`` says whether what runs counts."""

    live = True

    def loop(self, iterable, names, target, jumps=()):
        return TracedLoop(self, list(iterable), names)

    def while_(self, names, always):
        return TracedLoop(self, None, names)

    def if_(self, cond, names, dead=(), called=None):
        return TracedIf(self, bool(cond), names, dead)

    def function(self):
        return TracedFrame(self)


def values(names, variables):
    return tuple(variables.get(name, 777) for name in names)


class TracedLoop(Arms):
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

    def break_(self, variables, through=False):
        self._keep(variables, False)
        self.control.live = False
        return 0

    def continue_(self, variables, through=False):
        self._keep(variables, True)
        self.control.live = False
        return 0

    def after(self, variables):
        return values(self.names, variables) if self.state is None else self.state


class TracedIf(Arms):
    def __init__(self, control, cond, names, dead):
        self.control, self.cond, self.names, self.outer, self.dead = control, cond, names, control.live, dead

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
        merged = self.first[1] if self.first[0] else self.second[1] if self.second[0] else (777,) * len(self.names)
        return tuple(777 if name in self.dead else value for name, value in zip(self.names, merged, strict=True))


class TracedFrame:
    stack: list[TracedFrame] = []  # noqa: RUF012

    def __init__(self, control):
        self.control, self.value, self.done, self.outer = control, None, False, control.live
        self.stack.append(self)

    def return_(self, value, through=False):
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
        kind = self.random.choice([*"====", *["if"] * 3, *["jump"] * 2, "for", "while", "swap", "return", "walrus"])
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


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(150))
def test_random_programs(seed):
    text = "\n".join(Program(seed).lines) + "\n"
    fn = define(text)
    static, traced = rewrite(fn, Static()), rewrite(fn, Traced())
    for args in [(0, 0, 0), (1, 2, 3), (3, 0, 1), (5, 7, 2)]:
        expected = outcome(fn, *args)
        assert outcome(static, *args) == expected, text
        assert outcome(traced, *args) == expected, text


# --- the protocol ----------------------------------------------------------------------------------------------------

DOUBLE_BUFFER = """
    smem_read, smem_write = 0, 1
    tCsA_p = tCsA[smem_read]
    tCsB_p = tCsB[smem_read]
    for k_tile in range(k_tile_max):
        for k_block in static_range(k_block_max):
            k_block_next = k_block + 1
            if k_block == k_block_max - 1:
                tCsA_p = tCsA[smem_read]
                tCsB_p = tCsB[smem_read]
                k_block_next = 0
            copyto(tCsA_p, tCsB_p, k_block_next)
            if k_block == 0 and k_tile < k_tile_max - 1:
                copyto(smem_write, k_tile + 1)
                smem_read, smem_write = smem_write, smem_read
            copyto(k_block)
"""


def test_the_reference_s_double_buffer():
    log = []
    fn = define(DOUBLE_BUFFER, "def f(tCsA, tCsB, k_tile_max, k_block_max):\n", static_range=range,
                copyto=lambda *args: log.append(args))
    fn("ab", "cd", 3, 3)
    expected, control = list(log), Static()
    log.clear()
    rewrite(fn, control)("ab", "cd", 3, 3)
    assert log == expected
    stages = ("smem_read", "smem_write", "tCsA_p", "tCsB_p")
    assert control.carried == [("for k_tile", stages), ("for k_block", stages),
                               ("if", ("k_block_next", "tCsA_p", "tCsB_p")), ("if", ("smem_read", "smem_write"))]
    assert control.named[:5] == ["smem_read", "smem_write", "tCsA_p", "tCsB_p", "k_block_next"]
    assert set(control.calls) == {"range"}


@pytest.mark.parametrize(("text", "expected"), [
    ("x = 0\nfor i in a:\n    x += i\nreturn x", """
        x = __moye__.name('x', 0)
        __l1 = __moye__.loop(a, ('x',), 'i')
        for i in __l1:
            x, = __l1.begin(locals())
            with __l1:
                x += __moye__.beside(x, i)
                __l1.end(locals())
        x, = __l1.after(locals())
        return x"""),
    ("for i, j in a:\n    print(i)\nreturn j", """
        __l1 = __moye__.loop(a, ('j',), '')
        for __t2 in __l1:
            j, = __l1.begin(locals())
            with __l1:
                i, j = __t2
                __moye__.builtin(print)(i)
                __l1.end(locals())
        j, = __l1.after(locals())
        return j"""),
    ("while a < b:\n    a += 1\n    if c: continue\n    break", """
        __l1 = __moye__.while_(('a',), False)
        for __t2 in __l1:
            a, = __l1.begin(locals())
            with __l1:
                __s = __l1.test(a < __moye__.beside(a, b))
                if __s == 1:
                    break
                if __s == 2:
                    continue
                a += 1
                __c3 = __moye__.if_(c, ())
                if __c3.then(locals()):
                    __s = __l1.continue_(locals())
                    if __s:
                        continue
                    __c3.end_then(locals())
                if __c3.orelse():
                    __c3.restore()
                    __c3.end_else(locals())
                __c3.merge(locals())
                __s = __l1.break_(locals())
                if __s == 1:
                    break
                if __s == 2:
                    continue
                __l1.end(locals())
        a, = __l1.after(locals())"""),
    ("while 1:\n    if a:\n        return a\n        print(b)", """
        __f = __moye__.function()
        __l1 = __moye__.while_((), True)
        for __t2 in __l1:
            __l1.begin(locals())
            __c3 = __moye__.if_(a, ())
            if __c3.then(locals()):
                __s = __f.return_(a)
                if __s == 1:
                    return __f.value
                if __s == 2:
                    continue
                __c3.end_then(locals())
            if __c3.orelse():
                __c3.restore()
                __c3.end_else(locals())
            __c3.merge(locals())
            __l1.end(locals())
        __l1.after(locals())
        return __f.finish()"""),
    ("__l1 = __s = a\nassert not a < b < c\nx: int = a if b else c\nreturn (p := a) and p in b", """
        __l1 = __s = a
        __moye__.assert_(__moye__.not_(__moye__.chain(('<', '<'), a, lambda: b, lambda: c)), lambda: None)
        x: int = __moye__.name('x', __moye__.ifexp(b, lambda: a, lambda: c, lambda: ()))
        return __moye__.and_value(lambda: (), lambda __v=(p := a): __v, lambda: __moye__.operator('in', p, b))"""),
    ("assert not (a and b) or (b and c)\nreturn a and f(b)", """
        __moye__.assert_(__moye__.or_(lambda: __moye__.not_(__moye__.and_(lambda: a, lambda: b)), \
lambda: __moye__.and_(lambda: b, lambda: c)), lambda: None)
        return __moye__.and_value(lambda: (f,), lambda: a, lambda: f(b))"""),
], ids=["for", "target live", "while", "return", "expressions", "truths"])
def test_protocol(text, expected):
    text = rewritten_source(define(textwrap.indent(text + "\n", "    ")))
    assert text == "def f(a, b, c):" + textwrap.dedent(expected).replace("\n", "\n    ")


def test_temporary_names_avoid_the_user_s():
    text = rewritten_source(define("    for i in a: return __l1, __s, __f\n"))
    assert "__l1_ = __moye__.loop(a" in text and "__s_ = __f_.return_((__l1, __s, __f))" in text


# --- the function around the code ------------------------------------------------------------------------------------

def keep(fn):
    return fn


@keep
def sample(a, b=[1], *c, d: int = 2, **e) -> str:  # noqa: B006
    """Doc."""
    if a:
        return b, c, d, e
    return sample.__name__


def test_attributes_defaults_and_globals():
    new = rewrite(sample, Static())
    assert new.__defaults__ is sample.__defaults__ and new.__kwdefaults__ is sample.__kwdefaults__
    assert new.__globals__ is sample.__globals__ and new.__code__.co_filename == __file__
    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        assert getattr(new, name) == getattr(sample, name)
    assert new(1, 2, 3, d=4, f=5) == sample(1, 2, 3, d=4, f=5) and new(0) == "sample"


def test_closure_cells_are_live():
    n = 1

    def kernel(a):
        return [a + n for _ in range(n)] if a and n else n

    new = rewrite(kernel, Static())
    assert new(1) == [2]
    n = 2
    assert new(1) == kernel(1) == [3, 3]
    assert {*map(id, kernel.__closure__)} < {*map(id, new.__closure__)}


def test_each_control_has_its_own_function_of_one_compilation():
    first, second = rewrite(sample, Static()), rewrite(sample, Static())
    assert first.__code__ is second.__code__ and first.__closure__ != second.__closure__


def test_equal_code_of_two_files_keeps_its_file():
    one, two = define("    if a: return b\n"), define("    if a: return b\n")
    assert one.__code__ == two.__code__
    files = [rewrite(fn, Static()).__code__.co_filename for fn in (one, two)]
    assert files == [one.__code__.co_filename, two.__code__.co_filename]


class Methods:
    __scale = 3

    def run(self, a):
        for i in range(a):
            __x = i * self.__scale
        return __x, super().__getattribute__("run").__name__


def test_method_with_private_names():
    assert rewrite(Methods.run, Static())(Methods(), 3) == (6, "run")


def test_nested_def_may_be_rewritten_by_its_own_decorator():
    control = Static()
    text = "    @jit\n    def g(x):\n        if x: return b\n        return c\n    return g(a)\n"
    fn = define(text, jit=lambda g: rewrite(g, control))
    for args in INPUTS:
        assert rewrite(fn, control)(*args) == fn(*args)


def frames(fn, *args):
    with pytest.raises(ZeroDivisionError) as caught:
        fn(*args)
    entries = traceback.extract_tb(caught.value.__traceback__)
    return {(e.lineno, e.end_lineno, e.colno, e.end_colno) for e in entries if e.filename == fn.__code__.co_filename}


@pytest.mark.parametrize("text", ["    x = [1, a / (b - b)]\n", "    for i in range(a):\n        if a // 0: pass\n",
                                  "    return a and b % 0\n", "    while (a < b < c and\n           1 / 0): pass\n",
                                  "    if a:\n        return [c / 0 if b else 1 for _ in (1,)]\n",
                                  "    def g(x):\n        return x / 0\n    return g(a)\n"])
def test_tracebacks_point_at_the_user_s_code(text):
    fn = define(text)
    assert frames(fn, 1, 2, 3) <= frames(rewrite(fn, Static()), 1, 2, 3)


def test_errors_of_the_control_object_point_at_the_statement():
    class Failing(Static):
        def if_(self, cond, names, dead=(), called=None):
            return 1 / 0

    fn = define("    b = 1\n    if a < b: c = 1\n    return c\n")
    assert (3, 3, 7, 12) in frames(rewrite(fn, Failing()), 1, 2, 3)


def test_free_names():
    n = 1

    def kernel(a):
        class Local:
            member = sample
            again = member
        for i in range(a):
            print(pytest.raises, [itertools.count for _ in max(a, n)], lambda: undefined, Local, i)  # noqa: F821

    assert free_names(kernel) == (("itertools", "pytest", "sample", "undefined"), ("n",))


def test_a_shadowed_builtin_is_a_global():
    assert free_names(define("    return range(max(a))\n", max=len)) == (("max",), ())


# --- what is refused -------------------------------------------------------------------------------------------------

ELSE = "set a flag before break and test it after the loop"
DEVICE = "there are no exceptions on a device; test the condition with an if"
AWAIT = "asynchronous copies are waited for with cp_async_wait() and its like"
BEFORE = "assign the name in a statement of its own before"
REFUSED = [
    ("try:\n    pass\nfinally:\n    pass", "a kernel cannot use try", "try:", DEVICE),
    ("try:\n    pass\nexcept* ValueError:\n    pass", "a kernel cannot use except*", "try:", DEVICE),
    ("g = lambda: (yield a)", "a kernel cannot use yield", "yield a", "return a tuple, or write a loop"),
    ("async def g():\n    await a", "a kernel cannot use async or await", "async def g():", AWAIT),
    ("global x", "a kernel cannot use global", "global x",
     "write it into an array that is a parameter; a @mo.jit function may return it"),
    ("def g():\n    nonlocal a", "a kernel cannot use nonlocal", "nonlocal a",
     "return the new value and assign it where the name lives"),
    ("for i in a:\n    pass\nelse:\n    pass", "a kernel cannot use for ... else", "for i in a:", ELSE),
    ("while a:\n    pass\nelse:\n    pass", "a kernel cannot use while ... else", "while a:", ELSE),
    ("x = a and (b := c)", "a kernel cannot use := in an expression that may not run", "b := c", BEFORE),
    ("x = a if b else (c := 1)", "a kernel cannot use := in an expression that may not run", "c := 1", BEFORE),
    ("x = 0 < a < (c := 1)", "a kernel cannot use := in an expression that may not run", "c := 1", BEFORE),
    ("for i in b:\n    print(c)\n    del c", "a kernel cannot del c, which a loop or an if around it carries", "c",
     "drop the del: a name costs nothing"),
    ("locals = a", "f binds the name locals, which moye needs in a kernel", "def f", "rename it"),
]


@pytest.mark.parametrize(("text", "message", "caret", "hint"), REFUSED, ids=[case[1] for case in REFUSED])
def test_refused(text, message, caret, hint):
    fn = define(textwrap.indent(text + "\n", "    "))
    with pytest.raises(TraceError) as caught:
        rewrite(fn, Static())
    assert (caught.value.message, caught.value.hint) == (message, hint)
    [loc] = caught.value.locs
    frame = loc.innermost
    assert frame is not None and frame.function == ("g" if caret == "nonlocal a" else "f")
    assert frame.text()[frame.column:frame.end if frame.end >= 0 else None] == caret
    with pytest.raises(TraceError):
        rewrite(fn, Static())                               # nothing half-made is kept
