"""Calls of ``moye.kernels`` whose arrays lie elsewhere: with gaps, turned, at other bytes, of torch or DLPack alone.

In: seeds.  Out: what is wrong with a call: it gives what arrays of NumPy give that lie as usual, or is refused.

    assert failure(7) is None

Outputs hold NaN before the call, so that what is not written shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import moye as mo
import odd_calls
from moye import kernels

WRITTEN = {"out", "summed", "rstd", "mean", "dx", "dweight", "dbias", "loss", "lse", "dlogits", "dW", "dtable",
           "values", "indices", "grads", "dq", "dk", "dv"}
READ_BY_GRADIENTS = {"out", "rstd", "mean", "lse"}


@dataclass
class OfDlpack:
    """An array of which nothing is known but DLPack's protocol."""

    array: Any

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def laid(x: Any, rng: np.random.Generator) -> Any:
    """The numbers of x in new memory: modes in another order, with gaps, more in front or behind, moved by elements."""
    order = rng.permutation(x.ndim)
    steps, more = rng.choice([1, 1, 1, 2, 3], x.ndim), rng.integers(0, 3, x.ndim)
    room = np.zeros(int(np.prod(x.shape * steps + more)) + 8, x.dtype)
    first = int(rng.choice([0, 1, 2, 4]))
    whole = room[first:first + len(room) - 8].reshape((x.shape * steps + more)[order]).transpose(np.argsort(order))
    view = whole[(*(slice(rng.integers(0, m + 1), None, s) for m, s in zip(more, steps, strict=True)), ...)]
    view = view[(*map(slice, x.shape), ...)]
    view[...] = x
    return view


def of_a_library(x: Any, rng: np.random.Generator) -> Any:
    """An array as one of NumPy, of torch, or of DLPack alone."""
    if x.dtype.kind == "V" or x.dtype.itemsize == 1 or x.dtype.name == "bfloat16":
        return x
    return (x, x, torch.from_numpy(x), OfDlpack(x))[rng.integers(4)]


def _numbers(x: Any) -> Any:
    x = x.array if isinstance(x, OfDlpack) else x
    return np.asarray(x).astype(np.float64)


def failure(seed: int) -> str | None:
    """What is wrong with the call of a seed, or None."""
    rng = np.random.default_rng([23, seed])
    name = [name for name in odd_calls.right_calls() if name != "packed"][seed % (len(odd_calls.right_calls()) - 1)]
    function = getattr(kernels, name.split()[0])
    written = WRITTEN - READ_BY_GRADIENTS if "backward" in name else WRITTEN
    usual, other = {}, {}
    for key, x in odd_calls.right_calls()[name].items():
        usual[key] = other[key] = x
        if isinstance(x, (np.ndarray, np.generic)):
            x = usual[key] = np.array(x)
            if key in written and x.dtype.kind in "fi":
                x[...] = np.nan if x.dtype.kind == "f" else 77
            other[key] = of_a_library(laid(x, rng) if rng.random() < 0.8 else x.copy(), rng)
    function(**usual)
    try:
        function(**other)
    except mo.MoyeError:
        return None
    except Exception as error:
        return f"{name}: {type(error).__name__}: {error}"
    for key, x in usual.items():
        if isinstance(x, np.ndarray):
            loose = 1e-5 if x.dtype.itemsize >= 4 else 3e-3
            if not np.allclose(_numbers(x), _numbers(other[key]), loose, loose, equal_nan=True):
                return f"{name}: {key} is {_numbers(other[key])}, and {_numbers(x)} where arrays lie as usual"
    return None
