"""What becomes of the scores Q K^T before the softmax: caps, biases, a function of the user's, and which of them count.

In: a tile of scores in registers, and where it lies.  Out: the same registers; what does not count is -inf.

    modify(how, S_rows, place); mask(how, S_rows, place)

Rows and columns of a thread are those of ``mo.mn_view``.  Every MMA here gives a thread rows 8 apart, and pairs of
columns 8 apart: columns 0, 1, 8, 9, 16, ... from its first one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import moye as mo

LOG2_E = math.log2(math.e)
LEAST_SCALE = 2.0**-126
"""In place of a scale of 0, which makes no number of -inf: scores times it are 0 beside any other."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Which rules there are, all static: a kernel is compiled for them.

    ``left`` and ``right``: whether a query sees only keys so far behind it and before it.  ``ragged``: the last tile
    of keys ends beyond them; ``lacking``: there may be no keys at all.  ``pairs``: biases are of 16 bits, and those of
    keys 2 i and 2 i + 1 are one word of memory.  ``score`` is a traced function (score, row, column, head, batch,
    *tensors) -> score.
    """

    left: bool = False
    right: bool = False
    ragged: bool = True
    lacking: bool = False
    softcap: bool = False
    pairs: bool = False
    score: Callable[..., Any] | None = None

    @property
    def masks(self) -> bool:
        """Whether any block of keys has scores that do not count."""
        return self.left or self.right or self.ragged

    @property
    def windowed(self) -> bool:
        """Whether a row may see no key of a tile that others see, or of any."""
        return self.left or self.right or self.lacking


@dataclass(frozen=True, slots=True)
class Scores:
    """The rules with their numbers: scalars and tensors of the kernel; what there is none of is None.

    ``scale`` multiplies Q K^T.  ``bias`` is (queries, keys, heads, batch), ``slopes`` (heads) or (batch, heads): ALiBi.
    ``tensors`` are handed to the user's function.
    """

    rules: Rules
    queries: Any
    keys: Any
    scale: Any
    softcap: Any
    left: Any
    right: Any
    bias: Any
    slopes: Any
    tensors: Any

    @property
    def modified(self) -> bool:
        """Whether scores change by more than a factor."""
        return self.rules.softcap or self.rules.score is not None or self.bias is not None or self.slopes is not None

    @property
    def empties(self) -> bool:
        """Whether what modifies scores may leave a row of which none counts: by -inf."""
        return self.rules.score is not None or self.bias is not None

    @property
    def fold(self) -> Any:
        """What exponents of 2 have of a score: the scale of those that are changed is in them."""
        return LOG2_E if self.modified else self.scale * LOG2_E

    @property
    def shift(self) -> Any:
        """Query i stands at key i + shift: the last query at the last key."""
        return self.keys - self.queries


@dataclass(frozen=True, slots=True)
class Place:
    """Where a thread's scores lie: its first row, its first column in the tile of keys, head and batch."""

    row: Any
    column: Any
    head: Any
    batch: Any


def offset(k: int) -> int:
    """How far column number k of a thread lies behind its first."""
    return k // 2 * 8 + k % 2


def row_offset(i: int) -> int:
    """How far row number i of a thread lies behind its first: pairs 8 apart, in slabs of 64."""
    return i % 2 * 8 + i // 2 * 64


# --- which keys a tile of queries sees -------------------------------------------------------------------------------


@mo.jit
def key_tiles(how, first_row, bM, bN):
    """Tiles of keys [least, most) that some row sees; of these, [low, high) are seen whole by all rows.

    There is one at least, so that rows which see no key need no way of their own.
    """
    seen, full = how.keys, how.keys // bN
    if how.rules.right:
        seen = mo.min(seen, first_row + bM + how.shift + how.right)
        full = mo.max(mo.min(full, (first_row + how.shift + how.right + 1) // bN), 0)
    most = mo.ceil_div(mo.max(seen, 1), bN)
    least, low = 0, 0
    if how.rules.left:
        least = mo.min(mo.max(first_row + how.shift - how.left, 0) // bN, most - 1)
        low = mo.max(first_row + bM - 1 + how.shift - how.left + bN - 1, 0) // bN
    high = mo.max(mo.min(full, most - 1), least)
    return least, most, mo.min(mo.max(low, least), high), high


@mo.jit
def query_tiles(how, first_key, bM, bN):
    """Tiles of bM queries [least, most) of which some see one of the bN keys from ``first_key`` on."""
    least, most = 0, mo.ceil_div(how.queries, bM)
    if how.rules.right:
        least = mo.max(first_key - how.shift - how.right, 0) // bM
    if how.rules.left:
        most = mo.min(most, mo.max(first_key + bN - how.shift + how.left + bM - 1, 0) // bM)
    return least, most


@mo.jit
def whole_from(how, first_key, bM, bN, least, most):
    """The first of the tiles of queries [least, most) from which on all see all of the bN keys; without ``left``."""
    low = least
    if how.rules.right:
        low = mo.max(first_key + bN - 1 - how.shift - how.right + bM - 1, 0) // bM
    if how.rules.ragged:
        low = mo.where(first_key + bN > how.keys, most, low)
    return mo.max(mo.min(low, most), least)


@mo.jit
def mask_turned(how, weights, place):
    """0 for the weights (keys, queries) that do not count; rows of ``place`` are queries, and columns keys."""
    for i in mo.static_range(mo.size(weights, 0)):
        key = place.column + row_offset(i)
        stands = key - how.shift - place.row                                # the query that stands at this key
        last = stands + how.left if how.rules.left else how.queries
        if how.rules.ragged:
            last = mo.where(key < how.keys, last, -1)
        for k in mo.static_range(mo.size(weights, 1)):
            counts = offset(k) <= last
            if how.rules.right:
                counts = counts & (offset(k) >= stands - how.right)
            weights[i, k] = mo.where(counts, weights[i, k], 0.0)


@mo.jit
def mask(how, rows, place):
    """-inf for the scores that do not count: beyond the last key, or outside of the window.

    A window has two edges.  A bit for each column of a row says then whether it counts, in place of two comparisons,
    where scores do not need the registers.
    """
    by_bits = how.rules.left and not how.modified and mo.size(rows, 1) <= 32
    for i in mo.static_range(mo.size(rows, 0)):
        end = how.keys - place.column
        stands = place.row + row_offset(i) + how.shift - place.column       # of the keys of this tile
        if how.rules.right:
            end = mo.min(end, stands + how.right + 1)
        if by_bits:
            bits = bits_before(end) & ~bits_before(stands - how.left)
        for k in mo.static_range(mo.size(rows, 1)):
            counts = (bits & mo.uint32(1 << k)) != 0 if by_bits else offset(k) < end
            if how.rules.left and not by_bits:
                counts = counts & (offset(k) >= stands - how.left)
            rows[i, k] = mo.where(counts, rows[i, k], -math.inf)


@mo.jit
def bits_before(end):
    """Bit k is 1 where column number k of a thread lies before ``end``, for 32 columns from its first one on."""
    count = mo.max(end, 0) // 8 * 2 + mo.min(mo.max(end, 0) % 8, 2)
    return mo.where(count < 32, (mo.uint32(1) << mo.min(count, 31).to(mo.uint32)) - mo.uint32(1), mo.uint32(0xffffffff))


@mo.jit
def counts(how, row, column):
    """Whether query ``row`` sees key ``column``; both may lie beyond the last."""
    found = (row < how.queries) & (column < how.keys)
    if how.rules.right:
        found = found & (column <= row + how.shift + how.right)
    if how.rules.left:
        found = found & (column >= row + how.shift - how.left)
    return found


# --- what their values become ----------------------------------------------------------------------------------------


@mo.jit
def factor_of(factors, head, batch):
    """The factor of a head: a number, or one of (heads) or (batch, heads); 1 if each token has its own."""
    if not isinstance(factors, mo.Tensor):
        return 1.0 if factors is None else factors
    if mo.rank(factors) == 3:
        return 1.0
    return factors[head] if mo.rank(factors) == 1 else factors[batch, head]


@mo.jit
def positive(scale):
    """A scale that was computed on the device: 0 as ``LEAST_SCALE``, and a negative one, which is none, as NaN."""
    return mo.where(scale >= 0.0, mo.max(scale, LEAST_SCALE), math.nan)


@mo.jit
def modify(how, rows, place, together=None, biases=None):
    """Scores times their scale, then capped, biased, and as the user's function has them.

    ``together``: so many columns are done before the next ones begin, and all before what follows; None: in any order.
    ``biases``: those of ``pairs_of_biases``, or None where each score asks for its own.
    """
    columns, away = mo.size(rows, 1), None
    if how.slopes is not None:
        away = (place.row + how.shift - place.column).to(rows.dtype)
    for first in mo.static_range(0, columns, columns if together is None else together):
        if together is not None:
            mo.pin(rows)
        for i in mo.static_range(mo.size(rows, 0)):
            for k in mo.static_range(first, columns if together is None else min(first + together, columns)):
                rows[i, k] = modified(how, rows[i, k], place.row + row_offset(i), place.column + offset(k), place,
                                      None if away is None else away + float(row_offset(i) - offset(k)),
                                      None if biases is None else biases[k % 2, k // 2, i])
    if together is not None:
        mo.pin(rows)


@mo.jit
def modified(how, s, row, column, place, away=None, bias=None):
    """One score, that of ``row`` and ``column``; the row's place less the column, and the bias, if these are known."""
    s = s * how.scale
    if how.rules.softcap:
        s = capped(s, how.softcap)
    if how.slopes is not None:
        slope = how.slopes[place.head] if mo.rank(how.slopes) == 1 else how.slopes[place.batch, place.head]
        distance = mo.abs(row + how.shift - column).to(s.dtype) if away is None else mo.abs(away)
        s -= slope.to(s.dtype) * distance
    if how.bias is not None:
        s += bias_at(how, row, column, place, s.dtype) if bias is None else bias.to(s.dtype)
    if how.rules.score is not None:
        s = how.rules.score(s, row, column, place.head, place.batch, *how.tensors)
    return s


@mo.jit
def slope_of(how, s):
    """The derivative of ``modified`` by the product of query and key, at such a product: no user's function."""
    return how.scale * bend_of(how, s) if how.rules.softcap else how.scale + 0.0


@mo.jit
def bend_of(how, s):
    """The derivative of the cap, where the product of query and key is ``s``."""
    part = tail(s * how.scale, how.softcap)
    return 4.0 * part * (1.0 - part)


@mo.jit
def capped(s, cap):
    """cap * tanh(s / cap), right to 2^-21 of the cap; float64 to 2^-50."""
    return cap - 2 * cap * tail(s, cap)


@mo.jit
def tail(s, cap):
    """(1 - tanh(s / cap)) / 2 = 1 / (exp(2 s / cap) + 1)."""
    if s.dtype == mo.float64:
        return 1.0 / (mo.exp(s * (2.0 / cap)) + 1.0)
    return mo.rcp(mo.exp2(s * (2 * LOG2_E / cap), fast=True) + 1.0, fast=True)


@mo.jit
def bias_at(how, row, column, place, dtype):
    """The bias of one score; outside of the scores that of one on the edge, without a branch to wait behind."""
    return how.bias[mo.min(row, how.queries - 1), mo.min(column, how.keys - 1), place.head, place.batch].to(dtype)


@mo.jit
def promise_pairs(bias):
    """What ``pairs`` of the rules says of biases; at the begin of a kernel, where launches are held to it."""
    mo.assume(mo.size(bias, 1) % 2 == 0)
    for mode in mo.static_range(4):
        if mode != 1:
            mo.assume(mo.stride(bias, mode) % 2 == 0)


@mo.jit
def pairs_of_biases(how, place, rows, columns, ends):
    """Those of a thread's scores, (2, columns / 2, rows), where the rules have ``pairs``; any number outside of them.

    All are asked for at once, and there when they are used.  ``ends``: some columns may lie beyond the last key.
    """
    found = mo.fragment((2, columns // 2, rows), how.bias.dtype)
    for i in mo.static_range(rows):
        row = mo.min(place.row + row_offset(i), how.queries - 1)
        words = mo.tile(how.bias[row, :, place.head, place.batch], (2,), (None,))              # (2, keys / 2)
        for k in mo.static_range(columns // 2):
            word = place.column // 2 + offset(2 * k) // 2
            mo.copyto(found[:, k, i], words[:, mo.min(word, mo.size(words, 1) - 1) if ends else word])
    return found
