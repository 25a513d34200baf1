"""Every tensor-core operation that the device has, on the GPU: against NumPy, and against the simulator.

Integers are equal bit by bit.  Float sums agree within ten units of the accumulator's dtype: the hardware aligns the
products of one instruction and cuts bits off, the simulator rounds their exact sum.
"""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
import ops_kernels_tiles as tiles
from ops_kernels import CASES, TOLERANCE, difference
from ops_kernels_tiles import mma_kernels as kernels

torch = pytest.importorskip("torch")


def has(op):
    major, minor = torch.cuda.get_device_capability()
    return op.arch <= 10 * major + minor


def on_gpu(kernel, grid, block, host):
    device = [tiles.to_device(x) for x in host]
    kernel[grid, block](*device)
    torch.cuda.synchronize()
    return tiles.to_host(device[0], host[0])


def agree(op, found, wanted):
    if op.d_dtype.is_integer:
        assert np.array_equal(found, wanted)
    else:
        assert difference(found, wanted) <= 10 * TOLERANCE[op.d_dtype.name]


@pytest.mark.parametrize("op", kernels.WARP_MMAS, ids=str)
def test_tiles_and_a_loop(op, monkeypatch):
    """2x2 atoms a warp over six instructions of k."""
    monkeypatch.setenv("MOYE_CHECK", "0")
    case = CASES[f"mma-{op}"]
    host = case.arguments(1)
    if not has(op):
        pytest.skip(f"{op} needs sm_{op.arch}")
    found = on_gpu(case.kernel, case.grid(1), case.block, host)
    agree(op, found, kernels.expected(host)[0])
    simulated = case.arguments(1)
    case.launch(simulated, 1)
    agree(op, found, simulated[0])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("op", kernels.WARP_MMAS, ids=str)
def test_one_instruction(op, order, monkeypatch):
    """D apart from C, both majors of A and B."""
    monkeypatch.setenv("MOYE_CHECK", "0")
    if not has(op):
        pytest.skip(f"{op} needs sm_{op.arch}")
    host = kernels.one_tile_arguments(op, np.random.default_rng(3), order)
    found = on_gpu(kernels.one_tile, 1, 32, host)
    agree(op, found, kernels.expected(host)[0])


def test_tf32_reads_the_upper_19_bits():
    """The low 13 bits of an operand change nothing."""
    rng = np.random.default_rng(0)
    A, B = (rng.standard_normal((n, 8)).astype(np.float32) for n in (16, 8))
    cut = [(x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in (A, B)]
    mma = mo.make_tiled_mma(mo.mma.SM80_16x8x8_F32TF32TF32F32_TN)
    D = np.zeros((16, 8), np.float32)
    found = on_gpu(kernels.raw_tf32, 1, 32, [D, A, B, mma])
    assert np.array_equal(found, on_gpu(kernels.raw_tf32, 1, 32, [D, *cut, mma]))
    assert difference(found, cut[0].astype(np.float64) @ cut[1].astype(np.float64).T) <= 10 * TOLERANCE["float32"]


@pytest.mark.parametrize("name", ["SM80_16x8x16_F16F16F16F16_TN", "SM80_16x8x32_S32S8U8S32_TN"])
def test_fragments_that_a_loop_carries(name):
    case = CASES[f"mma-{name}"]
    D, A, B, C, mma, bK = case.arguments(1)
    rows = len(D) // kernels.BLOCKS
    found = on_gpu(kernels.buffered, 1, case.block, [D[:rows], A[:rows], B, mma, bK])
    agree(mma.op, found, kernels.expected([D[:rows], A[:rows], B, 0 * C[:rows], mma])[0])


@pytest.mark.parametrize("name", ["SM80_16x8x16_F16F16F16F16_TN", "SM80_16x8x32_S32S8U8S32_TN",
                                  "SM80_16x8x8_F32BF16BF16F32_TN"])
def test_values_that_do_not_lie_side_by_side(name):
    host = kernels.one_tile_arguments(mo.mma.ALL[name], np.random.default_rng(5))
    agree(mo.mma.ALL[name], on_gpu(kernels.scattered, 1, 32, host), kernels.expected(host)[0])
