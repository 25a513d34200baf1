"""B1 and B2 by coordinates: an index is judged against the extent of its mode, wherever its memory would lie."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo

COPY = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.float32), mo.float32), mo.make_layout((8, 4)))
ASYNC = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.uint128), mo.float32), mo.make_layout((8, 4)),
                           mo.make_layout((4, 1)))
MMA = mo.make_tiled_mma(mo.mma.SM80_16x8x16_F32F16F16F32_TN)
SWIZZLED = mo.ComposedLayout(mo.Swizzle(3, 0, 3), 0, mo.make_layout((8, 8), (8, 1)))


def part(rows, columns, order="C", dtype=np.float32):
    """A view of an array whose memory goes on where the view ends."""
    return np.zeros((2 * rows, 2 * columns), dtype, order=order)[:rows, :columns]


def out(count=64):
    return np.zeros(count, np.float32)


def judged(kernel, grid, block, *args):
    """(class, coordinate) of the findings."""
    report = mo.check(kernel, lints=False)[grid, block](*args)
    return [(f.code, f.coordinate) for f in report.findings], report


# --- elements ---------------------------------------------------------------------------------------------------------


@mo.kernel
def column(y, x, n):
    t = mo.thread_idx().x
    y[t] = x[t, n]


@mo.kernel
def strided(y, x, n):
    t = mo.thread_idx().x
    y[t] = x[n * t]


@mo.kernel
def added(y, x, n):
    mo.atomic_add(x, (mo.thread_idx().x, n), 1.0)
    y[mo.thread_idx().x] = 0.0


@mo.kernel
def written(y, x, n):
    if mo.thread_idx().x < 4:
        x[mo.thread_idx().x, n] = 1.0


@mo.kernel
def in_loop(y, x, n):
    t = mo.thread_idx().x
    for c in range(t, n + 1, 2):
        y[t] = x[0, c]


@pytest.mark.parametrize("kernel", [column, added, written])
@pytest.mark.parametrize(("n", "found"), [(5, None), (6, (0, 6)), (11, (0, 11)), (-1, (0, -1))])
def test_an_index_is_judged_by_its_mode(kernel, n, found):
    findings, report = judged(kernel, 1, 4, out(), part(4, 6), n)
    assert findings == ([] if found is None else [("B1", found)]), report


def test_the_message_names_the_modes_of_the_argument():
    _, report = judged(column, 1, 4, out(), part(4, 6), 7)
    assert "reads x(0, 7)" in report.findings[0].message
    assert "outside of x with layout (4,6):(12,1)" in report.findings[0].message


def test_indices_of_loops_and_of_threads():
    assert judged(in_loop, 1, 2, out(), part(4, 6), 5)[0] == []
    assert [code for code, _ in judged(in_loop, 1, 2, out(), part(4, 6), 6)[0]] == ["B1"]   # launch tells


@mo.kernel
def by_steps(y, x, n, ahead: mo.Constexpr):
    for c in range(0, n, 4):
        y[c] = x[c + ahead]


@pytest.mark.parametrize(("n", "ahead", "right"), [(7, 0, True), (9, 0, False), (8, 1, True), (5, 2, False),
                                                   (0, 50, True), (1, 5, True), (1, 6, False)])
def test_launch_asks_for_what_loops_reach(n, ahead, right):
    """Not for what their steps pass over, nor for loops without iterations."""
    findings, report = judged(by_steps, 1, 1, out(), np.zeros(6, np.float32), n, ahead)
    assert [code for code, _ in findings] == ([] if right else ["B1"]), report


@pytest.mark.parametrize("x", [np.broadcast_to(np.float32(3), (8,)), np.zeros(32, np.float32)[:8],
                               np.zeros(32, np.float32)[::2][:8]])
def test_strides_do_not_matter(x):
    """Stride 0 among them: no memory would be left."""
    assert judged(strided, 1, 8, out(), x, 1)[0] == []
    assert judged(strided, 1, 8, out(), x, 2)[0] == [("B1", (8,))]


def test_arrays_of_one_element():
    @mo.kernel
    def first(y, x, n):
        y[mo.thread_idx().x] = x[n]

    for x in (np.zeros(4, np.float32)[:1], np.zeros((), np.float32)):
        assert judged(first, 1, 2, out(), x, 0)[0] == []
        assert judged(first, 1, 2, out(), x, 1)[0] == [("B1", (1,))]


def test_linear_indices():
    @mo.kernel
    def linear(y, x, n):
        y[mo.thread_idx().x] = x[mo.thread_idx().x + n]

    assert judged(linear, 1, 12, out(), part(4, 6), 12)[0] == []
    assert judged(linear, 1, 12, out(), part(4, 6), 13)[0] == [("B1", (0, 6))]


def test_what_a_condition_excludes_is_clean():
    @mo.kernel
    def guarded(y, x, ok: mo.Constexpr):
        row, t = mo.block_idx().x * 4 + mo.thread_idx().x // 8, mo.thread_idx().x
        if (row < mo.size(x, 0)) if ok else (row <= mo.size(x, 0)):
            for c in range(t % 8, mo.size(x, 1), 8):
                x[row, c] = 1.0

    assert judged(guarded, 3, 32, out(), part(9, 13), True)[0] == []
    assert judged(guarded, 3, 32, out(), part(9, 13), False)[0] == [("B1", (9, 0))]


# --- shared memory ----------------------------------------------------------------------------------------------------


@mo.kernel
def shared(y, n, layout: mo.Constexpr, spare: mo.Constexpr):
    """Column n of a tensor that other memory follows."""
    t = mo.thread_idx().x
    s = mo.shared_array(mo.float32, layout)
    other = mo.shared_array(mo.float32, 64)
    for i in range(mo.size(s.layout)):
        if t == 0:
            s[i] = 1.0
    other[t] = 1.0
    mo.sync_threads()
    y[t] = s[t, n] + other[t]


@pytest.mark.parametrize("layout", [mo.make_layout((8, 4)), mo.make_layout((8, 4), (4, 1)),
                                    mo.make_layout((8, (2, 2)), (4, (1, 2))), mo.make_layout(((4, 2), 4))])
@pytest.mark.parametrize("n", [3, 4, -1])
def test_shared_memory(layout, n):
    findings, report = judged(shared, 1, 8, out(), n, layout, 0)
    assert findings == ([] if n == 3 else [("B2", (0, n))]), report


def test_shared_arrays_of_one_element_and_swizzled_ones():
    @mo.kernel
    def one(y, n):
        s = mo.shared_array(mo.float32, 1)
        if mo.thread_idx().x == 0:
            s[n] = 1.0
        mo.sync_threads()
        y[mo.thread_idx().x] = s[0]

    assert judged(one, 1, 4, out(), 0)[0] == []
    assert judged(one, 1, 4, out(), 1)[0][0] == ("B2", (1,))
    assert judged(shared, 1, 8, out(), 7, SWIZZLED, 0)[0] == []
    assert judged(shared, 1, 8, out(), 8, SWIZZLED, 0)[0] == [("B2", (0, 8))]


def test_a_stage_that_is_not_taken_modulo():
    @mo.kernel
    def stages(y, n, ok: mo.Constexpr):
        t = mo.thread_idx().x
        s = mo.shared_array(mo.float32, mo.make_layout((8, 3), (1, 8)))
        rest = mo.shared_array(mo.float32, 64)
        rest[t] = 0.0
        k = mo.int32(0)
        while k < n:
            s[t, k % 3 if ok else k] = 1.0
            k += 1
        y[t] = rest[t]

    assert judged(stages, 1, 8, out(), 5, True)[0] == []
    findings, report = judged(stages, 1, 8, out(), 5, False)
    assert findings == [("B2", (0, 3))] and "stage 3 of 3 stages" in str(report) and "modulo 3" in str(report)


# --- views ------------------------------------------------------------------------------------------------------------


@mo.kernel
def tiled(y, x, i, j):
    g = mo.tile(x, (4, 4), (mo.block_idx().x, None))        # (4, 4, k)
    y[0] = g[i, j, 1]


def test_an_index_of_a_view_is_judged_by_the_view():
    """Row 4 of a tile of four rows, which is row 4 of the array, and inside it."""
    assert judged(tiled, 1, 1, out(), part(8, 8), 3, 3)[0] == []
    findings, report = judged(tiled, 1, 1, out(), part(8, 8), 4, 0)
    assert findings == [("B1", (4, 4))] and "index 4 of g, mode 0" in str(report) and "x(4, 4)" in str(report)


def test_a_slice_is_no_access():
    @mo.kernel
    def ahead(y, x, ok: mo.Constexpr):
        g = mo.tile(x, (4, 4), (0, None))
        held, n = mo.fragment((4, 4), mo.float32), mo.size(x, 1) // 4
        held.fill(0)
        for k in range(n):
            following = g[:, :, k + 1]
            if (k + 1 < n) if ok else (k < n):
                mo.copyto(held, following)
        y[0] = held[0, 0]

    assert judged(ahead, 1, 1, out(), part(4, 16), True)[0] == []
    assert [code for code, _ in judged(ahead, 1, 1, out(), part(4, 16), False)[0]] == ["B1"]


def test_with_layout_says_another_shape():
    @mo.kernel
    def flat(y, x, n):
        v = x.with_layout(mo.make_layout(16))
        y[mo.thread_idx().x] = v[mo.thread_idx().x + n]

    x = np.zeros((4, 4), np.float32)
    assert judged(flat, 1, 8, out(), x, 8)[0] == []
    findings, report = judged(flat, 1, 8, out(), x, 9)
    assert findings == [("B1", (16,))] and "v(16), a view of x" in str(report)
    assert [code for code, _ in judged(flat, 1, 8, out(), np.zeros((3, 4), np.float32), 8)[0]] == ["B1"]


def test_other_verbs_keep_the_modes():
    @mo.kernel
    def turned(y, x, n):
        v = mo.group_modes(mo.select(x, 1, 0), 0, 2)
        y[mo.thread_idx().x] = v[mo.thread_idx().x + n]

    assert judged(turned, 1, 4, out(), part(4, 6), 20)[0] == []
    assert [code for code, _ in judged(turned, 1, 4, out(), part(4, 6), 21)[0]] == ["B1"]

    @mo.kernel
    def moved(y, x, n):
        v = mo.domain_offset((n, 0), x)
        y[mo.thread_idx().x] = v[mo.thread_idx().x, 1]

    assert judged(moved, 1, 4, out(), part(8, 6), 4)[0] == []
    assert judged(moved, 1, 4, out(), part(8, 6), 5)[0] == [("B1", (8, 1))]


# --- ragged tiles -----------------------------------------------------------------------------------------------------


@mo.kernel
def whole_tile(y, x, how: mo.Constexpr):
    t = mo.thread_idx().x
    g = mo.tile(x, (8, 4), (mo.block_idx().x, 0), ragged=True)
    if how == "parallelize":
        v = mo.parallelize(g, mo.make_layout((8, 4)), t)
    elif how == "copy":
        v = COPY.get_slice(t).partition_S(g)
    else:
        v = g
    r = mo.fragment(mo.shape(v.layout), mo.float32)
    r.fill(0)
    if how == "fill":
        if t == 0:
            g[...] = 1.0
    elif how == "element":
        r[0] = g[t % 8, t // 8]
    else:
        mo.copyto(r, v)
    y[mo.block_idx().x * 32 + t] = r[0]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["parallelize", "copy", "whole", "fill", "element"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_ragged_tiles(how, order):
    assert judged(whole_tile, 2, 32, out(), part(16, 4, order), how)[0] == []
    assert judged(whole_tile, 2, 32, out(), part(12, 4, order), how)[0] == [("B1", (12, 0))]
    assert judged(whole_tile, 2, 32, out(), part(16, 3, order), how)[0] == [("B1", (0, 3))]


@mo.kernel
def by_element(y, x, rows, operand: mo.Constexpr):
    """A predicate of its own for every element of an MMA's operand."""
    t = mo.thread_idx().x
    where = mo.tile(mo.identity_tensor(mo.shape(x)), (16, 16), (mo.block_idx().x, 0), ragged=True)
    thr = MMA.get_slice(t)
    g = mo.tile(x, (16, 16), (mo.block_idx().x, 0), ragged=True)
    v, c = (thr.partition_A(g), thr.partition_A(where)) if operand == "A" else \
        (thr.partition_B(g), thr.partition_B(where)) if operand == "B" else (thr.partition_C(g), thr.partition_C(where))
    r, mask = mo.make_fragment_like(v), mo.make_fragment_like(v.layout, mo.bool)
    r.fill(0)
    for i in mo.static_range(mo.size(v.layout)):
        mask[i] = mo.elem_less(c[i], (rows, mo.size(x, 1)))
    mo.copyto(r, v, pred=mask)
    y[t] = r[0].to(mo.float32)


@pytest.mark.parametrize("operand", ["A", "B", "C"])
def test_only_elements_whose_predicate_is_true_count(operand):
    x = part(21, 13, dtype=np.float16)
    blocks = mo.check(by_element, lints=False)
    assert {f.code for f in blocks[1, 32](out(), x, 21, operand).findings} <= set()
    assert not [f for f in blocks[2, 32](out(), x, 21, operand).findings if f.code == "B1"]
    found = [f.coordinate for f in blocks[2, 32](out(), x, 22, operand).findings if f.code == "B1"]
    assert found and found[0][0] == 21


def test_vectors_and_asynchronous_copies():
    @mo.kernel
    def vectors(y, x):
        t = mo.thread_idx().x
        g = mo.tile(x, (4,), (t,), ragged=True)
        r = mo.fragment((4,), mo.float32)
        r.fill(0)
        mo.copyto(r, g, pred=4 * t < mo.size(x))
        y[t] = r[3]

    assert judged(vectors, 1, 8, out(), np.zeros(64, np.float32)[:28])[0] == []
    assert judged(vectors, 1, 8, out(), np.zeros(64, np.float32)[:30])[0] == [("B1", (30,))]

    @mo.kernel
    def asynchronous(y, x):
        t = mo.thread_idx().x
        s = mo.shared_array(mo.float32, (32, 4))
        g, thr = mo.tile(x, (32, 4), (1, 0), ragged=True), ASYNC.get_slice(t)
        mo.copyto(ASYNC, thr.partition_D(s), thr.partition_S(g))
        mo.cp_async_wait()
        mo.sync_threads()
        y[t] = s[t, 0]

    x = np.zeros((64, 8), np.float32, order="F")
    assert judged(asynchronous, 1, 32, out(), x[:, :4])[0] == []
    assert judged(asynchronous, 1, 32, out(), x[:40, :4])[0] == [("B1", (40, 0))]


def test_recast_tiles():
    @mo.kernel
    def words(y, x):
        g = mo.recast(mo.tile(x, (8,), (mo.thread_idx().x,), ragged=True), mo.uint32)
        y[mo.thread_idx().x] = g[3].to(mo.float32)

    x = np.zeros(64, np.float16)
    assert judged(words, 1, 4, out(), x[:32])[0] == []
    assert judged(words, 1, 4, out(), x[:28])[0] == [("B1", (30,))]

    @mo.kernel
    def halves(y, x):
        g = mo.recast(mo.tile(x, (4,), (mo.thread_idx().x,), ragged=True), mo.float16)
        y[mo.thread_idx().x] = g[7].to(mo.float32)

    x = np.zeros(64, np.float32)
    assert judged(halves, 1, 4, out(), x[:16])[0] == []
    assert judged(halves, 1, 4, out(), x[:15])[0] == [("B1", (15,))]


def test_a_tile_of_a_tile():
    """A tile that leaves the tile that it is of, though not the array."""
    @mo.kernel
    def inner(y, x, i):
        g = mo.tile(mo.tile(x, (8, 4), (0, 0)), (3, 4), (i, 0), ragged=True)
        y[mo.thread_idx().x] = g[mo.thread_idx().x, 0]

    assert judged(inner, 1, 3, out(), part(16, 4), 1)[0] == []
    assert [code for code, _ in judged(inner, 1, 3, out(), part(16, 4), 2)[0]] == ["B1"]


def test_cuda_is_not_changed():
    """What is judged is computed in the simulator alone."""
    source = whole_tile.compile(out(), part(16, 4), "copy", block=32, arch="sm_80").source
    assert "x_0" not in source.split("{", 1)[1]              # the extent is asked for nowhere


@pytest.mark.parametrize(("n", "found"), [(3, []), (41, ["B1"])])
@pytest.mark.parametrize("way", ["if", "return", "while", "choice", "view"])
def test_a_constant_beyond_a_static_extent_that_some_launches_reach(way, n, found):
    """Behind a condition it is a fault of the launches that come there, and refused by none."""
    @mo.kernel
    def beyond(y, x: mo.Static, n, way: mo.Constexpr):
        tid = mo.thread_idx().x
        if way == "if":
            if n > 40:
                y[tid] = x[40]
        elif way == "return":
            if n < 40:
                return
            y[tid] = x[40]
        elif way == "while":
            i = 40
            while i < n:
                y[tid] = x[40]
                i += 1
        elif way == "choice":
            y[tid] = x[40] if n > 40 else 0.0
        elif n > 40:
            y[tid] = mo.tile(x, (8,), (5,))[tid % 8]

    report = mo.check(beyond, lints=False)[1, 32](*(np.zeros(32, np.float32) for _ in range(2)), n, way)
    assert sorted({finding.code for finding in report.findings}) == found, str(report)


def test_a_constant_beyond_a_static_extent_that_all_launches_reach():
    @mo.kernel
    def beyond(y, x: mo.Static):
        y[0] = x[40]

    with pytest.raises(mo.TensorError, match="index 40 is outside mode 0 of extent 32"):
        beyond[1, 32](*(np.zeros(32, np.float32) for _ in range(2)))
