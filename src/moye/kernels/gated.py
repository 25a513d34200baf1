"""SwiGLU and GeGLU of arrays of any shape and strides, forward and backward.

In: gate and up of one shape, or one array whose last axis has the gates and behind them the ups.  Out: the arrays given
first, written.

    swiglu(out, gate_up)                    # (..., 2 n) -> (..., n)
    swiglu_backward((dgate, dup), dout, gate, up)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import moye as mo
from moye.kernels import views
from moye.kernels.maps import mapped
from moye.kernels.options import shown

Activation = Callable[[Any, bool], tuple[Any, Any]]


def silu(x: Any, fast: bool) -> tuple[Any, Any]:
    """x * sigmoid(x), and its derivative."""
    s = mo.sigmoid(x, fast=fast)
    return x * s, s * (1.0 + x * (1.0 - s))


def gelu(x: Any, fast: bool) -> tuple[Any, Any]:
    """x * Phi(x) with the normal distribution's Phi, and its derivative Phi(x) + x * phi(x)."""
    below = 0.5 + 0.5 * mo.erf(x * math.sqrt(0.5))
    return x * below, below + x * mo.exp(-0.5 * x * x, fast=fast) * (1 / math.sqrt(2 * math.pi))


def gelu_tanh(x: Any, fast: bool) -> tuple[Any, Any]:
    """x * (1 + tanh(u)) / 2 = x * sigmoid(2 u) with u = sqrt(2 / pi) * (x + 0.044715 x^3), and its derivative."""
    factor = 2 * math.sqrt(2 / math.pi)
    s = mo.sigmoid(factor * x * (1.0 + 0.044715 * x * x), fast=fast)
    return x * s, s + x * s * (1.0 - s) * factor * (1.0 + 0.134145 * x * x)


ACTIVATIONS: dict[str, Activation] = {"silu": silu, "gelu": gelu, "gelu_tanh": gelu_tanh}


@functools.lru_cache(maxsize=16)
def forward_of(name: str, fast: bool) -> Callable[..., tuple[Any]]:
    """(gate, up) -> (activation(gate) * up)."""
    activation = ACTIVATIONS[name]

    def forward(gate: Any, up: Any) -> tuple[Any]:
        return (activation(gate, fast)[0] * up,)
    return forward


@functools.lru_cache(maxsize=16)
def backward_of(name: str, fast: bool) -> Callable[..., tuple[Any, Any]]:
    """(dout, gate, up) -> (dgate, dup)."""
    activation = ACTIVATIONS[name]

    def backward(dout: Any, gate: Any, up: Any) -> tuple[Any, Any]:
        value, slope = activation(gate, fast)
        return dout * up * slope, dout * value
    return backward


# --- host ------------------------------------------------------------------------------------------------------------


@mo.replayed
def swiglu(out: Any, gate: Any, up: Any = None) -> None:
    """out = silu(gate) * up, element by element, with silu(x) = x / (1 + exp(-x)).

    All have one shape.  Without ``up``, the last axis of ``gate`` is twice as long and holds the ups in its second
    half.  bfloat16, float16 and float32 compute in float32 and round once, float64 in float64; 16-bit arrays take the
    hardware's exponential (docs/kernel-language.md, fast functions).  ArgumentError for anything else.
    """
    _forward("swiglu", "silu", out, gate, up)


@mo.replayed
def geglu(out: Any, gate: Any, up: Any = None, *, approximate: str = "none") -> None:
    """out = gelu(gate) * up, as ``swiglu`` in all else; ``approximate`` is PyTorch's: "none" or "tanh"."""
    _forward("geglu", _gelu("geglu", approximate), out, gate, up)


def swiglu_backward(grads: Any, dout: Any, gate: Any, up: Any = None) -> None:
    """The gradients of ``swiglu`` for the gradient ``dout`` of its result.

    ``grads`` is a pair (dgate, dup), or one array of the shape of a ``gate`` that holds the ups, too.  A gradient may
    be the array whose gradient it is: each element is read before it is written.
    """
    _backward("swiglu_backward", "silu", grads, dout, gate, up)


def geglu_backward(grads: Any, dout: Any, gate: Any, up: Any = None, *, approximate: str = "none") -> None:
    """The gradients of ``geglu``, as ``swiglu_backward`` gives those of ``swiglu``."""
    _backward("geglu_backward", _gelu("geglu_backward", approximate), grads, dout, gate, up)


def _gelu(who: str, approximate: str) -> str:
    if not isinstance(approximate, str) or approximate not in ("none", "tanh"):
        raise mo.ArgumentError(f'{who}: approximate is {shown(approximate)}; it may be "none" or "tanh"')
    return "gelu_tanh" if approximate == "tanh" else "gelu"


def _forward(who: str, activation: str, out: Any, gate: Any, up: Any) -> None:
    gate, up = _both(who, "gate", gate, up)
    named = {"out": out, "gate": gate, "up": up}
    fast = _checked(who, named, written=("out",))
    mapped((out,), (gate, up), forward_of(activation, fast))


def _backward(who: str, activation: str, grads: Any, dout: Any, gate: Any, up: Any) -> None:
    pair = isinstance(grads, (tuple, list))
    if pair and len(grads) != 2:
        raise mo.ArgumentError(f"{who}: grads has {len(grads)} arrays; it is a pair (dgate, dup), or one array")
    dgate, dup = grads if pair else (grads, None)
    _gradients(who, activation, dgate, dup, dout, gate, up)


@mo.replayed
def _gradients(who: str, activation: str, dgate: Any, dup: Any, dout: Any, gate: Any, up: Any) -> None:
    dgate, dup = _both(who, "grads", dgate, dup)
    gate, up = _both(who, "gate", gate, up)
    named = {"dgate": dgate, "dup": dup, "dout": dout, "gate": gate, "up": up}
    fast = _checked(who, named, written=("dgate", "dup"))
    mapped((dgate, dup), (dout, gate, up), backward_of(activation, fast))


def _both(who: str, name: str, first: Any, second: Any) -> tuple[Any, Any]:
    """The two arrays, or views of the halves of the last axis of one."""
    if second is not None:
        return first, second
    info = views.described(who, name, first)
    if not info.shape or info.shape[-1] % 2:
        raise mo.ArgumentError(f"{who}: {name} alone has shape {tuple(info.shape)}, and its last axis must be even",
                               hint="it holds the gates and behind them the ups; else pass both")
    half = info.shape[-1] // 2
    shape, strides = (*info.shape[:-1], half), tuple(info.strides)
    return views.strided(first, shape, strides), views.strided(first, shape, strides, half * strides[-1])


def _checked(who: str, named: dict[str, Any], written: tuple[str, ...]) -> bool:
    """Whether approximations will do; ArgumentError unless all arrays have one shape and lie in one place."""
    infos = {name: views.described(who, name, x) for name, x in named.items()}
    first = next(iter(infos))
    for name, info in infos.items():
        views.same(who, "shape", name, info, first, infos[first])
    read = {name: info for name, info in infos.items() if name not in written}
    views.outputs(who, {name: infos[name] for name in written}, read, in_place=read)
    views.together(who, **infos)
    return all(info.dtype.bytes == 2 for info in infos.values())
