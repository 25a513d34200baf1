"""What torch's autograd must know of a launch: which tensors it wrote, and that none of them is being differentiated.

In: a Func and a classified call.  Out: the written torch tensors, with their version counters advanced; or
ArgumentError.

    dirty = written_tensors(spec.func, call); require_untracked("axpy", dirty); mark(dirty)

This module does not import torch: if there is a tensor, torch is there.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from moye.errors import ArgumentError
from moye.ir.nodes import Func, TensorParam
from moye.runtime.arguments import Call
from moye.runtime.arrays import ArrayInfo

Tensors = tuple[tuple[str, Any], ...]
"""(parameter, tensor) of each torch tensor that a launch writes."""


def written(func: Func, call: Call) -> Iterator[tuple[str, ArrayInfo, Any]]:
    """The (parameter, what it is, the array) of every argument that the kernel writes."""
    arrays = iter(call.arrays)
    for param, leaf in zip(func.params, call.leaves, strict=True):
        if isinstance(leaf, ArrayInfo):
            _, info, array = next(arrays)
            if isinstance(param, TensorParam) and param.buffer.written:
                yield param.name, info, array


def written_tensors(func: Func, call: Call) -> Tensors:
    """The written arguments that are torch tensors."""
    return tuple((name, array) for name, info, array in written(func, call) if info.kind == "torch")


def require_untracked(kernel: str, dirty: Tensors) -> None:
    """ArgumentError if autograd would believe that a written tensor is unchanged: gradients would be wrong."""
    for name, tensor in dirty:
        if getattr(tensor, "requires_grad", False) and grad_enabled():
            kind = "a leaf that requires grad" if tensor.is_leaf else "a tensor that requires grad"
            raise ArgumentError(f"{kernel} writes argument {name!r}, {kind}, and autograd would not know of it",
                                hint="launch it under torch.no_grad(), or in an operator with a backward: @mo.torch_op")


def mark(dirty: Tensors) -> None:
    """Advance the version counters of written tensors, as torch's own operations in place do."""
    if dirty and (bump := bumper()) is not None:
        bump(tuple(tensor for _, tensor in dirty))


def grad_enabled() -> bool:
    """Whether torch, if it is there, records operations for differentiation."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and bool(torch.is_grad_enabled())


def bumper() -> Callable[[tuple[Any, ...]], object] | None:
    """The function that advances the version counters of a tuple of tensors; None without torch."""
    torch: Any = sys.modules.get("torch")
    return _bumper() if hasattr(torch, "Tensor") else None


@functools.cache
def _bumper() -> Callable[[tuple[Any, ...]], object]:
    """torch's own function, which takes 0.1 us, if it does what it should: it is not a public interface of torch."""
    torch: Any = sys.modules["torch"]
    try:
        bump: Callable[[tuple[Any, ...]], object] = torch._C._increment_version
        one, other = torch.empty(2), torch.empty(2)[1:]
        bump((one, other))
        if (one._version, other._version) == (1, 1):
            return bump
    except Exception:                                   # any change of a private interface: there is a way round
        pass
    return _write_nothing


def _write_nothing(tensors: tuple[Any, ...]) -> None:
    """The same with public functions: a view of no elements has the counter of its tensor."""
    for tensor in tensors:
        if not tensor.is_inference():
            tensor.detach().unsqueeze(0).narrow(0, 0, 0).zero_()
