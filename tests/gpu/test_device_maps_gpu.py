"""Tensor maps that kernels change, on the GPU: arrays behind addresses, groups cut off, a product of pointers."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from device_maps import (
    BLOCK,
    COLUMNS,
    LAYOUT,
    OFFSETS,
    ROWS,
    SHAPES,
    THREADS,
    arrays,
    clipped,
    clipped_kernel,
    close,
    drawn,
    gathered,
    gathered_kernel,
    grouped_arguments,
    grouped_copies,
    grouped_kernel,
    tile_kernel,
    tile_of,
)

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module", autouse=True)
def _hopper():
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("tensormap.replace needs sm_90a")


def device(x):
    return torch.from_numpy(x).cuda()


def maps(*shape):
    return torch.zeros(*shape, 16, dtype=torch.int64, device="cuda")


@pytest.mark.parametrize("counts", [(5, 16, 11), (1,) * 40, tuple(range(1, 17)) * 8])
def test_arrays_behind_addresses(counts):
    host = arrays(2, counts)
    found = [device(x) for x in host]
    out = torch.full((len(counts), ROWS * COLUMNS), 7.0, device="cuda").T
    gathered_kernel[1, BLOCK](out, mo.make_tma_copy(mo.TmaLoad(), found[0], LAYOUT), maps(1), mo.addresses(found),
                              torch.tensor(counts, dtype=torch.int32, device="cuda"), "")
    torch.cuda.synchronize()
    assert np.array_equal(out.cpu().numpy(), gathered(host))


@pytest.mark.parametrize("by", ["tensor", "address"])
def test_arrays_by_chance(by):
    """Which extent and which stride belongs to which dimension of the map."""
    for seed in range(24):
        begun, x, layout, at = drawn(seed)
        found = [torch.as_strided(device(np.ascontiguousarray(whole).ravel()), y.shape, [s // 4 for s in y.strides])
                 for y in (begun, x) for whole in (root(y),)]
        out, workspace = torch.zeros(mo.size(layout), device="cuda"), maps(1, 2)
        given = mo.addresses(found[1:])
        workspace[0, 0, 0] = given[0]
        tile_kernel[1, 32](out, mo.make_tma_copy(mo.TmaLoad(), found[0], layout), found[1], workspace, at, by)
        torch.cuda.synchronize()
        assert np.array_equal(out.cpu().numpy(), tile_of(x, layout.shape, at)), f"seed {seed}"


def root(x):
    """The whole array that x is a view of."""
    while x.base is not None:
        x = x.base
    return x


def test_a_map_is_cut_off_at_the_end_of_a_group():
    src = np.random.default_rng(1).random((50, COLUMNS), np.float32)
    dst = torch.zeros(50, COLUMNS, device="cuda")
    clipped_kernel[4, BLOCK](mo.make_tma_copy(mo.TmaStore(), dst, LAYOUT), dst, device(src),
                             torch.tensor(OFFSETS, dtype=torch.int32, device="cuda"), maps(4), np.float32(1))
    torch.cuda.synchronize()
    assert np.array_equal(dst.cpu().numpy(), clipped(src))


@pytest.mark.parametrize("blocks", [1, 7, 132])
@pytest.mark.parametrize("shapes", [SHAPES, ((512, 264, 1024), (8, 8, 8), (1000, 1000, 200), (64, 64, 64)) * 6])
def test_a_grouped_product_of_pointers(blocks, shapes):
    As, Bs, Cs = ([device(x) for x in xs] for xs in grouped_arguments(3, shapes))
    pointers = mo.addresses([*As, *Bs, *Cs])
    workspace = maps(blocks, 2, 2)
    for _ in range(3):                                  # the maps of the launch before lie there
        for C in Cs:
            C.fill_(float("nan"))
        grouped_kernel[blocks, THREADS](*grouped_copies(As, Bs, Cs), workspace, pointers.reshape(3, -1),
                                        torch.tensor(shapes, dtype=torch.int32, device="cuda"))
        torch.cuda.synchronize()
        host = [[x.cpu().numpy() for x in xs] for xs in (As, Bs, Cs)]
        assert close(*host)
