"""Arrays that host functions need beside their arguments, where the arguments' library makes none."""

import sys

import numpy as np
import pytest

import moye as mo
from moye.kernels import gemm_sm80
from moye.kernels.rows.norm_backward import rms_norm_backward
from moye.kernels.workspace import empty
from moye.runtime.arrays import Memory


class Foreign:
    """An array of another library, by the name of its module."""


def memory(x, dtype=mo.float32):
    return Memory(x.ctypes.data, x.shape, dtype, None)


@pytest.mark.parametrize(("package", "words"), [
    ("jax", "JAX, whose arrays no launch may write"), ("jaxlib.xla_extension", "JAX, whose arrays no launch may write"),
    ("other.arrays", "other arrays")])
def test_the_error_names_the_library_and_no_option_of_another_function(package, words):
    array = type("Array", (Foreign,), {"__module__": package})()
    with pytest.raises(mo.ArgumentError) as told:
        empty(array, mo.float32, (2, 3))
    assert f"this call needs an array beside its arguments, which moye cannot make for {words}" in str(told.value)
    assert "pass torch, CuPy or NumPy arrays" in str(told.value) and "splits" not in str(told.value)


def test_gradients_of_rows_in_memory_of_another_program():
    x, dout, dx = (np.ones((40, 64), np.float32) for _ in range(3))
    weight, dweight, rstd = np.ones(64, np.float32), np.zeros(64, np.float32), np.ones(40, np.float32)
    with pytest.raises(mo.ArgumentError, match="such as XLA in") as told:
        rms_norm_backward(*(memory(a) for a in (dx, dout, x, weight, rstd)), dweight=memory(dweight))
    assert "splits" not in str(told.value)


def test_a_product_in_such_memory_is_not_split(monkeypatch):
    """gemm_sm80 would split this sum by itself, for which it needs an array."""
    rng = np.random.default_rng(0)
    A, B = (rng.standard_normal((n, 2048)).astype(np.float16) for n in (32, 32))
    C = np.zeros((32, 32), np.float32)
    made = []
    module = sys.modules[gemm_sm80.__module__]
    monkeypatch.setattr(module, "empty", lambda *given: made.append(given) or empty(*given))
    gemm_sm80(A, B, C)
    assert made                                         # of NumPy's arrays it does
    made.clear()
    whole = np.zeros_like(C)
    gemm_sm80(memory(A, mo.float16), memory(B, mo.float16), memory(whole))
    assert not made
    np.testing.assert_allclose(whole, A.astype(np.float32) @ B.astype(np.float32).T, rtol=1e-3, atol=1e-1)
    np.testing.assert_allclose(C, whole, rtol=1e-3, atol=1e-1)
