"""``any`` and ``all`` ask an iterator no longer than Python does: what its items do beyond happens for no thread."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye.errors import TraceError

THREADS = 32


class Kept:
    def __init__(self, total):
        self.total = total

    def hit(self, k):
        self.total += k
        return self.total


@mo.jit
def tick(memory, i, k):
    memory[i] = memory[i] * 2 + k
    return memory[i] % 5


@mo.jit
def any_stores(memory, v, i):
    return any(tick(memory, i, q) > v for q in (1, 2, 3))


@mo.jit
def all_stores(memory, v, i):
    return all(tick(memory, i, q) > v for q in (1, 2, 3))


@mo.jit
def any_of_map(memory, v, i):
    return any(map(lambda q: tick(memory, i, q) > v, (1, 2, 3)))  # noqa: C417


@mo.jit
def any_in_any(memory, v, i):
    return any(all(tick(memory, i, q + p) > v for q in (1, 2)) for p in (0, 4, 5))


@mo.jit
def behind_what_tracing_knows(memory, v, i):
    return any(tick(memory, i, q) > v if q > 1 else False for q in (0, 1, 2, 3)) or all(q < 2 for q in (1, 2, i))


@mo.jit
def ended_by_what_tracing_knows(memory, v, i):
    return any(q > 1 or tick(memory, i, q) > v for q in (0, 1, 2, 3))


@mo.jit
def of_a_list(memory, v, i):
    return any([tick(memory, i, q) > v for q in (1, 2, 3)])  # noqa: C419


@mo.jit
def numbers(memory, v, i):
    return any(tick(memory, i, q) for q in (2, 4, 6)) and all(tick(memory, i, q) for q in (1, 2))


@mo.jit
def own_name(memory, v, i):
    return any((y := tick(memory, i, q)) > v and y < 4 for q in (1, 2, 3))


@pytest.mark.parametrize("body", [any_stores, all_stores, any_of_map, any_in_any, behind_what_tracing_knows,
                                  ended_by_what_tracing_knows, of_a_list, numbers, own_name],
                         ids=lambda body: body.__name__)
def test_as_in_python(body):
    @mo.kernel
    def kernel(out, memory, x):
        i = mo.thread_idx().x
        out[i] = 1 if body(memory, x[i], i) else 0

    x = np.arange(THREADS, dtype=np.int32) % 6 - 1
    memory, out = np.arange(THREADS, dtype=np.int32), np.zeros(THREADS, np.int32)
    expected, cells = [], memory.tolist()

    def plain(memory, i, k):
        memory[i] = memory[i] * 2 + k
        return memory[i] % 5

    own = type(body.function)(body.function.__code__, {"tick": plain})
    expected = [int(own(cells, int(x[i]), i)) for i in range(THREADS)]
    assert mo.check(kernel)[1, THREADS](out, memory, x).ok
    assert out.tolist() == expected
    assert memory.tolist() == cells


def test_atomics_and_ordered_loads():
    @mo.kernel
    def kernel(out, counts, x):
        i = mo.thread_idx().x
        out[i] = any(mo.atomic_add(counts, 0, 1) < 0 or q == x[i] for q in (0, 1, 2))

    counts, x = np.zeros(1, np.int32), np.arange(8, dtype=np.int32)
    kernel[1, 8](np.zeros(8, bool), counts, x)
    assert counts[0] == 1 + 2 + 3 + 5 * 3


def test_loads_stay_side_by_side():
    """What only reads is no branch: eight loads under way at once."""
    @mo.kernel
    def kernel(out, x, v):
        i = mo.thread_idx().x
        out[i] = any(x[8 * i + k] > v for k in range(8))

    source = kernel.compile(mo.TensorLike(mo.int32, (32,)), mo.TensorLike(mo.int32, (256,)), 3, block=32).source
    assert "if" not in source[source.index("extern"):]


def objects(memory, v, i):
    kept = Kept(0)
    found = any(kept.hit(q) > v for q in (1, 2, 3))
    return kept.total + found


def walrus(memory, v, i):
    return y if any((y := memory[i] * q) > v for q in (1, 2, 3)) else 0


def iterator(memory, v, i):
    items = iter([v, i, 3])
    return 1 if any(q > 2 for q in items) else sum(items)


@pytest.mark.parametrize(("body", "message", "hint"), [
    (objects, "kept.total changes in an item that any may not come to when the kernel runs",
     "change it in a for loop that ends with break"),
    (walrus, "any may end before := binds y, when the kernel runs", "write a for loop that assigns y"),
    (iterator, "the list_iterator items moves on in a loop or branch of the kernel, which is traced once: the kernel "
               "cannot do that as often as Python would", None)], ids=lambda body: getattr(body, "__name__", ""))
def test_what_tracing_cannot_know_is_refused(body, message, hint):
    function = mo.jit(body)

    @mo.kernel
    def kernel(out, x):
        i = mo.thread_idx().x
        out[i] = function(out, x[i], i)

    with pytest.raises(TraceError) as error:
        kernel[1, 8](np.zeros(8, np.int32), np.zeros(8, np.int32))
    assert error.value.message == message
    assert hint is None or error.value.hint == hint


def test_what_tracing_knows_ends_as_in_python():
    """Objects change as often as in Python, and a walrus binds the last item that Python comes to."""
    @mo.kernel
    def kernel(out, n: mo.Constexpr):
        kept = Kept(0)
        found = any((y := kept.hit(q)) > n for q in (1, 2, 3))
        out[0], out[1], out[2] = int(found), kept.total, y

    for n, expected in ((0, [1, 1, 1]), (2, [1, 3, 3]), (9, [0, 6, 6])):
        out = np.zeros(3, np.int32)
        kernel[1, 1](out, n)
        assert out.tolist() == expected
