"""Objects that several names mean: which one a name or a part is behind conditions in each other, loops and helpers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import moye as mo


@dataclass
class Cell:
    x: int


@dataclass
class Box:
    inner: Cell


@mo.jit
def put(box, cell, n):
    if n > 3:
        box.inner = cell
        return 1
    return 0


@mo.jit
def either(a, b, n):
    if n > 3:
        return a
    return b


@mo.kernel
def in_an_elif(out, n):
    a, b = [1], [2]
    if n == 3:
        pass
    elif n > 3:
        a = b
    b[0] += 10
    out[0] = a[0]


@mo.kernel
def part_of_a_list(out, n):
    cells = [Cell(1), Cell(2)]
    if n > 3:
        cells[1] = cells[0]
    cells[0].x += 10
    out[0] = cells[1].x


@mo.kernel
def part_of_a_dict_in_an_elif(out, n):
    a, d = [1], {"x": [2]}
    if n == 3:
        pass
    elif n > 3:
        d["x"] = a
    a[0] += 10
    out[0] = d["x"][0]


@mo.kernel
def old_part_is_kept(out, n):
    d = {"x": [2]}
    q = d["x"]
    if n > 3:
        d["x"] = [9]
    q[0] = 77
    out[0] = d["x"][0]


@mo.kernel
def behind_a_loop(out, n):
    a, c = [1], [3]
    for i in range(n):
        if i > 2:
            c = a
    a[0] += 20
    out[0] = c[0]


@mo.kernel
def part_behind_two_loops(out, n):
    a, c = [1], [[3], [4]]
    for i in range(n):
        for j in range(2):
            if i + j > 2:
                c[0] = a
    a[0] += 20
    out[0] = c[0][0]


@mo.kernel
def of_a_helper_in_a_branch(out, n):
    a, b, c = [1], [2], [3]
    if n != 3:
        c = either(a, b, n)
    b[0] += 10
    out[0] = c[0]


@mo.kernel
def part_that_a_helper_sets(out, n):
    box, cell = Box(Cell(1)), Cell(2)
    out[1] = put(box, cell, n)
    cell.x += 10
    out[0] = box.inner.x


@mo.kernel
def of_conditional_values(out, n):
    a, b = [1], [2]
    c = (a if n > 4 else b) if n > 2 else b
    a[0] += 20
    out[0] = c[0]


@mo.kernel
def same_behind_a_loop(out, n):
    a = [1]
    b = a
    for _ in range(n):
        b = a
    if n > 3:
        a = [7]
    a[0] += 20
    out[0] = b[0]


@pytest.mark.parametrize("kernel", [
    same_behind_a_loop, in_an_elif, part_of_a_list, part_of_a_dict_in_an_elif, old_part_is_kept, behind_a_loop,
    part_behind_two_loops, of_a_helper_in_a_branch, part_that_a_helper_sets, of_conditional_values],
    ids=lambda kernel: kernel.__name__)
def test_a_change_of_one_that_another_name_may_mean_is_refused(kernel):
    with pytest.raises(mo.TraceError, match="one of them is changed in place while another variable or object refers"):
        kernel[1, 1](np.zeros(2, np.int32), 5)


@mo.kernel
def replaced_and_changed(out, n):
    """The old part is changed after another one has taken its place; if nothing happens, it is still there."""
    box = Box(Cell(n))
    if n > 3:
        old = box.inner
        box.inner = Cell(n * 2)
        old.x = 5
        box.inner.x += old.x
    out[0] = box.inner.x


@pytest.mark.parametrize(("n", "x"), [(1, 1), (5, 15)])
def test_a_part_that_was_changed_after_it_was_replaced(n, x):
    out = np.zeros(2, np.int32)
    replaced_and_changed[1, 1](out, n)
    assert out[0] == x


@mo.kernel
def counted_while_known(out, n):
    """The first turns of the loop are known while tracing; then it starts again as a loop of the kernel."""
    xs, i = [0], n % 2
    while i < 4:
        i += 1
        xs[0] += 1
        xs = [xs[0]]
    out[0] = xs[0]


@pytest.mark.parametrize("n", [0, 1])
def test_a_loop_that_starts_again_finds_objects_as_they_were(n):
    out = np.zeros(2, np.int32)
    counted_while_known[1, 1](out, n)
    assert out[0] == 4 - n
