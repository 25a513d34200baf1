"""Which kernel ``gemm`` picks, on every device, with which arguments; what it refuses before anything is compiled."""

from __future__ import annotations

import importlib

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from moye.cuda.compiler import nvrtc
from moye.kernels import TensorConfig, WarpgroupConfig
from moye.kernels.gemm.sm80.config import FEW
from moye.kernels.gemm.sm90 import host
from moye.kernels.gemm.sm90.fusion import Fusion
from moye.kernels.gemm.sm90.host import problem_of, suits
from moye.runtime.prepare import compile_only
from warpgroup_products import DTYPES, check_error, expected_of, filled, place

gemm = importlib.import_module("moye.kernels.gemm.dispatch")
TENSOR, WARPGROUP = TensorConfig(64, 64, 32, 3, 2, 2, 1), WarpgroupConfig(64, 64, 64, 3, groups=1)
OLDER = ["sm_70", "sm_80", "sm_89", "sm_100a", "sm_120"]
HOPPER_ONLY = [{"gated": True}, {"row_scale": np.ones(64, np.float32)}, {"col_scale": np.ones(64, np.float32)},
               {"config": WARPGROUP}]


def operands(a="f16", b=None, c=None, *, M=64, N=64, K=32, batches=()):
    return [np.zeros(shape, DTYPES[name]) for shape, name in
            (((M, K, *batches), a), ((N, K, *batches), b or a), ((M, N, *batches), c or a))]


@pytest.fixture
def picked(monkeypatch):
    """``picked(arch, *operands, **options)``: the kernel, and the options that reach it."""
    def ask(arch, A, B, C, **options):
        calls = []
        for kernel in ("gemm_simt", "gemm_sm80", "gemm_sm90", "gemm_shallow", "gemm_streamed"):
            monkeypatch.setattr(gemm, kernel, lambda *_, kernel=kernel, **taken: calls.append((kernel, taken)))
        monkeypatch.setattr(mo, "arch_of", lambda array: arch)
        gemm.gemm(A, B, C, **options)
        (kernel, taken), = calls
        return kernel, {name: x for name, x in taken.items() if name not in ("alpha", "beta")}
    return ask


# --- on Hopper -------------------------------------------------------------------------------------------------------

TAKEN = {"f16": ("f16",), "bf16": ("bf16",), "into_f32": ("f16", "f16", "f32"), "into_bf16": ("f16", "f16", "bf16"),
         "tf32": ("f32",), "tf32_into_bf16": ("f32", "f32", "bf16"), "e4m3": ("e4m3", "e4m3", "bf16"),
         "e5m2": ("e5m2", "e5m2", "f32"), "mixed": ("e4m3", "e5m2", "f16"), "mixed_turned": ("e5m2", "e4m3", "f16"),
         "s8": ("s8", "s8", "s32"), "u8": ("u8", "u8", "s32")}
LEFT = {"f16_by_bf16": ("f16", "bf16", "f16"), "s8_by_u8": ("s8", "u8", "s32"), "s8_into_f32": ("s8", "s8", "f32"),
        "f16_into_s32": ("f16", "f16", "s32")}


@pytest.mark.parametrize("name", TAKEN)
def test_all_that_it_multiplies_goes_to_sm90(name, picked):
    """Of any size and strides, few rows and odd ones, with batches and without; but what would be copied first, or
    stored element by element, and is sooner as it is, and 16 bits with few k."""
    tf32 = TAKEN[name][0] == "f32"
    for size in ({}, {"M": 1, "N": 1, "K": 1}, {"M": 3, "N": 5000, "K": 7}, {"K": 0}, {"batches": (3,)}):
        A, B, C = operands(*TAKEN[name], **size)
        assert suits(*map(mo.describe, (A, B, C)))
        given, options = picked("sm_90a", A, B, C, tf32=tf32)
        assert options == {}
        if given != "gemm_sm90":
            problem = problem_of(*map(mo.describe, (A, B, C)), Fusion(), False)
            few = TAKEN[name][0] in ("f16", "bf16") and A.shape[1] <= FEW
            exact = name == "tf32" and "batches" not in size                # without tensor cores
            shallow = A.shape[1] <= 256
            assert given in ("gemm_sm80", *["gemm_simt"] * exact, *["gemm_shallow"] * shallow), size
            assert problem.copies or problem.plain or few, size
            assert tf32 or name in ("f16", "bf16", "into_f32", "into_bf16")


@pytest.mark.parametrize("name", ["bf16", "tf32"])
def test_products_that_are_sooner_without_copies_stay_as_they_are(name, picked):
    """Two copies of a small product take longer than it; of a large one they are a small part."""
    tf32 = name == "tf32"
    for M, N, K, wanted in ((64, 64, 57, "gemm_shallow"), (64, 64, 512, "gemm_sm90"),
                            (20, 900, 4001, "gemm_sm80" if tf32 else "gemm_streamed"),
                            (2001, 2003, 1001, "gemm_sm90"), (6001, 203, 7, "gemm_shallow")):
        A, B, C = operands(*TAKEN[name], M=M, N=N, K=K)
        assert picked("sm_90a", A, B, C, tf32=tf32)[0] == wanted, (M, N, K)


def test_few_k_of_16_bits_go_to_kernels_that_start_sooner_if_small(picked):
    """By half a microsecond; which of the two is no sooner than the other here."""
    for M, N, K, small in ((64, 128, 64, True), (8, 4096, 128, True), (4096, 4096, 128, False),
                           (128, 128, 1024, False)):
        given = picked("sm_90a", *operands("bf16", M=M, N=N, K=K))[0]
        assert given in (("gemm_sm80", "gemm_shallow") if small else ("gemm_sm90",)), (M, N, K)


def test_batches_of_few_k_whose_lines_begin_anywhere_are_taken_as_they_lie(picked):
    """They would be copied first, or one by one."""
    for batches, M, N, K in ((138, 3502, 1, 17), (15, 1953, 6, 242), (549, 4104, 9, 17)):
        arrays = [np.zeros((batches, *shape), DTYPES["bf16"]).transpose(1, 2, 0) for shape in ((M, K), (N, K), (M, N))]
        assert picked("sm_90a", *arrays)[0] == "gemm_shallow", (batches, M, N, K)


def test_operands_that_would_be_turned_first_go_to_sm80_if_small(picked):
    """wgmma takes tf32 along K alone."""
    for n, wanted in ((128, "gemm_sm80"), (4096, "gemm_sm90")):
        A, B, C = operands("f32", M=n, N=n, K=n)
        A, B = (np.asfortranarray(x) for x in (A, B))
        assert picked("sm_90a", A, B, C, tf32=True)[0] == wanted, n


def test_lines_of_float32_that_begin_anywhere_are_multiplied_where_they_arrive(picked):
    """A long copy would take longer, but of two large operands not."""
    for M, N, K, orders, wanted in ((20, 9001, 5001, "CF", "gemm_sm80"), (90, 91, 30001, "CC", "gemm_sm80"),
                                    (4001, 4003, 4005, "CC", "gemm_sm90")):
        A, B, C = operands("f32", M=M, N=N, K=K)
        A, B = (np.asarray(X, order=order) for X, order in zip((A, B), orders, strict=True))
        assert picked("sm_90a", A, B, C, tf32=True)[0] == wanted, (M, N, K)


def test_few_rows_of_float32_that_would_be_copied_need_no_tensor_cores(picked):
    """They take as long as memory does; what is fused needs another kernel."""
    for M, N, K in ((1, 2039, 31271), (2, 9001, 901)):
        A, B, C = operands("f32", M=M, N=N, K=K)
        assert picked("sm_90a", A, B, C, tf32=True)[0] == "gemm_simt", (M, N, K)
        assert picked("sm_90a", A, B, C, tf32=True, alpha=2)[0] != "gemm_simt"
        assert picked("sm_90a", A, B, C, tf32=True, bias=np.zeros(N, np.float32))[0] != "gemm_simt"


@pytest.mark.parametrize("name", LEFT)
def test_the_others_are_left_to_sm80(name, picked):
    A, B, C = operands(*LEFT[name])
    assert not suits(*map(mo.describe, (A, B, C)))
    assert picked("sm_90a", A, B, C)[0] == "gemm_sm80"


def test_double_and_what_is_no_array_are_left():
    doubles = [np.zeros((8, 8)) for _ in range(3)]
    assert not suits(*map(mo.describe, doubles))
    assert not suits(*map(mo.describe, ([[1.0]], *doubles[1:])))
    assert not suits(*(mo.describe(np.zeros(8, np.float16)) for _ in range(3)))


def test_what_only_sm80_has(picked):
    """A number of splits, or a configuration of it."""
    assert picked("sm_90a", *operands(), splits=2) == ("gemm_sm80", {"splits": 2})
    assert picked("sm_90a", *operands(), config=TENSOR) == ("gemm_sm80", {"config": TENSOR})
    assert picked("sm_90a", *operands("e4m3", c="f32"), splits=2, fast_accum=True) == ("gemm_sm80", {"splits": 2})


@pytest.mark.parametrize("options", [*HOPPER_ONLY, {"fast_accum": True}, {"bias": np.ones(64, np.float32)},
                                     {"residual": np.ones((64, 64), np.float16)}, {"activation": "relu"}],
                         ids=lambda options: next(iter(options)))
def test_options_reach_sm90(options, picked):
    assert picked("sm_90a", *operands(K=512), **options) == ("gemm_sm90", options)


def test_options_that_say_nothing_are_dropped(picked):
    nothing = {"gated": False, "row_scale": None, "col_scale": None, "splits": None}
    assert picked("sm_90a", *operands(K=512), **nothing) == ("gemm_sm90", {})
    assert picked("sm_80", *operands(), **nothing) == ("gemm_sm80", {})


# --- elsewhere -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", [*OLDER, None])
def test_elsewhere_sm80_multiplies(arch, picked):
    for name in TAKEN.values():
        assert picked(arch, *operands(*name), tf32=True, bias=None)[0] == "gemm_sm80"
    assert picked(arch, *operands("e4m3", c="f32"), fast_accum=True) == ("gemm_sm80", {})


@pytest.mark.parametrize("options", HOPPER_ONLY, ids=lambda options: next(iter(options)))
def test_host_arrays_are_simulated_as_on_hopper(options, picked):
    assert picked(None, *operands(), **options) == ("gemm_sm90", options)


@pytest.mark.parametrize("arch", OLDER)
@pytest.mark.parametrize("options", HOPPER_ONLY, ids=lambda options: next(iter(options)))
def test_older_devices_are_named_before_anything_is_compiled(options, arch, monkeypatch):
    monkeypatch.setattr(nvrtc, "compile_cubin", None)
    monkeypatch.setattr(mo, "arch_of", lambda array: arch)
    A, B, C = operands()
    C[...] = 3
    message = f"^gemm: {next(iter(options))} needs gemm_sm90, which runs on sm_90a, and this device is {arch}$"
    with compile_only(arch) as gathered, pytest.raises(mo.ArgumentError, match=message):
        gemm.gemm(A, B, C, **options)
    assert not gathered.programs
    assert (C == 3).all()


@pytest.mark.parametrize("arch", ["sm_90a", *OLDER])
@pytest.mark.parametrize("tf32", [False, True])
def test_single_precision(tf32, arch, picked):
    """float32 stays float32 unless tf32 is asked for."""
    expected = ("gemm_sm90" if arch == "sm_90a" else "gemm_sm80") if tf32 else "gemm_simt"
    assert picked(arch, *operands("f32"), tf32=tf32)[0] == expected


@pytest.mark.parametrize("kind", ["f32", "s32"])
def test_single_precision_with_options_that_say_nothing(kind, picked):
    nothing = {"bias": None, "residual": None, "activation": "none", "config": None, "splits": None, "gated": False,
               "row_scale": None, "fast_accum": False}
    assert picked("sm_90a", *operands(kind), **nothing) == ("gemm_simt", {})


@pytest.mark.parametrize("kind", ["f32", "s32"])
@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
def test_single_precision_with_epilogues_and_batches(arch, kind, picked):
    bias = np.ones(64, np.float32 if kind == "f32" else np.int32)
    name, options = picked(arch, *operands(kind, batches=(3,)), bias=bias, activation="relu")
    assert name == "gemm_simt" and options["bias"] is bias and options["activation"] == "relu"


@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
def test_int32_and_float64(arch, picked):
    assert picked(arch, *operands("s32"))[0] == "gemm_simt"
    assert picked(arch, *(np.zeros((8, 8)) for _ in range(3)))[0] == "gemm_sm80"


def test_host_memory_has_no_architecture():
    assert mo.arch_of(np.zeros(4)) is None


# --- refused ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", HOPPER_ONLY[:3], ids=lambda options: next(iter(options)))
@pytest.mark.parametrize("other", [{"splits": 2}, {"config": TENSOR}], ids=["splits", "config"])
@pytest.mark.parametrize("arch", ["sm_90a", None])
def test_options_of_two_kernels(arch, other, options, picked):
    with pytest.raises(mo.ArgumentError, match=f"^gemm: {next(iter(options))} needs gemm_sm90, which takes no splits"):
        picked(arch, *operands(), **options, **other)


def test_a_configuration_of_one_kernel_and_splits_of_the_other(picked):
    with pytest.raises(mo.ArgumentError, match=r"^gemm: config needs gemm_sm90, which takes no splits and no Tensor"):
        picked("sm_90a", *operands(), config=WARPGROUP, splits=2)


@pytest.mark.parametrize("options", [x for x in HOPPER_ONLY if "config" not in x], ids=lambda x: next(iter(x)))
@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
def test_single_precision_takes_none_of_hoppers_options(arch, options, picked):
    with pytest.raises(mo.ArgumentError, match=f"go to gemm_simt, which takes no {next(iter(options))}\n"):
        picked(arch, *operands("f32"), **options)


def test_single_precision_takes_no_configuration_of_others():
    A, B, C = operands("f32")
    with pytest.raises(mo.ArgumentError, match=r"gemm_simt: config=WarpgroupConfig.* is no mo.kernels.TileConfig"):
        gemm.gemm(A, B, C, config=WARPGROUP)


@pytest.mark.parametrize("options", HOPPER_ONLY, ids=lambda options: next(iter(options)))
@pytest.mark.parametrize("arch", ["sm_90a", None])
def test_double_precision_takes_none_of_hoppers_options(arch, options, picked):
    message = f"^gemm: {next(iter(options))} needs gemm_sm90, which multiplies no float64"
    with pytest.raises(mo.ArgumentError, match=message):
        picked(arch, *(np.zeros((8, 8)) for _ in range(3)), **options)


def test_unknown_options(picked):
    with pytest.raises(mo.ArgumentError, match=r"^gemm takes no gamma, delta; there are alpha, beta, tf32, bias"):
        picked("sm_90a", *operands(), gamma=1, delta=2)


# --- through to the end ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", [("f16", "f16"), ("e4m3", "f32")])
def test_either_kernel_gives_the_product(kind, monkeypatch):
    """In the simulator, whose memory has no architecture, and as if it were Hopper's."""
    rng, (name, out) = np.random.default_rng(1), kind
    A, B = (filled(rng, (rows, 72), DTYPES[name]).x for rows in (40, 56))
    for arch in (None, "sm_90a"):
        monkeypatch.setattr(mo, "arch_of", lambda array, arch=arch: arch)
        C = place((40, 56), DTYPES[out]).x
        assert gemm.gemm(A, B, C) is C
        check_error(C, *expected_of(A, B))


def test_bfloat16_halves_through_the_dispatcher():
    rng = np.random.default_rng(2)
    A, B, C = (filled(rng, shape, ml_dtypes.bfloat16).x for shape in ((40, 72), (48, 72), (40, 24)))
    gemm.gemm(A, B, C, gated=True)
    first, second = (expected_of(A, B[part])[0] for part in (slice(24), slice(24, 48)))
    check_error(C, first * second, 1e-5 * np.abs(first * second))


@pytest.mark.parametrize(("kind", "gather"), [("numpy", "memory"), ("torch", "memory"), ("DeviceArray", "cluster")])
def test_arrays_of_an_unknown_library_need_no_workspace(kind, gather):
    """Few tiles with a long K: sums meet in memory where the library of C can make some for them."""
    A, B, C = (mo.TensorLike(dtype, shape, (shape[1], 1)).info()._replace(kind=kind) for dtype, shape in
               ((mo.float16, (64, 65536)), (mo.float16, (64, 65536)), (mo.float16, (64, 64))))
    config = host._recipe(A, B, C, Fusion(), False, None, 132).plan.config
    assert (config.gather, config.split_k > 1) == (gather, True)
