"""Tensor maps that kernels change: in the simulator against NumPy, as they are printed, and what is refused."""

from __future__ import annotations

import gc
import re

import numpy as np
import pytest

import moye as mo
from device_maps import (
    BLOCK,
    COLUMNS,
    LAYOUT,
    SHAPES,
    THREADS,
    arrays,
    clipped,
    clipped_call,
    clipped_kernel,
    close,
    drawn,
    gathered,
    gathered_call,
    gathered_kernel,
    grouped_arguments,
    grouped_copies,
    grouped_kernel,
    places,
    tile_kernel,
    tile_of,
)
from moye.errors import AlignmentError, ArgumentError, DTypeError, LayoutError, TensorError, UnsupportedError

OTHER = mo.make_layout((16, COLUMNS), (COLUMNS, 1))


@pytest.mark.parametrize("earliest", [False, True])
def test_arrays_behind_addresses(earliest):
    found = arrays()
    call = gathered_call(found=found)
    report = mo.check(gathered_kernel, earliest=earliest)[1, BLOCK](*call)
    assert report.ok, str(report)
    assert np.array_equal(call[0], gathered(found))


def test_a_map_is_cut_off_at_the_end_of_a_group():
    call = clipped_call()
    report = mo.check(clipped_kernel)[4, BLOCK](*call)
    assert report.ok, str(report)
    assert np.array_equal(call[1], clipped(call[2]))


@pytest.mark.parametrize("blocks", [1, 3])
def test_a_grouped_product_of_pointers(blocks):
    As, Bs, Cs = grouped_arguments()
    pointers = mo.addresses([*As, *Bs, *Cs])
    workspace = places(blocks, 2, 2)
    report = mo.check(grouped_kernel)[blocks, THREADS](*grouped_copies(As, Bs, Cs), workspace, pointers.reshape(3, -1),
                                                       np.array(SHAPES, np.int32))
    assert report.ok, str(report)
    assert "races in global memory that tma_A reaches by addresses" in str(report)
    assert close(As, Bs, Cs)


def test_unchecked(monkeypatch):
    monkeypatch.setenv("MOYE_CHECK", "0")
    found, clip = arrays(), clipped_call()
    call = gathered_call(found=found)
    gathered_kernel[1, BLOCK](*call)
    clipped_kernel[4, BLOCK](*clip)
    assert np.array_equal(call[0], gathered(found)) and np.array_equal(clip[1], clipped(clip[2]))


def test_a_map_that_an_earlier_launch_left():
    """It is in the workspace; each launch acquires it."""
    @mo.kernel
    def kernel(out, tma, workspace, begin: mo.Constexpr):
        smem, full, maps = mo.shared_array(tma.dtype, LAYOUT), mo.mbarrier_array(1), mo.tensormap_array(1)
        tid = mo.thread_idx().x
        slot = workspace[0, :]
        if begin:
            if tid == 0:
                mo.copy_tensormap(maps[:, 0], tma)
                mo.update_tensormap(tma, maps[:, 0], shape=(2, COLUMNS))
            mo.sync_warp()
            mo.release_tensormap(slot, maps[:, 0])
        else:
            mo.acquire_tensormap(slot)
            mapped = tma.at(slot)
            if tid == 0:
                mo.prefetch_tensormap(mapped)
                mo.mbarrier_init(full, 0, 1)
                mo.fence_mbarrier_init()
                mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
                mo.copyto(mapped, smem, mo.tile(mapped.tensor, tma.tile, (0, 0)), barrier=(full, 0))
            mo.sync_warp()
            mo.mbarrier_wait(full, 0, 0)
            for i in range(tid, mo.size(smem), 32):
                out[i] = smem[i]

    x, out, workspace = arrays()[1], np.zeros(16 * COLUMNS, np.float32), places(1)
    tma = mo.make_tma_copy(mo.TmaLoad(), x, LAYOUT)
    for begin in (True, False):
        report = mo.check(kernel)[1, 32](out, tma, workspace, begin)
        assert report.ok, str(report)
    assert np.array_equal(out.reshape(COLUMNS, 16).T[:2], x[:2]) and not out.reshape(COLUMNS, 16).T[2:].any()


@pytest.mark.parametrize("by", ["tensor", "address"])
@pytest.mark.parametrize("seed", range(12))
def test_arrays_by_chance(seed, by):
    """Any order of modes, extents and strides; what lies outside reads as zero."""
    begun, x, layout, at = drawn(seed)
    tile = layout.shape
    tma = mo.make_tma_copy(mo.TmaLoad(), begun, layout)
    out, workspace = np.zeros(mo.size(layout), np.float32), places(1, 2)
    given = mo.addresses([x])
    workspace[0, 0, 0] = given[0]
    report = mo.check(tile_kernel)[1, 32](out, tma, x, workspace, at, by)
    assert report.ok, str(report)
    assert np.array_equal(out, tile_of(x, tile, at))


def test_rows_at_any_indices_of_an_array_behind_an_address():
    @mo.kernel
    def kernel(out, tma, workspace, addresses, picks):
        smem, full, maps = mo.shared_array(tma.dtype, LAYOUT), mo.mbarrier_array(1), mo.tensormap_array(1)
        tid = mo.thread_idx().x
        if tid == 0:
            mo.mbarrier_init(full, 0, 1)
            mo.fence_mbarrier_init()
            mo.copy_tensormap(maps[:, 0], tma)
            mo.update_tensormap(tma, maps[:, 0], address=addresses[1], shape=(11, COLUMNS))
        mo.sync_warp()
        mo.release_tensormap(workspace[0, :], maps[:, 0])
        mo.acquire_tensormap(workspace[0, :])
        if tid == 0:
            mapped = tma.at(workspace[0, :], (11, COLUMNS))
            mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
            mo.copyto(mapped, smem, mapped.rows(tuple(picks[i] for i in range(16))), barrier=(full, 0))
        mo.sync_warp()
        mo.mbarrier_wait(full, 0, 0)
        for i in range(tid, mo.size(smem), 32):
            out[i] = smem[i]

    found, picks, out = arrays(), np.arange(-2, 14, dtype=np.int32), np.zeros(16 * COLUMNS, np.float32)
    given = mo.addresses(found[1:])
    tma = mo.make_tma_copy(mo.TmaGather4(), found[0], LAYOUT)
    report = mo.check(kernel)[1, 32](out, tma, places(1), given, picks)
    assert report.ok, str(report)
    rows = out.reshape(COLUMNS, 16).T
    assert np.array_equal(rows[2:13], found[2]) and not rows[:2].any() and not rows[13:].any()
    assert kernel.compile(out, tma, places(1), given, picks, block=32, arch="sm_100a").spills == 0


# --- mo.TensorMaps ---------------------------------------------------------------------------------------------------


@mo.kernel
def taken_kernel(out, tma, x, firsts, workspace, how: mo.Constexpr):
    """Sixteen rows of x from each of firsts on, one after the other, by one map; out is (elements, firsts)."""
    smem, full = mo.shared_array(tma.dtype, LAYOUT), mo.mbarrier_array(1)
    maps, tid, phase = mo.TensorMaps(workspace, tma), mo.thread_idx().x, 0
    maps.init()
    if tid == 0:
        mo.mbarrier_init(full, 0, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    for i in range(mo.size(firsts)):
        left = mo.size(x, 0) - firsts[i]
        if mo.warp_idx() == 0:
            rows = maps.update(0, x[firsts[i], :].with_layout(mo.make_layout((left, COLUMNS), (COLUMNS, 1))))
            if how == "" and tid == 0:
                mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
                mo.copyto(rows, smem, mo.tile(rows.tensor, tma.tile, (0, 0)), barrier=(full, 0))
        mo.sync_threads()
        if how and tid == 33:
            rows = tma.at(maps.workspace[0, :], (left, COLUMNS))
            mo.mbarrier_arrive_expect_tx(full, 0, tma.bytes)
            mo.copyto(rows, smem, mo.tile(rows.tensor, tma.tile, (0, 0)), barrier=(full, 0))
        if how != "early" or mo.warp_idx() == 1:
            mo.mbarrier_wait(full, 0, phase)
        phase = 1 - phase
        if mo.warp_idx() == 1:
            for j in range(tid - 32, mo.size(smem), 32):
                out[j, i] = smem[j]
        if how != "early":
            mo.sync_threads()


def taken(how):
    x, firsts = np.random.default_rng(5).random((40, COLUMNS), np.float32), np.array([3, 24, 0, 39], np.int32)
    out, expected = np.zeros((4, 16 * COLUMNS), np.float32).T, np.zeros((4, COLUMNS, 16), np.float32)
    for i, first in enumerate(firsts):
        rows = x[first:first + 16].T
        expected[i, :, :rows.shape[1]] = rows
    report = mo.check(taken_kernel)[1, BLOCK](out, mo.make_tma_copy(mo.TmaLoad(), x, LAYOUT), x, firsts,
                                              places(1), how)
    return report, np.array_equal(out, expected.reshape(4, -1).T)


@pytest.mark.parametrize("how", ["", "other thread"])
def test_maps_of_a_warp(how):
    report, right = taken(how)
    assert report.ok and right, str(report)


def test_a_map_that_is_changed_while_another_warp_copies():
    report, _ = taken("early")
    assert "D22" in {finding.code for finding in report.findings}, str(report)
    assert "may still go by the one that was there" in str(report)


@pytest.mark.parametrize(("make", "why"), [
    (lambda t, w: mo.TensorMaps(w[0, :], t), r"is a tensor \(copies, 16\) in global memory, not"),
    (lambda t, w: mo.TensorMaps(3, t), "not a int"),
    (lambda t, w: mo.TensorMaps(w), "places for the maps of 0 copies"),
    (lambda t, w: mo.TensorMaps(w, t).update(1, shape=(1, 1)), "1 is none of the 1 copies"),
    (lambda t, w: mo.TensorMaps(w, t).update(0), "neither a tensor nor an address")])
def test_maps_that_are_none(make, why):
    with pytest.raises(TensorError, match=why):
        traced(lambda tma, x, workspace, maps: make(tma, workspace))


# --- addresses -------------------------------------------------------------------------------------------------------


def codes(call):
    report = mo.check(gathered_kernel)[1, BLOCK](*call)
    return [(finding.code, str(finding).splitlines()[0]) for finding in report.findings]


def test_an_address_where_nothing_is():
    found = arrays()
    given = np.array([found[0].ctypes.data, found[0].ctypes.data + (1 << 40), 4096], np.int64)
    (code, text), *more = codes(gathered_call(found=found, given=given))
    assert code == "B1" and "and no array begins there" in text
    assert {code for code, _ in more} <= {"B1"}


def test_extents_beyond_the_end_of_an_array():
    found = arrays()
    call = gathered_call(found=found)
    call[4][:] = 17                                     # the tiles have 16 rows, and the arrays 5, 16 and 11
    (code, text), *_ = codes(call)
    assert code == "B1" and "behind the end of the array" in text and "extents (32, 17)" in text


def test_an_address_that_is_no_multiple_of_16():
    found = arrays()
    given = mo.addresses(found)
    given[1] += 4
    assert ("B5", True) in [(code, "which is no multiple of 16" in text)
                            for code, text in codes(gathered_call(found=found, given=given))]


def test_addresses_keep_arrays_alive():
    given = mo.addresses(arrays())
    gc.collect()
    call = gathered_call(found=arrays(), given=given)
    none = mo.addresses([np.zeros((0, 4), np.float32)])
    assert codes(call) == [] and len(none) == 1
    assert np.array_equal(call[0], gathered(arrays()))


def test_addresses_are_forgotten():
    found = arrays()
    given = np.array(mo.addresses(found[1:]))           # a copy: what keeps them is gone
    gc.collect()
    assert "B1" in dict(codes(gathered_call(found=found, given=np.concatenate([[found[0].ctypes.data], given]))))


def test_arrays_whose_addresses_are_asked_for():
    assert mo.addresses([]).shape == (0,)
    with pytest.raises(ArgumentError, match="number 1 is a str, not an array"):
        mo.addresses([np.zeros(1), "x"])


def test_arrays_of_torch_whose_addresses_are_asked_for():
    torch = pytest.importorskip("torch")
    x = torch.zeros(3)
    assert mo.addresses([x, x]).tolist() == [x.data_ptr()] * 2 and mo.addresses([x]).dtype == torch.int64
    with pytest.raises(ArgumentError, match="all must be of NumPy or all of torch"):
        mo.addresses([np.zeros(1), x])


def test_autograd_is_told_what_is_written_by_address():
    torch = pytest.importorskip("torch")
    x, y = torch.zeros(3), torch.zeros(3, requires_grad=True)
    mo.write_by_address("f", [x, np.zeros(3)])
    assert x._version == 1
    with pytest.raises(mo.ArgumentError, match="f writes argument 'number 1', a leaf that requires grad"):
        mo.write_by_address("f", [x, y])
    with torch.no_grad():
        mo.write_by_address("f", [y])
    assert (x._version, y._version) == (1, 1)


# --- as it is printed ------------------------------------------------------------------------------------------------


def test_compiled():
    found = grouped_kernel.compile(*grouped_copies(*grouped_arguments()), places(1, 2, 2),
                                   np.zeros((3, 3), np.int64), np.zeros((3, 3), np.int32), block=THREADS, arch="sm_90a")
    assert found.spills == 0
    for text in ("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;",
                 "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, %1;",
                 "tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], 0, %1;",
                 "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned",
                 "fence.proxy.tensormap::generic.acquire.gpu [%0], 128;"):
        assert text in found.source
    assert len(re.findall(r"tma_load_2d\([^\n]*\(const TensorMap\*\)&workspace\[", found.source)) == 2
    assert "long long* workspace" in found.source and "const long long* workspace" not in found.source


@pytest.mark.parametrize("arch", ["sm_100a", "sm_120a"])
def test_compiled_for_later_architectures(arch):
    assert clipped_kernel.compile(*clipped_call(), block=BLOCK, arch=arch).spills == 0
    with pytest.raises(UnsupportedError, match=r"tensormap.replace\), which need an architecture with an a"):
        clipped_kernel.compile(*clipped_call(), block=BLOCK, arch=arch[:-1])


def test_older_architectures_are_refused():
    with pytest.raises(UnsupportedError, match="need sm_90a or later, but is compiled for sm_80"):
        clipped_kernel.compile(*clipped_call(), block=BLOCK, arch="sm_80")


# --- what is refused -------------------------------------------------------------------------------------------------


def traced(body, array=None, tile=None, op=mo.TmaLoad):
    @mo.kernel
    def kernel(tma, x, workspace):
        maps = mo.tensormap_array(2)
        body(tma, x, workspace, maps)

    array = np.zeros((64, 64), np.float32) if array is None else array
    kernel.trace(mo.make_tma_copy(op(), array, LAYOUT, tile), np.zeros((64, 64), np.float16),
                 places(4), block=32)


@pytest.mark.parametrize(("body", "error", "why"), [
    (lambda t, x, w, m: mo.copy_tensormap(w[0, :], t), TensorError, "a tensor map in smem is 16 elements of int64 or"),
    (lambda t, x, w, m: mo.copy_tensormap(m[:, 0], x), TensorError, "takes a TMA copy, not a Tensor"),
    (lambda t, x, w, m: mo.copy_tensormap(m, t), TensorError, r"16 elements one after the other, and maps has layout"),
    (lambda t, x, w, m: mo.release_tensormap(m[:, 0], m[:, 0]), TensorError, "a tensor map in gmem is 16 elements"),
    (lambda t, x, w, m: mo.acquire_tensormap(x[0, :]), TensorError, "a tensor map in gmem is 16 elements"),
    (lambda t, x, w, m: t.at(m[:, 0]), TensorError, "tma.at: a tensor map in gmem is 16 elements"),
    (lambda t, x, w, m: t.at(w[0, :], (3,)), TensorError, "is none of an array of 2 modes"),
    (lambda t, x, w, m: mo.update_tensormap(t, m[:, 0]), TensorError, "neither a tensor nor an address"),
    (lambda t, x, w, m: mo.update_tensormap(t, m[:, 0], x), DTypeError, "copies float32, and x holds float16"),
    (lambda t, x, w, m: mo.update_tensormap(t, m[:, 0], m), TensorError, "a tensor in global memory, not maps"),
    (lambda t, x, w, m: mo.update_tensormap(t, m[:, 0], x, address=1), TensorError, "none is given beside it"),
    (lambda t, x, w, m: mo.update_tensormap(t, m[:, 0], shape=(1, 2, 3)), TensorError, "the extents are"),
    (lambda t, x, w, m: mo.update_tensormap(t, m[:, 0], strides=(1, 64)), LayoutError, "are not 1 there"),
    (lambda t, x, w, m: mo.update_tensormap(t, m[:, 0], address=1.5), DTypeError, "the address is 1.5, not an integer"),
    (lambda t, x, w, m: mo.update_tensormap(t, m[:, 0], shape=(x[0, 0], 64)), DTypeError, "an extent is float16"),
])
def test_calls(body, error, why):
    with pytest.raises(error, match=why):
        traced(body)


def test_places_that_are_not_aligned():
    def body(tma, x, workspace, maps):
        mo.copy_tensormap(mo.shared_array(mo.uint64, mo.make_layout((16, 2), (1, 20)))[:, mo.thread_idx().x], tma)

    with pytest.raises(AlignmentError, match="begins at a multiple of 128 bytes"):
        traced(body)


def test_maps_without_a_dimension_for_each_mode():
    def body(tma, x, workspace, maps):
        mo.update_tensormap(tma, maps[:, 0], address=0)

    with pytest.raises(TensorError, match="only a map with a dimension for each mode is changed"):
        traced(body, np.zeros((2, 2, 2, 2, 64, 64), np.float32), (1, 1, 1, 1, 16, 32))
