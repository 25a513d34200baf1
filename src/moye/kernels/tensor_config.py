"""Tile configurations of ``gemm_sm80`` and the rule that picks one without search.

In: the problem (M, N, K, batches, dtype).  Out: a ``TensorConfig``, a number of K splits, the MMA operation.

>>> choose(4096, 4096, 4096, 1, mo.bfloat16)
(TensorConfig(bM=256, bN=128, bK=64, ...), 1)

The rule: the largest tile whose blocks fill the machine once; K is split where even the smallest leave it half empty.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import moye as mo

_SMS = 132


@dataclass(frozen=True, slots=True)
class TensorConfig:
    """``bM x bN x bK`` tiles by ``wM x wN`` warps, ``stages`` of them in shared memory, ``blocks`` a multiprocessor."""

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


_HALF = (TensorConfig(256, 128, 64, 3, 4, 2, 1), TensorConfig(128, 128, 64, 3, 2, 2, 2),
         TensorConfig(64, 64, 64, 4, 2, 2, 3))
_SINGLE = (TensorConfig(256, 128, 32, 3, 4, 2, 1), TensorConfig(128, 128, 32, 3, 2, 2, 1),
           TensorConfig(64, 64, 32, 4, 2, 2, 2))
_DOUBLE = (TensorConfig(128, 64, 16, 3, 4, 2, 1), TensorConfig(64, 64, 16, 3, 2, 2, 2))
_BYTE = (TensorConfig(256, 128, 128, 3, 4, 2, 1), TensorConfig(128, 128, 128, 3, 2, 2, 1),
         TensorConfig(64, 64, 128, 3, 2, 2, 2))
_FLOAT8 = (TensorConfig(128, 128, 64, 4, 4, 4, 1), TensorConfig(64, 64, 128, 3, 2, 2, 2))
_BY_BITS = {8: _BYTE, 16: _HALF, 32: _SINGLE, 64: _DOUBLE}


def configs(dtype: Any) -> tuple[TensorConfig, ...]:
    """The configurations for operands of this dtype, the largest tile first."""
    return _FLOAT8 if dtype.bits == 8 and dtype.is_float else _BY_BITS[dtype.bits]


@functools.cache
def instructions() -> dict[Any, Any]:
    """The MMA operation for operands of each dtype."""
    mma = mo.mma
    return {
        mo.float16: mma.SM80_16x8x16_F32F16F16F32_TN, mo.bfloat16: mma.SM80_16x8x16_F32BF16BF16F32_TN,
        mo.float32: mma.SM80_16x8x8_F32TF32TF32F32_TN, mo.float64: mma.SM80_8x8x4_F64F64F64F64_TN,
        mo.int8: mma.SM80_16x8x32_S32S8S8S32_TN, mo.uint8: mma.SM80_16x8x32_S32U8U8S32_TN,
        mo.float8_e4m3fn: mma.SM89_16x8x32_F32E4M3E4M3F32_TN, mo.float8_e5m2: mma.SM89_16x8x32_F32E5M2E5M2F32_TN,
    }


def instruction(dtype: Any) -> Any:
    """The MMA operation on operands of this dtype; float32 operands count as tfloat32.  ArgumentError: none."""
    found = instructions().get(dtype)
    if found is None:
        raise mo.ArgumentError(f"gemm_sm80: no MMA operation for {dtype}; there are some for "
                               f"{', '.join(map(str, instructions()))}")
    return found


def outputs(dtype: Any) -> tuple[Any, ...]:
    """What C may hold for operands of this dtype."""
    if dtype.is_integer:
        return (mo.int32,)
    return (mo.float64,) if dtype.bits == 64 else (mo.float32, mo.float16, mo.bfloat16)


@functools.lru_cache(maxsize=4096)
def choose(M: int, N: int, K: int, batches: int, dtype: Any) -> tuple[TensorConfig, int]:
    """The configuration and the number of K splits."""
    found = configs(dtype)
    for config in found:
        tiles = -(-M // config.bM) * -(-N // config.bN) * batches
        if tiles >= _SMS * config.blocks * 3 // 4:
            return config, 1
    splits = 1
    while tiles * splits * 2 <= _SMS * config.blocks and K // config.bK >= 16 * splits and splits < 16:
        splits *= 2
    return config, splits
