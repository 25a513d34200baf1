"""Where each shared tensor lies in the block's shared memory.

In: a Func.  Out: ``SmemPlan``, a byte offset per shared buffer, in the order of their making.

>>> plan(func).total, plan(func).dynamic
(16640, False)

Up to 48 KB are static ``__shared__`` arrays; more needs one dynamic pool.  Buffers are never laid over each other.
"""

from __future__ import annotations

from dataclasses import dataclass

from moye.ir.nodes import Buffer, Func

STATIC_LIMIT = 48 * 1024


@dataclass(frozen=True, slots=True)
class SmemPlan:
    """``offsets[buffer.id]`` in bytes from the pool's start, which is aligned to ``align``."""

    offsets: dict[int, int]
    total: int
    align: int

    @property
    def dynamic(self) -> bool:
        """Whether the kernel must ask for its shared memory at launch."""
        return self.total > STATIC_LIMIT

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
