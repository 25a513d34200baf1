"""What the warpgroups' matrix product is misused with: one sentence each, and nothing is compiled or written."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from moye.cuda import driver, nvrtc
from moye.kernels import TensorConfig, WarpgroupConfig, gemm_sm90
from moye.runtime.prepare import compile_only


def half(*shape):
    return np.ones(shape, np.float16)


class Product:
    """A call in which one thing at a time is made wrong."""

    def __init__(self, A=None, B=None, C=None, **options):
        self.A, self.B = half(48, 32) if A is None else A, half(64, 32) if B is None else B
        self.C, self.options = np.full((48, 64), np.nan, np.float16) if C is None else C, options

    def __call__(self):
        gemm_sm90(self.A, self.B, self.C, **self.options)


class FakeCudaArray:
    """What a CUDA array looks like to moye; its memory is never touched."""

    __cuda_array_interface__ = {"shape": (64, 32), "typestr": "<f2", "data": (1 << 40, False), "version": 3}  # noqa: RUF012


def configured(bM=128, bN=128, bK=64, stages=3):
    return Product(config=WarpgroupConfig(bM, bN, bK, stages))


PRODUCTS = {
    # dtypes
    "gemm_sm90_of_float32": Product(np.ones((48, 32), np.float32), np.ones((64, 32), np.float32)),
    "gemm_sm90_of_two_dtypes": Product(B=np.ones((64, 32), ml_dtypes.bfloat16)),
    "gemm_sm90_into_float32": Product(C=np.full((48, 64), np.nan, np.float32)),
    # shapes
    "gemm_sm90_other_K": Product(half(48, 16)),
    "gemm_sm90_B_is_turned": Product(B=half(32, 64)),
    "gemm_sm90_C_is_turned": Product(C=half(64, 48)),
    "gemm_sm90_of_a_batch": Product(half(48, 32, 2)),
    "gemm_sm90_of_a_list": Product([[1.0]]),
    # strides and pointers
    "gemm_sm90_odd_rows_of_A": Product(half(48, 33)[:, :32]),
    "gemm_sm90_odd_columns_of_B": Product(B=half(32, 65)[:, :64].T),
    "gemm_sm90_odd_rows_of_C": Product(C=half(48, 65)[:, :64]),
    "gemm_sm90_ragged_rows_of_C": Product(B=half(63, 32), C=half(48, 64)[:, :63]),
    "gemm_sm90_one_row_for_all": Product(np.broadcast_to(half(1, 32), (48, 32))),
    "gemm_sm90_no_unit_stride": Product(half(48, 64)[:, ::2]),
    "gemm_sm90_no_unit_stride_of_C": Product(C=half(48, 128)[:, ::2]),
    "gemm_sm90_column_major_C": Product(C=half(64, 48).T),
    "gemm_sm90_reversed_rows": Product(half(48, 32)[::-1]),
    "gemm_sm90_unaligned_A": Product(half(48, 40)[:, 1:33]),
    # configurations
    "gemm_sm90_no_configuration": Product(config=TensorConfig(64, 64, 32, 3, 2, 2, 1)),
    "gemm_sm90_of_256_rows": configured(bM=256),
    "gemm_sm90_of_96_columns": configured(bN=96),
    "gemm_sm90_of_512_columns": configured(bN=512),
    "gemm_sm90_of_32_k": configured(bK=32),
    "gemm_sm90_of_one_stage": configured(stages=1),
    "gemm_sm90_of_no_stages": configured(stages=0),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_product(name, refuses):
    refuses(name, PRODUCTS[name], PRODUCTS[name].C)


def test_too_much_shared_memory(refuses):
    refuses("gemm_sm90_of_nine_stages", configured(stages=9))


def test_devices_of_a_product(refuses, monkeypatch):
    monkeypatch.setattr(driver, "pointer_device", lambda pointer: 0)
    product = Product(B=FakeCudaArray())
    refuses("gemm_sm90_mixed_devices", product, product.C)


def test_the_product_is_right_but_for_what_is_made_wrong():
    product = configured()
    product()
    assert (product.C == 32).all()


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
    with compile_only(arch), pytest.raises(mo.UnsupportedError, match=r"^gemm_sm90_kernel uses SM90_64x128x16_F32F16F16"
                                           rf"_SS, which sm_90a alone has, and is compiled for {arch}\n"):
        Product()()
