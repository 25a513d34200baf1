"""Device time: events, a scratch buffer that flushes L2, captured graphs, and the driver's launch function itself.

In: a device ordinal, a stream handle, functions that queue work.  Out: milliseconds.

    with Stopwatch(0) as watch: watch.time(lambda: kernel.launch(...))      # 0.0312

Everything goes through cuda.bindings, so torch is not needed; where torch is loaded, its current stream is meant.
Statistics are ``timing.py``'s.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from moye.cuda.device.driver import _check, _driver, current_device, current_stream, synchronize

FLUSH_BYTES = 256 << 20                                 # Triton's size: more than any L2
_LEAST_LEAD = 3                         # one is some 60 microseconds, and a host that others use stops for as long
_MOST_LEAD = 64
_CAPTURE_IMPLICIT = 906
_Work = Callable[[], object]


def current_ordinal() -> int:
    """The device in use: torch's if torch is loaded and uses CUDA, else the current context's, else 0."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        return int(torch.cuda.current_device())
    drv = _driver()
    if int(_check(drv.cuCtxGetCurrent(), "cuCtxGetCurrent")):
        return int(_check(drv.cuCtxGetDevice(), "cuCtxGetDevice"))
    return 0


def capturing(stream: int, ordinal: int) -> bool:
    """Is this stream being captured into a graph?"""
    drv = _driver()
    with current_device(ordinal):
        result = drv.cuStreamIsCapturing(drv.CUstream(stream))
    if int(result[0]) == _CAPTURE_IMPLICIT:             # the legacy stream, while another one is captured
        return True
    status = _check(result, "cuStreamIsCapturing")
    return bool(status != drv.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE)


@functools.cache
def launch_function() -> Any:
    """``cuLaunchKernelEx`` through ctypes, for prepared arguments: half the cost of the cuda.bindings call.

    It takes ``byref`` objects and None, answers CUDA's error number, and releases the GIL, as a launch may wait for
    room in the driver's queue.
    """
    own_streams = os.environ.get("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM", "0") not in ("", "0")
    return getattr(ctypes.CDLL("libcuda.so.1"), "cuLaunchKernelEx" + ("_ptsz" if own_streams else ""))


class Event:
    """A CUDA event that takes time stamps."""

    __slots__ = ("_drv", "_event", "ordinal")

    def __init__(self, ordinal: int) -> None:
        self._drv = _driver()
        self.ordinal = ordinal
        with current_device(ordinal):
            self._event = _check(self._drv.cuEventCreate(0), "cuEventCreate")

    def record(self, stream: int, *, in_graph: bool = False) -> None:
        """Queue the event; ``in_graph`` makes it a node of the graph being captured, which takes times too."""
        with current_device(self.ordinal):
            _check(self._drv.cuEventRecordWithFlags(self._event, self._drv.CUstream(stream), int(in_graph)),
                   "cuEventRecord")

    def synchronize(self) -> None:
        """Wait until the event has happened."""
        _check(self._drv.cuEventSynchronize(self._event), f"work on device {self.ordinal}")

    def since(self, start: Event) -> float:
        """Milliseconds from another event to this one."""
        return float(_check(self._drv.cuEventElapsedTime(start._event, self._event), "cuEventElapsedTime"))

    def __del__(self) -> None:
        if getattr(self, "_event", None) is not None and not sys.is_finalizing():
            self._drv.cuEventDestroy(self._event)


class Memory:
    """Bytes on a device; ``free`` gives them back."""

    __slots__ = ("_drv", "ordinal", "pointer", "size")

    def __init__(self, size: int, ordinal: int) -> None:
        self._drv = _driver()
        self.size, self.ordinal = size, ordinal
        with current_device(ordinal):
            self.pointer = int(_check(self._drv.cuMemAlloc(max(1, size)), f"allocating {size} bytes"))

    def fill(self, stream: int, value: int = 0) -> None:
        """Queue a memset of all bytes."""
        with current_device(self.ordinal):
            _check(self._drv.cuMemsetD8Async(self.pointer, value, self.size, self._drv.CUstream(stream)), "memset")

    def save(self, pointer: int, stream: int) -> None:
        """Queue a copy of as many bytes from ``pointer``."""
        self._copy(self.pointer, pointer, stream)

    def restore(self, pointer: int, stream: int) -> None:
        """Queue a copy of the bytes to ``pointer``."""
        self._copy(pointer, self.pointer, stream)

    def _copy(self, target: int, source: int, stream: int) -> None:
        with current_device(self.ordinal):
            _check(self._drv.cuMemcpyDtoDAsync(target, source, self.size, self._drv.CUstream(stream)), "copying")

    def free(self) -> None:
        """Give the memory back, after all work on it."""
        if self.pointer:
            synchronize(self.ordinal)
            with current_device(self.ordinal):
                self._drv.cuMemFree(self.pointer)
            self.pointer = 0


class Stopwatch:
    """Times work on one device by events; a context manager, as it holds the memory that flushes L2.

    Before each start event the device gets memsets (the flush among them) that keep it busy while Python queues the
    work, so that a slow host does not count as device time; ``lead`` says how many.
    """

    def __init__(self, ordinal: int, *, flush: bool = True, kind: str = "") -> None:
        self.ordinal, self.flush, self.kind = ordinal, flush, kind
        self._memory = Memory(FLUSH_BYTES, ordinal) if flush else None
        self._flush_ms = self._measure_flush() if flush else 0.0

    def __enter__(self) -> Stopwatch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._memory is not None:
            self._memory.free()

    @property
    def stream(self) -> int:
        return current_stream(self.ordinal, self.kind)

    def clear(self, times: int = 1) -> None:
        """Queue the flush."""
        if self._memory is not None:
            stream = self.stream
            for _ in range(times):
                self._memory.fill(stream)

    def lead(self, work: _Work) -> int:
        """The number of memsets that cover the time that the host takes to queue this work."""
        if self._memory is None:
            return 0
        host_ms = max(self._queueing(work) for _ in range(3))
        return max(_LEAST_LEAD, min(_MOST_LEAD, 1 + int(2 * host_ms / max(self._flush_ms, 1e-3))))

    def _queueing(self, work: _Work) -> float:
        """Milliseconds that the host takes to queue some work."""
        self.synchronize()
        start = time.perf_counter()
        work()
        taken = (time.perf_counter() - start) * 1e3
        self.synchronize()
        return taken

    def queue(self, work: _Work, lead: int = 1) -> tuple[Event, Event]:
        """Queue flush, start event, work, end event; nothing waits."""
        start, end = Event(self.ordinal), Event(self.ordinal)
        self.clear(lead)
        start.record(self.stream)
        work()
        end.record(self.stream)
        return start, end

    def time(self, work: _Work, lead: int = 1) -> float:
        """Milliseconds of one run."""
        start, end = self.queue(work, lead)
        end.synchronize()
        return end.since(start)

    def synchronize(self) -> None:
        synchronize(self.ordinal)

    def _measure_flush(self) -> float:
        assert self._memory is not None, "there is memory to flush with"
        stream, start, end = self.stream, Event(self.ordinal), Event(self.ordinal)
        self._memory.fill(stream)
        start.record(stream)
        self._memory.fill(stream)
        end.record(stream)
        end.synchronize()
        return end.since(start)


def interleave(fns: dict[str, _Work], rounds: int, watch: Stopwatch, *, warmup: int = 3) -> dict[str, list[float]]:
    """Milliseconds of each function in each round, the order reversed every other round, flushed before every run."""
    leads = {}
    for name, work in fns.items():
        work()                                          # compiles and loads what it needs
        leads[name] = watch.lead(work)
    times: dict[str, list[float]] = {name: [] for name in fns}
    for i in range(warmup + rounds):
        for name in list(fns)[:: 1 if i % 2 == 0 else -1]:
            taken = watch.time(fns[name], leads[name])
            if i >= warmup:
                times[name].append(taken)
    return times
