"""``gemm`` as an operator of torch's, ``moye::gemm``, so that ``torch.compile`` traces a call of it as one node.

In: the arguments of ``gemm`` while torch traces.  Out: the same result, by ``torch.ops.moye.gemm``.

    torch.compile(lambda A, B, C: gemm(A, B, C, activation="gelu"), fullgraph=True)

The operator writes C, and says so in its schema.  It is registered when it is first traced.  No torch is imported here:
who traces has it.
"""

from __future__ import annotations

import functools
import re
import sys
from typing import Any

import moye as mo

_TENSORS = ("bias", "residual", "row_scale", "col_scale", "scale_a", "scale_b")
_SCHEMA = (f"(Tensor A, Tensor B, Tensor(a!) C, {', '.join(f'Tensor? {name}=None' for name in _TENSORS)}, *, "
           "Scalar alpha=1, Scalar beta=0, bool tf32=False, str activation='none', bool gated=False, "
           "bool fast_accum=False, int? splits=None, str config='') -> ()")
OPTIONS = tuple(re.findall(r"(\w+)=", _SCHEMA))
_values: dict[str, Any] = {}
"""Functions and configurations, which an operator cannot take, by the names that stand for them in a graph."""


def traced_gemm(A: Any, B: Any, C: Any, *, alpha: Any = 1, beta: Any = 0, tf32: bool = False, **options: Any) -> Any:
    """What torch traces in the place of ``gemm``: one operator, which writes C; returns C."""
    registered()
    given = {}
    for name, x in options.items():
        if name not in OPTIONS:
            raise mo.ArgumentError(f"gemm takes no {name} inside of torch.compile; there are {', '.join(OPTIONS)}")
        if x is not None:
            given[name] = name_of(x) if name in ("activation", "config") and not isinstance(x, str) else x
    sys.modules["torch"].ops.moye.gemm(A, B, C, alpha=alpha, beta=beta, tf32=tf32, **given)
    return C


@functools.cache
def _operator() -> Any:
    """The operator, which has to be kept."""
    return mo.torch_op("moye::gemm", schema=_SCHEMA)(_multiply)


def registered() -> bool:
    """Register the operator if it is not; torch calls this while it traces, as the result is marked as constant."""
    return _operator() is not None


def name_of(x: Any) -> str:
    """The name that stands for a function or a configuration in a graph; equal ones have one."""
    for name, known in _values.items():
        if known is x or (type(known) is type(x) and known == x):
            return name
    name = f"{getattr(x, '__qualname__', type(x).__name__)}#{len(_values)}"
    _values[name] = x
    return name


for _function in (registered, name_of):                # torch.compiler.assume_constant_result, without torch
    vars(_function)["_dynamo_marked_constant"] = True


def _multiply(A: Any, B: Any, C: Any, *tensors: Any, activation: str = "none", config: str = "",
              **options: Any) -> None:
    """The operator on tensors that have memory; of the last ``_TENSORS`` those that are None may be left out."""
    mo.kernels.gemm(A, B, C, **dict(zip(_TENSORS, tensors, strict=False)),
                    activation=_values.get(activation, activation), config=_values.get(config), **options)
