"""What a graph believes of an operator, looked at in its first calls, and where torch's dispatcher carries them out.

In: an operator's name, its arguments and what its function returned.  Out: nothing, or ArgumentError in one sentence.

    before = counters(others); result = function(*args); require_unwritten(name, before, written)
    require_apart(name, args, result)

A graph leaves out a call whose result nobody uses, and uses memory again, so that a broken promise gives other numbers
there than outside of it.  A later call that nobody watches is right by itself, and shorter without a look.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from moye.errors import ArgumentError

Counters = list[tuple[str, torch.Tensor, int]]


def counters(arguments: Iterable[tuple[str, Any]]) -> Counters:
    """The version counters of the tensors of these arguments that have one: not in inference mode."""
    return [(name, x, x._version) for name, given in arguments
            for x in (given if isinstance(given, (list, tuple)) else (given,))
            if isinstance(x, torch.Tensor) and not x.is_inference()]


def require_unwritten(name: str, before: Counters, written: Sequence[Any]) -> None:
    """ArgumentError if a launch wrote an argument that ``mutates`` does not name, unless it shares memory with one."""
    changed = [(word, x) for word, x, version in before if x._version != version]
    if not changed:
        return
    said = set(map(_memory, tree_leaves(written)))
    for word, x in changed:
        if _memory(x) not in said:
            raise ArgumentError(f"{name} writes argument {word!r}, which mutates does not name, so that a graph would "
                                "use what it held before", hint=f"@mo.torch_op({name!r}, mutates=({word!r},))")


def require_apart(name: str, arguments: Any, result: Any) -> None:
    """ArgumentError for results that lie in the memory of an argument, or in one allocation: torch looks no closer."""
    results = result if isinstance(result, (tuple, list)) else (result,)
    places = [place for x in results if (place := _memory(x)) is not None]
    if not {*map(_memory, tree_leaves(arguments))}.isdisjoint(places):
        raise ArgumentError(f"{name} returns one of its arguments or a view of one, and torch expects new tensors",
                            hint="return a copy: x.clone()")
    if len(set(places)) < len(places):
        raise ArgumentError(f"{name} returns results that share memory, and torch expects tensors of their own",
                            hint="return a copy: x.clone(), or allocate each by itself")


def _memory(x: Any) -> Any:
    """What tells the memory of a tensor from others; None for what has none."""
    try:
        return x.untyped_storage()._cdata if isinstance(x, torch.Tensor) and x.numel() else None
    except (NotImplementedError, RuntimeError):         # of sparse tensors, say
        return None
