"""What the warpgroups' matrix product is misused with: one sentence each, and nothing is compiled or written."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from moye.cuda.compiler import nvrtc
from moye.cuda.device import driver
from moye.kernels import TensorConfig, WarpgroupConfig, gemm_sm90
from moye.runtime.prepare import compile_only


def half(*shape):
    return np.ones(shape, np.float16)


def single(*shape):
    return np.ones(shape, np.float32)


class Product:
    """A call in which one thing at a time is made wrong."""

    def __init__(self, A=None, B=None, C=None, **options):
        self.A, self.B = half(48, 32) if A is None else A, half(64, 32) if B is None else B
        self.C, self.options = np.full((48, 64), np.nan, np.float16) if C is None else C, options

    def __call__(self):
        gemm_sm90(self.A, self.B, self.C, **self.options)


class FakeCudaArray:
    """What a CUDA array looks like to moye; its memory is never touched."""

    def __init__(self, shape=(64, 32), above=0):
        self.shape, self.above = shape, above

    @property
    def __cuda_array_interface__(self):
        return {"shape": self.shape, "typestr": "<f2", "data": ((1 << 40) + self.above, False), "version": 3}


def configured(bM=128, bN=128, bK=64, stages=3, schedule="cooperative", groups=2, *, gated=False, **more):
    product = Product(half(48, 512), half(128 if gated else 64, 512),
                      config=WarpgroupConfig(bM, bN, bK, stages, schedule, groups, **more))
    product.options |= {"gated": True} if gated else {}
    return product


def gated(B=None, **options):
    return Product(B=half(128, 32) if B is None else B, gated=True, **options)


def integers(**options):
    return Product(np.ones((48, 32), np.int8), np.ones((64, 32), np.int8), np.full((48, 64), 77, np.int32), **options)


def shared(parts):
    """A, B, C and the residual as parts of one array."""
    A, B, C, *residual = parts(half(96, 200))
    return Product(A, B, C, **({"residual": residual[0]} if residual else {}))


PRODUCTS = {
    # dtypes
    "gemm_sm90_of_float64": Product(np.ones((48, 32)), np.ones((64, 32))),
    "gemm_sm90_of_int16": Product(B=np.ones((64, 32), np.int16)),
    "gemm_sm90_of_two_dtypes": Product(B=np.ones((64, 32), ml_dtypes.bfloat16)),
    "gemm_sm90_of_two_signs": Product(np.ones((48, 32), np.int8), np.ones((64, 32), np.uint8)),
    "gemm_sm90_into_float64": Product(C=np.full((48, 64), np.nan)),
    "gemm_sm90_of_integers_into_float32": Product(np.ones((48, 32), np.int8), np.ones((64, 32), np.int8),
                                                  np.full((48, 64), np.nan, np.float32)),
    # shapes
    "gemm_sm90_other_K": Product(half(48, 16)),
    "gemm_sm90_B_is_turned": Product(B=half(32, 64)),
    "gemm_sm90_C_is_turned": Product(C=half(64, 48)),
    "gemm_sm90_one_batch": Product(half(48, 32, 2)),
    "gemm_sm90_other_batches": Product(half(48, 32, 2), half(64, 32, 3), np.full((48, 64, 2), np.nan, np.float16)),
    "gemm_sm90_of_a_vector": Product(half(48)),
    "gemm_sm90_of_a_list": Product([[1.0]]),
    "gemm_sm90_reversed_rows": Product(half(48, 32)[::-1]),
    "gemm_sm90_reversed_C": Product(C=np.full((48, 64), np.nan, np.float16)[:, ::-1]),
    # memory
    "gemm_sm90_C_is_A": shared(lambda X: (X[:48, :64], half(64, 64), X[:48, :64])),
    "gemm_sm90_C_is_B_turned": shared(lambda X: (half(64, 64), X[:64, :64], X[:64, :64].T)),
    "gemm_sm90_C_is_the_end_of_A": shared(lambda X: (X[:48, :64], half(64, 64), X[:48, 63:127])),
    "gemm_sm90_residual_is_C_below": shared(lambda X: (half(48, 64), half(64, 64), X[:48, :64], X[1:49, :64])),
    # what is fused
    "gemm_sm90_short_bias": Product(bias=single(32)),
    "gemm_sm90_bias_is_a_list": Product(bias=[1.0] * 64),
    "gemm_sm90_bias_of_rows": Product(bias=single(48)),
    "gemm_sm90_row_scale_of_columns": Product(row_scale=single(64)),
    "gemm_sm90_col_scale_is_a_matrix": Product(col_scale=single(1, 64)),
    "gemm_sm90_other_residual": Product(residual=half(64, 48)),
    "gemm_sm90_one_residual_for_all": Product(half(48, 32, 2), half(64, 32, 2), half(48, 64, 2),
                                              residual=half(48, 64)),
    "gemm_sm90_integers_and_a_real_bias": integers(bias=single(64)),
    "gemm_sm90_integers_and_real_scales": integers(row_scale=single(48)),
    "gemm_sm90_fraction_of_integers": integers(alpha=0.5),
    "gemm_sm90_alpha_is_a_string": Product(alpha="2"),
    "gemm_sm90_beta_is_an_array": Product(beta=single(48)),
    "gemm_sm90_unknown_activation": Product(activation="tanh"),
    "gemm_sm90_activation_of_two": Product(activation=lambda x, y: x),
    # gated
    "gemm_sm90_gated_by_one_half": gated(half(64, 32)),
    "gemm_sm90_gated_by_an_odd_number_of_rows": gated(half(127, 32)),
    "gemm_sm90_gated_with_a_residual": gated(residual=half(48, 64)),
    "gemm_sm90_gated_with_beta": gated(beta=1),
    "gemm_sm90_gated_by_half_a_bias": gated(bias=single(64)),
    "gemm_sm90_gated_and_split": configured(64, 64, groups=1, split_k=2, stages=4, gated=True),
    "gemm_sm90_gated_and_turned": configured(64, 64, groups=1, swap=True, gated=True),
    "gemm_sm90_gated_by_four_columns": configured(bN=8, gated=True),
    # configurations
    "gemm_sm90_no_configuration": Product(config=TensorConfig(64, 64, 32, 3, 2, 2, 1)),
    "gemm_sm90_no_tile": configured(bM=0),
    "gemm_sm90_of_half_a_stage": configured(stages=2.5),
    "gemm_sm90_of_no_stages": configured(stages=0),
    "gemm_sm90_of_one_stage": configured(stages=1),
    "gemm_sm90_of_no_such_schedule": configured(schedule="stream_k"),
    "gemm_sm90_stream_k_of_a_split": configured(stream_k=True, split_k=2),
    "gemm_sm90_of_four_groups": configured(bM=256, groups=4),
    "gemm_sm90_in_turns_of_one_group": configured(schedule="pingpong", groups=1),
    "gemm_sm90_of_64_rows_for_two_groups": configured(bM=64),
    "gemm_sm90_of_96_rows": configured(bM=96, groups=1),
    "gemm_sm90_of_100_columns": configured(bN=100),
    "gemm_sm90_of_512_columns": configured(bN=512),
    "gemm_sm90_of_32_k": configured(bK=32),
    "gemm_sm90_split_by_three": configured(split_k=3),
    "gemm_sm90_split_in_turns": configured(schedule="pingpong", split_k=2),
    "gemm_sm90_split_with_too_few_stages": configured(bN=256, split_k=2),
    "gemm_sm90_split_with_no_room_for_C": configured(bN=64, split_k=2),
    "gemm_sm90_split_beyond_its_tiles": Product(config=WarpgroupConfig(64, 64, 64, 4, groups=1, split_k=2)),
    "gemm_sm90_shared_by_three": configured(share_A=3),
    "gemm_sm90_shared_by_sixteen": configured(share_A=4, share_B=4),
    "gemm_sm90_multicast_and_split": configured(stages=8, split_k=2, share_A=2),
    "gemm_sm90_multicast_of_eight_columns": configured(bN=8, share_B=2),
    "gemm_sm90_stream_of_C": configured(stream="C"),
    "gemm_sm90_stored_by_threads": configured(store="thread"),
    "gemm_sm90_of_nine_stages": configured(stages=9),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_product(name, refuses):
    refuses(name, PRODUCTS[name], PRODUCTS[name].C)


def test_devices_of_a_product(refuses, monkeypatch):
    monkeypatch.setattr(driver, "pointer_device", lambda pointer: 0)
    product = Product(B=FakeCudaArray())
    refuses("gemm_sm90_mixed_devices", product, product.C)


def test_an_array_of_no_library_that_is_copied(refuses, monkeypatch):
    """Its memory begins in the middle of 16 bytes; moye has nothing to make a copy with."""
    monkeypatch.setattr(driver, "pointer_device", lambda pointer: 0)
    product = Product(B=FakeCudaArray(above=2))
    refuses("gemm_sm90_of_an_array_of_no_library", product, product.C)


def test_an_array_of_no_library_that_is_turned(refuses, monkeypatch):
    monkeypatch.setattr(driver, "pointer_device", lambda pointer: 0)
    refuses("gemm_sm90_turned_for_an_array_of_no_library",
            Product(C=FakeCudaArray((48, 64)), config=WarpgroupConfig(64, 64, 64, 3, groups=1, swap=True)))


@pytest.mark.slow
def test_the_products_are_right_but_for_what_is_made_wrong():
    for product, expected in ((configured(), 512), (configured(64, 64, groups=1, gated=True), np.inf), (gated(), 1024),
                              (integers(alpha=2), 64), (Product(bias=single(64)), 33)):
        product()
        assert np.array_equal(product.C, np.full_like(product.C, expected))


@pytest.mark.parametrize("turned", [False, True])
def test_one_column_has_a_unit_stride_along_both_modes(turned):
    """K of 1, where the stride of the only column is never stepped over."""
    A, B = half(48, 1), half(1, 64).T if turned else half(64, 8)[:, :1]
    C = np.full((48, 64), np.nan, np.float16)
    gemm_sm90(A, B, C)
    assert (C == 1).all()


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_100a"])
def test_architectures_without_it(arch, monkeypatch):
    """The sentence names sm_90a, and comes before that of shared memory."""
    monkeypatch.setattr(nvrtc, "compile_cubin", None)
    with compile_only(arch), pytest.raises(mo.UnsupportedError, match=r"^gemm_sm90_kernel uses SM90_64x\d+x16_F32F16F16"
                                           rf"_SS, which sm_90a alone has, and is compiled for {arch}\n"):
        Product()()
