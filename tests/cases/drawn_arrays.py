"""Arrays of drawn shapes, orders, gaps and offsets for kernels that take any strides, and their results in float64."""

from __future__ import annotations

import ml_dtypes
import numpy as np

import moye as mo

FLOATS = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "f64": np.float64}
CLOSE = {"bf16": 8e-3, "f16": 1e-3, "f32": 2e-6, "f64": 1e-13}
EXTENTS = (1, 2, 3, 5, 8, 16, 17, 31, 32, 33, 40, 64, 65)


def shape_of(rng, rank=None, most=4096, extents=EXTENTS):
    """A shape of at most ``most`` elements."""
    rank = int(rng.integers(1, 5)) if rank is None else rank
    while True:
        shape = tuple(int(rng.choice(extents)) for _ in range(rank))
        if np.prod(shape) <= most:
            return shape


def laid_out(rng, x, plain=0.4):
    """The values of x in other memory: axes in any order, gaps, steps, any offset; contiguous with this probability."""
    if not x.ndim or rng.random() < plain:
        return np.array(x, order="C")
    order = rng.permutation(x.ndim) if rng.random() < 0.6 else np.arange(x.ndim)
    steps = rng.choice([1, 1, 1, 2], x.ndim)
    gaps = rng.choice([0, 0, 1, 3, 8], x.ndim)
    room = [int(x.shape[i] * steps[i] + gaps[i]) for i in order]
    offset = int(rng.choice([0, 0, 1, 4, 8]))
    flat = np.zeros(int(np.prod(room)) + offset, x.dtype)
    y = flat[offset:].reshape(room).transpose(np.argsort(order))
    y = y[tuple(slice(0, n * step, step) for n, step in zip(x.shape, steps, strict=True))]
    y[...] = x
    return y


def drawn(rng, shape, name, scale=1.0):
    """Normal numbers of this dtype, laid out anyhow."""
    return laid_out(rng, (rng.standard_normal(shape) * scale).astype(FLOATS[name]))


def poisoned(rng, shape, name):
    """An output array of NaNs, laid out anyhow."""
    return laid_out(rng, np.full(shape, np.nan, FLOATS.get(name, np.float32)))


def wide(x):
    return np.asarray(x).astype(np.float64)


def close(got, expected, name, what=""):
    """Equal up to the dtype's rounding, relative to the largest of the expected values."""
    expected = np.asarray(expected, np.float64)
    assert got.shape == expected.shape, f"{what}: {got.shape} and {expected.shape}"
    error = np.abs(wide(got) - expected)
    allowed = CLOSE[name] * (np.abs(expected) + max(1e-30, float(np.abs(expected).max(initial=0))) * 0.25)
    assert (error <= allowed).all(), f"{what}: error {error.max():.2e} in {name}"


class clean:
    """All launches inside are checked, and none has a finding."""

    def __enter__(self):
        self._checking = mo.checking()
        self.reports = self._checking.__enter__()
        return self.reports

    def __exit__(self, *failure):
        self._checking.__exit__(*failure)
        if failure[0] is None:
            for report in self.reports:
                assert report.ok, str(report)
