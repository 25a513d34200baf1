"""Every record of ``moye.atoms`` does on the GPU what its layouts and widths say: copies move bits, products add up.

Copies are checked with every bit pattern (NaNs included) and with a guard on both sides of what they may write; the
products against float64, on tiles with several values per thread.
"""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
import ops_kernels_tiles as tiles
from ops_kernels_tiles import CASES, CP_ASYNCS, MMAS
from ops_kernels_tiles import ops_kernels as table

torch = pytest.importorskip("torch")

THREADS = 128
UNIVERSAL = {1: mo.uint8, 2: mo.uint16, 4: mo.uint32, 8: mo.uint64, 16: mo.uint128}


@mo.kernel
def through_smem(out, src, atom, back, width: mo.Constexpr):
    """Into shared memory with one atom, read by another thread, out with another atom."""
    tid = mo.thread_idx().x
    bx = mo.block_idx().x
    cells = mo.shared_array(src.dtype, THREADS * width)
    gS, gO = mo.tile(src, (THREADS * width,), (bx,)), mo.tile(out, (THREADS * width,), (bx,))
    mo.copyto(atom, mo.tile(cells, (width,), (tid,)), mo.tile(gS, (width,), (tid,)))
    mo.cp_async_wait()
    mo.sync_threads()
    other = THREADS - 1 - tid
    mo.copyto(back, mo.tile(gO, (width,), (other,)), mo.tile(cells, (width,), (other,)))


@mo.kernel
def tiled_product(C, A, B, copy_A, copy_B, mma):
    tid = mo.thread_idx().x
    bx, by, _ = mo.block_idx()
    sA, sB = mo.shared_array(A.dtype, (32, 16)), mo.shared_array(B.dtype, (32, 16))
    gA, gB = mo.tile(A, (32, 16), (bx, None)), mo.tile(B, (32, 16), (by, None))
    thr_A, thr_B, thr = copy_A.get_slice(tid), copy_B.get_slice(tid), mma.get_slice(tid)
    tCgC = thr.partition_C(mo.tile(C, (32, 32), (bx, by)))
    c = thr.make_fragment_C(tCgC)
    c.fill(0)
    for k in range(mo.size(gA, 2)):
        mo.copyto(copy_A, thr_A.partition_D(sA), thr_A.partition_S(gA)[:, :, :, k])
        mo.copyto(copy_B, thr_B.partition_D(sB), thr_B.partition_S(gB)[:, :, :, k])
        mo.cp_async_wait()
        mo.sync_threads()
        mo.gemm(mma, thr.partition_A(sA), thr.partition_B(sB), c)
        mo.sync_threads()
    mo.copyto(tCgC, c)


@pytest.mark.parametrize("unit", UNIVERSAL, ids="{}_bytes".format)
@pytest.mark.parametrize("blocks", [1, 7])
def test_universal_copy(unit, blocks):
    _moves(mo.UniversalCopy(UNIVERSAL[unit]), mo.UniversalCopy(UNIVERSAL[unit]), unit, blocks)


@pytest.mark.parametrize("atom", CP_ASYNCS, ids=str)
@pytest.mark.parametrize("blocks", [1, 7])
def test_cp_async(atom, blocks):
    _moves(atom, mo.UniversalCopy(UNIVERSAL[atom.bytes]), atom.bytes, blocks)


def _moves(atom, back, unit, blocks):
    """All bytes, between guards that stay as they are."""
    count = blocks * THREADS * unit
    host = np.random.default_rng(unit).integers(0, 256, count, np.uint8)
    around = np.full(count + 512, 0xA5, np.uint8)
    out = tiles.to_device(around)
    through_smem[blocks, THREADS](out[256:256 + count], tiles.to_device(host), atom, back, unit)
    torch.cuda.synchronize()
    wanted = around.copy()
    wanted[256:256 + count] = host
    assert np.array_equal(tiles.to_host(out, around), wanted)


@pytest.mark.parametrize("size", [(32, 32, 16), (96, 64, 80)], ids=str)
@pytest.mark.parametrize("op", MMAS, ids=str)
def test_product(op, size):
    (M, N, K), rng = size, np.random.default_rng(0)
    A, B = (np.asfortranarray(table.values(rng, s, d) if d.is_float else table.integers(rng, s, d, 50))
            for d, s in ((op.a_dtype, (M, K)), (op.b_dtype, (N, K))))
    C = np.asfortranarray(table.poison((M, N), op.d_dtype))
    copies = [mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(d), d), mo.make_layout((16, 4)), mo.make_layout((1, 1)))
              for d in (op.a_dtype, op.b_dtype)]
    device = tiles.to_device(C)
    tiled_product[(M // 32, N // 32), 64](device, tiles.to_device(A), tiles.to_device(B), *copies,
                                          mo.make_tiled_mma(op, mo.make_layout((8, 8))))
    torch.cuda.synchronize()
    found, wide = tiles.to_host(device, C), C.dtype if op.d_dtype.is_integer else np.float64
    wanted = A.astype(wide) @ B.astype(wide).T
    if op.d_dtype.is_integer:
        assert np.array_equal(found, wanted)
    else:                                               # K roundings of a sum that grows like sqrt(K)
        assert np.abs(found.astype(wide) - wanted).max() < 10 * K**0.5 * table.TOLERANCE[op.d_dtype.name]


def test_the_table_has_every_atom_too():
    assert sum(name.startswith("gemm-") for name in CASES) == 2 * len(MMAS)
    assert sum(name.startswith("cp-async-") for name in CASES) == len(CP_ASYNCS)
