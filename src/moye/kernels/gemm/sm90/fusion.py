"""What is done to the sums on their way to C, on a piece of a thread's registers at a time.

In: sums (MMA, 1, 1) of a piece of 64 rows, in float32 or int32.  Out: the same registers, ready to be rounded.

    part = finish(plan, out, [part], place, batch)      # part * alpha + bias, then gelu: as plan.fusion says

A piece lies at ``place`` = (rows in units of 64, columns in units of ``plan.C.columns``) of a matrix of C.  What lies
beyond the edges of C is read as zero here, and is not stored later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import moye as mo
from moye.kernels.gemm.sm90.config import GROUP

REPEATS = 1 << 30
"""Elements of a mode along which a vector repeats: more than any C has, as tiles reach beyond C."""


@dataclass(frozen=True, slots=True)
class Fusion:
    """What is done to the sums on their way to C, of which only what is asked for is done, in this order.

    sums * alpha * row_scale[m] * col_scale[n] + beta * C + residual + bias[n], then the activation; ``gated``: two
    products, the activation of the first times the second.
    """

    scaled: bool = False
    rows: bool = False
    columns: bool = False
    accumulate: bool = False
    residual: bool = False
    bias: bool = False
    activation: Callable[[Any], Any] | None = None
    gated: bool = False

    @property
    def plain(self) -> bool:
        """Whether sums are at most scaled: then registers are left for wider pieces."""
        return replace(self, scaled=False) == Fusion()


@mo.jit
def finish(plan, out, parts, place, batch):
    """Everything but the rounding, on the sums (MMA, 1, 1) of a piece, or of both halves of a gated product."""
    part = linear(plan, out, parts[0], place, batch, 0)
    if plan.fusion.activation is not None:
        part[...] = plan.fusion.activation(part)
    if plan.fusion.gated:
        part[...] = part * linear(plan, out, parts[1], place, batch, 1)
    return part


@mo.jit
def linear(plan, out, part, place, batch, half):
    """part * alpha * row_scale * col_scale + beta * C + residual + bias."""
    fusion, across = plan.fusion, 0 if plan.config.swap else 1          # the mode of this tile along which N lies
    if fusion.scaled:
        part[...] = part * out.alpha
    if fusion.rows:
        part[...] = part * along(plan, out, out.rows, 1 - across, part, place)
    if fusion.columns:
        part[...] = part * along(plan, out, out.columns[half], across, part, place)
    if fusion.accumulate or fusion.residual:
        inside = inside_of(plan, out, part, place, batch)               # (MMA, 1, 1)
        if fusion.accumulate:
            part[...] = part + addend(plan, out.C, inside, part, place, batch) * out.beta
        if fusion.residual:
            part[...] = part + addend(plan, out.residual, inside, part, place, batch)
    if fusion.bias:
        part[...] = part + along(plan, out, out.bias[half], across, part, place)
    return part


# --- what a thread reads for its elements of a piece -----------------------------------------------------------------


@mo.jit
def addend(plan, X, inside, part, place, batch):
    """The piece of X, which is like C, in the precision of the sums."""
    return read(part_of(plan, X, place, batch), inside, part.dtype)


@mo.jit
def part_of(plan, X, place, batch):
    """A thread's elements of the piece of X, (M, N) or (M, N, L), that lies at ``place``."""
    matrix = X[:, :, batch] if mo.rank(X) == 3 else X
    thr_mma = plan.C.piece.get_slice(mo.thread_idx().x % GROUP)
    return thr_mma.partition_C(mo.tile(matrix, (64, plan.C.columns), place, ragged=True))   # (MMA, 1, 1)


@mo.jit
def inside_of(plan, out, part, place, batch):
    """Which elements of the piece are elements of C."""
    coords = part_of(plan, mo.identity_tensor((out.M, out.N)), place, batch)                # (MMA, 1, 1)
    inside = mo.fragment(mo.make_layout(mo.shape(part)), mo.bool)                           # (MMA, 1, 1)
    for v in mo.static_range(mo.size(part)):
        m, n = coords[v]
        inside[v] = (m < out.M) & (n < out.N)
    return inside


@mo.jit
def read(source, inside, dtype):
    """What of it lies inside, in the precision of the sums; zeros for the rest."""
    held = mo.fragment(mo.make_layout(mo.shape(source)), source.dtype)                      # (MMA, 1, 1), as stored
    wide = mo.fragment(mo.make_layout(mo.shape(source)), dtype)                             # (MMA, 1, 1)
    word = {1: mo.uint8, 2: mo.uint16, 4: mo.uint32, 8: mo.uint64}[source.dtype.bytes]
    mo.copyto(mo.UniversalCopy(word), held, source, pred=inside, zero_fill=True)            # one by one: pairs that are
    mo.copyto(wide, held)                                                                   # tested would spill sums
    return wide


@mo.jit
def along(plan, out, vector, mode, part, place):
    """What a vector along a mode of C holds for a piece (MMA, 1, 1).

    A thread has 2 rows of a piece, and pairs of columns 8 apart: it reads each of its elements of the vector once, and
    a stride of 0 repeats it along the other mode.
    """
    extents = (out.M, out.N)
    coords = part_of(plan, mo.identity_tensor(extents), place, 0)       # (MMA, 1, 1)
    tCgV = part_of(plan, spread(vector, mode, out.M, out.N), place, 0)  # ((2, 2, columns / 8), 1, 1): column, row, 8s
    own = tCgV[(0, None, 0), 0, 0] if mode == 0 else tCgV[(None, 0, None), 0, 0]        # without repeats
    inside = mo.fragment(mo.make_layout(mo.shape(own)), mo.bool)
    for v in mo.static_range(mo.size(own)):
        first = 2 * v if mode == 0 else v % 2 + v // 2 * 4              # an element of the piece that this one is for
        inside[v] = coords[first][mode] < extents[mode]
    steps = (0, 1, 0) if mode == 0 else (1, 0, 2)
    return read(own, inside, part.dtype).with_layout(mo.make_layout(mo.shape(tCgV), (steps, 0, 0)))


@mo.jit
def spread(vector, mode, M, N):
    """A vector along a mode as a tensor that repeats it along the other, beyond C too: tiles end before it does."""
    step = mo.stride(vector.layout)[0]
    if mode == 0:
        return vector.with_layout(mo.make_layout((M, REPEATS), (step, 0)))
    return vector.with_layout(mo.make_layout((REPEATS, N), (0, step)))
