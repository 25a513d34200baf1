"""Matrix products on Hopper's warpgroup instructions: C = A @ B.T with fused epilogues; sm_90a.

In: A (M, K), B (N, K), C (M, N), or batches of them.  Out: C, written in place.

    gemm_sm90(A, B, C, bias=bias, activation="gelu")
    gemm_sm90(X, W, C, activation="silu", gated=True)          # W (2 N, K): silu(X @ W[:N].T) * (X @ W[N:].T)

Operands that TMA or the instruction cannot take as they are get copied first, row by row along K.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import moye as mo
from moye.kernels.gemm.parts.arguments import (
    activation_of,
    addend,
    configured,
    contiguous_mode,
    matrices,
    same_problem,
    scalar,
)
from moye.kernels.gemm.parts.epilogues import ACTIVATIONS
from moye.kernels.gemm.sm90.choice import choose
from moye.kernels.gemm.sm90.config import (
    MOST,
    SKINNY,
    Problem,
    WarpgroupConfig,
    overlap_of,
    require,
    resident,
    shares,
    takes_rows,
)
from moye.kernels.gemm.sm90.fusion import Fusion
from moye.kernels.gemm.sm90.kernel import gemm_sm90_kernel
from moye.kernels.gemm.sm90.plan import Plan, make_plan
from moye.kernels.gemm.sm90.scales import BLOCK, by_tma, check_scales, no_blocks, tma_scales
from moye.kernels.options import flag
from moye.kernels.pack import both_packed, packed
from moye.kernels.workspace import MAKES_ARRAYS, counters, empty, halves, swapped, zeros

Activation = str | Callable[[Any], Any]
_HALF, EIGHTH = (mo.float16, mo.bfloat16), (mo.float8_e4m3fn, mo.float8_e5m2)
_STORE = mo.TmaStore()
_LONGEST = (1 << 31) - 1024
_MOST_BLOCKS = (1 << 16) - 1            # along y and z of a grid
OUTPUTS: dict[Any, tuple[Any, ...]] = {
    **dict.fromkeys((*_HALF, *EIGHTH), (*_HALF, mo.float32)), mo.float32: (mo.float32, *_HALF),
    **dict.fromkeys((mo.int8, mo.uint8), (mo.int32,))}
"""What C may hold, for each dtype of A and B; float32 operands are multiplied as tfloat32."""


def gemm_sm90(A: Any, B: Any, C: Any, *, bias: Any = None, residual: Any = None, activation: Activation = "none",
              gated: bool = False, row_scale: Any = None, col_scale: Any = None, alpha: float = 1, beta: float = 0,
              scale_a: Any = None, scale_b: Any = None, fast_accum: bool = False,
              config: WarpgroupConfig | None = None) -> Any:
    """C = activation(alpha * row_scale * col_scale * A @ B.T + beta * C + residual + bias), in place; returns C.

    A is (M, K), B (N, K) and C (M, N), or (M, K, L), (N, K, L) and (M, N, L), on one device (sm_90a), of any strides. A
    and B may be float16, bfloat16, float8 or float32 (multiplied as tfloat32) with C float32, float16 or bfloat16; int8
    or uint8 with C int32.  ``residual`` is like C, ``bias`` and ``col_scale`` have N elements, and ``row_scale`` has M.
    ``activation`` is "none", "relu", "gelu", "silu" or a function of a register tensor, whose globals are read once.
    With ``gated``, B, bias and col_scale have 2 N rows, and C = activation(first half) * second half.  Sums of float8
    products are kept in float32, but with ``fast_accum`` in the tensor core's 14 bits.  ``scale_a`` (M, K / 128[, L])
    and ``scale_b`` (N / 128, K / 128[, L]), float32 with extents rounded up, are factors of blocks of float8 operands:
    of a row and 128 of K of A, of 128 x 128 elements of B.  ``config`` overrides the choice.  ArgumentError for other
    arguments.
    """
    a, b, c = matrices("gemm_sm90", A, B, C, ranks=(2, 3))
    gated, fast_accum = flag("gemm_sm90", "gated", gated), flag("gemm_sm90", "fast_accum", fast_accum)
    _check(a, b, c, gated)
    _check_more(b, c, bias, residual, row_scale, col_scale, gated and (residual is not None or beta != 0))
    scaled = check_scales("gemm_sm90", scale_a, scale_b, a, b, c, {"gated=True": gated, "fast_accum=True": fast_accum})
    configured("gemm_sm90", config, WarpgroupConfig)
    factors = scalar(alpha, a.dtype, "gemm_sm90"), scalar(beta, a.dtype, "gemm_sm90")
    function = activation_of("gemm_sm90", activation, ACTIVATIONS)
    if 0 in c.shape:
        return C
    if a.shape[1] == 0:                                 # TMA has no maps of empty arrays
        A, B = (zeros(C, a.dtype, (x.shape[0], 16, *x.shape[2:])) for x in (a, b))
        a, b = mo.describe(A), mo.describe(B)
        if scaled:
            scale_a, scale_b = no_blocks(C, a), no_blocks(C, b, BLOCK)
    fusion = Fusion(bool(alpha != 1), row_scale is not None, col_scale is not None, bool(beta != 0),
                    residual is not None, bias is not None, function, gated)
    recipe = _recipe(*(x._replace(ptr=x.ptr % 16) for x in (a, b, c)), fusion,
                     a.dtype in EIGHTH and not fast_accum, config, mo.multiprocessors(c),
                     ("tma" if by_tma(scale_a) else "threads") if scaled else "")
    _launch(recipe, A, B, C, residual, (bias, row_scale, col_scale), factors, (scale_a, scale_b))
    return C


@dataclass(frozen=True, slots=True)
class _Recipe:
    """All of a launch that follows from what the arrays are like: A, B and C as they are multiplied."""

    plan: Plan
    copied: tuple[bool, bool]
    loads: tuple[mo.TmaLoad, mo.TmaLoad]
    boxes: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    grid: tuple[int, ...]
    slots: int


@functools.lru_cache(maxsize=4096)
def _recipe(a: Any, b: Any, c: Any, fusion: Fusion, promote: bool, config: WarpgroupConfig | None,
            multiprocessors: int, scaled: str = "") -> _Recipe:
    """The configuration and its plan; once for arrays of one kind."""
    check_extents("gemm_sm90", a, b)
    if config is None:
        config = choose(problem_of(a, b, c, fusion, promote, scaled != ""), multiprocessors)
    if config.split_k > max(1, -(-a.shape[1] // config.bK)):
        raise mo.ArgumentError(f"gemm_sm90: split_k={config.split_k} of {config} makes more parts than K={a.shape[1]} "
                               "has tiles")
    if config.swap:
        a, b, c = b, a, turned(c)
    M, N, K, batched = c.shape[0], c.shape[1], a.shape[1], len(c.shape) == 3
    require(config, multiplied(a.dtype), gated=fusion.gated, scaled=scaled != "")       # before its blocks are counted
    modes = [loaded(a), loaded(b, 2 if fusion.gated else 1)]
    majors = ["mn" if mode == 0 else "k" for mode in modes]
    major_C = "" if fusion.accumulate else stored(c, config.store)
    dtypes = (multiplied(a.dtype), multiplied(b.dtype))
    rows = not major_C and _rows(c, fusion) == "N" and takes_rows(config, a.dtype.bytes, N, scaled=scaled != "")
    overlap = overlap_of(config, N, scaled=scaled != "") if rows else 0
    last, halves = (1,) if batched else (), 2 if fusion.gated else 1
    across = (config.bN // halves - overlap) * config.share_A
    tiles = (-(-M // (config.bM * config.share_B)), -(-(N + max(0, overlap - 1)) // across),
             c.shape[2] if batched else 1)              # of clusters
    at_once = mo.resident_clusters(c, config.cluster) if c.device is not None else \
        resident(config, multiprocessors) // config.cluster
    grid, slots = _grid(config, tiles, at_once, -(-K // config.bK))
    plan = make_plan(config, dtypes, c.dtype, *majors, major_C, fusion, width(c), promote, batched,
                     (M, N, K) if config.static else None, scaled, rows, overlap,
                     follows=None in modes and len(grid) > 1, once=len(grid) > 1)
    boxes = ((config.bM, config.bK, *last), (config.bN // halves, config.bK, *last),
             (mo.size(plan.C.box, 0), plan.C.columns, *last) if major_C else ())
    loads = _load(a, modes[0], config.bN >= N and config.bN <= SKINNY[-1]), _load(b, modes[1], False)
    return _Recipe(plan, (modes[0] is None, modes[1] is None), loads, boxes, grid, slots)


def _load(info: Any, mode: int | None, once: bool) -> mo.TmaLoad:
    """How TMA loads an operand, which is read ``once`` or more often.

    Rows of a tile that lie along the operand's begin anywhere where its lines do: whole lines of memory would be two
    for each, which other blocks ask for, or nobody for long.  Measured: up to 8 % where it is read once.
    """
    apart = once and mode == 0 and line_of(info) < 128
    return mo.TmaLoad(rounding=mo.tfloat32 if info.dtype == mo.float32 else None, prefetch=64 if apart else 128)


def problem_of(a: Any, b: Any, c: Any, fusion: Fusion, promote: bool, scaled: bool = False) -> Problem:
    """What the choice depends on."""
    plain = fusion.accumulate or not stored(c, "warpgroup")
    batches = c.shape[2] if len(c.shape) == 3 else 1
    return Problem(a.shape[0], c.shape[1], a.shape[1], batches, a.dtype, promote, fusion.gated,
                   (line_of(a), line_of(b)), loaded(a) == 0, loaded(b) == 0, plain, _most(c, fusion, plain),
                   c.kind in MAKES_ARRAYS, scaled, _rows(c, fusion) if plain else "", _copies(a, b, fusion),
                   c.dtype.bytes)


def _most(c: Any, fusion: Fusion, plain: bool) -> int:
    """Sums of a thread that leave registers for their way to C: for what is fused, for addresses.

    Gated tiles have half as many when they are stored; a residual along M is read element by element, and results of 32
    bits with a bias leave along it from more registers.
    """
    batched, apart = len(c.shape) == 3, plain and (width(c) == 1 or c.dtype.bits == 16)         # the latter by rows
    if fusion.gated:
        return 128 if batched or apart or fusion.bias or fusion.rows or fusion.columns else MOST
    if (fusion.residual or (fusion.bias and c.dtype.bits == 32)) and not plain and stored(c, "warpgroup") == "mn":
        return 120
    if plain and batched and not fusion.plain:
        return 88
    return 128 if not fusion.plain or apart or (plain and batched) else MOST


def _copies(a: Any, b: Any, fusion: Fusion) -> tuple[int, ...]:
    """Bytes of each operand that is copied first."""
    modes = loaded(a), loaded(b, 2 if fusion.gated else 1)
    return tuple(math.prod(x.shape) * x.dtype.bytes for x, mode in zip((a, b), modes, strict=True) if mode is None)


def turned(info: Any) -> Any:
    """Of C.T."""
    (M, N, *batches), (m, n, *apart) = info.shape, info.strides
    return info._replace(shape=(N, M, *batches), strides=(n, m, *apart))


def _grid(config: WarpgroupConfig, tiles: tuple[int, int, int], at_once: int, k_tiles: int) -> \
        tuple[tuple[int, ...], int]:
    """The grid of so many clusters of tiles along M, N and batches, where the device holds ``at_once`` clusters of
    blocks; and how many places in memory there are for sums.  Where every cluster has one tile it is a grid of tiles.
    """
    (m, n, batches), clusters = tiles, math.prod(tiles)
    if config.stream_k:
        blocks = shares(clusters, k_tiles, at_once) * config.cluster
        return (blocks,), blocks
    meets = config.split_k > 1 and config.gather == "memory"
    if meets and config.split_k > at_once:              # who waits in vain for a block that finds no place
        raise mo.ArgumentError(f"gemm_sm90: split_k={config.split_k} of {config} makes more parts than the {at_once} "
                               "that the device holds at once")
    # The blocks of a cluster that split a tile end with it; others go on to their next.
    most = clusters if config.split_k > 1 and not meets else at_once // config.split_k
    slots = clusters * config.share_A * config.share_B if meets else 0
    x, y = (n, m) if config.raster == 1 else (m, n)     # as kernel.place_of_block reads it
    if clusters <= most and config.schedule == "cooperative" and max(y, batches) <= _MOST_BLOCKS:
        return (x * config.sharing, y, batches), slots
    return (min(clusters, most) * config.sharing,), slots


def _launch(recipe: _Recipe, A: Any, B: Any, C: Any, residual: Any, vectors: tuple[Any, Any, Any],
            factors: tuple[Any, Any], scales: tuple[Any, Any] = (None, None)) -> None:
    """One launch: TMA copies of the operands, C stored by TMA where it can be."""
    plan = recipe.plan
    config, gated, shares = plan.config, plan.fusion.gated, (plan.config.share_A, plan.config.share_B)
    if config.swap:
        A, B, C, residual = B, A, swapped(C), None if residual is None else swapped(residual)
    if all(recipe.copied):
        A, B = both_packed(A, B)
    else:
        A, B = (packed(X) if copied else X for X, copied in zip((A, B), recipe.copied, strict=True))
    tile_A, tile_B, tile_C, (box_A, box_B, box_C) = plan.A.box, plan.B.box, plan.C.box, recipe.boxes
    bias, rows, columns = vectors
    B_up = bias_up = columns_up = None
    if gated:
        B, B_up = halves(B)
        B_up = mo.TmaCopy(recipe.loads[1], B_up, tile_B, box_B, shares[1])
        bias, bias_up = (None, None) if bias is None else halves(bias)
        columns, columns_up = (None, None) if columns is None else halves(columns)
    parts, arrived = _meeting(recipe, C)
    C_tma, C = (mo.TmaCopy(_STORE, C, tile_C, box_C, 1), None) if plan.C.major else (None, C)
    gemm_sm90_kernel.launch(mo.TmaCopy(recipe.loads[0], A, tile_A, box_A, shares[0]),
                            mo.TmaCopy(recipe.loads[1], B, tile_B, box_B, shares[1]), B_up, C_tma, C, residual, bias,
                            bias_up, rows, columns, columns_up, factors[0] if plan.fusion.scaled else None,
                            factors[1] if plan.fusion.accumulate else None, parts, arrived,
                            tma_scales(plan, scales[0]), scales[1], plan,
                            grid=recipe.grid, block=config.threads, cluster=config.cluster, dependent=plan.follows)


def _meeting(recipe: _Recipe, C: Any) -> tuple[Any, Any]:
    """Where blocks that share a tile leave their sums, and where they count who has; None if they meet elsewhere."""
    config = recipe.plan.config
    if not recipe.slots:
        return None, None
    sums = mo.int32 if recipe.plan.C.dtype == mo.int32 else mo.float32          # exact, as in registers
    return (empty(C, sums, (config.bM * config.bN * config.split_k, recipe.slots)),
            counters(C, recipe.slots))


def multiplied(dtype: Any) -> Any:
    """What elements are multiplied as."""
    return mo.tfloat32 if dtype == mo.float32 else dtype


def loaded(info: Any, halves: int = 1) -> int | None:
    """The mode along which TMA loads an operand as the instruction takes it; None for one that is copied first.

    Each of the ``halves`` of its rows begins at a multiple of 16 bytes.
    """
    rows = info.dtype.bits == 16 and (halves == 1 or info.shape[0] // halves % 8 == 0)
    return contiguous_mode(info, (1, 0) if rows else (1,), loads=True)


def line_of(info: Any) -> int:
    """Bytes, up to 128, of which distances between lines of an operand are multiples; those of copies are of 128."""
    mode = loaded(info)
    return 128 if mode is None else math.gcd(128, info.strides[1 - mode] * info.dtype.bytes)


def stored(c: Any, store: str) -> str:
    """How TMA stores C: along N, "k", or along M, "mn"; "" for plain stores."""
    mode = contiguous_mode(c, (1, 0)) if c.dtype.bits in (16, 32) else None
    if mode is None or c.shape[mode] * c.dtype.bytes % 16 or (mode == 0 and store == "warp") or store == "element":
        return ""
    return ("mn", "k")[mode]


def width(c: Any) -> int:
    """Elements of C that one plain store takes."""
    pair = c.strides[1] == 1 and c.ptr % (2 * c.dtype.bytes) == 0 and c.shape[1] % 2 == 0 \
        and all(step % 2 == 0 for step in (c.strides[0], *c.strides[2:]))
    return 2 if pair else 1


def _rows(c: Any, fusion: Fusion) -> str:
    """Along what C is stored row by row, where TMA does not: "N", "M" if it is turned, or "" if it cannot be.

    Of 16 bits: of the wider ones a thread stores 32 bytes of a row as it is.
    """
    if c.ptr % 16 or c.dtype.bits != 16 or fusion.accumulate or fusion.gated:
        return ""
    return "N" if c.strides[1] == 1 else "M" if c.strides[0] == 1 else ""


def check_dtypes(name: str, a: Any, b: Any, c: Any) -> None:
    """ArgumentError for dtypes that no instruction takes."""
    for letter, info in (("A", a), ("B", b)):
        if info.dtype not in OUTPUTS:
            raise mo.ArgumentError(f"{name}: {letter} holds {info.dtype}; it may hold "
                                   f"{', '.join(map(str, OUTPUTS))}", hint="mo.kernels.gemm takes other dtypes")
    if a.dtype != b.dtype and not all(x.dtype in EIGHTH for x in (a, b)):
        raise mo.ArgumentError(f"{name}: A holds {a.dtype} and B {b.dtype}; they must be the same")
    if c.dtype not in OUTPUTS[a.dtype]:
        raise mo.ArgumentError(f"{name}: C holds {c.dtype}; for operands of {a.dtype} it may hold "
                               f"{', '.join(map(str, OUTPUTS[a.dtype]))}")


def check_extents(name: str, *operands: Any) -> None:
    """ArgumentError where numbers of rows, and a tile more, leave 32 bits."""
    longest = max(extent for info in operands for extent in info.shape)
    if longest > _LONGEST:
        raise mo.ArgumentError(f"{name}: {longest} rows, columns or batches are more than {_LONGEST}",
                               hint="multiply them in parts")


def _check(a: Any, b: Any, c: Any, gated: bool) -> None:
    """ArgumentError for dtypes and extents that do not fit."""
    check_dtypes("gemm_sm90", a, b, c)
    if not gated:
        same_problem("gemm_sm90", a, b, c)
    elif tuple(b.shape) != (2 * c.shape[1], *a.shape[1:]) or c.shape[0] != a.shape[0] or c.shape[2:] != a.shape[2:]:
        raise mo.ArgumentError(f"gemm_sm90: with gated=True A {tuple(a.shape)}, B {tuple(b.shape)} and C "
                               f"{tuple(c.shape)} are not (M, K), (2 N, K) and (M, N)")


def _check_more(b: Any, c: Any, bias: Any, residual: Any, row_scale: Any, col_scale: Any, gated_sum: bool) -> None:
    """ArgumentError for what is added or multiplied."""
    addend("gemm_sm90", "bias", bias, (b.shape[0],), c)
    addend("gemm_sm90", "col_scale", col_scale, (b.shape[0],), c)
    addend("gemm_sm90", "row_scale", row_scale, (c.shape[0],), c)
    addend("gemm_sm90", "residual", residual, tuple(c.shape), c)
    if gated_sum:
        raise mo.ArgumentError("gemm_sm90: gated=True takes no residual and no beta")


def suits(a: Any, b: Any, c: Any) -> bool:
    """Whether these describe arrays that ``gemm_sm90`` multiplies."""
    return all(x is not None and len(x.shape) in (2, 3) for x in (a, b, c)) \
        and (a.dtype == b.dtype or (a.dtype in EIGHTH and b.dtype in EIGHTH)) and c.dtype in OUTPUTS.get(a.dtype, ())
