"""A step of the Game of Life on a torus, 32 cells in a word; neighbours are counted by adding bits of words."""

import numpy as np

import moye as mo


@mo.jit
def add(a, b, c):
    """Sum and carry of three bits, for 32 places at once."""
    return a ^ b ^ c, (a & b) | (c & (a ^ b))


@mo.kernel
def kernel(out, cells):
    rows, words = mo.shape(cells)
    j = mo.block_idx().x * 32 + mo.thread_idx().x
    i = mo.block_idx().y * 8 + mo.thread_idx().y
    if i >= rows or j >= words:
        return
    left, right = (j + words - 1) % words, (j + 1) % words
    ones, twos = [], []
    for di in (-1, 0, 1):
        r = (i + di + rows) % rows
        here = cells[r, j]
        west = here << 1 | cells[r, left] >> 31
        east = here >> 1 | cells[r, right] << 31
        if di == 0:
            ones.append(west ^ east)
            twos.append(west & east)
        else:
            one, two = add(west, here, east)
            ones.append(one)
            twos.append(two)
    one, carry = add(*ones)
    two, four = add(*twos)
    four, two = four ^ (two & carry), two ^ carry
    out[i, j] = two & ~four & (one | cells[i, j])


def case(small):
    rows, words = (20, 40) if small else (16384, 512)
    cells = np.random.default_rng(0).integers(0, 1 << 32, (rows, words), dtype=np.uint32)
    out = np.full_like(cells, 0xAAAAAAAA)

    def expected():
        some = np.concatenate([cells[-1:], cells[:min(rows, 512)], cells[min(rows, 512) % rows][None]])
        bits = np.unpackbits(some.view(np.uint8), axis=1, bitorder="little").astype(np.int8)
        around = sum(np.roll(np.roll(bits, a, 0), b, 1) for a in (-1, 0, 1) for b in (-1, 0, 1)) - bits
        live = ((around == 3) | (bits == 1) & (around == 2))[1:-1]
        return (np.packbits(live.astype(np.uint8), axis=1, bitorder="little").view(np.uint32),)
    return {"arguments": (out, cells), "outputs": (0,), "twin": (out, cells, rows, words),
            "grid": (mo.ceil_div(words, 32), mo.ceil_div(rows, 8)), "block": (32, 8), "expected": expected}
