"""Tensor copies in im2col mode: in the simulator against NumPy, as they are printed, and what is refused."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

import moye as mo
from moye.errors import DTypeError, LayoutError
from moye.ir import ops
from moye.ir.nodes import Literal
from moye.ir.rules import RULES
from tma_im2col import (
    BLOCK,
    CASES,
    MULTICAST,
    elements,
    fitting,
    matrix,
    multicast_expected,
    multicast_kernel,
    read_kernel,
)


@pytest.mark.parametrize("name", CASES)
def test_loads(name):
    """Every pixel of every place, zeros in the padding, beyond the last output, channel and place."""
    case = CASES[name]
    x = case.images(1)
    out = np.full((elements(case), *case.grid), 7, x.dtype, order="F")
    report = mo.check(read_kernel)[case.grid, BLOCK](case.copy(x), out)
    assert report.ok, str(report)
    assert np.array_equal(out, case.tiles(x), equal_nan=x.dtype.kind == "f")


@pytest.mark.slow
def test_images_by_chance():
    for seed, case in fitting(20):
        x = case.images(seed)
        out = np.full((elements(case), *case.grid), 7, x.dtype, order="F")
        read_kernel[case.grid, BLOCK](case.copy(x), out)
        assert np.array_equal(out, case.tiles(x)), f"drawn({seed})"


@pytest.mark.parametrize("channels", [3, 20, 37, 40])
def test_places_that_the_filter_has_not_begin_at_whole_parts(channels):
    """Behind the last channel, at a multiple of 16 bytes: TMA takes no other."""
    x = np.ones((1, 4, 4, 64), np.float16)[..., :channels]
    tma = mo.make_tma_copy(mo.TmaLoadIm2col(filter=(2, 2)), x, mo.make_layout((16, 8), (8, 1)))
    out = np.full((128, 1, 1, 5), 7, np.float16, order="F")
    assert mo.check(read_kernel)[(1, 1, 5), BLOCK](tma, out).ok
    assert (out[..., 4] == 0).all() and (out[:, 0, 0, 3].reshape(8, 16)[:channels, :9] == 1).all()


def test_blocks_that_load_for_each_other():
    x, case = MULTICAST.images(2), MULTICAST
    expected = multicast_expected(x)
    out = np.full(expected.shape, 7, x.dtype, order="F")
    report = mo.check(multicast_kernel).launch(case.copy(x), out, grid=expected.shape[1:], block=BLOCK, cluster=(2, 1))
    assert report.ok, str(report)
    assert np.array_equal(out, expected)


def test_the_matrix_is_that_of_a_convolution():
    """The definition of the cases, by a loop over outputs."""
    op = mo.TmaLoadIm2col(filter=(3, 2), padding=(1, 0), stride=(2, 1), dilation=(1, 2))
    x = np.random.default_rng(0).integers(-9, 9, (2, 5, 6, 3))
    found = matrix(x, op)
    heights, widths = op.outputs(x.shape[1:-1])
    assert found.shape == (2 * heights * widths, 3, 6) and (heights, widths) == (3, 4)
    for n, p, q, r, s in np.ndindex(2, heights, widths, 3, 2):
        h, w = 2 * p + r - 1, q + 2 * s
        assert np.array_equal(found[(n * heights + p) * widths + q, :, 2 * r + s],
                              x[n, h, w] if 0 <= h < 5 and 0 <= w < 6 else np.zeros(3))


@pytest.mark.parametrize("name", ["3x3", "volumes", "lines"])
def test_they_compile(name):
    case = CASES[name]
    modes = len(case.shape)
    out = mo.TensorLike(case.dtype, (elements(case), *case.grid))
    program = read_kernel.compile(case.copy(case.images(0)), out, block=BLOCK, arch="sm_90a")
    assert f"UTMALDG.{modes}D.IM2COL" in program.sass and f"UTMAPF.L2.{modes}D.IM2COL" in program.sass
    assert f"cp.async.bulk.tensor.{modes}d.shared::cluster.global.im2col.mbarrier" in program.source
    assert program.spills == 0


def test_a_multicast_compiles():
    out = mo.TensorLike(MULTICAST.dtype, (elements(MULTICAST), 6, 2))
    program = multicast_kernel.compile(MULTICAST.copy(MULTICAST.images(0)), out, block=BLOCK, cluster=(2, 1, 1),
                                       arch="sm_90a")
    assert "UTMALDG.4D.IM2COL.MULTICAST" in program.sass
    assert ".im2col.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [%0]" in program.source


def test_the_map():
    """A box is so many channels of so many pixels; the map counts first places of the filter."""
    case = CASES["of-its-own-each"]
    tiling = case.copy(case.images(0)).describe()[1]
    assert (tiling.map.modes, tiling.map.box) == ((3, 2, 1, 0), (8, 16))
    assert (tiling.map.window.lower, tiling.map.window.upper, tiling.map.window.strides) == ((-1, -2), (-2, -2), (2, 1))
    assert case.copy(case.images(0)).describe()[1].bytes == 16 * 8 * 2


def test_extents_stay_dynamic():
    op, layout = CASES["3x3"].op, CASES["3x3"].layout
    traced = [read_kernel.trace(mo.make_tma_copy(op, mo.TensorLike(mo.float16, shape, strides), layout),
                                mo.TensorLike(mo.float16, (2048, 9, 9, 9)), block=BLOCK)
              for shape, strides in (((2, 5, 7, 40), (1400, 280, 40, 1)), ((9, 8, 3, 64), (1536, 192, 64, 1)))]
    assert traced[0] is traced[1]


def images(*shape, dtype=mo.float16):
    strides = [1]
    for extent in shape[:0:-1]:
        strides.append(strides[-1] * extent)
    return mo.TensorLike(dtype, shape, tuple(strides[::-1]))


def make(array, op=None, layout="(32,64):(64,1)", **named):
    op = op or mo.TmaLoadIm2col(filter=(3, 3), padding=1)
    return lambda: mo.make_tma_copy(op, array, mo.layout.parse(layout), **named)


@pytest.mark.parametrize(("copy", "told"), [
    (make(images(2, 8, 64)), r"has 3 modes, and with a filter \(3, 3\) it has 4: images, pixels and channels"),
    (make(mo.TensorLike(mo.float16, (2, 8, 8, 64), (4096, 8, 1, 64))), "channels lie 64 apart, and TMA takes images"),
    (make(images(2, 8, 8, 20)), r"stride 20 of mode 2 is 40 bytes, and TMA takes multiples of 16"),
    (make(images(2, 2, 8, 64), mo.TmaLoadIm2col(filter=(3, 3))), r"a filter that reaches \(2, 2\) fits in no place"),
    (make(images(2, 8, 8, 64), layout="(32,64):(1,32)"), "contiguous along mode 1 and the tile along mode 0"),
    (make(images(2, 8, 8, 64), layout="(32,64,3):(64,1,2048)"), r"has 3 places of the filter, and TMA brings one at a"),
    (make(mo.TensorLike(mo.float16, (2, 8, 8, 64), (4096, 512, 64, 1), align=8)), "8 bytes behind a multiple of 16"),
    (make(images(2, 8, 8, 64), layout="(32,64):(72,1)"), "TMA leaves no gaps"),
])
def test_arrays_that_are_refused(copy, told):
    with pytest.raises(LayoutError) as caught:
        copy()
    assert caught.value.code == "B5"
    assert mo.TmaLoadIm2col.__name__ in caught.value.message
    assert re.search(told, f"{caught.value.message} {caught.value.hint}"), caught.value.message


@pytest.mark.parametrize(("named", "told"), [
    ({"filter": 3}, r"filter=3\): a filter has 1 to 3 extents"),
    ({"filter": (3, 3, 3, 3)}, "a filter has 1 to 3 extents"),
    ({"filter": (3, 0)}, r"filter=\(3, 0\)\): one integer of 1 to"),
    ({"filter": (3, 3), "padding": -1}, r"padding=-1\): one integer of 0 to"),
    ({"filter": (3, 3), "padding": (1, 1, 1)}, "for each of 2 modes of pixels"),
    ({"filter": (3, 3), "stride": 9}, r"stride=9\): one integer of 1 to 8"),
    ({"filter": (3, 3), "dilation": 1.5}, "dilation=1.5"),
    ({"filter": (3, 3), "dilation": 100}, r"corners of -128 to 127 .*, and it reaches \(200, 200\)"),
    ({"filter": (3, 3, 3), "padding": 17}, "here the corners are"),
    ({"filter": (3, 3), "prefetch": 32}, "prefetches 0, 64, 128 or 256"),
])
def test_filters_that_are_refused(named, told):
    with pytest.raises(DTypeError, match=told):
        mo.TmaLoadIm2col(**named)


def test_what_it_is_called():
    assert str(mo.TmaLoadIm2col(filter=(3, 3), padding=1)) == "TmaLoadIm2col(filter=(3, 3), padding=(1, 1))"
    assert str(mo.TmaLoadIm2col(filter=(3,), stride=2, dilation=3)) == \
        "TmaLoadIm2col(filter=(3,), stride=(2,), dilation=(3,))"
    assert mo.TmaLoadIm2col(filter=(3, 3), padding=1) == mo.TmaLoadIm2col(filter=(3, 3), padding=(1, 1))


@pytest.mark.parametrize(("changes", "told"), [
    ({"offsets": (Literal(0, mo.uint16),)}, "a load with 4 coordinates and 1 offsets"),
    ({"offsets": (Literal(0, mo.uint16), Literal(0, mo.int32))}, "its offsets are uint16, int32, not uint16"),
])
def test_the_verifier_knows_offsets(changes, told):
    case = CASES["3x3"]
    func = read_kernel.trace(case.copy(case.images(0)), mo.TensorLike(mo.float16, (2048, 9, 9, 9)), block=BLOCK)
    op = next(op for op in func.body.walk() if isinstance(op, ops.TmaCopy) and op.kind == "load")
    assert RULES[ops.TmaCopy](op) is None
    assert told in RULES[ops.TmaCopy](dataclasses.replace(op, **changes))


def test_sectors_of_pixels():
    """Pixels of 16 bytes, three outputs in a row of four: two that wrap lie in two sectors, two beside each other in
    one or two, by where they begin.  The first and second box of place 0 begin alike, and are counted apart."""
    x = np.ones((1, 2, 4, 8), np.float16)
    tma = mo.make_tma_copy(mo.TmaLoadIm2col(filter=(1, 2)), x, mo.make_layout((2, 8), (8, 1)))
    out = np.zeros((16, 3, 1, 2), np.float16)
    report = mo.check(read_kernel)[(3, 1, 2), BLOCK](tma, out)
    assert report.ok and (out == 1).all()
    counters = report.counters()
    assert (counters["tma_load_requests"], counters["tma_load_sectors"]) == (6, (1 + 2 + 2) + (2 + 2 + 1))


def test_pixels_that_nobody_waited_for():
    """The checker sees a tile in flight as it sees one of any tensor copy, and bytes that the barrier does not get."""
    @mo.kernel
    def hasty(source, out, bytes: mo.Constexpr, waits: mo.Constexpr):
        smem, bars = mo.shared_array(source.dtype, source.smem_layout), mo.mbarrier_array(1)
        tid = mo.thread_idx().x
        if tid == 0:
            mo.mbarrier_init(bars, 0, 1)
            mo.fence_mbarrier_init()
        mo.sync_threads()
        if tid == 0:
            mo.mbarrier_arrive_expect_tx(bars, 0, bytes)
            mo.copyto(source, smem, mo.tile(source.tensor, source.tile, (0, 0, 0)), barrier=(bars, 0))
        if waits:
            mo.mbarrier_wait(bars, 0, 0)
        out[tid] = smem[tid]

    case = CASES["3x3"]
    x, out = case.images(1), np.zeros(BLOCK, np.float16)
    codes = [{finding.code for finding in mo.check(hasty)[1, BLOCK](case.copy(x), out, bytes, waits).findings}
             for bytes, waits in ((4096, True), (4096, False), (2048, True))]
    assert codes[0] == set() and "D6" in codes[1] and "D7" in codes[2]
