"""Times on the GPU: Triton's ``do_bench``, and ``interleave`` to compare.

    do_bench(lambda: matmul(A, B, C), return_mode="median")      # milliseconds: 0.0713
    interleave({"moye": f, "cuBLAS": g}, rounds=100)      # {'moye': 0.0713, 'cuBLAS': 0.0741}

256 MiB are written before every timed run, so that L2 is cold.  The GPU must be otherwise idle.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Sequence
from typing import Any, Literal

from moye.cuda.device import driver, events
from moye.errors import ArgumentError

Mode = Literal["min", "max", "mean", "median", "all"]
_MODES = ("min", "max", "mean", "median", "all")
_MOST_IN_GRAPH = 200


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
