"""Bulk copies without tensor maps on the GPU: the kernels of ``bulk_kernels.py`` against NumPy.

Copies are equal bit by bit; what lies before and behind a run stays as it was.  Sums of floats are compared with
float64: additions of several blocks come in any order.
"""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from bulk_faults import RUN, segments
from bulk_kernels import (
    BLOCK,
    add_kernel,
    copy_kernel,
    multicast_kernel,
    prefetch_kernel,
    rows_kernel,
    send_kernel,
    stages_kernel,
    tile_kernel,
)
from ops_kernels import numpy_of
from ops_kernels_bulk import ADDED
from ops_kernels_tiles import to_device, to_host

torch = pytest.importorskip("torch")

DTYPES = (mo.uint8, mo.float8_e4m3fn, mo.int16, mo.float16, mo.bfloat16, mo.int32, mo.float32, mo.int64, mo.float64)


@pytest.fixture(scope="module", autouse=True)
def _hopper():
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("bulk copies need sm_90")


def normal(shape, dtype, seed=0):
    """Random-normal values, of integers eight times as wide."""
    values = np.random.default_rng(seed).standard_normal(shape) * (1 if dtype.is_float else 8)
    return np.asfortranarray(np.abs(values) if dtype.kind.name == "UINT" else values).astype(numpy_of(dtype))


def empty(shape, dtype):
    """Bits that no result has: NaNs of floats."""
    made = np.empty(shape, numpy_of(dtype), order="F")
    made.reshape(-1, order="F").view(np.uint8)[...] = 0xFF
    return made


def launch(kernel, grid, *arguments, block=BLOCK, cluster=1):
    """The first argument as it is afterwards."""
    device = [to_device(x) for x in arguments]
    kernel.launch(*device, grid=grid, block=block, cluster=cluster)
    torch.cuda.synchronize()
    return to_host(device[0], arguments[0])


@pytest.mark.parametrize("run", [64, 1024, 8192])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_copies(dtype, run):
    """Full runs of 64 bytes to 48 KiB, and last ones of 16 bytes, of half, of all but 16 bytes."""
    run, part = min(run, 48 * 1024 // dtype.bytes), 16 // dtype.bytes
    for n in (3 * run, 2 * run + part, 2 * run + run // 2, 3 * run - part, part):
        x, out = normal(n, dtype), empty(n, dtype)
        found = launch(copy_kernel, -(-n // run), out, x, run)
        assert found.tobytes() == x.tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_lies_around_a_run_stays(dtype):
    """Slices that begin 16 bytes into an array and end 16 bytes before its end."""
    part, n = 16 // dtype.bytes, 2 * 1024 + 16 // dtype.bytes
    x, whole = normal(n + 2 * part, dtype), normal(n + 2 * part, dtype, 1)
    source, target = to_device(x), to_device(whole)
    copy_kernel[3, BLOCK](target[part:part + n], source[part:part + n], 1024)
    torch.cuda.synchronize()
    whole[part:part + n] = x[part:part + n]
    assert to_host(target, whole).tobytes() == whole.tobytes()


def test_a_misaligned_slice_is_refused():
    x = torch.ones(1025, device="cuda")
    with pytest.raises(mo.AlignmentError, match="multiple of 4 bytes only"):
        copy_kernel[1, BLOCK](torch.empty(1024, device="cuda"), x[1:], 1024)


@pytest.mark.parametrize("layout", ["2048:1", "(64,32):(32,1)", "((4,4),128):((1,512),4)"])
def test_tiles_in_any_order_of_modes(layout):
    for dtype in (mo.float16, mo.float32):
        x, out = normal(7 * 2048, dtype), empty(7 * 2048, dtype)
        np.testing.assert_array_equal(launch(tile_kernel, 7, out, x, mo.layout.parse(layout)), x + x)


@pytest.mark.parametrize("width", [4, 24, 256])
def test_each_lane_copies_a_row(width):
    x = np.ascontiguousarray(normal((32, 5 * width), mo.float32))
    found = launch(rows_kernel, 5, np.ascontiguousarray(empty(x.shape, mo.float32)), x, width)
    np.testing.assert_array_equal(found, x[::-1])


@pytest.mark.parametrize(("run", "stages", "count"), [(256, 2, 33), (1024, 3, 100), (2048, 4, 7), (128, 8, 3)])
def test_a_ring_of_stages(run, stages, count):
    """The ring wraps around many times, or is longer than the work."""
    x = normal((4 * run, count), mo.float32)
    found = launch(stages_kernel, 4, empty(4 * run, mo.float32), x, run, stages, block=BLOCK + 32)
    np.testing.assert_allclose(found, x.astype(np.float64).sum(axis=1), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("blocks", [2, 64, 512])
@pytest.mark.parametrize("dtype", ADDED, ids=str)
def test_reductions(dtype, blocks):
    """Many blocks add to two runs at once; integers are exact, and wrap."""
    x, before = normal(blocks * 256, dtype), normal(512, dtype, 1)
    found = launch(add_kernel, blocks, before, x, 256, None)
    parts = x.reshape(-1, 512)
    if not dtype.is_float:
        np.testing.assert_array_equal(found, before + parts.sum(axis=0, dtype=before.dtype))
        return
    wanted = before.astype(np.float64) + parts.astype(np.float64).sum(axis=0)
    unit = {"float16": 2.0 ** -11, "bfloat16": 2.0 ** -8, "float32": 2.0 ** -24, "float64": 2.0 ** -53}[dtype.name]
    bound = unit * len(parts) * (np.abs(before).astype(np.float64) + np.abs(parts.astype(np.float64)).sum(axis=0))
    assert (np.abs(found.astype(np.float64) - wanted) <= bound + unit).all()


@pytest.mark.parametrize("hint", [None, "evict_first", "evict_last"])
@pytest.mark.parametrize("blocks", [2, 4, 8])
def test_multicast(blocks, hint):
    x = normal(1024 * 5, mo.float16)
    found = launch(multicast_kernel, 5 * blocks, empty((1024, 5 * blocks), mo.float16), x, 1024, hint, cluster=blocks)
    np.testing.assert_array_equal(found, np.repeat(x.reshape(5, 1024), blocks, axis=0).T)


@pytest.mark.parametrize("swizzled", [False, True])
@pytest.mark.parametrize(("blocks", "rounds"), [(2, 1), (2, 10), (4, 3), (8, 9)])
def test_round_a_cluster(blocks, rounds, swizzled):
    """Every block sends and receives in each round; in a swizzled tile the bytes go where they were."""
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float16, "k"), (32, 64)) if swizzled else mo.make_layout(2048)
    x = normal((2048, 6 * blocks), mo.float16)
    found = launch(send_kernel, 6 * blocks, empty(x.shape, mo.float16), x, layout, rounds, cluster=blocks)
    np.testing.assert_array_equal(found, np.roll(x.reshape(2048, 6, blocks), rounds, axis=2).reshape(x.shape))


def test_segments():
    """Starts and lengths that only memory knows."""
    rng = np.random.default_rng(7)
    sizes = 4 * rng.integers(1, RUN // 4, 50, endpoint=True).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int32)
    x, out = normal(int(sizes.sum()), mo.float32), empty((RUN, 50), mo.float32)
    found = launch(segments, 50, out, x, starts, sizes, block=64)
    for column, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        np.testing.assert_array_equal(found[:size, column], x[start:start + size])
        assert np.isnan(found[size:, column]).all()


@pytest.mark.parametrize("hint", [None, "evict_last"])
def test_prefetches(hint):
    """They change nothing."""
    matrix, x = np.ascontiguousarray(normal((32 * 9, 64), mo.float32)), normal(32 * 64 * 9, mo.float32, 1)
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (32, 64))
    tma = mo.make_tma_copy(mo.TmaLoad(), matrix, layout)
    found = launch(prefetch_kernel, 9, empty((32 * 64, 9), mo.float32), tma, x, 32 * 64, hint)
    tiles = np.stack([matrix[i:i + 32].ravel("F") for i in range(0, len(matrix), 32)], axis=1)
    np.testing.assert_array_equal(found, tiles + x.reshape(9, -1).T)


def test_runs_repeat():
    """Twenty launches in a row give the same bits: no wait that only luck replaces."""
    x = normal((2048, 64), mo.float32)
    for _ in range(20):
        found = launch(send_kernel, 64, empty(x.shape, mo.float32), x, mo.make_layout(2048), 5, cluster=8)
        np.testing.assert_array_equal(found, np.roll(x.reshape(2048, 8, 8), 5, axis=2).reshape(x.shape))
