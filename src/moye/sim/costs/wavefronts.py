"""What warps pay for an access: wavefronts of shared memory, sectors of global memory, for many requests at once.

In: byte addresses (values, threads, blocks), the bytes of an access, a mask of the same shape.  Out: a ``Cost``.

>>> shared_cost(np.arange(32)[None, :, None] * 128, 4, None)
Cost(requests=1, passes=32, ideal=1, degree=32, skew=0, spread=0)

The model is that of moye.layout.analysis.banks and .sectors, with NumPy over all warps; a test compares the two.
cp.async.ca goes line by line of its source (``line_cost``), cp.async.cg passes L1 by (``bypass_cost``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from moye.hardware import BANKS, SECTOR, WARP

Ints = npt.NDArray[np.signedinteger[Any]]
Bools = npt.NDArray[np.bool_]
WORD, WIDEST = 4, 16
"""Bytes of a line of L1, and of all banks together."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Requests of warps, the passes they take (wavefronts or sectors), the fewest possible, the worst request.

    ``degree`` is the most words of one bank in one phase, or the most sectors of one request; ``skew`` the position
    of that request among all, value by value, block by block, warp by warp.  ``spread``: how many passes above the
    ideal remain wherever the bytes lie in shared memory, as they come from many lines.
    """

    requests: int
    passes: int
    ideal: int
    degree: int
    skew: int = 0
    spread: int = 0


NOTHING = Cost(0, 0, 0, 0)


def whole(address: Ints, size: int) -> tuple[Ints, int]:
    """Accesses that an instruction has: ``size`` bytes in parts of 1, 2, 4, 8 or 16."""
    # The largest power of two that divides the size: an access of 12 bytes goes as three of 4.
    part = min(size & -size, WIDEST)
    if part == size:
        return address, size
    starts = address[:, None] + np.arange(0, size, part)[:, None, None]
    return starts.reshape(-1, *address.shape[1:]), part


def by_warp(lanes: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """(V, T, B) -> (V B warps, 32); the missing threads of the last warp repeat the last one."""
    values, threads, blocks = lanes.shape
    if rest := -threads % WARP:
        lanes = np.concatenate([lanes, np.repeat(lanes[:, -1:], rest, axis=1)], axis=1)
    warps = lanes.shape[1] // WARP
    return lanes.transpose(0, 2, 1).reshape(values * blocks * warps, WARP)


def active_lanes(mask: Bools | None, shape: tuple[int, ...]) -> Bools | None:
    """The lanes (requests, 32) that take part; None means all."""
    if mask is None and shape[1] % WARP == 0:
        return None
    lanes = by_warp(np.ones(shape, np.bool_) if mask is None else mask)
    if rest := -shape[1] % WARP:
        warps = -(-shape[1] // WARP)
        lanes = lanes.copy()
        lanes.reshape(-1, warps, WARP)[:, -1, WARP - rest:] = False
    return np.asarray(lanes, np.bool_)


def _settled(rows: Ints, active: Bools | None) -> tuple[Ints, Bools]:
    """Rows whose idle lanes repeat an active one, and which rows have any active lane."""
    if active is None:
        return rows, np.ones(len(rows), np.bool_)
    first = np.take_along_axis(rows, active.argmax(axis=1)[:, None], axis=1)
    return np.where(active, rows, first), np.asarray(active.any(axis=1))


def shared_cost(address: Ints, size: int, mask: Bools | None) -> Cost:
    """Wavefronts: each phase (as many lanes as fill 128 bytes) takes the most words that meet in one bank."""
    address, size = whole(address, size)
    if mask is not None and len(mask) != len(address):
        mask = np.repeat(mask, len(address) // len(mask), axis=0)
    active = active_lanes(mask, address.shape)
    rows = (np.asarray(by_warp(address), np.int64) // WORD).astype(np.int32)        # int32 sorts faster
    words = max(size // WORD, 1)
    # A phase is as many lanes as fill all banks once: 32 of 4 bytes, 16 of 8, 8 of 16.
    lanes = WARP // words                                               # of one phase
    rows = rows.reshape(-1, lanes)
    rows, here = _settled(rows, None if active is None else active.reshape(-1, lanes))
    if words > 1:
        rows = (rows[:, :, None] + np.arange(words)).reshape(len(rows), -1)
    degree = np.where(here, _worst_bank(rows), 0)
    requests = here.reshape(-1, words).any(axis=1)
    worst = int(degree.argmax()) if len(degree) else 0
    return Cost(int(requests.sum()), int(degree.sum()), int(here.sum()), int(degree.max(initial=0)), worst // words)


def _worst_bank(words: Ints) -> Ints:
    """The most different words of one bank, row by row."""
    count = len(words)
    # Whole rows of banks are taken off, which moves no word to another bank.  Sorted, equal words are neighbours and
    # count once, because lanes that read one word share it.
    words = np.sort(words - words.min(axis=1, keepdims=True) // BANKS * BANKS, axis=1)
    new = np.ones(words.shape, np.bool_)
    np.not_equal(words[:, 1:], words[:, :-1], out=new[:, 1:])
    places = (np.arange(count)[:, None] * BANKS + words % BANKS)[new]
    return np.asarray(np.bincount(places, minlength=count * BANKS).reshape(count, BANKS).max(axis=1, initial=0))


def wavefronts(address: Ints, size: int, mask: Bools | None, cache: str | None, lines: Ints | None) -> Cost:
    """The cost of any access to shared memory; ``cache`` and the source's ``lines`` are those of a cp.async."""
    if cache == "global":
        return bypass_cost(address, mask)
    return shared_cost(address, size, mask) if lines is None else line_cost(address, size, mask, lines)


def bypass_cost(address: Ints, mask: Bools | None) -> Cost:
    """One wavefront a request, wherever its bytes go."""
    active = active_lanes(mask, address.shape)
    requests = address.size // address.shape[1] * -(-address.shape[1] // WARP) if active is None else \
        int(active.any(axis=1).sum())
    return Cost(requests, requests, requests, min(requests, 1))


def line_cost(address: Ints, size: int, mask: Bools | None, lines: Ints) -> Cost:
    """Wavefronts of a cp.async.ca: each line of the source takes the most words of its lanes that meet in one bank.

    ``lines`` (V, T, B) names the line that a lane reads; ``degree`` is that of the worst line, ``skew`` its request.
    """
    active = active_lanes(mask, address.shape)
    words = np.asarray(by_warp(address), np.int64) // WORD
    here = np.ones(words.shape, np.bool_) if active is None else active
    count, row = len(words), np.nonzero(here)[0].astype(np.int64, copy=False)
    if not len(row):
        return NOTHING
    line, word = np.asarray(by_warp(lines), np.int64)[here], words[here]
    line, word = line - line.min(), word - word.min()
    # Each pair (request, line) as one number: unique over numbers is far faster than over pairs.
    groups, group = np.unique(row * (int(line.max()) + 1) + line, return_inverse=True)
    request = groups // (int(line.max()) + 1)
    span = int(word.max()) + WIDEST // WORD
    group = group.reshape(-1, 1).astype(np.int64, copy=False)
    taken = np.unique((group * span + word[:, None] + np.arange(max(size // WORD, 1))).ravel())
    of, bank = taken // span, taken % span % BANKS
    worst = np.bincount(of * BANKS + bank, minlength=len(groups) * BANKS).reshape(-1, BANKS).max(axis=1)
    filled = np.bincount(of, minlength=len(groups))
    passes = np.bincount(request, worst, minlength=count).astype(np.int64)
    # Words of a request over all banks, as if its lines could share wavefronts; ``least`` is what lines allow.
    ideal = -(-np.bincount(request, filled, minlength=count).astype(np.int64) // BANKS)
    least = int((-(-filled // BANKS)).sum())
    degree = np.zeros(count, np.int64)
    np.maximum.at(degree, request, worst)
    skew = int(np.lexsort((-passes, -degree))[0])
    return Cost(int((passes > 0).sum()), int(passes.sum()), int(ideal.sum()), int(degree[skew]), skew,
                least - int(ideal.sum()))


def global_cost(address: Ints, size: int, mask: Bools | None) -> Cost:
    """Sectors of 32 bytes that each request touches, and the fewest that hold the bytes it wants."""
    address, size = whole(address, size)
    if mask is not None and len(mask) != len(address):
        mask = np.repeat(mask, len(address) // len(mask), axis=0)
    active = active_lanes(mask, address.shape)
    rows, here = _settled(np.asarray(by_warp(address), np.int64), active)
    rows = np.sort(rows, axis=1)
    sectors = 1 + (np.diff(rows // SECTOR, axis=1) != 0).sum(axis=1)
    wanted = (1 + (np.diff(rows, axis=1) != 0).sum(axis=1)) * size
    sectors = np.where(here, sectors, 0)
    ideal = np.where(here, -(-wanted // SECTOR), 0)
    worst = int(sectors.argmax()) if len(sectors) else 0
    return Cost(int(here.sum()), int(sectors.sum()), int(ideal.sum()), int(sectors.max(initial=0)), worst)
