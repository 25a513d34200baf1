"""The fast functions, the numbers they are asked for, and how far PTX lets them be off.

In: nothing.  Out: ``BOUNDS`` (how errors are measured, and the largest), kernels, arguments, references in float64.

Source: PTX ISA, ex2, lg2, rcp, rsqrt, sqrt, sin, cos, tanh; what is made of several adds their errors.
"""

from __future__ import annotations

import numpy as np

import moye as mo

ULP = 2.0**-23
BOUNDS = {
    "exp2": ("relative", 2 * ULP), "exp": ("relative", 12 * ULP), "log2": ("absolute", 2.0**-22),
    "log": ("absolute", 2.0**-22), "log10": ("absolute", 2.0**-22), "sqrt": ("relative", 2.0**-23),
    "rsqrt": ("relative", 2.0**-22.9), "rcp": ("relative", 2.0**-23), "sin": ("absolute", 2.0**-20.5),
    "cos": ("absolute", 2.0**-20.5), "tan": ("relative", 2.0**-18), "tanh": ("relative", 2.0**-11),
    "sigmoid": ("relative", 12 * ULP),
}
NARROW_BOUNDS = {"exp2": ("relative", {"float16": 2.0**-9.9, "bfloat16": 2.0**-7}),
                 "tanh": ("absolute", {"float16": 2.0**-10.987, "bfloat16": 2.0**-8 + 2.0**-20})}
_RANGES = {"exp2": (-20, 20), "exp": (-8, 8), "log2": (0.5, 2), "log": (0.5, 2), "log10": (0.5, 2), "tan": (0.1, 1.4),
           "sin": (-6.28, 6.28), "cos": (-6.28, 6.28), "tanh": (-9, 9), "sigmoid": (-8, 8)}


@mo.kernel
def fast_functions(out, x, kinds: mo.Constexpr):
    i = mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x
    if i < mo.size(x, 0):
        for j in mo.static_range(len(kinds)):
            out[i, j] = getattr(mo, kinds[j])(x[i], fast=True)


@mo.kernel
def narrow_functions(out, x, kinds: mo.Constexpr):
    """The same of register tensors of 16-bit floats."""
    i = mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x
    if i < mo.size(x, 0):
        held = mo.fragment((1,), x.dtype)
        held[0] = x[i]
        for j in mo.static_range(len(kinds)):
            out[i, j] = getattr(mo, kinds[j])(held, fast=True)[0]


@mo.kernel
def quotients(slow, fast, a, b):
    i = mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x
    slow[i] = mo.divide(a[i], b[i])
    fast[i] = mo.divide(a[i], b[i], fast=True)


def arguments(kind, count=4096):
    """Numbers for which the bound of the function is said."""
    low, high = _RANGES.get(kind, (0.01, 1000))
    return np.random.default_rng(len(kind)).uniform(low, high, count).astype(np.float32)


def exact(kind, x):
    """The function in float64."""
    if kind in ("rcp", "rsqrt"):
        return 1 / (x if kind == "rcp" else np.sqrt(x))
    return 1 / (1 + np.exp(-x)) if kind == "sigmoid" else getattr(np, kind)(x)


def off(kind, found, x, measure=None):
    """The largest error, relative or absolute as the bound is."""
    wanted = exact(kind, x.astype(np.float64))
    error = np.abs(found.astype(np.float64) - wanted)
    return float((error if (measure or BOUNDS[kind][0]) == "absolute" else error / np.abs(wanted)).max())
