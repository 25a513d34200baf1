"""Every kind of wgmma on the GPU (sm_90a) against NumPy: dtypes, majors, sources of A, N, swizzles, atoms and tiles.

Integers are equal bit by bit.  Sums of floats are as near as their accumulators allow, which keep about 13 bits of
products of 8-bit floats.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import moye as mo
import ops_kernels_tiles as tiles
import wgmma_kernels as kernels
from moye.atoms import sm90
from ops_kernels import difference, numpy_of

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(torch.cuda.is_available() and torch.cuda.get_device_capability() != (9, 0),
                                reason="wgmma is sm_90a's alone")
BF16 = (mo.bfloat16, mo.bfloat16, mo.float32)


def on_gpu(kernel, block, host):
    device = [tiles.to_device(x) for x in host]
    kernel[1, block](*device)
    torch.cuda.synchronize()
    return tiles.to_host(device[0], host[0])


@pytest.mark.parametrize("name", kernels.CASES)
def test_products(name):
    """Three k-tiles in two stages, one group in flight."""
    case = kernels.CASES[name]
    host = case.arguments(np.random.default_rng(0))
    assert kernels.error(on_gpu(kernels.wgmma_kernel, case.threads, host), host) <= kernels.tolerance(case.op)


@pytest.mark.parametrize("n", sorted({n for family in sm90.FAMILIES for n in family.columns}))
def test_every_n(n):
    """Of bfloat16, and of int8 where it has it."""
    ops = [mo.mma.wgmma(*BF16, n)]
    if n in sm90.FAMILIES[-1].columns:
        ops.append(mo.mma.wgmma(mo.int8, mo.uint8, mo.int32, n))
    for op in ops:
        case = kernels.Case(op)
        host = case.arguments(np.random.default_rng(n))
        assert kernels.error(on_gpu(kernels.wgmma_kernel, 128, host), host) <= kernels.tolerance(op)


@pytest.mark.parametrize("majors", [("k", "k"), ("k", "mn"), ("mn", "k"), ("mn", "mn")], ids=str)
def test_slices_along_k(majors):
    """One instruction at a time, the first from zero whatever the registers hold."""
    case = kernels.Case(mo.mma.wgmma(mo.float16, mo.float16, mo.float32, 64, a_major=majors[0], b_major=majors[1]),
                        groups=2, tiles=(2, 2))
    host = case.arguments(np.random.default_rng(1))
    D, A, B, _, mma, *_ = host
    A, B = (np.ascontiguousarray(x[:, :case.shape[2]]) for x in (A, B))
    found = on_gpu(kernels.one_k_at_a_time, case.threads, [D, A, B, mma, *case.layouts(0)])
    assert kernels.error(found, [D, A, B, *host[3:]]) <= kernels.tolerance(case.op)


def test_accumulators_as_operands():
    """(A * B^T) * E, whose first product is A in registers of the second, rounded to bfloat16."""
    rng = np.random.default_rng(2)
    arguments = kernels.chained_arguments(rng)
    D, A, B, E = arguments[:4]
    found = on_gpu(kernels.chained, 128, arguments)
    scores = (A.astype(np.float64) @ B.astype(np.float64).T).astype(np.float32).astype(numpy_of(mo.bfloat16))
    wanted = scores.astype(np.float64) @ E.astype(np.float64).T
    assert D.shape == wanted.shape
    assert difference(found, wanted) <= 1e-3        # a sum may round to the other neighbour


def test_a_launch_warns_of_serialised_products():
    """A tile of 128 x 256 in one warp group: once, at the line of the product."""
    case = kernels.Case(mo.mma.wgmma(*BF16, 256), tiles=(2, 1))
    host = case.arguments(np.random.default_rng(0))
    kernels.wgmma_kernel._specialised.clear()
    with pytest.warns(mo.PerformanceWarning, match="wgmma wait for each other"):
        on_gpu(kernels.wgmma_kernel, case.threads, host)
    with warnings.catch_warnings():
        warnings.simplefilter("error", mo.PerformanceWarning)
        on_gpu(kernels.wgmma_kernel, case.threads, host)
