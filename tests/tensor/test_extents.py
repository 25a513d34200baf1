"""Copies between registers and tensors of run-time extents, and predicates of run-time coordinates."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye.layout import evenly_divides, is_static, make_layout

MMA = mo.make_tiled_mma(mo.mma.SM80_16x8x16_F32F16F16F32_TN, mo.make_layout((2, 1)))


def test_fill_of_memory():
    @mo.kernel
    def fill(x, how: mo.Constexpr):
        if how == "fill":
            x.fill(2)
        elif how == "assign":
            x[...] = 2.0
        else:
            x[:, 1] = 2.0

    for shape in ((5,), (3, 4), (2, 3, 4)):
        for how in ("fill", "assign"):
            x = np.zeros(shape, np.float32)
            fill[1, 1](x, how)
            assert (x == 2).all(), (shape, how)
    x = np.zeros((3, 4), np.float32)
    fill[1, 1](x, "column")
    assert (x[:, 1] == 2).all() and x.sum() == 6
    x = np.zeros((0, 4), np.float32)
    fill[1, 1](x, "assign")
    assert fill.compile(np.zeros((3, 4), np.float32), "assign", block=1, arch="sm_80").source


@mo.kernel
def moved(x, way: mo.Constexpr, shape: mo.Constexpr, dtype: mo.Constexpr):
    r = mo.fragment(shape, dtype)
    if way == "in":
        mo.copyto(r, x)
        r[...] = r + 1
    else:
        for i in mo.static_range(mo.size(r.layout)):
            r[i] = i
    if way == "assign":
        x[...] = r
    else:
        mo.copyto(x, r)


@pytest.mark.parametrize("way", ["in", "out", "assign"])
@pytest.mark.parametrize("shape", [(6,), (2, 3), (2, (3, 2)), (1, 4)])
@pytest.mark.parametrize("dtype", [mo.float32, mo.int32])
def test_copies_of_registers(way, shape, dtype):
    """Launch checks that the extents are equal; a mode of one element among them."""
    plain = tuple(int(np.prod(s)) for s in shape)
    x = np.full(plain, 7, np.float32, order="F")
    assert mo.check(moved, lints=False)[1, 1](x, way, shape, dtype).ok
    want = np.full(plain, 8) if way == "in" else np.arange(x.size).reshape(plain, order="F")
    np.testing.assert_array_equal(x, want)
    for other in (tuple(2 * s for s in plain), (plain[0] + 1, *plain[1:])):
        with pytest.raises(mo.MoyeError, match=r"extent \d+( of mode \d)? of x is not \d+"):
            moved[1, 1](np.zeros(other, np.float32, order="F"), way, shape, dtype)


def test_a_partition_of_run_time_extents():
    @mo.kernel
    def store(C):
        thr = MMA.get_slice(mo.thread_idx().x)
        acc = MMA.partition_fragment_C((32, 8))
        acc.fill(1)
        mo.copyto(thr.partition_C(C), acc)

    C = np.zeros((32, 8), np.float32, order="F")
    assert mo.check(store, lints=False)[1, 64](C).ok and (C == 1).all()
    with pytest.raises(mo.MoyeError, match="is not 1"):
        store[1, 64](np.zeros((64, 8), np.float32, order="F"))
    assert "[32]" not in store.compile(C, block=64, arch="sm_80").source


def test_what_launch_cannot_check_is_refused():
    @mo.kernel
    def conditional(x, n):
        r = mo.fragment((4,), mo.float32)
        r.fill(0)
        if n > 0:
            mo.copyto(x, r)

    with pytest.raises(mo.MoyeError, match="launch cannot check it under a traced condition") as refused:
        conditional[1, 1](np.zeros(4, np.float32), 1)
    assert str(refused.value.hint).startswith("say mo.assume(mo.size(x, 0) == 4) before the condition")

    @mo.kernel
    def said(x, n):
        r = mo.fragment((4,), mo.float32)
        r.fill(0)
        mo.assume(mo.size(x) == 4)
        if n > 0:
            mo.copyto(x, r)

    said[1, 1](np.ones(4, np.float32), 1)


# --- predicates -------------------------------------------------------------------------------------------------------


@mo.kernel
def inside(x, how: mo.Constexpr):
    c = mo.identity_tensor(mo.shape(x))
    t = mo.thread_idx().x
    at = (t, 1)
    if how == "less":
        ok = mo.elem_less(c[at], mo.shape(x))
    elif how == "tuple":
        ok = mo.elem_less((t, 1), mo.shape(x))
    else:
        ok = mo.elem_less(t, 20)
    if ok:
        x[t, 1] = 1.0


@pytest.mark.parametrize("how", ["less", "tuple", "number"])
def test_elem_less_of_traced_values(how):
    x = np.zeros((20, 4), np.float32)
    inside[1, 32](x, how)
    assert x.sum() == 20 and (x[:, 1] == 1).all()


def test_parallelize_of_coordinates():
    """The coordinates are those of the elements that the same call gives of a tensor."""
    threads = mo.make_layout((8, 4))

    @mo.kernel
    def copy(y, x):
        tid, bx = mo.thread_idx().x, mo.block_idx().x
        whole = mo.identity_tensor(mo.shape(x))
        gX, gY, cX = (mo.tile(t, (16, 8), (bx, 0), ragged=True) for t in (x, y, whole))
        tX, tY, c = (mo.parallelize(t, threads, tid) for t in (gX, gY, cX))     # (2, 2)
        for i in mo.static_range(mo.size(tX.layout)):
            if mo.elem_less(c[i], mo.shape(x)):
                tY[i] = 2 * tX[i]

    for shape in ((32, 8), (21, 7), (5, 3)):
        x = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
        y = np.zeros((40, 16), np.float32)[:shape[0], :shape[1]]
        assert mo.check(copy, lints=False)[-(-shape[0] // 16), 32](y, x).ok
        np.testing.assert_array_equal(y, 2 * x)
    with pytest.raises(mo.MoyeError, match="parallelize takes a tensor"):
        mo.parallelize(make_layout((8, 8)), threads, 0)


def test_verbs_of_what_users_pass():
    layout = make_layout((3, 4), (1, 2))
    assert is_static(3) and is_static((3, (4, 5))) and is_static(layout) and not is_static("3")
    assert is_static(mo.ComposedLayout(mo.Swizzle(1, 0, 2), 0, layout)) and not is_static(None)
    assert evenly_divides((32, 64), (make_layout(8, 2), 32)) and not evenly_divides((32, 64), (make_layout(8, 3), 32))
    assert evenly_divides(16, (16,)) and not evenly_divides(16, (16, 2)) and evenly_divides((16, 3), (4, None))


def test_a_tile_of_a_number_of_the_kernel_says_what_is_static():
    @mo.kernel
    def kernel(x, n):
        mo.tile(x, (n,), (0,))

    with pytest.raises(mo.TensorError, match="no positive static integer") as told:
        kernel.trace(np.zeros(8, np.float32), 4, block=1)
    assert "mo.Constexpr" in told.value.hint


@mo.kernel
def ragged_parts(out, x, shape: mo.Constexpr, tile: mo.Constexpr, at: mo.Constexpr):
    gX, cX = (mo.tile(t, (tile,), (at,), ragged=True) for t in (
        x.with_layout(mo.make_layout((shape,))), mo.identity_tensor((shape,))))
    held = mo.make_fragment_like(gX)
    mo.copyto(held, gX, pred=mo.elem_less(cX, (mo.product(shape),)), other=-1)
    mo.copyto(out, held.with_layout(mo.make_layout(mo.size(held))))


@pytest.mark.parametrize(("shape", "tile", "at", "found"), [
    ((3, 4), (3, 3), (0, 1), [9, 10, 11, *[-1] * 6]), ((4, 1), (3, 1), (1, 0), [3, -1, -1]),
    ((2, (2, 3)), (2, (1, 2)), (0, (1, 1)), [10, 11, -1, -1]), (7, (4,), (1,), [4, 5, 6, -1])])
def test_the_last_part_of_a_nested_mode_may_be_ragged(shape, tile, at, found):
    out, x = np.zeros(len(found), np.float32), np.arange(mo.product(shape), dtype=np.float32)
    assert mo.check(ragged_parts)[1, 1](out, x, shape, tile, at).ok and out.tolist() == found


@pytest.mark.parametrize(("shape", "tile"), [((3, 4), (2, 2)), ((3, 4), (2,)), ((4, (3, 2)), (4, (2, 2))),
                                             (((2, 3), 4), ((2, 2), 2)), ((4, 4), (mo.make_layout(2, 3), 2))])
def test_the_others_may_not(shape, tile):
    """Index 3 of a part of 3 would be index 0 of the next part, and no predicate tells."""
    x = np.zeros(mo.product(shape), np.float32)
    with pytest.raises(mo.TensorError, match=r"reaches past part \d of that mode"):
        ragged_parts.trace(x, x, shape, tile, (0,) * len(tile), block=1)
