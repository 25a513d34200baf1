"""with statements in kernels: what ends one is done on every way out of it, or the way is refused."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import moye as mo

THREADS = 32


class Counted:
    """Counts in memory when it begins, and when it ends."""

    def __init__(self, cells, i):
        self.cells, self.i = cells, i

    def __enter__(self):
        self.cells[self.i] += 1
        return self

    def __exit__(self, *error):
        self.cells[self.i] += 10


@contextlib.contextmanager
def counted(cells, i):
    cells[i] += 1
    yield cells
    cells[i] += 10


def ran(function, *more):
    out = np.zeros(THREADS, np.int32)
    report = mo.check(mo.kernel(function))[1, THREADS](out, *more)
    assert report.ok, report
    return out.tolist()


@pytest.mark.parametrize("scope", [Counted, counted])
def test_it_ends_as_in_python(scope):
    def plain(out, n, m: mo.Constexpr):
        i = mo.thread_idx().x
        for j in range(3):
            with scope(out, i):
                if j < n:
                    out[i] += 100
                for k in mo.static_range(3):                # jumps of a loop inside stay inside
                    if k + i > 3:
                        break
                    out[i] += 1000
        with scope(out, i):
            if m > 1:
                return                                      # tracing decides: it ends for all
        out[i] = -1

    counts = [3 * 11 + 200 + 3000 * min(3, max(0, 4 - i)) for i in range(THREADS)]
    assert ran(plain, 2, 2) == [x + 11 for x in counts]
    assert ran(plain, 2, 1) == [-1] * THREADS


@mo.jit
def early(out, i, n):
    with Counted(out, i):
        if i < n:
            return 1
    return 2


def returned(out, n):
    i = mo.thread_idx().x
    with Counted(out, i):
        if i < n:
            return


def in_a_loop_of_the_kernel(out, n):
    i = mo.thread_idx().x
    for j in range(n):
        with Counted(out, i):
            if i < j:
                break


def turn(out, n):
    i, j = mo.thread_idx().x, 0
    while j < n:
        j += 1
        with contextlib.ExitStack(), Counted(out, i):
            if i == j:
                continue


def unrolled(out, n):
    i = mo.thread_idx().x
    for j in (1, 2, 3):
        with Counted(out, i):
            if i == j + n:
                continue


def for_all_who_come(out, n):
    i = mo.thread_idx().x
    if i < n:
        with Counted(out, i):
            return


def of_a_function(out, n):
    i = mo.thread_idx().x
    out[i] += early(out, i, n)


def whole_turn(out, n):
    i = mo.thread_idx().x
    for _ in range(n):
        with Counted(out, i):
            break


@pytest.mark.parametrize(("function", "kind"), [
    (returned, "return"), (in_a_loop_of_the_kernel, "break"), (turn, "continue"), (unrolled, "continue"),
    (for_all_who_come, "return"), (of_a_function, "return"), (whole_turn, "break")])
def test_a_way_out_that_the_kernel_decides_is_refused(function, kind):
    with pytest.raises(mo.TraceError, match=f"a {kind} that the kernel decides leaves a with statement"):
        ran(function, 5)
