"""``range`` in a kernel: its bounds, which may be traced, checked.

In: what the user gives to ``range`` or ``mo.range``.  Out: a ``DynamicRange``.

    dynamic_range(n, unroll=4)

Loops over it are in ``loops.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from moye import dtypes as dt
from moye.errors import TraceError
from moye.tensor.context import locate
from moye.tensor.expr import Expr, Scalar, is_scalar, plain
from moye.tensor.known import weak
from moye.tensor.tensor import Tensor


@dataclass(frozen=True, slots=True)
class DynamicRange:
    """``range(...)`` in a kernel: in a ``for`` statement a loop of the kernel; elsewhere (in comprehensions, ``zip``,
    ``list``) Python's own range, whose bounds must be static.
    """

    start: Scalar
    stop: Scalar
    step: Scalar
    unroll: int | None = None

    def static(self, hint: str = "loop over it with a for statement") -> range:
        """Python's range."""
        if any(isinstance(x, Expr) for x in (self.start, self.stop, self.step)):
            raise TraceError(f"range({self.start}, {self.stop}) is known only when the kernel runs; here it is "
                             "iterated over while tracing", hint=hint, locs=(locate(),))
        return range(int(self.start), int(self.stop), int(self.step))

    def __iter__(self) -> Iterator[int]:
        return iter(self.static())

    def __reversed__(self) -> Iterator[int]:
        return reversed(self.static("a loop from behind is range(n - 1, -1, -1)"))

    def backwards(self) -> DynamicRange:
        """The same numbers from behind; TraceError for a step that is known only when the kernel runs."""
        if not isinstance(self.step, int):
            raise TraceError(f"reversed: the step {self.step} of the range is known only when the kernel runs",
                             hint="write the range from behind", locs=(locate(),))
        start, stop, one = _signed(self.start), _signed(self.stop), 1 if self.step > 0 else -1
        last = start + (stop - start - one) // self.step * self.step
        return DynamicRange(last, start - one, -self.step, self.unroll)

    def __len__(self) -> int:
        return len(self.static())

    def __getitem__(self, index: int) -> int:
        return self.static()[index]


def _signed(bound: Any) -> Any:
    """A bound as a number that may be less than 0."""
    unsigned = isinstance(bound, Expr) and not bound.dtype.is_signed
    return bound.to(dt.int64) if unsigned else bound


def dynamic_range(*args: Scalar, unroll: int | bool | None = None) -> DynamicRange:
    """``range`` in a kernel: a loop of the kernel.  ``unroll``: True (fully), False (not at all), or a factor."""
    if not 1 <= len(args) <= 3:
        raise TraceError(f"range takes 1 to 3 arguments, not {len(args)}", locs=(locate(),))
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args[:2], args[2] if len(args) == 3 else 1)
    start, stop, step = plain(start), plain(stop), plain(step)
    if isinstance(step, Expr) and step.dtype.is_integer:
        if step.lower is None or step.lower < 1:
            raise TraceError(f"range: the step {step} is not known to be positive", locs=(locate(),),
                             hint="say mo.assume(step > 0) before")
        if step.dtype is dt.uint64:
            raise TraceError(f"range: the step {step} is a uint64, and loops count in int64 at most", locs=(locate(),),
                             hint="convert it with .to(mo.int64)")
    elif not isinstance(step, int) or step == 0:
        raise TraceError(f"range: the step {step} is no integer other than 0", locs=(locate(),))
    for bound in (start, stop):
        if not is_scalar(bound) or (bound.dtype.is_float if isinstance(bound, Expr) else isinstance(bound, float)):
            hint = "t[i] is one element of a tensor, t[0] where it has no other" if isinstance(bound, Tensor) else \
                "// divides integers; int(...) converts" if is_scalar(bound) else None
            raise TraceError(f"range: {bound!r} is no integer", locs=(locate(),), hint=hint)
        if isinstance(bound, Expr) and bound.dtype is dt.uint64 and (bound.upper is None or bound.upper >= 2**63):
            raise TraceError(f"range: the bound {bound} is a uint64, and loops count in int64 at most",
                             hint="convert it with .to(mo.int64)", locs=(locate(),))
    return DynamicRange(start, stop, step, _factor(unroll))


def _factor(unroll: Any) -> int | None:
    """``ops.For.unroll`` of what the user asks for."""
    unroll = weak(unroll)
    if unroll is None or isinstance(unroll, bool):
        return {True: 0, False: 1, None: None}[unroll]
    if not isinstance(unroll, int) or not 1 <= unroll < 2**31:
        raise TraceError(f"range: unroll={unroll!r} is no bool and no factor from 1 to {2**31 - 1}", locs=(locate(),))
    return unroll
