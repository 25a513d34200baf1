"""Folding and facts against brute force: for every input the folded value is the value, and every fact is true."""

from __future__ import annotations

import itertools
import random

import pytest

from folding import COMPARISONS, KINDS, evaluate, fresh
from ir_interpreter import binary as exact
from ir_interpreter import wrap
from moye import dtypes as dt
from moye.ir import fold, ops
from moye.ir.nodes import Block, Literal, Value


def numbers_of(limits):
    lower, upper, divisor = limits
    return [n for n in range(lower, upper + 1) if n % divisor == 0]


class Tree:
    """A random expression, built with folding and computed without."""

    def __init__(self, rng, depth, leaves, dtype):
        self.dtype, self.parts = dtype, None
        if depth == 0 or rng.random() < 0.15:
            self.leaf = rng.choice([*range(leaves), *(None,) * leaves])
            self.number = rng.choice([0, 1, 2, 3, 4, 6, 8, 12, 5, 7, *((-1, -2, -3, -8) if dtype.is_signed else ())])
            return
        self.kind = rng.choice(KINDS)
        left = Tree(rng, depth - 1, leaves, dtype)
        right = Tree(rng, 0 if rng.random() < 0.6 else depth - 1, leaves, dtype)
        if self.kind in ("shl", "shr"):
            right.parts, right.leaf, right.number = None, None, rng.choice([0, 1, 2, 3])
        self.parts = (left, right)

    def build(self, builder, values):
        if self.parts is None:
            return Literal(self.number, self.dtype) if self.leaf is None else values[self.leaf]
        a, b = (p.build(builder, values) for p in self.parts)
        if self.kind in ("shl", "shr"):
            b = Literal(self.parts[1].number, dt.int32)
        return builder.binary(self.kind, a, b)

    def value(self, numbers):
        """The value, or None where it is undefined (division by zero, or an overflow)."""
        if self.parts is None:
            return self.number if self.leaf is None else numbers[self.leaf]
        a, b = (p.value(numbers) for p in self.parts)
        if a is None or b is None or (self.kind in ("floordiv", "mod") and b == 0):
            return None
        result = exact(self.kind, a, b, dt.int64 if self.dtype.is_signed else dt.uint64, overflow=False)
        if fold.wraps(self.dtype):
            return wrap(exact(self.kind, a, b, self.dtype, overflow=False), self.dtype)
        return result if abs(result) < 1 << 31 else None


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [dt.int32, dt.int64, dt.uint32, dt.uint8, dt.int8], ids=str)
def test_random_expressions(dtype):
    rng = random.Random(dtype.name)
    tested = 0
    for _ in range(500):
        signed = dtype.is_signed
        ranges = [rng.choice([(0, 5, 1), (0, 12, 4), (-6, 7, 1) if signed else (0, 9, 3), (3, 9, 3), (0, 0, 1)])
                  for _ in range(2)]
        untold = [(None, None, r[2]) for r in ranges]
        known = untold if rng.random() < 0.3 else ranges
        tree = Tree(rng, 4, 2, dtype)
        builder, values = fresh([dtype] * 2, known)
        operand = tree.build(builder, values)
        for numbers in itertools.product(*map(numbers_of, ranges)):
            expected = tree.value(numbers)
            if expected is not None:
                assert evaluate(builder, values, numbers, operand) == expected
                tested += 1
    assert tested > 3000


@pytest.mark.parametrize("kind", [*KINDS, *COMPARISONS])
def test_each_kind_over_all_small_ranges(kind):
    ranges = [(-4, -1, 1), (-4, 4, 2), (0, 0, 1), (0, 3, 1), (0, 12, 4), (3, 9, 3), (2, 2, 1)]
    for ra, rb in itertools.product(ranges, ranges):
        if kind in ("shl", "shr") and rb[0] < 0:
            continue
        builder, (x, y) = fresh([dt.int32] * 2, [ra, rb])
        operand = builder.binary(kind, x, y)
        for numbers in itertools.product(numbers_of(ra), numbers_of(rb)):
            if kind in ("floordiv", "mod") and numbers[1] == 0:
                continue
            assert evaluate(builder, [x, y], numbers, operand) == exact(kind, *numbers, dt.int32)


@pytest.mark.parametrize("dtype", [dt.int32, dt.uint32, dt.int8], ids=str)
def test_comparisons_of_sums(dtype):
    top = (1 << dtype.bits) - 1 if not dtype.is_signed else (1 << (dtype.bits - 1)) - 1
    low = 0 if not dtype.is_signed else -top - 1
    for kind, c, d in itertools.product(COMPARISONS, (0, 1, 3), (0, 1, 2)):
        builder, (x,) = fresh([dtype], [(None, None, 1)])
        a, b = (builder.binary("add", x, Literal(n, dtype)) for n in (c, d))
        operand = builder.binary(kind, a, b)
        for number in (low, low + 1, 0, 5, top - 1, top):
            if dtype == dt.int32 and number > top - 4:
                continue                                                # would overflow, which int32 must not
            values = [wrap(number + n, dtype) for n in (c, d)]
            assert evaluate(builder, [x], [number], operand) == exact(kind, *values, dtype)


def test_rules_that_layouts_rely_on():
    builder, (x, y) = fresh([dt.int32] * 2, [(0, 255, 1), (0, 31, 1)])

    def lit(n):
        return Literal(n, dt.int32)

    b = builder.binary
    assert b("floordiv", b("mul", x, lit(8)), lit(8)) is x
    assert b("floordiv", b("mul", x, lit(4)), lit(8)) is b("floordiv", x, lit(2))
    assert b("mod", b("mul", x, lit(8)), lit(4)) == lit(0)
    assert b("floordiv", b("floordiv", x, lit(4)), lit(8)) is b("floordiv", x, lit(32))
    assert b("floordiv", x, lit(256)) == lit(0)
    assert b("mod", x, lit(256)) is x
    assert b("mod", b("mod", x, lit(32)), lit(8)) is b("mod", x, lit(8))
    both = b("add", b("mul", x, lit(32)), y)
    assert b("floordiv", both, lit(32)) is x
    assert b("mod", both, lit(32)) is y
    assert b("lt", x, b("add", x, lit(1))) == Literal(True, dt.bool_)
    assert b("min", b("add", x, lit(-1)), x) is b("add", x, lit(-1))
    assert b("sub", b("add", x, lit(3)), lit(3)) is x
    assert b("eq", b("mul", x, lit(4)), lit(6)) == Literal(False, dt.bool_)


@pytest.mark.parametrize("d, n, outer", [(4, 3, 5), (34, 10, 34), (1 << 5, 8, 2)])
def test_an_index_that_was_split_is_whole_again(d, n, outer):
    builder, (x, y) = fresh([dt.int32] * 2, [(None, None, 1)] * 2)

    def lit(number):
        return Literal(number, dt.int32)

    b = builder.binary
    low = b("mod", x, lit(d))
    middle = b("mul", b("mod", b("floordiv", x, lit(d)), lit(n)), lit(d))
    high = b("mul", b("floordiv", x, lit(d * n)), lit(d * n))
    assert b("add", b("mul", b("floordiv", x, lit(d)), lit(d)), low) is x
    assert b("add", low, b("mul", lit(d), b("floordiv", x, lit(d)))) is x
    assert b("add", middle, low) is b("mod", x, lit(d * n))
    assert b("add", b("add", high, middle), low) is x
    assert b("add", b("add", y, b("mul", b("floordiv", x, y), y)), b("mod", x, y)) is b("add", y, x)
    others = (b("add", b("mul", b("floordiv", x, lit(d)), lit(outer)), low), b("add", middle, b("mod", x, lit(outer))),
              b("add", b("mul", b("floordiv", y, lit(d)), lit(d)), low))
    for number in (-100, -d, -1, 0, 1, d - 1, d, 77, 500, 12345):
        whole = b("add", b("add", high, middle), low), b("add", middle, low)
        assert [evaluate(builder, [x, y], [number, 7], v) for v in whole] == [number, number % (d * n)]
        told = [number // d * outer + number % d, number // d % n * d + number % outer, 7 // d * d + number % d]
        assert [evaluate(builder, [x, y], [number, 7], v) for v in others] == told


def test_an_index_that_may_wrap_stays_split():
    builder, (x,) = fresh([dt.uint32], [(None, None, 1)])
    d = Literal(5, dt.uint32)
    split = builder.binary("mul", builder.binary("floordiv", x, d), d)
    assert builder.binary("add", split, builder.binary("mod", x, d)) is not x


def test_unsigned_subtraction_does_not_become_a_negative_literal():
    builder, (x,) = fresh([dt.uint32], [(None, None, 1)])
    result = builder.binary("sub", x, Literal(3, dt.uint32))
    assert isinstance(result.op, ops.Binary) and result.op.kind == "sub"
    assert evaluate(builder, [x], [1], result) == (1 << 32) - 2


def test_common_subexpressions_and_identities():
    builder, (x, y) = fresh([dt.int32] * 2, [(None, None, 1)] * 2)
    assert builder.binary("add", x, y) is builder.binary("add", x, y)
    assert builder.binary("add", Literal(2, dt.int32), x) is builder.binary("add", x, Literal(2, dt.int32))
    assert builder.binary("sub", x, x) == Literal(0, dt.int32)
    assert builder.binary("mul", x, Literal(0, dt.int32)) == Literal(0, dt.int32)
    cond = builder.binary("lt", x, y)
    assert builder.unary("not", builder.unary("not", cond)) is cond
    assert builder.binary("land", cond, Literal(True, dt.bool_)) is cond
    assert builder.binary("lor", cond, Literal(True, dt.bool_)) == Literal(True, dt.bool_)
    assert builder.select(cond, x, x) is x


def test_values_of_closed_blocks_are_not_reused():
    builder, (x, y) = fresh([dt.int32] * 2, [(None, None, 1)] * 2)
    with builder.inside(Block()):
        inner = builder.binary("mul", x, y)
    assert builder.binary("mul", x, y) is not inner


def test_what_is_learned_in_a_block_is_forgotten_after_it():
    builder, (x,) = fresh([dt.int32], [(None, None, 1)])
    with builder.inside(Block()):
        builder.learn(x, 0, 7, 4)
        assert fold.facts_of(x) == (0, 7, 4)
    assert fold.facts_of(x) == (None, None, 1)


def test_floats_are_left_to_the_target():
    builder, (x,) = fresh([dt.float32], [(None, None, 1)])
    zero = Literal(0.0, dt.float32)
    assert isinstance(builder.binary("add", x, zero), Value) and builder.binary("add", x, zero) is not x
    assert isinstance(builder.binary("lt", zero, Literal(1.0, dt.float32)), Value)
    assert not isinstance(builder.binary("eq", x, x), Literal)           # NaN
