"""Random numbers by counter: the known answers of Random123, Triton's mapping to floats, and dropout."""

from __future__ import annotations

import math

import numpy as np
import pytest

import moye as mo
from random_kernels import draw, draw_counters, dropout, dropped, philox, split, uniform

KNOWN = [  # counter, key, words: Random123, kat_vectors, philox4x32 10
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]


def test_known_answers():
    joined = [[(high << 32 | low) for low, high in (key, counter[:2], counter[2:])] for counter, key, _ in KNOWN]
    seeds, offsets, subsequences = np.array(joined, np.uint64).T.copy()
    words = np.zeros((3, 4), np.uint32)
    draw_counters[1, 3](words, seeds, offsets, subsequences)
    np.testing.assert_array_equal(words, [wanted for *_, wanted in KNOWN])
    assert [tuple(philox(counter, key)) for counter, key, _ in KNOWN] == [wanted for *_, wanted in KNOWN]


@pytest.mark.parametrize("number", range(3))
def test_known_answers_of_constants(number):
    counter, key, wanted = KNOWN[number]
    seed, offset, subsequence = ((high << 32 | low) for low, high in (key, counter[:2], counter[2:]))

    @mo.kernel
    def kernel(words):
        four = mo.philox(seed, offset, subsequence)
        for j in mo.static_range(4):
            words[j] = four[j]

    words = np.zeros(4, np.uint32)
    kernel[1, 1](words)
    assert tuple(words.tolist()) == wanted


@pytest.mark.parametrize(("seed", "first"), [(0, 0), (1234, 77), (-5, -3), (2**31 - 1, 2**31 - 256)])
def test_drawn(seed, first):
    """Of 32-bit seeds the sign goes on, of offsets not: as in Triton."""
    words, floats, normals = np.zeros((128, 4), np.uint32), np.zeros(128, np.float32), np.zeros(128, np.float32)
    draw[2, 64](words, floats, normals, seed, first)
    wanted = np.array([philox((first + i & 0xFFFFFFFF, 0, 0, 0), split(seed)) for i in range(128)], np.uint32)
    np.testing.assert_array_equal(words, wanted)
    np.testing.assert_array_equal(floats, uniform(wanted[:, 0]))
    u, v = (uniform(wanted[:, j]).astype(np.float64) for j in (0, 1))
    np.testing.assert_allclose(normals, np.sqrt(-2 * np.log(np.maximum(u, 1e-7))) * np.cos(2 * math.pi * v), rtol=2e-5,
                               atol=2e-6)


def test_the_ends_of_the_unit_interval():
    """Words map below 1, and 0 and the largest word to 0."""
    assert uniform([0, 0xFFFFFFFF]).tolist() == [0, 0]
    assert uniform([0x7FFFFFFF])[0] == uniform([0x80000000])[0] < 1


def test_distribution():
    n = 1 << 15
    words, floats, normals = np.zeros((n, 4), np.uint32), np.zeros(n, np.float32), np.zeros(n, np.float32)
    draw[n // 64, 64](words, floats, normals, 7, 0)
    assert abs(floats.mean() - 0.5) < 4 / math.sqrt(12 * n)
    assert abs(normals.mean()) < 4 / math.sqrt(n)
    assert abs(normals.std() - 1) < 4 / math.sqrt(2 * n)
    counts = np.bincount((floats * 16).astype(int), minlength=16)
    assert ((counts - n / 16) ** 2 / (n / 16)).sum() < 45       # chi square of 15 degrees: 1e-4


def test_tensors_draw_what_scalars_draw():
    @mo.kernel
    def kernel(out, words, four):
        i = mo.thread_idx().x
        r = mo.fragment((4,), mo.int32)
        for j in mo.static_range(4):
            r[j] = i * 4 + j
        mo.copyto(mo.tile(out, (4,), (i,)), mo.rand(9, r))
        mo.copyto(mo.tile(words, (4,), (i,)), mo.randint(9, r))
        mo.copyto(mo.tile(four, (4,), (i,)), mo.philox(9, r)[2])

    out, words, four = np.zeros(64, np.float32), np.zeros(64, np.uint32), np.zeros(64, np.uint32)
    kernel[1, 16](out, words, four)
    wanted = np.array([philox((i, 0, 0, 0), (9, 0)) for i in range(64)], np.uint32)
    np.testing.assert_array_equal(words, wanted[:, 0])
    np.testing.assert_array_equal(four, wanted[:, 2])
    np.testing.assert_array_equal(out, uniform(wanted[:, 0]))


@pytest.mark.parametrize("p", [0.0, 0.3, 0.9])
def test_dropout(p):
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    out = np.full_like(x, 77)
    report = mo.check(dropout)[2, 128](out, x, p, 42)
    assert not report.findings and not report.unsupported
    np.testing.assert_array_equal(out, dropped(x, p, 42))
    if p:
        assert abs((out == 0).mean() - p) < 0.06


def test_dropout_loads_128_bits():
    x = np.zeros(1024, np.float32)
    compiled = dropout.compile(x, x, 0.5, 1, block=128, arch="sm_90a")
    assert compiled.spills == 0
    assert "LDG.E.128" in compiled.sass
    assert "STG.E.128" in compiled.sass


@pytest.mark.parametrize(("seed", "message"), [(1.5, "the seed 1.5 is no integer of 64 bits"),
                                               (1 << 64, "is no integer of 64 bits")])
def test_refused(seed, message):
    @mo.kernel
    def kernel(out):
        out[0] = mo.rand(seed, 0)

    with pytest.raises(mo.DTypeError, match=message):
        kernel[1, 1](np.zeros(1, np.float32))
