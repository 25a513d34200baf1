"""Decorated functions are pickled as functions are: by their name, where that names them.

In: a kernel, a device function or a tuned one, what makes it, what of.  Out: what ``__reduce__`` answers.

    pickle.loads(pickle.dumps(kernel)) is kernel      # True

A function that no module has under its name is left to whoever pickles functions by value.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def reduced(decorated: Any, make: Callable[..., Any], function: Any, *more: Any) -> str | tuple[Any, ...]:
    """The name under which it is found, or ``make(function, *more)``."""
    found: Any = sys.modules.get(function.__module__ or "")
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    return str(function.__qualname__) if found is decorated else (make, (function, *more))
