"""Tile configurations of ``gemm_sm80`` and the rule that picks one without search.

In: the problem (M, N, K, batches, dtype).  Out: a ``TensorConfig`` and the MMA operation.

>>> choose(4096, 4096, 4096, 1, mo.bfloat16)
TensorConfig(bM=128, bN=128, bK=64, ...)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import moye as mo

_SMS = 132


@dataclass(frozen=True, slots=True)
class TensorConfig:
    """``bM x bN x bK`` tiles by ``wM x wN`` warps, ``stages`` of them in shared memory, ``blocks`` per multiprocessor."""

    bM: int
    bN: int
    bK: int
    stages: int
    wM: int
    wN: int
    blocks: int

    @property
    def threads(self) -> int:
        return 32 * self.wM * self.wN


HALF = (
    TensorConfig(128, 128, 64, 3, 2, 2, 2),
    TensorConfig(64, 64, 64, 4, 2, 2, 3),
)


def instruction(dtype: Any) -> Any:
    """The MMA operation on operands of this dtype that accumulates in float32."""
    operations = {mo.float16: mo.mma.SM80_16x8x16_F32F16F16F32_TN, mo.bfloat16: mo.mma.SM80_16x8x16_F32BF16BF16F32_TN}
    found = operations.get(dtype)
    if found is None:
        raise mo.ArgumentError(f"gemm_sm80: no MMA operation for {dtype}; there are some for "
                               f"{', '.join(map(str, operations))}")
    return found


def choose(M: int, N: int, K: int, batches: int, dtype: Any) -> TensorConfig:
    """The largest tile that fills the machine."""
    large, small = HALF
    tiles = -(-M // large.bM) * -(-N // large.bN) * batches
    return large if tiles >= _SMS // 2 else small
