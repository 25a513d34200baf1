"""Every fact and every rule of folding, by brute force at the ends of every integer dtype.

A program without overflow must keep its value and get none by folding (the interpreter raises on one), and every fact
must hold of every value.  Operands are known by ranges that reach the ends of the dtype, by divisors, or not at all.
"""

from __future__ import annotations

import itertools
import random

import pytest

from folding import COMPARISONS, KINDS, evaluate, fresh
from ir_interpreter import Fault, unary
from ir_interpreter import binary as exact
from ir_interpreter import cast as converted
from moye import dtypes as dt
from moye.ir import constants, fold
from moye.ir.nodes import Literal

DTYPES = (dt.int8, dt.uint8, dt.int16, dt.int32, dt.uint32, dt.int64, dt.uint64)


def pool(dtype):
    """Small numbers, the ends of the dtype, and what lies around a product or a shift that just fits."""
    low, high = constants.limits(dtype)
    half = dtype.bits // 2
    near = [0, 1, 2, 3, 4, 5, 7, 8, 12, 96, 1 << half, (1 << half) - 1, 1 << (dtype.bits - 2), high // 3]
    numbers = {*near, *(-n for n in near), low, low + 1, high, high - 1, low // 2, high // 2, high // 2 + 1}
    return sorted(n for n in numbers if low <= n <= high)


def known(rng, numbers):
    """(facts, the numbers that they hold of): a range, one-sided or not, with or without a divisor."""
    divisor = rng.choice((1, 1, 2, 3, 4, 1 << 20, 1 << 40))
    low, high = sorted((rng.choice(numbers), rng.choice(numbers)))
    facts = (rng.choice((low, None)), rng.choice((high, None)), divisor)
    held = [n for n in numbers if n % divisor == 0 and (facts[0] is None or n >= low)
            and (facts[1] is None or n <= high)]
    return facts, held


def operands(rng, dtype, count):
    """``count`` operands, constants or Values, each with the numbers that it may have."""
    numbers = pool(dtype)
    facts, held = zip(*(known(rng, numbers) for _ in range(count)), strict=True)
    builder, values = fresh([dtype] * count, facts)
    fixed = [rng.random() < 0.4 for _ in range(count)]
    held = [[rng.choice(numbers)] if f else rng.sample(h, min(len(h), 6)) for f, h in zip(fixed, held, strict=True)]
    shown = [Literal(h[0], dtype) if f else v for f, h, v in zip(fixed, held, values, strict=True)]
    return builder, values, shown, held


def expected(compute, *arguments):
    """The value of an operation, None where it has none: an overflow, or a division by zero."""
    try:
        result = compute(*arguments)
    except Fault:
        return None
    return result if isinstance(result, int) else None


def shifts(kind, a, b, dtype):
    """A right operand for the kind: a count of a shift is an int32 within reach."""
    return kind not in ("shl", "shr") or 0 <= b < dtype.bits


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", [*KINDS, *COMPARISONS])
def test_facts_and_folds_of_one_operation(kind, dtype):
    rng = random.Random(f"{kind} {dtype}")
    tested = 0
    for _ in range(120):
        builder, values, (a, b), held = operands(rng, dtype, 2)
        result = builder.binary(kind, a, b)
        for x, y in itertools.product(*held):
            value = expected(exact, kind, x, y, dtype) if shifts(kind, x, y, dtype) else None
            if value is not None:
                assert evaluate(builder, values, (x, y), result) == value, (kind, x, y)
                tested += 1
    assert tested > 50


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_facts_and_folds_of_chains(dtype):
    """Three operands: the rules that look at how an operand was made."""
    rng = random.Random(str(dtype))
    tested = 0
    for _ in range(2500):
        first, second = rng.choice(KINDS), rng.choice([*KINDS, *COMPARISONS])
        builder, values, (a, b, c), held = operands(rng, dtype, 3)
        inner = builder.binary(first, a, b)
        result = builder.binary(second, inner, c)
        for x, y, z in itertools.product(*held):
            inside = expected(exact, first, x, y, dtype) if shifts(first, x, y, dtype) else None
            if inside is None or not shifts(second, inside, z, dtype):
                continue
            value = expected(exact, second, inside, z, dtype)
            if value is not None:
                assert evaluate(builder, values, (x, y, z), result) == value, (first, second, x, y, z)
                tested += 1
    assert tested > 2000


@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_facts_of_conversions(source):
    rng = random.Random(f"cast {source}")
    for _ in range(150):
        builder, values, (a,), (held,) = operands(rng, source, 1)
        target = rng.choice(DTYPES)
        there = builder.cast(a, target)
        back = builder.cast(there, source)
        for x in held:
            value = converted(x, source, target)
            assert evaluate(builder, values, (x,), there) == value
            assert evaluate(builder, values, (x,), back) == converted(value, target, source)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", ["neg", "abs", "invert", "popcount", "clz"])
def test_facts_of_one_operand(kind, dtype):
    rng = random.Random(f"{kind} {dtype}")
    for _ in range(40):
        builder, values, (a,), (held,) = operands(rng, dtype, 1)
        result = builder.unary(kind, a)
        for x in held:
            value = expected(unary, kind, x, dtype)
            if value is not None:
                assert evaluate(builder, values, (x,), result) == value, (kind, x)


@pytest.mark.parametrize("dtype", [dt.int32, dt.int64], ids=str)
def test_folding_makes_no_overflow(dtype):
    """(x + c) * d fits where x * d does not."""
    numbers = [n for n in pool(dtype) if abs(n) < 9 or abs(n) > 1 << (dtype.bits - 4)]
    tested = 0
    for c, d in itertools.product(numbers, [2, 3, 4, 8, -4]):
        builder, values = fresh([dtype], [(None, None, 1)])
        total = builder.binary("add", values[0], Literal(c, dtype))
        result = builder.binary("mul", total, Literal(d, dtype))
        for x in numbers:
            inside = expected(exact, "add", x, c, dtype)
            value = None if inside is None else expected(exact, "mul", inside, d, dtype)
            if value is not None:
                assert evaluate(builder, values, (x,), result) == value
                tested += 1
    assert tested > 500


@pytest.mark.parametrize("dtype", [dt.int32, dt.int64], ids=str)
@pytest.mark.parametrize("kind", ["add", "sub", "mul", "shl", "floordiv"])
def test_an_overflow_is_never_taken_for_impossible(kind, dtype):
    """Where facts let the simulator leave its check out, no operands overflow."""
    rng = random.Random(f"overflow {kind} {dtype}")
    told = 0
    for _ in range(400):
        _, _, (a, b), held = operands(rng, dtype, 2)
        if fold.may_overflow(kind, a, b):
            told += 1
            continue
        for x, y in itertools.product(*held):
            if shifts(kind, x, y, dtype) and not (kind == "floordiv" and y == 0):
                assert expected(exact, kind, x, y, dtype) is not None, (kind, x, y)
    assert 0 < told < 400
