"""Where each shared tensor lies in the block's shared memory.

In: a Func.  Out: ``SmemPlan``, a byte offset per shared buffer, in the order of their making.

    plan(func).total, plan(func).dynamic      # (16640, False)

Up to 48 KB are static ``__shared__`` arrays; more needs one dynamic pool.  Buffers are never laid over each other.
"""

from __future__ import annotations

from dataclasses import dataclass

from moye.errors import LayoutError
from moye.hardware import STATIC_SHARED
from moye.ir.nodes import Buffer, Func
from moye.layout import ComposedLayout


@dataclass(frozen=True, slots=True)
class SmemPlan:
    """``offsets[buffer.id]`` in bytes from the pool's start, which is aligned to ``align``."""

    offsets: dict[int, int]
    total: int
    align: int

    @property
    def dynamic(self) -> bool:
        """Whether the kernel must ask for its shared memory at launch."""
        return self.total > STATIC_SHARED

    def offset(self, buffer: Buffer) -> int:
        return self.offsets[buffer.id]


def plan(func: Func) -> SmemPlan:
    """One after another, each at the next multiple of its alignment."""
    offsets: dict[int, int] = {}
    end, align = 0, 16
    for buffer in func.shared_buffers:
        start = -(-end // buffer.align) * buffer.align
        offsets[buffer.id] = start
        end, align = start + buffer.bytes, max(align, buffer.align)
    return SmemPlan(offsets, end, align)


def require_spans(func: Func) -> None:
    """A7: a swizzled tile must begin at a multiple of what its swizzle spans, or its rows meet other banks."""
    placed = plan(func)
    for buffer in func.shared_buffers:
        if not isinstance(buffer.layout, ComposedLayout) or not buffer.layout.swizzle.bits:
            continue
        swizzle, start = buffer.layout.swizzle, placed.offset(buffer)
        span = swizzle.span * buffer.dtype.bits // 8
        if start % span:
            raise LayoutError(f"{func.name}: {buffer.name} with layout {buffer.layout} begins at byte {start} of "
                              f"shared memory, which is no multiple of the {span} bytes that {swizzle} spans",
                              hint=f"leave out align={buffer.align}: the default is {max(16, span)}",
                              locs=(buffer.loc,), code="A7")
