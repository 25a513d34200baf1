"""Tile configurations of ``gemm_sm80``, and the model of what each takes.  ``choice.py`` picks one.

In: a dtype, a problem (M, N, K, batches).  Out: ``TensorConfig``s, the MMA operation, microseconds.

>>> 200 < modelled(configs(mo.bfloat16)[0], 1, 4096, 4096, 4096, 1, 2, 132) < 400
True

The model: waves of blocks over the multiprocessors, the rate that one, two or more blocks of a configuration
reach together on one, what a block waits for by itself, and what launches, copies of single elements and stores cost.
The rates are measured ones (H200, bfloat16).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import moye as mo

_SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)


@dataclass(frozen=True, slots=True)
class TensorConfig:
    """``bM x bN x bK`` tiles by ``wM x wN`` warps, ``stages`` of them in shared memory, ``blocks`` a multiprocessor.

    ``rates``: the share of peak that 1, 2, ... blocks reach together on a multiprocessor.  ``mma`` is CuTe's name of
    the instruction; without one, it is that of ``instruction``.
    """

    bM: int
    bN: int
    bK: int
    stages: int
    wM: int
    wN: int
    blocks: int
    rates: tuple[float, ...] = (0.6, 0.8, 0.8)
    mma: str = ""

    @property
    def threads(self) -> int:
        return 32 * self.wM * self.wN


_HALF = (TensorConfig(256, 128, 64, 3, 4, 2, 1, (1.0,)), TensorConfig(128, 128, 64, 3, 2, 2, 2, (0.62, 0.97)),
         TensorConfig(128, 64, 64, 4, 2, 2, 2, (0.62, 0.85)), TensorConfig(64, 64, 64, 4, 2, 2, 3, (0.36, 0.55, 0.65)),
         TensorConfig(32, 64, 128, 4, 1, 2, 3, (0.16, 0.24, 0.28)),
         TensorConfig(16, 64, 128, 6, 1, 2, 4, (0.08, 0.13, 0.16, 0.18)))
_SHIFTED = (TensorConfig(128, 128, 64, 2, 4, 2, 1, (0.5,)), TensorConfig(128, 64, 64, 2, 4, 2, 2, (0.3, 0.45)),
            TensorConfig(64, 128, 64, 2, 4, 2, 2, (0.3, 0.45)), TensorConfig(64, 64, 64, 2, 2, 2, 3, (0.2, 0.35, 0.4)),
            TensorConfig(128, 16, 64, 2, 4, 1, 3, (0.07, 0.12, 0.15)),
            TensorConfig(64, 16, 64, 3, 4, 1, 4, (0.05, 0.09, 0.12, 0.14)),
            TensorConfig(32, 64, 64, 3, 2, 2, 3, (0.1, 0.18, 0.24)),
            TensorConfig(32, 32, 64, 3, 2, 2, 5, (0.08, 0.15, 0.2, 0.24, 0.26)),
            TensorConfig(16, 64, 64, 3, 1, 4, 4, (0.06, 0.1, 0.13, 0.15)),
            TensorConfig(128, 128, 32, 2, 4, 2, 2, (0.3, 0.45)),
            TensorConfig(128, 64, 32, 2, 4, 2, 3, (0.2, 0.32, 0.4)),
            TensorConfig(64, 128, 32, 2, 4, 2, 3, (0.2, 0.32, 0.4)),
            TensorConfig(64, 64, 32, 3, 4, 1, 4, (0.15, 0.25, 0.32, 0.36)),
            TensorConfig(32, 64, 32, 3, 2, 2, 6, (0.07, 0.13, 0.17, 0.2, 0.21, 0.22)),
            TensorConfig(32, 32, 32, 3, 2, 2, 8, (0.05, 0.1, 0.13, 0.16, 0.18, 0.19, 0.2, 0.21)),
            TensorConfig(32, 32, 128, 2, 2, 2, 3, (0.09, 0.17, 0.22)),
            TensorConfig(16, 64, 128, 2, 1, 4, 3, (0.06, 0.1, 0.13)))
"""For lines of 16 bits that begin anywhere."""
_WORDS = (TensorConfig(128, 256, 32, 3, 2, 4, 1, (0.43,)), TensorConfig(128, 128, 32, 4, 4, 2, 1, (0.27,)),
          TensorConfig(96, 128, 32, 3, 2, 4, 2, (0.22, 0.33)), TensorConfig(128, 64, 32, 4, 4, 2, 2, (0.14, 0.22)),
          TensorConfig(64, 128, 32, 3, 1, 2, 3, (0.23, 0.29, 0.35)),
          TensorConfig(64, 128, 32, 4, 2, 4, 2, (0.16, 0.23)),
          TensorConfig(64, 64, 32, 3, 2, 2, 4, (0.1, 0.18, 0.25, 0.28)),
          TensorConfig(64, 64, 64, 3, 2, 2, 2, (0.11, 0.22)),
          TensorConfig(32, 128, 32, 4, 2, 4, 2, (0.11, 0.2)), TensorConfig(32, 64, 64, 3, 2, 2, 2, (0.07, 0.14)),
          TensorConfig(32, 32, 64, 4, 2, 2, 3, (0.04, 0.07, 0.1)), TensorConfig(32, 32, 128, 3, 2, 2, 2, (0.05, 0.09)),
          TensorConfig(16, 128, 32, 4, 1, 4, 2, (0.07, 0.13)), TensorConfig(128, 16, 32, 4, 4, 1, 2, (0.06, 0.1)),
          TensorConfig(16, 64, 64, 4, 1, 4, 2, (0.03, 0.06)), TensorConfig(64, 16, 64, 4, 4, 1, 2, (0.04, 0.08)),
          TensorConfig(64, 32, 64, 3, 4, 1, 2, (0.07, 0.13)))
"""For lines of 32 bits that begin anywhere."""
_SHORT = tuple(config for config in _SHIFTED if (config.bM, config.bN, config.bK) in ((16, 64, 64), (32, 32, 64),
                                                                                         (64, 64, 32), (128, 64, 32)))
"""For other operands of 16 bits with few k, which need neither many stages nor deep ones."""
FEW = 256
"""k up to which they are tried; on sm_90a these start sooner than ``gemm_sm90``, by half a microsecond."""
_SINGLE = (TensorConfig(256, 128, 32, 3, 4, 2, 1, (0.45,)), TensorConfig(128, 128, 32, 3, 2, 2, 1, (0.3,)),
           TensorConfig(128, 64, 32, 4, 2, 2, 2, (0.23, 0.37)), TensorConfig(64, 64, 32, 4, 2, 2, 2, (0.2, 0.3)),
           TensorConfig(32, 64, 32, 4, 1, 2, 4, (0.08, 0.14, 0.18, 0.22)),
           TensorConfig(16, 64, 64, 4, 1, 2, 3, (0.05, 0.09, 0.12)))
_DOUBLE = (TensorConfig(128, 64, 16, 3, 4, 2, 1, (0.065,)), TensorConfig(64, 64, 16, 3, 2, 2, 2, (0.035, 0.06)))
_F64 = "SM90_16x8x4_F64F64F64F64_TN", "SM90_16x8x8_F64F64F64F64_TN"
_DOUBLE_SM90 = (TensorConfig(128, 128, 16, 4, 2, 4, 1, (0.13,), _F64[1]),
                TensorConfig(128, 64, 16, 3, 2, 2, 2, (0.065, 0.12), _F64[0]),
                TensorConfig(64, 64, 16, 3, 2, 2, 2, (0.06, 0.1), _F64[0]))
_BYTE = (TensorConfig(256, 128, 128, 3, 4, 2, 1, (1.9,)), TensorConfig(128, 128, 128, 3, 2, 2, 1, (1.1,)),
         TensorConfig(64, 64, 128, 3, 2, 2, 2, (0.7, 1.1)))
_FLOAT8 = (TensorConfig(128, 128, 64, 4, 4, 4, 1, (0.6,)), TensorConfig(64, 64, 128, 3, 2, 2, 2, (0.25, 0.4)))
_BY_BITS = {8: _BYTE, 16: _HALF, 32: _SINGLE, 64: _DOUBLE}


def architecture(array: Any) -> int:
    """90 for an array of an sm_90a device, and for one of the host, whose kernels are simulated as an H100 has them."""
    name = mo.arch_of(array)
    return 90 if name is None else int("".join(filter(str.isdigit, name)))


def configs(dtype: Any, arch: int = 80, *, shifted: bool = False) -> tuple[TensorConfig, ...]:
    """The configurations for operands of this dtype on an architecture (80 is sm_80), the largest tile first.

    ``shifted``: some operand's lines begin anywhere.
    """
    if shifted:
        return _SHIFTED if dtype.bits == 16 else _WORDS
    if dtype.bits == 64 and arch >= 90:
        return _DOUBLE_SM90
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


def operation(config: TensorConfig, dtype: Any) -> Any:
    """The MMA operation of a configuration.  ArgumentError where it multiplies operands of another dtype."""
    usual = instruction(dtype)
    found = getattr(mo.mma, config.mma) if config.mma else usual
    if (found.a_dtype, found.b_dtype, found.c_dtype) != (usual.a_dtype, usual.b_dtype, usual.c_dtype):
        raise mo.ArgumentError(f"gemm_sm80: {found} of {config} multiplies {found.a_dtype} and {found.b_dtype}, and "
                               f"the operands are {dtype}")
    return found


def outputs(dtype: Any) -> tuple[Any, ...]:
    """The dtypes that C may have for operands of this dtype."""
    if dtype.is_integer:
        return (mo.int32,)
    return (mo.float64,) if dtype.bits == 64 else (mo.float32, mo.float16, mo.bfloat16)


# --- the choice ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Costs:
    """What the model of costs is made of, on an H200: microseconds, bytes and elements per microsecond.

    ``benchmarks/gemm_sm80_fit.py`` fits them to products whose operands ``gemm_sm90`` would copy first, or with few k.
    """

    launch: float = 3.985
    reduction: float = 0.4961   # a second launch
    bandwidth: float = 3.707e+06
    single: float = 0.9952      # of the rate of 32-bit operands
    shifted: float = 1.829      # of those whose lines begin anywhere
    element: float = 1.378e+04  # elements that a multiprocessor copies one by one
    shift: float = 1.844e+04    # and of lines that it shifts
    turn: float = 0.03644       # of a block's loop, whatever its tile
    latency: float = 0.5729     # of memory, shared by the k tiles that are on their way
    chunk: float = 0.2321       # for each 16 bytes of a k tile that a thread shifts
    word: float = 1.884e+04     # elements of 32 bits of lines along K that begin anywhere, and arrive in other banks
    end: float = 0.1971         # for each 16 bytes that a thread copies of k tiles at the ends of such lines
    store: float = 7.414e-05    # for each element of a tile, stored 16 bytes at a time
    store_row: float = 8.336e-05 # the same of rows that begin anywhere
    store_end: float = 0.004908 # and for each of these rows
    store_element: float = 0.0001443 # or one by one
    halves: float = 1.485e-06   # of the bytes of C, if rows begin inside of 32 bytes that memory writes at once


COSTS = Costs()
_HELD = 2e7                         # bytes of C that L2 holds in the end
_PEAK = 3.7e6                       # operations per microsecond of one multiprocessor at rate 1, 16-bit operands
_ENDS = 3                           # k tiles at the ends of lines, whose parts are looked at one by one
Ways = tuple[str, str]
"""How each operand is copied: as in ``plan.major_of``, and C as in ``plan.stored``."""
WIDE = "k", "k"


def shifts(ways: Ways) -> bool:
    """Whether some operand's lines begin anywhere."""
    return "shift" in ways or "shift_mn" in ways


def options(K: int, dtype: Any, arch: int, *, shifted: bool) -> list[tuple[TensorConfig, int]]:
    """What there is to choose from."""
    found = configs(dtype, arch, shifted=shifted)
    if dtype.bits == 16 and not shifted and K <= FEW:
        found = (*found, *_SHORT)
    return [(config, splits) for config in found for splits in _SPLITS
            if splits == 1 or K // config.bK >= 4 * splits]


def modelled(config: TensorConfig, splits: int, M: int, N: int, K: int, batches: int, width: int,
             multiprocessors: int, ways: Ways = WIDE, store: str = "vector", out: int = 2,
             costs: Costs = COSTS) -> float:
    """Microseconds that this configuration should take on operands of ``width`` bytes an element.

    ``ways``: how each of them is copied.  ``store``: how C is stored.  ``out``: bytes of an element of C.
    """
    tiles = -(-M // config.bM) * -(-N // config.bN) * batches * splits
    k_tiles = -(-max(1, -(-K // config.bK)) // splits)
    # The multiprocessor with the most tiles decides; those left over in its last wave share it with fewer blocks.
    waves, rest = divmod(-(-tiles // multiprocessors), config.blocks)
    speed = {"vector": costs.store, "element": costs.store_element}.get(store, costs.store_row)
    stored = config.bM * (config.bN * speed + (costs.store_end if store in ("rows", "pairs") else 0.0))
    busy = waves * (_tiles(config, k_tiles, config.blocks, width, ways, costs) + config.blocks * stored)
    if rest:
        busy += _tiles(config, k_tiles, rest, width, ways, costs) + rest * stored
    # However fast the products are, each operand comes from memory at least once, and C goes there.
    moved = (M + N) * K * batches * width + _written(M * N * batches * out, N * out, costs)
    time = costs.launch + math.hypot(busy, moved / costs.bandwidth)
    # Every split is written and read once as fp32, and the sum is written once.
    if splits > 1:
        time += costs.reduction + 4.0 * M * N * batches * (2 * splits + 1) / costs.bandwidth
    return time


def _written(size: int, row: int, costs: Costs) -> float:
    """Bytes that memory writes for C, more than ``size`` if its rows share the 32 bytes that are written at once.

    What L2 holds in the end is no such write.
    """
    return size + (costs.halves * max(0, size - _HELD) if row % 32 else 0.0)


def _tiles(config: TensorConfig, k_tiles: int, held: int, width: int, ways: Ways, costs: Costs) -> float:
    """Microseconds of the k tiles of so many blocks on a multiprocessor: the work of all, or what a block has alone.

    For its first tile a block waits as long as a launch takes in any case.
    """
    share = costs.shifted if config in _SHIFTED else costs.single if width == 4 else 1.0
    products = held * 2.0 * config.bM * config.bN * config.bK / (_PEAK * config.rates[held - 1] * share)
    sides = list(zip((config.bM, config.bN), ways, strict=True))
    shift, shift_mn = (costs.word, math.inf) if width == 4 else (costs.shift, costs.shift)
    speeds = {"element": costs.element, "element_mn": costs.element, "shift": shift, "shift_mn": shift_mn}
    copies = sum(held * rows * config.bK / speeds[way] for rows, way in sides if way in speeds)
    chunks = sum(rows * config.bK * width / (16 * config.threads) for rows, way in sides if shifts((way, "")))
    alone = (k_tiles - 1) * costs.latency / (config.stages - 1)
    if width == 4:                                      # multiplied where they arrive, but for the ends one by one
        alone += min(k_tiles, _ENDS) * chunks * costs.end
    else:
        alone += k_tiles * chunks * costs.chunk
    return float(((k_tiles * (products + copies + held * costs.turn)) ** 3 + alone ** 3) ** (1 / 3))
