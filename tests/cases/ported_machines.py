"""Kernels that newcomers write: hashes, ciphers, an interpreter, sequences and texts."""

from __future__ import annotations

import hashlib
import math
import zlib

import numpy as np

import moye as mo
from ports import Port

# --- SHA-256 of texts that fit one block, a thread for each -----------------------------------------------------------

_PRIMES = [q for q in range(2, 312) if all(q % d for d in range(2, math.isqrt(q) + 1))]
ROUNDS = tuple(int(math.modf(q ** (1 / 3))[0] * 2 ** 32) for q in _PRIMES[:64])
FIRST = tuple(int(math.modf(q ** 0.5)[0] * 2 ** 32) for q in _PRIMES[:8])


def rotated(x, n):
    return x >> n | x << (32 - n)


def compressed(state, words):
    """The words of the schedule are a list that grows: each is made of four before it."""
    a, b, c, d, e, f, g, h = state
    w = list(words)
    for i in range(64):
        if i >= 16:
            s0 = rotated(w[i - 15], 7) ^ rotated(w[i - 15], 18) ^ w[i - 15] >> 3
            s1 = rotated(w[-2], 17) ^ rotated(w[-2], 19) ^ w[-2] >> 10
            w.append(w[-16] + s0 + w[-7] + s1)
        t1 = h + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) + (e & f ^ ~e & g) + ROUNDS[i] + w[i]
        t2 = (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + (a & b ^ a & c ^ b & c)
        h, g, f, e, d, c, b, a = g, f, e, d + t1, c, b, a, t1 + t2
    return [x + y for x, y in zip(state, (a, b, c, d, e, f, g, h), strict=True)]


@mo.kernel
def sha_kernel(digest, words):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    if i < digest.shape[0]:
        state = [mo.uint32(h) for h in FIRST]
        for k, v in enumerate(compressed(state, [words[i, j] for j in range(16)])):
            digest[i, k] = v


def sha(digest, words):
    sha_kernel[mo.ceil_div(digest.shape[0], 32), 32](digest, words)


def draw_sha(rng, n):
    texts = rng.integers(0, 256, (n, 40), dtype=np.uint8)
    blocks = np.zeros((n, 64), np.uint8)
    blocks[:, :40], blocks[:, 40], blocks[:, 62], blocks[:, 63] = texts, 0x80, 320 >> 8, 320 & 255
    wanted = [np.frombuffer(hashlib.sha256(bytes(text)).digest(), ">u4") for text in texts]
    return (np.zeros((n, 8), np.uint32), blocks.view(">u4").astype(np.uint32)), {0: np.array(wanted)}


# --- CRC-32 of messages, by a table that the block makes in shared memory ---------------------------------------------


@mo.kernel
def crc_kernel(out, data, lengths):
    tid = mo.thread_idx().x
    table = mo.shared_array(mo.uint32, 256)
    for i in range(tid, 256, mo.block_dim().x):
        c = mo.uint32(i)
        for _ in range(8):
            c = (c >> 1) ^ 0xEDB88320 if c & 1 else c >> 1
        table[i] = c
    mo.sync_threads()
    row = mo.block_idx().x * mo.block_dim().x + tid
    if row < mo.size(out):
        crc, k = mo.uint32(0xFFFFFFFF), 0
        while k < lengths[row]:
            crc = table[(crc ^ data[row, k]) & 0xFF] ^ crc >> 8
            k += 1
        out[row] = ~crc


def crc(out, data, lengths):
    crc_kernel[mo.ceil_div(len(out), 64), 64](out, data, lengths)


def draw_crc(rng, n):
    data, lengths = rng.integers(0, 256, (n, 13), dtype=np.uint8), rng.integers(0, 14, n).astype(np.int16)
    wanted = [zlib.crc32(bytes(row[:k])) for row, k in zip(data, lengths, strict=True)]
    return (np.zeros(n, np.uint32), data, lengths), {0: np.array(wanted)}


# --- AES-128 of one block for each thread, its table in shared memory -------------------------------------------------


def substitutions():
    """The table of FIPS 197: inverses in GF(2^8) along powers of 3, turned and added."""
    table, p, q = np.zeros(256, np.uint8), 1, 1
    table[0] = 0x63
    while not table[1]:
        p = p ^ (p << 1) & 0xFF ^ (0x1B if p & 0x80 else 0)
        for shift in (1, 2, 4):
            q = (q ^ q << shift) & 0xFF
        q ^= 0x09 if q & 0x80 else 0
        turned = [(q << k | q >> (8 - k)) & 0xFF for k in range(5)]
        table[p] = np.bitwise_xor.reduce(turned) ^ 0x63
    return table


@mo.jit
def doubled(v):
    return ((v << 1) ^ (0x1B if v & 0x80 else 0)) & 0xFF


@mo.kernel
def aes_kernel(out, state, keys, box, rounds: mo.Constexpr = 10):
    tid = mo.thread_idx().x
    sub = mo.shared_array(mo.uint8, 256)
    for k in range(tid, 256, mo.block_dim().x):
        sub[k] = box[k]
    mo.sync_threads()
    i = mo.block_idx().x * mo.block_dim().x + tid
    if i >= state.shape[0]:
        return
    shifted = [(k + 4 * (k % 4)) % 16 for k in range(16)]
    s = [mo.int32(state[i, k] ^ keys[0, k]) for k in range(16)]
    for r in range(1, rounds):
        s = [mo.int32(sub[s[k]]) for k in shifted]
        mixed = []
        for at in mo.static_range(0, 16, 4):
            column = s[at:at + 4]
            for j in mo.static_range(4):
                a, b, c, d = (column[(j + step) % 4] for step in range(4))
                mixed.append(doubled(a) ^ doubled(b) ^ b ^ c ^ d)
        s = [v ^ keys[r, k] for k, v in enumerate(mixed)]
    for to, k in enumerate(shifted):
        out[i, to] = sub[s[k]] ^ keys[rounds, to]


def aes(out, state, keys, box):
    aes_kernel[mo.ceil_div(len(out), 64), 64](out, state, keys, box)


def draw_aes(rng, n):
    box, shifted = substitutions(), [(k + 4 * (k % 4)) % 16 for k in range(16)]
    state, keys = (rng.integers(0, 256, (rows, 16), dtype=np.uint8) for rows in (n, 11))
    x = state ^ keys[0]
    for r in range(1, 10):
        x = box[x][:, shifted].reshape(-1, 4, 4).astype(int)
        twice = (x << 1 ^ np.where(x & 0x80, 0x1B, 0)) & 0xFF
        after = [np.roll(x, -step, 2) for step in range(4)]
        x = (twice ^ np.roll(twice, -1, 2) ^ after[1] ^ after[2] ^ after[3]).reshape(-1, 16) ^ keys[r]
    return (np.zeros((n, 16), np.uint8), state, keys, box), {0: box[x][:, shifted] ^ keys[10]}


# --- a machine with a stack and more opcodes than Python nests statements ---------------------------------------------

CODES = ["add", "sub", "mul", "div", "mod", "and", "or", "xor", "lt", "le", "gt", "ge", "eq", "ne", "min", "max", "neg",
         "half", "abs", "inc", "dec", "dup", "load", "push", "over", "swap", "jz", "halt"]
NEG, DUP, LOAD, PUSH, SWAP, JZ, HALT = map(CODES.index, ("neg", "dup", "load", "push", "swap", "jz", "halt"))


@mo.jit
def computed(op, b, a):
    """What an opcode leaves on the top of the stack."""
    result = b
    if op == 0:
        result = b + a
    elif op == 1:
        result = b - a
    elif op == 2:
        result = b * a
    elif op == 3:
        result = b // a if a != 0 else 0
    elif op == 4:
        result = b % a if a != 0 else 0
    elif op == 5:
        result = b & a
    elif op == 6:
        result = b | a
    elif op == 7:
        result = b ^ a
    elif op == 8:
        result = int(b < a)
    elif op == 9:
        result = int(b <= a)
    elif op == 10:
        result = int(b > a)
    elif op == 11:
        result = int(b >= a)
    elif op == 12:
        result = int(b == a)
    elif op == 13:
        result = int(b != a)
    elif op == 14:
        result = min(a, b)
    elif op == 15:
        result = max(a, b)
    elif op == 16:
        result = -a
    elif op == 17:
        result = a >> 1
    elif op == 18:
        result = abs(a)
    elif op == 19:
        result = a + 1
    elif op == 20:
        result = a - 1
    elif op == 21:
        result = a
    return result


@mo.kernel
def machine_kernel(out, code, args, x):
    lane = mo.thread_idx().x
    i = mo.block_idx().x * 32 + lane
    stack = mo.shared_array(mo.int32, (16, 32))
    pc, sp = 0, 0
    if i >= mo.size(out):
        return
    while True:
        op, arg = mo.int32(code[pc]), args[pc]
        pc += 1
        a = stack[sp - 1, lane] if sp > 0 else 0
        b = stack[sp - 2, lane] if sp > 1 else 0
        result = computed(op, b, a)
        if op == HALT:
            break
        elif op == LOAD:
            result = x[i]
        elif op == PUSH:
            result = mo.int32(arg)
        elif op == SWAP:
            stack[sp - 2, lane] = a
        elif op == JZ and a == 0:
            pc = int(arg)
        if op < NEG or op == JZ:                            # of two numbers
            sp -= 1
        elif DUP <= op < SWAP:
            sp += 1
        if sp > 0:
            stack[sp - 1, lane] = result
    out[i] = stack[0, lane]


def machine(out, code, args, x):
    machine_kernel[mo.ceil_div(len(out), 32), 32](out, code, args, x)


def interpreted(program, x):
    """What the machine leaves at the bottom of its stack."""
    stack, pc = [], 0
    two = {"add": lambda b, a: b + a, "sub": lambda b, a: b - a, "mul": lambda b, a: b * a, "div": lambda b, a: b // a,
           "mod": lambda b, a: b % a, "lt": lambda b, a: int(b < a), "max": max, "xor": lambda b, a: b ^ a}
    while program[pc][0] != "halt":
        op, arg = program[pc]
        pc += 1
        if op in two:
            a, b = stack.pop(), stack.pop()
            stack.append(two[op](b, a))
        elif op in ("push", "load", "dup", "over"):
            stack.append({"push": arg, "load": x, "dup": stack[-1:], "over": stack[-2:-1]}[op])
            stack[-1] = stack[-1][0] if isinstance(stack[-1], list) else stack[-1]
        elif op == "swap":
            stack[-1], stack[-2] = stack[-2], stack[-1]
        elif op == "jz":
            pc = arg if stack.pop() == 0 else pc
        else:
            stack[-1] = {"dec": lambda a: a - 1, "neg": lambda a: -a, "half": lambda a: a >> 1}[op](stack[-1])
    return stack[0]


PROGRAM = [("load", 0), ("push", 5), ("mod", 0), ("dup", 0), ("jz", 11), ("dec", 0), ("load", 0), ("push", 3),
           ("div", 0), ("add", 0), ("half", 0), ("push", 7), ("over", 0), ("max", 0), ("neg", 0), ("push", 3),
           ("swap", 0), ("sub", 0), ("xor", 0), ("load", 0), ("lt", 0), ("halt", 0)]


def draw_machine(rng, n):
    code = np.array([CODES.index(op) for op, _ in PROGRAM], np.uint8)
    args, x = np.array([arg for _, arg in PROGRAM], np.int16), rng.integers(-50, 50, n).astype(np.int32)
    wanted = np.array([interpreted(PROGRAM, v) for v in x.tolist()])
    return (np.full(n, -999, np.int32), code, args, x), {0: wanted}


# --- the likeliest states of a hidden Markov model (Viterbi), a block for each sequence -------------------------------


@mo.kernel
def viterbi_kernel(path, back, emit, trans, start):
    s, row = mo.thread_idx().x, mo.block_idx().x
    states, steps = mo.block_dim().x, emit.shape[1]
    score, last, now = mo.shared_array(mo.float32, (2, 32)), mo.shared_array(mo.int32, ()), 0
    score[0, s] = start[s] + emit[row, 0, s]
    for t in range(1, steps):
        mo.sync_threads()
        best, at = score[now, 0] + trans[0, s], 0
        for p in range(1, states):
            if (found := score[now, p] + trans[p, s]) > best:
                best, at = found, p
        now ^= 1
        score[now, s], back[row, t, s] = best + emit[row, t, s], at
    mo.sync_threads()
    if s == 0:
        last[()] = max(range(32), key=lambda p: score[now, p])
        for t in range(steps - 1, -1, -1):
            path[row, t] = last[()]
            if t > 0:
                last[()] = back[row, t, last[()]]


def viterbi(path, back, emit, trans, start):
    viterbi_kernel[emit.shape[0], 32](path, back, emit, trans, start)


def draw_viterbi(rng, n):
    steps = n % 20 + 1
    emit, trans, start = (rng.standard_normal(s).astype(np.float32) for s in ((2, steps, 32), (32, 32), 32))
    wanted = []
    for row in emit.astype(np.float64):
        score, back = start + row[0], []
        for here in row[1:]:
            ways = score[:, None] + trans
            back.append(ways.argmax(0))
            score = ways.max(0) + here
        path = [score.argmax()]
        for place in reversed(back):
            path.append(place[path[-1]])
        wanted.append(path[::-1])
    arguments = np.full((2, steps), -1, np.int32), np.zeros((2, steps, 32), np.int8), emit, trans, start
    return arguments, {0: np.array(wanted)}


# --- numbers of five bits in words, and a pattern in a text (Horspool) ------------------------------------------------


@mo.kernel
def packed_kernel(words, numbers, bits: mo.Constexpr):
    w = mo.block_idx().x * 32 + mo.thread_idx().x
    if w < mo.size(words):
        first, word = w * 32 // bits, mo.uint64(0)
        for j in range(32 // bits + 2):
            at = (first + j) * bits - w * 32
            if first + j < mo.size(numbers) and at < 32:
                v = numbers[first + j].to(mo.uint64)
                word |= v << at if at >= 0 else v >> -at
        words[w] = word & 0xFFFFFFFF


def packed(words, numbers):
    packed_kernel[mo.ceil_div(len(words), 32), 32](words, numbers, 5)


def draw_packed(rng, n):
    numbers, words = rng.integers(0, 32, n, dtype=np.uint8), -(-5 * n // 32)
    whole = sum(int(x) << 5 * i for i, x in enumerate(numbers))
    return (np.zeros(words, np.uint32), numbers), {0: np.array([whole >> 32 * i & 0xFFFFFFFF for i in range(words)])}


@mo.kernel
def hits_kernel(hits, text, pattern: mo.Static):
    """A thread begins at each 32nd place; the count has no modes."""
    tid, m = mo.thread_idx().x, pattern.shape[0]
    skip = mo.shared_array(mo.uint8, 256)
    for c in range(tid, 256, mo.block_dim().x):
        skip[c] = m
    mo.sync_threads()
    if tid == 0:
        for j in range(m - 1):
            skip[pattern[j]] = m - 1 - j
    mo.sync_threads()
    at = (mo.block_idx().x * mo.block_dim().x + tid) * 32
    stop = min(at + 32, text.shape[0] - m + 1)
    while at < stop:
        j = m - 1
        while j >= 0 and text[at + j] == pattern[j]:
            j -= 1
        if j < 0:
            mo.atomic_add(hits, (), 1)
        at += skip[text[at + m - 1]]


def hits(count, text, pattern):
    hits_kernel[mo.ceil_div(len(text), 1024), 32](count, text, pattern)


def draw_hits(rng, n):
    text = rng.integers(97, 99, n + 5, dtype=np.uint8)
    wanted = sum((text[i:i + 3] == text[1:4]).all() for i in range(len(text) - 2))
    return (np.zeros((), np.int32), text, text[1:4].copy()), {0: np.array(wanted)}


PORTS = (Port("SHA-256", sha, draw_sha), Port("CRC-32", crc, draw_crc), Port("AES", aes, draw_aes),
         Port("machine with a stack", machine, draw_machine), Port("Viterbi", viterbi, draw_viterbi, large=1019),
         Port("five bits", packed, draw_packed), Port("Horspool", hits, draw_hits))
