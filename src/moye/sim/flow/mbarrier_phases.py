"""The state of the mbarriers of one shared tensor, and how it is told.

In: a buffer.  Out: ``Phases``, arrays that mbarriers.py changes.
"""

from __future__ import annotations

import numpy as np

from moye.ir.nodes import Buffer, Ref
from moye.sim.values.memory import Array


class Phases:
    """The barriers of one shared tensor: arrays (elements, blocks)."""

    __slots__ = ("arrivals", "buffer", "bytes", "came", "count", "far", "free", "here", "pending", "phase",
                 "ready", "sent", "unnamed")

    def __init__(self, buffer: Buffer, threads: int, blocks: int) -> None:
        self.buffer = buffer
        shape = (buffer.elements or 0, blocks)
        self.phase: Array = np.zeros(shape, np.int64)
        self.count: Array = np.zeros(shape, np.int64)
        self.pending: Array = np.zeros(shape, np.int64)
        self.bytes: Array = np.zeros(shape, np.int64)
        self.arrivals: Array = np.zeros(shape, np.int64)
        """The number of arrivals in the phase under way, those beyond its count included."""
        self.ready: Array = np.zeros(shape, np.bool_)
        """Whether each barrier is initialised."""
        self.came: Array = np.zeros((shape[0], threads, blocks), np.bool_)
        """The threads that have ever arrived."""
        self.here: Array = np.zeros_like(self.came)
        """The threads that have arrived in the phase under way."""
        self.far: Array = np.zeros(shape, np.bool_)
        """Whether threads of other blocks have arrived, too: ``came`` and ``here`` do not tell them apart."""
        self.free: Array = np.zeros(shape, np.bool_)
        """Whether somebody passed before any phase was complete: such a wait is for what nobody has used yet."""
        self.unnamed: Array = np.zeros(shape, np.int64)
        """Bytes of multicasts whose masks name other blocks of the cluster and not this one."""
        self.sent: dict[tuple[int, int], dict[int, int]] = {}
        """By (element, block) the other blocks that send copies there, each with the phase of its last one."""


def name(ref: Ref, element: int) -> str:
    """``full(2)``"""
    return f"{ref.buffer.name}({element})"


def state(phases: Phases, element: int, block: int) -> str:
    """``1 of 2 arrivals and 4096 bytes are missing``"""
    missing, count, bytes_ = (int(x[element, block]) for x in (phases.pending, phases.count, phases.bytes))
    parts = [f"{missing} of {count} arrival{'s' if count > 1 else ''}"] if missing > 0 else []
    if bytes_:
        parts.append(f"{bytes_} bytes" if bytes_ > 0 else f"{-bytes_} bytes too many have come")
    if bytes_ < 0:
        return ", ".join([*(f"{p} missing" for p in parts[:-1]), parts[-1]])
    verb = "is" if parts == ["1 of 1 arrival"] else "are"
    return f"{' and '.join(parts)} {verb} missing" if parts else "nothing is missing"
