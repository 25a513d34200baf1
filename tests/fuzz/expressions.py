"""Random expressions of a dtype as Python text, with bounds that keep 32- and 64-bit integers from overflowing.

In: a random source and what is in scope.  Out: ``Text``: the spelling, and for integers the least and largest value.

>>> Expressions(random.Random(1), scope).of("i32", 3)
Text('(i32_0 % 13 + tid)', 0, 75)

Signs, weak numbers, mixed dtypes and boundary values are drawn on purpose; floats take any value.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from fuzz.scalars import BITS, NAMES, family, limits, promote

INTEGERS = [t for t in BITS if family(t) in "iu"]
FLOATS = ["f16", "bf16", "f32", "f64"]
EXACT = ["0.5", "-1.5", "2.0", "3.0", "0.25", "-0.75", "100.0", "1.0", "-8.0"]


@dataclass
class Text:
    text: str
    low: int = 0
    high: int = 0


@dataclass
class Variable:
    """A name in scope; an integer stays within its bounds."""

    name: str
    t: str
    low: int = 0
    high: int = 0
    uniform: bool = False
    constant: bool = False


@dataclass
class Scope:
    """What expressions may read."""

    types: list[str]
    variables: list[Variable] = field(default_factory=list)
    arrays: list[str] = field(default_factory=list)
    functions: list[tuple[str, list[str]]] = field(default_factory=list)
    length: int = 64


def bounds(low: int, high: int, t: str) -> tuple[int, int] | None:
    """The bounds of a result, None where a signed type of 32 or 64 bits would overflow."""
    least, most = limits(t)
    if least <= low and high <= most:
        return low, high
    return None if t in ("i32", "i64") else (least, most)


def _bits(*numbers: int) -> int:
    return max(n.bit_length() for n in numbers)


class Expressions:
    """Draws expressions; ``risk`` is how often an overflow is let happen."""

    def __init__(self, rng: random.Random, scope: Scope, risk: float = 0.0) -> None:
        self.rng, self.scope, self.risk = rng, scope, risk
        self.uniform = False
        self.plain = False          # no calls of helpers

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def of(self, t: str, depth: int) -> Text:
        if t == "bool":
            return Text(self.truth(depth))
        return self.integer(t, depth) if family(t) in "iu" else self.floating(t, depth)

    # --- leaves ---

    def known(self, test: Callable[[Variable], bool]) -> list[Variable]:
        return [v for v in self.scope.variables if test(v) and (v.uniform or not self.uniform)]

    def index(self, extent: int, depth: int = 1) -> str:
        """An int32 from 0 to extent - 1."""
        e = self.integer("i32", depth)
        return e.text if e.low >= 0 and e.high < extent else f"{e.text} % {extent}"

    def load(self, t: str) -> Text | None:
        if f"a_{t}" not in self.scope.arrays:
            return None
        low, high = limits(t) if family(t) in "iu" else (0, 0)
        return Text(f"a_{t}[{self.index(self.scope.length)}]", low, high)

    def leaf(self, t: str) -> Text:
        found = self.known(lambda v: v.t == t)
        if found and self.chance(0.75):
            v = self.rng.choice(found[-8:])
            return Text(v.name, v.low, v.high)
        load = self.load(t) if self.chance(0.4) and not self.uniform else None
        if load:
            return load
        others = self.known(lambda v: v.t != t and v.t != "bool" and (family(v.t) != "f" or family(t) == "f"))
        if others and self.chance(0.5):
            v = self.rng.choice(others)
            return self.cast(Text(v.name, v.low, v.high), v.t, t)
        return self.typed(t)

    def typed(self, t: str) -> Text:
        if family(t) == "f":
            return Text(f"mo.{NAMES[t]}({self.rng.choice([*EXACT, '0.1', '1e-3', 'inf', '65504.0', '-0.0'])})")
        n = self.number(t)
        return Text(f"mo.{NAMES[t]}({n})", n, n)

    def number(self, t: str) -> int:
        low, high = limits(t)
        small = [x for x in (0, 1, 2, 3, 5, 7, 8, 13, 32, 100, -1, -3, -7) if low <= x <= high]
        return self.rng.choice([low, high, high - 1, high // 2 + 1]) if self.chance(0.12) else self.rng.choice(small)

    def cast(self, e: Text, source: str, t: str) -> Text:
        if BITS[source] == 64 and t in ("i32", "u32") and not self.chance(self.risk) and "i" in source + t and not (
                limits(t)[0] <= e.low and e.high <= limits(t)[1]):
            e = self.tamed(e, source, self.rng.choice([1000, 65535, (1 << 31) - 1]))
        bare = source in ("i32", "i64", "f32", "bool")         # it may fold to a Python number, which has no methods
        text = f"mo.{NAMES[t]}({e.text})" if bare or self.chance(0.3) else f"({e.text}).to(mo.{NAMES[t]})"
        if family(t) == "f":
            return Text(text)
        low, high = limits(t)
        return Text(text, e.low, e.high) if low <= e.low and e.high <= high else Text(text, low, high)

    # --- integers ---

    def integer(self, t: str, depth: int) -> Text:
        if depth <= 0 or self.chance(0.15):
            return self.leaf(t)
        if self.chance(0.3):
            return self.walk(t)
        kind = self.rng.choice(["add", "add", "sub", "mul", "mul", "and", "or", "xor", "shl", "shr", "floordiv",
                                "floordiv", "mod", "mod", "min", "max", "neg", "abs", "invert", "where", "ifexp",
                                "either", "cast", "count", "call", "clamp", "from_float", "bits"])
        return getattr(self, f"_{kind}", self._plain)(t, depth) if hasattr(self, f"_{kind}") else \
            self._plain(t, depth, kind)

    def narrow(self, t: str) -> Text:
        """An integer of which little is possible: what folding knows most of."""
        found = [v for v in self.known(lambda v: v.t == "i32") if v.high - v.low < 5000]
        if found and self.chance(0.6):
            v = self.rng.choice(found)
            return self.cast(Text(v.name, v.low, v.high), "i32", t)
        e, n = self.leaf(t), self.rng.choice([2, 3, 4, 5, 8, 16, 32])
        return self.rng.choice([Text(f"({e.text} % {n})", 0, n - 1), Text(f"({e.text} & {n - 1})", 0, n - 1),
                                self.cast(Text(self.truth(0), 0, 1), "bool", t), Text(f"({e.text} % {n})", 0, n - 1)])

    def near(self, e: Text, t: str) -> int:
        """A number close to the bounds of an expression."""
        low, high = limits(t)
        found = [x for x in (e.low, e.high, e.high + 1, e.high - 1, e.low - 1, e.low + 1, (e.low + e.high) // 2,
                             e.high // 2 + 1, 4, 8) if low <= x <= high]
        return self.rng.choice(found)

    def walk(self, t: str) -> Text:
        """Some steps of arithmetic from a narrow integer, as indices are computed."""
        e = self.narrow(t)
        for _ in range(self.rng.randint(1, 3)):
            made = self.step(e, t)
            if made.text and limits(t)[0] <= made.low and made.high <= limits(t)[1] and len(made.text) < 200:
                e = made
        return e

    def step(self, e: Text, t: str) -> Text:
        kind = self.rng.choice(["+", "-", "*", "//", "%", "<<", ">>", "&", "|", "^", "min", "max", "-c", "neg", "abs",
                                "pair", "where", "//", "%", "*", "+"])
        if kind in ("//", "%"):
            n = self.rng.choice([2, 3, 4, 8, 6, 12, max(self.near(e, t), 2)])
            if kind == "%":
                return Text(f"({e.text} % {n})", 0 if e.low < 0 or e.high >= n else e.low, min(n - 1, e.high)
                            if e.low >= 0 else n - 1)
            return Text(f"({e.text} // {n})", e.low // n, e.high // n)
        if kind in ("+", "-", "*", "-c"):
            n = self.rng.choice([1, 2, 3, 4, 8, 7, 12, abs(self.near(e, t)) if kind != "*" else 6])
            text = f"({n} - {e.text})" if kind == "-c" else f"({e.text} {kind} {n})"
            ends = [n - x if kind == "-c" else x + n if kind == "+" else x - n if kind == "-" else x * n
                    for x in (e.low, e.high)]
            return Text(text, min(ends), max(ends))
        if kind in ("<<", ">>"):
            n = self.rng.randint(0, 4)
            return Text(f"({e.text} {kind} {n})", e.low << n if kind == "<<" else e.low >> n,
                        e.high << n if kind == "<<" else e.high >> n)
        return self._other_step(kind, e, t)

    def _other_step(self, kind: str, e: Text, t: str) -> Text:
        if kind in ("&", "|", "^"):
            n = abs(self.near(e, t))
            top = (1 << _bits(e.low, e.high, n)) - 1
            low = 0 if e.low >= 0 or kind == "&" else -top - 1
            return Text(f"({e.text} {kind} {n})", low, min(n, top) if kind == "&" else top)
        if kind in ("min", "max"):
            n, pick = self.near(e, t), min if kind == "min" else max
            return Text(f"mo.{kind}({e.text}, {n})", pick(e.low, n), pick(e.high, n))
        if kind in ("neg", "abs") and family(t) == "i":
            low = 0 if e.low <= 0 <= e.high else min(abs(e.low), abs(e.high))
            return Text(f"(-{e.text})", -e.high, -e.low) if kind == "neg" else \
                Text(f"abs({e.text})", low, max(abs(e.low), abs(e.high)))
        other = self.narrow(t)
        if kind == "where":
            return Text(f"mo.where({self.compare(1)}, {e.text}, {other.text})", min(e.low, other.low),
                        max(e.high, other.high))
        sign = self.rng.choice("+-*mM&|")
        if sign in "mM":
            pick = min if sign == "m" else max
            return Text(f"mo.{pick.__name__}({e.text}, {other.text})", pick(e.low, other.low), pick(e.high, other.high))
        if sign in "&|" and e.low >= 0:
            top = (1 << _bits(e.high, other.high)) - 1
            return Text(f"({e.text} {sign} {other.text})", 0, min(e.high, other.high) if sign == "&" else top)
        sign = sign if sign in "+-*" else "+"
        ends = [x + y if sign == "+" else x - y if sign == "-" else x * y for x in (e.low, e.high)
                for y in (other.low, other.high)]
        return Text(f"({e.text} {sign} {other.text})", min(ends), max(ends))

    def sums(self, t: str, sign: str) -> str:
        """Two sums of one number and constants, compared (or their min or max): where integers wrap, who is larger?"""
        wraps = t not in ("i32", "i64")
        x, most = (self.leaf(t) if wraps else self.narrow(t)).text, limits(t)[1] if wraps else 9
        a, b = (f"({x} + {self.rng.choice([1, 2, 5, most, most // 2 + 1])})" for _ in range(2))
        if wraps and self.chance(0.4):      # what a wider register would hold before it is cut
            a = self.rng.choice([f"({x} * {self.rng.choice([3, 7])})", f"(-{x})", f"(~{x})", f"({x} - {x} * 2)",
                                 f"abs({x})" if family(t) == "i" else f"({x} * {x})"])
        b = x if self.chance(0.3) else b
        return f"mo.{sign}({a}, {b})" if sign[0] == "m" else f"{a} {sign} {b}"

    def right(self, t: str, depth: int) -> Text:
        """A right operand: a weak number, one of a narrower dtype, or one of the same."""
        if self.chance(0.4):
            n = self.number(t)
            return Text(str(n) if n >= 0 else f"({n})", n, n)
        narrower = [s for s in self.scope.types if s != t and s != "bool" and promote(s, t) == t]
        if narrower and self.chance(0.3) and not self.uniform:
            s = self.rng.choice(narrower)
            e = self.of(s, depth - 1)
            fits = family(s) in "iu" and limits(t)[0] <= e.low and e.high <= limits(t)[1]
            return e if fits else Text(e.text, *limits(t))
        return self.integer(t, depth - 1)

    def tamed(self, e: Text, t: str, most: int) -> Text:
        """The same brought between -most and most."""
        if e.low >= -most and e.high <= most:
            return e
        kind = self.rng.choice(["mod", "and", "clamp"])
        if kind == "mod":
            return Text(f"({e.text}) % {most + 1}", 0, most)
        if kind == "and":
            mask = (1 << (most + 1).bit_length() - 1) - 1
            return Text(f"({e.text} & {mask})", 0, mask)
        low = 0 if family(t) == "u" else -most
        return Text(f"mo.min(mo.max({e.text}, {low}), {most})", low, most)

    def _plain(self, t: str, depth: int, kind: str) -> Text:
        sign = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}.get(kind, "")
        a, b = self.integer(t, depth - 1), self.right(t, depth)
        ends = self._ends(kind, a, b, t)
        if ends is None and not self.chance(self.risk):
            most = 1000 if kind == "mul" else limits(t)[1] // 2
            a, b = self.tamed(a, t, most), self.tamed(b, t, most)
            ends = self._ends(kind, a, b, t)
        if self.chance(0.3) and kind != "sub":
            a, b = b, a
        text = f"({a.text} {sign} {b.text})" if sign else f"{self.rng.choice(['mo.', ''])}{kind}({a.text}, {b.text})"
        return Text(text, *(ends or limits(t)))

    @staticmethod
    def _ends(kind: str, a: Text, b: Text, t: str) -> tuple[int, int] | None:
        if kind == "add":
            return bounds(a.low + b.low, a.high + b.high, t)
        if kind == "sub":
            return bounds(a.low - b.high, a.high - b.low, t)
        if kind == "mul":
            ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
            return bounds(min(ends), max(ends), t)
        if kind in ("min", "max"):
            pick = min if kind == "min" else max
            return pick(a.low, b.low), pick(a.high, b.high)
        n = _bits(a.low, a.high, b.low, b.high)
        low = 0 if a.low >= 0 and b.low >= 0 else -(1 << n)
        return bounds(low, (1 << n) - 1, t) or limits(t)

    def _shl(self, t: str, depth: int) -> Text:
        a, count = self.integer(t, depth - 1), self.rng.randint(0, min(BITS[t] - 1, 9))
        by = Text(str(count), count, count) if self.chance(0.6) else \
            Text(f"({self.integer('i32', depth - 2).text} & {(1 << count.bit_length()) - 1})")
        most = count if by.high else (1 << count.bit_length()) - 1
        if most >= BITS[t]:
            most, by = count, Text(str(count))
        ends = bounds(min(a.low << most, a.low), max(a.high << most, a.high), t)
        if ends is None and not self.chance(self.risk):
            a = self.tamed(a, t, limits(t)[1] >> most + 1)
            ends = bounds(min(a.low << most, a.low), max(a.high << most, a.high), t)
        return Text(f"({a.text} << {by.text})", *(ends or limits(t)))

    def _shr(self, t: str, depth: int) -> Text:
        a, count = self.integer(t, depth - 1), self.rng.randint(0, BITS[t] - 1)
        if self.chance(0.5):
            return Text(f"({a.text} >> {count})", a.low >> count, a.high >> count)
        by = self.integer("i32", depth - 2)
        return Text(f"({a.text} >> ({by.text} & {BITS[t] - 1}))", min(a.low, 0), max(a.high, 0))

    def divisor(self, t: str, depth: int) -> Text:
        if self.chance(0.65):
            d = self.rng.choice([2, 3, 4, 5, 7, 8, 16, 10, 1, *([-3, -4, -1] if family(t) == "i" else [])])
            return Text(str(d) if d > 0 else f"({d})", d, d)
        e = self.integer(t, depth - 2)
        return Text(f"({e.text} % 7 + 1)", 1, 7) if self.chance(0.5) else Text(f"mo.max({e.text}, 1)", 1,
                                                                              max(e.high, 1))

    def _floordiv(self, t: str, depth: int) -> Text:
        a, d = self.integer(t, depth - 1), self.divisor(t, depth)
        if d.low == -1 and a.low == limits(t)[0]:
            d = Text("(-2)", -2, -2)
        ends = [x // y for x in (a.low, a.high) for y in (d.low, d.high)]
        return Text(f"({a.text} // {d.text})", min(*ends, -1 if a.low < 0 else 0), max(*ends, 0))

    def _mod(self, t: str, depth: int) -> Text:
        a, d = self.integer(t, depth - 1), self.divisor(t, depth)
        return Text(f"({a.text} % {d.text})", min(d.low + 1, 0), max(d.high - 1, 0))

    def _neg(self, t: str, depth: int) -> Text:
        e = self.integer(t, depth - 1)
        if t in ("i32", "i64") and e.low == limits(t)[0] and not self.chance(self.risk):
            e = self.tamed(e, t, 1000)
        return Text(f"(-{e.text})", *(bounds(-e.high, -e.low, t) or limits(t)))

    def _abs(self, t: str, depth: int) -> Text:
        e = self.integer(t, depth - 1)
        if t in ("i32", "i64") and e.low == limits(t)[0] and not self.chance(self.risk):
            e = self.tamed(e, t, 1000)
        most = max(abs(e.low), abs(e.high))
        least = 0 if e.low <= 0 <= e.high else min(abs(e.low), abs(e.high))
        return Text(f"{self.rng.choice(['abs', 'mo.abs'])}({e.text})", *(bounds(least, most, t) or limits(t)))

    def _invert(self, t: str, depth: int) -> Text:
        e = self.integer(t, depth - 1)
        return Text(f"(~{e.text})", *((~e.high, ~e.low) if family(t) == "i" else limits(t)))

    def _where(self, t: str, depth: int) -> Text:
        a, b = self.integer(t, depth - 1), self.integer(t, depth - 1)
        return Text(f"mo.where({self.truth(depth - 1)}, {a.text}, {b.text})", min(a.low, b.low), max(a.high, b.high))

    def _ifexp(self, t: str, depth: int) -> Text:
        plain, self.plain = self.plain, True
        a, b = self.integer(t, depth - 1), self.integer(t, depth - 1)
        text = f"({a.text} if {self.truth(depth - 1)} else {b.text})"
        self.plain = plain
        return Text(text, min(a.low, b.low), max(a.high, b.high))

    def _either(self, t: str, depth: int) -> Text:
        """``a and b``, ``a or b``: one of the numbers."""
        plain, self.plain = self.plain, True
        a, b, word = self.integer(t, depth - 1), self.integer(t, depth - 1), self.rng.choice(["and", "or"])
        self.plain = plain
        low, high = (0, 0) if word == "and" else (a.low, a.high)
        return Text(f"({a.text} {word} {b.text})", min(low, b.low), max(high, b.high))

    def _cast(self, t: str, depth: int) -> Text:
        s = self.rng.choice([s for s in self.scope.types if family(s) in "iu"])
        return self.cast(self.integer(s, depth - 1), s, t)

    def _from_float(self, t: str, depth: int) -> Text:
        s = self.rng.choice([s for s in self.scope.types if family(s) == "f"] or ["f32"])
        low = "0.0" if family(t) == "u" else "-100.0"
        text = f"mo.min(mo.max({self.floating(s, depth - 1).text}, {low}), 100.0)"
        if t == "i32" and s != "f64" and self.chance(0.4):
            return Text(f"int({text})", int(float(low)), 100)
        return Text(f"mo.{NAMES[s]}({text}).to(mo.{NAMES[t]})", int(float(low)), 100)

    def _bits(self, t: str, depth: int) -> Text:
        pair = {"i32": "u32", "i64": "u64", "u16": "i16", "i8": "u8", "i16": "u16", "u8": "i8"}.get(t)
        if pair is None or pair not in self.scope.types:
            return self.leaf(t)
        return Text(f"({self.of(pair, depth - 1).text}).bitcast(mo.{NAMES[t]})", *limits(t))

    def _count(self, t: str, depth: int) -> Text:
        s = self.rng.choice([s for s in self.scope.types if family(s) in "iu"])
        e = Text(f"mo.{self.rng.choice(['popcount', 'clz'])}({self.integer(s, depth - 1).text})", 0, BITS[s])
        return e if t == "i32" else self.cast(e, "i32", t)

    def _call(self, t: str, depth: int) -> Text:
        found = [] if self.plain else [f for f in self.scope.functions if f[0].startswith(f"{t}_")]
        if not found:
            return self.leaf(t)
        name, types = self.rng.choice(found)
        arguments = ", ".join(self.cast(self.of(s, depth - 1), s, s).text if s != "bool" else self.truth(0)
                              for s in types)
        return Text(f"{name}({arguments})", -1000 if family(t) != "u" else 0, 1000)

    def _clamp(self, t: str, depth: int) -> Text:
        e = self.integer(t, depth - 1)
        low, high = (0, 50) if family(t) == "u" else (-50, 50)
        return Text(f"mo.min(mo.max({e.text}, {low}), {high})", low, high)

    # --- floats ---

    def floating(self, t: str, depth: int) -> Text:
        if depth <= 0 or self.chance(0.15):
            return self.leaf(t)
        kind = self.rng.choice(["+", "+", "-", "*", "*", "/", "**", "min", "max", "neg", "abs", "sqrt", "round",
                                "where", "ifexp", "either", "cast", "//", "mixed", "quotient", "call", "half"])
        a = self.floating(t, depth - 1)
        if kind in ("+", "-", "*", "/"):
            b = self.float_right(t, depth)
            return Text(f"({a.text} {kind} {b})" if self.chance(0.75) else f"({b} {kind} {a.text})")
        if kind == "**":
            return Text(f"({a.text} ** {self.rng.randint(1, 3)})")
        if kind in ("min", "max"):
            return Text(f"{self.rng.choice(['mo.', ''])}{kind}({a.text}, {self.float_right(t, depth)})")
        if kind in ("neg", "abs", "sqrt", "round"):
            return Text({"neg": f"(-{a.text})", "abs": f"abs({a.text})", "sqrt": f"mo.sqrt({a.text})",
                         "round": f"mo.{self.rng.choice(['floor', 'ceil', 'trunc', 'round'])}({a.text})"}[kind])
        if kind == "half":      # ties
            return Text(f"mo.round(mo.{NAMES[t]}({self.walk('i32').text}) * 0.5)")
        if kind == "//":
            bounded = f"mo.min(mo.max({a.text}, -1000.0), 1000.0)"
            return Text(f"({bounded} {self.rng.choice(['//', '%'])} {self.rng.choice(['3.0', '0.5', '-2.0', '7'])})")
        return self._choices(kind, a, t, depth)

    def _choices(self, kind: str, a: Text, t: str, depth: int) -> Text:
        if kind == "where":
            return Text(f"mo.where({self.truth(depth - 1)}, {a.text}, {self.floating(t, depth - 1).text})")
        if kind == "ifexp":
            plain, self.plain = self.plain, True
            b = self.floating(t, depth - 1).text        # no weak number: what facts decide would stay one
            text = f"({self.floating(t, depth - 1).text} if {self.truth(depth - 1)} else {b})"
            self.plain = plain
            return Text(text)
        if kind == "either":
            return self._either_float(t, depth)
        if kind == "call":
            return self._call(t, depth)
        if kind == "quotient" and t == "f32":
            s = self.rng.choice([s for s in self.scope.types if family(s) in "iu"])
            return Text(f"({self.integer(s, depth - 1).text} / {self.right(s, depth).text})")
        s = self.rng.choice([s for s in self.scope.types if s != "bool"])
        return self.cast(self.of(s, depth - 1), s, t)

    def _either_float(self, t: str, depth: int) -> Text:
        plain, self.plain = self.plain, True
        a, b = self.floating(t, depth - 1).text, self.floating(t, depth - 1).text
        self.plain = plain
        return Text(f"({a} {self.rng.choice(['and', 'or'])} {b})")

    def float_right(self, t: str, depth: int) -> str:
        if self.chance(0.4):
            return self.rng.choice([*EXACT, *EXACT, "2", "3", "inf", "(-inf)", "nan", "0"])
        narrower = [s for s in self.scope.types if s != t and promote(s, t) == t]
        if narrower and self.chance(0.3) and not self.uniform:
            return self.of(self.rng.choice(narrower), depth - 1).text
        return self.floating(t, depth - 1).text

    # --- conditions ---

    def truth(self, depth: int) -> str:
        found = self.known(lambda v: v.t == "bool")
        if found and self.chance(0.3):
            return self.rng.choice(found).name
        kind = self.rng.choice(["compare", "compare", "compare", "and", "or", "not", "chain", "bits", "isnan",
                                "in"])
        if depth <= 0 or kind == "compare":
            return self.compare(depth)
        plain, self.plain = self.plain, True
        try:
            if kind in ("and", "or"):
                return f"({self.truth(depth - 1)} {kind} {self.truth(depth - 1)})"
            if kind == "not":
                return f"(not {self.truth(depth - 1)})"
            if kind == "chain":
                t = self.rng.choice([s for s in self.scope.types if s != "bool"])
                a, b, c = (self.of(t, depth - 1).text for _ in range(3))
                return f"({a} {self.rng.choice(['<', '<=', '!='])} {b} {self.rng.choice(['<', '>=', '=='])} {c})"
            if kind == "in":
                t = self.rng.choice([s for s in self.scope.types if family(s) in "iu"])
                items = ", ".join(self.integer(t, depth - 1).text for _ in range(3))
                return f"({self.integer(t, depth - 1).text} {self.rng.choice(['in', 'not in'])} ({items}))"
            if kind == "bits":
                return f"({self.compare(depth - 1)} {self.rng.choice('&|^')} {self.compare(depth - 1)})"
        finally:
            self.plain = plain
        floats = [s for s in self.scope.types if family(s) == "f"]
        if not floats:
            return self.compare(depth)
        return f"mo.{self.rng.choice(['isnan', 'isinf'])}({self.floating(self.rng.choice(floats), depth - 1).text})"

    def compare(self, depth: int) -> str:
        t = self.rng.choice([s for s in self.scope.types if s != "bool"])
        sign = self.rng.choice(["<", "<=", ">", ">=", "==", "!="])
        if family(t) in "iu" and depth > 0 and self.chance(0.4):
            e = self.walk(t)
            if self.chance(0.25):       # both sides of one base
                return f"({e.text} {sign} {self.step(e, t).text or e.text})" if t not in ("i32", "i64") else \
                    f"({e.text} {sign} {e.text} + {self.rng.choice([0, 1, 2])})" if e.high < 1 << 30 else \
                    f"({e.text} {sign} {e.text})"
            return f"({e.text} {sign} {self.near(e, t)})"
        b = self.right(t, depth).text if family(t) in "iu" else self.float_right(t, depth)
        return f"({self.of(t, depth - 1).text} {sign} {b})"
