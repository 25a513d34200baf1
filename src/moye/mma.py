"""Every register-level tensor-core operation under CuTe's name, and a search by dtypes.

In: an attribute or dtypes.  Out: ``MmaOp`` records, for ``make_tiled_mma`` and ``gemm``.

>>> mo.mma.SM80_16x8x8_F32TF32TF32F32_TN
>>> mo.mma.find(mo.bfloat16, mo.bfloat16, mo.float32, shape=(16, 8, 16))
[SM80_16x8x16_F32BF16BF16F32_TN]

The records are data of ``moye.atoms``; warpgroup operations and ``UniversalFMA`` are not among them.
"""

from __future__ import annotations

import difflib
import re
from types import ModuleType
from typing import Any

from moye.atoms import sm70, sm75, sm80, sm89
from moye.atoms.atom import MmaOp
from moye.dtypes import DType, float32, require_dtype
from moye.errors import DTypeError


def _records(*modules: ModuleType) -> dict[str, MmaOp]:
    return {name: record for module in modules for name, record in vars(module).items() if isinstance(record, MmaOp)}


ALL: dict[str, MmaOp] = _records(sm70, sm75, sm80, sm89)
"""Name -> record, oldest architecture first."""

__all__ = ["ALL", "find"]


def find(a: DType, b: DType, c: DType, shape: tuple[int, int, int] | None = None,
         arch: str | int | None = None) -> list[MmaOp]:
    """The operations on A of ``a``, B of ``b`` and accumulators of ``c``, the newest and largest first.

    ``shape`` is (M, N, K) of one instruction; ``arch`` the architecture they must run on ("sm_80", "sm_90a" or 80).
    Raises DTypeError with what is possible where there is none.
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
    record = ALL.get(name)
    if record is None:
        near = ", ".join(difflib.get_close_matches(name, ALL, 3))
        raise AttributeError(f"there is no MMA operation {name!r}; mo.mma.ALL has all {len(ALL)}"
                             + (f", the nearest {near}" if near else ""))
    return record


def __dir__() -> list[str]:
    return [*__all__, *ALL]
