"""Swizzled views of shared and global memory: every verb finds the elements that its coordinates say, or refuses."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo

K = mo.smem_layout_atom(mo.float16, "k")                                    # Sw<3,3,3> o 0 o (8,64):(64,1)
SWIZZLED = mo.ComposedLayout(mo.Swizzle(3, 0, 3), 0, mo.make_layout((8, 8), (8, 1)))
ROWS = mo.make_layout((8, 1))


@mo.kernel
def transposed(dst: mo.Static, src: mo.Static, layout: mo.Constexpr, turned: mo.Constexpr):
    """README's idiom: the same memory under the layout with its modes swapped."""
    tid = mo.thread_idx().x
    s = mo.shared_array(src.dtype, layout)
    for i in range(tid, mo.size(s.layout), 64):
        s[i] = src[i]
    mo.sync_threads()
    t = s.with_layout(turned)
    for i in range(tid, mo.size(t.layout), 64):
        dst[i] = t[i]


@pytest.mark.parametrize("layout", [K, mo.tile_to_shape(K, (64, 64)), SWIZZLED,
                                    mo.smem_layout_atom(mo.float32, "mn"), SWIZZLED.layout])
@pytest.mark.parametrize("keep", [True, False])
def test_the_transposed_layout(layout, keep):
    """Said with its swizzle, or without: the tensor's is kept."""
    turned = mo.select(layout, 1, 0)
    if not keep and isinstance(turned, mo.ComposedLayout):
        turned = turned.layout
    M, N = mo.size(layout, 0), mo.size(layout, 1)
    src = np.asfortranarray(np.arange(M * N, dtype=np.float32).reshape(M, N, order="F"))
    dst = np.zeros((N, M), np.float32, order="F")
    assert mo.check(transposed, lints=False)[1, 64](dst, src, layout, turned).ok
    np.testing.assert_array_equal(dst, src.T)


def test_swizzled_views_of_global_memory():
    want = np.array([[SWIZZLED(i, j) for j in range(8)] for i in range(8)], np.float32)
    copy = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.float32), mo.float32), ROWS)

    @mo.kernel
    def part(dst: mo.Static, src: mo.Static, how: mo.Constexpr):
        tid = mo.thread_idx().x
        s = src.with_layout(SWIZZLED)
        if how == "parallelize":
            mo.copyto(mo.parallelize(dst, ROWS, tid), mo.parallelize(s, ROWS, tid))
        elif how == "tile":
            mo.copyto(mo.tile(dst, (1, 8), (tid, 0)), mo.tile(s, (1, 8), (tid, 0)))
        elif how == "slice":
            mo.copyto(dst[tid, :], s[tid, :])
        else:
            mo.copyto(copy.get_slice(tid).partition_D(dst), copy.get_slice(tid).partition_S(s))

    for how in ("parallelize", "tile", "slice", "partition"):
        dst = np.zeros((8, 8), np.float32)
        assert mo.check(part, lints=False)[1, 8](dst, np.arange(64, dtype=np.float32), how).ok
        np.testing.assert_array_equal(dst, want, err_msg=how)


def test_partitions_of_a_transposed_view_are_those_of_its_layout():
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.bfloat16, "k"), (64, 64))
    mma = mo.make_tiled_mma(mo.mma.SM80_16x8x16_F32F16F16F32_TN)

    @mo.kernel
    def parts(x):
        s = mo.shared_array(mo.bfloat16, layout)
        t = s.with_layout(mo.select(layout, 1, 0))
        assert t.swizzle == layout.swizzle and t.layout == mo.select(layout, 1, 0).layout
        mma.get_slice(mo.thread_idx().x).partition_B(t)
        assert s.with_layout(layout).swizzle == s.with_layout(layout.layout).swizzle == layout.swizzle

    parts.trace(mo.TensorLike(mo.float32, (4,)), block=32)


def test_stages_are_slices_of_one_swizzle():
    """A stage keeps its place inside the swizzle when it gets another layout."""
    stages = mo.ComposedLayout(mo.Swizzle(3, 0, 3), 0, mo.make_layout((8, 8, 2), (8, 1, 64)))

    @mo.kernel
    def second(dst: mo.Static, n):
        tid = mo.thread_idx().x
        s = mo.shared_array(mo.float32, stages)
        for i in range(tid, 128, 64):
            s[i] = i
        mo.sync_threads()
        stage = s[:, :, n].with_layout(mo.select(SWIZZLED, 1, 0))
        dst[tid % 8, tid // 8] = stage[tid % 8, tid // 8]

    dst = np.zeros((8, 8), np.float32)
    assert mo.check(second, lints=False)[1, 64](dst, 1).ok
    np.testing.assert_array_equal(dst, 64 + np.arange(64).reshape(8, 8))


def refused(body):
    with pytest.raises(mo.MoyeError) as raised:
        mo.kernel(body).trace(mo.TensorLike(mo.float32, (64,)), block=32)
    return raised.value


def test_nothing_is_swizzled_twice():
    def other(x):
        mo.shared_array(mo.float32, K).with_layout(SWIZZLED)

    error = refused(other)
    assert error.code == "A6" and "Sw<3,3,3>" in error.message and "Sw<3,0,3>" in error.message

    def inside(x):
        mo.shared_array(mo.float32, 128).moved(4).with_layout(SWIZZLED)

    error = refused(inside)
    assert error.code == "A6" and "starts at element 4" in error.message

    def composed(x):
        mo.composition(mo.Swizzle(3, 0, 3), mo.shared_array(mo.float32, SWIZZLED))

    assert "composition" in refused(composed).message


def test_registers_take_no_swizzle_and_views_only_layouts():
    def registers(x):
        mo.fragment((8, 8), mo.float32).with_layout(SWIZZLED)

    assert "registers" in refused(registers).message

    def shape(x):
        x.with_layout((8, 8))

    assert "takes a layout, not a tuple" in refused(shape).message


def test_a_swizzle_may_reach_beyond_the_last_offset():
    """(3,40):(64,1) ends at offset 167, and its swizzle moves it to 183."""
    layout = mo.ComposedLayout(mo.Swizzle(3, 3, 3), 0, mo.make_layout((3, 40), (64, 1)))

    @mo.kernel
    def fill(y):
        s = mo.shared_array(mo.float32, layout)
        for i in range(mo.thread_idx().x, 120, 32):
            s[i] = i
        mo.sync_threads()
        y[mo.thread_idx().x] = s[mo.thread_idx().x]

    y = np.zeros(32, np.float32)
    assert mo.check(fill, lints=False)[1, 32](y).ok
    np.testing.assert_array_equal(y, np.arange(32))
