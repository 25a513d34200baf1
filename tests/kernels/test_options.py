"""Options of the kernels' host functions: NumPy's numbers are numbers, and whatever is none is refused in words."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye import kernels

RNG = np.random.default_rng(0)


def drawn(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def halves(*shape):
    return drawn(*shape).astype(np.float16)


LABELS, LOSS = np.array([0, 1, 2]), np.zeros((), np.float32)
# name: arrays in the order of the parameters; options with a value that is right.
CALLS = {
    "softmax": ((drawn(3, 8), drawn(3, 8)), {"axis": 1, "scale": 0.5, "causal": 1}),
    "log_softmax_backward": ((drawn(3, 8), drawn(3, 8), drawn(3, 8)), {"axis": 1, "scale": 0.5}),
    "rms_norm": ((drawn(3, 8), drawn(3, 8)), {"eps": 0.5, "offset": 1.0}),
    "layer_norm_backward": ((*(drawn(3, 8) for _ in range(3)), None, drawn(3), drawn(3)), {"offset": 1.0}),
    "cross_entropy": ((LOSS, drawn(3, 8), LABELS),
                      {"ignore_index": 2, "label_smoothing": 0.5, "z_loss": 0.25, "reduction": "sum"}),
    "linear_cross_entropy": ((LOSS, drawn(3, 8), drawn(5, 8), LABELS),
                             {"ignore_index": 2, "label_smoothing": 0.5, "z_loss": 0.25, "chunk": 2}),
    "embedding_backward": ((drawn(5, 8), drawn(3, 8), LABELS), {"padding_idx": 1}),
    "reduce": ((drawn(3), drawn(3, 8), "sum"), {"axis": 1}),
    "cumsum": ((drawn(3, 8), drawn(3, 8)), {"axis": 1}),
    "permute": ((drawn(8, 3), drawn(3, 8)), {"axes": (1, 0)}),
    "gemm_simt": ((drawn(8, 4), drawn(6, 4), drawn(8, 6)), {"alpha": 0.5, "beta": 0.5}),
    "attention": ((*(halves(1, 3, 2, 16) for _ in range(4)),), {"scale": 0.5, "softcap": 2.0, "window": (1, 0)}),
}
OPTIONS = [(name, option) for name, (_, options) in CALLS.items() for option in options]
NO_NUMBERS = ["1", [], object(), 1j, b"1", np.array([1.0, 2.0]), 10**400, -10**400, {}]
NOT_FINITE = [float("nan"), float("inf")]
TAKE_ANY = {("rms_norm", "eps"), ("rms_norm", "offset"), ("layer_norm_backward", "offset"), ("gemm_simt", "alpha"),
            ("gemm_simt", "beta")}
"""Options for which NaN and infinities are numbers as any other."""


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_what_is_no_number_is_refused(name, option):
    arrays, options = CALLS[name]
    for value in NO_NUMBERS + ([] if (name, option) in TAKE_ANY else NOT_FINITE):
        with pytest.raises(mo.ArgumentError):
            getattr(kernels, name)(*arrays, **{**options, option: value})


@pytest.mark.parametrize("name", ["softmax", "cross_entropy", "rms_norm", "embedding_backward"])
def test_numbers_of_numpy(name):
    arrays, options = CALLS[name]
    found, wanted = ([x.copy() for x in arrays] for _ in range(2))
    as_numpy = {option: x if isinstance(x, str) else np.int16(x) if isinstance(x, int) else np.float16(x)
                for option, x in options.items()}
    getattr(kernels, name)(*found, **as_numpy)
    getattr(kernels, name)(*wanted, **options)
    assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize("name", CALLS)
def test_an_array_that_is_missing_is_refused(name):
    arrays, options = CALLS[name]
    for i, x in enumerate(arrays):
        if isinstance(x, np.ndarray):
            for wrong in (None, "x", x.tolist(), x.astype(complex)):
                with pytest.raises(mo.MoyeError):
                    getattr(kernels, name)(*arrays[:i], wrong, *arrays[i + 1:], **options)
