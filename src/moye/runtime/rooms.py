"""Scratch arrays of torch's that calls have in common, as asking its allocator takes longer than a launch.

In: the scratch arrays that a call asked for.  Out: ``Rooms``: the addresses of those that need not be made anew.

    rooms = Rooms(recording.scratch, own=False)
    addresses = rooms.known.get((stream, thread)) or rooms.fill((stream, thread), arguments)

Kernels of a stream run in turn, and a thread queues them in the order of its calls.  So calls of one thread on one
stream may use the same memory, if what it holds before a call does not count (``raw``) or is as the kernels leave it
(``restored``).  A captured graph runs whenever it is replayed, and takes arrays of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from moye.runtime.arrays import describe, span_bytes
from moye.runtime.recording import Scratch

_MOST_BYTES = 32 << 20
"""Of the memory that all calls of a thread on a stream have in common; cuBLAS keeps as much for a stream."""
_LEAST_BYTES = 1 << 20
_ALIGNED = 256                                          # as the allocators of CUDA and of torch
_MOST = 16                                              # pairs of stream and thread for which memory is kept

Key = tuple[int, int]
"""The handle of a stream, and the number of a thread."""

_common: dict[tuple[int, Key], Any] = {}


class Rooms:
    """The scratch arrays of a repeated call that are kept for each stream and thread.

    ``which`` has their numbers among all scratch arrays, ``known`` their addresses.  They are the call's ``own``, or
    lie in memory that it shares with other calls.  Nothing is given back: another thread may be about to use it.
    """

    def __init__(self, scratch: Sequence[Scratch], *, own: bool) -> None:
        self._scratch, self._own = scratch, own
        fits = own or sum(_room(x) for x in scratch if x.raw) <= _MOST_BYTES
        self.which = [j for j, x in enumerate(scratch) if x.info.kind == "torch" and (x.restored or (x.raw and fits))]
        self.known: dict[Key, tuple[int, ...]] = {}
        self._arrays: dict[Key, list[Any]] = {}

    def fill(self, key: Key, arguments: Sequence[Any]) -> tuple[int, ...] | None:
        """Find room for calls of this thread on this stream, which must be the current one.

        Returns addresses, or None where too many threads and streams have room already.
        """
        arrays, found, begin = [], [], 0
        shared = [] if self._own else [self._scratch[j] for j in self.which if self._scratch[j].raw]
        memory = _memory(key, arguments[shared[0].like], sum(map(_room, shared))) if shared else None
        if len(self._arrays) >= _MOST or (shared and memory is None):
            return None
        for x in (self._scratch[j] for j in self.which):
            if memory is not None and x.raw:
                found.append(memory.data_ptr() + begin)
                begin += _room(x)
                continue
            arrays.append(x.make(arguments[x.like], *x.options))
            info = describe(arrays[-1])
            assert info is not None, "scratch arrays are arrays"
            found.append(info.ptr)
        self._arrays[key] = [memory, *arrays]
        self.known[key] = addresses = tuple(found)
        return addresses


def _room(scratch: Scratch) -> int:
    """The bytes of a scratch array, up to where the next may begin."""
    count = span_bytes(scratch.info)[1] - scratch.info.ptr
    return -(-count // _ALIGNED) * _ALIGNED


def _memory(key: Key, like: Any, count: int) -> Any:
    """At least so many bytes that all calls with this key have in common; those that have fewer go on with these."""
    place = like.device.index, key
    memory = _common.get(place)
    if memory is None and len(_common) >= _MOST:
        return None
    if memory is None or memory.numel() < count:
        torch = sys.modules["torch"]
        count = max(_LEAST_BYTES, 1 << (count - 1).bit_length())
        memory = _common[place] = torch.empty(count, dtype=torch.uint8, device=like.device)
    return memory
