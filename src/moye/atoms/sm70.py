"""The tensor-core operations of sm_70: 8x8x4 on half precision, four of them side by side in a warp.

In: nothing.  Out: one ``MmaOp`` per accumulator dtype and pair of majors (T: along K, N: along M or N).
A thread holds 4 values of A, 4 of B and 8 of C.  Later architectures run them slowly.

>>> SM70_8x8x4_F32F16F16F32_TN.threads
8

Source: PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f16 floating point type"; CuTe cute/arch/mma_sm70.hpp.
"""

from __future__ import annotations

from moye.atoms.mma_sync import quad_pair_mma

SM70_8x8x4_F16F16F16F16_TN = quad_pair_mma("SM70_8x8x4_F16F16F16F16_TN")
SM70_8x8x4_F16F16F16F16_NT = quad_pair_mma("SM70_8x8x4_F16F16F16F16_NT")
SM70_8x8x4_F16F16F16F16_NN = quad_pair_mma("SM70_8x8x4_F16F16F16F16_NN")
SM70_8x8x4_F16F16F16F16_TT = quad_pair_mma("SM70_8x8x4_F16F16F16F16_TT")
SM70_8x8x4_F32F16F16F32_TN = quad_pair_mma("SM70_8x8x4_F32F16F16F32_TN")
SM70_8x8x4_F32F16F16F32_NT = quad_pair_mma("SM70_8x8x4_F32F16F16F32_NT")
SM70_8x8x4_F32F16F16F32_NN = quad_pair_mma("SM70_8x8x4_F32F16F16F32_NN")
SM70_8x8x4_F32F16F16F32_TT = quad_pair_mma("SM70_8x8x4_F32F16F16F32_TT")
