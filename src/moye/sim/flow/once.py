"""What is worked out once per Func.

>>> @once_per_func
... def guards(func): ...                       # the second call with the same Func answers at once

A Func is not hashable and nobody changes it after it has been made; the last ones are kept, by identity.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from moye.ir.nodes import Func

KEPT = 32

T = TypeVar("T")


def once_per_func(build: Callable[[Func], T]) -> Callable[[Func], T]:
    """The same function, which remembers its answers."""
    known: OrderedDict[int, tuple[Func, T]] = OrderedDict()

    @wraps(build)
    def look_up(func: Func) -> T:
        found = known.get(id(func))
        if found is None or found[0] is not func:
            found = known[id(func)] = (func, build(func))
            while len(known) > KEPT:
                known.popitem(last=False)
        known.move_to_end(id(func))
        return found[1]

    return look_up
