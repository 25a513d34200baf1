"""Conditional values whose condition facts decide: the value is one arm's, the dtype what both arms have together."""

from __future__ import annotations

import functools
import linecache

import numpy as np
import pytest

import moye as mo

ARMS = [("a32", "1"), ("1", "a32"), ("half", "2.0"), ("2.0", "half"), ("a64", "1"), ("1", "a64"), ("a32", "2.5"),
        ("1", "2.5"), ("half", "a32"), ("wide", "1.5"), ("mo.int8(3)", "100"), ("a32 + 1", "mo.min(3, a64)"),
        ("1", "f[i]"), ("True", "3"), ("2", "mo.float16(0.1) * 2")]


CHOICES = ["({a} if COND else {b})", "({b} if not (COND) else {a})", "mo.where(COND, {a}, {b})", "({a} if c else {b})",
           "({b} if not c else {a})", "mo.where(c, {a}, {b})", "(same({a}) if c else {b})", "({a} if c else same({b}))",
           "({a} if c else ({b} if COND else {a}))", "(({a}, {b}) if c else ({b}, {a}))[0]",
           "({a} if c and COND else {b})", "({a} if c or not COND else {b})", "({a} if bool(c) else table[0]({b}))"]
VALUES = ["t", "t + 1", "1 + t", "-t", "~t", "min(t, 3)", "max(3, t)", "mo.min(3, t)", "abs(t)", "round(t)", "int(t)",
          "float(t)", "t / 2", "divmod(t, 2)[0]", "divmod(9, t + 2)[1]", "pow(t, 2)", "t ** 2", "sum([t, 1])", "t << 1",
          "1 << t", "t and 1", "t or 7", "0 or t == 0", "not t", "(t == 0) + 1", "~(t == 0)", "-(t == 0)",
          "True | (t == 0)", "(t == 0) * 3", "(t < 1) & True", "any([t == 0, True])", "all([t == 0])", "bool(t) + 1",
          "0 <= t < 5", "int(t == 0)", "t.to(mo.int16)", "mo.int64(t)", "(lambda x: x + 1)(t)", "[t, 1][0]",
          "(t if t == 0 else 5)"]
FLOATS = ["2.0 * t", "2.0 + t", "2.0 - t", "0.5 / (t + 1)", "3.5 // (t + 1)", "3.5 % (t + 2)", "2.5 ** t", "two * t",
          "two - t", "(1.0 + 1.0) * t", "(two + 1) % (t + 2)", "2.0 < t", "two >= t", "two == t", "two != t",
          "(two < t) + 1", "1.0 < t < 3.0", "-1.5 < t", "sum([two, t])", "divmod(two, t + 1)[0]", "pow(two, t)",
          "sum([t, two, t])", "same(two) * t", "(lambda x: two * x)(t)", "[two * x for x in (t, 1)][0]",
          "np.float32(2) * t", "np.float64(2) - t", "max(two, t)", "grown(two, t)", "part([two], t)",
          "attribute(Box(), t)"]
HELPERS = """
class Box:
    x = 2.5

@mo.jit
def grown(x, t):
    x *= t
    x += t
    return x

@mo.jit
def part(x, t):
    x[0] -= t
    return x[0]

@mo.jit
def attribute(box, t):
    box.x += t
    return box.x
"""


def same(x):
    return x


class Seen:
    dtypes = ()


@functools.cache
def helpers():
    """The functions of ``HELPERS``."""
    name, space = "<helpers of chosen values>", {"mo": mo}
    linecache.cache[name] = (len(HELPERS), None, HELPERS.splitlines(True), name)
    exec(compile(HELPERS, name, "exec"), space)
    return space


def dtypes_of(choice: str, decided: bool) -> tuple[mo.DType, ...]:
    """Of the value, and of a sum with a small integer, which weak numbers would follow."""
    space = {"mo": mo, "np": np, "Seen": Seen, "same": same, "table": (same,), "two": 2.0, **helpers()}
    condition = "i < 1 << 20" if decided else "i < n"
    source = f"""def k(f, h, w, n):
    i = mo.thread_idx().x
    a32, a64, half, wide = n, mo.int64(n), h[i], w[i]
    c, t = {condition}, {"i // 32" if decided else "n // 32"}
    x = {choice.replace("COND", condition)}
    Seen.dtypes = x.dtype, (x + mo.int8(1)).dtype
    f[i] = mo.float32(x)
"""
    name = f"<chosen {hash(source)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    exec(compile(source, name, "exec"), space)
    mo.kernel(space["k"]).trace(np.ones(32, np.float32), np.ones(32, np.float16), np.ones(32, np.float64), 3, block=32)
    return Seen.dtypes


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), ARMS)
@pytest.mark.parametrize("choice", CHOICES)
def test_facts_do_not_change_the_dtype(choice, a, b):
    text = choice.format(a=a, b=b)
    assert dtypes_of(text, True) == dtypes_of(text, False)


@pytest.mark.parametrize("value", VALUES + FLOATS)
def test_what_facts_decide_has_the_dtype_of_a_value(value):
    assert dtypes_of(value, True) == dtypes_of(value, False)


@pytest.mark.slow
@pytest.mark.parametrize("value", VALUES + FLOATS)
def test_what_facts_decide_has_its_value(value):
    """As where nothing is known: stored by one kernel and by the other."""
    found = []
    for t in ("i // 32", "n // 32"):
        space = {"mo": mo, "np": np, "same": same, "two": 2.0, **helpers()}
        source = f"def k(f, n):\n    i = mo.thread_idx().x\n    t = {t}\n    f[i] = {value}\n"
        name = f"<value {hash(source)}>"
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        exec(compile(source, name, "exec"), space)
        found.append(np.zeros(32, np.float64))
        assert mo.check(mo.kernel(space["k"]))[1, 32](found[-1], 3).ok
    assert (found[0] == found[1]).all()


def test_what_facts_decide_is_static_where_that_is_asked_for():
    @mo.kernel
    def k(x):
        i = mo.thread_idx().x
        warp, one = i // 32, mo.thread_idx().y + 1
        registers = mo.fragment((one + 1, 2), mo.float32)
        registers[warp, one] = float(i)
        names = ["a", "b"]
        if names[warp] == "a" and {0: True}[warp]:
            for j in mo.static_range(one + 1):
                x[i] += registers[warp, one] + j
    x = np.zeros(32, np.float32)
    report = mo.check(k)[1, 32](x)
    assert report.ok, report
    assert (x == 2 * np.arange(32) + 1).all()


def test_small_integers_are_as_wide_as_what_they_meet():
    """A quotient that is known to be 0 is still an int32: the sum is not rounded to 8 bits."""
    @mo.kernel
    def k(x, small):
        i = mo.thread_idx().x
        x[i] = (small[i] + i // 32) * 4
    x = np.zeros(32, np.int32)
    small = np.arange(32, dtype=np.int8) + np.int8(90)
    k[1, 32](x, small)
    assert (x == 4 * small.astype(np.int32)).all()


def test_an_iterator_that_the_other_arm_moves_is_refused():
    """It cannot be put back."""
    @mo.kernel
    def k(x):
        i, numbers = mo.thread_idx().x, iter([1, 2, 3])

        def second():
            next(numbers)
            return next(numbers)

        x[i] = 1 if i < 32 else second()

    with pytest.raises(mo.MoyeError, match="numbers moves on"):
        k.trace(np.zeros(32, np.float32), block=32)


def test_recursion_that_facts_end():
    """The arms that facts rule out are not followed for ever."""
    def count(n):
        return 1 if n < 1 else count(n // 2) + count(n // 4)

    @mo.kernel
    def k(x):
        i = mo.thread_idx().x

        def traced(n):
            return 1 if n < 1 else traced(n // 2) + traced(n // 4)

        x[i] = traced(i)
    x = np.zeros(32, np.float32)
    k[1, 32](x)
    assert (x == [count(i) for i in range(32)]).all()


def test_the_other_arm_leaves_nothing_behind():
    """It is computed for its dtype alone: iterators, objects and registers stay as they were."""
    @mo.kernel
    def k(x):
        i = mo.thread_idx().x
        numbers, box = iter([1, 2, 3]), [0]
        a = next(numbers) if i >= 0 else next(numbers) + 1
        b = next(numbers) if i < 32 else 0
        c = 5 if i < 32 else x[i + 1000]
        d = 1 if i < 32 else box.append(3)
        x[i] = a + 10 * b + 100 * c + 1000 * d + 10000 * len(box)
    x = np.zeros(32, np.float32)
    report = mo.check(k)[1, 32](x)
    assert report.ok, report
    assert (x == 11521).all()


def test_static_flags_choose_static_values():
    @mo.kernel
    def k(x, flag: mo.Constexpr):
        i = mo.thread_idx().x
        n = 4 if flag else x[i]
        for j in mo.static_range(n):
            x[i] += float(j)
    x = np.zeros(32, np.float32)
    k[1, 32](x, True)
    assert (x == 6).all()


STATEMENTS = {
    "both": "if COND:\n    x = {a}\nelse:\n    x = {b}",
    "turned": "if not (COND):\n    x = {b}\nelse:\n    x = {a}",
    "once": "x = {b}\nif COND:\n    x = {a}",
    "left": "x = {a}\nif not (COND):\n    x = {b}",
    "variable": "if c:\n    x = {a}\nelse:\n    x = {b}",
    "elif": "if not c:\n    x = {b}\nelif COND:\n    x = {a}\nelse:\n    x = {b}",
    "nested": "if c:\n    if COND:\n        x = {a}\n    else:\n        x = {b}\nelse:\n    x = {b}",
    "tuple": "if c:\n    x, y = {a}, {b}\nelse:\n    x, y = {b}, {a}",
    "pair": "if c:\n    p = ({a}, {b})\nelse:\n    p = ({b}, {a})\nx = p[0]",
    "called": "if c:\n    x = same({a})\nelse:\n    x = same({b})",
    "converted": "if c:\n    x = mo.min({a}, {a})\nelse:\n    x = ({b} + 0 * {b})",
    "and": "if c and COND:\n    x = {a}\nelse:\n    x = {b}",
    "looped": "x = {a}\nif not c:\n    for _ in range(3):\n        x = {b}",
}
JOINED = [("a32", "mo.int8(h[i])"), ("mo.int8(h[i])", "a32"), ("half", "f[i]"), ("f[i]", "half"), ("a64", "a32"),
          ("a32", "1"), ("1", "a32"), ("half", "2.0"), ("2.0", "half"), ("1", "2"), ("2.5", "0.5"), ("a64", "7"),
          ("mo.uint8(h[i])", "a64")]


def of_statement(statement, a, b, decided):
    text = STATEMENTS[statement].format(a=a, b=b).replace("COND", "i < 1 << 20" if decided else "i < n")
    text = text.replace("COND", "c")
    return dtypes_after(text, decided)


def dtypes_after(statement, decided):
    """Of x behind a statement, and of its sum with a small integer."""
    space = {"mo": mo, "Seen": Seen, "same": same}
    body = f"""i = mo.thread_idx().x
a32, a64, half = n, mo.int64(n), h[i]
c = {"i < 1 << 20" if decided else "i < n"}
{statement}
Seen.dtypes = (x + mo.int8(1)).dtype, (x + half).dtype
f[i] = mo.float32(x)
"""
    source = "def k(f, h, n):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    name = f"<statement {hash(source)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    exec(compile(source, name, "exec"), space)
    mo.kernel(space["k"]).trace(np.ones(32, np.float32), np.ones(32, np.float16), 3, block=32)
    return Seen.dtypes


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), JOINED)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements_that_facts_decide_do_not_change_the_dtype(statement, a, b):
    try:
        traced = of_statement(statement, a, b, False)
    except mo.TraceError:                                   # a loop keeps what comes first
        assert statement == "looped"
        return
    assert of_statement(statement, a, b, True) == traced


class State:
    def __init__(self):
        self.seen, self.parts = 0, [1, 2]


def test_the_arm_of_a_statement_that_is_not_taken_leaves_nothing_behind():
    """Objects, registers, memory and jumps: only the dtype of its variables counts."""
    @mo.kernel
    def k(x, narrow):
        i, state, numbers = mo.thread_idx().x, State(), iter([1, 2, 3])
        registers = mo.fragment((2,), mo.float32)
        registers.fill(1)
        if i < 32:
            a = narrow[i]
        else:
            state.seen, state.parts[1] = 7, 8
            registers[0] = 9
            x[i + 1000] = 5
            mo.sync_threads()
            a = mo.int32(3)
        if i >= 32:
            b, a = same(state).parts[7], registers[5]           # no such item: the arm does not exist
        else:
            b = next(numbers)
        if i < 32:  # noqa: SIM108  statements are what is tested
            c = next(numbers)
        else:
            c = next(numbers) + next(numbers)
        x[i] = a * 100 + b + 10 * c + state.seen + state.parts[1] + registers[0]
    x = np.zeros(32, np.int32)
    report = mo.check(k)[1, 32](x, np.full(32, 100, np.int8))
    assert report.ok, report
    assert (x == 10000 + 1 + 20 + 0 + 2 + 1).all(), "an int8 of 100 times 100 would wrap"


def test_recursion_by_statements_that_facts_end():
    @mo.jit
    def count(n):
        if n < 1:  # noqa: SIM108
            found = mo.int32(1)
        else:
            found = count(n // 2) + count(n // 4)
        return found

    @mo.kernel
    def k(x):
        i = mo.thread_idx().x
        x[i] = count(i)
    x = np.zeros(32, np.int32)
    k[1, 32](x)

    def of(n):
        return 1 if n < 1 else of(n // 2) + of(n // 4)
    assert (x == [of(i) for i in range(32)]).all()


def test_statements_that_tracing_decides_keep_static_values():
    """Numbers stay static where facts decide; where Python decides, nothing is looked at."""
    @mo.kernel
    def k(x, flag: mo.Constexpr):
        i = mo.thread_idx().x
        if i < 32:
            n, name = 2, "a"
        else:
            n, name = 3, "b"
        if flag:  # noqa: SIM108
            scale = 0.5
        else:
            scale = mo.float64(1)
        for j in mo.static_range(n):
            x[i] += {"a": 10, "b": 20}[name] + j
        x[i] *= scale
        assert (mo.float16(1) * scale).dtype is mo.float16, "a weak number"
    x = np.zeros(32, np.float32)
    report = mo.check(k)[1, 32](x, True)
    assert report.ok and (x == 10.5).all()


def test_the_printed_kernel_has_nothing_of_the_other_arm():
    @mo.kernel
    def k(x, h):
        i = mo.thread_idx().x
        if i < 32:
            a = h[i]
        else:
            sX = mo.shared_array(mo.float32, 1000)
            mo.sync_threads()
            a = sX[mo.lane_idx()] + x[i + 99]
        x[i] = a + 1
    compiled = k.compile(np.zeros(32, np.float32), np.zeros(32, np.float16), block=32, arch="sm_90a")
    assert "sync" not in compiled.source and "99" not in compiled.source and "shared" not in compiled.source
    assert compiled.spills == 0
