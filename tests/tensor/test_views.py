"""Views: slicing, loads and stores, tiles, bounds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import moye as mo
from ir_interpreter import run
from moye.ir import ops


def launch(kernel, *args, block=1, grid=(1, 1, 1)):
    """Interpret a launch of a kernel; arrays are written in place."""
    func = kernel.trace(*args, block=block)
    leaves = [a for a in args if isinstance(a, (np.ndarray, int, float)) and not isinstance(a, bool)]
    return run(func, leaves[:len(func.params)], grid=grid)


def test_slices_of_every_kind():
    @mo.kernel
    def kernel(x, out, i, j):
        out[0] = x[1, 2, 0]
        out[1] = x[:, j, 1][i]
        out[2] = x[..., 1][2, i]
        out[3] = x[i, ...][j, 0]
        out[4] = x[None, :, 1][1, j]
        out[5] = x[1 + 3 * 2]                       # an index counts modes left to right
        out[6] = x[:][i, 1, 1]
        out[7] = x[:, :, 0][:, 1][2]

    x, out = np.asfortranarray(np.arange(18, dtype=np.int32).reshape(3, 3, 2)), np.zeros(8, np.int32)
    launch(kernel, x, out, 1, 2)
    assert list(out) == [x[1, 2, 0], x[1, 2, 1], x[2, 1, 1], x[1, 2, 0], x[1, 2, 1], x[1, 2, 0], x[1, 1, 1], x[2, 1, 0]]


def test_nested_slices():
    @mo.kernel
    def kernel(out):
        s = mo.shared_array(mo.int32, mo.Layout.parse("((2,3),(4,2)):((1,2),(6,24))"))
        for a in mo.static_range(2):
            for b in mo.static_range(3):
                for c in mo.static_range(4):
                    for d in mo.static_range(2):
                        s[(a, b), (c, d)] = a + 10 * b + 100 * c + 1000 * d
        row = s[(1, None), (None, 1)]               # (3, 4)
        for i in mo.static_range(3):
            for j in mo.static_range(4):
                out[i, j] = row[i, j]
        out[0, 4] = s[5, 7]                         # an integer for a whole nested mode
        out[1, 4] = s[:, (0, 1)][(1, 2),]

    out = np.zeros((3, 5), np.int32)
    launch(kernel, out)
    for i, j in itertools.product(range(3), range(4)):
        assert out[i, j] == 1 + 10 * i + 100 * j + 1000
    assert out[0, 4] == 1 + 20 + 300 + 1000 and out[1, 4] == 1 + 20 + 1000


@pytest.mark.parametrize("index, text", [((-1, 0), "never from the end"), ((0, 4), "index 4 is outside mode 1"),
                                         ((slice(0, 5), 0), "0:5 is no part of mode 0"),
                                         ((0, 0, 0), "3 entries .* rank 2"),
                                         ((0, "x"), "no coordinate"), (16, "outside")])
def test_bad_coordinates_of_static_tensors(index, text):
    @mo.kernel
    def kernel(out, index: mo.Constexpr):
        s = mo.shared_array(mo.int32, (4, 4))
        s[index] = 1

    index = index if not isinstance(index, tuple) or not isinstance(index[0], slice) else None

    @mo.kernel
    def sliced(out):
        s = mo.shared_array(mo.int32, (4, 4))
        s[0:5, 0] = 1

    with pytest.raises(mo.TensorError, match=text):
        sliced.trace(np.zeros(1), block=1) if index is None else kernel.trace(np.zeros(1), index, block=1)


def test_nested_coordinates_are_checked_too():
    @mo.kernel
    def kernel(out):
        s = mo.shared_array(mo.int32, mo.Layout.parse("((2,3),4):((1,2),6)"))
        s[(1, 3), 0] = 1

    with pytest.raises(mo.TensorError, match="index 3 is outside"):
        kernel.trace(np.zeros(1), block=1)

    @mo.kernel
    def flat(out):
        s = mo.shared_array(mo.int32, mo.Layout.parse("((2,3),4):((1,2),6)"))
        s[6, 0] = 1

    with pytest.raises(mo.TensorError, match="index 6 is outside mode 0 of extent"):
        flat.trace(np.zeros(1), block=1)


def test_negative_index_of_a_dynamic_extent():
    @mo.kernel
    def kernel(x):
        x[-1] = 0

    with pytest.raises(mo.TensorError, match="never from the end"):
        kernel.trace(np.zeros(4), block=1)


def test_float_index():
    @mo.kernel
    def kernel(x, f):
        x[f] = 0

    with pytest.raises(mo.TensorError, match="float32, not an integer"):
        kernel.trace(np.zeros(4), 1.0, block=1)


def test_python_protocols_of_a_tensor():
    def attempt(body):
        return mo.kernel(body)

    @attempt
    def length(x):
        return len(x)

    @attempt
    def iterate(x):
        for _ in x:
            pass

    @attempt
    def truth(x):
        f = mo.make_fragment_like(x[0, :])
        if f > 0:
            x[0, 0] = 1

    x = np.zeros((2, 2))
    with pytest.raises(mo.TraceError, match=r"mo\.size"):
        length.trace(x, block=1)
    with pytest.raises(mo.TraceError, match="cannot iterate"):
        iterate.trace(x, block=1)
    with pytest.raises(mo.MoyeError):
        truth.trace(x, block=1)


def test_swizzled_views_move_the_offset_into_the_pointer():
    swizzled = mo.ComposedLayout(mo.Swizzle(2, 0, 3), 0, mo.make_layout((4, 8, 2)))

    @mo.kernel
    def kernel(out, layout, n):
        s = mo.shared_array(mo.int32, layout)
        for k in mo.static_range(2):
            for j in mo.static_range(8):
                for i in mo.static_range(4):
                    s[i, j, k] = i + 4 * j + 32 * k
        view = s[:, :, 0]
        for k in range(n):
            view = s[:, :, k]
            for j in range(8):
                out[j, k] = view[3, j]

    out = np.zeros((8, 2), np.int32)
    launch(kernel, out, swizzled, 2)
    assert (out == 3 + 4 * np.arange(8)[:, None] + 32 * np.arange(2)).all()


def test_tile_with_dynamic_extents():
    @mo.kernel
    def kernel(x, out):
        bx, by, _ = mo.block_idx()
        t = mo.tile(x, (4, 2), (bx, None))          # (4, 2, k)
        u = mo.tile(x, (4, 2), (bx, by))            # (4, 2)
        for k in range(mo.size(t, 2)):
            out[bx, by, k] = t[3, 1, k] * 100 + u[1, 0]

    for order in "CF":
        x = np.array(np.arange(96, dtype=np.int32).reshape(12, 8), order=order)
        out = np.zeros((3, 4, 4), np.int32)
        launch(kernel, x, out, grid=(3, 4, 1))
        for bx, by, k in np.ndindex(3, 4, 4):
            assert out[bx, by, k] == x[bx * 4 + 3, k * 2 + 1] * 100 + x[bx * 4 + 1, by * 2]


def test_ragged_tiles_round_up():
    @mo.kernel
    def kernel(x, out):
        bx = mo.block_idx().x
        t = mo.tile(x, (4,), (bx,), ragged=True)
        out[bx] = 0
        for i in range(4):
            if bx * 4 + i < mo.size(x):
                out[bx] = out[bx] + t[i]
        rest = mo.tile(x, (4,), (None,), ragged=True)
        out[3] = mo.size(rest, 1)

    x, out = np.arange(10, dtype=np.int32), np.zeros(4, np.int32)
    launch(kernel, x, out, grid=(3, 1, 1))
    assert list(out) == [6, 22, 17, 3]


def test_parallelize_and_fill():
    @mo.kernel
    def kernel(x, y):
        tid = mo.thread_idx().x
        mine = mo.parallelize(x, mo.make_layout((4, 2)), tid)
        theirs = mo.parallelize(y, mo.make_layout((4, 2)), tid)
        mo.copyto(theirs, mine)
        mine.fill(tid)

    x, y = np.asfortranarray(np.arange(32, dtype=np.int32).reshape(8, 4)), np.zeros((8, 4), np.int32, order="F")
    before = x.copy()
    launch(kernel, x, y, block=8)                   # that the extents agree is checked at launch
    assert (y == before).all()
    with pytest.raises(mo.PreconditionError, match="the extents 1 and 2 differ"):
        launch(kernel, x, y[:, :2], block=8)
    with pytest.raises(mo.PreconditionError, match="extent 3 of mode 1 is no multiple of 2"):
        launch(kernel, x, y[:, :3], block=8)
    assert (x == np.tile(np.arange(8).reshape(4, 2, order="F"), (2, 2))).all()


def test_recast_says_which_stride_is_odd():
    """A stride of a mode of one element does not count."""
    @mo.kernel
    def kernel(out, n, m):
        out[0] = mo.upcast(mo.make_layout((1, 4), (n, 2)), 2)(0, 3)
        out[1] = mo.upcast(mo.make_layout((4,), (m,)), 2)(3)

    out = np.zeros(2, np.int32)
    launch(kernel, out, 7, 6)
    assert list(out) == [3, 9]
    with pytest.raises(mo.PreconditionError, match=r"by 2: mode 4:m: 3 is not a multiple of 2"):
        launch(kernel, out, 7, 3)


def test_recast():
    @mo.kernel
    def kernel(x, out):
        wide = mo.recast(x, mo.uint64)
        narrow = mo.recast(x, mo.uint16)
        out[0] = mo.size(wide, 0)
        out[1] = mo.size(narrow, 0)
        out[2] = wide[1, 1]
        out[3] = narrow[2, 0]

    x = np.asfortranarray(np.arange(8, dtype=np.uint32).reshape(4, 2) + (7 << 16))
    out = np.zeros(4, np.uint64)

    @mo.kernel
    def static(x: mo.Static, out):
        pass

    kernel2 = mo.kernel(kernel.function)
    kernel2.signature.roles["x"] = "static"
    launch(kernel2, x, out)
    assert list(out[:2]) == [2, 8]
    assert out[2] == x.T.copy().view(np.uint64)[1, 1] and out[3] == x.T.copy().view(np.uint16)[0, 2]


def test_shared_arrays_need_static_layouts():
    @mo.kernel
    def kernel(x, n):
        mo.shared_array(mo.float32, (n, 4))

    with pytest.raises(mo.TensorError, match="is not static"):
        kernel.trace(np.zeros(4), 3, block=1)


def test_names_reach_the_ir():
    @mo.kernel
    def kernel(x):
        sA = mo.shared_array(mo.float32, (4, 2))
        tile = sA[:, 1]
        frag = mo.make_fragment_like(tile)
        frag.fill(0)
        mo.copyto(tile, frag)
        x[0] = tile[0]

    func = kernel.trace(np.zeros(4, np.float32), block=1)
    assert [b.name for b in func.buffers] == ["sA", "frag"]
    copy = next(op for op in func.body.walk() if isinstance(op, ops.Copy))
    assert (copy.dst.name, copy.src.name) == ("tile", "frag")


def test_nested_tiles():
    """Modes of ((4,8),8) tiled by ((2,4),4): tile ((i,j),k) has rows 2i, 2i + 1 of columns 4j to 4j + 3."""
    @mo.kernel
    def kernel(x, out, i, j, k):
        nested = x.with_layout(mo.make_layout(((4, 8), 8), ((1, 4), 32)))
        t = mo.tile(nested, ((2, 4), 4), ((i, j), k))           # ((2,4),4)
        u = mo.tile(nested, ((2, 4), 4), (i + 2 * j, None))     # ((2,4),4,2)
        v = mo.tile(x, (mo.make_layout((4, 2)), 4), (3, k))     # ((4,2),4)
        for a in mo.static_range(2):
            for b in mo.static_range(4):
                for c in mo.static_range(4):
                    out[0, a, b, c], out[1, a, b, c] = t[(a, b), c], u[(a, b), c, k]
                    out[2, a, b, c] = v[(b, a), c]

    x, out = np.arange(256, dtype=np.int32).reshape(32, 8, order="F"), np.zeros((3, 2, 4, 4), np.int32)
    launch(kernel, x, out, 1, 1, 1)
    place = x.reshape(4, 8, 8, order="F")[2:, 4:, 4:]
    assert np.array_equal(out[0], place) and np.array_equal(out[1], place)
    assert np.array_equal(out[2], x[24:, 4:].reshape(4, 2, 4, order="F").transpose(1, 0, 2))


def test_nested_tiles_of_coordinates():
    @mo.kernel
    def kernel(x):
        t = mo.tile(mo.identity_tensor(((4, 8), 8)), ((2, 4), 4), ((1, 1), 1))
        x[0], x[1] = t[(1, 2), 3]

    x = np.zeros(2, np.int32)
    launch(kernel, x)
    assert list(x) == [3 + 4 * 6, 7]
