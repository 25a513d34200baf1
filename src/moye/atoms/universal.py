"""Operations that every architecture has: plain copies, cp.async, scalar FMA.

In: a dtype (only its width counts for copies).  Out: ``CopyOp`` / ``MmaOp`` records.

>>> CpAsync(float64, cache="always").bytes
8

Source: PTX ISA, "Data Movement and Conversion Instructions: cp.async"; CuTe cute/arch/copy.hpp, mma.hpp.
"""

from __future__ import annotations

from dataclasses import replace

from moye.atoms.atom import CopyOp, MmaOp
from moye.dtypes import DType, require_dtype
from moye.errors import DTypeError
from moye.layout import make_layout

AUTO_COPY = CopyOp("AutoVectorizingCopy", None)


HINTS = ("evict_first", "evict_last", "no_allocate")
PREFETCHES = (64, 128, 256)


def AutoCopy(*, hint: str | None = None, prefetch: int | None = None) -> CopyOp:
    """A load and a store as wide as layouts and alignments prove, with hints for caches as of ``UniversalCopy``."""
    return _hinted(AUTO_COPY, "AutoCopy", "", hint, prefetch)


def UniversalCopy(dtype: DType, *, hint: str | None = None, prefetch: int | None = None) -> CopyOp:
    """A load and a store of ``dtype.bits`` bits per thread: 8, 16, 32, 64 or 128.

    ``hint`` is for the end in global memory.  "evict_first" and "evict_last" are priorities in L1 and L2: what is read
    once leaves first, what will be read again last.  "no_allocate" keeps it out of L1.  A load brings ``prefetch``
    bytes (64, 128 or 256) to L2.  DTypeError for others.  Source: PTX ISA, ld, st: level::eviction_priority,
    level::cache_hint, level::prefetch_size.
    """
    require_dtype("UniversalCopy", dtype)
    if dtype.bits not in (8, 16, 32, 64, 128):
        raise DTypeError(f"UniversalCopy({dtype}): an access is 8, 16, 32, 64 or 128 bits wide, not {dtype.bits}")
    return _hinted(CopyOp("", dtype.bits), "UniversalCopy", str(dtype), hint, prefetch)


def _hinted(op: CopyOp, name: str, dtype: str, hint: str | None, prefetch: int | None) -> CopyOp:
    """The operation with hints for caches, which its name tells."""
    if hint is not None and hint not in HINTS:
        raise DTypeError(f"{name}: the hint is {', '.join(map(repr, HINTS[:-1]))} or {HINTS[-1]!r}, not {hint!r}")
    if prefetch is not None and prefetch not in PREFETCHES:
        raise DTypeError(f"{name}: a load prefetches 64, 128 or 256 bytes, not {prefetch!r}")
    told = [dtype] if dtype else []
    told += [f'hint="{hint}"'] if hint else []
    told += [f"prefetch={prefetch}"] if prefetch else []
    return replace(op, name=f"{name}({', '.join(told)})", hint=hint or "", prefetch=prefetch or 0)


def CpAsync(dtype: DType, *, cache: str = "always", prefetch: int | None = None) -> CopyOp:
    """cp.async: global to shared memory, ``dtype.bytes`` bytes per thread: 4, 8 or 16.

    ``dtype`` is only a width.  ``cache="always"`` is cp.async.ca (L1 and L2).  ``cache="global"`` is cp.async.cg (L2
    only), which exists only for 16 bytes.  ``prefetch`` bytes (64, 128 or 256) are brought to L2.
    Source: PTX ISA, cp.async.
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
    if prefetch is not None and prefetch not in PREFETCHES:
        raise DTypeError(f"CpAsync({dtype}): a load prefetches 64, 128 or 256 bytes, not {prefetch!r}")
    more, told = (f".L2::{prefetch}B", f", prefetch={prefetch}") if prefetch else ("", "")
    ptx = f"cp.async.{level}.shared.global{more} [%0], [%1], {dtype.bytes};"
    return CopyOp(f'CpAsync({dtype}, cache="{cache}"{told})', dtype.bits, "cp.async", cache, ptx,
                  prefetch=prefetch or 0)


def UniversalFMA(a: DType, b: DType | None = None, c: DType | None = None) -> MmaOp:
    """The operation d = a * b + c by one thread on one element: 1x1x1."""
    b, c = a if b is None else b, a if c is None else c
    for dtype in (a, b, c):
        require_dtype("UniversalFMA", dtype)
    one = make_layout((1, 1))
    name = f"UniversalFMA({a})" if a == b == c else f"UniversalFMA({a}, {b}, {c})"
    return MmaOp(name, (1, 1, 1), a, b, c, c, 1, one, one, one)
