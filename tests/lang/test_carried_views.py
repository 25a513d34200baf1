"""Views that loops and branches carry keep their coordinates: an index outside its mode is found, inside the memory."""

from __future__ import annotations

import re

import numpy as np
import pytest

import moye as mo

TILE = 8


class Pair:
    def __init__(self, view):
        self.view = view


@mo.jit
def chosen(s, k, n):
    if k > n:
        return s[:, n]
    return s[:, 0]


def loop(s, x, n):
    view = s[:, 0]
    for k in range(4):
        x[0, k] = view[0]
        view = s[:, k + n]


def while_loop(s, x, n):
    view, k = s[:, 0], mo.int32(0)
    while k < 4 and x[7, 7] < 1.0:
        x[0, k] = view[0]
        k += 1
        view = s[:, k - 1 + n]


def first_set_inside(s, x, n):
    for k in range(3):
        view = s[:, k + n]
        for _ in range(2):
            x[0, k] = view[0]


def branch(s, x, n):
    view = s[:, 0]
    if x[0, 0] < 1.0:
        view = s[:, n + 2]
    x[0, 1] = view[0]


def both_arms(s, x, n):
    if x[0, 0] < 1.0:
        view = s[:, n + 2]
        x[7, 6] = 1.0
    else:
        view = s[:, 1]
    x[0, 1] = view[0]


def expression(s, x, n):
    view = s[:, n + 2] if x[0, 0] < 1.0 else s[:, 1]
    x[0, 1] = view[0]


def nested(s, x, n):
    view = s[:, 0]
    for k in range(2):
        for j in range(2):
            x[k, j] = view[0]
            if j < 1:
                view = s[:, k + j + n + 1]
    x[0, 3] = view[0]


def swapped(s, x, n):
    read, write = s[:, 0], s[:, n + 2]
    for k in range(2):
        x[0, k] = read[0]
        read, write = write, read


def attribute(s, x, n):
    pair = Pair(s[:, 0])
    for k in range(4):
        x[0, k] = pair.view[0]
        pair.view = s[:, k + n]


def left(s, x, n):
    view = s[:, 0]
    for k in range(4):
        if k > 1:
            view = s[:, k + n]
            break
        view = s[:, k]
    x[0, 0] = view[0]


def returned(s, x, n):
    view = chosen(s, mo.int32(x[0, 0]) + n + 3, n + 2)
    x[0, 1] = view[0]


def sliced_on(s, x, n):
    view = s
    for k in range(3):
        x[0, k] = view[0, k + n]
        view = s


def written(s, x, n):
    view = s[:, 0]
    for k in range(4):
        view[1] = 1.0
        view = s[:, k + n]


def copied(s, x, n):
    view = s[:, 0]
    for k in range(4):
        mo.copyto(x[:, k], view)
        view = s[:, k + n]


CASES = [loop, while_loop, first_set_inside, branch, both_arms, expression, nested, swapped, attribute, left, returned,
         sliced_on, written, copied]


def kernel_of(case, shared):
    """The case over a view of the first three columns of an array of eight."""
    @mo.kernel
    def k(x, y, n):
        if shared:
            whole = mo.shared_array(mo.float32, (TILE, TILE))
            for j in range(TILE):
                for i in range(TILE):
                    whole[i, j] = 0.0
        else:
            whole = y
        mo.sync_threads()
        body(whole.with_layout(mo.make_layout((TILE, 3), (1, TILE))), x, n)
    body = mo.jit(case)
    return k


def arguments(n):
    return np.zeros((TILE, TILE), np.float32, order="F"), np.zeros((TILE, TILE), np.float32, order="F"), n


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True], ids=["global", "shared"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_an_index_beside_the_tile_is_found(case, shared):
    report = mo.check(kernel_of(case, shared))[1, 1](*arguments(1))
    assert {f.code for f in report.findings} == {"B2" if shared else "B1"}, report
    message = report.findings[0].message
    assert "mode 1" in message or "(0, 3)" in message, report
    assert not report.not_judged


@pytest.mark.parametrize("shared", [False, True], ids=["global", "shared"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_right_twin_is_clean(case, shared):
    report = mo.check(kernel_of(case, shared))[1, 1](*arguments(0))
    assert report.ok and not report.not_judged, report


RAGGED = 10


def rows(x, out, n):
    """Carries a ragged tile, whose elements' rows are judged against the array's."""
    tiles = mo.tile(x, (4, 2), (None, 0), ragged=True)      # (4, 2, k)
    view = tiles[:, :, 0]
    for k in range(3):
        for i in range(4):
            if k * 4 + i < n:
                out[k * 4 + i] = view[i, 0]
        view = tiles[:, :, mo.min(k + 1, 2)]


def turned(x, out, n):
    """Two views whose coordinates lie apart in other ways."""
    tiles = mo.tile(x, (4, 2), (None, 0), ragged=True)      # (4, 2, k)
    view = first = tiles[:, :, 0]
    for k in range(3):
        for i in range(4):
            if k * 4 + i < n:
                out[k * 4 + i] = view[i, 0]
        view = first.with_layout(first.layout) if k < n - 100 else tiles[:, :, mo.min(k + 1, 2)]


def ragged(case, n):
    """Row 10 of the first column lies where the second one begins."""
    kernel = mo.kernel(case)
    return mo.check(kernel)[1, 1](np.zeros((10, 2), np.float32, order="F"), np.zeros(32, np.float32), n)


def test_rows_of_ragged_tiles_are_carried():
    assert ragged(rows, RAGGED).ok and not ragged(rows, RAGGED).not_judged
    report = ragged(rows, RAGGED + 1)
    assert [f.code for f in report.findings] == ["B1"] and "x(10, 0)" in report.findings[0].message, report


def test_what_cannot_be_carried_is_told():
    report = ragged(turned, RAGGED)
    assert report.ok and "only the memory that its accesses reach was judged" in report.not_judged[0], report
    assert "not judged: coordinates of tiles" in str(report)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_only_the_checks_read_what_goes_with_a_view(case):
    source = kernel_of(case, True).compile(*arguments(0), block=1, arch="sm_80").source
    assert "judged" not in source and not re.search(r"long long \w+ = \(long long\)", source)
