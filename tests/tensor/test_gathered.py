"""Copies between memory and registers that do not lie side by side: wide accesses, gathered and scattered."""

import numpy as np
import pytest

import moye as mo


@mo.kernel
def through(src, dst, layout: mo.Constexpr):
    """dst = src through registers of this layout; 8 x 4 values a thread."""
    tid = mo.thread_idx().x
    part = mo.fragment(layout, src.dtype)
    mo.copyto(part, mo.tile(src, (8, 4), (tid, 0)))
    mo.copyto(mo.tile(dst, (8, 4), (tid, 0)), part)


@mo.kernel
def guarded(src, dst, rows):
    tid = mo.thread_idx().x
    part = mo.fragment(mo.make_layout((8, 4), (4, 1)), src.dtype)
    inside = mo.fragment((1, 4), mo.bool)
    for j in mo.static_range(4):
        inside[0, j] = (tid * 8 < rows) & (j < 3)
    tiled = mo.tile(src, (8, 4), (tid, 0))
    pred = inside.with_layout(mo.make_layout((8, 4), (0, 1)))
    mo.copyto(part, tiled, pred=pred, zero_fill=True)
    mo.copyto(mo.tile(dst, (8, 4), (tid, 0)), part)


LAYOUTS = ["(8,4):(4,1)", "(8,4):(1,8)", "(8,4):(1,9)", "((2,4),4):((16,1),4)", "(8,4):(5,41)"]


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
def test_register_layouts_do_not_matter(layout, dtype):
    src = np.random.default_rng(0).standard_normal((256, 4)).astype(dtype, order="F")
    dst = np.full_like(src, np.nan)
    layout = mo.Layout.parse(layout)
    through[1, 32](src, dst, layout)
    assert np.array_equal(src, dst)
    source = through.compile(src, dst, layout, block=32, arch="sm_90a").source
    word = {"f4": "float4", "f8": "double2", "f2": "uint4"}[dtype]
    expected = word if layout.shape == (8, 4) else {"f4": "float2", "f8": "double2", "f2": "unsigned"}[dtype]
    assert f"*({expected}*)&dst" in source


@pytest.mark.parametrize("rows", [256, 100])
def test_a_predicate_per_access(rows):
    src = np.random.default_rng(0).standard_normal((256, 4)).astype("f4", order="F")
    dst = np.full_like(src, np.nan)
    guarded[1, 32](src, dst, rows)
    expected = np.where((np.arange(256)[:, None] // 8 * 8 < rows) & (np.arange(4) < 3), src, 0)
    assert np.array_equal(dst, expected)
    assert "float4" in guarded.compile(src, dst, rows, block=32, arch="sm_90a").source
