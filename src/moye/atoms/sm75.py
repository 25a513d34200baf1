"""The tensor-core operations that sm_75 added: 16x8x8 on half precision, 8x8x16 on bytes.

In: nothing.  Out: one ``MmaOp`` each.

>>> SM75_8x8x16_S32S8S8S32_TN.a_layout
((4,8),4):((32,1),8)

Source: PTX ISA, "Matrix Fragments for mma.m16n8k8" and "mma.m8n8k16"; CuTe cute/arch/mma_sm75.hpp.
"""

from __future__ import annotations

from moye.atoms.mma_sync import warp_mma

SM75_16x8x8_F32F16F16F32_TN = warp_mma("SM75_16x8x8_F32F16F16F32_TN")
SM75_8x8x16_S32S8S8S32_TN = warp_mma("SM75_8x8x16_S32S8S8S32_TN")
SM75_8x8x16_S32S8U8S32_TN = warp_mma("SM75_8x8x16_S32S8U8S32_TN")
SM75_8x8x16_S32U8S8S32_TN = warp_mma("SM75_8x8x16_S32U8S8S32_TN")
SM75_8x8x16_S32U8U8S32_TN = warp_mma("SM75_8x8x16_S32U8U8S32_TN")
