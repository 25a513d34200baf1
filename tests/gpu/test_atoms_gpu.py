"""Every record of ``moye.atoms`` does on the GPU what its layouts and widths say: copies move bits, products add up.

Copies are checked with every bit pattern (NaNs included) and with a guard on both sides of what they may write; the
products against float64, on tiles with several values per thread.
"""

from __future__ import annotations

import numpy as np
import pytest
from ops_kernels_tiles import CASES, CP_ASYNCS, MMAS
from ops_kernels_tiles import ops_kernels as table

import moye as mo

torch = pytest.importorskip("torch")

THREADS = 128
UNIVERSAL = {1: mo.uint8, 2: mo.uint16, 4: mo.uint32, 8: mo.uint64, 16: mo.uint128}


@mo.kernel
def through_smem(out, src, atom, back, width: mo.Constexpr):
    """Into shared memory with one atom, read by another thread, out with another atom."""
    tid = mo.thread_idx().x
    bx = mo.block_idx().x
    cells = mo.shared_array(src.dtype, THREADS * width)
    mo.copyto(atom, mo.tile(cells, (width,), (tid,)), mo.tile(mo.tile(src, (THREADS * width,), (bx,)), (width,), (tid,)))
    mo.cp_async_wait()
    mo.sync_threads()
    other = THREADS - 1 - tid
    mo.copyto(back, mo.tile(mo.tile(out, (THREADS * width,), (bx,)), (width,), (other,)),
              mo.tile(cells, (width,), (other,)))


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
    src = torch.from_numpy(np.random.default_rng(unit).integers(0, 256, count, np.uint8)).cuda()
    out = torch.full((count + 512,), 0xA5, dtype=torch.uint8, device="cuda")
    through_smem[blocks, THREADS](out[256:256 + count], src, atom, back, unit)
    torch.cuda.synchronize()
    assert torch.equal(out[256:256 + count], src)
    assert (out[:256] == 0xA5).all()
    assert (out[256 + count:] == 0xA5).all()


@pytest.mark.parametrize("size", [(32, 32, 16), (96, 64, 80)], ids=str)
@pytest.mark.parametrize("op", MMAS, ids=str)
def test_product(op, size):
    (M, N, K), rng = size, np.random.default_rng(0)
    integer = op.a_dtype.is_integer
    host = [rng.integers(0 if not op.a_dtype.is_signed else -50, 50, s) if integer else rng.standard_normal(s)
            for s in ((M, K), (N, K))]
    kinds = [getattr(torch, d.name) for d in (op.a_dtype, op.b_dtype, op.c_dtype)]
    A, B = (torch.from_numpy(np.ascontiguousarray(x.T)).to(k).cuda().T for x, k in zip(host, kinds, strict=False))
    C = torch.zeros((N, M), dtype=kinds[2], device="cuda").T
    C.fill_(7)                                          # (it starts at zero by itself)
    copies = [mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(d), d), mo.make_layout((16, 4)), mo.make_layout((1, 1)))
              for d in (op.a_dtype, op.b_dtype)]
    mma = mo.make_tiled_mma(op, mo.make_layout((8, 8)))
    tiled_product[(M // 32, N // 32), 64](C, A, B, *copies, mma)
    torch.cuda.synchronize()
    wide = [x.cpu().to(torch.int64 if integer else torch.float64).numpy() for x in (A, B)]
    found = C.cpu().to(torch.int64 if integer else torch.float64).numpy()
    if integer:
        assert np.array_equal(found, wide[0] @ wide[1].T)
    else:                                               # K roundings of a sum that grows like sqrt(K)
        assert np.abs(found - wide[0] @ wide[1].T).max() < 10 * K**0.5 * table.TOLERANCE[op.c_dtype.name]


def test_the_table_has_every_atom_too():
    assert sum(name.startswith("gemm-") for name in CASES) == 2 * len(MMAS)
    assert sum(name.startswith("cp-async-") for name in CASES) == len(CP_ASYNCS)
