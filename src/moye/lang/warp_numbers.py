"""Static numbers that the operations of a warp take: NumPy's integers as Python's, and masks of lanes.

In: what a user gives.  Out: an int, or a TraceError.

>>> lane_mask("sync_warp", 0xFFFF)
65535
"""

from __future__ import annotations

from typing import Any

from moye.errors import TraceError
from moye.tensor.context import locate
from moye.tensor.expr import plain
from moye.tensor.known import weak

_FULL = 0xFFFFFFFF


def static(value: Any) -> Any:
    """NumPy's integers, and integers that facts decided, as Python's; anything else stays as it is."""
    return weak(plain(value))


def lane_mask(what: str, mask: Any) -> int:
    """A mask of lanes, with at least one."""
    number = static(mask)
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= _FULL:
        shown = hex(number) if isinstance(number, int) else repr(number)
        raise TraceError(f"{what}: the mask {shown} is no static number from 1 to 0xffffffff, a bit for each lane",
                         locs=(locate(),))
    return number
