"""The tensor-core operations of a warp (``mma.sync``) by architecture, made from CuTe's names for them.

In: a name such as ``SM80_16x8x8_F32TF32TF32F32_TN``: architecture, shape, dtypes of D, A, B and C, transposes.
Out: ``MmaOp`` with the thread/value layouts of the PTX ISA's matrix fragments, and the instruction.

>>> warp_mma("SM80_16x8x8_F32TF32TF32F32_TN").a_layout
((4,8),(2,2)):((16,1),(8,64))

Source: PTX ISA, "Warp Level Matrix Instructions: mma", the sections "Matrix Fragments for mma.m8n8k4" ...
"mma.m16n8k256".  For a thread, t is its lane % 4 and g its lane / 4.  Element e of X is X(e % rows, e / rows).
"""

from __future__ import annotations

import re
from typing import Literal

from moye import dtypes as dt
from moye.atoms.atom import MmaOp
from moye.dtypes import DType
from moye.layout import Layout, make_layout

DTYPES: dict[str, DType] = {
    "F16": dt.float16, "BF16": dt.bfloat16, "TF32": dt.tfloat32, "F32": dt.float32, "F64": dt.float64,
    "S8": dt.int8, "U8": dt.uint8, "S4": dt.int4, "U4": dt.uint4, "U1": dt.uint1, "S32": dt.int32,
    "E4M3": dt.float8_e4m3fn, "E5M2": dt.float8_e5m2,
}
"""The words of CuTe's names."""

_WORD = "|".join(DTYPES)
_NAME = re.compile(rf"SM(\d+)_(\d+)x8x(\d+)_({_WORD})({_WORD})({_WORD})({_WORD})_([TN])([TN])"
                   r"(?:_(SATURATE|XORPOPC|ANDPOPC))?")
_PRODUCTS: dict[str | None, Literal["mul", "xor", "and"]] = {"XORPOPC": "xor", "ANDPOPC": "and"}


def warp_mma(name: str) -> MmaOp:
    """The operation of this name, by all 32 threads of a warp; A and B have K along a register."""
    arch, m, k, words, _, suffix = _parsed(name)
    d, a, b, c = (DTYPES[word] for word in words)
    satfinite = ".satfinite" if suffix == "SATURATE" else ""
    product = _PRODUCTS.get(suffix, "mul")
    ptx = (f"mma.sync.aligned.m{m}n8k{k}.row.col{satfinite}.{'.'.join(_ptx_type(word) for word in words)}"
           f"{'' if product == 'mul' else f'.{product}.popc'}")
    return MmaOp(name, (m, 8, k), a, b, c, d, 32, fragment(m, k, a), fragment(8, k, b), accumulator(m), ptx, arch,
                 product=product, saturate=bool(satfinite))


def quad_pair_mma(name: str) -> MmaOp:
    """The 8x8x4 operation of this name, by a quad-pair: lanes 4q to 4q+3 and 4q+16 to 4q+19 of a warp."""
    arch, m, k, words, transposes, _ = _parsed(name)
    d, a, b, c = (DTYPES[word] for word in words)
    major = ["row" if transposes[0] == "T" else "col", "col" if transposes[1] == "N" else "row"]
    ptx = f"mma.sync.aligned.m8n8k4.{'.'.join(major)}.{'.'.join(_ptx_type(word) for word in words)}"
    along_k = make_layout((8, 4), (1, 8))                              # value i: k = i; thread: row
    along_rows = make_layout(((4, 2), 4), ((8, 4), 1))                  # value i: row i, i + 4 above; thread % 4: k
    whole_rows = make_layout((8, 8), (1, 8))
    blocks = make_layout(((2, 2, 2), (2, 2, 2)), ((1, 16, 4), (8, 2, 32)))
    return MmaOp(name, (m, 8, k), a, b, c, d, 8, along_k if transposes[0] == "T" else along_rows,
                 along_k if transposes[1] == "N" else along_rows, blocks if c == dt.float32 else whole_rows, ptx, arch,
                 make_layout((4, 2), (1, 16)))


def fragment(rows: int, k: int, dtype: DType) -> Layout:
    """The layout of A (rows = M) or B (rows = N) in a warp's registers.

    A thread's first word holds row g and the w values of k that begin at t * w.  Its next words hold row g + 8 (if
    there are 16 rows), then the same 4 * w further along k.
    """
    word = max(1, 32 // dtype.bits)
    modes = [(word, rows), (rows // 8, 8), (k // (4 * word), 4 * word * rows)]
    return _of_values([(extent, stride) for extent, stride in modes if extent > 1], (word * rows, 1))


def accumulator(rows: int) -> Layout:
    """The layout of C or D with ``rows`` x 8 elements: columns 2 * t and 2 * t + 1 of row g, then of row g + 8."""
    return _of_values([(2, rows), *([(2, 8)] if rows == 16 else [])], (2 * rows, 1))


def _of_values(values: list[tuple[int, int]], threads: tuple[int, int]) -> Layout:
    shape, stride = tuple(v[0] for v in values), tuple(v[1] for v in values)
    if len(values) < 2:
        extent, step = values[0] if values else (1, 0)
        return make_layout(((4, 8), extent), (threads, step))
    return make_layout(((4, 8), shape), (threads, stride))


def _parsed(name: str) -> tuple[int, int, int, list[str], str, str | None]:
    """The (architecture, M, K, words of D A B C, transposes, suffix) of a name."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise ValueError(f"{name!r} is no name of an MMA operation")
    arch, m, k, d, a, b, c, transpose_a, transpose_b, suffix = found.groups()
    return int(arch), int(m), int(k), [d, a, b, c], transpose_a + transpose_b, suffix


def _ptx_type(word: str) -> str:
    return "b1" if word == "U1" else word.lower()


# --- sm_70: 8x8x4 on half precision, four of them side by side in a warp ---------------------------------------------

# T is along K, N along M or N.  A thread holds 4 values of A, 4 of B and 8 of C.  Later architectures run them slowly.
# Source: PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f16 floating point type"; CuTe cute/arch/mma_sm70.hpp.
SM70_8x8x4_F16F16F16F16_TN = quad_pair_mma("SM70_8x8x4_F16F16F16F16_TN")
SM70_8x8x4_F16F16F16F16_NT = quad_pair_mma("SM70_8x8x4_F16F16F16F16_NT")
SM70_8x8x4_F16F16F16F16_NN = quad_pair_mma("SM70_8x8x4_F16F16F16F16_NN")
SM70_8x8x4_F16F16F16F16_TT = quad_pair_mma("SM70_8x8x4_F16F16F16F16_TT")
SM70_8x8x4_F32F16F16F32_TN = quad_pair_mma("SM70_8x8x4_F32F16F16F32_TN")
SM70_8x8x4_F32F16F16F32_NT = quad_pair_mma("SM70_8x8x4_F32F16F16F32_NT")
SM70_8x8x4_F32F16F16F32_NN = quad_pair_mma("SM70_8x8x4_F32F16F16F32_NN")
SM70_8x8x4_F32F16F16F32_TT = quad_pair_mma("SM70_8x8x4_F32F16F16F32_TT")

# --- sm_75: 16x8x8 on half precision, 8x8x16 on bytes ----------------------------------------------------------------

# Source: PTX ISA, "Matrix Fragments for mma.m16n8k8" and "mma.m8n8k16"; CuTe cute/arch/mma_sm75.hpp.
SM75_16x8x8_F32F16F16F32_TN = warp_mma("SM75_16x8x8_F32F16F16F32_TN")
SM75_8x8x16_S32S8S8S32_TN = warp_mma("SM75_8x8x16_S32S8S8S32_TN")
SM75_8x8x16_S32S8U8S32_TN = warp_mma("SM75_8x8x16_S32S8U8S32_TN")
SM75_8x8x16_S32U8S8S32_TN = warp_mma("SM75_8x8x16_S32U8S8S32_TN")
SM75_8x8x16_S32U8U8S32_TN = warp_mma("SM75_8x8x16_S32U8U8S32_TN")

# --- sm_80: f16, bf16, tf32, f64, integers of 8 and 4 bits, single bits ----------------------------------------------

# ``_SATURATE`` clamps sums to int32, and the others wrap.  ``_XORPOPC`` and ``_ANDPOPC`` count the ones of A ^ B and
# A & B.  Source: PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f64", "mma.m16n8k4" ... "mma.m16n8k256"; CuTe
# cute/arch/mma_sm80.hpp.
SM80_16x8x8_F16F16F16F16_TN = warp_mma("SM80_16x8x8_F16F16F16F16_TN")
SM80_16x8x16_F16F16F16F16_TN = warp_mma("SM80_16x8x16_F16F16F16F16_TN")
SM80_16x8x8_F32F16F16F32_TN = warp_mma("SM80_16x8x8_F32F16F16F32_TN")
SM80_16x8x16_F32F16F16F32_TN = warp_mma("SM80_16x8x16_F32F16F16F32_TN")
SM80_16x8x8_F32BF16BF16F32_TN = warp_mma("SM80_16x8x8_F32BF16BF16F32_TN")
SM80_16x8x16_F32BF16BF16F32_TN = warp_mma("SM80_16x8x16_F32BF16BF16F32_TN")
SM80_16x8x4_F32TF32TF32F32_TN = warp_mma("SM80_16x8x4_F32TF32TF32F32_TN")
SM80_16x8x8_F32TF32TF32F32_TN = warp_mma("SM80_16x8x8_F32TF32TF32F32_TN")
SM80_8x8x4_F64F64F64F64_TN = warp_mma("SM80_8x8x4_F64F64F64F64_TN")

SM80_8x8x16_S32S8S8S32_TN = warp_mma("SM80_8x8x16_S32S8S8S32_TN")
SM80_8x8x16_S32S8S8S32_TN_SATURATE = warp_mma("SM80_8x8x16_S32S8S8S32_TN_SATURATE")
SM80_16x8x16_S32S8S8S32_TN = warp_mma("SM80_16x8x16_S32S8S8S32_TN")
SM80_16x8x16_S32S8S8S32_TN_SATURATE = warp_mma("SM80_16x8x16_S32S8S8S32_TN_SATURATE")
SM80_16x8x32_S32S8S8S32_TN = warp_mma("SM80_16x8x32_S32S8S8S32_TN")
SM80_16x8x32_S32S8S8S32_TN_SATURATE = warp_mma("SM80_16x8x32_S32S8S8S32_TN_SATURATE")
SM80_8x8x16_S32S8U8S32_TN = warp_mma("SM80_8x8x16_S32S8U8S32_TN")
SM80_8x8x16_S32S8U8S32_TN_SATURATE = warp_mma("SM80_8x8x16_S32S8U8S32_TN_SATURATE")
SM80_16x8x16_S32S8U8S32_TN = warp_mma("SM80_16x8x16_S32S8U8S32_TN")
SM80_16x8x16_S32S8U8S32_TN_SATURATE = warp_mma("SM80_16x8x16_S32S8U8S32_TN_SATURATE")
SM80_16x8x32_S32S8U8S32_TN = warp_mma("SM80_16x8x32_S32S8U8S32_TN")
SM80_16x8x32_S32S8U8S32_TN_SATURATE = warp_mma("SM80_16x8x32_S32S8U8S32_TN_SATURATE")
SM80_8x8x16_S32U8S8S32_TN = warp_mma("SM80_8x8x16_S32U8S8S32_TN")
SM80_8x8x16_S32U8S8S32_TN_SATURATE = warp_mma("SM80_8x8x16_S32U8S8S32_TN_SATURATE")
SM80_16x8x16_S32U8S8S32_TN = warp_mma("SM80_16x8x16_S32U8S8S32_TN")
SM80_16x8x16_S32U8S8S32_TN_SATURATE = warp_mma("SM80_16x8x16_S32U8S8S32_TN_SATURATE")
SM80_16x8x32_S32U8S8S32_TN = warp_mma("SM80_16x8x32_S32U8S8S32_TN")
SM80_16x8x32_S32U8S8S32_TN_SATURATE = warp_mma("SM80_16x8x32_S32U8S8S32_TN_SATURATE")
SM80_8x8x16_S32U8U8S32_TN = warp_mma("SM80_8x8x16_S32U8U8S32_TN")
SM80_8x8x16_S32U8U8S32_TN_SATURATE = warp_mma("SM80_8x8x16_S32U8U8S32_TN_SATURATE")
SM80_16x8x16_S32U8U8S32_TN = warp_mma("SM80_16x8x16_S32U8U8S32_TN")
SM80_16x8x16_S32U8U8S32_TN_SATURATE = warp_mma("SM80_16x8x16_S32U8U8S32_TN_SATURATE")
SM80_16x8x32_S32U8U8S32_TN = warp_mma("SM80_16x8x32_S32U8U8S32_TN")
SM80_16x8x32_S32U8U8S32_TN_SATURATE = warp_mma("SM80_16x8x32_S32U8U8S32_TN_SATURATE")

SM80_8x8x32_S32S4S4S32_TN = warp_mma("SM80_8x8x32_S32S4S4S32_TN")
SM80_8x8x32_S32S4S4S32_TN_SATURATE = warp_mma("SM80_8x8x32_S32S4S4S32_TN_SATURATE")
SM80_16x8x32_S32S4S4S32_TN = warp_mma("SM80_16x8x32_S32S4S4S32_TN")
SM80_16x8x32_S32S4S4S32_TN_SATURATE = warp_mma("SM80_16x8x32_S32S4S4S32_TN_SATURATE")
SM80_16x8x64_S32S4S4S32_TN = warp_mma("SM80_16x8x64_S32S4S4S32_TN")
SM80_16x8x64_S32S4S4S32_TN_SATURATE = warp_mma("SM80_16x8x64_S32S4S4S32_TN_SATURATE")
SM80_8x8x32_S32S4U4S32_TN = warp_mma("SM80_8x8x32_S32S4U4S32_TN")
SM80_8x8x32_S32S4U4S32_TN_SATURATE = warp_mma("SM80_8x8x32_S32S4U4S32_TN_SATURATE")
SM80_16x8x32_S32S4U4S32_TN = warp_mma("SM80_16x8x32_S32S4U4S32_TN")
SM80_16x8x32_S32S4U4S32_TN_SATURATE = warp_mma("SM80_16x8x32_S32S4U4S32_TN_SATURATE")
SM80_16x8x64_S32S4U4S32_TN = warp_mma("SM80_16x8x64_S32S4U4S32_TN")
SM80_16x8x64_S32S4U4S32_TN_SATURATE = warp_mma("SM80_16x8x64_S32S4U4S32_TN_SATURATE")
SM80_8x8x32_S32U4S4S32_TN = warp_mma("SM80_8x8x32_S32U4S4S32_TN")
SM80_8x8x32_S32U4S4S32_TN_SATURATE = warp_mma("SM80_8x8x32_S32U4S4S32_TN_SATURATE")
SM80_16x8x32_S32U4S4S32_TN = warp_mma("SM80_16x8x32_S32U4S4S32_TN")
SM80_16x8x32_S32U4S4S32_TN_SATURATE = warp_mma("SM80_16x8x32_S32U4S4S32_TN_SATURATE")
SM80_16x8x64_S32U4S4S32_TN = warp_mma("SM80_16x8x64_S32U4S4S32_TN")
SM80_16x8x64_S32U4S4S32_TN_SATURATE = warp_mma("SM80_16x8x64_S32U4S4S32_TN_SATURATE")
SM80_8x8x32_S32U4U4S32_TN = warp_mma("SM80_8x8x32_S32U4U4S32_TN")
SM80_8x8x32_S32U4U4S32_TN_SATURATE = warp_mma("SM80_8x8x32_S32U4U4S32_TN_SATURATE")
SM80_16x8x32_S32U4U4S32_TN = warp_mma("SM80_16x8x32_S32U4U4S32_TN")
SM80_16x8x32_S32U4U4S32_TN_SATURATE = warp_mma("SM80_16x8x32_S32U4U4S32_TN_SATURATE")
SM80_16x8x64_S32U4U4S32_TN = warp_mma("SM80_16x8x64_S32U4U4S32_TN")
SM80_16x8x64_S32U4U4S32_TN_SATURATE = warp_mma("SM80_16x8x64_S32U4U4S32_TN_SATURATE")

SM80_8x8x128_S32U1U1S32_TN_XORPOPC = warp_mma("SM80_8x8x128_S32U1U1S32_TN_XORPOPC")
SM80_16x8x128_S32U1U1S32_TN_XORPOPC = warp_mma("SM80_16x8x128_S32U1U1S32_TN_XORPOPC")
SM80_16x8x256_S32U1U1S32_TN_XORPOPC = warp_mma("SM80_16x8x256_S32U1U1S32_TN_XORPOPC")
SM80_8x8x128_S32U1U1S32_TN_ANDPOPC = warp_mma("SM80_8x8x128_S32U1U1S32_TN_ANDPOPC")
SM80_16x8x128_S32U1U1S32_TN_ANDPOPC = warp_mma("SM80_16x8x128_S32U1U1S32_TN_ANDPOPC")
SM80_16x8x256_S32U1U1S32_TN_ANDPOPC = warp_mma("SM80_16x8x256_S32U1U1S32_TN_ANDPOPC")

# --- sm_89: 16x8x32 on 8-bit floats in all mixes ---------------------------------------------------------------------

SM89_16x8x32_F32E4M3E4M3F32_TN = warp_mma("SM89_16x8x32_F32E4M3E4M3F32_TN")
SM89_16x8x32_F32E4M3E5M2F32_TN = warp_mma("SM89_16x8x32_F32E4M3E5M2F32_TN")
SM89_16x8x32_F32E5M2E4M3F32_TN = warp_mma("SM89_16x8x32_F32E5M2E4M3F32_TN")
SM89_16x8x32_F32E5M2E5M2F32_TN = warp_mma("SM89_16x8x32_F32E5M2E5M2F32_TN")
SM89_16x8x32_F16E4M3E4M3F16_TN = warp_mma("SM89_16x8x32_F16E4M3E4M3F16_TN")
SM89_16x8x32_F16E4M3E5M2F16_TN = warp_mma("SM89_16x8x32_F16E4M3E5M2F16_TN")
SM89_16x8x32_F16E5M2E4M3F16_TN = warp_mma("SM89_16x8x32_F16E5M2E4M3F16_TN")
SM89_16x8x32_F16E5M2E5M2F16_TN = warp_mma("SM89_16x8x32_F16E5M2E5M2F16_TN")
