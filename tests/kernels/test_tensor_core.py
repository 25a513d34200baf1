"""What the tensor-core examples say of themselves: no bank conflicts, how they round, what a warp does at once."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye.layout import Layout, composition
from moye.layout import analysis as an

DOUBLE_BUFFERED = "12_matmul_tensor_core_double_buffered"
NAMES = ("A", "sA", "copy_A", "read_A", "B", "sB", "copy_B", "read_B", "C", "mma")


class Arguments:
    """Stands in for a kernel: a launch gives its arguments by name."""

    def __getitem__(self, config):
        return lambda *args: dict(zip(NAMES, args, strict=True))


@pytest.fixture
def given(example):
    one = np.zeros((128, 128), np.float32)
    return example(DOUBLE_BUFFERED).matmul(one, one, one, kernel=Arguments())


def degree(tile, access):
    report = an.bank_conflicts(composition(tile, access.layout_tv), 32, access.kind, vector=access.vector)
    return report.degree, report.conflicts


@pytest.mark.parametrize(("tile", "copy", "kind"), [("sA", "copy_A", "st"), ("sB", "copy_B", "st"),
                                                    ("sA", "read_A", "ld")])
def test_no_copy_has_bank_conflicts(given, tile, copy, kind):
    assert degree(given[tile], an.Access.of_copy(given[copy], given[tile], kind)) == (1, 0)


@pytest.mark.parametrize("plain", [False, True])
def test_ldmatrix_has_no_bank_conflicts_thanks_to_the_swizzle(given, plain):
    """Eight rows, 16 bytes of each, at the four places along k."""
    tile = mo.make_layout((128, 16, 2), (16, 1, 2048)) if plain else given["sB"]
    report = an.bank_conflicts(composition(tile, Layout.parse("((8,4)):((1,512))")), 32, "ldmatrix")
    assert report.degree == (4 if plain else 1)


def test_unpadded_columns_would_conflict(given):
    plain = mo.make_layout((128, 16, 2), (1, 128, 2048))
    assert degree(plain, an.Access.of_copy(given["read_A"], plain, "ld"))[0] == 4


def test_the_mma_is_the_manuals(given):
    assert str(given["mma"]) == "TiledMMA(SM80_16x8x8_F32TF32TF32F32_TN, atoms (2,2,1):(2,1,1), " \
                                "permutations (32, 32, 8))"
    assert mo.size(given["mma"]) == 128
    assert [given["mma"].tile_size(i) for i in range(3)] == [32, 32, 8]


def test_plain_copies_round_and_ldmatrix_cuts_off(example):
    """Just below the next of tf32's numbers: half of 2^-10 above one is a tie, away from zero."""
    for x, rounded in ((1 + 2**-11, 1 + 2**-10), (1 + 2**-10 - 2**-20, 1 + 2**-10), (1 + 2**-12, 1.0)):
        A, B = np.full((16, 8), x, np.float32), np.ones((8, 8), np.float32)
        for stem, options, order, wanted in (("10_matmul_tensor_core", (), "F", rounded),
                                             ("11_matmul_ldmatrix", ("k",), "C", 1.0),
                                             ("11_matmul_ldmatrix", ("m",), "F", 1.0)):
            C = np.full((16, 8), np.nan, np.float32, order="F")
            example(stem).matmul(np.asarray(A, order=order), B, C, *options)
            assert np.array_equal(C, np.full((16, 8), 8 * wanted)), stem


@pytest.mark.parametrize("K", [16, 80], ids="K={}".format)
def test_clean_with_early_copies(example, K):
    """Copies that complete at once, instead of at their latest legal time, change nothing."""
    module, rng = example(DOUBLE_BUFFERED), np.random.default_rng(0)
    A, B = np.asfortranarray(rng.standard_normal((128, K), np.float32)), rng.standard_normal((128, K), np.float32)
    early, late = (np.full((128, 128), np.nan, np.float32, order="F") for _ in range(2))
    report = module.matmul(A, B, early, kernel=mo.check(module.matmul_kernel, earliest=True))
    assert report.ok, str(report)
    module.matmul(A, B, late)
    assert np.array_equal(early, late)
