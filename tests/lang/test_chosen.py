"""Conditional values whose condition facts decide: the value is one arm's, the dtype what both arms have together."""

from __future__ import annotations

import linecache

import numpy as np
import pytest

import moye as mo

ARMS = [("a32", "1"), ("1", "a32"), ("half", "2.0"), ("2.0", "half"), ("a64", "1"), ("1", "a64"), ("a32", "2.5"),
        ("1", "2.5"), ("half", "a32"), ("wide", "1.5"), ("mo.int8(3)", "100"), ("a32 + 1", "mo.min(3, a64)"),
        ("1", "f[i]"), ("True", "3"), ("2", "mo.float16(0.1) * 2")]


class Seen:
    dtypes = ()


def dtypes_of(choice: str, decided: bool) -> tuple[mo.DType, ...]:
    """Of the value, and of a sum with a small integer, which weak numbers would follow."""
    space = {"mo": mo, "Seen": Seen}
    condition = "i < 1 << 20" if decided else "i < n"
    source = f"""def k(f, h, w, n):
    i = mo.thread_idx().x
    a32, a64, half, wide = n, mo.int64(n), h[i], w[i]
    c = {condition}
    x = {choice.replace("COND", condition)}
    Seen.dtypes = x.dtype, (x + mo.int8(1)).dtype
    f[i] = mo.float32(x)
"""
    name = f"<chosen {hash(source)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    exec(compile(source, name, "exec"), space)
    mo.kernel(space["k"]).compile(np.ones(32, np.float32), np.ones(32, np.float16), np.ones(32, np.float64), 3,
                                  block=32, arch="sm_90a")
    return Seen.dtypes


@pytest.mark.parametrize(("a", "b"), ARMS)
@pytest.mark.parametrize("choice", ["({a} if COND else {b})", "({b} if not (COND) else {a})",
                                    "mo.where(COND, {a}, {b})"])
def test_facts_do_not_change_the_dtype(choice, a, b):
    text = choice.format(a=a, b=b)
    assert dtypes_of(text, True) == dtypes_of(text, False)


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
