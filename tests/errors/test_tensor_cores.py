"""What the tensor-core GEMM and its building blocks are misused with: one sentence each, and nothing is compiled."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from moye.cuda.device import driver
from moye.kernels import TensorConfig, gemm, gemm_simt, gemm_sm80
from moye.runtime.prepare import compile_only

HALF, TF32 = mo.mma.SM80_16x8x16_F32F16F16F32_TN, mo.mma.SM80_16x8x8_F32TF32TF32F32_TN
BF16, FP8 = mo.mma.SM80_16x8x16_F32BF16BF16F32_TN, mo.mma.SM89_16x8x32_F32E4M3E4M3F32_TN
FOUR = mo.CopyAtom(mo.LdMatrix(4), mo.float16)


def half(*shape):
    return np.ones(shape, np.float16)


def single(*shape):
    return np.ones(shape, np.float32)


def half_mma(permutations=()):
    return mo.make_tiled_mma(HALF, (2, 2), permutations)


# --- the matrix products ---------------------------------------------------------------------------------------------


class Product:
    """A call in which one thing at a time is made wrong."""

    def __init__(self, function=gemm_sm80, A=None, B=None, C=None, **options):
        self.function, self.options = function, options
        self.A, self.B = half(48, 32) if A is None else A, half(64, 32) if B is None else B
        self.C = np.full((48, 64), np.nan, np.float32) if C is None else C

    def __call__(self):
        self.function(self.A, self.B, self.C, **self.options)


class FakeCudaArray:
    """What a CUDA array looks like to moye; its memory is never touched."""

    __cuda_array_interface__ = {"shape": (64, 32), "typestr": "<f2", "data": (1 << 40, False), "version": 3}  # noqa: RUF012


def bytes_of(*shape):
    return np.ones(shape, np.int8)


def two_arguments(x, y):
    return x + y


INTEGERS = {"A": bytes_of(48, 32), "B": bytes_of(64, 32), "C": np.full((48, 64), 7, np.int32)}
SINGLES = {"A": single(48, 32), "B": single(64, 32)}
PRODUCTS = {
    # (a) dtypes
    "gemm_of_int16": Product(gemm, A=np.ones((48, 32), np.int16), B=np.ones((64, 32), np.int16)),
    "gemm_sm80_of_int16": Product(A=np.ones((48, 32), np.int16), B=np.ones((64, 32), np.int16)),
    "gemm_sm80_of_two_dtypes": Product(B=np.ones((64, 32), ml_dtypes.bfloat16)),
    "gemm_sm80_into_float64": Product(C=np.ones((48, 64))),
    "gemm_simt_of_two_dtypes": Product(gemm_simt, A=single(48, 32), B=np.ones((64, 32))),
    # shapes and strides
    "gemm_sm80_other_K": Product(A=half(48, 16)),
    "gemm_sm80_B_is_turned": Product(B=half(32, 64)),
    "gemm_sm80_C_is_turned": Product(C=np.full((64, 48), np.nan, np.float32)),
    "gemm_sm80_one_batch": Product(C=np.full((48, 64, 2), np.nan, np.float32)),
    "gemm_sm80_of_lists": Product(A=[[1.0]]),
    "gemm_sm80_of_a_vector": Product(A=half(32)),
    "gemm_sm80_of_reversed_rows": Product(A=half(48, 32)[::-1]),
    # the epilogue
    "gemm_sm80_short_bias": Product(bias=single(32)),
    "gemm_sm80_bias_of_floats": Product(**INTEGERS, bias=single(64)),
    "gemm_sm80_bias_is_a_list": Product(bias=[0.0] * 64),
    "gemm_sm80_other_residual": Product(residual=single(64, 48)),
    "gemm_sm80_unknown_activation": Product(activation="tanh"),
    "gemm_sm80_activation_of_two": Product(activation=two_arguments),
    "gemm_sm80_fraction_of_integers": Product(**INTEGERS, alpha=0.5),
    "gemm_sm80_infinite_alpha": Product(**INTEGERS, alpha=float("inf")),
    "gemm_sm80_alpha_is_a_string": Product(alpha="2"),
    "gemm_with_scales_in_float32": Product(gemm, **SINGLES, row_scale=single(64)),
    "gemm_with_an_unknown_option": Product(gemm, gamma=1),
    # how it is done
    "gemm_sm80_no_configuration": Product(config=(128, 128, 32)),
    "gemm_sm80_odd_configuration": Product(config=TensorConfig(100, 64, 64, 3, 2, 2, 1)),
    "gemm_sm80_zero_in_configuration": Product(config=TensorConfig(64, 64, 0, 3, 2, 2, 1)),
    "gemm_sm80_threads_beyond_the_tile": Product(config=TensorConfig(96, 64, 64, 3, 3, 2, 1)),
    "gemm_sm80_no_splits": Product(splits=0),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_product(name, refuses):
    refuses(name, PRODUCTS[name], PRODUCTS[name].C)


def test_the_product_is_right_but_for_what_is_made_wrong():
    product = Product(bias=single(64), residual=single(48, 64), activation="relu", splits=1)
    product()
    assert (product.C == 34).all()


def test_devices_of_a_product(refuses, monkeypatch):
    monkeypatch.setattr(driver, "pointer_device", lambda pointer: 0)
    product = Product(B=FakeCudaArray())
    refuses("gemm_sm80_mixed_devices", product, product.C)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8])
def test_operands_without_a_unit_stride_are_served(dtype):
    """They are copied element by element."""
    rng, out = np.random.default_rng(0), {np.int8: np.int32, np.float64: np.float64}.get(dtype, np.float32)
    A, B = (rng.integers(-3, 4, (96, 64)).astype(dtype)[::2, ::2] for _ in range(2))
    C = np.full((96, 96), 7, out)[::2, ::2]
    gemm_sm80(A, B, C)
    assert np.array_equal(C, A.astype("f8") @ B.astype("f8").T)


# --- atoms, tiled copies and tiled MMAs ------------------------------------------------------------------------------


MADE = {
    "find_no_such_operands": lambda: mo.mma.find(mo.float16, mo.bfloat16, mo.float32),
    "find_float32": lambda: mo.mma.find(mo.float32, mo.float32, mo.float32),
    "find_no_such_sums": lambda: mo.mma.find(mo.bfloat16, mo.bfloat16, mo.float16),
    "find_no_such_shape": lambda: mo.mma.find(mo.bfloat16, mo.bfloat16, mo.float32, shape=(16, 16, 16)),
    "find_on_an_older_architecture": lambda: mo.mma.find(mo.bfloat16, mo.bfloat16, mo.float32, arch="sm_75"),
    "find_on_no_architecture": lambda: mo.mma.find(mo.bfloat16, mo.bfloat16, mo.float32, arch="ampere"),
    "find_a_string": lambda: mo.mma.find("bfloat16", mo.bfloat16, mo.float32),
    "mma_of_a_string": lambda: mo.make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN"),
    "mma_of_colliding_atoms": lambda: mo.make_tiled_mma(HALF, mo.make_layout((2, 2), (1, 1))),
    "mma_tile_not_divided": lambda: half_mma((48, 32, 16)),
    "mma_tile_smaller_than_the_atoms": lambda: half_mma((32, 8, 16)),
    "mma_tile_no_permutation": lambda: half_mma((mo.make_layout(32, 0),)),
    "mma_tile_of_strings": lambda: half_mma(("32", 16, 16)),
    "mma_four_tiles": lambda: half_mma((32, 16, 16, 1)),
    "mma_one_number_for_tiles": lambda: half_mma(32),
    "copy_of_an_operation": lambda: mo.make_tiled_copy(mo.UniversalCopy(mo.uint128), (32, 8), (1, 8)),
    "copy_A_of_an_operation": lambda: mo.make_tiled_copy_A(mo.LdMatrix(4), half_mma()),
    "copy_B_of_swapped_arguments": lambda: mo.make_tiled_copy_B(half_mma(), FOUR),
    "copy_B_of_too_few_values": lambda: mo.make_tiled_copy_B(FOUR, half_mma()),
    "copy_C_of_an_mma_operation": lambda: mo.make_tiled_copy_C(FOUR, HALF),
    "atom_of_a_dtype": lambda: mo.CopyAtom(mo.float16, mo.LdMatrix(4)),
    "atom_of_a_string": lambda: mo.CopyAtom(mo.LdMatrix(4), "float16"),
    "width_of_a_string": lambda: mo.CpAsync("float32"),
    "width_of_a_numpy_type": lambda: mo.UniversalCopy(np.float32),
    "fma_of_a_string": lambda: mo.UniversalFMA("float32"),
    "spec_of_a_swapped_shape": lambda: mo.TensorLike((16, 16), mo.float32),
    # (c) what no copy atom can serve
    "ldmatrix_of_float64": lambda: mo.CopyAtom(mo.LdMatrix(4), mo.float64),
    "transposed_ldmatrix_of_tf32": lambda: mo.CopyAtom(mo.LdMatrix(4, transpose=True), mo.tfloat32),
    "ldmatrix_of_three": lambda: mo.LdMatrix(3),
    "smem_atom_of_another_major": lambda: mo.smem_layout_atom(mo.float16, "m"),
    "smem_atom_of_another_length": lambda: mo.smem_layout_atom(mo.float16, "k", 256),
    "smem_atom_of_a_string": lambda: mo.smem_layout_atom("float16", "k"),
    "smem_atom_does_not_divide": lambda: mo.tile_to_shape(mo.smem_layout_atom(mo.float16, "k"), (100, 64, 3)),
}


@pytest.mark.parametrize("name", MADE)
def test_made(name, refuses):
    refuses(name, MADE[name])


def test_an_unknown_operation_names_the_nearest():
    with pytest.raises(AttributeError, match=r"'SM80_16x8x16_F32BF16BF16F32'; .*, the nearest "
                                             r"SM80_16x8x16_F32BF16BF16F32_TN, "):
        _ = mo.mma.SM80_16x8x16_F32BF16BF16F32


# --- in a kernel -----------------------------------------------------------------------------------------------------


@mo.kernel
def does(x, what: mo.Constexpr):
    what(x)


def shared(*shape):
    return mo.shared_array(mo.float16, shape)


def nested(x):
    return x.with_layout(mo.make_layout(((4, 8), 8), ((1, 4), 32)))


def slice_of(tiled):
    return tiled.get_slice(mo.thread_idx().x)


TRACED = {
    # (b) tiles that are not divided
    "partition_A_not_divided": lambda x: slice_of(half_mma()).partition_A(shared(48, 16)),
    "partition_of_an_array": lambda x: slice_of(half_mma()).partition_A(half(64, 16)),
    "partition_of_a_layout": lambda x: slice_of(half_mma()).partition_B(mo.make_layout((64, 16))),
    "copy_partition_not_divided": lambda x: slice_of(mo.make_tiled_copy(
        mo.CopyAtom(mo.UniversalCopy(mo.float16), mo.float16), (32, 4))).partition_S(shared(48, 16)),
    "accumulators_not_divided": lambda x: half_mma().partition_fragment_C((48, 64)),
    "accumulators_of_one_extent": lambda x: half_mma().partition_fragment_C((64,)),
    "slice_of_a_string": lambda x: half_mma().get_slice("0"),
    "slice_of_all_axes": lambda x: half_mma().get_slice(mo.thread_idx()),
    "retile_an_array": lambda x: slice_of(mo.make_tiled_copy_A(FOUR, half_mma())).retile_D(half(8)),
    "fragment_of_a_string": lambda x: mo.fragment((4, 4), "float"),
    "shared_array_of_swapped_arguments": lambda x: mo.shared_array((4, 4), mo.float32),
    "predicate_of_a_string": lambda x: mo.copyto(x, x, pred="x"),
    # mo.tile
    "tile_nested_of_a_flat_mode": lambda x: mo.tile(x, ((4, 2), 4), (0, 0)),
    "tile_nested_not_divided": lambda x: mo.tile(nested(x), ((3, 4), 4), (0, 0)),
    "tile_of_a_number": lambda x: mo.tile(x, 8, 0),
    "tile_of_floats": lambda x: mo.tile(x, (8.0, 8), (0, 0)),
    "tile_of_nothing": lambda x: mo.tile(x, (0, 8), (0, 0)),
    "tile_of_an_array": lambda x: mo.tile(half(8, 8), (4, 4), (0, 0)),
}


@pytest.mark.parametrize("name", TRACED)
def test_traced(name, refuses):
    x = np.full((32, 8), np.nan, np.float32, order="F")
    refuses(name, lambda: does[1, 128](x, TRACED[name]), x)


# --- (d) architectures -----------------------------------------------------------------------------------------------


@mo.kernel
def multiplies(x, op: mo.Constexpr):
    mma = mo.make_tiled_mma(op)
    m, n, k = op.shape_mnk
    thr = mma.get_slice(mo.thread_idx().x)
    a = thr.partition_fragment_A(mo.shared_array(mo.int8, (m, k)))
    b = thr.partition_fragment_B(mo.shared_array(mo.int8, (n, k)))
    acc = mma.partition_fragment_C((m, n))
    acc.fill(0)
    mo.gemm(mma, a, b, acc)
    mo.copyto(thr.partition_C(x), acc)


@mo.kernel
def stores_matrices(x):
    copy = mo.make_tiled_copy_C(mo.CopyAtom(mo.StMatrix(2), mo.float16), mo.make_tiled_mma(HALF))
    smem, thr = mo.shared_array(mo.float16, mo.make_layout((16, 8), (8, 1))), copy.get_slice(mo.thread_idx().x)
    part = mo.make_fragment_like(thr.partition_S(smem))
    part.fill(0)
    mo.copyto(copy, thr.partition_D(smem), part)
    mo.sync_threads()
    x[mo.thread_idx().x, 0] = mo.float32(smem[0, 0])


@mo.kernel
def copies_asynchronously(x):
    copy = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32), (16, 2))
    thr, smem = copy.get_slice(mo.thread_idx().x), mo.shared_array(mo.float32, (16, 8))
    mo.copyto(copy, thr.partition_D(smem), thr.partition_S(mo.tile(x, (16, 8), (0, 0))))
    mo.cp_async_wait()
    mo.sync_threads()
    x[mo.thread_idx().x % 16, 0] = smem[0, 0]


@mo.kernel
def writes(x):
    x[mo.thread_idx().x, 0] = 1.0


TILE = mo.TensorLike(mo.float32, (16, 8))
SMALL = mo.TensorLike(mo.float32, (32, 8))
ARCHITECTURES = {
    "arch_bf16_on_sm_75": lambda arch="sm_75": multiplies.compile(TILE, BF16, block=32, arch=arch),
    "arch_fp8_on_sm_80": lambda arch="sm_80": multiplies.compile(TILE, FP8, block=32, arch=arch),
    "arch_stmatrix_on_sm_80": lambda arch="sm_80": stores_matrices.compile(SMALL, block=32, arch=arch),
    "arch_cp_async_on_sm_70": lambda arch="sm_70": copies_asynchronously.compile(SMALL, block=32, arch=arch),
    "arch_anything_on_sm_75": lambda arch="sm_75": writes.compile(SMALL, block=32, arch=arch),
    "arch_of_a_name": lambda arch="ampere": writes.compile(SMALL, block=32, arch=arch),
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architecture(name, refuses):
    refuses(name, ARCHITECTURES[name])


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_newer_architecture_has_it(name):
    assert ARCHITECTURES[name]("sm_90a").cubin


def test_a_product_on_an_older_architecture():
    A, B = np.ones((48, 64), ml_dtypes.float8_e4m3fn), np.ones((64, 64), ml_dtypes.float8_e4m3fn)
    C = np.full((48, 64), np.nan, np.float32)
    with compile_only("sm_80"), pytest.raises(mo.UnsupportedError, match="gemm_sm80_kernel uses SM89_16x8x32_F32E4M3"
                                                                         "E4M3F32_TN, which sm_89 and later have"):
        gemm_sm80(A, B, C)
