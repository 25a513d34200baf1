"""Programs on words and bits: a hash table, a cipher, two walks over bits, a selection, a sampler, ported by habit.

In: nothing.  Out: the kernels, functions that launch them, and ``PORTS``, of which the tests draw arguments.
"""

from __future__ import annotations

import numpy as np

import moye as mo
from ports import Port

# --- a hash table with linear probing, filled by compare-and-swap -----------------------------------------------------

EMPTY = 0xFFFFFFFF


@mo.jit
def hashed(key):
    """The last steps of MurmurHash3."""
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        key ^= key >> shift
        key *= factor
    return key ^ (key >> 16)


@mo.kernel
def insert_kernel(slots, sums, keys, values):
    """A key has the first slot from its hash on that was free, or is its own already."""
    i, last = mo.block_idx().x * 64 + mo.thread_idx().x, mo.size(slots) - 1
    if i >= mo.size(keys):
        return
    at = hashed(keys[i]) & last
    while mo.atomic_cas(slots, at, EMPTY, keys[i]) not in (EMPTY, keys[i]):
        at = (at + 1) & last
    mo.atomic_add(sums, at, values[i])


@mo.kernel
def look_up_kernel(found, slots, sums, keys):
    i, last = mo.block_idx().x * 64 + mo.thread_idx().x, mo.size(slots) - 1
    if i < mo.size(keys):
        at = hashed(keys[i]) & last
        while slots[at] not in (EMPTY, keys[i]):
            at = (at + 1) & last
        found[i] = sums[at] if slots[at] == keys[i] else 0


def table(found, slots, sums, keys, values, asked):
    blocks = -(-keys.shape[0] // 64)
    insert_kernel[blocks, 64](slots, sums, keys, values)
    look_up_kernel[blocks, 64](found, slots, sums, asked)


def draw_table(rng, n):
    keys, asked = rng.integers(0, n, n).astype(np.uint32), rng.integers(0, 2 * n, n).astype(np.uint32)
    values, capacity = rng.integers(0, 100, n).astype(np.int32), 1 << (2 * n).bit_length()
    sums = np.bincount(keys, values, 2 * n)
    return (np.full(n, -1, np.int32), np.full(capacity, EMPTY, np.uint32), np.zeros(capacity, np.int32), keys, values,
            asked), {0: sums[asked]}


# --- ChaCha20: a block of 64 bytes for each thread (RFC 8439) ---------------------------------------------------------

ROUNDS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15), (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13),
          (3, 4, 9, 14))
WORDS = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)


@mo.kernel
def cipher_kernel(out, data, key, nonce, counter: mo.uint32):
    """The sixteen words of a state are a list, which the loop carries in registers."""
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    first = [*map(mo.uint32, WORDS), *(key[k] for k in range(8)), counter + i, *(nonce[k] for k in range(3))]
    state = list(first)
    for _ in range(10):
        for a, b, c, d in ROUNDS:
            for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                state[x] += state[y]
                state[z] = mo.funnel_shift_left(state[z] ^ state[x], state[z] ^ state[x], turn)
    for k in mo.static_range(16):
        if i * 16 + k < mo.size(data):
            out[i * 16 + k] = data[i * 16 + k] ^ (state[k] + first[k])


def cipher(out, data, key, nonce):
    cipher_kernel[-(-data.shape[0] // 512), 32](out, data, key, nonce, 0xFFFFFFFE)      # the counter wraps


def draw_cipher(rng, n):
    data, key, nonce = (rng.integers(0, 1 << 32, count).astype(np.uint32) for count in (n, 8, 3))
    blocks = -(-n // 16)
    first = np.concatenate([np.array(WORDS, np.uint32), key, np.zeros(1, np.uint32), nonce])[:, None].repeat(blocks, 1)
    first[12] = (0xFFFFFFFE + np.arange(blocks)) % (1 << 32)
    state = first.copy()
    for _ in range(10):
        for a, b, c, d in ROUNDS:
            for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                state[x] += state[y]
                word = state[z] ^ state[x]
                state[z] = word << np.uint32(turn) | word >> np.uint32(32 - turn)
    return (np.zeros(n, np.uint32), data, key, nonce), {0: data ^ (state + first).T.reshape(-1)[:n]}


# --- the game of life, 32 cells in a word, neighbours added bit by bit ------------------------------------------------


@mo.kernel
def life_kernel(after, before):
    """Ones, twos and fours of the number of neighbours are a word each; the board is a torus."""
    rows, words = mo.shape(before)
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    if i < rows * words:
        row, at = i // words, i % words
        ones, twos, fours = mo.uint32(0), mo.uint32(0), mo.uint32(0)
        for step in (-1, 0, 1):
            line = before[(row + step) % rows, None]                        # (words)
            here = line[at]
            left = mo.funnel_shift_left(line[(at - 1) % words], here, 1)
            right = mo.funnel_shift_right(here, line[(at + 1) % words], 1)
            for cells in (left, right, here) if step else (left, right):
                carry = ones & cells
                ones, twos, fours = ones ^ cells, twos ^ carry, fours | (twos & carry)
        after[row, at] = twos & ~fours & (ones | before[row, at])


def life(after, before):
    life_kernel[-(-before.shape[0] * before.shape[1] // 32), 32](after, before)


def draw_life(rng, n):
    before = rng.integers(0, 1 << 32, (n // 3, 3)).astype(np.uint32)
    cells = np.unpackbits(before.view(np.uint8), axis=1, bitorder="little").astype(int)
    near = sum(np.roll(cells, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)) - cells
    alive = (near == 3) | ((near == 2) & (cells == 1))
    return (np.zeros_like(before), before), {0: np.packbits(alive, axis=1, bitorder="little").view(np.uint32)}


# --- edit distances by bits: a column of the table is two words (Myers) -----------------------------------------------


@mo.kernel
def distances_kernel(out, word, texts, lengths):
    """One word of up to 64 letters against a text for each thread."""
    tid, m = mo.thread_idx().x, mo.size(word)
    i = mo.block_idx().x * 32 + tid
    places = mo.shared_array(mo.uint64, 128)                                # where the word has a letter
    for letter in range(tid, 128, 32):
        bits = mo.uint64(0)
        for j in range(m):
            bits |= mo.uint64(word[j] == letter) << j
        places[letter] = bits
    mo.sync_threads()
    if i >= mo.size(out):
        return
    more, less, distance = ~mo.uint64(0), mo.uint64(0), m
    for j in range(lengths[i]):
        same = places[texts[i, j]]
        diagonal = (((same & more) + more) ^ more) | same | less
        up, down = less | ~(diagonal | more), more & diagonal
        distance += (up >> (m - 1) & 1).to(mo.int32) - (down >> (m - 1) & 1).to(mo.int32)
        up = (up << 1) | 1
        more, less = (down << 1) | ~(same | less | up), up & (same | less)
    out[i] = distance


def distances(out, word, texts, lengths):
    distances_kernel[-(-out.shape[0] // 32), 32](out, word, texts, lengths)


def draw_distances(rng, n):
    word, texts = rng.integers(97, 101, 50).astype(np.uint8), rng.integers(97, 101, (n, 40)).astype(np.uint8)
    lengths = rng.integers(0, 41, n).astype(np.int32)
    table = np.zeros((n, 51, 41), int)
    table[:, :, 0], table[:, 0] = np.arange(51), np.arange(41)
    for i in range(50):
        for j in range(40):
            other = table[:, i, j] + (texts[:, j] != word[i])
            table[:, i + 1, j + 1] = np.minimum(other, np.minimum(table[:, i, j + 1], table[:, i + 1, j]) + 1)
    return (np.full(n, -1, np.int32), word, texts, lengths), {0: table[np.arange(n), 50, lengths]}


# --- the k-th smallest number, eight bits at a time -------------------------------------------------------------------


@mo.kernel
def select_kernel(out, x, k):
    """The bits of floats in the order of integers: those of negative ones turned over, the others above them."""
    tid, bins, scratch = mo.thread_idx().x, mo.shared_array(mo.int32, 256), mo.shared_array(mo.int32, 8)
    chosen = mo.shared_array(mo.int32, 2)
    known = mo.uint32(0)
    for shift in (24, 16, 8, 0):
        bins[tid] = 0
        mo.sync_threads()
        for i in range(tid, mo.size(x), 256):
            bits = x[i].bitcast(mo.uint32)
            bits = ~bits if bits >> 31 else bits | 1 << 31
            if shift == 24 or bits >> shift + 8 == known >> shift + 8:
                mo.atomic_add(bins, bits >> shift & 255, 1)
        mo.sync_threads()
        upto = mo.block_scan(bins[tid], scratch)
        if upto - bins[tid] <= k < upto:
            chosen[0], chosen[1] = tid, k - (upto - bins[tid])
        mo.sync_threads()
        known |= chosen[0].to(mo.uint32) << shift
        k = chosen[1]
        mo.sync_threads()
    if tid == 0:
        out[0] = (known ^ 1 << 31 if known >> 31 else ~known).bitcast(mo.float32)


def select(out, x):
    select_kernel[1, 256](out, x, x.shape[0] // 3)


def draw_select(rng, n):
    x = rng.standard_normal(n, np.float32)
    x[::4] = x[0]
    return (np.full(1, np.nan, np.float32), x), {0: np.sort(x)[n // 3:n // 3 + 1]}


# --- drafted tokens, accepted or drawn again (speculative decoding) ---------------------------------------------------


@mo.kernel
def verify_kernel(accepted, token, drafted, wanted, proposed, uniform):
    """A block takes drafted tokens while p >= u q, then draws one of max(p - q, 0), and of p behind the last."""
    row, tid, count, words = mo.block_idx().x, mo.thread_idx().x, mo.size(drafted, 1), mo.size(wanted, 2)
    scratch, found = mo.shared_array(mo.float32, 4), mo.shared_array(mo.int32, 1)
    taken = 0
    while taken < count:
        word = drafted[row, taken]
        if uniform[row, taken] * proposed[row, taken, word] > wanted[row, taken, word]:
            break
        taken += 1
    if tid == 0:
        found[0] = words - 1
    total, below = 0.0, 0.0
    for turn in (0, 1):                                 # first the sum, then the place
        for first in range(0, words, 128):
            word, left = first + tid, 0.0
            if word < words:
                left = max(wanted[row, taken, word] - (proposed[row, taken, word] if taken < count else 0.0), 0.0)
            if turn == 0:
                total += mo.block_reduce(left, scratch)
            else:
                upto = below + mo.block_scan(left, scratch)
                if word < words and upto > uniform[row, count] * total:
                    mo.atomic_min(found, 0, word)
                below += mo.block_reduce(left, scratch)
    mo.sync_threads()
    if tid == 0:
        accepted[row], token[row] = taken, found[0]


def verify(accepted, token, drafted, wanted, proposed, uniform):
    verify_kernel[drafted.shape[0], 128](accepted, token, drafted, wanted, proposed, uniform)


def draw_verify(rng, n):
    rows, count = 3, 4
    wanted = rng.integers(0, 64, (rows, count + 1, n)).astype(np.float32)
    proposed, drafted = wanted[:, :count] * 2, rng.integers(0, n, (rows, count)).astype(np.int32)
    proposed[:, -1:] = rng.integers(0, 64, (rows, 1, n))
    uniform = (rng.integers(0, 32, (rows, count + 1)) / 64).astype(np.float32)
    accepted, token = np.zeros(rows, np.int32), np.zeros(rows, np.int32)
    for row in range(rows):
        places = range(count), drafted[row]
        no = uniform[row, :count] * proposed[row][places] > wanted[row, :count][places]
        taken = int(no.argmax()) if no.any() else count
        left = np.maximum(wanted[row, taken] - (proposed[row, taken] if taken < count else 0), 0).astype(float).cumsum()
        above = np.flatnonzero(left > uniform[row, count] * left[-1])
        accepted[row], token[row] = taken, above[0] if len(above) else n - 1
    return (np.full(rows, -1, np.int32), np.full(rows, -1, np.int32), drafted, wanted, proposed, uniform), {
        0: accepted, 1: token}


PORTS = [Port("hash table", table, draw_table, tolerance=0), Port("ChaCha20", cipher, draw_cipher, tolerance=0),
         Port("game of life", life, draw_life, tolerance=0), Port("k-th smallest", select, draw_select, tolerance=0),
         Port("edit distances", distances, draw_distances, tolerance=0),
         Port("drafted tokens", verify, draw_verify, tolerance=0)]
