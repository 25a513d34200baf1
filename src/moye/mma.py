"""Every tensor-core operation under CuTe's name, and searches by dtypes among those of warps and of warpgroups.

In: an attribute or dtypes.  Out: ``MmaOp`` records, for ``make_tiled_mma`` and ``gemm``.

>>> mo.mma.SM80_16x8x8_F32TF32TF32F32_TN
SM80_16x8x8_F32TF32TF32F32_TN
>>> mo.mma.find(mo.bfloat16, mo.bfloat16, mo.float32, shape=(16, 8, 16))
[SM80_16x8x16_F32BF16BF16F32_TN]
>>> mo.mma.wgmma(mo.bfloat16, mo.bfloat16, mo.float32, 256)
SM90_64x256x16_F32BF16BF16_SS

The records are data of ``moye.atoms``.  Those of warpgroups are not in ``ALL``, and neither is ``UniversalFMA``.
"""

from __future__ import annotations

import difflib
import re
from typing import Any

from moye.atoms import mma_sync, sm90
from moye.atoms.atom import MmaOp
from moye.dtypes import DType, float32, require_dtype
from moye.errors import DTypeError

_WARPGROUP = frozenset(sm90.NAMES)


ALL: dict[str, MmaOp] = {name: record for module in (mma_sync, sm90) for name, record in vars(module).items()
                         if isinstance(record, MmaOp)}
"""Name -> record of the operations of threads, quad-pairs and warps, oldest architecture first."""

__all__ = ["ALL", "find", "wgmma"]


def find(a: DType, b: DType, c: DType, shape: tuple[int, int, int] | None = None,
         arch: str | int | None = None) -> list[MmaOp]:
    """The operations on A of ``a``, B of ``b`` and accumulators of ``c``, the newest and largest first.

    ``shape`` is (M, N, K) of one instruction, and ``arch`` the architecture it must run on ("sm_80", "sm_90a" or 80).
    If there is none, it raises DTypeError with what is possible.
    """
    for dtype in (a, b, c):
        require_dtype("mma.find", dtype)
    have = None if arch is None else _number(arch)
    shape = tuple(shape) if isinstance(shape, list) else shape
    fits = [op for op in ALL.values() if (op.a_dtype, op.b_dtype, op.c_dtype) == (a, b, c)]
    if not fits:
        raise _no_dtypes(a, b, c)
    found = [op for op in fits if shape in (None, op.shape_mnk) and (have is None or op.arch <= have)]
    if not found:
        asked = (f" of shape {shape}" if shape else "") + (f" on sm_{have}" if have else "")
        listed = ", ".join(f"{op} {op.shape_mnk} from sm_{op.arch} on" for op in fits)
        raise DTypeError(f"no MMA operation of A {a}, B {b} and C {c}{asked}; there are {listed}")
    return sorted(found, key=lambda op: (op.arch, op.shape_mnk[0] * op.shape_mnk[2], not op.saturate), reverse=True)


def wgmma(a: DType, b: DType, c: DType, n: int, *, a_major: str = "k", b_major: str = "k",
          a_source: str = "shared") -> MmaOp:
    """The operation of a warpgroup (sm_90a) on A of ``a``, B of ``b`` and accumulators of ``c``: 64 x ``n`` x 32 bytes.

    B lies in shared memory and A in "shared" memory or in "registers".  A major is the mode along which an operand in
    shared memory is contiguous: "k", or "mn" for 16-bit operands.  Raises DTypeError with what is possible.
    """
    for dtype in (a, b, c):
        require_dtype("mma.wgmma", dtype)
    asked = f"mma.wgmma({a}, {b}, {c}, {n!r})"
    families = {tuple(mma_sync.DTYPES[word] for word in (x.a, x.b, x.d)): x for x in sm90.FAMILIES}
    family = families.get((a, b, c))
    if family is None:
        listed = "; ".join(", ".join(map(str, triple)) for triple in families)
        raise DTypeError(f"{asked}: wgmma has no operation of A {a}, B {b} and C {c}; there are {listed}",
                         hint="tensor cores take float32 operands as tfloat32" if float32 in (a, b) else None)
    if n not in family.columns:
        listed = ", ".join(map(str, family.columns)) if family.integer else "the multiples of 8 from 8 to 256"
        raise DTypeError(f"{asked}: N of wgmma on {a} and {b} is one of {listed}, not {n!r}")
    if a_source not in ("shared", "registers"):
        raise DTypeError(f'{asked}: a_source is "shared" or "registers", not {a_source!r}')
    for name, major in (("a_major", a_major), ("b_major", b_major)):
        if major not in ("k", "mn"):
            raise DTypeError(f'{asked}: {name} is "k" or "mn", not {major!r}')
    source = "SS" if a_source == "shared" else "RS"
    majors = ("T" if a_major == "k" else "N") + ("N" if b_major == "k" else "T")
    if majors not in family.majors(source):
        raise DTypeError(_no_majors(asked, a, a_major, b_major, len(family.majors(source)) == 1))
    return sm90.warpgroup_mma(family.name(n, source, majors))


def _no_majors(asked: str, a: DType, a_major: str, b_major: str, only_k: bool) -> str:
    if only_k:
        return (f'{asked}: operands of {a.bits} bits are contiguous along K, a_major="k" and b_major="k", not '
                f'a_major="{a_major}" and b_major="{b_major}"')
    return f'{asked}: A in registers has a_major="k", not "{a_major}"; b_major may be "k" or "mn"'


def _no_dtypes(a: DType, b: DType, c: DType) -> DTypeError:
    """The operations that share both operands, else one, else all, as (A, B, C)."""
    every = list(dict.fromkeys((op.a_dtype, op.b_dtype, op.c_dtype) for op in ALL.values()))
    near = ([triple for triple in every if triple[:2] == (a, b)]
            or [triple for triple in every if triple[0] == a or triple[1] == b] or every)
    listed = "; ".join(", ".join(map(str, triple)) for triple in near)
    return DTypeError(f"no MMA operation of A {a}, B {b} and C {c}; there are {listed}",
                      hint="tensor cores take float32 operands as tfloat32" if float32 in (a, b) else None)


def _number(arch: str | int) -> int:
    match = re.fullmatch(r"(?:sm_|compute_)?(\d{2,3})[af]?", str(arch))
    if match is None:
        raise DTypeError(f"mma.find: {arch!r} is not an architecture such as 'sm_80', 'sm_90a' or 80")
    return int(match[1])


def __getattr__(name: str) -> Any:
    if name in _WARPGROUP:
        return sm90.warpgroup_mma(name)
    record = ALL.get(name)
    if record is None:
        near = ", ".join(difflib.get_close_matches(name, sm90.NAMES if name.startswith("SM90") else ALL, 3))
        raise AttributeError(f"there is no MMA operation {name!r}; mo.mma.ALL has all {len(ALL)}, dir(mo.mma) those of "
                             "warpgroups too" + (f", the nearest {near}" if near else ""))
    return record


def __dir__() -> list[str]:
    return [*__all__, *ALL, *sm90.NAMES]
