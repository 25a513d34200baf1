"""Operations that every architecture has: plain copies, cp.async, scalar FMA.

In: a dtype (only its width counts for copies).  Out: ``CopyOp`` / ``MmaOp`` records.

>>> CpAsync(float64, cache="always").bytes
8

Source: PTX ISA, "Data Movement and Conversion Instructions: cp.async"; CuTe cute/arch/copy.hpp, mma.hpp.
"""

from __future__ import annotations

from moye.atoms.atom import CopyOp, MmaOp
from moye.dtypes import DType, require_dtype
from moye.errors import DTypeError
from moye.layout import make_layout

AUTO_COPY = CopyOp("AutoVectorizingCopy", None)


def UniversalCopy(dtype: DType) -> CopyOp:
    """A load and a store of ``dtype.bits`` bits per thread: 8, 16, 32, 64 or 128."""
    require_dtype("UniversalCopy", dtype)
    if dtype.bits not in (8, 16, 32, 64, 128):
        raise DTypeError(f"UniversalCopy({dtype}): an access is 8, 16, 32, 64 or 128 bits wide, not {dtype.bits}")
    return CopyOp(f"UniversalCopy({dtype})", dtype.bits)


def CpAsync(dtype: DType, *, cache: str = "always") -> CopyOp:
    """cp.async: global to shared memory, ``dtype.bytes`` bytes per thread: 4, 8 or 16.

    ``dtype`` is only a width.  ``cache="always"`` is cp.async.ca (L1 and L2).  ``cache="global"`` is cp.async.cg (L2
    only), which exists only for 16 bytes.  Source: PTX ISA, cp.async.
    """
    require_dtype("CpAsync", dtype)
    if cache not in ("always", "global"):
        raise DTypeError(f'CpAsync({dtype}, cache={cache!r}): cache is "always" or "global"')
    if dtype.bits not in (32, 64, 128):
        raise DTypeError(f"CpAsync({dtype}): cp.async copies 4, 8 or 16 bytes, not {dtype.bits / 8:g}")
    if cache == "global" and dtype.bits != 128:
        raise DTypeError(f'CpAsync({dtype}, cache="global"): cp.async.cg copies 16 bytes, not {dtype.bytes}',
                         hint='use cache="always", or a 16-byte type such as mo.uint128')
    level = "ca" if cache == "always" else "cg"
    ptx = f"cp.async.{level}.shared.global [%0], [%1], {dtype.bytes};"
    return CopyOp(f'CpAsync({dtype}, cache="{cache}")', dtype.bits, "cp.async", cache, ptx)


def UniversalFMA(a: DType, b: DType | None = None, c: DType | None = None) -> MmaOp:
    """The operation d = a * b + c by one thread on one element: 1x1x1."""
    b, c = a if b is None else b, a if c is None else c
    for dtype in (a, b, c):
        require_dtype("UniversalFMA", dtype)
    one = make_layout((1, 1))
    name = f"UniversalFMA({a})" if a == b == c else f"UniversalFMA({a}, {b}, {c})"
    return MmaOp(name, (1, 1, 1), a, b, c, c, 1, one, one, one)
