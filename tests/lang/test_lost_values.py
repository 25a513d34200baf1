"""Variables that an earlier turn of a loop leaves without a value: what they held before the loop is not theirs."""
# ruff: noqa: F821, F841  that they are used before they are set is what this is about

from __future__ import annotations

import numpy as np
import pytest

import moye as mo

X = np.arange(6, dtype=np.int32)


@mo.kernel
def copied_on(out, x):
    kept = 0
    for i in range(3):
        before = 1
        if i > 0:
            before = late
        late = x[kept] + i
        kept = before
    out[0] = kept


@mo.kernel
def handed_down(out, x):
    a, b, c, d, e, f, g, h = range(8)
    for i in range(3):
        a, b, c, d, e, f, g, h = b, c, d, e, f, g, h, x[i] if i > 5 else late
        late = a
    out[0] = b


@mo.kernel
def of_a_while(out, x):
    i, kept = mo.int32(0), 0
    while i < 3:
        if x[i] > 4:
            kept = late
        late = i
        i += 1
    out[0] = kept


@mo.kernel
def of_a_part(out, x):
    parts = {"kept": 0}
    for i in range(3):
        before = 1
        if i > 0:
            before = late
        late = i
        out[0] = parts["kept"]
        parts["kept"] = before


@pytest.mark.parametrize("kernel", [copied_on, handed_down, of_a_while, of_a_part], ids=lambda kernel: kernel.__name__)
def test_a_variable_that_an_earlier_turn_leaves_without_a_value_is_refused(kernel):
    with pytest.raises(mo.TraceError, match="the variable 'late' has no value"):
        kernel[1, 1](np.zeros(1, np.int32), X)


@mo.kernel
def set_again(out, x):
    kept = 7
    for i in range(3):
        if i > 0:
            kept = late
        late = i + x[1]
        kept = i
    out[0] = kept


def test_one_that_is_set_again_may_be_without_a_value_meanwhile():
    out = np.zeros(1, np.int32)
    assert mo.check(set_again)[1, 1](out, X).ok and out[0] == 2


@mo.kernel
def as_an_index(out, x):
    for i in range(3):
        if i > 0:
            out[i] = x[late]
        late = i


@mo.kernel
def not_set_yet(out, x):
    if x[0] > 0:
        out[0] = late + x[1]
    late = 5


@mo.kernel
def in_a_divmod(out, x):
    for i in range(3):
        out[i] = divmod(late if i > 0 else 1, 3)[0]
        late = x[i]


@pytest.mark.parametrize("kernel", [as_an_index, not_set_yet, in_a_divmod], ids=lambda kernel: kernel.__name__)
def test_it_is_named_wherever_it_is_used(kernel):
    with pytest.raises(mo.TraceError, match="the variable 'late' has no value") as told:
        kernel[1, 1](np.zeros(3, np.int32), X)
    assert "give late a value before" in told.value.hint
