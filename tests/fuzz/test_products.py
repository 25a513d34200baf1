"""Random products are right in the simulator, and without findings; products with a fault are found.

By hand, more: ``python tests/fuzz/products.py SEED COUNT``.
"""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest

import random_products
from fuzz import products
from random_products import KINDS, NumPy, Place, Product, draw, like, run, simulated


def right(seeds):
    found = ((seed, product, products.failure(product)) for seed in seeds for product in [simulated(seed)])
    assert not (wrong := [f"{seed}: {product}\n{why}" for seed, product, why in found if why is not None]), wrong[0]


def test_a_few():
    right(range(6))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(6, 30, 12))
def test_more(first):
    right(range(first, first + 12))


def test_what_underflows_may_be_zero():
    """silu(-500) * inf: -inf of an exact silu, and a NaN of one in float32, which is zero."""
    right(range(5186, 5187))


# --- what is drawn ---------------------------------------------------------------------------------------------------


def test_everything_is_drawn():
    """Every dtype of A and C, and of each option each value, among a few hundred."""
    drawn = [simulated(seed) for seed in range(1500)]
    assert {(product.kind, product.out) for product in drawn} == {
        (name, out) for name, kind in KINDS.items() for out in kind.outs}
    assert {product.batches for product in drawn} == {None, 1, 2, 3}
    assert {product.special for product in drawn} == {"", "nan", "inf"}
    assert {product.arch for product in drawn} == {"sm_80", "sm_89", "sm_90a"}
    assert {name for product in drawn for name, *_ in product.vectors} == {"bias", "row_scale", "col_scale"}
    assert {name for product in drawn for name, _ in product.options} == {"tf32", "fast_accum", "splits"}
    assert {product.activation for product in drawn} == {"none", "relu", "gelu", "silu"}
    assert {place.modes for product in drawn for place in product.places} >= {
        (0, 1), (1, 0), (2, 0, 1), (2, 1, 0), (0, 2, 1), (0, 1, 2), (1, 0, 2), (1, 2, 0)}
    assert {place.repeated for product in drawn for place in product.places} == {(), (0,), (2,), (2, 0)}
    assert any(product.gated for product in drawn) and any(product.in_place for product in drawn)
    assert any(0 in (product.M, product.N, product.K) for product in drawn)


def test_others_of_the_same_kind_have_the_same_edges():
    rng = random.Random(0)
    for _ in range(200):
        product = draw(rng, most=3000, work=1 << 30)
        more = like(rng, product)
        for ours, theirs in zip((product.M, product.N, product.K), (more.M, more.N, more.K), strict=True):
            assert (ours - theirs) % 64 == 0 and min(ours, 1) <= theirs <= ours


# --- faults ----------------------------------------------------------------------------------------------------------

DENSE = Place((1, 0))
PLAIN = Product(3, "bf16", "bf16", 40, 30, 50, None, (DENSE, DENSE, Place((1, 0), slack=2), DENSE))
ROUND = {kind: Product(5, kind, KINDS[kind].outs[-1], 40, 30, 5000, None, (DENSE,) * 4) for kind in KINDS}


def multiplied(A, B, C, *, alpha=1, beta=0, bias=None, residual=None, activation="none", tf32=False):
    """What gemm does, in NumPy."""
    result = alpha * (A.astype(np.float64) @ B.T.astype(np.float64))
    for term in (beta * C.astype(np.float64) if beta else None, residual, bias):
        result = result if term is None else result + term.astype(np.float64)
    if activation == "relu":
        result = np.where(result < 0, 0, result)
    C[...] = result
    return C


def without_the_last(A, B, C, **options):
    return multiplied(A[:, :-1], B[:, :-1], C, **options)


def from_C(A, B, C, **options):
    multiplied(A, B, before := C.copy(), **options)
    C[...] = C * C.dtype.type(0) + before
    return C


def beside_C(A, B, C, **options):
    multiplied(A, B, C, **options)
    np.lib.stride_tricks.as_strided(C.view(np.uint16), (C.shape[0], C.shape[1] + 1), C.strides)[3, -1] = 0
    return C


def writing_A(A, B, C, **options):
    multiplied(A, B, C, **options)
    A[5, 5] = 1
    return C


def without_nans(A, B, C, **options):
    multiplied(A, B, C, **options)
    C[np.isnan(C)] = 0
    return C


def one_element_less(A, B, C, **options):
    multiplied(A, B, C, **options)
    C[7, 9] = C[7, 9] - A[7, 11].astype(np.float32) * B[9, 11].astype(np.float32)
    return C


def one_row_unwritten(A, B, C, **options):
    multiplied(A[:-1], B, C[:-1], **options)
    return C


FAULTS = {
    "without the last k": (without_the_last, PLAIN, "elements are wrong"),
    "C is read": (from_C, PLAIN, "1200 of 1200 elements are wrong"),
    "memory beside C": (beside_C, PLAIN, "something around C was written"),
    "A is written": (writing_A, PLAIN, "A was written"),
    "NaNs are lost": (without_nans, dataclasses.replace(PLAIN, special="nan", seed=1), "elements are wrong"),
    "an element of a sum": (one_element_less, dataclasses.replace(ROUND["bf16"], N=31), "1 of 1240 elements"),
    "a row": (one_row_unwritten, PLAIN, "30 of 1200 elements are wrong"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_seen(fault, monkeypatch):
    gemm, product, message = FAULTS[fault]
    monkeypatch.setattr(random_products, "gemm", multiplied)
    run(product, NumPy())
    monkeypatch.setattr(random_products, "gemm", gemm)
    with pytest.raises(AssertionError, match=message):
        run(product, NumPy())


@pytest.mark.parametrize("kind", ["bf16", "f32", "f64", "tf32", "s8"])
def test_a_product_too_coarse_is_seen(kind, monkeypatch):
    """Sums in the precision below: bf16's in float16, float32's of tfloat32, float64's in float32; one off."""
    def coarse(A, B, C, **options):
        if kind == "s8":
            multiplied(A, B, C)
            C[0, 0] += 1
        elif kind == "f32":
            to = NumPy().to_tf32
            C[...] = to(A.astype(np.float64)) @ to(B.astype(np.float64)).T
        else:
            narrow = {"bf16": np.float16, "f64": np.float32, "tf32": np.float16}[kind]
            parts = [A[:, i:i + 64].astype(narrow).astype(np.float64) @ B[:, i:i + 64].astype(narrow).T.astype(float)
                     for i in range(0, A.shape[1], 64)]
            total = np.zeros(C.shape, narrow)
            for part in parts:
                total = (total + part).astype(narrow)
            C[...] = total
        return C

    def exact(A, B, C, **options):
        return multiplied(*((NumPy().to_tf32(x.astype(np.float64)) for x in (A, B)) if kind == "tf32" else (A, B)), C)

    monkeypatch.setattr(random_products, "gemm", exact)
    run(ROUND[kind], NumPy())
    monkeypatch.setattr(random_products, "gemm", coarse)
    with pytest.raises(AssertionError):
        run(ROUND[kind], NumPy())
