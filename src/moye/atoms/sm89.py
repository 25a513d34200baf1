"""The tensor-core operations of sm_89: 16x8x32 on 8-bit floats in all mixes.

In: nothing.  Out: one ``MmaOp`` each, with float32 or float16 accumulators.

>>> SM89_16x8x32_F32E4M3E5M2F32_TN.c_dtype
float32

Source: PTX ISA, "Matrix Fragments for mma.m16n8k32"; CuTe cute/arch/mma_sm89.hpp.
"""

from __future__ import annotations

from moye.atoms.mma_sync import warp_mma

SM89_16x8x32_F32E4M3E4M3F32_TN = warp_mma("SM89_16x8x32_F32E4M3E4M3F32_TN")
SM89_16x8x32_F32E4M3E5M2F32_TN = warp_mma("SM89_16x8x32_F32E4M3E5M2F32_TN")
SM89_16x8x32_F32E5M2E4M3F32_TN = warp_mma("SM89_16x8x32_F32E5M2E4M3F32_TN")
SM89_16x8x32_F32E5M2E5M2F32_TN = warp_mma("SM89_16x8x32_F32E5M2E5M2F32_TN")
SM89_16x8x32_F16E4M3E4M3F16_TN = warp_mma("SM89_16x8x32_F16E4M3E4M3F16_TN")
SM89_16x8x32_F16E4M3E5M2F16_TN = warp_mma("SM89_16x8x32_F16E4M3E5M2F16_TN")
SM89_16x8x32_F16E5M2E4M3F16_TN = warp_mma("SM89_16x8x32_F16E5M2E4M3F16_TN")
SM89_16x8x32_F16E5M2E5M2F16_TN = warp_mma("SM89_16x8x32_F16E5M2E5M2F16_TN")
