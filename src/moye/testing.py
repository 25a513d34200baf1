"""For examples, benchmarks and tests: arrays where there is a device, Triton's ``do_bench``, ``interleave`` to compare.

    A = array(rng.standard_normal((M, K)), mo.float16)           # on the GPU if there is one; host(A) brings it back
    do_bench(lambda: matmul(A, B, C), return_mode="median")      # milliseconds: 0.0713
    interleave({"moye": f, "cuBLAS": g}, rounds=100)      # {'moye': 0.0713, 'cuBLAS': 0.0741}

256 MiB are written before every timed run, so that L2 is cold.  The GPU must be otherwise idle.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import re
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from moye.cuda.device import driver, events
from moye.dtypes import DType
from moye.errors import ArgumentError
from moye.runtime import arrays, simulate

Mode = Literal["min", "max", "mean", "median", "all"]
_MODES = ("min", "max", "mean", "median", "all")
_MOST_IN_GRAPH = 200

# --- arrays, wherever kernels run ------------------------------------------------------------------------------------


def device(arch: str = "") -> str:
    """The name of the GPU to which ``array`` brings arrays, or "" where kernels run in the simulator.

    ``arch`` asks for at least this architecture, "sm_90", or for it alone, "sm_90a".
    """
    if not isinstance(arch, str) or (arch and not re.fullmatch(r"sm_\d+a?", arch)):
        raise ArgumentError(f"arch is {arch!r}, and must be a name such as 'sm_90' or 'sm_90a'")
    if not driver.available():
        return ""
    limits = driver.device_limits(events.current_ordinal())
    found, asked = (int(name.removeprefix("sm_").rstrip("a") or 0) for name in (limits.arch, arch))
    return limits.name if found == asked or (found > asked and not arch.endswith("a")) else ""


def array(x: Any, dtype: DType | None = None, *, order: Literal["C", "F", "K"] = "K", arch: str = "") -> Any:
    """A copy of a NumPy array for kernels: on the GPU if there is one (of ``arch``, as in ``device``), else in NumPy.

    ``order``: the first mode is contiguous ("F"), the last one ("C"), or modes lie as they do in ``x`` ("K").  On the
    GPU it is a torch tensor, or without torch a ``DeviceArray``.
    """
    if dtype is not None and not isinstance(dtype, DType):
        raise ArgumentError(f"dtype is {dtype!r}, and must be a dtype of moye, such as mo.float16")
    if order not in ("C", "F", "K"):
        raise ArgumentError(f"order is {order!r}, and must be 'C', 'F' or 'K'")
    try:
        copied = np.array(x, None if dtype is None else arrays.numpy_type(dtype), order=order)
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(f"a {type(x).__name__} makes no NumPy array of {dtype or 'numbers'}: {error}") from None
    if copied.dtype.kind == "O":
        raise ArgumentError(f"a {type(x).__name__} holds no numbers for a kernel")
    if not device(arch):
        return copied
    torch: Any = importlib.import_module("torch") if importlib.util.find_spec("torch") else None
    if torch is None or not torch.cuda.is_available():
        return DeviceArray(copied)
    if copied.dtype.kind != "V":
        return torch.from_numpy(copied).cuda()
    bits = torch.from_numpy(copied.view(f"i{copied.itemsize}")).cuda()          # torch knows no types of ml_dtypes
    return bits.view(getattr(torch, copied.dtype.name))


def host(x: Any) -> Any:
    """What an array of ``array`` holds, in NumPy; after the work on the GPU that was queued before."""
    if isinstance(x, DeviceArray):
        return x.numpy()
    if not hasattr(x, "cpu"):
        return x
    try:
        return x.cpu().numpy()
    except TypeError:                                   # bfloat16 and 8-bit floats
        torch, dtypes = sys.modules["torch"], importlib.import_module("ml_dtypes")
        name = str(x.dtype).removeprefix("torch.")
        return x.view(getattr(torch, f"int{8 * x.element_size()}")).cpu().numpy().view(getattr(dtypes, name))


class DeviceArray:
    """A copy of a NumPy array on the GPU.  Whatever has this interface is an array to moye: torch's and CuPy's, too."""

    __cuda_array_interface__: Any = None

    def __init__(self, x: np.ndarray[Any, Any]) -> None:
        if not isinstance(x, np.ndarray):
            raise ArgumentError(f"DeviceArray takes a NumPy array, not a {type(x).__name__}")
        if x.dtype.kind == "V":
            raise ArgumentError(f"{x.dtype} has no name in __cuda_array_interface__", hint="install torch")
        self.ordinal, self.like, self.shape = events.current_ordinal(), np.empty_like(x), x.shape
        self.memory = events.Memory(x.nbytes, self.ordinal)
        driver.copy_to_device(self.memory.pointer, x.ctypes.data, x.nbytes, self.ordinal)
        self.__cuda_array_interface__ = {"shape": x.shape, "strides": x.strides, "typestr": x.dtype.str,
                                         "data": (self.memory.pointer, False), "version": 3}

    def numpy(self) -> np.ndarray[Any, Any]:
        """What it holds now."""
        driver.copy_to_host(self.like.ctypes.data, self.memory.pointer, self.like.nbytes, self.ordinal)
        return self.like.copy("K")

    def __del__(self) -> None:
        if hasattr(self, "memory") and not sys.is_finalizing():
            self.memory.free()


@contextmanager
def progress(shown: Callable[[int, int], None]) -> Iterator[None]:
    """Call ``shown(blocks done, blocks)`` while launches in the ``with`` block are simulated."""
    if not callable(shown):
        raise ArgumentError(f"progress takes a function of the blocks done and all blocks, not {shown!r}")
    simulate.set_progress(shown)
    try:
        yield
    finally:
        simulate.set_progress(None)


# --- times -----------------------------------------------------------------------------------------------------------


def do_bench(fn: Callable[[], object], warmup: float = 25, rep: float = 100, grad_to_none: Sequence[Any] | None = None,
             quantiles: Sequence[float] | None = None, return_mode: Mode = "mean", *, flush: bool = True,
             graph: bool = False) -> Any:
    """Milliseconds of one run of ``fn``, as Triton's function of this name measures them.

    ``warmup`` and ``rep`` are milliseconds to spend.  ``quantiles`` (a list, or a float for one of them) replaces
    ``return_mode``.  ``graph`` times runs inside a captured CUDA graph, without the host's cost (it needs torch, whose
    streams can be captured).  ``flush=False`` leaves L2 warm.
    """
    if return_mode not in _MODES:
        raise ArgumentError(f"return_mode is {return_mode!r}, and must be one of {', '.join(_MODES)}")
    if quantiles is not None and not all(0 <= q <= 1 for q in quantiles):
        raise ArgumentError(f"quantiles lie in [0, 1], not {list(quantiles)}")
    with events.Stopwatch(events.current_ordinal(), flush=flush) as watch:
        fn()
        watch.synchronize()
        run = (lambda: _without_grad(fn, grad_to_none)) if grad_to_none is not None else fn
        estimate = max(_estimate(run, watch), 1e-4)
        for _ in range(max(1, int(warmup / estimate))):
            run()
        repeats = max(1, int(rep / estimate))
        times = _in_graph(run, repeats, watch) if graph else _by_events(run, repeats, watch)
    return _summary(times, quantiles, return_mode)


def interleave(fns: dict[str, Callable[[], object]], rounds: int, *, warmup: int = 3) -> dict[str, float]:
    """Median milliseconds of each function, run in turns; every other round is reversed, and L2 is flushed."""
    if rounds < 1:
        raise ArgumentError(f"interleave runs 1 or more rounds, not {rounds}")
    with events.Stopwatch(events.current_ordinal()) as watch:
        times = events.interleave(fns, rounds, watch, warmup=warmup)
    return {name: statistics.median(measured) for name, measured in times.items()}


def _without_grad(fn: Callable[[], object], tensors: Sequence[Any]) -> None:
    for tensor in tensors:
        tensor.grad = None
    fn()


def _estimate(run: Callable[[], object], watch: events.Stopwatch) -> float:
    """Rough milliseconds of one run with its flush, as in Triton."""
    start, end = events.Event(watch.ordinal), events.Event(watch.ordinal)
    start.record(watch.stream)
    for _ in range(5):
        watch.clear()
        run()
    end.record(watch.stream)
    end.synchronize()
    return end.since(start) / 5


def _by_events(run: Callable[[], object], repeats: int, watch: events.Stopwatch) -> list[float]:
    lead = watch.lead(run)
    pairs = [watch.queue(run, lead) for _ in range(repeats)]
    watch.synchronize()
    return [end.since(start) for start, end in pairs]


def _in_graph(run: Callable[[], object], repeats: int, watch: events.Stopwatch) -> list[float]:
    """Times from event nodes of a graph that holds up to 200 runs, each with its own flush."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        raise ArgumentError("graph=True needs torch, on whose current stream the work can be captured",
                            hint="import torch first, or use graph=False")
    count = min(repeats, _MOST_IN_GRAPH)
    pairs = [(events.Event(watch.ordinal), events.Event(watch.ordinal)) for _ in range(count)]
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        stream = driver.current_stream(watch.ordinal)
        for start, end in pairs:
            watch.clear()
            start.record(stream, in_graph=True)
            run()
            end.record(stream, in_graph=True)
    times: list[float] = []
    for _ in range(1 + math.ceil(repeats / count)):     # the first replay uploads the graph
        captured.replay()
        watch.synchronize()
        times += [end.since(start) for start, end in pairs]
    return times[count:]


def _summary(times: list[float], quantiles: Sequence[float] | None, mode: Mode) -> Any:
    if quantiles is not None:
        found = [_quantile(sorted(times), q) for q in quantiles]
        return found[0] if len(found) == 1 else found
    if mode == "all":
        return times
    if mode in ("mean", "median"):
        return statistics.fmean(times) if mode == "mean" else statistics.median(times)
    return min(times) if mode == "min" else max(times)


def _quantile(ordered: Sequence[float], q: float) -> float:
    """Linear interpolation between the two nearest."""
    place = q * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
