"""What sorts a block's words: any room, words of one number and of two, equal ones; every access without conflicts."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye.kernels.top_k_sort import each_of, network, padded, sort, threads_of

ROOMS = [32 << i for i in range(7)]
THREADS = 256


@mo.kernel
def sorting_kernel(sorted_, x, room: mo.Constexpr):
    """The parts of words (room), through shared memory."""
    tid, words = mo.thread_idx().x, [mo.shared_array(part.dtype, padded(room, part.dtype)) for part in x]
    for part, given in zip(words, x, strict=True):
        for i in mo.range(tid, room, THREADS):
            part[i] = given[i]
    mo.sync_threads()
    if mo.warp_idx() < threads_of(room, len(words)) // 32:
        sort(room, words)
    mo.sync_threads()
    for part, left in zip(words, sorted_, strict=True):
        for i in mo.range(tid, room, THREADS):
            left[i] = part[i]


@pytest.mark.parametrize("words", [2 << i for i in range(11)])
def test_network(words):
    """As many steps as Batcher's, and what is drawn is sorted: numbers, and zeros and ones."""
    rng, bits, i = np.random.default_rng(words), words.bit_length() - 1, np.arange(words)
    x = np.concatenate([rng.integers(0, top, (50, words)) for top in (2, words)])
    for mask in network(words):
        other = x[:, i ^ mask]
        x = np.where(i < i ^ mask, np.maximum(x, other), np.minimum(x, other))
    assert (np.diff(x) <= 0).all() and len(network(words)) == bits * (bits + 1) // 2


@pytest.mark.parametrize("kinds", [("u4",), ("u8",), ("u8", "u4")], ids="-".join)
@pytest.mark.parametrize("room", ROOMS)
def test_sort(room, kinds):
    rng = np.random.default_rng(room)
    for few in (False, True):
        tops = [min(room // 8, 1 << 20) if few else 1 << (8 * int(kind[1])) for kind in kinds]
        x = tuple(rng.integers(0, top, room, np.uint64).astype(kind) for top, kind in zip(tops, kinds, strict=True))
        got = tuple(np.zeros_like(part) for part in x)
        report = mo.check(sorting_kernel)[1, THREADS](got, x, room)
        assert report.ok and not report.lints, str(report)
        order = np.lexsort(x[::-1])[::-1]
        assert all(np.array_equal(y, part[order]) for y, part in zip(got, x, strict=True))


@pytest.mark.parametrize("numbers", [1, 2])
@pytest.mark.parametrize("dtype", [mo.uint32, mo.uint64], ids=str)
@pytest.mark.parametrize("room", ROOMS)
def test_no_two_lanes_have_a_bank_in_common(room, dtype, numbers):
    """Of as many lanes as 128 bytes serve, whether each has words of its own, or neighbours are far apart."""
    place, line = padded(room, dtype), 128 // dtype.bytes
    each, threads = each_of(room, numbers), threads_of(room, numbers)
    assert threads <= 256 and each**2 >= room / 32
    for first in range(0, threads, line):
        for v in range(each):
            for word, step in ((first * each + v, each), (v * threads + first, 1)):
                assert len({place(word + t * step) % line for t in range(line)}) == line
