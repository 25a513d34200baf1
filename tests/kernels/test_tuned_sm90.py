"""``tuned_gemm_sm90`` in the simulator: what it tries for a product, and that it gives what ``gemm_sm90`` gives."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from moye.kernels import tuned_gemm_sm90
from moye.kernels.gemm.sm90.config import configs
from moye.kernels.gemm.tuned import _MOST

H200 = 132                              # multiprocessors


def tried(dtype, M, N, K, **options):
    """The configurations that are not pruned for C = A @ B.T, and why others are."""
    A, B, C = (mo.TensorLike(kind, shape, (shape[1], 1)) for kind, shape in
               ((dtype, (M, K)), (dtype, (N, K)), (options.pop("out", mo.bfloat16), (M, N))))
    fusion = {name: options.pop(name) for name in list(options) if name != "fast_accum"}
    arguments = {"A": A, "B": B, "C": C, "alpha": 1, "beta": 0, "fast_accum": False, "fusion": fusion, **options}
    answers = {config["config"]: tuned_gemm_sm90.options.prune(config, **arguments)
               for config in tuned_gemm_sm90.options.configs}
    assert answers.pop(None) is False, "the rule's choice is always tried"
    return [config for config, why in answers.items() if not why], {why for why in answers.values() if why}


def test_wide_products_try_wide_tiles():
    """Those that the model of costs finds soonest: a search of all would take minutes."""
    found, why = tried(mo.bfloat16, 4096, 4096, 4096)
    assert set(found) < set(configs(mo.bfloat16)) and len(found) == _MOST
    assert why == {"not for bfloat16 and 4096 x 4096", "slower, the model of costs says"}
    assert {(config.bM, config.bN) for config in found} >= {(128, 256), (256, 128)}
    assert set(tried(mo.float32, 4096, 4096, 4096)[0]) < set(configs(mo.float32))
    assert len(tried(mo.bfloat16, 4096, 4096, 16)[0]) == _MOST


@pytest.mark.parametrize("M, N, swap", [(16, 8192, True), (8192, 5, False), (1, 1, False)])
def test_few_rows_or_columns_try_narrow_tiles(M, N, swap):
    found, _ = tried(mo.float16, M, N, 8192)
    assert found and {config.swap for config in found} == {swap} and {config.stream for config in found} == {"A"}
    assert {config.bN for config in found} == {16 if M == 16 else 8}
    both = tried(mo.float16, M, 100, 8192)[0] if M == 8192 else []
    assert not both or {config.bN for config in both} >= {64, 128}


def test_splits_need_something_to_split():
    assert {config.split_k for config in tried(mo.bfloat16, 16, 512, 8192)[0]} >= {1, 2, 4, 8}
    found, why = tried(mo.bfloat16, 16, 512, 256)
    assert {config.split_k for config in found} == {1, 2, 4} and "too little along K to split" in why


def test_promoted_sums_leave_out_what_has_no_registers_for_them():
    promoted, why = tried(mo.float8_e4m3fn, 4096, 4096, 4096)
    fast, _ = tried(mo.float8_e4m3fn, 4096, 4096, 4096, fast_accum=True)
    assert set(promoted) | set(fast) < set(configs(mo.float8_e4m3fn)) and len(fast) == _MOST
    assert max(config.bM * config.bN for config in fast) > max(config.bM * config.bN for config in promoted) >= 128**2
    assert "float32 sums of float8 products take twice the registers" in why


def test_gated_products_are_not_swapped():
    found, _ = tried(mo.bfloat16, 16, 4096, 4096, gated=True)
    assert set(found) < set(configs(mo.bfloat16, gated=True)) and not any(config.swap for config in found)


@pytest.mark.slow
@pytest.mark.parametrize("M, N, K", [(130, 136, 100), (20, 96, 70)])
def test_the_first_legal_configuration_multiplies(M, N, K):
    rng, dtype = np.random.default_rng([M, N, K]), ml_dtypes.bfloat16
    A, B = (rng.standard_normal((rows, K)).astype(dtype) for rows in (M, N))
    bias, C = rng.standard_normal(N).astype(dtype), np.full((M, N), np.nan, dtype)
    assert tuned_gemm_sm90(A, B, C, bias=bias, activation="relu") is C
    exact = np.maximum(A.astype("f8") @ B.astype("f8").T + bias.astype("f8"), 0)
    assert np.linalg.norm(C.astype("f8") - exact) <= 3e-3 * np.linalg.norm(exact)
    best = tuned_gemm_sm90.best(A, B, C, bias=bias, activation="relu")["config"]
    assert best is None, "the simulator takes the first, which is the rule's choice"


def test_it_complains_as_gemm_sm90_does():
    x = np.zeros((16, 16), "f8")
    with pytest.raises(mo.ArgumentError, match="gemm_sm90: A holds float64"):
        tuned_gemm_sm90(x, x, x.copy())
    with pytest.raises(TypeError, match="unknown"):
        tuned_gemm_sm90(*[np.zeros((16, 16), "f2")] * 3, unknown=1)


def test_whether_c_is_read_is_in_the_key():
    """Its value is not, which may change from call to call."""
    asked = tuned_gemm_sm90.options.key[-1]
    assert [asked(beta=beta, alpha=1) for beta in (0, 0.0, 1, -0.5, np.float32(2), "x")] == [False] * 2 + [True] * 4
