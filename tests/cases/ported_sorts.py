"""Programs of CUDA's samples, CUB and vLLM that order and count: two sorts, a merge, a scan, segments, edit distances.

In: nothing.  Out: the kernels, functions that launch them, and ``PORTS``, of which the tests draw arguments.
"""

from __future__ import annotations

import numpy as np

import moye as mo
from ports import Port

# --- bitonic sort of keys with values in shared memory (CUDA samples, sortingNetworks) --------------------------------


@mo.jit
def put_in_order(keys, values, a, b, up):
    if (keys[a] > keys[b]) == up:
        keys[a], keys[b] = keys[b], keys[a]
        values[a], values[b] = values[b], values[a]


@mo.kernel
def bitonic_kernel(keys, values, size: mo.Constexpr):
    """A block sorts ``size`` pairs; what lies beyond the end is larger than any key."""
    tid, block, n = mo.thread_idx().x, mo.block_idx().x, mo.size(keys)
    some_keys, some_values = mo.shared_array(keys.dtype, size), mo.shared_array(values.dtype, size)
    for place in (tid, tid + size // 2):
        some_keys[place] = keys[block * size + place] if block * size + place < n else 0xFFFFFFFF
        some_values[place] = values[block * size + place] if block * size + place < n else -1
    length = 2
    while length <= size:                               # decided while tracing, as the kernel's templates are
        stride = length // 2
        while stride > 0:
            mo.sync_threads()
            at = 2 * tid - (tid & (stride - 1))
            put_in_order(some_keys, some_values, at, at + stride, length == size or (tid & (length // 2)) == 0)
            stride >>= 1
        length <<= 1
    mo.sync_threads()
    for place in (tid, tid + size // 2):
        if block * size + place < n:
            keys[block * size + place], values[block * size + place] = some_keys[place], some_values[place]


def bitonic(keys, values):
    bitonic_kernel[-(-keys.shape[0] // 64), 32](keys, values, 64)


def draw_bitonic(rng, n):
    keys, values = rng.permutation(1 << 12)[:n].astype(np.uint32), np.arange(n, dtype=np.int32)
    order = np.concatenate([first + np.argsort(keys[first:first + 64]) for first in range(0, n, 64)])
    return (keys, values), {0: keys[order], 1: order}


# --- stable radix sort by one block, four bits at a time (CUB, BlockRadixSort) ----------------------------------------


@mo.kernel
def radix_kernel(out, keys, spare):
    """Bytes: the low digit goes to ``spare``, the high one to ``out``; equal digits keep their order."""
    tid, n, threads = mo.thread_idx().x, mo.size(keys), mo.block_dim().x
    bins, scratch = mo.shared_array(mo.int32, 16), mo.shared_array(mo.int32, 4)
    for shift, source, target in ((0, keys, spare), (4, spare, out)):
        if tid < 16:
            bins[tid] = 0
        mo.sync_threads()
        for i in range(tid, n, threads):
            mo.atomic_add(bins, source[i] >> shift & 15, 1)
        mo.sync_threads()
        before = mo.block_scan(bins[tid] if tid < 16 else 0, scratch, inclusive=False)
        if tid < 16:
            bins[tid] = before
        for first in range(0, n, threads):
            key = source[first + tid] if first + tid < n else 255
            for digit in range(16):
                mine = first + tid < n and (key >> shift & 15) == digit
                rank = mo.block_scan(mine, scratch, inclusive=False)
                count = mo.block_reduce(mine, scratch)
                if mine:
                    target[bins[digit] + rank] = key
                mo.sync_threads()
                if tid == 0:
                    bins[digit] += count
        mo.sync_threads()


def radix(out, keys, spare):
    radix_kernel[1, 128](out, keys, spare)


def draw_radix(rng, n):
    keys = rng.integers(0, 256, n).astype(np.uint8)
    return (np.zeros_like(keys), keys, np.zeros_like(keys)), {0: np.sort(keys)}


# --- merge by paths (Moderngpu) ---------------------------------------------------------------------------------------


@mo.jit
def path(a, b, diagonal):
    low, high = mo.max(0, diagonal - mo.size(b)), mo.min(diagonal, mo.size(a))
    while low < high:
        middle = (low + high) // 2
        if a[middle] <= b[diagonal - 1 - middle]:
            low = middle + 1
        else:
            high = middle
    return low


@mo.kernel
def merge_kernel(out, a, b, each: mo.Constexpr):
    """A thread finds where its part of the result begins in both, and merges ``each`` numbers."""
    total = mo.size(a) + mo.size(b)
    first = (mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x) * each
    if first >= total:
        return
    i = path(a, b, first)
    j = first - i
    for k in range(first, mo.min(first + each, total)):
        if j >= mo.size(b) or (i < mo.size(a) and a[i] <= b[j]):
            out[k] = a[i]
            i += 1
        else:
            out[k] = b[j]
            j += 1


def merge(out, a, b):
    merge_kernel[-(-out.shape[0] // 128), 32](out, a, b, 4)


def draw_merge(rng, n):
    a, b = (np.sort(rng.integers(0, 99, count)).astype(np.int32) for count in (n, n // 3 + 1))
    whole = np.sort(np.concatenate([a, b]))
    return (np.zeros_like(whole), a, b), {0: whole}


# --- blocks of tokens for each expert (vLLM, moe_align_block_size) ----------------------------------------------------


@mo.kernel
def align_kernel(tokens, experts_of, total, expert, count: mo.Constexpr, block: mo.Constexpr):
    """Tokens by expert, each expert's padded with ``n`` to whole blocks; one thread block."""
    tid, threads, n = mo.thread_idx().x, mo.block_dim().x, mo.size(expert)
    seen, first = mo.shared_array(mo.int32, count), mo.shared_array(mo.int32, count + 1)
    scratch = mo.shared_array(mo.int32, 4)
    if tid < count:
        seen[tid] = 0
    for i in range(tid, mo.size(tokens), threads):
        tokens[i] = n
    mo.sync_threads()
    for i in range(tid, n, threads):
        mo.atomic_add(seen, expert[i], 1)
    mo.sync_threads()
    padded = mo.ceil_div(seen[tid], block) * block if tid < count else 0
    before = mo.block_scan(padded, scratch, inclusive=False)
    if tid <= count:
        first[tid] = before                             # the one behind the last is the sum of all
    mo.sync_threads()
    if tid < count:
        seen[tid] = first[tid]
        for i in range(first[tid], first[tid + 1], block):
            experts_of[i // block] = tid
    if tid == 0:
        total[0] = first[count]
    mo.sync_threads()
    for i in range(tid, n, threads):
        tokens[mo.atomic_add(seen, expert[i], 1)] = i


def align(tokens, experts_of, total, expert):
    align_kernel[1, 128](tokens, experts_of, total, expert, 11, 4)


def draw_align(rng, n):
    expert = np.sort(rng.integers(0, 11, n)).astype(np.uint8)
    sizes = -(-np.bincount(expert, minlength=11) // 4) * 4
    experts_of = np.full(n + 11, 99, np.int32)
    wanted = experts_of.copy()
    wanted[:sizes.sum() // 4] = np.repeat(np.arange(11), sizes // 4)
    tokens = np.zeros(4 * (n + 11), np.int32)
    return (tokens, experts_of, np.zeros(1, np.int32), expert), {1: wanted, 2: np.array([sizes.sum()])}


# --- sums of sorted segments by warps (CUB, DeviceSegmentedReduce) ----------------------------------------------------


@mo.kernel
def segments_kernel(out, x, segment):
    """A scan that stops where the segment changes; the last lane of each segment in a warp adds its sum."""
    i, lane = mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x, mo.lane_idx()
    here = segment[i] if i < mo.size(x) else -1
    total = x[i] if i < mo.size(x) else 0.0
    for step in (1, 2, 4, 8, 16):
        below, its = mo.shuffle_up(total, step), mo.shuffle_up(here, step)
        if lane >= step and its == here:
            total += below
    after = mo.shuffle_down(here, 1)
    if here >= 0 and (lane == 31 or after != here):
        mo.atomic_add(out, here, total)


def segments(out, x, segment):
    segments_kernel[-(-x.shape[0] // 128), 128](out, x, segment)


def draw_segments(rng, n):
    x, segment = rng.standard_normal(n, np.float32), np.sort(rng.integers(0, 20, n)).astype(np.int16)
    return (np.zeros(20, np.float32), x, segment), {0: np.bincount(segment, x.astype(np.float64), 20)}


# --- local alignment along antidiagonals (Smith-Waterman) -------------------------------------------------------------


@mo.kernel
def alignment_kernel(best, a, b, gap, same, other):
    """A thread has a row, and a step is an antidiagonal: three of them lie in turn in one buffer."""
    tid, n, m = mo.thread_idx().x, mo.size(a), mo.size(b)
    scores, scratch = mo.shared_array(mo.int32, (129, 3)), mo.shared_array(mo.int32, 4)
    for i in range(tid, 129, 128):
        scores[i, 0] = scores[i, 1] = scores[i, 2] = 0
    row = tid + 1
    older, old, new = 0, 1, 2
    top = 0
    for step in range(2, n + m + 1):
        mo.sync_threads()
        column = step - row
        score = 0
        if row <= n and 1 <= column <= m:
            score = scores[row - 1, older] + (same if a[row - 1] == b[column - 1] else other)
            score = max(0, score, scores[row - 1, old] + gap, scores[row, old] + gap)
        scores[row, new] = score
        top = max(top, score)
        older, old, new = old, new, older
    top = mo.block_reduce(top, scratch, "max")
    if tid == 0:
        best[0] = top


def draw_alignment(rng, n):
    a, b = rng.integers(0, 4, min(n, 128)).astype(np.uint8), rng.integers(0, 4, n).astype(np.int8)
    table = np.zeros((len(a) + 1, len(b) + 1), int)
    for i in range(len(a)):
        for j in range(len(b)):
            score = table[i, j] + (2 if a[i] == b[j] else -1)
            table[i + 1, j + 1] = max(0, score, table[i, j + 1] - 1, table[i + 1, j] - 1)
    return (np.zeros(1, np.int32), a, b), {0: np.array([table.max()])}


def alignment(best, a, b):
    alignment_kernel[1, 128](best, a, b, -1, 2, -1)


PORTS = [Port("bitonic sort", bitonic, draw_bitonic), Port("radix sort", radix, draw_radix),
         Port("merge by paths", merge, draw_merge), Port("tokens of experts", align, draw_align),
         Port("sums of segments", segments, draw_segments), Port("Smith-Waterman", alignment, draw_alignment)]
