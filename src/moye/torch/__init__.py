"""Operators of PyTorch made of functions that launch kernels.

In: a Python function of tensors.  Out: an operator that PyTorch calls, differentiates, compiles and captures.

    @moye.torch.op("mine::scaled_add")
    def scaled_add(x: torch.Tensor, y: torch.Tensor, alpha: float = 1.0) -> torch.Tensor: ...

``moye.torch.linear`` and the other operators that come with moye are loaded on first use, and torch with them.
"""

from __future__ import annotations

import importlib
from typing import Any

from moye.torch.declare import op

_FAMILIES = {
    "attention": ("attention", "paged_attention"), "gated": ("geglu", "swiglu"), "linear": ("linear",),
    "moves": ("embedding", "permute", "rope"), "norms": ("layer_norm", "layer_norm_fp8", "rms_norm", "rms_norm_fp8"),
    "reductions": ("cumsum", "reduce", "top_k"),
    "softmax": ("cross_entropy", "linear_cross_entropy", "log_softmax", "softmax"),
}
_SHIPPED = {name: family for family, names in _FAMILIES.items() for name in names}
"""The operators that come with moye, by name: the module of ``moye.torch.operators`` that has them."""

__all__ = ["op", *_SHIPPED]


def __getattr__(name: str) -> Any:
    if name not in _SHIPPED:
        raise AttributeError(f"module 'moye.torch' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"moye.torch.operators.{_SHIPPED[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
