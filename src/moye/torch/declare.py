"""``moye.torch.op``, the decorator: this module does not import torch, so that the name is there without it.

In: a name and what the function writes.  Out: the decorator that makes an ``Operator``.

    @mo.torch_op("mine::scaled_add")
    def scaled_add(x: torch.Tensor, y: torch.Tensor, alpha: float = 1.0) -> torch.Tensor: ...
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from moye.errors import ArgumentError, UnsupportedError

if TYPE_CHECKING:
    from moye.torch.operator import Operator


def op(name: str, *, mutates: Sequence[str] = (), schema: str | None = None, fake: Callable[..., Any] | None = None,
       autocast: Any = None) -> Callable[[Callable[..., Any]], Operator]:
    """A decorator that makes an operator of PyTorch, ``torch.ops.library.name``, of a function that launches kernels.

    ``name`` is "library::name".  The schema is that of the annotations: ``torch.Tensor``, ``torch.Tensor | None``,
    ``list[torch.Tensor]``, ``int`` (a symbol where extents are dynamic), ``float``, ``bool``, ``str``, ``torch.dtype``,
    these with ``| None``, and as a result one tensor, a tuple of tensors or None.  The function returns new tensors and
    writes none of its arguments but those that ``mutates`` names.  A ``schema`` in torch's words, such as
    "(Tensor x, Tensor(a!) out, Scalar alpha=1) -> ()", takes the place of annotations and ``mutates``.

    ``fake(*args)`` returns empty tensors of the result's shapes, strides and dtypes.  Without it the function itself
    runs for that on tensors without memory: its launches do nothing, and what it asks of a tensor's memory is refused.
    It may also be given later, by ``@operator.fake``, and a gradient by ``@operator.backward``.

    ``autocast`` is the dtype that tensors of floating point, but float64, are cast to inside of ``torch.autocast``;
    "region" is the dtype that the region asks for.  ArgumentError for names and annotations that are none of these;
    UnsupportedError without torch.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_]\w*::[A-Za-z_]\w*", name, re.ASCII):
        raise ArgumentError(f"torch_op takes the operator's name as 'library::name', not {name!r}",
                            hint="@mo.torch_op('mine::scaled_add')")
    if (library := name.partition("::")[0]) in ("aten", "prim", "prims"):
        raise ArgumentError(f"{name}: the library {library} is torch's own", hint="@mo.torch_op('mine::scaled_add')")
    try:
        from moye.torch.operator import Operator
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise UnsupportedError("torch_op makes operators of PyTorch, and this Python has no torch",
                               hint="pip install torch") from None
    return lambda function: Operator(function, name, tuple(mutates), schema, fake, autocast)
