"""What the matmul kernels are misused with: one clear sentence each, and nothing runs."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo


def columns(*shape, dtype=np.float32):
    """A column-major array of NaNs (or of ones, for integers)."""
    return np.full(shape, np.nan if np.dtype(dtype).kind == "f" else 1, dtype, order="F")


def tiled_copy(atom, values, threads=(32, 8)):
    return mo.make_tiled_copy(mo.CopyAtom(atom, mo.float32), mo.make_layout(threads), mo.make_layout(values))


class Launch:
    """A launch of a matmul kernel in which one thing at a time is made wrong."""

    def __init__(self, kernel, **wrong):
        self.kernel = kernel
        self.grid, self.block = (2, 3), 256
        self.A, self.B, self.C = columns(256, 16), columns(384, 16), columns(256, 384)
        self.layout = mo.make_layout((128, 8), (1, 130))
        self.copy = tiled_copy(mo.CpAsync(mo.float64), (2, 1))
        self.mma = mo.make_tiled_mma(mo.UniversalFMA(mo.float32), mo.make_layout((16, 16)))
        for name, value in wrong.items():
            setattr(self, name, value)

    def __call__(self):
        self.kernel[self.grid, self.block](self.A, self.layout, self.copy, self.B, self.layout, self.copy, self.C,
                                           self.mma)


def _offset(shape):
    """Column-major, one float behind a 16-byte boundary."""
    flat = np.full(shape[0] * shape[1] + 8, np.nan, np.float32)
    start = -flat.ctypes.data // 4 % 4 + 1
    return flat[start:start + shape[0] * shape[1]].reshape(shape[::-1]).T


WRONG = {
    # the layouts of the copies
    "cp_async_8_on_pad_1": {"layout": mo.make_layout((128, 8), (1, 129))},
    "cp_async_16_on_pad_2": {"copy": tiled_copy(mo.CpAsync(mo.uint128), (4, 1))},
    "values_across_columns": {"copy": tiled_copy(mo.CpAsync(mo.float64), (1, 2), threads=(64, 4))},
    # the operands
    "row_major_A": {"A": np.full((256, 16), np.nan, np.float32)},
    "row_major_B": {"B": np.full((384, 16), np.nan, np.float32)},
    "misaligned_A": {"A": _offset((256, 16))},
    "odd_leading_dimension_A": {"A": columns(257, 16)[:256]},
    "tile_does_not_divide_M": {"A": columns(200, 16), "C": columns(200, 384)},
    "tile_does_not_divide_N": {"B": columns(300, 16), "C": columns(256, 300)},
    "tile_does_not_divide_K": {"A": columns(256, 12), "B": columns(384, 12)},
    "B_has_fewer_columns": {"A": columns(256, 32)},
    "C_is_too_small": {"C": columns(128, 384)},
    "grid_is_too_large": {"grid": (3, 3)},
    "dtype_float64": {"A": columns(256, 16, dtype=np.float64)},
    "dtype_int32": {"A": columns(256, 16, dtype=np.int32)},
    "rank_1": {"A": columns(256)},
    "rank_3": {"A": columns(256, 16, 2)},
    # the launch
    "block_of_128": {"block": 128},
    "block_of_512": {"block": 512},
    "block_of_two_axes": {"block": (16, 16)},
}


@pytest.mark.parametrize("name", WRONG)
def test_vectorised(name, example, refuses):
    launch = Launch(example("05_matmul_vectorized").matmul_kernel, **WRONG[name])
    refuses(name, launch, launch.C)


def _stages(pad, stages=2, gap=0):
    return mo.make_layout((128, 8, stages), (1, 128 + pad, (128 + pad) * 8 + gap))


DOUBLE = {
    "double_cp_async_8_on_pad_1": {"layout": _stages(pad=1)},
    "double_odd_stage_stride": {"layout": _stages(pad=2, gap=1)},
    "double_row_major_A": {"layout": _stages(pad=2), "A": np.full((256, 16), np.nan, np.float32)},
    "double_no_k_tile": {"layout": _stages(pad=2), "A": columns(256, 0), "B": columns(384, 0)},
    "double_too_much_shared_memory": {"layout": _stages(pad=2, stages=32)},
}


@pytest.mark.parametrize("name", DOUBLE)
def test_double_buffered(name, example, refuses):
    mma = mo.make_tiled_mma(mo.UniversalFMA(mo.float32), mo.make_layout((32, 8)))
    launch = Launch(example("09_matmul_double_buffered").matmul_kernel, mma=mma, **DOUBLE[name])
    refuses(name, launch, launch.C)


class TensorCoreLaunch:
    """A launch of example 11 or 12, as its host function makes it, in which one thing at a time is made wrong."""

    def __init__(self, example, **wrong):
        self.example = example
        self.A, self.B, self.C = columns(256, 32), np.full((384, 32), np.nan, np.float32), columns(256, 384)
        self.options, self.block = (), 128
        self.replaced = {name: value for name, value in wrong.items() if name.isdigit()}
        for name, value in wrong.items():
            setattr(self, name, value)

    def __getitem__(self, config):
        """Stands in for the kernel: an argument that is made wrong is named by its place."""
        def launch(*args):
            args = [self.replaced.get(str(i), arg) for i, arg in enumerate(args)]
            self.example.matmul_kernel[config[0], self.block](*args)
        return launch

    def __call__(self):
        self.example.matmul(self.A, self.B, self.C, *self.options, kernel=self)


TF32 = mo.mma.SM80_16x8x8_F32TF32TF32F32_TN
ELEMENTS = tiled_copy(mo.UniversalCopy(mo.float32), (1, 1), threads=(32, 4))
TENSOR_CORE = {
    "tensor_core_tile_does_not_divide_M": {"A": columns(264, 32), "C": columns(264, 384)},
    "tensor_core_tile_does_not_divide_N": {"B": np.full((380, 32), np.nan, np.float32), "C": columns(256, 380)},
    "tensor_core_tile_does_not_divide_K": {"A": columns(256, 24), "B": np.full((384, 24), np.nan, np.float32)},
    "tensor_core_row_major_A": {"A": np.full((256, 32), np.nan, np.float32)},
    "tensor_core_column_major_B": {"B": columns(384, 32)},
    "tensor_core_misaligned_A": {"A": _offset((256, 32))},
    "tensor_core_dtype_float64": {"A": columns(256, 32, dtype=np.float64)},
    "tensor_core_block_of_64": {"block": 64},
    # the arguments of the kernel: A, sA_layout, copy_A, read_A, B, sB_layout, ...
    "tensor_core_tile_no_multiple_of_the_copy": {"1": mo.make_layout((72, 16, 2), (1, 72, 1152))},
    "tensor_core_tile_no_multiple_of_the_mma": {"9": mo.make_tiled_mma(TF32, mo.make_layout((4, 1, 1)), (256, 32, 8))},
    "tensor_core_mma_of_float16": {"9": mo.make_tiled_mma(mo.mma.SM80_16x8x16_F32F16F16F32_TN, mo.make_layout((2, 2)))},
    "tensor_core_ldmatrix_on_column_major_smem": {"5": mo.make_layout((128, 16, 2), (1, 136, 2176)), "6": ELEMENTS},
    "tensor_core_ldmatrix_on_odd_rows": {"5": mo.make_layout((128, 16, 2), (18, 1, 2304)), "6": ELEMENTS},
}


@pytest.mark.parametrize("name", TENSOR_CORE)
def test_tensor_core(name, example, refuses):
    launch = TensorCoreLaunch(example("12_matmul_tensor_core_double_buffered"), **TENSOR_CORE[name])
    refuses(name, launch, launch.C)


@pytest.mark.parametrize(("stem", "options"), [("10_matmul_tensor_core", ()), ("11_matmul_ldmatrix", ("m",))])
@pytest.mark.parametrize(("wrong", "extents"), [("M", (40, 24, 16)), ("N", (48, 28, 16)), ("K", (48, 24, 12))])
def test_ragged_tiles_of_one_instruction(stem, options, wrong, extents, example):
    M, N, K = extents
    A, B, C = columns(M, K), np.ones((N, K), np.float32), columns(M, N)
    with pytest.raises(mo.PreconditionError, match=r"does not divide argument [AB]: its extent \d+ in mode [01]"):
        example(stem).matmul(A, B, C, *options)
    assert np.isnan(C).all()


def test_ldmatrix_of_a_column_major_operand(example, refuses):
    """Example 11 says which A it takes by ldmatrix."""
    launch = TensorCoreLaunch(example("11_matmul_ldmatrix"), options=("k",), block=32)
    refuses("ldmatrix_of_column_major_A", launch, launch.C)


def test_the_tensor_core_launch_is_right_but_for_what_is_made_wrong(example):
    launch = TensorCoreLaunch(example("12_matmul_tensor_core_double_buffered"))
    launch.A[...], launch.B[...] = 1, 1
    launch()
    assert (launch.C == 32).all()


def test_the_launch_is_right_but_for_what_is_made_wrong(example):
    """Otherwise the tests above might be refused for another reason."""
    launch = Launch(example("05_matmul_vectorized").matmul_kernel)
    launch.A[...], launch.B[...] = 1, 1
    launch()
    assert (launch.C == 16).all()


@pytest.mark.parametrize("order", ["F", "C"])
def test_no_k_tile_is_no_error_where_nothing_is_prefetched(order, example):
    launch = Launch(example("05_matmul_vectorized").matmul_kernel, A=np.zeros((256, 0), np.float32, order=order),
                    B=np.zeros((384, 0), np.float32, order=order))
    launch()
    assert (launch.C == 0).all()


def test_values_smaller_than_the_atom(refuses):
    refuses("values_smaller_than_atom", lambda: tiled_copy(mo.CpAsync(mo.float64), (1, 1)))


def test_shared_memory_of_an_architecture(example, refuses):
    """228 KB fit sm_90 and not sm_80."""
    launch = Launch(example("09_matmul_double_buffered").matmul_kernel, layout=_stages(pad=2, stages=24))
    launch.mma = mo.make_tiled_mma(mo.UniversalFMA(mo.float32), mo.make_layout((32, 8)))
    refuses("too_much_shared_memory_for_sm_80",
            lambda: launch.kernel.compile(launch.A, launch.layout, launch.copy, launch.B, launch.layout, launch.copy,
                                          launch.C, launch.mma, block=256, arch="sm_80"))
