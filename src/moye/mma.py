"""Every register-level tensor-core operation under CuTe's name, and a search by dtypes.

In: an attribute or dtypes.  Out: ``MmaOp`` records, for ``make_tiled_mma`` and ``gemm``.

>>> mo.mma.SM80_16x8x8_F32TF32TF32F32_TN
>>> mo.mma.find(mo.bfloat16, mo.bfloat16, mo.float32, shape=(16, 8, 16))
[SM80_16x8x16_F32BF16BF16F32_TN]

The records are data of ``moye.atoms``; warpgroup operations and ``UniversalFMA`` are not among them.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from moye.atoms import sm70, sm75, sm80, sm89
from moye.atoms.atom import MmaOp
from moye.dtypes import DType
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
    have = None if arch is None else _number(arch)
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
    """The operations that share the operands, else all, as (A, B, C)."""
    every = list(dict.fromkeys((op.a_dtype, op.b_dtype, op.c_dtype) for op in ALL.values()))
    near = [triple for triple in every if triple[:2] == (a, b)] or every
    listed = "; ".join(", ".join(map(str, triple)) for triple in near)
    return DTypeError(f"no MMA operation of A {a}, B {b} and C {c}; there are {listed}")


def _number(arch: str | int) -> int:
    return arch if isinstance(arch, int) else int(arch.removeprefix("sm_").rstrip("af"))


def __getattr__(name: str) -> Any:
    record = ALL.get(name)
    if record is None:
        raise AttributeError(f"there is no MMA operation {name!r}; mo.mma.ALL has all {len(ALL)}")
    return record


def __dir__() -> list[str]:
    return [*__all__, *ALL]
