# ruff: noqa
"""Functions of Python as newcomers write them: of a thread's number t, eight numbers x and n = 3.

Their style is left as it is.
"""

from __future__ import annotations

import collections
import enum
import functools
import itertools
import math
import operator
from dataclasses import dataclass
from typing import NamedTuple

FUNCTIONS = []


def newcomers(function):
    """Collect a function."""
    FUNCTIONS.append(function)
    return function


SCALE = 3


class Mode(enum.Enum):
    A = 1
    B = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Flag(enum.Flag):
    X = 1
    Y = 2


class P(NamedTuple):
    a: int
    b: int


@dataclass
class Acc:
    s: float = 0.0
    c: int = 0

    def add(self, v):
        self.s += v
        self.c += 1
        return self


@dataclass(frozen=True)
class Cfg:
    k: int = 4
    names: tuple = ("a", "b")


@newcomers
def walrus(t, x, n):
    if (y := x[t]) > 3:
        return y * 2
    return y

@newcomers
def walrus_in_chain(t, x, n):
    total = 0.0
    for d in (-1, 0, 1):
        if 0 <= (i := t + d) < 8 and x[i] > 2:
            total += x[i] + i
    return total + 1 if 0 < (k := t - n) < 3 else k + 0.5

@newcomers
def chained(t, x, n):
    return 1 if 2 < x[t] <= 5 != n else 0

@newcomers
def ternaries(t, x, n):
    return x[t] if t % 2 else (x[0] if t > 3 else x[1])

@newcomers
def star(t, x, n):
    def g(a, *rest, k=2, **kw):
        return a + sum(rest) * k + kw.get("z", 0)
    args = (x[0], x[1], t)
    return g(*args, **{"k": 3, "z": t})

@newcomers
def unpack_star(t, x, n):
    a, *b, c = x[0], x[1], x[2], t
    return a + b[1] * c

@newcomers
def nested_closure(t, x, n):
    k = t + 1
    def g(v):
        return v * k
    k = 2
    return g(x[t])

@newcomers
def swaps(t, x, n):
    a, b, c = t, n, 1
    a, b, c = c, a, b
    if a < b:
        a, b = b, a
    return a * 100 + b * 10 + c

@newcomers
def early(t, x, n):
    for i in range(n):
        if i == t:
            return x[i]
    return -1.0

@newcomers
def while_break(t, x, n):
    i = 0
    while True:
        i += 1
        if i > t:
            break
        if i == 3:
            continue
    return i

@newcomers
def nested_break(t, x, n):
    c = 0
    for i in range(4):
        for j in range(4):
            if i * j > t:
                break
            c += 1
        if c > 9:
            break
    return c

@newcomers
def slices(t, x, n):
    l = [t, t + 1, t + 2, t + 3, 9]
    return sum(l[::2]) + l[-1] + sum(l[1:-1]) + l[::-1][0]

@newcomers
def enum_zip_rev(t, x, n):
    s = 0
    for i, (a, b) in enumerate(zip(reversed([1, 2, 3]), (x[0], x[1], x[2])), start=1):
        s += i * a * b if b > 1 else t
    return s

@newcomers
def bools(t, x, n):
    a, b = x[t] > 3, t % 2 == 0
    return (a and b) + (a or b) * 10 + (not a) * 100 + (a ^ b) * 1000 + (a & b)

@newcomers
def or_value(t, x, n):
    return (t or 7) + (t and 2)

@newcomers
def inplace(t, x, n):
    v = t
    v += 5; v *= 3; v -= 1; v //= 2; v %= 7; v **= 2; v <<= 1; v |= 8; v &= 13; v ^= 3; v >>= 1
    return v

@newcomers
def globals_(t, x, n):
    return t * SCALE + Level.HIGH + Level.LOW.value + (1 if Mode.A is Mode.A else 0) + (Mode.B == Mode.A)

@newcomers
def enum_compare(t, x, n):
    return 1 if t == Level.HIGH else 2 if t in (Level.LOW, 3) else 3

@newcomers
def dataclass_(t, x, n):
    a = Acc()
    for i in range(n):
        if x[i] > t:
            a.add(x[i])
    return a.s * 10 + a.c

@newcomers
def namedtuple_(t, x, n):
    p = P(t, 2)
    if t > 3:
        p = p._replace(a=10)
    return p.a * p.b + p[1]

@newcomers
def maths(t, x, n):
    return abs(t - 4) + min(t, 3) + max(t, 2, n) + pow(t, 2) + divmod(t, 3)[0] * divmod(t, 3)[1] + round(2.5) + sum([t, 1])

@newcomers
def neg_div(t, x, n):
    return (t - 5) // 3 * 100 + (t - 5) % 3 + -t // 2 + (-t) % 3

@newcomers
def floor_float(t, x, n):
    return (x[t] - 4.5) // 2 + (x[t] - 4.5) % 2

@newcomers
def int_float(t, x, n):
    return int(x[t] * 1.7) + float(t) / 4 + int(-1.5 * t) + bool(t) + int(t > 2)

@newcomers
def dict_(t, x, n):
    d = {"a": t, "b": x[0]}
    d["a"] += 1
    for k in d:
        d[k] = d[k] * 2
    return sum(d.values()) + len(d)

@newcomers
def listcomp_nested(t, x, n):
    m = [[i * j + t for j in range(3)] for i in range(2)]
    return sum(sum(r) for r in m) + m[1][-1]

@newcomers
def early_nested(t, x, n):
    if t > 2:
        if t > 5:
            return 1.0
        elif t == 4:
            return 2.0
    else:
        return 3.0
    return 4.0

@newcomers
def string_dispatch(t, x, n):
    op = "add"
    table = {"add": lambda a, b: a + b, "mul": lambda a, b: a * b}
    return table[op](t, n) + table["mul"](t, n)

@newcomers
def recursion(t, x, n):
    def fib(k):
        return k if k < 2 else fib(k - 1) + fib(k - 2)
    return fib(6) + t

@newcomers
def default_arg(t, x, n):
    fs = [lambda v, i=i: v + i for i in range(3)]
    return sum(g(t) for g in fs)

@newcomers
def late_binding(t, x, n):
    fs = [lambda v: v + i for i in range(3)]
    return sum(g(t) for g in fs)

@newcomers
def none_default(t, x, n):
    def g(a, b=None):
        b = b if b is not None else 5
        return a + b
    return g(t) + g(t, n)

@newcomers
def any_all(t, x, n):
    return any(x[i] == t for i in range(8)) + 2 * all(x[i] > t for i in range(4)) + 4 * any([]) + 8 * all(())

@newcomers
def bits(t, x, n):
    return ~t & 15 | t << 2 ^ t >> 1

@newcomers
def shadow(t, x, n):
    i = 100
    for i in range(3):
        pass
    return i + t

@newcomers
def cmp_mixed(t, x, n):
    return (t < 2.5) + (x[t] == 3) * 2 + (t != 4) * 4 + (t >= n) * 8

@newcomers
def loop_var_after(t, x, n):
    last = -1
    for i in range(t):
        last = i
    return last

@newcomers
def while_cond_and(t, x, n):
    i = 0
    while i < 8 and x[i] < t:
        i += 1
    return i

@newcomers
def tuple_compare(t, x, n):
    return (1, 2) < (1, 3)

@newcomers
def isin(t, x, n):
    return (t in (1, 3, n)) + (t not in [2, 4]) * 2 + (t in range(2, 7, 2)) * 4

@newcomers
def cond_assign_tuple(t, x, n):
    a, b = (1, 2) if t > 3 else (3, 4)
    return a * 10 + b

@newcomers
def math_mod(t, x, n):
    return math.floor(2.7) + math.pi * 0 + math.ceil(1.2) + math.gcd(12, 8) + t

@newcomers
def aug_target(t, x, n):
    a = [t, 1]
    a[0] += a[1]
    a[-1] *= 5
    return a[0] * 10 + a[1]

@newcomers
def starred_call_range(t, x, n):
    return max(*range(3), t)

@newcomers
def assert_(t, x, n):
    assert n == 3, f"n is {n}"
    assert t >= 0
    return t

@newcomers
def flag_enum(t, x, n):
    m = Flag.X | Flag.Y
    return (1 if Flag.X in m else 0) + t

@newcomers
def complex_loop(t, x, n):
    lo, hi = 0, 7
    while lo < hi:
        mid = (lo + hi) // 2
        if x[mid] < t:
            lo = mid + 1
        else:
            hi = mid
    return lo

@newcomers
def fizz(t, x, n):
    s = 0
    for i in range(1, 16):
        match (i % 3 == 0, i % 5 == 0):
            case _ if i == 99:
                s += 1
            case _:
                s += 2
    return s + t

@newcomers
def int_overflow_shift(t, x, n):
    return (1 << t) + (255 >> t)

@newcomers
def power(t, x, n):
    return t ** 2 + 2 ** 3 + x[t] ** 0.5 + x[t] ** -1

@newcomers
def round_(t, x, n):
    return round(x[t] * 0.5) + round(t)

@newcomers
def neg_index_list(t, x, n):
    return [t, 2, 3][-3] + (4, 5)[-1]

@newcomers
def tuple_concat(t, x, n):
    a = (t,) + (1, 2) * 2
    return sum(a) + len(a) + a.index(2, 1)

@newcomers
def range_neg(t, x, n):
    s = 0
    for i in range(7, -1, -2):
        s = s * 2 + i
    for i in range(5, 5): s += 100
    for i in range(n, 0, -1): s += i
    return s + t

@newcomers
def zip_uneven(t, x, n):
    return sum(a * b for a, b in zip((1, 2, 3), (t, t)))

@newcomers
def reduce_(t, x, n): return functools.reduce(operator.add, [x[i] for i in range(3)], t)

@newcomers
def op_funcs(t, x, n): return operator.mul(t, 2) + operator.itemgetter(1)((t, n)) + operator.neg(t)

@newcomers
def partial_(t, x, n): return functools.partial(lambda a, b: a * b, 3)(t)

@newcomers
def accumulate(t, x, n): return list(itertools.accumulate([t, 1, 2]))[-1]

@newcomers
def defaultdict_(t, x, n):
    d = collections.defaultdict(int)
    for i in (1, 2, 1): d[i] += t
    return d[1] * 10 + d[2]

@newcomers
def deque_(t, x, n):
    q = collections.deque([t, 1, 2]); q.rotate(1); q.append(t)
    return q[0] * 100 + q.pop() + len(q)

@newcomers
def class_state(t, x, n):
    class C:
        def __init__(self): self.v = 0
        def __iadd__(self, o): self.v += o; return self
        def __call__(self, k): return self.v * k
        def __len__(self): return 3
        def __contains__(self, o): return True
        def __getitem__(self, i): return self.v + i
    c = C(); c += t; c += 2
    return c(2) + len(c) + (5 in c) + c[1]

@newcomers
def dunder_compare(t, x, n):
    class V:
        def __init__(self, v): self.v = v
        def __lt__(self, o): return self.v < o.v
        def __eq__(self, o): return self.v == o.v
        __hash__ = None
        def __bool__(self): return True
    return (V(t) < V(3)) + 2 * (V(t) == V(n))

@newcomers
def dunder_arith(t, x, n):
    class V:
        def __init__(self, a, b): self.a, self.b = a, b
        def __add__(self, o): return V(self.a + o.a, self.b + o.b)
        def __mul__(self, k): return V(self.a * k, self.b * k)
        def __matmul__(self, o): return self.a * o.a + self.b * o.b
    return (V(t, 1) + V(2, n)) @ (V(1, 2) * 3)

@newcomers
def inherit(t, x, n):
    class A:
        def g(self): return 1
        def h(self): return self.g() * 10 + t
    class B(A):
        def g(self): return super().g() + 1
    return B().h()

@newcomers
def gen_helper(t, x, n):
    def g(k):
        return (i * t for i in range(k))
    return sum(g(4))

@newcomers
def early_in_loop_list(t, x, n):
    for v in (x[0], x[3], x[6]):
        if v > t: return v
    return -1.0

@newcomers
def nested_func_return(t, x, n):
    def sign(v):
        if v < 4: return -1
        elif v == 4: return 0
        return 1
    return sign(t) * 10 + sign(n)

@newcomers
def while_complex(t, x, n):
    a, b = 0, 1
    while a < 50 and not (b > 40 or t == a):
        a, b = b, a + b
    return a

@newcomers
def multi_assign(t, x, n):
    a = b = c = t
    a += 1
    b, (c, d) = c, (a, b)
    return a * 1000 + b * 100 + c * 10 + d

@newcomers
def cond_swap(t, x, n):
    lo, hi = (t, n) if t < n else (n, t)
    return lo * 10 + hi

@newcomers
def tuple_carry(t, x, n):
    p = (0, 1)
    for i in range(t):
        p = (p[1], p[0] + p[1])
    return p[0]

@newcomers
def list_carry(t, x, n):
    h = [0, 0, 0]
    for i in range(8):
        if x[i] < 3: h[0] += 1
        elif x[i] < t: h[1] += 1
        else: h[2] += 1
    return h[0] * 100 + h[1] * 10 + h[2]

@newcomers
def bool_carry(t, x, n):
    found = False
    for i in range(8):
        found = found or x[i] == t
        if found: break
    return found * 10 + i

@newcomers
def prefix_max(t, x, n):
    best, at = x[0], 0
    for i in range(1, 8):
        if x[i] * (8 - i) > best:
            best, at = x[i] * (8 - i), i
    return best * 10 + at

@newcomers
def int_div_assign(t, x, n):
    v = t * 7
    d = 0
    while v:
        v //= 10
        d += 1
    return d

@newcomers
def collatz(t, x, n):
    k, s = t + 1, 0
    while k != 1:
        k = k // 2 if k % 2 == 0 else 3 * k + 1
        s += 1
    return s

@newcomers
def gcd(t, x, n):
    a, b = t + 4, 6
    while b:
        a, b = b, a % b
    return a

@newcomers
def continue_nested(t, x, n):
    s = 0
    for i in range(5):
        if i == t: continue
        for j in range(3):
            if j == i: continue
            if (i + j) % 2: s += 1; continue
            s += 10
    return s

@newcomers
def return_tuple(t, x, n):
    def two(v): return v, v * 2
    a, b = two(t)
    c = two(n)
    return a + b * 10 + c[1] * 100

@newcomers
def kwargs_only(t, x, n):
    def g(a, /, b, *, c=3): return a + b * c
    return g(t, b=2) + g(1, t, c=n)

@newcomers
def slice_obj(t, x, n):
    l = [1, 2, 3, t]
    l[1:3] = [t, t]
    l.reverse()
    return l[0] * 100 + l[1] * 10 + len(l[slice(1, None)])

@newcomers
def del_item(t, x, n):
    l = [t, 1, 2]; del l[0]; l.insert(0, 7); l.extend([t]); l.pop(1)
    return sum(l)

@newcomers
def enum_iter(t, x, n):
    return sum(m.value * t for m in Mode) + len(Mode)

@newcomers
def neg_zero_div(t, x, n):
    return -7 // (t + 1) + -7 % (t + 1) + (7 - 2 * t) // 3

@newcomers
def float_floor_mod(t, x, n):
    return (x[t] - 4) % 3 + (x[t] - 4) // 3 + divmod(x[t] - 4, 2)[0]

@newcomers
def pow_chain(t, x, n): return 2 ** 3 ** 1 + t ** 3 - -t ** 2

@newcomers
def precedence(t, x, n): return (not t == 1) + (t & 1 == 1) + (t | 2 > 1)

@newcomers
def compare_chain_side(t, x, n): return (1 < t < 5) + (1 < t > 2) * 2 + (t == t == n) * 4

@newcomers
def isinst_tuple(t, x, n): return 1 if isinstance((t, 1), tuple) else 0

@newcomers
def unpack_nested(t, x, n):
    (a, b), [c, *d] = (t, 2), [3, 4, t]
    return a + b + c + d[0] + d[1]

@newcomers
def sum_start(t, x, n): return sum([1, t], 10) + sum((x[i] for i in range(2)), t)

@newcomers
def ternary_chain(t, x, n): return 1 if t < 2 else 2 if t < 4 else 3 if t < 6 else 4

@newcomers
def aug_tuple_elem(t, x, n):
    s = 0
    for a, b in ((1, t), (2, n)):
        s += a * b
    return s

@newcomers
def closure_counter(t, x, n):
    acc = []
    def add(v): acc.append(v)
    add(t); add(2)
    return sum(acc)

@newcomers
def lambda_default(t, x, n): return (lambda a, b=2, *c: a + b + len(c))(t, 3, 4, 5)

@newcomers
def dict_merge(t, x, n): return sum(({"a": 1, "b": t} | {"b": 2, "c": t}).values()) + sum({**{"q": t}}.values())

@newcomers
def any_short(t, x, n): return any([t > 5, n == 3]) + all([t > 5, n == 3])

@newcomers
def abs_round_bool(t, x, n): return abs(-x[t]) + round(2.6) + bool(0) + round(x[t] - 0.5)

@newcomers
def int_trunc(t, x, n): return int(-x[t] / 2) + int(x[t] / 2)

@newcomers
def xor_bool(t, x, n): return (t > 2) ^ (t < 5) ^ True

@newcomers
def shift_loop(t, x, n):
    c, v = 0, t * 37
    while v:
        c += v & 1
        v >>= 1
    return c

@newcomers
def with_ctx(t, x, n):
    import contextlib
    with contextlib.nullcontext(3) as v:
        return v + t

@newcomers
def posonly_unpack(t, x, n):
    first, *_, last = (t, 1, 2, n)
    return first * 10 + last

@newcomers
def nested_ifexp_side(t, x, n): return (x[t] if t < 4 else -x[t]) * (2 if n == 3 else 1)

@newcomers
def early_return_in_with_loop(t, x, n):
    i = 0
    while i < 8:
        if x[i] > t + 2: return i
        i += 2
    return 99

@newcomers
def mixed_return(t, x, n):
    if t > 4: return 1
    return 2.5 if False else 2

@newcomers
def setdefault(t, x, n):
    d = {}
    d.setdefault("k", []).append(t)
    d.setdefault("k", []).append(1)
    return sum(d["k"])

@newcomers
def set_after_continue(t, x, n):
    i = 0
    while True:
        i += 1
        if i % 2: continue
        v = x[i] + t
        if i > n: break
    return v
