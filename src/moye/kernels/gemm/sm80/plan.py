"""Layouts and tiled operations of ``gemm_sm80``: how operands lie in shared memory, get there and to registers.

In: a configuration, dtypes, what is contiguous, which edges are ragged.  Out: ``Plan``: what is specialised on.

    make_plan(config, mo.float16, mo.float16, "k", "mn", (False, False, False), 8, False, 1, Epilogue())

Source of the swizzled atoms: CuTe cute/atom/mma_traits_sm90_gmma.hpp, the canonical layouts.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels.gemm.parts.epilogues import Epilogue
from moye.kernels.gemm.sm80.config import TensorConfig, operation
from moye.kernels.gemm.sm80.in_place import room
from moye.kernels.gemm.sm80.lines import raw_layout
from moye.kernels.pack import Plan as Shift

SHIFTED = "shift", "shift_mn"
"""Lines along K, or along M and N, that begin anywhere, of 16 and 32 bits."""

ELEMENTS = "element", "element_mn"
"""Copied one by one, threads side by side along K, or along M and N."""

GRAINS = {"rows": 1, "pairs": 2}
"""Elements that divide the distances of all rows of C to 16 bytes."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a launch is specialised on."""

    config: TensorConfig
    sA: Any
    sB: Any
    sC: mo.Layout
    copy_A: mo.TiledCopy
    copy_B: mo.TiledCopy
    read_A: mo.TiledCopy
    read_B: mo.TiledCopy
    mma: mo.TiledMMA
    store: mo.TiledCopy
    ragged: tuple[bool, bool, bool]
    batched: bool
    splits: int
    epilogue: Epilogue
    shifts: tuple[Shift | None, Shift | None]
    turned: tuple[bool, bool]           # which operands are contiguous along their rows
    raw: tuple[Any, Any]                # where shifted lines of 16 bits arrive
    grain: int                          # rows of C begin anywhere, so many elements apart; 0 where they are aligned
    waves: bool                         # blocks come in several, and neighbours share operands in L2


def major_of(info: Any, rows: int, K: int) -> str:
    """How an operand is copied: "k" or "mn", 16 bytes along what is contiguous, or "element" by element.

    Or "shift" and "shift_mn": 16 bytes along K, or along M and N, of lines that begin anywhere.  "element_mn": elements
    that lie side by side along M and N.
    """
    if 0 in info.shape:
        return "element"                                # nothing is copied, and strides may be anything
    quad = 16 // info.dtype.bytes
    if K % quad == 0 and _in_lines(info, 1):
        return "k"
    if rows % quad == 0 and info.dtype.bits >= 16 and _in_lines(info, 0):
        return "mn"
    if info.dtype.bits in (16, 32):
        for mode, way in zip((1, 0), SHIFTED, strict=True):
            apart = info.dtype.bits == 16 or info.strides[1 - mode] >= info.shape[mode]
            if info.strides[mode] == 1 and info.shape[mode] >= quad and apart:
                return way
    return "element_mn" if info.strides[0] == 1 != info.strides[1] else "element"


def stored(info: Any) -> str:
    """How C is stored: "vector", 16 bytes; "rows" and "pairs", the same of rows that begin anywhere, or at multiples of
    two elements; "element" by element.
    """
    if info.shape[1] % (16 // info.dtype.bytes) == 0 and _in_lines(info, 1):
        return "vector"
    if info.strides[1] != 1 or info.dtype.bytes not in (2, 4) or info.ptr % 16:
        return "element"
    return "rows" if any(step % 2 for step in (info.strides[0], *info.strides[2:])) else "pairs"


def _in_lines(info: Any, mode: int) -> bool:
    """Whether this mode is contiguous, and its lines begin at multiples of 16 bytes.

    Two modes may have stride 1: those of a view of windows, or one of a single element.
    """
    quad = 16 // info.dtype.bytes
    return info.strides[mode] == 1 and info.ptr % 16 == 0 and all(
        step % quad == 0 for i, (n, step) in enumerate(zip(info.shape, info.strides, strict=True))
        if i != mode and (n, step) != (1, 1))


@functools.lru_cache(maxsize=1024)
def make_plan(config: TensorConfig, dtype: Any, out: Any, major_A: str, major_B: str,
              ragged: tuple[bool, bool, bool], store: str, batched: bool, splits: int, epilogue: Epilogue,
              shifts: tuple[Shift | None, Shift | None] = (None, None), waves: bool = True) -> Plan:
    """The plan of one kind of problem; the same object for the same kind.  ArgumentError for a configuration that the
    kernel cannot have.
    """
    op = operation(config, dtype)
    m, n, k = op.shape_mnk
    if config.stages < 2:
        raise mo.ArgumentError(f"gemm_sm80: stages={config.stages} of {config}: one is read while another is filled, "
                               "so there are at least 2")
    _multiples(config, (m * config.wM, 2 * n * config.wN, 2 * k),
               f"{config.wM}x{config.wN} warps of {op}, two fragments of k by turns,")
    mma = mo.make_tiled_mma(op, mo.make_layout((config.wM, config.wN, 1)), (m * config.wM, 2 * n * config.wN, k))
    sA, copy_A = _operand(config, dtype, config.bM, major_A)
    sB, copy_B = _operand(config, dtype, config.bN, major_B)
    turned = along_rows(major_A), along_rows(major_B)
    raw_A, raw_B = (raw_layout(rows, config.bK, config.stages, shift.grain, turned=along)
                    if shift is not None and dtype.bits == 16 else None
                    for rows, along, shift in zip((config.bM, config.bN), turned, shifts, strict=True))
    for copy, tile, shift in ((copy_A, (copy_A.tiler[0], 1, copy_A.tiler[1]), shifts[0]),
                              (copy_B, (1, *copy_B.tiler), shifts[1])):
        if shift is None:                               # any number of threads copies what is shifted
            _shared_out(config, copy, tile)
    return Plan(config, sA, sB, _staged(config, out, m * config.wM, store), copy_A, copy_B,
                mo.make_tiled_copy_A(_reader(dtype, major_A), mma), mo.make_tiled_copy_B(_reader(dtype, major_B), mma),
                mma, _store_copy(config, out, store), ragged, batched, splits, epilogue, shifts, turned, (raw_A, raw_B),
                GRAINS.get(store, 0), waves)


@functools.lru_cache(maxsize=4096)
def shared_bytes(config: TensorConfig, dtype: Any, out: int, majors: tuple[str, str], store: str) -> int:
    """Bytes of shared memory of a block, C having elements of ``out`` bytes; those of shifted lines lie farthest."""
    rows = tuple(zip((config.bM, config.bN), majors, strict=True))
    tiles: int = sum(int(mo.cosize(_shared(config, dtype, extent, major))) for extent, major in rows) * dtype.bytes
    arriving = sum(int(mo.cosize(raw_layout(extent, config.bK, config.stages, 1, turned=along_rows(major)))) * 4
                   for extent, major in rows if major in SHIFTED and dtype.bits == 16)
    pitch = config.bN + max(8, 16 // out)
    staged: int = operation(config, dtype).shape_mnk[0] * config.wM * pitch * out
    return tiles + arriving + staged


def _staged(config: TensorConfig, out: Any, rows: int, store: str) -> mo.Layout:
    """Shared layout (rows, bN) of C on its way out, whose rows start in other banks; those that begin anywhere use the
    room behind them.
    """
    pitch = config.bN + max(8, 16 // out.bytes)
    return mo.make_layout((rows, pitch if store in GRAINS else config.bN), (pitch, 1))


def _store_copy(config: TensorConfig, out: Any, store: str) -> mo.TiledCopy:
    """Shared memory to C, 16 bytes or an element at a time."""
    vector = 16 // out.bytes if store == "vector" else 1
    across = min(config.bN // vector, config.threads)
    atom = mo.CopyAtom(mo.UniversalCopy(mo.uint128 if vector > 1 else out), out)
    return mo.make_tiled_copy(atom, mo.make_layout((config.threads // across, across), (across, 1)),
                              mo.make_layout((1, vector)))


def _shared_out(config: TensorConfig, copy: mo.TiledCopy, tile: tuple[int, ...]) -> None:
    """ArgumentError unless the threads share out an operand's tile evenly."""
    if copy.threads != config.threads:
        raise mo.ArgumentError(f"gemm_sm80: the {config.threads} threads of {config} do not share out rows of "
                               f"bK={config.bK} elements, 16 bytes each")
    _multiples(config, tile, f"{copy.threads} threads of {copy.atom}")


def _multiples(config: TensorConfig, tile: tuple[int, ...], what: str) -> None:
    """ArgumentError where the extents of a configuration's tile are no multiples of these."""
    for name, extent, of in zip(("bM", "bN", "bK"), (config.bM, config.bN, config.bK), tile, strict=True):
        if extent % of:
            raise mo.ArgumentError(f"gemm_sm80: {name}={extent} of {config} is no multiple of {of}, which {what} cover")


def _reader(dtype: Any, major: str) -> mo.CopyAtom:
    """Shared memory to registers: ldmatrix where it can, else element by element."""
    if by_matrix(dtype, major):
        return mo.CopyAtom(mo.LdMatrix(4, transpose=along_rows(major)), dtype)
    return mo.CopyAtom(mo.UniversalCopy(dtype), dtype)


def by_matrix(dtype: Any, major: str) -> bool:
    """Whether ldmatrix can read a tile that is contiguous along K or along M and N."""
    return bool(dtype.bits == 16 or (dtype.bits <= 32 and not along_rows(major) and major not in SHIFTED))


def along_rows(major: str) -> bool:
    """Whether a tile of an operand is contiguous along M or N in shared memory."""
    return major in ("mn", "shift_mn")


def _operand(config: TensorConfig, dtype: Any, rows: int, major: str) -> tuple[Any, mo.TiledCopy]:
    """Shared layout (rows, bK, stages) and the copy that fills it."""
    quad, threads, bK = 16 // dtype.bytes, config.threads, config.bK
    if along_rows(major):
        across = max(min(128 // dtype.bytes, rows) // quad, threads // bK)
        thr = _across_banks(across, threads // across, padded=not by_matrix(dtype, major))
        val = mo.make_layout((quad, 1))
    else:
        across = bK // quad if major not in ELEMENTS else min(bK, threads)
        thr = mo.make_layout((threads // across, across), (across, 1))
        if major == "element_mn":
            across = min(rows, threads)
            thr = mo.make_layout((across, threads // across))
        val = mo.make_layout((1, quad if major not in ELEMENTS else 1))
    copy: Any = mo.CpAsync(mo.uint128, cache="global")
    if major in ELEMENTS:                               # cp.async copies 4, 8 or 16 bytes
        copy = mo.CpAsync({4: mo.uint32, 8: mo.uint64}[dtype.bytes]) if dtype.bytes >= 4 else mo.UniversalCopy(dtype)
    return _shared(config, dtype, rows, major), mo.make_tiled_copy(mo.CopyAtom(copy, dtype), thr, val)


def _across_banks(across: int, deep: int, *, padded: bool) -> Any:
    """Threads (rows, k) of a copy whose rows lie side by side.

    The eight threads whose 16 bytes meet in shared memory write all banks: where four cover the rows of a padded tile,
    the next four write not the next k but the one after it, which the padding of 32 bytes moves by half of the banks.
    """
    if padded and across == 4:
        return mo.make_layout((across, (2, 2, deep // 4)), (1, (2 * across, across, 4 * across)))
    return mo.make_layout((across, deep))


def _shared(config: TensorConfig, dtype: Any, rows: int, major: str) -> Any:
    """Swizzled atoms for ldmatrix; padded columns or rows for element-wise reads; all that arrives of shifted words."""
    quad, bK, stages = 16 // dtype.bytes, config.bK, 1 if major in SHIFTED else config.stages
    if dtype.bits == 32 and major in SHIFTED:
        return room(rows, bK, config.stages, turned=along_rows(major))
    if not by_matrix(dtype, major):
        if along_rows(major):
            pitch = rows + 32 // dtype.bytes
            return mo.make_layout((rows, bK, stages), (1, pitch, pitch * bK))
        pitch = bK + 32 // dtype.bytes
        return mo.make_layout((rows, bK, stages), (pitch, 1, pitch * rows))
    line = min(128 // dtype.bytes, rows if along_rows(major) else bK)       # elements side by side: 32, 64 or 128 bytes
    swizzle = mo.Swizzle((line // quad).bit_length() - 1, quad.bit_length() - 1, 3)
    inner = mo.make_layout((line, 8), (1, line)) if along_rows(major) else mo.make_layout((8, line), (line, 1))
    return mo.tile_to_shape(mo.ComposedLayout(swizzle, 0, inner), (rows, bK, stages))
