"""Copies by TMA in the simulator, with its checks on: the table of ``tma_kernels.py`` against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from tma_kernels import (
    BLOCK,
    CASES,
    ROUNDED,
    ROUNDING,
    ROUNDINGS,
    VIEWS,
    copy_kernel,
    read_kernel,
    single_values,
    view,
    write_kernel,
)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_there_and_back(name):
    """Read through the tile's layout, written through it, and copied without anybody looking at it."""
    case = CASES[name]
    rng = np.random.default_rng(1)
    source = case.array(lambda shape: rng.integers(-99, 99, shape).astype(case.dtype.numpy))
    written, copied = (case.array(lambda shape: np.zeros(shape, case.dtype.numpy)) for _ in range(2))
    tiles = case.tiles(source)
    out = np.full(tiles.shape, 7, tiles.dtype, order="F")
    read_kernel[case.grid, BLOCK](case.copy(mo.TmaLoad(), source), out)
    write_kernel[case.grid, BLOCK](case.copy(mo.TmaStore(), written), tiles)
    copy_kernel[case.grid, BLOCK](case.copy(mo.TmaLoad(), source), case.copy(mo.TmaStore(), copied))
    assert np.array_equal(out, tiles)
    assert np.array_equal(written, source)
    assert np.array_equal(copied, source)


@pytest.mark.parametrize("name", VIEWS)
def test_batches(name):
    """Tiles of one batch each, of views with any strides that TMA takes."""
    case, _, source = view(name)
    out = np.full(case.tiles(source).shape, 7, np.float16, order="F")
    assert mo.check(read_kernel)[case.grid, BLOCK](case.copy(mo.TmaLoad(), source), out).ok
    assert np.array_equal(out, case.tiles(source))


def test_rounding():
    """To 10 bits of mantissa, ties to even; outside of the array there are zeros."""
    source = ROUNDED.array(single_values)
    before = source.copy()
    tiles = ROUNDED.tiles(source)
    out = np.full(tiles.shape, 7, np.float32, order="F")
    report = mo.check(read_kernel)[ROUNDED.grid, BLOCK](ROUNDED.copy(ROUNDING, source), out)
    assert report.ok, str(report)
    found = [name for name, rule in ROUNDINGS.items() if rule(tiles).tobytes() == out.tobytes()]
    assert found == ["ties to even"]
    assert source.tobytes() == before.tobytes()


def test_what_is_not_a_number_stays_so():
    """A NaN stays one; the same tile without rounding has every bit."""
    source = ROUNDED.array(single_values)
    source[5, 7] = np.nan
    out, plain = (np.full(ROUNDED.tiles(source).shape, 7, np.float32, order="F") for _ in range(2))
    read_kernel[ROUNDED.grid, BLOCK](ROUNDED.copy(ROUNDING, source), out)
    read_kernel[ROUNDED.grid, BLOCK](ROUNDED.copy(mo.TmaLoad(), source), plain)
    assert np.isnan(out).sum() == 1
    assert plain.tobytes() == ROUNDED.tiles(source).tobytes()


def test_rounded_there_and_back():
    """What is stored again is float32 with 13 bits of zero."""
    source, target = ROUNDED.array(single_values), ROUNDED.array(lambda shape: np.zeros(shape, np.float32))
    copy_kernel[ROUNDED.grid, BLOCK](ROUNDED.copy(ROUNDING, source), ROUNDED.copy(mo.TmaStore(), target))
    assert target.tobytes() == ROUNDINGS["ties to even"](np.ascontiguousarray(source)).tobytes()


@mo.kernel
def from_an_element(out, tma, first: mo.Constexpr):
    """A box that begins ``first`` elements behind the start of rows."""
    smem, bars = mo.shared_array(mo.float16, mo.make_layout((8, 64), (64, 1))), mo.mbarrier_array(1)
    if mo.thread_idx().x == 0:
        mo.mbarrier_init(bars, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if mo.thread_idx().x == 0:
        mo.mbarrier_arrive_expect_tx(bars, 0, tma.bytes)
        mo.copyto(tma, smem, mo.tile(mo.domain_offset((0, first), tma.tensor), (8, 64), (0, 0), ragged=True),
                  barrier=(bars, 0))
    mo.mbarrier_wait(bars, 0, 0)
    out[mo.thread_idx().x] = smem[0, mo.thread_idx().x]


@pytest.mark.parametrize(("first", "bytes_"), [(0, None), (8, None), (-16, None), (3, 6), (-1, -2)])
def test_boxes_begin_at_multiples_of_16_bytes(first, bytes_):
    """Along the contiguous mode; an H200 stops with an illegal instruction otherwise."""
    x, out = np.ones((8, 128), np.float16), np.zeros(32, np.float16)
    tma = mo.make_tma_copy(mo.TmaLoad(), x, mo.make_layout((8, 64), (64, 1)))
    report = mo.check(from_an_element)[1, 32](out, tma, first)
    assert [finding.code for finding in report.findings] == ([] if bytes_ is None else ["B5"])
    assert bytes_ is None or f"begins {bytes_} bytes behind the start of a row of" in str(report)
