"""relu, gelu, silu and sigmoid as PyTorch defines them, of scalars and register tensors of every float."""

import math

import numpy as np
import pytest

import moye as mo
from convert_kernels import BLOCK, THREADS, activation_kernel
from moye import dtypes as dt
from ops_kernels import numpy_of


def by_tanh(x):
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


REFERENCE = {
    ("relu", ()): lambda x: max(x, 0.0),
    ("gelu", ()): lambda x: x * 0.5 * math.erfc(-x / math.sqrt(2)),
    ("gelu", (("approximate", "tanh"),)): by_tanh,
    ("gelu", (("approximate", "tanh"), ("fast", True))): by_tanh,
    ("silu", ()): lambda x: x / (1 + math.exp(-x)),
    ("silu", (("fast", True),)): lambda x: x / (1 + math.exp(-x)),
    ("sigmoid", ()): lambda x: 1 / (1 + math.exp(-x)),
}
VALUES = np.concatenate([np.linspace(-12, 12, 2 * BLOCK - 8), [0.0, -0.0, 1e-6, -1e-6, 0.5, -0.5, 1.0, -1.0]])
# Half a unit in the last place of the dtype, and a few of float32 in between.
TOLERANCE = {dt.float64: 1e-15, dt.float32: 1e-6, dt.float16: 2**-11 + 1e-6, dt.bfloat16: 2**-8 + 1e-6,
             dt.float8_e4m3fn: 2**-4 + 1e-6}


@mo.kernel
def scalars(out, x):
    i = mo.thread_idx().x
    out[i, 0] = mo.relu(x[i])
    out[i, 1] = mo.gelu(x[i])
    out[i, 2] = mo.silu(x[i])


@mo.kernel
def misspelt(out, x):
    out[0] = mo.gelu(x[0], approximate="tan")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), REFERENCE, ids=str)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_register_tensors(name, options, dtype):
    x = VALUES.astype(numpy_of(dtype))
    out = np.zeros_like(x)
    activation_kernel[len(x) // BLOCK, THREADS](out, x, name, options)
    wanted = np.array([REFERENCE[name, options](v) for v in x.astype(np.float64).tolist()])
    error = np.abs(out.astype(np.float64) - wanted)
    small = 2e-6 if dtype.bits > 8 else 2**-10
    small = 1e-14 if dtype is dt.float64 else small
    assert (error <= TOLERANCE[dtype] * np.abs(wanted) + small).all(), VALUES[np.argmax(error)]


def test_scalars():
    x = np.array([2, -3, 0, 7] * 8, np.int32)
    out = np.zeros((32, 3), np.float32)
    scalars[1, 32](out, x)
    wanted = [[REFERENCE[name, ()](float(v)) for name in ("relu", "gelu", "silu")] for v in x]
    np.testing.assert_allclose(out, wanted, rtol=1e-6, atol=1e-7)


def test_nan_stays():
    x = np.resize(np.array([np.nan, 1.0], np.float32), BLOCK)
    for name, _ in {name: 0 for name, _ in REFERENCE}.items():
        out = np.zeros_like(x)
        activation_kernel[1, THREADS](out, x, name, ())
        np.testing.assert_array_equal(np.isnan(out), np.isnan(x))


def test_unknown_approximation():
    x = np.zeros(1, np.float32)
    with pytest.raises(mo.TraceError, match="gelu's approximate is 'none' or 'tanh', not 'tan'"):
        misspelt[1, 1](x, x)
