"""Calls of ``moye.kernels`` with one argument that is odd: another type, dtype, shape, other strides, no number.

In: seeds.  Out: ``Call``, and what is wrong with how it was taken: it runs, or one moye error names an argument.

    assert failure(draw(7)) is None

Whether results are right is not asked here; inputs of a call that runs must be unchanged.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import torch

import moye as mo
from moye import kernels


@dataclass(frozen=True)
class Call:
    """A function of moye.kernels with its arguments by name; ``odd`` says which of them is which oddity."""

    name: str
    function: Callable[..., Any]
    arguments: dict[str, Any]
    odd: str


class Arrays:
    """Drawn arrays: of floats, of halves, of integers below ``most``."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def f(self, *shape: int, dtype: Any = np.float32) -> Any:
        return self.rng.standard_normal(shape).astype(dtype)

    def h(self, *shape: int) -> Any:
        return self.f(*shape, dtype=np.float16)

    def i(self, most: int, *shape: int, dtype: Any = np.int64) -> Any:
        return self.rng.integers(0, most, shape).astype(dtype)


@cache
def right_calls() -> dict[str, dict[str, Any]]:
    """Calls that are right: every function, with as many of its options as go together."""
    a, e4m3, offsets = Arrays(), ml_dtypes.float8_e4m3fn, np.array([0, 3, 7], np.int32)
    f, h, i = a.f, a.h, a.i
    entropy = {"logits": f(3, 8), "labels": i(8, 3), "lse": f(3), "dlogits": f(3, 8), "dloss": f(), "weight": f(8),
               "reduction": "mean", "ignore_index": 2, "label_smoothing": 0.0, "z_loss": 0.1}
    norm = {"out": f(3, 8), "x": f(3, 8), "weight": f(8), "bias": f(8), "eps": 1e-5, "offset": 1.0,
            "residual": f(3, 8), "summed": f(3, 8), "rstd": f(3), "plan": None}
    gradient = {"dx": f(3, 8), "dout": f(3, 8), "x": f(3, 8), "weight": f(8), "rstd": f(3), "dweight": f(8),
                "dbias": f(8), "dsummed": f(3, 8), "offset": 1.0}
    scores = {"causal": True, "window": (2, 0), "scale": 0.5, "softcap": 2.0, "alibi": f(2)}
    heads = {"out": h(1, 3, 2, 16), "q": h(1, 3, 2, 16), "k": h(1, 4, 2, 16), "v": h(1, 4, 2, 16)}
    rows = {"out": h(7, 2, 16), "q": h(7, 2, 16), "k": h(7, 2, 16), "v": h(7, 2, 16), "offsets_q": offsets,
            "offsets_k": offsets}
    pages = {"out": h(2, 1, 2, 16), "q": h(2, 1, 2, 16), "k_cache": h(4, 16, 2, 16), "v_cache": h(4, 16, 2, 16),
             "page_table": np.array([[0, 1], [2, 3]], np.int32), "lengths": np.array([20, 31], np.int32)}
    return {
        "softmax": {"out": f(3, 8), "x": f(3, 8), "axis": -1, "scale": 0.5, "mask": f(3, 8), "causal": 1, "plan": None},
        "log_softmax": {"out": f(3, 8), "x": f(3, 8), "axis": 0, "scale": 0.5, "mask": f(8) > 0},
        "softmax_backward": {"dx": f(3, 8), "dout": f(3, 8), "out": f(3, 8), "axis": 1, "scale": 0.5},
        "log_softmax_backward": {"dx": f(3, 8), "dout": f(3, 8), "out": f(3, 8), "axis": 0, "scale": 0.5},
        "rms_norm": norm, "layer_norm": norm | {"mean": f(3)},
        "rms_norm of e4m3": {"out": np.zeros((3, 8), e4m3), "x": f(3, 8), "weight": f(8), "scale": f(3)},
        "rms_norm_backward": gradient, "layer_norm_backward": gradient | {"mean": f(3)},
        "cross_entropy": {"loss": f(), **entropy}, "cross_entropy_backward": entropy,
        "linear_cross_entropy": {"loss": f(), "x": f(3, 8), "W": f(5, 8), "labels": i(5, 3), "dx": f(3, 8),
                                 "dW": f(5, 8), "dloss": f(), "lse": f(3), "weight": f(5), "chunk": 2},
        "embedding": {"out": f(3, 8), "table": f(5, 8), "ids": i(5, 3)},
        "embedding_backward": {"dtable": f(5, 8), "dout": f(3, 8), "ids": i(5, 3), "padding_idx": 1},
        "reduce": {"out": f(3), "x": f(3, 8), "kind": "sum", "axis": 1},
        "reduce to places": {"out": i(3, 3), "x": f(3, 8), "kind": "argmax", "axis": 1},
        "cumsum": {"out": f(3, 8), "x": f(3, 8), "axis": 1},
        "permute": {"out": f(8, 3), "x": f(3, 8), "axes": (1, 0)},
        "transpose": {"out": f(8, 3), "x": f(3, 8), "first": 0, "second": 1},
        "top_k": {"values": f(3, 4), "indices": i(3, 3, 4), "x": f(3, 8), "largest": True},
        "rope": {"out": f(2, 3, 2, 8), "x": f(2, 3, 2, 8), "cos": f(9, 4), "sin": f(9, 4), "positions": i(8, 2, 3),
                 "offset": 1, "interleaved": False, "inverse": False},
        "swiglu": {"out": f(3, 8), "gate": f(3, 8), "up": f(3, 8)},
        "geglu": {"out": f(3, 4), "gate": f(3, 8), "approximate": "tanh"},
        "geglu_backward": {"grads": f(3, 8), "dout": f(3, 4), "gate": f(3, 8), "approximate": "none"},
        "gemm": {"A": h(8, 16), "B": h(8, 16), "C": h(8, 8), "alpha": 0.5, "beta": 0.5, "tf32": False, "bias": h(8),
                 "residual": h(8, 8), "activation": "relu", "splits": 1},
        "gemm of int8": {"A": i(9, 16, 32, dtype=np.int8), "B": i(9, 8, 32, dtype=np.int8),
                         "C": i(9, 16, 8, dtype=np.int32), "alpha": 2, "beta": 3},
        "gemm_simt": {"A": f(8, 16), "B": f(8, 16), "C": f(8, 8), "alpha": 0.5, "beta": 0.5, "bias": f(8),
                      "residual": f(8, 8), "activation": "relu", "config": None, "splits": 1},
        "attention": {**heads, **scores, "bias": h(1, 2, 3, 4), "sinks": f(2), "score": None, "tensors": (),
                      "lse": f(1, 2, 3)},
        "attention_varlen": {**rows, **scores, "sinks": f(2), "longest_q": 4, "longest_k": 5, "lse": f(2, 7)},
        "attention_backward": {"dq": h(1, 3, 2, 16), "dk": h(1, 4, 2, 16), "dv": h(1, 4, 2, 16),
                               "dout": h(1, 3, 2, 16), **heads, **scores, "lse": f(1, 2, 3), "deterministic": True},
        "paged_attention": {**pages, "window": 8, "scale": 0.5, "softcap": 2.0, "bias": h(2, 2, 1, 32), "alibi": f(2),
                            "sinks": f(2), "score": None, "tensors": (), "lse": f(2, 2, 1)},
        "paged_attention of e4m3": {**pages, "k_cache": pages["k_cache"].astype(e4m3), "k_scale": f(2) ** 2,
                                    "v_cache": pages["v_cache"].astype(e4m3), "v_scale": 0.5},
        "packed": {"X": h(8, 7)},
    }


# --- oddities --------------------------------------------------------------------------------------------------------


def values() -> list[Any]:
    """What an option may be taken for."""
    nan, inf = float("nan"), float("inf")
    numbers = [None, True, False, 0, 1, -1, 2, 7, -7, 3.5, -0.0, nan, inf, -inf, 1e300, 1e-300, 2**31, 2**40, 2**63,
               -2**63 - 1, 10**400, 10**5000, 1j]
    arrays = [np.float32(0.5), np.int64(1), np.bool_(True), np.array(1), np.array(0.5), np.array([1]), np.array([1, 0]),
              torch.tensor(1), torch.tensor(0.5), torch.tensor([1.0, 2.0]), torch.tensor(True)]
    words = ["x", "", b"x", "none", "mean", "tanh", "norm1"]
    lists = [[], (), {}, [1.0, 2.0], (0, 1), (1, 1), (0,), [[0]], range(2), {1}, iter([1])]
    others = [object(), Arrays, len, lambda x: x, np.float16, torch.float32, mo.float32]
    return [*numbers, *arrays, *words, *lists, *others]


DTYPES = (np.float16, np.float32, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.int8, np.uint8, np.int32,
          np.int64, np.uint64, np.bool_, np.complex64, object, "M8[s]", "U4", ">f4", ml_dtypes.int4)


def arrays_like(x: Any) -> Iterator[tuple[str, Any]]:
    """What an array may be taken for, each with its name."""
    for dtype in map(np.dtype, DTYPES):
        if dtype != x.dtype:
            yield f"{dtype}", np.zeros(x.shape, dtype)
    yield from (("a mode more", x[None]), ("a mode less", x[0] if x.ndim else None), ("a list", x.tolist()),
                ("flat", x.reshape(-1)), ("a scalar", x.reshape(-1)[0]))
    for axis, n in enumerate(x.shape):
        yield f"longer along {axis}", np.concatenate([x, x.take([0], axis)], axis)
        yield f"shorter along {axis}", x.take(range(n - 1), axis)
        yield f"nothing along {axis}", x.take([], axis)
        yield f"backwards along {axis}", np.flip(x, axis)
        steps = [0 if i == axis else step for i, step in enumerate(x.strides)]
        yield f"the same along {axis}", np.lib.stride_tricks.as_strided(x.copy(), x.shape, steps)
        yield f"with gaps along {axis}", np.repeat(x, 2, axis)[(slice(None),) * axis + (slice(None, None, 2),)]
    yield "of equal diagonals", np.lib.stride_tricks.as_strided(np.zeros(4 * x.size + 4, x.dtype), x.shape,
                                                                [x.itemsize] * x.ndim)
    yield from _in_other_memory(x)


def _in_other_memory(x: Any) -> Iterator[tuple[str, Any]]:
    """The same numbers."""
    fixed = x.copy()
    fixed.flags.writeable = False
    room = np.zeros(x.nbytes + 16, np.uint8)
    for what, first in (("at an odd byte", 1), ("at an odd element", x.itemsize)):
        moved = room[first:first + x.nbytes].view(x.dtype).reshape(x.shape)
        moved[...] = x
        yield what, moved
    yield from (("turned", x.T), ("read-only", fixed), ("masked", np.ma.masked_array(x)))
    if x.dtype.kind != "V":                             # ml_dtypes are unknown to torch.from_numpy
        tensor = torch.from_numpy(x.copy())
        yield from (("a tensor", tensor), ("on meta", tensor.to("meta")))
        if x.ndim:
            yield "sparse", tensor.to_sparse()


def draw(seed: int) -> Call:
    """The call of a seed."""
    rng = np.random.default_rng([17, seed])
    name = list(right_calls())[int(rng.integers(len(right_calls())))]
    right = {key: x.copy() if isinstance(x, np.ndarray) else x for key, x in right_calls()[name].items()}
    which = list(right)[int(rng.integers(len(right)))]
    odd: list[Any] = [(repr_of(x), x) for x in values()]
    if isinstance(right[which], np.ndarray) and rng.random() < 0.8:
        odd = list(arrays_like(right[which]))
    label, right[which] = odd[int(rng.integers(len(odd)))]
    return Call(name, getattr(kernels, name.split()[0]), right, f"{which} is {label}")


def repr_of(x: Any) -> str:
    try:
        return repr(x)[:40]
    except ValueError:                                  # an integer of too many digits
        return "an integer"


# --- what must hold --------------------------------------------------------------------------------------------------

CODES = ("A11", "A12", "B1")
"""Findings that wrong elements may give: a sum beyond 32 bits, a failed assert, a page that is none."""


def failure(call: Call) -> str | None:
    """What is wrong with how a call was taken, or None."""
    written = {"out", "summed", "rstd", "mean", "scale", "dx", "dweight", "dbias", "loss", "lse", "dlogits", "dW",
               "dtable", "values", "indices", "grads", "C", "dq", "dk", "dv"}
    before = {key: x.copy() for key, x in call.arguments.items() if isinstance(x, np.ndarray) and key not in written}
    text = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call.function(**call.arguments)
    except mo.SimulationError as error:
        return None if error.code in CODES else f"{error}"
    except mo.MoyeError as error:
        text = str(error).splitlines()[0]
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    named = {*call.arguments, *inspect.signature(call.function).parameters, "axis", "dgate", "dup", "part"}
    if text and not named & set(re.findall(r"\w+", text.removeprefix(f"{call.function.__name__}:"))):
        return f"no argument is named: {text}"
    changed = [key for key, x in before.items() if x.tobytes() != call.arguments[key].tobytes()]
    return f"{', '.join(changed)} changed" if changed else None
